//! Certificates: read from PEM, checked before they are used, exchanged while the server runs.
//!
//! * Every listener asks the same holder at each handshake. After a reload new connections get the
//!   new certificate, those that are there go on; a session made under the old one is not resumed.
//! * Files that cannot be used change nothing: the certificate before them stays in force.
//! * The cryptography is named here and nowhere installed for the whole process.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{
    ClientHello, ResolvesServerCert, ServerSessionMemoryCache, StoresServerSessions,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

use crate::settings;

/// What HTTP offers: its second version, then its first.
pub const HTTP: &[&[u8]] = &[b"h2", b"http/1.1"];

/// The largest file that is read. A chain has some ten thousand bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Sessions a listener remembers, so that a client that comes back has less to compute.
const SESSIONS_MAX: usize = 1024;

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path} cannot be read: {fault}; check {key} and who may read the file")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The setting that names it.
        key: &'static str,
        /// What the system answered.
        #[source]
        fault: io::Error,
    },
    /// A file is not PEM.
    #[error("{path} is no sound PEM file: {why}; copy it again from where it was made")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// There is no certificate in it.
    #[error(
        "{path} holds no certificate; server.tls_cert_file names the chain in PEM, the server's own certificate first"
    )]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is not one.
    #[error("the certificate in {path} cannot be used: {source}; have it issued again")]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::Error,
    },
    /// There is no key in it.
    #[error("{path} holds no private key; server.tls_key_file names it in PEM")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key needs a passphrase.
    #[error(
        "the key in {path} is encrypted; take the passphrase off (openssl pkey -in OLD -out NEW) and let only the server read the file"
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// The key is of no kind that is known here.
    #[error("the key in {path} cannot be used: {source}; make an ECDSA, Ed25519 or RSA key")]
    BadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::Error,
    },
    /// They are of different pairs.
    #[error(
        "the key in {key} does not belong to the first certificate in {cert}; give the key it was made with, or put the server's own certificate first"
    )]
    Mismatch {
        /// The chain.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
}

/// The certificate in force. A clone is the same.
#[derive(Clone, Debug)]
pub struct Certificates {
    current: Arc<Current>,
    provider: Arc<CryptoProvider>,
}

impl Certificates {
    /// Reads a chain and its key.
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn load(files: &settings::Tls) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = read(files, &provider)?;
        let current = Current { held: RwLock::new(Held { key: Arc::new(key), generation: 0 }) };
        Ok(Self { current: Arc::new(current), provider })
    }

    /// Reads a chain and its key again, from the same files or others. New connections use them.
    ///
    /// # Errors
    /// [`TlsError`]; what was in force stays so.
    pub fn reload(&self, files: &settings::Tls) -> Result<(), TlsError> {
        let key = Arc::new(read(files, &self.provider)?);
        let mut held = self.current.held.write().unwrap_or_else(PoisonError::into_inner);
        let generation = held.generation + 1;
        *held = Held { key, generation };
        Ok(())
    }

    /// The TLS side of a listener that offers these protocols, [`HTTP`] or none. It follows every
    /// reload.
    ///
    /// # Panics
    /// If the cryptography that is built in knows no version of TLS.
    #[must_use]
    pub fn server_config(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .expect("the built-in cryptography has suites for every version")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.current) as _);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.session_storage = Arc::new(Sessions {
            current: Arc::clone(&self.current),
            cache: ServerSessionMemoryCache::new(SESSIONS_MAX),
        });
        Arc::new(config)
    }
}

#[derive(Debug)]
struct Current {
    held: RwLock<Held>,
}

#[derive(Clone)]
struct Held {
    key: Arc<CertifiedKey>,
    /// How many were in force before it.
    generation: u64,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Current {
    fn held(&self) -> Held {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.held().key)
    }
}

/// Sessions to be resumed, each good only under the certificate it was made with: who resumes
/// does not see the certificate again.
#[derive(Debug)]
struct Sessions {
    current: Arc<Current>,
    cache: Arc<ServerSessionMemoryCache>,
}

impl Sessions {
    fn of_now(&self, value: Vec<u8>) -> Option<Vec<u8>> {
        let (generation, session) = value.split_first_chunk()?;
        (u64::from_le_bytes(*generation) == self.current.held().generation)
            .then(|| session.to_vec())
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let generation = self.current.held().generation.to_le_bytes();
        self.cache.put(key, [&generation[..], &value].concat())
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(key).and_then(|value| self.of_now(value))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(key).and_then(|value| self.of_now(value))
    }

    fn can_cache(&self) -> bool {
        self.cache.can_cache()
    }
}

fn read(files: &settings::Tls, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let settings::Tls { cert_file, key_file } = files;
    let chain = read_chain(cert_file)?;
    let key = provider
        .key_provider
        .load_private_key(read_key(key_file)?)
        .map_err(|source| TlsError::BadKey { path: key_file.clone(), source })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(TlsError::Mismatch { cert: cert_file.clone(), key: key_file.clone() })
        }
        Err(source) => Err(TlsError::BadCertificate { path: cert_file.clone(), source }),
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read_file(path, "server.tls_cert_file")?;
    let chain = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| malformed(path, &error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    const ENCRYPTED: &[u8] = b"ENCRYPTED";
    let bytes = read_file(path, "server.tls_key_file")?;
    // The newer form says so where it begins, the older one in a header. Neither can be read.
    if bytes.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) {
        return Err(TlsError::EncryptedKey { path: path.to_owned() });
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { path: path.to_owned() },
        error => malformed(path, &error),
    })
}

fn read_file(path: &Path, key: &'static str) -> Result<Vec<u8>, TlsError> {
    let unreadable = |fault| TlsError::Unreadable { path: path.to_owned(), key, fault };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::Malformed { path: path.to_owned(), why: "it is above 1 MiB" });
    }
    Ok(bytes)
}

/// In words of our own: the library's show parts of the file.
fn malformed(path: &Path, error: &pem::Error) -> TlsError {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "its last section does not end",
        pem::Error::IllegalSectionStart { .. } => "a section does not begin as it should",
        pem::Error::Base64Decode(_) => "a section is not base64",
        _ => "it cannot be read",
    };
    TlsError::Malformed { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests;

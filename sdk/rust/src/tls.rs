//! TLS: whom to believe.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Whom to believe: the public authorities, and those given here besides.
#[derive(Clone, Default)]
pub struct Tls {
    ca_files: Vec<PathBuf>,
    ca_pem: Vec<Vec<u8>>,
}

impl Tls {
    /// The public authorities of the Mozilla list, and nobody else.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Believes the authorities in a PEM file as well. It is read when the client is made.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_files.push(path.into());
        self
    }

    /// Believes these authorities, PEM, as well.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_pem.push(pem.into());
        self
    }

    /// What rustls needs. The error is words.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for path in &self.ca_files {
            let pem = std::fs::read(path).map_err(|error| {
                format!("the CA file {} cannot be read: {error}", path.display())
            })?;
            add(&mut roots, &pem).map_err(|why| format!("the CA file {} {why}", path.display()))?;
        }
        for pem in &self.ca_pem {
            add(&mut roots, pem).map_err(|why| format!("the CA given {why}"))?;
        }
        // Named, because a process may link several providers and rustls then refuses to choose.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("ca_files", &self.ca_files)
            .field("ca_pem", &self.ca_pem.len())
            .finish()
    }
}

fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), String> {
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("has a certificate that {error}"))?;
        found = true;
    }
    if found { Ok(()) } else { Err("has no certificate in it".to_owned()) }
}

//! Why a server does not start. Each says what happened, why, and what to do.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use handoff_log::directory;
use handoff_log::journal::OpenError;
use handoff_log::segments;
use handoff_types::Code;
use thiserror::Error;

use crate::auth::BootstrapError;
use crate::dice::NoChance;
use crate::tls::TlsError;

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listener that others reach, and no tokens.
    #[error(
        "{key} is {address}, which others can reach, and auth.enabled is false: everybody could do everything; set auth.enabled = true (`handoff token create --name first --scope admin --data-dir DIR` makes the first token), or listen on 127.0.0.1"
    )]
    Exposed {
        /// The setting.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
    },
    /// The address is taken.
    #[error(
        "{key} {address} is taken by another program; `ss -ltnp 'sport = :{}'` shows which: stop it, or choose another address with {flag} or {key}",
        address.port()
    )]
    Taken {
        /// The setting.
        key: &'static str,
        /// Its flag.
        flag: &'static str,
        /// Its value.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("{key} {address} cannot be listened on: {fault}; {}", listen_remedy(fault))]
    Listen {
        /// The setting.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
        /// What the system answered.
        #[source]
        fault: io::Error,
    },
    /// A listener is to be inside TLS and there is no certificate.
    #[error(
        "{key} is true and there is no certificate; set server.tls_cert_file and server.tls_key_file"
    )]
    NoCertificate {
        /// The setting.
        key: &'static str,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// `calls.redis_url` is no address.
    #[error("calls.redis_url: {0}")]
    RedisUrl(#[from] handoff_store_redis::BadAddress),
    /// Samples of the relay cannot go where the settings say.
    #[error("{0}")]
    Relay(String),
    /// The process may not use the data directory.
    #[error(
        "the data directory {path} cannot be used: {fault}; give it to the user that runs the server (chown -R), or choose another with --data-dir or server.data_dir"
    )]
    Rights {
        /// The directory, or what of it.
        path: String,
        /// What the system answered.
        #[source]
        fault: io::Error,
    },
    /// The disk is full.
    #[error(
        "the disk of the data directory {path} is full: {fault}; free some space there and start again, nothing is lost"
    )]
    DiskFull {
        /// The directory, or what of it.
        path: String,
        /// What the system answered.
        #[source]
        fault: io::Error,
    },
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(directory::Error),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(OpenError),
    /// The segments cannot be opened.
    #[error(transparent)]
    Segments(#[from] segments::WriteError),
    /// Tokens are asked for and cannot be read.
    #[error(
        "auth.enabled is true and the tokens cannot be read: {why}; run `handoff doctor --repair`, or restore the data directory from a backup"
    )]
    House {
        /// What is wrong.
        why: String,
    },
    /// The first token could not be made.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// No random bytes.
    #[error(transparent)]
    Chance(#[from] NoChance),
    /// The system gives no thread, no signal, no look at the disk.
    #[error(
        "the system refuses what a server needs ({what}): {fault}; look at its limits (ulimit -a) and the kernel log"
    )]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system answered.
        #[source]
        fault: io::Error,
    },
}

impl StartError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::DiskFull { .. } => Code::DiskFull,
            Self::Directory(error) => error.code(),
            Self::Journal(error) => error.code(),
            Self::Rights { .. } => Code::DirectoryForbidden,
            Self::Segments(_) => Code::DiskFault,
            Self::House { .. } => Code::RoomDamaged,
            Self::Exposed { .. } => Code::AuthRequired,
            Self::Taken { .. } => Code::PortTaken,
            Self::Listen { .. } => Code::AddressUnusable,
            Self::NoCertificate { .. } | Self::Tls(_) => Code::CertificateUnusable,
            Self::RedisUrl(_) | Self::Relay(_) => Code::ConfigInvalid,
            Self::Bootstrap(_) => Code::BootstrapUnusable,
            Self::Chance(_) | Self::System { .. } => Code::Internal,
        }
    }

    /// A listener that could not be bound.
    pub(crate) fn listen(
        key: &'static str,
        flag: &'static str,
        address: SocketAddr,
        fault: io::Error,
    ) -> Self {
        match fault.kind() {
            io::ErrorKind::AddrInUse => Self::Taken { key, flag, address },
            _ => Self::Listen { key, address, fault },
        }
    }

    /// What the disk answered, about something at a path in the data directory.
    fn of_disk(data_dir: &Path, path: &str, fault: io::Error) -> Result<Self, io::Error> {
        let path = data_dir.join(path).display().to_string();
        match fault.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Ok(Self::Rights { path, fault })
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Ok(Self::DiskFull { path, fault })
            }
            _ => Err(fault),
        }
    }

    pub(crate) fn directory(data_dir: &Path, error: directory::Error) -> Self {
        match error {
            directory::Error::Disk { path, fault } => Self::of_disk(data_dir, &path, fault)
                .unwrap_or_else(|fault| Self::Directory(directory::Error::Disk { path, fault })),
            error => Self::Directory(error),
        }
    }

    pub(crate) fn journal(data_dir: &Path, error: OpenError) -> Self {
        match error {
            OpenError::Disk { path, fault } => Self::of_disk(data_dir, &path, fault)
                .unwrap_or_else(|fault| Self::Journal(OpenError::Disk { path, fault })),
            error => Self::Journal(error),
        }
    }
}

fn listen_remedy(fault: &io::Error) -> &'static str {
    match fault.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need rights: choose a higher one, or give CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: `ip addr` shows those it has"
        }
        _ => "choose another address",
    }
}

/// The data directory as people know it.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

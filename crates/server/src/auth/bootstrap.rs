//! The first token of a container: its text is in a file that whoever started it wrote.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use handoff_house::{NewToken, Refusal, TokenId};
use handoff_types::Scope;
use thiserror::Error;

use super::mint::{BadText, TEXT_BYTES, from_text};
use super::text;
use crate::rooms::RoomError;
use crate::rooms::house::HouseRoom;

/// What became of the token in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bootstrapped {
    /// It was there already.
    There(TokenId),
    /// It was made now.
    Made(TokenId),
}

/// Why the token in the file could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The file cannot be read.
    #[error(
        "the bootstrap token file {path} cannot be read: {fault}; check auth.bootstrap_token_file and who may read it"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        #[source]
        fault: io::Error,
    },
    /// What it holds cannot be a token.
    #[error("the bootstrap token file {path} holds no token: {source}")]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: BadText,
    },
    /// It was revoked. An operator who revokes a token does not want it back with the next start.
    #[error(
        "the token in {path} was revoked; write another into the file, or take the file out of the configuration"
    )]
    Revoked {
        /// The file.
        path: PathBuf,
    },
    /// The house does not take it now.
    #[error("the token in {path} cannot be made: {source}")]
    House {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: RoomError,
    },
}

/// Makes the token in a file an administrator's, unless it is there already. White space around
/// the text does not count.
///
/// # Errors
/// [`BootstrapError`]
///
/// # Cancel safety
/// Dropped, it may have made the token or not; called again it finds out.
pub async fn bootstrap(house: &HouseRoom, file: &Path) -> Result<Bootstrapped, BootstrapError> {
    let path = file.to_owned();
    let house = house.clone();
    let read = tokio::task::spawn_blocking({
        let (path, house) = (path.clone(), house.clone());
        move || read(&path, &house)
    });
    let fault = |_| io::Error::other("reading it panicked");
    let unreadable = |fault| BootstrapError::Unreadable { path: path.clone(), fault };
    let token = match read.await.map_err(fault).map_err(unreadable)?? {
        Found::There(id) => return Ok(Bootstrapped::There(id)),
        Found::New(token) => token,
    };
    let id = token.id.clone();
    match house.create(*token, "local").await {
        Ok(()) => Ok(Bootstrapped::Made(id)),
        Err(RoomError::House(Refusal::Revoked(_))) => Err(BootstrapError::Revoked { path }),
        Err(source) => Err(BootstrapError::House { path, source }),
    }
}

enum Found {
    There(TokenId),
    New(Box<NewToken>),
}

fn read(path: &Path, house: &HouseRoom) -> Result<Found, BootstrapError> {
    let unreadable = |fault| BootstrapError::Unreadable { path: path.to_owned(), fault };
    // Enough to say how much too long a text is.
    let bytes_max = 4 * *TEXT_BYTES.end() as u64;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(bytes_max).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if let Some(token) = house.find(&text::digest(text.as_bytes())) {
        return Ok(Found::There(token.token.id.clone()));
    }
    let token = from_text(text, "bootstrap", vec![Scope::Admin], None);
    let token = token.map_err(|source| BootstrapError::Text { path: path.to_owned(), source })?;
    Ok(Found::New(Box::new(token)))
}

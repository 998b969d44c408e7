//! Who is it, and what may they see.
//!
//! ```text
//!  token text ──SHA-256──▶ digest ──▶ the house's token, unless revoked or expired ──▶ Caller
//! ```
//!
//! A token is looked up by the digest of its text. How long that takes tells something about
//! digests at most, and who could choose the digest of a guess would have broken SHA-256: nothing
//! secret is compared byte by byte.

mod bootstrap;
mod mint;
pub mod offline;
pub mod scram;
pub mod text;

use std::sync::Arc;

use handoff_house::{Token, TokenId};
use handoff_types::{Code, Room, Scope, Sight};

pub use self::bootstrap::{BootstrapError, Bootstrapped, bootstrap};
pub use self::mint::{BadText, TEXT_BYTES, from_text, mint};
use crate::rooms::house::HouseRoom;

/// Whoever sent a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Their token; none while auth is off: everybody may do everything.
    pub token: Option<TokenId>,
    held: Option<Arc<Token>>,
}

impl Caller {
    /// Who to write into the audit.
    #[must_use]
    pub fn name(&self) -> &str {
        self.token.as_ref().map_or("local", |id| &id.0)
    }

    /// What they see of a room; none if nothing.
    #[must_use]
    pub fn sight(&self, room: Room) -> Option<Sight> {
        Sight::of(self.scopes(), room)
    }

    /// Whether they may do everything.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.scopes().contains(&Scope::Admin)
    }

    fn scopes(&self) -> &[Scope] {
        self.held.as_ref().map_or(&[Scope::Admin], |held| &held.token.scopes)
    }
}

/// The door.
#[derive(Clone, Debug)]
pub struct Gatekeeper {
    /// None while auth is off.
    house: Option<HouseRoom>,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No token came.
    #[error("this server asks for a token")]
    Missing,
    /// It is unknown, revoked or expired. Which, is nobody's business.
    #[error("the token is unknown, revoked or expired")]
    Unknown,
    /// It begins like a token and its check characters do not fit the rest.
    #[error("the token has a typing error: a character is wrong, missing or too many")]
    Mistyped,
}

impl Denied {
    /// The stable code of this refusal.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Missing => Code::TokenMissing,
            Self::Unknown | Self::Mistyped => Code::TokenUnknown,
        }
    }
}

impl Gatekeeper {
    /// A door; `None` for a house without locks.
    #[must_use]
    pub fn new(house: Option<HouseRoom>) -> Self {
        Self { house }
    }

    /// Whether somebody who was let in would be again: their token is neither revoked nor expired.
    #[must_use]
    pub fn still_admits(&self, caller: &Caller) -> bool {
        match (&self.house, &caller.held) {
            (Some(house), Some(held)) => house.find(&held.token.digest).is_some(),
            (None, _) => true,
            (Some(_), None) => false,
        }
    }

    /// Lets somebody in, by the token they brought.
    ///
    /// # Errors
    /// [`Denied`]
    pub fn admit(&self, token: Option<&[u8]>) -> Result<Caller, Denied> {
        let Some(house) = &self.house else {
            return Ok(Caller { token: None, held: None });
        };
        let text = token.ok_or(Denied::Missing)?;
        match house.find(&text::digest(text)) {
            Some(held) => Ok(Caller { token: Some(held.token.id.clone()), held: Some(held) }),
            None if text::look(text) == text::Written::Mistyped => Err(Denied::Mistyped),
            None => Err(Denied::Unknown),
        }
    }
}

#[cfg(test)]
mod tests;

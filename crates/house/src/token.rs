//! Tokens.

use std::borrow::Borrow;
use std::fmt;

use handoff_types::{Scope, Wall};

/// The longest name of a token, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// How many scopes a token has at most.
pub const SCOPES_MAX: usize = 32;

/// The largest salt or key of a verifier, in bytes.
pub const VERIFIER_FIELD_BYTES_MAX: usize = 128;

/// A token's public id, part of its text; also the user name for SASL. Lowercase letters and
/// digits, 8 of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub Box<str>);

impl TokenId {
    /// How many characters an id has.
    pub const LENGTH: usize = 8;

    /// Whether a text can be an id.
    #[must_use]
    pub fn fits(text: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        text.len() == Self::LENGTH && text.bytes().all(allowed)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for TokenId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// SHA-256 of a token's whole text.
pub type Digest = [u8; 32];

/// What SCRAM needs to check a password without knowing it (RFC 5802).
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Drawn for this token.
    pub salt: Box<[u8]>,
    /// Rounds of PBKDF2.
    pub iterations: u32,
    /// H(ClientKey)
    pub stored_key: Box<[u8]>,
    /// HMAC(SaltedPassword, "Server Key")
    pub server_key: Box<[u8]>,
}

impl fmt::Debug for Verifier {
    /// Says nothing that helps to guess, so that it may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// A token about to be kept. Digest and verifiers are computed by the shell, which has the dice.
#[derive(Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Its id, drawn by the shell.
    pub id: TokenId,
    /// For people.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// Of its text.
    pub digest: Digest,
    /// For SCRAM-SHA-256.
    pub sha256: Verifier,
    /// For SCRAM-SHA-512.
    pub sha512: Verifier,
    /// When it ends, if ever.
    pub expires: Option<Wall>,
}

impl fmt::Debug for NewToken {
    /// Without digest and verifiers, so that it may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What was given.
    pub token: NewToken,
    /// When.
    pub created: Wall,
}

impl Token {
    /// Whether it has ended, by the operator's clock.
    #[must_use]
    pub fn is_expired(&self, wall: Wall) -> bool {
        self.token.expires.is_some_and(|end| end <= wall)
    }
}

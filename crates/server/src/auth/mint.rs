//! Tokens in the making.

use std::ops::RangeInclusive;

use handoff_house::{NewToken, TokenId};
use handoff_types::{Scope, Wall};
use thiserror::Error;

use super::scram::{ITERATIONS, Mechanism, SALT_BYTES, verifier};
use super::text::{self, Written};
use crate::dice::{NoChance, secret};

/// How long a text may be that an operator chooses for a token.
pub const TEXT_BYTES: RangeInclusive<usize> = 16..=256;

/// Why a text cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadText {
    /// Too short to be safe, or too long to be sent.
    #[error(
        "a token has {min} to {max} characters, this one has {0}",
        min = TEXT_BYTES.start(),
        max = TEXT_BYTES.end()
    )]
    Length(usize),
    /// Something that cannot be sent as a token.
    #[error("a token has printable ASCII characters only and no space; character {0} is another")]
    Character(usize),
    /// No salt could be drawn.
    #[error(transparent)]
    Chance(#[from] NoChance),
}

/// Draws a token. Gives its text, to be shown once and never kept, and what is kept of it.
///
/// Takes some 10 ms of computing, on purpose; a task that must not be held up calls it on a
/// thread for blocking work.
///
/// # Errors
/// [`NoChance`]
pub fn mint(
    name: &str,
    scopes: Vec<Scope>,
    expires: Option<Wall>,
) -> Result<(String, NewToken), NoChance> {
    let (id, text) = text::draw()?;
    let token = keep(id, &text, name, scopes, expires)?;
    Ok((text, token))
}

/// What is kept of a token whose text somebody chose. Its id is the one in its text if it is
/// written like a drawn one, and follows from its digest otherwise: the same text always has the
/// same id. Takes as long as [`mint`].
///
/// # Errors
/// [`BadText`]
pub fn from_text(
    text: &str,
    name: &str,
    scopes: Vec<Scope>,
    expires: Option<Wall>,
) -> Result<NewToken, BadText> {
    let length = text.chars().count();
    if !TEXT_BYTES.contains(&length) {
        return Err(BadText::Length(length));
    }
    if let Some(at) = text.chars().position(|c| !c.is_ascii_graphic()) {
        return Err(BadText::Character(at + 1));
    }
    let id = match text::look(text.as_bytes()) {
        Written::Token(id) => id,
        Written::Mistyped | Written::Otherwise => text::id_of(&text::digest(text.as_bytes())),
    };
    Ok(keep(id, text, name, scopes, expires)?)
}

fn keep(
    id: TokenId,
    text: &str,
    name: &str,
    scopes: Vec<Scope>,
    expires: Option<Wall>,
) -> Result<NewToken, NoChance> {
    let password = text.as_bytes();
    let salted = |mechanism| {
        let salt: [u8; SALT_BYTES] = secret()?;
        Ok(verifier(mechanism, password, &salt, ITERATIONS))
    };
    Ok(NewToken {
        id,
        name: name.to_owned(),
        scopes,
        digest: text::digest(password),
        sha256: salted(Mechanism::Sha256)?,
        sha512: salted(Mechanism::Sha512)?,
        expires,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> Result<NewToken, BadText> {
        from_text(text, "bootstrap", vec![Scope::Admin], None)
    }

    #[test]
    fn nothing_of_a_drawn_token_is_kept_but_its_id_and_what_follows_from_it() {
        let (text, token) = mint("ci", vec![Scope::Admin], Some(Wall(7))).unwrap();
        assert_eq!(text::look(text.as_bytes()), Written::Token(token.id.clone()));
        assert_eq!(token.digest, text::digest(text.as_bytes()));
        assert_eq!((&*token.name, token.expires), ("ci", Some(Wall(7))));
        assert_eq!((token.sha256.stored_key.len(), token.sha512.stored_key.len()), (32, 64));
        assert_eq!((token.sha256.salt.len(), token.sha256.iterations), (16, 10_000));
        assert_ne!(token.sha256.salt, token.sha512.salt);
        let again = verifier(Mechanism::Sha256, text.as_bytes(), &token.sha256.salt, ITERATIONS);
        assert_eq!(again, token.sha256);
        let debug = format!("{token:?}");
        assert!(!debug.contains(&text) && !debug.contains("digest"), "{debug}");
    }

    #[test]
    fn a_chosen_text_has_the_same_id_every_time_and_fresh_salts() {
        let (one, two) =
            (chosen("correct-horse-battery").unwrap(), chosen("correct-horse-battery"));
        let two = two.unwrap();
        assert!(TokenId::fits(&one.id.0));
        assert_eq!((&one.id, one.digest), (&two.id, two.digest));
        assert_ne!(one.sha256.salt, two.sha256.salt);
    }

    #[test]
    fn a_drawn_token_keeps_its_id_when_it_is_given_as_a_text() {
        let (text, token) = mint("ci", vec![Scope::Admin], None).unwrap();
        assert_eq!(chosen(&text).unwrap().id, token.id);
    }

    #[test]
    fn a_text_that_cannot_be_a_token_is_refused_with_words() {
        assert_eq!(chosen("short"), Err(BadText::Length(5)));
        assert_eq!(chosen(&"x".repeat(257)), Err(BadText::Length(257)));
        assert_eq!(chosen("two words and more"), Err(BadText::Character(4)));
        assert_eq!(chosen("sechzehn-zeichen-ä"), Err(BadText::Character(18)));
        assert_eq!(chosen("two\nlines-of-text"), Err(BadText::Character(4)));
        assert!(chosen(&"x".repeat(16)).is_ok() && chosen(&"~".repeat(256)).is_ok());
        let words = BadText::Length(5).to_string();
        assert_eq!(words, "a token has 16 to 256 characters, this one has 5");
    }
}

//! How a token is written.
//!
//! ```text
//!  ho_ k3v9x2ab _ 7Qd…(43)…Zp 0aB3xY
//!      id 8       secret      check 6
//! ```
//!
//! * The id is public: it is shown in lists and in the audit.
//! * The secret is 43 characters of 62, drawn evenly: 256 bits.
//! * The check characters follow from everything before them. They tell a typing error from an
//!   unknown token, and a token in a leaked text from something that only looks like one.
//!
//! Nothing in the server takes a text apart to let somebody in: only its digest counts.

use aws_lc_rs::digest::{SHA256, digest as hash};
use handoff_house::{Digest, TokenId};

use crate::dice::{NoChance, secret};

/// What every token begins with.
pub const PREFIX: &str = "ho_";

const SECRET: usize = 43;
const CHECK: usize = 6;

const BASE36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What a text looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// A token, with nothing wrong in it.
    Token(TokenId),
    /// It begins like a token, and a character is wrong, missing or too many.
    Mistyped,
    /// Something else. It may still be one that an operator chose.
    Otherwise,
}

/// SHA-256 of a token's text: what it is known by.
#[must_use]
pub fn digest(text: &[u8]) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash(&SHA256, text).as_ref());
    bytes
}

/// Looks at a text, without knowing whether anybody knows the token.
#[must_use]
pub fn look(text: &[u8]) -> Written {
    let Some(rest) = text.strip_prefix(PREFIX.as_bytes()) else {
        return Written::Otherwise;
    };
    read(text, rest).map_or(Written::Mistyped, Written::Token)
}

fn read(text: &[u8], rest: &[u8]) -> Option<TokenId> {
    let (id, rest) = rest.split_at_checked(TokenId::LENGTH)?;
    let secret = rest.strip_prefix(b"_")?;
    let id = str::from_utf8(id).ok().filter(|id| TokenId::fits(id))?;
    let (before, check) = text.split_at_checked(text.len().checked_sub(CHECK)?)?;
    let whole = secret.len() == SECRET + CHECK && check_of(before).as_bytes() == check;
    whole.then(|| TokenId(id.into()))
}

/// Draws a token: its id and its text.
pub(super) fn draw() -> Result<(TokenId, String), NoChance> {
    let id = draw_from(BASE36, TokenId::LENGTH)?;
    let secret = draw_from(BASE62, SECRET)?;
    let mut text = format!("{PREFIX}{id}_{secret}");
    let check = check_of(text.as_bytes());
    text.push_str(&check);
    Ok((TokenId(id.into()), text))
}

/// Draws a secret of another kind than a token of the house: its prefix, 256 bits, check
/// characters.
///
/// # Errors
/// [`NoChance`]
pub(crate) fn draw_secret(prefix: &str) -> Result<String, NoChance> {
    let mut text = format!("{prefix}{}", draw_from(BASE62, SECRET)?);
    let check = check_of(text.as_bytes());
    text.push_str(&check);
    Ok(text)
}

/// Letters that nobody takes for each other.
const PLAIN: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Draws a code that people type: 40 bits.
///
/// # Errors
/// [`NoChance`]
pub(crate) fn draw_code() -> Result<String, NoChance> {
    draw_from(PLAIN, 8)
}

/// An id for a token whose text does not have one.
pub(super) fn id_of(digest: &Digest) -> TokenId {
    let number = digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    TokenId(digits(number, BASE36, TokenId::LENGTH).into())
}

fn check_of(before: &[u8]) -> String {
    let hash = digest(before);
    let number = hash.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    digits(number.into(), BASE62, CHECK)
}

/// The last digits of a number.
fn digits(mut number: u64, alphabet: &[u8], count: usize) -> String {
    let base = alphabet.len() as u64;
    let mut digits: Vec<char> = Vec::with_capacity(count);
    for _ in 0..count {
        let digit = usize::try_from(number % base).unwrap_or(0);
        digits.extend(alphabet.get(digit).copied().map(char::from));
        number /= base;
    }
    digits.into_iter().rev().collect()
}

/// Characters of an alphabet, each as likely as any other: bytes that would favour the first ones
/// are passed over.
fn draw_from(alphabet: &[u8], count: usize) -> Result<String, NoChance> {
    let even = 256 - 256 % alphabet.len();
    let mut drawn = String::with_capacity(count);
    while drawn.len() < count {
        let bytes: [u8; 64] = secret()?;
        let fair = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < even);
        let letters = fair.filter_map(|byte| alphabet.get(byte % alphabet.len()));
        drawn.extend(letters.take(count - drawn.len()).copied().map(char::from));
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_token_is_written_as_it_is_drawn() {
        let (id, text) = draw().unwrap();
        assert_eq!(text.len(), 3 + 8 + 1 + 43 + 6);
        assert_eq!(look(text.as_bytes()), Written::Token(id));
    }

    #[test]
    fn no_two_tokens_are_equal_and_every_character_occurs() {
        let texts: Vec<String> = (0..200).map(|_| draw().unwrap().1).collect();
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), 200);
        let secrets = texts.iter().flat_map(|text| text.chars().skip(12).take(SECRET));
        let seen: BTreeSet<char> = secrets.collect();
        assert_eq!(seen.len(), 62);
    }

    #[test]
    fn a_typing_error_is_told_wherever_it_is() {
        let (_, text) = draw().unwrap();
        let bytes = text.as_bytes();
        for at in PREFIX.len()..bytes.len() {
            let mut wrong = bytes.to_vec();
            wrong[at] = if wrong[at] == b'a' { b'b' } else { b'a' };
            assert_eq!(look(&wrong), Written::Mistyped, "character {at}");
            assert_eq!(look(&bytes[..at]), Written::Mistyped, "cut at {at}");
            let mut missing = bytes.to_vec();
            missing.remove(at);
            assert_eq!(look(&missing), Written::Mistyped, "without {at}");
        }
        assert_eq!(look(&[bytes, b"a"].concat()), Written::Mistyped);
    }

    #[test]
    fn what_is_no_token_is_not_called_mistyped() {
        for text in ["", "ho", "Ho_", "hunter2 is a password", "\u{fffd}"] {
            assert_eq!(look(text.as_bytes()), Written::Otherwise, "{text}");
        }
        assert_eq!(look(b"\xff\xfe"), Written::Otherwise);
        assert_eq!(look(b"ho_"), Written::Mistyped);
    }

    #[test]
    fn secrets_of_other_kinds_are_no_tokens_of_the_house() {
        let secret = draw_secret("hxd_").unwrap();
        assert_eq!((secret.len(), look(secret.as_bytes())), (4 + 43 + 6, Written::Otherwise));
        assert_ne!(secret, draw_secret("hxd_").unwrap());
    }

    #[test]
    fn a_code_has_no_letters_that_look_alike() {
        let codes: Vec<String> = (0..200).map(|_| draw_code().unwrap()).collect();
        let letters: BTreeSet<char> = codes.iter().flat_map(|code| code.chars()).collect();
        assert!(codes.iter().all(|code| code.len() == 8));
        assert!(letters.len() == 32 && !letters.iter().any(|letter| "IO01".contains(*letter)));
    }

    #[test]
    fn an_id_that_follows_from_a_digest_is_an_id() {
        for seed in 0..=255 {
            assert!(TokenId::fits(&id_of(&[seed; 32]).0));
        }
        assert_ne!(id_of(&digest(b"one")), id_of(&digest(b"two")));
    }
}

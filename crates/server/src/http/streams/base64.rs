//! Base64 (RFC 4648, section 4), as JSON carries bytes that are no text. Padding may be missing.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as text, padded.
pub(in crate::http) fn encode(bytes: &[u8], text: &mut String) {
    text.reserve(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut word = 0;
        for at in 0..3 {
            word = word << 8 | u32::from(three.get(at).copied().unwrap_or(0));
        }
        for at in 0..4 {
            text.push(match at <= three.len() {
                true => digit(word >> (18 - 6 * at)),
                false => '=',
            });
        }
    }
}

fn digit(bits: u32) -> char {
    let at = usize::try_from(bits & 63).unwrap_or(0);
    char::from(ALPHABET.get(at).copied().unwrap_or(b'='))
}

/// The bytes of a text; none if it is not base64. Every text stands for bytes of its own, but for
/// the padding: bits that stand for nothing must be zero.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let trimmed = text.trim_end_matches('=');
    let padding = text.len() - trimmed.len();
    if padding > 0 && (!text.len().is_multiple_of(4) || padding > 2) {
        return None;
    }
    let mut bytes = Vec::with_capacity(trimmed.len() / 4 * 3 + 2);
    for four in trimmed.as_bytes().chunks(4) {
        let mut word = 0_u32;
        for at in 0..4 {
            word = word << 6 | four.get(at).map_or(Some(0), |digit| value(*digit))?;
        }
        let count = match four.len() {
            4 => 3,
            3 if word & 0xff == 0 => 2,
            2 if word & 0xffff == 0 => 1,
            _ => return None,
        };
        let [_, three @ ..] = word.to_be_bytes();
        bytes.extend(three.iter().take(count));
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc_read_both_ways() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut written = String::new();
            encode(bytes.as_bytes(), &mut written);
            assert_eq!(written, text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
            assert_eq!(decode(text.trim_end_matches('=')).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["Z", "Zg=", "Zg===", "=", "====", "Zm9v=", "Zh==", "Zm9=", "Z g=", "Zm9-", "é"]
        {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_read_back(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut text = String::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(decode(&text), Some(bytes));
        }

        #[test]
        fn whatever_comes_is_read_or_refused(text in any::<String>()) {
            drop(decode(&text));
        }
    }
}

//! Base64 (RFC 4648, 4): how JSON carries octets that are no text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Octets as text, padded.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(group.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or_default();
            let padding = usize::try_from(at).unwrap_or_default() > group.len();
            let letter = ALPHABET.get(index).copied().unwrap_or_default();
            text.push(if padding { '=' } else { char::from(letter) });
        }
    }
    text
}

/// The octets of a text, or none if it is not padded base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let bare = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(bare.len() * 3 / 4);
    for group in bare.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for letter in group {
            bits = bits << 6 | value(*letter)?;
        }
        let missing = 4_usize.checked_sub(group.len())?;
        bits <<= 6 * missing;
        let [_, octets @ ..] = bits.to_be_bytes();
        let (octets, rest) = octets.split_at_checked(3_usize.checked_sub(missing)?)?;
        // What padding hides must be nothing, or two texts would be the same octets.
        if rest.iter().any(|octet| *octet != 0) {
            return None;
        }
        bytes.extend_from_slice(octets);
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u32> {
    Some(u32::from(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use super::{decode, encode};

    #[test]
    fn octets_are_written_as_the_rfc_says() {
        for (octets, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(octets.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(octets.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_not_base64_is_none() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", "Z g=", "Zm9v\n", "ä==="]
        {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_octets_read_back_as_they_were_written(octets: Vec<u8>) {
            let text = encode(&octets);
            prop_assert_eq!(decode(&text), Some(octets));
        }

        #[test]
        fn a_text_that_is_read_is_the_one_that_is_written(text in "[A-Za-z0-9+/=]{0,12}") {
            if let Some(octets) = decode(&text) {
                prop_assert_eq!(encode(&octets), text);
            }
        }
    }
}

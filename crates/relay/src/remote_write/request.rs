//! What a request says it is, and its body.

use thiserror::Error;

use crate::wire::{Front, Malformed};

/// Which message a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `prometheus.WriteRequest`, remote write 1.0.
    V1,
    /// `io.prometheus.write.v2.Request`, remote write 2.0.
    V2,
}

/// A request of a kind that is not known: HTTP 415.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// The content type.
    #[error(
        "send application/x-protobuf, with proto=prometheus.WriteRequest or \
         proto=io.prometheus.write.v2.Request"
    )]
    ContentType,
    /// The content encoding.
    #[error("send snappy, in its block format")]
    ContentEncoding,
}

/// What a request is, by its headers. Without a type it is 1.0, without an encoding it is Snappy,
/// as receivers have always taken it.
///
/// # Errors
/// See [`Unsupported`].
pub fn negotiate(
    content_type: Option<&str>,
    content_encoding: Option<&str>,
) -> Result<Protocol, Unsupported> {
    let encoding = content_encoding.unwrap_or_default().trim();
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("snappy") {
        return Err(Unsupported::ContentEncoding);
    }
    let mut parts = content_type.unwrap_or_default().split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    if kind.is_empty() {
        return Ok(Protocol::V1);
    }
    if !kind.eq_ignore_ascii_case("application/x-protobuf") {
        return Err(Unsupported::ContentType);
    }
    let proto = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("proto").then(|| value.trim().trim_matches('"'))
    });
    match proto {
        None | Some("prometheus.WriteRequest") => Ok(Protocol::V1),
        Some("io.prometheus.write.v2.Request") => Ok(Protocol::V2),
        Some(_) => Err(Unsupported::ContentType),
    }
}

/// How many bytes a Snappy block says that it unpacks to, so that room for them can be asked for.
///
/// # Errors
/// It is damaged.
pub fn unpacked_len(body: &[u8]) -> Result<usize, Malformed> {
    snap::raw::decompress_len(body).map_err(|_| Malformed("is no block of Snappy"))
}

/// What a block may claim without being looked into.
const CLAIM_BYTES: usize = 256 << 10;

/// Unpacks a Snappy block. Its size is compared with the limit, and with what its elements unpack to,
/// before room is made for it.
///
/// # Errors
/// It is damaged or too large.
pub fn unpack(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    out.clear();
    let broken = |_| Malformed("is no block of Snappy");
    let len = unpacked_len(body)?;
    if len > bytes_max {
        return Err(Malformed("unpacks to more than allowed"));
    }
    if len > CLAIM_BYTES && elements_len(body)? != len {
        return Err(Malformed("does not unpack to what it claims"));
    }
    out.resize(len, 0);
    let written = snap::raw::Decoder::new().decompress(body, out).map_err(broken)?;
    out.truncate(written);
    Ok(())
}

/// How many bytes the elements of a Snappy block have, unpacked.
fn elements_len(body: &[u8]) -> Result<usize, Malformed> {
    let mut front = Front(body);
    front.number()?;
    let mut sum = 0_usize;
    while let Ok(tag) = front.byte() {
        let upper = usize::from(tag >> 2);
        let len = match tag & 3 {
            // A literal: its length, in one to four bytes more if it is a long one, and itself.
            0 => {
                let mut len = upper + 1;
                if let Some(more @ 1..) = upper.checked_sub(59) {
                    let bytes = front.bytes(more)?;
                    let number = bytes.iter().rfold(0, |sum, byte| sum << 8 | usize::from(*byte));
                    len = number + 1;
                }
                front.bytes(len)?;
                len
            }
            // Copies: how far back is in one, two or four bytes.
            1 => {
                front.bytes(1)?;
                (upper & 7) + 4
            }
            2 => {
                front.bytes(2)?;
                upper + 1
            }
            _ => {
                front.bytes(4)?;
                upper + 1
            }
        };
        sum = sum.saturating_add(len);
    }
    Ok(sum)
}

/// Packs a body as a Snappy block.
///
/// # Errors
/// It is larger than Snappy has numbers for.
pub fn pack(body: &[u8]) -> Result<Vec<u8>, Malformed> {
    let broken = |_| Malformed("is too large for Snappy");
    snap::raw::Encoder::new().compress_vec(body).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::{Protocol, Unsupported, elements_len, negotiate, unpack};
    use proptest::prelude::*;

    #[test]
    fn headers_decide_which_protocol_is_spoken() {
        let plain = "application/x-protobuf";
        for (kind, expected) in [
            (None, Protocol::V1),
            (Some(plain), Protocol::V1),
            (Some("application/x-protobuf;proto=prometheus.WriteRequest"), Protocol::V1),
            (Some("application/x-protobuf;proto=io.prometheus.write.v2.Request"), Protocol::V2),
            (Some("Application/X-Protobuf ; Proto=io.prometheus.write.v2.Request"), Protocol::V2),
        ] {
            assert_eq!(negotiate(kind, Some("snappy")), Ok(expected), "{kind:?}");
            assert_eq!(negotiate(kind, None), Ok(expected), "{kind:?}");
        }
        for bad in
            ["application/json", "application/x-protobuf;proto=io.prometheus.write.v3.Request"]
        {
            assert_eq!(negotiate(Some(bad), Some("snappy")), Err(Unsupported::ContentType));
        }
        assert_eq!(negotiate(Some(plain), Some("zstd")), Err(Unsupported::ContentEncoding));
    }

    #[test]
    fn a_block_that_claims_more_than_allowed_is_refused_before_room_is_made_for_it() {
        let mut out = Vec::new();
        let packed = snap::raw::Encoder::new().compress_vec(&[7; 1_000]).unwrap();
        unpack(&packed, 1_000, &mut out).unwrap();
        assert_eq!(out, [7; 1_000]);
        assert!(unpack(&packed, 999, &mut out).is_err());
        // Four gigabytes in six bytes.
        let bomb = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        let mut out = Vec::new();
        assert!(unpack(&bomb, usize::MAX, &mut out).is_err());
        assert_eq!(out.capacity(), 0);
        assert!(unpack(&[], 1_000, &mut out).is_err());
    }

    #[test]
    fn a_block_that_claims_more_than_it_has_is_refused_before_room_is_made_for_it() {
        let mut out = Vec::new();
        let honest = snap::raw::Encoder::new().compress_vec(&[7; 300 << 10]).unwrap();
        let claims = |len: &[u8], rest: &[u8]| [len, rest].concat();
        let large = [0x80, 0x80, 0x80, 0x10];
        for lie in [
            claims(&large, honest.get(3..).unwrap()),
            claims(&large, &[0xfe; 600 << 10]),
            claims(&large, &[0xf0; 600 << 10]),
            claims(&large, &[0; 600 << 10]),
        ] {
            assert!(unpack(&lie, 32 << 20, &mut out).is_err());
            assert_eq!(out.capacity(), 0);
        }
        unpack(&honest, 32 << 20, &mut out).unwrap();
        assert_eq!(out, [7; 300 << 10]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_elements_of_a_block_have_what_it_unpacks_to(
            piece in prop::collection::vec(any::<u8>(), 0..2_000),
            times in 1..200_usize,
        ) {
            let body = piece.repeat(times);
            let packed = snap::raw::Encoder::new().compress_vec(&body).unwrap();
            prop_assert_eq!(elements_len(&packed), Ok(body.len()));
        }

        #[test]
        fn any_octets_are_refused_or_unpacked(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            if unpack(&bytes, 1 << 20, &mut out).is_ok() {
                prop_assert_eq!(elements_len(&bytes), Ok(out.len()));
            }
        }
    }
}

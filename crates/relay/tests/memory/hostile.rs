//! Whatever somebody sends, it takes less than a mebibyte to refuse it.

use handoff_relay::codec::{CodecLimits, Decoded, Decoder, HEAD_BYTES, Workbench};
use handoff_relay::remote_write::{Protocol, RemoteWriteLimits, read, unpack, unpacked_len};
use handoff_relay::session::{Frames, GREETING_BYTES_MAX, Message, SESSION_HEAD_BYTES, encode};
use handoff_relay::{Batch, BlockId};

use crate::counting::{alone, most_of};

const BYTES_MAX: usize = 1 << 20;

/// The largest body and frame that there may be, as they are unless somebody says otherwise.
const BODY_BYTES_MAX: usize = 32 << 20;

const BLOCK: BlockId = BlockId([7; 16]);

#[track_caller]
fn assert_cheap(what: &str, work: impl FnOnce()) {
    let bytes = most_of(work);
    println!("{what}: {bytes} bytes");
    assert!(bytes < BYTES_MAX, "{what}: {bytes} bytes");
}

/// Reads frames as a connection does that is given this for ever, until it has enough.
fn hear(bytes: &[u8], allowed: usize) {
    let mut frames = Frames::default();
    frames.allow(allowed);
    for piece in bytes.chunks(8 << 10).cycle() {
        let room = frames.room();
        frames.push(&piece[..piece.len().min(room)]);
        loop {
            match frames.next_message() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

#[test]
fn a_peer_that_says_nonsense_costs_less_than_a_mebibyte() {
    let _alone = alone();
    let mut ping = Vec::new();
    encode(&Message::Ping, &mut ping);
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = ping.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    for (what, bytes) in [
        ("the greatest length", changed(8, &[0xff; 4])),
        ("an unknown type", changed(1, &[99])),
        ("another checksum", changed(12, &[0; 4])),
        ("endless text", vec![b'x'; 1 << 20]),
        ("endless zeros", vec![0; 1 << 20]),
        ("a frame as long as a stranger may send", {
            let size = u32::try_from(GREETING_BYTES_MAX).unwrap();
            let mut frame = changed(8, &size.to_le_bytes());
            frame.resize(SESSION_HEAD_BYTES + GREETING_BYTES_MAX, 0);
            frame
        }),
    ] {
        assert_cheap(what, || hear(&bytes, GREETING_BYTES_MAX));
    }
    // Somebody who is known may send long ones: what counts is what has come, not what was said.
    let long = changed(8, &(128_u32 << 20).to_le_bytes());
    assert_cheap("a claim of 128 MiB", || {
        let mut frames = Frames::default();
        frames.allow(129 << 20);
        frames.push(&long);
        frames.push(&[0; 100 << 10]);
        assert_eq!(frames.next_message(), Ok(None));
    });
}

/// A segment or a key frame with a right checksum around this.
fn closed(kind: u8, packing: u8, claim: u32, inside: &[u8]) -> Vec<u8> {
    let seal = crc32c::crc32c_append(crc32c::crc32c(&BLOCK.0), &[0, 0]);
    let mut bytes = vec![1, kind, packing, 0, 0, 0, 0];
    bytes.extend_from_slice(&seal.to_le_bytes());
    bytes.extend_from_slice(&claim.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), inside);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(inside);
    assert_eq!(bytes.len(), HEAD_BYTES + inside.len());
    bytes
}

#[test]
fn segments_and_key_frames_that_claim_to_be_large_cost_less_than_a_mebibyte() {
    let _alone = alone();
    let mut bench = Workbench::new().unwrap();
    let mut decoded = Decoded::default();
    // A frame of zstd that says the same, with one block of five bytes.
    let mut lie = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    lie.extend_from_slice(&(64_u32 << 20).to_le_bytes());
    lie.extend_from_slice(&[0x01 | 5 << 3, 0, 0]);
    lie.extend_from_slice(b"hello");
    for (what, packing, claim, inside) in [
        ("the greatest claim", 1, u32::MAX, &lie[..]),
        ("the greatest that may be", 1, 64 << 20, &lie[..]),
        ("what cannot be unpacked", 1, 64 << 20, &[0x5a; 4_000]),
        ("a count of four billion", 0, 6, &[6, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ("a packing that means nothing", 9, 64 << 20, &lie[..]),
    ] {
        let (segment, frame) =
            (closed(1, packing, claim, inside), closed(2, packing, claim, inside));
        assert_cheap(&format!("{what}, as a segment"), || {
            let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
            assert!(decoder.take(&segment, None, &mut bench, &mut decoded).is_err());
        });
        assert_cheap(&format!("{what}, as a key frame"), || {
            let made = Decoder::from_key_frame(&frame, CodecLimits::default(), &mut bench);
            assert!(made.is_err());
        });
    }
}

fn refused(protocol: Protocol, body: &[u8]) {
    let mut message = Vec::new();
    // As the agent does it: what is too large by its own words is not looked at.
    if !unpacked_len(body).is_ok_and(|len| len <= BODY_BYTES_MAX) {
        return;
    }
    if unpack(body, BODY_BYTES_MAX, &mut message).is_ok() {
        let mut batch = Batch::default();
        let taken = read(protocol, &message, &RemoteWriteLimits::default(), &mut batch);
        assert!(taken.is_err() || batch.is_empty());
    }
}

#[test]
fn bodies_that_claim_to_be_large_cost_less_than_a_mebibyte() {
    let _alone = alone();
    let number = |mut number: u64| {
        let mut out = Vec::new();
        while number >= 0x80 {
            out.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        out.push(number.to_le_bytes()[0]);
        out
    };
    let claims = |len: u64, rest: &[u8]| [&number(len)[..], rest].concat();
    let packed = |body: &[u8]| {
        let literal = [&[0xfc_u8][..], &u32::try_from(body.len() - 1).unwrap().to_le_bytes()[..]];
        [&number(body.len() as u64)[..], &literal.concat(), body].concat()
    };
    let field = |tag: u8, len: u64| [&[tag][..], &number(len)].concat();
    for (what, body) in [
        ("four gigabytes in a few bytes", claims(u64::from(u32::MAX), &[0; 16])),
        ("32 MiB in a few bytes", claims(32 << 20, &[0xfe; 64])),
        ("32 MiB in half a megabyte of copies", claims(32 << 20, &[0xfe; 600 << 10])),
        ("32 MiB in half a megabyte of text", claims(32 << 20, &[b'x'; 600 << 10])),
        ("32 MiB in half a megabyte of nothing", claims(32 << 20, &[0; 600 << 10])),
        ("a field of four gigabytes", packed(&field(0x0a, u64::from(u32::MAX)))),
        ("a symbol of four gigabytes", packed(&field(0x22, u64::from(u32::MAX)))),
        ("a field without an end", packed(&[0xff; 64])),
        ("nothing but a beginning", packed(&[0x0a; 100 << 10])),
        ("nothing at all", Vec::new()),
    ] {
        for protocol in [Protocol::V1, Protocol::V2] {
            assert_cheap(&format!("{what}, {protocol:?}"), || refused(protocol, &body));
        }
    }
}

//! Segments, key frames, refill files, sessions and remote write bodies.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_relay::codec::{CodecLimits, Decoded, Decoder, Workbench};
use handoff_relay::refill::{Opened, Refill, RefillLimits, Spool, SpoolLimits, Stored};
use handoff_relay::remote_write::{Protocol, RemoteWriteLimits, read, unpack, write_v1, write_v2};
use handoff_relay::session::{Frames, encode};
use handoff_relay::{Batch, BatchLimits, BlockId, SegmentKey};

const BLOCK: BlockId = BlockId([7; 16]);

/// Small, so that a fuzzer finds them.
const LIMITS: CodecLimits = CodecLimits {
    series_max: 1_000,
    symbol_bytes_max: 64 << 10,
    label_count_max: 10_000,
    labels_max: 30,
    samples_max: 10_000,
    segment_inside_bytes_max: 1 << 20,
    key_frame_inside_bytes_max: 1 << 20,
};

/// What is inside a segment, closed with a right checksum.
fn closed(kind: u8, inside: &[u8]) -> Vec<u8> {
    let seal = crc32c::crc32c_append(crc32c::crc32c(&BLOCK.0), &[0, 0]);
    let mut bytes = vec![1, kind, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&seal.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(inside.len()).unwrap_or(u32::MAX).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), inside);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(inside);
    bytes
}

/// The inside of a segment.
pub fn segment(data: &[u8]) {
    let mut bench = Workbench::new().expect("there is memory");
    let mut decoder = Decoder::new(BLOCK, 0, LIMITS);
    let mut decoded = Decoded::default();
    let taken = decoder.take(&closed(1, data), None, &mut bench, &mut decoded);
    assert!(decoded.samples().len() <= LIMITS.samples_max);
    if taken.is_err() {
        assert!(decoded.samples().is_empty());
        return;
    }
    let mut body = Vec::new();
    write_v1(&decoded, &decoder, &mut body);
    body.clear();
    // What is carried may be no protobuf at all.
    write_v2(&decoded, &decoder, &mut body).ok();
}

/// Two octets: how long the inside of a key frame is; that; then the inside of the segment behind it.
pub fn key_frame(data: &[u8]) {
    let Some((size, rest)) = data.split_first_chunk::<2>() else { return };
    let (frame, behind) = rest.split_at(usize::from(u16::from_le_bytes(*size)).min(rest.len()));
    let mut bench = Workbench::new().expect("there is memory");
    let frame = closed(2, frame);
    let Ok(mut decoder) = Decoder::from_key_frame(&frame, LIMITS, &mut bench) else { return };
    assert_eq!(decoder.next_segment(), Some(0));
    let mut decoded = Decoded::default();
    let taken = decoder.take(&closed(1, behind), None, &mut bench, &mut decoded);
    assert!(decoded.samples().len() <= LIMITS.samples_max);
    match taken {
        Ok(_) => assert_eq!(decoder.next_segment(), Some(1)),
        Err(_) => assert!(decoded.samples().is_empty()),
    }
    let mut body = Vec::new();
    write_v1(&decoded, &decoder, &mut body);
}

/// An octet: even with checksums, odd without; then frames, to which the checksums are added.
pub fn refill(data: &[u8]) {
    let Some((&mode, mut rest)) = data.split_first() else { return };
    let mut file = Vec::new();
    if mode % 2 == 0 {
        file.extend_from_slice(b"HNDRFL\x01\x01");
    }
    while let Some((head, behind)) = rest.split_first_chunk::<11>() {
        let size = u32::from_le_bytes([head[7], head[8], head[9], head[10]]) as usize;
        let (body, behind) = behind.split_at(size.min(behind.len()));
        rest = behind;
        let from = file.len();
        file.extend_from_slice(head);
        file.extend_from_slice(body);
        if mode % 2 == 0 {
            file.extend_from_slice(&crc32c::crc32c(&file[from..]).to_le_bytes());
        }
    }
    file.extend_from_slice(rest);
    let disk = Memory::new();
    let limits = SpoolLimits::default();
    let spool = Spool::open(Arc::new(disk.clone()), "spool", "quarantine", limits);
    let spool = spool.expect("memory does not fail");
    let name = "1700000000000-00000000-0000-0000-0000-000000000000.refill";
    disk.overwrite(&spool.path(name), file.clone()).expect("memory does not fail");
    let Ok(Opened::Refill(refill, _)) = Refill::open(spool, RefillLimits::default(), name) else {
        return;
    };
    let ledger = refill.ledger();
    for shard in ledger.acks().shards().ids() {
        for entry in ledger.entries(shard) {
            let key = SegmentKey { shard, segment: entry.segment };
            let bytes = refill.read(key, *entry).expect("it was there a moment ago");
            assert_eq!(written(&file, mode % 2 == 0, key, entry.at), Some(&*bytes));
            if entry.stored == Stored::Segment {
                assert!(ledger.restore(key).is_some(), "something leads to it");
            }
        }
    }
}

/// What a frame of this key holds that begins at this place of a file, if one does. It may lie inside
/// another one that is damaged: then it is what is left of it.
fn written(file: &[u8], checked: bool, key: SegmentKey, at: u64) -> Option<&[u8]> {
    let frame = file.get(usize::try_from(at).ok()?..)?;
    let (head, behind) = frame.split_first_chunk::<11>()?;
    let named = [&key.shard.to_le_bytes()[..], &key.segment.to_le_bytes()].concat();
    let size = u32::from_le_bytes([head[7], head[8], head[9], head[10]]) as usize;
    let body = behind.get(..size)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(head), body).to_le_bytes();
    let is_sound = !checked || behind.get(size..)?.starts_with(&crc);
    (head[1..7] == named && is_sound).then(|| body.get(4..)).flatten()
}

/// Messages: type, shard, segment, size of two octets, body. Head and checksum are added.
pub fn session(data: &[u8]) {
    let mut frames = Frames::default();
    let mut rest = data;
    while let Some((head, behind)) = rest.split_first_chunk::<9>() {
        let size = usize::from(u16::from_le_bytes([head[7], head[8]])).min(behind.len());
        let (body, behind) = behind.split_at(size);
        rest = behind;
        let mut frame = vec![0xd7];
        frame.extend_from_slice(&head[..7]);
        frame.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&frame), body);
        frame.extend_from_slice(&crc.to_le_bytes());
        frame.extend_from_slice(body);
        frames.push(&frame);
        let Ok(Some(message)) = frames.next_message() else { return };
        let mut again = Vec::new();
        encode(&message, &mut again);
        let mut reader = Frames::default();
        reader.push(&again);
        assert_eq!(reader.next_message(), Ok(Some(message)));
    }
}

/// An octet: which protocol; then a body, unpacked. The same octets are also unpacked.
pub fn body(data: &[u8]) {
    let Some((&mode, body)) = data.split_first() else { return };
    let protocol = if mode % 2 == 0 { Protocol::V1 } else { Protocol::V2 };
    let limits = BatchLimits { bytes_max: 1 << 20, ..BatchLimits::default() };
    let mut batch = Batch::new(limits);
    let taken = read(protocol, body, &RemoteWriteLimits::default(), &mut batch);
    assert!(batch.bytes_len() <= limits.bytes_max);
    if let Ok(written) = taken {
        assert_eq!(written.samples, batch.samples_len() as u64);
    }
    let mut out = Vec::new();
    if unpack(body, 1 << 20, &mut out).is_ok() {
        assert!(out.len() <= 1 << 20);
    }
}

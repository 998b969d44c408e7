//! The bytes of a refill file, and the bare layout that is still read.

use handoff_log::disk::Memory;
use handoff_relay::refill::{Frame, Layout, Rejected};

use crate::world::{BLOCK, key, open, readable, refill, segment, snapshot, spool};

/// Takes the head and the checksums away.
fn bare(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = &bytes[8..];
    while !rest.is_empty() {
        let size = u32::from_le_bytes(rest[7..11].try_into().unwrap()) as usize;
        out.extend_from_slice(&rest[..11 + size]);
        rest = &rest[11 + size + 4..];
    }
    out
}

#[test]
fn a_file_is_laid_out_as_the_format_says() {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    let mut refill = refill(&spool);
    let rejected = Rejected { destination: 1, key: key(1, 300) };
    refill
        .append(&[
            segment(1, 0),
            Frame::Rejects(vec![rejected]),
            Frame::Statuses(vec![u32::MAX, 0, 1, 128]),
        ])
        .unwrap();
    let bytes = disk.contents(&spool.path(refill.name())).unwrap();
    assert_eq!(&bytes[..8], b"HNDRFL\x01\x01");
    let mut expected = Vec::new();
    expected.extend_from_slice(b"\x01\0\0\0\0\0\0\x11\0\0\0\x01");
    expected.extend_from_slice(&BLOCK.0);
    expected.extend_from_slice(b"\x02\0\0\0\0\0\0\x1a\0\0\0");
    expected.extend_from_slice(b"\x02\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0ab");
    expected.extend_from_slice(b"\x04\x01\0\0\0\0\0\x2c\0\0\0\x28\0\0\0");
    let Frame::Segment { bytes: payload, .. } = segment(1, 0) else { panic!() };
    expected.extend_from_slice(&payload);
    expected.extend_from_slice(b"\x06\0\0\0\0\0\0\x05\0\0\0\x01\x01\xac\x02\x01");
    expected
        .extend_from_slice(b"\x05\0\0\0\0\0\0\x0a\0\0\0\x04\xff\xff\xff\xff\x0f\x00\x01\x80\x01");
    assert_eq!(bare(&bytes), expected);
    let title = &bytes[8..8 + 11 + 17];
    assert_eq!(bytes[8 + 11 + 17..][..4], crc32c::crc32c(title).to_le_bytes());
}

#[test]
fn a_bare_file_is_read_and_finished() {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    let mut first = refill(&spool);
    first.append(&[segment(0, 0), segment(0, 1), snapshot(1, 4), segment(1, 4)]).unwrap();
    let path = spool.path(first.name());
    let bytes = bare(&disk.contents(&path).unwrap());
    disk.overwrite(&path, bytes.clone()).unwrap();
    let (refill, troubles) = open(&spool, first.name());
    let mut refill = refill.unwrap();
    assert_eq!(troubles, Default::default());
    assert_eq!(refill.ledger().layout(), Layout::Bare);
    assert_eq!(readable(&refill), [key(0, 0), key(0, 1), key(1, 4)]);
    let mut acks = refill.ledger().acks().clone();
    acks.ack(key(0, 1), 0);
    refill.write_ack_status(&acks).unwrap();
    let (again, _) = open(&spool, first.name());
    assert_eq!(again.unwrap().ledger().acks(), &acks);
    for len in 0..bytes.len() {
        disk.overwrite(&path, bytes[..len].to_vec()).unwrap();
        let (refill, _) = open(&spool, first.name());
        if let Some(refill) = refill {
            readable(&refill);
        }
    }
}

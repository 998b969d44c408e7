//! The reader of record batches.

use bytes::Bytes;
use handoff_streams::Compression;
use handoff_streams::batch::{Builder, HEAD_BYTES, head, records};

/// What a batch may decompress to here.
const BYTES_MAX: usize = 1 << 20;

/// Bytes before what the sum covers.
const UNSUMMED: usize = 21;

/// An octet: as it is, or with its length and its sum made right; then a batch.
pub fn batch(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else { return };
    let mut bytes = data.to_vec();
    if mode % 2 == 1 && bytes.len() >= HEAD_BYTES {
        let length = u32::try_from(bytes.len() - 12).expect("inputs are short");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let sum = crc32c::crc32c(&bytes[UNSUMMED..]);
        bytes[17..UNSUMMED].copy_from_slice(&sum.to_be_bytes());
    }
    let bytes = Bytes::from(bytes);
    let Ok(head) = head(&bytes) else {
        assert!(records(&bytes, BYTES_MAX).is_err(), "no head, no records");
        return;
    };
    assert!(head.bytes <= bytes.len() && head.count > 0);
    let Ok(found) = records(&bytes, BYTES_MAX) else { return };
    assert_eq!(found.len(), usize::try_from(head.count).expect("they were read"));
    let mut again = Builder::new(head.base, head.last, 0);
    for (record, offset) in found.iter().zip(head.base..) {
        assert_eq!(record.offset, offset, "offsets are dense");
        let headers = record.headers.iter().map(|header| (&header.name[..], &header.value[..]));
        again.add(record.key.as_deref(), record.payload.as_deref().unwrap_or_default(), headers);
    }
    let compressions = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let compression = compressions[usize::from(mode / 2) % compressions.len()];
    let again = records(&again.finish(compression), usize::MAX).expect("what is made is read");
    for (one, other) in found.iter().zip(&again) {
        let payload = one.payload.clone().unwrap_or_default();
        assert_eq!((&one.key, Some(&payload)), (&other.key, other.payload.as_ref()));
        assert_eq!((one.offset, &one.headers), (other.offset, &other.headers));
    }
}

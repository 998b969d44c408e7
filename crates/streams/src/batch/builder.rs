//! Making a batch.

use bytes::Bytes;
use handoff_types::Wall;

use super::{
    HEAD_BYTES, LOG_APPEND_TIME, MAGIC, UNCOUNTED_BYTES, UNSUMMED_BYTES, compress, number, varint,
};
use crate::Compression;

/// A batch being made. Records are written as they are added; nothing is kept twice.
#[derive(Debug)]
pub struct Builder {
    /// Room for the head, then the records so far.
    out: Vec<u8>,
    base: u64,
    millis: i64,
    count: u32,
}

impl Builder {
    /// A batch that begins at this offset and whose records all have this timestamp, cut to
    /// milliseconds as Kafka has them. `bytes` is about how large its records get.
    #[must_use]
    pub fn new(base: u64, timestamp: Wall, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes.saturating_add(HEAD_BYTES));
        out.resize(HEAD_BYTES, 0);
        Self { out, base, millis: timestamp.0.div_euclid(1_000), count: 0 }
    }

    /// Adds a record. The headers are gone through twice: a record begins with its length.
    ///
    /// The batch as a whole has to stay below 2 GiB; that is the caller's limit on a request.
    pub fn add<'a>(
        &mut self,
        key: Option<&[u8]>,
        payload: &[u8],
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) {
        let mut names = 0_usize;
        let mut headers_len = 0;
        for (name, value) in headers.clone() {
            names += 1;
            headers_len += bytes_len(name) + bytes_len(value);
        }
        let key_len = key.map_or(varint::len(-1), bytes_len);
        let offset_delta = i64::from(self.count);
        // Attributes and the timestamp delta, which is nothing, are one byte each.
        let len = 2
            + varint::len(offset_delta)
            + key_len
            + bytes_len(payload)
            + varint::len(signed(names))
            + headers_len;

        let out = &mut self.out;
        out.reserve(varint::len(signed(len)) + len);
        varint::put(out, signed(len));
        let body = out.len();
        out.extend_from_slice(&[0, 0]);
        varint::put(out, offset_delta);
        match key {
            Some(key) => put_bytes(out, key),
            None => varint::put(out, -1),
        }
        put_bytes(out, payload);
        varint::put(out, signed(names));
        for (name, value) in headers {
            put_bytes(out, name);
            put_bytes(out, value);
        }
        debug_assert_eq!(out.len() - body, len, "a record is as long as it says");
        self.count += 1;
    }

    /// How many records there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of the batch so far, head included, not compressed.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// The batch. One that does not get smaller is not compressed.
    #[must_use]
    pub fn finish(self, compression: Compression) -> Bytes {
        debug_assert!(self.count > 0, "a batch has records");
        let records = self.out.get(HEAD_BYTES..).unwrap_or_default();
        let compressed = compress::compressed(records, compression)
            .filter(|compressed| compressed.len() < self.out.len());
        let (mut out, compression) = match compressed {
            Some(compressed) => (compressed, compression),
            None => (self.out, Compression::None),
        };
        let len = i32::try_from(out.len() - UNCOUNTED_BYTES).unwrap_or(i32::MAX);
        let attributes = number(compression) | LOG_APPEND_TIME;
        let last_delta = self.count.saturating_sub(1);

        let mut head = Cursor { out: out.get_mut(..HEAD_BYTES).unwrap_or_default() };
        head.put(&self.base.to_be_bytes());
        head.put(&len.to_be_bytes());
        head.put(&0_i32.to_be_bytes());
        head.put(&[MAGIC]);
        head.put(&0_u32.to_be_bytes());
        head.put(&attributes.to_be_bytes());
        head.put(&last_delta.to_be_bytes());
        head.put(&self.millis.to_be_bytes());
        head.put(&self.millis.to_be_bytes());
        head.put(&(-1_i64).to_be_bytes());
        head.put(&(-1_i16).to_be_bytes());
        head.put(&(-1_i32).to_be_bytes());
        head.put(&self.count.to_be_bytes());
        debug_assert!(head.out.is_empty(), "the head is as long as it should be");

        let sum = crc32c::crc32c(out.get(UNSUMMED_BYTES..).unwrap_or_default());
        if let Some(place) = out.get_mut(UNSUMMED_BYTES - 4..UNSUMMED_BYTES) {
            place.copy_from_slice(&sum.to_be_bytes());
        }
        Bytes::from(out)
    }
}

/// Fills bytes from their front.
struct Cursor<'a> {
    out: &'a mut [u8],
}

impl Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let out = std::mem::take(&mut self.out);
        if let Some((place, rest)) = out.split_at_mut_checked(bytes.len()) {
            place.copy_from_slice(bytes);
            self.out = rest;
        }
    }
}

fn bytes_len(bytes: &[u8]) -> usize {
    varint::len(signed(bytes.len())) + bytes.len()
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, signed(bytes.len()));
    out.extend_from_slice(bytes);
}

/// A length as the format has it. Memory ends long before its range does.
fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

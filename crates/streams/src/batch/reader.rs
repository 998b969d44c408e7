//! Reading a batch.

use bytes::Bytes;
use handoff_types::Wall;

use super::{
    BadBatch, COMPRESSION_BITS, HEAD_BYTES, Head, LOG_APPEND_TIME, MAGIC, Record, UNCOUNTED_BYTES,
    UNSUMMED_BYTES, compress, numbered, varint,
};
use crate::Header;

/// The fewest bytes of a record: seven fields of a byte each.
const RECORD_BYTES_MIN: usize = 7;

/// Reads the head of the batch at the front of `bytes` and checks its sum.
///
/// # Errors
/// [`BadBatch`]; bytes that end too early included.
pub fn head(bytes: &[u8]) -> Result<Head, BadBatch> {
    raw_head(bytes).map(|raw| raw.head)
}

/// Reads the records of the batch at the front of `bytes`, decompressing at most `bytes_max`
/// bytes. Sharing memory with `bytes` if it is not compressed. The sum is checked.
///
/// # Errors
/// [`BadBatch`]
pub fn records(bytes: &Bytes, bytes_max: usize) -> Result<Vec<Record>, BadBatch> {
    let raw = raw_head(bytes)?;
    let stored = bytes.slice(HEAD_BYTES..raw.head.bytes);
    let plain = compress::decompressed(&stored, raw.head.compression, bytes_max)?;
    let count = usize::try_from(raw.head.count).unwrap_or(usize::MAX);
    let mut records = Vec::with_capacity(count.min(plain.len() / RECORD_BYTES_MIN));
    let mut rest = plain.as_ref();
    for delta in 0..raw.head.count {
        records.push(record(&raw, delta, &mut rest, &plain)?);
    }
    match rest.is_empty() {
        true => Ok(records),
        false => Err(BadBatch::new("more bytes than its records have")),
    }
}

/// What the head says, and what only records need of it.
struct RawHead {
    head: Head,
    base_millis: i64,
    /// The timestamp of all records, if they have one.
    append_millis: Option<i64>,
}

fn raw_head(bytes: &[u8]) -> Result<RawHead, BadBatch> {
    let mut rest = bytes;
    let base = u64::from_be_bytes(take(&mut rest)?);
    let len = usize::try_from(i32::from_be_bytes(take(&mut rest)?)).unwrap_or(0);
    if len < HEAD_BYTES - UNCOUNTED_BYTES {
        return Err(BadBatch::new(format!("a length of {len} bytes")));
    }
    let Some(whole) = bytes.get(..len + UNCOUNTED_BYTES) else {
        return Err(too_early());
    };
    let _leader_epoch: [u8; 4] = take(&mut rest)?;
    let [magic] = take(&mut rest)?;
    if magic != MAGIC {
        return Err(BadBatch::new(format!("version {magic}, not {MAGIC}")));
    }
    let sum = u32::from_be_bytes(take(&mut rest)?);
    let actual = crc32c::crc32c(whole.get(UNSUMMED_BYTES..).unwrap_or_default());
    if sum != actual {
        return Err(BadBatch::new(format!("its sum is {actual:08x}, not {sum:08x}")));
    }
    let attributes = u16::from_be_bytes(take(&mut rest)?);
    let last_delta = u32::from_be_bytes(take(&mut rest)?);
    let base_millis = i64::from_be_bytes(take(&mut rest)?);
    let max_millis = i64::from_be_bytes(take(&mut rest)?);
    let _producer: [u8; 14] = take(&mut rest)?;
    let count = u32::from_be_bytes(take(&mut rest)?);

    if count == 0 || last_delta != count - 1 || i32::try_from(count).is_err() {
        let why = format!("{count} records, the last {last_delta} behind the first");
        return Err(BadBatch::new(why));
    }
    if i64::try_from(base).ok().and_then(|base| base.checked_add(i64::from(count))).is_none() {
        return Err(BadBatch::new(format!("a base offset of {base}")));
    }
    let append_millis = (attributes & LOG_APPEND_TIME != 0).then_some(max_millis);
    let head = Head {
        base,
        bytes: whole.len(),
        count,
        compression: numbered(attributes & COMPRESSION_BITS)?,
        first: wall(append_millis.unwrap_or(base_millis)),
        last: wall(max_millis),
    };
    Ok(RawHead { head, base_millis, append_millis })
}

/// Reads one record from the front of `rest`, which is a part of `plain`.
fn record(raw: &RawHead, delta: u32, rest: &mut &[u8], plain: &Bytes) -> Result<Record, BadBatch> {
    let len =
        usize::try_from(varint::take(rest)?).map_err(|_| BadBatch::new("a negative length"))?;
    let (mut body, behind) = rest.split_at_checked(len).ok_or_else(too_early)?;
    *rest = behind;
    let body = &mut body;
    let _attributes: [u8; 1] = take(body)?;
    let timestamp_delta = varint::take(body)?;
    if varint::take(body)? != i64::from(delta) {
        return Err(BadBatch::new(format!("record {delta} has another offset")));
    }
    let millis = match raw.append_millis {
        Some(millis) => millis,
        None => raw
            .base_millis
            .checked_add(timestamp_delta)
            .ok_or_else(|| BadBatch::new("a timestamp beyond time"))?,
    };
    let key = take_bytes(body, plain)?;
    let payload = take_bytes(body, plain)?;
    let names = varint::take(body)?;
    if names < 0 {
        return Err(BadBatch::new("a negative number of headers"));
    }
    let mut headers = Vec::new();
    for _ in 0..names {
        let name =
            take_bytes(body, plain)?.ok_or_else(|| BadBatch::new("a header without a name"))?;
        let value = take_bytes(body, plain)?.unwrap_or_default();
        headers.push(Header { name, value });
    }
    if !body.is_empty() {
        return Err(BadBatch::new("a record is longer than what is in it"));
    }
    let offset = raw.head.base + u64::from(delta);
    Ok(Record { offset, timestamp: wall(millis), key, payload, headers })
}

/// Bytes with their length before them; -1 is null.
fn take_bytes(rest: &mut &[u8], plain: &Bytes) -> Result<Option<Bytes>, BadBatch> {
    let len = varint::take(rest)?;
    if len == -1 {
        return Ok(None);
    }
    let len = usize::try_from(len).map_err(|_| BadBatch::new("a negative length"))?;
    let (bytes, behind) = rest.split_at_checked(len).ok_or_else(too_early)?;
    *rest = behind;
    Ok(Some(plain.slice_ref(bytes)))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], BadBatch> {
    let (bytes, behind) = rest.split_first_chunk().ok_or_else(too_early)?;
    *rest = behind;
    Ok(*bytes)
}

fn too_early() -> BadBatch {
    BadBatch::new("ends too early")
}

/// Kafka's milliseconds as the rest of the house counts. Beyond our range is the end of it.
fn wall(millis: i64) -> Wall {
    Wall(millis.saturating_mul(1_000))
}

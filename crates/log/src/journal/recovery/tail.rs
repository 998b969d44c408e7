//! How a journal ends.

use super::super::error::OpenError;
use super::super::format::{Counts, ROUND_BYTES_MAX, ROUND_HEADER, RecordHeader};
use super::files::Used;
use super::window::Window;

/// What stands behind the last valid round. All of it is cut; the name says what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tail {
    /// Nothing of this use of the file: the last round is whole.
    Clean,
    /// A mark: the last round is whole and was durable.
    Marked,
    /// The beginning of a round; its end did not reach the disk.
    Torn,
    /// The beginning of a round; the rest is zeros.
    Zeroed,
    /// Later parts of a round without earlier ones: the disk wrote it out of order.
    Unordered,
}

/// Tells the kinds of a tail apart. `need` is the next number of each room.
pub(super) fn classify(
    window: &mut Window,
    used: &Used,
    position: u64,
    need: &Counts,
) -> Result<Tail, OpenError> {
    let header = window.header(used, position)?;
    let end = match &header {
        Some(header) => position + (ROUND_HEADER + header.body_bytes as usize) as u64,
        None => position + ROUND_BYTES_MAX as u64,
    };
    let plausible = |record: &RecordHeader| {
        need.get(record.room.index()).is_some_and(|&need| record.sequence >= need)
    };
    let records = window.salvage(used, position, end, &plausible)?;
    let Some(header) = header else {
        return Ok(if records.is_empty() { Tail::Clean } else { Tail::Unordered });
    };
    // Records in a row from the header on reached the disk in order.
    let mut whole = position + ROUND_HEADER as u64;
    for (_, at, payload) in &records {
        if *at != whole {
            return Ok(Tail::Unordered);
        }
        whole += super::record_extent(payload.len()) as u64;
    }
    let rest = usize::try_from(end - whole).unwrap_or(usize::MAX);
    let rest = window.read(used, used.offset(whole), rest)?;
    let zeros = rest.iter().rev().take_while(|byte| **byte == 0).count();
    debug_assert!(header.records as usize >= records.len());
    // A sector of zeros at the end is what a zero-filled file shows where nothing was written.
    let sector = 512.min(rest.len());
    Ok(if !rest.is_empty() && zeros >= sector { Tail::Zeroed } else { Tail::Torn })
}

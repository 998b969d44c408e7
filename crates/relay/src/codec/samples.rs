//! The samples of a segment, column by column.
//!
//! ```text
//! samples     │ samples
//!             │ sized runs: series, each less the one before (the first: plus one)
//!             │ sized runs: samples of each
//!             │ mode u8 │ sized sparse: how late each sample is
//!             │ control × samples │ the values' bytes, to the end
//! ```
//!
//! Samples are in the order of their series; those of one series in the order in which they came.
//! How late a sample is: its time less the expected one (the last and the last step; for a new
//! series the time of the sample before). In mode 1 the lateness of the sample before is taken off
//! again, unless the series is new: what was scraped together is late together.

use super::runs::{ReadRuns, ReadSparse, Runs, put_sparse};
use super::tracks::Tracks;
use super::values::{put_value, take_value};
use super::{Decoded, Run};
use crate::wire::{self, Front, Malformed, len_of, zigzag};

/// Each sample on its own.
const ALONE: u8 = 0;
/// Each sample against the one before it.
const TOGETHER: u8 = 1;

/// A sample that waits for its segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) series: u32,
    pub(super) time: i64,
    pub(super) bits: u64,
}

/// Room for the columns of a segment, kept from one to the next.
#[derive(Debug, Default)]
pub(super) struct Columns {
    runs: Vec<u8>,
    counts: Vec<u8>,
    alone: Vec<i64>,
    together: Vec<i64>,
    times: Vec<u8>,
    controls: Vec<u8>,
    values: Vec<u8>,
}

/// Writes samples, which lie in the order of their series, and remembers them.
pub(super) fn write(rows: &[Row], tracks: &mut Tracks, columns: &mut Columns, out: &mut Vec<u8>) {
    let Columns { runs, counts, alone, together, times, controls, values } = columns;
    for column in [&mut *runs, counts, times, controls, values] {
        column.clear();
    }
    alone.clear();
    together.clear();
    let (mut ids, mut lens) = (Runs::new(runs), Runs::new(counts));
    let (mut before, mut late_before) = (0, 0);
    let mut next_id = 0_u64;
    let (mut cost_alone, mut cost_together) = (0, 0);
    for run in rows.chunk_by(|one, next| one.series == next.series) {
        let Some(first) = run.first() else { continue };
        let id = u64::from(first.series);
        ids.push((id + 1).wrapping_sub(next_id));
        next_id = id + 1;
        lens.push(run.len() as u64);
        let Some(track) = tracks.get_mut(first.series) else { continue };
        for row in run {
            let late = row.time.wrapping_sub(track.expected_time(before));
            let more = late.wrapping_sub(if track.seen { late_before } else { 0 });
            if track.seen {
                late_before = late;
            }
            cost_alone += cost(late);
            cost_together += cost(more);
            alone.push(late);
            together.push(more);
            before = row.time;
            track.saw_time(row.time);
            put_value(track, row.bits, controls, values);
        }
    }
    ids.finish();
    lens.finish();
    let mode = if cost_together < cost_alone { TOGETHER } else { ALONE };
    put_sparse(times, if mode == TOGETHER { together } else { alone });
    wire::put_len(out, rows.len());
    wire::put_bytes(out, runs);
    wire::put_bytes(out, counts);
    out.push(mode);
    wire::put_bytes(out, times);
    out.extend_from_slice(controls);
    out.extend_from_slice(values);
}

/// About how many bytes a number takes.
#[inline]
const fn cost(number: i64) -> usize {
    if number == 0 { 0 } else { len_of(zigzag(number)) }
}

/// Reads samples and remembers them; gives them out if somebody wants them.
///
/// # Errors
/// What was read so far is remembered all the same: such tracks are of no use any more.
pub(super) fn read(
    mut front: Front<'_>,
    tracks: &mut Tracks,
    samples_max: usize,
    mut out: Option<&mut Decoded>,
) -> Result<(), Malformed> {
    // Each sample has a control byte.
    let count = front.count()?;
    if count > samples_max {
        return Err(Malformed("has more samples than allowed"));
    }
    let mut ids = ReadRuns::new(front.sized()?);
    let mut lens = ReadRuns::new(front.sized()?);
    let mode = front.byte()?;
    if mode > TOGETHER {
        return Err(Malformed("has a mode of times that means nothing"));
    }
    let mut times = ReadSparse::new(front.sized()?);
    let mut controls = front.bytes(count)?;
    let mut values = front;
    if let Some(out) = &mut out {
        out.samples.reserve(count);
    }
    let (mut before, mut late_before) = (0, 0);
    let mut next_id = 0_u64;
    while !controls.is_empty() {
        let step = ids.next()?;
        let id = next_id.checked_add(step).and_then(|id| id.checked_sub(1));
        let id = id.filter(|_| step > 0).ok_or(Malformed("has series out of order"))?;
        next_id = id + 1;
        let series = u32::try_from(id).unwrap_or(u32::MAX);
        let track = tracks.get_mut(series).ok_or(Malformed("names no series"))?;
        let len = usize::try_from(lens.next()?).unwrap_or(usize::MAX);
        let (mine, rest) =
            controls.split_at_checked(len).ok_or(Malformed("has more samples than said"))?;
        if mine.is_empty() {
            return Err(Malformed("has a series without samples"));
        }
        controls = rest;
        for control in mine {
            let mut late = times.next()?;
            if track.seen {
                if mode == TOGETHER {
                    late = late.wrapping_add(late_before);
                }
                late_before = late;
            }
            let time = track.expected_time(before).wrapping_add(late);
            before = time;
            track.saw_time(time);
            let bits = take_value(track, *control, &mut values)?;
            if let Some(out) = &mut out {
                out.samples.push(crate::Sample { time, bits });
            }
        }
        if let Some(out) = &mut out {
            out.runs.push(Run { series, samples: u32::try_from(len).unwrap_or(u32::MAX) });
        }
    }
    ids.end()?;
    lens.end()?;
    times.end()?;
    values.end()
}

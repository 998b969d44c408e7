//! Reading a journal file front to back without holding all of it.

use bytes::Bytes;

use super::super::error::OpenError;
use super::super::format::{
    BLOCK, Place, RECORD_HEADER, ROUND_HEADER, RecordHeader, RoundHeader, record_extent,
};
use super::files::{FirstRound, Used};
use super::{Records, parse_records};
use crate::disk::read_full_at;

const WINDOW_BYTES: usize = 4 << 20;

/// How many times over a range is checksummed at most when it is searched for records.
const SALVAGE_WORK_MAX: usize = 64;

/// A stretch of one file. What it gives out shares its memory.
#[derive(Debug, Default)]
pub(super) struct Window {
    number: Option<u64>,
    start: u64,
    bytes: Bytes,
}

impl Window {
    /// The round, or mark, at a position: its header, and its records if all of them are valid.
    /// `None` when there is no whole round.
    pub(super) fn round(
        &mut self,
        used: &Used,
        position: u64,
    ) -> Result<Option<(RoundHeader, Records)>, OpenError> {
        let Some(header) = self.header(used, position)? else { return Ok(None) };
        let body_at = used.offset(position) + ROUND_HEADER as u64;
        let body = self.read(used, body_at, header.body_bytes as usize)?;
        Ok(parse_records(&header, used.salt, &body).map(|records| (header, records)))
    }

    /// The header of the round, or mark, at a position.
    pub(super) fn header(
        &mut self,
        used: &Used,
        position: u64,
    ) -> Result<Option<RoundHeader>, OpenError> {
        let bytes = self.read(used, used.offset(position), ROUND_HEADER)?;
        let header = RoundHeader::read(&bytes, used.salt);
        Ok(header.filter(|header| header.position == position))
    }

    /// Finds out where a file begins, and whether its first round was ever durable.
    pub(super) fn first_round(&mut self, used: &mut Used) -> Result<FirstRound, OpenError> {
        let first = self.read(used, BLOCK, ROUND_HEADER)?;
        let first = RoundHeader::read(&first, used.salt);
        if let Some(header) = &first {
            (used.base, used.follows) = (header.position, header.follows);
            used.counts = header.counts;
            if self.round(used, header.position)?.is_some() {
                return Ok(FirstRound::Durable);
            }
        }
        let mut offset = 2 * BLOCK;
        while offset < used.len {
            let bytes = self.read(used, offset, ROUND_HEADER)?;
            if let Some(header) = RoundHeader::read(&bytes, used.salt) {
                used.base = header.position.saturating_sub(offset - BLOCK);
                used.follows = header.follows;
                used.counts = header.counts;
                return Ok(FirstRound::Durable);
            }
            offset += BLOCK;
        }
        Ok(if first.is_some() { FirstRound::Torn } else { FirstRound::None })
    }

    /// The first readable header from a position on.
    pub(super) fn next_header(
        &mut self,
        used: &Used,
        from: u64,
        until: Option<u64>,
    ) -> Result<Option<RoundHeader>, OpenError> {
        let end = until.unwrap_or(u64::MAX).min(used.position(used.len.max(BLOCK)));
        let mut position = from;
        while position < end {
            if let Some(header) = self.header(used, position)? {
                return Ok(Some(header));
            }
            position += BLOCK;
        }
        Ok(None)
    }

    /// Every valid record between two positions that `plausible` lets through.
    pub(super) fn salvage(
        &mut self,
        used: &Used,
        from: u64,
        to: u64,
        plausible: &dyn Fn(&RecordHeader) -> bool,
    ) -> Result<Records, OpenError> {
        let bytes = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        let range = self.read(used, used.offset(from), bytes)?;
        // Bytes that a user chose can look like headers of long records. They cost time, and they
        // must not cost much of it.
        let mut budget = range.len().saturating_mul(SALVAGE_WORK_MAX);
        let mut records = Vec::new();
        let mut at = 0;
        while let Some(rest) = range.get(at..).filter(|rest| rest.len() >= RECORD_HEADER) {
            let place = Place { salt: used.salt, position: from + at as u64 };
            let claimed = RecordHeader::claimed_bytes(rest).filter(|&claimed| claimed <= budget);
            let claimed = claimed.filter(|_| RecordHeader::looks_like(rest, plausible));
            budget -= claimed.unwrap_or(0);
            match claimed.and_then(|_| RecordHeader::read(place, rest)) {
                Some((record, payload)) => {
                    let payload = range.slice_ref(payload);
                    at += record_extent(payload.len());
                    records.push((record, place.position, payload));
                }
                None => at += 8,
            }
        }
        Ok(records)
    }

    /// Up to `bytes` bytes at an offset; fewer where the file ends.
    pub(super) fn read(
        &mut self,
        used: &Used,
        offset: u64,
        bytes: usize,
    ) -> Result<Bytes, OpenError> {
        let end = offset.saturating_add(bytes as u64);
        let covered = self.number == Some(used.number)
            && offset >= self.start
            && end <= self.start + self.bytes.len() as u64;
        if !covered {
            let left = usize::try_from(used.len.saturating_sub(offset)).unwrap_or(usize::MAX);
            let mut fresh = vec![0; bytes.max(WINDOW_BYTES).min(left)];
            let read = read_full_at(&*used.file, &mut fresh, offset)
                .map_err(OpenError::disk(&used.path))?;
            fresh.truncate(read);
            *self = Self { number: Some(used.number), start: offset, bytes: fresh.into() };
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let from = from.min(self.bytes.len());
        let to = from.saturating_add(bytes).min(self.bytes.len());
        Ok(self.bytes.slice(from..to))
    }
}

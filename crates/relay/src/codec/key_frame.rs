//! All that a decoder knows between two segments.
//!
//! ```text
//! key frame   │ sized delta of the dictionary, from nothing
//!             │ scale u8 × series        0 … 9 decimals │ 127 none │ + 128 if there was a sample
//!             │ sized: time × series     signed, each less the one before
//!             │ sized: step × series     signed
//!             │ sized: drift × series    signed
//!             │ bits u64 × series
//! ```

use bytes::Bytes;

use super::container::{self, Chain, DecodeError, Kind};
use super::dictionary::{Dictionary, Extent};
use super::track::{NO_SCALE, SCALE_MAX, Track};
use super::tracks::Tracks;
use super::{CodecLimits, Workbench};
use crate::wire::{self, Front, Malformed};

const SEEN: u8 = 0x80;
const SCALE_NONE: u8 = 0x7f;

pub(super) fn write(
    dictionary: &Dictionary,
    extent: Extent,
    tracks: &Tracks,
    chain: Chain,
    bench: &mut Workbench,
) -> Bytes {
    let Workbench { inside, packed: column, .. } = bench;
    inside.clear();
    column.clear();
    dictionary.write(Extent::default(), extent, column);
    wire::put_bytes(inside, column);
    inside.extend(tracks.iter().map(|track| {
        let scale = if track.scale == NO_SCALE { SCALE_NONE } else { track.scale };
        scale | if track.seen { SEEN } else { 0 }
    }));
    let mut put = |number: &mut dyn FnMut(&Track) -> i64| {
        column.clear();
        for track in tracks.iter() {
            wire::put_signed(column, number(track));
        }
        wire::put_bytes(inside, column);
    };
    let mut before = 0;
    put(&mut |track| track.time.wrapping_sub(std::mem::replace(&mut before, track.time)));
    put(&mut |track| track.step.into());
    put(&mut |track| track.drift);
    for track in tracks.iter() {
        inside.extend_from_slice(&track.bits.to_le_bytes());
    }
    container::close(Kind::KeyFrame, chain, bench)
}

pub(super) fn read(
    bytes: &[u8],
    limits: &CodecLimits,
    bench: &mut Workbench,
) -> Result<(Dictionary, Tracks, Chain), DecodeError> {
    let max = limits.key_frame_inside_bytes_max;
    let opened = container::open(bytes, Kind::KeyFrame, max, bench)?;
    let mut front = Front(opened.inside);
    let mut delta = Front(front.sized()?);
    let mut dictionary = Dictionary::default();
    dictionary.read(&mut delta, limits)?;
    delta.end()?;
    let series = dictionary.extent().series as usize;
    let scales = front.bytes(series)?;
    let mut times = Front(front.sized()?);
    let mut steps = Front(front.sized()?);
    let mut drifts = Front(front.sized()?);
    let mut tracks = Tracks::default();
    let mut before = 0_i64;
    for scale in scales {
        let seen = scale & SEEN != 0;
        let scale = match scale & !SEEN {
            SCALE_NONE => NO_SCALE,
            scale if scale <= SCALE_MAX => scale,
            _ => return Err(Malformed("has more decimals than there can be").into()),
        };
        before = before.wrapping_add(times.signed()?);
        let step = i32::try_from(steps.signed()?);
        let step = step.map_err(|_| Malformed("has a step that is too great"))?;
        let drift = drifts.signed()?;
        tracks.push(Track { time: before, bits: 0, drift, step, scale, seen, patience: 0 });
    }
    for column in [times, steps, drifts] {
        column.end()?;
    }
    for track in tracks.iter_mut() {
        track.bits = front.u64()?;
    }
    front.end()?;
    Ok((dictionary, tracks, opened.chain))
}

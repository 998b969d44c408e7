//! `bench relay`: what a sample takes and how fast it is packed, against remote write of the same
//! batches.
//!
//! ```text
//!  corpus ─▶ batches ─▶ segments                          bytes a sample, labels and all
//!               │          └▶ decoded ─▶ remote write 1.0 Snappy · 2.0 Snappy · 2.0 zstd
//!               └▶ over and over, one core                encode · decode
//! ```
//!
//! Corpora are made up, one for each way that series move, and recorded ones: scrapes of real
//! programs, as `bench/corpus/record` leaves them. Nothing here goes through a disk or a socket: it is
//! the codec that is measured, and a core of this machine.

mod made_up;
mod recorded;

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use handoff_probe::now;
use handoff_relay::codec::{CodecLimits, Decoded, Decoder, Encoder, Trailing, Workbench};
use handoff_relay::remote_write::{write_v1, write_v2};
use handoff_relay::{Batch, BlockId, Sharder, Shards};

use crate::report::{Goal, Report, Row, Settings};
use crate::samples::Samples;
use crate::{Failed, relay::made_up::Shape};

const BLOCK: BlockId = BlockId([7; 16]);

/// A time and a value.
const SAMPLE_BYTES: usize = 16;

/// Series of one batch where there are many.
const AT_ONCE: usize = 1_000;

/// How often series are scraped before their memory is looked at.
const SCRAPES: i64 = 3;

/// As whoever sends zstd sends it by default.
const ZSTD_LEVEL: i32 = 3;

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long one measurement of speed runs.
    time: Duration,
    repeats: usize,
    series: usize,
    scrapes: usize,
    /// Series for what one takes of memory.
    many: usize,
    /// Recorded scrapes.
    pub corpus: Option<PathBuf>,
}

impl Plan {
    /// An hour of scrapes every fifteen seconds; measurements of speed of this length, three times.
    #[must_use]
    pub const fn of(time: Duration) -> Self {
        Self { time, repeats: 3, series: 5_000, scrapes: 240, many: 500_000, corpus: None }
    }

    /// Everything once and short, to see that it works.
    #[must_use]
    pub const fn quick() -> Self {
        let time = Duration::from_millis(100);
        Self { time, repeats: 1, series: 500, scrapes: 20, many: 20_000, corpus: None }
    }
}

/// Measures, and tells on the way what it is doing.
///
/// # Errors
/// See [`Failed`].
pub fn run(plan: &Plan, talk: &dyn Fn(&str)) -> Result<Report, Failed> {
    // First of all: what was let go before would be used again, and not be seen.
    talk(&format!("memory of {} series", plan.many));
    let memory = memory(plan.many)?;
    let mut rows = Vec::new();
    for (key, name, shapes, most) in [
        ("counters", "integer counters", &[Shape::Counter][..], Some(2.0)),
        ("decimals", "gauges with two decimals", &[Shape::Decimal], Some(4.0)),
        ("doubles", "full doubles", &[Shape::Entropy], Some(8.5)),
        ("mixed", "mixed", Shape::MIXED, Some(5.0)),
    ] {
        talk(&format!("{name}: {} series, {} scrapes", plan.series, plan.scrapes));
        let batches = made_up::scrapes(shapes, plan.series, plan.scrapes);
        rows.extend(sizes(key, name, &batches, most)?);
        if key == "mixed" {
            rows.extend(speeds(plan, key, &batches, talk)?);
        }
    }
    if let Some(dir) = &plan.corpus {
        let batches = recorded::scrapes(dir)?;
        talk(&format!("recorded: {} scrapes", batches.len()));
        rows.extend(sizes("recorded", "recorded", &batches, None)?);
        rows.extend(speeds(plan, "recorded", &batches, talk)?);
    }
    rows.extend(memory);
    let settings = Settings {
        seconds: plan.time.as_secs_f64(),
        repeats: plan.repeats,
        payload_bytes: SAMPLE_BYTES,
        processors: thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Report { bench: "relay", settings, rows })
}

fn broke(error: impl std::fmt::Display) -> Failed {
    Failed::Broke(io::Error::other(error.to_string()))
}

fn samples(batches: &[Batch]) -> f64 {
    let all: usize = batches.iter().map(Batch::samples_len).sum();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    {
        all as f64
    }
}

fn once(value: f64) -> Samples {
    Samples::from_iter([value])
}

/// Every batch as a segment of one block.
fn segments(batches: &[Batch], bench: &mut Workbench) -> Result<Vec<bytes::Bytes>, Failed> {
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    let sharder = Sharder::new(Shards::ONE);
    let mut segments = Vec::with_capacity(batches.len());
    for batch in batches {
        encoder.add(&sharder.shard(batch)).map_err(broke)?;
        segments.extend(encoder.encode(bench).map(|segment| segment.bytes));
    }
    Ok(segments)
}

/// Bytes a sample, beside remote write of the same batches.
fn sizes(key: &str, name: &str, batches: &[Batch], most: Option<f64>) -> Result<Vec<Row>, Failed> {
    let mut bench = Workbench::new().map_err(Failed::Broke)?;
    let segments = segments(batches, &mut bench)?;
    let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
    let mut decoded = Decoded::default();
    let (mut ours, mut one, mut two, mut packed) = (0, 0, 0, 0);
    let mut message = Vec::new();
    for segment in &segments {
        ours += segment.len();
        decoder.take(segment, None, &mut bench, &mut decoded).map_err(broke)?;
        message.clear();
        write_v1(&decoded, &decoder, &mut message);
        one += snap::raw::Encoder::new().compress_vec(&message).map_err(broke)?.len();
        message.clear();
        write_v2(&decoded, &decoder, &mut message).map_err(broke)?;
        two += snap::raw::Encoder::new().compress_vec(&message).map_err(broke)?.len();
        packed += zstd::bulk::compress(&message, ZSTD_LEVEL).map_err(Failed::Broke)?.len();
    }
    let all = samples(batches);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let each = |bytes: usize| once(bytes as f64 / all);
    let row = |suffix: &str, what: &str| {
        let (key, name) = (format!("{key}_bytes{suffix}"), format!("{name}, bytes a sample{what}"));
        Row::new(key, name, "B", &each(ours))
    };
    // The goals of the whole stream are for what a host sends, not for one way that series move.
    let of_a_host = ["mixed", "recorded"].contains(&key);
    let whole = |row: Row, share| if of_a_host { row.goal(Goal::WithinFloor(share)) } else { row };
    let alone = row("", "");
    Ok(vec![
        most.map_or(alone.clone(), |most| alone.goal(Goal::AtMost(most))),
        whole(row("_by_v1", " by 1.0").floor("remote write 1.0, Snappy", &each(one)), 0.25),
        row("_by_v2", " by 2.0").floor("remote write 2.0, Snappy", &each(two)),
        whole(
            row("_by_v2_zstd", " by 2.0 zstd").floor("remote write 2.0, zstd", &each(packed)),
            0.6,
        ),
    ])
}

/// Samples a second on one core: packing and unpacking, over and over.
fn speeds(
    plan: &Plan,
    key: &str,
    batches: &[Batch],
    talk: &dyn Fn(&str),
) -> Result<Vec<Row>, Failed> {
    talk("packing and unpacking on one core");
    let mut bench = Workbench::new().map_err(Failed::Broke)?;
    let packed = segments(batches, &mut bench)?;
    let each = samples(batches);
    let (mut encode, mut decode) = (Samples::default(), Samples::default());
    let mut decoded = Decoded::default();
    for _ in 0..plan.repeats {
        let (begun, mut done) = (now(), 0.0);
        while begun.elapsed() < plan.time {
            segments(batches, &mut bench)?;
            done += each;
        }
        encode.push(done / begun.elapsed().as_secs_f64());
        let (begun, mut done) = (now(), 0.0);
        while begun.elapsed() < plan.time {
            let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
            for segment in &packed {
                decoder.take(segment, None, &mut bench, &mut decoded).map_err(broke)?;
            }
            done += each;
        }
        decode.push(done / begun.elapsed().as_secs_f64());
    }
    Ok(vec![
        Row::new(format!("{key}_encode_rate"), format!("{key}, samples packed"), "/s", &encode)
            .goal(Goal::AtLeast(3e6)),
        Row::new(format!("{key}_decode_rate"), format!("{key}, samples unpacked"), "/s", &decode)
            .goal(Goal::AtLeast(5e6)),
    ])
}

/// One shard of an agent: an encoder and its trailing decoder.
struct Shard {
    encoder: Encoder,
    trailing: Trailing,
    series: usize,
}

impl Shard {
    /// One that knows so many series.
    fn of(series: usize, bench: &mut Workbench) -> Result<Self, Failed> {
        let encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
        let mut shard = Self { encoder, trailing: Trailing::new(BLOCK, 0), series };
        shard.scrape(0, bench)?;
        Ok(shard)
    }

    /// A sample of each of its series, a thousand at a time; then everybody has confirmed them.
    fn scrape(&mut self, step: i64, bench: &mut Workbench) -> Result<(), Failed> {
        let sharder = Sharder::new(Shards::ONE);
        for from in (0..self.series).step_by(AT_ONCE) {
            let batch = made_up::some(step, from, AT_ONCE.min(self.series - from));
            self.encoder.add(&sharder.shard(&batch)).map_err(broke)?;
            self.encoder.encode(bench);
        }
        self.trailing.catch_up(&self.encoder);
        Ok(())
    }
}

/// What a series takes of an agent's memory, the trailing decoder included, as the system counts it.
///
/// An agent that runs: a shard is there already, so that what is shared by all is paid for; then comes
/// one with many series, and both are scraped some times more. What is resident beyond the first shard
/// is the second one's, with all that the allocator holds for it. Right after so many new series came at
/// once more is resident, until what was outgrown is given back: that is a figure of its own.
fn memory(series: usize) -> Result<Vec<Row>, Failed> {
    let mut bench = Workbench::new().map_err(Failed::Broke)?;
    let mut small = Shard::of(series / 10, &mut bench)?;
    for step in 1..=SCRAPES {
        small.scrape(step, &mut bench)?;
    }
    let before = resident();
    let mut large = Shard::of(series, &mut bench)?;
    let sudden = resident();
    for step in 1..=SCRAPES {
        small.scrape(SCRAPES + step, &mut bench)?;
        large.scrape(step, &mut bench)?;
    }
    let after = resident();
    drop((small, large));
    let row = |key, name, then: Option<u64>| {
        let grown = before.zip(then).map(|(before, then)| then.saturating_sub(before));
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let each: Samples = grown.map(|grown| grown as f64 / series as f64).into_iter().collect();
        Row::new(key, name, "B", &each)
    };
    Ok(vec![
        row("series_bytes", "memory of a series, trailing decoder included", after)
            .goal(Goal::AtMost(150.0)),
        row("series_bytes_sudden", "the same just after all of them were new at once", sudden),
    ])
}

/// What this process has in memory; none where the system does not say.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

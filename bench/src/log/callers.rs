//! Callers that each wait for one small record, against plain group commit.

use std::fs::File;
use std::io;

use handoff_probe::{GroupCommit, Load, overwrite, zero_filled};
use handoff_types::Room;

use super::Plan;
use super::subject::{Subject, entry};
use super::turns::take_turns;
use crate::device::Flushes;
use crate::report::{Goal, Row};
use crate::samples::Samples;
use crate::site::Site;

/// What one caller may take above the raw sync, in microseconds.
const ABOVE_RAW_MAX: f64 = 40.0;
/// What the journal should reach of plain group commit.
const OF_PROBE_MIN: f64 = 0.8;
/// A round of one small record takes this in the journal, so the raw sync writes as much.
const ROUND_BYTES: usize = 4096;

/// What some number of callers saw, on one side.
#[derive(Debug, Default)]
struct Side {
    rate: Samples,
    p50: Samples,
    p99: Samples,
    records_per_sync: Samples,
    flushes_per_call: Samples,
}

impl Side {
    /// Measures once. `run` gives what callers saw and how many syncs that took.
    fn measure(
        &mut self,
        flushes: Option<Flushes>,
        run: impl FnOnce() -> io::Result<(Load, u64)>,
    ) -> io::Result<()> {
        let before = flushes.and_then(Flushes::count);
        let (load, syncs) = run()?;
        let after = flushes.and_then(Flushes::count);
        let calls = load.calls() as f64;
        self.rate.push(load.rate());
        self.p50.push(load.micros_at(0.5));
        self.p99.push(load.micros_at(0.99));
        self.records_per_sync.push(calls / syncs.max(1) as f64);
        let flushed = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        self.flushes_per_call.extend(flushed.map(|flushed| flushed as f64 / calls));
        Ok(())
    }
}

/// The journal and the probe with the same number of callers.
struct Pair {
    callers: usize,
    journal: Side,
    probe: Side,
}

pub(super) fn measure(plan: &Plan, site: &Site, talk: &dyn Fn(&str)) -> io::Result<Vec<Row>> {
    talk("callers: warming a journal");
    let corner = site.corner("callers")?;
    let subject = Subject::warm(plan, &corner.disk)?;
    let file = zero_filled(&corner.file("probe"), plan.file_bytes)?;
    let mut raw = Side::default();
    let pair = |callers| Pair { callers, journal: Side::default(), probe: Side::default() };
    let mut pairs = [1, 16, 256].map(pair);
    for turn in 0..plan.repeats {
        talk(&format!("callers: 1, 16 and 256, {} of {}", turn + 1, plan.repeats));
        raw.measure(site.flushes, || {
            let load = overwrite(&file, plan.file_bytes, ROUND_BYTES, plan.time)?;
            let syncs = load.calls() as u64;
            Ok((load, syncs))
        })?;
        for Pair { callers, journal, probe } in &mut pairs {
            let callers = *callers;
            take_turns(
                turn,
                &mut [
                    &mut || journal.measure(site.flushes, || call_journal(plan, &subject, callers)),
                    &mut || probe.measure(site.flushes, || call_probe(plan, &file, callers)),
                ],
            )?;
        }
    }
    Ok(rows(&raw, &pairs))
}

fn call_journal(plan: &Plan, subject: &Subject, callers: usize) -> io::Result<(Load, u64)> {
    let before = subject.journal.stats();
    let payload = entry(Room::Counter, plan.payload_bytes, None);
    let load = handoff_probe::drive(callers, plan.time, || subject.call(payload.clone()))?;
    Ok((load, subject.journal.stats().rounds - before.rounds))
}

fn call_probe(plan: &Plan, file: &File, callers: usize) -> io::Result<(Load, u64)> {
    let probe = GroupCommit::start(file.try_clone()?, plan.file_bytes);
    let payload = vec![0x5a; plan.payload_bytes];
    let load = handoff_probe::drive(callers, plan.time, || probe.append(&payload));
    let rounds = probe.stop()?;
    Ok((load?, rounds))
}

fn rows(raw: &Side, pairs: &[Pair]) -> Vec<Row> {
    let mut rows = vec![
        Row::new("raw_sync_p50", "raw fdatasync of 4 KiB, p50", "µs", &raw.p50),
        Row::new("raw_sync_p99", "raw fdatasync of 4 KiB, p99", "µs", &raw.p99),
        Row::new(
            "raw_sync_flushes",
            "raw fdatasync, device flushes per sync",
            "",
            &raw.flushes_per_call,
        ),
    ];
    for pair in pairs {
        rows.extend(pair.rows(raw));
    }
    rows
}

impl Pair {
    fn rows(&self, raw: &Side) -> Vec<Row> {
        const PROBE: &str = "probe";
        const RAW: &str = "raw fdatasync";
        let Self { callers, journal, probe } = self;
        let who = if *callers == 1 { "1 caller".to_owned() } else { format!("{callers} callers") };
        let row = |key: &str, name: &str, unit, samples: &Samples| {
            Row::new(format!("callers_{callers}_{key}"), format!("{who}, {name}"), unit, samples)
        };
        let p50 = row("p50", "p50", "µs", &journal.p50);
        let p99 = row("p99", "p99", "µs", &journal.p99);
        let rate = row("rate", "rate", "/s", &journal.rate).floor(PROBE, &probe.rate);
        let mut rows = Vec::new();
        if *callers == 1 {
            let above = journal.p50.minus(&raw.p50);
            rows.extend([
                p50.floor(RAW, &raw.p50),
                row("above_raw", "p50 above the raw one", "µs", &above)
                    .floor(PROBE, &probe.p50.minus(&raw.p50))
                    .goal(Goal::AtMost(ABOVE_RAW_MAX)),
                p99.floor(RAW, &raw.p99),
                rate,
            ]);
        } else {
            rows.extend([
                rate.goal(Goal::OfFloor(OF_PROBE_MIN)),
                p50.floor(PROBE, &probe.p50),
                p99.floor(PROBE, &probe.p99),
            ]);
        }
        rows.extend([
            row("records_per_sync", "records per sync", "", &journal.records_per_sync)
                .floor(PROBE, &probe.records_per_sync),
            row("flushes", "device flushes per acknowledgement", "", &journal.flushes_per_call)
                .floor(PROBE, &probe.flushes_per_call),
        ]);
        rows
    }
}

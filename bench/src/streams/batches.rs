//! Batches: as fast as they go, with single messages to another topic beside them.
//!
//! Three times: by default settings, small messages, and as a burst inside the ring of the journal:
//! a server whose operator gave the journal room for seconds of a flood, and which has made the
//! files of that ring before.

use std::io;
use std::thread;
use std::time::Duration;

use super::{BATCH, Bench, JSON, MESSAGE_BYTES, Run, create, produce, row};
use crate::Failed;
use crate::http::{Requests, ask};
use crate::load::{Offer, drive};
use crate::report::Goal;
use crate::server::{Server, settled};

/// What a burst leaves for the journal to keep until the flood is over: bytes in a second, at most.
const FLOOD_BYTES: u64 = 600 << 20;

/// A checkpoint, which needs what was sent to be in its place, is due after a quarter of the ring.
const RING_SHARE: u64 = 4;

/// What is stored to make the ring whole goes here, and is gone before anything is measured.
const WARM: &str = "warm";

/// One run of batches.
struct Batches {
    key: &'static str,
    name: String,
    bytes: usize,
    goal: Option<Goal>,
}

impl Run<'_> {
    pub(super) fn batches(&mut self) -> Result<(), Failed> {
        for (key, bytes) in [("batch_1024", MESSAGE_BYTES), ("batch_100", 100)] {
            (self.talk)(&format!("batches: {BATCH} messages of {bytes} B"));
            let bench = self.server("batches")?;
            let name = format!("{BATCH} messages of {bytes} B a request, 8 under way");
            self.flood(&bench, &Batches { key, name, bytes, goal: None })?;
            bench.server.stop()?;
        }
        self.burst()
    }

    fn burst(&mut self) -> Result<(), Failed> {
        let seconds = self.plan.time.as_millis().div_ceil(1_000);
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        let ring_bytes = (FLOOD_BYTES * RING_SHARE).saturating_mul(seconds);
        (self.talk)(&format!("burst: making a ring of {:.1} GB", ring_bytes as f64 / 1e9));
        let settings = [
            ("HANDOFF_LOG__JOURNAL_BYTES_MAX", ring_bytes.to_string()),
            ("HANDOFF_LOG__CHECKPOINT_BYTES", (ring_bytes / RING_SHARE).to_string()),
        ];
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut bench = self.server_with("burst", &settings)?;
        bench.make_round(ring_bytes)?;
        bench.server.stop()?;
        // A start takes a checkpoint of what earlier lives left, so the next one is far away.
        bench.server = Server::start_with(self.program, &bench.data, &settings)?;
        settled(&bench.data, "streams");
        (self.talk)("burst: batches");
        let name = format!("{BATCH} messages of 1024 B a request, a burst inside the ring");
        let goal = Some(Goal::AtLeast(500_000.0));
        self.flood(&bench, &Batches { key: "burst", name, bytes: MESSAGE_BYTES, goal })?;
        bench.server.stop()?;
        Ok(())
    }

    /// Eight batches under way, and one message at a time beside them.
    fn flood(&mut self, bench: &Bench, batches: &Batches) -> Result<(), Failed> {
        let Batches { key, name, bytes, goal } = batches;
        let (http, time) = (bench.server.http(), self.plan.time);
        create(http, "batches", 4)?;
        create(http, "beside", 1)?;
        let mut requests = Requests::of(vec![produce("batches", BATCH, *bytes, &[])]);
        let (load, beside) = thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let mut one = Requests::of(vec![produce("beside", 1, MESSAGE_BYTES, &[])]);
                drive(http, Offer::of(1, 1, time), &mut one)
            });
            let load = drive(http, Offer::of(4, 2, time), &mut requests);
            let beside = beside.join().unwrap_or_else(|_| Err(io::Error::other("panicked")));
            (load, beside)
        });
        let (load, beside) = (load?, beside?);
        let rate = row(&format!("{key}_rate"), name, "/s", load.rate() * BATCH as f64);
        self.rows.push(goal.map_or(rate.clone(), |goal| rate.goal(goal)));
        let p99 = beside.micros_at(0.99) / 1e3;
        let name = "1 message to another topic meanwhile, p99";
        let p99 = row(&format!("{key}_beside_p99"), name, "ms", p99);
        self.rows.push(p99.goal(Goal::AtMost(20.0)));
        let memory = bench.server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
        let memory = row(&format!("{key}_memory"), "memory of the server then", "MB", memory);
        self.rows.push(memory.goal(Goal::AtMost(150.0)));
        Ok(())
    }
}

impl Bench {
    /// Writes until more files of the ring were used than a burst will need.
    fn make_round(&self, ring_bytes: u64) -> io::Result<()> {
        let http = self.server.http();
        create(http, WARM, 4)?;
        let mut requests = Requests::of(vec![produce(WARM, BATCH, MESSAGE_BYTES, &[])]);
        let batches = 2 * ring_bytes / RING_SHARE / (BATCH * MESSAGE_BYTES) as u64;
        let requests_max = usize::try_from(batches).unwrap_or(usize::MAX).max(1);
        drive(http, Offer { requests_max, ..Offer::of(4, 2, Duration::MAX) }, &mut requests)?;
        let path = format!("/v1/streams/topics/{WARM}");
        let delete = format!("DELETE {path} HTTP/1.1\r\nhost: localhost\r\naccept: {JSON}\r\n\r\n");
        ask(http, delete.into_bytes()).map(drop)
    }
}

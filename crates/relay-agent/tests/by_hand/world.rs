//! An agent, its disk, and destinations that store what they take at once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use handoff_log::disk::{Disk, Faults, Faulty};
use handoff_relay::codec::{Decoded, Workbench};
use handoff_relay::session::Message;
use handoff_relay::{Batch, BlockId, Outcome, Received, Receiver, Sample, SendError, ShardId};
use handoff_relay_agent::{Address, Answer, ByHand, Call, Destination, Outside, Settings};
use handoff_types::{Entropy, Now, Span, Steady, Wall};

/// A destination.
pub(crate) struct Centre {
    pub(crate) up: bool,
    pub(crate) taken: BTreeMap<u64, u32>,
    pub(crate) marks: BTreeMap<(BlockId, ShardId), u32>,
    pub(crate) skips: usize,
    /// Bytes of segments that came.
    pub(crate) segment_bytes: u64,
    receivers: BTreeMap<BlockId, Receiver>,
    speakers: BTreeMap<BlockId, u64>,
}

pub(crate) struct World {
    pub(crate) agent: Option<ByHand>,
    pub(crate) centres: Vec<Centre>,
    pub(crate) faults: Faults,
    pub(crate) settings: Settings,
    disk: Arc<dyn Disk>,
    now: Arc<Mutex<Now>>,
    dice: Arc<Mutex<u128>>,
    lines: Vec<(Call, bool)>,
    bench: Workbench,
    sent: u64,
    noise: u64,
}

pub(crate) fn settings(destinations: usize) -> Settings {
    let address = Address { host: "there".to_owned(), port: 1, tls: false };
    let destination = |n| Destination {
        name: format!("d{n}"),
        address: address.clone(),
        token: String::new(),
        ca_file: None,
    };
    let mut settings = Settings { name: "edge".to_owned(), ..Settings::default() };
    settings.destinations = (0..destinations).map(destination).collect();
    settings.rules.exchange.window = Span::from_secs(1);
    settings.rules.promise_max = Span::from_secs(5);
    settings.rules.linger = Span::from_millis(100);
    settings.backoff.first = Span::from_millis(100);
    settings.backoff.most = Span::from_millis(500);
    settings
}

impl World {
    pub(crate) fn new(settings: Settings, disk: Arc<dyn Disk>) -> Self {
        let now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1_000_000) };
        let (_, faults) = Faulty::new(Arc::clone(&disk));
        let centre = |_: &Destination| Centre {
            up: true,
            taken: BTreeMap::new(),
            marks: BTreeMap::new(),
            skips: 0,
            segment_bytes: 0,
            receivers: BTreeMap::new(),
            speakers: BTreeMap::new(),
        };
        let mut world = Self {
            agent: None,
            centres: settings.destinations.iter().map(centre).collect(),
            faults,
            settings,
            disk,
            now: Arc::new(Mutex::new(now)),
            dice: Arc::new(Mutex::new(1)),
            lines: Vec::new(),
            bench: Workbench::new().unwrap(),
            sent: 0,
            noise: 1,
        };
        world.start();
        world
    }

    /// Starts the agent on whatever is on the disk.
    pub(crate) fn start(&mut self) {
        self.lines.clear();
        let (disk, faults) = Faulty::new(Arc::clone(&self.disk));
        self.faults = faults;
        let (now, dice) = (Arc::clone(&self.now), Arc::clone(&self.dice));
        let roll = move || {
            let mut dice = dice.lock().unwrap();
            *dice = dice.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(99);
            Entropy(*dice)
        };
        let outside = Outside::new(move || *now.lock().unwrap(), roll);
        let agent = ByHand::open(self.settings.clone(), Arc::new(disk), outside);
        self.agent = Some(agent.unwrap());
    }

    /// The disk below the faults.
    pub(crate) fn replace_disk(&mut self, disk: Arc<dyn Disk>) {
        self.disk = disk;
    }

    pub(crate) fn agent(&mut self) -> &mut ByHand {
        self.agent.as_mut().unwrap()
    }

    /// Sends so many samples that cannot be packed.
    pub(crate) fn send(&mut self, count: u64) -> Answer {
        let mut batch = Batch::default();
        for number in 0..count {
            self.sent += 1;
            self.noise = self.noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let time = i64::from_ne_bytes((self.noise >> 24).to_ne_bytes());
            let name = format!("s{number}");
            let sample = Sample::new(time, self.sent as f64);
            batch.push([(&b"n"[..], name.as_bytes())], &[sample]).unwrap();
        }
        self.agent().send(batch)
    }

    /// The samples sent last were refused: they are nobody's.
    pub(crate) fn forget(&mut self, count: u64) {
        self.sent -= count;
    }

    /// Sends, and runs until there is an answer.
    pub(crate) fn ask(&mut self, count: u64) -> Result<Outcome, SendError> {
        let mut answer = self.send(count);
        for _ in 0..1_000 {
            if let Some(said) = answer.look() {
                return said;
            }
            self.run(Span::from_millis(20));
        }
        panic!("no answer");
    }

    /// Lets time pass, and everything happen that can.
    pub(crate) fn run(&mut self, span: Span) {
        let step = Span(span.0.min(20_000));
        for _ in 0..(span.0 / step.0.max(1)).max(1) {
            let mut now = self.now.lock().unwrap();
            now.steady = now.steady + step;
            now.wall = now.wall + step;
            drop(now);
            self.turn();
        }
    }

    /// A long time passes in which nothing happens.
    pub(crate) fn leap(&mut self, span: Span) {
        let mut now = self.now.lock().unwrap();
        now.steady = now.steady + span;
        now.wall = now.wall + span;
    }

    pub(crate) fn turn(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        agent.turn();
        self.lines.extend(agent.calls().into_iter().map(|call| (call, false)));
        while agent.work() {}
        let mut lines = std::mem::take(&mut self.lines);
        lines.retain_mut(|(call, up)| self.carry(call, up));
        self.lines.extend(lines);
    }

    /// False if the line is over.
    fn carry(&mut self, call: &mut Call, up: &mut bool) -> bool {
        let (line, to) = (call.line, call.to);
        let agent = self.agent.as_mut().unwrap();
        let centre = &mut self.centres[to];
        if !centre.up {
            agent.down(line);
            return false;
        }
        if !std::mem::replace(up, true) {
            agent.up(line);
        }
        for message in call.said() {
            match centre.hear(line, &message, &mut self.bench) {
                Some(answer) => answer.into_iter().for_each(|answer| agent.hear(line, answer)),
                None => {
                    agent.down(line);
                    return false;
                }
            }
        }
        !call.is_over()
    }

    /// A destination has everything that was sent, each sample once.
    #[track_caller]
    pub(crate) fn assert_has_all(&self, to: usize) {
        let taken = &self.centres[to].taken;
        let lost: Vec<u64> = (1..=self.sent).filter(|one| !taken.contains_key(one)).collect();
        assert_eq!(lost, [0; 0], "destination {to} lacks them");
        let doubled: Vec<_> = taken.iter().filter(|(_, count)| **count > 1).collect();
        assert_eq!(doubled, [], "destination {to} has them twice");
        assert_eq!(taken.len() as u64, self.sent);
        assert_eq!(self.centres[to].skips, 0);
    }

    /// The sample that was sent last.
    pub(crate) fn last(&self) -> u64 {
        self.sent
    }

    pub(crate) fn files(&self) -> Vec<String> {
        self.disk.list("spool").unwrap()
    }
}

impl Centre {
    /// What it answers. None if it hangs up.
    fn hear(
        &mut self,
        line: u64,
        message: &Message,
        bench: &mut Workbench,
    ) -> Option<Option<Message>> {
        if let Message::Hello(hello) = message {
            let block = hello.origin.block;
            self.speakers.insert(block, line);
            let receiver = match self.receivers.entry(block) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => match Receiver::new(hello, Default::default()) {
                    Ok(receiver) => place.insert(receiver),
                    Err(refusal) => return Some(Some(refusal)),
                },
            };
            let marks = &self.marks;
            return Some(Some(receiver.greeted(hello, |s| marks.get(&(block, s)).copied())));
        }
        // Whoever greeted last speaks for a block.
        let block = *self.speakers.iter().find(|(_, speaker)| **speaker == line)?.0;
        if let Message::Segment { bytes, .. } = message {
            self.segment_bytes += bytes.len() as u64;
        }
        let receiver = self.receivers.get_mut(&block)?;
        let mut decoded = Decoded::default();
        match receiver.received(message, bench, &mut decoded) {
            Received::Nothing | Received::Ended => Some(None),
            Received::Answer(answer) => Some(Some(answer)),
            Received::Broken(why) => panic!("{why}"),
            Received::Skipped(key) => {
                self.skips += 1;
                self.marks.insert((block, key.shard), key.segment);
                Some(receiver.stored(key))
            }
            Received::Samples(key) => {
                for sample in decoded.samples() {
                    *self.taken.entry(f64::from_bits(sample.bits) as u64).or_default() += 1;
                }
                self.marks.insert((block, key.shard), key.segment);
                Some(receiver.stored(key))
            }
        }
    }
}

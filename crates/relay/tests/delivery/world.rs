//! An agent and its destinations in one process: a clock that is turned by hand, connections that
//! are cut where the test wants, a disk in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use handoff_log::disk::Disk;
use handoff_relay::codec::Workbench;
use handoff_relay::refill::{Opened, Refill, RefillError, RefillLimits, Spool, SpoolLimits};
use handoff_relay::session::{Frames, Message, encode};
use handoff_relay::{
    Batch, BlockId, DeliveryManagerKeeper, DeliveryRules, Got, Happened, Mode, Name, Outcome,
    Pledge, RefillSender, Sample, SendError, Sender, Shards, Step, Want,
};
use handoff_types::{Entropy, Now, Span, Steady, Wall};

use crate::destination::{Destination, FarEnd, Taken};

/// One connection, as the agent has it.
#[derive(Default)]
struct Connection {
    frames: Frames,
    far: FarEnd,
    out: Vec<u8>,
    /// How many bytes still pass in each direction before it is cut.
    passing: Option<(usize, usize)>,
}

struct Live {
    block: BlockId,
    to: usize,
    sender: Sender,
    connection: Option<Connection>,
    /// The destination has the numbers of the block from somebody else.
    over: bool,
}

struct Backlog {
    refill: Refill,
    senders: Vec<(usize, RefillSender, Option<Connection>)>,
}

pub struct World {
    pub rules: DeliveryRules,
    pub keeper: DeliveryManagerKeeper,
    pub destinations: Vec<Destination>,
    pub now: Now,
    pub spool: Spool,
    pub ended: BTreeMap<Pledge, Outcome>,
    pub sent: Vec<Taken>,
    /// The samples of each promise.
    pub pledged: Vec<(Pledge, Vec<Taken>)>,
    /// The next connections are cut after so many bytes in each direction.
    pub cut_next: Option<(usize, usize)>,
    pub cuts: usize,
    /// Bytes that were carried there and back.
    pub carried: (usize, usize),
    /// How often a destination was told to go on without something.
    pub skips: usize,
    /// Segments that were confirmed and are not at their destination any more.
    pub missing: u64,
    pub disk_fails: bool,
    /// Whether the agent notices that a destination is gone.
    pub notices: bool,
    /// Whether the disk stopped: the process has ended and does nothing any more.
    pub dead: bool,
    refills: BTreeMap<BlockId, Refill>,
    live: Vec<Live>,
    backlog: Vec<Backlog>,
    bench: Workbench,
    dice: u128,
    counter: u32,
}

pub const AGENT: &str = "agent-1";

pub fn name(text: &str) -> Name {
    Name::try_from(text).unwrap()
}

pub fn rules(destinations: usize) -> DeliveryRules {
    DeliveryRules {
        shards: Shards::from_power(1).unwrap(),
        destinations: (0..destinations).map(|n| name(&format!("d{n}"))).collect(),
        ..DeliveryRules::default()
    }
}

impl World {
    pub fn new(rules: DeliveryRules, disk: Arc<dyn Disk>) -> Self {
        let destinations = rules.destinations.iter().map(|_| Destination::new()).collect();
        Self::over(rules, disk, destinations)
    }

    /// An agent that starts on a disk with whatever another one left, before destinations that know
    /// what they know.
    pub fn over(rules: DeliveryRules, disk: Arc<dyn Disk>, destinations: Vec<Destination>) -> Self {
        let now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1_000_000) };
        let spool = Spool::open(disk, "spool", "quarantine", SpoolLimits::default()).unwrap();
        // Another life has other dice: a block is nobody's twice.
        let lived: usize = destinations.iter().map(|one: &Destination| one.taken.len()).sum();
        let dice = 0x1234_5678_9abc_def0 + 1_000_000 * lived as u128;
        let mut world = Self {
            keeper: DeliveryManagerKeeper::new(rules.clone(), now, Entropy(dice << 64)),
            rules,
            destinations,
            now,
            spool,
            ended: BTreeMap::new(),
            sent: Vec::new(),
            pledged: Vec::new(),
            cut_next: None,
            cuts: 0,
            carried: (0, 0),
            skips: 0,
            missing: 0,
            disk_fails: false,
            notices: false,
            dead: false,
            refills: BTreeMap::new(),
            live: Vec::new(),
            backlog: Vec::new(),
            bench: Workbench::new().unwrap(),
            dice,
            counter: 0,
        };
        for file in world.spool.files().unwrap() {
            let limits = RefillLimits::default();
            let opened = Refill::open(world.spool.clone(), limits, &file.name).unwrap();
            if let Opened::Refill(mut refill, _) = opened {
                refill.seal().unwrap();
                world.begin_backlog(*refill);
            }
        }
        world
    }

    fn roll(&mut self) -> Entropy {
        self.dice += 1;
        Entropy(self.dice << 64 | self.dice)
    }

    /// Sends some series with one sample each. Every value is there once.
    pub fn send(
        &mut self,
        series: u32,
        mode: Mode,
    ) -> Result<(Pledge, Option<Outcome>), SendError> {
        let mut batch = Batch::default();
        let mut mine = Vec::new();
        for number in 0..series {
            self.counter += 1;
            let value = format!("s{number}");
            let time = self.now.wall.0 / 1_000;
            let sample = Sample::new(time, f64::from(self.counter));
            batch.push([(&b"__name__"[..], value.as_bytes())], &[sample]).unwrap();
            mine.push((format!("__name__={value}"), time, sample.bits));
        }
        let entropy = self.roll();
        let sent = self.keeper.send(&batch, mode, self.now, entropy, &mut self.bench);
        if let Ok((pledge, outcome)) = sent {
            self.sent.extend_from_slice(&mine);
            self.pledged.push((pledge, mine));
            if let Some(outcome) = outcome {
                self.ended.insert(pledge, outcome);
            }
        }
        sent
    }

    /// Values go on behind those that were sent by an agent before.
    pub fn resume_counting(&mut self) {
        self.counter = u32::try_from(self.sent.len()).unwrap();
    }

    pub fn pass(&mut self, span: Span) {
        self.now.steady = self.now.steady + span;
        self.now.wall = self.now.wall + span;
    }

    /// Lets everything happen that can happen now.
    pub fn settle(&mut self) {
        for _ in 0..60 {
            self.turn();
        }
    }

    /// Lets time pass in small steps.
    pub fn run(&mut self, span: Span) {
        let steps = (span.0 / 100_000).max(1);
        for _ in 0..steps {
            self.pass(Span::from_millis(100));
            self.turn();
        }
        self.settle();
    }

    /// One round of the agent's shell.
    pub fn turn(&mut self) {
        if self.dead {
            return;
        }
        let entropy = self.roll();
        self.keeper.tick(self.now, entropy, &mut self.bench);
        self.spool_what_is_due();
        if self.dead {
            return;
        }
        for (pledge, outcome) in self.keeper.take_ended() {
            assert!(self.ended.insert(pledge, outcome).is_none(), "{pledge:?} ended twice");
        }
        if let Some(left) = self.keeper.take_left() {
            self.live.retain(|live| live.block != left.block());
            if let Some(mut refill) = self.refills.remove(&left.block()) {
                self.dead |= refill.write_ack_status(left.acks()).is_err();
                self.dead |= refill.seal().is_err();
                self.begin_backlog(refill);
            }
        }
        self.open_senders();
        let mut live = std::mem::take(&mut self.live);
        for one in &mut live {
            self.drive(one);
        }
        self.live = live;
        let mut backlog = std::mem::take(&mut self.backlog);
        for one in &mut backlog {
            self.drive_backlog(one);
        }
        for one in backlog {
            if one.refill.ledger().is_delivered() {
                self.dead |= one.refill.finish().is_err();
            } else {
                self.backlog.push(one);
            }
        }
    }

    fn spool_what_is_due(&mut self) {
        let blocks = [Some(self.keeper.present()), self.keeper.leaving()];
        let blocks: Vec<_> = blocks.into_iter().flatten().map(|one| one.block()).collect();
        for block in blocks {
            let (now, spool) = (self.now, self.spool.clone());
            let one = self.keeper.block_mut(block).unwrap();
            let Some(spooling) = one.spooling(now.steady, &mut self.bench) else { continue };
            if self.disk_fails {
                one.spool_is_full();
                continue;
            }
            let begun = one.begun().wall;
            let acks = handoff_relay::AckStatus::new(
                self.rules.destinations.iter().cloned(),
                self.rules.shards,
            );
            let refill = self
                .refills
                .entry(block)
                .or_insert_with(|| Refill::new(spool, RefillLimits::default(), begun, block, acks));
            match refill.append(&spooling.frames) {
                Ok(()) => one.spooled(spooling, now.steady, &mut self.bench),
                Err(RefillError::Full) => one.spool_is_full(),
                Err(RefillError::Disk(_) | RefillError::Poisoned) => self.dead = true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn open_senders(&mut self) {
        let blocks = [self.keeper.leaving(), Some(self.keeper.present())];
        for one in blocks.into_iter().flatten() {
            for (to, destination) in self.rules.destinations.iter().enumerate() {
                let block = one.block();
                if self.live.iter().any(|live| live.block == block && live.to == to) {
                    continue;
                }
                let origin = handoff_relay::Origin { agent: name(AGENT), block };
                let acks = one.acks();
                let sender = Sender::new(
                    destination.clone(),
                    origin,
                    self.rules.shards,
                    String::new(),
                    false,
                    |shard| acks.last(shard, to),
                );
                self.live.push(Live { block, to, sender, connection: None, over: false });
            }
        }
    }

    fn drive(&mut self, live: &mut Live) {
        let now = self.now.steady;
        if live.over {
            return;
        }
        if !self.destinations[live.to].up {
            if self.notices {
                self.keeper.part(live.to);
            }
            if live.connection.take().is_some() {
                self.broke(live);
            }
            return;
        }
        if live.connection.is_none() {
            let mut connection = Connection { passing: self.cut_next, ..Connection::default() };
            encode(&live.sender.connected(now), &mut connection.out);
            live.connection = Some(connection);
        }
        while let Some(want) = live.sender.wanted(now) {
            let Some(one) = self.keeper.block_mut(live.block) else { break };
            let message = match want {
                Want::Segment(key) => match one.get(key) {
                    Got::Segment(bytes) => live.sender.segment(key, &bytes),
                    // Not made yet, or in the file: then it is for the backlog.
                    Got::NotYet => None,
                    Got::Gone => {
                        one.strand();
                        None
                    }
                },
                Want::KeyFrame(key) => {
                    let (from, bytes) = one.restore(key.shard, &mut self.bench).unwrap();
                    if from.segment > key.segment {
                        one.strand();
                        break;
                    }
                    live.sender.key_frame(from, bytes)
                }
            };
            let Some(message) = message else { break };
            encode(&message, &mut live.connection.as_mut().unwrap().out);
        }
        let Some(messages) = self.exchange(live.to, &mut live.connection) else {
            self.broke(live);
            return;
        };
        for message in messages {
            let block = self.keeper.block_mut(live.block);
            let happened = live.sender.received(message, now, |shard| {
                block.as_ref().and_then(|block| block.encoded(shard))
            });
            for one in happened {
                self.happened(live, one);
            }
        }
    }

    fn happened(&mut self, live: &mut Live, happened: Happened) {
        let (now, to) = (self.now.steady, live.to);
        let Some(one) = self.keeper.block_mut(live.block) else { return };
        match happened {
            Happened::Opened => self.keeper.meet(to),
            Happened::Refused { .. } => {}
            Happened::Missing(segments) => self.missing += segments,
            Happened::Acked(key) => one.ack(key, to, now, &mut self.bench),
            Happened::Rejected { key, .. } => one.reject(key, to, now),
            Happened::Ahead(_) => {
                one.ahead(to);
                live.over = true;
            }
            Happened::Broken(words) => panic!("{words}"),
        }
    }

    fn broke(&mut self, live: &mut Live) {
        self.cuts += 1;
        live.connection = None;
        let doubted = live.sender.lost();
        let now = self.now.steady;
        if let Some(one) = self.keeper.block_mut(live.block) {
            one.doubt(&doubted, live.to, now);
        }
    }

    /// Carries bytes there and back. None if the connection broke.
    fn exchange(&mut self, to: usize, connection: &mut Option<Connection>) -> Option<Vec<Message>> {
        let one = connection.as_mut()?;
        let mut bytes = std::mem::take(&mut one.out);
        let mut cut = false;
        if let Some((there, _)) = &mut one.passing {
            cut = bytes.len() >= *there;
            bytes.truncate(*there);
            *there -= bytes.len();
        }
        let mut back = self.destinations[to].hear(&mut one.far, &bytes)?;
        if let Some((_, passing)) = &mut one.passing {
            cut |= back.len() >= *passing;
            back.truncate(*passing);
            *passing -= back.len();
        }
        self.carried.0 += bytes.len();
        self.carried.1 += back.len();
        one.frames.push(&back);
        let mut messages = Vec::new();
        while let Some(message) = one.frames.next_message().unwrap() {
            messages.push(message);
        }
        if cut && messages.is_empty() {
            return None;
        }
        Some(messages)
    }

    fn begin_backlog(&mut self, refill: Refill) {
        let mut senders = Vec::new();
        for (to, destination) in self.rules.destinations.iter().enumerate() {
            let sender =
                RefillSender::new(refill.ledger(), name(AGENT), destination, String::new());
            senders.extend(sender.map(|sender| (to, sender, None)));
        }
        self.backlog.push(Backlog { refill, senders });
    }

    fn drive_backlog(&mut self, backlog: &mut Backlog) {
        let now = self.now.steady;
        let mut acks = backlog.refill.ledger().acks().clone();
        for (to, sender, connection) in &mut backlog.senders {
            if !self.destinations[*to].up {
                *connection = None;
                sender.lost();
                continue;
            }
            if connection.is_none() {
                let mut one = Connection { passing: self.cut_next, ..Connection::default() };
                encode(&sender.connected(now), &mut one.out);
                *connection = Some(one);
            }
            loop {
                let message = match sender.step(backlog.refill.ledger(), now) {
                    Step::Say(message) => message,
                    Step::Read(key, entry) => {
                        let Ok(bytes) = backlog.refill.read(key, entry) else {
                            self.dead = true;
                            return;
                        };
                        sender.read(key, entry, &bytes).unwrap()
                    }
                    Step::Wait | Step::Done => break,
                };
                encode(&message, &mut connection.as_mut().unwrap().out);
            }
            let Some(messages) = self.exchange(*to, connection) else {
                self.cuts += 1;
                *connection = None;
                sender.lost();
                continue;
            };
            for message in messages {
                for happened in sender.received(message, now) {
                    match happened {
                        Happened::Acked(key) => {
                            acks.ack(key, sender.destination());
                        }
                        Happened::Rejected { key, reason, .. } if reason.is_permanent() => {
                            let skip = sender.skip(key, backlog.refill.ledger()).unwrap();
                            encode(&skip, &mut connection.as_mut().unwrap().out);
                            self.skips += 1;
                        }
                        Happened::Broken(words) => panic!("{words}"),
                        _ => {}
                    }
                }
            }
        }
        self.dead |= backlog.refill.write_ack_status(&acks).is_err();
    }

    /// Begins to stop, and writes until nothing is left in memory.
    pub fn stop(&mut self, within: Span) {
        self.keeper.shutdown(within, self.now.steady, &mut self.bench);
    }

    pub fn files(&self) -> usize {
        self.spool.files().unwrap().len()
    }

    /// Whether everything that was sent is at a destination, each sample once.
    pub fn assert_exactly_once(&self, to: usize, context: &str) {
        let (mut sent, mut taken) = (self.sent.clone(), self.destinations[to].taken.clone());
        sent.sort();
        taken.sort();
        let doubled = taken.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(doubled, None, "{context}: destination {to} has a sample twice");
        let lost = sent.iter().find(|sample| taken.binary_search(sample).is_err());
        assert_eq!(lost, None, "{context}: destination {to} lacks a sample");
        assert_eq!(taken.len(), sent.len(), "{context}");
    }

    /// The same of every destination.
    pub fn assert_all_exactly_once(&self, context: &str) {
        for to in 0..self.destinations.len() {
            self.assert_exactly_once(to, context);
        }
    }
}

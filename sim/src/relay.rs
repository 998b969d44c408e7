//! The world of one relay agent: the core of the real one, turned by hand, over a disk that crashes and
//! fails, before destinations that come and go.
//!
//! Whoever sends samples knows what was sent and what was answered; destinations know what came. Between
//! them lines are cut with any suffix of what was on its way lost, confirmations go missing, what was
//! said once is said again, sinks are down, receivers forget their decoders. The agent is killed, its
//! machine loses power, it is stopped and started with other shards, destinations and promises. Its
//! directory is copied, and another agent of the same name begins on the copy, or it begins on an older
//! copy itself.
//!
//! At the end of every seed everything is well: then all that is owed arrives, once, nothing stays in the
//! spool, and the agent takes samples as if nothing had been.

mod centre;
mod oracle;
mod site;
mod trouble;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use handoff_log::disk::Faulty;
use handoff_relay::codec::Workbench;
use handoff_relay::session::{Message, Reason};
use handoff_relay::{Batch, Mode, Outcome, Sample, Shards};
use handoff_relay_agent::{Address, ByHand, Call as Connection, Destination, Outside, Settings};
use handoff_types::{Entropy, Now, Span, Steady, Wall};

use self::centre::{Centre, Manner, NOT_NOW};
pub use self::oracle::Violation;
use self::oracle::{Oracle, Place, PutId, SiteId};
use self::site::Site;
use crate::dice::Dice;
use crate::driver::{Ending, Fault, World, ensure};
use crate::history::{History, Kind};

/// What is changed of the world, for tests that must see it noticed.
pub trait Twist: fmt::Debug + 'static {
    /// A receiver confirms what it has not stored.
    const CONFIRMS_EARLY: bool = false;
    /// A sink drops what it says it has.
    const DROPS: bool = false;
    /// A receiver that forgets its marks cannot tell what is next.
    const FORGETS: bool = false;
    /// A disk says that it has synced, and has nothing when the power fails.
    const LIES: bool = false;

    /// What the agent is told to do, and the oracle is not told.
    fn settings(_: &mut Settings) {}

    /// What a sink says is its mark.
    fn mark(mark: Option<u32>) -> Option<u32> {
        mark
    }

    /// What a sink makes of a value.
    fn value(bits: u64) -> u64 {
        bits
    }

    /// Why a sink that is down takes nothing.
    fn reason() -> Reason {
        NOT_NOW
    }

    /// What falls when an agent throws dice, for so many times in its life.
    fn roll(_: u64, entropy: Entropy) -> Entropy {
        entropy
    }

    /// What becomes of a message on its way to a destination.
    fn carried(message: Message) -> Message {
        message
    }
}

/// Everything as it is.
#[derive(Debug)]
pub struct Sound;

impl Twist for Sound {}

/// All the destinations there can be.
const PLACES: usize = 3;

/// What a world is made of for one life of the agent.
#[derive(Clone, Debug)]
struct Plan {
    shards: u8,
    /// Destinations by their place, sorted.
    to: Vec<Place>,
    promise: Mode,
}

/// A connection of an agent.
#[derive(Debug)]
struct Line {
    site: SiteId,
    place: Place,
    call: Connection,
    up: bool,
    /// What is on its way to the destination, and back.
    there: VecDeque<Message>,
    back: VecDeque<Message>,
}

/// The agents and their world.
pub struct Relayed<T> {
    dice: Dice,
    clock: Arc<Mutex<Now>>,
    chance: Arc<Mutex<Dice>>,
    spool_bytes: u64,
    rules: Rules,
    /// The one that something is done to.
    here: Site,
    /// Those that run on copies of its directory.
    others: Vec<Site>,
    centres: Vec<Centre>,
    lines: BTreeMap<u64, Line>,
    oracle: Oracle,
    samples: u64,
    lives: u64,
    twist: PhantomData<T>,
}

/// What stays the same for a whole seed.
#[derive(Clone, Debug)]
struct Rules {
    segment_samples: usize,
    exchange_bytes: u64,
    window: Span,
    block_bytes: u64,
    block_age: Span,
    key_frame_bytes: u64,
    temper: [u64; ACTS.len()],
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Put,
    Turn,
    Work,
    Carry,
    Store,
    Pass,
    Wait,
    Cut,
    Behave,
    Replay,
    Strike,
    Mend,
    Crash,
    Restart,
    Copy,
    Restore,
}

/// Everything that can be done, and how often at most.
const ACTS: [(Act, u64); 16] = [
    (Act::Put, 150),
    (Act::Turn, 250),
    (Act::Work, 200),
    (Act::Carry, 400),
    (Act::Store, 250),
    (Act::Pass, 150),
    (Act::Wait, 25),
    (Act::Cut, 25),
    (Act::Behave, 30),
    (Act::Replay, 10),
    (Act::Strike, 6),
    (Act::Mend, 20),
    (Act::Crash, 8),
    (Act::Restart, 8),
    (Act::Copy, 5),
    (Act::Restore, 4),
];

/// Never so long is a spool asked for in vain when all is well.
const DRAIN_ROUNDS: u32 = 3_000;

impl<T> fmt::Debug for Relayed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relayed").field("plan", &self.here.plan).finish_non_exhaustive()
    }
}

fn locked<V>(mutex: &Mutex<V>) -> std::sync::MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Twist> Relayed<T> {
    /// The world of some dice.
    ///
    /// # Panics
    /// There is no memory for a compressor.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a simulator without memory has nothing to say")]
    pub fn new(mut dice: Dice) -> Self {
        let now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1_000_000) };
        let centre = |place| Centre::new(place, Workbench::new().expect("a compressor"));
        let chance = Arc::new(Mutex::new(dice.fork()));
        let rules = Rules::of(&mut dice);
        let spool_bytes = if dice.one_in(3) { 3_000 + dice.below(20_000) } else { 1 << 30 };
        let plan = Plan::of(&mut dice);
        Self {
            dice,
            clock: Arc::new(Mutex::new(now)),
            chance,
            spool_bytes,
            rules,
            here: Site::new(plan),
            others: Vec::new(),
            centres: (0..PLACES).map(centre).collect(),
            lines: BTreeMap::new(),
            oracle: Oracle::default(),
            samples: 1,
            lives: 0,
            twist: PhantomData,
        }
    }

    fn settings(&self) -> Settings {
        let Rules {
            segment_samples,
            exchange_bytes,
            window,
            block_bytes,
            block_age,
            key_frame_bytes,
            ..
        } = &self.rules;
        let mut settings = Settings { name: "edge".to_owned(), ..Settings::default() };
        settings.promise = self.here.plan.promise;
        settings.rules.segment_samples = *segment_samples;
        settings.rules.exchange.bytes_max = *exchange_bytes;
        settings.rules.exchange.window = *window;
        settings.rules.block_bytes_max = *block_bytes;
        settings.rules.block_age_max = *block_age;
        settings.rules.key_frame_bytes = *key_frame_bytes;
        settings.rules.linger = Span::from_millis(400);
        settings.rules.promise_max = Span::from_secs(6);
        if let Some(shards) = Shards::from_power(self.here.plan.shards) {
            settings.rules.shards = shards;
        }
        settings.spool.bytes_max = self.spool_bytes;
        settings.backoff.first = Span::from_millis(100);
        settings.backoff.most = Span::from_secs(2);
        let address = Address { host: "there".to_owned(), port: 1, tls: false };
        let destination = |place: &Place| Destination {
            name: format!("d{place}"),
            address: address.clone(),
            token: String::new(),
            ca_file: None,
        };
        settings.destinations = self.here.plan.to.iter().map(destination).collect();
        T::settings(&mut settings);
        settings
    }

    /// Starts the agent on the disk as it is.
    fn begin(&mut self, history: &mut History) -> Result<(), Fault> {
        self.lives += 1;
        self.here.life = self.lives;
        let (disk, faults) = Faulty::new(Arc::new(self.here.disk.clone()));
        self.here.faults = faults;
        let (clock, chance) = (Arc::clone(&self.clock), Arc::clone(&self.chance));
        let rolled = AtomicU64::new(0);
        let roll = move || T::roll(rolled.fetch_add(1, Relaxed), locked(&chance).entropy());
        let outside = Outside::new(move || *locked(&clock), roll);
        let agent = ByHand::open(self.settings(), Arc::new(disk), outside);
        let agent =
            agent.map_err(|error| Fault::Invariant(format!("it does not start: {error}")))?;
        let Site { plan: Plan { shards, to, promise }, id, .. } = &self.here;
        history.tell(format_args!("{id} begins with 2^{shards} shards to {to:?}, {promise:?}"));
        self.here.agent = Some(agent);
        Ok(())
    }

    fn now(&self) -> Now {
        *locked(&self.clock)
    }

    fn pass(&self, span: Span) {
        let mut now = locked(&self.clock);
        now.steady = now.steady + span;
        now.wall = now.wall + span;
    }

    fn put(&mut self, history: &mut History) -> Option<PutId> {
        let (now, dice) = (self.now(), &mut self.dice);
        let Site { agent, answers, plan, id: site, .. } = &mut self.here;
        let agent = agent.as_mut()?;
        let series = 1 + dice.below(12);
        let time = now.wall.0 / 1_000;
        let mut batch = Batch::default();
        let first = self.samples;
        for number in 0..series {
            let name = format!("s{number}");
            #[expect(clippy::cast_precision_loss, reason = "whole numbers below 2^53")]
            let sample = Sample::new(time, (first + number) as f64);
            // A name and one sample are within every bound.
            batch.push([(&b"n"[..], name.as_bytes())], &[sample]).ok();
        }
        self.samples += series;
        let ids = first..first + series;
        history.tell(format_args!("put {ids:?} to {site}"));
        history.count(Kind::Sent, "put");
        let id = self.oracle.put(*site, ids, time, plan.promise, plan.to.clone());
        answers.push((id, agent.send(batch)));
        Some(id)
    }

    /// Hears what was answered.
    fn listen(&mut self, history: &mut History) -> Result<(), Fault> {
        let mut answers = std::mem::take(&mut self.here.answers);
        let mut heard = Ok(());
        answers.retain_mut(|(id, answer)| {
            let Some(said) = answer.look() else { return true };
            history.tell(format_args!("{id:?}: {said:?}"));
            let kind = match said {
                Ok(Outcome::Kept) => Kind::Acknowledged,
                Ok(_) => Kind::Unknown,
                Err(_) => Kind::Refused,
            };
            history.count(kind, "put");
            match said {
                Ok(Outcome::Late) => history.count(Kind::Performed, "late"),
                Ok(Outcome::Spooled) => history.count(Kind::Performed, "on disk only"),
                Err(_) => history.count(Kind::Refusal, "full"),
                Ok(Outcome::Kept) => {}
            }
            if heard.is_ok() {
                heard = self.oracle.answered(*id, said);
            }
            false
        });
        self.here.answers = answers;
        Ok(heard?)
    }

    fn turn(&mut self, history: &mut History) -> Result<(), Fault> {
        let Site { agent, id: site, life, plan, .. } = &mut self.here;
        if let Some(agent) = agent {
            agent.turn();
            for call in agent.calls() {
                // Every agent counts its own, from one on, in every life.
                let line = *life << 32 | call.line;
                let Some(place) = plan.to.get(call.to).copied() else { continue };
                let (there, back) = (VecDeque::new(), VecDeque::new());
                self.lines.insert(line, Line { site: *site, place, call, up: false, there, back });
            }
            let bound = self.rules.exchange_bytes + (64 << 10);
            let bytes = agent.memory_bytes();
            // Two blocks are in memory at most.
            ensure(bytes <= 2 * bound, || format!("{bytes} bytes are in memory"))?;
        }
        self.listen(history)
    }

    /// Something happens on a line.
    fn carry(&mut self, id: u64, history: &mut History) -> Result<(), Fault> {
        let Some(site) = self.lines.get(&id).map(|line| line.site) else { return Ok(()) };
        self.turn_to(site);
        let Some(line) = self.lines.get_mut(&id) else { return Ok(()) };
        let Some(agent) = &mut self.here.agent else { return Ok(()) };
        let (place, own) = (line.place, line.call.line);
        let Some(centre) = self.centres.get_mut(place) else { return Ok(()) };
        if !line.up {
            if centre.manner == Manner::Gone {
                agent.down(own);
                self.lines.remove(&id);
            } else {
                line.up = true;
                agent.up(own);
            }
            return Ok(());
        }
        line.there.extend(line.call.said());
        if let Some(message) = line.there.pop_front() {
            let message = T::carried(message);
            let kind = word(&message);
            history.tell(format_args!("{id} to d{place}: {kind} {}", detail(&message)));
            history.count(Kind::Performed, kind);
            match centre.hear::<T>(id, &message)? {
                Some(answers) if centre.manner != Manner::Mute => line.back.extend(answers),
                Some(_) => {}
                None => {
                    history.tell(format_args!("{id}: d{place} hangs up"));
                    history.count(Kind::Injected, "a destination hangs up");
                    agent.down(own);
                    self.lines.remove(&id);
                    return Ok(());
                }
            }
        } else if line.call.is_over() {
            self.lines.remove(&id);
            return Ok(());
        }
        if let Some(message) = line.back.pop_front() {
            let kind = word(&message);
            history.tell(format_args!("{id} from d{place}: {kind} {}", detail(&message)));
            history.count(Kind::Performed, kind);
            agent.hear(own, message);
        }
        Ok(())
    }

    /// A destination stores the next thing that came.
    fn store(&mut self, place: Place) -> Result<bool, Fault> {
        let Some(centre) = self.centres.get_mut(place) else { return Ok(false) };
        let Some((speaker, answer)) = centre.store::<T>(&mut self.oracle)? else {
            return Ok(false);
        };
        if centre.manner != Manner::Mute
            && let Some(line) = self.lines.get_mut(&speaker)
        {
            line.back.push_back(answer);
        }
        Ok(true)
    }

    /// A line breaks: a suffix of what was on its way in each direction is lost.
    fn cut(&mut self, id: u64, history: &mut History) -> Result<(), Fault> {
        let Some(line) = self.lines.get_mut(&id) else { return Ok(()) };
        line.there.extend(line.call.said());
        let there = self.dice.below(line.there.len() as u64 + 1);
        let back = self.dice.below(line.back.len() as u64 + 1);
        history.tell(format_args!("{id} is cut after {there} there and {back} back"));
        history.count(Kind::Injected, "a line is cut");
        let keep = |count: u64| usize::try_from(count).unwrap_or(0);
        line.there.truncate(keep(there));
        let (site, own) = (line.site, line.call.line);
        let mut last = std::mem::take(&mut line.back);
        last.truncate(keep(back));
        while self.lines.get(&id).is_some_and(|line| !line.there.is_empty()) {
            self.carry(id, history)?;
        }
        self.turn_to(site);
        if self.lines.remove(&id).is_some()
            && let Some(agent) = &mut self.here.agent
        {
            for message in last {
                agent.hear(own, message);
            }
            agent.down(own);
        }
        Ok(())
    }

    /// Something is done to this one from now on.
    fn turn_to(&mut self, site: SiteId) {
        let other = self.others.iter_mut().find(|other| other.id == site);
        if let Some(other) = other {
            std::mem::swap(&mut self.here, other);
        }
    }

    /// All agents there are.
    fn sites(&self) -> Vec<SiteId> {
        let others = self.others.iter().map(|other| other.id);
        others.chain([self.here.id]).collect()
    }

    fn any_line(&mut self) -> Option<u64> {
        let lines: Vec<u64> = self.lines.keys().copied().collect();
        self.dice.pick(&lines).copied()
    }

    /// Everything that can happen at once when all is well.
    fn round(&mut self, history: &mut History) -> Result<(), Fault> {
        let mut moved = false;
        for site in self.sites() {
            self.turn_to(site);
            self.turn(history)?;
            while self.here.agent.as_mut().is_some_and(ByHand::work) {
                moved = true;
            }
        }
        let lines: Vec<u64> = self.lines.keys().copied().collect();
        for line in lines {
            for _ in 0..4 {
                self.carry(line, history)?;
            }
        }
        for place in 0..PLACES {
            while self.store(place)? {
                moved = true;
            }
        }
        let mut pause = Span::from_millis(500);
        for site in self.sites() {
            self.turn_to(site);
            self.listen(history)?;
            pause = pause.min(self.here.agent.as_ref().map_or(Span::ZERO, ByHand::pause));
        }
        self.pass(if moved { Span::from_millis(1) } else { pause });
        Ok(())
    }

    /// Lets everything be well until nothing is owed and nothing is in the spool.
    fn drain(&mut self, history: &mut History) -> Result<(), Fault> {
        self.centres.iter_mut().for_each(|centre| centre.manner = Manner::Takes);
        let mut left = Vec::new();
        for round in 0..DRAIN_ROUNDS {
            self.round(history)?;
            if round % 8 == 0 && self.oracle.owed().is_none() {
                let all = || self.others.iter().chain([&self.here]);
                left = all().flat_map(Site::spool).collect();
                let idle = all().all(Site::is_idle);
                if left.is_empty() && idle && self.centres.iter().all(Centre::is_idle) {
                    return Ok(());
                }
            }
        }
        match (self.oracle.owed(), left.first()) {
            (Some(lost), _) => Err(lost.into()),
            (None, Some(file)) => Err(Violation::LeftBehind(file.clone()).into()),
            (None, None) => Err(Fault::Invariant("something stays in memory".to_owned())),
        }
    }
}

impl<T: Twist> World for Relayed<T> {
    fn step(&mut self, history: &mut History) -> Result<(), Fault> {
        let sites = self.sites();
        if let Some(site) = self.dice.pick(&sites).copied() {
            self.turn_to(site);
        }
        if self.here.agent.is_none() {
            return self.begin(history);
        }
        let all: u64 = self.rules.temper.iter().sum();
        let mut roll = self.dice.below(all);
        let act = ACTS.iter().zip(&self.rules.temper).find_map(|((act, _), often)| {
            let mine = roll < *often;
            roll = roll.saturating_sub(*often);
            mine.then_some(*act)
        });
        match act.unwrap_or(Act::Turn) {
            Act::Put => {
                self.put(history);
                self.listen(history)
            }
            Act::Turn => self.turn(history),
            Act::Work => {
                if let Some(agent) = &mut self.here.agent {
                    agent.work();
                }
                Ok(())
            }
            Act::Carry => {
                for _ in 0..=self.dice.below(3) {
                    if let Some(line) = self.any_line() {
                        self.carry(line, history)?;
                    }
                }
                Ok(())
            }
            Act::Store => {
                let place = usize::try_from(self.dice.below(PLACES as u64)).unwrap_or(0);
                self.store(place).map(drop)
            }
            Act::Pass => {
                let span = Span(self.dice.below(300_000));
                self.pass(span);
                Ok(())
            }
            Act::Wait => {
                // Long enough for a window, in small steps or in one.
                let span = Span(self.dice.below(self.rules.window.0 * 2));
                self.pass(span);
                self.turn(history)
            }
            Act::Cut => match self.any_line() {
                Some(line) => self.cut(line, history),
                None => Ok(()),
            },
            Act::Behave => self.behave(history),
            Act::Replay => self.replay(history),
            Act::Strike => {
                self.strike(history);
                Ok(())
            }
            Act::Mend => {
                self.here.faults.clear();
                Ok(())
            }
            Act::Crash => self.crash(history),
            Act::Restart => {
                self.here.faults.clear();
                let same = self.dice.one_in(2);
                let plan = if same { self.here.plan.clone() } else { Plan::of(&mut self.dice) };
                self.restart(plan, history)
            }
            Act::Copy => self.copy(history),
            Act::Restore => self.restore(history),
        }
    }

    fn finish(&mut self, ending: Ending, history: &mut History) -> Result<(), Fault> {
        for site in self.sites() {
            self.turn_to(site);
            self.here.faults.clear();
            if ending == Ending::Crashed {
                self.crash(history)?;
            }
            let everybody = Plan { to: (0..PLACES).collect(), ..self.here.plan.clone() };
            self.restart(everybody, history)?;
        }
        self.drain(history)?;
        for site in self.sites() {
            self.turn_to(site);
            let before = self.oracle.arrivals();
            let put = self.put(history);
            self.listen(history)?;
            if let Some(refused) = put.and_then(|put| self.oracle.refusal(put)) {
                return Err(Violation::Unwilling(refused).into());
            }
            self.drain(history)?;
            ensure(self.oracle.arrivals() > before, || "nothing new arrived".to_owned())?;
        }
        history.tell(format_args!("{} arrived in {} lives", self.oracle.arrivals(), self.lives));
        Ok(())
    }
}

impl Rules {
    fn of(dice: &mut Dice) -> Self {
        let mut temper = [0; ACTS.len()];
        for (own, (_, most)) in temper.iter_mut().zip(ACTS) {
            *own = most / 3 + dice.below(most);
        }
        Self {
            segment_samples: usize::try_from(1 + dice.below(16)).unwrap_or(1),
            exchange_bytes: if dice.one_in(3) { 2_000 } else { 1 << 20 },
            window: Span::from_millis(500 + dice.below(4_000)),
            block_bytes: if dice.one_in(3) { 2_000 } else { 1 << 20 },
            block_age: Span::from_secs(5 + dice.below(60)),
            key_frame_bytes: 200 + dice.below(2_000),
            temper,
        }
    }
}

impl Plan {
    fn of(dice: &mut Dice) -> Self {
        let mut to: Vec<Place> = (0..PLACES).filter(|_| !dice.one_in(3)).collect();
        if to.is_empty() {
            to.push(usize::try_from(dice.below(PLACES as u64)).unwrap_or(0));
        }
        let promises = [Mode::Durable, Mode::Durable, Mode::Delivered, Mode::Memory];
        let promise = dice.pick(&promises).copied().unwrap_or(Mode::Durable);
        Self { shards: u8::try_from(dice.below(3)).unwrap_or(0), to, promise }
    }
}

fn word(message: &Message) -> &'static str {
    match message {
        Message::Hello(_) => "hello",
        Message::HelloAck(_) => "hello back",
        Message::Segment { .. } => "segment",
        Message::KeyFrame { .. } => "key frame",
        Message::Skip(_) => "skip",
        Message::Ack(_) => "ack",
        Message::Reject { .. } => "reject",
        Message::Refuse { .. } => "refuse",
        Message::Ping => "ping",
        Message::Pong => "pong",
        Message::End => "end",
        Message::Status(_) => "status",
    }
}

fn detail(message: &Message) -> String {
    match message {
        Message::Hello(hello) => hello.origin.block.to_string(),
        Message::HelloAck(ack) => format!("{:?}", ack.shards),
        Message::Segment { key, .. } | Message::KeyFrame { key, .. } => key.to_string(),
        Message::Skip(key) | Message::Ack(key) | Message::Reject { key, .. } => key.to_string(),
        _ => String::new(),
    }
}

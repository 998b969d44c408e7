//! Two hundred agents come back after an outage of their receiver: the cores of real ones, turned by hand,
//! before the machines of the real receiver, with a clock that is set.
//!
//! What is new is taken as it comes, backlogs wait in line for their turn, as in
//! `crates/server/src/relay/session.rs`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking, and its name is its documentation; numbers are small"
)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use handoff_log::disk::Memory;
use handoff_relay::codec::{Decoded, Workbench};
use handoff_relay::session::Message;
use handoff_relay::{Batch, Origin, PaceRules, Pacer, Received, Receiver, Sample, ShardId};
use handoff_relay_agent::{Address, ByHand, Call, Destination, Outside, Settings};
use handoff_types::{Entropy, Now, Span, Steady, Wall};

const AGENTS: usize = 200;
/// Samples that an agent makes every five seconds.
const SAMPLES: u64 = 20;
const STEP: Span = Span::from_millis(100);
const STEPS_A_SECOND: usize = 10;
const EVERY: usize = 5 * STEPS_A_SECOND;
/// What is usual a second.
const STEADY: u64 = AGENTS as u64 * SAMPLES / 5;
/// Silence after which somebody who waits for his turn is told that he is not alone.
const PONG_STEPS: usize = 50;

/// A connection.
struct Line {
    agent: usize,
    call: Call,
    origin: Option<Origin>,
    backlog: bool,
    inbox: VecDeque<Message>,
    is_queued: bool,
    heard: usize,
}

struct Herd {
    now: Arc<Mutex<Now>>,
    step: usize,
    agents: Vec<ByHand>,
    up: bool,
    /// Whether samples are made.
    makes: bool,
    lines: BTreeMap<(usize, u64), Line>,
    receivers: BTreeMap<Origin, (Receiver, (usize, u64))>,
    marks: BTreeMap<(Origin, ShardId), u32>,
    /// Whose turn it is, of backlogs.
    queue: VecDeque<(usize, u64)>,
    pacer: Pacer,
    bench: Workbench,
    sent: u64,
    taken: HashMap<u64, u32>,
    /// Samples that were taken, second by second.
    accepted: Vec<u64>,
    /// How late the latest sample of what is new was, second by second.
    lag_millis: Vec<i64>,
}

impl Herd {
    fn new() -> Self {
        let start = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1_000_000) };
        let now = Arc::new(Mutex::new(start));
        let agent = |number: usize| {
            let address = Address { host: "there".to_owned(), port: 1, tls: false };
            let (token, ca_file) = (String::new(), None);
            let name = "centre".to_owned();
            let mut settings = Settings { name: format!("edge-{number}"), ..Settings::default() };
            settings.destinations = vec![Destination { name, address, token, ca_file }];
            let clock = Arc::clone(&now);
            let dice = Mutex::new(number as u128 + 1);
            let roll = move || {
                let mut dice = dice.lock().unwrap();
                *dice =
                    dice.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(99);
                Entropy(*dice ^ *dice >> 64)
            };
            let outside = Outside::new(move || *clock.lock().unwrap(), roll);
            ByHand::open(settings, Arc::new(Memory::new()), outside).unwrap()
        };
        let rules = PaceRules { floor: STEADY / 10, ..PaceRules::default() };
        Self {
            step: 0,
            agents: (0..AGENTS).map(agent).collect(),
            up: true,
            makes: true,
            lines: BTreeMap::new(),
            receivers: BTreeMap::new(),
            marks: BTreeMap::new(),
            queue: VecDeque::new(),
            pacer: Pacer::new(rules, start.steady),
            bench: Workbench::new().unwrap(),
            sent: 0,
            taken: HashMap::new(),
            accepted: Vec::new(),
            lag_millis: Vec::new(),
            now,
        }
    }

    fn second(&self) -> usize {
        self.step / STEPS_A_SECOND
    }

    /// Dies: everything but what is stored is gone.
    fn fall(&mut self) {
        self.up = false;
        self.receivers.clear();
        self.queue.clear();
        for ((agent, line), _) in std::mem::take(&mut self.lines) {
            self.agents[agent].down(line);
        }
    }

    fn run(&mut self, seconds: usize, is_over: impl Fn(&Self) -> bool) {
        for _ in 0..seconds * STEPS_A_SECOND {
            self.accepted.resize(self.second() + 1, 0);
            self.lag_millis.resize(self.second() + 1, 0);
            self.turn();
            self.step += 1;
            let mut now = self.now.lock().unwrap();
            (now.steady, now.wall) = (now.steady + STEP, now.wall + STEP);
            drop(now);
            if is_over(self) {
                return;
            }
        }
    }

    fn turn(&mut self) {
        for number in 0..AGENTS {
            if self.makes && (self.step + number).is_multiple_of(EVERY) {
                self.send(number);
            }
            let agent = &mut self.agents[number];
            agent.turn();
            while agent.work() {}
            for call in agent.calls() {
                match self.up {
                    false => agent.down(call.line),
                    true => {
                        agent.up(call.line);
                        let line = Line {
                            agent: number,
                            origin: None,
                            backlog: false,
                            inbox: VecDeque::new(),
                            is_queued: false,
                            heard: self.step,
                            call,
                        };
                        self.lines.insert((number, line.call.line), line);
                    }
                }
            }
        }
        let ids: Vec<_> = self.lines.keys().copied().collect();
        for id in ids {
            self.listen(id);
        }
        let now = self.now.lock().unwrap().steady;
        while self.pacer.wait(now) == Span::ZERO {
            let Some(id) = self.queue.pop_front() else { break };
            let Some(line) = self.lines.get_mut(&id) else { continue };
            line.is_queued = false;
            if let Some(message) = line.inbox.pop_front() {
                self.take(id, &message);
            }
            self.listen(id);
        }
    }

    fn send(&mut self, number: usize) {
        let time = self.now.lock().unwrap().wall.0 / 1_000;
        let mut batch = Batch::default();
        for series in 0..SAMPLES {
            self.sent += 1;
            let name = format!("a_series_with_a_name_of_some_length_{series}");
            let sample = Sample::new(time, self.sent as f64);
            batch.push([(&b"__name__"[..], name.as_bytes())], &[sample]).unwrap();
        }
        // Nobody waits for the answer: what was not taken is found to be missing.
        drop(self.agents[number].send(batch));
    }

    /// Takes what was said, up to what must wait for its turn.
    fn listen(&mut self, id: (usize, u64)) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        line.inbox.extend(line.call.said());
        if line.is_queued && self.step - line.heard >= PONG_STEPS {
            line.heard = self.step;
            self.agents[id.0].hear(id.1, Message::Pong);
        }
        loop {
            let Some(line) = self.lines.get_mut(&id).filter(|line| !line.is_queued) else { return };
            let is_heavy = matches!(
                line.inbox.front(),
                Some(Message::Segment { .. } | Message::KeyFrame { .. })
            );
            if line.backlog && is_heavy {
                (line.is_queued, line.heard) = (true, self.step);
                self.queue.push_back(id);
                return;
            }
            let Some(message) = line.inbox.pop_front() else {
                if line.call.is_over() {
                    self.lines.remove(&id);
                }
                return;
            };
            self.take(id, &message);
        }
    }

    fn take(&mut self, id: (usize, u64), message: &Message) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        let agent = &mut self.agents[line.agent];
        if let Message::Hello(hello) = message {
            (line.origin, line.backlog) = (Some(hello.origin.clone()), hello.backlog);
            let fresh = || (Receiver::new(hello, Default::default()).unwrap(), id);
            let (receiver, speaker) =
                self.receivers.entry(hello.origin.clone()).or_insert_with(fresh);
            *speaker = id;
            let marks = &self.marks;
            let mark = |shard| marks.get(&(hello.origin.clone(), shard)).copied();
            agent.hear(id.1, receiver.greeted(hello, mark));
            return;
        }
        let Some(origin) = line.origin.clone() else { return };
        let Some((receiver, speaker)) = self.receivers.get_mut(&origin) else { return };
        if *speaker != id {
            return;
        }
        let mut decoded = Decoded::default();
        let answer = match receiver.received(message, &mut self.bench, &mut decoded) {
            Received::Nothing | Received::Ended => None,
            Received::Answer(answer) => Some(answer),
            Received::Broken(why) => panic!("{why}"),
            Received::Skipped(key) => panic!("{key:?} was passed by"),
            Received::Samples(key) => {
                let (now, count) = (*self.now.lock().unwrap(), decoded.samples().len());
                match line.backlog {
                    true => self.pacer.backlog(count, now.steady),
                    false => self.pacer.fresh(count, now.steady),
                }
                let second = self.step / STEPS_A_SECOND;
                self.accepted[second] += count as u64;
                for sample in decoded.samples() {
                    *self.taken.entry(f64::from_bits(sample.bits) as u64).or_default() += 1;
                    let lag = now.wall.0 / 1_000 - sample.time;
                    if !line.backlog {
                        self.lag_millis[second] = self.lag_millis[second].max(lag);
                    }
                }
                self.marks.insert((origin, key.shard), key.segment);
                receiver.stored(key)
            }
        };
        if let Some(answer) = answer {
            self.agents[id.0].hear(id.1, answer);
        }
    }

    fn has_all(&self) -> bool {
        self.taken.len() as u64 == self.sent
    }
}

#[test]
fn two_hundred_agents_after_an_outage_are_taken_at_twice_the_usual_rate_and_what_is_new_is_not_late()
 {
    let never = |_: &Herd| false;
    let mut herd = Herd::new();
    herd.run(40, never);
    let usual = &herd.accepted[20..40];
    assert_eq!(usual.iter().sum::<u64>() / 20, STEADY, "{usual:?}");
    herd.fall();
    herd.run(120, never);
    let (missing, back) = (herd.sent - herd.taken.len() as u64, herd.second());
    assert!(missing >= 119 * STEADY, "{missing} samples wait");
    herd.up = true;
    // All that was sent until a moment ago: more is always on its way.
    herd.run(400, |herd| herd.sent - (herd.taken.len() as u64) < STEADY);
    let took = herd.second() - back;
    let after = &herd.accepted[back..];
    let peak = *after.iter().max().unwrap();
    let lag = herd.lag_millis[back..].iter().max().copied().unwrap();
    let doubled = herd.taken.values().filter(|times| **times > 1).count();
    eprintln!(
        "{missing} samples of a backlog in {took} s, {peak} a second at most, usually {STEADY}; \
         what is new was {lag} ms late at most"
    );
    assert_eq!(doubled, 0, "some came twice");
    // Segments are whole: one of each kind more may fall into a second than is its due.
    assert!(peak <= 2 * STEADY + 2 * SAMPLES, "{peak} a second, usually {STEADY}: {after:?}");
    let ten = after.windows(10).map(|ten| ten.iter().sum::<u64>()).max().unwrap();
    assert!(ten <= 20 * STEADY + 2 * SAMPLES, "{ten} in ten seconds, usually {}", 10 * STEADY);
    assert!(lag < 30_000, "what is new was {lag} ms late");
    assert!(took < 200, "it took {took} s");
    herd.makes = false;
    herd.run(40, Herd::has_all);
    assert!(herd.has_all(), "{} of {} arrived", herd.taken.len(), herd.sent);
}

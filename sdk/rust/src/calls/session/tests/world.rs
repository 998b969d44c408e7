//! A caller and a worker, and between them a server that loses what is said, says it twice, cuts
//! connections and goes silent: every call is answered once, with its own answer, and in the end
//! nothing waits for anything. The server is written from the protocol's promises and shares nothing
//! with the room; the time is the test's own.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use handoff_calls::CallId;
use handoff_calls::wire::{
    Down, Empty, Ended, Fenced, Held, Named, Offer, Pong, Response, Taken, Up,
};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::super::{Body, Deed, Finish, Session};
use super::{MS, channel, id, json, new_call, new_session};

const CALLS: u128 = 12;

/// How long a frame is on its way, and a handler at work.
const TRAVEL: Duration = MS;
const WORK: Duration = Duration::from_millis(700);

/// How long the server leaves a call with a consumer that says nothing, and an offer unanswered.
const LEASE: Duration = Duration::from_millis(4000);

/// No world lasts longer. It is hours more than any needs.
const END: Duration = Duration::from_secs(24 * 3600);

/// What happens to a frame.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    /// The connection is cut, and its ends notice.
    Cut,
    /// From now on nothing arrives, and nobody is told.
    Silent,
    /// The same, of this direction only.
    Deaf,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        12 => Just(Fate::Arrives),
        2 => Just(Fate::Lost),
        2 => Just(Fate::Twice),
        1 => Just(Fate::Cut),
        1 => Just(Fate::Silent),
        1 => Just(Fate::Deaf),
    ];
    vec(fate, 0..200)
}

/// One client and its connection.
struct End {
    session: Session,
    /// Which connection it has, if it has one.
    connection: Option<u64>,
    /// When the one it is making is made.
    making: Option<Instant>,
    up_dead: bool,
    down_dead: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Caller,
    Worker,
}

/// A frame on its way.
enum Frame {
    Up(String),
    Down(Down<Body>),
}

#[derive(Default)]
struct Call {
    params: u64,
    fence: u64,
    /// Offered or running: since when nothing was heard.
    held: Option<Instant>,
    answer: Option<u64>,
    acknowledged: bool,
}

struct World {
    now: Instant,
    fates: VecDeque<Fate>,
    connections: u64,
    caller: End,
    worker: End,
    travelling: VecDeque<(Instant, Who, u64, Frame)>,
    working: Vec<(Instant, CallId, u64, u64)>,
    /// What the server knows.
    calls: BTreeMap<CallId, Call>,
    serving: bool,
    /// What the callers were told.
    finished: BTreeMap<CallId, Vec<u64>>,
    /// How often each offer was begun.
    begun: BTreeMap<(CallId, u64), u32>,
}

fn end(session: Session) -> End {
    End { session, connection: None, making: None, up_dead: false, down_dead: false }
}

impl World {
    fn new(fates: Vec<Fate>) -> Self {
        let mut world = Self {
            now: Instant::now(),
            fates: fates.into(),
            connections: 0,
            caller: end(new_session(100, 0)),
            worker: end(new_session(200, 3)),
            travelling: VecDeque::new(),
            working: Vec::new(),
            calls: BTreeMap::new(),
            serving: false,
            finished: BTreeMap::new(),
            begun: BTreeMap::new(),
        };
        world.caller.session.open();
        world.worker.session.open();
        world
    }

    fn end(&mut self, who: Who) -> &mut End {
        match who {
            Who::Caller => &mut self.caller,
            Who::Worker => &mut self.worker,
        }
    }

    /// Everything that happens at this moment, until nothing more does.
    fn happen(&mut self) {
        for who in [Who::Caller, Who::Worker] {
            let now = self.now;
            let end = self.end(who);
            end.session.tick(now);
            if end.making.is_some_and(|at| at <= now) {
                end.making = None;
                self.connections += 1;
                let fresh = self.connections;
                let end = self.end(who);
                (end.connection, end.up_dead, end.down_dead) = (Some(fresh), false, false);
                end.session.connected(now);
            }
            self.perform(who);
            while let Some(text) = self.end(who).session.next_frame(now) {
                self.send(who, Frame::Up(String::from_utf8(text).unwrap()));
            }
        }
        let done = |(at, ..): &(Instant, CallId, u64, u64), now| *at <= now;
        let now = self.now;
        let (over, rest) = self.working.drain(..).partition(|job| done(job, now));
        self.working = rest;
        let over: Vec<(Instant, CallId, u64, u64)> = over;
        for (_, id, fence, params) in over {
            let answer = Some(json(params * 2));
            let response =
                Response { id, fence, answer, error: None, terminal: false, retry_after_ms: None };
            self.worker.session.respond(response);
        }
        while self.travelling.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, who, connection, frame)) = self.travelling.pop_front() else { break };
            // What is on its way over a connection that is gone does not arrive.
            if self.end(who).connection == Some(connection) {
                match frame {
                    Frame::Up(text) => self.serve(who, &text),
                    Frame::Down(frame) => self.end(who).session.hear(frame, now),
                }
            }
        }
        self.dispatch();
    }

    fn perform(&mut self, who: Who) {
        while let Some(deed) = self.end(who).session.next_deed() {
            let now = self.now;
            match deed {
                Deed::Connect => self.end(who).making = Some(now + 5 * TRAVEL),
                Deed::Disconnect => self.cut(who),
                Deed::Finish(id, Finish::Ended(ended)) => {
                    let answer = ended.answer.unwrap().get().parse().unwrap();
                    self.finished.entry(id).or_default().push(answer);
                }
                Deed::Begin(offer) => {
                    *self.begun.entry((offer.id, offer.fence)).or_default() += 1;
                    let params = offer.params.get().parse().unwrap();
                    self.working.push((now + WORK, offer.id, offer.fence, params));
                }
                Deed::Abort(id, fence) => {
                    self.working.retain(|(_, job, of, _)| (*job, *of) != (id, fence));
                }
                Deed::Finish(_, other) => panic!("{other:?}"),
                Deed::Standing(_) | Deed::Registered(_) | Deed::Taken { .. } => {}
            }
        }
    }

    fn cut(&mut self, who: Who) {
        let now = self.now;
        let end = self.end(who);
        end.connection = None;
        end.session.lost(now, 0.5);
        if who == Who::Worker {
            self.serving = false;
        }
    }

    /// Puts a frame on its way, as its fate is.
    fn send(&mut self, who: Who, frame: Frame) {
        let Some(connection) = self.end(who).connection else { return };
        let fate = self.fates.pop_front().unwrap_or(Fate::Arrives);
        let up = matches!(frame, Frame::Up(_));
        let at = self.now + TRAVEL;
        match fate {
            Fate::Cut => return self.cut(who),
            Fate::Silent => (self.end(who).up_dead, self.end(who).down_dead) = (true, true),
            Fate::Deaf if up => self.end(who).up_dead = true,
            Fate::Deaf => self.end(who).down_dead = true,
            Fate::Arrives | Fate::Lost | Fate::Twice => {}
        }
        let dead = if up { self.end(who).up_dead } else { self.end(who).down_dead };
        if dead || matches!(fate, Fate::Lost) {
            return;
        }
        if matches!(fate, Fate::Twice) {
            let copy = match &frame {
                Frame::Up(text) => Frame::Up(text.clone()),
                Frame::Down(frame) => Frame::Down(frame.clone()),
            };
            self.travelling.push_back((at, who, connection, copy));
        }
        self.travelling.push_back((at, who, connection, frame));
    }

    fn tell(&mut self, who: Who, frame: Down<Body>) {
        self.send(who, Frame::Down(frame));
    }

    /// What the server does about a frame.
    fn serve(&mut self, who: Who, text: &str) {
        let now = self.now;
        match serde_json::from_str::<Up<Box<RawValue>>>(text).unwrap() {
            Up::Init(init) => {
                self.tell(who, Down::A(Pong::default()));
                if who == Who::Worker {
                    self.serving = !init.serves.is_empty();
                    let held: Vec<CallId> = self
                        .calls
                        .iter()
                        .filter(|(_, call)| call.held.is_some())
                        .map(|(id, _)| *id)
                        .collect();
                    held.into_iter().for_each(|id| self.offer(id));
                }
            }
            Up::Ping(ping) => self.tell(who, Down::A(Pong { n: ping.n, ..Pong::default() })),
            Up::Request(request) => {
                let id = request.id;
                let params = request.params.unwrap().get().parse().unwrap();
                let call =
                    self.calls.entry(id).or_insert_with(|| Call { params, ..Call::default() });
                assert_eq!(call.params, params, "one id for two calls");
                let answer = call.answer;
                self.tell(who, Down::C(Named { id }));
                if let Some(answer) = answer {
                    self.tell_end(id, answer);
                }
            }
            Up::RequestAck(Fenced { id, fence }) | Up::Heartbeat(Fenced { id, fence }) => {
                let call = self.calls.get_mut(&id).unwrap();
                let held = call.fence == fence && call.held.is_some();
                if held {
                    call.held = Some(now);
                }
                self.tell(who, Down::D(Held { id, fence, held }));
            }
            Up::Response(response) => {
                let (id, fence) = (response.id, response.fence);
                let call = self.calls.get_mut(&id).unwrap();
                let taken = call.fence == fence;
                if taken && call.answer.is_none() {
                    let answer = response.answer.unwrap().get().parse().unwrap();
                    (call.held, call.answer) = (None, Some(answer));
                    self.tell_end(id, answer);
                }
                self.tell(who, Down::G(Taken { id, fence, taken }));
            }
            Up::ResponseAck(Named { id }) => {
                self.calls.get_mut(&id).unwrap().acknowledged = true;
                self.tell(who, Down::F(Named { id }));
            }
            Up::Cancel(_) => panic!("nobody cancels"),
            Up::Stop(Empty {}) => {
                self.serving = false;
                self.tell(who, Down::H(Empty {}));
            }
        }
    }

    fn tell_end(&mut self, id: CallId, answer: u64) {
        let answer = Some(json(answer));
        self.tell(
            Who::Caller,
            Down::E(Ended { id, status: 0, answer, error: None, executor: None }),
        );
    }

    fn offer(&mut self, id: CallId) {
        let Some(call) = self.calls.get(&id) else { return };
        let (fence, params) = (call.fence, json(call.params));
        let deadline_ms = u64::try_from(END.as_millis()).unwrap();
        let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
        let (caller, traceparent, attempt) = (None, None, 1);
        let channel = channel();
        self.tell(
            Who::Worker,
            Down::B(Offer {
                id,
                channel,
                caller,
                params,
                fence,
                attempt,
                deadline_ms,
                lease_ms,
                held: false,
                traceparent,
            }),
        );
    }

    /// Takes calls from whoever is lost, and gives them to whoever is there.
    fn dispatch(&mut self) {
        let now = self.now;
        for call in self.calls.values_mut() {
            if call.held.is_some_and(|since| now >= since + LEASE) {
                call.held = None;
            }
        }
        let held = self.calls.values().filter(|call| call.held.is_some()).count();
        let waiting = |call: &Call| call.held.is_none() && call.answer.is_none();
        let next: Vec<CallId> =
            self.calls.iter().filter(|(_, call)| waiting(call)).map(|(id, _)| *id).collect();
        if !self.serving {
            return;
        }
        for id in next.into_iter().take(3_usize.saturating_sub(held)) {
            if let Some(call) = self.calls.get_mut(&id) {
                call.fence += 1;
                call.held = Some(now);
            }
            self.offer(id);
        }
    }

    fn is_over(&self) -> bool {
        self.finished.len() as u128 == CALLS
            && self.caller.session.is_settled()
            && self.worker.session.is_settled()
    }

    /// Lets time pass up to whatever is next.
    fn pass(&mut self) {
        let waiting = |call: &Call| Some(call.held? + LEASE);
        let next = [
            self.travelling.front().map(|(at, ..)| *at),
            self.caller.session.next_deadline(),
            self.worker.session.next_deadline(),
            self.caller.making,
            self.worker.making,
            self.working.iter().map(|(at, ..)| *at).min(),
            self.calls.values().filter_map(waiting).min(),
        ];
        let next = next.into_iter().flatten().min().expect("nothing will ever happen again");
        let saying = [&self.caller, &self.worker].iter().any(|end| end.session.has_frames());
        let next = if saying { self.now } else { next };
        self.now = next.max(self.now + TRAVEL);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_way_does_every_call_is_answered_once(fates in fates()) {
        let mut world = World::new(fates);
        let begin = world.now;
        for number in 1..=CALLS {
            let now = world.now;
            world.caller.session.call(new_call(number, None), now);
        }
        while !world.is_over() {
            assert!(world.now < begin + END, "something waits for ever");
            world.happen();
            world.pass();
        }
        for number in 1..=CALLS {
            let expected = vec![u64::try_from(number * 2).unwrap()];
            assert_eq!(world.finished.get(&id(number)), Some(&expected), "call {number}");
        }
        assert!(world.begun.values().all(|times| *times == 1), "an offer is begun once");
        assert!(world.calls.values().all(|call| call.acknowledged), "the server can forget");
    }
}

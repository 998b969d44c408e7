//! What a client does: one task that owns its connections, what it asked and what it runs.
//!
//! ```text
//!  connect ─▶ init ─▶ everything unconfirmed again ─▶ serve ─▶ broken or silent
//!     ▲                                                          │
//!     └──── all three closed, every step under way given up ◀────┘
//! ```

mod asked;
mod running;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use handoff_calls::{Ask, CallId, ClientId, Refusal, Reply};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::asked::Asked;
pub(crate) use self::asked::Asking;
use self::running::{Finished, Held};
use crate::address::Address;
use crate::client::{Connections, NoAnswer, Service};
use crate::ears::{Ears, Heard};
use crate::line::Line;
use crate::link::Link;
use crate::options::Options;
use crate::resp::Value;
use crate::room::Room;
use crate::scripts::Script;
use crate::tally::Tally;
use crate::trouble::Trouble;

/// Results that wait to be sent.
const FINISHED_MAX: usize = 1024;

/// When nothing is to be taken again.
const FAR: Duration = Duration::from_secs(3600);

/// How long what ended may wait for others that end before Redis is told that all of them arrived. Nobody
/// waits for that, and whoever calls next does.
const SETTLE: Duration = Duration::from_millis(1);

/// How many of them wait for each other.
const SETTLE_MAX: usize = 16;

/// After how many turns it is looked at the clock, however much there is to do.
const TURNS: u32 = 64;

/// How often a client that guards looks.
const GUARD: Duration = Duration::from_millis(250);

/// What is asked of a session.
#[derive(Debug)]
pub(crate) enum Order {
    Call(Box<Asking>),
    Cancel(CallId, oneshot::Sender<Result<(), Trouble>>),
    Stop(Settle, oneshot::Sender<()>),
}

/// What is waited for before a client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    Everything,
    /// That Redis has what was asked is enough.
    AllButAnswers,
}

/// What a session is made of.
pub(crate) struct Parts {
    pub(crate) me: ClientId,
    pub(crate) address: Address,
    pub(crate) options: Arc<Options>,
    pub(crate) room: Room,
    pub(crate) services: Vec<Service>,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) connections: watch::Sender<Connections>,
    pub(crate) tally: Arc<Tally>,
}

/// A step that is under way, and what Redis said to it.
enum Done {
    Asked(CallId, Result<Reply, Trouble>),
    Pinged(Result<Reply, Trouble>),
    /// Its event says the rest.
    Else(Result<(), Trouble>),
}

/// Everything a client knows.
pub(crate) struct Session {
    me: ClientId,
    address: Address,
    options: Arc<Options>,
    room: Room,
    services: Vec<Service>,
    orders: mpsc::Receiver<Order>,
    connections: watch::Sender<Connections>,
    tally: Arc<Tally>,
    asked: HashMap<CallId, Asked>,
    held: HashMap<CallId, Held>,
    finish: mpsc::Sender<Finished>,
    finished: mpsc::Receiver<Finished>,
    stopping: Option<Stopping>,
}

/// Somebody waits until everything is settled.
struct Stopping {
    what: Settle,
    told: oneshot::Sender<()>,
    /// Redis offers nothing any more.
    heard: bool,
}

/// What belongs to one set of connections.
struct Way {
    link: Link,
    ears: Ears,
    steps: JoinSet<Done>,
    ping_at: Instant,
    /// A ping is on its way, and when its answer is too late.
    pong_by: Option<Instant>,
    guard_at: Instant,
    /// When one of the steps may have to be taken again, at the earliest.
    look_at: Instant,
    /// Ends that arrived, which Redis is still to be told.
    arrived: Vec<CallId>,
    /// When it is.
    settle_at: Option<Instant>,
}

impl Way {
    /// A step may have to be taken again then.
    fn plan(&mut self, at: Instant) {
        self.look_at = self.look_at.min(at);
    }
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { me, address, options, room, services, orders, connections, tally } = parts;
        let (finish, finished) = mpsc::channel(FINISHED_MAX);
        let (asked, held) = (HashMap::new(), HashMap::new());
        Self {
            me,
            address,
            options,
            room,
            services,
            orders,
            connections,
            tally,
            asked,
            held,
            finish,
            finished,
            stopping: None,
        }
    }

    /// Serves until it is stopped. `ready` is told once the client is registered, or why it cannot be.
    pub(crate) async fn run(mut self, first: Link, ready: oneshot::Sender<Result<(), Trouble>>) {
        let (mut next, mut ready) = (Some(first), Some(ready));
        let (shortest, longest) = self.options.retry;
        let mut pause = shortest;
        loop {
            let opened = match next.take() {
                Some(link) => Ok(link),
                None => {
                    let opening = self.opening();
                    self.meanwhile(opening).await
                }
            };
            let trouble = match opened {
                Err(trouble) => trouble,
                Ok(link) => match self.register(&link.ping).await {
                    Err(trouble) => {
                        link.close().await;
                        trouble
                    }
                    Ok(()) => {
                        pause = shortest;
                        if let Some(ready) = ready.take() {
                            // Whoever asked may have gone.
                            drop(ready.send(Ok(())));
                        }
                        match self.serve(link).await {
                            Some(trouble) => trouble,
                            None => return,
                        }
                    }
                },
            };
            if let Some(ready) = ready.take() {
                drop(ready.send(Err(trouble)));
                return;
            }
            tracing::warn!(
                client = %self.me,
                error = &trouble as &dyn std::error::Error,
                "connecting to Redis again"
            );
            let trouble = Some(trouble);
            self.connections.send_if_modified(|now| {
                let news = now.trouble != trouble;
                now.trouble = trouble;
                news
            });
            self.meanwhile(sleep(pause)).await;
            pause = longest.min(pause * 2);
        }
    }

    fn opening(&self) -> impl Future<Output = Result<Link, Trouble>> + use<> {
        let (room, options, me) = (self.room.clone(), Arc::clone(&self.options), self.me);
        let channels = self.services.iter().map(|service| service.serves.channel.clone());
        let channels: Vec<_> = channels.collect();
        async move { Link::open(&room, &options, me, channels.into_iter()).await }
    }

    /// Waits for something while there is no connection. Calls are taken meanwhile, and given up when
    /// their time is over.
    async fn meanwhile<T>(&mut self, what: impl Future<Output = T>) -> T {
        let mut what = std::pin::pin!(what);
        let mut over_at = self.give_up(Instant::now());
        loop {
            let room = self.asked.len() < self.options.outstanding_max;
            // An order is taken or not, and a moment that is waited for comes again.
            tokio::select! {
                biased;
                came = &mut what => return came,
                Some(order) = self.orders.recv(), if room => match order {
                    Order::Call(asking) => {
                        let over = self.take_in(*asking).and_then(|id| self.over_at(id));
                        over_at = over.into_iter().fold(over_at, Instant::min);
                    }
                    Order::Cancel(call, done) => {
                        let said = match self.cancel_asked(call) {
                            true => Ok(()),
                            false => Err(Trouble::unreachable(&self.address, "it is not there now")),
                        };
                        // Whoever asked may have gone.
                        drop(done.send(said));
                    }
                    Order::Stop(what, told) => {
                        self.stopping = Some(Stopping { what, told, heard: false });
                    }
                },
                () = sleep_until(over_at) => over_at = self.give_up(Instant::now()),
            }
        }
    }

    async fn register(&self, ping: &Line) -> Result<(), Trouble> {
        let serves = self.services.iter().map(|service| service.serves.clone()).collect();
        let init = Ask::Init {
            client: self.me,
            name: self.options.name.clone().into(),
            serves,
            eager: false,
        };
        match timeout(self.options.connect_timeout, self.room.ask(ping, &init)).await {
            Ok(Ok(Reply::Refused(refusal))) => {
                Err(Trouble::Refused { place: self.address.to_string(), why: refusal.to_string() })
            }
            Ok(Ok(_)) => Ok(()),
            Ok(Err(trouble)) => Err(trouble),
            Err(_) => Err(Trouble::unreachable(&self.address, "it does not register in time")),
        }
    }

    /// Serves on one set of connections. Says what broke; nothing if it was stopped.
    async fn serve(&mut self, link: Link) -> Option<Trouble> {
        let now = Instant::now();
        let mut way = Way {
            link,
            ears: Ears::default(),
            steps: JoinSet::new(),
            ping_at: now,
            pong_by: None,
            guard_at: now + self.options.ping_interval,
            look_at: now + FAR,
            arrived: Vec::new(),
            settle_at: None,
        };
        self.connections.send_modify(|now| {
            *now = Connections { made: now.made + 1, trouble: None };
        });
        self.send_all_again(&mut way);
        let trouble = self.work(&mut way).await;
        // Whatever is under way is given up before anything new is opened.
        way.steps.shutdown().await;
        way.link.close().await;
        trouble
    }

    async fn work(&mut self, way: &mut Way) -> Option<Trouble> {
        let mut alarm = std::pin::pin!(sleep_until(self.next_wake(way)));
        let mut turns = 0_u32;
        loop {
            if self.is_settled(way) {
                return None;
            }
            self.tally.has(self.held.len());
            let wake = self.next_wake(way);
            // One that rings too early is set again then; to put it off costs as much as to set it.
            if wake < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(wake);
            }
            // What leads to further steps waits until those that are planned are written.
            let goes_on = way.link.publisher.has_room();
            let room = goes_on && self.asked.len() < self.options.outstanding_max;
            // However much there is to hear, the time is looked at.
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS) && Instant::now() >= wake {
                if let trouble @ Some(_) = self.wake(way) {
                    return trouble;
                }
                continue;
            }
            // All of these may be dropped while they wait: nothing is taken before it is ready. The publisher
            // comes behind whatever makes steps, so that they are written together.
            let trouble = tokio::select! {
                biased;
                heard = way.link.listener.next(), if goes_on => match heard {
                    Some((channel, message)) => {
                        if let Some(heard) = way.ears.hear(&channel, &message) {
                            self.hear(way, heard);
                        }
                        None
                    }
                    None => Some(Trouble::broken(&self.address, "the subscription ended")),
                },
                () = &mut alarm => self.wake(way),
                Some(done) = way.steps.join_next() => match done {
                    Ok(done) => self.done(done),
                    Err(_) => None,
                },
                Some(finished) = self.finished.recv(), if goes_on => {
                    self.finish(way, finished);
                    None
                }
                order = self.orders.recv(), if room => match order {
                    Some(order) => {
                        self.order(way, order);
                        None
                    }
                    // The last handle is gone.
                    None => return None,
                },
                said = way.link.publisher.next() => match said {
                    Some((script, calls, value)) => {
                        self.said(way, script, calls, &value);
                        None
                    }
                    None => Some(Trouble::broken(&self.address, "the publisher was closed")),
                },
                () = way.link.ping.broke() => {
                    Some(Trouble::broken(&self.address, "the ping connection was closed"))
                }
            };
            if trouble.is_some() {
                return trouble;
            }
        }
    }

    /// Everything is settled, and whoever waits for that is told.
    fn is_settled(&mut self, way: &Way) -> bool {
        let nothing_under_way = way.steps.is_empty() && way.link.publisher.is_idle();
        let nothing_left = self.held.is_empty() && way.arrived.is_empty() && nothing_under_way;
        let settled = |what: Settle| match what {
            Settle::Everything => self.asked.is_empty(),
            Settle::AllButAnswers => self.asked.values().all(Asked::is_registered),
        };
        match self.stopping.take() {
            Some(stopping) if stopping.heard && nothing_left && settled(stopping.what) => {
                self.tally.has(0);
                // Whoever asked may have lost patience.
                stopping.told.send(()).unwrap_or_default();
                true
            }
            other => {
                self.stopping = other;
                false
            }
        }
    }

    fn order(&mut self, way: &mut Way, order: Order) {
        match order {
            Order::Call(asking) => self.call(way, *asking),
            Order::Cancel(call, done) if self.cancel_asked(call) => {
                // Whoever asked may have gone.
                drop(done.send(Ok(())));
            }
            Order::Cancel(call, done) => {
                let (room, line) = (self.room.clone(), way.link.publisher.line.clone());
                way.steps.spawn(async move {
                    let cancel = Ask::Cancel { call, by: None };
                    let result = room.ask(&line, &cancel).await.map(drop);
                    // Whoever asked may have gone.
                    drop(done.send(result.clone()));
                    Done::Else(result)
                });
            }
            Order::Stop(what, told) => {
                self.stopping = Some(Stopping { what, told, heard: false });
                self.send_stop(way);
            }
        }
    }

    fn send_stop(&self, way: &mut Way) {
        self.send(way, Ask::Stop { client: self.me });
    }

    /// What Redis said to steps that went together. Whatever it refused was not done, and is asked again by
    /// itself, where it is found out why.
    fn said(&mut self, way: &mut Way, script: Script, calls: Vec<CallId>, value: &Value) {
        let mut said = value.array().iter();
        for call in calls {
            if matches!(said.next(), Some(Value::Simple(_))) {
                continue;
            }
            match script {
                Script::Request => self.ask_alone(way, call),
                Script::RequestAck => self.accept_alone(way, call),
                Script::Response => self.answer_alone(way, call),
                _ => self.acknowledge_alone(way, call),
            }
        }
    }

    /// Sends a step whose event says what came of it.
    fn send(&self, way: &mut Way, ask: Ask) {
        let (room, line) = (self.room.clone(), way.link.publisher.line.clone());
        way.steps.spawn(async move { Done::Else(room.ask(&line, &ask).await.map(drop)) });
    }

    fn hear(&mut self, way: &mut Way, heard: Heard) {
        match heard {
            Heard::Pong => way.pong_by = None,
            Heard::Stopped => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.heard = true;
                }
            }
            Heard::Registered { call } => self.registered(way, call),
            Heard::Ended { call, end } => self.ended(way, call, end),
            Heard::Acknowledged { call, end } => self.acknowledged(call, end),
            Heard::Offered { call, channel, work, facts } => {
                self.offered(way, call, channel, work, facts);
            }
            Heard::Held { call, held, work, denied } => {
                self.is_held(way, call, (held, denied), work);
            }
            Heard::Taken { call, fence, taken } => self.taken(call, fence, taken),
            Heard::Cancelled { call, fence } => self.cancelled(call, fence),
        }
    }

    /// What Redis said to a step. It is read for errors only.
    fn done(&mut self, done: Done) -> Option<Trouble> {
        match done {
            Done::Asked(call, result) => match result {
                Ok(Reply::Refused(Refusal::NoClient(_))) => {
                    Some(Trouble::broken(&self.address, "Redis does not know this client any more"))
                }
                Ok(Reply::Refused(refusal)) => {
                    self.refused(call, NoAnswer::Refused(refusal));
                    None
                }
                Ok(_) => None,
                Err(trouble) if trouble.may_pass() => Some(trouble),
                Err(trouble) => {
                    self.refused(call, NoAnswer::Trouble(trouble.clone()));
                    None
                }
            },
            Done::Pinged(Ok(Reply::Refused(_))) => {
                Some(Trouble::broken(&self.address, "Redis does not know this client any more"))
            }
            Done::Pinged(Err(trouble)) | Done::Else(Err(trouble)) => Some(trouble),
            Done::Pinged(Ok(_)) | Done::Else(Ok(())) => None,
        }
    }

    /// When something has to be done even if nothing happens.
    fn next_wake(&self, way: &Way) -> Instant {
        let wake = way.pong_by.unwrap_or(way.ping_at).min(way.look_at);
        let wake = way.settle_at.map_or(wake, |at| wake.min(at));
        if self.options.guards { wake.min(way.guard_at) } else { wake }
    }

    fn wake(&mut self, way: &mut Way) -> Option<Trouble> {
        let now = Instant::now();
        if way.pong_by.is_some_and(|by| now >= by) {
            return Some(Trouble::broken(&self.address, "a ping did not come back in time"));
        }
        if way.pong_by.is_none() && now >= way.ping_at {
            way.ping_at = now + self.options.ping_interval;
            way.pong_by = Some(now + self.options.ping_timeout);
            let (room, line, client) = (self.room.clone(), way.link.ping.clone(), self.me);
            way.steps
                .spawn(async move { Done::Pinged(room.ask(&line, &Ask::Ping { client }).await) });
        }
        if self.options.guards && now >= way.guard_at {
            way.guard_at = now + GUARD;
            let (room, line) = (self.room.clone(), way.link.publisher.line.clone());
            let name = format!("c{}", self.me);
            way.steps.spawn(async move { Done::Else(room.guard(&line, &name).await.map(drop)) });
        }
        if now >= way.look_at {
            self.send_late_again(way, now);
        }
        if way.settle_at.is_some_and(|at| now >= at) {
            self.settle(way);
        }
        None
    }

    /// After a new connection: nobody knows what of the old one arrived.
    fn send_all_again(&mut self, way: &mut Way) {
        let now = Instant::now();
        let asked: Vec<CallId> = self.asked.keys().copied().collect();
        asked.into_iter().for_each(|call| self.ask_again(way, call, now));
        let held: Vec<CallId> = self.held.keys().copied().collect();
        held.into_iter().for_each(|call| self.hold_again(way, call, now));
        if let Some(stopping) = &mut self.stopping {
            stopping.heard = false;
            self.send_stop(way);
        }
    }

    /// Steps that were not confirmed for too long, and heartbeats.
    fn send_late_again(&mut self, way: &mut Way, now: Instant) {
        way.look_at = now + FAR;
        let late = |by: Option<Instant>| by.is_some_and(|by| by <= now);
        let asked: Vec<CallId> = self
            .asked
            .iter()
            .filter(|(_, asked)| late(asked.wake_at()))
            .map(|(call, _)| *call)
            .collect();
        asked.into_iter().for_each(|call| self.ask_again(way, call, now));
        let held: Vec<CallId> = self
            .held
            .iter()
            .filter(|(_, held)| held.wake_at() <= now)
            .map(|(call, _)| *call)
            .collect();
        held.into_iter().for_each(|call| self.hold_again(way, call, now));
        let asked = self.asked.values().filter_map(Asked::wake_at);
        let next = asked.chain(self.held.values().map(Held::wake_at)).min();
        next.into_iter().for_each(|next| way.plan(next));
    }
}

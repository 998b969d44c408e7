//! Random schedules, judged by somebody who knows only what was asked and what was heard.
//!
//! Callers and consumers do whatever they may do, in any order: ask twice, answer late, answer what
//! they never had, go away and come back, while time passes. In the end everybody behaves, and every
//! call that was registered must have ended, once.
//!
//! Of several consumers a transport chooses as it likes. Where two transports are to do the same step
//! by step, nothing is left to choose: [`schedules_without_choice`].

mod judge;

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use handoff_types::Span;
use handoff_types::entropy::mix;

use self::judge::Judge;
use super::{Bench, Fresh};
use crate::{
    Ask, CallId, ChannelName, ChannelSettings, ClientId, Failing, HandlerError, NewCall, Notice,
    OnLost, Reply, Rules, Serves,
};

const CALLERS: [ClientId; 2] = [ClientId::of_chance(1), ClientId::of_chance(2)];
const WORKERS: [ClientId; 3] =
    [ClientId::of_chance(11), ClientId::of_chance(12), ClientId::of_chance(13)];
const CHANNELS: [&str; 3] = ["again", "once", "light"];
const STEPS: u64 = 60;
const CALLS_MAX: usize = 10;

/// What a handler says when it is not left to chance.
const PAUSE: Span = Span::from_millis(300);

/// Runs a schedule for every seed. What breaks names its seed.
pub async fn schedules<F: Fresh>(fresh: &F, seeds: Range<u64>) {
    for seed in seeds {
        schedule(fresh, seed, true).await;
    }
}

/// The same with one consumer for each channel at any time, and pauses that handlers name: then what
/// happens follows from what is asked, and chance has no part in it.
pub async fn schedules_without_choice<F: Fresh>(fresh: &F, seeds: Range<u64>) {
    for seed in seeds {
        schedule(fresh, seed, false).await;
    }
}

async fn schedule<F: Fresh>(fresh: &F, seed: u64, choice: bool) {
    let named = Named(seed);
    let mut play = Play::new(fresh, seed, choice).await;
    for _ in 0..STEPS {
        play.step().await;
    }
    play.everybody_behaves().await;
    drop(named);
}

/// Says which seed it was.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the schedule of seed {} broke a promise", self.0);
        }
    }
}

/// What a schedule is about.
fn settings(channel: &str) -> ChannelSettings {
    let short = ChannelSettings {
        lease: Span::from_secs(6),
        backoff_min: Span::from_millis(200),
        backoff_max: Span::from_secs(2),
        ..ChannelSettings::default()
    };
    match channel {
        "once" => ChannelSettings { on_lost: OnLost::Fail, ..short },
        "light" => ChannelSettings { durability: crate::Durability::Memory, ..short },
        _ => short,
    }
}

struct Play<B> {
    bench: B,
    chance: u64,
    judge: Judge,
    made: Vec<NewCall>,
    /// Whether a channel may have several consumers.
    choice: bool,
    /// Who came last to serve a channel and did not come without it since.
    owners: BTreeMap<ChannelName, ClientId>,
}

impl<B: Bench> Play<B> {
    async fn new<F: Fresh<Bench = B>>(fresh: &F, seed: u64, choice: bool) -> Self {
        let bench = fresh.fresh(Rules::default()).await;
        let (judge, made, owners) = (Judge::default(), Vec::new(), BTreeMap::new());
        let mut play = Self { bench, chance: mix(seed), judge, made, choice, owners };
        for channel in CHANNELS {
            let set = Ask::SetChannel { channel: name(channel), settings: settings(channel) };
            assert_eq!(play.ask(set).await, Reply::Done);
        }
        for caller in CALLERS {
            play.come(caller).await;
        }
        play
    }

    fn draw(&mut self, below: usize) -> usize {
        self.chance = mix(self.chance);
        usize::try_from(self.chance % below.max(1) as u64).unwrap_or(0)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let at = self.draw(of.len());
        of.get(at).copied()
    }

    async fn ask(&mut self, ask: Ask) -> Reply {
        self.judge.asks(&ask);
        let reply = self.bench.ask(ask.clone()).await.expect("the transport works");
        self.judge.answered(&ask, &reply);
        self.listen().await;
        reply
    }

    /// Nobody knows what was told first to two clients, so offers are taken to be, by their fences.
    async fn listen(&mut self) {
        let mut heard: Vec<(ClientId, Notice)> = Vec::new();
        for client in CALLERS.into_iter().chain(WORKERS) {
            let notices = self.bench.heard(client).await.expect("the transport works");
            heard.extend(notices.into_iter().map(|notice| (client, notice)));
        }
        heard.sort_by_key(|(_, notice)| match notice {
            Notice::Offer(offer) => offer.fence,
            _ => u64::MAX,
        });
        for (client, notice) in heard {
            self.judge.hears(client, &notice);
        }
        self.judge.heard_all();
    }

    async fn come(&mut self, client: ClientId) {
        let serves = if WORKERS.contains(&client) {
            let mut serves: Vec<Serves> = Vec::new();
            for channel in CHANNELS {
                let owner = self.owners.get(&name(channel));
                let is_free = self.choice || owner.is_none_or(|owner| *owner == client);
                if self.draw(3) > 0 && is_free {
                    let concurrency = if self.draw(2) == 0 { 1 } else { 3 };
                    serves.push(Serves { channel: name(channel), concurrency });
                }
            }
            serves
        } else {
            Vec::new()
        };
        self.come_to_serve(client, serves).await;
    }

    async fn come_to_serve(&mut self, client: ClientId, serves: Vec<Serves>) {
        self.owners.retain(|_, owner| *owner != client);
        self.owners.extend(serves.iter().map(|one| (one.channel.clone(), client)));
        let eager = self.bench.knows_eager() && mix(self.chance ^ 1).is_multiple_of(2);
        self.ask(Ask::Init { client, name: "".into(), serves, eager }).await;
    }

    async fn step(&mut self) {
        match self.draw(20) {
            0..=3 if self.made.len() < CALLS_MAX => self.call().await,
            4 => {
                // Sent again.
                let at = self.draw(self.made.len());
                if let Some(again) = self.made.get(at).cloned() {
                    self.ask(Ask::Request(Box::new(again))).await;
                }
            }
            5 | 6 => {
                if let Some(worker) = self.one(&WORKERS) {
                    self.come(worker).await;
                }
            }
            7 => {
                let Some(client) = self.one(&WORKERS) else { return };
                let ask = match self.draw(3) {
                    0 => Ask::Stop { client },
                    _ => Ask::Away { client },
                };
                self.ask(ask).await;
            }
            8 => {
                if let Some(call) = self.any_call() {
                    self.ask(Ask::Cancel { call, by: None }).await;
                }
            }
            9 => {
                let caller = self.one(&CALLERS);
                if let (Some(client), Some(call)) = (caller, self.any_call()) {
                    self.ask(Ask::Acknowledge { client, call }).await;
                }
            }
            10..=15 => self.work().await,
            _ => self.time().await,
        }
    }

    fn any_call(&mut self) -> Option<CallId> {
        let at = self.draw(self.made.len());
        self.made.get(at).map(|call| call.id)
    }

    async fn call(&mut self) {
        let id = CallId::of_chance(self.made.len() as u128 + 1);
        let Some(caller) = self.one(&CALLERS) else { return };
        let Some(channel) = self.one(&CHANNELS) else { return };
        let keyed = self.draw(4) == 0;
        let params = if keyed { Bytes::from("{}") } else { Bytes::from(format!("\"{id}\"")) };
        let timeout = [None, Some(Span::from_secs(9)), Some(Span::from_secs(40))];
        let new = NewCall {
            id,
            caller: Some(caller),
            channel: name(channel),
            params,
            key: keyed.then(|| "key".parse().ok()).flatten(),
            timeout: self.one(&timeout).flatten(),
            queue_timeout: self.one(&timeout).flatten(),
            only_with_consumer: self.draw(6) == 0,
            trace: None,
        };
        self.made.push(new.clone());
        self.ask(Ask::Request(Box::new(new))).await;
    }

    /// A consumer does something about a call it was told of, now or long ago, or was not.
    async fn work(&mut self) {
        let known = self.judge.offered();
        let at = self.draw(known.len());
        let Some((mut client, call, fence)) = known.get(at).copied() else { return };
        if self.draw(12) == 0 {
            // Somebody who never had it.
            client = self.one(&WORKERS).unwrap_or(client);
        }
        match self.draw(6) {
            0 | 1 => drop(self.ask(Ask::Accept { client, call, fence }).await),
            2 => drop(self.ask(Ask::Heartbeat { client, call, fence }).await),
            _ => {
                let retry_after = (!self.choice).then_some(PAUSE);
                let result = match self.draw(4) {
                    0 => Err(Failing { error: error(), terminal: false, retry_after }),
                    1 => Err(Failing { error: error(), terminal: true, retry_after }),
                    _ => Ok(Bytes::from(format!("\"{client} {fence}\""))),
                };
                self.ask(Ask::Respond { client, call, fence, result }).await;
            }
        }
    }

    async fn time(&mut self) {
        let spans = [50, 400, 1_500, 4_000, 7_000];
        let span = Span::from_millis(self.one(&spans).unwrap_or(50));
        self.judge.time_passes(span);
        self.bench.pass(span).await;
        self.listen().await;
        // Callers are alive all the time; of consumers only some.
        for client in CALLERS {
            self.ask(Ask::Ping { client }).await;
        }
        for client in WORKERS {
            if self.draw(3) > 0 {
                self.ask(Ask::Ping { client }).await;
            }
        }
    }

    /// One consumer serves everything and answers everything; then nothing is left open.
    async fn everybody_behaves(&mut self) {
        let [last, others @ ..] = WORKERS;
        if !self.choice {
            for other in others {
                self.come_to_serve(other, Vec::new()).await;
            }
        }
        let all = CHANNELS.map(|channel| Serves { channel: name(channel), concurrency: 100 });
        let rounds = 40;
        for _ in 0..rounds {
            self.come_to_serve(last, all.to_vec()).await;
            for (client, call, fence) in self.judge.offered() {
                if client == last && self.judge.is_open(call) {
                    let result = Ok(Bytes::from(format!("\"{client} {fence}\"")));
                    self.ask(Ask::Respond { client, call, fence, result }).await;
                }
            }
            let span = Span::from_secs(3);
            self.judge.time_passes(span);
            self.bench.pass(span).await;
            self.listen().await;
            for client in CALLERS {
                self.ask(Ask::Ping { client }).await;
            }
        }
        self.judge.closes();
    }
}

fn error() -> HandlerError {
    HandlerError { name: "E".into(), message: "failed".into(), code: "e".into() }
}

fn name(text: &str) -> ChannelName {
    text.parse().expect("a channel")
}

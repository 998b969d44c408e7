//! Whoever uses the calls room: callers that ask again, consumers that answer late, twice, or what was
//! never theirs, and a way between that loses what they are told.

use std::collections::BTreeSet;

use bytes::Bytes;
use handoff_calls::{
    Ask, CallId, ChannelName, ChannelSettings, ClientId, Command, Durability, Failing,
    HandlerError, NewCall, Notice, OnLost, Reply, Rules, Serves,
};
use handoff_types::Span;

use super::asked::Asked;
use super::oracle::answer;
use crate::dice::Dice;
use crate::history::{History, Kind};

/// Whoever calls.
pub(super) const CALLERS: [ClientId; 2] = [ClientId::of_chance(1), ClientId::of_chance(2)];

/// Whoever serves.
pub(super) const WORKERS: [ClientId; 3] =
    [ClientId::of_chance(11), ClientId::of_chance(12), ClientId::of_chance(13)];

/// Whoever was never there.
pub(super) const NOBODY: ClientId = ClientId::of_chance(99);

/// What is served: run again if its executor is lost; never; and in memory only.
pub(super) const CHANNELS: [&str; 3] = ["again", "once", "light"];

/// How long a call that is over is known.
pub(super) const KEPT: Span = Span::from_secs(600);

/// The time of a call that names none.
pub(super) const CALL_TIME: Span = Span::from_secs(3_600);

/// How many calls and offers are remembered to speak of them again.
const REMEMBERED: usize = 16;

/// What a call of many sectors takes.
const LARGE: u64 = 6_000;

/// How the calls of a channel are treated.
pub(super) fn settings(channel: &str) -> ChannelSettings {
    let short = ChannelSettings {
        lease: Span::from_secs(6),
        backoff_min: Span::from_millis(200),
        backoff_max: Span::from_secs(2),
        ..ChannelSettings::default()
    };
    match channel {
        "once" => ChannelSettings { on_lost: OnLost::Fail, ..short },
        "light" => ChannelSettings { durability: Durability::Memory, ..short },
        _ => short,
    }
}

pub(super) fn name(channel: &str) -> ChannelName {
    match channel.parse() {
        Ok(name) => name,
        Err(_) => unreachable!("every channel of the world has a name"),
    }
}

/// Makes questions up.
#[derive(Debug)]
pub(super) struct Workload {
    dice: Dice,
    pub(super) rules: Rules,
    /// Channels of which somebody was told that they are described.
    described: BTreeSet<ChannelName>,
    /// Clients that were told that they are known to this server.
    here: BTreeSet<ClientId>,
    made: Vec<NewCall>,
    drawn: u128,
    /// What consumers heard of.
    offers: Vec<(ClientId, CallId, u64)>,
    /// Ends that callers heard of.
    ends: Vec<(ClientId, CallId)>,
}

impl Workload {
    pub(super) fn new(mut dice: Dice) -> Self {
        let rules = Rules {
            kept: KEPT,
            key_kept: KEPT,
            call_time_max: CALL_TIME,
            dead_kept: KEPT,
            dead_max: 3,
            body_bytes_max: 8_000,
            queue_max: if dice.one_in(3) { 4 } else { 16 },
            kept_max: if dice.one_in(2) { 6 } else { 1_000 },
            calls_max: if dice.one_in(3) { 30 } else { 1_000 },
            ..Rules::default()
        };
        Self {
            dice,
            rules,
            described: BTreeSet::new(),
            here: BTreeSet::new(),
            made: Vec::new(),
            drawn: 0,
            offers: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// A server begins: nobody is known to it.
    pub(super) fn begins(&mut self) {
        self.here.clear();
    }

    pub(super) fn command(&self, ask: Ask) -> Command {
        Command { ask, rules: self.rules }
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        self.dice.pick(of).copied()
    }

    /// Something that somebody asks for.
    pub(super) fn next(&mut self) -> Ask {
        let missing = CHANNELS.iter().find(|channel| !self.described.contains(&name(channel)));
        if let Some(channel) = missing {
            return Ask::SetChannel { channel: name(channel), settings: settings(channel) };
        }
        let absent = CALLERS.into_iter().find(|caller| !self.here.contains(caller));
        if let Some(client) = absent {
            return Ask::Init { client, name: "".into(), serves: Vec::new(), eager: false };
        }
        match self.dice.below(24) {
            0..4 => self.request(30),
            4 | 5 => self.again(),
            6 | 7 => self.come(),
            8 => self.leave(),
            9 => match self.any_call() {
                Some(call) if self.dice.one_in(2) => Ask::Cancel { call, by: None },
                _ => self.ping(),
            },
            10 | 11 => {
                let end = self.dice.pick(&self.ends).copied();
                end.map_or(Ask::Tick, |(client, call)| Ask::Acknowledge { client, call })
            }
            12 => self.ping(),
            13 if self.dice.one_in(6) => self.letters(),
            _ => self.work(),
        }
    }

    /// Whether the server said of every channel that it is as the world needs it.
    pub(super) fn is_described(&self) -> bool {
        CHANNELS.iter().all(|channel| self.described.contains(&name(channel)))
    }

    /// A call that takes many sectors.
    pub(super) fn large(&mut self) -> Ask {
        self.request(LARGE)
    }

    fn request(&mut self, bytes: u64) -> Ask {
        self.drawn += 1;
        let id = CallId::of_chance(self.drawn);
        let keyed = self.dice.one_in(6);
        let length = usize::try_from(self.dice.below(bytes)).unwrap_or(0);
        let params = match keyed {
            true => Bytes::from("{}"),
            false => Bytes::from(format!("\"{id}{}\"", "x".repeat(length))),
        };
        let times = [None, Some(Span::from_secs(9)), Some(Span::from_secs(120))];
        let caller = if self.dice.one_in(8) { None } else { self.one(&CALLERS) };
        let channel = self.one(&CHANNELS).unwrap_or("again");
        let key = keyed.then(|| format!("key-{}", self.dice.below(3)).parse().ok()).flatten();
        let new = NewCall {
            id,
            caller,
            channel: name(channel),
            params,
            key,
            timeout: self.one(&times).flatten(),
            queue_timeout: self.one(&times).flatten(),
            only_with_consumer: self.dice.one_in(6),
            trace: None,
        };
        remember(&mut self.made, new.clone());
        Ask::Request(Box::new(new))
    }

    /// The same call once more, or another under its id.
    fn again(&mut self) -> Ask {
        let Some(mut new) = self.dice.pick(&self.made).cloned() else { return Ask::Tick };
        if self.dice.one_in(12) {
            new.params = Bytes::from("\"another\"");
        }
        Ask::Request(Box::new(new))
    }

    fn come(&mut self) -> Ask {
        let client = self.one(&WORKERS).unwrap_or(CALLERS[0]);
        let mut serves = Vec::new();
        for channel in CHANNELS {
            if !self.dice.one_in(3) {
                let concurrency = if self.dice.one_in(2) { 1 } else { 3 };
                serves.push(Serves { channel: name(channel), concurrency });
            }
        }
        // Two of three begin at once.
        let eager = Some(&client) != WORKERS.first();
        Ask::Init { client, name: "".into(), serves, eager }
    }

    fn leave(&mut self) -> Ask {
        let client = self.one(&WORKERS).unwrap_or(CALLERS[0]);
        if self.dice.one_in(3) { Ask::Stop { client } } else { Ask::Away { client } }
    }

    fn ping(&mut self) -> Ask {
        let everybody: Vec<ClientId> = CALLERS.into_iter().chain(WORKERS).collect();
        let client = self.one(&everybody).unwrap_or(CALLERS[0]);
        Ask::Ping { client }
    }

    /// Somebody looks after dead letters. Those that are called again are nobody's, so they are dropped.
    fn letters(&mut self) -> Ask {
        let channel = name(self.one(&CHANNELS).unwrap_or("once"));
        Ask::Purge { channel, only: None }
    }

    fn any_call(&mut self) -> Option<CallId> {
        self.dice.pick(&self.made).map(|call| call.id)
    }

    /// A consumer does something about a call it heard of, now or long ago, or did not.
    fn work(&mut self) -> Ask {
        let latest = self.offers.len().saturating_sub(4);
        let some = if self.dice.one_in(4) { 0 } else { latest };
        let known = self.offers.get(some..).unwrap_or_default();
        let Some((mut client, call, fence)) = self.dice.pick(known).copied() else {
            return self.come();
        };
        if self.dice.one_in(12) {
            // Somebody who never had it.
            client = self.one(&WORKERS).unwrap_or(client);
        }
        let error = HandlerError { name: "E".into(), message: "failed".into(), code: "e".into() };
        let failing = |terminal| Failing { error, terminal, retry_after: None };
        let result = match self.dice.below(12) {
            0..4 => return Ask::Accept { client, call, fence },
            4 | 5 => return Ask::Heartbeat { client, call, fence },
            6 => Err(failing(true)),
            7 | 8 => Err(failing(false)),
            _ => Ok(answer(client, fence)),
        };
        Ask::Respond { client, call, fence, result }
    }

    /// What was told reaches some of those it was for.
    pub(super) fn heard(&mut self, asked: &Asked, history: &mut History) {
        match (&asked.ask, &asked.reply) {
            (Ask::SetChannel { channel, .. }, Reply::Done) => {
                self.described.insert(channel.clone());
            }
            (Ask::Init { client, .. } | Ask::Ping { client }, Reply::Done) => {
                self.here.insert(*client);
            }
            (_, Reply::Refused(handoff_calls::Refusal::NoClient(client))) => {
                self.here.remove(client);
            }
            _ => {}
        }
        for notice in &asked.notices {
            if self.dice.one_in(8) {
                history.count(Kind::Injected, "a notice lost");
                continue;
            }
            match notice {
                Notice::Offer(offer) => {
                    remember(&mut self.offers, (offer.to, offer.call, offer.fence));
                }
                Notice::Ended { to: Some(to), call, .. } => {
                    remember(&mut self.ends, (*to, *call));
                }
                _ => {}
            }
        }
    }
}

fn remember<T>(all: &mut Vec<T>, one: T) {
    if all.len() >= REMEMBERED {
        all.remove(0);
    }
    all.push(one);
}

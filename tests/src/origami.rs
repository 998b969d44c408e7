//! A foreign peer of calls on Redis, as a stand-in: it knows keys, gates, lists and bytes as the
//! documents of others have them, speaks raw RESP, and shares nothing with ours.
//!
//! `peer.lua` is its side of the protocol, in the layouts of 1.0.x and of 1.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::redis::{Said, Server, Wire};

const SCRIPT: &str = include_str!("origami/peer.lua");

/// Which layouts a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.0.3: bodies ride on `b` and `e`, and `e` names the executor.
    Early,
    /// 1.1.0: bodies ride on `d` and `f`.
    Swapped,
}

impl Version {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Early, Self::Swapped];

    const fn text(self) -> &'static str {
        match self {
            Self::Early => "1.0.3",
            Self::Swapped => "1.1.0",
        }
    }
}

/// Something a peer was told: the letter, what followed the id on the channel, the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// `a` to `h`.
    pub kind: char,
    /// The channel of an offer.
    pub channel: String,
    /// The bytes.
    pub message: String,
}

/// A peer.
#[derive(Debug)]
pub struct Peer {
    /// What it calls itself.
    pub node: String,
    version: Version,
    commands: Wire,
    events: Wire,
}

/// An id of 36 characters that no other has: of this process' own count, in the shape of a UUID.
#[must_use]
pub fn id() -> String {
    static MADE: AtomicU64 = AtomicU64::new(1);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id())
}

impl Peer {
    /// A peer that serves a channel, or none.
    ///
    /// # Panics
    /// When the server does not take it.
    #[must_use]
    pub fn start(server: &Server, version: Version, channel: &str) -> Self {
        let node = id();
        let mut events = server.connect();
        let mut words = vec!["SUBSCRIBE".to_owned()];
        words.extend("acdefgh".chars().map(|kind| format!("origami.{kind}{node}")));
        if !channel.is_empty() {
            words.push(format!("origami.b{node}{channel}"));
        }
        events.send(&words.iter().map(|word| &**word).collect::<Vec<_>>());
        for _ in 1..words.len() {
            events.hear();
        }
        let mut peer = Self { node, version, commands: server.connect(), events };
        let node = peer.node.clone();
        peer.run("init", &[&node, channel]);
        peer
    }

    fn run(&mut self, verb: &str, arguments: &[&str]) {
        let mut words = vec!["EVAL", SCRIPT, "0", verb, self.version.text()];
        words.extend_from_slice(arguments);
        let said = self.commands.ask(&words);
        assert_eq!(said, Said::Number(1), "{verb} {arguments:?}");
    }

    /// The next thing it is told.
    ///
    /// # Panics
    /// When nothing comes for long.
    pub fn told(&mut self) -> Told {
        let said = self.events.hear();
        let texts = said.texts();
        let [_, channel, message] = texts[..] else { panic!("no message: {said:?}") };
        let (kind, rest) = channel.strip_prefix("origami.").expect("a channel").split_at(1);
        let channel = rest.strip_prefix(&*self.node).expect("it is for this peer").to_owned();
        let kind = kind.chars().next().expect("a letter");
        Told { kind, channel, message: message.to_owned() }
    }

    /// The next thing of a kind. Others are passed by: a peer is told again what it did not confirm.
    ///
    /// # Panics
    /// When it does not come.
    pub fn told_of(&mut self, kind: char) -> Told {
        loop {
            let told = self.told();
            if told.kind == kind {
                return told;
            }
        }
    }

    /// Says that it is here, as it does every second.
    pub fn ping(&mut self) {
        let node = self.node.clone();
        self.run("ping", &[&node]);
    }

    /// Asks, with a time in the queue in seconds or "0".
    pub fn request(&mut self, channel: &str, params: &str, timeout: &str) -> String {
        let (node, id) = (self.node.clone(), id());
        self.run("request", &[&node, &id, channel, params, timeout]);
        id
    }

    /// Accepts what it was offered.
    pub fn accept(&mut self, id: &str) {
        let node = self.node.clone();
        self.run("request_ack", &[&node, id]);
    }

    /// Answers: "0" for a result, "1" for an error.
    pub fn respond(&mut self, id: &str, flag: &str, body: &str) {
        let node = self.node.clone();
        self.run("response", &[&node, id, flag, body]);
    }

    /// Says that it has an answer.
    pub fn settle(&mut self, id: &str) {
        let node = self.node.clone();
        self.run("response_ack", &[&node, id]);
    }

    /// Wants no more.
    pub fn stop(&mut self) {
        let node = self.node.clone();
        self.run("stop", &[&node]);
    }

    /// Serves one call: accepts what it is offered and answers it as `handler` says. Gives the call's id
    /// and params.
    ///
    /// # Panics
    /// When the bytes are not those of its version.
    pub fn serve_one(
        &mut self,
        handler: impl Fn(&str) -> (&'static str, String),
    ) -> (String, String) {
        let offer = self.told_of('b');
        let id = offer.message[..36].to_owned();
        self.accept(&id);
        let held = self.told_of('d');
        assert_eq!(&held.message[..37], format!("1{id}"), "the call is this peer's");
        let params = match self.version {
            Version::Early => offer.message[72..].to_owned(),
            Version::Swapped => held.message[73..].to_owned(),
        };
        let (flag, body) = handler(&params);
        self.respond(&id, flag, &body);
        assert_eq!(self.told_of('g').message, id);
        (id, params)
    }

    /// Serves until it is told `h`: accepts and answers whatever comes, several calls at once. Gives how
    /// many answers it was told are there.
    ///
    /// # Panics
    /// When nothing comes for long.
    pub fn serve(&mut self, handler: impl Fn(&str) -> String) -> u64 {
        let (mut work, mut answered) = (BTreeMap::new(), BTreeSet::new());
        let mut served = 0;
        loop {
            let told = self.told();
            match told.kind {
                'b' => {
                    let id = told.message[..36].to_owned();
                    let params = told.message.get(72..).unwrap_or_default().to_owned();
                    if work.insert(id.clone(), params).is_none() {
                        self.accept(&id);
                    }
                }
                'd' if told.message.starts_with('1') => {
                    let id = told.message[1..37].to_owned();
                    let params = match (self.version, work.get(&id)) {
                        (Version::Early, Some(params)) => params.clone(),
                        _ => told.message.get(73..).unwrap_or_default().to_owned(),
                    };
                    if answered.insert(id.clone()) {
                        self.respond(&id, "0", &handler(&params));
                    }
                }
                'g' => served += 1,
                'h' => return served,
                _ => {}
            }
        }
    }

    /// Waits for the end of what it asked, and confirms it. Gives the digit and the answer.
    ///
    /// # Panics
    /// When the bytes are not those of its version.
    pub fn end_of(&mut self, id: &str) -> (String, String) {
        let ended = self.told_of('e');
        self.settle(id);
        let settled = self.told_of('f');
        let (message, executor) = match self.version {
            Version::Early => {
                assert_eq!(settled.message, id);
                (ended.message, 36)
            }
            Version::Swapped => {
                assert_eq!(ended.message, id);
                (settled.message, 36)
            }
        };
        assert_eq!(&message[1..37], id);
        let answer = message.get(37 + executor..).unwrap_or_default();
        (message[..1].to_owned(), answer.to_owned())
    }
}

//! Guards a Redis: dispatches, redistributes, times out and heals for every peer, stock ones included.
//!
//! ```text
//!  PSUBSCRIBE origami.c* ─┐ (a stock peer brought a call)
//!  PSUBSCRIBE origami.g* ─┼─▶ one look for all that came meanwhile ──▶ guard.lua ──▶ due, brought, waiting
//!  a timer ───────────────┘ (an answer freed a slot)                                  │
//!                                              decided by the machine, apply.lua ◀────┘
//! ```
//!
//! * **Stock ticks sleep.** `origami:tick:time` is kept some seconds ahead, so that a stock peer's tick
//!   returns at once: it neither breaks on a call that nobody serves nor scans every list. When the last
//!   guardian is gone the time lapses and stock ticks run again.
//! * **One at a time.** A key with a short life says who guards. One that was frozen finds another's
//!   name there and does nothing; whatever it decided before is compared with the state and fence it was
//!   decided on, and is not applied.
//! * **Bounded.** One look takes some of everything and looks again at once while there is more.

use std::time::Duration;

use handoff_calls::CallId;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::address::Address;
use crate::line::Line;
use crate::link::refuse_cluster;
use crate::listener::Listener;
use crate::options::Options;
use crate::resp::Value;
use crate::room::Room;
use crate::scene::{Words, words};
use crate::scripts::Script;
use crate::socket::Socket;
use crate::tick::{DUE_AT_ONCE, ids};
use crate::trouble::Trouble;

/// How long a guardian that says nothing still guards.
const LEASE: Duration = Duration::from_secs(2);

/// How far ahead stock ticks are put off, in microseconds.
const AHEAD: u64 = 3_000_000;

/// How often it looks when nothing wakes it.
const LOOK: Duration = Duration::from_millis(200);

/// How often it goes through lists and listeners of stock peers.
const ROUND: Duration = Duration::from_secs(5);

/// How many ids of a list one round looks at.
const ROUND_IDS: usize = 1000;

/// How long a look may take before the connection is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a broken connection is left alone, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A listener of a channel that was not heard of for so long is taken off it, in microseconds.
const LISTENER_KEPT: u64 = 60_000_000;

/// A guardian at work. Dropped, it ends.
#[derive(Debug)]
pub struct Guardian {
    task: JoinHandle<()>,
    guards: watch::Receiver<bool>,
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Guardian {
    /// Connects and guards until it is dropped; through lost connections too.
    ///
    /// # Errors
    /// [`Trouble`], when the server cannot be used now.
    pub async fn start(address: &str, options: Options) -> Result<Self, Trouble> {
        let address: Address = address.parse().map_err(|error: crate::BadAddress| {
            Trouble::Refused { place: "calls.redis_url".to_owned(), why: error.to_string() }
        })?;
        let options = options.with_tls(&address)?;
        let room = options.room(&address)?;
        let post = Post::open(&address, &options).await?;
        tracing::info!(place = %address, "guarding calls on Redis; this is for a single node");
        let name = format!("g{:032x}", room.dice.roll().0);
        let (says, guards) = watch::channel(false);
        let task = tokio::spawn(guard(address, options, room, post, name, says));
        Ok(Self { task, guards })
    }

    /// Ready when this one guards, or does not any more.
    pub async fn guards(&mut self, wanted: bool) {
        // It ends with its task, and then it guards nothing.
        drop(self.guards.wait_for(|guards| *guards == wanted).await);
    }

    /// Ends it. Once this is ready its connections are closed.
    pub async fn stop(mut self) {
        self.task.abort();
        // It was cut off, which is what was asked for.
        drop((&mut self.task).await);
    }
}

/// Where a guardian stands: a connection to act, and one to be woken.
struct Post {
    line: Line,
    listener: Listener,
}

impl Post {
    async fn open(address: &Address, options: &Options) -> Result<Self, Trouble> {
        let patience = options.connect_timeout;
        let tls = options.tls.as_ref();
        let socket = Socket::open(address, tls, "handoff-guardian-listener", patience).await?;
        let patterns = ["origami.c*", "origami.g*"].map(str::to_owned);
        let listener = Listener::open(address, socket, "PSUBSCRIBE", &patterns, patience).await?;
        let mut socket = Socket::open(address, tls, "handoff-guardian", patience).await?;
        refuse_cluster(address, &mut socket, patience).await?;
        Ok(Self { line: Line::new(address.clone(), socket), listener })
    }

    async fn close(self) {
        drop(self.listener);
        self.line.close().await;
    }
}

async fn guard(
    address: Address,
    options: Options,
    room: Room,
    first: Post,
    name: String,
    says: watch::Sender<bool>,
) {
    let mut next = Some(first);
    let mut pause = RETRY.0;
    loop {
        let opened = match next.take() {
            Some(post) => Ok(post),
            None => Post::open(&address, &options).await,
        };
        match opened {
            Ok(mut post) => {
                let trouble = watch_over(&room, &mut post, &name, &says, &mut pause).await;
                says.send_replace(false);
                tracing::warn!(
                    error = &trouble as &dyn std::error::Error,
                    "guarding was interrupted"
                );
                post.close().await;
            }
            Err(trouble) => {
                tracing::warn!(
                    error = &trouble as &dyn std::error::Error,
                    "nothing can be guarded"
                );
            }
        }
        sleep(pause).await;
        pause = RETRY.1.min(pause * 2);
    }
}

/// Guards until the connection breaks. Says why.
async fn watch_over(
    room: &Room,
    post: &mut Post,
    name: &str,
    says: &watch::Sender<bool>,
    pause: &mut Duration,
) -> Trouble {
    let mut round = Instant::now();
    loop {
        let began = Instant::now();
        let rounds = began >= round;
        let look = async {
            let guards = room.guard(&post.line, name).await?;
            if rounds && guards.is_some() {
                room.go_round(&post.line).await?;
            }
            Ok::<_, Trouble>(guards)
        };
        let more = match timeout(PATIENCE, look).await {
            Ok(Ok(guards)) => {
                *pause = RETRY.0;
                says.send_if_modified(|said| {
                    std::mem::replace(said, guards.is_some()) != guards.is_some()
                });
                guards.unwrap_or(false)
            }
            Ok(Err(trouble)) => return trouble,
            Err(_) => return Trouble::broken(&room.address, "a look was not answered in time"),
        };
        if rounds {
            round = began + ROUND;
        }
        if more {
            continue;
        }
        // Both may be dropped while they wait: a message is taken or not.
        tokio::select! {
            heard = post.listener.next() => {
                if heard.is_none() {
                    return Trouble::broken(&room.address, "the subscription ended");
                }
                // One look is for all that came meanwhile.
                while post.listener.next_now().is_some() {}
            }
            () = sleep_until(began + LOOK) => {}
        }
    }
}

impl Room {
    /// Takes one look if nobody else guards. Says whether there is more to do; none if another guards.
    pub(crate) async fn guard(&self, line: &Line, name: &str) -> Result<Option<bool>, Trouble> {
        let (lease, ahead) = (LEASE.as_millis().to_string(), AHEAD.to_string());
        let (rules, most) = (self.rules_text(), DUE_AT_ONCE.to_string());
        let arguments = [&rules, name, &lease, &ahead, &most].map(str::as_bytes);
        let value = self.scripts.run(line, Script::Guard, &arguments).await?;
        let (due, brought, waiting) = match (&value, value.array()) {
            (Value::Error(error), _) => return Err(Trouble::refused(&self.address, error)),
            (_, [_, due, brought, waiting]) => (due, brought, waiting),
            _ => return Ok(None),
        };
        let (due, brought) = (ids(due), ids(brought));
        self.offer(line, &brought).await?;
        self.look_at(line, &due).await?;
        let channels = waiting.array().iter().filter_map(Value::text).map(str::to_owned);
        self.drain(line, &channels.collect::<Vec<_>>()).await?;
        Ok(Some(due.len() >= DUE_AT_ONCE || brought.len() >= DUE_AT_ONCE))
    }

    /// Goes through what stock peers leave behind: calls that nobody looks at, listeners that are gone.
    pub(crate) async fn go_round(&self, line: &Line) -> Result<(), Trouble> {
        let last = ROUND_IDS.saturating_sub(1).to_string();
        let lists = ["request_ack", "executing", "response_ack"];
        let mut found: Vec<CallId> = Vec::new();
        for list in lists {
            let list = format!("origami:requests:{list}_pool:list");
            found.extend(ids(&self.must(line, &words(&["LRANGE", &list, "0", &last])).await?));
        }
        let scores: Vec<Words> =
            found.iter().map(|id| words(&["ZSCORE", "origami:x:due", &id.to_string()])).collect();
        let scores = line.ask_all(&scores).await?;
        let strangers: Vec<CallId> = found
            .into_iter()
            .zip(scores)
            .filter(|(_, score)| *score == Value::Null)
            .map(|(id, _)| id)
            .collect();
        for some in strangers.chunks(DUE_AT_ONCE) {
            self.look_at(line, some).await?;
        }
        self.clear_listeners(line).await
    }

    /// Takes listeners off their channels that were not heard of for long.
    async fn clear_listeners(&self, line: &Line) -> Result<(), Trouble> {
        let channels =
            self.must(line, &words(&["SRANDMEMBER", "origami:x:channels", "64"])).await?;
        let now = self.now(line).await?.steady.0;
        for channel in channels.array().iter().filter_map(Value::text) {
            let key = format!("origami:channels:{channel}:listeners");
            let nodes = self.must(line, &words(&["SRANDMEMBER", &key, "256"])).await?;
            let nodes: Vec<&str> = nodes.array().iter().filter_map(Value::text).collect();
            let mut asked = Vec::new();
            for node in &nodes {
                asked.push(words(&["EXISTS", &format!("origami:clients:active_pool:{node}")]));
                let info = format!("origami:clients:list:{node}:info");
                asked.push(words(&["HGET", &info, "last_ping_at"]));
            }
            let values = line.ask_all(&asked).await?;
            let gone = nodes.iter().zip(values.chunks(2)).filter(|(_, pair)| match pair {
                [alive, pinged] => {
                    let seconds =
                        pinged.text().and_then(|text| text.split('.').next()?.parse::<u64>().ok());
                    let silent = now.saturating_sub(seconds.unwrap_or(0).saturating_mul(1_000_000));
                    *alive == Value::Integer(0) && silent > LISTENER_KEPT
                }
                _ => false,
            });
            let removed: Vec<Words> = gone.map(|(node, _)| words(&["SREM", &key, node])).collect();
            line.ask_all(&removed).await?;
        }
        Ok(())
    }
}

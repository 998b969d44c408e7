//! The room without a session: every step is asked, and what clients are told is collected. For the
//! suite that every transport passes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_calls::transport::{Failed, Look, Transport};
use handoff_calls::{Ask, Call, CallId, ChannelName, ClientId, Notice, Offer, Reply};
use handoff_types::{Outcome, Span, Steady};

use crate::address::Address;
use crate::ears::{Ears, Heard};
use crate::inspector::Inspector;
use crate::layout::NOBODY;
use crate::line::Line;
use crate::listener::Listener;
use crate::options::Options;
use crate::room::Room;
use crate::scene::words;
use crate::socket::Socket;
use crate::trouble::Trouble;

/// Where the end of what was told so far is marked.
const MARK: &str = "origami.zmark";

/// Notices that are kept for one client; the oldest go.
const TOLD_MAX: usize = 10_000;

/// The room, asked step by step.
#[derive(Debug)]
pub struct Direct {
    room: Room,
    line: Line,
    listener: tokio::sync::Mutex<Listener>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    ears: BTreeMap<ClientId, Ears>,
    notices: BTreeMap<ClientId, VecDeque<Notice>>,
    /// The fences that a client named, which are not in what it is told.
    named: BTreeMap<(ClientId, CallId), VecDeque<u64>>,
    marks: u64,
}

impl Direct {
    /// Connects.
    ///
    /// # Errors
    /// [`Trouble`], when the server cannot be used.
    pub async fn open(text: &str, options: Options) -> Result<Self, Trouble> {
        let address: Address = text.parse().map_err(|error: crate::BadAddress| {
            Trouble::Refused { place: "calls.redis_url".to_owned(), why: error.to_string() }
        })?;
        let options = options.with_tls(&address)?;
        let (tls, patience) = (options.tls.as_ref(), options.connect_timeout);
        let socket = Socket::open(&address, tls, "handoff-direct-listener", patience).await?;
        let every = ["origami.*".to_owned()];
        let listener = Listener::open(&address, socket, "PSUBSCRIBE", &every, patience).await?;
        let Inspector { room, line } = Inspector::open(text, options).await?;
        let listener = tokio::sync::Mutex::new(listener);
        Ok(Self { room, line, listener, told: Mutex::default() })
    }

    /// A call, as Redis has it.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn call(&self, id: CallId) -> Result<Option<Call>, Trouble> {
        self.room.call(&self.line, id).await
    }

    /// Dead letters of a channel, the oldest first, at most so many.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn dead(&self, channel: &ChannelName, most: usize) -> Result<Vec<CallId>, Trouble> {
        self.room.dead(&self.line, channel, 0, most).await
    }

    /// Takes a step.
    ///
    /// # Errors
    /// [`Trouble`]: it may have been taken all the same; taken again, it counts once.
    pub async fn step(&self, ask: &Ask) -> Result<Reply, Trouble> {
        if let Ask::Accept { client, call, fence } | Ask::Heartbeat { client, call, fence } = ask {
            self.told().named.entry((*client, *call)).or_default().push_back(*fence);
        }
        self.room.ask(&self.line, ask).await
    }

    /// Hears everything that was told so far.
    async fn catch_up(&self) -> Result<(), Trouble> {
        // One at a time: whoever finds its mark has heard what came before it.
        let mut listener = self.listener.lock().await;
        let mark = {
            let mut told = self.told();
            told.marks += 1;
            told.marks.to_string()
        };
        self.room.must(&self.line, &words(&["PUBLISH", MARK, &mark])).await?;
        loop {
            let Some((channel, message)) = listener.next().await else {
                return Err(Trouble::broken(&self.room.address, "the subscription ended"));
            };
            if channel == MARK {
                if message == mark.as_bytes() {
                    return Ok(());
                }
                continue;
            }
            let Some(to) = channel.get(9..45).and_then(|id| id.parse::<ClientId>().ok()) else {
                continue;
            };
            self.told().hear(to, &channel, &message);
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn hear(&mut self, to: ClientId, channel: &str, message: &bytes::Bytes) {
        let Some(heard) = self.ears.entry(to).or_default().hear(channel, message) else { return };
        let Some(notice) = self.notice(to, heard) else { return };
        let notices = self.notices.entry(to).or_default();
        if notices.len() >= TOLD_MAX {
            notices.pop_front();
        }
        notices.push_back(notice);
    }

    fn notice(&mut self, to: ClientId, heard: Heard) -> Option<Notice> {
        Some(match heard {
            Heard::Pong => Notice::Pong { to },
            Heard::Stopped => Notice::Stopped { to },
            Heard::Registered { call } => Notice::Registered { to, call },
            Heard::Acknowledged { call, .. } => Notice::Acknowledged { to, call },
            Heard::Cancelled { call, fence } => Notice::Cancelled { to, call, fence },
            Heard::Ended { call, end: Some((outcome, executor)) } => {
                Notice::Ended { to: Some(to), call, outcome, executor }
            }
            Heard::Ended { end: None, .. } => return None,
            Heard::Taken { call, fence, taken } => {
                Notice::Taken { to, call, fence: fence.unwrap_or(0), taken }
            }
            Heard::Held { call, held, .. } => {
                let named = self.named.get_mut(&(to, call)).and_then(VecDeque::pop_front);
                Notice::Held { to, call, fence: named?, held }
            }
            Heard::Offered { call, channel, work, facts } => {
                let (work, facts) = (work?, facts?);
                let caller = work.sender.as_str();
                Notice::Offer(Box::new(Offer {
                    to,
                    call,
                    channel,
                    caller: caller.parse().ok().filter(|_| caller != NOBODY),
                    params: work.params,
                    fence: facts.fence,
                    attempt: facts.attempt,
                    deadline: facts.deadline.unwrap_or(Steady(u64::MAX)),
                    lease: facts.lease,
                    trace: facts.trace,
                    held: false,
                }))
            }
        })
    }
}

fn failed(trouble: Trouble) -> Failed {
    let outcome = match trouble {
        Trouble::Broken { .. } => Outcome::Unknown,
        _ => Outcome::NotApplied,
    };
    Failed { outcome, why: trouble.to_string() }
}

impl Transport for Direct {
    async fn ask(&self, ask: Ask) -> Result<Reply, Failed> {
        self.step(&ask).await.map_err(failed)
    }

    async fn heard(&self, client: ClientId) -> Result<Vec<Notice>, Failed> {
        self.catch_up().await.map_err(failed)?;
        Ok(self.told().notices.remove(&client).unwrap_or_default().into())
    }

    async fn look(&self, call: CallId) -> Result<Option<Look>, Failed> {
        Ok(self.call(call).await.map_err(failed)?.as_ref().map(Look::from))
    }
}

/// For a clock that is told: [`Clock::Told`](crate::Clock::Told).
impl Direct {
    /// Says what time it is, in microseconds since 1970.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn tell_time(&self, now: Steady) -> Result<(), Trouble> {
        let set = words(&["SET", "origami:x:now", &now.0.to_string()]);
        self.room.must(&self.line, &set).await.map(drop)
    }

    /// What time it is.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn time(&self) -> Result<Steady, Trouble> {
        Ok(self.room.now(&self.line).await?.steady)
    }

    /// When something is due next, at `most` from now.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn next_due(&self, most: Span) -> Result<Steady, Trouble> {
        let now = self.time().await?;
        let first = words(&["ZRANGE", "origami:x:due", "0", "0", "WITHSCORES"]);
        let first = self.room.must(&self.line, &first).await?;
        let score = first.array().get(1).and_then(|score| score.text()?.parse::<f64>().ok());
        let due = score.map_or(now + most, |score| Steady(micros(score)));
        Ok(due.max(now).min(now + most))
    }
}

/// Scores are doubles, exact to 2^53, which is the year 2255.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time after 1970")]
fn micros(score: f64) -> u64 {
    score.max(0.0) as u64
}

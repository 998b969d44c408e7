//! The room as an administrator sees and steers it: one connection, no subscription.
//!
//! Redis keeps no list of all calls, only of those that something is due for. A list is therefore a walk
//! over its keys, in steps that hold nobody up, and as long as [`KEYS_MAX`] at most.

use std::collections::BTreeSet;

use handoff_calls::{Ask, Call, CallId, ChannelName, ChannelSettings, Reply};

use crate::address::Address;
use crate::line::Line;
use crate::link::refuse_cluster;
use crate::options::Options;
use crate::record::{Record, micros};
use crate::resp::Value;
use crate::room::Room;
use crate::scene::{Scene, words};
use crate::settings;
use crate::socket::Socket;
use crate::trouble::Trouble;

/// Calls that one list looks at, at most.
pub const KEYS_MAX: usize = 100_000;

/// Keys that Redis looks at in one step.
const STEP: &str = "1000";

/// Which calls are listed, the latest first.
#[derive(Clone, Debug)]
pub struct Query {
    /// Only those of this channel.
    pub channel: Option<ChannelName>,
    /// Only those that are not over.
    pub open: bool,
    /// Only those that came before this moment, in microseconds since 1970.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// A page of calls.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The latest first.
    pub calls: Vec<Call>,
    /// What to give as `before` for the next; none: this is the last.
    pub next: Option<u64>,
}

/// What is known of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Which.
    pub name: ChannelName,
    /// What its owner set, if somebody did.
    pub settings: Option<ChannelSettings>,
    /// Calls that wait.
    pub waiting: u64,
    /// Calls that are offered or running.
    pub in_flight: u64,
    /// Dead letters.
    pub dead: u64,
    /// Peers that serve it.
    pub consumers: u64,
}

/// Looks at calls, and steers them.
#[derive(Debug)]
pub struct Inspector {
    pub(crate) room: Room,
    pub(crate) line: Line,
}

impl Inspector {
    /// Connects.
    ///
    /// # Errors
    /// [`Trouble`], when the server cannot be used.
    pub async fn open(address: &str, options: Options) -> Result<Self, Trouble> {
        let address: Address = address.parse().map_err(|error: crate::BadAddress| {
            Trouble::Refused { place: "calls.redis_url".to_owned(), why: error.to_string() }
        })?;
        let options = options.with_tls(&address)?;
        let room = options.room(&address)?;
        let (tls, patience) = (options.tls.as_ref(), options.connect_timeout);
        let mut socket = Socket::open(&address, tls, "handoff-inspector", patience).await?;
        refuse_cluster(&address, &mut socket, patience).await?;
        let line = Line::new(address.clone(), socket);
        Ok(Self { room, line })
    }

    /// A call, as Redis has it.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn call(&self, id: CallId) -> Result<Option<Call>, Trouble> {
        self.room.call(&self.line, id).await
    }

    /// Calls, a page of them.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn calls(&self, query: &Query) -> Result<Page, Trouble> {
        let ids = self.ids().await?;
        let mut found = Vec::new();
        for some in ids.chunks(1000) {
            let commands = some.iter().map(|id| {
                let key = format!("origami:requests:list:{id}:info");
                words(&["HMGET", &key, "created_at", "channel", "state"])
            });
            let values = self.line.ask_all(&commands.collect::<Vec<_>>()).await?;
            for (id, value) in some.iter().zip(&values) {
                let text = |at: usize| value.array().get(at).and_then(Value::text);
                let (Some(created), Some(channel), Some(state)) = (text(0), text(1), text(2))
                else {
                    continue;
                };
                let created = micros(created).unwrap_or(0);
                let over = matches!(state, "WAIT_RESPONSE_ACK" | "DONE");
                let wanted = query.channel.as_ref().is_none_or(|name| name.as_str() == channel)
                    && !(query.open && over)
                    && query.before.is_none_or(|before| created < before);
                if wanted {
                    found.push((created, *id));
                }
            }
        }
        found.sort_unstable();
        found.reverse();
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        let next = found.last().map(|(created, _)| *created).filter(|_| more);
        let wanted: Vec<CallId> = found.iter().map(|(_, id)| *id).collect();
        let (clock, rules) = (self.room.clock, &self.room.rules);
        let scene = Scene::load(&self.line, clock, rules, &wanted).await?;
        let calls = wanted.iter().filter_map(|id| scene.state.call(*id).cloned()).collect();
        Ok(Page { calls, next })
    }

    /// The calls that Redis has, as many as are looked at.
    async fn ids(&self) -> Result<Vec<CallId>, Trouble> {
        let mut ids = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let pattern = "origami:requests:list:*:info";
            let step = words(&["SCAN", &cursor, "MATCH", pattern, "COUNT", STEP]);
            let value = self.room.must(&self.line, &step).await?;
            let [next, keys] = value.array() else { break };
            let names = keys.array().iter().filter_map(|key| {
                let name = key.text()?.strip_prefix("origami:requests:list:")?;
                name.strip_suffix(":info")?.parse::<CallId>().ok()
            });
            ids.extend(names);
            cursor = next.text().unwrap_or("0").to_owned();
            if cursor == "0" || ids.len() >= KEYS_MAX {
                break;
            }
        }
        Ok(ids.into_iter().take(KEYS_MAX).collect())
    }

    /// Dead letters of a channel, the oldest first, behind so many of them and at most so many; and
    /// how many there are.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn dead(
        &self,
        channel: &ChannelName,
        behind: u64,
        most: usize,
    ) -> Result<(Vec<CallId>, u64), Trouble> {
        let ids = self.room.dead(&self.line, channel, behind, most).await?;
        let many = words(&["ZCARD", &format!("origami:x:dead:{channel}")]);
        let total = match self.room.must(&self.line, &many).await? {
            Value::Integer(many) => u64::try_from(many).unwrap_or(0),
            _ => 0,
        };
        Ok((ids, total))
    }

    /// Channels, by their names: those that somebody serves or served, and those where calls wait.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn channels(&self) -> Result<Vec<Channel>, Trouble> {
        let union = words(&["SUNION", "origami:x:channels", "origami:x:waiting"]);
        // Where calls wait and nobody serves.
        let parked = words(&["ZRANGE", "origami:x:parked", "0", "-1"]);
        let mut names: BTreeSet<ChannelName> = BTreeSet::new();
        for command in [union, parked] {
            let value = self.room.must(&self.line, &command).await?;
            names.extend(value.array().iter().filter_map(|name| name.text()?.parse().ok()));
        }
        let mut channels = Vec::new();
        for name in names {
            channels.push(self.channel(name).await?);
        }
        Ok(channels)
    }

    async fn channel(&self, name: ChannelName) -> Result<Channel, Trouble> {
        let values = self
            .line
            .ask_all(&[
                words(&["HGETALL", &settings::key(&name)]),
                words(&["ZCARD", &format!("origami:x:queue:{name}")]),
                words(&["GET", &format!("origami:channels:{name}:groups:default")]),
                words(&["ZCARD", &format!("origami:x:dead:{name}")]),
                words(&["SCARD", &format!("origami:channels:{name}:listeners")]),
            ])
            .await?;
        let number = |at: usize| match values.get(at) {
            Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(0),
            Some(value) => value.text().and_then(|text| text.parse().ok()).unwrap_or(0),
            None => 0,
        };
        let own = values.first().and_then(Record::of);
        let settings = own.map(|record| settings::read(&record, &self.room.rules.channel));
        let (waiting, in_flight, dead, consumers) = (number(1), number(2), number(3), number(4));
        Ok(Channel { name, settings, waiting, in_flight, dead, consumers })
    }

    /// The settings of a channel that nobody described.
    #[must_use]
    pub const fn usual(&self) -> &ChannelSettings {
        &self.room.rules.channel
    }

    /// Takes a step.
    ///
    /// # Errors
    /// [`Trouble`]: it may have been taken all the same; taken again, it counts once.
    pub async fn step(&self, ask: &Ask) -> Result<Reply, Trouble> {
        self.room.ask(&self.line, ask).await
    }
}

//! As much of what Redis knows as a decision needs, put together as the machine's own state.

use std::collections::{BTreeMap, BTreeSet};

use handoff_calls::{
    Aggregate, Call, CallId, Calls, Change, Client, ClientId, Rules, Standing, State,
};
use handoff_types::{Machine as _, Now, Steady, Wall};

use crate::layout::Layout;
use crate::line::Line;
use crate::record::Record;
use crate::resp::Value;
use crate::scripts::Clock;
use crate::settings;
use crate::trouble::Trouble;

/// A command as its words.
pub(crate) type Words = Vec<Vec<u8>>;

pub(crate) fn words(parts: &[&str]) -> Words {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

/// Calls, those that follow them, their channels' settings and what kind of peer has them.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) now: Now,
    pub(crate) state: State,
    pub(crate) records: BTreeMap<CallId, Record>,
    stock: BTreeSet<ClientId>,
    alive: BTreeSet<ClientId>,
}

impl Scene {
    /// Loads calls and what belongs to them.
    pub(crate) async fn load(
        line: &Line,
        clock: Clock,
        rules: &Rules,
        ids: &[CallId],
    ) -> Result<Self, Trouble> {
        let mut scene = Self { now: now(line, clock).await?, ..Self::default() };
        let mut open: BTreeSet<CallId> = ids.iter().copied().collect();
        // Those that follow follow nobody else, so that this ends after two rounds.
        while !open.is_empty() {
            let mut commands = Vec::new();
            for id in &open {
                commands.push(words(&["HGETALL", &format!("origami:requests:list:{id}:info")]));
                commands.push(words(&["SMEMBERS", &format!("origami:x:followers:{id}")]));
            }
            let values = line.ask_all(&commands).await?;
            let mut next = BTreeSet::new();
            for (id, pair) in open.iter().zip(values.chunks(2)) {
                let [record, followers] = pair else { continue };
                scene.records.extend(Record::of(record).map(|record| (*id, record)));
                let ids = followers.array().iter().filter_map(|id| id.text()?.parse().ok());
                next.extend(ids.filter(|id| !scene.records.contains_key(id)));
            }
            open = next.difference(&open).copied().collect();
        }
        scene.surroundings(line, rules).await?;
        for (id, record) in &scene.records {
            let call = record.call(*id, rules, scene.stock_until(record, rules));
            if let Some(call) = call {
                scene.state.put(Aggregate::Call(Box::new(call)));
            }
        }
        Ok(scene)
    }

    /// Settings of the channels, and who callers and executors are.
    async fn surroundings(&mut self, line: &Line, rules: &Rules) -> Result<(), Trouble> {
        let mut channels = BTreeSet::new();
        let mut clients = BTreeSet::new();
        for record in self.records.values() {
            channels.extend(record.text("channel").parse::<handoff_calls::ChannelName>().ok());
            clients.extend(record.executor().into_iter().chain(record.caller()));
        }
        let channels: Vec<_> = channels.into_iter().collect();
        let clients: Vec<_> = clients.into_iter().collect();
        let mut commands: Vec<Words> =
            channels.iter().map(|channel| words(&["HGETALL", &settings::key(channel)])).collect();
        for client in &clients {
            let info = format!("origami:clients:list:{client}:info");
            commands.push(words(&["HMGET", &info, "client", "client_version"]));
            commands.push(words(&["GET", &format!("origami:clients:active_pool:{client}")]));
        }
        let values = line.ask_all(&commands).await?;
        let (of_channels, of_clients) = values.split_at(channels.len().min(values.len()));
        for (channel, value) in channels.into_iter().zip(of_channels) {
            if let Some(record) = Record::of(value) {
                let settings = settings::read(&record, &rules.channel);
                Calls::evolve(&mut self.state, &Change::Channel(channel, settings));
            }
        }
        for (client, pair) in clients.into_iter().zip(of_clients.chunks(2)) {
            let [info, alive] = pair else { continue };
            let text = |at: usize| info.array().get(at).and_then(Value::text).unwrap_or_default();
            if Layout::of(text(0), text(1)) != Layout::Seed {
                self.stock.insert(client);
            }
            if is_alive(alive, self.now, rules) {
                self.alive.insert(client);
            }
        }
        Ok(())
    }

    /// A client that asks, as far as decisions about calls need to know it.
    pub(crate) fn with_client(mut self, id: ClientId) -> Self {
        let (name, serves) = ("".into(), Vec::new());
        let (until, standing) = (Steady(u64::MAX), Standing::Here);
        let client = Client { id, name, serves, until, standing, eager: false };
        Calls::evolve(&mut self.state, &Change::Client(Box::new(client)));
        self
    }

    /// A scene of one call and those that follow it.
    pub(crate) fn only(&self, id: CallId) -> State {
        let mut state = State::default();
        let follows = |call: &Call| matches!(call.stage, handoff_calls::Stage::Following(leader) if leader == id);
        for other in self.records.keys() {
            let Some(call) = self.state.call(*other) else { continue };
            if call.id != id && !follows(call) {
                continue;
            }
            if let Some(settings) = self.state.settings(&call.channel) {
                Calls::evolve(&mut state, &Change::Channel(call.channel.clone(), *settings));
            }
            state.put(Aggregate::Call(Box::new(call.clone())));
        }
        state
    }

    /// A stock peer says nothing about a call that it runs. It has it for as long as it is alive.
    fn stock_until(&self, record: &Record, rules: &Rules) -> Option<Steady> {
        let executor = record.executor().filter(|executor| self.stock.contains(executor))?;
        Some(match self.alive.contains(&executor) {
            true => self.now.steady + rules.client_timeout,
            false => self.now.steady,
        })
    }

    pub(crate) fn is_stock(&self, client: Option<ClientId>) -> bool {
        client.is_some_and(|client| self.stock.contains(&client))
    }

    pub(crate) fn is_alive(&self, client: Option<ClientId>) -> bool {
        client.is_some_and(|client| self.alive.contains(&client))
    }
}

/// A time of ours has six decimals and is exact; of a stock peer's only the key itself counts.
fn is_alive(heard: &Value, now: Now, rules: &Rules) -> bool {
    let Some(text) = heard.text() else { return false };
    let exact = text.split_once('.').filter(|(_, part)| part.len() == 6);
    let Some((whole, part)) = exact else { return true };
    let micros = format!("{whole}{part}").parse::<u64>().unwrap_or(0);
    Steady(micros) + rules.client_timeout > now.steady
}

/// What time it is for Redis. Both clocks are this one: its peers share no other.
pub(crate) async fn now(line: &Line, clock: Clock) -> Result<Now, Trouble> {
    let command = match clock {
        Clock::Redis => words(&["TIME"]),
        Clock::Told => words(&["GET", "origami:x:now"]),
    };
    let value = line.ask(command.iter().map(|word| &**word)).await?;
    let number =
        |value: &Value| value.text().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let micros = match value.array() {
        [seconds, micros] => {
            number(seconds).saturating_mul(1_000_000).saturating_add(number(micros))
        }
        _ => number(&value),
    };
    let wall = Wall(i64::try_from(micros).unwrap_or(i64::MAX));
    Ok(Now { wall, steady: Steady(micros) })
}

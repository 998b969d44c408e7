//! The room in Redis: what is asked becomes a script, or a decision of the machine and a script that
//! makes it true.
//!
//! ```text
//!  request, accept, answer, acknowledge ──▶ a script each: compare state and fence, set, tell
//!  everything else ──▶ load ──▶ Calls::decide ──▶ apply.lua ──▶ CONFLICT: load and decide again
//! ```

use std::sync::Arc;

use bytes::Bytes;
use handoff_calls::{
    Ask, Call, CallId, Calls, Change, ChannelName, ClientId, Command, Failure, Late, NewCall,
    Outcome, Refusal, Reply, Rules, State, digest,
};
use handoff_types::{Machine as _, Now};

use crate::address::Address;
use crate::dice::Dice;
use crate::introduction::Introduction;
use crate::layout::NOBODY;
use crate::line::Line;
use crate::resp::Value;
use crate::scene::{self, Scene, Words, words};
use crate::scripts::{Clock, Script, Scripts};
use crate::settings;
use crate::steps::Steps;
use crate::trouble::Trouble;
use crate::words::outcome_text;

/// How often a decision is made again because somebody was faster.
const CONFLICTS_MAX: usize = 16;

/// Dead letters that one request buries at most.
const PURGED_AT_ONCE: usize = 256;

/// What is asked, and what came of it. Clones share everything but may use another connection.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) address: Address,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) clock: Clock,
    pub(crate) rules: Rules,
    pub(crate) dice: Dice,
    pub(crate) introduction: Arc<Introduction>,
}

/// What a script answered.
enum Said {
    Word(String),
    Refused { code: String, rest: String },
}

impl Room {
    /// The rules as scripts read them.
    pub(crate) fn rules_text(&self) -> String {
        let Rules { offer_timeout, channel, kept, key_kept, client_timeout, .. } = &self.rules;
        let all = [*offer_timeout, channel.lease, *kept, *key_kept, *client_timeout];
        all.map(|span| span.0.to_string()).join(" ")
    }

    async fn run(&self, line: &Line, script: Script, arguments: &[&[u8]]) -> Result<Said, Trouble> {
        let value = self.value(line, script, arguments).await?;
        self.said(&value)
    }

    /// Takes one step with a script that can take several.
    async fn step(
        &self,
        line: &Line,
        script: Script,
        client: &str,
        step: &Words,
    ) -> Result<Said, Trouble> {
        let mut arguments: Vec<&[u8]> = vec![client.as_bytes()];
        arguments.extend(step.iter().map(|word| &**word));
        let value = self.value(line, script, &arguments).await?;
        self.said(value.array().first().unwrap_or(&value))
    }

    async fn value(
        &self,
        line: &Line,
        script: Script,
        arguments: &[&[u8]],
    ) -> Result<Value, Trouble> {
        let rules = self.rules_text();
        let mut all: Vec<&[u8]> = vec![rules.as_bytes()];
        all.extend_from_slice(arguments);
        self.scripts.run(line, script, &all).await
    }

    fn said(&self, value: &Value) -> Result<Said, Trouble> {
        match value {
            Value::Error(error) => {
                let (code, rest) = error.split_once(' ').unwrap_or((error, ""));
                match code {
                    "NOCLIENT" | "IDREUSED" | "KEYREUSED" | "FULL" | "FOLLOWS" | "FOLLOWED"
                    | "NOTYOURS" | "NOTOVER" => {
                        Ok(Said::Refused { code: code.to_owned(), rest: rest.to_owned() })
                    }
                    _ => Err(Trouble::refused(&self.address, error)),
                }
            }
            value => Ok(Said::Word(value.text().unwrap_or_default().to_owned())),
        }
    }

    /// Takes a step.
    ///
    /// # Errors
    /// [`Trouble`]: it may have been taken all the same; taken again, it counts once.
    pub(crate) async fn ask(&self, line: &Line, ask: &Ask) -> Result<Reply, Trouble> {
        match ask {
            Ask::Init { client, name, serves, .. } => {
                let takes: Vec<String> =
                    serves.iter().map(|one| one.concurrency.to_string()).collect();
                if let Some(refusal) = self.refusal(ask, None) {
                    return Ok(Reply::Refused(refusal));
                }
                let node = client.to_string();
                let mut arguments: Vec<&[u8]> = vec![node.as_bytes(), name.as_bytes()];
                arguments.extend(self.introduction.words().into_iter().map(str::as_bytes));
                for (one, takes) in serves.iter().zip(&takes) {
                    arguments.extend([one.channel.as_str().as_bytes(), takes.as_bytes()]);
                }
                let said = self.run(line, Script::Init, &arguments).await?;
                Ok(done(said, *client))
            }
            Ask::Ping { client } => {
                let node = client.to_string();
                Ok(done(self.run(line, Script::Ping, &[node.as_bytes()]).await?, *client))
            }
            Ask::Stop { client } => self.stop(line, *client, "1").await,
            Ask::Away { client } => {
                self.stop(line, *client, "0").await?;
                Ok(Reply::Done)
            }
            Ask::Request(new) => self.request(line, new).await,
            Ask::Accept { client, call, fence } => {
                self.accept(line, (*client, *call), Some(*fence), false).await
            }
            Ask::Respond { client, call, fence, result: Ok(answer) } => {
                self.answer(line, (*client, *call), Some(*fence), answer).await
            }
            Ask::Acknowledge { client, call } => {
                self.acknowledge(line, (*client, *call), false).await
            }
            Ask::Heartbeat { client, call, fence } => {
                let reply = self.decide(line, &[*call], None, ask).await?;
                // It works on what it never accepted, or what nobody remembers that it did.
                match reply {
                    None => self.accept(line, (*client, *call), Some(*fence), false).await,
                    Some(reply) => Ok(reply),
                }
            }
            Ask::Respond { call, .. } | Ask::Cancel { call, .. } | Ask::Requeue { call } => {
                self.decided(line, &[*call], None, ask).await
            }
            Ask::Purge { channel, only } => {
                let ids = match only {
                    Some(only) => vec![*only],
                    None => self.dead(line, channel, 0, PURGED_AT_ONCE).await?,
                };
                let many = ids.len();
                match self.decided(line, &ids, None, ask).await? {
                    Reply::Purged { many: buried, .. } => {
                        let more = only.is_none() && many == PURGED_AT_ONCE;
                        Ok(Reply::Purged { many: buried, more })
                    }
                    reply => Ok(reply),
                }
            }
            Ask::SetChannel { channel, settings } => {
                if let Some(refusal) = self.refusal(ask, None) {
                    return Ok(Reply::Refused(refusal));
                }
                let mut command = words(&["HSET", &settings::key(channel)]);
                for (field, text) in settings::fields(settings) {
                    command.extend([field.as_bytes().to_vec(), text.into_bytes()]);
                }
                self.must(line, &command).await?;
                Ok(Reply::Done)
            }
            Ask::UnsetChannel { channel } => {
                let gone = self.must(line, &words(&["DEL", &settings::key(channel)])).await?;
                Ok(match gone {
                    Value::Integer(0) => Reply::Refused(Refusal::NoChannel(channel.clone())),
                    _ => Reply::Done,
                })
            }
            Ask::Opened => Ok(Reply::More(false)),
            Ask::Tick => self.tick(line).await.map(Reply::More),
        }
    }

    async fn stop(&self, line: &Line, client: ClientId, told: &str) -> Result<Reply, Trouble> {
        let node = client.to_string();
        let arguments: [&[u8]; 2] = [node.as_bytes(), told.as_bytes()];
        Ok(done(self.run(line, Script::Stop, &arguments).await?, client))
    }

    /// A call that comes, as its script takes it; not what the machine refuses.
    pub(crate) fn request_words(&self, new: &NewCall) -> Result<Words, Refusal> {
        let ask = Ask::Request(Box::new(new.clone()));
        if let Some(refusal) = self.refusal(&ask, new.caller) {
            return Err(refusal);
        }
        let text = |text: &str| text.as_bytes().to_vec();
        let number = |number: u64| number.to_string().into_bytes();
        Ok(vec![
            text(&new.id.to_string()),
            text(new.channel.as_str()),
            new.params.to_vec(),
            text("default"),
            flag_word(new.caller.is_none()),
            new.queue_timeout.map(|span| number(span.0)).unwrap_or_default(),
            number(new.timeout.unwrap_or(self.rules.call_time_max).0),
            number(digest(&new.channel, &new.params)),
            text(new.key.as_ref().map_or("", |key| key.as_str())),
            text(new.trace.as_ref().map_or("", |trace| trace.as_str())),
            flag_word(new.only_with_consumer),
            outcome_text(&Outcome::Failed(Failure::NoConsumer)).to_vec(),
            number(self.rules.queue_max),
            number(self.rules.calls_max),
        ])
    }

    async fn request(&self, line: &Line, new: &NewCall) -> Result<Reply, Trouble> {
        let step = match self.request_words(new) {
            Ok(step) => step,
            Err(refusal) => return Ok(Reply::Refused(refusal)),
        };
        let caller = new.caller.map_or(NOBODY.to_owned(), |caller| caller.to_string());
        let said = self.step(line, Script::Request, &caller, &step).await?;
        Ok(match said {
            Said::Word(word) => Reply::Registered { call: new.id, again: word == "AGAIN" },
            Said::Refused { code, rest } => match (&*code, new.caller, &new.key) {
                ("NOCLIENT", Some(caller), _) => Reply::Refused(Refusal::NoClient(caller)),
                ("KEYREUSED", _, Some(key)) => Reply::Refused(Refusal::KeyReused(key.clone())),
                ("FULL", ..) => Reply::Refused(self.full(&rest)),
                ("FOLLOWS", caller, _) => {
                    let Ok(leader) = rest.parse::<CallId>() else {
                        return Err(Trouble::refused(&self.address, &rest));
                    };
                    let (ids, ask) = ([leader, new.id], Ask::Request(Box::new(new.clone())));
                    return self.decided(line, &ids, caller, &ask).await;
                }
                _ => Reply::Refused(Refusal::IdReused(new.id)),
            },
        })
    }

    fn full(&self, limit: &str) -> Refusal {
        let (what, many, limit) = match limit {
            "calls.queue_max" => {
                ("waiting calls in the channel", self.rules.queue_max, "calls.queue_max")
            }
            _ => ("calls", self.rules.calls_max, "calls.calls_max"),
        };
        Refusal::Full { what, many, limit }
    }

    /// Begins a call. Without a fence whoever could not be told one: a stock peer's script offered it.
    pub(crate) async fn accept(
        &self,
        line: &Line,
        (client, call): (ClientId, CallId),
        fence: Option<u64>,
        wants_work: bool,
    ) -> Result<Reply, Trouble> {
        let (node, step) = (client.to_string(), accept_words(call, fence, wants_work));
        Ok(match self.step(line, Script::RequestAck, &node, &step).await? {
            Said::Word(word) => Reply::Held(word == "HELD"),
            Said::Refused { .. } => Reply::Held(false),
        })
    }

    /// Answers a call.
    pub(crate) async fn answer(
        &self,
        line: &Line,
        (client, call): (ClientId, CallId),
        fence: Option<u64>,
        answer: &Bytes,
    ) -> Result<Reply, Trouble> {
        let step = match self.answer_words((client, call), fence, answer) {
            Ok(step) => step,
            Err(refusal) => return Ok(Reply::Refused(refusal)),
        };
        match self.step(line, Script::Response, &client.to_string(), &step).await? {
            Said::Word(word) => Ok(Reply::Taken(match &*word {
                "TAKEN" => Ok(()),
                "OVER" => Err(Late::Over),
                "FENCED" => Err(Late::Fenced),
                _ => Err(Late::Unknown),
            })),
            // Those who wait for the same key end in the same step.
            Said::Refused { .. } => {
                self.decided(line, &[call], None, &respond((client, call), fence, answer)).await
            }
        }
    }

    /// An answer, as its script takes it; not what the machine refuses.
    pub(crate) fn answer_words(
        &self,
        who: (ClientId, CallId),
        fence: Option<u64>,
        answer: &Bytes,
    ) -> Result<Words, Refusal> {
        match self.refusal(&respond(who, fence, answer), None) {
            Some(refusal) => Err(refusal),
            None => Ok(vec![who.1.to_string().into_bytes(), fence_word(fence), answer.to_vec()]),
        }
    }

    /// A caller has an outcome.
    pub(crate) async fn acknowledge(
        &self,
        line: &Line,
        (client, call): (ClientId, CallId),
        wants_answer: bool,
    ) -> Result<Reply, Trouble> {
        let (node, step) = (client.to_string(), acknowledge_words(call, wants_answer));
        Ok(match self.step(line, Script::ResponseAck, &node, &step).await? {
            Said::Word(_) => Reply::Done,
            Said::Refused { code, .. } if code == "NOTYOURS" => {
                Reply::Refused(Refusal::NotYours(call))
            }
            Said::Refused { .. } => Reply::Refused(Refusal::Invalid("the call is not over yet")),
        })
    }

    /// What the machine refuses whatever is known of calls: sizes, times, names.
    fn refusal(&self, ask: &Ask, client: Option<ClientId>) -> Option<Refusal> {
        let mut scene = Scene::default();
        if let Some(client) = client {
            scene = scene.with_client(client);
        }
        let decision = self.decision(&scene.state, scene.now, ask);
        match decision.reply {
            Reply::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    pub(crate) fn decision(
        &self,
        state: &State,
        now: Now,
        ask: &Ask,
    ) -> handoff_types::Decision<Reply, Change, handoff_calls::Notice> {
        let command = Command { ask: ask.clone(), rules: self.rules };
        Calls::decide(state, &command, now, self.dice.roll())
    }

    /// Loads, decides and applies, again while somebody else is faster.
    async fn decided(
        &self,
        line: &Line,
        ids: &[CallId],
        client: Option<ClientId>,
        ask: &Ask,
    ) -> Result<Reply, Trouble> {
        let reply = self.decide(line, ids, client, ask).await?;
        reply.ok_or_else(|| Trouble::refused(&self.address, "the call was not accepted"))
    }

    /// The same; none if it is about a call that has only been offered, which has a script.
    async fn decide(
        &self,
        line: &Line,
        ids: &[CallId],
        client: Option<ClientId>,
        ask: &Ask,
    ) -> Result<Option<Reply>, Trouble> {
        for _ in 0..CONFLICTS_MAX {
            let mut scene = Scene::load(line, self.clock, &self.rules, ids).await?;
            if let Some(client) = client {
                scene = scene.with_client(client);
            }
            let decision = self.decision(&scene.state, scene.now, ask);
            let accepts = |change| matches!(change, &Change::Accepted { .. });
            if decision.changes.iter().any(accepts) {
                return Ok(None);
            }
            let stock = |call: &Call| scene.is_stock(call.caller);
            let steps = Steps::of(&scene.state, &decision.changes, &decision.actions, stock);
            if steps.is_empty() || self.apply(line, steps.arguments(&scene.records)).await? {
                for change in &decision.changes {
                    if let Change::Ended { call, dead: true, .. } = change
                        && let Some(call) = scene.state.call(*call)
                    {
                        self.bury_oldest(line, &call.channel).await?;
                    }
                }
                return Ok(Some(decision.reply));
            }
        }
        Err(Trouble::refused(&self.address, "others were faster every time; try again"))
    }

    /// Buries the oldest dead letters of a channel when there are more than are kept.
    pub(crate) async fn bury_oldest(
        &self,
        line: &Line,
        channel: &ChannelName,
    ) -> Result<(), Trouble> {
        let lane = format!("origami:x:dead:{channel}");
        let Value::Integer(many) = self.must(line, &words(&["ZCARD", &lane])).await? else {
            return Ok(());
        };
        let over = u64::try_from(many).unwrap_or(0).saturating_sub(self.rules.dead_max);
        let most = usize::try_from(over).unwrap_or(PURGED_AT_ONCE).min(PURGED_AT_ONCE);
        if most == 0 {
            return Ok(());
        }
        for id in self.dead(line, channel, 0, most).await? {
            let purge = Ask::Purge { channel: channel.clone(), only: Some(id) };
            let scene = Scene::load(line, self.clock, &self.rules, &[id]).await?;
            let decision = self.decision(&scene.state, scene.now, &purge);
            let steps = Steps::of(&scene.state, &decision.changes, &decision.actions, |_| false);
            // If somebody was faster, the next that dies buries it.
            if !steps.is_empty() {
                self.apply(line, steps.arguments(&scene.records)).await?;
            }
        }
        Ok(())
    }

    /// Makes it true; not if something it rests on is otherwise by now.
    async fn apply(&self, line: &Line, arguments: Words) -> Result<bool, Trouble> {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| &**argument).collect();
        match self.run(line, Script::Apply, &arguments).await? {
            Said::Word(word) => Ok(word == "DONE"),
            Said::Refused { code, .. } => Err(Trouble::refused(&self.address, &code)),
        }
    }

    /// A call, as Redis has it.
    pub(crate) async fn call(&self, line: &Line, id: CallId) -> Result<Option<Call>, Trouble> {
        let scene = Scene::load(line, self.clock, &self.rules, &[id]).await?;
        let known = |call: &&Call| call.ended().is_none_or(|ended| ended.forget > scene.now.steady);
        Ok(scene.state.call(id).filter(known).cloned())
    }

    /// The fence of a call's latest offer.
    pub(crate) async fn fence(&self, line: &Line, id: CallId) -> Result<u64, Trouble> {
        let key = format!("origami:requests:list:{id}:info");
        let value = self.must(line, &words(&["HGET", &key, "x_fence"])).await?;
        Ok(value.text().and_then(|fence| fence.parse().ok()).unwrap_or(0))
    }

    /// Dead letters of a channel, the oldest first, behind so many of them and at most so many.
    pub(crate) async fn dead(
        &self,
        line: &Line,
        channel: &ChannelName,
        behind: u64,
        most: usize,
    ) -> Result<Vec<CallId>, Trouble> {
        let lane = format!("origami:x:dead:{channel}");
        let last = behind.saturating_add(most as u64).saturating_sub(1).to_string();
        let value = self.must(line, &words(&["ZRANGE", &lane, &behind.to_string(), &last])).await?;
        Ok(value.array().iter().filter_map(|id| id.text()?.parse().ok()).collect())
    }

    /// A command that Redis must not refuse.
    pub(crate) async fn must(&self, line: &Line, command: &Words) -> Result<Value, Trouble> {
        match line.ask(command.iter().map(|word| &**word)).await? {
            Value::Error(error) => Err(Trouble::refused(&self.address, &error)),
            value => Ok(value),
        }
    }

    pub(crate) async fn now(&self, line: &Line) -> Result<Now, Trouble> {
        scene::now(line, self.clock).await
    }
}

/// That a call is begun, as its script takes it.
pub(crate) fn accept_words(call: CallId, fence: Option<u64>, wants_work: bool) -> Words {
    vec![call.to_string().into_bytes(), fence_word(fence), flag_word(wants_work)]
}

/// That a caller has an outcome, as its script takes it.
pub(crate) fn acknowledge_words(call: CallId, wants_answer: bool) -> Words {
    vec![call.to_string().into_bytes(), flag_word(wants_answer)]
}

fn fence_word(fence: Option<u64>) -> Vec<u8> {
    fence.map(|fence| fence.to_string().into_bytes()).unwrap_or_default()
}

fn flag_word(flag: bool) -> Vec<u8> {
    if flag { b"1".to_vec() } else { b"0".to_vec() }
}

fn respond((client, call): (ClientId, CallId), fence: Option<u64>, answer: &Bytes) -> Ask {
    Ask::Respond { client, call, fence: fence.unwrap_or(0), result: Ok(answer.clone()) }
}

fn done(said: Said, client: ClientId) -> Reply {
    match said {
        Said::Word(_) => Reply::Done,
        Said::Refused { .. } => Reply::Refused(Refusal::NoClient(client)),
    }
}

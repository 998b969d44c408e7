//! What was decided, as steps for `apply.lua`: all of it becomes true if every call it is about is still
//! as it was, or none of it.

use std::collections::BTreeMap;

use handoff_calls::{
    Call, CallId, Change, ClientId, Ended, Happened, Notice, Outcome, Stage, State,
};
use handoff_types::{Span, Steady, Wall};

use crate::layout::NOBODY;
use crate::record::Record;
use crate::words::{outcome_text, outcome_word};

/// How long a stock peer may come back for an answer.
const STOCK_KEPT: Span = Span::from_secs(3 * 3_600);

/// One step: a command of Redis, or a word that `apply.lua` knows.
type Step = Vec<Vec<u8>>;

/// Steps, by the calls they are about.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    of: BTreeMap<CallId, Vec<Step>>,
    /// What is done when everything else is.
    last: BTreeMap<CallId, Vec<Step>>,
}

fn key(id: CallId) -> String {
    format!("origami:requests:list:{id}:info")
}

fn pool(name: &str) -> String {
    format!("origami:requests:{name}_pool:list")
}

/// Seconds with six decimals.
fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn seconds_of(at: Wall) -> String {
    seconds(u64::try_from(at.0).unwrap_or(0))
}

fn millis(from: Wall, to: Steady) -> String {
    let from = u64::try_from(from.0).unwrap_or(0);
    (to.0.saturating_sub(from).div_ceil(1_000)).max(1).to_string()
}

impl Steps {
    /// The steps of a decision on `state`. Whoever has its own `kept` is asked for by `is_stock`.
    pub(crate) fn of(
        state: &State,
        changes: &[Change],
        notices: &[Notice],
        is_stock: impl Fn(&Call) -> bool,
    ) -> Self {
        let mut steps = Self::default();
        for change in changes {
            steps.change(state, change, &is_stock);
        }
        for notice in notices {
            steps.notice(notice);
        }
        steps
    }

    /// The arguments of `apply.lua` behind the rules: every call with the state and fence it was decided
    /// in.
    pub(crate) fn arguments(mut self, records: &BTreeMap<CallId, Record>) -> Vec<Vec<u8>> {
        for (id, last) in std::mem::take(&mut self.last) {
            self.of.entry(id).or_default().extend(last);
        }
        let mut arguments = Vec::new();
        for (id, steps) in self.of {
            let (state, fence) =
                records.get(&id).map_or(("", "0"), |record| (record.state(), record.fence()));
            for word in [&id.to_string(), state, fence, &steps.len().to_string()] {
                arguments.push(word.as_bytes().to_vec());
            }
            for step in steps {
                arguments.push(step.len().to_string().into_bytes());
                arguments.extend(step);
            }
        }
        arguments
    }

    /// Whether nothing is to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.last.is_empty()
    }

    fn add(&mut self, id: CallId, words: &[&str]) {
        let step = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.of.entry(id).or_default().push(step);
    }

    fn add_last(&mut self, id: CallId, words: &[&str]) {
        let step: Step = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let last = self.last.entry(id).or_default();
        if !last.contains(&step) {
            last.push(step);
        }
    }

    fn set(&mut self, id: CallId, fields: &[(&str, &[u8])]) {
        let mut step: Step = vec![b"HSET".to_vec(), key(id).into_bytes()];
        for (field, text) in fields {
            step.extend([field.as_bytes().to_vec(), text.to_vec()]);
        }
        self.of.entry(id).or_default().push(step);
    }

    /// Looks at a call again then.
    pub(crate) fn due(&mut self, id: CallId, at: Steady) {
        self.add(id, &["ZADD", "origami:x:due", &at.0.to_string(), &id.to_string()]);
    }

    /// A consumer is told of a call again.
    pub(crate) fn tell_again(&mut self, id: CallId, words: &[&str]) {
        self.add(id, words);
    }

    /// A call that Redis has no hash of any more is in no list either.
    pub(crate) fn sweep(&mut self, id: CallId) {
        let name = id.to_string();
        self.add(id, &["ZREM", "origami:x:due", &name]);
        for list in ["pending", "request_ack", "executing", "response_ack"] {
            // It is there once, and what is forgotten lies at the beginning: nothing is gone through.
            self.add(id, &["LREM", &pool(list), "1", &name]);
        }
    }

    fn change(&mut self, state: &State, change: &Change, is_stock: impl Fn(&Call) -> bool) {
        match change {
            Change::Registered(call) => self.registered(call),
            Change::Extended { call, until } => {
                self.set(*call, &[("x_until", until.0.to_string().as_bytes())]);
                let deadline = state.call(*call).map_or(*until, |call| call.deadline);
                self.due(*call, deadline.min(*until));
            }
            Change::Returned { call, after, attempt, why, at } => {
                if let Some(call) = state.call(*call) {
                    self.returned(call, (*after, *attempt), *why, *at);
                }
            }
            Change::Ended { call, outcome, by, attempt, dead, forget, at } => {
                let Some(call) = state.call(*call) else { return };
                let forget = match is_stock(call) {
                    true => *forget + STOCK_KEPT,
                    false => *forget,
                };
                self.set(call.id, &[("x_attempt", attempt.to_string().as_bytes())]);
                self.taken(call.id, by.map(|by| (by, call.fence)));
                let ended =
                    Ended { outcome: outcome.clone(), at: *at, forget, acked: false, dead: *dead };
                self.ended(call, &ended, by.is_some());
            }
            Change::Buried { call, forget } => {
                let Some(call) = state.call(*call) else { return };
                let (name, at) = (call.id.to_string(), call.ended().map_or(call.created, |e| e.at));
                let forget_text = forget.0.to_string();
                self.set(
                    call.id,
                    &[("x_dead", b"0"), ("params", b""), ("x_forget", forget_text.as_bytes())],
                );
                self.add(call.id, &["PEXPIRE", &key(call.id), &millis(at, *forget)]);
                let dead = format!("origami:x:dead:{}", call.channel);
                self.add(call.id, &["ZREM", &dead, &name]);
            }
            Change::Forgotten(id) => {
                self.add(*id, &["DEL", &key(*id)]);
                self.sweep(*id);
                if let Some(call) = state.call(*id) {
                    let dead = format!("origami:x:dead:{}", call.channel);
                    self.add(*id, &["ZREM", &dead, &id.to_string()]);
                }
            }
            // Offers, with their fences, and acceptances have scripts of their own, and clients keys that lapse.
            Change::Offered { .. }
            | Change::Accepted { .. }
            | Change::Acknowledged { .. }
            | Change::Client(_)
            | Change::Heard { .. }
            | Change::ClientGone(_)
            | Change::Channel(..)
            | Change::ChannelGone(_)
            | Change::Fences { .. } => {}
        }
    }

    /// A call that no script registers: it follows another, or is called again.
    fn registered(&mut self, call: &Call) {
        let name = call.id.to_string();
        let caller = call.caller.map_or(NOBODY.to_owned(), |caller| caller.to_string());
        let state = match &call.stage {
            Stage::Following(_) => "FOLLOWING",
            _ => "PENDING",
        };
        self.add(call.id, &["DEL", &key(call.id)]);
        let (created, number) = (seconds_of(call.created), |number: u64| number.to_string());
        let (seq, digest, deadline) =
            (number(call.seq), number(call.digest), number(call.deadline.0));
        let silent = if call.caller.is_none() { "1" } else { "0" };
        let again_for = call.again_for.map(|id| id.to_string()).unwrap_or_default();
        let trace = call.trace.as_ref().map_or("", |trace| trace.as_str());
        let leader = match &call.stage {
            Stage::Following(leader) => leader.to_string(),
            _ => String::new(),
        };
        let begin_by = call.begin_by.map(|by| number(by.0)).unwrap_or_default();
        let texts: [(&str, &str); 26] = [
            ("sender_node_id", &caller),
            ("executor_node_id", ""),
            ("state", state),
            ("channel", call.channel.as_str()),
            ("group_key", "default"),
            ("weight", "0"),
            ("timeout", "0"),
            ("expired", &created),
            ("try_after", "0"),
            ("no_response", silent),
            ("request_id", &name),
            ("response", ""),
            ("error", "0"),
            ("request_expired", "0"),
            ("request_sender_ack", "1"),
            ("request_executor_ack", "-1"),
            ("response_sender_ack", "-1"),
            ("response_executor_ack", "-1"),
            ("created_at", &created),
            ("x_seq", &seq),
            ("x_fence", "0"),
            ("x_attempt", "0"),
            ("x_digest", &digest),
            ("x_deadline", &deadline),
            ("x_trace", trace),
            ("x_again_for", &again_for),
        ];
        let mut fields: Vec<(&str, &[u8])> =
            texts.iter().map(|(field, text)| (*field, text.as_bytes())).collect();
        fields.extend([("params", &*call.params), ("x_begin_by", begin_by.as_bytes())]);
        fields.push(("x_leader", leader.as_bytes()));
        self.set(call.id, &fields);
        match &call.stage {
            Stage::Ended(ended) => {
                self.taken(call.id, call.taken);
                self.ended(call, ended, call.taken.is_some());
            }
            Stage::Following(leader) => {
                let followers = format!("origami:x:followers:{leader}");
                self.add(call.id, &["SADD", &followers, &name]);
                let kept = millis(call.created, call.deadline);
                self.add(call.id, &["PEXPIRE", &followers, &kept]);
                self.due(call.id, call.deadline);
            }
            _ => {
                self.due(call.id, call.due());
                self.add(call.id, &["ENQUEUE", call.channel.as_str(), &seq]);
                self.add_last(call.id, &["DRAIN", call.channel.as_str()]);
            }
        }
    }

    /// Whose result a call ends with.
    fn taken(&mut self, id: CallId, by: Option<(ClientId, u64)>) {
        if let Some((by, fence)) = by {
            let (taken, by) = (format!("{by} {fence}"), by.to_string());
            self.set(id, &[("x_taken", taken.as_bytes()), ("executor_node_id", by.as_bytes())]);
        }
    }

    fn returned(
        &mut self,
        call: &Call,
        (after, attempt): (Option<Steady>, u16),
        why: Happened,
        at: Wall,
    ) {
        let (id, attempts) = (call.id, attempt.to_string());
        self.add(id, &["RELEASE"]);
        let try_after = after.map_or("0".to_owned(), |after| seconds(after.0));
        self.set(
            id,
            &[
                ("state", b"PENDING"),
                ("try_after", try_after.as_bytes()),
                ("x_attempt", attempts.as_bytes()),
                ("x_history", self.noted(call, at, why).as_bytes()),
            ],
        );
        if let (Happened::Failed, Some(executor)) = (why, call.executor()) {
            let taken = format!("{executor} {}", call.fence);
            self.set(id, &[("x_taken", taken.as_bytes())]);
        }
        if let (Happened::NotAccepted, Some(executor)) = (why, call.executor()) {
            self.add(id, &["SILENT", &executor.to_string()]);
        }
        match after {
            Some(after) => self.due(id, call.deadline.min(after)),
            None => {
                let begin_by = call.begin_by.filter(|_| attempt == 0).unwrap_or(call.deadline);
                self.due(id, call.deadline.min(begin_by));
                self.add(id, &["ENQUEUE", call.channel.as_str(), &call.seq.to_string()]);
            }
        }
        // There is room for one more where it was, and it may go elsewhere.
        self.add_last(id, &["DRAIN", call.channel.as_str()]);
    }

    /// What went wrong with it so far, and this.
    fn noted(&self, call: &Call, at: Wall, why: Happened) -> String {
        let wrong = [Happened::NotAccepted, Happened::HandedBack, Happened::Lost, Happened::Failed];
        let note = |at: Wall, what: Happened, who: Option<ClientId>| {
            let who = who.map(|who| who.to_string()).unwrap_or_default();
            format!("{} {} {who}", at.0, what as u8)
        };
        let noted = call.history.iter().filter(|event| wrong.contains(&event.what));
        let mut notes: Vec<String> =
            noted.map(|event| note(event.at, event.what, event.who)).collect();
        if wrong.contains(&why) {
            notes.push(note(at, why, call.executor()));
        }
        let over = notes.len().saturating_sub(Call::HISTORY_KEPT);
        notes.drain(..over);
        notes.join(";")
    }

    fn ended(&mut self, call: &Call, ended: &Ended, executed: bool) {
        let Ended { outcome, at, forget, dead, .. } = ended;
        let (id, name, channel) = (call.id, call.id.to_string(), call.channel.as_str());
        self.add(id, &["RELEASE"]);
        self.add(id, &["DEQUEUE", channel]);
        let state = if call.caller.is_some() { "WAIT_RESPONSE_ACK" } else { "DONE" };
        let (digit, text) = (outcome.digit().to_string(), outcome_text(outcome));
        let (at_text, forget_text) = (seconds_of(*at), forget.0.to_string());
        self.set(
            id,
            &[
                ("state", state.as_bytes()),
                ("error", digit.as_bytes()),
                ("response", &text),
                ("x_outcome", outcome_word(outcome).as_bytes()),
                ("x_forget", forget_text.as_bytes()),
                ("x_dead", if *dead { b"1" } else { b"0" }),
                ("response_executor_ack", if executed { b"0" } else { b"-1" }),
                ("executor_complete_at", at_text.as_bytes()),
                ("sent_to_initiator_at", at_text.as_bytes()),
            ],
        );
        if !dead {
            self.set(id, &[("params", b"")]);
        }
        if !executed && !matches!(outcome, Outcome::Answer(_)) {
            self.set(id, &[("executor_node_id", b"")]);
        }
        self.add(id, &["PEXPIRE", &key(id), &millis(*at, *forget)]);
        if let Some(used) = &call.key {
            let used = format!("origami:x:key:{channel}:{used}");
            self.add(id, &["PEXPIRE", &used, &millis(*at, *forget)]);
        }
        if *dead {
            let lane = format!("origami:x:dead:{channel}");
            self.add(id, &["ZADD", &lane, &at.0.to_string(), &name]);
        }
        if let Stage::Following(leader) = &call.stage {
            self.add(id, &["SREM", &format!("origami:x:followers:{leader}"), &name]);
        }
        match call.caller {
            Some(_) => {
                self.add(id, &["RPUSH", &pool("response_ack"), &name]);
                self.due(id, Steady(u64::try_from(at.0).unwrap_or(0).saturating_add(1_000_000)));
            }
            None => self.add(id, &["ZREM", "origami:x:due", &name]),
        }
        self.add_last(id, &["DRAIN", channel]);
    }

    fn notice(&mut self, notice: &Notice) {
        let flag = |flag: bool| if flag { "1" } else { "0" };
        match notice {
            Notice::Registered { to, call } => self.add(*call, &["REGISTERED", &to.to_string()]),
            Notice::Held { to, call, held, .. } => {
                self.add(*call, &["HEAR", &to.to_string()]);
                self.add(*call, &["HELD", &to.to_string(), flag(*held)]);
            }
            Notice::Ended { to: Some(_), call, .. } => self.add(*call, &["ENDED"]),
            Notice::Taken { to, call, fence, taken } => {
                self.add(*call, &["HEAR", &to.to_string()]);
                if !taken {
                    self.add(*call, &["HINCRBY", "origami:x:counts", "late", "1"]);
                }
                self.add(*call, &["TAKEN", &to.to_string(), &fence.to_string(), flag(*taken)]);
            }
            Notice::Cancelled { to, call, fence } => {
                self.add(*call, &["CANCELLED", &to.to_string(), &fence.to_string()]);
            }
            Notice::Offer(offer) => self.add(offer.call, &["OFFERED", &offer.to.to_string()]),
            Notice::Ended { to: None, .. }
            | Notice::Pong { .. }
            | Notice::Acknowledged { .. }
            | Notice::Stopped { .. } => {}
        }
    }
}

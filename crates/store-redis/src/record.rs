//! A call as its hash has it.
//!
//! ```text
//!  state               stage          with
//!  PENDING             Waiting        try_after in the future: Later
//!  WAIT_REQUEST_ACK    Offered        executor_node_id, x_until
//!  EXECUTING           Running        executor_node_id, x_until
//!  FOLLOWING           Following      x_leader (ours alone; stock peers never see it in a list)
//!  WAIT_RESPONSE_ACK   Ended          error, response, x_outcome, x_forget
//!  DONE                Ended          the same; its caller has it if initiator_accept_at is there
//! ```
//!
//! A stock peer writes no `x_` fields. What they would say follows from its own as far as it can: the
//! time in the queue from `timeout`, leases from when it was told and from whether it is alive.

use std::collections::HashMap;

use bytes::Bytes;
use handoff_calls::{Call, CallId, ClientId, Ended, Event, Happened, Rules, Stage, digest};
use handoff_types::{Steady, Wall};

use crate::layout::{Digit, NOBODY};
use crate::resp::Value;
use crate::words::outcome_of;

/// How long a caller of a stock peer may wait for what named no time.
const STOCK_TIME: u64 = 86_400_000_000;

/// A hash, as Redis gives it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record(HashMap<String, Bytes>);

impl Record {
    /// The hash of an answer to `HGETALL`; none if there is no such hash.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let mut fields = HashMap::new();
        for pair in value.array().chunks(2) {
            if let [name, text] = pair {
                let text = text.bytes().cloned().unwrap_or_default();
                fields.insert(name.text()?.to_owned(), text);
            }
        }
        (!fields.is_empty()).then_some(Self(fields))
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }

    fn bytes(&self, field: &str) -> Bytes {
        self.0.get(field).cloned().unwrap_or_default()
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.text(field).parse().ok()
    }

    fn client(&self, field: &str) -> Option<ClientId> {
        self.text(field).parse().ok()
    }

    /// Microseconds of a time in seconds, as any peer writes it.
    fn micros(&self, field: &str) -> Option<u64> {
        micros(self.text(field))
    }

    fn wall(&self, field: &str) -> Option<Wall> {
        self.micros(field).filter(|at| *at > 0).map(wall)
    }

    pub(crate) fn state(&self) -> &str {
        self.text("state")
    }

    /// The fence, as the scripts compare it.
    pub(crate) fn fence(&self) -> &str {
        match self.text("x_fence") {
            "" => "0",
            fence => fence,
        }
    }

    /// Whether a script of ours made it.
    fn is_ours(&self) -> bool {
        self.0.contains_key("x_digest")
    }

    /// Who has it.
    pub(crate) fn executor(&self) -> Option<ClientId> {
        self.client("executor_node_id")
    }

    /// Who is told of its end; none if nobody wants to be.
    pub(crate) fn caller(&self) -> Option<ClientId> {
        let heard = self.text("no_response") != "1" && self.text("sender_node_id") != NOBODY;
        self.client("sender_node_id").filter(|_| heard)
    }

    /// The call. `alive` says until when its executor is, if it is a stock peer.
    pub(crate) fn call(&self, id: CallId, rules: &Rules, alive: Option<Steady>) -> Option<Call> {
        let created = self.micros("created_at").unwrap_or(0);
        let channel = self.text("channel").parse().ok()?;
        let params = self.bytes("params");
        let timeout = self.micros("timeout").filter(|timeout| *timeout > 0);
        let begin_by = match self.is_ours() {
            true => self.number("x_begin_by"),
            false => timeout.map(|timeout| created.saturating_add(timeout)),
        };
        let fence = self.number("x_fence").unwrap_or(0);
        let taken = self.text("x_taken").split_once(' ');
        let stage = self.stage(created, rules, alive)?;
        let begun = matches!(stage, Stage::Running { .. } | Stage::Ended(_));
        // A stock peer's acceptance counts nothing; every offer but the last was one attempt at most.
        let attempt = match (self.number("x_attempt"), alive, begun) {
            (Some(attempt), None, _) => attempt,
            (_, _, true) => self.number("x_offers").unwrap_or(0).max(1),
            (attempt, _, false) => attempt.unwrap_or(0),
        };
        let digest = self.number("x_digest").unwrap_or_else(|| digest(&channel, &params));
        Some(Call {
            id,
            seq: self.number("x_seq").unwrap_or(created),
            caller: self.caller(),
            channel,
            params,
            digest,
            key: self.text("x_key").parse().ok(),
            trace: self.text("x_trace").parse().ok(),
            again_for: self.text("x_again_for").parse().ok(),
            durable: true,
            created: wall(created),
            deadline: Steady(
                self.number("x_deadline").unwrap_or_else(|| created.saturating_add(STOCK_TIME)),
            ),
            begin_by: begin_by.map(Steady),
            fence,
            attempt: u16::try_from(attempt).unwrap_or(u16::MAX),
            taken: taken.and_then(|(who, fence)| Some((who.parse().ok()?, fence.parse().ok()?))),
            stage,
            history: self.history(),
        })
    }

    fn stage(&self, created: u64, rules: &Rules, alive: Option<Steady>) -> Option<Stage> {
        let until = |since: &str, span: u64| {
            let since = self.micros(since).unwrap_or(created);
            Steady(self.number("x_until").unwrap_or_else(|| since.saturating_add(span)))
        };
        Some(match self.state() {
            "PENDING" => match self.micros("try_after").filter(|after| *after > 0) {
                Some(after) => Stage::Later(Steady(after)),
                None => Stage::Waiting,
            },
            "WAIT_REQUEST_ACK" => Stage::Offered {
                executor: self.executor()?,
                until: until("sent_to_executor_at", rules.offer_timeout.0),
            },
            "EXECUTING" => {
                let until = until("executor_accept_at", rules.channel.lease.0);
                Stage::Running { executor: self.executor()?, until: alive.unwrap_or(until) }
            }
            "FOLLOWING" => Stage::Following(self.text("x_leader").parse().ok()?),
            "WAIT_RESPONSE_ACK" | "DONE" => {
                let digit = match self.text("error") {
                    "0" => Digit::Answer,
                    "2" => Digit::Timeout,
                    _ => Digit::Error,
                };
                let ended = self.wall("executor_complete_at").unwrap_or(wall(created));
                let forget = self.number("x_forget").unwrap_or(u64::MAX);
                Stage::Ended(Ended {
                    outcome: outcome_of(digit, self.text("x_outcome"), self.bytes("response")),
                    at: ended,
                    forget: Steady(forget),
                    acked: self.wall("initiator_accept_at").is_some(),
                    dead: self.text("x_dead") == "1",
                })
            }
            _ => return None,
        })
    }

    /// What happened to it: what went wrong as it was noted, and the last of each step that went well.
    fn history(&self) -> Vec<Event> {
        let mut history: Vec<Event> = Vec::new();
        for noted in self.text("x_history").split(';') {
            let mut words = noted.split(' ');
            let mut next = || words.next()?.parse::<u64>().ok();
            if let (Some(at), Some(what)) = (next(), next()) {
                let what = u8::try_from(what).ok().and_then(Happened::from_number);
                let who = words.next().and_then(|who| who.parse().ok());
                history.extend(what.map(|what| Event { at: wall(at), what, who }));
            }
        }
        let executor = self.executor();
        for (field, what, who) in [
            ("created_at", Happened::Registered, self.caller()),
            ("sent_to_executor_at", Happened::Offered, executor),
            ("executor_accept_at", Happened::Accepted, executor),
            ("executor_complete_at", Happened::Ended, executor),
            ("initiator_accept_at", Happened::Acknowledged, self.caller()),
        ] {
            history.extend(self.wall(field).map(|at| Event { at, what, who }));
        }
        history.sort_by_key(|event| event.at);
        history
    }
}

/// Microseconds of a time in seconds, as any peer writes it.
pub(crate) fn micros(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("000000".chars()).take(6).collect();
    let whole: u64 = whole.parse().ok()?;
    Some(whole.saturating_mul(1_000_000).saturating_add(part.parse().ok()?))
}

fn wall(micros: u64) -> Wall {
    Wall(i64::try_from(micros).unwrap_or(i64::MAX))
}

//! Whoever runs calls. What it began is a fact.

use std::collections::BTreeMap;

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use super::{member, number, say, text};
use crate::ledger::Trouble;
use crate::stalk::End;
use crate::websocket::WebSocket;

const CLIENT: &str = "98206706-632c-469b-9064-39ae8a4610b4";

/// The worker's memory.
#[derive(Debug)]
pub(super) struct Worker {
    work: BTreeMap<String, Work>,
    pub(super) late: u64,
    pub(super) again: u64,
}

/// What is known of a call.
#[derive(Clone, Debug, Default)]
struct Work {
    channel: String,
    /// The latest fence it was offered under.
    fence: u64,
    params: u64,
    /// Fences under which it was begun.
    begun: Vec<u64>,
    /// It runs under the latest fence.
    runs: bool,
    /// The result under the latest fence, which nobody confirmed yet.
    said: Option<Value>,
    /// The answer that was taken.
    taken: Option<Value>,
    /// Fences whose error was taken.
    failures: Vec<u64>,
    /// Errors that were said and dropped before anybody confirmed them.
    unconfirmed: usize,
}

impl Work {
    /// Whether every attempt before the latest ended in an error of its own, said and perhaps not
    /// confirmed.
    fn failed_before(&self) -> bool {
        let before = self.begun.len().saturating_sub(1);
        self.failures.len() + self.unconfirmed >= before
    }
}

impl Worker {
    pub(super) fn new() -> Self {
        Self { work: BTreeMap::new(), late: 0, again: 0 }
    }

    pub(super) fn begun(&self) -> u64 {
        self.work.values().map(|work| work.begun.len() as u64).sum()
    }

    /// Connects, for the first time or again: results that were not confirmed are said again.
    pub(super) fn comes(&mut self, socket: &mut WebSocket) -> Result<(), End> {
        let serves = json!([
            {"channel": "once", "concurrency": 4},
            {"channel": "again", "concurrency": 8},
        ]);
        say(socket, &json!({"init": {"client": CLIENT, "name": "worker", "serves": serves}}))?;
        for said in self.work.values().filter_map(|work| work.said.as_ref()) {
            self.again += 1;
            say(socket, said)?;
        }
        Ok(())
    }

    pub(super) fn act(&mut self, dice: &mut Dice, socket: &mut WebSocket) -> Result<(), End> {
        while let Some(frame) = socket.hear()? {
            self.hears(socket, &frame)?;
        }
        let running: Vec<String> = self
            .work
            .iter()
            .filter(|(_, work)| work.runs && work.said.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in running {
            let Some(work) = self.work.get_mut(&id) else { continue };
            if dice.one_in(3) {
                continue;
            }
            let frame = if dice.one_in(8) {
                let error = json!({"name": "E", "message": "by chance", "code": "chance"});
                json!({"response": {"id": id, "fence": work.fence, "error": error}})
            } else {
                let answer = json!({"of": work.params, "fence": work.fence});
                json!({"response": {"id": id, "fence": work.fence, "answer": answer}})
            };
            work.said = Some(frame.clone());
            say(socket, &frame)?;
        }
        if dice.one_in(50) {
            say(socket, &json!({"ping": {}}))?;
        }
        Ok(())
    }

    fn hears(&mut self, socket: &mut WebSocket, frame: &Value) -> Result<(), End> {
        if let Some(offer) = frame.get("b") {
            self.is_offered(socket, offer)
        } else if let Some(held) = frame.get("d") {
            self.may_begin(held)
        } else if let Some(taken) = frame.get("g") {
            self.is_taken(taken)
        } else if let Some(cancelled) = frame.get("cancelled") {
            let (id, fence) = (text(cancelled, "id")?, number(cancelled, "fence")?);
            if let Some(work) = self.work.get_mut(id).filter(|work| work.fence == fence) {
                work.runs = false;
                work.said = None;
            }
            Ok(())
        } else {
            member(frame, "a").map(drop)
        }
    }

    fn is_offered(&mut self, socket: &mut WebSocket, offer: &Value) -> Result<(), End> {
        let (id, fence) = (text(offer, "id")?, number(offer, "fence")?);
        let work = self.work.entry(id.to_owned()).or_default();
        if fence < work.fence {
            return Err(Trouble(format!("a fence came back: {offer} after {work:?}")).into());
        }
        if fence == work.fence && (work.runs || work.said.is_some()) {
            // It is told again what it has.
            return Ok(());
        }
        if work.taken.is_some() {
            return Err(Trouble(format!("it is over: {offer} after {work:?}")).into());
        }
        work.channel = text(offer, "channel")?.to_owned();
        work.params = number(offer, "params")?;
        if fence > work.fence {
            let said = work.said.take();
            let error = said.as_ref().and_then(|said| said.get("response")?.get("error"));
            work.unconfirmed += usize::from(error.is_some());
            work.runs = false;
        }
        work.fence = fence;
        Ok(say(socket, &json!({"request_ack": {"id": id, "fence": fence}}))?)
    }

    fn may_begin(&mut self, held: &Value) -> Result<(), End> {
        let (id, fence) = (text(held, "id")?, number(held, "fence")?);
        let Some(work) = self.work.get_mut(id).filter(|work| work.fence == fence) else {
            return Ok(());
        };
        let may = member(held, "held")?.as_bool() == Some(true);
        if !may || work.begun.contains(&fence) {
            work.runs &= may;
            return Ok(());
        }
        work.begun.push(fence);
        work.runs = true;
        // An error of its own is tried again; that whoever ran it died is not.
        let errors = work.begun.len() > 1 && work.channel == "once";
        if errors && !work.failed_before() {
            return Err(Trouble(format!("it was begun twice: {work:?}")).into());
        }
        Ok(())
    }

    fn is_taken(&mut self, taken: &Value) -> Result<(), End> {
        let (id, fence) = (text(taken, "id")?, number(taken, "fence")?);
        let unknown = || Trouble(format!("nobody ran {id}"));
        let work = self.work.get_mut(id).ok_or_else(unknown)?;
        if member(taken, "taken")?.as_bool() != Some(true) {
            self.late += 1;
        }
        if work.fence != fence {
            return Ok(());
        }
        let Some(said) = work.said.take() else { return Ok(()) };
        work.runs = false;
        let answer = said.get("response").and_then(|said| said.get("answer"));
        match (member(taken, "taken")?.as_bool(), answer) {
            (Some(true), Some(answer)) => work.taken = Some(answer.clone()),
            (Some(true), None) => work.failures.push(fence),
            _ => {}
        }
        Ok(())
    }

    /// A result that was taken is what the caller was told.
    pub(super) fn judge<'a>(
        &self,
        answer: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<(), Trouble> {
        for (id, work) in &self.work {
            if work.taken.is_some() && answer(id) != work.taken.as_ref() {
                let told = answer(id);
                return Err(Trouble(format!("{id}: taken {work:?}, and told {told:?}")));
            }
        }
        Ok(())
    }
}

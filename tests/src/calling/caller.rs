//! Whoever calls.

use std::collections::BTreeMap;

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use super::{Outcomes, member, number, say, text};
use crate::ledger::Trouble;
use crate::stalk::End;
use crate::websocket::WebSocket;

const CLIENT: &str = "c64e9eb3-0295-4506-8d69-86e56b8ecf6f";

/// Calls that may be under way.
const UNDER_WAY_MAX: usize = 24;

/// The caller's memory.
#[derive(Debug)]
pub(super) struct Caller {
    calls: BTreeMap<String, Called>,
    made: u64,
    refused: u64,
    pub(super) again: u64,
}

/// What is known of a call.
#[derive(Clone, Debug)]
struct Called {
    channel: &'static str,
    params: u64,
    registered: bool,
    /// Its end, as it was told first.
    end: Option<Value>,
    /// It is known that the caller has it.
    acknowledged: bool,
}

impl Caller {
    pub(super) fn new() -> Self {
        Self { calls: BTreeMap::new(), made: 0, refused: 0, again: 0 }
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        let count = |is: fn(&Called) -> bool| {
            self.calls.values().filter(|called| is(called)).count() as u64
        };
        Outcomes {
            registered: count(|called| called.registered),
            answered: count(|called| status(called) == Some(0)),
            failed: count(|called| status(called).is_some_and(|status| status != 0)),
            refused: self.refused,
            ..Outcomes::default()
        }
    }

    /// The answer of a call.
    pub(super) fn answer(&self, call: &str) -> Option<&Value> {
        self.calls.get(call)?.end.as_ref()?.get("answer")
    }

    pub(super) fn is_done(&self) -> bool {
        self.calls.values().all(|called| called.end.is_some())
    }

    /// Connects, for the first time or again: everything that was not confirmed is said again.
    pub(super) fn comes(&mut self, socket: &mut WebSocket) -> Result<(), End> {
        say(socket, &json!({"init": {"client": CLIENT}}))?;
        for (id, called) in &self.calls {
            if called.end.is_none() {
                self.again += 1;
                say(socket, &request(id, called))?;
            } else if !called.acknowledged {
                self.again += 1;
                say(socket, &json!({"response_ack": {"id": id}}))?;
            }
        }
        Ok(())
    }

    /// Does something, and hears what there is to hear.
    pub(super) fn act(
        &mut self,
        dice: &mut Dice,
        socket: &mut WebSocket,
        calls: bool,
    ) -> Result<(), End> {
        let open = self.calls.values().filter(|called| called.end.is_none()).count();
        if calls && open < UNDER_WAY_MAX {
            self.made += 1;
            let id = format!("6ba04b7c-705f-4f86-9d77-{:012x}", self.made);
            let channel = if dice.one_in(3) { "once" } else { "again" };
            let (registered, end, acknowledged) = (false, None, false);
            let params = dice.below(1_000_000);
            let called = Called { channel, params, registered, end, acknowledged };
            let frame = request(&id, &called);
            self.calls.insert(id, called);
            say(socket, &frame)?;
        }
        if dice.one_in(50) {
            say(socket, &json!({"ping": {}}))?;
        }
        while let Some(frame) = socket.hear()? {
            self.hears(socket, &frame)?;
        }
        Ok(())
    }

    fn hears(&mut self, socket: &mut WebSocket, frame: &Value) -> Result<(), End> {
        if let Some(named) = frame.get("c") {
            self.of(text(named, "id")?)?.registered = true;
        } else if let Some(named) = frame.get("f") {
            self.of(text(named, "id")?)?.acknowledged = true;
        } else if let Some(end) = frame.get("e") {
            let id = text(end, "id")?.to_owned();
            let refused =
                end.get("error").is_some_and(|error| error.get("name") == Some(&json!("Refused")));
            if refused {
                // Nothing is registered; it is another call next time.
                self.refused += 1;
                let known = self.of(&id)?;
                if known.registered {
                    return Err(Trouble(format!("it was registered and is refused: {end}")).into());
                }
                self.calls.remove(&id);
                return Ok(());
            }
            number(end, "status")?;
            let known = self.of(&id)?;
            match &known.end {
                Some(before) if before != end => {
                    return Err(Trouble(format!("it ended as {before}, and as {end}")).into());
                }
                _ => known.end = Some(end.clone()),
            }
            say(socket, &json!({"response_ack": {"id": id}}))?;
        } else {
            member(frame, "a")?;
        }
        Ok(())
    }

    fn of(&mut self, id: &str) -> Result<&mut Called, End> {
        let unknown = || Trouble(format!("nobody called {id}"));
        Ok(self.calls.get_mut(id).ok_or_else(unknown)?)
    }

    pub(super) fn judge(&self) -> Result<(), Trouble> {
        match self.calls.iter().find(|(_, called)| called.end.is_none()) {
            Some((id, called)) => Err(Trouble(format!("call {id} never ended: {called:?}"))),
            None => Ok(()),
        }
    }
}

fn status(called: &Called) -> Option<u64> {
    called.end.as_ref()?.get("status")?.as_u64()
}

fn request(id: &str, called: &Called) -> Value {
    json!({"request": {"id": id, "channel": called.channel, "params": called.params}})
}

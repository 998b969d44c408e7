//! The connection that steps are taken over. The session that owns it drives it: what it plans in one turn
//! goes out together, and steps of a kind share a call of their script.

use std::sync::Arc;

use handoff_calls::{CallId, ClientId};
use tokio::sync::{mpsc, oneshot};

use crate::address::Address;
use crate::line::{Line, Order};
use crate::resp::Value;
use crate::room::Room;
use crate::scene::Words;
use crate::scripts::{Script, Scripts};
use crate::socket::Socket;
use crate::wire::Wire;

/// Steps that one call of a script takes at most. Redis does nothing else meanwhile.
const TOGETHER_MAX: usize = 16;

/// Steps that wait for others of their kind.
const PLANNED_MAX: usize = 64;

/// Who an answer is for.
enum Waits {
    /// Somebody who takes a longer way.
    Line(oneshot::Sender<Value>),
    /// The session: which steps of these calls.
    Steps(Script, Vec<CallId>),
}

/// A step that is not on its way yet.
struct Planned {
    script: Script,
    call: CallId,
    words: Words,
}

/// The publisher of a session.
pub(crate) struct Publisher {
    /// For whoever needs several answers, one after the other.
    pub(crate) line: Line,
    orders: mpsc::Receiver<Order>,
    wire: Wire<Waits>,
    scripts: Arc<Scripts>,
    /// What every call of a script begins with: the house's rules, and who it is.
    front: [Vec<u8>; 2],
    planned: Vec<Planned>,
}

impl Publisher {
    pub(crate) fn new(address: Address, socket: Socket, room: &Room, me: ClientId) -> Self {
        let (line, orders) = Line::driven_elsewhere(address);
        let front = [room.rules_text(), me.to_string()].map(String::into_bytes);
        let (scripts, planned) = (Arc::clone(&room.scripts), Vec::new());
        Self { line, orders, wire: Wire::new(socket), scripts, front, planned }
    }

    /// Plans a step. False if Redis is not known to know the script: then it takes the longer way.
    pub(crate) fn plan(&mut self, script: Script, call: CallId, words: Words) -> bool {
        let known = self.scripts.digest(script).is_some();
        if known {
            self.planned.push(Planned { script, call, words });
        }
        if self.planned.len() >= PLANNED_MAX {
            self.say_planned();
        }
        known
    }

    /// Whether more may be planned before something is written and answered.
    pub(crate) fn has_room(&self) -> bool {
        self.wire.has_room()
    }

    /// Nothing is planned, and everything that was said is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.planned.is_empty() && self.wire.is_idle()
    }

    /// Sends what is planned and ordered, and gives what Redis said to some steps; none when the
    /// connection is gone.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<(Script, Vec<CallId>, Value)> {
        loop {
            self.say_planned();
            // An order is taken or not, and an answer is given or not: either may be dropped while it waits.
            tokio::select! {
                biased;
                // There is always somebody who could order: this holds a line itself.
                Some(Order { bytes, answer }) = self.orders.recv(), if self.wire.has_room() => {
                    self.wire.say_bytes(&bytes, Waits::Line(answer));
                }
                said = self.wire.next() => match said? {
                    // Whoever asked may not wait any more.
                    (Waits::Line(waits), value) => drop(waits.send(value)),
                    (Waits::Steps(script, calls), value) => return Some((script, calls, value)),
                },
            }
        }
    }

    fn say_planned(&mut self) {
        if self.planned.is_empty() {
            return;
        }
        let planned = std::mem::take(&mut self.planned);
        for script in Script::STEPS {
            let Some(digest) = self.scripts.digest(script) else { continue };
            let steps: Vec<&Planned> =
                planned.iter().filter(|planned| planned.script == script).collect();
            for some in steps.chunks(TOGETHER_MAX) {
                let mut parts: Vec<&[u8]> = vec![b"EVALSHA", digest.as_bytes(), b"0"];
                parts.extend(self.front.iter().map(|word| &**word));
                parts.extend(some.iter().flat_map(|step| &step.words).map(|word| &**word));
                let calls = some.iter().map(|step| step.call).collect();
                self.wire.say(parts.into_iter(), Waits::Steps(script, calls));
            }
        }
    }
}

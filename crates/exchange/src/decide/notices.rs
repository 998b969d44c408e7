//! `exchange.notify_sender`: a device is told which of its messages cannot be processed.
//!
//! Only a verdict of PROCESSED_INCORRECT leads to a notice: what met a deadlock is served again. The
//! notice is a message of the database with `type` ERROR, `replyTo` the message it speaks of, and the
//! verdict's code and words as its payload; it is called `n-<process>-<seq of the message>`, in hex.
//!
//! It is a courtesy and never in the way of a process. Where there is no room for it, or the ERP has
//! used its name, it is not sent; the log says the same.

use handoff_types::Wall;
use jiff::Timestamp;

use super::Draft;
use super::draft::fit;
use super::process::Outgoing;
use crate::{Kind, MessageId, NewMessage, Place, Prepared, Process, Refusal, Status, Verdict, Way};

/// What is said where the ERP says nothing.
const NO_WORDS: &str = "the message could not be processed";

impl Draft<'_> {
    /// Adds what devices are told of their messages to what goes to them.
    pub(super) fn notify(
        &mut self,
        process: &Process,
        verdicts: &[Verdict],
        outgoing: &mut Outgoing,
    ) -> Result<(), Refusal> {
        let database = self.database(process.database)?;
        for served in &process.to_erp {
            let Some(message) = self.state.message(served.seq) else { continue };
            let said =
                |one: &&Verdict| one.message == message.id && one.status == Status::Incorrect;
            let Some(verdict) = verdicts.iter().find(said) else { continue };
            let Some(device) = self.state.device(message.device) else { continue };
            let name = format!("n-{:x}-{:x}", process.id.number, served.seq.0);
            let Ok(id) = name.parse::<MessageId>() else { continue };
            let is_used = outgoing.ids.contains(&id)
                || self.state.sent_by_database(database.no, &id).is_some();
            let has_room = self.expect_room(outgoing.prepared.len() as u64 + 1).is_ok();
            let waits = outgoing.waits(self.state, device.no);
            if is_used || !has_room || *waits >= self.rules.queue_max {
                continue;
            }
            *waits += 1;
            let notice = notice(id, verdict, self.now.wall);
            let seq = self.accept(Way::ToDevice, (database, device), &notice, Place::Prepared);
            outgoing.prepared.push(Prepared { seq, notice: true });
        }
        Ok(())
    }
}

fn notice(id: MessageId, verdict: &Verdict, now: Wall) -> NewMessage {
    let code = verdict.code.map(|code| format!("\"code\":{code},")).unwrap_or_default();
    let error = quoted(&fit(verdict.error.as_deref().unwrap_or(NO_WORDS)));
    NewMessage {
        id,
        kind: "ERROR".parse::<Kind>().ok(),
        created: now,
        created_text: on_calendar(now).to_string().into(),
        reply_to: Some(verdict.message),
        payload: format!("{{{code}\"error\":{error}}}").into(),
        digest: 0,
    }
}

fn on_calendar(wall: Wall) -> Timestamp {
    let last = if wall.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(wall.0).unwrap_or(last)
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\0'..'\u{20}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

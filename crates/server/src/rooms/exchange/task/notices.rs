//! `exchange.notify_sender`: a device is told that one of its messages could not be processed.

use handoff_exchange::{
    Ask, Kind, MessageId, NewMessage, NewReply, Phase, Status, Step, Verdict, Way,
};
use handoff_types::Now;
use serde_json::{Map, Value};

use super::Room;
use crate::http::stamp;

/// The type of such a message.
const KIND: &str = "ERROR";

impl Room {
    /// Adds a notice for every message that cannot be processed, if the operator wants that. A call
    /// that is repeated is known by its digest, which has none of this.
    pub(super) fn add_notices(&self, ask: &mut Ask, now: Now) {
        if !self.settings.notify_sender {
            return;
        }
        let Ask::Process { database, id, step: Step::Prepare { verdicts, messages, .. } } = ask
        else {
            return;
        };
        let state = self.host.state();
        let process = state.process(*database, *id);
        let Some(process) = process.filter(|one| one.phase == Phase::Started) else { return };
        // Put off and taken again, it has them already.
        if messages.iter().any(|reply| reply.notice) {
            return;
        }
        for served in &process.to_erp {
            let Some(message) = state.message(served.seq) else { continue };
            let said = verdicts.iter().find(|verdict| {
                verdict.message == message.id && verdict.status == Status::Incorrect
            });
            let device = state.device(message.device).filter(|_| message.way == Way::ToErp);
            let (Some(verdict), Some(device)) = (said, device) else { continue };
            let name = format!("n-{:x}-{:x}", process.id.number, served.seq.0);
            let Ok(name) = name.parse::<MessageId>() else { continue };
            let message = notice(name, verdict, now);
            messages.push(NewReply { to: device.id.clone(), message, notice: true });
        }
    }
}

fn notice(id: MessageId, verdict: &Verdict, now: Now) -> NewMessage {
    let mut payload = Map::new();
    if let Some(code) = verdict.code {
        payload.insert("code".to_owned(), code.into());
    }
    let error = verdict.error.as_deref().unwrap_or("the message could not be processed");
    payload.insert("error".to_owned(), error.into());
    NewMessage {
        id,
        kind: KIND.parse::<Kind>().ok(),
        created: now.wall,
        created_text: stamp(now.wall).into(),
        reply_to: Some(verdict.message),
        payload: Value::Object(payload).to_string().into(),
        digest: 0,
    }
}

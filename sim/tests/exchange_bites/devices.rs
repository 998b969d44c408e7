//! What devices send, and what they are shown.

use handoff_exchange::{Ask, Change, DatabaseNo, Exchange, Place, Refusal, Reply};
use handoff_types::Machine;

use crate::{bite, decide, instead};

bite!(
    a_message_that_comes_again_is_stored_again,
    "should be Posted",
    |state, command, now, entropy| {
        let mut state = state.clone();
        if let Ask::Post { device, messages } = &command.ask {
            for new in messages {
                let known = state.sent_by_device(*device, &new.id);
                if let Some((seq, _)) = known.filter(|(_, known)| known.digest == new.digest) {
                    Exchange::evolve(&mut state, &Change::Forgotten(seq));
                }
            }
        }
        decide(&state, command, now, entropy)
    }
);

bite!(an_id_is_taken_for_something_else, "id reused", |state, command, now, entropy| {
    let mut command = command.clone();
    if let Ask::Post { device, messages } = &mut command.ask {
        for new in messages {
            if let Some((_, known)) = state.sent_by_device(*device, &new.id) {
                new.digest = known.digest;
            }
        }
    }
    decide(state, &command, now, entropy)
});

bite!(who_is_locked_out_is_let_in, "blocked", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match decided.reply {
        Reply::Refused(Refusal::Blocked) => instead(Reply::Posted(Vec::new())),
        _ => decided,
    }
});

bite!(a_request_is_stored_in_part, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(&command.ask, Ask::Post { messages, .. } if messages.len() > 1) {
        let last = decided.changes.iter().rposition(|one| matches!(one, Change::Accepted { .. }));
        last.map(|last| decided.changes.remove(last));
    }
    decided
});

bite!(a_message_goes_to_another_database, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    for change in &mut decided.changes {
        if let Change::Accepted { message, .. } = change {
            let others = state.databases().map(|one| one.no).filter(|no| *no != message.database);
            message.database = others.last().unwrap_or(DatabaseNo(1));
        }
    }
    decided
});

bite!(a_message_that_is_anothers_is_acknowledged, "no message", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match decided.reply {
        Reply::Refused(Refusal::NoMessage(_)) => instead(Reply::Acked { fresh: 0, again: 1 }),
        _ => decided,
    }
});

bite!(what_was_acknowledged_comes_again, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(command.ask, Ask::Ack { .. }) {
        decided.changes.clear();
        decided.actions.clear();
    }
    decided
});

bite!(
    an_acknowledgement_that_is_repeated_is_refused,
    "should be Acked",
    |state, command, now, entropy| {
        let decided = decide(state, command, now, entropy);
        match (&decided.reply, &command.ask) {
            (Reply::Acked { fresh: 0, again: 1.. }, Ask::Ack { ids, .. }) => {
                instead(Reply::Acked { fresh: u32::try_from(ids.len()).unwrap_or(0), again: 0 })
            }
            _ => decided,
        }
    }
);

bite!(a_code_is_used_twice, "device (", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    for change in &mut decided.changes {
        if let (Ask::Activate { code, .. }, Change::Device(device)) = (&command.ask, change) {
            device.code = state.device_by_code(code).and_then(|one| one.code);
        }
    }
    decided
});

bite!(a_wrong_code_opens, "wrong code", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match (&decided.reply, state.devices().next()) {
        (Reply::Refused(Refusal::WrongCode), Some(device)) => instead(Reply::Activated(device.no)),
        _ => decided,
    }
});

bite!(
    a_reply_is_seen_before_its_database_has_committed,
    "is to be seen",
    |state, command, now, entropy| {
        let mut decided = decide(state, command, now, entropy);
        for change in &mut decided.changes {
            if let Change::Accepted { message, .. } = change
                && message.place == Place::Prepared
            {
                message.place = Place::Messages;
            }
        }
        decided
    }
);

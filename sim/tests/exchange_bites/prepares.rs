//! What an ERP says before its database commits.

use handoff_exchange::{Cancelled, Change, Happened, Reply, Status, Step, Unfit, Verdict};

use crate::{bite, decide, instead, process, silence, step, ticks, with_processes};

/// A third call that is told to roll back is followed instead, where that is why.
macro_rules! accepts {
    ($promise:ident, $words:literal, $why:pat) => {
        bite!($promise, $words, |state, command, now, entropy| {
            let decided = decide(state, command, now, entropy);
            match (&decided.reply, step(command)) {
                (Reply::Cancelled($why), Some((_, Step::Prepare { .. }))) => {
                    instead(Reply::Ok { deadline: Some(now.steady) })
                }
                _ => decided,
            }
        });
    };
}

accepts!(what_comes_too_late_is_prepared, "past", Cancelled::Past { .. });

accepts!(what_never_began_is_prepared, "no process", Cancelled::NoProcess(_));

accepts!(something_else_is_prepared, "prepared otherwise", Cancelled::PreparedOtherwise(_));

accepts!(a_verdict_twice, "named twice", Cancelled::Unfit(Unfit::Twice(_)));

accepts!(a_verdict_of_what_was_not_given, "not served", Cancelled::Unfit(Unfit::NotServed(_)));

accepts!(a_reply_to_nobody, "no device", Cancelled::Unfit(Unfit::NoDevice { .. }));

bite!(a_message_without_a_verdict, "no verdict", |state, command, now, entropy| {
    let mut command = command.clone();
    let missing = match process(state, &command) {
        Some(process) => process.to_erp.clone(),
        None => Vec::new(),
    };
    if let handoff_exchange::Ask::Process { step: Step::Prepare { verdicts, .. }, .. } =
        &mut command.ask
    {
        for served in missing {
            let Some(message) = state.message(served.seq).map(|one| one.id) else { continue };
            if !verdicts.iter().any(|one| one.message == message) {
                let status = Status::Processed;
                verdicts.push(Verdict { message, status, code: None, error: None });
            }
        }
    }
    decide(state, &command, now, entropy)
});

bite!(the_same_said_twice_is_refused, "should be Ok", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match (step(command), &decided.reply) {
        (Some((id, Step::Prepare { .. })), Reply::Ok { .. }) if decided.changes.is_empty() => {
            instead(Reply::Cancelled(Cancelled::PreparedOtherwise(id)))
        }
        _ => decided,
    }
});

bite!(nobody_reads_of_a_deadlock, "is not said", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    silence(&mut decided, Happened::Deadlock);
    decided
});

bite!(nobody_reads_of_what_cannot_be_processed, "is not said", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    silence(&mut decided, Happened::Incorrect);
    decided
});

bite!(a_reply_is_lost, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(step(command), Some((_, Step::Prepare { .. }))) {
        let reply = decided.changes.iter().rposition(|one| matches!(one, Change::Accepted { .. }));
        reply.map(|reply| decided.changes.remove(reply));
    }
    decided
});

bite!(nobody_tells_a_device_of_its_mistake, "is told of it", |state, command, now, entropy| {
    let mut command = command.clone();
    command.rules.notify_sender = false;
    decide(state, &command, now, entropy)
});

bite!(a_device_is_told_though_nobody_wants_it, "message Seq", |state, command, now, entropy| {
    let mut command = command.clone();
    command.rules.notify_sender = true;
    decide(state, &command, now, entropy)
});

bite!(a_device_is_told_of_a_deadlock, "message Seq", |state, command, now, entropy| {
    let mut told = command.clone();
    if let handoff_exchange::Ask::Process { step: Step::Prepare { verdicts, .. }, .. } =
        &mut told.ask
    {
        for verdict in verdicts.iter_mut().filter(|one| one.status == Status::Deadlock) {
            verdict.status = Status::Incorrect;
        }
    }
    let mut decided = decide(state, &told, now, entropy);
    // All else is as it should be.
    let as_it_is = decide(state, command, now, entropy);
    let ready = |one: &Change| match one {
        Change::Ready { to_erp, .. } => Some(to_erp.clone()),
        _ => None,
    };
    let verdicts = as_it_is.changes.iter().find_map(ready);
    for change in &mut decided.changes {
        if let (Change::Ready { to_erp, .. }, Some(verdicts)) = (change, &verdicts) {
            to_erp.clone_from(verdicts);
        }
    }
    decided.actions = as_it_is.actions;
    decided
});

bite!(a_notice_waits_for_what_nobody_reports, "message Seq", |state, command, now, entropy| {
    let as_replies = |one: &mut handoff_exchange::Process| {
        one.from_erp.iter_mut().for_each(|one| one.notice = false);
    };
    match ticks(command) {
        true => decide(&with_processes(state, as_replies), command, now, entropy),
        false => decide(state, command, now, entropy),
    }
});

bite!(a_verdict_is_forgotten, "process ", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    for change in &mut decided.changes {
        if let Change::Ready { to_erp, .. } = change {
            to_erp.iter_mut().for_each(|one| one.status = Some(Status::Processed));
        }
    }
    decided
});

bite!(a_heartbeat_of_what_is_over, "past", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match (&decided.reply, step(command)) {
        (Reply::Cancelled(Cancelled::Past { .. }), Some((_, Step::Heartbeat))) => {
            instead(Reply::Ok { deadline: Some(now.steady) })
        }
        _ => decided,
    }
});

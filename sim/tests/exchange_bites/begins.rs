//! What an ERP is given, and what it takes.

use handoff_exchange::{
    Ask, Begun, Cancelled, Change, Exchange, Happened, Refusal, Reply, Rules, Standing, Step, Unfit,
};
use handoff_types::{Machine, Span};

use crate::{bite, decide, instead, silence, step, with_messages};

fn begins(command: &handoff_exchange::Command) -> bool {
    matches!(command.ask, Ask::Begin { .. })
}

bite!(two_processes_of_one_database_at_once, "there is Process", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    if let (Ask::Begin { database, .. }, Reply::Begun(Begun::Busy { .. })) =
        (&command.ask, &decided.reply)
    {
        let mut other = state.clone();
        if let Some(live) = state.live(*database) {
            Exchange::evolve(&mut other, &Change::ProcessForgotten(live.id.number));
        }
        return decide(&other, command, now, entropy);
    }
    decided
});

bite!(
    what_is_undecided_keeps_everybody_waiting,
    "nobody is at work",
    |state, command, now, entropy| {
        if let Ask::Begin { database, .. } = &command.ask
            && state.live(*database).is_none()
            && state.unknown(*database).next().is_some()
        {
            return instead(Reply::Begun(Begun::Busy { retry_after: Span::from_secs(1) }));
        }
        decide(state, command, now, entropy)
    }
);

bite!(what_failed_keeps_everybody_waiting, "nobody is at work", |state, command, now, entropy| {
    if let Ask::Begin { database, .. } = &command.ask
        && state.live(*database).is_none()
        && state.unsettled().any(|one| one.database == *database)
    {
        return instead(Reply::Begun(Begun::Busy { retry_after: Span::from_secs(1) }));
    }
    decide(state, command, now, entropy)
});

bite!(
    a_start_that_is_repeated_is_given_another_list,
    "it should be [Handed",
    |state, command, now, entropy| {
        let mut decided = decide(state, command, now, entropy);
        if let Reply::Begun(Begun::Started { messages, .. }) = &mut decided.reply
            && decided.changes.is_empty()
        {
            messages.pop();
        }
        decided
    }
);

bite!(
    a_start_that_is_repeated_is_told_to_wait,
    "there is Process",
    |state, command, now, entropy| {
        let mut command = command.clone();
        if let Ask::Begin { database, wish } = &mut command.ask
            && state.live(*database).is_some()
        {
            wish.request_key = None;
        }
        decide(state, &command, now, entropy)
    }
);

bite!(messages_out_of_their_order, "it should be [Handed", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if let Reply::Begun(Begun::Started { messages, .. }) = &mut decided.reply {
        messages.reverse();
        for change in &mut decided.changes {
            if let Change::Begun(process) = change {
                process.to_erp.reverse();
            }
        }
    }
    decided
});

/// As the room decides under other settings when a process begins.
macro_rules! unruly {
    ($promise:ident, $words:literal, $change:expr) => {
        bite!($promise, $words, |state, command, now, entropy| {
            let mut command = command.clone();
            if begins(&command) {
                let change: fn(&mut Rules) = $change;
                change(&mut command.rules);
            }
            decide(state, &command, now, entropy)
        });
    };
}

unruly!(more_messages_than_the_operator_allows, "it should be [Handed", |rules| {
    rules.files_max = 1_000;
});

unruly!(more_bytes_than_the_operator_allows, "it should be [Handed", |rules| {
    rules.bytes_max = u64::MAX;
});

unruly!(what_a_device_sent_out_of_its_order, "it should be [", |rules| rules.in_order = false);

bite!(a_message_that_is_too_large_for_ever, "it should be [Seq", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    if let Reply::Begun(Begun::Started { messages, .. }) = &decided.reply {
        let first = messages.first().and_then(|one| state.message(one.seq));
        if first.is_some_and(|one| u64::from(one.bytes) > command.rules.bytes_max) {
            return instead(Reply::Begun(Begun::Idle));
        }
    }
    decided
});

bite!(what_others_sent_is_given_too, "it should be [", |state, command, now, entropy| {
    let mut command = command.clone();
    if let Ask::Begin { wish, .. } = &mut command.ask {
        wish.producers = None;
    }
    decide(state, &command, now, entropy)
});

bite!(what_has_to_wait_does_not, "it should be [", |state, command, now, entropy| {
    let free = |one: &mut handoff_exchange::Message| {
        if matches!(one.standing, Standing::Late(_)) {
            one.standing = Standing::Free;
        }
    };
    match begins(command) {
        true => decide(&with_messages(state, free), command, now, entropy),
        false => decide(state, command, now, entropy),
    }
});

bite!(a_process_without_end, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if command.ask == Ask::Tick {
        decided.changes.clear();
        decided.actions.clear();
    }
    decided
});

bite!(a_process_that_is_given_up_too_early, "message Seq", |state, command, now, entropy| {
    let mut now = now;
    if command.ask == Ask::Tick {
        now.steady = now.steady + Span::from_secs(4);
    }
    decide(state, command, now, entropy)
});

bite!(an_empty_queue_starts_a_process, "Begun(Started", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    if decided.reply == Reply::Begun(Begun::Idle) {
        let id = handoff_exchange::ProcessId { number: state.counters().process + 1, nonce: 1 };
        let (deadline, messages) = (now.steady, Vec::new());
        return instead(Reply::Begun(Begun::Started { id, deadline, messages }));
    }
    decided
});

bite!(an_erp_takes_more_than_it_was_given, "not served", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match (&decided.reply, step(command)) {
        (Reply::Cancelled(Cancelled::Unfit(Unfit::NotServed(_))), Some((_, Step::Narrow(_)))) => {
            instead(Reply::Ok { deadline: Some(now.steady) })
        }
        _ => decided,
    }
});

bite!(what_an_erp_does_not_take_is_not_counted, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(step(command), Some((_, Step::Narrow(_)))) {
        for change in &mut decided.changes {
            if let Change::Placed { seq, attempts, .. } = change {
                *attempts = state.message(*seq).map_or(0, |one| one.attempts);
            }
        }
    }
    decided
});

bite!(an_erp_that_takes_nothing_keeps_its_process, "process ", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(step(command), Some((_, Step::Narrow(ids))) if ids.is_empty()) {
        silence(&mut decided, Happened::Interrupted);
        decided.changes.retain(|one| !matches!(one, Change::Turned { .. }));
    }
    decided
});

bite!(
    a_wish_for_nobodys_messages_is_granted,
    "wrong with it is",
    |state, command, now, entropy| {
        let decided = decide(state, command, now, entropy);
        match (&command.ask, &decided.reply) {
            (Ask::Begin { .. }, Reply::Refused(Refusal::Invalid(_) | Refusal::NotFound { .. })) => {
                instead(Reply::Begun(Begun::Idle))
            }
            _ => decided,
        }
    }
);

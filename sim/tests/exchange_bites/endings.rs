//! How a process ends.

use handoff_exchange::{Action, Ask, Cancelled, Change, Happened, Phase, Place, Reply, Step};

use crate::{
    bite, commits, decide, instead, process, replace, rolls_back, silence, step, ticks,
    with_messages, with_processes,
};

bite!(what_was_processed_stays_in_its_queue, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if commits(command) {
        replace(&mut decided, Place::Log, Place::Messages);
    }
    decided
});

bite!(
    what_could_not_be_processed_is_taken_as_processed,
    "message Seq",
    |state, command, now, entropy| {
        let mut decided = decide(state, command, now, entropy);
        if commits(command) {
            replace(&mut decided, Place::Error, Place::Log);
        }
        decided
    }
);

bite!(a_commit_that_is_repeated_is_done_again, "process ", |state, command, now, entropy| {
    let again = |one: &mut handoff_exchange::Process| {
        if matches!(one.phase, Phase::Cleanup | Phase::Done) {
            one.phase = Phase::Unknown;
        }
    };
    match commits(command) {
        true => decide(&with_processes(state, again), command, now, entropy),
        false => decide(state, command, now, entropy),
    }
});

bite!(a_commit_that_is_repeated_is_refused, "but it is so", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match process(state, command) {
        Some(known) if commits(command) && matches!(known.phase, Phase::Cleanup | Phase::Done) => {
            let (id, phase) = (known.id, known.phase);
            instead(Reply::Cancelled(Cancelled::Past { id, phase }))
        }
        _ => decided,
    }
});

bite!(what_is_done_is_forgotten_at_once, "process ", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if let Ask::Settled { number, .. } = command.ask
        && !decided.changes.is_empty()
    {
        decided.changes = vec![Change::ProcessForgotten(number)];
    }
    decided
});

bite!(
    what_the_folders_said_before_is_taken_for_the_last_word,
    "process ",
    |state, command, now, entropy| {
        let mut command = command.clone();
        if let Ask::Settled { number, round } = &mut command.ask {
            *round = state.process_by_number(*number).map_or(0, |one| one.phase.round());
        }
        decide(state, &command, now, entropy)
    }
);

bite!(two_decisions_are_settled_by_one_word, "as before", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    for action in &mut decided.actions {
        if let Action::Settle { round, .. } = action {
            *round = 1;
        }
    }
    decided
});

bite!(a_deadlock_is_not_counted, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if commits(command) {
        for change in &mut decided.changes {
            if let Change::Placed { seq, place: Place::Messages, attempts, .. } = change {
                *attempts = state.message(*seq).map_or(0, |one| one.attempts);
            }
        }
    }
    decided
});

bite!(a_message_is_tried_for_ever, "message Seq", |state, command, now, entropy| {
    let mut command = command.clone();
    command.rules.attempts_max = 0;
    decide(state, &command, now, entropy)
});

bite!(a_silence_is_not_counted, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if ticks(command) {
        for change in &mut decided.changes {
            if let Change::Placed { silences, .. } = change {
                *silences = 0;
            }
        }
    }
    decided
});

bite!(replies_of_what_was_rolled_back_stay, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if rolls_back(command) {
        decided.changes.retain(|one| !matches!(one, Change::Forgotten(_)));
        decided.actions.retain(|one| !matches!(one, Action::Move { to: None, .. }));
    }
    decided
});

bite!(what_was_rolled_back_is_taken_as_processed, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if rolls_back(command) {
        replace(&mut decided, Place::Messages, Place::Log);
    }
    decided
});

bite!(a_rollback_is_taken_as_a_commit, "message Seq", |state, command, now, entropy| {
    let mut command = command.clone();
    let ready = process(state, &command).is_some_and(|one| one.phase == Phase::Ready);
    if let Ask::Process { step: step @ Step::Rollback(_), .. } = &mut command.ask
        && ready
    {
        *step = Step::Commit;
    }
    if let Ask::Resolve { outcomes, .. } = &mut command.ask {
        outcomes.iter_mut().for_each(|one| one.committed = true);
    }
    decide(state, &command, now, entropy)
});

bite!(a_commit_is_taken_as_a_rollback, "message Seq", |state, command, now, entropy| {
    let mut command = command.clone();
    if let Ask::Resolve { outcomes, .. } = &mut command.ask {
        outcomes.iter_mut().for_each(|one| one.committed = false);
    }
    decide(state, &command, now, entropy)
});

bite!(what_nobody_knows_is_served_again, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if ticks(command) {
        replace(&mut decided, Place::Unknown, Place::Messages);
    }
    decided
});

bite!(what_nobody_knows_is_taken_as_processed, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if ticks(command) {
        replace(&mut decided, Place::Unknown, Place::Log);
    }
    decided
});

bite!(what_is_wrong_anyway_is_unknown, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if ticks(command) {
        replace(&mut decided, Place::Error, Place::Unknown);
    }
    decided
});

bite!(nobody_is_told_what_nobody_knows, "is not said", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    silence(&mut decided, Happened::Unknown);
    decided
});

bite!(
    nobody_is_told_of_a_file_that_cannot_be_moved,
    "is not said",
    |state, command, now, entropy| {
        let mut decided = decide(state, command, now, entropy);
        silence(&mut decided, Happened::Failed);
        decided
    }
);

bite!(
    nobody_is_told_what_is_in_doubt_after_a_start,
    "is not said",
    |state, command, now, entropy| {
        let mut decided = decide(state, command, now, entropy);
        silence(&mut decided, Happened::InDoubt);
        decided
    }
);

bite!(what_is_said_late_is_not_heard, "but it is so", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match process(state, command).filter(|one| one.phase == Phase::Unknown) {
        Some(known) if commits(command) || rolls_back(command) => {
            let (id, phase) = (known.id, known.phase);
            instead(Reply::Cancelled(Cancelled::Past { id, phase }))
        }
        _ => decided,
    }
});

bite!(a_contradiction_is_agreed_to, "contradicts", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match decided.reply {
        Reply::Cancelled(Cancelled::Contradicts { .. }) => instead(Reply::Ok { deadline: None }),
        _ => decided,
    }
});

bite!(a_contradiction_is_followed, "contradicts", |state, command, now, entropy| {
    let undone = |one: &mut handoff_exchange::Process| {
        if matches!(one.phase, Phase::Cleanup | Phase::Done) {
            one.phase = Phase::Ready;
        }
    };
    match rolls_back(command) {
        true => decide(&with_processes(state, undone), command, now, entropy),
        false => decide(state, command, now, entropy),
    }
});

bite!(nobody_is_told_of_a_contradiction, "is not said", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    silence(&mut decided, Happened::Contradiction);
    decided
});

bite!(what_is_ready_is_interrupted, "\"ready\"", |state, command, now, entropy| {
    let mut command = command.clone();
    let ready = process(state, &command).is_some_and(|one| one.phase == Phase::Ready);
    if let Ask::Process { step: step @ Step::Interrupt(_), .. } = &mut command.ask
        && ready
    {
        *step = Step::Rollback("interrupted".into());
    }
    decide(state, &command, now, entropy)
});

bite!(what_never_was_prepared_is_committed, "not prepared", |state, command, now, entropy| {
    let decided = decide(state, command, now, entropy);
    match (&decided.reply, step(command)) {
        (Reply::Cancelled(Cancelled::NotPrepared(_)), Some((_, Step::Commit))) => {
            instead(Reply::Ok { deadline: None })
        }
        _ => decided,
    }
});

bite!(what_is_ready_is_given_up_at_a_start, "process ", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if command.ask == Ask::Opened {
        decided.changes.retain(|one| !matches!(one, Change::Extended { .. }));
    }
    decided
});

bite!(what_nobody_knows_is_put_back_by_hand, "not aside", |state, command, now, entropy| {
    let aside = |one: &mut handoff_exchange::Message| {
        if one.place == Place::Unknown {
            one.place = Place::Error;
        }
    };
    match &command.ask {
        Ask::Requeue { .. } => decide(&with_messages(state, aside), command, now, entropy),
        _ => decide(state, command, now, entropy),
    }
});

bite!(what_cannot_be_read_is_served, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(command.ask, Ask::Damaged { .. }) {
        replace(&mut decided, Place::Error, Place::Messages);
    }
    decided
});

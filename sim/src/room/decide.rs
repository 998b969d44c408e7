//! The rules of the counter room.

use handoff_types::{Decision, Entropy, Now, Span};

use super::{
    ANNOUNCE_EVERY, Action, Change, Command, Ended, Hold, Name, Refusal, Reply, State,
    TICK_HOLDS_MAX, Tally, VALUE_LIMIT,
};

type Decided = Decision<Reply, Change, Action>;

pub(super) fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
    let decided = match *command {
        Command::Add { key, by, ticket } => add(state, key, by, ticket, now),
        Command::Hold { key, span } => hold(state, key, span, now, entropy),
        Command::Release { key, hold } => release(state, key, hold),
        Command::Move { from, to, by, ticket } => shift(state, (from, to), by, ticket, now),
        Command::Note { key, ref body } => Ok(note(state, key, body)),
        Command::Tick => Ok(tick(state, now)),
        Command::Read { key } => Ok(answer(Reply::Seen(state.tally(key).seen()))),
    };
    decided.unwrap_or_else(|refusal| answer(Reply::Refused(refusal)))
}

fn add(state: &State, key: Name, by: i64, ticket: u64, now: Now) -> Result<Decided, Refusal> {
    let tally = state.tally(key);
    if let Some(value) = tally.remembered(ticket) {
        return Ok(answer(Reply::Repeated { value }));
    }
    free(tally, key, now)?;
    let value = shifted(tally, key, Some(by))?;
    Ok(Decision {
        reply: Reply::Value { value },
        changes: vec![Change::Added { key, by, ticket }],
        actions: announcement(tally, key, value).into_iter().collect(),
    })
}

fn hold(
    state: &State,
    key: Name,
    span: Span,
    now: Now,
    entropy: Entropy,
) -> Result<Decided, Refusal> {
    let tally = state.tally(key);
    free(tally, key, now)?;
    let hold = Hold { id: entropy.word(0), until: now.steady + span };
    let over = tally.hold.map(|old| old.id);
    Ok(Decision {
        reply: Reply::Taken { hold: hold.id, until: hold.until },
        changes: over
            .map(|hold| Change::HoldEnded { key, hold })
            .into_iter()
            .chain([Change::HoldTaken { key, hold }])
            .collect(),
        actions: over.map(|hold| Action::HoldEnded { key, hold }).into_iter().collect(),
    })
}

fn release(state: &State, key: Name, hold: u64) -> Result<Decided, Refusal> {
    let known = state.tally(key).hold.is_some_and(|known| known.id == hold);
    if !known {
        return Err(Refusal::NotHeld);
    }
    Ok(Decision {
        reply: Reply::Released,
        changes: vec![Change::HoldReleased { key, hold }],
        actions: Vec::new(),
    })
}

fn shift(
    state: &State,
    (from, to): (Name, Name),
    by: i64,
    ticket: u64,
    now: Now,
) -> Result<Decided, Refusal> {
    if from == to {
        return Err(Refusal::SameKey);
    }
    let (giver, taker) = (state.tally(from), state.tally(to));
    if let Some(value) = giver.remembered(ticket) {
        return Ok(answer(Reply::Repeated { value }));
    }
    free(giver, from, now)?;
    free(taker, to, now)?;
    let given = shifted(giver, from, by.checked_neg())?;
    let taken = shifted(taker, to, Some(by))?;
    Ok(Decision {
        reply: Reply::Moved { from: given, to: taken },
        changes: vec![Change::MovedOut { key: from, by, ticket }, Change::MovedIn { key: to, by }],
        actions: announcement(giver, from, given)
            .into_iter()
            .chain(announcement(taker, to, taken))
            .collect(),
    })
}

fn note(state: &State, key: Name, body: &[u8]) -> Decided {
    let offset = state.tally(key).notes;
    let (length, crc) = (body.len() as u64, crc32c::crc32c(body));
    Decision {
        reply: Reply::Noted { offset },
        changes: vec![Change::Noted { key, offset, length, crc }],
        actions: Vec::new(),
    }
}

fn tick(state: &State, now: Now) -> Decided {
    let ended: Vec<Ended> = state
        .over(now.steady)
        .take(TICK_HOLDS_MAX)
        .map(|(key, hold)| Ended { key, hold: hold.id })
        .collect();
    let changes = ended.iter().map(|end| Change::HoldEnded { key: end.key, hold: end.hold });
    let actions = ended.iter().map(|end| Action::HoldEnded { key: end.key, hold: end.hold });
    Decision {
        changes: changes.collect(),
        actions: actions.collect(),
        reply: Reply::Ticked { ended },
    }
}

const fn answer(reply: Reply) -> Decided {
    Decision { reply, changes: Vec::new(), actions: Vec::new() }
}

fn free(tally: &Tally, key: Name, now: Now) -> Result<(), Refusal> {
    match tally.hold {
        Some(by) if by.stands(now.steady) => Err(Refusal::Held { key, by }),
        _ => Ok(()),
    }
}

/// The value after a shift; `None` is a shift too large to be written down.
fn shifted(tally: &Tally, key: Name, by: Option<i64>) -> Result<i64, Refusal> {
    by.and_then(|by| tally.value.checked_add(by))
        .filter(|value| (-VALUE_LIMIT..=VALUE_LIMIT).contains(value))
        .ok_or(Refusal::over_limit(key, tally.value))
}

fn announcement(tally: &Tally, key: Name, value: i64) -> Option<Action> {
    let hundred = |value: i64| value.div_euclid(ANNOUNCE_EVERY);
    (hundred(tally.value) != hundred(value)).then_some(Action::Announce { key, value })
}

#[cfg(test)]
mod tests {
    use super::super::Counter;
    use super::*;
    use bytes::Bytes;
    use handoff_types::{Machine, Steady};

    /// A room, driven as a shell drives it.
    #[derive(Default)]
    struct Shell {
        state: State,
        now: Now,
        draws: u128,
    }

    impl Shell {
        fn ask(&mut self, command: &Command) -> (Reply, Vec<Action>) {
            self.draws += 1;
            let decided = Counter::decide(&self.state, command, self.now, Entropy(self.draws));
            decided.changes.iter().for_each(|change| Counter::evolve(&mut self.state, change));
            (decided.reply, decided.actions)
        }

        fn reply(&mut self, command: &Command) -> Reply {
            self.ask(command).0
        }

        fn hold(&mut self, key: Name, span: Span) -> Hold {
            match self.reply(&Command::Hold { key, span }) {
                Reply::Taken { hold, until } => Hold { id: hold, until },
                other => panic!("no hold: {other}"),
            }
        }

        fn pass(&mut self, span: Span) {
            self.now.steady = self.now.steady + span;
        }
    }

    fn a() -> Name {
        Name::numbered(0)
    }

    fn b() -> Name {
        Name::numbered(1)
    }

    fn add(by: i64, ticket: u64) -> Command {
        Command::Add { key: a(), by, ticket }
    }

    fn transfer(by: i64, ticket: u64) -> Command {
        Command::Move { from: a(), to: b(), by, ticket }
    }

    #[test]
    fn a_repeated_ticket_answers_the_value_of_then_and_changes_nothing() {
        let mut shell = Shell::default();
        shell.ask(&add(5, 1));
        shell.ask(&add(7, 2));
        let before = shell.state.hash();
        assert_eq!(shell.reply(&add(5, 1)), Reply::Repeated { value: 5 });
        assert_eq!(shell.state.hash(), before);
    }

    #[test]
    fn a_repeated_ticket_is_answered_even_while_the_key_is_held() {
        let mut shell = Shell::default();
        shell.ask(&add(5, 1));
        shell.hold(a(), Span(10));
        assert_eq!(shell.reply(&add(5, 1)), Reply::Repeated { value: 5 });
    }

    #[test]
    fn a_value_reaches_its_limit_and_does_not_pass_it() {
        let mut shell = Shell::default();
        assert_eq!(shell.reply(&add(VALUE_LIMIT, 1)), Reply::Value { value: VALUE_LIMIT });
        for by in [1, i64::MAX] {
            let refused = Refusal::over_limit(a(), VALUE_LIMIT);
            assert_eq!(shell.reply(&add(by, 2)), Reply::Refused(refused));
        }
        let refused = Reply::Refused(Refusal::over_limit(a(), VALUE_LIMIT));
        assert_eq!(shell.reply(&transfer(i64::MIN, 3)), refused);
    }

    #[test]
    fn a_standing_hold_refuses_adds_moves_and_other_holds() {
        let mut shell = Shell::default();
        let by = shell.hold(b(), Span(10));
        let refused = Reply::Refused(Refusal::Held { key: b(), by });
        assert_eq!(shell.reply(&Command::Add { key: b(), by: 1, ticket: 1 }), refused);
        assert_eq!(shell.reply(&transfer(1, 1)), refused);
        assert_eq!(shell.reply(&Command::Hold { key: b(), span: Span(1) }), refused);
    }

    #[test]
    fn a_hold_hinders_nobody_from_its_until_on() {
        let mut shell = Shell::default();
        shell.hold(a(), Span(10));
        shell.pass(Span(9));
        assert!(shell.reply(&add(1, 1)).refusal().is_some());
        shell.pass(Span(1));
        assert_eq!(shell.reply(&add(1, 1)), Reply::Value { value: 1 });
    }

    #[test]
    fn a_hold_that_follows_another_tells_of_its_end() {
        let mut shell = Shell::default();
        let first = shell.hold(a(), Span(10));
        shell.pass(Span(10));
        let (_, actions) = shell.ask(&Command::Hold { key: a(), span: Span(10) });
        assert_eq!(actions, [Action::HoldEnded { key: a(), hold: first.id }]);
    }

    #[test]
    fn only_the_hold_that_is_there_can_be_released() {
        let mut shell = Shell::default();
        let hold = shell.hold(a(), Span(10)).id;
        let wrong = Command::Release { key: a(), hold: hold ^ 1 };
        assert_eq!(shell.reply(&wrong), Reply::Refused(Refusal::NotHeld));
        assert_eq!(shell.reply(&Command::Release { key: a(), hold }), Reply::Released);
        assert_eq!(
            shell.reply(&Command::Release { key: a(), hold }),
            Reply::Refused(Refusal::NotHeld)
        );
        assert_eq!(shell.reply(&add(1, 1)), Reply::Value { value: 1 });
    }

    #[test]
    fn a_move_changes_both_keys_or_neither() {
        let mut shell = Shell::default();
        assert_eq!(shell.reply(&transfer(30, 1)), Reply::Moved { from: -30, to: 30 });
        assert_eq!(shell.reply(&transfer(30, 1)), Reply::Repeated { value: -30 });
        let before = shell.state.hash();
        assert_eq!(
            shell.reply(&transfer(VALUE_LIMIT, 2)),
            Reply::Refused(Refusal::over_limit(a(), -30))
        );
        let itself = Command::Move { from: a(), to: a(), by: 1, ticket: 3 };
        assert_eq!(shell.reply(&itself), Reply::Refused(Refusal::SameKey));
        assert_eq!(shell.state.hash(), before);
    }

    #[test]
    fn notes_are_numbered_without_a_gap_for_each_key() {
        let mut shell = Shell::default();
        for offset in 0..3 {
            for key in [a(), b()] {
                let body = Bytes::from(vec![7; 2 << 20]);
                assert_eq!(shell.reply(&Command::Note { key, body }), Reply::Noted { offset });
            }
        }
        assert_eq!(shell.state.tally(a()).notes, 3);
    }

    #[test]
    fn a_tick_ends_what_is_over_the_longest_past_first_and_not_all_at_once() {
        let mut shell = Shell::default();
        let keys: Vec<Name> = (0..20).map(Name::numbered).collect();
        for (place, key) in keys.iter().enumerate() {
            shell.hold(*key, Span(100 - place as u64));
        }
        shell.pass(Span(80));
        assert_eq!(shell.reply(&Command::Tick), Reply::Ticked { ended: Vec::new() });
        shell.pass(Span(20));
        let Reply::Ticked { ended } = shell.reply(&Command::Tick) else { panic!("no tick") };
        let in_order: Vec<Name> = keys.iter().rev().copied().take(TICK_HOLDS_MAX).collect();
        assert_eq!(ended.iter().map(|end| end.key).collect::<Vec<_>>(), in_order);
        assert!(Counter::next_deadline(&shell.state, shell.now) <= Some(shell.now.steady));
        let (_, actions) = shell.ask(&Command::Tick);
        assert_eq!(actions.len(), 20 - TICK_HOLDS_MAX);
        assert_eq!(Counter::next_deadline(&shell.state, shell.now), None);
    }

    #[test]
    fn the_operators_clock_ends_no_hold() {
        let mut shell = Shell::default();
        shell.hold(a(), Span(10));
        shell.now.wall = shell.now.wall + Span::from_secs(86_400);
        assert_eq!(shell.reply(&Command::Tick), Reply::Ticked { ended: Vec::new() });
    }

    #[test]
    fn a_value_is_announced_when_it_passes_a_multiple_of_a_hundred() {
        let mut shell = Shell::default();
        assert_eq!(shell.ask(&add(99, 1)).1, []);
        assert_eq!(shell.ask(&add(1, 2)).1, [Action::Announce { key: a(), value: 100 }]);
        assert_eq!(shell.ask(&add(50, 3)).1, []);
        let both =
            [Action::Announce { key: a(), value: -50 }, Action::Announce { key: b(), value: 200 }];
        assert_eq!(shell.ask(&transfer(200, 4)).1, both);
    }

    #[test]
    fn a_read_changes_nothing_and_shows_what_is_there() {
        let mut shell = Shell::default();
        shell.ask(&add(5, 1));
        let hold = shell.hold(a(), Span(10));
        shell.ask(&Command::Note { key: a(), body: Bytes::from_static(b"123456789") });
        let before = shell.state.hash();
        let Reply::Seen(seen) = shell.reply(&Command::Read { key: a() }) else { panic!("unseen") };
        assert_eq!((seen.value, seen.accepted, seen.hold), (5, 1, Some(hold)));
        assert_eq!((seen.notes, seen.last), (1, Some(0xe306_9283)));
        assert_eq!(shell.state.hash(), before);
    }

    #[test]
    fn a_deadline_is_that_of_the_first_hold() {
        let mut shell = Shell::default();
        shell.hold(a(), Span(10));
        shell.hold(b(), Span(5));
        assert_eq!(Counter::next_deadline(&shell.state, shell.now), Some(Steady(5)));
    }
}

//! Each promise of the oracle: what it lets pass, and what it does not.

use bytes::Bytes;
use handoff_types::{Now, Span, Steady, Wall};

use super::{Oracle, Violation};
use crate::room::{Action, Command, Ended, Hold, Name, Refusal, Reply, Seen};

const A: fn() -> Name = || Name::numbered(0);
const B: fn() -> Name = || Name::numbered(1);

fn at(steady: u64) -> Now {
    Now { wall: Wall(0), steady: Steady(steady) }
}

fn add(by: i64, ticket: u64) -> Command {
    Command::Add { key: A(), by, ticket }
}

fn transfer(by: i64, ticket: u64) -> Command {
    Command::Move { from: A(), to: B(), by, ticket }
}

fn value(value: i64) -> Reply {
    Reply::Value { value }
}

fn read(key: Name) -> Command {
    Command::Read { key }
}

fn seen(value: i64, accepted: u64) -> Reply {
    Reply::Seen(Seen { value, accepted, ..Seen::default() })
}

fn says(oracle: &mut Oracle, command: &Command, reply: Reply) -> Result<(), Violation> {
    oracle.acknowledged(command, at(0), &reply, &[])
}

fn objects(outcome: Result<(), Violation>) -> bool {
    matches!(outcome, Err(Violation::Impossible { .. }))
}

#[test]
fn an_acknowledged_add_must_stay() {
    let mut oracle = Oracle::default();
    says(&mut oracle, &add(5, 1), value(5)).unwrap();
    assert!(objects(says(&mut oracle.clone(), &read(A()), seen(0, 0))));
    assert!(objects(says(&mut oracle.clone(), &add(1, 2), value(1))));
    says(&mut oracle, &read(A()), seen(5, 1)).unwrap();
}

#[test]
fn an_unknown_add_may_have_happened_once_or_not_at_all() {
    let mut oracle = Oracle::default();
    oracle.unknown(&add(5, 1), at(0)).unwrap();
    for (reply, allowed) in [(seen(0, 0), true), (seen(5, 1), true), (seen(10, 2), false)] {
        assert_eq!(says(&mut oracle.clone(), &read(A()), reply).is_ok(), allowed);
    }
}

#[test]
fn a_later_answer_settles_what_was_unknown() {
    let mut oracle = Oracle::default();
    oracle.unknown(&add(5, 1), at(0)).unwrap();
    says(&mut oracle, &add(1, 2), value(6)).unwrap();
    assert!(objects(says(&mut oracle, &read(A()), seen(1, 1))));
}

#[test]
fn a_repeated_ticket_tells_the_value_of_then() {
    let mut oracle = Oracle::default();
    says(&mut oracle, &add(5, 1), value(5)).unwrap();
    says(&mut oracle, &add(7, 2), value(12)).unwrap();
    says(&mut oracle, &add(5, 1), Reply::Repeated { value: 5 }).unwrap();
    assert!(objects(says(&mut oracle.clone(), &add(5, 1), Reply::Repeated { value: 12 })));
    assert!(objects(says(&mut oracle.clone(), &add(5, 1), value(17))));
    assert!(objects(says(&mut oracle, &add(5, 3), Reply::Repeated { value: 5 })));
}

#[test]
fn a_ticket_may_be_forgotten_after_sixteen_others_and_not_before() {
    let mut oracle = Oracle::default();
    for ticket in 0..16 {
        says(&mut oracle, &add(1, ticket), value(ticket as i64 + 1)).unwrap();
    }
    says(&mut oracle, &add(1, 0), Reply::Repeated { value: 1 }).unwrap();
    says(&mut oracle, &add(1, 16), value(17)).unwrap();
    says(&mut oracle, &add(1, 0), value(18)).unwrap();
}

#[test]
fn a_refusal_must_show_what_is_there() {
    let mut oracle = Oracle::default();
    says(&mut oracle, &add(5, 1), value(5)).unwrap();
    let over = |value, limit| Reply::Refused(Refusal::OverLimit { key: A(), value, limit });
    let much = add(1_000_000, 2);
    says(&mut oracle, &much, over(5, 1_000_000)).unwrap();
    assert!(objects(says(&mut oracle.clone(), &much, over(6, 1_000_000))));
    assert!(objects(says(&mut oracle.clone(), &much, over(5, 10))));
    assert!(objects(says(&mut oracle.clone(), &add(1, 2), over(5, 1_000_000))));
    let announced = [Action::Announce { key: A(), value: 1_000_005 }];
    assert!(objects(oracle.acknowledged(&much, at(0), &value(1_000_005), &announced)));
}

#[test]
fn a_hold_is_given_once_while_it_stands() {
    let mut oracle = Oracle::default();
    let hold = Command::Hold { key: A(), span: Span(10) };
    let taken = |hold, until| Reply::Taken { hold, until: Steady(until) };
    says(&mut oracle, &hold, taken(7, 10)).unwrap();
    let again = oracle.clone().acknowledged(&hold, at(9), &taken(8, 19), &[]);
    assert!(objects(again));
    let ended = [Action::HoldEnded { key: A(), hold: 7 }];
    oracle.clone().acknowledged(&hold, at(10), &taken(8, 20), &ended).unwrap();
    let same_id = oracle.acknowledged(&hold, at(10), &taken(7, 20), &ended);
    assert_eq!(same_id, Err(Violation::HoldGivenTwice { key: A(), hold: 7 }));
}

#[test]
fn a_standing_hold_refuses_and_an_unknown_one_is_learnt_from_its_refusal() {
    let mut oracle = Oracle::default();
    oracle.unknown(&Command::Hold { key: A(), span: Span(10) }, at(0)).unwrap();
    let by = Hold { id: 7, until: Steady(10) };
    says(&mut oracle, &add(1, 1), Reply::Refused(Refusal::Held { key: A(), by })).unwrap();
    assert!(objects(says(&mut oracle.clone(), &add(1, 1), value(1))));
    let release = |hold| Command::Release { key: A(), hold };
    assert!(objects(says(&mut oracle.clone(), &release(8), Reply::Released)));
    assert!(objects(says(&mut oracle.clone(), &release(7), Reply::Refused(Refusal::NotHeld))));
    says(&mut oracle, &release(7), Reply::Released).unwrap();
    says(&mut oracle, &add(1, 1), value(1)).unwrap();
}

#[test]
fn a_tick_ends_all_that_is_over_and_nothing_else() {
    let mut oracle = Oracle::default();
    for (key, hold, span) in [(A(), 1, 10), (B(), 2, 20)] {
        let taken = Reply::Taken { hold, until: Steady(span) };
        says(&mut oracle, &Command::Hold { key, span: Span(span) }, taken).unwrap();
    }
    let tick = |oracle: &Oracle, ended: &[(Name, u64)]| {
        let actions: Vec<Action> =
            ended.iter().map(|(key, hold)| Action::HoldEnded { key: *key, hold: *hold }).collect();
        let ended = ended.iter().map(|(key, hold)| Ended { key: *key, hold: *hold }).collect();
        oracle.clone().acknowledged(&Command::Tick, at(15), &Reply::Ticked { ended }, &actions)
    };
    tick(&oracle, &[(A(), 1)]).unwrap();
    assert!(objects(tick(&oracle, &[])));
    assert!(objects(tick(&oracle, &[(A(), 3)])));
    assert!(objects(tick(&oracle, &[(A(), 1), (B(), 2)])));
}

#[test]
fn a_pending_command_may_happen_after_it_was_seen_not_to_have_and_only_once() {
    let mut oracle = Oracle::default();
    let doubt = oracle.pending(&add(5, 1), at(0)).unwrap();
    says(&mut oracle, &read(A()), seen(0, 0)).unwrap();
    says(&mut oracle, &add(1, 2), value(1)).unwrap();
    says(&mut oracle, &read(A()), seen(6, 2)).unwrap();
    assert!(objects(says(&mut oracle.clone(), &read(A()), seen(11, 3))));
    assert!(objects(says(&mut oracle.clone(), &read(A()), seen(1, 1))));
    oracle.over(doubt).unwrap();
    says(&mut oracle, &read(A()), seen(6, 2)).unwrap();
}

#[test]
fn a_pending_command_does_not_happen_once_it_is_over_and_was_seen_not_to_have() {
    let mut oracle = Oracle::default();
    let doubt = oracle.pending(&add(5, 1), at(0)).unwrap();
    says(&mut oracle, &read(A()), seen(0, 0)).unwrap();
    oracle.over(doubt).unwrap();
    says(&mut oracle.clone(), &read(A()), seen(5, 1)).unwrap();
    says(&mut oracle, &read(A()), seen(0, 0)).unwrap();
    assert!(objects(says(&mut oracle, &read(A()), seen(5, 1))));
}

#[test]
fn a_pending_move_seen_on_one_side_is_there_on_the_other() {
    let mut oracle = Oracle::default();
    let doubt = oracle.pending(&transfer(5, 1), at(0)).unwrap();
    says(&mut oracle, &read(A()), seen(0, 0)).unwrap();
    says(&mut oracle, &read(B()), seen(5, 1)).unwrap();
    assert!(objects(says(&mut oracle.clone(), &read(A()), seen(0, 0))));
    says(&mut oracle, &read(A()), seen(-5, 1)).unwrap();
    oracle.over(doubt).unwrap();
}

#[test]
fn a_move_happens_on_both_sides_or_on_neither() {
    let mut oracle = Oracle::default();
    oracle.unknown(&transfer(5, 1), at(0)).unwrap();
    says(&mut oracle, &read(A()), seen(-5, 1)).unwrap();
    says(&mut oracle.clone(), &read(B()), seen(5, 1)).unwrap();
    assert!(objects(says(&mut oracle, &read(B()), seen(0, 0))));
}

#[test]
fn a_move_that_one_side_refuses_did_not_happen_on_the_other() {
    let mut oracle = Oracle::default();
    let span = Span(10);
    let taken = Reply::Taken { hold: 1, until: Steady(10) };
    says(&mut oracle, &Command::Hold { key: B(), span }, taken).unwrap();
    oracle.unknown(&transfer(5, 1), at(0)).unwrap();
    assert!(objects(says(&mut oracle, &read(A()), seen(-5, 1))));
}

#[test]
fn two_halves_settled_differently_by_one_answer_are_a_torn_move() {
    let mut oracle = Oracle::default();
    oracle.unknown(&transfer(5, 1), at(0)).unwrap();
    let half = says(&mut oracle, &transfer(1, 2), Reply::Moved { from: -6, to: 1 });
    assert_eq!(half, Err(Violation::TornMove { from: A(), to: B() }));
}

#[test]
fn notes_are_numbered_without_a_gap_and_read_back_as_written() {
    let mut oracle = Oracle::default();
    let note =
        |text: &'static str| Command::Note { key: A(), body: Bytes::from_static(text.as_bytes()) };
    says(&mut oracle, &note("one"), Reply::Noted { offset: 0 }).unwrap();
    assert!(objects(says(&mut oracle.clone(), &note("two"), Reply::Noted { offset: 2 })));
    oracle.unknown(&note("two"), at(0)).unwrap();
    oracle.clone().body(A(), 1, None).unwrap();
    oracle.body(A(), 1, Some(b"two")).unwrap();
    for (offset, body) in [(0, Some(&b"two"[..])), (0, None), (1, None), (2, Some(b"two"))] {
        let judged = oracle.clone().body(A(), offset, body);
        assert!(matches!(judged, Err(Violation::Body { .. })));
    }
}

#[test]
fn what_follows_from_an_answer_is_done_and_nothing_else() {
    let oracle = Oracle::default();
    let announce = [Action::Announce { key: A(), value: 100 }];
    let judge = |by, actions: &[Action]| {
        oracle.clone().acknowledged(&add(by, 1), at(0), &value(by), actions)
    };
    judge(100, &announce).unwrap();
    judge(99, &[]).unwrap();
    assert!(matches!(judge(100, &[]), Err(Violation::Actions { .. })));
    assert!(matches!(judge(99, &announce), Err(Violation::Actions { .. })));
}

#[test]
fn an_answer_to_another_question_is_absurd() {
    let judged = says(&mut Oracle::default(), &read(A()), value(0));
    assert!(matches!(judged, Err(Violation::Absurd { .. })));
}

#[test]
fn after_a_recovery_all_that_was_acknowledged_is_there() {
    let mut oracle = Oracle::default();
    says(&mut oracle, &add(5, 1), value(5)).unwrap();
    oracle.unknown(&Command::Add { key: B(), by: 3, ticket: 2 }, at(0)).unwrap();
    let there = |value| Seen { value, accepted: 1, ..Seen::default() };
    oracle.clone().settle([(A(), there(5)), (B(), there(3))]).unwrap();
    oracle.clone().settle([(A(), there(5))]).unwrap();
    assert!(objects(oracle.clone().settle([(B(), there(3))])));
    let invented = [(A(), there(5)), (Name::numbered(2), there(1))];
    assert!(objects(oracle.settle(invented)));
}

#[test]
fn after_a_crash_the_commands_underway_are_there_up_to_one_and_none_after_it() {
    let mut oracle = Oracle::default();
    says(&mut oracle, &add(5, 1), value(5)).unwrap();
    let underway = [(add(1, 2), at(0)), (transfer(2, 3), at(0)), (add(1, 4), at(0))];
    let judge = |a: (i64, u64), b: (i64, u64)| {
        let there = |(value, accepted)| Seen { value, accepted, ..Seen::default() };
        let observed = [(A(), there(a)), (B(), there(b))].into_iter().collect();
        oracle.clone().recovered(&underway, &observed)
    };
    assert_eq!(judge((5, 1), (0, 0)), Ok(0));
    assert_eq!(judge((6, 2), (0, 0)), Ok(1));
    assert_eq!(judge((4, 3), (2, 1)), Ok(2));
    assert_eq!(judge((5, 4), (2, 1)), Ok(3));
    for (a, b) in [((0, 0), (0, 0)), ((3, 2), (2, 1)), ((7, 3), (0, 0)), ((4, 3), (0, 0))] {
        assert!(judge(a, b).is_err(), "{a:?} and {b:?} are no prefix");
    }
}

#[test]
fn after_a_crash_a_hold_nobody_was_told_of_may_stand_and_be_ended_in_its_turn() {
    let oracle = Oracle::default();
    let hold = Command::Hold { key: A(), span: Span(10) };
    let underway =
        [(hold, at(0)), (add(1, 1), at(5)), (Command::Tick, at(10)), (add(1, 2), at(10))];
    let judge = |seen: Seen| oracle.clone().recovered(&underway, &[(A(), seen)].into());
    let hold = Some(Hold { id: 7, until: Steady(10) });
    assert_eq!(judge(Seen { hold, ..Seen::default() }), Ok(1));
    assert_eq!(judge(Seen { value: 1, accepted: 1, ..Seen::default() }), Ok(4));
    assert!(judge(Seen { value: 1, accepted: 1, hold, ..Seen::default() }).is_err());
}

#[test]
fn a_key_with_many_possibilities_asks_to_be_read() {
    let mut oracle = Oracle::default();
    (0..4).for_each(|ticket| oracle.unknown(&add(1 << ticket, ticket), at(0)).unwrap());
    assert_eq!(oracle.crowded(), Some(A()));
    says(&mut oracle, &read(A()), seen(9, 2)).unwrap();
    assert_eq!(oracle.crowded(), None);
    let crowding = (10..20).try_for_each(|ticket| oracle.unknown(&add(1 << ticket, ticket), at(0)));
    assert_eq!(crowding, Err(Violation::Crowded { key: A() }));
}

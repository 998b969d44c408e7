//! The rules of the house, one by one, and over random commands against a second account of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use handoff_house::{
    ACTS_KEPT, Act, ActKind, Change, Command, House, NAME_BYTES_MAX, NewToken, REVOKED_KEPT,
    Refusal, Reply, SCOPES_MAX, State, TARGET_BYTES_MAX, TOKENS_MAX, TokenId, Verifier,
    WHO_BYTES_MAX,
};
use handoff_types::names::Pattern;
use handoff_types::{Entropy, Machine, Now, Room, Scope, Steady, Wall};
use proptest::prelude::*;

fn verifier() -> Verifier {
    let bytes: Box<[u8]> = [7; 32].into();
    Verifier { salt: bytes.clone(), iterations: 4096, stored_key: bytes.clone(), server_key: bytes }
}

fn token(n: u32) -> NewToken {
    let mut digest = [0; 32];
    digest[..4].copy_from_slice(&n.to_be_bytes());
    NewToken {
        id: TokenId(format!("t{n:07}").into()),
        name: format!("token {n}"),
        scopes: vec![Scope::Admin],
        digest,
        sha256: verifier(),
        sha512: verifier(),
        expires: None,
    }
}

fn create(token: NewToken) -> Command {
    Command::Create { token: Box::new(token), who: "local".to_owned() }
}

fn revoke(n: u32) -> Command {
    Command::Revoke { id: token(n).id, who: "local".to_owned() }
}

fn note(target: &str) -> Command {
    Command::Note { kind: ActKind::Reloaded, target: target.to_owned(), who: "local".to_owned() }
}

fn at(wall: i64) -> Now {
    Now { wall: Wall(wall), steady: Steady(0) }
}

/// Decides a command and makes it true.
fn apply(state: &mut State, command: &Command, now: Now) -> (Reply, Vec<Change>) {
    let decision = House::decide(state, command, now, Entropy(0));
    decision.changes.iter().for_each(|change| House::evolve(state, change));
    (decision.reply, decision.changes)
}

fn done(state: &mut State, command: &Command) -> Vec<Change> {
    let (reply, changes) = apply(state, command, at(1));
    assert_eq!(reply, Reply::Done);
    changes
}

/// The refusal of a command that must change nothing.
fn refusal(state: &State, command: &Command) -> Refusal {
    let decision = House::decide(state, command, at(1), Entropy(0));
    assert!(decision.changes.is_empty());
    match decision.reply {
        Reply::Refused(refusal) => refusal,
        Reply::Done => panic!("{command:?} was taken"),
    }
}

fn numbers(state: &State) -> Vec<u64> {
    state.acts().map(|act| act.number).collect()
}

#[test]
fn a_token_is_found_by_its_digest_and_by_no_other() {
    let mut state = State::default();
    for n in 0..100 {
        done(&mut state, &create(token(n)));
    }
    for n in 0..100 {
        assert_eq!(state.by_digest(&token(n).digest, Wall(0)).unwrap().token, token(n));
    }
    assert_eq!(state.by_digest(&[0xff; 32], Wall(0)), None);
    assert_eq!(state.by_digest(&token(100).digest, Wall(0)), None);
}

#[test]
fn every_creation_and_revocation_is_an_act() {
    let mut state = State::default();
    let created = done(&mut state, &create(token(1)));
    let act = |number, kind| Act {
        number,
        at: Wall(1),
        who: "local".to_owned(),
        kind,
        target: "t0000001 token 1".to_owned(),
    };
    assert!(matches!(&created[..], [Change::Created(_), Change::Acted(made)]
        if *made == act(1, ActKind::TokenCreated)));
    let revoked = done(&mut state, &revoke(1));
    let gone = Change::Revoked(token(1).id);
    let barred = Change::Barred { number: 1, digest: token(1).digest };
    assert_eq!(revoked, [gone, barred, Change::Acted(act(2, ActKind::TokenRevoked))]);
    assert_eq!(numbers(&state), [2, 1]);
}

#[test]
fn a_revoked_token_opens_nothing_and_is_not_listed() {
    let mut state = State::default();
    done(&mut state, &create(token(1)));
    done(&mut state, &revoke(1));
    assert_eq!(state.by_digest(&token(1).digest, Wall(0)), None);
    assert_eq!(state.tokens().count(), 0);
    let words = refusal(&state, &revoke(1)).to_string();
    assert_eq!(words, "there is no token t0000001");
}

#[test]
fn a_revoked_token_cannot_be_made_again() {
    let mut state = State::default();
    done(&mut state, &create(token(1)));
    done(&mut state, &revoke(1));
    let again = refusal(&state, &create(token(1)));
    assert_eq!(again, Refusal::Revoked("t0000001".to_owned()));
    done(&mut state, &create(token(2)));
}

/// The token of a bootstrap file is offered with every start, and acts are forgotten.
#[test]
fn a_revoked_token_stays_so_however_much_happens_afterwards() {
    let mut state = State::default();
    done(&mut state, &create(token(1)));
    done(&mut state, &revoke(1));
    for _ in 0..=ACTS_KEPT {
        done(&mut state, &note("x"));
    }
    assert!(state.acts().all(|act| act.kind != ActKind::TokenRevoked));
    let again = refusal(&state, &create(token(1)));
    assert_eq!(again, Refusal::Revoked("t0000001".to_owned()));
    // Under another id it would open the same doors.
    let other_id = NewToken { id: token(2).id, ..token(1) };
    assert!(matches!(refusal(&state, &create(other_id)), Refusal::Revoked(_)));
}

#[test]
fn a_revocation_that_only_an_act_tells_of_counts() {
    let mut state = State::default();
    let target = "t0000001 token 1".to_owned();
    let (kind, who) = (ActKind::TokenRevoked, "local".to_owned());
    done(&mut state, &Command::Note { kind, target, who });
    assert!(matches!(refusal(&state, &create(token(1))), Refusal::Revoked(_)));
}

#[test]
fn the_latest_revocations_are_kept_whatever_order_they_come_in() {
    let barred = |n: u32| Change::Barred { number: n.into(), digest: token(n).digest };
    let last = u32::try_from(REVOKED_KEPT).unwrap() + 5;
    let (mut upward, mut downward) = (State::default(), State::default());
    (1..=last).for_each(|n| House::evolve(&mut upward, &barred(n)));
    (1..=last).rev().for_each(|n| House::evolve(&mut downward, &barred(n)));
    assert_eq!(upward, downward);
    let kept: Vec<u64> = upward.revoked_from(0).map(|(number, _)| number).collect();
    assert_eq!(kept, (6..=u64::from(last)).collect::<Vec<_>>());
    assert!(!upward.was_revoked(&token(5).id, &token(5).digest));
    assert!(upward.was_revoked(&token(6).id, &token(6).digest));
}

#[test]
fn an_id_and_a_digest_belong_to_one_token() {
    let mut state = State::default();
    done(&mut state, &create(token(1)));
    let same_id = NewToken { digest: token(2).digest, ..token(1) };
    let same_digest = NewToken { id: token(2).id, ..token(1) };
    assert_eq!(refusal(&state, &create(same_id)), Refusal::Taken);
    assert_eq!(refusal(&state, &create(same_digest)), Refusal::Taken);
}

#[test]
fn an_expired_token_opens_nothing_and_is_still_listed() {
    let mut state = State::default();
    let ends = NewToken { expires: Some(Wall(100)), ..token(1) };
    done(&mut state, &create(ends));
    assert!(state.by_digest(&token(1).digest, Wall(99)).is_some());
    assert!(state.by_digest(&token(1).digest, Wall(100)).is_none());
    let listed = state.tokens().next().unwrap();
    assert!(listed.is_expired(Wall(100)) && !listed.is_expired(Wall(99)));
    // Its digest is still its own.
    let same_digest = NewToken { id: token(2).id, ..token(1) };
    assert_eq!(refusal(&state, &create(same_digest)), Refusal::Taken);
}

#[test]
fn a_token_that_has_expired_already_is_not_made() {
    let state = State::default();
    for end in [i64::MIN, 0, 1] {
        let ends = create(NewToken { expires: Some(Wall(end)), ..token(1) });
        let words = refusal(&state, &ends).to_string();
        assert!(words.contains("expired already"), "{end}: {words}");
    }
    let ends = create(NewToken { expires: Some(Wall(2)), ..token(1) });
    assert_eq!(apply(&mut state.clone(), &ends, at(1)).0, Reply::Done);
}

#[test]
fn a_token_that_says_too_little_or_too_much_is_refused_with_words() {
    let state = State::default();
    let words = |token: NewToken| match refusal(&state, &create(token)) {
        Refusal::Invalid(words) => words,
        other => panic!("{other:?}"),
    };
    for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(NAME_BYTES_MAX + 1)] {
        assert!(words(NewToken { name: name.to_owned(), ..token(1) }).contains("name"), "{name:?}");
    }
    for count in [0, SCOPES_MAX + 1] {
        let scopes = vec![Scope::Admin; count];
        assert!(words(NewToken { scopes, ..token(1) }).contains("1 to 32 scopes"), "{count}");
    }
    for id in ["", "short", "t000000A", "t0000_01", "t00000011", "tö00001"] {
        let id = TokenId(id.into());
        assert!(words(NewToken { id, ..token(1) }).contains("an id is"));
    }
    // A scope that nobody can write could not be read back.
    let scopes = vec![Scope::Room(Room::House, Pattern::every())];
    assert!(words(NewToken { scopes, ..token(1) }).contains("is no scope"));
    let sha512 = Verifier { salt: vec![0; 129].into(), ..verifier() };
    assert!(words(NewToken { sha512, ..token(1) }).contains("verifier"));
}

#[test]
fn the_largest_token_that_is_allowed_is_taken() {
    let mut state = State::default();
    let name = "ö".repeat(NAME_BYTES_MAX / 2);
    let scopes = vec![Scope::Admin; SCOPES_MAX];
    done(&mut state, &create(NewToken { name, scopes, ..token(1) }));
}

#[test]
fn as_many_tokens_are_kept_as_the_refusal_says() {
    let mut state = State::default();
    for n in 0..u32::try_from(TOKENS_MAX).unwrap() {
        House::evolve(&mut state, &created(n));
    }
    let full = refusal(&state, &create(token(99_999)));
    assert_eq!(full, Refusal::Full(TOKENS_MAX));
    done(&mut state, &revoke(7));
    done(&mut state, &create(token(99_999)));
}

fn created(n: u32) -> Change {
    let mut changes =
        House::decide(&State::default(), &create(token(n)), at(1), Entropy(0)).changes;
    changes.swap_remove(0)
}

#[test]
fn the_latest_acts_are_kept_and_numbers_go_on() {
    let mut state = State::default();
    for _ in 0..ACTS_KEPT + 5 {
        done(&mut state, &note("x"));
    }
    let numbers = numbers(&state);
    assert_eq!(numbers.len(), ACTS_KEPT);
    assert_eq!(numbers.first(), Some(&(ACTS_KEPT as u64 + 5)));
    assert_eq!(numbers.last(), Some(&6));
    let page: Vec<u64> = state.acts_below(10).map(|act| act.number).collect();
    assert_eq!(page, [9, 8, 7, 6]);
}

#[test]
fn what_happened_is_noted_however_much_is_said_about_it() {
    let mut state = State::default();
    let who = "w\u{0}".repeat(WHO_BYTES_MAX);
    let target = "ö".repeat(TARGET_BYTES_MAX);
    done(&mut state, &Command::Note { kind: ActKind::Deleted, target, who });
    let act = state.acts().next().unwrap();
    assert_eq!((act.who.len(), act.target.len()), (WHO_BYTES_MAX, TARGET_BYTES_MAX));
    assert!(!act.who.contains(char::is_control));
}

/// Acts that come back from parts of different ages have gaps, and the act that shows how old the
/// first of them are comes last.
#[test]
fn which_acts_are_kept_does_not_depend_on_their_order() {
    let act = |number| {
        Change::Acted(Act {
            number,
            at: Wall(0),
            who: String::new(),
            kind: ActKind::Deleted,
            target: String::new(),
        })
    };
    let last = ACTS_KEPT as u64 + 400;
    // 1..=100 are of an old part, 101..=600 had been forgotten when the next part was cut: fewer
    // are there than are kept, and the old ones must go all the same.
    let numbers: Vec<u64> = (1..=100).chain(601..=last).collect();
    let mut upward = State::default();
    numbers.iter().for_each(|n| House::evolve(&mut upward, &act(*n)));
    let mut downward = State::default();
    numbers.iter().rev().for_each(|n| House::evolve(&mut downward, &act(*n)));
    assert_eq!(upward, downward);
    assert_eq!(upward.acts_from(0).next().unwrap().number, 601);
}

#[derive(Clone, Debug)]
enum Step {
    Create { n: u32, digest: u32, expires: Option<i64> },
    Revoke(u32),
    Note,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u32..12, 0u32..12, proptest::option::of(0i64..50))
            .prop_map(|(n, digest, expires)| Step::Create { n, digest, expires }),
        (0u32..12).prop_map(Step::Revoke),
        Just(Step::Note),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The second account: a map of who lives, sets of who was revoked, a count of acts.
    #[test]
    fn random_commands_lead_where_the_rules_say(steps in steps()) {
        let mut state = State::default();
        let mut rebuilt = State::default();
        let mut alive: BTreeMap<u32, (u32, Option<i64>)> = BTreeMap::new();
        let mut dead: BTreeSet<u32> = BTreeSet::new();
        let mut dead_digests: BTreeSet<u32> = BTreeSet::new();
        let mut acts = 0;
        for (time, step) in (0..).zip(steps) {
            let (command, allowed) = match step {
                Step::Create { n, digest, expires } => {
                    let taken = alive.contains_key(&n) || alive.values().any(|a| a.0 == digest);
                    let is_dead = dead.contains(&n) || dead_digests.contains(&digest);
                    let is_over = expires.is_some_and(|end| end <= time);
                    let allowed = !taken && !is_dead && !is_over;
                    if allowed {
                        alive.insert(n, (digest, expires));
                    }
                    let digest = token(digest).digest;
                    (create(NewToken { digest, expires: expires.map(Wall), ..token(n) }), allowed)
                }
                Step::Revoke(n) => {
                    let gone = alive.remove(&n);
                    let allowed = gone.is_some();
                    dead.extend(allowed.then_some(n));
                    dead_digests.extend(gone.map(|(digest, _)| digest));
                    (revoke(n), allowed)
                }
                Step::Note => (note("x"), true),
            };
            let (reply, changes) = apply(&mut state, &command, at(time));
            prop_assert_eq!(reply == Reply::Done, allowed);
            acts += u64::from(allowed);
            changes.iter().for_each(|change| House::evolve(&mut rebuilt, change));
            for digest in 0..12 {
                let found = state.by_digest(&token(digest).digest, Wall(time));
                let holder = alive.iter().find(|(_, (theirs, _))| *theirs == digest);
                let open = holder.filter(|(_, (_, end))| end.is_none_or(|end| time < end));
                prop_assert_eq!(found.map(|t| t.token.id.clone()), open.map(|(n, _)| token(*n).id));
            }
        }
        prop_assert_eq!(numbers(&state), (1..=acts).rev().collect::<Vec<_>>());
        prop_assert_eq!(state.tokens().count(), alive.len());
        prop_assert_eq!(state, rebuilt);
    }
}

//! What the house answers, and when.

use handoff_house::{Refusal, Verifier};
use handoff_log::disk::Memory;
use handoff_log::journal::Refused;
use handoff_types::{Scope, Span, Wall};

use super::bench::{BEGIN, Bench};
use super::*;

fn token(n: u8) -> NewToken {
    let verifier = || Verifier {
        salt: [n].into(),
        iterations: 4096,
        stored_key: [n].into(),
        server_key: [n].into(),
    };
    NewToken {
        id: TokenId(format!("token{n:03}").into()),
        name: "ci".to_owned(),
        scopes: vec![Scope::Admin],
        digest: [n; 32],
        sha256: verifier(),
        sha512: verifier(),
        expires: None,
    }
}

/// Begins to create a token, and returns when that is decided.
async fn begin_create(bench: &Bench, n: u8) -> JoinHandle<Result<(), RoomError>> {
    let before = bench.journal.count();
    let room = bench.room.clone();
    let creating = tokio::spawn(async move { room.create(token(n), "local").await });
    bench.journal.appended(before + 1).await;
    creating
}

async fn begin_revoke(bench: &Bench, n: u8) -> JoinHandle<Result<(), RoomError>> {
    let before = bench.journal.count();
    let room = bench.room.clone();
    let revoking = tokio::spawn(async move { room.revoke(token(n).id, "local").await });
    bench.journal.appended(before + 1).await;
    revoking
}

/// Begins to note something, and returns when everything before that is decided and whoever got an
/// answer has had a turn.
async fn begin_note(bench: &Bench) {
    let before = bench.journal.count();
    let room = bench.room.clone();
    drop(tokio::spawn(async move { room.note(ActKind::Reloaded, "", "local").await }));
    bench.journal.appended(before + 1).await;
    tokio::task::yield_now().await;
}

fn opens(bench: &Bench, n: u8) -> bool {
    bench.room.by_digest(&[n; 32]).is_some()
}

#[tokio::test]
async fn a_token_opens_doors_when_it_is_durable_and_not_before() {
    let bench = Bench::held(&Memory::new());
    let creating = begin_create(&bench, 1).await;
    tokio::task::yield_now().await;
    assert!(!opens(&bench, 1) && !creating.is_finished());
    bench.journal.commit();
    creating.await.unwrap().unwrap();
    let found = bench.room.by_digest(&[1; 32]).unwrap();
    assert_eq!((found.token, found.created), (token(1), BEGIN.wall));
    bench.close().await;
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_from_the_decision_on() {
    let disk = Memory::new();
    let bench = Bench::committing(&disk);
    bench.room.create(token(1), "local").await.unwrap();
    bench.close().await;
    let bench = Bench::held(&disk);
    assert!(opens(&bench, 1), "after a restart it is there");
    let revoking = begin_revoke(&bench, 1).await;
    tokio::task::yield_now().await;
    assert!(!opens(&bench, 1) && !revoking.is_finished());
    bench.journal.commit();
    revoking.await.unwrap().unwrap();
    bench.close().await;
    let bench = Bench::held(&disk);
    assert!(!opens(&bench, 1));
    bench.close().await;
}

#[tokio::test]
async fn a_token_revoked_before_it_was_durable_never_opens_anything() {
    let bench = Bench::held(&Memory::new());
    let creating = begin_create(&bench, 1).await;
    let revoking = begin_revoke(&bench, 1).await;
    bench.journal.commit();
    creating.await.unwrap().unwrap();
    assert!(!opens(&bench, 1));
    revoking.await.unwrap().unwrap();
    assert!(!opens(&bench, 1));
    bench.close().await;
}

#[tokio::test]
async fn commands_are_decided_while_others_are_on_their_way() {
    let bench = Bench::held(&Memory::new());
    let mut creating = Vec::new();
    for n in 1..=5 {
        creating.push(begin_create(&bench, n).await);
    }
    assert!(creating.iter().all(|creating| !creating.is_finished()));
    bench.journal.commit();
    for creating in creating {
        creating.await.unwrap().unwrap();
    }
    assert!((1..=5).all(|n| opens(&bench, n)));
    bench.close().await;
}

#[tokio::test]
async fn only_so_many_answers_are_on_their_way_at_once() {
    let bench = Bench::held(&Memory::new());
    let notes: Vec<_> = (0..200)
        .map(|_| {
            let room = bench.room.clone();
            tokio::spawn(async move { room.note(ActKind::Reloaded, "", "local").await })
        })
        .collect();
    bench.journal.appended(64).await;
    // The room has had its turn with all of them waiting.
    tokio::task::yield_now().await;
    assert_eq!(bench.journal.count(), 64);
    for note in notes {
        while !note.is_finished() {
            bench.journal.commit();
            tokio::task::yield_now().await;
        }
        note.await.unwrap().unwrap();
    }
    bench.close().await;
}

/// A refusal says that a token is there. Before that token is durable, it may turn out not to be.
#[tokio::test]
async fn a_refusal_waits_for_what_it_rests_on() {
    let bench = Bench::held(&Memory::new());
    let creating = begin_create(&bench, 1).await;
    let room = bench.room.clone();
    let refused = tokio::spawn(async move { room.create(token(1), "local").await });
    begin_note(&bench).await;
    assert!(!refused.is_finished());
    bench.journal.commit();
    let refused = refused.await.unwrap();
    assert!(matches!(refused, Err(RoomError::House(Refusal::Taken))));
    creating.await.unwrap().unwrap();
    bench.close().await;
}

#[tokio::test]
async fn lists_show_what_is_durable_when_they_are_given() {
    let bench = Bench::held(&Memory::new());
    let creating = begin_create(&bench, 1).await;
    let (tokens, acts) = (bench.room.tokens(), bench.room.acts(None, 10));
    let noting = bench.room.note(ActKind::Reloaded, "certificates", "local");
    let committing = async {
        bench.journal.appended(2).await;
        bench.journal.commit();
    };
    let (tokens, acts, noted, ()) = tokio::join!(tokens, acts, noting, committing);
    creating.await.unwrap().unwrap();
    noted.unwrap();
    assert_eq!(tokens.unwrap()[0].token, token(1));
    let kinds: Vec<_> = acts.unwrap().iter().map(|act| act.kind).collect();
    assert_eq!(kinds, [ActKind::TokenCreated]);
    let kinds = |acts: Vec<Act>| acts.iter().map(|act| act.kind).collect::<Vec<_>>();
    let latest = bench.room.acts(None, 1).await.unwrap();
    assert_eq!(kinds(latest), [ActKind::Reloaded]);
    let earlier = bench.room.acts(Some(2), 10).await.unwrap();
    assert_eq!(kinds(earlier), [ActKind::TokenCreated]);
    bench.close().await;
}

#[tokio::test]
async fn a_list_is_not_given_before_it_is_durable() {
    let bench = Bench::held(&Memory::new());
    let creating = begin_create(&bench, 1).await;
    let room = bench.room.clone();
    let listing = tokio::spawn(async move { room.tokens().await });
    begin_note(&bench).await;
    assert!(!listing.is_finished());
    bench.journal.commit();
    assert_eq!(listing.await.unwrap().unwrap().len(), 1);
    creating.await.unwrap().unwrap();
    bench.close().await;
}

#[tokio::test]
async fn an_expired_token_opens_nothing_and_is_listed() {
    let bench = Bench::committing(&Memory::new());
    let ends = BEGIN.wall + Span::from_secs(60);
    bench.room.create(NewToken { expires: Some(ends), ..token(1) }, "local").await.unwrap();
    assert!(opens(&bench, 1));
    bench.hands.pass(Span::from_secs(59));
    assert!(opens(&bench, 1));
    bench.hands.pass(Span::from_secs(1));
    assert!(!opens(&bench, 1));
    assert!(bench.room.tokens().await.unwrap()[0].is_expired(Wall(i64::MAX)));
    bench.close().await;
}

#[tokio::test]
async fn a_token_that_is_unknown_cannot_be_revoked() {
    let bench = Bench::committing(&Memory::new());
    let refused = bench.room.revoke(token(1).id, "local").await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no token token001");
    bench.close().await;
}

#[tokio::test]
async fn what_the_journal_lost_is_answered_as_lost_and_opens_nothing() {
    let bench = Bench::held(&Memory::new());
    let creating = begin_create(&bench, 1).await;
    bench.journal.stop();
    let lost = creating.await.unwrap().unwrap_err();
    assert!(matches!(lost, RoomError::Lost(Lost { outcome: Outcome::Unknown })), "{lost}");
    assert!(!opens(&bench, 1));
    let refused = bench.room.create(token(2), "local").await.unwrap_err();
    assert!(matches!(refused, RoomError::Journal(Refused::Closed)), "{refused}");
    bench.close().await;
}

#[tokio::test]
async fn a_stopping_house_finishes_what_was_asked_and_then_takes_nothing() {
    let disk = Memory::new();
    let bench = Bench::held(&disk);
    let creating = begin_create(&bench, 1).await;
    bench.stop.cancel();
    tokio::task::yield_now().await;
    assert!(!bench.task.is_finished());
    bench.journal.commit();
    creating.await.unwrap().unwrap();
    bench.task.await.unwrap();
    let closed = bench.room.create(token(2), "local").await.unwrap_err();
    assert!(matches!(closed, RoomError::Closed(_)), "{closed}");
    assert!(bench.room.by_digest(&[1; 32]).is_some(), "who is inside is still known");
    let journal = Arc::into_inner(bench.journal);
    assert!(journal.is_some(), "the task has dropped its host");
}

#[tokio::test]
async fn the_house_ends_when_nobody_has_a_way_to_it() {
    let bench = Bench::committing(&Memory::new());
    drop(bench.room);
    bench.task.await.unwrap();
}

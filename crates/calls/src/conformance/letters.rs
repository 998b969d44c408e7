//! Dead letters.

use bytes::Bytes;

use super::kit::{CALLER, OTHER_CALLER, Play, WORKER, answer, channel, failing, id, new, secs};
use super::{Bench, Fresh};
use crate::{Ask, CallId, ChannelSettings, Failure, NewCall, Outcome, Refusal, Reply, Rules};

pub(super) async fn all<F: Fresh>(fresh: &F) {
    a_dead_letter_is_called_again_as_another_call(fresh).await;
    what_is_no_dead_letter_cannot_be_called_again(fresh).await;
    dead_letters_are_purged_one_or_all(fresh).await;
    a_purged_letter_s_id_is_known_as_others_are(fresh).await;
    as_many_dead_letters_as_are_kept_and_the_oldest_goes(fresh).await;
    a_dead_letter_is_forgotten_when_its_time_is_over(fresh).await;
}

/// A call that fails for the last time.
async fn dies<B: Bench>(play: &Play<B>, n: u128) {
    play.call(n).await;
    let offer = play.begun(n).await;
    play.respond(WORKER, n, offer.fence, Err(failing())).await;
    assert_eq!(play.end(n).await, Outcome::Failed(Failure::Handler(failing().error)));
    assert!(play.look(n).await.dead);
    play.heard(WORKER).await;
}

async fn deadly<F: Fresh>(fresh: &F, rules: Rules) -> Play<F::Bench> {
    let play = Play::with(fresh, rules).await;
    play.settings(ChannelSettings { attempts_max: 1, ..ChannelSettings::default() }).await;
    play.serves(WORKER, 1).await;
    play.heard(WORKER).await;
    play
}

async fn requeue<B: Bench>(play: &Play<B>, n: u128) -> CallId {
    match play.ask(Ask::Requeue { call: id(n) }).await {
        Reply::Requeued(new) => new,
        other => panic!("it was not called again: {other:?}"),
    }
}

async fn a_dead_letter_is_called_again_as_another_call<F: Fresh>(fresh: &F) {
    let play = deadly(fresh, Rules::default()).await;
    dies(&play, 1).await;
    let again = requeue(&play, 1).await;
    assert_ne!(again, id(1));
    assert!(!play.look(1).await.dead);
    let offer = play.offer(WORKER).await;
    assert_eq!((offer.call, offer.caller, offer.attempt), (again, None, 1));
    assert_eq!(offer.params, Bytes::from("{\"n\":1}"));
    let (client, fence) = (WORKER, offer.fence);
    let taken = Ask::Respond { client, call: again, fence, result: answer("1") };
    assert_eq!(play.ask(taken).await, Reply::Taken(Ok(())));
    assert_eq!(play.ends(CALLER).await, [], "its caller was told of its end before");
    assert_eq!(
        play.look(1).await.outcome,
        Some(Outcome::Failed(Failure::Handler(failing().error)))
    );
}

async fn what_is_no_dead_letter_cannot_be_called_again<F: Fresh>(fresh: &F) {
    let play = deadly(fresh, Rules::default()).await;
    assert_eq!(play.refusal(Ask::Requeue { call: id(1) }).await, Refusal::NoCall(id(1)));
    play.call(1).await;
    assert_eq!(play.refusal(Ask::Requeue { call: id(1) }).await, Refusal::NotDead(id(1)));
    play.begun(1).await;
    play.respond(WORKER, 1, 1, Err(failing())).await;
    requeue(&play, 1).await;
    assert_eq!(play.refusal(Ask::Requeue { call: id(1) }).await, Refusal::NotDead(id(1)), "twice");
}

async fn dead_letters_are_purged_one_or_all<F: Fresh>(fresh: &F) {
    let play = deadly(fresh, Rules::default()).await;
    for n in 1..=3 {
        dies(&play, n).await;
    }
    let purge = |channel, only| Ask::Purge { channel, only };
    let elsewhere = purge(channel("other"), Some(id(1)));
    assert_eq!(play.refusal(elsewhere).await, Refusal::NotDead(id(1)));
    let unknown = purge(channel("work"), Some(id(9)));
    assert_eq!(play.refusal(unknown).await, Refusal::NoCall(id(9)));
    let one = play.ask(purge(channel("work"), Some(id(2)))).await;
    assert_eq!(one, Reply::Purged { many: 1, more: false });
    let rest = play.ask(purge(channel("work"), None)).await;
    assert_eq!(rest, Reply::Purged { many: 2, more: false });
    let none = play.ask(purge(channel("work"), None)).await;
    assert_eq!(none, Reply::Purged { many: 0, more: false });
}

async fn a_purged_letter_s_id_is_known_as_others_are<F: Fresh>(fresh: &F) {
    let play = deadly(fresh, Rules::default()).await;
    dies(&play, 1).await;
    play.ask(Ask::Purge { channel: channel("work"), only: None }).await;
    play.request(new(1)).await;
    assert_eq!(play.offers(WORKER).await, [], "it does not run again");
    assert_eq!(play.end(1).await, Outcome::Failed(Failure::Handler(failing().error)));
}

async fn as_many_dead_letters_as_are_kept_and_the_oldest_goes<F: Fresh>(fresh: &F) {
    let play = deadly(fresh, Rules { dead_max: 2, ..Rules::default() }).await;
    for n in 1..=3 {
        dies(&play, n).await;
    }
    assert!(!play.look(1).await.dead);
    assert!(play.look(2).await.dead && play.look(3).await.dead);
}

async fn a_dead_letter_is_forgotten_when_its_time_is_over<F: Fresh>(fresh: &F) {
    let play =
        deadly(fresh, Rules { dead_kept: secs(60), kept: secs(10), ..Rules::default() }).await;
    dies(&play, 1).await;
    play.pass_with(secs(59), &[CALLER, OTHER_CALLER]).await;
    assert!(play.look(1).await.dead);
    play.pass_with(secs(1), &[CALLER, OTHER_CALLER]).await;
    assert_eq!(play.find(1).await, None);
    let reply = play.request(NewCall { ..new(1) }).await;
    assert_eq!(reply, Reply::Registered { call: id(1), again: false });
}

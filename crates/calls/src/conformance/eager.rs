//! Consumers that begin what they are told of at once.

use handoff_types::Span;

use super::kit::{LEASE, OTHER_WORKER, Play, WORKER, answer, channel, id, millis};
use super::{Bench, Fresh};
use crate::transport::Whereabouts;
use crate::{Ask, ChannelSettings, ClientId, Late, OnLost, Reply, Serves};

pub(super) async fn all<F: Fresh>(fresh: &F) {
    if !Play::new(fresh).await.bench.knows_eager() {
        return;
    }
    whoever_begins_at_once_has_what_it_is_offered(fresh).await;
    whoever_begins_at_once_and_comes_back_has_a_whole_lease(fresh).await;
    whoever_begins_at_once_and_is_lost_is_told_of_nothing_until_it_is_heard_of(fresh).await;
    a_call_that_must_not_run_twice_is_begun_by_nobody_at_once(fresh).await;
}

fn less(span: Span, by: Span) -> Span {
    Span(span.0.saturating_sub(by.0))
}

async fn eager<B: Bench>(play: &Play<B>, client: ClientId) {
    let serves = vec![Serves { channel: channel("work"), concurrency: 1 }];
    let init = Ask::Init { client, name: "".into(), serves, eager: true };
    assert_eq!(play.ask(init).await, Reply::Done);
}

async fn whoever_begins_at_once_has_what_it_is_offered<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    eager(&play, WORKER).await;
    play.call(1).await;
    let offer = play.offer(WORKER).await;
    assert!(offer.held);
    let look = play.look(1).await;
    assert_eq!((look.whereabouts, look.attempt), (Whereabouts::Running, 1));
    // As if it had accepted: what it has goes to nobody else while its lease lasts.
    play.ask(Ask::Away { client: WORKER }).await;
    assert_eq!(play.whereabouts(1).await, Whereabouts::Running);
    let reply = play.respond(WORKER, 1, offer.fence, answer("42")).await;
    assert_eq!(reply, Reply::Taken(Ok(())));
    assert_eq!(play.look(1).await.attempt, 1);
}

async fn whoever_begins_at_once_and_comes_back_has_a_whole_lease<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    eager(&play, WORKER).await;
    play.call(1).await;
    let first = play.offer(WORKER).await;
    play.pass(less(LEASE, millis(10))).await;
    eager(&play, WORKER).await;
    let again = play.offer(WORKER).await;
    assert_eq!((again.held, again.fence, again.attempt), (true, first.fence, 1));
    play.pass(less(LEASE, millis(10))).await;
    assert_eq!(play.whereabouts(1).await, Whereabouts::Running);
}

async fn whoever_begins_at_once_and_is_lost_is_told_of_nothing_until_it_is_heard_of<F: Fresh>(
    fresh: &F,
) {
    let play = Play::new(fresh).await;
    eager(&play, WORKER).await;
    play.call(1).await;
    let lost = play.offer(WORKER).await;
    // It says nothing of the call, and nothing else: its client is not forgotten yet.
    let silence = crate::Rules::default().client_timeout;
    play.pass(less(LEASE, silence)).await;
    play.heard(WORKER).await;
    play.pass_with(less(silence, millis(1)), &[]).await;
    eager(&play, OTHER_WORKER).await;
    play.pass_with(millis(2), &[]).await;
    let offer = play.offer(OTHER_WORKER).await;
    assert_eq!((offer.call, offer.attempt), (id(1), 2));
    assert!(offer.fence > lost.fence);
    let late = play.respond(WORKER, 1, lost.fence, answer("1")).await;
    assert_eq!(late, Reply::Taken(Err(Late::Fenced)));
}

async fn a_call_that_must_not_run_twice_is_begun_by_nobody_at_once<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.settings(ChannelSettings { on_lost: OnLost::Fail, ..ChannelSettings::default() }).await;
    eager(&play, WORKER).await;
    play.call(1).await;
    assert!(!play.offer(WORKER).await.held);
    assert_eq!(play.whereabouts(1).await, Whereabouts::Offered);
}

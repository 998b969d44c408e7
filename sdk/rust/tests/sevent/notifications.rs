//! Notifications: between answers, in order, and never more than fit.

use handoff_sdk::sevent::{Options, Selection};
use handoff_sevent::Answer;

use crate::peer::{event, listed, notify, session, within};

#[tokio::test]
async fn a_notification_tells_everything_that_is_known() {
    let (_session, mut notifications, mut peer) = session(Options::new()).await;
    peer.answer(&notify(5)).await;
    let told = within(notifications.next()).await.unwrap();
    assert_eq!((told.id, told.timestamp, told.types), (5, 7, vec!["a".to_owned()]));
    assert_eq!(told.event, event("tea"));
}

#[tokio::test]
async fn notifications_between_request_and_answer_are_not_taken_for_it() {
    let (session, mut notifications, mut peer) = session(Options::new()).await;
    let server = async {
        peer.answer(&notify(1)).await;
        peer.asked().await;
        peer.answer(&notify(2)).await;
        peer.answer(&Answer::FilterUpdated).await;
        peer.answer(&notify(3)).await;
    };
    let subscribe = session.subscribe(Selection::default());
    within(async { tokio::join!(subscribe, server) }).await.0.unwrap();
    for id in 1..=3 {
        assert_eq!(within(notifications.next()).await.unwrap().id, id);
    }
}

#[tokio::test]
async fn a_full_queue_stops_reading_and_loses_nothing() {
    let (session, mut notifications, mut peer) = session(Options::new().notifications_max(2)).await;
    let mut answer = Box::pin(session.list(None));
    let server = async {
        peer.asked().await;
        for id in 0..10 {
            peer.answer(&notify(id)).await;
        }
        peer.answer(&listed(1)).await;
    };
    within(async {
        tokio::select! {
            result = &mut answer => panic!("overtook notifications: {result:?}"),
            () = server => {}
        }
    })
    .await;
    // The answer stands behind ten notifications, of which two are in the queue and one is held.
    for id in 0..7 {
        assert_eq!(within(notifications.next()).await.unwrap().id, id);
        let early = futures_now(&mut answer).await;
        assert!(early.is_none(), "after {id}: {early:?}");
    }
    for id in 7..10 {
        assert_eq!(within(notifications.next()).await.unwrap().id, id);
    }
    assert_eq!(within(answer).await.unwrap(), [1]);
}

/// What a future has after everything else had its turn. Seven notifications of ten taken leave no
/// place for the last, so the answer behind it cannot have been read however often others run.
async fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn whoever_wants_no_notifications_does_not_wait_for_them() {
    let (session, notifications, mut peer) = session(Options::new().notifications_max(1)).await;
    let server = async {
        peer.asked().await;
        for id in 0..10 {
            peer.answer(&notify(id)).await;
        }
        peer.answer(&listed(1)).await;
    };
    let mut answer = Box::pin(session.list(None));
    within(async {
        tokio::select! {
            result = &mut answer => panic!("overtook notifications: {result:?}"),
            () = server => {}
        }
    })
    .await;
    drop(notifications);
    assert_eq!(within(answer).await.unwrap(), [1]);
}

#[tokio::test]
async fn notifications_go_on_when_the_session_is_dropped() {
    let (session, mut notifications, mut peer) = session(Options::new()).await;
    drop(session);
    peer.answer(&notify(1)).await;
    assert_eq!(within(notifications.next()).await.unwrap().id, 1);
    drop(notifications);
    peer.closed().await;
}

#[tokio::test]
async fn the_connection_ends_when_nobody_wants_it() {
    let (session, notifications, mut peer) = session(Options::new()).await;
    drop(notifications);
    let server = async {
        peer.asked().await;
        peer.answer(&listed(1)).await;
        peer
    };
    let clone = session.clone();
    drop(session);
    let (answer, peer) = within(async { tokio::join!(clone.list(None), server) }).await;
    assert_eq!(answer.unwrap(), [1]);
    drop(clone);
    peer.closed().await;
}

#[tokio::test]
async fn waiting_for_a_notification_loses_nothing_when_it_is_given_up() {
    let (_session, mut notifications, mut peer) = session(Options::new()).await;
    for id in 0..20 {
        tokio::select! {
            biased;
            told = notifications.next() => panic!("{told:?}"),
            () = tokio::task::yield_now() => {}
        }
        peer.answer(&notify(id)).await;
        assert_eq!(within(notifications.next()).await.unwrap().id, id);
    }
}

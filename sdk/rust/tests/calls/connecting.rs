//! Connections that are refused, and sessions that end.

use handoff_sdk::Error;
use handoff_sdk::calls::{CallError, Link};
use serde_json::json;
use tokio_websockets::CloseCode;

use crate::peer::{backoff, calm, listener, refuse, within};

#[tokio::test]
async fn whoever_cannot_be_reached_at_first_is_an_error() {
    let listener = listener().await;
    let client = listener.client();
    drop(listener);
    let refused = within(client.calls().caller(calm())).await.unwrap_err();
    assert!(matches!(refused, Error::Unreachable { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_refusal_says_the_servers_code() {
    let listener = listener().await;
    let client = listener.client();
    let body = json!({"status": 403, "code": "out_of_scope", "title": "Not allowed"}).to_string();
    // Once for the WebSocket, and once for the words.
    let refusing = async {
        for _ in 0..2 {
            refuse(listener.tcp().await, "403 Forbidden", &body).await;
        }
    };
    let calls = client.calls();
    let (refused, ()) = within(async { tokio::join!(calls.caller(calm()), refusing) }).await;
    assert_eq!(refused.unwrap_err().code(), Some("out_of_scope"));
}

#[tokio::test]
async fn a_server_that_is_busy_is_tried_again_and_one_that_refuses_ends_the_session() {
    let listener = listener().await;
    let (caller, peer) = listener.caller(calm()).await;
    drop(peer);
    for _ in 0..2 {
        refuse(listener.tcp().await, "503 Service Unavailable", "{}").await;
    }
    let mut peer = listener.greeted().await;
    let calling = tokio::spawn(caller.call::<_, u64>("double", &1).into_future());
    peer.asked("request").await;
    drop(peer);
    // Its token was revoked meanwhile.
    let body = json!({"status": 401, "code": "token_unknown", "title": "Who are you"}).to_string();
    for _ in 0..2 {
        refuse(listener.tcp().await, "401 Unauthorized", &body).await;
    }
    let over = within(calling).await.unwrap().unwrap_err();
    assert!(matches!(over, CallError::Closed { cause: Some(_), .. }), "{over:?}");
    assert_eq!(over.code(), Some("token_unknown"));
    assert_eq!(over.outcome(), handoff_sdk::Outcome::Unknown);
    let mut links = caller.links();
    within(async {
        while !matches!(links.now(), Link::Over { why: Some(_) }) {
            drop(links.next().await)
        }
    })
    .await;
    let after = within(caller.call::<_, u64>("double", &1).into_future()).await;
    assert!(matches!(after, Err(CallError::Closed { .. })), "{after:?}");
}

#[tokio::test]
async fn a_server_that_dismisses_a_client_is_not_asked_again() {
    let listener = listener().await;
    let client = listener.client();
    let dismissing = async {
        let mut peer = listener.accept().await;
        peer.asked("init").await;
        peer.dismiss(
            CloseCode::POLICY_VIOLATION,
            "there are as many clients as calls.clients_max allows",
        )
        .await;
    };
    let calls = client.calls();
    let (dismissed, ()) =
        within(async { tokio::join!(calls.caller(calm().backoff(backoff())), dismissing) }).await;
    assert!(dismissed.unwrap_err().to_string().contains("calls.clients_max"));
}

#[tokio::test]
async fn what_a_newer_server_says_besides_is_passed_over() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm()).await;
    for text in [r#"{"z":{"id":1}}"#, "[]", "no JSON", r#"{"c":{"id":"7"}}"#] {
        peer.say_text(text).await;
    }
    let calling = tokio::spawn(caller.call::<_, u64>("double", &1).into_future());
    let asked = peer.asked("request").await;
    peer.say(json!({"c": {"id": asked["id"], "mood": "good"}})).await;
    peer.answer(&asked, json!(2)).await;
    assert_eq!(within(calling).await.unwrap().unwrap(), 2);
}

//! Calls and channels as an administrator sees them: each request as it is asked, and each answer as
//! it is read.

use handoff_sdk::calls::{CallId, CallQuery, Calls, ChannelSettings};
use handoff_sdk::{Client, Error, Options};
use serde_json::{Value, json};

use crate::http::{Asked, listener, ok, within};

const ID: &str = "00000000-0000-4000-8000-000000000001";

/// Calls, answers, and gives both what was understood and what was asked.
async fn call<T>(
    reply: &Value,
    ask: impl AsyncFnOnce(Calls<'_>) -> Result<T, Error>,
) -> (T, Asked) {
    let listener = listener().await;
    let client = Client::new(Options::new(listener.url())).unwrap();
    let answer = ok(&reply.to_string());
    let (result, asked) =
        within(async { tokio::join!(ask(client.calls()), listener.serve(&answer)) }).await;
    (result.unwrap(), asked)
}

fn view() -> Value {
    json!({"version": 1, "id": ID, "channel": "bill", "stage": "over", "outcome": "error",
        "error": {"name": "OutOfStock", "message": "none", "code": "stock"}, "attempt": 3,
        "fence": 4, "created": "2027-01-15T08:00:00Z", "deadline": "2027-01-15T08:01:00Z",
        "durable": true, "dead": true, "mood": "good",
        "history": [{"at": "2027-01-15T08:00:00Z", "what": "registered"}]})
}

fn id() -> CallId {
    ID.parse().unwrap()
}

#[tokio::test]
async fn calls_are_listed_shown_and_cancelled() {
    let page = json!({"version": 1, "calls": [view()], "next": 7});
    let query = CallQuery::new().channel("bill").open().before(9).limit(1);
    let (listed, asked) = call(&page, async |calls| calls.list(&query).await).await;
    assert_eq!(asked.line, "GET /v1/calls?channel=bill&open=true&before=9&limit=1");
    let first = &listed.calls[0];
    assert_eq!((first.id.as_str(), first.attempt, listed.next), (ID, 3, Some(7)));
    assert_eq!(first.error.as_ref().unwrap().code, "stock");
    let (shown, asked) = call(&view(), async |calls| calls.show(id()).await).await;
    assert_eq!(asked.line, format!("GET /v1/calls/{ID}"));
    assert_eq!(shown.history[0].what, "registered");
    let (_, asked) = call(&view(), async |calls| calls.cancel(id()).await).await;
    assert_eq!(asked.line, format!("DELETE /v1/calls/{ID}"));
}

#[tokio::test]
async fn a_list_that_does_not_go_on_is_an_error() {
    let listener = listener().await;
    let client = Client::new(Options::new(listener.url())).unwrap();
    let page = ok(&json!({"version": 1, "calls": [], "next": 9}).to_string());
    let query = CallQuery::new().before(9);
    let calls = client.calls();
    let (listed, _) =
        within(async { tokio::join!(calls.list(&query), listener.serve(&page)) }).await;
    assert!(matches!(listed, Err(Error::Protocol { .. })), "{listed:?}");
}

#[tokio::test]
async fn dead_letters_are_listed_called_again_and_dropped() {
    let dead = json!({"version": 1, "calls": [view()], "total": 5});
    let (listed, asked) = call(&dead, async |calls| calls.dead("bill", None, Some(1)).await).await;
    assert_eq!(asked.line, "GET /v1/calls/channels/bill/dead?limit=1");
    assert_eq!((listed.calls.len(), listed.total), (1, 5));
    let requeued = json!({"version": 1, "id": ID});
    let (again, asked) = call(&requeued, async |calls| calls.requeue(id()).await).await;
    assert_eq!((asked.line, again), (format!("POST /v1/calls/{ID}/requeue"), id()));
    let purged = json!({"version": 1, "purged": 2});
    let (gone, asked) = call(&purged, async |calls| calls.purge("bill", None).await).await;
    assert_eq!((asked.line.as_str(), gone), ("DELETE /v1/calls/channels/bill/dead", 2));
    let (_, asked) = call(&purged, async |calls| calls.purge("bill", Some(id())).await).await;
    assert_eq!(asked.line, format!("DELETE /v1/calls/channels/bill/dead/{ID}"));
}

#[tokio::test]
async fn channels_are_listed_and_described() {
    let channel = json!({"version": 1, "channel": "bill", "described": true, "waiting": 1,
        "inFlight": 2, "dead": 3, "consumers": 4, "settings": {"onLost": "fail", "leaseMs": 500}});
    let channels = json!({"version": 1, "channels": [channel]});
    let (listed, asked) =
        call(&channels, async |calls| calls.channels(Some("a"), Some(5)).await).await;
    assert_eq!(asked.line, "GET /v1/calls/channels?after=a&limit=5");
    assert_eq!((listed[0].in_flight, listed[0].settings.lease_ms), (2, Some(500)));
    let settings = ChannelSettings { on_lost: Some("fail".to_owned()), ..Default::default() };
    let (_, asked) = call(&channel, async |calls| calls.describe("bill", &settings).await).await;
    assert_eq!(asked.line, "PUT /v1/calls/channels/bill");
    assert_eq!(asked.json(), json!({"version": 1, "onLost": "fail"}));
    let (_, asked) = call(&channel, async |calls| calls.undescribe("bill").await).await;
    assert_eq!(asked.line, "DELETE /v1/calls/channels/bill");
}

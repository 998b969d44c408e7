//! Groups: what is asked and what is understood, call by call.

use std::time::Duration;

use handoff_sdk::streams::{GroupSettings, Groups, Ordering, Replay, Seek, Standing, Start};
use handoff_sdk::{Error, Time};
use serde_json::{Value, json};

use crate::pack::refusal;
use crate::peer::{Asked, answer, listener, ok, within};

async fn try_call<T>(
    reply: &str,
    ask: impl AsyncFnOnce(Groups<'_>) -> Result<T, Error>,
) -> (Result<T, Error>, Asked) {
    let listener = listener().await;
    let client = listener.client();
    let groups = client.streams().groups();
    within(async { tokio::join!(ask(groups), listener.serve(reply)) }).await
}

async fn call<T>(
    reply: &Value,
    ask: impl AsyncFnOnce(Groups<'_>) -> Result<T, Error>,
) -> (T, Asked) {
    let (result, asked) = try_call(&ok(&reply.to_string()), ask).await;
    (result.unwrap(), asked)
}

fn settings() -> Value {
    json!({"name": "billing", "topics": ["orders"], "start": "earliest", "ordering": "key",
        "maxAttempts": 5, "deadLetter": "billing.dead", "leaseMs": 30000, "backoffMs": 1000,
        "backoffMaxMs": 300_000, "inFlightMax": 20000})
}

fn with(mut base: Value, more: &Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

#[tokio::test]
async fn a_group_is_made_and_changed_as_it_was_asked_for() {
    let shown = json!({"version": 1, "group": settings()});
    let full = GroupSettings::new()
        .topics(["orders", "bills"])
        .start(Start::Time(Time::new("2027-01-15T08:00:00Z")))
        .ordering(Ordering::Partition)
        .max_attempts(3)
        .dead_letter("morgue")
        .lease(Duration::from_secs(60))
        .backoff(Duration::from_secs(2))
        .backoff_max(Duration::from_secs(90))
        .in_flight_max(7);
    let said = json!({"version": 1, "topics": ["orders", "bills"],
        "start": {"time": "2027-01-15T08:00:00Z"}, "ordering": "partition", "maxAttempts": 3,
        "deadLetter": "morgue", "leaseMs": 60000, "backoffMs": 2000, "backoffMaxMs": 90000,
        "inFlightMax": 7});
    let reply = answer("201 Created", "application/json", &shown.to_string());
    let (made, asked) =
        try_call(&reply, async |groups| groups.create("billing", &full).await).await;
    assert_eq!(asked.line, "POST /v1/streams/groups");
    assert_eq!(asked.json(), with(said.clone(), &json!({"name": "billing"})));
    let made = made.unwrap();
    assert_eq!((made.name.as_str(), made.ordering), ("billing", Some(Ordering::Key)));
    assert_eq!((made.max_attempts, made.lease_ms), (Some(5), Some(30000)));

    let (_, asked) = call(&shown, async |groups| groups.alter("billing", &full).await).await;
    assert_eq!((asked.line.as_str(), asked.json()), ("PATCH /v1/streams/groups/billing", said));
    let empty = GroupSettings::new();
    assert!(empty.is_empty() && !full.is_empty());
    let (_, asked) = call(&shown, async |groups| groups.create("billing", &empty).await).await;
    assert_eq!(asked.json(), json!({"version": 1, "name": "billing"}), "the rest is the server's");
}

#[tokio::test]
async fn a_group_is_shown_with_members_partitions_and_what_blocks_them() {
    let detail = json!({"generation": 7, "lag": 12, "dead": 1, "lostToRetention": 3, "colour": 1,
        "members": [{"member": "m1", "client": "c", "instance": "i",
            "since": "2027-01-15T08:00:00Z", "sessionLeftMs": 900,
            "assignment": [{"topic": "orders", "partition": 0}]}],
        "partitions": [{"topic": "orders", "partition": 0, "committed": 3, "next": 9, "end": 15,
            "lag": 12, "processing": 4, "waiting": 2, "dead": 1, "owner": "m1",
            "blockedBy": "12 messages wait for their retry, next in 8 s"}]});
    // Beside the version, under a name, and with settings under theirs: all are understood.
    let flat = with(with(json!({"version": 1}), &settings()), &detail);
    let named = json!({"version": 1, "group": with(settings(), &detail)});
    let apart = json!({"version": 1, "group":
        with(json!({"name": "billing", "settings": settings()}), &detail)});
    for reply in [flat, named, apart] {
        let (group, asked) = call(&reply, async |groups| groups.show("billing").await).await;
        assert_eq!(asked.line, "GET /v1/streams/groups/billing");
        assert_eq!((group.generation, group.lag, group.lost_to_retention), (7, Some(12), Some(3)));
        assert_eq!(group.topics, ["orders"]);
        assert_eq!(group.members[0].assignment[0].topic, "orders");
        let partition = &group.partitions[0];
        assert_eq!((partition.committed, partition.next, partition.waiting), (3, 9, 2));
        assert!(partition.blocked_by.as_deref().unwrap().contains("next in 8 s"));
        assert_eq!(group.more["colour"], 1);
    }
}

#[tokio::test]
async fn groups_are_listed_page_by_page_and_not_for_ever() {
    let reply = json!({"version": 1, "groups": [settings()], "next": "billing"});
    let (page, asked) = call(&reply, async |groups| groups.list(Some("a b"), Some(1)).await).await;
    assert_eq!(asked.line, "GET /v1/streams/groups?after=a%20b&limit=1");
    assert_eq!((page.groups[0].name.as_str(), page.next.as_deref()), ("billing", Some("billing")));
    let (page, _) =
        try_call(&ok(&reply.to_string()), async |groups| groups.list(Some("billing"), None).await)
            .await;
    assert!(matches!(page, Err(Error::Protocol { .. })), "{page:?}");
}

#[tokio::test]
async fn a_group_is_deleted_and_a_member_taken_out() {
    let reply = json!({"version": 1});
    let (_, asked) = call(&reply, async |groups| groups.delete("a/b").await).await;
    assert_eq!(asked.line, "DELETE /v1/streams/groups/a%2Fb");
    let (_, asked) = call(&reply, async |groups| groups.remove("billing", "m1").await).await;
    assert_eq!(asked.line, "DELETE /v1/streams/groups/billing/members/m1");
    let gone = refusal("404 Not Found", "streams.member_gone");
    let (refused, _) = try_call(&gone, async |groups| groups.remove("billing", "m1").await).await;
    assert_eq!(refused.unwrap_err().code(), Some("streams.member_gone"));
}

#[tokio::test]
async fn a_seek_is_looked_at_before_it_is_done() {
    let step = json!({"topic": "orders", "partition": 0, "from": 9, "to": 4, "again": 5,
        "skipped": 0, "voided": 2});
    let reply = json!({"version": 1, "partitions": [step], "preview": true});
    let seek = Seek::new("orders", Start::Offset(4)).partition(0);
    let (sought, asked) = call(&reply, async |groups| groups.preview("billing", &seek).await).await;
    assert_eq!(asked.line, "POST /v1/streams/groups/billing/seek");
    let said = json!({"version": 1, "topic": "orders", "partition": 0, "to": {"offset": 4}});
    assert_eq!(asked.json(), with(said.clone(), &json!({"preview": true})));
    assert!(sought.preview);
    assert_eq!((sought.partitions[0].again, sought.partitions[0].voided), (5, 2));
    let (_, asked) = call(&reply, async |groups| groups.seek("billing", &seek).await).await;
    assert_eq!(asked.json(), said);
    for (to, written) in [
        (Start::Earliest, json!("earliest")),
        (Start::Latest, json!("latest")),
        (Start::Time(Time::new("t")), json!({"time": "t"})),
    ] {
        let seek = Seek::new("orders", to);
        let (_, asked) = call(&reply, async |groups| groups.seek("billing", &seek).await).await;
        assert_eq!(asked.json(), json!({"version": 1, "topic": "orders", "to": written}));
    }
}

#[tokio::test]
async fn any_message_can_be_asked_for() {
    let reply = json!({"version": 1, "status": "dead", "attempt": 5, "error": "no",
        "letter": {"topic": "billing.dead", "partition": 0, "offset": 3}});
    let (status, asked) =
        call(&reply, async |groups| groups.status("billing", "orders", 2, 17).await).await;
    assert_eq!(
        asked.line,
        "GET /v1/streams/groups/billing/status?topic=orders&partition=2&offset=17"
    );
    assert_eq!((status.status, status.letter.unwrap().offset), (Standing::Dead, 3));
    let reply = json!({"version": 1, "status": "processing", "member": "m1", "leaseLeftMs": 41000});
    let (status, _) =
        call(&reply, async |groups| groups.status("billing", "orders", 2, 17).await).await;
    assert_eq!((status.status, status.lease_left_ms), (Standing::Processing, Some(41000)));
}

#[tokio::test]
async fn dead_letters_are_listed_with_their_origin_and_put_back() {
    let letter = json!({"offset": 3, "partition": 0, "origin": {"topic": "orders", "partition": 2,
        "offset": 17, "timestamp": 1_800_000_000_500_u64}, "attempt": 5, "error": "no",
        "key": {"base64": "/w=="}, "payload": "text", "headers": {"a": "b"}, "replayed": false});
    for next in [json!("3"), json!(3)] {
        let reply = json!({"version": 1, "letters": [letter], "next": next});
        let (page, asked) =
            call(&reply, async |groups| groups.dead("billing", Some("2"), Some(9)).await).await;
        assert_eq!(asked.line, "GET /v1/streams/groups/billing/dead?after=2&limit=9");
        assert_eq!(page.next.as_deref(), Some("3"));
        let found = &page.letters[0];
        assert_eq!(found.key.as_deref(), Some(&[255][..]));
        assert_eq!((found.payload.as_ref(), found.headers.len()), (&b"text"[..], 1));
        let at = found.origin.timestamp.as_ref().unwrap();
        assert_eq!(at.as_str(), "2027-01-15T08:00:00.500Z");
        let shown = serde_json::to_value(found).unwrap();
        assert_eq!((&shown["key"], &shown["payload"]), (&letter["key"], &letter["payload"]));
        let (page, _) = try_call(&ok(&reply.to_string()), async |groups| {
            groups.dead("billing", Some("3"), None).await
        })
        .await;
        assert!(matches!(page, Err(Error::Protocol { .. })), "it does not go on");
    }
    let reply = json!({"version": 1, "replayed": 2, "already": 1, "results": [{}]});
    for (which, said) in [
        (Replay::All, json!({"version": 1, "all": true})),
        (
            Replay::Range { partition: 0, from: 3, to: 5 },
            json!({"version": 1, "partition": 0, "from": 3, "to": 5}),
        ),
    ] {
        let (done, asked) =
            call(&reply, async |groups| groups.replay("billing", which).await).await;
        assert_eq!(asked.line, "POST /v1/streams/groups/billing/dead/replay");
        assert_eq!(asked.json(), said);
        assert_eq!((done.replayed, done.already, done.results.len()), (2, 1, 1));
    }
}

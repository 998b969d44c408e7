//! What is asked and what is understood, call by call.

use std::time::{Duration, SystemTime};

use handoff_sdk::audit::AuditQuery;
use handoff_sdk::events::{ListQuery, NewEvent, Repeat, Selection};
use handoff_sdk::tokens::NewToken;
use handoff_sdk::{Client, Error, Options, Time};
use serde_json::{Value, json};

use crate::peer::{Asked, answer, listener, ok, within};

const EVENT: &str = r#"{"version":1,"id":7,"description":"backup","types":["a","b"],
    "periodSecs":1.5,"repeat":3,"updatedAt":"2027-01-15T08:00:00Z","nextAt":"2027-01-15T08:00:01.5Z",
    "occurrences":4,"skipped":1,"colour":"red"}"#;

/// Calls, answers, and gives both what was understood and what was asked.
async fn call<T>(reply: &str, ask: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> (T, Asked) {
    let listener = listener().await;
    let client = listener.client();
    let (result, asked) = within(async { tokio::join!(ask(&client), listener.serve(reply)) }).await;
    (result.unwrap(), asked)
}

#[tokio::test]
async fn a_request_says_who_asks_and_what_is_understood() {
    let listener = listener().await;
    let options = listener.options().token("secret-token").user_agent("cli/1");
    let client = Client::new(options).unwrap();
    let reply = ok("a 1\n");
    let (answer, asked) = tokio::join!(client.metrics(), listener.serve(&reply));
    assert_eq!(answer.unwrap(), "a 1\n");
    assert_eq!(asked.header("host").unwrap(), &listener.url()["http://".len()..]);
    assert_eq!(asked.header("authorization"), Some("Bearer secret-token"));
    assert_eq!(asked.header("user-agent"), Some("cli/1"));
    assert!(asked.header("accept").unwrap().contains("text/plain"));
    assert_eq!(asked.header("content-type"), None);
}

#[test]
fn a_token_is_not_shown_by_accident() {
    let options = Options::new("http://127.0.0.1:1").token("secret-token");
    assert!(!format!("{options:?}").contains("secret-token"));
    assert!(!format!("{:?}", Client::new(options).unwrap()).contains("secret-token"));
    let created = json!({"id": "abcd", "token": "secret-token", "createdAt": null});
    let created: handoff_sdk::tokens::CreatedToken = serde_json::from_value(created).unwrap();
    assert!(!format!("{created:?}").contains("secret-token"));
}

#[test]
fn what_cannot_stand_in_a_header_is_refused_without_being_told() {
    let error = Client::new(Options::new("http://127.0.0.1:1").token("two\nlines")).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("lines"), "{error}");
}

#[tokio::test]
async fn a_path_of_the_url_stands_before_every_path() {
    let listener = listener().await;
    let client = Client::new(Options::new(format!("{}/handoff/", listener.url()))).unwrap();
    let reply = ok("");
    let (_, asked) = tokio::join!(client.metrics(), listener.serve(&reply));
    assert_eq!(asked.line, "GET /handoff/metrics");
}

#[tokio::test]
async fn every_kind_of_event_is_registered_as_the_api_reads_it() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let cases = [
        (
            NewEvent::every(Duration::from_millis(1500), "a").of_type("x").of_type("y").times(7),
            json!({"version": 1, "description": "a", "types": ["x", "y"], "periodSecs": 1.5, "repeat": 7}),
        ),
        (
            NewEvent::every(Duration::from_secs(60), "a").forever(),
            json!({"version": 1, "description": "a", "periodSecs": 60.0, "repeat": -1}),
        ),
        (
            NewEvent::cron("0 3 * * *", "b").time_zone("Europe/Minsk"),
            json!({"version": 1, "description": "b", "cron": "0 3 * * *", "timeZone": "Europe/Minsk"}),
        ),
        (
            NewEvent::cron("@daily", "b"),
            json!({"version": 1, "description": "b", "cron": "@daily"}),
        ),
        (
            NewEvent::at(at, "c").time_zone("Europe/Minsk"),
            json!({"version": 1, "description": "c", "at": "2027-01-15T08:00:00Z", "timeZone": "Europe/Minsk"}),
        ),
        (
            NewEvent::at(Time::new("2027-01-01T00:00:00+03:00"), "c"),
            json!({"version": 1, "description": "c", "at": "2027-01-01T00:00:00+03:00"}),
        ),
    ];
    let reply = answer(
        "201 Created",
        "application/json",
        r#"{"version":1,"id":2147483647,"registeredAt":"2027-01-15T08:00:00Z","nextAt":null,"new":[]}"#,
    );
    for (event, body) in cases {
        let (registered, asked) =
            call(&reply, async |client| client.events().register(&event).await).await;
        assert_eq!(asked.line, "POST /v1/events");
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert_eq!(asked.json(), body);
        assert_eq!((registered.id, registered.next_at), (2_147_483_647, None));
        assert_eq!(registered.registered_at.to_system_time(), Some(at));
    }
}

#[tokio::test]
async fn an_event_is_understood_whatever_else_is_said() {
    let (event, asked) = call(&ok(EVENT), async |client| client.events().get(7).await).await;
    assert_eq!(asked.line, "GET /v1/events/7");
    assert_eq!((event.id, event.description.as_str(), event.types.len()), (7, "backup", 2));
    assert_eq!((event.period_secs, event.repeat), (1.5, Repeat::Times(3)));
    assert_eq!((event.occurrences, event.skipped), (4, 1));
    assert_eq!(event.next_at.unwrap().as_str(), "2027-01-15T08:00:01.5Z");
}

#[tokio::test]
async fn a_page_is_asked_for_with_types_place_and_size() {
    let query = ListQuery::new().of_type("a b").of_type("c&d").after(41).limit(2);
    let reply = ok(&format!(r#"{{"version":1,"events":[{EVENT}],"next":7}}"#));
    let (page, asked) = call(&reply, async |client| client.events().list(&query).await).await;
    assert_eq!(asked.line, "GET /v1/events?type=a%20b&type=c%26d&after=41&limit=2");
    assert_eq!((page.events.len(), page.next), (1, Some(7)));

    let reply = ok(r#"{"version":1,"events":[]}"#);
    let query = ListQuery::new();
    let (page, asked) = call(&reply, async |client| client.events().list(&query).await).await;
    assert_eq!(asked.line, "GET /v1/events");
    assert_eq!((page.events.len(), page.next), (0, None));
}

fn event(id: u32) -> Value {
    let mut event: Value = serde_json::from_str(EVENT).unwrap();
    event["id"] = id.into();
    event
}

fn page(ids: &[u32], next: Option<u32>) -> String {
    let events: Vec<_> = ids.iter().copied().map(event).collect();
    json!({"version": 1, "events": events, "next": next}).to_string()
}

#[tokio::test]
async fn all_pages_are_one_list() {
    let listener = listener().await;
    let client = listener.client();
    let ids = async {
        let mut ids = Vec::new();
        let mut all = client.events().list_all(ListQuery::new().limit(2));
        while let Some(event) = all.next().await {
            ids.push(event.unwrap().id);
        }
        assert!(all.next().await.is_none());
        ids
    };
    let server = async {
        let mut peer = listener.accept().await;
        for (line, reply) in [
            ("GET /v1/events?limit=2", page(&[1, 4], Some(4))),
            ("GET /v1/events?after=4&limit=2", page(&[], Some(9))),
            ("GET /v1/events?after=9&limit=2", page(&[10, 11], Some(11))),
            ("GET /v1/events?after=11&limit=2", page(&[], None)),
        ] {
            assert_eq!(peer.asked().await.line, line);
            peer.json(&reply).await;
        }
    };
    assert_eq!(within(async { tokio::join!(ids, server) }).await.0, [1, 4, 10, 11]);
}

#[tokio::test]
async fn a_page_that_failed_is_asked_for_again() {
    let listener = listener().await;
    let client = listener.client();
    let mut all = client.events().list_all(ListQuery::new());
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.json(&page(&[1], Some(1))).await;
        assert_eq!(peer.asked().await.line, "GET /v1/events?after=1");
        peer.write(answer("503 Busy", "text/plain", "busy").as_bytes()).await;
        assert_eq!(peer.asked().await.line, "GET /v1/events?after=1");
        peer.json(&page(&[2], None)).await;
    };
    let calls = async {
        assert_eq!(all.next().await.unwrap().unwrap().id, 1);
        assert!(all.next().await.unwrap().is_err());
        assert_eq!(all.next().await.unwrap().unwrap().id, 2);
        assert!(all.next().await.is_none());
    };
    within(async { tokio::join!(calls, server) }).await;
}

#[tokio::test]
async fn a_server_that_never_moves_on_is_not_asked_for_ever() {
    let listener = listener().await;
    let client = listener.client();
    let mut all = client.events().list_all(ListQuery::new());
    let server = async {
        let mut peer = listener.accept().await;
        for _ in 0..2 {
            peer.asked().await;
            peer.json(&page(&[], Some(3))).await;
        }
    };
    let (next, ()) = within(async { tokio::join!(all.next(), server) }).await;
    assert!(matches!(next, Some(Err(Error::Protocol { .. }))), "{next:?}");
    assert!(all.next().await.is_none());
}

#[tokio::test]
async fn events_are_deleted_by_id_and_by_selection() {
    for reply in ["HTTP/1.1 204 No Content\r\n\r\n", &ok(r#"{"version":1,"deleted":[7]}"#)] {
        let ((), asked) = call(reply, async |client| client.events().delete(7).await).await;
        assert_eq!(asked.line, "DELETE /v1/events/7");
    }
    let selection = Selection::new().id(3).id(5).of_type("a/b");
    let reply = ok(r#"{"version":1,"deleted":[3,9]}"#);
    let (deleted, asked) =
        call(&reply, async |client| client.events().delete_where(&selection).await).await;
    assert_eq!(asked.line, "DELETE /v1/events?type=a%2Fb&id=3&id=5");
    assert_eq!(deleted, [3, 9]);
}

#[tokio::test]
async fn an_empty_selection_deletes_nothing_and_asks_nobody() {
    let nobody = Client::new(Options::new("http://127.0.0.1:1")).unwrap();
    assert!(nobody.events().delete_where(&Selection::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_selection_that_no_url_can_hold_is_refused_before_it_is_sent() {
    let nobody = Client::new(Options::new("http://127.0.0.1:1")).unwrap();
    let selection = Selection { ids: (0..20_000).collect(), types: Vec::new() };
    let error = nobody.events().delete_where(&selection).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn statistics_keep_what_is_not_known_here() {
    let reply =
        ok(r#"{"version":1,"events":2,"sessions":1,"held":0,"slowSessions":3,"registered":5,
        "deleted":1,"finished":2,"occurred":40,"skipped":3,"colours":{"red":9}}"#);
    let (stats, asked) = call(&reply, async |client| client.events().stats().await).await;
    assert_eq!(asked.line, "GET /v1/events/stats");
    assert_eq!((stats.events, stats.sessions, stats.slow_sessions), (2, 1, 3));
    assert_eq!((stats.occurred, stats.skipped), (40, 3));
    assert_eq!(stats.more["colours"]["red"], 9);
}

#[tokio::test]
async fn a_server_tells_what_it_is() {
    let reply = ok(r#"{"version":1,"release":"0.1.0","startedAt":"2027-01-15T08:00:00Z",
        "uptimeSecs":12.5,"ready":true,"rooms":[{"name":"events","state":"open"}],
        "listeners":{"http":"127.0.0.1:7070"},"auth":false,"proxyHeadersSeen":true,
        "timeZoneDatabase":"2026a","disk":{"freeBytes":5,"minBytes":7},
        "recovery":{"openingSecs":0.2,"entries":7,"tail":"torn","closedRooms":["events"],
            "damage":[{"from":1,"to":2,"lostRecords":{"events":3}}]},"colour":"red"}"#);
    let (server, asked) = call(&reply, async |client| client.server().await).await;
    assert_eq!(asked.line, "GET /v1/server");
    assert_eq!((server.release.as_str(), server.uptime_secs, server.ready), ("0.1.0", 12.5, true));
    assert_eq!(server.listeners["http"], "127.0.0.1:7070");
    assert_eq!(server.disk.unwrap().min_bytes, 7);
    assert_eq!(server.recovery.unwrap().damage[0].lost_records["events"], 3);
    assert_eq!(server.more["colour"], "red");

    let (server, _) = call(&ok(r#"{"version":1}"#), async |client| client.server().await).await;
    assert_eq!((server.started_at, server.disk), (None, None));
}

#[tokio::test]
async fn logs_and_metrics_are_text() {
    let reply = answer("200 OK", "text/plain; charset=utf-8", "one\ntwo\n");
    let (logs, asked) = call(&reply, async |client| client.logs().await).await;
    assert_eq!((asked.line.as_str(), logs.as_str()), ("GET /v1/server/logs", "one\ntwo\n"));
    let (_, asked) = call(&reply, async |client| client.metrics().await).await;
    assert_eq!(asked.line, "GET /metrics");
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let new = NewToken::new("ci", ["events:backup.*", "admin"])
        .expires_at(Time::new("2027-01-15T08:00:00Z"));
    let reply = answer(
        "201 Created",
        "application/json",
        r#"{"version":1,"id":"abcd1234","token":"hnd_abcd1234_x","name":"ci"}"#,
    );
    let (created, asked) = call(&reply, async |client| client.tokens().create(&new).await).await;
    assert_eq!(asked.line, "POST /v1/tokens");
    assert_eq!(
        asked.json(),
        json!({"version": 1, "name": "ci", "scopes": ["events:backup.*", "admin"],
            "expiresAt": "2027-01-15T08:00:00Z"})
    );
    assert_eq!((created.id.as_str(), created.token.as_str()), ("abcd1234", "hnd_abcd1234_x"));

    let reply = ok(r#"{"version":1,"tokens":[{"id":"abcd1234","name":"ci","scopes":["admin"],
        "createdAt":"2027-01-15T08:00:00Z","expiresAt":null}]}"#);
    let (tokens, asked) = call(&reply, async |client| client.tokens().list().await).await;
    assert_eq!(asked.line, "GET /v1/tokens");
    assert_eq!((tokens[0].id.as_str(), &tokens[0].expires_at), ("abcd1234", &None));

    let gone = "HTTP/1.1 204 No Content\r\n\r\n";
    let ((), asked) = call(gone, async |client| client.tokens().revoke("a/../b").await).await;
    assert_eq!(asked.line, "DELETE /v1/tokens/a%2F..%2Fb");
}

#[tokio::test]
async fn acts_are_read_page_by_page() {
    let reply = ok(r#"{"version":1,"acts":[{"number":4,"at":"2027-01-15T08:00:00Z","who":"local",
        "kind":"token_created","target":"abcd1234"}],"next":4}"#);
    let query = AuditQuery::new().below(5).limit(1);
    let (acts, asked) = call(&reply, async |client| client.audit(&query).await).await;
    assert_eq!(asked.line, "GET /v1/audit?below=5&limit=1");
    assert_eq!((acts.acts[0].number, acts.acts[0].who.as_str()), (4, "local"));
    assert_eq!(acts.next, Some(4));
}

#[tokio::test]
async fn a_server_that_is_not_ready_says_so_and_that_is_no_error() {
    let body = r#"{"version":1,"ready":false,"phase":"ready","obstacle":"events is closed: lost",
        "rooms":[{"name":"events","state":"closed","why":"lost"}]}"#;
    for reply in [ok(r#"{"version":1,"ready":true}"#), answer("503 No", "application/json", body)] {
        let (readiness, asked) = call(&reply, async |client| client.ready().await).await;
        assert_eq!(asked.line, "GET /readyz");
        assert_eq!(readiness.ready, reply.contains("true"));
        let closed = readiness.rooms.first().and_then(|room| room.why.as_deref());
        assert_eq!(closed, if readiness.ready { None } else { Some("lost") });
    }
}

#[tokio::test]
async fn a_proxy_without_a_server_behind_it_is_not_a_server_that_is_not_ready() {
    for body in ["<html>503</html>", "{}", r#"{"ready":true}"#] {
        let listener = listener().await;
        let client = listener.client();
        let reply = answer("503 Service Unavailable", "text/html", body);
        let (result, _) = tokio::join!(client.ready(), listener.serve(&reply));
        let error = result.unwrap_err();
        assert_eq!(error.problem().unwrap().status, 503, "{error:?}");
    }
}

#[tokio::test]
async fn what_the_library_does_not_know_can_be_asked_all_the_same() {
    let (body, asked) = call(&ok("[1]"), async |client| {
        client.post_json::<_, Vec<u32>>("/v1/new?x=y", &json!({"version": 1})).await
    })
    .await;
    assert_eq!((asked.line.as_str(), body), ("POST /v1/new?x=y", vec![1]));
    let (body, asked) =
        call(&ok("2"), async |client| client.delete_json::<u32>("/v1/new").await).await;
    assert_eq!((asked.line.as_str(), body), ("DELETE /v1/new", 2));
    let nobody = Client::new(Options::new("http://127.0.0.1:1")).unwrap();
    let error = nobody.get_json::<Value>("v1/new").await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

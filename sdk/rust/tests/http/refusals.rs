//! Answers that are no success, and answers that are none.

use std::time::Duration;

use handoff_sdk::{Client, Error, Outcome};

use crate::peer::{answer, listener, ok, within};

/// What a client makes of an answer to a request that changes something.
async fn fails(reply: &str) -> Error {
    fails_with(reply, |options| options).await
}

async fn fails_with(
    reply: &str,
    set: impl FnOnce(handoff_sdk::Options) -> handoff_sdk::Options,
) -> Error {
    let listener = listener().await;
    let client = Client::new(set(listener.options())).unwrap();
    let ask = client.delete_json::<serde_json::Value>("/v1/events?type=a");
    let (result, _) = within(async { tokio::join!(ask, listener.serve(reply)) }).await;
    result.unwrap_err()
}

#[tokio::test]
async fn a_refusal_tells_code_remedy_and_when_to_come_again() {
    let body = r#"{"type":"urn:handoff:error:log.room_busy","title":"the room is busy","status":503,
        "detail":"64 MiB wait","code":"log.room_busy","remedy":"send again","requestId":"4bf9","new":1}"#;
    let reply = answer("503 No", "application/problem+json\r\nretry-after: 7", body);
    let error = fails(&reply).await;
    let problem = error.problem().unwrap();
    assert_eq!((problem.status, error.code()), (503, Some("log.room_busy")));
    assert_eq!(problem.title, "the room is busy");
    assert_eq!(problem.detail.as_deref(), Some("64 MiB wait"));
    assert_eq!(error.remedy(), Some("send again"));
    assert_eq!(problem.request_id.as_deref(), Some("4bf9"));
    assert_eq!(problem.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.is_temporary());
    assert_eq!(error.to_string(), "64 MiB wait (log.room_busy)");
}

#[tokio::test]
async fn only_handoff_itself_knows_that_a_failure_changed_nothing() {
    let ours = |outcome| format!(r#"{{"title":"t","code":"c"{outcome}}}"#);
    for (status, body, outcome) in [
        ("404 Not Found", ours(""), Outcome::NotApplied),
        ("500 Mistake", ours(""), Outcome::NotApplied),
        ("503 Stopped", ours(r#","outcome":"unknown""#), Outcome::Unknown),
        ("504 Slow", ours(r#","outcome":"unknown""#), Outcome::Unknown),
        ("503 Stopped", ours(r#","outcome":"perhaps""#), Outcome::Unknown),
        ("400 Bad", String::new(), Outcome::NotApplied),
        ("502 Bad Gateway", String::new(), Outcome::Unknown),
        ("503 Unavailable", "{}".to_owned(), Outcome::Unknown),
    ] {
        let error = fails(&answer(status, "application/json", &body)).await;
        assert_eq!(error.outcome(), outcome, "{status} {body}");
    }
}

#[tokio::test]
async fn an_error_that_is_not_json_is_shown_in_one_line() {
    let page = format!("<html>\r\n<h1>Bad\tgateway</h1>\x07{}</html>", "long ".repeat(100));
    let error = fails(&answer("502 Bad Gateway", "text/html", &page)).await;
    let problem = error.problem().unwrap();
    assert_eq!((problem.status, error.code()), (502, None));
    assert_eq!(problem.title, "Bad Gateway");
    let shown = error.to_string();
    assert!(shown.starts_with("<html> <h1>Bad gateway</h1>long"), "{shown}");
    assert!(shown.ends_with("… (status 502)") && shown.chars().count() < 250, "{shown}");

    let error = fails("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(error.to_string(), "Internal Server Error (status 500)");
    let error = fails(&answer("418 Teapot", "application/json", r#"{"error":"tea"}"#)).await;
    assert_eq!(error.to_string(), r#"{"error":"tea"} (status 418)"#);
    let error = fails(&answer("400 Bad", "text/plain", "\u{fffd}\u{0}")).await;
    assert!(error.to_string().ends_with("(status 400)"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let reply = "HTTP/1.1 302 Found\r\nlocation: https://elsewhere/\r\ncontent-length: 0\r\n\r\n";
    let error = fails(reply).await;
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    assert!(error.to_string().contains("https://elsewhere/"), "{error}");
}

#[tokio::test]
async fn a_success_that_cannot_be_read_is_not_a_success() {
    for (reply, why) in [
        (ok("{"), "not what was expected"),
        (ok("<html>"), "not what was expected"),
        (answer("200 OK", "application/json", r#"{"version":2,"a":}"#), "not what was expected"),
    ] {
        let error = fails(&reply).await;
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
}

#[tokio::test]
async fn an_answer_of_another_version_is_told_as_that() {
    let listener = listener().await;
    let client = listener.client();
    let events = client.events();
    let reply = ok(r#"{"version":2,"event":{"id":7}}"#);
    let (result, _) = tokio::join!(events.get(7), listener.serve(&reply));
    let error = result.unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[tokio::test]
async fn an_answer_without_end_is_not_kept() {
    let long = "x".repeat(1000);
    let error = fails_with(&ok(&long), |options| options.answer_bytes_max(999)).await;
    assert!(error.to_string().contains("longer than 999"), "{error}");
    let chunked =
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3E8\r\n{long}\r\n0\r\n\r\n");
    let error = fails_with(&chunked, |options| options.answer_bytes_max(999)).await;
    assert!(error.to_string().contains("longer than 999"), "{error}");
}

#[tokio::test]
async fn what_does_not_speak_http_is_told_as_that() {
    for reply in ["SSH-2.0-OpenSSH_9.6\r\n", "\x15\x03\x01\x00\x02\x02\x16", "HTTP/1.1 abc\r\n\r\n"]
    {
        let error = fails(reply).await;
        assert!(matches!(error, Error::Protocol { .. }), "{reply:?}: {error:?}");
        assert!(error.remedy().unwrap().contains("http or https"));
    }
}

#[tokio::test]
async fn an_answer_cut_at_any_byte_is_never_an_answer() {
    let bodies = [
        ok(r#"{"version":1,"deleted":[1,2,3]}"#),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[1\r\n3\r\n,2]\r\n0\r\n\r\n"
            .to_owned(),
    ];
    for whole in bodies {
        for end in 0..whole.len() {
            let error = fails(&whole[..end]).await;
            assert!(matches!(error, Error::Lost { .. }), "{:?}: {error:?}", &whole[..end]);
            assert_eq!(error.outcome(), Outcome::Unknown);
        }
    }
}

#[tokio::test]
async fn an_answer_may_come_in_pieces_of_any_size() {
    let whole = ok(r#"{"version":1,"deleted":[1]}"#);
    for cut in 1..whole.len() {
        let listener = listener().await;
        let client = listener.client();
        let server = async {
            let mut peer = listener.accept().await;
            peer.asked().await;
            peer.write(&whole.as_bytes()[..cut]).await;
            tokio::task::yield_now().await;
            peer.write(&whole.as_bytes()[cut..]).await;
        };
        let ask = client.delete_json::<serde_json::Value>("/v1/events?id=1");
        let (result, ()) = within(async { tokio::join!(ask, server) }).await;
        assert_eq!(result.unwrap()["deleted"][0], 1);
    }
}

//! The six calls of an ERP, and what it is answered.

use std::time::Duration;

use handoff_sdk::Outcome as Known;
use handoff_sdk::exchange::{Answered, Begun, NewReply, Outcome, Verdict, Wish};
use serde_json::{Value, json};

use crate::peer::answer;
use crate::{call, time, try_call};

const OK: &str = r#"{"version":1,"status":"OK","deadline":"2027-01-15T08:10:00Z"}"#;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_begin_gives_messages_or_says_why_not() {
    let message = json!({"version": 1, "id": "a", "from": "phone-1", "to": "books",
        "appSystem": "sales", "createdAt": "2027-01-15T08:00:00Z", "payload": 7, "attempt": 2});
    let reply = json!({"version": 1, "status": "OK", "processId": "1-a",
        "deadline": "2027-01-15T08:10:00Z", "messages": [message]});
    let wish = Wish::new()
        .request_key("k")
        .subsystem("sales")
        .producer("phone-1")
        .max_files(5)
        .max_mb(0.5)
        .lease(Duration::from_secs(60))
        .outcome(Outcome::committed("0-a"))
        .outcome(Outcome::rolled_back("0-b"));
    let (begun, asked) = call(&reply, async |room| room.as_erp("books").begin(&wish).await).await;
    assert_eq!(asked.line, "POST /v1/exchange/databases/books/processes");
    let expected = json!({"version": 1, "requestKey": "k", "appSystems": ["sales"],
        "producers": ["phone-1"], "maxFiles": 5, "maxMb": 0.5, "leaseSec": 60, "outcomes": [
            {"processId": "0-a", "outcome": "COMMITTED"},
            {"processId": "0-b", "outcome": "ROLLED_BACK"}]});
    assert_eq!(asked.json(), expected);
    let Begun::Started(process) = begun else { panic!("{begun:?}") };
    assert_eq!((process.process_id.as_str(), process.messages[0].attempt), ("1-a", Some(2)));

    let begin = async |reply: Value| {
        let (begun, asked) =
            call(&reply, async |room| room.as_erp("books").begin(&Wish::new()).await).await;
        assert_eq!(asked.json(), json!({"version": 1}));
        begun
    };
    assert_eq!(begin(json!({"version": 1, "status": "IDLE"})).await, Begun::Idle);
    let busy = begin(json!({"version": 1, "status": "BUSY", "retryAfterMs": 1500})).await;
    assert_eq!(busy, Begun::Busy { retry_after: Duration::from_millis(1500) });
}

#[tokio::test]
async fn a_process_is_narrowed_prepared_and_committed() {
    let (kept, asked) =
        call(&parsed(OK), async |room| room.as_erp("books").keep("1-a", &["a"]).await).await;
    assert!(matches!(kept, Answered::Ok { deadline: Some(_) }), "{kept:?}");
    assert_eq!(asked.line, "PUT /v1/exchange/databases/books/processes/1-a/files");
    assert_eq!(asked.json(), json!({"version": 1, "files": ["a"]}));

    let verdicts = [
        Verdict::processed("a"),
        Verdict::deadlock("b").code(-913),
        Verdict::incorrect("c", "no such customer"),
    ];
    let replies = [NewReply::new("r1", "phone-1", time(), json!(1)).kind("bill").reply_to("a")];
    let (prepared, asked) = call(&parsed(OK), async |room| {
        room.as_erp("books").prepare("1-a", &verdicts, &replies).await
    })
    .await;
    assert!(prepared.is_ok());
    assert_eq!(asked.line, "PUT /v1/exchange/databases/books/processes/1-a/prepare");
    let expected = json!({"version": 1, "verdicts": [
        {"messageId": "a", "status": "PROCESSED"},
        {"messageId": "b", "status": "PROCESSED_DEADLOCK", "code": -913},
        {"messageId": "c", "status": "PROCESSED_INCORRECT", "error": "no such customer"}],
        "messages": [{"id": "r1", "to": "phone-1", "createdAt": "2027-01-15T08:00:00Z",
            "type": "bill", "replyTo": "a", "payload": 1}]});
    assert_eq!(asked.json(), expected);

    let reply = json!({"version": 1, "status": "OK"});
    let (done, asked) = call(&reply, async |room| room.as_erp("books").commit("1-a").await).await;
    assert_eq!(done, Answered::Ok { deadline: None });
    assert_eq!(asked.line, "POST /v1/exchange/databases/books/processes/1-a/commit");
    assert_eq!(asked.json(), json!({"version": 1}));
}

#[tokio::test]
async fn a_process_is_given_up_with_words() {
    let reply = json!({"version": 1, "status": "CANCELLED", "reason": "too late"});
    let (gone, asked) =
        call(&reply, async |room| room.as_erp("books").rollback("1-a", "disk").await).await;
    assert_eq!(gone, Answered::Cancelled { reason: "too late".to_owned() });
    assert_eq!(asked.json(), json!({"version": 1, "error": "disk"}));
    let (gone, asked) =
        call(&parsed(OK), async |room| room.as_erp("books").interrupt("1-a", "lunch").await).await;
    assert!(gone.is_ok() && asked.line.ends_with("/1-a/interrupt"));
    assert_eq!(asked.json(), json!({"version": 1, "reason": "lunch"}));
    let (_, asked) =
        call(&parsed(OK), async |room| room.as_erp("books").heartbeat("1-a").await).await;
    assert!(asked.line.ends_with("/1-a/heartbeat"), "{}", asked.line);
}

#[tokio::test]
async fn a_refusal_that_says_cancelled_is_understood_all_the_same() {
    let body = json!({"type": "urn:handoff:error:exchange.not_prepared", "title": "not prepared",
        "status": "CANCELLED", "detail": "process 1-a was not prepared",
        "code": "exchange.not_prepared", "remedy": "prepare first"});
    let reply = answer("409 Conflict", "application/problem+json", &body.to_string());
    let (refused, _) =
        try_call(&reply, async |room| room.as_erp("books").commit("1-a").await).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), Some("exchange.not_prepared"));
    let problem = error.problem().unwrap();
    assert_eq!((problem.status, error.outcome()), (409, Known::NotApplied));
    assert_eq!(error.remedy(), Some("prepare first"));
}

#[tokio::test]
async fn what_is_in_doubt_is_found_and_resolved() {
    let process = json!({"processId": "1-a", "number": 1, "dbId": "books", "state": "UNKNOWN",
        "startedAt": "2027-01-15T08:00:00Z", "settled": true,
        "filesToErp": [{"messageId": "a", "seq": 1, "verdict": "PROCESSED"}],
        "filesFromErp": [{"seq": 2, "notice": true}]});
    let reply = json!({"version": 1, "processes": [process]});
    let (open, asked) = call(&reply, async |room| room.as_erp("books").in_doubt().await).await;
    assert_eq!(asked.line, "GET /v1/exchange/databases/books/indoubt");
    assert_eq!(open[0].state, "UNKNOWN");
    assert!(open[0].files_from_erp[0].notice && open[0].files_to_erp[0].seq == 1);

    let shown = json!({"version": 1, "process": process});
    let (shown, asked) = call(&shown, async |room| room.as_erp("books").process("1-a").await).await;
    assert_eq!(asked.line, "GET /v1/exchange/databases/books/processes/1-a");
    assert_eq!(shown, open[0]);

    let reply = json!({"version": 1, "results": [{"processId": "1-a", "status": "CANCELLED",
        "code": "exchange.contradiction", "reason": "it rolled back"}]});
    let outcomes = [Outcome::committed("1-a")];
    let (results, asked) =
        call(&reply, async |room| room.as_erp("books").resolve(&outcomes).await).await;
    assert_eq!(asked.line, "POST /v1/exchange/databases/books/resolve");
    assert!(!results[0].is_ok() && results[0].reason.as_deref() == Some("it rolled back"));
}

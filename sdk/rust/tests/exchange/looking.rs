//! What an administrator makes and looks at.

use handoff_sdk::exchange::MessageQuery;
use serde_json::json;

use crate::peer::answer;
use crate::{call, try_call};

#[tokio::test]
async fn entities_are_put_under_their_ids() {
    let company = json!({"version": 1, "company": {"id": "acme", "name": "Acme",
        "createdAt": "2027-01-15T08:00:00Z"}});
    let (made, asked) =
        call(&company, async |room| room.put_company("acme", Some("Acme")).await).await;
    assert_eq!((made.id.as_str(), made.name.as_str()), ("acme", "Acme"));
    assert_eq!(asked.line, "PUT /v1/exchange/companies/acme");
    assert_eq!(asked.json(), json!({"version": 1, "name": "Acme"}));
    let (_, asked) = call(&company, async |room| room.put_subsystem("sales", None).await).await;
    assert_eq!(asked.line, "PUT /v1/exchange/subsystems/sales");
    assert_eq!(asked.json(), json!({"version": 1}));

    let database = json!({"version": 1, "database": {"id": "books", "company": "acme", "name": "",
        "hasToken": false, "waiting": {"toErp": 3, "toDevices": 1},
        "places": {"prepared": 0, "log": 9, "unknown": 0, "error": 2}, "bytes": 100}});
    let (made, asked) =
        call(&database, async |room| room.put_database("books", "acme", None).await).await;
    assert_eq!(asked.line, "PUT /v1/exchange/databases/books");
    assert_eq!(asked.json(), json!({"version": 1, "company": "acme"}));
    assert_eq!((made.waiting.unwrap().to_erp, made.places.unwrap().error), (3, 2));

    let device = json!({"version": 1, "device": {"company": "acme", "id": "phone-1", "name": "Vera",
        "appSystem": "sales", "active": false, "blocked": false}});
    let (_, asked) =
        call(&device, async |room| room.put_device("acme", "phone-1", "sales", Some("Vera")).await)
            .await;
    assert_eq!(asked.line, "PUT /v1/exchange/devices/acme/phone-1");
    assert_eq!(asked.json(), json!({"version": 1, "appSystem": "sales", "name": "Vera"}));
    let (_, asked) = call(&device, async |room| room.block_device("acme", "phone-1").await).await;
    assert_eq!(asked.line, "POST /v1/exchange/devices/acme/phone-1/block");

    let route = json!({"version": 1, "route": {"company": "acme", "appSystem": "sales", "database": "books"}});
    let (_, asked) =
        call(&route, async |room| room.put_route("acme", "sales", "books").await).await;
    assert_eq!(asked.line, "PUT /v1/exchange/routes/acme/sales");
    assert_eq!(asked.json(), json!({"version": 1, "database": "books"}));
    let gone = json!({"version": 1, "deleted": "route acme sales"});
    let (_, asked) = call(&gone, async |room| room.remove_route("acme", "sales").await).await;
    assert_eq!(asked.line, "DELETE /v1/exchange/routes/acme/sales");
}

#[tokio::test]
async fn lists_come_page_by_page_and_go_on() {
    let page = json!({"version": 1, "devices": [{"company": "acme", "id": "phone-1",
        "appSystem": "sales"}], "next": "acme/phone-1"});
    let (page, asked) =
        call(&page, async |room| room.devices(Some("acme"), None, Some(1)).await).await;
    assert_eq!(asked.line, "GET /v1/exchange/devices?company=acme&limit=1");
    assert_eq!(page.next.as_deref(), Some("acme/phone-1"));
    assert_eq!(page.items.len(), 1);

    let empty = json!({"version": 1, "entries": [], "next": 7});
    let what = ["deadlock".to_owned(), "poison".to_owned()];
    let (log, asked) =
        call(&empty, async |room| room.log("books", &what, Some("9"), None).await).await;
    let line = "GET /v1/exchange/databases/books/log?what=deadlock&what=poison&below=9";
    assert_eq!((asked.line.as_str(), log.next.as_deref()), (line, Some("7")));

    let again = json!({"version": 1, "companies": [], "next": "a"}).to_string();
    let again = answer("200 OK", "application/json", &again);
    let (page, _) = try_call(&again, async |room| room.companies(Some("a"), None).await).await;
    assert!(page.unwrap_err().to_string().contains("does not go on"));
}

#[tokio::test]
async fn messages_are_listed_shown_and_put_back() {
    let entry = json!({"seq": 42, "id": "a", "direction": "toErp", "device": "phone-1",
        "appSystem": "sales", "type": "order", "createdAt": "2027-01-15T08:00:00Z",
        "receivedAt": "2027-01-15T08:00:00Z", "bytes": 9, "attempts": 1, "place": "error",
        "since": "2027-01-15T08:00:00Z", "standing": "aside", "reason": "no such customer"});
    let page = json!({"version": 1, "messages": [entry], "next": 42});
    let query = MessageQuery::new().place("error").device("phone-1").after("7").limit(10);
    let (page, asked) = call(&page, async |room| room.messages("books", &query).await).await;
    let line = "/v1/exchange/databases/books/messages?place=error&device=phone-1&after=7&limit=10";
    assert_eq!(asked.line, format!("GET {line}"));
    assert_eq!((page.items[0].seq, page.next.as_deref()), (42, Some("42")));

    let shown = json!({"version": 1, "message": entry});
    let (shown, asked) = call(&shown, async |room| room.message("books", 42).await).await;
    assert_eq!(asked.line, "GET /v1/exchange/databases/books/messages/42");
    assert_eq!(shown, page.items[0]);
    let body = json!({"payload": 7});
    let (text, asked) = call(&body, async |room| room.message_body("books", 42).await).await;
    assert_eq!(asked.line, "GET /v1/exchange/databases/books/messages/42/body");
    assert_eq!(text, body.to_string());

    let done = json!({"version": 1, "requeued": 2});
    let (many, asked) = call(&done, async |room| room.requeue("books", &[42, 43]).await).await;
    assert_eq!((many, asked.line.as_str()), (2, "POST /v1/exchange/databases/books/requeue"));
    assert_eq!(asked.json(), json!({"version": 1, "messages": [42, 43]}));
    let begun = answer("202 Accepted", "application/json", r#"{"version":1,"status":"OK"}"#);
    let (done, asked) = try_call(&begun, async |room| room.rescan("books").await).await;
    assert!(done.is_ok() && asked.line.ends_with("/books/rescan"));
}

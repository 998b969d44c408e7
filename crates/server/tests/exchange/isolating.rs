//! Companies that do not see each other.

use serde_json::{Value, json};

use crate::world::{World, message};

struct Two {
    world: World,
    /// Of an administrator of `acme`.
    acme: String,
    /// A process and a message of `globex`.
    process: String,
    seq: u64,
}

async fn two() -> Two {
    let world = World::locked().await;
    world.furnish("globex", "erp2").await;
    let theirs = world.phone_of("globex", "phone-9").await;
    let seq = world.send(&theirs, "m-9", json!("a secret")).await;
    let path = "/v1/exchange/databases/erp2/processes";
    let begun = world.ask(world.admin.as_deref(), "POST", path, &json!({"version": 1})).await;
    let process = begun.json()["processId"].as_str().unwrap().to_owned();
    let acme = world.token(&["exchange:acme"]).await;
    Two { world, acme, process, seq }
}

/// Everything that names something of `globex`, and the same about something that is not there.
fn questions(two: &Two) -> Vec<(&'static str, String, String, Value)> {
    let (process, seq) = (&two.process, two.seq);
    let v = json!({"version": 1});
    let verdicts = json!({"version": 1, "verdicts": [{"messageId": "m-9", "status": "PROCESSED"}]});
    let resolve =
        json!({"version": 1, "outcomes": [{"processId": process, "outcome": "COMMITTED"}]});
    let mut all: Vec<(&'static str, String, String, Value)> = Vec::new();
    for (method, path, body) in
        [("GET", "", Value::Null), ("PUT", "", v.clone()), ("DELETE", "", Value::Null)]
    {
        all.push((
            method,
            format!("companies/globex{path}"),
            format!("companies/nowhere{path}"),
            body,
        ));
    }
    for (method, path, body) in [
        ("GET", String::new(), Value::Null),
        ("DELETE", String::new(), Value::Null),
        ("POST", "/token".to_owned(), Value::Null),
        ("GET", "/messages".to_owned(), Value::Null),
        ("GET", format!("/messages/{seq}"), Value::Null),
        ("GET", format!("/messages/{seq}/body"), Value::Null),
        ("POST", "/requeue".to_owned(), json!({"version": 1, "messages": [seq]})),
        ("POST", "/rescan".to_owned(), Value::Null),
        ("GET", "/processes".to_owned(), Value::Null),
        ("GET", "/log".to_owned(), Value::Null),
        ("GET", "/foreign".to_owned(), Value::Null),
        ("GET", "/indoubt".to_owned(), Value::Null),
        ("POST", "/resolve".to_owned(), resolve),
        ("POST", "/processes".to_owned(), v.clone()),
        ("GET", format!("/processes/{process}"), Value::Null),
        ("PUT", format!("/processes/{process}/files"), json!({"version": 1, "files": []})),
        ("PUT", format!("/processes/{process}/prepare"), verdicts),
        ("POST", format!("/processes/{process}/commit"), v.clone()),
        ("POST", format!("/processes/{process}/rollback"), v.clone()),
        ("POST", format!("/processes/{process}/interrupt"), v.clone()),
        ("POST", format!("/processes/{process}/heartbeat"), v.clone()),
    ] {
        all.push((
            method,
            format!("databases/erp2{path}"),
            format!("databases/nowhere{path}"),
            body,
        ));
    }
    let device = json!({"version": 1, "appSystem": "stock"});
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("PUT", "", device),
        ("DELETE", "", Value::Null),
        ("POST", "/code", Value::Null),
        ("POST", "/block", Value::Null),
        ("POST", "/unblock", Value::Null),
        ("GET", "/log", Value::Null),
    ] {
        let (theirs, nobody) = ("devices/globex/phone-9", "devices/nowhere/phone-9");
        all.push((method, format!("{theirs}{path}"), format!("{nobody}{path}"), body));
    }
    for (method, body) in [
        ("GET", Value::Null),
        ("PUT", json!({"version": 1, "database": "erp2"})),
        ("DELETE", Value::Null),
    ] {
        let (theirs, nobody) = ("routes/globex/stock", "routes/nowhere/stock");
        all.push((method, theirs.to_owned(), nobody.to_owned(), body));
    }
    for list in ["databases", "devices", "routes"] {
        let (theirs, nobody) = ("?company=globex", "?company=nowhere");
        all.push(("GET", format!("{list}{theirs}"), format!("{list}{nobody}"), Value::Null));
    }
    all
}

fn words(answer: &crate::http_client::Answer) -> String {
    let detail = answer.detail();
    detail.replace("globex", "_").replace("erp2", "_").replace("nowhere", "_")
}

#[tokio::test]
async fn what_belongs_to_another_company_is_as_if_it_were_not_there() {
    let two = two().await;
    let before = two.world.everything().await;
    let erp = two.world.erp_token("erp1").await;
    for (method, theirs, nobody, body) in questions(&two) {
        let path = |path: &str| format!("/v1/exchange/{path}");
        let of_theirs = two.world.ask(Some(&two.acme), method, &path(&theirs), &body).await;
        let of_nobody = two.world.ask(Some(&two.acme), method, &path(&nobody), &body).await;
        assert_eq!(of_theirs.status, 404, "{method} {theirs}: {}", of_theirs.text());
        assert_eq!(of_theirs.json()["code"], "exchange.not_found", "{method} {theirs}");
        assert_eq!(of_nobody.status, 404, "{method} {nobody}");
        assert_eq!(words(&of_theirs), words(&of_nobody), "{method} {theirs}");
        // The ERP of another database sees no more.
        let of_erp = two.world.ask(Some(&erp), method, &path(&theirs), &body).await;
        assert!(matches!(of_erp.status, 401 | 404), "{method} {theirs}: {}", of_erp.text());
    }
    // The token of erp1 was made in between.
    let mut after = two.world.everything().await;
    let mut expected = before;
    for all in [&mut expected, &mut after] {
        all[2]["databases"][0]["hasToken"] = Value::Null;
    }
    assert_eq!(after, expected);
}

#[tokio::test]
async fn lists_and_other_companies_things_do_not_meet() {
    let two = two().await;
    let world = &two.world;
    for (list, count) in [("companies", 1), ("databases", 1), ("devices", 0), ("routes", 1)] {
        let path = format!("/v1/exchange/{list}");
        let answer = world.ask(Some(&two.acme), "GET", &path, &Value::Null).await;
        assert_eq!(answer.json()[list].as_array().unwrap().len(), count, "{list}");
        assert!(!answer.text().contains("globex") && !answer.text().contains("erp2"));
    }
    let stats = world.ask(Some(&two.acme), "GET", "/v1/exchange/stats", &Value::Null).await;
    assert_eq!((stats.status, stats.code().as_str()), (403, "auth.out_of_scope"));
    let body = json!({"version": 1});
    let made = world.ask(Some(&two.acme), "PUT", "/v1/exchange/subsystems/new", &body).await;
    assert_eq!((made.status, made.code().as_str()), (403, "auth.out_of_scope"));
    // A route of one's own to a database of theirs.
    let body = json!({"version": 1, "database": "erp2"});
    let route = world.ask(Some(&two.acme), "PUT", "/v1/exchange/routes/acme/stock", &body).await;
    assert_eq!((route.status, route.detail().as_str()), (404, "there is no database erp2"));
    // A message to a device of theirs.
    let ours = world.phone("phone-1").await;
    world.send(&ours, "m-1", json!(1)).await;
    let (process, served) = world.started().await;
    let reply = crate::world::reply("r-1", "phone-9", json!(1));
    let refused = world.prepare(&process, &served, json!([reply])).await;
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("exchange.unfit")));
    // A process of theirs under a database of ours.
    let theirs = world.commit(&two.process).await;
    assert_eq!((theirs.status, &theirs.json()["code"]), (404, &json!("exchange.not_found")));
    let seen =
        world.admin("GET", &format!("databases/erp1/messages/{}", two.seq), Value::Null).await;
    assert_eq!(seen.status, 404);
}

#[tokio::test]
async fn tokens_open_their_own_doors_only() {
    let two = two().await;
    let world = &two.world;
    let phone = world.phone("phone-1").await;
    let erp = world.erp_token("erp1").await;
    let streams = world.token(&["streams"]).await;
    for (token, path, expected) in [
        (None, "companies", (401, "auth.token_missing")),
        (None, "databases/erp1/indoubt", (401, "auth.token_missing")),
        (Some(&*phone.token), "companies", (401, "auth.token_unknown")),
        (Some(&*phone.token), "databases/erp1/indoubt", (401, "auth.token_unknown")),
        (Some(&*erp), "companies", (401, "auth.token_unknown")),
        (Some(&*erp), "databases/erp1", (401, "auth.token_unknown")),
        (Some(&*erp), "messages", (401, "auth.token_unknown")),
        (Some(&*streams), "companies", (403, "auth.out_of_scope")),
        (Some(&*streams), "databases/erp1/indoubt", (403, "auth.out_of_scope")),
        (Some(&*two.acme), "messages", (401, "auth.token_unknown")),
        (Some("hxd_nonsense"), "messages", (401, "auth.token_unknown")),
    ] {
        let answer = world.ask(token, "GET", &format!("/v1/exchange/{path}"), &Value::Null).await;
        assert_eq!((answer.status, answer.code().as_str()), expected, "{path}");
    }
    assert_eq!(world.post(&phone, &message("m-1", json!(1))).await.status, 201);
    let path = "/v1/exchange/databases/erp1/processes";
    let begun = world.ask(Some(&erp), "POST", path, &json!({"version": 1})).await;
    assert_eq!(begun.status, 201, "{}", begun.text());
    let begun = world.ask(Some(&two.acme), "POST", path, &json!({"version": 1})).await;
    assert_eq!(begun.json()["status"], "BUSY", "whoever sees the company may speak for its ERP");
}

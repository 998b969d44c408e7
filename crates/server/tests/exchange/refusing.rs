//! Names that could leave their folder, and other things that are refused.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{World, message};

/// As text, and as it is written in a path or a query.
const EVIL: &[(&str, &str)] = &[
    ("..", "%2e%2e"),
    ("../../etc/passwd", "..%2f..%2fetc%2fpasswd"),
    ("a/b", "a%2fb"),
    ("a\\b", "a%5cb"),
    ("a\u{0}b", "a%00b"),
    ("a b", "a%20b"),
    ("a_b", "a_b"),
    ("ä", "%c3%a4"),
    ("con.", "con."),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
];

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.insert(path);
    }
    found
}

#[tokio::test]
async fn no_name_leaves_its_folder() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    let (process, _) = world.started().await;
    let root = world.folder("..");
    let before = world.everything().await;
    let outside = |root: &Path| -> BTreeSet<PathBuf> {
        files(root.parent().unwrap().parent().unwrap())
            .into_iter()
            .filter(|path| !path.to_string_lossy().contains("/data/"))
            .collect()
    };
    let there = outside(&root);
    for (text, coded) in EVIL {
        let v = json!({"version": 1});
        let asked: Vec<(&str, String, Value)> = vec![
            ("PUT", format!("companies/{coded}"), v.clone()),
            ("GET", format!("companies/{coded}"), Value::Null),
            ("DELETE", format!("companies/{coded}"), Value::Null),
            ("PUT", format!("subsystems/{coded}"), v.clone()),
            ("GET", format!("subsystems/{coded}"), Value::Null),
            ("DELETE", format!("subsystems/{coded}"), Value::Null),
            ("PUT", format!("databases/{coded}"), json!({"version": 1, "company": "acme"})),
            ("PUT", "databases/new".to_owned(), json!({"version": 1, "company": text})),
            ("GET", format!("databases/{coded}"), Value::Null),
            ("DELETE", format!("databases/{coded}"), Value::Null),
            ("POST", format!("databases/{coded}/token"), Value::Null),
            ("GET", format!("databases/{coded}/messages"), Value::Null),
            ("GET", format!("databases/erp1/messages?device={coded}"), Value::Null),
            ("GET", format!("databases/erp1/messages?place={coded}"), Value::Null),
            ("GET", format!("databases/erp1/messages/{coded}"), Value::Null),
            ("GET", format!("databases/erp1/messages/{coded}/body"), Value::Null),
            ("GET", format!("databases/erp1/log?what={coded}"), Value::Null),
            ("GET", format!("databases/{coded}/foreign"), Value::Null),
            ("POST", format!("databases/{coded}/rescan"), Value::Null),
            ("POST", format!("databases/{coded}/requeue"), json!({"version": 1, "messages": [1]})),
            ("GET", format!("databases?company={coded}"), Value::Null),
            ("PUT", format!("devices/acme/{coded}"), json!({"version": 1, "appSystem": "stock"})),
            (
                "PUT",
                format!("devices/{coded}/phone-9"),
                json!({"version": 1, "appSystem": "stock"}),
            ),
            ("PUT", "devices/acme/phone-9".to_owned(), json!({"version": 1, "appSystem": text})),
            ("GET", format!("devices/acme/{coded}"), Value::Null),
            ("POST", format!("devices/acme/{coded}/code"), Value::Null),
            ("POST", format!("devices/acme/{coded}/block"), Value::Null),
            ("GET", format!("devices?company={coded}"), Value::Null),
            ("PUT", format!("routes/acme/{coded}"), json!({"version": 1, "database": "erp1"})),
            ("PUT", format!("routes/{coded}/stock"), json!({"version": 1, "database": "erp1"})),
            ("PUT", "routes/acme/stock".to_owned(), json!({"version": 1, "database": text})),
            ("DELETE", format!("routes/acme/{coded}"), Value::Null),
            ("POST", format!("databases/{coded}/processes"), v.clone()),
            (
                "POST",
                "databases/erp1/processes".to_owned(),
                json!({"version": 1, "producers": [text]}),
            ),
            (
                "POST",
                "databases/erp1/processes".to_owned(),
                json!({"version": 1, "appSystems": [text]}),
            ),
            ("GET", format!("databases/erp1/processes/{coded}"), Value::Null),
            ("POST", format!("databases/erp1/processes/{coded}/commit"), v.clone()),
            ("POST", format!("databases/erp1/processes/{coded}/rollback"), v.clone()),
            (
                "PUT",
                format!("databases/erp1/processes/{process}/files"),
                json!({"version": 1, "files": [text]}),
            ),
            (
                "PUT",
                format!("databases/erp1/processes/{process}/prepare"),
                json!({"version": 1, "verdicts": [{"messageId": text, "status": "PROCESSED"}]}),
            ),
            (
                "POST",
                "databases/erp1/resolve".to_owned(),
                json!({"version": 1, "outcomes": [{"processId": text, "outcome": "COMMITTED"}]}),
            ),
        ];
        for (method, path, body) in asked {
            let answer = world.admin(method, &path, body).await;
            let refused = (400..500).contains(&answer.status);
            assert!(refused, "{method} {path} {text:?}: {} {}", answer.status, answer.text());
        }
        for field in ["id", "type", "replyTo", "from", "to", "appSystem", "createdAt"] {
            let mut body = message("m-2", json!(1));
            body[field] = (*text).into();
            if field == "type" && *text == "a_b" {
                continue;
            }
            if field == "replyTo" || field == "id" || field == "type" {
                assert!(text.len() != 36);
            }
            let answer = world.post(&phone, &body).await;
            assert_eq!(answer.status, 422, "{field} {text:?}: {}", answer.text());
        }
        let acked = world.ack(&phone, &[text]).await;
        assert_eq!(acked.status, 422, "{}", acked.text());
        let reply =
            json!({"id": text, "to": "phone-1", "createdAt": "2027-01-15T08:00:00Z", "payload": 1});
        let answer = world.prepare(&process, &["m-1".to_owned()], json!([reply])).await;
        assert_eq!(answer.status, 422, "{}", answer.text());
    }
    assert_eq!(world.everything().await, before);
    assert_eq!(outside(&root), there);
}

#[tokio::test]
async fn what_something_needs_is_not_removed() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    for path in ["companies/acme", "subsystems/stock", "databases/erp1", "devices/acme/phone-1"] {
        let answer = world.admin("DELETE", path, Value::Null).await;
        assert_eq!((answer.status, answer.code().as_str()), (409, "exchange.in_use"), "{path}");
    }
    world.put("companies/globex", json!({"version": 1, "name": "Globex Corp."})).await;
    let taken =
        world.admin("PUT", "databases/erp1", json!({"version": 1, "company": "globex"})).await;
    assert_eq!((taken.status, taken.code().as_str()), (409, "exchange.taken"));
    let gone = world.admin("DELETE", "companies/globex", Value::Null).await;
    assert_eq!(gone.json(), json!({"version": 1, "deleted": "company globex"}));
    let again = world.admin("DELETE", "companies/globex", Value::Null).await;
    assert_eq!((again.status, again.code().as_str()), (404, "exchange.not_found"));
    let acts = world.ask(None, "GET", "/v1/audit", &Value::Null).await;
    assert!(acts.text().contains("exchange company globex"), "{}", acts.text());
}

#[tokio::test]
async fn only_what_is_set_aside_is_put_back() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let seq = world.send(&phone, "m-1", json!(1)).await;
    for (messages, status) in [(json!([seq]), 422), (json!([seq + 100]), 404), (json!(["x"]), 422)]
    {
        let body = json!({"version": 1, "messages": messages});
        assert_eq!(world.admin("POST", "databases/erp1/requeue", body).await.status, status);
    }
}

#[tokio::test]
async fn a_room_that_is_switched_off_says_so() {
    let world = World::bare(|settings| settings.exchange.enabled = false).await;
    let device = Some("hxd_of-a-device");
    let asked = [
        (None, "companies"),
        (device, "device"),
        (device, "messages"),
        (None, "databases/x/indoubt"),
    ];
    for (token, path) in asked {
        let answer = world.ask(token, "GET", &format!("/v1/exchange/{path}"), &Value::Null).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "room_off"), "{path}");
    }
    let ready = world.ask(None, "GET", "/readyz", &Value::Null).await;
    assert_eq!(ready.status, 200, "{}", ready.text());
}

//! `/v1/events`

use handoff_house::ActKind;
use handoff_server::runtime::RoomStatus;
use serde_json::json;

use crate::world::{World, ids};

#[tokio::test]
async fn an_event_is_registered_shown_and_deleted() {
    let world = World::start().await;
    let body =
        r#"{"version":1,"description":"nightly backup","types":["b","a","b"],"periodSecs":60}"#;
    let made = world.post("/v1/events", body).await;
    assert_eq!((made.status, made.header("location")), (201, Some("/v1/events/0")));
    let made = made.json();
    assert_eq!((&made["version"], &made["id"]), (&json!(1), &json!(0)));
    let shown = world.get("/v1/events/0").await;
    assert_eq!(shown.status, 200);
    let shown = shown.json();
    assert_eq!(shown["version"], 1);
    assert_eq!(shown["description"], "nightly backup");
    assert_eq!(shown["types"], json!(["a", "b"]));
    assert_eq!(shown["periodSecs"], 60.0);
    assert_eq!(shown["repeat"], -1);
    assert_eq!(shown["updatedAt"], made["registeredAt"]);
    assert!(made["registeredAt"].as_str().unwrap().ends_with('Z'), "{made}");
    assert_eq!((&shown["occurrences"], &shown["skipped"]), (&json!(0), &json!(0)));
    for absent in ["cron", "timeZone", "at"] {
        assert!(shown.get(absent).is_none(), "{shown}");
    }
    let gone = world.delete("/v1/events/0").await;
    assert_eq!((gone.status, gone.json()), (200, json!({"version": 1, "deleted": [0]})));
    for answer in [world.get("/v1/events/0").await, world.delete("/v1/events/0").await] {
        assert_eq!((answer.status, &*answer.code()), (404, "event_not_found"));
        assert_eq!(answer.detail(), "there is no event 0");
    }
}

#[tokio::test]
async fn an_event_has_one_of_three_schedules() {
    let world = World::start().await;
    world.register(r#""description":"p","periodSecs":0.5,"repeat":3"#).await;
    world.register(r#""description":"c","cron":"0 3 * * *","timeZone":"Europe/Minsk""#).await;
    world.register(r#""description":"u","cron":"@hourly""#).await;
    world.register(r#""description":"a","at":"2099-01-01T03:00:00+03:00""#).await;
    let page = world.get("/v1/events").await.json();
    let events = page["events"].as_array().unwrap();
    assert_eq!((&events[0]["periodSecs"], &events[0]["repeat"]), (&json!(0.5), &json!(3)));
    assert_eq!((&events[1]["cron"], &events[1]["repeat"]), (&json!("0 3 * * *"), &json!(-1)));
    assert_eq!(events[1]["timeZone"], "Europe/Minsk");
    assert!(events[1]["nextAt"].as_str().unwrap().contains("T00:00:00Z"), "{page}");
    assert!(events[1]["periodSecs"].as_f64().unwrap() <= 86_400.0);
    assert_eq!(events[2]["timeZone"], "UTC");
    assert_eq!(
        (&events[3]["at"], &events[3]["repeat"]),
        (&json!("2099-01-01T00:00:00Z"), &json!(1))
    );
    assert_eq!(events[3]["nextAt"], "2099-01-01T00:00:00Z");

    // It never occurs: its id is used, and there is nothing to show.
    let never = r#"{"version":1,"description":"","periodSecs":1,"repeat":0}"#;
    let never = world.post("/v1/events", never).await.json();
    assert_eq!((&never["id"], never.get("nextAt")), (&json!(4), None));
    assert_eq!(world.get("/v1/events/4").await.code(), "event_not_found");
}

#[tokio::test]
async fn an_event_that_cannot_be_is_refused_with_words() {
    let world = World::start_with(|settings| settings.events.bounds.types_max = 2).await;
    for (fields, code, words) in [
        (r#""types":[]"#, "request.invalid", "give one of `periodSecs`, `cron`, `at`"),
        (r#""periodSecs":1,"cron":"@hourly""#, "request.invalid", "only one of"),
        (r#""at":"2099-01-01T00:00:00Z","cron":"@hourly""#, "request.invalid", "only one of"),
        (r#""periodSecs":1,"timeZone":"UTC""#, "request.invalid", "`timeZone` goes with `cron`"),
        (r#""periodSecs":-1"#, "event_invalid", ""),
        (r#""periodSecs":0.001"#, "event_invalid", ""),
        (r#""periodSecs":1e300"#, "event_invalid", ""),
        (r#""periodSecs":1,"repeat":-2"#, "event_invalid", "repeat is -2"),
        (r#""cron":"61 * * * *""#, "event_invalid", ""),
        (r#""cron":"@hourly","timeZone":"Mars/Olympus""#, "event_invalid", "Mars/Olympus"),
        (r#""at":"tomorrow""#, "event_invalid", "`tomorrow` is no time"),
        (r#""at":"2099-01-01T00:00:00Z","repeat":2"#, "event_invalid", ""),
        (r#""periodSecs":1,"types":["a","b","c"]"#, "event_invalid", ""),
        (r#""periodSecs":1,"types":[""]"#, "event_invalid", ""),
    ] {
        let body = format!(r#"{{"version":1,"description":"x",{fields}}}"#);
        let answer = world.post("/v1/events", &body).await;
        assert_eq!((answer.status, &*answer.code()), (422, code), "{fields}");
        assert!(answer.detail().contains(words), "{fields}: {}", answer.detail());
    }
    assert!(world.listed("").await.is_empty());
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap() {
    let world = World::start().await;
    for n in 0..250 {
        let kind = ["even", "odd"][n % 2];
        let fields = format!(r#""description":"{n}","types":["{kind}"],"periodSecs":3600"#);
        assert_eq!(world.register(&fields).await, n as u64);
    }
    for (limit, pages) in [("limit=100", 3), ("", 3), ("limit=125", 2), ("limit=1000", 1)] {
        let (mut seen, mut after, mut count) = (Vec::new(), String::new(), 0);
        loop {
            let page = world.get(&format!("/v1/events?{limit}{after}")).await.json();
            seen.extend(ids(&page));
            count += 1;
            let Some(next) = page.get("next") else { break };
            after = format!("&after={next}");
        }
        assert_eq!(seen, (0..250).collect::<Vec<_>>(), "{limit}");
        assert_eq!(count, pages, "{limit}");
    }
    let odd = world.get("/v1/events?type=odd&type=none&limit=120").await.json();
    assert_eq!(ids(&odd), (0..120).map(|n| 2 * n + 1).collect::<Vec<_>>());
    assert_eq!(odd["next"], 239);
    assert!(world.listed("?type=none").await.is_empty());
    assert!(world.listed("?after=249").await.is_empty());
    assert!(world.listed("?after=2147483647").await.is_empty());
}

#[tokio::test]
async fn a_page_of_long_events_is_shorter() {
    let world = World::start().await;
    let long = "x".repeat(45_000);
    for _ in 0..120 {
        world.register(&format!(r#""description":"{long}","periodSecs":3600"#)).await;
    }
    let page = world.get("/v1/events?limit=1000").await;
    assert!(page.body.len() < 6 << 20, "{}", page.body.len());
    let page = page.json();
    let first = ids(&page).len();
    assert!(first < 120, "{first}");
    let next = page["next"].as_u64().unwrap();
    assert_eq!(world.listed(&format!("?limit=1000&after={next}")).await.len(), 120 - first);
}

#[tokio::test]
async fn a_query_that_means_nothing_is_refused() {
    let world = World::start().await;
    for (method, path, words) in [
        ("GET", "/v1/events?tpye=a", "did you mean `type`?"),
        ("GET", "/v1/events?limit=0", "from 1 to 1000"),
        ("GET", "/v1/events?limit=1001", "from 1 to 1000"),
        ("GET", "/v1/events?limit=ten", "`limit` is `ten`"),
        ("GET", "/v1/events?after=-1", "`after` is `-1`"),
        ("GET", "/v1/events?after=1&after=2", "came 2 times"),
        ("GET", "/v1/events?type=%FF", "not UTF-8"),
        ("GET", "/v1/events/0?x", "nothing is asked here"),
        ("GET", "/v1/events/stats?x=1", "nothing is asked here"),
        ("GET", "/v1/events/x", "`x` is not the id of an event"),
        ("GET", "/v1/events/-1", "`-1` is not the id of an event"),
        ("GET", "/v1/events/2147483648", "is not the id of an event"),
        ("GET", "/v1/events/%FF", ""),
        ("DELETE", "/v1/events/+", "is not the id of an event"),
        ("DELETE", "/v1/events", "which? give `type` or `id`"),
        ("DELETE", "/v1/events?id=x", "`id` is `x`"),
        ("DELETE", "/v1/events?all=1", "there are: type, id"),
        ("GET", "/v1/events/stream?id=x", "`id` is `x`"),
        ("GET", "/v1/events/stream?limit=1", "there are: type, id"),
    ] {
        let answer = crate::http_client::ask(world.address, method, path, &[], "").await;
        assert_eq!((answer.status, &*answer.code()), (400, "request.malformed"), "{path}");
        assert!(answer.detail().contains(words), "{path}: {}", answer.detail());
    }
}

#[tokio::test]
async fn a_selection_is_deleted_and_remembered() {
    let world = World::start().await;
    for kind in ["a", "b", "c", "a"] {
        let fields = format!(r#""description":"","types":["{kind}"],"periodSecs":3600"#);
        world.register(&fields).await;
    }
    let gone = world.delete("/v1/events?type=a&id=2&id=7&id=2&type=zzz").await;
    assert_eq!((gone.status, gone.json()), (200, json!({"version": 1, "deleted": [0, 2, 3]})));
    assert_eq!(world.listed("").await, [1]);
    let acts = world.acts().await;
    assert_eq!(acts, [(ActKind::Deleted, "3 events by 3 ids, type a, type zzz".to_owned())]);
    let none = world.delete("/v1/events?id=-5").await;
    assert_eq!(none.json(), json!({"version": 1, "deleted": []}));
    assert_eq!(world.acts().await.len(), 1, "nothing happened");
}

#[tokio::test]
async fn a_single_deletion_is_remembered() {
    let world = World::start().await;
    world.register(r#""description":"","periodSecs":3600"#).await;
    assert_eq!(world.delete("/v1/events/0").await.status, 200);
    assert_eq!(world.acts().await, [(ActKind::Deleted, "1 event with the id 0".to_owned())]);
    assert_eq!(world.delete("/v1/events/0").await.status, 404);
    assert_eq!(world.acts().await.len(), 1, "nothing happened");
}

#[tokio::test]
async fn figures_are_shown() {
    let world = World::start().await;
    world.register(r#""description":"","periodSecs":3600"#).await;
    world.register(r#""description":"","periodSecs":3600"#).await;
    world.delete("/v1/events/0").await;
    let stats = world.get("/v1/events/stats").await.json();
    for (name, figure) in [
        ("version", 1),
        ("events", 1),
        ("sessions", 0),
        ("held", 0),
        ("slowSessions", 0),
        ("registered", 2),
        ("deleted", 1),
        ("finished", 0),
        ("occurred", 0),
        ("skipped", 0),
    ] {
        assert_eq!(stats[name], figure, "{name}: {stats}");
    }
}

#[tokio::test]
async fn a_full_room_takes_no_more() {
    let world = World::start_with(|settings| settings.events.bounds.events_max = 1).await;
    world.register(r#""description":"","periodSecs":3600"#).await;
    let body = r#"{"version":1,"description":"","periodSecs":3600}"#;
    let answer = world.post("/v1/events", body).await;
    assert_eq!((answer.status, &*answer.code()), (409, "events_full"));
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_takes_nothing_new_and_lets_go() {
    let world = World::start().await;
    world.register(r#""description":"","periodSecs":3600"#).await;
    world.watermark.set_free_min(Some(u64::MAX - 1));
    world.watermark.look().unwrap();
    let body = r#"{"version":1,"description":"","periodSecs":3600}"#;
    let answer = world.post("/v1/events", body).await;
    assert_eq!((answer.status, &*answer.code()), (507, "disk_low"));
    assert_eq!(answer.header("retry-after"), Some("30"));
    assert_eq!(world.delete("/v1/events/0").await.status, 200);
}

#[tokio::test]
async fn a_room_that_is_switched_off_says_so() {
    let world = World::start_with(|settings| settings.events.enabled = false).await;
    for path in ["/v1/events", "/v1/events/0", "/v1/events/stats", "/v1/events/stream"] {
        let answer = world.get(path).await;
        assert_eq!((answer.status, &*answer.code()), (503, "room_off"), "{path}");
        assert_eq!(answer.detail(), "events is switched off");
    }
    world.set_events(RoomStatus::Closed("records are lost".to_owned()));
    let answer = world.get("/v1/events").await;
    assert_eq!((answer.status, &*answer.code()), (503, "log.room_damaged"));
    assert_eq!(answer.header("retry-after"), None, "waiting does not help");
    assert_eq!(world.get("/v1/tokens").await.status, 200, "the others go on");
}

#[tokio::test]
async fn a_room_that_is_gone_is_answered_for() {
    let mut world = World::start().await;
    world.lose_events().await;
    let answer = world.get("/v1/events").await;
    assert_eq!(answer.status, 503);
    let body = r#"{"version":1,"description":"","periodSecs":3600}"#;
    assert_eq!(world.post("/v1/events", body).await.status, 503);
    assert_eq!(world.get("/v1/events/stream").await.status, 503);
    assert_eq!(world.get("/metrics").await.status, 200);
}

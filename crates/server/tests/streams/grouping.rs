//! Groups: made, shown, changed, deleted, declared; and who may see them.

use handoff_server::settings::DeclaredGroup;
use serde_json::{Value, json};

use crate::members::{all_answered, delivered};
use crate::world::World;

const GROUPS: &str = "/v1/streams/groups";

#[tokio::test]
async fn a_group_is_made_listed_changed_and_deleted() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let made = world.group("billing", json!({"ordering": "none", "leaseMs": 5_000})).await;
    let settings = json!({
        "name": "billing", "topics": ["orders"], "start": "earliest", "ordering": "none",
        "maxAttempts": 5, "deadLetter": "billing.dead", "leaseMs": 5_000, "backoffMs": 1_000,
        "backoffMaxMs": 300_000, "inFlightMax": 20_000, "createdAt": made["createdAt"],
    });
    assert_eq!(made, settings);
    world.group("audit", json!({"topics": []})).await;
    let page = world.get(&format!("{GROUPS}?limit=1")).await.json();
    assert_eq!((&page["groups"][0]["name"], &page["next"]), (&json!("audit"), &json!("audit")));
    let page = world.get(&format!("{GROUPS}?limit=1&after=audit")).await.json();
    assert_eq!((&page["groups"][0]["name"], page.get("next")), (&json!("billing"), None));
    assert_eq!(page["groups"][0]["memberCount"], 0);

    let change = json!({"version": 1, "maxAttempts": 3, "deadLetter": "graves"});
    let path = format!("{GROUPS}/billing");
    let changed = world.send("PATCH", &path, &change).await.json()["group"].clone();
    assert_eq!((&changed["maxAttempts"], &changed["ordering"]), (&json!(3), &json!("none")));
    let world = world.restart().await;
    let shown = world.shown_group("billing").await;
    assert_eq!((&shown["maxAttempts"], &shown["deadLetter"]), (&json!(3), &json!("graves")));
    assert_eq!(shown["blockedBy"], "nobody is in the group");
    let place = &shown["partitions"][0];
    assert_eq!(
        (&place["committed"], &place["end"], &place["lag"]),
        (&json!(0), &json!(0), &json!(0))
    );

    let deleted = world.delete(&path).await;
    assert_eq!((deleted.status, &deleted.json()["group"]["name"]), (200, &json!("billing")));
    assert_eq!(world.get(&path).await.code(), "streams.group_not_found");
    assert_eq!(world.delete(&path).await.code(), "streams.group_not_found");
    let audit = world.get("/v1/audit").await.text().to_owned();
    for words in ["group billing was made", "settings of group billing", "group billing"] {
        assert!(audit.contains(words), "{words}: {audit}");
    }
}

#[tokio::test]
async fn what_no_group_can_be_is_said_in_words() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.group("taken", json!({})).await;
    for (more, code, words) in [
        (json!({"name": "taken"}), "streams.group_exists", "already"),
        (json!({"name": "a b"}), "streams.invalid", "no name of a group"),
        (json!({"topics": ["none"]}), "streams.topic_not_found", "none"),
        (json!({"maxAttempts": 0}), "streams.invalid", "maxAttempts"),
        (json!({"leaseMs": 1}), "streams.invalid", "leaseMs"),
        (json!({"deadLetter": "orders"}), "streams.invalid", "dead letters"),
        (json!({"ordering": "random"}), "request.invalid", "random"),
        (json!({"leaseMS": 1}), "request.invalid", "did you mean `leaseMs`?"),
        (json!({"version": 2}), "request.invalid", "version"),
    ] {
        let mut body = json!({"version": 1, "name": "new", "topics": ["orders"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = world.post(GROUPS, &body).await;
        assert_eq!(answer.code(), code, "{more}");
        assert!(answer.detail().contains(words), "{}", answer.detail());
    }
    let change = json!({"version": 1, "topics": ["none"]});
    let answer = world.send("PATCH", &format!("{GROUPS}/taken"), &change).await;
    assert_eq!(answer.code(), "streams.topic_not_found");
    let answer = world.send("PATCH", &format!("{GROUPS}/nobody"), &change).await;
    assert_eq!(answer.code(), "streams.group_not_found");
}

#[tokio::test]
async fn a_group_that_is_declared_is_made_at_start_and_stays_as_it_is() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["old"]).await;
    let declared = |attempts| {
        move |settings: &mut handoff_server::settings::Settings| {
            let mut group = DeclaredGroup::named("billing".parse().unwrap());
            group.topics = vec!["orders".parse().unwrap()];
            group.start = handoff_server::settings::Start::Latest;
            group.max_attempts = attempts;
            settings.streams.groups = vec![group];
        }
    };
    let world = world.restart_with(declared(7)).await;
    let shown = world.shown_group("billing").await;
    assert_eq!((&shown["maxAttempts"], &shown["start"]), (&json!(7), &json!("latest")));
    world.orders(&["new"]).await;
    let member = world.join_with("billing", json!({})).await;
    assert_eq!(delivered(&world.poll(&member).await), ["new"]);
    let world = world.restart_with(declared(9)).await;
    assert_eq!(world.shown_group("billing").await["maxAttempts"], 7);
}

#[tokio::test]
async fn a_group_shows_what_it_waits_for() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b", "c"]).await;
    world.group("billing", json!({"inFlightMax": 2})).await;
    let named = json!({"client": "till 7", "topics": ["orders"]});
    let member = world.join_with("billing", named).await;
    let held = world.poll(&member).await;
    assert_eq!(delivered(&held), ["a", "b"], "no more than may be out");
    let shown = world.shown_group("billing").await;
    let place = &shown["partitions"][0];
    assert_eq!((&place["processing"], &place["next"]), (&json!(2), &json!(2)));
    let blocked = place["blockedBy"].as_str().unwrap();
    assert!(blocked.starts_with("window full: 2 in flight"), "{blocked}");
    assert!(blocked.contains("held by till 7"), "{blocked}");
    let members = shown["members"].as_array().unwrap();
    assert_eq!((&members[0]["client"], members.len()), (&json!("till 7"), 1));
    assert!(members[0]["sessionLeftMs"].as_u64().unwrap() <= 30_000);
    world.commit(&member, all_answered(&held, "retry")).await;
    let shown = world.shown_group("billing").await;
    assert_eq!(shown["partitions"][0]["waiting"], 2, "{shown}");
}

#[tokio::test]
async fn a_token_sees_groups_and_topics_of_its_names_and_no_others() {
    let (world, admin) = World::locked().await;
    for topic in ["acme.orders", "other.orders"] {
        let body = json!({"version": 1, "name": topic});
        assert_eq!(world.ask(&admin, "POST", "/v1/streams/topics", &body).await.status, 201);
    }
    for (group, topics) in [
        ("acme.billing", json!(["acme.orders"])),
        ("acme.spy", json!(["other.orders"])),
        ("other.billing", json!(["other.orders"])),
    ] {
        let body = json!({"version": 1, "name": group, "topics": topics});
        assert_eq!(world.ask(&admin, "POST", GROUPS, &body).await.status, 201);
    }
    let token = world.token(&admin, &["streams:acme.*"]).await;
    let ask = async |method: &str, path: &str, body: Value| {
        world.ask(&token, method, &format!("{GROUPS}{path}"), &body).await
    };
    let listed = ask("GET", "", Value::Null).await.json();
    let names: Vec<&Value> =
        listed["groups"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["acme.billing", "acme.spy"]);
    assert_eq!(listed["groups"][1]["topics"], json!([]), "nothing of what is out of sight");
    let v1 = json!({"version": 1});
    let join = json!({"version": 1, "topics": ["other.orders"]});
    let seek = json!({"version": 1, "topic": "other.orders", "to": "latest"});
    let new = json!({"version": 1, "name": "acme.new", "topics": ["other.orders"]});
    let hidden = json!({"version": 1, "name": "other.new"});
    let dead = json!({"version": 1, "deadLetter": "other.dead"});
    let status = "/acme.billing/status?topic=other.orders&partition=0&offset=0";
    for (method, path, body) in [
        ("GET", "/other.billing", Value::Null),
        ("DELETE", "/other.billing", Value::Null),
        ("PATCH", "/other.billing", v1.clone()),
        ("POST", "/other.billing/members", v1.clone()),
        ("GET", "/other.billing/dead", Value::Null),
        ("POST", "/acme.billing/members", join),
        ("POST", "/acme.spy/members", v1.clone()),
        ("POST", "/acme.billing/seek", seek),
        ("GET", status, Value::Null),
        ("GET", "/acme.spy/dead", Value::Null),
        ("PATCH", "/acme.billing", dead),
        ("POST", "", new),
        ("POST", "", hidden),
    ] {
        let answer = ask(method, path, body).await;
        assert_eq!(
            (answer.status, answer.code()),
            (403, "auth.out_of_scope".to_owned()),
            "{method} {path}"
        );
    }
    assert!(
        ask("GET", "/acme.spy", Value::Null).await.json()["group"]["partitions"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    // A member of another's cannot be spoken for.
    let spy = world.ask(&admin, "POST", &format!("{GROUPS}/acme.spy/members"), &v1).await.json();
    let member = format!("/acme.spy/members/{}", spy["member"].as_str().unwrap());
    assert_eq!(
        ask("POST", &format!("{member}/poll"), v1.clone()).await.code(),
        "auth.out_of_scope"
    );
    let own = ask("POST", "/acme.billing/members", v1.clone()).await;
    assert_eq!(own.status, 201, "{}", own.text());
    let results = json!([{
        "topic": "other.orders", "partition": 0, "from": 0, "to": 0, "status": "ok",
    }]);
    let member = format!("/acme.billing/members/{}", own.json()["member"].as_str().unwrap());
    let commit = json!({"version": 1, "results": results});
    assert_eq!(ask("POST", &format!("{member}/commit"), commit).await.code(), "auth.out_of_scope");
    let produce = json!([{"topic": "other.orders", "messages": [{"payload": "x"}]}]);
    let body = json!({"version": 1, "results": [], "produce": produce});
    assert_eq!(ask("POST", &format!("{member}/commit"), body).await.code(), "auth.out_of_scope");
}

#[tokio::test]
async fn a_server_that_stops_answers_whoever_waits() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let member = world.join("billing").await;
    let beat = json!({"version": 1, "generation": member.generation()});
    let path = member.path("/heartbeat");
    let (polled, answer, ()) = tokio::join!(world.poll(&member), world.post(&path, &beat), async {
        while world.get("/v1/streams/stats").await.json()["waitingReaders"] != 2 {}
        world.tell_to_stop();
    });
    assert!(polled.is_empty());
    assert_eq!(answer.json()["changed"], false);
}

#[tokio::test]
async fn figures_of_groups_are_shown() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b", "c"]).await;
    let member = world.join("billing").await;
    let held = world.poll_with(&member, json!({"maxMessages": 1})).await;
    world.commit(&member, all_answered(&held, "failed")).await;
    world.poll_with(&member, json!({"maxMessages": 1})).await;
    let stats = world.get("/v1/streams/stats").await.json();
    for (name, figure) in
        [("groups", 1), ("members", 1), ("leases", 1), ("deadMessages", 1), ("lagMax", 2)]
    {
        assert_eq!(stats[name], figure, "{name}");
    }
    let metrics = world.get("/metrics").await.text().to_owned();
    for line in [
        "handoff_streams_groups 1",
        "handoff_streams_members 1",
        "handoff_streams_leases 1",
        "handoff_streams_dead_messages 1",
        "handoff_streams_lag_max 2",
        "handoff_streams_delivered_messages_total 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}:\n{metrics}");
    }
}

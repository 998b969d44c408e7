//! Members that are handed messages.

use serde_json::{Value, json};

use crate::members::{WAIT, all_answered, answered, delivered, outcomes};
use crate::world::{World, pack, unpack};

#[tokio::test]
async fn a_member_is_handed_messages_once_and_finishes_them() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.produce("orders", json!([{"key": "k", "payload": "a", "headers": {"h": "1"}}])).await;
    world.orders(&["b", "c"]).await;
    let member = world.join("billing").await;
    let assigned = json!([{"topic": "orders", "partition": 0, "committed": 0}]);
    assert_eq!(member.joined["assignment"], assigned);
    let batches = world.poll_now(&member).await;
    assert_eq!(delivered(&batches), ["a", "b", "c"]);
    let batch = &batches[0];
    let fields = ["topic", "partition", "baseOffset", "count", "attempt", "lease"];
    let values: Vec<&Value> = fields.iter().map(|field| &batch[field]).collect();
    assert_eq!(values, [&json!("orders"), &json!(0), &json!(0), &json!(3), &json!(1), &json!(1)]);
    assert!(batch["leaseDeadline"].as_str().unwrap().ends_with('Z'));
    let first = &batch["messages"][0];
    assert_eq!((&first["key"], &first["headers"]), (&json!("k"), &json!({"h": "1"})));
    assert!(first.get("offset").is_none() && first["timestamp"].is_string(), "{first}");
    assert!(world.poll_now(&member).await.is_empty(), "they are out");
    let results = world.commit(&member, all_answered(&batches, "ok")).await;
    let done = json!([{"topic": "orders", "partition": 0, "from": 0, "to": 2, "outcome": "done"}]);
    assert_eq!(Value::from(results), done);
    let shown = world.shown_group("billing").await;
    assert_eq!((&shown["lag"], &shown["partitions"][0]["committed"]), (&json!(0), &json!(3)));
    assert_eq!(world.status("billing", 1).await["status"], "processed");
}

#[tokio::test]
async fn a_poll_that_waits_is_answered_by_the_message_that_comes() {
    let world = World::start().await;
    world.topic("orders", 4).await;
    let member = world.join("billing").await;
    let (batches, ()) = tokio::join!(world.poll(&member), async {
        // The poll waits by then or does not; it is answered all the same.
        while world.get("/v1/streams/stats").await.json()["waitingReaders"] != 1 {}
        world.produce("orders", json!([{"payload": "a", "partition": 3}])).await;
    });
    assert_eq!(delivered(&batches), ["a"]);
}

#[tokio::test]
async fn a_poll_and_a_commit_are_the_same_in_messagepack() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b"]).await;
    let member = world.join("billing").await;
    let answer = world.post_packed(&member.path("/poll"), &json!({"version": 1})).await;
    assert_eq!(answer.header("content-type"), Some("application/msgpack"));
    let batches = unpack(&answer.body)["batches"].as_array().unwrap().clone();
    assert_eq!(delivered(&batches), ["a", "b"]);
    let body = json!({
        "version": 1, "results": all_answered(&batches, "ok"),
        "produce": [{"topic": "orders", "messages": [{"payload": "c"}]}],
    });
    let answer = world.post_packed(&member.path("/commit"), &body).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let committed = unpack(&answer.body);
    assert_eq!(committed["results"][0]["outcome"], "done");
    let stored = json!({"status": "stored", "partition": 0, "offset": 2});
    assert_eq!(committed["produced"][0]["results"][0], stored);
    let wrong = json!({"version": 1, "results": [{"topic": "orders"}]});
    let headers = [("content-type", "application/msgpack")];
    let path = member.path("/commit");
    let answer =
        crate::http_client::ask(world.address, "POST", &path, &headers, pack(&wrong)).await;
    assert_eq!(answer.code(), "request.invalid");
    assert!(answer.detail().contains("missing field"), "{}", answer.detail());
}

#[tokio::test]
async fn a_lease_that_is_over_is_handed_out_again_and_its_late_commit_is_fenced() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a"]).await;
    world.group("billing", json!({"leaseMs": 100, "backoffMs": 1, "maxAttempts": 1000})).await;
    let member = world.join("billing").await;
    let first = world.poll(&member).await;
    assert_eq!(first[0]["attempt"], 1);
    let second = world.poll(&member).await;
    assert_eq!(
        (delivered(&second), second[0]["attempt"].as_u64()),
        (vec!["a".to_owned()], Some(2))
    );
    let late = world.commit(&member, all_answered(&first, "ok")).await;
    assert_eq!(outcomes(&late), ["fenced"]);
    let metrics = world.get("/metrics").await;
    let redelivered = "handoff_streams_redelivered_messages_total ";
    let line = metrics.text().lines().find(|line| line.starts_with(redelivered)).unwrap();
    assert_ne!(line, format!("{redelivered}0"));
}

#[tokio::test]
async fn a_lease_that_is_extended_begins_anew() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a"]).await;
    let member = world.join("billing").await;
    let batches = world.poll(&member).await;
    let before = world.status("billing", 0).await["leaseLeftMs"].as_u64().unwrap();
    let kept = world.commit(&member, all_answered(&batches, "extend")).await;
    assert_eq!(outcomes(&kept), ["done"]);
    let status = world.status("billing", 0).await;
    assert_eq!((&status["status"], &status["member"]), (&json!("processing"), &json!(member.id)));
    assert!(before <= 30_000 && status["leaseLeftMs"].as_u64().unwrap() <= 30_000);
    assert_eq!(outcomes(&world.commit(&member, all_answered(&batches, "ok")).await), ["done"]);
}

#[tokio::test]
async fn a_retry_comes_again_after_its_wait_with_what_was_said() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b"]).await;
    let member = world.join("billing").await;
    let batches = world.poll(&member).await;
    let mut later = answered(&batches[0], "retry");
    (later["to"], later["error"]) = (json!(0), json!("no paper"));
    later["delayMs"] = json!(3_600_000);
    let mut soon = answered(&batches[0], "retry");
    (soon["from"], soon["delayMs"]) = (json!(1), json!(1));
    let results = world.commit(&member, json!([later, soon])).await;
    assert_eq!(outcomes(&results), ["done", "done"]);
    let again = world.poll(&member).await;
    assert_eq!((delivered(&again), &again[0]["attempt"]), (vec!["b".to_owned()], &json!(2)));
    let status = world.status("billing", 0).await;
    assert_eq!((&status["status"], &status["attempt"]), (&json!("pending"), &json!(1)));
    assert_eq!(status["error"], "no paper");
    assert!(status["waitMs"].as_u64().unwrap() <= 300_000, "the group's longest back-off");
}

#[tokio::test]
async fn whoever_leaves_gives_back_at_once_what_it_holds() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a"]).await;
    let gone = world.join("billing").await;
    assert_eq!(delivered(&world.poll(&gone).await), ["a"]);
    let next = world.join("billing").await;
    assert!(world.poll_now(&next).await.is_empty(), "another has the partition");
    let (batches, ()) = tokio::join!(world.poll(&next), world.leave(&gone));
    assert_eq!((delivered(&batches), &batches[0]["attempt"]), (vec!["a".to_owned()], &json!(2)));
    let answer = world.try_poll(&gone, json!({})).await;
    assert_eq!((answer.status, answer.code()), (404, "streams.member_gone".to_owned()));
    let late = json!({"version": 1, "results": [
        {"topic": "orders", "partition": 0, "from": 0, "to": 0, "status": "ok"},
    ]});
    let answer = world.try_commit(&gone, &late).await.json();
    assert_eq!(answer["results"][0]["outcome"], "fenced");
}

#[tokio::test]
async fn whoever_is_silent_is_gone_and_what_it_holds_comes_back() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a"]).await;
    let brief = json!({"topics": ["orders"], "sessionTimeoutMs": 300});
    let silent = world.join_with("billing", brief).await;
    // It may be gone before it polls, on a slow machine; then there is nothing to come back.
    drop(world.try_poll(&silent, json!({})).await);
    let next = world.join("billing").await;
    assert_eq!(delivered(&world.poll(&next).await), ["a"]);
    let beat =
        world.post(&silent.path("/heartbeat"), &json!({"version": 1, "generation": 1})).await;
    assert_eq!((beat.status, beat.code()), (404, "streams.member_gone".to_owned()));
}

#[tokio::test]
async fn a_new_owner_reads_past_what_the_old_one_holds_and_the_old_one_may_finish_it() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    let both = |text: &str| {
        json!([{"payload": format!("{text}0"), "partition": 0},
               {"payload": format!("{text}1"), "partition": 1}])
    };
    world.produce("orders", both("a")).await;
    let old = world.join("billing").await;
    assert_eq!(old.partitions(), [0, 1]);
    let held = world.poll(&old).await;
    assert_eq!(delivered(&held).len(), 2);
    let new = world.join("billing").await;
    let [moved] = new.partitions()[..] else { panic!("{new:?}") };
    world.produce("orders", both("b")).await;
    let batches = world.poll(&new).await;
    assert_eq!(delivered(&batches), [format!("b{moved}")]);
    let mut of_moved = held.iter().filter(|batch| batch["partition"] == moved);
    let late = world.commit(&old, json!([answered(of_moved.next().unwrap(), "ok")])).await;
    assert_eq!(outcomes(&late), ["late"]);
    assert_eq!(outcomes(&world.commit(&new, all_answered(&batches, "ok")).await), ["done"]);
    let shown = world.shown_group("billing").await;
    let partitions = shown["partitions"].as_array().unwrap();
    let place = partitions.iter().find(|one| one["partition"] == moved).unwrap();
    assert_eq!((&place["committed"], &place["owner"]), (&json!(2), &json!(new.id)));
}

#[tokio::test]
async fn a_held_heartbeat_is_answered_when_partitions_change_hands() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    let first = world.join("billing").await;
    let beat = json!({"version": 1, "generation": first.generation()});
    let path = first.path("/heartbeat");
    let (answer, second) = tokio::join!(world.post(&path, &beat), async {
        while world.get("/v1/streams/stats").await.json()["waitingReaders"] != 1 {}
        world.join("billing").await
    });
    let answer = answer.json();
    assert_eq!((&answer["changed"], &answer["generation"]), (&json!(true), &json!(2)));
    assert_eq!(answer["assignment"].as_array().unwrap().len(), 1);
    assert_eq!(second.partitions().len(), 1);
    // One that knows an older generation is answered at once.
    assert_eq!(world.post(&path, &beat).await.json()["changed"], true);
}

#[tokio::test]
async fn a_held_heartbeat_is_answered_when_a_topic_grows() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let member = world.join("billing").await;
    let beat = json!({"version": 1, "generation": member.generation()});
    let path = member.path("/heartbeat");
    let (answer, ()) = tokio::join!(world.post(&path, &beat), async {
        while world.get("/v1/streams/stats").await.json()["waitingReaders"] != 1 {}
        let grown = json!({"version": 1, "partitions": 3});
        world.post("/v1/streams/topics/orders/partitions", &grown).await;
    });
    assert_eq!(answer.json()["assignment"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_heartbeat_without_news_is_answered_after_a_third_of_the_session() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let brief = json!({"topics": ["orders"], "sessionTimeoutMs": 3_000});
    let member = world.join_with("billing", brief).await;
    let beat = json!({"version": 1, "generation": member.generation()});
    let answer = world.post(&member.path("/heartbeat"), &beat).await.json();
    assert_eq!((&answer["changed"], &answer["generation"]), (&json!(false), &json!(1)));
    let assigned = json!([{"topic": "orders", "partition": 0}]);
    assert_eq!(answer["assignment"], assigned);
}

#[tokio::test]
async fn a_restart_keeps_members_and_leases() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    let place = |text: &str, partition| json!({"payload": text, "partition": partition});
    world.produce("orders", json!([place("a", 0), place("b", 1)])).await;
    world.group("billing", json!({"leaseMs": 86_400_000})).await;
    let brief = json!({"topics": ["orders"], "sessionTimeoutMs": 3_600_000});
    let first = world.join_with("billing", brief.clone()).await;
    let held = world.poll(&first).await;
    assert_eq!(delivered(&held).len(), 2);
    let second = world.join_with("billing", brief).await;
    let world = world.restart().await;
    assert!(world.poll_now(&second).await.is_empty(), "they are still held");
    assert!(world.poll_now(&first).await.is_empty());
    assert_eq!(world.status("billing", 0).await["member"], first.id);
    let results = world.commit(&first, all_answered(&held, "ok")).await;
    let mut found = outcomes(&results);
    found.sort_unstable();
    assert_eq!(found, ["done", "late"]);
    assert_eq!(world.shown_group("billing").await["lag"], 0);
}

#[tokio::test]
async fn messages_of_a_key_wait_for_those_before_them() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let of = |key: &str, payload: &str| json!({"key": key, "payload": payload});
    world.produce("orders", json!([of("x", "x1"), of("x", "x2"), of("y", "y1")])).await;
    for (ordering, second) in [("key", vec!["y1"]), ("partition", vec![]), ("none", vec!["x2"])] {
        world.group(ordering, json!({"ordering": ordering})).await;
        let member = world.join(ordering).await;
        let one = json!({"maxMessages": 1});
        assert_eq!(delivered(&world.poll_with(&member, one.clone()).await), ["x1"]);
        assert_eq!(delivered(&world.poll_with(&member, one).await), second, "{ordering}");
    }
    let shown = world.shown_group("partition").await;
    let blocked = shown["partitions"][0]["blockedBy"].as_str().unwrap();
    assert!(blocked.contains("1 message is held by"), "{blocked}");
    assert!(blocked.contains("the rest of the partition waits"), "{blocked}");
}

#[tokio::test]
async fn a_commit_lets_go_what_waited_for_it() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b"]).await;
    world.group("billing", json!({"ordering": "partition"})).await;
    let member = world.join("billing").await;
    let first = world.poll_with(&member, json!({"maxMessages": 1})).await;
    let (second, ()) = tokio::join!(world.poll(&member), async {
        while world.get("/v1/streams/stats").await.json()["waitingReaders"] != 1 {}
        world.commit(&member, all_answered(&first, "ok")).await;
    });
    assert_eq!(delivered(&second), ["b"]);
}

#[tokio::test]
async fn a_message_past_its_time_is_handed_to_nobody() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.produce("orders", json!([{"payload": "old", "ttlMs": 1}])).await;
    // It is past its time once the page says so.
    while world.read("orders", 0, "").await["messages"][0]["expired"] != true {}
    let member = world.join("billing").await;
    assert!(world.poll_now(&member).await.is_empty());
    world.orders(&["new"]).await;
    assert_eq!(delivered(&world.poll(&member).await), ["new"]);
    assert_eq!(world.status("billing", 0).await["status"], "processed");
}

#[tokio::test]
async fn a_poll_gives_no_more_than_it_is_asked_for_and_at_least_one() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let large = "x".repeat(1000);
    world.orders(&[&large, &large, &large, &large]).await;
    let member = world.join("billing").await;
    let count = |batches: &[Value]| delivered(batches).len();
    assert_eq!(count(&world.poll_with(&member, json!({"maxBytes": 1})).await), 1);
    assert_eq!(count(&world.poll_with(&member, json!({"maxBytes": 2000})).await), 2);
    assert_eq!(count(&world.poll_with(&member, json!({"maxMessages": 5})).await), 1);
}

#[tokio::test]
async fn compressed_messages_are_handed_out_as_they_were_sent() {
    let world = World::start().await;
    world.topic_with("orders", 1, json!({"compression": "zstd"})).await;
    let payloads: Vec<String> = (0..50).map(|n| format!("order {n}")).collect();
    world.orders(&payloads.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let member = world.join("billing").await;
    let first = world.poll_with(&member, json!({"maxMessages": 20})).await;
    let rest = world.poll_now(&member).await;
    assert_eq!([delivered(&first), delivered(&rest)].concat(), payloads);
}

#[tokio::test]
async fn where_a_member_begins_is_where_it_says_in_partitions_that_are_new() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b", "c"]).await;
    for (group, from, begin) in [
        ("earliest", json!("earliest"), 0),
        ("latest", json!("latest"), 3),
        ("offset", json!({"offset": 1}), 1),
        ("beyond", json!({"offset": 99}), 3),
        ("past", json!({"time": "2000-01-01T00:00:00Z"}), 0),
        ("future", json!({"time": "2100-01-01T00:00:00Z"}), 3),
    ] {
        let body = json!({"topics": ["orders"], "from": from});
        let member = world.join_with(group, body).await;
        assert_eq!(member.joined["assignment"][0]["committed"], begin, "{group}");
    }
    let again = json!({"topics": ["orders"], "from": "earliest"});
    let member = world.join_with("latest", again).await;
    assert!(member.partitions().is_empty(), "{member:?}");
    assert_eq!(world.shown_group("latest").await["partitions"][0]["committed"], 3);
}

#[tokio::test]
async fn a_static_member_takes_its_place_again() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    world.orders(&["a"]).await;
    let named = json!({"topics": ["orders"], "instance": "till-7", "client": "till 7"});
    let first = world.join_with("billing", named.clone()).await;
    let other = world.join("billing").await;
    let again = world.join_with("billing", named).await;
    assert_ne!(again.id, first.id);
    assert_eq!(again.generation(), other.generation(), "nobody else moves");
    let answer = world.try_poll(&first, json!({})).await;
    assert_eq!(answer.code(), "streams.member_gone");
    let shown = world.shown_group("billing").await;
    assert_eq!(shown["members"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_cannot_be_polled_is_said_in_words() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let member = world.join("billing").await;
    for (body, words) in [
        (json!({"maxMessages": 0}), "maxMessages"),
        (json!({"maxBytes": 99_999_999}), "maxBytes"),
        (json!({"waitMs": WAIT + 1}), "waitMs"),
        (json!({"waitms": 1}), "did you mean `waitMs`?"),
    ] {
        let answer = world.try_poll(&member, body).await;
        assert_eq!(answer.code(), "request.invalid");
        assert!(answer.detail().contains(words), "{}", answer.detail());
    }
    let nobody = "/v1/streams/groups/nobody/members";
    let poll = format!("{nobody}/{}/poll", "0".repeat(32));
    assert_eq!(world.post(&poll, &json!({"version": 1})).await.code(), "streams.group_not_found");
    let poll = "/v1/streams/groups/billing/members/me/poll";
    assert_eq!(world.post(poll, &json!({"version": 1})).await.code(), "request.malformed");
    let answer = world.try_join("new", json!({})).await;
    assert_eq!(answer.code(), "streams.group_not_found");
    let answer = world.try_join("new", json!({"topics": ["none"]})).await;
    assert_eq!(answer.code(), "streams.topic_not_found");
    let answer = world.try_join("new", json!({"topics": ["orders"], "sessionTimeoutMs": 1})).await;
    assert_eq!(answer.code(), "streams.invalid");
    let answer = world.try_join("a%20b", json!({"topics": ["orders"]})).await;
    assert_eq!(answer.code(), "streams.invalid");
}

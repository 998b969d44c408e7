//! What is kept, and for how long.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

const PRODUCER: &str = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab";

#[tokio::test]
async fn a_restart_keeps_everything() {
    let world = World::start().await;
    world.topic_with("orders", 3, json!({"compression": "zstd"})).await;
    let request = json!({
        "version": 1, "producer": PRODUCER, "sequence": 5,
        "messages": [{"key": "a", "payload": "one"}, {"payload": "two", "headers": {"h": "v"}}],
    });
    let first = world.produced("orders", &request).await;
    let later = world.later(3_600_000).await;
    world.produce("orders", json!([{"payload": "later", "deliverAt": later}])).await;
    let before = world.everything().await;
    let mut world = world;
    for _ in 0..2 {
        world = world.restart().await;
        assert_eq!(world.everything().await, before);
        let again = world.produced("orders", &request).await;
        for (again, first) in
            again["results"].as_array().unwrap().iter().zip(first["results"].as_array().unwrap())
        {
            assert_eq!(again["status"], "duplicate");
            assert_eq!(
                (&again["partition"], &again["offset"]),
                (&first["partition"], &first["offset"])
            );
        }
        let known = world
            .post("/v1/streams/producers", &json!({"version": 1, "producer": PRODUCER}))
            .await
            .json();
        assert_eq!(known["lastSequence"], 6);
    }
    let gap = json!({
        "version": 1, "producer": PRODUCER, "sequence": 9, "messages": [{"payload": "x"}],
    });
    assert_eq!(world.produced("orders", &gap).await["missing"], json!([{"from": 7, "to": 8}]));
}

/// Settings under which segments are small and looked at all the time.
fn small(settings: &mut handoff_server::settings::Settings) {
    settings.log.limits.segment_bytes = 64 << 10;
    settings.streams.retention_every = Duration::from_millis(20);
}

/// Waits until a partition begins above an offset, and gives where.
async fn start_above(world: &World, offset: u64) -> u64 {
    loop {
        let topic = world.get("/v1/streams/topics/orders").await.json()["topic"].clone();
        let start = topic["partitionList"][0]["start"].as_u64().unwrap();
        if start > offset {
            return start;
        }
        assert!(topic["partitionList"][0]["end"].as_u64().unwrap() > 0);
    }
}

async fn fill(world: &World) {
    let messages: Vec<Value> = (0..20).map(|_| json!({"payload": "x".repeat(1_000)})).collect();
    for _ in 0..20 {
        world.produce("orders", json!(messages)).await;
    }
}

#[tokio::test]
async fn what_is_over_the_size_goes_and_readers_are_told_where_the_rest_begins() {
    let world = World::start_with(small).await;
    world.topic_with("orders", 1, json!({"retentionBytes": 100_000})).await;
    fill(&world).await;
    let start = start_above(&world, 0).await;
    assert!(start < 400);
    let path = "/v1/streams/topics/orders/partitions/0/messages";
    let gone = world.get(&format!("{path}?offset=0")).await;
    assert_eq!((gone.status, &*gone.code()), (410, "log.trimmed"));
    let kept = gone.json()["start"].as_u64().unwrap();
    assert!(kept >= start);
    let page = world.read("orders", 0, &format!("?offset={}", kept.max(300))).await;
    assert!(!page["messages"].as_array().unwrap().is_empty());
    assert_eq!(page["end"], 400);
    let world = world.restart().await;
    assert!(start_above(&world, 0).await >= start);
    let last = world.read("orders", 0, "?offset=399").await;
    assert_eq!(last["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_past_its_time_goes() {
    let world = World::start_with(small).await;
    world.topic_with("orders", 1, json!({"retentionMs": 3_600_000})).await;
    fill(&world).await;
    let topic = world.get("/v1/streams/topics/orders").await.json();
    assert_eq!(topic["topic"]["partitionList"][0]["start"], 0, "nothing is an hour old");
    let alter = json!({"version": 1, "retentionMs": 1});
    assert_eq!(world.send("PATCH", "/v1/streams/topics/orders", &alter).await.status, 200);
    start_above(&world, 0).await;
    // What is written to stays.
    assert_eq!(world.read("orders", 0, "?offset=399").await["nextOffset"], 400);
}

#[tokio::test]
async fn what_a_deleted_topic_held_leaves_the_disk() {
    let world = World::start_with(small).await;
    world.topic_with("orders", 1, json!({"retentionBytes": 100_000})).await;
    fill(&world).await;
    start_above(&world, 0).await;
    let segments = world.data_dir().join("segments");
    let files = || walk(&segments).len();
    assert!(files() > 0);
    assert_eq!(world.delete("/v1/streams/topics/orders").await.status, 200);
    while files() > 0 {
        tokio::task::yield_now().await;
    }
}

fn walk(path: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(walk(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

/// A topic that has four times what the ring takes: most of it is in segments only.
async fn overflown(partitions: u32) -> World {
    let world = World::start_with(|settings| {
        settings.log.limits.journal_file_bytes = 512 << 10;
        settings.log.limits.journal_bytes_max = 4 << 20;
        settings.log.limits.journal_reserve_bytes = 512 << 10;
        settings.log.limits.change_bytes_max = 1 << 20;
        settings.log.limits.room_queue_bytes_max = 1 << 20;
        settings.log.limits.segment_bytes = 1 << 20;
    })
    .await;
    world.topic("orders", partitions).await;
    let messages: Vec<Value> = (0..40).map(|_| json!({"payload": "x".repeat(5_000)})).collect();
    let body = json!({"version": 1, "messages": messages});
    let path = "/v1/streams/topics/orders/messages";
    let mut stored = 0;
    while stored < 80 {
        let answer = world.post(path, &body).await;
        match answer.status {
            200 => stored += 1,
            // Until the checkpoint is in force.
            503 => assert_eq!(answer.code(), "log.journal_full"),
            other => panic!("{other}: {}", answer.text()),
        }
    }
    world
}

#[tokio::test]
async fn damage_is_named_and_everything_else_is_served() {
    let world = overflown(1).await;
    let (directory, settings) = world.stop().await;
    let mut files = walk(&settings.server.data_dir.join("segments"));
    files.retain(|file| std::fs::metadata(file).unwrap().len() > 512 << 10);
    files.sort();
    let mut bytes = std::fs::read(&files[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&files[0], bytes).unwrap();
    let world = World::begin(directory, settings).await;

    let mut offsets = Vec::new();
    let mut corrupt = Vec::new();
    let mut next = 0;
    while next < 3_200 {
        let page = world.read("orders", 0, &format!("?offset={next}&maxBytes=16777216")).await;
        let messages = page["messages"].as_array().unwrap();
        offsets.extend(messages.iter().map(|message| message["offset"].as_u64().unwrap()));
        corrupt.extend(
            page.get("corrupt").into_iter().flat_map(|one| one.as_array().unwrap().clone()),
        );
        let before = std::mem::replace(&mut next, page["nextOffset"].as_u64().unwrap());
        assert!(next > before);
    }
    assert_eq!(corrupt.len(), 1, "{corrupt:?}");
    let (from, to) = (corrupt[0]["from"].as_u64().unwrap(), corrupt[0]["to"].as_u64().unwrap());
    assert_eq!(to - from + 1, 40, "one batch");
    let expected: Vec<u64> = (0..from).chain(to + 1..3_200).collect();
    assert_eq!(offsets, expected);

    let path = format!("/v1/streams/topics/orders/partitions/0/messages?offset={from}");
    let headers = [("accept", "application/vnd.handoff.batch")];
    let raw = crate::http_client::ask(world.address, "GET", &path, &headers, "").await;
    assert_eq!(raw.header("handoff-corrupt"), Some(&*format!("{from}-{to}")));
    let head = handoff_streams::batch::head(&raw.body).unwrap();
    assert_eq!(head.base, to + 1);

    let tail = "/v1/streams/topics/orders/tail?from=earliest";
    let stopped = "event: closed\ndata: {\"version\":1,\"reason\":\"corrupt\"}";
    let told = crate::tailing::everything_until(&world, tail, stopped).await;
    let behind = format!("id: 0:{}\n", to + 1);
    assert!(!told.contains(&behind), "it stops there");
    let world = world
        .restart_with(|settings| {
            settings.streams.on_corrupt = handoff_server::settings::OnCorrupt::Skip;
        })
        .await;
    let told = crate::tailing::everything_until(&world, tail, &behind).await;
    let skipped = format!(
        "event: skipped\ndata: {{\"version\":1,\"partition\":0,\"from\":{from},\"to\":{to},\"reason\":\"corrupt\"}}"
    );
    assert!(told.contains(&skipped), "it skips it, and says so");
}

#[tokio::test]
async fn the_journal_forgets_what_segments_have() {
    let world = overflown(2).await;
    let world = world.restart().await;
    let topic = world.get("/v1/streams/topics/orders").await.json();
    assert_eq!(topic["topic"]["messages"], 80 * 40);
    let mut read = 0;
    for partition in 0..2 {
        let mut next = 0;
        loop {
            let page = world.read("orders", partition, &format!("?offset={next}&limit=500")).await;
            let messages = page["messages"].as_array().unwrap();
            read += messages.len();
            next = page["nextOffset"].as_u64().unwrap();
            if messages.is_empty() {
                break;
            }
        }
    }
    assert_eq!(read, 80 * 40);
}

//! `/v1/server` and `/metrics`

use serde_json::json;

use crate::http_client::ask;
use crate::world::World;

#[tokio::test]
async fn a_server_says_what_it_is() {
    let world = World::start().await;
    let server = world.get("/v1/server").await.json();
    assert_eq!((&server["version"], &server["release"]), (&json!(1), &json!("9.9.9")));
    assert_eq!(server["ready"], true);
    assert_eq!(server["rooms"][0], json!({"name": "house", "state": "open"}));
    assert_eq!(server["rooms"][1], json!({"name": "events", "state": "open"}));
    assert_eq!(server["listeners"]["http"], world.address.to_string());
    assert_eq!((&server["auth"], &server["proxyHeadersSeen"]), (&json!(false), &json!(false)));
    assert!(server["startedAt"].as_str().unwrap().ends_with('Z'));
    assert!(server["uptimeSecs"].as_f64().unwrap() >= 0.0);
    assert!(server["timeZoneDatabase"].as_str().unwrap().starts_with("20"), "{server}");
    assert!(server["disk"]["freeBytes"].as_u64().unwrap() > 0);
    let recovery = &server["recovery"];
    assert_eq!((&recovery["openingSecs"], &recovery["entries"]), (&json!(0.25), &json!(0)));
    assert_eq!((&recovery["tail"], &recovery["damage"]), (&json!("clean"), &json!([])));

    ask(world.address, "GET", "/readyz", &[("x-forwarded-for", "203.0.113.7")], "").await;
    assert_eq!(world.get("/v1/server").await.json()["proxyHeadersSeen"], true);
}

#[tokio::test]
async fn figures_of_rooms_and_journal_are_scraped() {
    let world = World::start().await;
    world.register(r#""description":"","periodSecs":3600"#).await;
    let answer = world.get("/metrics").await;
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let figure = |name: &str| {
        let line = answer.text().lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in {}", answer.text()));
        line.trim().parse::<f64>().unwrap()
    };
    assert_eq!(figure("handoff_events_events "), 1.0);
    assert_eq!(figure("handoff_events_registered_total "), 1.0);
    assert!(figure("handoff_log_rounds_total ") >= 1.0);
    assert!(figure("handoff_log_records_total ") >= 1.0);
    assert!(figure("handoff_log_records_per_sync ") >= 1.0);
    assert!(figure("handoff_log_fsync_seconds_sum ") > 0.0);
    let syncs = figure("handoff_log_fsync_seconds_count ");
    assert!(syncs >= 1.0 && syncs == figure("handoff_log_fsync_seconds_bucket{le=\"+Inf\"} "));
    assert!(figure("handoff_log_fsync_seconds_bucket{le=\"0.00005\"} ") <= syncs);
    assert_eq!(figure("handoff_log_oldest_unsynced_seconds "), 0.0, "the answer waited for it");
    assert_eq!(figure("handoff_log_waiting_bytes{room=\"events\"} "), 0.0);
    assert!(figure("handoff_disk_free_bytes ") > 0.0);
    assert!(figure("process_resident_memory_bytes ") > 1e6);
}

#[tokio::test]
async fn the_last_log_lines_are_shown_as_text() {
    let world = World::start().await;
    let answer = world.get("/v1/server/logs").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/plain; charset=utf-8"))
    );
}

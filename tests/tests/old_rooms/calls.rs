//! `5-calls`: a server of the version that brought calls, ended once and killed once. Whatever was open
//! then is overdue by now.
//!
//! `6-calls-fences`: the same of the version whose fencing tokens never come again.

use handoff_sdk::calls::{CallerOptions, Channel, Job, WorkerOptions};
use handoff_sdk::{Client, Options};
use handoff_tests::http::Http;
use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::{PATIENCE, Served};
use serde_json::{Value, json};

use crate::{ask, copied};

/// Dead letters are there for ten years, if they may be.
fn copied_calls(fixture: &str, place: &Place) -> Lair {
    copied(fixture, place).with("--set=calls.dead_kept_secs=3650d")
}

/// Channel, and what is said of how its calls are treated.
const CHANNELS: [&str; 4] = [
    r#""bill" true 1 "redeliver" 30000 0 "disk" "park""#,
    r#""later" true 3 "redeliver" 30000 60000 "disk" "park""#,
    r#""light" true 3 "redeliver" 30000 0 "memory" "fail""#,
    r#""once" true 2 "fail" 2592000000 0 "disk" "park""#,
];

fn channels(http: &mut Http) -> Vec<String> {
    let page = ask(http, "GET", "/v1/calls/channels", None);
    let described = page["channels"].as_array().unwrap().iter();
    described
        .filter(|channel| channel["described"] == true)
        .map(|channel| {
            let said = &channel["settings"];
            let keys = ["attemptsMax", "onLost", "leaseMs", "queueTimeoutMs", "durability"];
            let said = keys.iter().chain(&["withoutConsumer"]).map(|key| said[key].to_string());
            let said = said.collect::<Vec<_>>().join(" ");
            format!("{} {} {said}", channel["channel"], channel["described"])
        })
        .collect()
}

/// What a call carried, how it ended, how often it was begun, and its last fence.
fn line(call: &Value) -> String {
    let (params, error) = (&call["params"], &call["error"]["code"]);
    format!("{params} {} {error} {} {}", call["outcome"], call["attempt"], call["fence"])
}

#[test]
fn calls_of_the_version_that_brought_them_are_there_and_go_on() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied_calls("5-calls", &place);
    for life in 0..2 {
        let served = Served::start(&lair).unwrap();
        let mut http = Http::connect(served.http, PATIENCE).unwrap();
        assert_eq!(channels(&mut http), CHANNELS);
        let dead = ask(&mut http, "GET", "/v1/calls/channels/bill/dead", None);
        let found: Vec<String> = dead["calls"].as_array().unwrap().iter().map(line).collect();
        let (first, third) =
            (r#"{"bill":1} "error" "exit_3" 1 1"#, r#"{"bill":3} "error" "exit_3" 1 1"#);
        let expected: &[&str] = if life == 0 { &[first, third] } else { &[third] };
        assert_eq!(found, expected);
        assert_eq!(dead["calls"][0]["error"]["message"], "no paper", "{dead}");
        if life == 0 {
            // What was in somebody's hands, or waited, or waited for its time, ended meanwhile.
            let stats = ask(&mut http, "GET", "/v1/calls/stats", None);
            assert_eq!(stats["inFlight"], 0, "{stats}");
            let id = dead["calls"][0]["id"].as_str().unwrap();
            let again = ask(&mut http, "POST", &format!("/v1/calls/{id}/requeue"), None);
            let again = again["id"].as_str().unwrap().to_owned();
            let call = ask(&mut http, "GET", &format!("/v1/calls/{again}"), None);
            assert_eq!((&call["stage"], &call["requeuedFrom"]), (&json!("waiting"), &json!(id)));
            ask(&mut http, "DELETE", &format!("/v1/calls/{again}"), None);
        }
        served.stop().unwrap();
    }
}

/// Two lives took a block of tokens each. A call in memory that was forgotten with the first had one that
/// nothing else says.
#[test]
fn fencing_tokens_go_on_behind_those_that_every_life_before_may_have_given() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied_calls("6-calls-fences", &place);
    let mut least = 2 << 20;
    for _ in 0..2 {
        let served = Served::start(&lair).unwrap();
        let mut http = Http::connect(served.http, PATIENCE).unwrap();
        let dead = ask(&mut http, "GET", "/v1/calls/channels/bill/dead", None);
        let found: Vec<String> = dead["calls"].as_array().unwrap().iter().map(line).collect();
        let (first, third) = (r#"1 "error" "exit_3" 1 1"#, r#"3 "error" "exit_3" 1 1048577"#);
        assert_eq!(found, [first, third]);
        let stats = ask(&mut http, "GET", "/v1/calls/stats", None);
        assert_eq!(stats["inFlight"], 0, "{stats}");
        let fence = fence_of_an_offer(&format!("http://{}", served.http));
        assert!(fence > least, "{fence} may have been given before");
        least = fence;
        served.stop().unwrap();
    }
}

/// The token of a call that is made and served now.
fn fence_of_an_offer(url: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new(Options::new(url)).unwrap();
    let served = async {
        let worker = client.calls().worker(WorkerOptions::new());
        let worker = worker.serve(Channel::new("light"), |_: Value, job: Job| {
            let fence = job.fence();
            async move { Ok(fence) }
        });
        let serving = worker.start().await.unwrap();
        let caller = client.calls().caller(CallerOptions::new()).await.unwrap();
        let fence: u64 = caller.call("light", &()).await.unwrap();
        caller.close().await;
        serving.drain(PATIENCE).await;
        fence
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, served).await.unwrap() })
}

#[test]
fn one_flipped_bit_in_a_record_of_calls_closes_that_room_and_no_other() {
    for fixture in ["5-calls-flipped-bit", "6-calls-fences-flipped-bit"] {
        is_closed_and_no_other(fixture);
    }
}

fn is_closed_and_no_other(fixture: &str) {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied_calls(fixture, &place);
    let served = Served::start(&lair).unwrap();
    let mut http = Http::connect(served.http, PATIENCE).unwrap();
    let refused = http.ask("GET", "/v1/calls", None).unwrap();
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json().unwrap()["code"], "log.room_damaged");
    let ready = http.ask("GET", "/readyz", None).unwrap();
    assert_eq!(ready.status, 503, "somebody has to look");
    let words = String::from_utf8_lossy(&ready.body).into_owned();
    assert!(words.contains("calls"), "{words}");
    ask(&mut http, "GET", "/v1/events", None);
    ask(&mut http, "GET", "/v1/streams/topics", None);
    served.stop().unwrap();
}

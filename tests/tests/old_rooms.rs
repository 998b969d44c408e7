//! A server opens the rooms that earlier versions left: `fixtures/rooms/`. A directory there is
//! never written again.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

#[path = "old_rooms/calls.rs"]
mod calls;

use std::collections::BTreeMap;
use std::fs;

use handoff_tests::fixture::copy;
use handoff_tests::http::Http;
use handoff_tests::mailbox::folders;
use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::{PATIENCE, Served, lair};
use handoff_tests::workspace;
use serde_json::{Value, json};

fn ask(http: &mut Http, method: &str, path: &str, body: Option<&Value>) -> Value {
    let answer = http.ask(method, path, body).unwrap();
    let words = String::from_utf8_lossy(&answer.body);
    assert!((200..300).contains(&answer.status), "{method} {path}: {words}");
    answer.json().unwrap()
}

/// Id, types, when, what is left, and occurrences so far, of each event.
fn events(http: &mut Http) -> Vec<String> {
    let page = ask(http, "GET", "/v1/events", None);
    let line = |event: &Value| {
        let words = event["description"].as_str().unwrap().chars().take(24).collect::<String>();
        let when = match event.get("cron").or_else(|| event.get("at")) {
            Some(when) => format!("{} {}", when, event["timeZone"]),
            None => event["periodSecs"].to_string(),
        };
        format!("{} {} {when} {} {words}", event["id"], event["types"], event["repeat"])
    };
    page["events"].as_array().unwrap().iter().map(line).collect()
}

const EVENTS: [&str; 7] = [
    r#"0 ["yearly"] "0 0 1 1 *" "Europe/Minsk" -1 happy new year"#,
    r#"1 ["both","slow"] 2592000000.0 -1 once in a lifetime"#,
    r#"2 ["both"] "2100-01-01T00:00:00Z" null 1 the end of a century"#,
    r#"5 ["many"] 2592000000.0 -1 xxxxxxxxxxxxxxxxxxxxxxxx"#,
    r#"6 ["many"] 2592000000.0 -1 xxxxxxxxxxxxxxxxxxxxxxxx"#,
    r#"7 ["many"] 2592000000.0 -1 xxxxxxxxxxxxxxxxxxxxxxxx"#,
    r#"8 ["last"] 2592000000.0 -1 behind the checkpoint"#,
];

/// A copy of a fixture, and how a server is started on it.
fn copied(fixture: &str, place: &Place) -> Lair {
    let fixture = workspace::root().join("fixtures/rooms").join(fixture).join("data");
    copy(&fixture, &place.path().join("data")).unwrap();
    let small = [
        "log.journal_bytes_max=1MiB",
        "log.journal_file_bytes=256KiB",
        "log.journal_reserve_bytes=64KiB",
        "log.change_bytes_max=128KiB",
    ];
    small.iter().fold(lair(place.path()), |lair, set| lair.with(&format!("--set={set}")))
}

#[test]
fn events_and_tokens_from_before_events_were_published_are_there_and_go_on() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied("1-events-and-house", &place);
    for life in 0..2 {
        let served = Served::start(&lair).unwrap();
        let mut http = Http::connect(served.http, PATIENCE).unwrap();
        let mut found = events(&mut http);
        found.retain(|line| !line.contains("published"));
        assert_eq!(found, EVENTS);
        let tokens = ask(&mut http, "GET", "/v1/tokens", None);
        assert_eq!(tokens["tokens"].as_array().unwrap().len(), 1, "{tokens}");
        assert_eq!(tokens["tokens"][0]["name"], "keeper");
        let stats = ask(&mut http, "GET", "/v1/events/stats", None);
        assert_eq!(stats["finished"], 1);
        let name = format!("topic-{life}");
        let topic = json!({"version": 1, "name": name, "partitions": 1});
        ask(&mut http, "POST", "/v1/streams/topics", Some(&topic));
        let event = json!({"version": 1, "description": "published", "types": ["new"],
            "periodSecs": 1e9, "publish": name});
        let registered = ask(&mut http, "POST", "/v1/events", Some(&event));
        assert_eq!(registered["id"], 9 + life);
        served.stop().unwrap();
    }
}

/// The messages of a partition, one line each, and what else the page says.
fn messages(http: &mut Http, topic: &str, partition: u32) -> (Vec<String>, Value) {
    let path = format!("/v1/streams/topics/{topic}/partitions/{partition}/messages?limit=1000");
    let mut page = ask(http, "GET", &path, None);
    let line = |message: &Value| {
        let payload = match message["payload"].as_str() {
            Some(text) => text.chars().take(40).collect(),
            None => message["payload"].to_string(),
        };
        let mut line = format!("{} {payload}", message["offset"]);
        for (mark, field) in [("@", "key"), ("#", "headers")] {
            if let Some(value) = message.get(field) {
                line += &format!(" {mark}{value}");
            }
        }
        line
    };
    let lines = page["messages"].as_array().unwrap().iter().map(line).collect();
    page.as_object_mut()
        .unwrap()
        .retain(|field, _| ["start", "end", "corrupt"].contains(&&**field));
    (lines, page)
}

const ORDERS: [&[&str]; 3] = [
    &[
        r##"0 order 1 @"customer-1" #{"kind":"order"}"##,
        r##"1 order 6 @"customer-1" #{"kind":"order"}"##,
        r##"2 order 11 @"customer-1" #{"kind":"order"}"##,
    ],
    &[
        r##"0 order 0 @"customer-0" #{"kind":"order"}"##,
        r##"1 order 3 @"customer-3" #{"kind":"order"}"##,
        r##"2 order 4 @"customer-4" #{"kind":"order"}"##,
        r##"3 order 5 @"customer-0" #{"kind":"order"}"##,
        r##"4 order 8 @"customer-3" #{"kind":"order"}"##,
        r##"5 order 9 @"customer-4" #{"kind":"order"}"##,
        r##"6 order 10 @"customer-0" #{"kind":"order"}"##,
        r##"7 {"base64":"AP8BAg=="}"##,
        "8 scoped",
        r##"9 behind the checkpoint @"customer-0""##,
    ],
    &[
        r##"0 order 2 @"customer-2" #{"kind":"order"}"##,
        r##"1 order 7 @"customer-2" #{"kind":"order"}"##,
        "2 a",
        "3 b",
        "4 h",
        "5 c",
        "6 i",
    ],
];

/// Everything that `2-streams` holds, but for the partition that is damaged in its twin.
fn check_streams(http: &mut Http) {
    for (partition, expected) in (0..).zip(ORDERS) {
        let (found, page) = messages(http, "orders", partition);
        assert_eq!(found, expected);
        assert_eq!(page, json!({"start": 0, "end": expected.len()}));
    }
    let since = "/v1/streams/topics/orders/partitions/0/messages?time=2026-11-16T09:20:59.080Z";
    let later = ask(http, "GET", since, None);
    assert_eq!(later["messages"].as_array().unwrap().len(), 2, "0 is of 09:20:59.079");
    assert_eq!(messages(http, "packed", 1).0, ["0 scoped"]);
    let kept = |n: u64, letter: &str| format!("{n} {n} {}", letter.repeat(38));
    let (short, page) = messages(http, "short", 0);
    assert_eq!((short, page), (vec![kept(8, "x")], json!({"start": 8, "end": 9})));
    let trimmed = http.ask("GET", "/v1/streams/topics/short/partitions/0/messages?offset=3", None);
    assert_eq!(trimmed.unwrap().json().unwrap()["code"], "log.trimmed");
    let long: Vec<String> = (0..5).map(|n| kept(n, "y")).collect();
    assert_eq!(messages(http, "long", 0).0, long);
    assert_eq!(messages(http, "later", 0).0, ["0 at once"]);
    assert_eq!(messages(http, "grown", 3).0, ["0 in a partition that came later"]);
    assert_eq!(messages(http, "grown", 1).0, [""; 0]);

    let topics = ask(http, "GET", "/v1/streams/topics", None);
    let line = |topic: &Value| {
        let settings = ["partitions", "retentionMs", "retentionBytes", "durability", "compression"];
        let settings = settings.map(|setting| topic[setting].to_string()).join(" ");
        format!("{} {} {settings}", topic["name"], topic["id"])
    };
    let topics: Vec<String> = topics["topics"].as_array().unwrap().iter().map(line).collect();
    assert_eq!(topics, TOPICS);

    let scheduled = ask(http, "GET", "/v1/streams/topics/later/scheduled", None);
    assert_eq!(
        scheduled["scheduled"],
        json!([
            {"id": NEW_CENTURY, "deliverAt": "2100-01-01T00:00:00Z", "key": "k", "bytes": 12},
            {"id": SECOND_DAY, "deliverAt": "2100-01-02T00:00:00Z", "bytes": 10},
        ])
    );
    let stats = ask(http, "GET", "/v1/streams/stats", None);
    assert_eq!((&stats["partitions"], &stats["producers"]), (&json!(12), &json!(2)));
}

const TOPICS: [&str; 6] = [
    r#""grown" 7 4 null null "fsync" "none""#,
    r#""later" 4 1 null null "fsync" "none""#,
    r#""long" 6 1 null null "os" "none""#,
    r#""orders" 1 3 null null "fsync" "none""#,
    r#""packed" 2 2 null null "fsync" "zstd""#,
    r#""short" 3 1 null 1 "fsync" "none""#,
];

const NEW_CENTURY: &str = "3be2ca4a207ae3bb53ceaf47cedb63e5";
const SECOND_DAY: &str = "8eb8fafa8c51a3fe95fbdf04809b9bd0";

/// The producer whose sequences 1, 2, 8, 3 and 9 were stored, in this order.
const TILL: &str = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab";
/// The one that counts per topic: 0 in `orders`, 10 in `packed`.
const SCOPED: &str = "00000000-0000-4000-8000-000000000001";

fn packed(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|n| format!("{n} message {n} of many that are much alike")).collect()
}

#[test]
fn topics_of_the_version_that_brought_them_are_there_and_go_on() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied("2-streams", &place);
    for life in 0..2 {
        let served = Served::start(&lair).unwrap();
        let mut http = Http::connect(served.http, PATIENCE).unwrap();
        check_streams(&mut http);
        let (found, page) = messages(&mut http, "packed", 0);
        let mut expected = packed(0..60);
        expected.push("60 behind the checkpoint".to_owned());
        expected.extend((0..life).map(|n| format!("{} new", 61 + n)));
        assert_eq!((found, page), (expected, json!({"start": 0, "end": 61 + life})));

        let mut produce = |topic: &str, producer: &str, sequence: u64, payload: &str| {
            let partition = if topic == "orders" { 2 } else { 0 };
            let body = json!({"version": 1, "producer": producer, "sequence": sequence,
                "messages": [{"payload": payload, "partition": partition}]});
            let path = format!("/v1/streams/topics/{topic}/messages");
            ask(&mut http, "POST", &path, Some(&body))
        };
        for (sequence, payload, offset) in [(1, "a", 2), (8, "h", 4), (3, "c", 5), (9, "i", 6)] {
            let again = produce("orders", TILL, sequence, payload);
            let expected = json!([{"status": "duplicate", "partition": 2, "offset": offset}]);
            assert_eq!(again["results"], expected);
        }
        let late = produce("packed", SCOPED, 11 + life, "new");
        assert_eq!(late["results"][0]["status"], "stored");
        let again = json!({"version": 1, "producer": SCOPED});
        let known = ask(&mut http, "POST", "/v1/streams/producers", Some(&again));
        assert_eq!(known["last"], json!({"orders": 0, "packed": 11 + life}));
        let again = json!({"version": 1, "producer": TILL});
        let known = ask(&mut http, "POST", "/v1/streams/producers", Some(&again));
        assert_eq!(known["lastSequence"], 9);
        served.stop().unwrap();
    }

    let served = Served::start(&lair).unwrap();
    let mut http = Http::connect(served.http, PATIENCE).unwrap();
    let gap = json!({"version": 1, "producer": TILL, "sequence": 4,
        "messages": [{"payload": "d", "partition": 2}]});
    let late = ask(&mut http, "POST", "/v1/streams/topics/orders/messages", Some(&gap));
    assert_eq!(late["results"][0]["status"], "stored_late", "4 to 7 are still known to be missing");
    let cancel = format!("/v1/streams/scheduled/{NEW_CENTURY}");
    ask(&mut http, "DELETE", &cancel, None);
    let name = json!({"version": 1, "name": "gone", "partitions": 1});
    let made = ask(&mut http, "POST", "/v1/streams/topics", Some(&name));
    assert_eq!(made["topic"]["id"], 8, "no number is given twice");
    assert_eq!(messages(&mut http, "gone", 0).0, [""; 0]);
    served.stop().unwrap();
}

#[test]
fn one_flipped_bit_in_a_segment_costs_one_batch() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied("2-streams-flipped-bit", &place);
    let served = Served::start(&lair).unwrap();
    let mut http = Http::connect(served.http, PATIENCE).unwrap();
    check_streams(&mut http);
    let (found, page) = messages(&mut http, "packed", 0);
    let mut expected = packed(40..60);
    expected.push("60 behind the checkpoint".to_owned());
    assert_eq!(found, expected);
    assert_eq!(page, json!({"start": 0, "end": 61, "corrupt": [{"from": 0, "to": 39}]}));
    served.stop().unwrap();
}

/// Messages a member is handed, each with partition, offset and attempt, until it has so many.
fn handed(http: &mut Http, group: &str, member: &str, count: usize) -> Vec<String> {
    let path = format!("/v1/streams/groups/{group}/members/{member}/poll");
    let mut found = Vec::new();
    while found.len() < count {
        let poll = json!({"version": 1, "maxMessages": 100, "waitMs": 20_000});
        let answer = ask(http, "POST", &path, Some(&poll));
        for batch in answer["batches"].as_array().unwrap() {
            let base = batch["baseOffset"].as_u64().unwrap();
            for (offset, message) in (base..).zip(batch["messages"].as_array().unwrap()) {
                let (partition, attempt) = (&batch["partition"], &batch["attempt"]);
                found.push(format!("{partition}/{offset} {attempt} {}", message["payload"]));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn groups_of_the_version_that_brought_them_are_there_and_go_on() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied("3-groups", &place);
    let served = Served::start(&lair).unwrap();
    let mut http = Http::connect(served.http, PATIENCE).unwrap();
    let groups = ask(&mut http, "GET", "/v1/streams/groups", None);
    let line = |group: &Value| {
        let settings = ["topics", "start", "ordering", "maxAttempts", "leaseMs", "deadLetter"];
        format!(
            "{} {}",
            group["name"],
            settings.map(|setting| group[setting].to_string()).join(" ")
        )
    };
    let lines: Vec<String> = groups["groups"].as_array().unwrap().iter().map(line).collect();
    let expected = [
        r#""auditing" ["filler","orders"] "latest" "none" 5 30000 "auditing.dead""#,
        r#""billing" ["orders"] "earliest" "key" 2 60000 "billing.dead""#,
        r#""late" ["orders"] "earliest" "key" 5 30000 "late.dead""#,
    ];
    assert_eq!(lines, expected);

    let status = |http: &mut Http, partition: u32, offset: u64| {
        let path = format!(
            "/v1/streams/groups/billing/status?topic=orders&partition={partition}&offset={offset}"
        );
        ask(http, "GET", &path, None)
    };
    for (partition, offset, expected) in [
        (0, 1, "processed"),
        (0, 2, "dead"),
        (0, 3, "processed"),
        (1, 0, "processed"),
        (1, 5, "processed"),
    ] {
        let found = status(&mut http, partition, offset);
        assert_eq!(found["status"], expected, "{partition}/{offset}: {found}");
    }
    assert_eq!(
        status(&mut http, 0, 2)["letter"],
        json!({"topic": "billing.dead", "partition": 0, "offset": 0})
    );
    let dead = ask(&mut http, "GET", "/v1/streams/groups/billing/dead", None);
    let letter = &dead["letters"][0];
    assert_eq!((&letter["error"], &letter["replayed"]), (&json!("no such customer"), &json!(true)));
    let again = json!({"version": 1, "all": true});
    let replayed = ask(&mut http, "POST", "/v1/streams/groups/billing/dead/replay", Some(&again));
    assert_eq!((&replayed["replayed"], &replayed["already"]), (&json!(0), &json!(1)));

    // Whoever had them has been silent for long: the rest is handed to the next who comes.
    let join = json!({"version": 1, "client": "new"});
    let joined = ask(&mut http, "POST", "/v1/streams/groups/billing/members", Some(&join));
    let member = joined["member"].as_str().unwrap();
    let expected = [
        r#"0/4 2 "order 0.4""#,
        r#"0/5 2 "order 0.5""#,
        r#"0/6 1 "order 0.2""#,
        r#"1/1 2 "order 1.1""#,
        r#"1/2 2 "order 1.2""#,
        r#"1/6 1 "behind the checkpoint""#,
    ];
    assert_eq!(handed(&mut http, "billing", member, expected.len()), expected);
    let joined = ask(&mut http, "POST", "/v1/streams/groups/late/members", Some(&join));
    let member = joined["member"].as_str().unwrap();
    let all = handed(&mut http, "late", member, 13);
    assert_eq!(all.len(), 13, "the letter that was replayed is for `billing` alone: {all:?}");
    served.stop().unwrap();
}

/// What its devices and the ERP of `4-exchange` show.
const PHONE: &str = "hxd_eYLzN5kZZ2GRQ95P4ynrFxXqlNTKOkzJt6hP6T4Iwyh4HrcqH";
const LOCKED_OUT: &str = "hxd_m9gQt1I7FgcWGGzXz6NjYzJIuN0ROpF6NgXkrdDeqvu1nZ3GH";
const NEVER_ACTIVATED: &str = "AXXXACSL";
const ERP: &str = "hxb_MXUqYVxI0v2jn0ONsNUhK5HqTFIwCwMAlAkJSJHC0if3X9iaK";

const UNDECIDED: &str = "3-928c2807a520a913";
const READY: &str = "4-7aca96e5f6150043";

const PROCESSES: [(&str, &str); 4] = [
    ("1-4c0dd30092278fbf", "DONE"),
    ("2-33b12bf728e42aaf", "INTERRUPTED"),
    (UNDECIDED, "UNKNOWN"),
    (READY, "READY_TO_COMMIT"),
];

const PLACES: [(&str, &str); 11] = [
    ("m-0", "messages"),
    ("m-1", "log"),
    ("m-2", "error"),
    ("m-3", "unknown"),
    ("m-5", "messages"),
    ("m-6", "messages"),
    ("m-7", "messages"),
    ("r-1", "log"),
    ("r-2", "messages"),
    ("r-4", "unknown"),
    ("r-5", "prepared"),
];

/// A copy of a fixture with an exchange, of which nothing is too old.
fn copied_exchange(fixture: &str, place: &Place) -> Lair {
    copied(fixture, place).with("--set=exchange.retention_days=36525d")
}

/// Connections of an administrator, a device and the ERP.
fn visitors(served: &Served) -> [Http; 3] {
    let http = || Http::connect(served.http, PATIENCE).unwrap();
    [http(), http().bearing(PHONE), http().bearing(ERP)]
}

/// Where each message of `books` is.
fn places(admin: &mut Http) -> BTreeMap<String, String> {
    let page = ask(admin, "GET", "/v1/exchange/databases/books/messages?limit=1000", None);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|one| (text(&one["id"]), text(&one["place"]))).collect()
}

fn listed(admin: &mut Http, what: &str) -> Vec<String> {
    let page = ask(admin, "GET", &format!("/v1/exchange/{what}"), None);
    let line = |one: &Value| {
        let fields = ["company", "id", "appSystem", "database", "blocked", "active"];
        let fields = fields.iter().filter_map(|field| one.get(*field));
        fields.map(|value| value.to_string().replace('"', "")).collect::<Vec<_>>().join(" ")
    };
    page[what].as_array().unwrap().iter().map(line).collect()
}

fn taken(page: &Value) -> Vec<String> {
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|one| format!("{} {}", one["id"], one["payload"])).collect()
}

/// Everything that `4-exchange` holds and that is not damaged in its twin.
fn check_exchange([admin, phone, erp]: &mut [Http; 3]) {
    assert_eq!(listed(admin, "companies"), ["acme", "globex"]);
    assert_eq!(listed(admin, "databases"), ["acme books", "acme spare"]);
    assert_eq!(listed(admin, "routes"), ["acme sales books", "acme stock spare"]);
    assert_eq!(listed(admin, "devices"), DEVICES);
    let base = "/v1/exchange/databases/books";
    for (process, state) in PROCESSES {
        let found = ask(erp, "GET", &format!("{base}/processes/{process}"), None);
        assert_eq!(found["process"]["state"], state, "{found}");
    }
    let doubt = ask(erp, "GET", &format!("{base}/indoubt"), None);
    assert_eq!(doubt["processes"].as_array().unwrap().len(), 2, "{doubt}");
    let log = ask(admin, "GET", &format!("{base}/log?what=incorrect"), None);
    let entry = &log["entries"][0];
    assert_eq!((&entry["messageId"], &entry["code"]), (&json!("m-2"), &json!(-803)), "{entry}");
    assert!(entry["words"].as_str().unwrap().contains("no such customer"), "{entry}");
    let fetched = ask(phone, "GET", "/v1/exchange/messages", None);
    assert_eq!(taken(&fetched), [r#""r-2" {"answer":"r-2"}"#]);
    let again = json!({"version": 1, "id": "m-7", "createdAt": "2026-11-16T08:00:00Z",
        "payload": "behind the checkpoint"});
    let again = ask(phone, "POST", "/v1/exchange/messages", Some(&again));
    assert_eq!(again["results"][0]["status"], "duplicate", "{again}");
}

/// Company, id, subsystem, whether it is locked out, whether it was activated.
const DEVICES: [&str; 4] = [
    "acme phone-1 sales false true",
    "acme phone-2 sales false false",
    "acme phone-3 sales true true",
    "acme till stock false false",
];

#[test]
fn an_exchange_of_the_version_that_brought_it_is_there_and_goes_on() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied_exchange("4-exchange", &place);
    let folder = lair.data_dir.join("exchange/books");
    let expected = PLACES.map(|(id, place)| (id.to_owned(), place.to_owned())).into();
    for _ in 0..2 {
        let served = Served::start(&lair).unwrap();
        let mut visitors = visitors(&served);
        check_exchange(&mut visitors);
        assert_eq!(places(&mut visitors[0]), expected);
        served.stop().unwrap();
    }
    let served = Served::start(&lair).unwrap();
    let [mut admin, mut phone, mut erp] = visitors(&served);
    let stranger = fs::read_to_string(folder.join("Messages/notes.txt")).unwrap();
    assert_eq!(stranger, "nobody's\n", "it is left alone");
    fs::remove_file(folder.join("Messages/notes.txt")).unwrap();
    folders::compare(&folder, &expected, PATIENCE).unwrap();

    let mut locked = Http::connect(served.http, PATIENCE).unwrap().bearing(LOCKED_OUT);
    let locked = locked.ask("GET", "/v1/exchange/messages", None).unwrap().json().unwrap();
    assert_eq!(locked["code"], "exchange.device_blocked");
    let code = json!({"version": 1, "code": NEVER_ACTIVATED});
    let active = ask(&mut admin, "POST", "/v1/exchange/device/activate", Some(&code));
    assert_eq!(active["id"], "phone-2");

    // What was decided meanwhile is reported.
    let base = "/v1/exchange/databases/books";
    let v = json!({"version": 1});
    ask(&mut erp, "POST", &format!("{base}/processes/{READY}/commit"), Some(&v));
    let outcomes = json!({"version": 1,
        "outcomes": [{"processId": UNDECIDED, "outcome": "ROLLED_BACK"}]});
    ask(&mut erp, "POST", &format!("{base}/resolve"), Some(&outcomes));
    let fetched = ask(&mut phone, "GET", "/v1/exchange/messages", None);
    assert_eq!(taken(&fetched), [r#""r-2" {"answer":"r-2"}"#, r#""r-5" {"answer":"r-5"}"#]);
    let begun = ask(&mut erp, "POST", &format!("{base}/processes"), Some(&v));
    let expected = [
        r#""m-3" {"order":"m-3"}"#,
        r#""m-5" {"order":"m-5"}"#,
        r#""m-6" {"order":"m-6"}"#,
        r#""m-7" "behind the checkpoint""#,
    ];
    assert_eq!(taken(&begun), expected);
    assert_eq!(begun["messages"][0]["attempt"], 2, "it had a deadlock: {begun}");
    let id = begun["processId"].as_str().unwrap();
    assert!(id.starts_with("5-"), "no number is given twice: {id}");
    let new = json!({"version": 1, "id": "m-8", "createdAt": "2027-01-01T00:00:00Z", "payload": 8});
    let new = ask(&mut phone, "POST", "/v1/exchange/messages", Some(&new));
    assert_eq!(new["results"][0]["seq"], 12, "{new}");
    let after = places(&mut admin);
    folders::compare(&folder, &after, PATIENCE).unwrap();
    served.stop().unwrap();
}

#[test]
fn one_flipped_bit_in_the_file_of_a_message_costs_one_message() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let lair = copied_exchange("4-exchange-flipped-bit", &place);
    let served = Served::start(&lair).unwrap();
    let mut visitors = visitors(&served);
    check_exchange(&mut visitors);
    let [mut admin, _, mut erp] = visitors;
    let base = "/v1/exchange/databases/books";
    let v = json!({"version": 1});
    ask(&mut erp, "POST", &format!("{base}/processes/{READY}/commit"), Some(&v));
    let begun = ask(&mut erp, "POST", &format!("{base}/processes"), Some(&v));
    let expected = [r#""m-6" {"order":"m-6"}"#, r#""m-7" "behind the checkpoint""#];
    assert_eq!(taken(&begun), expected);
    assert_eq!(places(&mut admin)["m-5"], "error");
    let log = ask(&mut admin, "GET", &format!("{base}/log?what=damaged"), None);
    assert_eq!(log["entries"][0]["messageId"], "m-5", "{log}");
    served.stop().unwrap();
}

//! D1, D2 and D3 of the crash matrix: the disk is full when a device sends, when an ERP prepares and when
//! it commits. What was begun is finished, what is new is refused with words and leaves no trace, and space
//! is all it takes.

use handoff_tests::http::Answer;
use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::lair;
use handoff_tests::small_disk::SmallDisk;
use serde_json::json;

use crate::office::{Office, SMALL, code, is_ok, reply, until, words};

fn disk(place: &Place) -> SmallDisk {
    SmallDisk::new(place.path(), 64)
        .unwrap_or_else(|against| panic!("this test needs root, or user namespaces: {against}"))
}

fn lair_on(disk: &SmallDisk, place: &Place, free_min: &str) -> Lair {
    let lair = SMALL.iter().fold(lair(place.path()), |lair, (key, value)| lair.set(key, value));
    let mut lair = lair.set("HANDOFF_SERVER__DISK_FREE_MIN", free_min);
    lair.data_dir = disk.path().join("data");
    lair
}

/// A refusal for want of space.
#[track_caller]
fn has_no_space(answer: &Answer, expected: &str) {
    let problem = answer.json().unwrap();
    assert_eq!((answer.status, code(answer).as_str()), (507, expected), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("disk"), "{problem}");
    assert!(!problem["remedy"].as_str().unwrap().is_empty(), "{problem}");
    assert!(answer.header("retry-after").is_some(), "{:?}", answer.headers);
}

/// Sends until there is no space, and gives ids of what was stored and of what was not.
fn send_until_refused(office: &Office, phone: &str, bytes: usize) -> (Vec<String>, String, Answer) {
    let payload = "x".repeat(bytes);
    let (mut stored, mut refused) = (Vec::new(), None);
    until("a message is refused", || {
        let id = format!("more-{}", stored.len());
        let answer = office.post(phone, &id, &payload);
        match answer.status {
            201 => stored.push(id),
            _ => refused = Some((id, answer)),
        }
        refused.is_some()
    });
    let (id, answer) = refused.unwrap();
    (stored, id, answer)
}

/// What is asked of an exchange on a full disk, from the first message to a restart with space.
fn filled_up_and_relieved(free_min: &str, bytes: usize, expected: &str) {
    let place = Place::temporary().unwrap();
    let disk = disk(&place);
    let lair = lair_on(&disk, &place, free_min);
    let office = Office::furnished(&lair);
    let phone = office.phone("phone-1");
    for n in 0..6 {
        office.stored(&phone, &format!("m-{n}"), "before");
    }
    let (done, served) = office.begin(1);
    assert!(is_ok(&office.prepare(&done, &served, &json!([reply("r-0", "phone-1")]))));
    assert!(is_ok(&office.commit(&done)));
    let (ready, served) = office.begin(1);
    assert!(is_ok(&office.prepare(&ready, &served, &json!([reply("r-1", "phone-1")]))));
    office.until_filed();

    disk.fill().unwrap();
    let (stored, refused, answer) = send_until_refused(&office, &phone, bytes);
    has_no_space(&answer, expected);
    let places = office.places();
    assert!(!places.contains_key(&refused), "nothing is half stored");
    assert!(stored.iter().all(|id| places[id] == "messages"), "{places:?}");

    // What was committed is reported, and replies are read.
    assert_eq!(office.fetched(&phone), ["r-0"]);
    office.ack(&phone, &["r-0"]);
    let committed = office.commit(&ready);
    assert!(is_ok(&committed), "a commit cannot be refused: {}", words(&committed));
    assert_eq!(office.fetched(&phone), ["r-1"]);

    // Another process, whose replies have no space; its ERP rolls back. One without replies goes on.
    let (wordy, served) = office.begin(2);
    let narrowed = json!({"version": 1, "files": served[..1]});
    assert!(is_ok(&office.call("PUT", &wordy, "files", &narrowed)));
    let prepared = office.prepare(&wordy, &served[..1], &json!([reply("r-2", "phone-1")]));
    has_no_space(&prepared, expected);
    assert_eq!(prepared.json().unwrap()["status"], "CANCELLED", "{}", words(&prepared));
    let rolled_back = office.call("POST", &wordy, "rollback", &json!({"version": 1, "error": "x"}));
    assert!(is_ok(&rolled_back), "{}", words(&rolled_back));
    let (silent, served) = office.begin(1);
    assert_eq!(served, ["m-2"], "it is served again");
    assert!(is_ok(&office.prepare(&silent, &served, &json!([]))));
    assert!(is_ok(&office.commit(&silent)));
    let places = office.places();
    assert!(!places.contains_key("r-2"), "{places:?}");
    for (id, place) in [("m-0", "log"), ("m-1", "log"), ("m-2", "log"), ("m-3", "messages")] {
        assert_eq!(places[id], place, "{id}");
    }

    disk.relieve().unwrap();
    until("messages are taken again", || office.post(&phone, &refused, "small").status == 201);
    office.until_filed();
    for process in [&done, &ready, &silent] {
        until("every process is done", || office.state_of(process) == "DONE");
    }
    let (last, served) = office.begin(100);
    assert!(is_ok(&office.prepare(&last, &served, &json!([reply("r-2", "phone-1")]))));
    assert!(is_ok(&office.commit(&last)));
    assert_eq!(office.fetched(&phone), ["r-1", "r-2"]);
    office.until_filed();

    let places = office.places();
    office.served.stop().unwrap();
    let office = Office::open(&lair);
    assert_eq!(office.places(), places);
    office.until_filed();
}

#[test]
fn on_a_disk_below_its_watermark_devices_are_refused_and_processes_are_finished() {
    filled_up_and_relieved("1MiB", 10, "disk_low");
}

/// The journal has its space; the files have none, and the journal must not become where messages are.
#[test]
fn on_a_disk_without_a_byte_devices_are_refused_and_processes_are_finished() {
    filled_up_and_relieved("0", 64 << 10, "log.disk_full");
}

//! SIGHUP: what of `[exchange]` changes while the server runs, and what says that it does not.

use std::fs;

use handoff_tests::place::Place;
use handoff_tests::served::lair;
use serde_json::{Value, json};

use crate::office::{Office, code, is_ok, until, words};

#[test]
fn settings_of_the_exchange_change_while_it_runs_and_the_others_are_named() {
    let place = Place::temporary().unwrap();
    let file = place.path().join("handoff.toml");
    let before = "[exchange]\nmax_files = 3\nwaiting_max = 7\nreads_max = 4\n";
    fs::write(&file, before).unwrap();
    let lair = lair(place.path()).with(&format!("--config={}", file.display()));
    let office = Office::furnished(&lair);
    let phone = office.phone("phone-1");
    for n in 0..4 {
        office.stored(&phone, &format!("m-{n}"), "before");
    }
    let (process, served) = office.begin(10);
    assert_eq!(served.len(), 3);
    let interrupt = json!({"version": 1, "reason": "another time"});
    assert!(is_ok(&office.call("POST", &process, "interrupt", &interrupt)));

    let after = "[exchange]\nmax_files = 1\nqueue_max = 4\nmessage_bytes_max = \"1KiB\"\n\
                 request_messages_max = 2\nactivation_tries_max = 1\nfetch_messages_max = 1\n\
                 notify_sender = true\nwaiting_max = 8\nreads_max = 5\nenabled = false\n";
    fs::write(&file, after).unwrap();
    office.served.prey.reload().unwrap();
    let said = || fs::read_to_string(&lair.talk).unwrap();
    until("the server says so", || said().contains("the configuration was read again"));
    let said = said();
    let named = said.lines().find(|line| line.contains("in force with the next start"));
    let named = named.unwrap_or_else(|| panic!("{said}"));
    for key in ["exchange.enabled", "exchange.waiting_max", "exchange.reads_max"] {
        assert!(named.contains(key), "{named}");
    }
    for key in ["max_files", "queue_max", "tries_max", "notify_sender"] {
        assert!(!named.contains(key), "{named}");
    }

    // Everything else is in force, for whoever asks now.
    let full = office.post(&phone, "m-4", "after");
    assert_eq!((full.status, code(&full).as_str()), (503, "exchange.full"), "{}", words(&full));
    let (process, served) = office.begin(10);
    assert_eq!(served, ["m-0"]);
    let large = office.post(&phone, "m-5", &"x".repeat(2 << 10));
    assert_eq!(large.status, 413, "{}", words(&large));
    let ids = json!({"version": 1, "ids": ["a", "b", "c"]});
    let many = office.ask(Some(&phone), "POST", "messages/ack", &ids);
    assert_eq!(many.status, 422, "{}", words(&many));
    let verdicts = json!([{"messageId": "m-0", "status": "PROCESSED_INCORRECT", "error": "no"}]);
    let prepare = json!({"version": 1, "verdicts": verdicts, "messages": []});
    assert!(is_ok(&office.call("PUT", &process, "prepare", &prepare)));
    assert!(is_ok(&office.commit(&process)));
    assert_eq!(office.fetched(&phone).len(), 1, "the sender is told");
    let wrong = json!({"version": 1, "code": "AAAAAAAA"});
    let first = office.ask(None, "POST", "device/activate", &wrong);
    assert_eq!(code(&first), "exchange.wrong_code");
    let second = office.ask(None, "POST", "device/activate", &wrong);
    assert_eq!(code(&second), "exchange.too_many_tries");

    // One that cannot be used changes nothing.
    fs::write(&file, "[exchange]\nmax_files = 0\n").unwrap();
    office.served.prey.reload().unwrap();
    let said = || fs::read_to_string(&lair.talk).unwrap();
    until("the server says so", || said().contains("the configuration stays as it was"));
    assert!(said().contains("max_files"), "{}", said());
    assert_eq!(office.begin(10).1, ["m-1"]);

    fs::write(&file, after).unwrap();
    office.served.stop().unwrap();
    let office = Office::open(&lair);
    let off = office.tried("GET", "stats", &Value::Null);
    assert_eq!(code(&off), "room_off", "{}", words(&off));
}

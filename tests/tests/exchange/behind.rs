//! Files are written behind the journal. When they are too far behind, nothing new is taken, and the
//! journal has its bound whatever the folders do.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io, thread};

use handoff_tests::http::Http;
use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::{PATIENCE, lair};
use serde_json::json;

use crate::office::{Office, SMALL, code, is_ok, message, until, words};

const JOURNAL_BYTES_MAX: u64 = 8 << 20;

fn small(place: &Place, behind_max: &str) -> Lair {
    let lair = SMALL.iter().fold(lair(place.path()), |lair, (key, value)| lair.set(key, value));
    lair.set("HANDOFF_SERVER__DISK_FREE_MIN", "0")
        .set("HANDOFF_EXCHANGE__FILES_BEHIND_SECS_MAX", behind_max)
}

/// Has something in the place of a folder that no file can be put into, whoever tries.
fn obstruct(office: &Office) -> std::path::PathBuf {
    let folder = office.exchange.join("erp1/Messages");
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::write(&folder, "in the way").unwrap();
    folder
}

/// What the files of a folder take. One that gets its final name meanwhile may be met under either name,
/// both or none.
fn bytes_below(path: &Path) -> u64 {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let met = entries.filter_map(|entry| match entry.metadata() {
        Ok(known) => Some((known.ino(), known.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", entry.path().display()),
    });
    met.collect::<BTreeMap<u64, u64>>().into_values().sum()
}

#[test]
fn when_files_are_too_far_behind_devices_wait_and_what_was_begun_goes_on() {
    let place = Place::temporary().unwrap();
    let office = Office::furnished(&small(&place, "1s"));
    let phone = office.phone("phone-1");
    let folder = obstruct(&office);
    office.stored(&phone, "m-1", "first");
    let mut stored = vec!["m-1".to_owned()];
    let mut refused = None;
    until("the door is closed", || {
        let id = format!("more-{}", stored.len());
        let answer = office.post(&phone, &id, "x");
        match answer.status {
            201 => stored.push(id),
            _ => refused = Some(answer),
        }
        refused.is_some()
    });
    let refused = refused.unwrap();
    assert_eq!(
        (refused.status, code(&refused).as_str()),
        (503, "log.room_busy"),
        "{}",
        words(&refused)
    );
    assert!(words(&refused).contains("behind"), "{}", words(&refused));
    assert!(refused.header("retry-after").is_some());
    let stats = office.see("stats");
    assert_eq!((&stats["filesStuck"], &stats["unfiled"]), (&json!(true), &json!(stored.len())));
    assert!(stats["filesBehindSecs"].as_f64().unwrap() > 1.0, "{stats}");

    // From the journal.
    let (process, served) = office.begin(1);
    assert_eq!(served, ["m-1"]);
    assert!(is_ok(&office.prepare(&process, &served, &json!([]))));
    assert!(is_ok(&office.commit(&process)));

    fs::remove_file(&folder).unwrap();
    until("the door is open", || office.post(&phone, "last", "x").status == 201);
    stored.push("last".to_owned());
    office.until_filed();
    assert_eq!(office.see("stats")["filesStuck"], false);
    let places = office.places();
    assert_eq!(places.len(), stored.len());
    assert!(stored.iter().all(|id| places.contains_key(id)), "{places:?}");
}

/// The door is slowed before it is closed, from half of what files may be behind: whoever sends faster
/// than files are written waits a little and need not know.
#[test]
fn when_files_are_a_little_behind_a_device_waits_for_them_and_is_not_refused() {
    let place = Place::temporary().unwrap();
    let office = Office::furnished(&small(&place, "5s"));
    let phone = office.phone("phone-1");
    let folder = obstruct(&office);
    office.stored(&phone, "m-1", "first");
    until("files are a little behind", || {
        office.see("stats")["filesBehindSecs"].as_f64().unwrap() > 2.5
    });
    let mut http = Http::connect(office.served.http, PATIENCE).unwrap().bearing(&phone);
    let waiting = thread::spawn(move || {
        http.ask("POST", "/v1/exchange/messages", Some(&message("late", "x"))).unwrap()
    });
    until("it waits for a while", || {
        office.see("stats")["filesBehindSecs"].as_f64().unwrap() > 3.0
    });
    assert!(!waiting.is_finished() && !office.places().contains_key("late"));
    // What only finishes something passes.
    let (process, served) = office.begin(1);
    assert!(is_ok(&office.prepare(&process, &served, &json!([]))));
    fs::remove_file(&folder).unwrap();
    assert_eq!(waiting.join().unwrap().status, 201);
    office.until_filed();
}

#[test]
fn a_folder_that_takes_nothing_does_not_let_the_journal_grow() {
    let place = Place::temporary().unwrap();
    let lair = small(&place, "1d");
    let office = Office::furnished(&lair);
    let phone = office.phone("phone-1");
    let folder = obstruct(&office);
    let journal = lair.data_dir.join("journal");
    let payload = "x".repeat(256 << 10);
    let mut stored = 0;
    let refused = loop {
        let answer = office.post(&phone, &format!("m-{stored}"), &payload);
        assert!(bytes_below(&journal) <= JOURNAL_BYTES_MAX);
        if answer.status != 201 {
            break answer;
        }
        stored += 1;
        assert!(stored < 100, "the journal has no bound");
    };
    assert_eq!(code(&refused), "log.journal_full", "{}", words(&refused));
    assert_eq!(refused.status, 503);
    assert!(stored > 8, "{stored} stored");
    assert_eq!(office.places().len(), stored, "what was refused left no trace");
    // What is decided still has its space.
    let (process, served) = office.begin(2);
    assert_eq!(served.len(), 2);
    assert!(is_ok(&office.prepare(&process, &served, &json!([]))));
    assert!(is_ok(&office.commit(&process)));

    fs::remove_file(&folder).unwrap();
    until("the journal takes messages", || office.post(&phone, "last", &payload).status == 201);
    office.until_filed();
    assert_eq!(office.places().len(), stored + 1);
    assert!(bytes_below(&journal) <= JOURNAL_BYTES_MAX);
}

//! The configuration: every mistake is found, with its place and what was meant.

use crate::program::Place;

#[test]
fn a_typo_is_refused_with_its_line_and_what_was_meant() {
    let place = Place::new();
    let text = "# mine\n[server]\nlisen = \"127.0.0.1:7070\"\n\n[events]\ntypes_max = 0\n";
    place.file("handoff.toml", text);
    let expected = [
        "2 problems",
        "handoff.toml:3:1: there is no key `lisen` in [server]",
        "did you mean `listen`?",
        "handoff.toml:6:13: events.types_max: 0 is out of range: allowed is 1 to 10000",
    ];
    place.run(&["config", "check"]).ended(1).said(&expected);
    place.run(&["config", "check", "handoff.toml"]).ended(1).said(&expected);
    place.run(&["serve"]).ended(1).said(&expected).said(&["handoff config check"]);
    let found = place.run(&["config", "check", "--json"]).ended(1).json();
    assert_eq!(found["problems"][0]["at"], "handoff.toml:3:1");
    assert_eq!(found["problems"][0]["help"], "did you mean `listen`?");
}

#[test]
fn a_key_of_another_section_is_shown_there() {
    let place = Place::new();
    place.file("handoff.toml", "[events]\ndata_dir = \"x\"\n");
    place.run(&["config", "check"]).ended(1).said(&["did you mean [server] data_dir?"]);
}

#[test]
fn a_sound_file_is_sound() {
    let place = Place::new();
    place
        .run(&["config", "check"])
        .ended(0)
        .said(&["there is no file", "/etc/handoff/handoff.toml"]);
    place.file("handoff.toml", "[events]\ncatch_up = \"once\"\n");
    place.run(&["config", "check"]).ended(0).said(&["handoff.toml is sound"]);
    place.run(&["config", "check", "--quiet"]).ended(0);
    let defaults = place.run(&["config", "show", "--defaults"]).ended(0);
    place.file("mine.toml", &defaults.data);
    place.run(&["config", "check", "mine.toml"]).ended(0);
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let place = Place::new();
    place
        .run(&["serve", "--config", "nowhere.toml"])
        .ended(1)
        .said(&["nowhere.toml", "cannot be read"]);
    place.run(&["config", "check", "nowhere.toml"]).ended(1).said(&["nowhere.toml"]);
    place.run(&["config", "check", "."]).ended(1).said(&["cannot be read"]);
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let place = Place::new();
    let shown = |place: &Place, flags: &[&str]| {
        let arguments: Vec<&str> =
            ["config", "show", "--json"].iter().chain(flags).copied().collect();
        let all = place.run(&arguments).ended(0).json();
        let keys = all["keys"].as_array().unwrap();
        let key = keys.iter().find(|key| key["key"] == "events.types_max").unwrap().clone();
        (
            key["value"].as_u64().unwrap(),
            key["from"].as_str().unwrap().to_owned(),
            key["at"].clone(),
        )
    };
    assert_eq!(shown(&place, &[]).0, 64);
    place.file("handoff.toml", "[events]\ntypes_max = 3\n");
    assert_eq!(shown(&place, &[]), (3, "file".to_owned(), "handoff.toml:2:1".into()));
    let place = place.variable("HANDOFF_EVENTS__TYPES_MAX", "4");
    assert_eq!(shown(&place, &[]), (4, "env".to_owned(), "HANDOFF_EVENTS__TYPES_MAX".into()));
    assert_eq!(
        shown(&place, &["--set", "events.types_max=5"]),
        (5, "flag".to_owned(), "--set".into())
    );
}

#[test]
fn what_is_shown_says_where_each_value_came_from() {
    let place = Place::new().variable("HANDOFF_SERVER__LISTEN", "127.0.0.1:9");
    place.file("handoff.toml", "[log]\nsegment_bytes = \"1MiB\"\n");
    place.run(&["config", "show", "--data-dir", "here"]).ended(0).printed(&[
        "listen = \"127.0.0.1:9\"",
        "# HANDOFF_SERVER__LISTEN",
        "data_dir = \"here\"",
        "# --data-dir",
        "segment_bytes = \"1MiB\"",
        "# handoff.toml:2:1",
        "# default",
    ]);
}

#[test]
fn a_variable_that_sets_nothing_is_refused_with_what_was_meant() {
    for (name, value, words) in [
        ("HANDOFF_EVENTS__TYPE_MAX", "1", "did you mean `types_max`?"),
        ("HANDOFF_EVENT__TYPES_MAX", "1", "did you mean [events]?"),
        ("HANDOFF_EVENTS_TYPES_MAX", "1", "HANDOFF_EVENTS__TYPES_MAX, with two underscores"),
        ("HANDOFF_EVENTS__TYPES_MAX", "many", "no whole number"),
        ("HANDOFF_SERVER__SLOW_MS", "1h1h", "1h30m"),
    ] {
        let place = Place::new().variable(name, value);
        place.run(&["serve"]).ended(1).said(&[name, words]);
    }
    let place = Place::new().variable("HANDOFF_SERVICE_HOST", "10.0.0.1");
    place.run(&["config", "check"]).ended(0);
}

#[test]
fn keys_that_contradict_each_other_are_refused() {
    for (text, words) in [
        ("[server]\ntls_cert_file = \"c\"\n", "without server.tls_key_file"),
        ("[events]\ntls = true\n", "no certificate"),
        ("[server]\nlisten = \"0.0.0.0:7070\"\n", "auth.enabled is false"),
        ("[events]\nlisten = \"[::]:5987\"\n", "auth.enabled is false"),
        ("[log]\njournal_reserve_bytes = \"1GiB\"\n", "journal_reserve_bytes"),
        ("[server]\nlog_level = \"verbose\"\n", "is no log level"),
    ] {
        let place = Place::new();
        place.file("handoff.toml", text);
        place.run(&["config", "check"]).ended(1).said(&[words]);
        place.run(&["serve"]).ended(1).said(&[words]);
    }
}

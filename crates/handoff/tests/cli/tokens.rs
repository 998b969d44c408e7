//! Tokens of a stopped server, and of one that runs.

use crate::program::Place;

#[test]
fn the_first_token_is_made_on_a_stopped_server_and_opens_it() {
    let place = Place::small();
    let made = place
        .run(&["token", "create", "--name", "first", "--scope", "admin", "--data-dir", "data"])
        .ended(0)
        .said(&["not shown again"]);
    let token = made.lines()[0].to_owned();
    assert_eq!(made.lines().len(), 1, "{}", made.data);
    let listed = place.run(&["token", "list", "--data-dir", "data", "--json"]).ended(0);
    assert_eq!(listed.json_lines()[0]["name"], "first");
    assert!(!listed.data.contains(&token), "a token's text is never shown again");

    let server = place.serve(&["--set", "auth.enabled=true"]);
    place.run(&["--url", &server.url, "audit"]).ended(4).said(&["auth.token_missing", "try:"]);
    let bad = ["--url", &server.url, "--token", "ho_nonsense", "audit"];
    place.run(&bad).ended(4).said(&["auth.token_unknown"]);
    place.file("token", &format!("{token}\n"));
    let arguments = ["--url", &server.url, "--token-file", "token", "audit", "--json"];
    let acts = place.run(&arguments).ended(0).json_lines();
    assert!(!acts.is_empty(), "making a token is an act");
    assert_eq!(acts.last().unwrap()["who"], "local");
}

#[test]
fn a_token_is_made_listed_and_revoked_over_http() {
    let place = Place::small();
    let server = place.serve(&[]);
    let run = |arguments: &[&str]| {
        let all: Vec<&str> = ["--url", &server.url].iter().chain(arguments).copied().collect();
        place.run(&all)
    };
    let create =
        ["token", "create", "--name", "ci", "--scope", "events:acme.*", "--expires", "90d"];
    let made = run(&[&create[..], &["--json"]].concat()).ended(0).json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["scopes"][0], "events:acme.*");
    assert!(made["expiresAt"].is_string(), "{made}");
    run(&["token", "list"]).ended(0).printed(&[id, "ci", "events:acme.*"]);
    run(&["token", "revoke", id]).ended(0).said(&["opens nothing"]);
    run(&["token", "revoke", id]).ended(3).said(&["token_not_found", "handoff token list"]);
    assert!(!run(&["token", "list"]).ended(0).data.contains(id));
}

#[test]
fn the_directory_of_a_server_that_runs_is_refused_with_what_to_do() {
    let place = Place::small();
    let server = place.serve(&[]);
    let holder = format!("process {}", server.id());
    let create = ["token", "create", "--name", "x", "--scope", "admin", "--data-dir", "data"];
    place.run(&create).ended(5).said(&["in use", &holder, "--url"]);
    place.run(&["token", "list", "--data-dir", "data"]).ended(5).said(&["in use"]);
}

#[test]
fn whoever_only_looks_makes_no_directory() {
    let place = Place::small();
    place
        .run(&["token", "list", "--data-dir", "nowhere"])
        .ended(1)
        .said(&["nowhere", "--data-dir"]);
    assert!(!place.path("nowhere").exists());
    let revoke = ["token", "revoke", "aaaaaaaa", "--data-dir", "nowhere"];
    place.run(&revoke).ended(1).said(&["nowhere", "--data-dir"]);
    assert!(!place.path("nowhere").exists());
}

#[test]
fn a_token_that_has_ended_already_is_not_made() {
    let place = Place::small();
    let create = ["token", "create", "--name", "x", "--scope", "admin", "--data-dir", "data"];
    let past = [&create[..], &["--expires", "2020-01-01T00:00:00Z"]].concat();
    place.run(&past).ended(2).said(&["--expires 2020-01-01T00:00:00Z is past", "try:"]);
    assert!(!place.path("data").exists(), "nothing was begun");
}

#[test]
fn a_lock_without_a_key_is_told_loudly_and_only_then() {
    let place = Place::small();
    let lock = ["--set", "auth.enabled=true", "--set", "server.log_level=warn"];
    let server = place.serve(&lock);
    server.wait_for("there is no token");
    let (_, talk) = server.stop();
    for words in ["WARN", "nobody can do anything", "token create", "--data-dir"] {
        assert!(talk.contains(words), "{words}: {talk}");
    }
    let create = ["token", "create", "--name", "x", "--scope", "admin", "--data-dir", "data"];
    place.run(&create).ended(0);
    let (_, talk) = place.serve(&lock).stop();
    assert!(!talk.contains("there is no token"), "{talk}");
}

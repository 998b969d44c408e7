//! Calls on the command line, against a server that runs.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{Going, Place, Ran, Server};

struct House {
    place: Place,
    server: Server,
}

impl House {
    fn new() -> Self {
        let place = Place::small();
        let server = place.serve(&[]);
        Self { place, server }
    }

    fn with_url<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        ["--url", &self.server.url].iter().chain(arguments).copied().collect()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.place.run(&self.with_url(arguments))
    }

    /// A worker that serves.
    fn worker(&self, arguments: &[&str]) -> Going {
        let mut worker = self.place.start(&self.with_url(&[&["worker"], arguments].concat()));
        assert!(worker.hears().starts_with("serving "));
        worker
    }
}

#[test]
fn a_call_is_answered_by_a_command() {
    let house = House::new();
    let worker = house.worker(&["shout", "--exec", "tr a-z A-Z", "--max", "4"]);
    let answer = house.run(&["call", "shout", "{\"say\": [\"hello\"]}"]).ended(0);
    assert_eq!(answer.lines(), ["{\"SAY\": [\"HELLO\"]}"], "as the command said it");
    let answer = house.run(&["call", "shout", "\"ä\"", "--json"]).ended(0).json();
    assert_eq!((answer["id"].as_str().unwrap().len(), &answer["answer"]), (36, &json!("ä")));
    for arguments in [&["call", "shout"][..], &["call", "shout", "-"]] {
        let mut command = house.place.command(&house.with_url(arguments));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"\"of stdin\"\n").unwrap();
        let answer = Ran::of(arguments, child.wait_with_output().unwrap()).ended(0);
        assert_eq!(answer.lines(), ["\"OF STDIN\""]);
    }
    worker.end().ended(0).said(&["4 calls served"]);
}

#[test]
fn a_command_is_told_about_its_call() {
    let house = House::new();
    let command = "cat > /dev/null; echo \"$HANDOFF_CHANNEL $HANDOFF_ATTEMPT $HANDOFF_FENCE \
                   $HANDOFF_TRACEPARENT ${#HANDOFF_CALL} ${#HANDOFF_CALLER}\"; \
                   test \"$HANDOFF_DEADLINE_MS\" -gt 0";
    let worker = house.worker(&["who", "--exec", command, "--text", "--max", "1"]);
    let told = house.run(&["call", "who", "1", "--traceparent", "00-ab-cd-01"]).ended(0);
    assert_eq!(told.lines(), ["\"who 1 1 00-ab-cd-01 36 36\""]);
    worker.end().ended(0);
}

#[test]
fn what_goes_wrong_has_its_exit_code() {
    let house = House::new();
    house.run(&["call", "nobody", "1", "--only-with-worker"]).ended(5).said(&["no_consumer"]);
    house.run(&["call", "nobody", "1", "--timeout", "10ms"]).ended(5).said(&["deadline"]);
    house.run(&["call", "nobody", "tea"]).ended(2).said(&["is no JSON", "quotes"]);
    house.run(&["call", "no body", "1"]).ended(2).said(&["channel"]);
    house.run(&["worker", "a b", "--exec", "cat"]).ended(2).said(&["channel"]);
    house.run(&["worker", "a"]).ended(2);
    let none = "00000000-0000-4000-8000-000000000001";
    house.run(&["calls", "show", none]).ended(3).said(&["calls.not_found"]);
    house.run(&["calls", "cancel", none]).ended(3);
    house.run(&["calls", "show", "7"]).ended(2);
    let place = Place::new();
    let away = ["--url", "http://127.0.0.1:1"];
    place.run(&[&away[..], &["call", "a", "1"]].concat()).ended(5);
    place.run(&[&away[..], &["worker", "a", "--exec", "cat"]].concat()).ended(5);
}

#[test]
fn a_command_that_fails_is_an_error_with_its_last_words() {
    let house = House::new();
    let command = "read -r x; echo \"out of $x\" >&2; exit \"$x\"";
    let worker = house.worker(&["fail", "--exec", command, "--terminal", "3", "--max", "4"]);
    // Terminal: it is not tried again.
    house.run(&["call", "fail", "3"]).ended(1).said(&["out of 3", "exit_3"]);
    // Three attempts, and a dead letter.
    house.run(&["call", "fail", "7"]).ended(1).said(&["out of 7", "exit_7"]);
    worker.end().ended(0).said(&["(attempt 3)"]);

    let dead = house.run(&["calls", "dead", "list"]).ended(0);
    let cells: Vec<&str> = dead.lines()[0].split('\t').collect();
    assert_eq!((cells[1], cells[2]), ("fail", "3"), "{}", dead.data);
    let id = cells[0].to_owned();
    let shown = house.run(&["calls", "dead", "show", &id]).ended(0);
    shown.printed(&["params\t7", "dead\tyes", "CommandFailed: out of 7 (exit_7)", "history\t"]);

    let again = house.run(&["calls", "dead", "requeue", &id]).ended(0);
    let again = again.said(&["1 dead letter called again"]).lines()[0].to_owned();
    house.worker(&["fail", "--exec", "cat", "--max", "1"]).end().ended(0);
    let shown = house.run(&["calls", "show", &again, "--json"]).ended(0).json();
    assert_eq!((&shown["outcome"], &shown["answer"]), (&json!("answer"), &json!(7)));
    assert_eq!(shown["requeuedFrom"], json!(id));
    house.run(&["calls", "dead", "purge", "fail"]).ended(4).said(&["--yes"]);
    house.run(&["calls", "dead", "purge", "fail", "--yes"]).ended(0);
    house.run(&["calls", "dead", "list", "fail"]).ended(0).said(&["no dead letters"]);
}

#[test]
fn a_call_that_nobody_waits_for_is_listed_shown_and_cancelled() {
    let house = House::new();
    let id = house.run(&["call", "later", "{\"n\":1}", "--no-wait"]).ended(0).lines()[0].to_owned();
    let listed = house.run(&["calls", "list", "--open"]).ended(0);
    assert!(
        listed.lines()[0].starts_with(&format!("{id}\tlater\twaiting\t-\t0\t")),
        "{}",
        listed.data
    );
    let channels = house.run(&["calls", "channels"]).ended(0);
    assert!(
        channels.lines()[0].starts_with("later\t0\t1\t0\t0\t3\tredeliver"),
        "{}",
        channels.data
    );
    house.run(&["calls", "show", &id]).ended(0).printed(&["params\t{\"n\":1}", "stage\twaiting"]);
    house.run(&["calls", "cancel", &id]).ended(0).said(&["is cancelled"]);
    house.run(&["calls", "cancel", &id]).ended(0);
    let shown = house.run(&["calls", "show", &id, "--json"]).ended(0).json();
    assert_eq!((&shown["stage"], &shown["outcome"]), (&json!("over"), &json!("cancelled")));
    house.run(&["calls", "list", "--open"]).ended(0).said(&["there are no calls"]);
    let all = house.run(&["calls", "list", "--channel", "later", "--json"]).ended(0).json_lines();
    assert_eq!(all.len(), 1);
}

#[test]
fn calls_with_one_key_are_one() {
    let house = House::new();
    let worker = house.worker(&["count", "--exec", "echo \"\\\"$HANDOFF_CALL\\\"\"", "--max", "1"]);
    let call = ["call", "count", "1", "--key", "order-7"];
    let first = house.run(&call).ended(0);
    worker.end().ended(0);
    assert_eq!(house.run(&call).ended(0).data, first.data, "nobody is there to run it again");
    house.run(&["call", "count", "2", "--key", "order-7"]).ended(4).said(&["calls.key_reused"]);
}

#[test]
fn a_command_that_lives_serves_many_and_is_started_again_when_it_dies() {
    let house = House::new();
    let command = "n=0; while read -r x; do n=$((n+1)); test \"$x\" = 0 && exit 9; echo $n; done";
    let worker = house.worker(&["count", "--lines", command, "--max", "6"]);
    let call = |params: &str| house.run(&["call", "count", params]);
    assert_eq!(call("1").ended(0).lines(), ["1"]);
    assert_eq!(call("{\n\"a\": 1\n}").ended(0).lines(), ["2"], "one line each");
    call("0").ended(1).said(&["command_ended"]);
    assert_eq!(call("1").ended(0).lines(), ["1"], "a new one");
    worker.end().ended(0);
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let house = House::new();
    let hang = "exec tail -f /dev/null";
    let worker = ["hang", "--exec", hang, "--time-limit", "50ms", "--max", "3"];
    let worker = house.worker(&worker);
    house.run(&["call", "hang", "1"]).ended(1).said(&["time_limit", "longer than 0.05 s"]);
    worker.end().ended(0);
}

#[test]
fn whoever_is_told_to_stop_finishes_what_runs() {
    use rustix::process::Signal;
    let house = House::new();
    let fifo = house.place.path("gate");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let command = format!("echo begun >&2; cat '{}'", fifo.display());
    let mut worker = house.worker(&["gate", "--exec", &command]);
    let call = house.place.start(&house.with_url(&["call", "gate", "1"]));
    assert_eq!(worker.hears(), "begun");
    worker.signal(Signal::TERM);
    // Opened once the command reads it, and the call is still its own.
    std::fs::write(&fifo, "\"done\"").unwrap();
    let answered = call.end().ended(0);
    assert_eq!(answered.lines(), ["\"done\""]);
    worker.end().ended(0).said(&["1 call served"]);
}

#[test]
fn what_a_worker_did_is_printed_as_json() {
    let house = House::new();
    let worker = house.worker(&["one", "--exec", "cat", "--max", "1", "--json"]);
    house.run(&["call", "one", "1"]).ended(0);
    let did: Value = worker.end().ended(0).json();
    assert_eq!(
        (&did["channel"], &did["attempt"], &did["error"]),
        (&json!("one"), &json!(1), &Value::Null)
    );
}

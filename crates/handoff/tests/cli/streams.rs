//! Topics and messages on the command line, against a server that runs.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{Place, Ran, Server};

pub(crate) struct House {
    pub(crate) place: Place,
    pub(crate) server: Server,
}

impl House {
    /// A server with a topic `orders`.
    pub(crate) fn new(partitions: &str) -> Self {
        let place = Place::small();
        let server = place.serve(&[]);
        let house = Self { place, server };
        house.run(&["topic", "create", "orders", "--partitions", partitions]).ended(0);
        house
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let all: Vec<&str> = ["--url", &self.server.url].iter().chain(arguments).copied().collect();
        self.place.run(&all)
    }

    /// The same with something on stdin.
    fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        let mut command = self.place.command(&["--url", &self.server.url]);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        Ran::of(arguments, child.wait_with_output().unwrap())
    }

    fn payloads(&self, arguments: &[&str]) -> Vec<String> {
        let read = ["read", "orders", "--output-format", "raw"];
        let ran = self.run(&[&read[..], arguments].concat()).ended(0);
        ran.lines().iter().map(|line| (*line).to_owned()).collect()
    }
}

#[test]
fn a_topic_is_made_listed_shown_grown_changed_and_deleted() {
    let house = House::new("2");
    house.run(&["topic", "create", "orders", "--partitions", "3"]).ended(4).said(&["topic_exists"]);
    house.run(&["topic", "create", "a b"]).ended(4).said(&["streams.invalid", "name of a topic"]);
    let settings = ["--retention", "none", "--retention-bytes", "1GiB", "--durability", "os"];
    let create = ["topic", "create", "samples", "--compression", "zstd", "--json"];
    let made = house.run(&[&create[..], &settings].concat()).ended(0).json();
    assert_eq!(made["retentionMs"], Value::Null);
    assert_eq!((&made["retentionBytes"], &made["durability"]), (&(1 << 30).into(), &"os".into()));

    let listed = house.run(&["topic", "list"]).ended(0);
    assert_eq!(listed.lines().len(), 2, "{}", listed.data);
    assert!(listed.lines()[0].starts_with("orders\t2\t0\t0\t7d\tfsync\tnone"), "{}", listed.data);
    assert_eq!(house.run(&["topic", "list", "--limit", "1"]).ended(0).lines().len(), 1);

    let shown = house.run(&["topic", "show", "orders"]).ended(0);
    let shown = shown.printed(&["name\torders", "skew\t", "\n0\t0\t0\t0\t-\n", "\n1\t0\t0\t0\t-"]);
    assert_eq!(shown.lines().len(), 9 + 2, "{}", shown.data);
    house.run(&["topic", "show", "nothing"]).ended(3).said(&["topic_not_found"]);

    let grow = ["topic", "grow", "orders", "--partitions", "5"];
    house.run(&grow).ended(4).said(&["from 2 to 5", "keys go elsewhere", "--yes"]);
    house.run(&[&grow[..], &["--yes"]].concat()).ended(0).said(&["5 partitions"]);
    house.run(&[&grow[..], &["--yes"]].concat()).ended(4).said(&["never gets fewer"]);

    let set = house.run(&["topic", "set", "orders", "--retention", "1d", "--json"]).ended(0).json();
    assert_eq!((&set["retentionMs"], &set["partitions"]), (&86_400_000.into(), &5.into()));
    house.run(&["topic", "set", "orders"]).ended(2);

    house.run(&["topic", "delete", "orders"]).ended(4).said(&["0 messages", "--yes"]);
    house.run(&["topic", "delete", "orders", "--yes"]).ended(0);
    house.run(&["topic", "delete", "orders", "--yes"]).ended(3);
    house.run(&["topic", "delete", "samples", "--yes"]).ended(0);
    house.run(&["topic", "list"]).ended(0).said(&["there are no topics"]);
}

#[test]
fn messages_come_from_arguments_lines_and_files_and_are_read_as_they_were() {
    let house = House::new("1");
    let ran = house.run(&["produce", "orders", "one", "two\ttabs", "--key", "k"]).ended(0);
    assert_eq!(ran.lines(), ["stored\t0\t0\t-", "stored\t0\t1\t-"]);
    ran.said(&["2 messages stored in orders"]);
    let ran = house.run_with(&["produce", "orders"], b"three\nfour\r\n\nlast").ended(0);
    assert_eq!(ran.data, "", "a thousand lines would be a thousand results");
    let keyed = ["produce", "orders", "--key-separator", ":", "--header", "a=b", "--json"];
    let results = house.run_with(&keyed, b"x:y\nz\n").ended(0).json_lines();
    assert_eq!((&results[1]["status"], &results[1]["offset"]), (&"stored".into(), &7.into()));
    let (first, second) = (house.place.file("1", "a\nb"), house.place.file("2", "c\n"));
    let files = ["--file", first.to_str().unwrap(), "--file", second.to_str().unwrap()];
    house.run(&[&["produce", "orders"], &files[..]].concat()).ended(0);
    house.run(&[&["produce", "orders", "--whole"], &files[..]].concat()).ended(0);

    let all = house.run(&["read", "orders", "--json"]).ended(0).json_lines();
    let payloads: Vec<&str> = all.iter().map(|m| m["payload"].as_str().unwrap()).collect();
    let expected =
        ["one", "two\ttabs", "three", "four", "", "last", "y", "z", "a", "b", "c", "a\nb", "c\n"];
    assert_eq!(payloads, expected);
    assert_eq!(
        (&all[0]["key"], &all[6]["key"], &all[7]["key"]),
        (&"k".into(), &"x".into(), &Value::Null)
    );
    assert_eq!(all[6]["headers"]["a"], "b");
    let lines = house.run(&["read", "orders", "--limit", "2"]).ended(0);
    let cells: Vec<&str> = lines.lines()[1].split('\t').collect();
    assert_eq!((cells[0], cells[1], cells[3], cells[4]), ("0", "1", "k", "two\\ttabs"));

    assert_eq!(house.payloads(&["--partition", "0", "--from", "6", "--limit", "2"]), ["y", "z"]);
    assert_eq!(house.payloads(&["--key", "k"]), ["one", "two\ttabs"]);
    assert_eq!(house.payloads(&["--from", "1h"]).len(), 15, "two of them hold a newline");
    house.run(&["read", "orders", "--from", "latest"]).ended(0).said(&["nothing to read"]);
}

#[test]
fn all_partitions_are_read_in_the_order_of_their_times() {
    let house = House::new("3");
    let mut expected = Vec::new();
    for n in 0..9 {
        let (payload, partition) = (n.to_string(), (n * 2 % 3).to_string());
        house.run(&["produce", "orders", &payload, "--partition", &partition]).ended(0);
        expected.push(payload);
    }
    let all = house.run(&["read", "orders", "--json"]).ended(0).json_lines();
    let time = |message: &Value| message["timestamp"].as_str().unwrap().to_owned();
    assert!(all.windows(2).all(|pair| time(&pair[0]) <= time(&pair[1])), "{all:?}");
    let mut payloads = house.payloads(&[]);
    payloads.sort();
    assert_eq!(payloads, expected);
    assert_eq!(house.payloads(&["--partition", "2"]), ["1", "4", "7"]);
}

#[test]
fn a_topic_is_followed_until_there_is_enough() {
    let house = House::new("2");
    house.run(&["produce", "orders", "before"]).ended(0);
    let follow =
        ["--url", &house.server.url, "read", "orders", "--follow", "--limit", "2", "--json"];
    let mut latest = house.place.start(&follow);
    let mut earliest = house.place.start(&[&follow[..], &["--from", "earliest"]].concat());
    for reader in [&mut latest, &mut earliest] {
        assert!(reader.hears().contains("following orders"));
    }
    house.run(&["produce", "orders", "a", "b", "--partition", "1"]).ended(0);
    let payloads = |ran: Ran| -> Vec<String> {
        let lines = ran.ended(0).json_lines();
        lines.iter().map(|message| message["payload"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(payloads(latest.end()), ["a", "b"]);
    assert_eq!(payloads(earliest.end()), ["before", "a"]);
}

#[test]
fn a_message_may_wait_for_its_time_and_be_taken_back() {
    let house = House::new("1");
    let ran = house.run(&["produce", "orders", "later", "--in", "1h", "--json"]).ended(0);
    let result = ran.json();
    assert_eq!(result["status"], "scheduled");
    let id = result["id"].as_str().unwrap();
    house
        .run(&["produce", "orders", "much later", "--deliver-at", "2037-01-01T00:00:00Z"])
        .ended(4);
    let waiting = house.run(&["topic", "scheduled", "orders"]).ended(0);
    assert_eq!(waiting.lines().len(), 1, "{}", waiting.data);
    assert!(waiting.lines()[0].starts_with(id), "{}", waiting.data);
    house.run(&["read", "orders"]).ended(0).said(&["nothing to read"]);
    house.run(&["topic", "cancel", id]).ended(0).said(&["will not be delivered"]);
    house.run(&["topic", "cancel", id]).ended(3);
    house.run(&["topic", "scheduled", "orders"]).ended(0).said(&["nothing waits"]);
}

#[test]
fn a_producer_goes_on_where_it_was() {
    let house = House::new("1");
    let guid = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab";
    for (sequence, payload) in [(1, "a"), (2, "b")] {
        let produce = ["produce", "orders", payload, "--producer", guid, "--json"];
        assert_eq!(house.run(&produce).ended(0).json()["sequence"], sequence);
    }
    assert_eq!(house.payloads(&[]), ["a", "b"], "the same sequence would be a duplicate");
}

#[test]
fn what_cannot_be_done_is_told_by_its_exit_code() {
    let house = House::new("2");
    house
        .run(&["produce", "nothing", "x"])
        .ended(3)
        .said(&["topic_not_found", "0 messages stored"]);
    house.run(&["produce", "orders", "x", "--partition", "9"]).ended(3).said(&["partition"]);
    house
        .run(&["produce", "orders", "--file", "no-such-file"])
        .ended(3)
        .said(&["nothing was sent"]);
    house.run(&["produce", "orders", "x", "--deliver-at", "soon"]).ended(2).said(&["2027-01-01"]);
    house.run(&["produce", "orders", "x", "--rate", "fast"]).ended(2).said(&["1000/s"]);
    house.run(&["produce", "orders", "x", "--producer", "me"]).ended(4).said(&["GUID"]);
    house.run(&["read", "nothing"]).ended(3);
    house.run(&["read", "orders", "--partition", "9"]).ended(3).said(&["partition"]);
    house.run(&["read", "orders", "--from", "7"]).ended(2).said(&["--partition"]);
    house.run(&["read", "orders", "--from", "yesterday"]).ended(2).said(&["2027-01-01"]);
    let nobody = ["--url", "http://127.0.0.1:1"];
    for verb in [&["produce", "orders", "x"][..], &["read", "orders"], &["topic", "list"]] {
        house.place.run(&[&nobody[..], verb].concat()).ended(5).said(&["cannot reach"]);
    }
}

#[test]
fn a_rate_is_not_exceeded() {
    let house = House::new("1");
    let begun = tokio::time::Instant::now();
    let ran = house.run_with(&["produce", "orders", "--rate", "20/s"], b"0\n1\n2\n3\n4\n");
    ran.ended(0).said(&["5 messages stored"]);
    assert!(begun.elapsed().as_millis() >= 200, "{:?}", begun.elapsed());
}

//! Groups on the command line, against a server that runs.

use serde_json::Value;

use crate::program::Ran;
use crate::streams::House;

/// A server with a topic `orders`, of one partition, and these messages in it.
fn house(messages: &[&str]) -> House {
    let house = House::new("1");
    if !messages.is_empty() {
        house.run(&[&["produce", "orders"], messages].concat()).ended(0);
    }
    house
}

fn consume(house: &House, arguments: &[&str]) -> Ran {
    house.run(&[&["consume", "orders", "--group", "billing"], arguments].concat())
}

fn payloads(ran: Ran) -> Vec<String> {
    let lines = ran.ended(0).json_lines();
    lines.iter().map(|message| message["payload"].as_str().unwrap().to_owned()).collect()
}

/// How much a group has still to do.
fn lag(house: &House) -> Value {
    house.run(&["group", "show", "billing", "--json"]).ended(0).json()["lag"].clone()
}

#[test]
fn each_group_gets_each_message_once() {
    let house = house(&["a", "b", "c"]);
    let first = consume(&house, &["--max", "2", "--json"]);
    assert_eq!(payloads(first), ["a", "b"]);
    let rest = consume(&house, &["--max", "1"]).ended(0).said(&["1 message consumed by group"]);
    let cells: Vec<&str> = rest.lines()[0].split('\t').collect();
    assert_eq!((cells[0], cells[1], cells[2], cells[5]), ("orders", "0", "2", "c"));
    assert_eq!(lag(&house), 0);
    consume(&house, &["--idle", "1s"]).ended(0).said(&["0 messages consumed"]);
    let other = ["consume", "orders", "--group", "other", "--max", "3", "--output-format", "raw"];
    assert_eq!(house.run(&other).ended(0).lines(), ["a", "b", "c"]);
}

#[test]
fn what_is_only_looked_at_is_delivered_again() {
    let house = house(&["a", "b"]);
    let looked = consume(&house, &["--no-commit", "--max", "1", "--json"]).ended(0).json();
    assert_eq!((&looked["payload"], &looked["attempt"]), (&"a".into(), &1.into()));
    assert_eq!(lag(&house), 2);
    let again = consume(&house, &["--max", "2", "--json"]).ended(0).json_lines();
    assert_eq!((&again[0]["payload"], &again[0]["attempt"]), (&"a".into(), &2.into()));
    assert_eq!(again[1]["payload"], "b");
}

#[test]
fn a_command_decides_about_each_message() {
    let house = house(&["good", "bad"]);
    let command = "read -r x; echo \"$x at $HANDOFF_OFFSET of $HANDOFF_TOPIC\"; test \"$x\" = good";
    let exec = ["--exec", command, "--on-failure", "dead", "--max", "2"];
    let ran = consume(&house, &exec).ended(0).said(&["orders 0 1", "ended with 1"]);
    assert_eq!(ran.lines(), ["good at 0 of orders", "bad at 1 of orders"]);
    assert_eq!(lag(&house), 0);
    let status =
        |offset| house.run(&["group", "status", "billing", "orders", "0", offset]).ended(0);
    status("0").printed(&["status\tprocessed"]);
    status("1").printed(&["status\tdead", "letter\tbilling.dead 0 0"]);

    let letters = house.run(&["dead", "list", "billing"]).ended(0);
    assert_eq!(letters.lines().len(), 1, "{}", letters.data);
    assert!(letters.lines()[0].starts_with("0\t0\torders 0 1\t1\tno\t"), "{}", letters.data);
    house
        .run(&["dead", "show", "billing", "0"])
        .ended(0)
        .printed(&["message\tbad", "ended with 1"]);
    house.run(&["dead", "show", "billing", "7"]).ended(3).said(&["dead list billing"]);

    house.run(&["dead", "replay", "billing", "7"]).ended(3);
    house.run(&["dead", "replay", "billing", "0"]).ended(0).said(&["1 dead letter put back"]);
    let again = ["dead", "replay", "billing", "--all"];
    house.run(&again).ended(0).said(&["0 dead letters put back, 1 had been before"]);
    assert_eq!(payloads(consume(&house, &["--max", "1", "--json"])), ["bad"]);
    house.run(&["dead", "list", "other"]).ended(3);
}

#[test]
fn a_command_that_fails_is_tried_again() {
    let house = house(&["a"]);
    let command = "test \"$HANDOFF_ATTEMPT\" = 2";
    let exec = ["--exec", command, "--delay", "10ms", "--max", "2"];
    consume(&house, &exec).ended(0).said(&["ended with 1 (attempt 1)"]);
    assert_eq!(lag(&house), 0);
}

#[test]
fn a_group_is_made_listed_shown_changed_and_deleted() {
    let house = house(&["a"]);
    house.run(&["group", "list"]).ended(0).said(&["there are no groups"]);
    let create = ["group", "create", "billing", "--topic", "orders", "--max-attempts", "3"];
    let made = house.run(&[&create[..], &["--lease", "1m", "--json"]].concat()).ended(0).json();
    assert_eq!((&made["maxAttempts"], &made["leaseMs"]), (&3.into(), &60_000.into()));
    house.run(&create).ended(4).said(&["group_exists"]);
    house.run(&["group", "create", "a b"]).ended(4);
    let listed = house.run(&["group", "list"]).ended(0);
    assert!(listed.lines()[0].starts_with("billing\torders\tkey\t3"), "{}", listed.data);

    let shown = house.run(&["group", "show", "billing"]).ended(0);
    shown.printed(&["name\tbilling", "attempts\t3", "lease\t1m", "lag\t1", "blocked\t"]);
    house.run(&["group", "show", "nothing"]).ended(3).said(&["group_not_found"]);

    let set = ["group", "set", "billing", "--ordering", "none", "--json"];
    let set = house.run(&set).ended(0).json();
    assert_eq!((&set["ordering"], &set["maxAttempts"]), (&"none".into(), &3.into()));
    house.run(&["group", "set", "billing"]).ended(2);
    // The group knows its topics.
    let take = ["consume", "--group", "billing", "--max", "1", "--json"];
    assert_eq!(house.run(&take).ended(0).json()["payload"], "a");

    house.run(&["group", "delete", "billing"]).ended(4).said(&["0 members", "--yes"]);
    house.run(&["group", "delete", "billing", "--yes"]).ended(0);
    house.run(&["group", "delete", "billing", "--yes"]).ended(3);
}

#[test]
fn a_group_goes_on_elsewhere_when_it_is_meant() {
    let house = house(&["a", "b", "c"]);
    consume(&house, &["--max", "3"]).ended(0);
    let seek = ["group", "seek", "billing", "orders", "--to", "earliest"];
    let asked = house.run(&seek).ended(4).said(&["3 messages are delivered again", "--yes"]);
    assert_eq!(asked.lines(), ["orders\t0\t3\t0\t3\t0\t0"], "it says what it would do");
    let looked = house.run(&[&seek[..], &["--dry-run", "--json"]].concat()).ended(0).json();
    assert_eq!(looked["again"], 3);
    assert_eq!(lag(&house), 0, "nothing was changed");
    house.run(&[&seek[..], &["--yes"]].concat()).ended(0);
    assert_eq!(payloads(consume(&house, &["--max", "1", "--json"])), ["a"]);
    let there = ["group", "seek", "billing", "orders", "--partition", "0", "--to", "2", "--yes"];
    house.run(&there).ended(0);
    assert_eq!(payloads(consume(&house, &["--max", "1", "--json"])), ["c"]);
    house.run(&["group", "seek", "billing", "orders", "--to", "2"]).ended(2).said(&["--partition"]);
    house.run(&["group", "seek", "nothing", "orders", "--to", "latest", "--yes"]).ended(3);
}

#[test]
fn a_new_group_begins_where_it_is_told_to() {
    let house = house(&["a", "b"]);
    let mut going = house.place.start(&[
        "--url",
        &house.server.url,
        "consume",
        "orders",
        "--group",
        "billing",
        "--from",
        "latest",
        "--max",
        "1",
        "--json",
    ]);
    assert!(going.hears().contains("consuming for group billing"));
    house.run(&["produce", "orders", "c"]).ended(0);
    assert_eq!(payloads(going.end()), ["c"]);
}

#[test]
fn a_member_that_is_taken_out_joins_again() {
    let house = house(&[]);
    let url = &house.server.url;
    let mut going = house
        .place
        .start(&["--url", url, "consume", "orders", "--group", "billing", "--max", "1", "--json"]);
    assert!(going.hears().contains("consuming for group billing"));
    let shown = house.run(&["group", "show", "billing", "--json"]).ended(0).json();
    let member = shown["members"][0]["member"].as_str().unwrap();
    house.run(&["group", "remove", "billing", member]).ended(0);
    assert!(going.hears().contains("joining again"));
    assert!(going.hears().contains("joined again"));
    house.run(&["group", "remove", "billing", member]).ended(3).said(&["member_gone"]);
    house.run(&["produce", "orders", "a"]).ended(0);
    assert_eq!(payloads(going.end()), ["a"]);
}

#[test]
fn what_cannot_be_done_with_groups_is_told_by_its_exit_code() {
    let house = house(&["a"]);
    house.run(&["consume", "--group", "nothing"]).ended(3).said(&["group_not_found"]);
    house.run(&["consume", "orders"]).ended(2).said(&["--group"]);
    consume(&house, &["--from", "yesterday"]).ended(2).said(&["2027-01-01"]);
    consume(&house, &["--max", "0"]).ended(2);
    consume(&house, &["--no-commit", "--exec", "true"]).ended(2);
    house.run(&["dead", "replay", "billing", "--range", "9"]).ended(2).said(&["7..=40"]);
    let nobody = ["--url", "http://127.0.0.1:1"];
    for verb in [
        &["consume", "orders", "--group", "billing"][..],
        &["group", "list"],
        &["dead", "list", "billing"],
    ] {
        house.place.run(&[&nobody[..], verb].concat()).ended(5).said(&["cannot reach"]);
    }
}

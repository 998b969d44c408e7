//! Events on the command line, against a server that runs.

use crate::program::{Place, Ran, Server};

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

    fn run(&self, arguments: &[&str]) -> Ran {
        let all: Vec<&str> = ["--url", &self.server.url].iter().chain(arguments).copied().collect();
        self.place.run(&all)
    }
}

#[test]
fn an_event_is_added_listed_shown_and_deleted() {
    let house = House::new();
    let add = ["event", "add", "--type", "backup", "--every", "24h", "--times", "7"];
    let added = house.run(&[&add[..], &["nightly\tbackup"]].concat()).ended(0);
    assert_eq!(added.data, "0\n", "the id and nothing else");
    let added = added.said(&["event 0 occurs first at 20"]);
    drop(added);
    let cron = ["event", "add", "--cron", "0 3 * * *", "--tz", "Europe/Minsk", "report", "--json"];
    let added = house.run(&cron).ended(0).json();
    assert_eq!(added["id"], 1);
    assert!(added["nextAt"].is_string(), "{added}");
    house
        .run(&["event", "add", "--at", "2090-01-01T00:00:00Z", "--type", "backup", "later"])
        .ended(0);

    let listed = house.run(&["event", "list"]).ended(0);
    assert_eq!(listed.lines().len(), 3, "no header where nobody looks: {}", listed.data);
    let cells: Vec<&str> = listed.lines()[0].split('\t').collect();
    assert_eq!(cells.len(), 6, "{}", listed.data);
    assert_eq!((cells[0], cells[2], cells[3]), ("0", "every 1d", "7"));
    assert_eq!(cells[5], "nightly\\tbackup", "a tab of others does not make a column");
    assert!(listed.lines()[1].contains("cron 0 3 * * * Europe/Minsk"), "{}", listed.data);
    let by_type = house.run(&["event", "list", "--type", "backup", "--json"]).ended(0).json_lines();
    let ids: Vec<u64> = by_type.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [0, 2]);
    assert_eq!(house.run(&["event", "list", "--limit", "1"]).ended(0).lines().len(), 1);

    house.run(&["event", "show", "0"]).ended(0).printed(&["when\tevery 1d", "left\t7"]);
    assert_eq!(house.run(&["event", "show", "1", "--json"]).ended(0).json()["cron"], "0 3 * * *");
    house.run(&["event", "show", "9"]).ended(3).said(&["event_not_found", "handoff event list"]);

    house.run(&["event", "delete", "1", "9"]).ended(3).printed(&["1\n"]).said(&["no event 9"]);
    house.run(&["event", "delete", "--type", "nothing"]).ended(3);
    let stats = house.run(&["event", "stats", "--json"]).ended(0).json();
    assert_eq!(stats["events"], 2);
    house.run(&["event", "stats"]).ended(0).printed(&["events\t2"]);
}

#[test]
fn deleting_many_asks_first_and_is_refused_where_nobody_can_be_asked() {
    let house = House::new();
    for _ in 0..3 {
        house.run(&["event", "add", "--type", "a", "--every", "1h", "x"]).ended(0);
    }
    let refused = house.run(&["event", "delete", "--type", "a"]).ended(4);
    refused.said(&["3 events of type a", "0, 1, 2", "--yes"]);
    assert_eq!(house.run(&["event", "list"]).ended(0).lines().len(), 3);
    let deleted = house.run(&["event", "delete", "--type", "a", "--yes"]).ended(0);
    assert_eq!(deleted.lines(), ["0", "1", "2"]);
    house.run(&["event", "list"]).ended(0).said(&["there are no events"]);
}

#[test]
fn what_the_server_refuses_is_told_with_its_code_and_a_remedy() {
    let house = House::new();
    house.run(&["event", "add", "--every", "1ms", "x"]).ended(4).said(&["event_invalid", "try:"]);
    house.run(&["event", "add", "--cron", "0 3 * *", "x"]).ended(4).said(&["try:"]);
    let zone = ["event", "add", "--cron", "0 3 * * *", "--tz", "Europe/Mink", "x"];
    house.run(&zone).ended(4).said(&["Europe/Mink"]);
}

#[test]
fn a_watch_prints_a_line_for_each_occurrence_and_stops_when_told() {
    let house = House::new();
    let url = &house.server.url;
    let watch = ["--url", url, "event", "watch", "--type", "tick", "--count", "2", "--json"];
    let mut watch = house.place.start(&watch);
    // It says so once the filter is in force; before that nothing may occur.
    assert!(watch.hears().contains("watching"));
    let tick = ["event", "add", "--type", "tick", "--every", "200ms", "--times", "2", "tock"];
    house.run(&tick).ended(0);
    let other = ["event", "add", "--type", "other", "--every", "200ms", "--times", "1", "no"];
    house.run(&other).ended(0);
    let ran = watch.end().ended(0);
    let told = ran.json_lines();
    assert_eq!(told.len(), 2, "{}", ran.data);
    assert_eq!((&told[0]["description"], &told[0]["repeat"]), (&"tock".into(), &2.into()));
    assert_eq!((&told[1]["occurrence"], &told[1]["repeat"]), (&2.into(), &1.into()));
}

#[test]
fn a_watch_comes_back_after_the_server_did_and_says_so() {
    let place = Place::small();
    let server = place.serve(&[]);
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut watch = place.start(&["--url", &server.url, "event", "watch", "--count", "1"]);
    assert!(watch.hears().contains("watching"));
    let url = server.url.clone();
    server.stop();
    assert!(watch.hears().contains("connecting again"));
    let again = place.serve_at(&address, &[]);
    assert_eq!(again.url, url);
    assert!(watch.hears().contains("connected again"));
    let add = ["--url", &url, "event", "add", "--every", "100ms", "--times", "1", "after"];
    place.run(&add).ended(0);
    let ran = watch.end().ended(0);
    let cells: Vec<&str> = ran.lines()[0].split('\t').collect();
    assert_eq!((cells.len(), cells[5]), (6, "after"), "{}", ran.data);
}

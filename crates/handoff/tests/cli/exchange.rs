//! The exchange on the command line, against a server that runs.

use handoff_sdk::exchange::{Begun, NewMessage, NewReply, Verdict, Wish};
use handoff_sdk::{Client, Error, Options, Time};
use serde_json::json;

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

    /// With company `acme`, subsystem `sales`, database `books`, their route, and device `phone-1`.
    fn furnished() -> Self {
        let house = Self::new();
        house.run("company put acme").ended(0);
        house.run("subsystem put sales").ended(0);
        house.run("database put books --company acme").ended(0);
        house.run("route put acme sales books").ended(0);
        house.run("device put acme phone-1 --subsystem sales").ended(0);
        house
    }

    fn run(&self, words: &str) -> Ran {
        let head = ["--url", &self.server.url, "exchange"];
        let all: Vec<&str> = head.into_iter().chain(words.split(' ')).collect();
        self.place.run(&all)
    }

    /// Talks to the server as programs do.
    fn talk<T>(&self, talk: impl AsyncFnOnce(Client) -> Result<T, Error>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::new(Options::new(&self.server.url)).unwrap();
        runtime.block_on(talk(client)).unwrap()
    }

    /// `phone-1` sends these messages, with a token of its own.
    fn send(&self, ids: &[&str]) -> Client {
        let code = self.run("device code acme phone-1").ended(0).lines()[0].to_owned();
        self.talk(async |client| {
            let device = client.exchange().activate(&code).await?;
            let phone = client.with_token(&device.token)?;
            let message = |id: &&str| NewMessage::new(*id, time(), json!({"of": id}));
            let messages: Vec<NewMessage> = ids.iter().map(message).collect();
            phone.exchange().as_device().send(&messages).await?;
            Ok(phone)
        })
    }

    /// The ERP of `books` takes what waits and prepares: all done, but those in `incorrect`.
    fn prepare(&self, incorrect: &[&str]) -> String {
        self.talk(async |client| {
            let erp = client.exchange().as_erp("books");
            let Begun::Started(process) = erp.begin(&Wish::new()).await? else { panic!("idle") };
            let verdict = |id: &str| match incorrect.contains(&id) {
                true => Verdict::incorrect(id, "no such customer").code(7),
                false => Verdict::processed(id),
            };
            let verdicts: Vec<Verdict> =
                process.messages.iter().map(|message| verdict(&message.id)).collect();
            let reply = NewReply::new("bill-1", "phone-1", time(), json!({"ok": true}));
            let prepared = erp.prepare(&process.process_id, &verdicts, &[reply]).await?;
            assert!(prepared.is_ok(), "{prepared:?}");
            Ok(process.process_id)
        })
    }

    fn commit(&self, process: &str) {
        self.talk(async |client| client.exchange().as_erp("books").commit(process).await);
    }

    /// The seq of a message by its id.
    fn seq(&self, id: &str) -> String {
        let listed = self.run("messages books --json").ended(0).json_lines();
        let found = listed.iter().find(|entry| entry["id"] == id).unwrap();
        found["seq"].to_string()
    }
}

fn time() -> Time {
    Time::new("2027-01-15T08:00:00Z")
}

#[test]
fn every_step_of_setting_up_says_the_next() {
    let house = House::new();
    house.run("company list").ended(0).said(&["there are no companies", "company put"]);
    house.run("company put acme").ended(0).said(&["database put ID --company acme"]);
    house.run("subsystem put sales").ended(0).said(&["route put COMPANY sales DATABASE"]);
    let device = house.run("device put acme phone-1 --subsystem sales").ended(0);
    device.said(&["device code acme phone-1", "goes nowhere", "route put acme sales DATABASE"]);
    house.run("database put books --company acme").ended(0).said(&["database token books"]);
    house.run("route show acme sales").ended(3).said(&["route put acme sales DATABASE"]);
    house.run("route put acme sales books").ended(0);
    house.run("device show acme phone-1").ended(0).printed(&["sends to\tbooks", "active\tno"]);

    let token = house.run("database token books").ended(0).said(&["not shown again"]);
    assert!(token.lines()[0].starts_with("hxb_"), "{}", token.data);
    house.run("database token books").ended(4).said(&["has a token", "--yes"]);
    house.run("database token books --yes").ended(0);
    house.run("device code acme phone-1").ended(0).said(&["device/activate"]);
}

#[test]
fn entities_are_listed_shown_renamed_and_removed() {
    let house = House::furnished();
    let named = ["company", "put", "acme", "--name", "Acme Ltd", "--json"];
    let head = ["--url", &house.server.url, "exchange"];
    let made = house.place.run(&[&head[..], &named].concat()).ended(0).json();
    assert_eq!(made["name"], "Acme Ltd");
    house.run("company put acme").ended(0);
    let shown = house.run("company show acme --json").ended(0).json();
    assert_eq!(shown["name"], "Acme Ltd", "what is not said stays");
    assert!(house.run("company list").ended(0).lines()[0].starts_with("acme\tAcme Ltd\t"));
    let devices = house.run("device list --company acme").ended(0);
    assert!(devices.lines()[0].starts_with("acme\tphone-1\tsales\tnew\t"), "{}", devices.data);
    assert_eq!(house.run("route list").ended(0).lines(), ["acme\tsales\tbooks"]);
    house.run("device block acme phone-1").ended(0).said(&["locked out"]);
    house.run("device list").ended(0).printed(&["\tblocked\t"]);
    house.run("device unblock acme phone-1").ended(0);

    house.run("company remove acme").ended(4).said(&["--yes"]);
    house.run("company remove acme --yes").ended(4).said(&["exchange.in_use"]);
    house.run("device remove acme phone-1 --yes").ended(0);
    house.run("device show acme phone-1").ended(3).said(&["device list"]);
    house.run("route remove acme sales --yes").ended(0);
    house.run("database remove books --yes").ended(0);
    house.run("company remove acme --yes --json").ended(0);
    house.run("company show acme").ended(3).said(&["company list"]);
    house.run("company put a_b").ended(4);
}

#[test]
fn messages_are_listed_shown_and_put_back() {
    let house = House::furnished();
    house.send(&["order-1", "order-2"]);
    let listed = house.run("messages books").ended(0);
    assert_eq!(listed.lines().len(), 2, "{}", listed.data);
    let cells: Vec<&str> = listed.lines()[0].split('\t').collect();
    assert_eq!(cells[1..6], ["order-1", "to the ERP", "phone-1", "sales", "messages"]);
    house.run("list books --place log").ended(0).said(&["no such messages"]);
    assert_eq!(house.run("messages books --limit 1").ended(0).lines().len(), 1);

    let process = house.prepare(&["order-2"]);
    house.commit(&process);
    let seq = house.seq("order-2");
    let shown = house.run(&format!("show books {seq}")).ended(0);
    shown.printed(&["place\terror since", "id\torder-2"]).said(&["requeue books"]);
    let body = house.run(&format!("show books {seq} --body")).ended(0).json();
    assert_eq!((&body["id"], &body["payload"]), (&"order-2".into(), &json!({"of": "order-2"})));
    house.run("show books 99999").ended(3).said(&["exchange messages books"]);
    let log = house.run("log books --what incorrect").ended(0);
    log.printed(&["\tincorrect\t", "\torder-2\t7\t"]);

    house.run(&format!("requeue books {seq}")).ended(4).said(&["1 message", "--yes"]);
    house.run(&format!("requeue books {seq} --yes")).ended(0);
    house.run(&format!("requeue books {seq} --yes")).ended(4);
    let waiting = house.run("messages books --place messages --json").ended(0).json_lines();
    assert!(waiting.iter().any(|entry| entry["id"] == "order-2"), "{waiting:?}");
    let database = house.run("database show books").ended(0);
    database.printed(&["waiting for the ERP\t1", "waiting for devices\t1", "log\t1"]);
    house.run("rescan books").ended(0).said(&["exchange foreign books"]);
    house.run("foreign books").ended(0);
    house.run("stats").ended(0).printed(&["companies\t1"]);
}

#[test]
fn what_is_in_doubt_is_resolved_once_somebody_has_looked() {
    let house = House::furnished();
    house.run("indoubt books").ended(0).said(&["no process"]);
    let phone = house.send(&["order-1"]);
    let process = house.prepare(&[]);
    let doubt = house.run("indoubt books").ended(0).said(&["resolve books", "--committed"]);
    assert!(doubt.lines()[0].starts_with(&format!("{process}\tREADY_TO_COMMIT\t")));
    house.run("processes books").ended(0).printed(&[&process]);
    let shown = house.run(&format!("process books {process}")).ended(0);
    shown.printed(&["state\tREADY_TO_COMMIT", "\torder-1\tPROCESSED", "\tbill-1\tno"]);

    let resolve = format!("resolve books {process}");
    house.run(&resolve).ended(2).said(&["--committed"]);
    house.run(&format!("{resolve} --committed")).ended(4).said(&["1 message for the ERP", "--yes"]);
    house.run(&format!("{resolve} --committed --yes")).ended(0).said(&["committed"]);
    house.run(&format!("{resolve} --committed --yes")).ended(0);
    let opposite = house.run(&format!("{resolve} --rolled-back --yes")).ended(4);
    opposite.said(&["exchange.contradiction", "exchange process books"]);
    let inbox = house.talk(async |_| phone.exchange().as_device().receive(None, 0).await);
    assert_eq!(inbox.messages[0].id, "bill-1");
    house.run("process books 1-0000000000000000").ended(3).said(&["processes books"]);
}

#[test]
fn a_simulation_loses_and_doubles_nothing() {
    let house = House::new();
    let simulate = "simulate --company demo --subsystem sales --devices 5 --seconds 1 --rate 100";
    let said = ["company demo", "database demo-sim", "nothing is lost"];
    let sum = house.run(&format!("{simulate} --json")).ended(0).said(&said).json();
    assert_eq!((&sum["lost"], &sum["doubled"]), (&0.into(), &0.into()));
    assert_eq!(sum["waiting"], sum["acknowledged"], "nobody processes them");

    let second = house.run(&format!("{simulate} --erp --json")).ended(0);
    assert!(!second.talk.contains("made now"), "{}", second.talk);
    let sum = second.json();
    assert_eq!((&sum["lost"], &sum["doubled"], &sum["waiting"]), (&0.into(), &0.into(), &0.into()));
    let number = |name: &str| sum[name].as_u64().unwrap();
    assert!(number("acknowledged") > 20, "{sum}");
    assert_eq!(number("processed") + number("incorrect"), number("acknowledged"), "{sum}");
    let answered = number("processed") + number("olderProcessed");
    assert_eq!((number("replies"), number("received")), (answered, answered), "{sum}");

    let elsewhere = format!("{simulate} --database other");
    house.run(&elsewhere).ended(4).said(&["goes to database demo-sim", "route put"]);
}

#[test]
fn what_cannot_be_asked_of_the_exchange_is_told_by_its_exit_code() {
    let house = House::new();
    house.run("messages nothing").ended(3).said(&["database list"]);
    house.run("database put books --company nothing").ended(3).said(&["company put nothing"]);
    house.run("messages books --place attic").ended(2).said(&["messages, prepared"]);
    house.run("requeue books").ended(2);
    house.run("show books 2a").ended(2).said(&["16 hexadecimal"]);
    house.run("simulate --company demo --subsystem sales --rate fast").ended(2).said(&["0.5"]);
    let nobody = ["--url", "http://127.0.0.1:1", "exchange"];
    for verb in [&["company", "list"][..], &["messages", "books"], &["stats"]] {
        house.place.run(&[&nobody[..], verb].concat()).ended(5).said(&["cannot reach"]);
    }
}

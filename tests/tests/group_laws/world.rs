//! A real server, and what is asked of it.

use std::collections::BTreeMap;

use handoff_tests::http::{Answer, Http};
use handoff_tests::member::{self, Batch, Member, Outcome, Verdict};
use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::{PATIENCE, Served, lair};
use serde_json::{Value, json};

/// As long as a poll may wait.
pub const WAIT: u64 = 30_000;

/// A server, and a connection to it.
pub struct World {
    pub http: Http,
    pub served: Served,
    lair: Lair,
    pub place: Place,
}

impl World {
    pub fn start() -> Self {
        Self::start_with(|lair| lair)
    }

    pub fn start_with(how: impl FnOnce(Lair) -> Lair) -> Self {
        let place = Place::temporary().expect("the temporary directory takes files");
        let lair = how(lair(place.path()));
        let served = Served::start(&lair).unwrap();
        let http = Http::connect(served.http, PATIENCE).unwrap();
        Self { http, served, lair, place }
    }

    /// `kill -9`, and another server in the same directory.
    pub fn die_and_rise(&mut self) {
        self.served.prey.kill().unwrap();
        self.served.prey.ended().unwrap();
        self.served = Served::start(&self.lair).unwrap();
        self.http = self.connect();
    }

    pub fn connect(&self) -> Http {
        Http::connect(self.served.http, PATIENCE).unwrap()
    }

    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        taken(&self.http.ask(method, path, body).unwrap())
    }

    pub fn topic(&mut self, name: &str, partitions: u32) {
        let body = json!({"version": 1, "name": name, "partitions": partitions});
        self.ask("POST", "/v1/streams/topics", Some(&body));
    }

    pub fn group(&mut self, name: &str, topics: &[&str], more: &Value) {
        let mut body = json!({"version": 1, "name": name, "topics": topics});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask("POST", "/v1/streams/groups", Some(&body));
    }

    pub fn produce(&mut self, topic: &str, messages: &[Value]) {
        let path = format!("/v1/streams/topics/{topic}/messages");
        for some in messages.chunks(1_000) {
            self.ask("POST", &path, Some(&json!({"version": 1, "messages": some})));
        }
    }

    pub fn join(&mut self, group: &str, more: &Value) -> Member {
        let answer = member::join(&mut self.http, group, more).unwrap();
        Member::of(group, &answer).unwrap()
    }

    /// What there is for a member, waiting for it.
    pub fn poll(&mut self, member: &Member) -> Vec<Batch> {
        self.poll_with(member, &json!({"waitMs": WAIT}))
    }

    /// What there is for a member now.
    pub fn poll_now(&mut self, member: &Member) -> Vec<Batch> {
        self.poll_with(member, &json!({}))
    }

    pub fn poll_with(&mut self, member: &Member, more: &Value) -> Vec<Batch> {
        Batch::all(&member.poll(&mut self.http, more).unwrap()).unwrap()
    }

    pub fn commit(&mut self, member: &Member, results: &[Verdict]) -> Vec<Outcome> {
        member::outcomes(&member.commit(&mut self.http, results, None).unwrap()).unwrap()
    }

    /// Says the same of everything in some batches, all of which must count.
    pub fn finish(&mut self, member: &Member, batches: &[Batch], status: &str) {
        let results: Vec<Verdict> = batches.iter().map(|batch| batch.verdict(status)).collect();
        let outcomes = self.commit(member, &results);
        assert!(outcomes.iter().all(Outcome::counts), "{outcomes:?}");
    }

    pub fn leave(&mut self, member: &Member) {
        taken(&member.leave(&mut self.http).unwrap());
    }

    pub fn show(&mut self, group: &str) -> Shown {
        let shown = self.ask("GET", &format!("/v1/streams/groups/{group}"), None);
        Shown(shown["group"].clone())
    }

    pub fn status(&mut self, group: &str, topic: &str, offset: u64) -> Value {
        let query = format!("topic={topic}&partition=0&offset={offset}");
        self.ask("GET", &format!("/v1/streams/groups/{group}/status?{query}"), None)
    }
}

/// A partition.
pub type Spot = (String, u32);

/// A group as it is shown.
#[derive(Debug)]
pub struct Shown(pub Value);

impl Shown {
    pub fn lag(&self) -> u64 {
        self.0["lag"].as_u64().unwrap()
    }

    pub fn has(&self, member: &Member) -> bool {
        self.0["members"].as_array().unwrap().iter().any(|one| one["member"] == *member.id)
    }

    /// The members' clients.
    pub fn clients(&self) -> Vec<&str> {
        let members = self.0["members"].as_array().unwrap();
        members.iter().map(|one| one["client"].as_str().unwrap()).collect()
    }

    /// Who has what. No partition has two owners.
    pub fn owners(&self) -> BTreeMap<Spot, String> {
        let mut owners = BTreeMap::new();
        for one in self.0["members"].as_array().unwrap() {
            for partition in one["assignment"].as_array().unwrap() {
                let owner = one["member"].as_str().unwrap().to_owned();
                let before = owners.insert(member::place(partition).unwrap(), owner);
                assert_eq!(before, None, "{partition} has two owners: {}", self.0);
            }
        }
        owners
    }

    pub fn partition(&self, number: usize) -> &Value {
        &self.0["partitions"][number]
    }
}

/// The body of an answer that is none of a refusal.
pub fn taken(answer: &Answer) -> Value {
    let words = String::from_utf8_lossy(&answer.body);
    assert!((200..300).contains(&answer.status), "{}: {words}", answer.status);
    answer.json().unwrap()
}

/// The payloads of batches, in order.
pub fn payloads(batches: &[Batch]) -> Vec<String> {
    let messages = batches.iter().flat_map(|batch| &batch.messages);
    messages.map(|message| message["payload"].as_str().unwrap().to_owned()).collect()
}

/// Messages with these numbers for payloads, and no key.
pub fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<Value> {
    numbers.into_iter().map(|n| json!({"payload": n.to_string()})).collect()
}

//! What groups are asked in tests.

use serde_json::{Value, json};

use crate::http_client::Answer;
use crate::world::World;

/// As long as anybody waits.
pub const WAIT: u64 = 30_000;

/// Somebody in a group.
#[derive(Clone, Debug)]
pub struct Member {
    pub group: String,
    pub id: String,
    pub joined: Value,
}

impl Member {
    pub fn path(&self, what: &str) -> String {
        format!("/v1/streams/groups/{}/members/{}{what}", self.group, self.id)
    }

    pub fn generation(&self) -> u64 {
        self.joined["generation"].as_u64().unwrap()
    }

    /// Its partitions of a topic.
    pub fn partitions(&self) -> Vec<u64> {
        let assigned = self.joined["assignment"].as_array().unwrap();
        assigned.iter().map(|one| one["partition"].as_u64().unwrap()).collect()
    }
}

impl World {
    /// Makes a group that reads `orders`.
    pub async fn group(&self, name: &str, more: Value) -> Value {
        let mut body = json!({"version": 1, "name": name, "topics": ["orders"]});
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        let answer = self.post("/v1/streams/groups", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["group"].clone()
    }

    /// Joins a group that reads `orders`.
    pub async fn join(&self, group: &str) -> Member {
        self.join_with(group, json!({"topics": ["orders"]})).await
    }

    pub async fn join_with(&self, group: &str, more: Value) -> Member {
        let answer = self.try_join(group, more).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let joined = answer.json();
        let id = joined["member"].as_str().unwrap().to_owned();
        Member { group: group.to_owned(), id, joined }
    }

    pub async fn try_join(&self, group: &str, more: Value) -> Answer {
        let mut body = json!({"version": 1});
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        self.post(&format!("/v1/streams/groups/{group}/members"), &body).await
    }

    /// Polls, waiting for something.
    pub async fn poll(&self, member: &Member) -> Vec<Value> {
        self.poll_with(member, json!({"waitMs": WAIT})).await
    }

    /// What there is now.
    pub async fn poll_now(&self, member: &Member) -> Vec<Value> {
        self.poll_with(member, json!({})).await
    }

    pub async fn poll_with(&self, member: &Member, more: Value) -> Vec<Value> {
        let answer = self.try_poll(member, more).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["batches"].as_array().unwrap().clone()
    }

    pub async fn try_poll(&self, member: &Member, more: Value) -> Answer {
        let mut body = json!({"version": 1});
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        self.post(&member.path("/poll"), &body).await
    }

    /// Says how it went.
    pub async fn commit(&self, member: &Member, results: Value) -> Vec<Value> {
        let answer = self.try_commit(member, &json!({"version": 1, "results": results})).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["results"].as_array().unwrap().clone()
    }

    pub async fn try_commit(&self, member: &Member, body: &Value) -> Answer {
        self.post(&member.path("/commit"), body).await
    }

    pub async fn leave(&self, member: &Member) {
        let answer = self.delete(&member.path("")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    pub async fn shown_group(&self, name: &str) -> Value {
        let answer = self.get(&format!("/v1/streams/groups/{name}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["group"].clone()
    }

    pub async fn status(&self, group: &str, offset: u64) -> Value {
        let query = format!("topic=orders&partition=0&offset={offset}");
        let answer = self.get(&format!("/v1/streams/groups/{group}/status?{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Dead letters of a group.
    pub async fn letters(&self, group: &str) -> Vec<Value> {
        let answer = self.get(&format!("/v1/streams/groups/{group}/dead")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["letters"].as_array().unwrap().clone()
    }

    /// Stores payloads in `orders`.
    pub async fn orders(&self, payloads: &[&str]) {
        let messages: Vec<Value> = payloads.iter().map(|text| json!({"payload": text})).collect();
        self.produce("orders", messages.into()).await;
    }
}

/// A result for a whole batch.
pub fn answered(batch: &Value, status: &str) -> Value {
    let from = batch["baseOffset"].as_u64().unwrap();
    let to = from + batch["count"].as_u64().unwrap() - 1;
    json!({
        "topic": batch["topic"], "partition": batch["partition"], "from": from, "to": to,
        "status": status, "lease": batch["lease"],
    })
}

/// Results for batches.
pub fn all_answered(batches: &[Value], status: &str) -> Value {
    batches.iter().map(|batch| answered(batch, status)).collect::<Vec<_>>().into()
}

/// Payloads of batches, in order.
pub fn delivered(batches: &[Value]) -> Vec<String> {
    let messages = batches.iter().flat_map(|batch| batch["messages"].as_array().unwrap());
    messages.map(|message| message["payload"].as_str().unwrap().to_owned()).collect()
}

/// What became of results.
pub fn outcomes(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["outcome"].as_str().unwrap()).collect()
}

//! A whole server in this process, and what is asked of it.

use std::net::SocketAddr;

use handoff_server::serve::{Hooks, Listeners, ServeError, run};
use handoff_server::settings::Settings;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http_client::{self, Answer, PATIENCE};

/// A server that is ready.
pub struct World {
    pub address: SocketAddr,
    settings: Settings,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
    directory: TempDir,
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.server.data_dir = directory.path().join("data");
        settings.server.listen.set_port(0);
        settings.relay.enabled = false;
        settings.server.disk_free_min = Some(0);
        settings.events.enabled = false;
        settings.log.limits.journal_file_bytes = 1 << 20;
        settings.log.limits.journal_bytes_max = 16 << 20;
        settings.log.limits.journal_reserve_bytes = 2 << 20;
        settings.log.limits.change_bytes_max = 8 << 20;
        change(&mut settings);
        Self::begin(directory, settings).await
    }

    /// A server that asks for tokens, and one that may do everything.
    pub async fn locked() -> (Self, String) {
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join("token");
        let token = handoff_server::auth::mint("first", Vec::new(), None).unwrap().0;
        std::fs::write(&file, &token).unwrap();
        let world = Self::start_with(|settings| {
            settings.auth.enabled = true;
            settings.auth.bootstrap_token_file = Some(file);
        })
        .await;
        (world, token)
    }

    /// Starts a server on a directory.
    pub async fn begin(directory: TempDir, settings: Settings) -> Self {
        let (said, ready) = oneshot::channel::<Listeners>();
        let stop = CancellationToken::new();
        let hooks = Hooks {
            ready: Box::new(move |at| said.send(*at).unwrap()),
            stop: stop.clone(),
            ..Hooks::none()
        };
        let mut task = tokio::spawn(run(settings.clone(), hooks));
        let ready = tokio::select! {
            ready = timeout(PATIENCE, ready) => ready.unwrap(),
            ended = &mut task => panic!("the server did not start: {:?}", ended.unwrap()),
        };
        let address = ready.unwrap().http;
        Self { address, settings, stop, task, directory }
    }

    /// Ends the server and starts it again on the same directory.
    pub async fn restart(self) -> Self {
        self.restart_with(|_| {}).await
    }

    pub async fn restart_with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let (directory, mut settings) = self.stop().await;
        change(&mut settings);
        Self::begin(directory, settings).await
    }

    pub async fn stop(self) -> (TempDir, Settings) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("it ends").unwrap().unwrap();
        (self.directory, self.settings)
    }

    /// Tells the server to stop.
    pub fn tell_to_stop(&self) {
        self.stop.cancel();
    }

    pub fn data_dir(&self) -> std::path::PathBuf {
        self.settings.server.data_dir.clone()
    }

    pub async fn get(&self, path: &str) -> Answer {
        http_client::get(self.address, path).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        http_client::delete(self.address, path).await
    }

    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json")];
        http_client::ask(self.address, method, path, &headers, body.to_string()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body).await
    }

    /// Asks in MessagePack, and wants an answer in it.
    pub async fn post_packed(&self, path: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/msgpack")];
        http_client::ask(self.address, "POST", path, &headers, pack(body)).await
    }

    /// Asks with a token.
    pub async fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        http_client::ask(self.address, method, path, &headers, body).await
    }

    /// A token of these scopes.
    pub async fn token(&self, admin: &str, scopes: &[&str]) -> String {
        let body = json!({"version": 1, "name": "a test", "scopes": scopes});
        let answer = self.ask(admin, "POST", "/v1/tokens", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    /// Makes a topic.
    pub async fn topic(&self, name: &str, partitions: u32) {
        self.topic_with(name, partitions, json!({})).await;
    }

    pub async fn topic_with(&self, name: &str, partitions: u32, more: Value) -> Value {
        let mut body = json!({"version": 1, "name": name, "partitions": partitions});
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        let answer = self.post("/v1/streams/topics", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["topic"].clone()
    }

    /// Stores messages and gives what became of each.
    pub async fn produce(&self, topic: &str, messages: Value) -> Vec<Value> {
        let body = json!({"version": 1, "messages": messages});
        self.produced(topic, &body).await["results"].as_array().unwrap().clone()
    }

    /// The answer to a request that stores messages.
    pub async fn produced(&self, topic: &str, body: &Value) -> Value {
        let answer = self.post(&format!("/v1/streams/topics/{topic}/messages"), body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// A page of a partition.
    pub async fn read(&self, topic: &str, partition: u32, query: &str) -> Value {
        let path = format!("/v1/streams/topics/{topic}/partitions/{partition}/messages{query}");
        let answer = self.get(&path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Payloads of a partition from its beginning.
    pub async fn payloads(&self, topic: &str, partition: u32) -> Vec<String> {
        payloads(&self.read(topic, partition, "?limit=10000").await)
    }

    /// A time this many milliseconds after the server was started.
    pub async fn later(&self, millis: i64) -> String {
        let server = self.get("/v1/server").await.json();
        let started: jiff::Timestamp = server["startedAt"].as_str().unwrap().parse().unwrap();
        let later = started.as_microsecond() + millis * 1_000;
        jiff::Timestamp::from_microsecond(later).unwrap().to_string()
    }

    /// Everything there is to see, to find out whether anything has changed.
    pub async fn everything(&self) -> Vec<Value> {
        let mut stats = self.get("/v1/streams/stats").await.json();
        // The mover does what it does.
        stats["unmovedBytes"] = Value::Null;
        let mut all = vec![stats];
        let topics = self.get("/v1/streams/topics?limit=1000").await.json();
        for topic in topics["topics"].as_array().unwrap() {
            let name = topic["name"].as_str().unwrap();
            all.push(self.get(&format!("/v1/streams/topics/{name}")).await.json());
            all.push(self.get(&format!("/v1/streams/topics/{name}/scheduled")).await.json());
        }
        all
    }
}

pub fn payloads(page: &Value) -> Vec<String> {
    let messages = page["messages"].as_array().unwrap();
    messages.iter().map(|message| message["payload"].as_str().unwrap().to_owned()).collect()
}

/// A value in MessagePack, written here so that it shares nothing with the server.
pub fn pack(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    pack_into(value, &mut out);
    out
}

fn pack_into(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(value) => out.push(0xc2 + u8::from(*value)),
        Value::Number(n) => match n.as_u64() {
            Some(n) => {
                out.push(0xcf);
                out.extend(n.to_be_bytes());
            }
            None if n.is_i64() => {
                out.push(0xd3);
                out.extend(n.as_i64().unwrap().to_be_bytes());
            }
            None => {
                out.push(0xcb);
                out.extend(n.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::String(text) => {
            out.push(0xdb);
            out.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            out.extend(text.as_bytes());
        }
        Value::Array(values) => {
            out.push(0xdd);
            out.extend(u32::try_from(values.len()).unwrap().to_be_bytes());
            values.iter().for_each(|value| pack_into(value, out));
        }
        Value::Object(fields) => {
            out.push(0xdf);
            out.extend(u32::try_from(fields.len()).unwrap().to_be_bytes());
            for (name, value) in fields {
                pack_into(&Value::String(name.clone()), out);
                pack_into(value, out);
            }
        }
    }
}

/// A value of MessagePack; bytes that are text become text, others a list of numbers.
pub fn unpack(bytes: &[u8]) -> Value {
    let mut rest = bytes;
    let value = unpack_from(&mut rest);
    assert!(rest.is_empty(), "something stands behind it");
    value
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(count);
    *rest = left;
    taken
}

fn number(rest: &mut &[u8], bytes: usize) -> u64 {
    take(rest, bytes).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn unpack_from(rest: &mut &[u8]) -> Value {
    let marker = u8::try_from(number(rest, 1)).unwrap();
    let length = |rest: &mut &[u8], bytes| usize::try_from(number(rest, bytes)).unwrap();
    match marker {
        0x00..=0x7f => marker.into(),
        0x80..=0x8f => unpack_map(rest, usize::from(marker & 15)),
        0x90..=0x9f => unpack_array(rest, usize::from(marker & 15)),
        0xa0..=0xbf => unpack_octets(rest, usize::from(marker & 31)),
        0xc0 => Value::Null,
        0xc2 | 0xc3 => (marker == 0xc3).into(),
        0xc4 | 0xd9 => {
            let length = length(rest, 1);
            unpack_octets(rest, length)
        }
        0xc5 | 0xda => {
            let length = length(rest, 2);
            unpack_octets(rest, length)
        }
        0xc6 | 0xdb => {
            let length = length(rest, 4);
            unpack_octets(rest, length)
        }
        0xcb => f64::from_bits(number(rest, 8)).into(),
        0xcc => number(rest, 1).into(),
        0xcd => number(rest, 2).into(),
        0xce => number(rest, 4).into(),
        0xcf => number(rest, 8).into(),
        0xdc => {
            let length = length(rest, 2);
            unpack_array(rest, length)
        }
        0xde => {
            let length = length(rest, 2);
            unpack_map(rest, length)
        }
        other => panic!("{other:#x} is not expected here"),
    }
}

fn unpack_octets(rest: &mut &[u8], length: usize) -> Value {
    let bytes = take(rest, length);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.into(),
    }
}

fn unpack_array(rest: &mut &[u8], length: usize) -> Value {
    (0..length).map(|_| unpack_from(rest)).collect::<Vec<_>>().into()
}

fn unpack_map(rest: &mut &[u8], length: usize) -> Value {
    let entry = |_| (unpack_from(rest).as_str().unwrap().to_owned(), unpack_from(rest));
    Value::Object((0..length).map(entry).collect())
}

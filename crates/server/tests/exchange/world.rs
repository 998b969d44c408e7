//! A whole server in this process, companies on it, and what they ask.

use std::net::SocketAddr;
use std::path::PathBuf;

use handoff_server::serve::{Hooks, Listeners, ServeError, run};
use handoff_server::settings::Settings;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http_client::{self, Answer, PATIENCE};

/// A server that is ready, with company `acme`, its database `erp1`, subsystem `stock`, and a route
/// between them.
pub struct World {
    pub address: SocketAddr,
    settings: Settings,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
    directory: TempDir,
    /// A token that may do everything, if tokens are asked for.
    pub admin: Option<String>,
}

/// A device that was activated.
#[derive(Clone, Debug)]
pub struct Phone {
    pub id: String,
    pub token: String,
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let world = Self::bare(change).await;
        world.furnish("acme", "erp1").await;
        world
    }

    /// Without any company.
    pub async fn bare(change: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.server.data_dir = directory.path().join("data");
        settings.server.listen.set_port(0);
        settings.relay.enabled = false;
        settings.server.disk_free_min = Some(0);
        settings.events.enabled = false;
        settings.streams.enabled = false;
        settings.log.limits.journal_file_bytes = 1 << 20;
        settings.log.limits.journal_bytes_max = 32 << 20;
        settings.log.limits.journal_reserve_bytes = 2 << 20;
        settings.log.limits.change_bytes_max = 16 << 20;
        change(&mut settings);
        Self::begin(directory, settings, None).await
    }

    /// A server that asks for tokens.
    pub async fn locked() -> Self {
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join("token");
        let token = handoff_server::auth::mint("first", Vec::new(), None).unwrap().0;
        std::fs::write(&file, &token).unwrap();
        let mut world = Self::bare(|settings| {
            settings.auth.enabled = true;
            settings.auth.bootstrap_token_file = Some(file);
        })
        .await;
        world.admin = Some(token);
        world.furnish("acme", "erp1").await;
        world
    }

    async fn begin(directory: TempDir, settings: Settings, admin: Option<String>) -> Self {
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
        Self { address: ready.unwrap().http, settings, stop, task, directory, admin }
    }

    pub async fn restart_with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let admin = self.admin.clone();
        let (directory, mut settings) = self.stop().await;
        change(&mut settings);
        Self::begin(directory, settings, admin).await
    }

    pub async fn restart(self) -> Self {
        self.restart_with(|_| {}).await
    }

    pub async fn stop(self) -> (TempDir, Settings) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("it ends").unwrap().unwrap();
        (self.directory, self.settings)
    }

    pub fn tell_to_stop(&self) {
        self.stop.cancel();
    }

    pub fn folder(&self, database: &str) -> PathBuf {
        self.settings.server.data_dir.join("exchange").join(database)
    }

    /// Asks as whoever holds a token; none for nobody.
    pub async fn ask(&self, token: Option<&str>, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.ask_raw(token, method, path, text).await
    }

    pub async fn ask_raw(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: impl Into<bytes::Bytes>,
    ) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        http_client::ask(self.address, method, path, &headers, body).await
    }

    /// Asks as the administrator.
    pub async fn admin(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask(self.admin.as_deref(), method, &format!("/v1/exchange/{path}"), &body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Value {
        let answer = self.admin("PUT", path, body).await;
        assert!(answer.status == 201 || answer.status == 200, "{path}: {}", answer.text());
        answer.json()
    }

    pub async fn see(&self, path: &str) -> Value {
        let answer = self.admin("GET", path, Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// A company with a database, and subsystem `stock` that leads to it.
    pub async fn furnish(&self, company: &str, database: &str) {
        self.put(&format!("companies/{company}"), json!({"version": 1})).await;
        self.put("subsystems/stock", json!({"version": 1})).await;
        let body = json!({"version": 1, "company": company});
        self.put(&format!("databases/{database}"), body).await;
        let body = json!({"version": 1, "database": database});
        self.put(&format!("routes/{company}/stock"), body).await;
    }

    /// A house token of these scopes.
    pub async fn token(&self, scopes: &[&str]) -> String {
        let body = json!({"version": 1, "name": "a test", "scopes": scopes});
        let answer = self.ask(self.admin.as_deref(), "POST", "/v1/tokens", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    /// The token of a database.
    pub async fn erp_token(&self, database: &str) -> String {
        let answer = self.admin("POST", &format!("databases/{database}/token"), Value::Null).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    pub async fn code(&self, company: &str, id: &str) -> String {
        let path = format!("devices/{company}/{id}/code");
        let answer = self.admin("POST", &path, Value::Null).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["code"].as_str().unwrap().to_owned()
    }

    pub async fn activate(&self, code: &str) -> Answer {
        let body = json!({"version": 1, "code": code});
        self.ask(None, "POST", "/v1/exchange/device/activate", &body).await
    }

    /// A device of a company that is active.
    pub async fn phone_of(&self, company: &str, id: &str) -> Phone {
        let body = json!({"version": 1, "appSystem": "stock", "name": "a phone"});
        self.put(&format!("devices/{company}/{id}"), body).await;
        let answer = self.activate(&self.code(company, id).await).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let token = answer.json()["token"].as_str().unwrap().to_owned();
        Phone { id: id.to_owned(), token }
    }

    pub async fn phone(&self, id: &str) -> Phone {
        self.phone_of("acme", id).await
    }

    pub async fn post(&self, phone: &Phone, body: &Value) -> Answer {
        self.ask(Some(&phone.token), "POST", "/v1/exchange/messages", body).await
    }

    /// Stores a message and gives its number.
    pub async fn send(&self, phone: &Phone, id: &str, payload: Value) -> u64 {
        let answer = self.post(phone, &message(id, payload)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["results"][0]["seq"].as_u64().unwrap()
    }

    pub async fn fetch(&self, phone: &Phone, query: &str) -> Value {
        let path = format!("/v1/exchange/messages{query}");
        let answer = self.ask(Some(&phone.token), "GET", &path, &Value::Null).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub async fn ack(&self, phone: &Phone, ids: &[&str]) -> Answer {
        let body = json!({"version": 1, "ids": ids});
        self.ask(Some(&phone.token), "POST", "/v1/exchange/messages/ack", &body).await
    }

    /// A call of the ERP of `erp1`.
    pub async fn erp(&self, method: &str, path: &str, body: &Value) -> Answer {
        let path = format!("/v1/exchange/databases/erp1/{path}");
        self.ask(self.admin.as_deref(), method, &path, body).await
    }

    /// `API_1`
    pub async fn begin_process(&self, more: Value) -> Answer {
        let mut body = json!({"version": 1});
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        self.erp("POST", "processes", &body).await
    }

    /// `API_1` that gives a process: its id, and the ids of its messages.
    pub async fn started(&self) -> (String, Vec<String>) {
        let answer = self.begin_process(json!({})).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let answer = answer.json();
        let messages = answer["messages"].as_array().unwrap();
        let ids = messages.iter().map(|message| message["id"].as_str().unwrap().to_owned());
        (answer["processId"].as_str().unwrap().to_owned(), ids.collect())
    }

    /// Another call about a process.
    pub async fn call(&self, method: &str, process: &str, call: &str, body: Value) -> Answer {
        self.erp(method, &format!("processes/{process}/{call}"), &body).await
    }

    /// `API_3` with `PROCESSED` for these, and these replies.
    pub async fn prepare(&self, process: &str, ids: &[String], replies: Value) -> Answer {
        let verdicts = ids.iter().map(|id| json!({"messageId": id, "status": "PROCESSED"}));
        let verdicts: Vec<Value> = verdicts.collect();
        let body = json!({"version": 1, "verdicts": verdicts, "messages": replies});
        self.call("PUT", process, "prepare", body).await
    }

    pub async fn commit(&self, process: &str) -> Answer {
        self.call("POST", process, "commit", json!({"version": 1})).await
    }

    pub async fn rollback(&self, process: &str) -> Answer {
        self.call("POST", process, "rollback", json!({"version": 1, "error": "no"})).await
    }

    pub async fn interrupt(&self, process: &str) -> Answer {
        self.call("POST", process, "interrupt", json!({"version": 1, "reason": "no"})).await
    }

    pub async fn state_of(&self, process: &str) -> String {
        let answer = self.erp("GET", &format!("processes/{process}"), &Value::Null).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["process"]["state"].as_str().unwrap().to_owned()
    }

    /// Where the messages of `erp1` are, by their ids.
    pub async fn places(&self) -> Vec<(String, String)> {
        let page = self.see("databases/erp1/messages?limit=1000").await;
        let entries = page["messages"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut places: Vec<_> =
            entries.iter().map(|entry| (text(&entry["id"]), text(&entry["place"]))).collect();
        places.sort();
        places
    }

    /// Everything there is to see, to find out whether anything has changed.
    pub async fn everything(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for path in ["companies", "subsystems", "databases", "devices", "routes"] {
            all.push(self.see(&format!("{path}?limit=1000")).await);
        }
        for database in all[2]["databases"].as_array().unwrap().clone() {
            let id = database["id"].as_str().unwrap();
            all.push(self.see(&format!("databases/{id}/messages?limit=1000")).await);
            all.push(self.see(&format!("databases/{id}/log?limit=1000")).await);
            let mut processes = self.see(&format!("databases/{id}/processes?limit=1000")).await;
            for process in processes["processes"].as_array_mut().unwrap() {
                // The folders follow when they do.
                process["settled"] = Value::Null;
                if process["state"] == "CLEANUP" {
                    process["state"] = "DONE".into();
                }
                process["endedAt"] = Value::Null;
                // It is told by two clocks, which are not read in one instant.
                process["deadline"] = Value::Null;
            }
            all.push(processes);
        }
        all
    }
}

/// A message of a device.
pub fn message(id: &str, payload: Value) -> Value {
    json!({"version": 1, "id": id, "createdAt": "2027-01-15T08:00:00Z", "payload": payload})
}

/// A message of an ERP.
pub fn reply(id: &str, to: &str, payload: Value) -> Value {
    json!({"id": id, "to": to, "createdAt": "2027-01-15T08:00:00Z", "payload": payload})
}

/// The code of a refusal of a call about a process, which an ERP sees as cancelled.
pub fn cancelled(answer: &Answer) -> String {
    let body = answer.json();
    assert_eq!(body["status"], "CANCELLED", "{body}");
    if answer.status == 200 {
        assert!(body["reason"].is_string(), "{body}");
        return "CANCELLED".to_owned();
    }
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    body["code"].as_str().unwrap().to_owned()
}

pub fn is_ok(answer: &Answer) -> bool {
    answer.status == 200 && answer.json()["status"] == "OK"
}

pub fn ids(page: &Value) -> Vec<String> {
    let messages = page["messages"].as_array().unwrap();
    messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

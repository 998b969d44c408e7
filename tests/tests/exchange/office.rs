//! A server with a company, its database and a route between them, and what people ask of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use handoff_tests::http::{Answer, Http};
use handoff_tests::mailbox::folders;
use handoff_tests::prey::Lair;
use handoff_tests::served::{PATIENCE, Served};
use serde_json::{Value, json};

/// A journal that fits a small disk.
pub const SMALL: [(&str, &str); 4] = [
    ("HANDOFF_LOG__JOURNAL_BYTES_MAX", "8MiB"),
    ("HANDOFF_LOG__JOURNAL_FILE_BYTES", "1MiB"),
    ("HANDOFF_LOG__JOURNAL_RESERVE_BYTES", "1MiB"),
    ("HANDOFF_LOG__CHANGE_BYTES_MAX", "4MiB"),
];

/// Between two looks at something that another process does.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Office {
    pub served: Served,
    pub exchange: PathBuf,
    /// What an administrator shows, if anything has to be shown.
    pub token: Option<String>,
}

impl Office {
    /// Starts a server on what there is.
    pub fn open(lair: &Lair) -> Self {
        let served = Served::start(lair).unwrap();
        Self { served, exchange: lair.data_dir.join("exchange"), token: None }
    }

    /// Starts a server, and makes company `acme`, its database `erp1` and subsystem `stock`.
    pub fn furnished(lair: &Lair) -> Self {
        let office = Self::open(lair);
        office.furnish();
        office
    }

    pub fn furnish(&self) {
        let v = json!({"version": 1});
        self.admin("PUT", "companies/acme", &v);
        self.admin("PUT", "subsystems/stock", &v);
        self.admin("PUT", "databases/erp1", &json!({"version": 1, "company": "acme"}));
        self.admin("PUT", "routes/acme/stock", &json!({"version": 1, "database": "erp1"}));
    }

    pub fn ask(&self, token: Option<&str>, method: &str, path: &str, body: &Value) -> Answer {
        let http = Http::connect(self.served.http, PATIENCE).unwrap();
        let mut http = match token {
            Some(token) => http.bearing(token),
            None => http,
        };
        let body = (!body.is_null()).then_some(body);
        http.ask(method, &format!("/v1/exchange/{path}"), body).unwrap()
    }

    pub fn tried(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask(self.token.as_deref(), method, path, body)
    }

    /// Asks as the administrator, who is not refused.
    pub fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.tried(method, path, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", words(&answer));
        answer.json().unwrap()
    }

    pub fn see(&self, path: &str) -> Value {
        self.admin("GET", path, &Value::Null)
    }

    /// A code that activates a device, which is made if it is not there.
    pub fn code(&self, id: &str) -> String {
        let body = json!({"version": 1, "appSystem": "stock"});
        self.admin("PUT", &format!("devices/acme/{id}"), &body);
        let code = self.admin("POST", &format!("devices/acme/{id}/code"), &Value::Null);
        code["code"].as_str().unwrap().to_owned()
    }

    /// The token of a device that is active.
    pub fn phone(&self, id: &str) -> String {
        let body = json!({"version": 1, "code": self.code(id)});
        let answer = self.ask(None, "POST", "device/activate", &body);
        assert_eq!(answer.status, 200, "{}", words(&answer));
        answer.json().unwrap()["token"].as_str().unwrap().to_owned()
    }

    pub fn post(&self, phone: &str, id: &str, payload: &str) -> Answer {
        self.ask(Some(phone), "POST", "messages", &message(id, payload))
    }

    pub fn stored(&self, phone: &str, id: &str, payload: &str) {
        let answer = self.post(phone, id, payload);
        assert_eq!(answer.status, 201, "{}", words(&answer));
    }

    /// Ids of what waits for a device.
    pub fn fetched(&self, phone: &str) -> Vec<String> {
        let answer = self.ask(Some(phone), "GET", "messages", &Value::Null);
        assert_eq!(answer.status, 200, "{}", words(&answer));
        ids(&answer.json().unwrap())
    }

    pub fn ack(&self, phone: &str, ids: &[&str]) {
        let body = json!({"version": 1, "ids": ids});
        let answer = self.ask(Some(phone), "POST", "messages/ack", &body);
        assert_eq!(answer.status, 200, "{}", words(&answer));
    }

    /// `API_1` that gives a process: its id and those of its messages.
    pub fn begin(&self, files_max: usize) -> (String, Vec<String>) {
        let body = json!({"version": 1, "maxFiles": files_max});
        let answer = self.admin("POST", "databases/erp1/processes", &body);
        assert_eq!(answer["status"], "OK", "{answer}");
        (answer["processId"].as_str().unwrap().to_owned(), ids(&answer))
    }

    /// Another call about a process.
    pub fn call(&self, method: &str, process: &str, call: &str, body: &Value) -> Answer {
        self.tried(method, &format!("databases/erp1/processes/{process}/{call}"), body)
    }

    /// `API_3`: everything is processed, and these are the replies.
    pub fn prepare(&self, process: &str, served: &[String], replies: &Value) -> Answer {
        let verdict = |id: &String| json!({"messageId": id, "status": "PROCESSED"});
        let verdicts: Vec<Value> = served.iter().map(verdict).collect();
        let body = json!({"version": 1, "verdicts": verdicts, "messages": replies});
        self.call("PUT", process, "prepare", &body)
    }

    /// `API_4`
    pub fn commit(&self, process: &str) -> Answer {
        self.call("POST", process, "commit", &json!({"version": 1}))
    }

    pub fn state_of(&self, process: &str) -> String {
        let found = self.see(&format!("databases/erp1/processes/{process}"));
        found["process"]["state"].as_str().unwrap().to_owned()
    }

    /// Where each message is, by its id.
    pub fn places(&self) -> BTreeMap<String, String> {
        let mut places = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = self.see(&format!("databases/erp1/messages?limit=1000&after={after}"));
            let messages = page["messages"].as_array().unwrap();
            let Some(last) = messages.last() else { return places };
            after = last["seq"].as_u64().unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            places.extend(messages.iter().map(|one| (text(&one["id"]), text(&one["place"]))));
        }
    }

    /// Waits until every body has its file, every file is where it belongs, and nothing else is there.
    pub fn until_filed(&self) {
        until("the files are where they belong", || {
            let stats = self.see("stats");
            stats["unfiled"] == 0 && stats["filesToMove"] == 0 && stats["unsettledProcesses"] == 0
        });
        let places = self.places();
        folders::compare(&self.exchange.join("erp1"), &places, PATIENCE).unwrap();
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        if is_so() {
            return;
        }
        thread::park_timeout(PAUSE);
    }
    panic!("not in time: {what}");
}

pub fn message(id: &str, payload: &str) -> Value {
    json!({"version": 1, "id": id, "createdAt": "2027-01-15T08:00:00Z", "payload": payload})
}

pub fn reply(id: &str, to: &str) -> Value {
    json!({"id": id, "to": to, "createdAt": "2027-01-15T08:00:00Z", "payload": "done"})
}

pub fn ids(page: &Value) -> Vec<String> {
    let messages = page["messages"].as_array().unwrap();
    messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

pub fn is_ok(answer: &Answer) -> bool {
    answer.status == 200 && answer.json().unwrap()["status"] == "OK"
}

pub fn words(answer: &Answer) -> String {
    format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))
}

pub fn code(answer: &Answer) -> String {
    let body = answer.json().unwrap();
    body["code"].as_str().unwrap_or_else(|| panic!("{}", words(answer))).to_owned()
}

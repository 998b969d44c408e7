//! Tokens and codes are told once, to whoever they are for. They are in no log line, figure or refusal
//! and in no file, whoever shows which of them at which door.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use handoff_tests::http::{Answer, Http};
use handoff_tests::place::Place;
use handoff_tests::served::{PATIENCE, lair, program};
use handoff_tests::workspace;
use serde_json::{Value, json};

use crate::office::{Office, is_ok, message, reply, words};

/// Every call of the exchange, as the description of the API has it: method and path.
fn calls() -> Vec<(String, String)> {
    let text = fs::read_to_string(workspace::root().join("openapi.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut calls = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        if let Some(path) = path.strip_prefix("/v1/exchange/") {
            let methods = methods.as_object().unwrap().keys();
            calls.extend(methods.map(|method| (method.to_uppercase(), path.to_owned())));
        }
    }
    // What removes things comes last, so that the rest is there to be asked about.
    calls.sort_by_key(|(method, _)| method == "DELETE");
    calls
}

/// What is said once. Only an answer that says so may have it.
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    #[track_caller]
    fn are_not_in(&self, place: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        for (what, secret) in &self.0 {
            assert!(!text.contains(&secret.to_lowercase()), "{what} is in {place}");
        }
    }

    fn are_not_below(&self, path: &Path) -> usize {
        if path.is_file() {
            self.are_not_in(&path.display().to_string(), &fs::read(path).unwrap());
            return 1;
        }
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| self.are_not_below(&entry.unwrap().path())).sum()
    }
}

fn told(answer: &Answer, field: &str) -> String {
    let body = answer.json().unwrap();
    body[field].as_str().unwrap_or_else(|| panic!("{}", words(answer))).to_owned()
}

/// The same with another last character: somebody copied it badly.
fn misread(secret: &str) -> String {
    let mut text = secret.to_owned();
    let last = text.pop().unwrap();
    text.push(if last == 'A' { 'B' } else { 'A' });
    text
}

#[test]
fn tokens_and_codes_are_in_no_log_figure_refusal_or_file() {
    let place = Place::temporary().unwrap();
    let lair = lair(place.path())
        .set("HANDOFF_SERVER__LOG_LEVEL", "trace")
        .set("HANDOFF_SERVER__ACCESS_LOG", "true")
        .set("HANDOFF_SERVER__SLOW_MS", "1ms")
        .set("HANDOFF_AUTH__ENABLED", "true");
    let made = Command::new(program())
        .args(["token", "create", "--name", "keeper", "--scope", "admin", "--json", "--data-dir"])
        .arg(&lair.data_dir)
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&made.stdout),
            String::from_utf8_lossy(&made.stderr)
        )
    });
    let house = made["token"].as_str().unwrap().to_owned();
    let mut office = Office::open(&lair);
    office.token = Some(house.clone());
    office.furnish();

    let used = office.code("phone-1");
    let activate = json!({"version": 1, "code": used});
    let phone = told(&office.ask(None, "POST", "device/activate", &activate), "token");
    let unused = office.code("phone-2");
    let erp = told(&office.tried("POST", "databases/erp1/token", &Value::Null), "token");
    let secrets = Secrets(vec![
        ("a token of the house", house.clone()),
        ("the token of a device", phone.clone()),
        ("the token of a database", erp.clone()),
        ("a code that was used", used.clone()),
        ("a code that was not", unused.clone()),
        ("a token of a device that was misread", misread(&phone)),
        ("a token of a database that was misread", misread(&erp)),
        ("a token of the house that was misread", misread(&house)),
        ("a code that was misread", misread(&unused)),
    ]);

    // Something of everything is there.
    office.stored(&phone, "m-1", "x");
    office.stored(&phone, "m-2", "x");
    let (first, served) = office.begin(1);
    assert!(is_ok(&office.prepare(&first, &served, &json!([reply("r-1", "phone-1")]))));
    assert!(is_ok(&office.commit(&first)));
    let (process, _) = office.begin(1);

    let shown = [
        None,
        Some(house.clone()),
        Some(misread(&house)),
        Some(phone.clone()),
        Some(misread(&phone)),
        Some(erp.clone()),
        Some(misread(&erp)),
        Some(unused.clone()),
    ];
    let mut answered = BTreeSet::new();
    for (method, path) in calls() {
        let path = [
            ("{company}", "acme"),
            ("{subsystem}", "stock"),
            ("{database}", "erp1"),
            ("{device}", "phone-1"),
            ("{process}", &process),
            ("{seq}", "1"),
        ]
        .iter()
        .fold(path, |path, (name, value)| path.replace(name, value));
        assert!(!path.contains('{'), "{path}");
        for token in &shown {
            // These would void the secrets that are looked for, or say new ones.
            let allowed = [&house, &erp, &phone].iter().any(|good| token.as_ref() == Some(*good));
            let voids = method == "DELETE" || path.ends_with("/token") || path.ends_with("/code");
            if voids && allowed {
                continue;
            }
            let bodies = match method.as_str() {
                "GET" | "DELETE" => vec![Value::Null],
                _ => vec![
                    json!({"version": 1}),
                    json!({"version": 1, "code": misread(&unused)}),
                    json!({"version": 1, "code": misread(&unused), "token": phone}),
                    json!({"version": 2, "code": unused, "token": erp, "ids": [phone]}),
                    json!({"version": 1, "code": [unused], "messages": [{"id": erp, "to": phone}]}),
                    message(&phone, &erp),
                ],
            };
            for body in bodies {
                let answer = office.ask(token.as_deref(), &method, &path, &body);
                let name = format!("the answer to {method} {path} ({})", answer.status);
                // Whoever writes a token where an id belongs is shown what is no id; nobody else is.
                if body.get("id").is_none() {
                    secrets.are_not_in(&name, &answer.body);
                }
                for (header, value) in &answer.headers {
                    secrets.are_not_in(&format!("{header} of {name}"), value.as_bytes());
                }
                answered.insert(answer.status);
            }
        }
    }
    for expected in [200, 401, 403, 422, 429] {
        assert!(answered.contains(&expected), "{answered:?}");
    }

    // A code that is cut off, and tokens where none belong.
    let cut = format!("{{\"version\":1,\"code\":\"{unused}");
    let head = format!(
        "POST /v1/exchange/device/activate HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
         application/json\r\nauthorization: {phone}\r\nx-token: {erp}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{cut}",
        cut.len()
    );
    let mut stream = TcpStream::connect(office.served.http).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    secrets.are_not_in("the answer to half a request", &answer);

    let mut http = Http::connect(office.served.http, PATIENCE).unwrap().bearing(&house);
    for path in ["/metrics", "/v1/audit", "/v1/exchange/stats", "/openapi.json"] {
        let answer = http.ask("GET", path, None).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", words(&answer));
        secrets.are_not_in(path, &answer.body);
    }
    office.served.stop().unwrap();
    let log = fs::read(&lair.talk).unwrap();
    let text = String::from_utf8_lossy(&log);
    for line in ["DEBUG", "/v1/exchange/device/activate", "401"] {
        assert!(text.contains(line), "the log has no {line}");
    }
    secrets.are_not_in("the log", &log);
    assert!(secrets.are_not_below(&lair.data_dir) > 3);
}

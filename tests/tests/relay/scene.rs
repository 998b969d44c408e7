//! An agent and the real server that receives it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use handoff_tests::http::Http;
use handoff_tests::place::Place;
use handoff_tests::relay::samples::Taken;
use handoff_tests::relay::{Agent, Den, Reception, samples_of, wait};
use handoff_tests::served::{PATIENCE, Served};
use serde_json::Value;

/// Both of them, unless they were taken away. What is left at the end is killed.
pub(crate) struct Scene {
    pub(crate) agent: Option<Agent>,
    pub(crate) server: Option<Served>,
    pub(crate) den: Den,
    pub(crate) reception: Reception,
    pub(crate) place: Place,
}

impl Scene {
    /// Their directories; nobody is there yet.
    pub(crate) fn empty() -> Self {
        let place = Place::temporary().unwrap();
        let (edge, centre) = (place.path().join("edge"), place.path().join("centre"));
        fs::create_dir_all(&edge).unwrap();
        fs::create_dir_all(&centre).unwrap();
        let reception = Reception::new(&centre).unwrap();
        let den = Den::new(&edge, &[("centre", reception.relay)]).unwrap();
        Self { agent: None, server: None, den, reception, place }
    }

    /// Both at work.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Both at work, the server with these variables.
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let mut scene = Self::empty();
        for (variable, value) in variables {
            scene.reception = scene.reception.set(variable, value);
        }
        scene.start();
        scene.agent = Some(scene.den.agent(&[]).unwrap());
        scene
    }

    pub(crate) fn agent(&self) -> &Agent {
        self.agent.as_ref().unwrap()
    }

    pub(crate) fn server(&self) -> &Served {
        self.server.as_ref().unwrap()
    }

    /// Starts the server, anew if it is there.
    pub(crate) fn start(&mut self) {
        self.server = None;
        self.server = Some(self.reception.start().unwrap());
    }

    /// Tells the server to stop, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.server.take().unwrap().stop().unwrap();
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    /// Sends samples, which must be acknowledged.
    #[track_caller]
    pub(crate) fn send(&self, samples: &[Taken]) {
        assert_eq!(self.agent().post(samples).unwrap().status, 204);
    }

    /// Waits until the topic has these samples, each once, and no others.
    #[track_caller]
    pub(crate) fn expect(&self, samples: &[Taken]) {
        each_once(samples, || samples_of(self.server().http).unwrap());
    }

    /// What the server answers to a path.
    pub(crate) fn ask(&self, path: &str) -> Value {
        let mut http = Http::connect(self.server().http, PATIENCE).unwrap();
        http.ask("GET", path, None).unwrap().json().unwrap()
    }

    /// A figure of the server.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let mut http = Http::connect(self.server().http, PATIENCE).unwrap();
        let text = http.ask("GET", "/metrics", None).unwrap().body;
        let text = String::from_utf8(text.to_vec()).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Tells the server to read its file again.
    pub(crate) fn hang_up(&self) {
        let id = self.server().prey.id().to_string();
        Command::new("kill").args(["-HUP", &id]).status().unwrap();
    }

    /// The same, and waits until it has.
    pub(crate) fn reload(&self) {
        let reloads = || {
            let acts = self.ask("/v1/audit")["acts"].clone();
            acts.as_array().map_or(0, |acts| {
                acts.iter().filter(|act| act.to_string().contains("configuration")).count()
            })
        };
        let before = reloads();
        self.hang_up();
        until(|| reloads() > before);
    }

    /// Waits until the agent has no file left, and tells both to stop.
    pub(crate) fn end(mut self) {
        self.den.wait_until(<[String]>::is_empty);
        self.agent.take().unwrap().stop().unwrap();
        self.stop();
    }
}

/// Samples that differ by these numbers.
pub(crate) fn samples(numbers: Range<i64>) -> Vec<Taken> {
    numbers.map(|n| (format!("s{}", n % 3), n, n.cast_unsigned())).collect()
}

/// Waits until these samples are there, each once, and no others.
#[track_caller]
pub(crate) fn each_once(samples: &[Taken], found: impl Fn() -> BTreeMap<Taken, u64>) {
    // nextest ends a test that waits for ever.
    until(|| found().len() >= samples.len());
    let found = found();
    for sample in samples {
        assert_eq!(found.get(sample), Some(&1), "{sample:?}");
    }
    assert_eq!(found.len(), samples.len(), "there are others");
}

/// Waits until something is so.
pub(crate) fn until(so: impl Fn() -> bool) {
    while !so() {
        wait(Duration::from_millis(20));
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

//! What the server asks of the disk, as the system sees it (`strace`).

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use handoff_tests::place::Place;
use handoff_tests::served::lair;
use serde_json::{Value, json};

use crate::office::{Office, is_ok, message, until, words};

/// Messages in the queue.
const QUEUED: usize = 4_000;

/// Processes from the first call to the last.
const CYCLES: usize = 200;

/// Calls that list a directory, of every thread of a process, into a file. Dropped, it ends.
struct Trace {
    strace: Child,
    path: PathBuf,
}

impl Trace {
    fn of(pid: u32, place: &Place) -> Self {
        let path = place.path().join("trace");
        let strace = Command::new("strace")
            .args(["-f", "-qq", "-y", "-e", "trace=getdents,getdents64", "-e", "signal=none", "-o"])
            .arg(&path)
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs strace");
        let trace = Self { strace, path };
        until("every thread is traced", || {
            tasks(pid).iter().all(|task| {
                let status = fs::read_to_string(format!("/proc/{pid}/task/{task}/status"));
                !status.unwrap_or_default().contains("TracerPid:\t0\n")
            })
        });
        trace
    }

    /// Calls that listed folders of the exchange: by which thread, and the call with its path. The
    /// journal and the checkpoints have directories too, and threads that look after them in their
    /// own time.
    fn seen(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(&self.path).unwrap();
        let calls = text.lines().filter_map(|line| line.split_once(' '));
        let lists = |call: &str| call.contains("getdents") && call.contains("/exchange");
        let calls = calls.filter(|(_, call)| lists(call));
        calls.map(|(thread, call)| (thread.to_owned(), call.to_owned())).collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // The kernel lets go of whoever was traced.
        drop(self.strace.kill());
        drop(self.strace.wait());
    }
}

fn tasks(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The thread that keeps the folders, which may look into them.
fn keepers(pid: u32) -> BTreeSet<String> {
    let is_keeper = |task: &String| {
        let name = fs::read_to_string(format!("/proc/{pid}/task/{task}/comm"));
        name.is_ok_and(|name| name.trim() == "exchange-files")
    };
    tasks(pid).into_iter().filter(is_keeper).collect()
}

#[test]
fn no_request_lists_a_directory_however_many_messages_wait() {
    let place = Place::temporary().unwrap();
    let office = Office::furnished(&lair(place.path()));
    let phone = office.phone("phone-1");
    for first in (0..QUEUED).step_by(1_000) {
        let batch: Vec<Value> =
            (first..first + 1_000).map(|n| message(&format!("m-{n}"), "queued")).collect();
        let body = json!({"version": 1, "messages": batch});
        let answer = office.ask(Some(&phone), "POST", "messages", &body);
        assert_eq!(answer.status, 201, "{}", words(&answer));
    }
    office.until_filed();

    let pid = office.served.prey.id();
    let trace = Trace::of(pid, &place);
    for cycle in 0..CYCLES {
        let (process, served) = office.begin(2);
        assert_eq!(served, [format!("m-{cycle}"), format!("m-{}", cycle + 1)]);
        let narrowed = json!({"version": 1, "files": served[..1]});
        assert!(is_ok(&office.call("PUT", &process, "files", &narrowed)));
        let replies = json!([crate::office::reply(&format!("r-{cycle}"), "phone-1")]);
        assert!(is_ok(&office.prepare(&process, &served[..1], &replies)));
        if cycle % 50 == 0 {
            // Its file is in Prepared, and is read before it is moved.
            office.until_filed();
        }
        assert!(is_ok(&office.commit(&process)));
        assert_eq!(office.fetched(&phone), [format!("r-{cycle}")]);
        office.ack(&phone, &[&format!("r-{cycle}")]);
        office.stored(&phone, &format!("more-{cycle}"), "x");
    }
    let keepers = keepers(pid);
    assert_eq!(keepers.len(), 1, "{keepers:?}");
    let seen = trace.seen();
    let others: Vec<_> = seen.iter().filter(|(thread, _)| !keepers.contains(thread)).collect();
    assert!(others.is_empty(), "threads that answer list directories: {others:?}");
    // The keeper looks for what people put there, now and then and not because somebody asked: this
    // many files are listed by about a dozen calls.
    assert!(seen.len() < CYCLES, "{} calls in {CYCLES} cycles", seen.len());

    // Had it been otherwise it would have been seen.
    office.admin("POST", "databases/erp1/rescan", &Value::Null);
    until("the folders are listed", || trace.seen().len() > seen.len());
}

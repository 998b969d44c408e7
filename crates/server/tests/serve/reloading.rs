//! SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handoff_house::ActKind;
use handoff_server::runtime::{Found, Foundation};
use handoff_server::serve::Hooks;
use handoff_sevent::{Answer, ErrorCode};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::client::{Client, every};
use crate::world::{PATIENCE, Served, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_changed_while_the_server_runs_and_the_audit_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut changed = settings(directory.path());
    changed.events.bounds.types_max = 0;
    // Needs another start, and changes nothing before.
    changed.events.enabled = false;
    let asked = Arc::new(AtomicBool::new(false));
    let hooks = Hooks {
        reload: Box::new({
            let asked = Arc::clone(&asked);
            move || {
                asked.store(true, Ordering::Release);
                Ok(changed.clone())
            }
        }),
        ..Hooks::none()
    };
    let server = Served::start_with(settings(directory.path()), hooks).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.register(every(3600.0, "a")).await;
    kill_process(getpid(), Signal::HUP).unwrap();
    let refused = loop {
        match client.ask(every(3600.0, "a")).await {
            Answer::EventRegistration { .. } => {}
            refused => break refused,
        }
    };
    assert!(
        matches!(refused, Answer::Error { code: ErrorCode::InvalidProperty, .. }),
        "{refused:?}"
    );
    assert!(asked.load(Ordering::Acquire));
    server.stop().await.unwrap();
    let foundation = Foundation::open(&settings(directory.path())).unwrap();
    let Found::Open(house) = &foundation.house else { panic!() };
    assert!(house.host.state().acts().any(|act| act.kind == ActKind::Reloaded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_a_greeting_may_take_is_changed_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mut begun = settings(directory.path());
    begun.auth.enabled = true;
    begun.server.header_time_max = Duration::from_secs(3600);
    let mut changed = begun.clone();
    changed.server.header_time_max = Duration::from_millis(50);
    let asked = Arc::new(Notify::new());
    let told = Arc::clone(&asked);
    let reload = move || {
        told.notify_one();
        Ok(changed.clone())
    };
    let hooks = Hooks { reload: Box::new(reload), ..Hooks::none() };
    let server = Served::start_with(begun, hooks).await.unwrap();
    kill_process(getpid(), Signal::HUP).unwrap();
    timeout(PATIENCE, asked.notified()).await.unwrap();
    // The old bound holds for whoever came before the new one was in force.
    let closed = async {
        loop {
            let mut client = Client::connect(&server).await;
            if timeout(Duration::from_millis(500), client.next()).await == Ok(None) {
                break;
            }
        }
    };
    timeout(PATIENCE, closed).await.expect("whoever says nothing is closed");
    server.stop().await.unwrap();
}

//! The clocks: is it plausible what they show.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use handoff_types::Now;

use super::Finding;
use crate::{clock, duration};

const CHECK: &str = "clock";

/// How far a clock may be behind something that happened before it is told.
const TOLERANCE: Duration = Duration::from_secs(60);

/// Looks at the clocks. `last` is the latest time in the journal.
pub(super) fn check(last: Option<Now>) -> Vec<Finding> {
    let wall = clock::wall();
    let mut findings = Vec::new();
    findings.extend(behind(wall, built(), "this program was built or installed"));
    let last = last.and_then(|last| u64::try_from(last.wall.0).ok());
    let last = last.map(|micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros));
    findings.extend(behind(wall, last, "the last record of the journal was written"));
    if findings.is_empty() {
        let shown = handoff_sdk::Time::from(wall);
        findings.push(Finding::ok(CHECK, format!("it shows {shown}")));
    }
    findings.extend(slept());
    findings.push(synchronised());
    findings
}

fn behind(wall: SystemTime, then: Option<SystemTime>, what: &str) -> Option<Finding> {
    let by = then?.duration_since(wall).ok().filter(|by| *by > TOLERANCE)?;
    let by = duration::show(Duration::from_secs(by.as_secs()));
    let what = format!("it shows {}, {by} before {what}", handoff_sdk::Time::from(wall));
    let remedy = "set the clock (cron and one-shot events follow it); periodic events are not hurt";
    Some(Finding::warn(CHECK, what, remedy))
}

/// When the file of this program was written: no clock was earlier since.
fn built() -> Option<SystemTime> {
    std::env::current_exe().ok()?.metadata().ok()?.modified().ok()
}

/// Whether the machine slept: what was due then was late, or missed.
fn slept() -> Option<Finding> {
    let (with_sleep, without) = clock::since_boot()?;
    let slept = with_sleep.checked_sub(without)?;
    if slept < Duration::from_secs(1) {
        return None;
    }
    let slept = duration::show(Duration::from_secs(slept.as_secs()));
    let what = format!("this machine slept for {slept} since it was started");
    let remedy =
        "what was due then counts as missed (events.catch_up decides); let servers not sleep";
    Some(Finding::warn("sleep", what, remedy))
}

fn synchronised() -> Finding {
    const CHECK: &str = "time sync";
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Finding::ok(CHECK, "the clock is synchronised (systemd-timesyncd)");
    }
    match ask_timedatectl().as_deref() {
        Some("yes") => Finding::ok(CHECK, "the clock is synchronised"),
        Some("no") => {
            let what = "the clock is not synchronised with others";
            Finding::warn(CHECK, what, "run chrony, ntpd or systemd-timesyncd")
        }
        _ => Finding::skip(CHECK, "nobody here can be asked whether the clock is synchronised"),
    }
}

/// The kernel's word on it, asked through timedatectl: the call itself (`adjtimex`) has no safe
/// binding. It may hang where there is no bus, so it is given two seconds.
fn ask_timedatectl() -> Option<String> {
    let mut child = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut out = child.stdout.take()?;
    let (tell, told) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut text = String::new();
        let read = out.read_to_string(&mut text);
        // Whoever asked may have given up.
        drop(tell.send(read.map(|_| text)));
    });
    let answer = told.recv_timeout(Duration::from_secs(2));
    drop(child.kill());
    drop(child.wait());
    Some(answer.ok()?.ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::behind;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_clock_behind_something_that_happened_is_told() {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let after = |secs| Some(wall + Duration::from_secs(secs));
        assert!(behind(wall, after(30), "x").is_none());
        assert!(behind(wall, None, "x").is_none());
        let finding = behind(wall, after(3600), "the backup").unwrap();
        assert!(finding.what.contains("1h before the backup"), "{}", finding.what);
    }
}

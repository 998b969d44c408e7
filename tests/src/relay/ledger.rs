//! Whoever sends samples while others are killed, and the book of what became of them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use handoff_sim::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};

use super::agent::post;
use super::samples::{Taken, body_v1};
use crate::http::Http;
use crate::served::PATIENCE;

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Agents killed.
    pub kills: u64,
    /// Of those, before they were ready.
    pub kills_at_start: u64,
    /// Agents that ended when they were told to.
    pub clean_ends: u64,
    /// Samples acknowledged.
    pub acknowledged: u64,
    /// Samples refused.
    pub refused: u64,
    /// Samples of which nobody heard.
    pub unknown: u64,
    /// Times that a refill file was found by an agent that started.
    pub found_files: u64,
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.kills_at_start += other.kills_at_start;
        self.clean_ends += other.clean_ends;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.found_files += other.found_files;
    }
}

/// What a hunt found.
#[derive(Debug)]
pub struct Trouble(String);

impl Trouble {
    pub(super) const fn new(words: String) -> Self {
        Self(words)
    }
}

impl std::error::Error for Trouble {}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Samples that were sent, none twice, and what was answered.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) outcomes: Outcomes,
    next: i64,
    acknowledged: Vec<Taken>,
}

impl Ledger {
    /// Sends until the agent is gone or it is enough.
    pub(super) fn send(
        &mut self,
        http: SocketAddr,
        dice: &mut Dice,
        mut enough: impl FnMut(&mut Dice) -> bool,
    ) {
        let Ok(mut connection) = Http::connect(http, PATIENCE) else { return };
        while !enough(dice) {
            let count = i64::try_from(1 + dice.below(40)).unwrap_or(1);
            let samples: Vec<Taken> = (self.next..self.next + count)
                .map(|n| (format!("s{}", n % 7), n, n.cast_unsigned().wrapping_mul(0x9e37_79b9)))
                .collect();
            self.next += count;
            let count = count.cast_unsigned();
            match post(&mut connection, &body_v1(&samples)) {
                Ok(answer) if answer.status == 204 => {
                    self.outcomes.acknowledged += count;
                    self.acknowledged.extend(samples);
                }
                Ok(_) => self.outcomes.refused += count,
                Err(_) => {
                    self.outcomes.unknown += count;
                    return;
                }
            }
        }
    }

    /// Something that was acknowledged and is not among what was found.
    ///
    /// # Errors
    /// Something is there twice, or was never sent.
    pub(super) fn missing(&self, found: &BTreeMap<Taken, u64>) -> Result<Option<Taken>, String> {
        if let Some((sample, times)) = found.iter().find(|(_, times)| **times > 1) {
            return Err(format!("{sample:?} is there {times} times"));
        }
        if let Some((alien, _)) = found.iter().find(|((_, time, _), _)| *time >= self.next) {
            return Err(format!("{alien:?} was never sent"));
        }
        let missing = self.acknowledged.iter().find(|sample| !found.contains_key(*sample));
        Ok(missing.cloned())
    }
}

/// Kills a process after a while.
pub(super) fn strike(id: u32, after: Duration) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        wait(after);
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            kill_process(id, Signal::KILL).ok();
        }
    })
}

/// Between two looks at what another process does, or until a moment that was drawn.
pub fn wait(time: Duration) {
    let (_silent, ears) = std::sync::mpsc::sync_channel::<()>(0);
    // Nobody says anything.
    ears.recv_timeout(time).ok();
}

//! A refill file sent by hand: one that was set aside, or comes from another machine.
//!
//! The file is only read. Everything in it that can be decoded is sent, whatever was confirmed: the
//! receiver knows the block and drops what it has, if the agent has its own name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use handoff_log::disk::Real;
use handoff_relay::refill::{Ledger, RefillError, RefillLimits, Source, Stored};
use handoff_relay::session::{Message, Reason};
use handoff_relay::{Happened, Name, RefillSender, SegmentKey, Step};
use handoff_types::Steady;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::address::Address;
use crate::clock::Outside;
use crate::core::{Event, modest};
use crate::line::{Heard, Line};
use crate::way::Way;

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Segments that can be decoded with what is in the file.
    pub segments: u64,
    /// Of those, confirmed, skipped ones included.
    pub confirmed: u64,
    /// Bytes of segments and key frames sent.
    pub sent_bytes: u64,
    /// Segments that the receiver will never take, or that are damaged.
    pub skipped: u64,
}

/// Why a file was not sent to its end. What was confirmed is there; it may be run again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {fault}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the disk answered.
        #[source]
        fault: io::Error,
    },
    /// It is no refill file.
    #[error("{0} is no refill file, or its beginning is damaged")]
    NoRefill(PathBuf),
    /// The name is none.
    #[error("`{0}` is no name for an agent: 1 to 128 visible ASCII characters")]
    Name(String),
    /// The receiver cannot be talked to.
    #[error("{0}")]
    Way(String),
    /// It does not answer, or not any more.
    #[error("{address}: {why}; run it again: what it has it does not take twice")]
    Lost {
        /// Who.
        address: Address,
        /// Why.
        why: String,
    },
    /// It refuses.
    #[error("{address} refuses: {words}")]
    Refused {
        /// Who.
        address: Address,
        /// What it says.
        words: String,
    },
}

/// Sends a refill file to a receiver, under the name of the agent whose it is.
///
/// # Errors
/// [`ReplayError`]
///
/// # Cancel safety
/// Dropped, it has sent what it has sent; it may be run again.
pub async fn replay(
    path: &Path,
    agent: &str,
    to: (Address, String, Option<PathBuf>),
    outside: Outside,
    mut told: impl FnMut(Progress),
) -> Result<Progress, ReplayError> {
    let (address, token, ca_file) = to;
    let source = open(path)?;
    let no_refill = || ReplayError::NoRefill(path.to_owned());
    let ledger = source.found().ledger.clone().ok_or_else(no_refill)?.unconfirmed();
    let agent = Name::try_from(agent).map_err(|_| ReplayError::Name(agent.to_owned()))?;
    // Whoever the file names: all of it goes there.
    let named = ledger.acks().names().first().cloned().ok_or_else(no_refill)?;
    let sender = RefillSender::new(&ledger, agent, &named, token).ok_or_else(no_refill)?;
    let way = Way::new(address.clone(), ca_file.as_deref()).map_err(ReplayError::Way)?;
    let (events, mut mailbox) = mpsc::channel(64);
    let line = Line::open(1, Some(Arc::new(way)), events);
    let progress = Progress { segments: segments(&ledger), ..Progress::default() };
    let mut replay = Replay {
        path: path.to_owned(),
        source,
        ledger,
        sender,
        line,
        progress,
        address,
        over: false,
    };
    loop {
        let now = outside.now().steady;
        replay.drive(now)?;
        told(replay.progress);
        if replay.over {
            replay.line.say(Message::End);
            replay.line.finish();
            return Ok(replay.progress);
        }
        // Both may be dropped: what was not received stays in the queue.
        tokio::select! {
            event = mailbox.recv() => if let Some(Event::Line(_, heard)) = event {
                replay.heard(heard, outside.now().steady)?;
            },
            () = sleep(Duration::from_secs(1)) => {}
        }
    }
}

/// A file by its path, wherever it lies.
fn open(path: &Path) -> Result<Source, ReplayError> {
    let unreadable = |fault| ReplayError::Unreadable { path: path.to_owned(), fault };
    let whole = std::path::absolute(path).map_err(unreadable)?;
    let name = whole.file_name().and_then(|name| name.to_str());
    let (Some(dir), Some(name)) = (whole.parent().filter(|dir| dir.is_dir()), name) else {
        return Err(unreadable(io::ErrorKind::NotFound.into()));
    };
    let disk = Real::new(dir).map_err(unreadable)?;
    Source::open(&disk, name, RefillLimits::default()).map_err(unreadable)
}

fn segments(ledger: &Ledger) -> u64 {
    let stored = |shard| ledger.entries(shard).iter();
    let all = ledger.acks().shards().ids().flat_map(stored);
    all.filter(|entry| entry.stored == Stored::Segment).count() as u64
}

struct Replay {
    path: PathBuf,
    source: Source,
    ledger: Ledger,
    sender: RefillSender,
    line: Line,
    progress: Progress,
    address: Address,
    over: bool,
}

impl Replay {
    fn lost(&self, why: impl Into<String>) -> ReplayError {
        ReplayError::Lost { address: self.address.clone(), why: why.into() }
    }

    /// Sends what can be sent. The disk is waited for: nobody else is on this thread.
    fn drive(&mut self, now: Steady) -> Result<(), ReplayError> {
        match self.sender.tick(now) {
            Some(Ok(message)) => {
                self.line.say(message);
            }
            Some(Err(Happened::Broken(why))) => return Err(self.lost(why)),
            _ => {}
        }
        while self.line.has_room() {
            match self.sender.step(&self.ledger, now) {
                Step::Say(message) => {
                    self.line.say(message);
                }
                Step::Read(key, entry) => match self.source.read(key, entry) {
                    Ok(bytes) => match self.sender.read(key, entry, &bytes) {
                        Some(message) => {
                            self.progress.sent_bytes += bytes.len() as u64;
                            self.line.say(message);
                        }
                        None => self.pass(key),
                    },
                    Err(RefillError::Damaged(_)) => self.pass(key),
                    Err(RefillError::Disk(fault)) => {
                        return Err(ReplayError::Unreadable { path: self.path.clone(), fault });
                    }
                    Err(error) => return Err(self.lost(error.to_string())),
                },
                Step::Wait => break,
                Step::Done => {
                    self.over = true;
                    break;
                }
            }
        }
        Ok(())
    }

    fn pass(&mut self, key: SegmentKey) {
        self.progress.skipped += 1;
        if let Some(skip) = self.sender.skip(key, &self.ledger) {
            self.line.say(skip);
        }
    }

    fn heard(&mut self, heard: Heard, now: Steady) -> Result<(), ReplayError> {
        match heard {
            Heard::Up => {
                self.line.up = true;
                let hello = self.sender.connected(now);
                self.line.say(hello);
            }
            Heard::Taken => self.sender.took(now),
            Heard::Down(why) => return Err(self.lost(why)),
            Heard::Message(message) => {
                for one in self.sender.received(modest(message), now) {
                    match one {
                        Happened::Rejected { key, reason, words } => match reason {
                            // Nothing more of the shard would be taken, and nothing is wrong with it.
                            Reason::Unauthorized => {
                                let address = self.address.clone();
                                return Err(ReplayError::Refused { address, words });
                            }
                            reason if reason.is_permanent() => self.pass(key),
                            _ => tracing::debug!(%key, ?reason, words, "not taken yet"),
                        },
                        Happened::Refused { words, .. } => {
                            let address = self.address.clone();
                            return Err(ReplayError::Refused { address, words });
                        }
                        Happened::Broken(why) => return Err(self.lost(why)),
                        Happened::Opened
                        | Happened::Acked(_)
                        | Happened::Ahead(_)
                        | Happened::Missing(_) => {}
                    }
                }
                self.progress.confirmed = self.confirmed();
            }
        }
        Ok(())
    }

    fn confirmed(&self) -> u64 {
        let shards = self.ledger.acks().shards().ids();
        let of = |shard| {
            let acked = self.sender.acked(shard);
            let entries = self.ledger.entries(shard).iter();
            let segments = entries.filter(|one| one.stored == Stored::Segment);
            segments.filter(|one| Some(one.segment) <= acked).count() as u64
        };
        shards.map(of).sum()
    }
}

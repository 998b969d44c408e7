//! A second pair of hands, which fills files that were made.
//!
//! The names of a folder are made one after the other, whoever makes them. To fill a file takes almost
//! as long and needs no folder, so while one thread makes names another can fill what has one:
//!
//! ```text
//!  keeper   make │ make │ make │ make │ …          │ wait: all of them are filled, or not
//!  hand            fill │ fill │ fill │ fill │ …
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use handoff_log::disk::{Disk, File, remove_if_there, write_all_at};

/// Files that are handed over together: one by one, to wake the hand would cost more than it does.
const HANDED_AT_ONCE: usize = 32;

/// Piles that it has at once: so many files are open at most.
const PILES_MAX: usize = 8;

/// A file that has its name and nothing in it yet.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) path: String,
    pub(super) file: Arc<dyn File>,
    pub(super) body: Bytes,
}

impl Made {
    /// Writes what belongs into the file. One that cannot be filled is removed.
    pub(super) fn fill(self, disk: &dyn Disk) -> io::Result<()> {
        let written = write_all_at(&*self.file, &self.body, 0);
        if written.is_err() {
            // If that fails too, it is set aside as what it is: not the message.
            drop(remove_if_there(disk, &self.path));
        }
        written
    }
}

/// Files by their numbers in a batch.
type Pile = Vec<(usize, Made)>;

/// Those of a pile that could not be filled.
type Failed = Vec<(usize, io::Error)>;

/// A thread that fills files. Dropped, it ends and waits for it.
#[derive(Debug)]
pub(super) struct Hand {
    piles: Option<SyncSender<Pile>>,
    filled: Receiver<Failed>,
    thread: Option<JoinHandle<()>>,
    pile: Pile,
    /// Numbers of the files of piles that it has. Neither side ever waits to hand something over: there
    /// is a place for each of these, both ways.
    has: VecDeque<Vec<usize>>,
    failed: Failed,
}

impl Hand {
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn new(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let (piles, to_fill) = sync_channel::<Pile>(PILES_MAX);
        let (tell, filled) = sync_channel(PILES_MAX);
        let work = move || {
            for pile in to_fill {
                let fill = |(nth, made): (usize, Made)| Some((nth, made.fill(&*disk).err()?));
                if tell.send(pile.into_iter().filter_map(fill).collect()).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("exchange-bodies".to_owned()).spawn(work)?;
        let (pile, has, failed) = (Vec::new(), VecDeque::new(), Vec::new());
        Ok(Self { piles: Some(piles), filled, thread: Some(thread), pile, has, failed })
    }

    /// Has a file filled.
    pub(super) fn give(&mut self, nth: usize, made: Made) {
        self.pile.push((nth, made));
        if self.pile.len() >= HANDED_AT_ONCE {
            self.hand_over();
        }
    }

    /// Waits until all files are filled, and gives those that could not be.
    pub(super) fn wait(&mut self) -> Failed {
        self.hand_over();
        while !self.has.is_empty() {
            self.wait_for_one();
        }
        std::mem::take(&mut self.failed)
    }

    /// Waits until the first pile is filled.
    fn wait_for_one(&mut self) {
        let Some(numbers) = self.has.pop_front() else { return };
        // A panic there has been reported by itself. What it did is looked at next time.
        let gone = || numbers.into_iter().map(|nth| (nth, io::Error::other("nobody fills it")));
        self.failed.extend(self.filled.recv().unwrap_or_else(|_| gone().collect()));
    }

    fn hand_over(&mut self) {
        if self.pile.is_empty() {
            return;
        }
        if self.has.len() >= PILES_MAX {
            self.wait_for_one();
        }
        let pile = std::mem::take(&mut self.pile);
        self.has.push_back(pile.iter().map(|(nth, _)| *nth).collect());
        // If it is gone, whoever waits is told.
        drop(self.piles.as_ref().map(|piles| piles.send(pile)));
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        drop(self.piles.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

//! A room whose first word the journal loses.
//!
//! Offers of calls in memory wait for no disk, and their fencing tokens are new only because what says so is on
//! it. A room that went on without it gave tokens that the next life gave again.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use handoff_calls::Calls;
use handoff_log::directory::Directory;
use handoff_log::disk::Memory;
use handoff_log::journal::{
    BodyAt, Entry, Inline, Journal, Options, Permit, Purpose, ReadError, Refused, Ticket,
};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Host, Loading, open_journal};
use handoff_types::{Entropy, Limits, Now, Position, Room, Sequence, Steady, Wall};

use super::{CallsRoom, Parts};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::runtime::{Checkpoints, Watermark};
use crate::settings;
use crate::telemetry::Metrics;

const NOW: Now = Now { wall: Wall(1_000_000_000), steady: Steady(0) };

/// A journal that loses so many entries, and commits all others at once.
#[derive(Debug)]
struct Forgetful {
    inline: Inline,
    /// Journals that take one entry and end before it is durable.
    doomed: Mutex<Vec<Inline>>,
    appended: Mutex<usize>,
}

fn open(entropy: Entropy) -> (Directory, Loading<Calls>, Inline) {
    let limits = Limits { journal_file_bytes: 4 << 20, ..Limits::default() };
    let directory = Directory::open(Arc::new(Memory::new()), entropy).unwrap();
    let mut loading = Loading::<Calls>::begin(&directory).unwrap();
    let options = Options { limits, directory: directory.id, entropy };
    let (opened, ..) = open_journal(&directory, options, &mut [&mut loading]).unwrap();
    (directory, loading, Inline::start(opened))
}

impl Journal for Forgetful {
    fn admit(&self, room: Room, bytes: u64, purpose: Purpose) -> Result<Permit, Refused> {
        self.inline.admit(room, bytes, purpose)
    }

    fn append(&self, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        *self.appended.lock().unwrap() += 1;
        if let Some(doomed) = self.doomed.lock().unwrap().pop() {
            let permit = doomed.admit(entry.room, entry.bytes(), Purpose::Finish).unwrap();
            return doomed.append(permit, entry);
        }
        let appended = self.inline.append(permit, entry);
        self.inline.commit().unwrap();
        appended
    }

    fn barrier(&self, room: Room) -> Ticket {
        self.inline.barrier(room)
    }

    fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        self.inline.body(at)
    }

    fn trim(&self, room: Room, below: Position) {
        self.inline.trim(room, below);
    }

    fn durable(&self) -> Position {
        self.inline.durable()
    }
}

#[tokio::test(start_paused = true)]
async fn a_room_says_that_it_is_open_until_that_is_on_disk() {
    let (directory, loading, inline) = open(Entropy(7));
    let doomed = (1..3).map(|n| open(Entropy(n)).2).collect();
    let journal =
        Arc::new(Forgetful { inline, doomed: Mutex::new(doomed), appended: Mutex::default() });
    let limits = Limits::default();
    let segments = Segments::open(Arc::clone(&directory.disk), (&limits).into()).unwrap();
    let host: Host<Calls> = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
    let (_room, mut work) = CallsRoom::start(Parts {
        host,
        checkpoints: Checkpoints::new(directory, &settings::Log::default()),
        clock: Clock::told(NOW).0,
        dice: Dice::seeded(Entropy(1)),
        settings: settings::Calls::default(),
        watermark: Watermark::new(&std::env::temp_dir(), Some(0)).unwrap(),
        metrics: Arc::new(Metrics::new("1")),
    });
    work.resumed().await;
    assert_eq!(*journal.appended.lock().unwrap(), 3, "two were lost");
}

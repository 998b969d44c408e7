//! Proof that the embedded world can fail: servers that break one promise each, and the world
//! must notice within some seeds.

mod twisted;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::disk::{Disk, File, Open, Walk};
use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, drive};
use handoff_sim::embedded::{Counting, Embedded, Parts, Sound};
use handoff_sim::history::{History, Keep};
use handoff_sim::oracle::Violation;
use handoff_sim::room::{Change, Counter, State};
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Machine, Now, Room, Sequence, Steady, Wall};
use twisted::Twist;
use twisted::journal::{Hasty, fulfilled, hurried};

const SEEDS: std::ops::Range<u64> = 0..25;

/// What the first broken promise of each seed was.
fn faults<P: Parts>() -> Vec<Fault> {
    SEEDS
        .filter_map(|seed| {
            let mut world = Embedded::<P>::new(Dice::new(seed));
            let history = History::new(Keep::Last);
            drive("twisted", &mut world, seed, 250, history).err().map(|failure| failure.fault)
        })
        .collect()
}

#[track_caller]
fn notices<P: Parts>(expected: impl Fn(&Fault) -> bool) {
    let faults = faults::<P>();
    assert!(faults.iter().any(expected), "the world did not notice: {faults:#?}");
}

fn says(words: &'static str) -> impl Fn(&Fault) -> bool {
    move |fault| matches!(fault, Fault::Invariant(what) if what.contains(words))
}

/// A disk that does one thing otherwise than the one below.
trait Meddle: fmt::Debug + Send + Sync + Sized + 'static {
    fn sync(file: &dyn File) -> io::Result<()> {
        file.sync()
    }

    fn sync_dir(disk: &dyn Disk, dir: &str) -> io::Result<()> {
        disk.sync_dir(dir)
    }

    fn sync_all(disk: &dyn Disk) -> io::Result<()> {
        disk.sync_all()
    }
}

#[derive(Debug)]
struct Meddled<T, D>(D, PhantomData<T>);

fn meddled<T: Meddle>(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    Arc::new(Meddled::<T, _>(disk, PhantomData))
}

impl<T: Meddle> Disk for Meddled<T, Arc<dyn Disk>> {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Meddled::<T, _>(self.0.open(path, how)?, PhantomData)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        self.0.walk(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.0.create_dir(dir)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.0.remove_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename_new(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        T::sync_dir(&*self.0, dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        T::sync_all(&*self.0)
    }
}

impl<T: Meddle> File for Meddled<T, Arc<dyn File>> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        T::sync(&*self.0)
    }
}

impl<T: Twist + 'static> Persist for twisted::Room<T> {
    const ROOM: Room = Counter::ROOM;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        T::encode(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        Counter::decode_change(bytes)
    }

    fn key(change: &Change) -> Bytes {
        Counter::key(change)
    }

    fn frame(change: &Change) -> Option<Frame> {
        Counter::frame(change)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        T::snapshot(state, from, bytes_max)
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        Counter::restore(state, snapshot)
    }
}

#[test]
fn the_server_as_it_is_passes() {
    assert_eq!(faults::<Sound>(), []);
}

#[test]
fn an_answer_before_its_record_is_durable() {
    #[derive(Debug)]
    struct Early;
    impl Hasty for Early {
        fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
            if !entry.bodies.is_empty() {
                return journal.append(permit, entry);
            }
            (journal.append(permit, entry).0, fulfilled(journal))
        }
    }
    impl Parts for Early {
        type Rooms = Counting<Counter>;
        fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
            hurried::<Self>(journal)
        }
    }
    let lost = |fault: &Fault| {
        matches!(fault, Fault::Oracle(Violation::Impossible { .. }))
            || says("before one that was decided earlier")(fault)
    };
    notices::<Early>(lost);
}

/// A refusal reveals state too.
#[test]
fn a_refusal_before_what_it_rests_on_is_durable() {
    #[derive(Debug)]
    struct Blurts;
    impl Hasty for Blurts {
        fn barrier(journal: &dyn Journal, _: Room) -> Ticket {
            fulfilled(journal)
        }
    }
    impl Parts for Blurts {
        type Rooms = Counting<Counter>;
        fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
            hurried::<Self>(journal)
        }
    }
    notices::<Blurts>(says("before one that was decided earlier"));
}

#[test]
fn a_disk_that_only_says_it_has_synced() {
    #[derive(Debug)]
    struct Lies;
    impl Meddle for Lies {
        fn sync(_: &dyn File) -> io::Result<()> {
            Ok(())
        }
    }
    impl Parts for Lies {
        type Rooms = Counting<Counter>;
        fn disk(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
            meddled::<Self>(disk)
        }
    }
    notices::<Lies>(|fault| says("was told of")(fault) || says("cannot be opened")(fault));
}

#[test]
fn a_name_that_is_never_made_durable() {
    #[derive(Debug)]
    struct Forgets;
    impl Meddle for Forgets {
        fn sync_dir(_: &dyn Disk, _: &str) -> io::Result<()> {
            Ok(())
        }
    }
    impl Parts for Forgets {
        type Rooms = Counting<Counter>;
        fn disk(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
            meddled::<Self>(disk)
        }
    }
    notices::<Forgets>(says("was told of"));
}

#[test]
fn bodies_that_leave_the_journal_before_segments_have_them() {
    #[derive(Debug)]
    struct Unsynced;
    impl Meddle for Unsynced {
        fn sync_all(_: &dyn Disk) -> io::Result<()> {
            Ok(())
        }
    }
    impl Parts for Unsynced {
        type Rooms = Counting<Counter>;
        fn disk(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
            meddled::<Self>(disk)
        }
    }
    notices::<Unsynced>(|fault| {
        says("are damaged on disk")(fault) || matches!(fault, Fault::Oracle(Violation::Body { .. }))
    });
}

#[test]
fn a_journal_that_forgets_what_no_checkpoint_has() {
    #[derive(Debug)]
    struct Forgets;
    impl Hasty for Forgets {
        fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
            journal.trim(entry.room, journal.durable());
            journal.append(permit, entry)
        }
    }
    impl Parts for Forgets {
        type Rooms = Counting<Counter>;
        fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
            hurried::<Self>(journal)
        }
    }
    notices::<Forgets>(|fault| {
        says("lost records")(fault) || says("damage where there is none")(fault)
    });
}

#[test]
fn a_change_that_is_not_written_down() {
    #[derive(Debug)]
    struct Skips;
    impl Twist for Skips {
        fn encode(change: &Change, out: &mut Vec<u8>) {
            if !matches!(change, Change::HoldReleased { .. }) {
                Counter::encode_change(change, out);
            }
        }
    }
    impl Parts for Skips {
        type Rooms = Counting<twisted::Room<Self>>;
    }
    notices::<Skips>(says("the state read back"));
}

#[test]
fn a_checkpoint_that_leaves_something_out() {
    #[derive(Debug)]
    struct LeavesHoldsOut;
    impl Twist for LeavesHoldsOut {
        fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
            let mut state = state.clone();
            for key in state.keys().collect::<Vec<_>>() {
                let mut tally = state.tally(key).clone();
                tally.hold = None;
                state.set(key, tally);
            }
            Counter::snapshot(&state, from, bytes_max)
        }
    }
    impl Parts for LeavesHoldsOut {
        type Rooms = Counting<twisted::Room<Self>>;
    }
    notices::<LeavesHoldsOut>(says("the state read back"));
}

#[test]
fn a_state_that_does_not_follow_from_its_changes() {
    thread_local!(static CALLS: Cell<i64> = const { Cell::new(0) });
    #[derive(Debug)]
    struct Moody;
    impl Twist for Moody {
        fn evolve(state: &mut State, change: &Change) {
            Counter::evolve(state, change);
            let by = CALLS.replace(CALLS.get() + 1) % 2;
            Counter::evolve(state, &Change::MovedIn { key: change.key(), by });
        }
    }
    impl Parts for Moody {
        type Rooms = Counting<twisted::Room<Self>>;
    }
    notices::<Moody>(says("the state read back"));
}

#[test]
fn a_steady_clock_that_begins_anew_or_follows_the_operator() {
    #[derive(Debug)]
    struct FromZero;
    impl Parts for FromZero {
        type Rooms = Counting<Counter>;
        fn resume(_: Now, _: Wall) -> Steady {
            Steady(0)
        }
    }
    #[derive(Debug)]
    struct StandsStill;
    impl Parts for StandsStill {
        type Rooms = Counting<Counter>;
        fn resume(last: Now, _: Wall) -> Steady {
            last.steady
        }
    }
    notices::<FromZero>(says("steady time went back"));
    notices::<StandsStill>(says("steady time goes on"));
}

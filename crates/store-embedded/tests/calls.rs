//! The calls room on embedded storage.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use handoff_calls::conformance::{self, Bench, Fresh, model};
use handoff_calls::transport::{Failed, Look, Transport};
use handoff_calls::{
    Aggregate, Ask, CallId, Calls, Change, ChannelName, ChannelSettings, ClientId, Command,
    Durability, Key, NewCall, Notice, Outcome, Reply, Rules, Serves,
};
use handoff_log::directory::Directory;
use handoff_log::disk::{Disk, Memory};
use handoff_log::journal::{Inline, Options, Purpose};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Checkpointing, Host, Loading, Persist as _, Progress, open_journal};
use handoff_types::{Entropy, Limits, Machine as _, Now, Span, Steady, Wall};

/// A room on a journal, and everything that clients were told.
struct Room {
    directory: Directory,
    journal: Arc<Inline>,
    host: Host<Calls>,
    rules: Rules,
    now: Now,
    chance: u128,
    told: BTreeMap<ClientId, Vec<Notice>>,
    /// Entries that were written.
    written: u64,
}

impl Room {
    fn open(disk: Arc<dyn Disk>, rules: Rules, now: Now) -> Self {
        let entropy = Entropy(7);
        let limits = Limits { journal_file_bytes: 4 << 20, ..Limits::default() };
        let directory = Directory::open(disk, entropy).unwrap();
        let mut loading = Loading::<Calls>::begin(&directory).unwrap();
        let options = Options { limits: limits.clone(), directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).unwrap();
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().unwrap();
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        let (told, written) = (BTreeMap::new(), 0);
        let mut room = Self { directory, journal, host, rules, now, chance: 0, told, written };
        room.take(Ask::Opened);
        room
    }

    fn take(&mut self, ask: Ask) -> Reply {
        self.chance += 1;
        let command = Command { ask, rules: self.rules };
        let chance = (self.now, Entropy(self.chance));
        let applied = self.host.apply_made(&command, 1 << 20, Purpose::Finish, chance).unwrap();
        self.written += u64::from(applied.sequence.is_some());
        self.journal.commit().unwrap();
        assert!(applied.ticket.outcome().is_some_and(|outcome| outcome.is_ok()));
        for notice in applied.actions {
            if let Some(to) = notice.to() {
                self.told.entry(to).or_default().push(notice);
            }
        }
        applied.reply
    }

    fn settle(&mut self) {
        while self.host.next_deadline(self.now).is_some_and(|due| due <= self.now.steady) {
            assert_eq!(self.take(Ask::Tick), Reply::More(true));
        }
    }

    fn ask(&mut self, ask: Ask) -> Reply {
        let reply = self.take(ask);
        self.settle();
        reply
    }

    /// The process is gone, and another opens its disk.
    fn restart(self) -> Self {
        let (disk, rules) = (Arc::clone(&self.directory.disk), self.rules);
        let now = self.now;
        drop(self);
        Self::open(disk, rules, now)
    }

    fn checkpoint(&mut self, chunk_bytes: usize) {
        let mut checkpoint = Checkpointing::begin::<Calls>(&self.directory, chunk_bytes).unwrap();
        while checkpoint.step(&mut self.host, self.now).unwrap() != Progress::Done {}
    }
}

struct Embedded(Mutex<Room>);

impl Transport for Embedded {
    async fn ask(&self, ask: Ask) -> Result<Reply, Failed> {
        Ok(self.0.lock().unwrap().ask(ask))
    }

    async fn heard(&self, client: ClientId) -> Result<Vec<Notice>, Failed> {
        Ok(self.0.lock().unwrap().told.remove(&client).unwrap_or_default())
    }

    async fn look(&self, call: CallId) -> Result<Option<Look>, Failed> {
        Ok(self.0.lock().unwrap().host.state().call(call).map(Look::from))
    }
}

impl Bench for Embedded {
    async fn pass(&self, time: Span) {
        let room = &mut *self.0.lock().unwrap();
        let end = room.now.steady + time;
        loop {
            let due = Calls::next_deadline(room.host.state(), room.now);
            let due = due.filter(|due| *due <= end);
            let next = due.unwrap_or(end).max(room.now.steady);
            let step = next.since(room.now.steady);
            room.now = Now { wall: room.now.wall + step, steady: next };
            room.settle();
            if due.is_none() {
                return;
            }
        }
    }
}

struct OnAJournal;

impl Fresh for OnAJournal {
    type Bench = Embedded;

    async fn fresh(&self, rules: Rules) -> Embedded {
        Embedded(Mutex::new(Room::open(Arc::new(Memory::default()), rules, NOON)))
    }
}

const NOON: Now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1_000_000) };

fn run<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

const CALLER: ClientId = ClientId::of_chance(1);
const WORKER: ClientId = ClientId::of_chance(2);

fn channel(text: &str) -> ChannelName {
    text.parse().unwrap()
}

fn call(n: u128, name: &str) -> Ask {
    Ask::Request(Box::new(NewCall {
        id: CallId::of_chance(n),
        caller: Some(CALLER),
        channel: channel(name),
        params: Bytes::from("1"),
        key: None,
        timeout: None,
        queue_timeout: None,
        only_with_consumer: false,
        trace: None,
    }))
}

fn clients_come(room: &mut Room) {
    let serves = ["light", "work"].map(|name| Serves { channel: channel(name), concurrency: 10 });
    let init = |client, serves| Ask::Init { client, name: "".into(), serves, eager: false };
    room.ask(init(CALLER, Vec::new()));
    room.ask(init(WORKER, serves.to_vec()));
}

fn respond(room: &mut Room, n: u128) -> Reply {
    let (client, call) = (WORKER, CallId::of_chance(n));
    let fence = room.host.state().call(call).unwrap().fence;
    room.ask(Ask::Respond { client, call, fence, result: Ok(Bytes::from("2")) })
}

/// Channels and calls. Fences begin elsewhere.
fn what_a_crash_leaves(room: &Room) -> Vec<Aggregate> {
    let stored = room.host.state().stored();
    let keys = stored.keys_from(Key::MIN_BYTES).filter(|key| *key != Key::Fences);
    keys.filter_map(|key| stored.aggregate(&key)).collect()
}

fn room() -> Room {
    let mut room = Room::open(Arc::new(Memory::default()), Rules::default(), NOON);
    let durability = Durability::Memory;
    let settings = ChannelSettings { durability, ..ChannelSettings::default() };
    room.ask(Ask::SetChannel { channel: channel("light"), settings });
    clients_come(&mut room);
    room
}

#[test]
fn embedded_storage_keeps_every_promise_of_a_transport() {
    run(conformance::all(&OnAJournal));
}

#[test]
fn random_schedules_on_a_journal_end_every_call_once() {
    run(model::schedules(&OnAJournal, 10_000..10_100));
}

#[test]
fn a_call_is_written_when_it_comes_and_when_it_ends() {
    let mut room = room();
    let before = room.written;
    room.ask(call(1, "work"));
    let (client, id, fence) = (WORKER, CallId::of_chance(1), 1);
    room.ask(Ask::Accept { client, call: id, fence });
    room.ask(Ask::Heartbeat { client, call: id, fence });
    assert_eq!(respond(&mut room, 1), Reply::Taken(Ok(())));
    room.ask(Ask::Acknowledge { client: CALLER, call: id });
    room.ask(Ask::Ping { client: WORKER });
    assert_eq!(room.written - before, 2);
}

#[test]
fn what_lives_in_memory_is_not_written_at_all() {
    let mut room = room();
    let before = room.written;
    room.ask(call(1, "light"));
    assert_eq!(respond(&mut room, 1), Reply::Taken(Ok(())));
    assert_eq!(room.written, before);
    let outcome = room.host.state().call(CallId::of_chance(1)).unwrap().ended().unwrap();
    assert_eq!(outcome.outcome, Outcome::Answer(Bytes::from("2")));
    let room = room.restart();
    assert_eq!(room.host.state().call_count(), 0);
}

#[test]
fn what_was_told_is_there_after_a_restart_with_and_without_a_checkpoint() {
    for chunk_bytes in [None, Some(1), Some(64 << 10)] {
        let mut room = room();
        for n in 1..=20 {
            room.ask(call(n, "work"));
        }
        for n in 1..=5 {
            assert_eq!(respond(&mut room, n), Reply::Taken(Ok(())));
        }
        room.ask(call(50, "light"));
        if let Some(chunk_bytes) = chunk_bytes {
            room.checkpoint(chunk_bytes);
            room.ask(call(21, "work"));
        }
        let before = what_a_crash_leaves(&room);
        let mut room = room.restart();
        assert_eq!(what_a_crash_leaves(&room), before, "chunks of {chunk_bytes:?}");
        clients_come(&mut room);
        let told = room.told.remove(&WORKER).unwrap();
        let offers = told.iter().filter(|one| matches!(one, Notice::Offer(_))).count();
        assert!(offers >= 10, "it is told again what it has: {offers}");
        assert_eq!(respond(&mut room, 6), Reply::Taken(Ok(())), "under the fence it had");
    }
}

/// Whoever slept through the end of a call, and through its being forgotten, must not pass as whoever has
/// another one with its id. What is written of fences is ahead of those that were given, because offers of
/// calls in memory are written nowhere.
#[test]
fn fences_of_an_id_that_comes_again_go_on_over_restarts_and_checkpoints() {
    for name in ["light", "work"] {
        for chunk_bytes in [None, Some(1), Some(64 << 10)] {
            let mut room = room();
            let mut last = 0;
            for life in 0..4 {
                room.ask(call(1, name));
                let fence = room.host.state().call(CallId::of_chance(1)).unwrap().fence;
                assert!(fence > last, "{fence} of life {life} is not above {last} ({name})");
                last = fence;
                assert_eq!(respond(&mut room, 1), Reply::Taken(Ok(())));
                room.ask(Ask::Acknowledge { client: CALLER, call: CallId::of_chance(1) });
                room.now.steady = room.now.steady + Span::from_secs(3_600);
                room.settle();
                assert_eq!(room.host.state().call_count(), 0, "it is forgotten");
                if let Some(chunk_bytes) = chunk_bytes {
                    room.checkpoint(chunk_bytes);
                }
                if life % 2 == 0 {
                    room = room.restart();
                }
                clients_come(&mut room);
            }
        }
    }
}

#[test]
fn a_server_that_begins_writes_where_fences_go_on_and_not_what_its_calls_are_at() {
    let mut room = room();
    for n in 1..=5 {
        room.ask(call(n, "work"));
    }
    let room = room.restart();
    assert_eq!(room.written, 1, "one entry");
    let fences = Change::Fences { above: 1, until: 2 };
    let changes =
        [fences.clone(), Change::Extended { call: CallId::of_chance(1), until: NOON.steady }];
    assert_eq!(Calls::written(room.host.state(), &changes), [&fences]);
}

//! A stopped server's house, beside another room whose records must not suffer.

use bytes::Bytes;
use handoff_house::{ActKind, NewToken, Refusal};
use handoff_log::checkpoint::{Chunk, Writer};
use handoff_log::journal::{Entry, Journal, Purpose, Report, Tail};
use handoff_store_embedded::{Checkpointing, Host, Progress};
use handoff_types::{Entropy, Scope, Sequence, Steady, Wall};
use tempfile::TempDir;

use super::*;
use crate::auth::mint;

/// Small files, so that a few entries fill several.
fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 4 << 20,
        journal_reserve_bytes: 64 << 10,
        ..Limits::default()
    }
}

fn create(name: &str) -> (NewToken, Command) {
    let (_, token) = mint(name, vec![Scope::Admin], None).unwrap();
    let command = Command::Create { token: Box::new(token.clone()), who: "local".to_owned() };
    (token, command)
}

fn note(target: &str) -> Command {
    let (target, who) = (target.to_owned(), "local".to_owned());
    Command::Note { kind: ActKind::Repaired, target, who }
}

/// A room that keeps what it is given, from a mark on.
#[derive(Debug, Default)]
struct Raw {
    marks: (Mark, Mark),
    entries: Vec<Bytes>,
}

impl Loads for Raw {
    fn room(&self) -> Room {
        Room::Counter
    }

    fn start(&self) -> (Mark, Mark) {
        self.marks
    }

    fn replay(&mut self, entry: &Replayed) -> Result<(), LoadError> {
        self.entries.push(entry.change.clone());
        Ok(())
    }
}

/// A server with a house and a raw room.
struct Server {
    directory: Directory,
    journal: Arc<Inline>,
    house: Host<House>,
    raw: Raw,
    report: Report,
    _lock: Lock,
}

impl Server {
    fn open(data_dir: &Path, marks: (Mark, Mark)) -> Self {
        let (directory, lock) = Directory::open_locked(data_dir, Entropy(1)).unwrap();
        let mut house = Loading::<House>::begin(&directory).unwrap();
        let mut raw = Raw { marks, ..Raw::default() };
        let options =
            Options { limits: limits(), directory: directory.id, entropy: fresh().unwrap() };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut house, &mut raw]).unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().unwrap();
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits()).into()).unwrap();
        let house = house.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        Self { directory, journal, house, raw, report, _lock: lock }
    }

    /// Appends entries of the other room; each fills a good part of a file.
    fn append(&self, numbers: std::ops::Range<u8>) -> Vec<Bytes> {
        let entries: Vec<Bytes> = numbers.map(|n| Bytes::from(vec![n; 20_000])).collect();
        for change in entries.iter().cloned() {
            let permit = self.journal.admit(Room::Counter, 20_000, Purpose::Accept).unwrap();
            let entry = Entry { room: Room::Counter, now: NOW, change, bodies: vec![] };
            drop(self.journal.append(permit, entry));
            self.journal.commit().unwrap();
        }
        entries
    }

    fn apply(&mut self, command: &Command) {
        let chance = (NOW, Entropy(0));
        drop(self.house.apply(command, vec![], Purpose::Finish, chance).unwrap());
        self.journal.commit().unwrap();
    }

    fn checkpoint(&mut self) {
        let mut checkpoint = Checkpointing::begin::<House>(&self.directory, 1024).unwrap();
        while checkpoint.step(&mut self.house, NOW).unwrap() != Progress::Done {}
    }

    /// What the other room has now is in a checkpoint of its own.
    fn checkpoint_raw(&self) -> Mark {
        let at = self.journal.barrier(Room::Counter).wait().unwrap();
        let mark = Mark { sequence: at.sequence, position: at.position };
        write_raw_checkpoint(&self.directory, mark);
        self.journal.trim(Room::Counter, mark.position);
        mark
    }

    fn close(self) {
        drop(self.house);
        Arc::into_inner(self.journal).unwrap().close().unwrap();
    }
}

fn write_raw_checkpoint(directory: &Directory, mark: Mark) {
    let disk = Arc::clone(&directory.disk);
    let mut writer = Writer::begin(disk, Room::Counter, directory.id).unwrap();
    let chunk = Chunk { from: Bytes::new(), to: None, mark, state: Bytes::new() };
    writer.chunk(&chunk).unwrap();
    writer.finish(NOW).unwrap();
}

const NOW: Now = Now { wall: Wall(7_000_000), steady: Steady(9_000_000) };

/// So much that files which nobody needs would have been used again.
fn many() -> Vec<Command> {
    (0..300).map(|_| note(&"x".repeat(1000))).collect()
}

#[test]
fn the_first_token_is_made_in_a_directory_that_is_not_there_yet() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let (token, command) = create("first");
    assert_eq!(apply_offline(&data, &limits(), vec![command]).unwrap(), [Reply::Done]);
    let tokens = tokens_offline(&data, &limits()).unwrap();
    assert_eq!(tokens.iter().map(|kept| &kept.token).collect::<Vec<_>>(), [&token]);
    let server = Server::open(&data, Default::default());
    assert!(server.house.state().token(&token.id).is_some());
    assert_eq!(server.report.tail, Tail::Marked);
}

#[test]
fn every_command_is_answered_also_behind_a_refusal() {
    let dir = TempDir::new().unwrap();
    let (token, command) = create("one");
    let revoke = Command::Revoke { id: token.id.clone(), who: "local".to_owned() };
    let commands = vec![command, revoke.clone(), revoke, note("journal")];
    let replies = apply_offline(dir.path(), &limits(), commands).unwrap();
    let refused = Reply::Refused(Refusal::NoToken(token.id.to_string()));
    assert_eq!(replies, [Reply::Done, Reply::Done, refused, Reply::Done]);
    let numbers = |below, limit| -> Vec<u64> {
        let acts = acts_offline(dir.path(), &limits(), below, limit).unwrap();
        acts.iter().map(|act| act.number).collect()
    };
    assert_eq!(numbers(None, 10), [3, 2, 1]);
    assert_eq!(numbers(Some(3), 1), [2]);
}

/// The other room has no checkpoint: all of the journal is its state.
#[test]
fn another_rooms_records_stay_whole() {
    for house_has_checkpoint in [false, true] {
        let dir = TempDir::new().unwrap();
        let mut server = Server::open(dir.path(), Default::default());
        server.apply(&note("before"));
        let mut written = server.append(0..40);
        if house_has_checkpoint {
            server.apply(&note("checkpoint"));
            server.checkpoint();
        }
        server.close();
        let (token, command) = create("offline");
        apply_offline(dir.path(), &limits(), vec![command]).unwrap();
        apply_offline(dir.path(), &limits(), many()).unwrap();
        let mut server = Server::open(dir.path(), Default::default());
        assert_eq!(server.raw.entries, written, "checkpoint: {house_has_checkpoint}");
        assert!(server.report.damage.is_empty() && server.report.closed.is_empty());
        assert!(server.house.state().token(&token.id).is_some());
        // And the server goes on where it was.
        written.extend(server.append(40..60));
        server.apply(&note("after"));
        server.close();
        let server = Server::open(dir.path(), Default::default());
        assert_eq!(server.raw.entries, written);
    }
}

#[test]
fn another_rooms_records_behind_its_checkpoint_stay_whole() {
    let dir = TempDir::new().unwrap();
    let mut server = Server::open(dir.path(), Default::default());
    server.apply(&note("before"));
    server.append(0..20);
    let mark = server.checkpoint_raw();
    let written = server.append(20..40);
    server.checkpoint();
    server.close();
    apply_offline(dir.path(), &limits(), many()).unwrap();
    let server = Server::open(dir.path(), (mark, mark));
    assert_eq!(server.raw.entries, written);
    assert!(server.report.damage.is_empty() && server.report.closed.is_empty());
    assert_eq!(server.house.state().acts().count(), 301);
}

/// The other room's checkpoint knows a journal that was longer. What is gone may have been the
/// house's as well; written on from here, nobody would ever notice.
#[test]
fn a_journal_that_lost_its_end_is_not_written_on() {
    let dir = TempDir::new().unwrap();
    let mut server = Server::open(dir.path(), Default::default());
    server.apply(&note("before"));
    server.append(0..5);
    let at = server.journal.barrier(Room::Counter).wait().unwrap();
    let beyond = Position(at.position.0 + (1 << 20));
    let mark = Mark { sequence: Sequence(at.sequence.0 + 3), position: beyond };
    write_raw_checkpoint(&server.directory, mark);
    server.close();
    let error = apply_offline(dir.path(), &limits(), vec![note("x")]).unwrap_err();
    assert!(matches!(error, OfflineError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("doctor --repair"), "{error}");
    assert_eq!(error.code(), Code::RoomDamaged);
}

#[test]
fn a_directory_that_a_server_uses_names_it_and_says_to_ask_it() {
    let dir = TempDir::new().unwrap();
    let server = Server::open(dir.path(), Default::default());
    let error = apply_offline(dir.path(), &limits(), vec![note("x")]).unwrap_err();
    let words = error.to_string();
    let process = format!("process {}", std::process::id());
    assert!(words.contains(&process) && words.contains("--url"), "{words}");
    assert_eq!(error.code(), Code::DirectoryInUse);
    drop(server);
    apply_offline(dir.path(), &limits(), vec![note("x")]).unwrap();
}

#[test]
fn who_only_looks_makes_no_directory() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("mistyped");
    let words = tokens_offline(&data, &limits()).unwrap_err().to_string();
    assert!(words.contains("mistyped") && words.contains("--data-dir"), "{words}");
    assert!(acts_offline(&data, &limits(), None, 1).is_err());
    assert!(!data.exists());
}

#[test]
fn steady_time_goes_on_from_the_latest_time_on_disk() {
    let dir = TempDir::new().unwrap();
    let mut server = Server::open(dir.path(), Default::default());
    server.apply(&note("before"));
    server.close();
    let before = Clock::resume(None).wall();
    apply_offline(dir.path(), &limits(), vec![note("x")]).unwrap();
    let server = Server::open(dir.path(), Default::default());
    let clock = server.report.clock.unwrap();
    assert!(clock.steady >= NOW.steady + before.since(NOW.wall));
}

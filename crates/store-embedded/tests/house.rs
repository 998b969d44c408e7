//! The house on embedded storage: its bytes, and that a checkpoint taken while it works and the
//! journal behind it give the same house back.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::LazyLock;

use handoff_house::{
    ACTS_KEPT, Act, ActKind, Change, Command, House, NewToken, Reply, State, Token, TokenId,
    Verifier,
};
use handoff_log::directory::Directory;
use handoff_log::disk::{Disk, Memory};
use handoff_log::journal::{Inline, Options, Purpose};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Checkpointing, Host, Loading, Persist, Progress, open_journal};
use handoff_types::{Entropy, Limits, Machine, Now, Scope, Steady, Wall};
use proptest::prelude::*;

fn limits() -> Limits {
    Limits {
        journal_file_bytes: 256 << 10,
        journal_bytes_max: 16 << 20,
        journal_reserve_bytes: 64 << 10,
        ..Limits::default()
    }
}

struct Server {
    directory: Directory,
    journal: Arc<Inline>,
    host: Host<House>,
    checkpoint: Option<Checkpointing>,
}

impl Server {
    fn open(disk: Arc<dyn Disk>) -> Self {
        let entropy = Entropy(7);
        let directory = Directory::open(disk, entropy).unwrap();
        let mut loading = Loading::<House>::begin(&directory).unwrap();
        let options = Options { limits: limits(), directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).unwrap();
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().unwrap();
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits()).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        Self { directory, journal, host, checkpoint: None }
    }

    fn apply(&mut self, command: &Command) -> Reply {
        let now = Now { wall: Wall(5), steady: Steady(5) };
        self.host.apply(command, vec![], Purpose::Finish, (now, Entropy(0))).unwrap().reply
    }

    /// Notes so many acts, leaving less waiting than the ring can take.
    fn note(&mut self, count: usize) {
        for n in 1..=count {
            self.apply(&note());
            if n % 256 == 0 {
                self.journal.commit().unwrap();
            }
        }
    }

    /// A step of the checkpoint under way, or of a new one.
    fn step(&mut self, chunk_bytes: usize) -> Progress {
        let begin = || Checkpointing::begin::<House>(&self.directory, chunk_bytes).unwrap();
        let checkpoint = self.checkpoint.get_or_insert_with(begin);
        let progress = checkpoint.step(&mut self.host, Now::default()).unwrap();
        if progress == Progress::Done {
            self.checkpoint = None;
        }
        progress
    }

    fn checkpoint(&mut self, chunk_bytes: usize) {
        self.journal.commit().unwrap();
        while self.step(chunk_bytes) != Progress::Done {}
    }
}

fn verifier(seed: u8) -> Verifier {
    Verifier {
        salt: [seed; 16].into(),
        iterations: 10_000,
        stored_key: [seed; 32].into(),
        server_key: [seed; 32].into(),
    }
}

fn token(id: u8, digest: u8) -> NewToken {
    NewToken {
        id: TokenId(format!("token{id:03}").into()),
        name: "nightly".to_owned(),
        scopes: vec![Scope::Admin, "events:acme.*".parse().unwrap()],
        digest: [digest; 32],
        sha256: verifier(1),
        sha512: verifier(2),
        expires: Some(Wall(-1)),
    }
}

fn create(id: u8, digest: u8) -> Command {
    let token = NewToken { expires: Some(Wall(i64::MAX)), ..token(id, digest) };
    Command::Create { token: Box::new(token), who: "local".to_owned() }
}

fn revoke(id: u8) -> Command {
    Command::Revoke { id: token(id, 0).id, who: "local".to_owned() }
}

fn note() -> Command {
    Command::Note { kind: ActKind::Deleted, target: "x".to_owned(), who: "local".to_owned() }
}

fn encoded(change: &Change) -> Vec<u8> {
    let mut out = Vec::new();
    House::encode_change(change, &mut out);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whoever changes these bytes changes the format: keep reading the old ones.
#[test]
fn the_format_stays_as_it_is() {
    let small = |n: u8| Verifier {
        salt: [n].into(),
        iterations: 4096,
        stored_key: [n, n].into(),
        server_key: [].into(),
    };
    let token = NewToken { sha256: small(1), sha512: small(2), ..token(1, 0xdd) };
    let created = Change::Created(Box::new(Token { token, created: Wall(2) }));
    let expected = [
        "01",
        "0800",
        "746f6b656e303031",
        "0700",
        "6e696768746c79",
        "02",
        "0500",
        "61646d696e",
        "0d00",
        "6576656e74733a61636d652e2a",
        &"dd".repeat(32),
        "00100000",
        "0100",
        "01",
        "0200",
        "0101",
        "0000",
        "00100000",
        "0100",
        "02",
        "0200",
        "0202",
        "0000",
        "01",
        "ffffffffffffffff",
        "0200000000000000",
    ];
    assert_eq!(hex(&encoded(&created)), expected.concat());
    let revoked = Change::Revoked(TokenId("token001".into()));
    assert_eq!(hex(&encoded(&revoked)), "020800746f6b656e303031");
    let act = Act {
        number: 258,
        at: Wall(3),
        who: "local".to_owned(),
        kind: ActKind::Repaired,
        target: "house".to_owned(),
    };
    let acted = Change::Acted(act);
    let expected = ["03", "0201000000000000", "0300000000000000", "04"];
    let words = ["0500", "6c6f63616c", "0500", "686f757365"];
    assert_eq!(hex(&encoded(&acted)), expected.concat() + &words.concat());
    let barred = Change::Barred { number: 258, digest: [0xdd; 32] };
    assert_eq!(hex(&encoded(&barred)), "040201000000000000".to_owned() + &"dd".repeat(32));
    assert_eq!(House::key(&barred), &b"r/\0\0\0\0\0\0\x01\x02"[..]);
    assert_eq!(House::key(&created), &b"t/token001"[..]);
    assert_eq!(House::key(&revoked), &b"t/token001"[..]);
    assert_eq!(House::key(&acted), &b"a/\0\0\0\0\0\0\x01\x02"[..]);
}

#[test]
fn a_chunk_with_a_removal_in_it_is_not_one() {
    let bytes = encoded(&Change::Revoked(TokenId("token001".into())));
    assert!(House::restore(&mut State::default(), &bytes).is_err());
}

#[test]
fn a_revocation_outlives_its_act_and_is_in_checkpoint_and_journal() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    for id in 1..=2 {
        server.apply(&create(id, id));
        server.apply(&revoke(id));
    }
    server.note(ACTS_KEPT);
    // Chunks of one change each: every key is a place to go on from.
    server.checkpoint(1);
    server.apply(&create(3, 3));
    server.apply(&revoke(3));
    server.journal.commit().unwrap();
    let state = server.host.state().clone();
    drop(server);
    let again = Server::open(Arc::new(disk));
    assert_eq!(again.host.state(), &state);
    for id in 1..=3 {
        let token = token(id, id);
        assert!(again.host.state().was_revoked(&token.id, &token.digest), "{id}");
    }
}

#[test]
fn acts_forgotten_while_a_checkpoint_is_taken_do_not_come_back() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.note(ACTS_KEPT);
    server.apply(&create(1, 1));
    server.journal.commit().unwrap();
    // The chunk with the oldest acts is cut and written; then they are forgotten.
    assert_eq!(server.step(4096), Progress::More);
    assert_eq!(server.step(4096), Progress::More);
    server.note(1000);
    server.checkpoint(4096);
    let again = Server::open(Arc::new(disk));
    assert_eq!(again.host.state(), server.host.state());
    assert_eq!(again.host.state().acts().count(), ACTS_KEPT);
}

#[test]
fn acts_are_numbered_on_after_a_checkpoint_and_a_restart() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.note(3);
    server.checkpoint(1);
    server.note(2);
    server.checkpoint(1 << 20);
    drop(server);
    let mut again = Server::open(Arc::new(disk));
    again.note(1);
    let numbers: Vec<u64> = again.host.state().acts().map(|act| act.number).collect();
    assert_eq!(numbers, [6, 5, 4, 3, 2, 1]);
}

/// Directories from before revocations were kept may hold a digest that moved to another token
/// while a checkpoint was taken. Put back, both tokens are there for a moment; the removal of the
/// first that the journal then tells must not take the second out of reach.
#[test]
fn a_digest_that_moved_to_another_token_while_a_checkpoint_was_taken_is_found() {
    let created = |id| Change::Created(Box::new(Token { token: token(id, 9), created: Wall(0) }));
    let mut state = State::default();
    House::restore(&mut state, &[encoded(&created(1)), encoded(&created(3))].concat()).unwrap();
    House::evolve(&mut state, &Change::Revoked(token(1, 9).id));
    let found = state.by_digest(&[9; 32], Wall(-2)).unwrap();
    assert_eq!(found.token.id, token(3, 9).id);
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter)
}

fn verifiers() -> impl Strategy<Value = Verifier> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..129).prop_map(Vec::into_boxed_slice);
    (bytes(), any::<u32>(), bytes(), bytes()).prop_map(
        |(salt, iterations, stored_key, server_key)| Verifier {
            salt,
            iterations,
            stored_key,
            server_key,
        },
    )
}

fn scopes() -> impl Strategy<Value = Vec<Scope>> {
    let scope = prop_oneof![Just("admin"), Just("events"), Just("streams:a"), Just("calls:b.*")];
    proptest::collection::vec(scope.prop_map(|text| text.parse().unwrap()), 0..33)
}

fn changes() -> impl Strategy<Value = Change> {
    let id = || any::<u8>().prop_map(|n| token(n, 0).id);
    let rest = (verifiers(), verifiers(), any::<Option<i64>>(), any::<i64>());
    let created = (id(), text(), scopes(), any::<[u8; 32]>(), rest).prop_map(
        |(id, name, scopes, digest, (sha256, sha512, expires, created))| {
            let expires = expires.map(Wall);
            let token = NewToken { id, name, scopes, digest, sha256, sha512, expires };
            Change::Created(Box::new(Token { token, created: Wall(created) }))
        },
    );
    let kind = proptest::sample::select(ActKind::ALL.to_vec());
    let acted = (any::<u64>(), any::<i64>(), text(), kind, text()).prop_map(
        |(number, at, who, kind, target)| {
            Change::Acted(Act { number, at: Wall(at), who, kind, target })
        },
    );
    prop_oneof![created, id().prop_map(Change::Revoked), acted]
}

/// A house that is about to forget its first acts, and tokens in it.
static FULL: LazyLock<Memory> = LazyLock::new(|| {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.note(ACTS_KEPT - 30);
    for id in 0..10 {
        server.apply(&create(id, id));
    }
    server.checkpoint(64 << 10);
    disk
});

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Revoke(u8),
    Notes(usize),
    Commit,
    Checkpoint(u8),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u8..30, 0u8..30).prop_map(|(id, digest)| Step::Create(id, digest)),
        2 => (0u8..30).prop_map(Step::Revoke),
        2 => (1usize..60).prop_map(Step::Notes),
        3 => Just(Step::Commit),
        6 => (1u8..6).prop_map(Step::Checkpoint),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Walks the steps; after every commit a second server that reads the same disk must know the
/// same.
fn walk(disk: &Memory, chunk_bytes: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut server = Server::open(Arc::new(disk.clone()));
    for step in steps.into_iter().chain([Step::Commit]) {
        match step {
            Step::Create(id, digest) => drop(server.apply(&create(id, digest))),
            Step::Revoke(id) => drop(server.apply(&revoke(id))),
            Step::Notes(count) => server.note(count),
            Step::Commit => {
                server.journal.commit().unwrap();
                let again = Server::open(Arc::new(disk.fork()));
                prop_assert_eq!(again.host.state(), server.host.state());
            }
            Step::Checkpoint(times) => {
                for _ in 0..times {
                    server.step(chunk_bytes);
                }
            }
            Step::Restart => {
                server.journal.commit().unwrap();
                let state = server.host.state().clone();
                server = Server::open(Arc::new(disk.clone()));
                prop_assert_eq!(server.host.state(), &state);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_small_house_comes_back_from_chunks_of_different_ages(
        steps in steps(), chunk_bytes in 1usize..800,
    ) {
        walk(&Memory::new(), chunk_bytes, steps)?;
    }
}

proptest! {
    // Fewer: each look at this house reads ten thousand acts back.
    #![proptest_config(ProptestConfig {
        cases: 12, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_house_that_forgets_comes_back_from_chunks_of_different_ages(
        steps in steps(), chunk_bytes in 20_000usize..300_000,
    ) {
        walk(&FULL.fork(), chunk_bytes, steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_reads_back_and_tells_where_it_ends(
        change in changes(), behind in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let bytes = [encoded(&change), behind.clone()].concat();
        prop_assert_eq!(House::decode_change(&bytes), Ok((change, &behind[..])));
    }

    #[test]
    fn a_change_that_is_cut_short_is_not_one(
        change in changes(), at in any::<proptest::sample::Index>(),
    ) {
        let bytes = encoded(&change);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(House::decode_change(cut).is_err());
    }

    /// Whatever is read is what would be written: two texts for one thing do not exist.
    #[test]
    fn any_bytes_are_read_or_refused(
        change in changes(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = encoded(&change);
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for bytes in [bytes, noise] {
            if let Ok((change, rest)) = House::decode_change(&bytes) {
                prop_assert_eq!([&encoded(&change)[..], rest].concat(), &bytes[..]);
            }
            drop(House::restore(&mut State::default(), &bytes));
        }
    }

    #[test]
    fn chunks_cover_every_key_once_wherever_they_are_cut(
        ids in proptest::collection::btree_set(0u8..60, 0..30),
        notes in 0usize..40,
        bytes_max in 0usize..2000,
    ) {
        let mut state = State::default();
        let mut commands: Vec<Command> = ids.iter().map(|id| create(*id, *id)).collect();
        commands.extend((0..notes).map(|_| note()));
        for command in &commands {
            let decision = House::decide(&state, command, Now::default(), Entropy(0));
            decision.changes.iter().for_each(|change| House::evolve(&mut state, change));
        }
        let mut again = State::default();
        let mut from = Some(bytes::Bytes::new());
        while let Some(key) = from {
            let (chunk, next) = House::snapshot(&state, &key, bytes_max);
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let (change, behind) = House::decode_change(rest).unwrap();
                let change_key = House::key(&change);
                prop_assert!(change_key >= key);
                prop_assert!(next.as_ref().is_none_or(|next| change_key < *next));
                rest = behind;
            }
            House::restore(&mut again, &chunk).unwrap();
            from = next;
        }
        prop_assert_eq!(again, state);
    }
}

//! What a message takes of memory, all told, counted by the allocator and not by the system: a
//! million of them are to fit beside the server into 300 MB.

#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "an allocator that counts can be written in no other way; a test fails by panicking"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use handoff_exchange::{
    Admin, Ask, Begun, Command, DatabaseNo, DeviceNo, Digest, EntityId, Exchange, NewMessage,
    Reply, Rules, State, Status, Step, Verdict, Wish,
};
use handoff_types::{Entropy, Machine, Now, Steady, Wall};

/// Bytes in use, as a common allocator spends them: a word of its own for each piece, pieces in
/// steps of sixteen bytes, none below thirty-two (glibc).
static IN_USE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn spent(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator as it came. `realloc` is left to its
// default: a new piece, a copy, and the old one given back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(spent(layout), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(spent(layout), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// As many as fill the table of ids as badly as a million does.
const MESSAGES: u32 = 62_500;
const DEVICES: u32 = 32;
const BYTES_MAX: usize = 180;
/// Of a message and of what its process remembers of it.
const PROCESSED_BYTES_MAX: usize = 240;

struct Room {
    state: State,
    rules: Rules,
    now: Now,
}

impl Room {
    fn ask(&mut self, ask: Ask) -> Reply {
        let command = Command { ask, rules: self.rules };
        let decision = Exchange::decide(&self.state, &command, self.now, Entropy(7));
        for change in &decision.changes {
            Exchange::evolve(&mut self.state, change);
        }
        decision.reply
    }

    fn device(&mut self, number: u8) -> DeviceNo {
        let (company, name) = (id("acme"), "".into());
        let device = id(&format!("d{number}"));
        let put = Admin::PutDevice { company, id: device.clone(), subsystem: id("stock"), name };
        assert_eq!(self.ask(Ask::Admin(put)), Reply::Done);
        let code: Digest = [number; 32];
        let expires = Wall(self.now.wall.0 + 1);
        let give = Admin::DeviceCode { company: id("acme"), id: device, code, expires };
        assert_eq!(self.ask(Ask::Admin(give)), Reply::Done);
        let Reply::Activated(no) = self.ask(Ask::Activate { code, token: code }) else {
            panic!("not activated")
        };
        no
    }

    fn process_all(&mut self, database: DatabaseNo) {
        let mut left = MESSAGES as usize;
        while left > 0 {
            let wish = Wish::default();
            let Reply::Begun(Begun::Started { id, messages, .. }) =
                self.ask(Ask::Begin { database, wish })
            else {
                panic!("nothing is served and {left} are left")
            };
            left -= messages.len();
            let verdicts = messages.iter().map(|handed| {
                let message = self.state.message(handed.seq).unwrap().id;
                Verdict { message, status: Status::Processed, code: None, error: None }
            });
            let (verdicts, messages) = (verdicts.collect(), Vec::new());
            let prepare = Step::Prepare { verdicts, messages, digest: 1 };
            for step in [prepare, Step::Commit] {
                let done = self.ask(Ask::Process { database, id, step });
                assert!(matches!(done, Reply::Ok { .. }), "{done:?}");
            }
            self.ask(Ask::Settled { number: id.number, round: 1 });
        }
    }
}

fn id(text: &str) -> EntityId {
    text.parse().unwrap()
}

fn message(number: u32) -> NewMessage {
    NewMessage {
        id: format!("0190e2a4-7c1b-7d30-9c5e-{number:012x}").parse().unwrap(),
        kind: Some("DOCS".parse().unwrap()),
        created: Wall(0),
        created_text: "2023-11-14T22:13:20Z".into(),
        reply_to: None,
        payload: Bytes::from_static(b"{}"),
        digest: 7,
    }
}

/// The only test of its process: nobody else allocates.
#[test]
fn a_million_messages_fit_into_the_memory_of_a_small_machine() {
    let now = Now { wall: Wall(1_800_000_000_000_000), steady: Steady(0) };
    let begin = IN_USE.load(Ordering::Relaxed);
    let mut room = Room { state: State::default(), rules: Rules::default(), now };
    let name: Box<str> = "".into();
    for admin in [
        Admin::PutCompany { id: id("acme"), name: name.clone() },
        Admin::PutSubsystem { id: id("stock"), name: name.clone() },
        Admin::PutDatabase { id: id("db"), company: id("acme"), name },
        Admin::PutRoute { company: id("acme"), subsystem: id("stock"), database: id("db") },
    ] {
        assert_eq!(room.ask(Ask::Admin(admin)), Reply::Done);
    }
    let devices: Vec<_> = (0..DEVICES).map(|one| room.device(one.try_into().unwrap())).collect();
    let each = |when: &str, max: usize| {
        let bytes = (IN_USE.load(Ordering::Relaxed) - begin) / MESSAGES as usize;
        println!("{bytes} bytes a message {when}");
        assert!(bytes <= max, "{bytes} bytes a message {when}");
    };
    for number in 0..MESSAGES {
        let device = devices[number as usize % devices.len()];
        let posted = room.ask(Ask::Post { device, messages: vec![message(number)] });
        assert!(matches!(posted, Reply::Posted(_)), "{posted:?}");
    }
    assert_eq!(room.state.message_count(), u64::from(MESSAGES));
    each("while it waits", BYTES_MAX);
    let database = room.state.database_by_id(&id("db")).unwrap().no;
    room.process_all(database);
    each("once it was processed, with its process", PROCESSED_BYTES_MAX);
    drop(room);
    let left = IN_USE.load(Ordering::Relaxed).saturating_sub(begin);
    assert!(left < 64 << 10, "{left} bytes are left behind");
}

//! The victim: the counter room on the real disk, all of it at once, made to be killed.
//!
//! ```text
//!  stdin ──▶ reader ──▶ room: decide, append ──▶ answerer: waits for the ticket ──▶ stdout
//!                        ▲ one lock
//!                        └── keeper: bodies ─▶ segments, state ─▶ checkpoint ─▶ trim, for ever
//! ```
//!
//! * A request is answered when what the answer rests on is durable, in the order of requests.
//!   Up to [`UNDERWAY_MAX`] are underway at a time. What the log turns away rests on nothing and
//!   is told at once.
//! * Files are so small that rolling, recycling, moving, trimming and checkpoints never cease.
//! * The end of stdin is the end of the victim: nobody has to remember to stop it.
//! * A directory it may not use, or cannot read, is an exit with words and the code of the error.

mod clock;
mod keeper;
mod opening;
mod room;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use handoff_log::journal::{Lost, Ticket};
use handoff_types::{Code, Limits};

use self::keeper::Keeper;
use self::room::Room;
use crate::wire::{Answer, Ask};

/// How many requests are underway at most; more wait in the pipe.
pub const UNDERWAY_MAX: usize = 256;

/// How a victim is started.
#[derive(Clone, Debug, clap::Parser)]
pub struct Arguments {
    /// Where its data is
    #[arg(long)]
    pub data_dir: PathBuf,
    /// Waits for space instead of refusing, so that what survives is a prefix of what was asked
    #[arg(long)]
    pub patient: bool,
    /// How long the journal tries to go on when the disk fails it
    #[arg(long, default_value_t = 30)]
    pub poison_secs: u64,
}

impl Arguments {
    fn limits(&self) -> Limits {
        Limits {
            journal_bytes_max: 8 << 20,
            journal_file_bytes: 1 << 20,
            journal_reserve_bytes: 1 << 20,
            room_queue_bytes_max: 2 << 20,
            change_bytes_max: 2 << 20,
            segment_bytes: 256 << 10,
            segment_files_open_max: 16,
            segment_warm_bytes: 1 << 20,
            poison_secs_max: self.poison_secs,
            checkpoint_chunk_bytes: 256,
        }
    }
}

/// Why a victim ended that nobody killed.
#[derive(Debug)]
pub struct End {
    code: Code,
    words: String,
}

impl End {
    fn new(code: Code, words: impl fmt::Display) -> Self {
        Self { code, words: words.to_string() }
    }

    /// 4 when the directory is refused, 5 when the journal gave up.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.code {
            Code::JournalClosed | Code::JournalFull => 5,
            _ => 4,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.text(), self.words)
    }
}

/// Runs until stdin ends.
///
/// # Errors
/// [`End`] when it cannot begin, or cannot go on.
pub fn run(arguments: &Arguments) -> Result<(), End> {
    let entropy = clock::entropy().map_err(|error| End::new(Code::DiskFault, error))?;
    let (opened, _lock) = opening::open(arguments, entropy)?;
    say(&opened.ready);
    let directory = opened.directory;
    let room = Arc::new(Mutex::new(Room::new(opened.host, opened.clock, arguments.patient)));
    let keeper = Keeper::start(directory, Arc::clone(&room), arguments.limits());
    let (asks, asked) = sync_channel(UNDERWAY_MAX);
    let (answers, answered) = sync_channel(UNDERWAY_MAX);
    let to_room = asks.clone();
    thread::spawn(move || read(&asks));
    let answerer = thread::spawn(move || answer_all(answered, &to_room));
    let served = serve(&asked, &answers, &room, &keeper);
    drop((asked, answers));
    let answered = answerer.join().unwrap_or(Ok(()));
    keeper.stop();
    answered.and(served)
}

/// What the room is told next.
enum Next {
    Ask(u64, Ask),
    /// Stdin has ended.
    End,
    /// The journal has stopped.
    Stop,
}

/// A request on its way: its number, its answer, and what the answer waits for.
type Promise = (u64, Answer, Option<Ticket>);

fn read(asks: &SyncSender<Next>) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((id, ask)) = Ask::parse(&line) else {
            eprintln!("victim: not understood: {line}");
            continue;
        };
        if asks.send(Next::Ask(id, ask)).is_err() {
            return;
        }
    }
    // If the room is gone, it knows.
    drop(asks.send(Next::End));
}

fn serve(
    asked: &Receiver<Next>,
    answers: &SyncSender<Promise>,
    room: &Mutex<Room>,
    keeper: &Keeper,
) -> Result<(), End> {
    while let Ok(Next::Ask(id, ask)) = asked.recv() {
        let (answer, ticket) = loop {
            let answered = room.lock().unwrap_or_else(PoisonError::into_inner).ask(&ask)?;
            match answered {
                Some(answered) => break answered,
                None => keeper.wait_for_space()?,
            }
        };
        keeper.nudge();
        if let Answer::No { .. } = answer {
            say(&answer.line(id));
        } else if answers.send((id, answer, ticket)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn answer_all(answered: Receiver<Promise>, room: &SyncSender<Next>) -> Result<(), End> {
    for (id, answer, ticket) in &answered {
        match ticket.map(Ticket::wait) {
            None | Some(Ok(_)) => say(&answer.line(id)),
            Some(Err(Lost { outcome })) => {
                say(&Answer::Lost(outcome).line(id));
                // The room may wait for us to take an answer, and must not.
                drop(answered);
                drop(room.send(Next::Stop));
                let words = "the journal stopped; what was underway shows at the next start";
                return Err(End::new(Code::JournalClosed, words));
            }
        }
    }
    Ok(())
}

/// Prints a line. A caller that has gone does not matter: the end of stdin says the same.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

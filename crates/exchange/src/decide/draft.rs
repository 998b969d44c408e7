//! A decision being made: what it would change, and the numbers it has used.

use bytes::Bytes;
use handoff_types::{Decision, Now, Span};

use crate::body::{Address, compose};
use crate::{
    Action, Change, Counters, Database, DatabaseNo, Device, Happened, LogEntry, Message, MessageId,
    NewMessage, Phase, Place, Process, ProcessId, Reply, Rules, Seq, Standing, State,
    WORDS_BYTES_MAX, Way,
};

/// The first wait of a message that was tried twice, and what doubling ends at.
const LATE_MIN: Span = Span::from_secs(1);
const LATE_MAX: Span = Span::from_secs(300);

/// A decision being made.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) state: &'a State,
    pub(super) rules: &'a Rules,
    pub(super) now: Now,
    counters: Counters,
    changes: Vec<Change>,
    actions: Vec<Action>,
    moves: usize,
}

/// Why a message goes back to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// Nothing was tried.
    Untried,
    /// The process ended without its verdict, or the database did not commit.
    InVain,
    /// It met a deadlock, or the ERP did not want it.
    Failed,
}

/// What an entry of the log is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About {
    pub(super) process: Option<ProcessId>,
    pub(super) message: Option<(Seq, MessageId)>,
    pub(super) code: Option<i64>,
}

impl About {
    pub(super) fn process(id: ProcessId) -> Self {
        Self { process: Some(id), ..Self::default() }
    }

    pub(super) fn message(seq: Seq, id: MessageId) -> Self {
        Self { message: Some((seq, id)), ..Self::default() }
    }
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &'a State, rules: &'a Rules, now: Now) -> Self {
        let counters = state.counters();
        Self { state, rules, now, counters, changes: Vec::new(), actions: Vec::new(), moves: 0 }
    }

    pub(super) fn into_decision(mut self, reply: Reply) -> Decision<Reply, Change, Action> {
        if self.counters != self.state.counters() {
            self.changes.push(Change::Counted(self.counters));
        }
        Decision { reply, changes: self.changes, actions: self.actions }
    }

    pub(super) fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub(super) fn act(&mut self, action: Action) {
        self.moves += usize::from(matches!(action, Action::Move { .. }));
        self.actions.push(action);
    }

    /// How many files are to be moved so far.
    pub(super) fn moves(&self) -> usize {
        self.moves
    }

    pub(super) fn next_entity(&mut self) -> u32 {
        self.counters.entity += 1;
        self.counters.entity
    }

    pub(super) fn next_process(&mut self) -> u64 {
        self.counters.process += 1;
        self.counters.process
    }

    /// Writes into the log.
    pub(super) fn log(&mut self, database: DatabaseNo, what: Happened, about: About, words: &str) {
        self.counters.log += 1;
        let entry = LogEntry {
            number: self.counters.log,
            at: self.now.wall,
            database,
            what,
            process: about.process,
            message: about.message,
            code: about.code,
            words: fit(words),
        };
        self.changes.push(Change::Logged(entry.clone()));
        self.actions.push(Action::Log(entry));
    }

    /// The same, unless it is what the log said last.
    pub(super) fn log_once(
        &mut self,
        database: DatabaseNo,
        what: Happened,
        about: About,
        words: &str,
    ) {
        let said = self.state.log_below(u64::MAX).next();
        if said.is_none_or(|said| said.what != what || said.process != about.process) {
            self.log(database, what, about, words);
        }
    }

    /// A message is received.
    pub(super) fn accept(
        &mut self,
        way: Way,
        (database, device): (&Database, &Device),
        new: &NewMessage,
        place: Place,
    ) -> Seq {
        self.counters.seq += 1;
        let seq = Seq(self.counters.seq);
        let (from, to) = match way {
            Way::ToErp => (&device.id, &database.id),
            Way::ToDevice => (&database.id, &device.id),
        };
        let subsystem = self.state.subsystem(device.subsystem).map_or("", |one| one.id.as_str());
        let address = Address { from: from.as_str(), to: to.as_str(), subsystem };
        let body: Bytes = compose(address, new);
        let message = Message {
            id: new.id,
            way,
            database: database.no,
            device: device.no,
            subsystem: device.subsystem,
            kind: new.kind.clone(),
            created: new.created,
            received: self.now.wall,
            by_created: self.rules.by_created && way == Way::ToErp,
            bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
            crc: crc32c::crc32c(&body),
            digest: new.digest,
            attempts: 0,
            silences: 0,
            place,
            since: self.now.wall,
            standing: Standing::Free,
        };
        self.changes.push(Change::Accepted { seq, message: Box::new(message), body });
        seq
    }

    /// A message is elsewhere, or stands otherwise.
    pub(super) fn place(
        &mut self,
        (seq, message): (Seq, &Message),
        (place, standing): (Place, Standing),
        process: Option<u64>,
    ) {
        let tries = (message.attempts, message.silences);
        self.place_tried((seq, message), (place, standing), tries, process);
    }

    fn place_tried(
        &mut self,
        (seq, message): (Seq, &Message),
        (place, standing): (Place, Standing),
        (attempts, silences): (u16, u16),
        process: Option<u64>,
    ) {
        let moves = place != message.place;
        let since = if moves { self.now.wall } else { message.since };
        self.changes.push(Change::Placed { seq, place, since, standing, attempts, silences });
        if !moves {
            return;
        }
        let to = Some(crate::Spot { place, since });
        let (database, from) = (message.database, message.spot());
        self.act(Action::Move { database, seq, from, to, gone: None, process });
        if message.way == Way::ToDevice && place == Place::Messages {
            self.actions.push(Action::Ring(message.device));
        }
    }

    /// A message is there no more.
    pub(super) fn forget(&mut self, seq: Seq, message: &Message, process: Option<u64>) {
        self.changes.push(Change::Forgotten(seq));
        let (database, from) = (message.database, message.spot());
        let gone = Some(Box::new(message.clone()));
        self.act(Action::Move { database, seq, from, to: None, gone, process });
    }

    /// A message goes back to its queue, at its old position, or is set aside if it was tried too
    /// often.
    pub(super) fn give_back(&mut self, seq: Seq, back: Back, process: ProcessId) {
        let Some(message) = self.state.message(seq) else { return };
        // One that ended several processes is served alone from then on, and what happens then is
        // its own doing.
        let alone = message.silences >= crate::queue::SUSPECT_FROM;
        let silences = message.silences.saturating_add(u16::from(back == Back::InVain));
        let failed = back == Back::Failed || (back == Back::InVain && alone);
        let attempts = message.attempts.saturating_add(u16::from(failed));
        let max = self.rules.attempts_max;
        let number = Some(process.number);
        if failed && max > 0 && attempts >= max {
            let words = format!("it was tried {attempts} times");
            let aside = (Place::Error, Standing::Aside(words.as_str().into()));
            self.place_tried((seq, message), aside, (attempts, silences), number);
            let about = About { process: Some(process), ..About::message(seq, message.id) };
            self.log(message.database, Happened::Poison, about, &words);
            return;
        }
        let standing = match late(attempts).filter(|_| failed) {
            Some(wait) => Standing::Late(self.now.steady + wait),
            None => Standing::Free,
        };
        let back = (Place::Messages, standing);
        self.place_tried((seq, message), back, (attempts, silences), number);
    }

    /// A message goes back as if it had never been tried.
    pub(super) fn renew(&mut self, seq: Seq, message: &Message) {
        self.place_tried((seq, message), (Place::Messages, Standing::Free), (0, 0), None);
    }

    /// A process is in another phase. If files are to be moved for it, the folders settle it.
    pub(super) fn turn(&mut self, process: &Process, phase: Phase, words: &str, moves: bool) {
        let number = process.id.number;
        let ended = (phase != Phase::Cleanup).then_some(self.now.wall);
        let words = Some(words).filter(|words| !words.is_empty()).map(fit);
        self.changes.push(Change::Turned { number, phase, ended, words, settled: !moves });
        if moves {
            self.actions.push(Action::Settle { number, round: phase.round() });
        }
    }
}

/// How long a message that was tried so often waits: not at all after the first time.
fn late(attempts: u16) -> Option<Span> {
    let doublings = u32::from(attempts).checked_sub(2)?;
    let wait = LATE_MIN.0.saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX));
    Some(Span(wait.min(LATE_MAX.0)))
}

/// As much of a text as is kept.
pub(super) fn fit(words: &str) -> Box<str> {
    words.get(..words.floor_char_boundary(WORDS_BYTES_MAX)).unwrap_or_default().into()
}

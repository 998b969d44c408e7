//! What the simulated callers ask for.
//!
//! A few keys get most of it, so that callers meet. Callers that did not hear an answer repeat
//! their command under its ticket, and some repeat one that was answered.

use std::collections::VecDeque;

use bytes::Bytes;
use handoff_types::Span;

use crate::dice::Dice;
use crate::room::{Command, Name, Refusal, Reply};

/// How many keys there are.
const KEYS: u8 = 24;

/// How many of them get most of the commands.
const BUSY_KEYS: u64 = 4;

/// How many commands and holds a caller remembers for later.
const REMEMBERED: usize = 40;

/// How long bodies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bodies {
    /// Most are shorter than this.
    pub short_bytes: u64,
    /// Once in a while one is this long, or up to twice that.
    pub long_bytes: u64,
    /// Once in how many bodies.
    pub long_every: u64,
}

impl Bodies {
    /// The long ones are longer than any record of the journal.
    pub const BEYOND_RECORDS: Self =
        Self { short_bytes: 4096, long_bytes: 1 << 20, long_every: 24 };

    /// The same for a journal of the smallest files, whose records are smaller in proportion.
    pub const BEYOND_SMALL_RECORDS: Self =
        Self { short_bytes: 3000, long_bytes: 32 << 10, long_every: 8 };
}

/// Makes commands up.
#[derive(Debug)]
pub struct Workload {
    dice: Dice,
    keys: Vec<Name>,
    tickets: u64,
    /// Commands that might be sent again under their ticket.
    sent: VecDeque<Command>,
    /// Holds somebody has heard of.
    holds: VecDeque<(Name, u64)>,
    lengths: Bodies,
    /// From where all bodies are cut.
    bodies: Bytes,
}

impl Workload {
    /// A workload from these dice.
    #[must_use]
    pub fn new(mut dice: Dice, lengths: Bodies) -> Self {
        let words = lengths.long_bytes * 3 / 8;
        let mut pattern = dice.fork();
        let bodies: Vec<u8> = (0..words).flat_map(|_| pattern.roll().to_le_bytes()).collect();
        Self {
            dice,
            keys: (0..KEYS).map(Name::numbered).collect(),
            tickets: 0,
            sent: VecDeque::new(),
            holds: VecDeque::new(),
            lengths,
            bodies: bodies.into(),
        }
    }

    /// Every key that commands may name.
    #[must_use]
    pub fn keys(&self) -> &[Name] {
        &self.keys
    }

    /// Some key.
    pub fn key(&mut self) -> Name {
        let among = if self.dice.one_in(4) { u64::from(KEYS) } else { BUSY_KEYS };
        let number = self.dice.below(among);
        u8::try_from(number).map_or(Name::numbered(0), Name::numbered)
    }

    /// The next command.
    pub fn next_command(&mut self) -> Command {
        match self.dice.below(100) {
            0..35 => Command::Add { key: self.key(), by: self.amount(), ticket: self.ticket() },
            35..50 => Command::Move {
                from: self.key(),
                to: self.key(),
                by: self.amount(),
                ticket: self.ticket(),
            },
            50..60 => self.note(),
            60..72 => Command::Hold { key: self.key(), span: self.span() },
            72..80 => self.release(),
            80..82 => Command::Tick,
            82..90 => Command::Read { key: self.key() },
            _ => self.again(),
        }
    }

    /// A command with a body.
    pub fn note(&mut self) -> Command {
        Command::Note { key: self.key(), body: self.body() }
    }

    /// Learns from an answer.
    pub fn heard(&mut self, command: &Command, reply: &Reply) {
        match (command, reply) {
            (Command::Hold { key, .. }, Reply::Taken { hold, .. }) => {
                remember(&mut self.holds, (*key, *hold));
            }
            (_, Reply::Refused(Refusal::Held { key, by })) => {
                remember(&mut self.holds, (*key, by.id));
            }
            (Command::Add { .. } | Command::Move { .. }, _) if self.dice.one_in(3) => {
                remember(&mut self.sent, command.clone());
            }
            _ => {}
        }
    }

    /// Remembers a command whose answer did not come.
    pub fn lost(&mut self, command: &Command) {
        if matches!(command, Command::Add { .. } | Command::Move { .. }) {
            remember(&mut self.sent, command.clone());
        }
    }

    /// Mostly small; sometimes enough to reach the limit soon, or far beyond any.
    fn amount(&mut self) -> i64 {
        match self.dice.below(40) {
            0 => i64::MAX,
            1 => i64::MIN,
            2..6 => self.dice.around(700_000),
            _ => self.dice.around(150),
        }
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    fn span(&mut self) -> Span {
        match self.dice.below(20) {
            0 => Span::ZERO,
            1 => Span::from_secs(3600),
            _ => Span::from_micros(self.dice.below(3_000_000)),
        }
    }

    /// Mostly small; sometimes empty, sometimes longer than a record of the journal may be.
    fn body(&mut self) -> Bytes {
        let Bodies { short_bytes, long_bytes, long_every } = self.lengths;
        let bytes = match self.dice.below(long_every) {
            0 => long_bytes + self.dice.below(long_bytes),
            1 if self.dice.one_in(2) => 0,
            _ => self.dice.below(short_bytes),
        };
        let at = |place: u64| usize::try_from(place).unwrap_or(0);
        let start = self.dice.below(self.bodies.len() as u64 - bytes);
        self.bodies.slice(at(start)..at(start + bytes))
    }

    /// The hold last heard of, or one that nobody was ever given.
    fn release(&mut self) -> Command {
        let guess = self.dice.one_in(8);
        match self.holds.pop_back().filter(|_| !guess) {
            Some((key, hold)) => Command::Release { key, hold },
            None => Command::Release { key: self.key(), hold: self.dice.roll() },
        }
    }

    /// A command that was sent before, as it was.
    fn again(&mut self) -> Command {
        let place = self.dice.below(self.sent.len() as u64);
        let sent = self.sent.remove(usize::try_from(place).unwrap_or(0));
        sent.unwrap_or_else(|| Command::Read { key: self.key() })
    }
}

fn remember<T>(memory: &mut VecDeque<T>, thing: T) {
    if memory.len() == REMEMBERED {
        memory.pop_front();
    }
    memory.push_back(thing);
}

#[cfg(test)]
mod tests {
    use super::{Bodies, Workload};
    use crate::dice::Dice;
    use crate::room::Command;
    use handoff_types::limits::RECORD_BYTES_MAX;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_of_command_is_sent_and_some_bodies_exceed_a_record() {
        let mut workload = Workload::new(Dice::new(1), Bodies::BEYOND_RECORDS);
        let commands: Vec<Command> = (0..2000).map(|_| workload.next_command()).collect();
        let kinds: BTreeSet<&str> = commands.iter().map(Command::kind).collect();
        assert_eq!(kinds.len(), 7, "{kinds:?}");
        let large =
            |command: &Command| command.body().is_some_and(|body| body.len() > RECORD_BYTES_MAX);
        assert!(commands.iter().any(large));
    }

    #[test]
    fn a_command_that_was_lost_is_sent_again_as_it_was() {
        let mut workload = Workload::new(Dice::new(1), Bodies::BEYOND_RECORDS);
        let lost = Command::Add { key: workload.key(), by: 1, ticket: u64::MAX };
        workload.lost(&lost);
        assert!((0..200).any(|_| workload.next_command() == lost));
    }
}

//! What is asked of victims: a sequence of commands that follows from the seed alone.

use std::collections::VecDeque;

use bytes::Bytes;
use handoff_sim::dice::Dice;
use handoff_sim::room::{Command, Name};

/// How many keys there are.
pub(super) const KEYS: u8 = 24;

/// From where all bodies are cut.
const BODY_BYTES: u64 = 1 << 20;

/// A command is repeated when at least so many others lie between, so that it has been answered
/// by then.
const REPEATED_AFTER: usize = 128;

/// Makes commands up.
#[derive(Debug)]
pub struct Work {
    dice: Dice,
    next: Command,
    tickets: u64,
    sent: VecDeque<Command>,
    bodies: Bytes,
}

impl Work {
    /// The work of a seed.
    #[must_use]
    pub fn new(mut dice: Dice) -> Self {
        let mut pattern = dice.fork();
        let bodies: Vec<u8> =
            (0..BODY_BYTES / 8).flat_map(|_| pattern.roll().to_le_bytes()).collect();
        let next = Command::Note { key: Name::numbered(0), body: Bytes::new() };
        Self { dice, next, tickets: 0, sent: VecDeque::new(), bodies: bodies.into() }
    }

    /// The command that comes next.
    #[must_use]
    pub fn next(&self) -> &Command {
        &self.next
    }

    /// Takes it.
    pub fn take(&mut self) -> Command {
        let command = self.draw();
        if self.sent.len() == REPEATED_AFTER {
            self.sent.pop_front();
        }
        self.sent.push_back(self.next.clone());
        std::mem::replace(&mut self.next, command)
    }

    fn draw(&mut self) -> Command {
        match self.dice.below(100) {
            0..45 => Command::Add { key: self.key(), by: self.amount(), ticket: self.ticket() },
            45..60 => {
                let (from, to) = (self.key(), self.key());
                Command::Move { from, to, by: self.amount(), ticket: self.ticket() }
            }
            60..68 if self.sent.len() == REPEATED_AFTER => self.again(),
            _ => Command::Note { key: self.key(), body: self.body() },
        }
    }

    /// The oldest that is remembered, as it was; a note is no repetition and comes anew.
    fn again(&mut self) -> Command {
        match self.sent.front().cloned() {
            Some(command @ (Command::Add { .. } | Command::Move { .. })) => command,
            _ => Command::Note { key: self.key(), body: self.body() },
        }
    }

    fn key(&mut self) -> Name {
        let number = self.dice.below(u64::from(KEYS));
        Name::numbered(u8::try_from(number).unwrap_or(0))
    }

    /// Mostly small; sometimes enough to reach the limit soon, or far beyond any.
    fn amount(&mut self) -> i64 {
        match self.dice.below(40) {
            0 => i64::MAX,
            1 => i64::MIN,
            2..5 => self.dice.around(700_000),
            _ => self.dice.around(150),
        }
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Mostly small; sometimes empty, sometimes longer than a record of the victim's journal.
    fn body(&mut self) -> Bytes {
        let bytes = match self.dice.below(50) {
            0 => 0,
            1 => 100_000 + self.dice.below(300_000),
            2..8 => self.dice.below(32 << 10),
            _ => self.dice.below(2048),
        };
        let start = self.dice.below(BODY_BYTES - bytes);
        let at = |place: u64| usize::try_from(place).unwrap_or(0);
        self.bodies.slice(at(start)..at(start + bytes))
    }
}

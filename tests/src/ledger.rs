//! The ledger: what a caller knows of what it asked, in another process than the one it asked.
//!
//! # Three outcomes
//!
//! * *Acknowledged*: it is there exactly once, with the same answer, for ever.
//! * *Refused*: it changed nothing.
//! * *Unknown*, because the victim died before it answered: it is there once or not at all, never
//!   twice. The next victim is asked.
//!
//! ```text
//!            send            answer               judged against the pages
//!  (command) ────▶ underway ────────▶ acknowledged, refused
//!                     │ the victim dies
//!                     └──────────▶ unknown ──ask──▶ there: on the pages   not there: ask again
//! ```
//!
//! The pages are written from the prose of the room's rules (the module page of
//! [`handoff_sim::room`]) and share no line with it. Without holds the room needs no clock, so
//! every answer can be foretold to the digit. The victim answers in the order in which it was
//! asked, and so does the ledger judge; only what the log turns away is told at once, as it changes
//! nothing.

mod page;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use bytes::Bytes;
use handoff_sim::room::{Command, Name, Reply};
use handoff_types::Outcome;

pub use self::page::Pages;
use crate::wire::{Answer, Ask, Looks};

/// How much one key may have underway: less than the tickets it remembers, so that the next
/// victim can be asked for all of them.
const UNDERWAY_PER_KEY: usize = 12;

/// How keys look.
pub type Found = BTreeMap<Name, Looks>;

/// How notes read; nothing for one that is missing.
pub type Bodies = BTreeMap<(Name, u64), Option<Bytes>>;

/// What went wrong, for people.
#[derive(Clone, Debug)]
pub struct Trouble(pub String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

/// How often each outcome was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Done, and told so.
    pub acknowledged: u64,
    /// Refused by the room's rules.
    pub refused: u64,
    /// Refused by the log: no space, poisoned, too busy.
    pub turned_away: u64,
    /// Not answered, and found by the next victim.
    pub unknown_there: u64,
    /// Not answered, and not found by the next victim.
    pub unknown_missing: u64,
    /// Bodies read back and compared, byte for byte.
    pub bodies: u64,
}

/// What an answer turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The room answered a command as it must.
    Reply(Reply),
    /// The log did not take a command.
    TurnedAway {
        /// The stable code.
        code: String,
        /// Why.
        words: String,
    },
    /// The journal stopped before a command was durable.
    Lost,
    /// A key looks like this.
    Tally(Name, Looks),
    /// A note reads like this.
    Body(Name, u64, Option<Bytes>),
}

/// What was asked and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pages: Pages,
    underway: VecDeque<(u64, Ask)>,
    unknown: Vec<Command>,
    /// Whether the unknown ones were asked of a victim that refuses nothing for want of space, so
    /// that those that are there must be the first of them.
    in_order: bool,
    asked: u64,
    outcomes: Outcomes,
}

impl Ledger {
    /// Notes that something is asked, and gives the line that asks it.
    pub fn ask(&mut self, ask: Ask) -> String {
        self.asked += 1;
        let line = ask.line(self.asked);
        self.underway.push_back((self.asked, ask));
        line
    }

    /// Whether a command can be asked now, so that it can be found out about later.
    #[must_use]
    pub fn can_ask(&self, command: &Command) -> bool {
        let keys = command.keys().unwrap_or_default();
        keys.iter().all(|key| {
            let same = |(_, ask): &&(u64, Ask)| match ask {
                Ask::Do(other) => other.keys().is_some_and(|keys| keys.contains(key)),
                Ask::Tally(_) | Ask::Body(..) => false,
            };
            self.underway.iter().filter(same).count() < UNDERWAY_PER_KEY
        })
    }

    /// How many requests have no answer yet.
    #[must_use]
    pub fn underway(&self) -> usize {
        self.underway.len()
    }

    /// Judges an answer.
    ///
    /// # Errors
    /// [`Trouble`] when it is not the one that must come.
    pub fn hear(&mut self, line: &str) -> Result<Heard, Trouble> {
        let (id, answer) =
            Answer::parse(line).ok_or_else(|| Trouble(format!("not understood: {line}")))?;
        let place = self.underway.iter().position(|(asked, _)| *asked == id);
        let at_once = matches!(answer, Answer::No { .. });
        let Some(place) = place.filter(|place| at_once || *place == 0) else {
            let next = self.underway.front().map_or(0, |(asked, _)| *asked);
            return Err(Trouble(format!("the next answer should be to {next}: {line}")));
        };
        let Some((_, ask)) = self.underway.remove(place) else {
            return Err(Trouble(format!("nobody waits for this: {line}")));
        };
        match (ask, answer) {
            (Ask::Do(command), Answer::Reply(reply)) => {
                let foretold = self.pages.answer(&command);
                if reply != foretold {
                    let words = format!("{command} was answered '{reply}', not '{foretold}'");
                    return Err(Trouble(words));
                }
                self.pages.take(&command);
                match reply.refusal() {
                    None => self.outcomes.acknowledged += 1,
                    Some(_) => self.outcomes.refused += 1,
                }
                Ok(Heard::Reply(reply))
            }
            (Ask::Do(_), Answer::No { code, words }) => {
                self.outcomes.turned_away += 1;
                Ok(Heard::TurnedAway { code, words })
            }
            (Ask::Do(command), Answer::Lost(outcome)) => {
                if outcome == Outcome::Unknown {
                    self.unknown.push(command);
                }
                Ok(Heard::Lost)
            }
            (Ask::Tally(key), Answer::Tally(looks)) => Ok(Heard::Tally(key, looks)),
            (Ask::Body(key, offset), Answer::Body(body)) => {
                self.compare_body(key, offset, body.as_deref())?;
                Ok(Heard::Body(key, offset, body))
            }
            (ask, _) => Err(Trouble(format!("no answer to {ask:?}: {line}"))),
        }
    }

    /// The victim died: what it has not answered is unknown. `in_order` if it refused nothing.
    pub fn gone(&mut self, in_order: bool) {
        self.in_order = if self.unknown.is_empty() { in_order } else { self.in_order && in_order };
        for (_, ask) in self.underway.drain(..) {
            if let Ask::Do(command) = ask {
                self.unknown.push(command);
            }
        }
    }

    /// How many commands are unknown.
    #[must_use]
    pub fn unknown(&self) -> usize {
        self.unknown.len()
    }

    /// The notes that were acknowledged, by key.
    pub fn notes(&self) -> impl Iterator<Item = (Name, u64)> {
        self.pages.keys().map(|(key, page)| (key, page.notes.len() as u64))
    }

    /// Judges everything that a victim found: what was acknowledged and what is known since then,
    /// exactly; what is unknown, once or not at all. `bodies` are those behind the notes that are
    /// known. Gives the unknown commands that have a ticket, to be asked again.
    ///
    /// # Errors
    /// [`Trouble`] when something is missing, doubled, or there that should not be.
    pub fn settle(&mut self, found: &Found, bodies: &Bodies) -> Result<Vec<Command>, Trouble> {
        let mut pages = self.pages.clone();
        let (mut there, mut missing) = (0, None);
        for command in &self.unknown {
            if !Pages::changes(&pages.answer(command)) {
                continue;
            }
            if is_there(command, &pages, found, bodies) {
                if let Some(missing) = missing.filter(|_| self.in_order) {
                    let words = format!("{command} survived, {missing}, asked before it, did not");
                    return Err(Trouble(words));
                }
                pages.take(command);
                there += 1;
            } else {
                self.outcomes.unknown_missing += 1;
                missing = Some(command);
            }
        }
        for (key, looks) in found {
            let expected = pages.looks(*key);
            if *looks != expected {
                let mut words = format!("{key} should be {expected:?}\nand is {looks:?}");
                for command in &self.unknown {
                    words += &format!("\nunknown was: {command}");
                }
                return Err(Trouble(words));
            }
        }
        self.outcomes.unknown_there += there;
        self.pages = pages;
        let again = |command: &Command| !matches!(command, Command::Note { .. });
        Ok(self.unknown.drain(..).filter(again).collect())
    }

    /// How often each outcome was met.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// A note that is known must read as it was written.
    fn compare_body(&mut self, key: Name, offset: u64, body: Option<&[u8]>) -> Result<(), Trouble> {
        let Some(written) = self.pages.note(key, offset) else { return Ok(()) };
        if body != Some(written) {
            let found = body.map_or("missing".to_owned(), |body| {
                format!("{} bytes, crc {:08x}", body.len(), crc32c::crc32c(body))
            });
            return Err(Trouble(format!(
                "note {offset} of {key} is {found}; written were {} bytes, crc {:08x}",
                written.len(),
                crc32c::crc32c(written)
            )));
        }
        self.outcomes.bodies += 1;
        Ok(())
    }
}

/// Whether what an unknown command would have changed can be seen.
fn is_there(command: &Command, pages: &Pages, found: &Found, bodies: &Bodies) -> bool {
    match command {
        Command::Add { key, ticket, .. } | Command::Move { from: key, ticket, .. } => found
            .get(key)
            .is_some_and(|looks| looks.tickets.iter().any(|(known, _)| known == ticket)),
        Command::Note { key, body } => {
            let next = pages.looks(*key).notes;
            bodies.get(&(*key, next)).is_some_and(|found| found.as_ref() == Some(body))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;

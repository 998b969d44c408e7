//! The room and its way to the journal, as one thing behind one lock.

use handoff_log::journal::{Purpose, Refused, Ticket};
use handoff_sim::room::{Command, Counter, Name, note_frame};
use handoff_store_embedded::{BulkError, Host, Persist};
use handoff_types::{Code, Entropy};

use super::End;
use super::clock::{Clock, entropy};
use crate::wire::{Answer, Ask, Looks};

pub(super) struct Room {
    pub(super) host: Host<Counter>,
    clock: Clock,
    patient: bool,
    chance: Entropy,
    asked: u64,
}

type Answered = (Answer, Option<Ticket>);

impl Room {
    pub(super) fn new(host: Host<Counter>, clock: Clock, patient: bool) -> Self {
        let chance = entropy().unwrap_or(Entropy(1));
        Self { host, clock, patient, chance, asked: 0 }
    }

    pub(super) fn now(&self) -> handoff_types::Now {
        self.clock.now()
    }

    /// Answers, or `None` when there is no space and the room is patient.
    pub(super) fn ask(&mut self, ask: &Ask) -> Result<Option<Answered>, End> {
        match ask {
            Ask::Do(command) => self.apply(command),
            Ask::Tally(key) => {
                let ticket = self.host.journal().barrier(Counter::ROOM);
                let looks = Looks::from(self.host.state().tally(*key));
                Ok(Some((Answer::Tally(looks), Some(ticket))))
            }
            Ask::Body(key, offset) => Ok(Some((self.body(*key, *offset), None))),
        }
    }

    fn apply(&mut self, command: &Command) -> Result<Option<Answered>, End> {
        self.asked += 1;
        let chance = Entropy(u128::from(self.chance.word(self.asked)));
        let bodies = command.body().cloned().into_iter().collect();
        let when = (self.clock.now(), chance);
        match self.host.apply(command, bodies, Purpose::Accept, when) {
            Ok(applied) => Ok(Some((Answer::Reply(applied.reply), Some(applied.ticket)))),
            Err(Refused::Closed) => Err(End::new(Code::JournalClosed, Refused::Closed)),
            Err(refused) if self.patient && passes(&refused) => Ok(None),
            Err(refused) => {
                let code = refused.code().text().to_owned();
                Ok(Some((Answer::No { code, words: refused.to_string() }, None)))
            }
        }
    }

    /// Waits for nothing: a body is given only when it is durable.
    fn body(&self, key: Name, offset: u64) -> Answer {
        match self.host.body(note_frame(key, offset)) {
            Ok(body) => Answer::Body(body),
            Err(error) => {
                let code = match error {
                    BulkError::Corrupt { .. } => Code::Corrupt,
                    _ => Code::DiskFault,
                };
                Answer::No { code: code.text().to_owned(), words: error.to_string() }
            }
        }
    }
}

/// Whether a refusal passes when there is space.
fn passes(refused: &Refused) -> bool {
    matches!(
        refused,
        Refused::Busy { .. }
            | Refused::Full { .. }
            | Refused::NoFile { .. }
            | Refused::Poisoned { .. }
    )
}

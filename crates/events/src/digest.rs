//! One number for a state, so that a rebuilt one can be compared with a living one.

use handoff_types::entropy::mix;

use crate::{Due, Event, Id, Repeat, Schedule};

/// A running digest: order matters, and every thing says where it ends.
#[derive(Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn word(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }

    fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        for eight in text.as_bytes().chunks(8) {
            self.word(eight.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    pub(crate) fn event(&mut self, id: Id, event: &Event) {
        let Event { description, types, schedule, repeat, updated, due, occurrences, skipped } =
            event;
        self.word(id.number().into());
        self.text(description);
        self.word(types.len() as u64);
        types.iter().for_each(|name| self.text(name));
        match schedule {
            Schedule::Every(period) => {
                self.word(0);
                self.word(period.secs().to_bits());
            }
            Schedule::Cron(cron) => {
                self.word(1);
                self.text(cron.expression());
                self.text(cron.zone());
            }
            Schedule::At(at) => {
                self.word(2);
                self.word(at.0.cast_unsigned());
            }
        }
        match repeat {
            Repeat::Forever => self.word(0),
            Repeat::Left(left) => self.word(u64::from(*left) + 1),
        }
        self.word(updated.0.cast_unsigned());
        let (clock, due) = match due {
            Due::Steady(due) => (0, due.0),
            Due::Wall(due) => (1, due.0.cast_unsigned()),
        };
        self.word(clock);
        self.word(due);
        self.word(*occurrences);
        self.word(*skipped);
    }
}

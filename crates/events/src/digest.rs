//! One number for a state, so that a rebuilt one can be compared with a living one.

use handoff_types::entropy::mix;

use crate::{Due, Event, Handed, Id, Letter, Outlet, Repeat, Schedule};

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

    pub(crate) fn outlet(&mut self, id: Id, outlet: &Outlet) {
        let Outlet { source, ended, next, waiting } = outlet;
        self.word(id.number().into());
        self.wide(source.producer);
        self.text(&source.topic);
        self.word(source.key.is_some().into());
        self.text(source.key.as_deref().unwrap_or_default());
        self.text(&source.description);
        self.word(source.types.len() as u64);
        source.types.iter().for_each(|name| self.text(name));
        self.word((*ended).into());
        self.word(*next);
        self.word(waiting.len() as u64);
        waiting.iter().for_each(|handed| self.handed(handed));
    }

    pub(crate) fn letter(&mut self, number: u64, letter: &Letter) {
        let Letter { event, handed, why, since, retrying } = letter;
        self.word(number);
        self.word(event.number().into());
        self.handed(handed);
        self.text(why);
        self.word(since.0.cast_unsigned());
        self.word((*retrying).into());
    }

    fn handed(&mut self, handed: &Handed) {
        let Handed { sequence, number, due, late } = handed;
        self.word(*sequence);
        self.word(*number);
        self.word(due.0.cast_unsigned());
        self.word((*late).into());
    }

    fn wide(&mut self, wide: u128) {
        let word = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0);
        self.word(word(wide >> 64));
        self.word(word(wide));
    }
}

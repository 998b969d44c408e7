//! What is asked of the server.

use std::time::Duration;

use handoff_sim::dice::Dice;

use super::ledger::Ledger;
use crate::sevent::{code, event, ids, message, names, option, varint};

/// The types there are.
pub(super) const TYPES: [&str; 5] = ["t0", "t1", "t2", "t3", "t4"];

/// A description begins so; its number follows.
pub(super) const PREFIX: &str = "reminder ";

/// What was asked, for the ledger.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A registration that must be taken.
    Register(u64),
    /// A registration that must be refused.
    Refused,
    /// Delete one event.
    Delete(i32),
    /// Delete all of a type.
    DeleteType(&'static str),
    /// Look at one event.
    Get(i32),
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) what: What,
    pub(super) octets: Vec<u8>,
}

/// A reminder as it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Reminder {
    pub(super) period: Duration,
    pub(super) repeat: i32,
    pub(super) types: Vec<&'static str>,
}

/// Draws what is asked next.
#[derive(Debug)]
pub(super) struct Work {
    dice: Dice,
}

impl Work {
    pub(super) fn new(dice: Dice) -> Self {
        Self { dice }
    }

    pub(super) fn next(&mut self, ledger: &mut Ledger) -> Asked {
        match self.dice.below(100) {
            0..10 => match ledger.some_id(self.dice.below(u64::MAX)) {
                Some(id) => {
                    let select = [(option::EVENT_IDS, ids(&[id, id, i32::MAX]))];
                    ledger.deleting(id);
                    Asked {
                        what: What::Delete(id),
                        octets: message(code::DELETE_EVENT, &select, &[]),
                    }
                }
                None => self.register(ledger),
            },
            10..20 => match ledger.some_id(self.dice.below(u64::MAX)) {
                Some(id) => Asked { what: What::Get(id), octets: get(id) },
                None => self.register(ledger),
            },
            20..25 => self.refused(),
            25 if self.dice.one_in(40) => {
                let name = self.dice.pick(&TYPES).copied().unwrap_or("t0");
                ledger.deleting_type(name);
                let select = [(option::EVENT_TYPE, name.as_bytes().to_vec())];
                let octets = message(code::DELETE_EVENT, &select, &[]);
                Asked { what: What::DeleteType(name), octets }
            }
            _ => self.register(ledger),
        }
    }

    fn register(&mut self, ledger: &mut Ledger) -> Asked {
        let (period, repeat) = match self.dice.below(10) {
            0 => (Duration::from_secs(1), -1),
            1..5 => {
                let period = Duration::from_millis(100 + 50 * self.dice.below(20));
                (period, i32::try_from(1 + self.dice.below(30)).unwrap_or(1))
            }
            5 => (Duration::from_secs(60), 0),
            _ => (Duration::from_secs(3_600 + self.dice.below(3_600)), -1),
        };
        let mut types: Vec<&'static str> = Vec::new();
        while self.dice.one_in(2) {
            types.extend(self.dice.pick(&TYPES).copied());
        }
        // Repeated names go out as they are; they count once.
        let options = [(option::EVENT_TYPES, names(&types))];
        types.sort_unstable();
        types.dedup();
        let serial = ledger.asking(Reminder { period, repeat, types });
        let body = event(&format!("{PREFIX}{serial}"), period.as_secs_f64(), repeat);
        let octets = message(code::REGISTER_EVENT, &options, &body);
        Asked { what: What::Register(serial), octets }
    }

    fn refused(&mut self) -> Asked {
        let (period, repeat) = match self.dice.below(5) {
            0 => (-1.0, 1),
            1 => (f64::NAN, 1),
            2 => (1e300, 1),
            3 => (0.001, 1),
            _ => (1.0, -2),
        };
        let body = event("must not be", period, repeat);
        Asked { what: What::Refused, octets: message(code::REGISTER_EVENT, &[], &body) }
    }
}

pub(super) fn get(id: i32) -> Vec<u8> {
    message(code::GET_EVENT, &[(option::EVENT_ID, varint(id))], &[])
}

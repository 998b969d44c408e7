//! What the folders said and the journal refused. Nobody says it again before a restart, so none of it
//! is dropped that a process waits for.

use std::collections::BTreeMap;

use handoff_exchange::{Ask, Seq, State};

/// Damaged bodies that are kept. The others are found again when the folders are compared.
const DAMAGED_MAX: usize = 10_000;

/// Questions of our own, to be asked again. One or two a process that is not settled, which the state
/// knows anyway, so that there are never more than those.
#[derive(Debug, Default)]
pub(super) struct Again {
    stuck: BTreeMap<u64, Box<str>>,
    settled: BTreeMap<u64, u8>,
    damaged: BTreeMap<Seq, Box<str>>,
}

impl Again {
    /// Keeps a question, if it would still change anything.
    pub(super) fn put(&mut self, state: &State, ask: Ask) {
        let waits =
            |number| state.process_by_number(number).is_some_and(|process| !process.settled);
        match ask {
            Ask::Stuck { number, words } if waits(number) => {
                self.stuck.entry(number).or_insert(words);
            }
            Ask::Settled { number, round } if waits(number) => {
                let kept = self.settled.entry(number).or_default();
                *kept = (*kept).max(round);
            }
            Ask::Damaged { seq, words } if self.damaged.len() < DAMAGED_MAX => {
                self.damaged.entry(seq).or_insert(words);
            }
            // All others are due by themselves, or are asked by somebody who is told.
            _ => {}
        }
    }

    /// Takes one. What is stuck comes before what is not any more.
    pub(super) fn take(&mut self) -> Option<Ask> {
        if let Some((number, words)) = self.stuck.pop_first() {
            return Some(Ask::Stuck { number, words });
        }
        if let Some((number, round)) = self.settled.pop_first() {
            return Some(Ask::Settled { number, round });
        }
        self.damaged.pop_first().map(|(seq, words)| Ask::Damaged { seq, words })
    }
}

#[cfg(test)]
mod tests {
    use handoff_exchange::{Aggregate, Ask, DatabaseNo, Phase, Process, ProcessId, Seq, State};
    use handoff_types::{Span, Steady, Wall};

    use super::{Again, DAMAGED_MAX};

    /// More than any list of a fixed length would have had room for.
    const MANY: u64 = 25_000;

    fn process(number: u64, settled: bool) -> Aggregate {
        Aggregate::Process(Box::new(Process {
            id: ProcessId { number, nonce: 0 },
            database: DatabaseNo(1),
            phase: Phase::Cleanup,
            started: Wall(0),
            deadline: Steady(0),
            lease: Span::ZERO,
            request_key: None,
            to_erp: Vec::new(),
            from_erp: Vec::new(),
            digest: 0,
            ready: None,
            ended: None,
            words: None,
            settled,
            contradicted: false,
        }))
    }

    fn all(again: &mut Again) -> Vec<Ask> {
        std::iter::from_fn(|| again.take()).collect()
    }

    #[test]
    fn every_process_that_waits_is_settled_however_many_there_are() {
        let mut state = State::default();
        (0..MANY).for_each(|number| state.put(process(number, false)));
        let mut again = Again::default();
        for _ in 0..2 {
            for number in 0..MANY {
                again.put(&state, Ask::Settled { number, round: 1 });
            }
        }
        let expected: Vec<Ask> =
            (0..MANY).map(|number| Ask::Settled { number, round: 1 }).collect();
        assert!(all(&mut again) == expected, "some are lost, or come twice");
        assert_eq!(again.take(), None);
    }

    #[test]
    fn what_nobody_waits_for_takes_no_room() {
        let mut state = State::default();
        state.put(process(1, true));
        let mut again = Again::default();
        for number in 1..MANY {
            again.put(&state, Ask::Settled { number, round: 1 });
            again.put(&state, Ask::Stuck { number, words: "full".into() });
        }
        assert_eq!(all(&mut again), []);
        for seq in 0..MANY {
            again.put(&state, Ask::Damaged { seq: Seq(seq), words: "gone".into() });
        }
        assert_eq!(all(&mut again).len(), DAMAGED_MAX);
    }

    #[test]
    fn what_was_stuck_is_said_before_it_is_settled_and_by_its_last_decision() {
        let mut state = State::default();
        state.put(process(1, false));
        let mut again = Again::default();
        let settled = |round| Ask::Settled { number: 1, round };
        let stuck = Ask::Stuck { number: 1, words: "full".into() };
        for ask in [settled(1), stuck.clone(), settled(2), settled(1)] {
            again.put(&state, ask);
        }
        assert_eq!(all(&mut again), [stuck, settled(2)]);
    }
}

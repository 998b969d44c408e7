//! The judge: knows the rules of the counter room from their prose (the module page of
//! [`crate::room`]) and only ever sees commands, answers and the time. Of the room it uses the
//! vocabulary, never a line of its logic.
//!
//! # Three outcomes
//!
//! A command was *acknowledged* or *refused*: the answer must be one the rules allow. Or its
//! outcome is *unknown*, because somebody crashed or an answer got lost: it happened once or not
//! at all, never twice.
//!
//! # Beliefs
//!
//! Of each key the oracle holds a set of beliefs, each a way the key may be. An unknown command
//! doubles the set, every answer prunes it, and an answer that no belief allows is a
//! [`Violation`]:
//!
//! ```text
//!            add +5 unknown          read: 5            add +1: value 7
//!  {0} ───────────▶ {0, 5} ───────────▶ {5} ───────────▶ {} violation
//! ```
//!
//! A commit whose answer got lost may still be on its way and land later: that command is
//! *pending* until it is known that it will not, and each belief that does not assume it yet may
//! come to.
//!
//! An unknown move leaves a *doubt* in the beliefs of both its keys: each belief says whether it
//! assumes the move or not. As soon as one key has settled it, the other one's beliefs that
//! assume otherwise go; if the two keys settle it differently, half of a move happened and that is
//! a violation. Doubts of several moves are weighed one by one, not in combination: the oracle
//! may miss a violation that only shows in combination, and never raises a false one.
//!
//! The number of beliefs stays small because a read settles nearly everything. Whoever drives
//! the oracle asks [`Oracle::crowded`] and sends a read there; above a few hundred beliefs for a
//! key the oracle gives up, loudly.

mod belief;
mod case;
mod violation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use handoff_types::Now;

use self::belief::Belief;
use self::case::Case;
pub use self::violation::Violation;
use crate::room::{Action, Command, Ended, Name, Refusal, Reply, Seen};

/// Above this many beliefs a key should be read.
const CROWD: usize = 8;

/// Above this many beliefs the oracle is of no use.
const BELIEFS_MAX: usize = 512;

/// How many holds one tick ends at most.
const ENDED_BY_TICK: usize = 16;

/// A command that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt(u64);

/// Judges what a counter room answers.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// The ways each key may be; a key not mentioned was never written to.
    keys: BTreeMap<Name, Vec<Belief>>,
    /// The moves whose outcome is unknown, with the keys that lost and gained.
    doubts: BTreeMap<u64, (Name, Name)>,
    /// The commands that may still happen, and when they were decided.
    pending: BTreeMap<u64, (Command, Now)>,
    doubts_ever: u64,
    holds_given: BTreeSet<u64>,
}

impl Oracle {
    /// Judges an answer, refusals included, and the actions performed with it.
    ///
    /// Answers are judged in the order in which their commands took effect; `now` is what the
    /// command was decided at.
    ///
    /// # Errors
    /// [`Violation`] when the rules do not allow it.
    pub fn acknowledged(
        &mut self,
        command: &Command,
        now: Now,
        reply: &Reply,
        actions: &[Action],
    ) -> Result<(), Violation> {
        let case = Case { command, reply, actions };
        let steady = now.steady.0;
        match (command, reply) {
            (Command::Add { key, by, ticket }, Reply::Value { value }) => {
                case.announces(&[(*key, value.wrapping_sub(*by), *value)])?;
                self.narrow(case, *key, |belief| {
                    let after = belief.shifted(Some(*by), steady)?.with_ticket(*ticket)?;
                    (after.value == *value).then_some(after)
                })
            }
            (
                Command::Add { key, ticket, .. } | Command::Move { from: key, ticket, .. },
                Reply::Repeated { value },
            ) => {
                case.silent()?;
                self.narrow(case, *key, |belief| {
                    (belief.ticket(*ticket) == Some(*value)).then(|| belief.clone())
                })
            }
            (Command::Add { key, by, ticket }, Reply::Refused(refusal)) => {
                case.silent()?;
                self.narrow(case, *key, |belief| {
                    belief.ticket(*ticket).is_none().then_some(())?;
                    refused_shift(belief, *key, Some(*by), refusal, steady)
                })
            }
            (Command::Move { from, to, by, .. }, Reply::Moved { from: gives, to: gets })
                if from != to =>
            {
                case.announces(&[
                    (*from, gives.wrapping_add(*by), *gives),
                    (*to, gets.wrapping_sub(*by), *gets),
                ])?;
                self.moved(case, steady, (*gives, *gets))
            }
            (Command::Move { from, to, .. }, Reply::Refused(Refusal::SameKey)) if from == to => {
                case.silent()
            }
            (Command::Move { from, to, .. }, Reply::Refused(refusal)) if from != to => {
                case.silent()?;
                self.move_refused(case, steady, refusal)
            }
            (Command::Hold { key, span }, Reply::Taken { hold, until }) => {
                if !self.holds_given.insert(*hold) {
                    return Err(Violation::HoldGivenTwice { key: *key, hold: *hold });
                }
                self.narrow(case, *key, |belief| {
                    let after = belief.held(Some(*hold), *span, steady)?;
                    let told = match (belief.hold, actions) {
                        (None, []) => true,
                        (Some(over), [Action::HoldEnded { key: of, hold }]) => {
                            of == key && over.may_be(*hold)
                        }
                        _ => false,
                    };
                    (told && after.hold.is_some_and(|hold| hold.until == until.0)).then_some(after)
                })
            }
            (Command::Hold { key, .. }, Reply::Refused(Refusal::Held { key: of, by }))
                if key == of =>
            {
                case.silent()?;
                self.narrow(case, *key, |belief| belief.held_by(by, steady))
            }
            (Command::Release { key, hold }, Reply::Released) => {
                case.silent()?;
                self.narrow(case, *key, |belief| belief.released(*hold))
            }
            (Command::Release { key, hold }, Reply::Refused(Refusal::NotHeld)) => {
                case.silent()?;
                self.narrow(case, *key, |belief| {
                    belief.released(*hold).is_none().then(|| belief.clone())
                })
            }
            (Command::Note { key, body }, Reply::Noted { offset }) => {
                case.silent()?;
                let crc = crc32c::crc32c(body);
                self.narrow(case, *key, |belief| {
                    (belief.notes.len() as u64 == *offset).then(|| belief.noted(crc))
                })
            }
            (Command::Tick, Reply::Ticked { ended }) => self.ticked(case, steady, ended),
            (Command::Read { key }, Reply::Seen(seen)) => {
                case.silent()?;
                self.narrow(case, *key, |belief| belief.seen_as(seen))
            }
            _ => Err(case.absurd()),
        }?;
        self.weigh_doubts()
    }

    /// Takes note of a command that happened once or not at all.
    ///
    /// # Errors
    /// [`Violation::Crowded`] when too much is unknown already.
    pub fn unknown(&mut self, command: &Command, now: Now) -> Result<(), Violation> {
        let doubt = self.pending(command, now)?;
        self.over(doubt)
    }

    /// Takes note of a command that happened, or will happen, or will not: once at most.
    ///
    /// # Errors
    /// [`Violation::Crowded`] when too much is unknown already.
    pub fn pending(&mut self, command: &Command, now: Now) -> Result<Doubt, Violation> {
        let doubt = self.doubts_ever;
        self.doubts_ever += 1;
        for key in self.concerned(command) {
            let beliefs = self.beliefs(key);
            let done = beliefs.iter().filter_map(|belief| after(belief, key, command, now));
            let done = done.map(|belief| belief.assuming(doubt, true));
            let same = beliefs.iter().map(|belief| belief.clone().assuming(doubt, false));
            self.believe(key, distinct(same.chain(done)))?;
        }
        self.pending.insert(doubt, (command.clone(), now));
        if let Command::Move { from, to, .. } = command
            && from != to
        {
            self.doubts.insert(doubt, (*from, *to));
        }
        Ok(Doubt(doubt))
    }

    /// Takes note that a pending command will not happen any more, if it has not.
    ///
    /// # Errors
    /// [`Violation`] when the two keys of a move do not agree.
    pub fn over(&mut self, Doubt(doubt): Doubt) -> Result<(), Violation> {
        let Some((command, _)) = self.pending.get(&doubt).cloned() else { return Ok(()) };
        let joint = self.doubts.contains_key(&doubt);
        for key in self.concerned(&command) {
            let beliefs = self.beliefs(key).into_iter();
            let kept = beliefs.map(|belief| if joint { belief } else { belief.indifferent(doubt) });
            self.believe(key, distinct(kept))?;
        }
        self.pending.remove(&doubt);
        self.weigh_doubts()
    }

    /// Judges everything that is there after a recovery: what was acknowledged must be, what is
    /// unknown may be. A key that is not mentioned was never written to.
    ///
    /// # Errors
    /// [`Violation`] when something is missing, or there that should not be.
    pub fn settle(
        &mut self,
        observed: impl IntoIterator<Item = (Name, Seen)>,
    ) -> Result<(), Violation> {
        let mut all: BTreeMap<Name, Seen> =
            self.keys.keys().map(|key| (*key, Seen::default())).collect();
        all.extend(observed);
        all.into_iter().try_for_each(|(key, seen)| {
            let read = Command::Read { key };
            self.acknowledged(&read, Now::default(), &Reply::Seen(seen), &[])
        })
    }

    /// Judges everything that is there after the crash of a single server whose commands take
    /// effect in order: what was acknowledged, and of the commands underway the first so many and
    /// none after them. Says how many that were.
    ///
    /// `underway` are the commands that had been decided and not answered, in that order.
    ///
    /// # Errors
    /// [`Violation`] when it is no such prefix; the one of the shortest prefix is told.
    pub fn recovered(
        &mut self,
        underway: &[(Command, Now)],
        observed: &BTreeMap<Name, Seen>,
    ) -> Result<usize, Violation> {
        let there = |oracle: &Self| {
            let mut oracle = oracle.clone();
            oracle.settle(observed.iter().map(|(key, seen)| (*key, *seen))).map(|()| oracle)
        };
        let mut prefix = self.clone();
        let mut judged = there(&prefix);
        let mut survived = 0;
        for (command, now) in underway {
            if judged.is_ok() {
                break;
            }
            prefix.happened(command, *now);
            survived += 1;
            judged = there(&prefix).or(judged);
        }
        *self = judged?;
        Ok(survived)
    }

    /// Judges what was read as a note's body; `None` if there was no such note.
    ///
    /// # Errors
    /// [`Violation::Body`] when that cannot be.
    pub fn body(&mut self, key: Name, offset: u64, body: Option<&[u8]>) -> Result<(), Violation> {
        let crc = body.map(crc32c::crc32c);
        let beliefs = self.beliefs(key);
        let kept: Vec<Belief> =
            beliefs.iter().filter(|belief| belief.note(offset) == crc).cloned().collect();
        if kept.is_empty() {
            let found = crc.map_or("nothing".to_owned(), |crc| format!("crc {crc:08x}"));
            return Err(Violation::Body { key, offset, found, beliefs: listed(&beliefs) });
        }
        self.keys.insert(key, kept);
        self.weigh_doubts()
    }

    /// A key that may be in so many ways that it should be read.
    #[must_use]
    pub fn crowded(&self) -> Option<Name> {
        let crowded = self.keys.iter().filter(|(_, beliefs)| beliefs.len() > CROWD);
        crowded.max_by_key(|(_, beliefs)| beliefs.len()).map(|(key, _)| *key)
    }

    /// The ways a key may be by now, when anything pending may just have happened.
    fn beliefs(&self, key: Name) -> Vec<Belief> {
        let mut beliefs = self.keys.get(&key).cloned().unwrap_or_else(|| vec![Belief::default()]);
        for (doubt, (command, now)) in &self.pending {
            let late: Vec<Belief> = beliefs
                .iter()
                .filter(|belief| belief.assumes(*doubt) == Some(false))
                .filter_map(|belief| after(belief, key, command, *now))
                .map(|belief| belief.assuming(*doubt, true))
                .collect();
            beliefs = distinct(beliefs.into_iter().chain(late));
        }
        beliefs
    }

    /// The keys a command may change.
    fn concerned(&self, command: &Command) -> Vec<Name> {
        match command {
            Command::Add { key, .. }
            | Command::Hold { key, .. }
            | Command::Release { key, .. }
            | Command::Note { key, .. } => vec![*key],
            Command::Move { from, to, .. } if from != to => vec![*from, *to],
            Command::Tick => self.keys.keys().copied().collect(),
            Command::Move { .. } | Command::Read { .. } => Vec::new(),
        }
    }

    /// Replaces each belief by what the answer makes of it; one that contradicts it goes.
    fn narrow(
        &mut self,
        case: Case<'_>,
        key: Name,
        after: impl Fn(&Belief) -> Option<Belief>,
    ) -> Result<(), Violation> {
        let beliefs = self.beliefs(key);
        let narrowed = distinct(beliefs.iter().filter_map(after));
        if narrowed.is_empty() {
            return Err(Violation::Impossible {
                command: case.command.to_string(),
                answer: case.reply.to_string(),
                key,
                beliefs: listed(&beliefs),
            });
        }
        self.keys.insert(key, narrowed);
        Ok(())
    }

    fn believe(&mut self, key: Name, beliefs: Vec<Belief>) -> Result<(), Violation> {
        if beliefs.len() > BELIEFS_MAX {
            return Err(Violation::Crowded { key });
        }
        self.keys.insert(key, beliefs);
        Ok(())
    }

    /// Takes a command that nobody has answered as done, as far as the rules allow it.
    fn happened(&mut self, command: &Command, now: Now) {
        let mut keys = self.concerned(command);
        if *command == Command::Tick {
            keys = self.first_over(now.steady.0);
        }
        let allowed = |key: &Name| {
            self.beliefs(*key).iter().any(|belief| after(belief, *key, command, now).is_some())
        };
        if matches!(command, Command::Move { .. }) && !keys.iter().all(allowed) {
            return;
        }
        for key in keys {
            let beliefs = self.beliefs(key).into_iter();
            let changed = beliefs.map(|belief| after(&belief, key, command, now).unwrap_or(belief));
            self.keys.insert(key, distinct(changed));
        }
    }

    /// The keys whose holds one tick would end.
    fn first_over(&self, steady: u64) -> Vec<Name> {
        let since = |beliefs: &Vec<Belief>| beliefs.iter().find_map(|belief| belief.over(steady));
        let over = self.keys.iter().filter_map(|(key, beliefs)| Some((since(beliefs)?, *key)));
        let in_order: BTreeSet<(u64, Name)> = over.collect();
        in_order.into_iter().take(ENDED_BY_TICK).map(|(_, key)| key).collect()
    }

    fn moved(&mut self, case: Case<'_>, steady: u64, after: (i64, i64)) -> Result<(), Violation> {
        let Command::Move { from, to, by, ticket } = case.command else {
            return Err(case.absurd());
        };
        self.narrow(case, *from, |belief| {
            let given = belief.shifted(by.checked_neg(), steady)?.with_ticket(*ticket)?;
            (given.value == after.0).then_some(given)
        })?;
        self.narrow(case, *to, |belief| {
            belief.shifted(Some(*by), steady).filter(|taken| taken.value == after.1)
        })
    }

    /// The first key in the order of the rules that refuses is the one that is named; what stands
    /// before it in that order did not refuse.
    fn move_refused(
        &mut self,
        case: Case<'_>,
        steady: u64,
        refusal: &Refusal,
    ) -> Result<(), Violation> {
        let Command::Move { from, to, by, ticket } = case.command else {
            return Err(case.absurd());
        };
        let (named, held) = match refusal {
            Refusal::Held { key, .. } => (*key, true),
            Refusal::OverLimit { key, .. } => (*key, false),
            _ => return Err(case.absurd()),
        };
        if named != *from && named != *to {
            return Err(case.absurd());
        }
        self.narrow(case, *from, |belief| {
            belief.ticket(*ticket).is_none().then_some(())?;
            match (named == *from, held) {
                (true, _) => refused_shift(belief, *from, by.checked_neg(), refusal, steady),
                (false, true) => belief.stands_free(steady).then(|| belief.clone()),
                (false, false) => belief.shifted(by.checked_neg(), steady).map(|_| belief.clone()),
            }
        })?;
        self.narrow(case, *to, |belief| match (named == *to, held) {
            (true, _) => refused_shift(belief, *to, Some(*by), refusal, steady),
            (false, true) => Some(belief.clone()),
            (false, false) => belief.stands_free(steady).then(|| belief.clone()),
        })
    }

    fn ticked(&mut self, case: Case<'_>, steady: u64, ended: &[Ended]) -> Result<(), Violation> {
        let told = ended.iter().map(|end| Action::HoldEnded { key: end.key, hold: end.hold });
        if !told.eq(case.actions.iter().copied()) {
            return Err(case.wrong_actions());
        }
        let of: BTreeMap<Name, u64> = ended.iter().map(|end| (end.key, end.hold)).collect();
        if of.len() != ended.len() || ended.len() > ENDED_BY_TICK {
            return Err(case.absurd());
        }
        for (key, hold) in &of {
            self.narrow(case, *key, |belief| {
                belief.hold.is_some_and(|over| over.may_be(*hold)).then_some(())?;
                belief.ticked(steady)
            })?;
        }
        if ended.len() == ENDED_BY_TICK {
            return Ok(());
        }
        let others: Vec<Name> =
            self.keys.keys().filter(|key| !of.contains_key(key)).copied().collect();
        others.into_iter().try_for_each(|key| {
            self.narrow(case, key, |belief| belief.ticked(steady).is_none().then(|| belief.clone()))
        })
    }

    /// Carries what one key of an unknown move has settled over to the other.
    fn weigh_doubts(&mut self) -> Result<(), Violation> {
        loop {
            let settled = self.doubts.iter().find_map(|(doubt, (from, to))| {
                let (at_from, at_to) = (self.assumed(*from, *doubt), self.assumed(*to, *doubt));
                let both: BTreeSet<bool> = at_from.intersection(&at_to).copied().collect();
                (both.len() < 2).then(|| (*doubt, *from, *to, both.first().copied()))
            });
            let Some((doubt, from, to, happened)) = settled else { return Ok(()) };
            let happened = happened.ok_or(Violation::TornMove { from, to })?;
            for key in [from, to] {
                let beliefs = self.beliefs(key).into_iter();
                let agreeing = beliefs.filter_map(|belief| belief.settled(doubt, happened));
                self.keys.insert(key, distinct(agreeing));
            }
            self.doubts.remove(&doubt);
            self.pending.remove(&doubt);
        }
    }

    fn assumed(&self, key: Name, doubt: u64) -> BTreeSet<bool> {
        self.beliefs(key).iter().filter_map(|belief| belief.assumes(doubt)).collect()
    }
}

/// What a command makes of one of its keys; `None` if it leaves the key as it is.
fn after(belief: &Belief, key: Name, command: &Command, now: Now) -> Option<Belief> {
    let steady = now.steady.0;
    match command {
        Command::Add { by, ticket, .. } => belief.shifted(Some(*by), steady)?.with_ticket(*ticket),
        Command::Move { from, by, ticket, .. } if *from == key => {
            belief.shifted(by.checked_neg(), steady)?.with_ticket(*ticket)
        }
        Command::Move { by, .. } => belief.shifted(Some(*by), steady),
        Command::Hold { span, .. } => belief.held(None, *span, steady),
        Command::Release { hold, .. } => belief.released(*hold),
        Command::Note { body, .. } => Some(belief.noted(crc32c::crc32c(body))),
        Command::Tick => belief.ticked(steady),
        Command::Read { .. } => None,
    }
}

/// The belief, if it refuses this shift of the value in just this way.
fn refused_shift(
    belief: &Belief,
    key: Name,
    by: Option<i64>,
    refusal: &Refusal,
    steady: u64,
) -> Option<Belief> {
    match refusal {
        Refusal::Held { key: of, by } if *of == key => belief.held_by(by, steady),
        Refusal::OverLimit { key: of, value, limit } if *of == key => {
            let over = belief.stands_free(steady) && belief.shifted(by, steady).is_none();
            let as_told = belief.value == *value && *limit == belief::FURTHEST;
            (over && as_told).then(|| belief.clone())
        }
        _ => None,
    }
}

fn distinct(beliefs: impl Iterator<Item = Belief>) -> Vec<Belief> {
    let mut distinct = Vec::new();
    for belief in beliefs {
        if !distinct.contains(&belief) {
            distinct.push(belief);
        }
    }
    distinct
}

fn listed(beliefs: &[Belief]) -> String {
    struct Listed<'a>(&'a [Belief]);
    impl fmt::Display for Listed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for (place, belief) in self.0.iter().enumerate() {
                write!(f, "{}{belief}", if place == 0 { "" } else { " or " })?;
            }
            Ok(())
        }
    }
    Listed(beliefs).to_string()
}

#[cfg(test)]
mod tests;

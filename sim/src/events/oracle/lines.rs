//! What the oracle believes of events that are published: who waits for which topic, and what is
//! dead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use handoff_events::{
    Action, Command, Handed, Id, Letters, Outlet, Publication, PublishView, Publishing,
    Registration, Reply,
};
use handoff_types::{Now, Sight, Wall};

use super::happen::Outcome;
use super::listeners::sees;
use super::{Oracle, Violation, answer_is};

/// A published event's way to its topic.
#[derive(Clone, Debug)]
struct Line {
    topic: String,
    key: Option<String>,
    description: String,
    types: Vec<String>,
    /// None: nobody has seen it yet.
    producer: Option<u128>,
    ended: bool,
    told: u64,
    waiting: VecDeque<Handed>,
}

/// A dead letter.
#[derive(Clone, Debug)]
struct Grave {
    id: Id,
    handed: Handed,
    /// What the topic said; none: too many waited.
    why: Option<String>,
    since: Wall,
    retrying: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    lines: BTreeMap<Id, Line>,
    graves: BTreeMap<u64, Grave>,
    /// What was dead once; it may come out of its turn.
    died: BTreeSet<(Id, u64)>,
}

/// What is told of one event by one command, oldest first.
pub(super) type Happened = Vec<(Id, Vec<Handed>)>;

impl Lines {
    pub(super) fn open(&mut self, id: Id, event: &Registration) {
        let Some(publish) = &event.publish else { return };
        let mut types = event.types.clone();
        types.sort();
        types.dedup();
        let line = Line {
            topic: publish.topic.clone(),
            key: publish.key.clone(),
            description: event.description.clone(),
            types,
            producer: None,
            ended: false,
            told: 0,
            waiting: VecDeque::new(),
        };
        self.lines.insert(id, line);
    }

    /// Events that are gone and of which something is still there.
    pub(super) fn ended(&self) -> u64 {
        self.lines.values().filter(|line| line.ended).count() as u64
    }

    pub(super) fn is_dead(&self, id: Id, sequence: u64) -> bool {
        self.died.contains(&(id, sequence))
    }

    /// How an event is shown. A producer that nobody knows may be any.
    pub(super) fn view(&self, id: Id, found: Option<&PublishView>) -> Option<PublishView> {
        let line = self.lines.get(&id)?;
        Some(PublishView {
            topic: line.topic.as_str().into(),
            key: line.key.as_deref().map(Into::into),
            producer: line.producer.or(found.map(|found| found.producer)).unwrap_or(0),
            waiting: line.waiting.len() as u64,
            dead: self.graves.values().filter(|grave| grave.id == id).count() as u64,
        })
    }

    fn grave_of(&self, id: Id, sequence: u64) -> Option<u64> {
        let found = |grave: &Grave| grave.id == id && grave.handed.sequence == sequence;
        self.graves.iter().find(|(_, grave)| found(grave)).map(|(number, _)| *number)
    }

    /// Whatever has nothing left to do is gone.
    fn sweep(&mut self) {
        let Self { lines, graves, .. } = self;
        lines.retain(|id, line| {
            let dead = graves.values().any(|grave| grave.id == *id);
            !line.ended || !line.waiting.is_empty() || dead
        });
    }

    fn meant(&self, letters: &Letters, sight: &Sight) -> Vec<u64> {
        let wanted = |number: &u64| match letters {
            Letters::From(from) => number >= from,
            Letters::These(numbers) => numbers.contains(number),
        };
        let seen = |grave: &Grave| {
            let line = self.lines.get(&grave.id);
            line.is_some_and(|line| sees(sight, line.types.iter().map(String::as_str)))
        };
        let meant = self.graves.iter().filter(|(number, grave)| wanted(number) && seen(grave));
        meant.map(|(number, _)| *number).collect()
    }

    fn looks_like(&self, id: Id, outlet: &Outlet) -> bool {
        let Some(line) = self.lines.get(&id) else { return false };
        let Outlet { source, ended, next, waiting } = outlet;
        let types: Vec<&str> = source.types.iter().map(|name| &**name).collect();
        line.producer.is_none_or(|producer| producer == source.producer)
            && (line.ended, line.told + 1, &line.waiting) == (*ended, *next, waiting)
            && (*line.topic == *source.topic && *line.description == *source.description)
            && (line.key.as_deref() == source.key.as_deref() && line.types == types)
    }
}

impl Oracle {
    /// Events that are gone have no more to say; what waits is still handed over.
    pub(super) fn end_lines(&mut self, ids: impl IntoIterator<Item = Id>) {
        for id in ids {
            if let Some(line) = self.lines.lines.get_mut(&id) {
                line.ended = true;
            }
        }
        self.lines.sweep();
    }

    /// What was told is handed over, or dead where too many wait. Gives what is on its way now.
    pub(super) fn hand(
        &mut self,
        happened: Happened,
        publishing: Publishing,
        now: Now,
    ) -> Vec<(Id, u64)> {
        let (mut sent, mut dead) = (Vec::new(), Vec::new());
        for (id, told) in happened {
            let Some(line) = self.lines.lines.get_mut(&id) else { continue };
            let idle = line.waiting.is_empty();
            for mut handed in told {
                line.told += 1;
                handed.sequence = line.told;
                if line.waiting.len() < publishing.pending_max {
                    line.waiting.push_back(handed);
                } else {
                    let since = now.wall;
                    dead.push(Grave { id, handed, why: None, since, retrying: false });
                }
            }
            let first = line.waiting.front().filter(|_| idle);
            sent.extend(first.map(|first| (id, first.sequence)));
        }
        self.bury(dead, publishing);
        sent
    }

    /// The oldest make way, those on their way aside, then the oldest of the new.
    fn bury(&mut self, dead: Vec<Grave>, publishing: Publishing) {
        self.lines.died.extend(dead.iter().map(|grave| (grave.id, grave.handed.sequence)));
        let graves = &mut self.lines.graves;
        let first = self.totals.dead;
        self.totals.dead += dead.len() as u64;
        let arrived = !dead.is_empty();
        graves.extend((first..).zip(dead));
        while arrived && graves.len() > publishing.letters_max {
            let oldest = graves.iter().find(|(_, grave)| !grave.retrying);
            let Some(oldest) = oldest.map(|(number, _)| *number) else { break };
            graves.remove(&oldest);
            self.totals.dropped += 1;
        }
        self.lines.sweep();
    }

    /// Judges what is done about topics.
    pub(super) fn topics(
        &mut self,
        command: &Command,
        now: Now,
        outcome: &Outcome<'_>,
    ) -> Result<(), Violation> {
        self.listeners.check_told(outcome.told, &[])?;
        let (reply, sent) = match command {
            Command::HandOver { from, limit } => self.hand_over(*from, *limit),
            Command::Published { id, sequence } => self.answer(*id, *sequence, None, now),
            Command::PublishRefused { id, sequence, why, publishing } => {
                self.answer(*id, *sequence, Some((why, *publishing)), now)
            }
            Command::RetryLetters { letters, sight, limit } => {
                let mut numbers = self.lines.meant(letters, sight);
                let graves = &mut self.lines.graves;
                numbers.retain(|number| graves.get(number).is_some_and(|grave| !grave.retrying));
                let more = numbers.len() > *limit;
                numbers.truncate(*limit);
                let mut sent = Vec::new();
                for number in &numbers {
                    let Some(grave) = graves.get_mut(number) else { continue };
                    grave.retrying = true;
                    sent.push((grave.id, grave.handed.sequence));
                }
                (Reply::Letters { numbers, more }, sent)
            }
            Command::DeleteLetters { letters, sight, limit } => {
                let mut numbers = self.lines.meant(letters, sight);
                let more = numbers.len() > *limit;
                numbers.truncate(*limit);
                for number in &numbers {
                    self.lines.graves.remove(number);
                }
                self.lines.sweep();
                (Reply::Letters { numbers, more }, Vec::new())
            }
            _ => return Ok(()),
        };
        answer_is(command, outcome.reply, &reply)?;
        self.check_sent(outcome.actions, &sent)?;
        self.looks(outcome.look, now)
    }

    fn hand_over(&self, from: Id, limit: usize) -> (Reply, Vec<(Id, u64)>) {
        let Lines { lines, graves, .. } = &self.lines;
        let busy = lines.range(from..).filter_map(|(id, line)| {
            let first = line.waiting.front()?;
            Some((*id, first.sequence))
        });
        let mut sent: Vec<(Id, u64)> = busy.clone().take(limit).collect();
        let next = busy.map(|(id, _)| id).nth(limit);
        if next.is_none() {
            let retried = graves.values().filter(|grave| grave.retrying);
            sent.extend(retried.map(|grave| (grave.id, grave.handed.sequence)));
        }
        (Reply::HandedOver { next }, sent)
    }

    fn answer(
        &mut self,
        id: Id,
        sequence: u64,
        refused: Option<(&String, Publishing)>,
        now: Now,
    ) -> (Reply, Vec<(Id, u64)>) {
        let waits = |line: &&mut Line| line.waiting.iter().any(|one| one.sequence == sequence);
        let grave = self.lines.grave_of(id, sequence);
        let line = self.lines.lines.get_mut(&id).filter(waits);
        if let Some(line) = line {
            let was_first = line.waiting.front().is_some_and(|first| first.sequence == sequence);
            let place = line.waiting.iter().position(|one| one.sequence == sequence);
            let handed = place.and_then(|place| line.waiting.remove(place));
            let next = line.waiting.front().filter(|_| was_first);
            let sent = next.map(|next| (id, next.sequence)).into_iter().collect();
            match (refused, handed) {
                (Some((why, publishing)), Some(handed)) => {
                    let (why, since) = (Some(why.clone()), now.wall);
                    self.bury(vec![Grave { id, handed, why, since, retrying: false }], publishing);
                }
                _ => {
                    self.totals.published += 1;
                    self.lines.sweep();
                }
            }
            return (Reply::Answered { known: true }, sent);
        }
        let known = match (grave, refused) {
            (Some(number), None) => {
                self.lines.graves.remove(&number);
                self.totals.published += 1;
                true
            }
            (Some(number), Some((why, _))) => {
                let grave = self.lines.graves.get_mut(&number).filter(|grave| grave.retrying);
                grave.is_some_and(|grave| {
                    grave.retrying = false;
                    grave.why = Some(why.clone());
                    true
                })
            }
            (None, _) => false,
        };
        self.lines.sweep();
        (Reply::Answered { known }, Vec::new())
    }

    /// What is on its way now is this, and it says what happened.
    pub(super) fn check_sent(
        &mut self,
        actions: &[Action],
        expected: &[(Id, u64)],
    ) -> Result<(), Violation> {
        let publications: Vec<&Publication> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Publish(publication) => Some(publication),
                _ => None,
            })
            .collect();
        let found: Vec<(Id, u64)> =
            publications.iter().map(|one| (one.id, one.handed.sequence)).collect();
        if found != expected {
            let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
            return Err(Violation::Published { found, expected });
        }
        publications.into_iter().try_for_each(|one| self.check_publication(one))
    }

    fn check_publication(&mut self, one: &Publication) -> Result<(), Violation> {
        let Publication { id, source, handed } = one;
        let producer = source.producer;
        let others = self.lines.lines.iter().filter(|(other, _)| *other != id);
        let taken = others.into_iter().any(|(_, line)| line.producer == Some(producer));
        let grave = self.lines.grave_of(*id, handed.sequence);
        let grave = grave.and_then(|number| self.lines.graves.get(&number));
        let dead = grave.map(|grave| grave.handed);
        let Some(line) = self.lines.lines.get_mut(id) else {
            let (found, expected) = (format!("{one:?}"), "nothing".to_owned());
            return Err(Violation::Published { found, expected });
        };
        line.producer.get_or_insert(producer);
        let same = line.producer == Some(producer) && !taken;
        let waiting = line.waiting.iter().find(|waiting| waiting.sequence == handed.sequence);
        let expected = waiting.copied().or(dead);
        let words = *line.topic == *source.topic && *line.description == *source.description;
        if same && words && expected == Some(*handed) {
            return Ok(());
        }
        let (found, expected) = (format!("{one:?}"), format!("{expected:?} of {line:?}"));
        Err(Violation::Published { found, expected })
    }

    /// Judges what is seen of outlets and dead letters.
    pub(super) fn check_lines(
        &self,
        outlets: &[(Id, Outlet)],
        letters: &[handoff_events::LetterView],
    ) -> Result<(), Violation> {
        let Lines { lines, graves, .. } = &self.lines;
        let alike = outlets.iter().map(|(id, _)| id).eq(lines.keys())
            && outlets.iter().all(|(id, outlet)| self.lines.looks_like(*id, outlet));
        if !alike {
            let (found, expected) = (format!("{outlets:?}"), format!("{lines:?}"));
            return Err(Violation::Published { found, expected });
        }
        let dead = letters.iter().map(|view| view.number).eq(graves.keys().copied())
            && letters.iter().zip(graves.values()).all(|(view, grave)| {
                let letter = &view.letter;
                (letter.event, letter.handed) == (grave.id, grave.handed)
                    && (letter.since, letter.retrying) == (grave.since, grave.retrying)
                    && match &grave.why {
                        Some(why) => *letter.why == **why,
                        None => letter.why.contains("events.publish_pending_max"),
                    }
            });
        if !dead {
            let (found, expected) = (format!("{letters:?}"), format!("{graves:?}"));
            return Err(Violation::Published { found, expected });
        }
        Ok(())
    }
}

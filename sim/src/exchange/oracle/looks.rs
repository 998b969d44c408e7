//! What is to be seen, and what the shell is told to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use handoff_exchange::{
    Action, Counts, DatabaseNo, DeviceNo, Message, Phase, Place, Process, Seq, Served, Spot,
    Standing, Way,
};

use super::super::asked::{Asked, Look};
use super::{Expect, Letter, Note, Oracle, Violation};

impl Oracle {
    /// Everything that is to be seen is what the answers led to.
    pub(super) fn looks(&self, look: &Look) -> Result<(), Violation> {
        self.looks_at_entities(look)?;
        let expected = self.letters.iter().map(|(seq, letter)| (*seq, plain(&letter.is)));
        let found = look.messages.iter().map(|(seq, one)| (*seq, plain(one)));
        same("message", &found.collect(), &expected.collect())?;
        let found = look.processes.iter().map(|(number, one)| (*number, without_words(one)));
        let known = self.processes.iter().map(|(number, one)| (*number, without_words(one)));
        same("process", &found.collect(), &known.collect())?;
        let mut inboxes: BTreeMap<DeviceNo, Vec<Seq>> = BTreeMap::new();
        let mut counts: BTreeMap<DatabaseNo, Counts> =
            self.databases.values().map(|one| (one.no, Counts::default())).collect();
        for (seq, Letter { is, .. }) in &self.letters {
            if is.way == Way::ToDevice && is.place == Place::Messages {
                inboxes.entry(is.device).or_default().push(*seq);
            }
            let counts = counts.entry(is.database).or_default();
            counts.bytes += u64::from(is.bytes);
            *match (is.place, is.way) {
                (Place::Messages, Way::ToErp) => &mut counts.to_erp,
                (Place::Messages, Way::ToDevice) => &mut counts.to_devices,
                (Place::Prepared, _) => &mut counts.prepared,
                (Place::Log, _) => &mut counts.log,
                (Place::Unknown, _) => &mut counts.unknown,
                (Place::Error, _) => &mut counts.error,
            } += 1;
        }
        same("inbox of", &look.inboxes, &inboxes)?;
        same("count of", &look.counts, &counts)?;
        self.looks_at_processes(look)
    }

    fn looks_at_processes(&self, look: &Look) -> Result<(), Violation> {
        let mut live: BTreeMap<DatabaseNo, u64> = BTreeMap::new();
        let mut unknown: BTreeMap<DatabaseNo, Vec<u64>> = BTreeMap::new();
        let mut unsettled = Vec::new();
        for (number, one) in &self.processes {
            if one.phase.is_live() && live.insert(one.database, *number).is_some() {
                let of = one.database.0;
                return Err(Violation::Look(format!("two processes of database {of} are live")));
            }
            if one.phase == Phase::Unknown {
                unknown.entry(one.database).or_default().push(*number);
            }
            if !one.settled && !one.phase.is_live() {
                unsettled.push(*number);
            }
        }
        same("live process of", &look.live, &live)?;
        same("undecided processes of", &look.unknown, &unknown)?;
        is("unsettled", &look.unsettled, &unsettled)?;
        let live = self.processes.values().filter(|one| one.phase.is_live());
        is("deadline", &look.deadline, &live.map(|one| one.deadline).min())
    }

    fn looks_at_entities(&self, look: &Look) -> Result<(), Violation> {
        let sorted = |mut numbers: Vec<u32>| {
            numbers.sort_unstable();
            numbers
        };
        let companies = look.companies.iter().map(|one| (one.id.clone(), one.clone()));
        same("company", &companies.collect(), &self.companies)?;
        let subsystems = look.subsystems.iter().map(|one| (one.id.clone(), one.clone()));
        same("subsystem", &subsystems.collect(), &self.subsystems)?;
        let databases = look.databases.iter().map(|one| (one.id.clone(), one.clone()));
        same("database", &databases.collect(), &self.databases)?;
        let devices = look.devices.iter().map(|one| ((one.company, one.id.clone()), one.clone()));
        same("device", &devices.collect(), &self.devices)?;
        let routes = look.routes.iter().map(|one| ((one.company, one.subsystem), one.database));
        same("route", &routes.collect(), &self.routes)?;
        let found = sorted(look.devices.iter().map(|one| one.no.0).collect());
        is("devices", &found, &sorted(self.devices.values().map(|one| one.no.0).collect()))
    }

    /// Files follow messages, people and devices are told of what concerns them, and of nothing
    /// else.
    pub(super) fn acts(
        &self,
        asked: &Asked,
        actions: &[Action],
        expect: &Expect,
        before: &BTreeMap<Seq, (Spot, DatabaseNo)>,
    ) -> Result<(), Violation> {
        let differ = |what: String| Err(Violation::Actions(format!("{asked}: {what}")));
        let mut moves: BTreeMap<Seq, (Spot, Option<Spot>, DatabaseNo)> = BTreeMap::new();
        let (mut logs, mut rings, mut settles) =
            (Vec::<Note>::new(), BTreeSet::new(), BTreeSet::new());
        let mut of: BTreeSet<u64> = BTreeSet::new();
        for action in actions {
            match action {
                Action::Move { database, seq, from, to, gone, process } => {
                    // Of two processes that had it, each is driven.
                    let twice = moves.insert(*seq, (*from, *to, *database)).is_some();
                    if twice && !expect.drives {
                        return differ(format!("{seq:?} is moved twice"));
                    }
                    if gone.is_some() != to.is_none() {
                        return differ(format!("{seq:?} is moved to {to:?} and is {gone:?}"));
                    }
                    of.extend(process);
                }
                Action::Settle { number, .. } => drop(settles.insert(*number)),
                Action::Ring(device) => drop(rings.insert(*device)),
                Action::Log(entry) => {
                    let process = entry.process.map(|id| id.number);
                    logs.push((entry.what, process, entry.message.map(|(seq, _)| seq)));
                }
            }
        }
        let mut wanted: Vec<Note> = expect.logs.clone();
        for note in &logs {
            if let Some(place) = wanted.iter().position(|one| one == note) {
                wanted.swap_remove(place);
            } else if !expect.maybe.contains(note) {
                return differ(format!("{note:?} is said, and it did not happen"));
            }
        }
        if !wanted.is_empty() {
            return differ(format!("{wanted:?} is not said"));
        }
        if expect.drives {
            return self.drives(&moves, &settles);
        }
        let mut expected = BTreeMap::new();
        let mut bells = BTreeSet::new();
        for (seq, (from, database)) in before {
            let now = self.letters.get(seq);
            let to = now.map(|letter| letter.is.spot());
            if to != Some(*from) {
                expected.insert(*seq, (*from, to, *database));
                bells.extend(now.filter(|one| arrives(&one.is)).map(|one| one.is.device));
            }
        }
        same("move of", &moves, &expected)?;
        is("rings", &rings, &bells)?;
        for number in &expect.turned {
            let settled = self.processes.get(number).is_none_or(|one| one.settled);
            let live = self.processes.get(number).is_some_and(|one| one.phase.is_live());
            if !live && (settled == settles.contains(number) || (settled && of.contains(number))) {
                return differ(format!("process {number} is settled: {settled}"));
            }
        }
        if let Some(number) = settles.difference(&expect.turned).next() {
            return differ(format!("process {number} is to be settled for nothing"));
        }
        Ok(())
    }
}

impl Oracle {
    /// Every decision of a process is settled by a word of its own, and driven again by the same.
    pub(super) fn owes(&mut self, actions: &[Action], expect: &Expect) -> Result<(), Violation> {
        for action in actions {
            let Action::Settle { number, round } = action else { continue };
            let before = self.owed.insert(*number, *round);
            let fits = if expect.drives { before == Some(*round) } else { before != Some(*round) };
            if !fits {
                let why = format!("process {number} is settled by {round}, as before: {before:?}");
                return Err(Violation::Actions(why));
            }
        }
        Ok(())
    }

    /// Files are driven to where their messages are, for every process that is not settled.
    fn drives(
        &self,
        moves: &BTreeMap<Seq, (Spot, Option<Spot>, DatabaseNo)>,
        settles: &BTreeSet<u64>,
    ) -> Result<(), Violation> {
        for (seq, (_, to, _)) in moves {
            is("file driven to", to, &self.letters.get(seq).map(|letter| letter.is.spot()))?;
        }
        let unsettled = self.processes.values().filter(|one| !one.settled && !one.phase.is_live());
        is("driven", settles, &unsettled.map(|one| one.id.number).collect())
    }
}

fn arrives(message: &Message) -> bool {
    message.way == Way::ToDevice && message.place == Place::Messages
}

/// What is said of why is for people.
fn plain(message: &Message) -> Message {
    let mut message = message.clone();
    if let Standing::Aside(words) = &mut message.standing {
        *words = "*".into();
    }
    message
}

fn without_words(process: &Process) -> Process {
    let to_erp = process.to_erp.iter().map(|one| Served { error: None, ..one.clone() }).collect();
    Process { words: None, to_erp, ..process.clone() }
}

fn same<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    found: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
) -> Result<(), Violation> {
    for key in found.keys().chain(expected.keys()) {
        let (found, expected) = (found.get(key), expected.get(key));
        if found != expected {
            let words = format!("{what} {key:?} is {found:?} and should be {expected:?}");
            return Err(Violation::Look(words));
        }
    }
    Ok(())
}

fn is<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), Violation> {
    if found == expected {
        return Ok(());
    }
    Err(Violation::Look(format!("{what}: {found:?}, and it should be {expected:?}")))
}

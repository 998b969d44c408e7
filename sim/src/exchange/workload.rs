//! Whoever uses the exchange: devices, ERPs, administrators, and a network that loses, delays and
//! repeats what they say.

mod admin;
mod device;
mod erp;

use std::collections::VecDeque;

use bytes::Bytes;
use handoff_exchange::{
    Ask, Command, DatabaseNo, DeviceNo, EntityId, MessageId, NewMessage, Outcome, Phase, Place,
    Process, ProcessId, Rules, Seq, State, Step, Way,
};
use handoff_types::{Now, Span, Wall};

pub(super) use self::admin::{DATABASES, DEVICES, SUBSYSTEMS};
use self::device::Phone;
use self::erp::Erp;
use super::Violation;
use super::asked::{Asked, What};
use super::databases::Databases;
use crate::dice::Dice;

/// How many commands the network keeps to deliver them again.
const KEPT: usize = 24;

/// How many are asked before somebody asks for something.
const TRIES: usize = 4;

/// From so many messages on nobody sends much more.
const MESSAGES_MAX: u64 = 90;

/// Who asks, and which of its calls it is. An answer to a call that is given up is not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The server itself, an administrator, or a repetition by the network.
    Nobody,
    Device(usize, u64),
    Erp(usize, u64),
}

/// What an ERP does when it does not know how a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Nothing: it knows the protocol's first text only.
    Seed,
    /// It reads its marker, and reports.
    Marker,
}

/// Makes commands up.
#[derive(Debug)]
pub(super) struct Workload {
    dice: Dice,
    pub(super) rules: Rules,
    phones: Vec<Phone>,
    erps: Vec<Erp>,
    styles: Vec<Style>,
    /// What the network delivers again, or for the first time.
    late: VecDeque<Ask>,
    /// Messages that are made so far, of all senders.
    made: u64,
}

impl Workload {
    pub(super) fn new(mut dice: Dice) -> Self {
        let styles: Vec<Style> = DATABASES
            .iter()
            .map(|_| if dice.one_in(3) { Style::Seed } else { Style::Marker })
            .collect();
        let mut erps = Vec::new();
        for (database, style) in styles.iter().enumerate() {
            let instances = if dice.one_in(2) { 2 } else { 1 };
            let quarrels = if dice.one_in(3) { 2 } else { 5 };
            let keyed = |dice: &mut Dice| dice.one_in(2);
            erps.extend(
                (0..instances).map(|_| Erp::new(database, *style, keyed(&mut dice), quarrels)),
            );
        }
        let phones = (0..DEVICES.len()).map(Phone::new).collect();
        let rules = draw_rules(&mut dice);
        Self { dice, rules, phones, erps, styles, late: VecDeque::new(), made: 0 }
    }

    /// What an ERP of this database does in doubt.
    pub(super) fn style(&self, id: &EntityId) -> Style {
        let found = DATABASES.iter().zip(&self.styles).find(|((name, _), _)| *name == id.as_str());
        found.map_or(Style::Marker, |(_, style)| *style)
    }

    /// A server begins, and its operator may have thought anew.
    pub(super) fn begins(&mut self) {
        if self.dice.one_in(2) {
            self.rules = draw_rules(&mut self.dice);
        }
    }

    pub(super) fn command(&self, ask: Ask) -> Command {
        Command { ask, rules: self.rules }
    }

    /// Something that somebody asks for.
    pub(super) fn next(
        &mut self,
        state: &State,
        databases: &mut Databases,
        now: Now,
    ) -> Result<(Option<Ask>, Who), Violation> {
        if let Some((admin, patience)) = self.missing(state, now)
            && self.dice.one_in(patience)
        {
            return Ok((Some(admin), Who::Nobody));
        }
        // Most of them wait for something most of the time.
        for _ in 0..TRIES {
            let asked = match self.dice.below(100) {
                0..6 => (self.administer(state, databases, now), Who::Nobody),
                6..12 => (self.late.pop_front(), Who::Nobody),
                12..16 => (self.confused(state, databases), Who::Nobody),
                16..34 => self.device_acts(state, now),
                _ => self.erp_acts(state, databases, now)?,
            };
            if asked.0.is_some() {
                return Ok(asked);
            }
        }
        Ok((None, Who::Nobody))
    }

    /// Messages that make a round of many sectors.
    pub(super) fn large(&mut self, state: &State, now: Now) -> Option<Ask> {
        let n = usize::try_from(self.dice.below(self.phones.len() as u64)).unwrap_or(0);
        let device = self.phones.get(n).and_then(|phone| phone.number(state))?;
        if state.message_count() > MESSAGES_MAX {
            return None;
        }
        let message = self.message(now, 1_500, None);
        Some(Ask::Post { device, messages: vec![message] })
    }

    /// Somebody hears an answer, unless the network loses it.
    pub(super) fn heard(
        &mut self,
        asked: &Asked,
        databases: &mut Databases,
    ) -> Result<(), Violation> {
        if self.dice.one_in(12) {
            self.unheard(asked.who, databases);
            return Ok(());
        }
        match asked.who {
            Who::Nobody => {}
            Who::Device(n, call) => {
                if let Some(phone) = self.phones.get_mut(n) {
                    phone.heard(call, asked);
                }
            }
            Who::Erp(n, call) => {
                if let (Some(erp), What::Command { reply, .. }) =
                    (self.erps.get_mut(n), &asked.what)
                {
                    erp.heard(call, reply, &asked.look, databases, &mut self.dice);
                }
            }
        }
        Ok(())
    }

    /// Nobody will answer.
    pub(super) fn lost(&mut self, asked: &Asked, databases: &mut Databases) {
        self.unheard(asked.who, databases);
    }

    /// It was not even let in.
    pub(super) fn not_admitted(&mut self, who: Who, databases: &mut Databases) {
        self.unheard(who, databases);
    }

    fn unheard(&mut self, who: Who, databases: &mut Databases) {
        match who {
            Who::Nobody => {}
            Who::Device(n, call) => {
                if let Some(phone) = self.phones.get_mut(n) {
                    phone.unheard(call);
                }
            }
            Who::Erp(n, call) => {
                if let Some(erp) = self.erps.get_mut(n) {
                    erp.unheard(call, databases, &mut self.dice);
                }
            }
        }
    }

    /// Sends over the network: it may be lost, come again, or come late.
    fn over_the_network(
        &mut self,
        ask: Ask,
        who: Who,
        databases: &mut Databases,
    ) -> (Option<Ask>, Who) {
        let lost = self.dice.one_in(12);
        if self.dice.one_in(if lost { 2 } else { 5 }) {
            let place = usize::try_from(self.dice.below(self.late.len() as u64 + 1)).unwrap_or(0);
            self.late.insert(place, ask.clone());
            while self.late.len() > KEPT {
                self.late.pop_front();
            }
        }
        if lost {
            self.unheard(who, databases);
            return (None, Who::Nobody);
        }
        (Some(ask), who)
    }

    fn erp_acts(
        &mut self,
        state: &State,
        databases: &mut Databases,
        now: Now,
    ) -> Result<(Option<Ask>, Who), Violation> {
        let n = usize::try_from(self.dice.below(self.erps.len() as u64)).unwrap_or(0);
        let Some(erp) = self.erps.get_mut(n) else { return Ok((None, Who::Nobody)) };
        let mut chance = erp::Chance { dice: &mut self.dice, made: &mut self.made, now };
        let Some((ask, call)) = erp.turn(state, databases, &mut chance)? else {
            return Ok((None, Who::Nobody));
        };
        Ok(self.over_the_network(ask, Who::Erp(n, call), databases))
    }

    fn device_acts(&mut self, state: &State, now: Now) -> (Option<Ask>, Who) {
        let n = usize::try_from(self.dice.below(self.phones.len() as u64)).unwrap_or(0);
        let crowded = state.message_count() > MESSAGES_MAX;
        let mut made = self.made;
        let Some(phone) = self.phones.get_mut(n) else { return (None, Who::Nobody) };
        let asked = phone.turn(state, now, crowded, &mut self.dice, &mut made);
        self.made = made;
        let Some((ask, call)) = asked else { return (None, Who::Nobody) };
        let mut none = Databases::default();
        self.over_the_network(ask, Who::Device(n, call), &mut none)
    }

    /// The device that looks for its messages next.
    pub(super) fn fetches(&mut self, state: &State) -> Option<(DeviceNo, Who)> {
        let n = usize::try_from(self.dice.below(self.phones.len() as u64)).unwrap_or(0);
        let phone = self.phones.get_mut(n)?;
        let device = phone.number(state)?;
        let call = phone.fetches()?;
        Some((device, Who::Device(n, call)))
    }

    /// Somebody who is not right: of what is not decided nothing untrue is said, for then nobody
    /// could tell right from wrong.
    fn confused(&mut self, state: &State, databases: &mut Databases) -> Option<Ask> {
        let all: Vec<&Process> = state.processes_below(u64::MAX).take(12).collect();
        let process = self.dice.pick(&all).copied()?;
        let mut id = process.id;
        let mut database = process.database;
        match self.dice.below(12) {
            0 => id.nonce ^= 1,
            1 => id.number += 1_000,
            2 => {
                let all: Vec<DatabaseNo> = state.databases().map(|one| one.no).collect();
                database = self.dice.pick(&all).copied().unwrap_or(database);
            }
            _ => {}
        }
        let open = matches!(process.phase, Phase::Ready | Phase::Unknown);
        let mine = id == process.id && database == process.database;
        let truth = databases.fate(process.database, process.id);
        let committed = self.dice.one_in(2);
        // What nobody works at any more may be told by anybody, as it is.
        if mine && process.phase == Phase::Ready && self.dice.one_in(4) {
            let (verdicts, messages, digest) = (Vec::new(), Vec::new(), self.dice.roll());
            let step = Step::Prepare { verdicts, messages, digest };
            return Some(Ask::Process { database, id, step });
        }
        let committed = match (open && mine, truth) {
            (true, Some(super::databases::Fate::Committed)) => true,
            (true, Some(super::databases::Fate::RolledBack)) => false,
            (true, _) => return None,
            (false, _) => committed,
        };
        // A process that has begun may be given up by anybody: its ERP is told so.
        let step = match self.dice.below(8) {
            0 => Step::Heartbeat,
            1 => Step::Interrupt("confused".into()),
            2 => Step::Narrow(self.some_ids(state, process)),
            3 => {
                let outcomes = vec![Outcome { id, committed }];
                return Some(Ask::Resolve { database, outcomes });
            }
            _ if committed => Step::Commit,
            _ => Step::Rollback("confused".into()),
        };
        Some(Ask::Process { database, id, step })
    }

    fn some_ids(&mut self, state: &State, process: &Process) -> Vec<MessageId> {
        let ids = process.to_erp.iter().filter_map(|one| Some(state.message(one.seq)?.id));
        let mut ids: Vec<MessageId> = ids.collect();
        match self.dice.below(4) {
            0 => ids.push(message_id("nobody-knows-it")),
            1 => ids.extend(ids.first().copied()),
            _ => {}
        }
        ids
    }

    fn message(&mut self, now: Now, bytes: usize, reply_to: Option<MessageId>) -> NewMessage {
        self.made += 1;
        new_message(&format!("m-{}", self.made), now, bytes, reply_to, &mut self.dice)
    }
}

/// A message with something in it.
pub(super) fn new_message(
    id: &str,
    now: Now,
    bytes: usize,
    reply_to: Option<MessageId>,
    dice: &mut Dice,
) -> NewMessage {
    let created = Wall(now.wall.0.saturating_add(dice.around(600) * 1_000_000));
    let payload = format!(
        "{{\"of\":\"{id}\",\"draw\":{},\"is\":\"{}\"}}",
        dice.below(1_000),
        "x".repeat(bytes)
    );
    let kind = match dice.below(3) {
        0 => "DOCS".parse().ok(),
        1 => "ONE_REF".parse().ok(),
        _ => None,
    };
    let mut message = NewMessage {
        id: message_id(id),
        kind,
        created,
        created_text: format!("at {}", created.0).into(),
        reply_to,
        payload: Bytes::from(payload),
        digest: 0,
    };
    message.digest = digest(&message);
    message
}

/// Of all that a sender gave.
pub(super) fn digest(message: &NewMessage) -> u64 {
    let text = format!("{:?}", NewMessage { digest: 0, ..message.clone() });
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

pub(super) fn entity(name: &str) -> EntityId {
    match name.parse() {
        Ok(name) => name,
        Err(_) => unreachable!("these are names"),
    }
}

pub(super) fn message_id(name: &str) -> MessageId {
    match name.parse() {
        Ok(name) => name,
        Err(_) => unreachable!("these are names"),
    }
}

/// What an operator may think of.
fn draw_rules(dice: &mut Dice) -> Rules {
    let seconds = |dice: &mut Dice| Span::from_secs(3 + dice.below(60));
    let one_of = |dice: &mut Dice, all: &[u64]| dice.pick(all).copied().unwrap_or(1);
    let small = |number: u64| u16::try_from(number).unwrap_or(0);
    Rules {
        files_max: u32::from(small(one_of(dice, &[1, 2, 3, 5, 10]))),
        bytes_max: one_of(dice, &[150, 400, 1_000, 20 << 20]),
        started_timeout: seconds(dice),
        ready_timeout: seconds(dice),
        grace: seconds(dice),
        attempts_max: small(one_of(dice, &[0, 1, 2, 3, 5, 20])),
        by_created: dice.one_in(4),
        in_order: dice.one_in(3),
        notify_sender: dice.one_in(2),
        retention: Span::from_secs(one_of(dice, &[60, 3_600, 86_400, 90 * 86_400])),
        messages_max: one_of(dice, &[40, 4_000_000, 4_000_000]),
        queue_max: one_of(dice, &[4, 12, 2_000_000, 2_000_000]),
        processes_kept_max: one_of(dice, &[2, 10, 100_000]),
    }
}

/// What nobody said the end of, of a database.
fn in_doubt(state: &State, database: DatabaseNo) -> Vec<ProcessId> {
    let ready = state.live(database).filter(|live| live.phase == Phase::Ready);
    ready.into_iter().chain(state.unknown(database)).map(|process| process.id).collect()
}

/// Some messages an administrator may put back into a queue.
fn aside(state: &State, database: DatabaseNo) -> Vec<(Seq, Place, Way)> {
    state
        .messages_from(Seq(0))
        .filter(|(_, one)| one.database == database)
        .map(|(seq, one)| (seq, one.place, one.way))
        .collect()
}

//! The messages that wait for one database, so that the next ones are found without looking at all.
//!
//! ```text
//!  device 7   ready ●──●──●        late ○ until 08:15
//!  device 9   ready ●──●           late
//!             heads ▲  the first of each device, in order
//! ```
//!
//! What was late and is not any more stays among the late ones until it is served: time alone
//! changes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use handoff_types::Steady;

use crate::runs::Runs;
use crate::{DeviceNo, Message, Seq, Standing, SubsystemNo};

/// What orders messages: see [`Message::order`].
type Order = (i64, Seq);

/// After so many silences a message is served alone, so that the one that ends ERPs is found.
pub(crate) const SUSPECT_FROM: u16 = 3;

/// The messages that wait for one database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    devices: BTreeMap<DeviceNo, Line>,
    heads: BTreeSet<(Order, DeviceNo)>,
    /// By when they are served again.
    late: BTreeSet<(Steady, Seq)>,
}

/// What waits of one device.
#[derive(Clone, Debug, Default)]
struct Line {
    ready: Runs<Order>,
    late: BTreeMap<Order, Steady>,
    /// How many of both were sent in which subsystem. A device may be given another one.
    of: BTreeMap<SubsystemNo, u32>,
}

/// How many of those that are not late any more are looked at for one process.
const DUE_MAX: usize = 1024;

/// How messages are chosen.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    /// Of these devices only.
    pub(crate) devices: Option<&'a BTreeSet<DeviceNo>>,
    /// Sent in these subsystems only.
    pub(crate) subsystems: Option<&'a BTreeSet<SubsystemNo>>,
    pub(crate) files_max: usize,
    pub(crate) bytes_max: u64,
    /// Nothing of a device is taken before what it sent earlier.
    pub(crate) in_order: bool,
    pub(crate) now: Steady,
}

impl Queue {
    pub(crate) fn insert(&mut self, seq: Seq, message: &Message) {
        let at = (message.order(), seq);
        match message.standing {
            Standing::Free => self.change(message, 1, |line| line.ready.insert(at)),
            Standing::Late(until) => {
                self.late.insert((until, seq));
                self.change(message, 1, |line| line.late.insert(at, until).is_none());
            }
            Standing::Served(_) | Standing::Aside(_) => {}
        }
    }

    pub(crate) fn remove(&mut self, seq: Seq, message: &Message) {
        let at = (message.order(), seq);
        match message.standing {
            Standing::Free => self.change(message, -1, |line| line.ready.remove(at)),
            Standing::Late(until) => {
                self.late.remove(&(until, seq));
                self.change(message, -1, |line| line.late.remove(&at).is_some());
            }
            Standing::Served(_) | Standing::Aside(_) => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Takes the next messages, in order. At least one, if there is one.
    pub(crate) fn choose<'a>(
        &self,
        choice: &Choice<'_>,
        message: impl Fn(Seq) -> Option<&'a Message>,
    ) -> Vec<Seq> {
        let mut chosen = Chosen::default();
        let mut heads = self.heads.iter().peekable();
        // Those that are not late any more, and the next of those devices whose first was looked at.
        let mut behind: BinaryHeap<Reverse<(Order, DeviceNo)>> = BinaryHeap::new();
        let due = self.late.iter().take_while(|(until, _)| *until <= choice.now);
        let due = due.filter_map(|(_, seq)| Some((*seq, message(*seq)?)));
        let due = due.filter(|(_, late)| choice.wants(late)).take(DUE_MAX);
        behind.extend(due.map(|(seq, late)| Reverse(((late.order(), seq), late.device))));
        // Those of whom nothing more is taken, because something they sent earlier is not.
        let mut waiting: BTreeSet<DeviceNo> = BTreeSet::new();
        while chosen.seqs.len() < choice.files_max.max(1) {
            let head = heads.peek().map(|head| **head);
            let next = match (head, behind.peek().map(|Reverse(next)| *next)) {
                (Some(head), Some(next)) if next < head => behind.pop().map(|Reverse(next)| next),
                (Some(_), _) => heads.next().copied(),
                (None, _) => behind.pop().map(|Reverse(next)| next),
            };
            let Some((at, device)) = next else { break };
            let Some(line) = self.devices.get(&device) else { continue };
            if !choice.wants_of(device, line) || waiting.contains(&device) {
                continue;
            }
            if choice.in_order && line.late.range(..at).any(|(_, until)| *until > choice.now) {
                waiting.insert(device);
                continue;
            }
            let Some(found) = message(at.1) else { continue };
            let taken = match choice.wants(found) {
                true => chosen.take(at.1, found, choice.bytes_max),
                false => Taken::Unwanted,
            };
            match taken {
                Taken::Yes | Taken::Unwanted => {}
                Taken::Last => break,
                Taken::Later if choice.in_order => {
                    waiting.insert(device);
                    continue;
                }
                Taken::Later => {}
            }
            if let Some(next) = line.ready.after(at).filter(|_| found.standing.is_free()) {
                behind.push(Reverse((next, device)));
            }
        }
        chosen.seqs
    }

    fn change(&mut self, message: &Message, by: i32, with: impl FnOnce(&mut Line) -> bool) {
        let device = message.device;
        let line = self.devices.entry(device).or_default();
        let before = line.ready.first();
        if with(line) {
            let of = line.of.entry(message.subsystem).or_default();
            *of = of.saturating_add_signed(by);
            if *of == 0 {
                line.of.remove(&message.subsystem);
            }
        }
        let after = line.ready.first();
        if line.ready.is_empty() && line.late.is_empty() {
            self.devices.remove(&device);
        }
        if before != after {
            before.map(|head| self.heads.remove(&(head, device)));
            after.map(|head| self.heads.insert((head, device)));
        }
    }
}

impl Choice<'_> {
    fn wants(&self, message: &Message) -> bool {
        self.devices.is_none_or(|devices| devices.contains(&message.device))
            && self.subsystems.is_none_or(|ones| ones.contains(&message.subsystem))
    }

    /// Whether anything of a device may be wanted.
    fn wants_of(&self, device: DeviceNo, line: &Line) -> bool {
        self.devices.is_none_or(|devices| devices.contains(&device))
            && self.subsystems.is_none_or(|ones| line.of.keys().any(|of| ones.contains(of)))
    }
}

#[derive(Debug, Default)]
struct Chosen {
    seqs: Vec<Seq>,
    ids: BTreeSet<crate::MessageId>,
    bytes: u64,
}

enum Taken {
    Yes,
    /// And nothing after it.
    Last,
    /// In a process of its own.
    Later,
    /// Not in this one.
    Unwanted,
}

impl Chosen {
    fn take(&mut self, seq: Seq, message: &Message, bytes_max: u64) -> Taken {
        let bytes = self.bytes.saturating_add(message.bytes.into());
        let suspect = message.silences >= SUSPECT_FROM;
        // An ERP names messages by their ids, which are unique for each device only.
        if !self.seqs.is_empty() && (suspect || self.ids.contains(&message.id)) {
            return Taken::Later;
        }
        if !self.seqs.is_empty() && bytes > bytes_max {
            return Taken::Last;
        }
        self.seqs.push(seq);
        self.ids.insert(message.id);
        self.bytes = bytes;
        if suspect { Taken::Last } else { Taken::Yes }
    }
}

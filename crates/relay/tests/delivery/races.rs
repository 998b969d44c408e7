//! Confirmations, rejects, time, and the write of a refill file, in ten thousand orders.
//!
//! The worst of them is old: a segment is rejected, and while its write is under way the one behind it is
//! confirmed. Both must be settled, each once, and nothing may be in neither place.

use std::collections::{BTreeMap, BTreeSet};

use handoff_relay::codec::Workbench;
use handoff_relay::refill::{Frame, Layout, Ledger};
use handoff_relay::{
    AckStatus, Batch, BlockId, DeliveryManager, DeliveryRules, Mode, Outcome, Sample, SegmentKey,
    Shards, Spooling, Ticket,
};
use handoff_types::entropy::mix;
use handoff_types::{Now, Span, Steady, Wall};

use crate::world::rules;

const ORDERS: u64 = 10_000;
const DESTINATIONS: usize = 2;
const SEGMENTS: u32 = 4;
const BLOCK: BlockId = BlockId([3; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Sent,
    Passed,
    Acked(usize, u32),
    Rejected(usize, u32),
    Doubted(usize, u32),
    WriteBegan,
    WriteEnded,
    WriteFailed,
}

struct Race<'a> {
    manager: DeliveryManager,
    bench: &'a mut Workbench,
    now: Now,
    /// One behind the other; the last is written to.
    files: Vec<Ledger>,
    writing: Option<Spooling>,
    tickets: BTreeMap<Ticket, (SegmentKey, Mode)>,
    ended: BTreeSet<Ticket>,
    events: Vec<Event>,
}

fn key(segment: u32) -> SegmentKey {
    SegmentKey { shard: 0, segment }
}

fn file(rules: &DeliveryRules) -> Ledger {
    let acks = AckStatus::new(rules.destinations.iter().cloned(), rules.shards);
    Ledger::new(Layout::CURRENT, BLOCK, acks)
}

impl<'a> Race<'a> {
    fn new(rules: &DeliveryRules, parted: u64, bench: &'a mut Workbench) -> Self {
        let now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1_000_000) };
        Self {
            manager: DeliveryManager::without(parted, rules.clone(), BLOCK, now),
            bench,
            now,
            files: vec![file(rules)],
            writing: None,
            tickets: BTreeMap::new(),
            ended: BTreeSet::new(),
            events: Vec::new(),
        }
    }

    fn has(&self, to: usize, segment: u32) -> bool {
        self.manager.acks().last(0, to) >= Some(segment)
    }

    fn is_filed(&self, key: SegmentKey) -> bool {
        self.files.iter().any(|file| file.segment(key).is_some() && file.restore(key).is_some())
    }

    fn happen(&mut self, event: Event, rules: &DeliveryRules) {
        self.events.push(event);
        let now = self.now.steady;
        match event {
            Event::Sent => {
                let mut batch = Batch::default();
                let number = u32::try_from(self.tickets.len()).unwrap();
                let sample = Sample::new(number.into(), number.into());
                batch.push([(&b"n"[..], &b"s"[..])], &[sample]).unwrap();
                let mode = if number % 2 == 0 { Mode::Durable } else { Mode::Delivered };
                let (ticket, outcome) = self.manager.send(&batch, mode, now, self.bench).unwrap();
                assert_eq!(outcome, None);
                self.tickets.insert(ticket, (key(number), mode));
            }
            Event::Passed => {
                self.now.steady = now + Span::from_secs(6);
                self.manager.tick(self.now.steady, self.bench);
            }
            Event::Acked(to, segment) => self.manager.ack(key(segment), to, now, self.bench),
            Event::Rejected(to, segment) => self.manager.reject(key(segment), to, now),
            Event::Doubted(to, segment) => self.manager.doubt(&[key(segment)], to, now),
            Event::WriteBegan => self.writing = self.manager.spooling(now, self.bench),
            Event::WriteEnded => {
                let Some(spooling) = self.writing.take() else { return };
                let file = self.files.last_mut().unwrap();
                for frame in &spooling.frames {
                    if let Frame::Segment { key, .. } = frame {
                        assert!(file.admits(*key), "{key} leads nowhere: {:?}", self.events);
                    }
                    file.evolve(frame, 0);
                }
                self.manager.spooled(spooling, now, self.bench);
            }
            Event::WriteFailed => {
                if self.writing.take().is_some() {
                    self.manager.begin_file();
                    self.files.push(file(rules));
                }
            }
        }
        self.judge();
    }

    /// Whoever was promised something is told once, and not before it is true.
    fn judge(&mut self) {
        for (ticket, outcome) in self.manager.take_ended() {
            assert!(self.ended.insert(ticket), "ended twice: {:?}", self.events);
            let (key, mode) = self.tickets[&ticket];
            let delivered = (0..DESTINATIONS).all(|to| self.has(to, key.segment));
            let held = delivered || self.is_filed(key);
            let kept = match mode {
                Mode::Delivered => delivered,
                _ => held,
            };
            assert!(held, "{key} is nowhere: {:?}", self.events);
            let expected = if kept { Outcome::Kept } else { Outcome::Spooled };
            assert_eq!(outcome, expected, "{key} {mode:?}: {:?}", self.events);
        }
    }
}

#[test]
fn in_any_order_of_confirmations_rejects_and_writes_everything_is_settled_once_and_is_somewhere() {
    let rules = DeliveryRules {
        shards: Shards::ONE,
        segment_samples: 1,
        promise_max: Span::from_secs(3_600),
        ..rules(DESTINATIONS)
    };
    let mut bench = Workbench::new().unwrap();
    let (mut orders, mut filed, mut straight) = (BTreeSet::new(), 0, 0);
    for seed in 0..ORDERS {
        let mut state = seed;
        let mut below = |end: u32| {
            state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            u32::try_from(state % u64::from(end)).unwrap()
        };
        let mut race = Race::new(&rules, if seed % 3 == 0 { 0b10 } else { 0 }, &mut bench);
        race.happen(Event::Sent, &rules);
        for _ in 0..20 {
            let sent = u32::try_from(race.tickets.len()).unwrap();
            let (to, segment) = (below(2) as usize, below(sent));
            let event = match below(9) {
                0 | 1 if sent < SEGMENTS => Event::Sent,
                2 => Event::Passed,
                3 | 4 => Event::Acked(to, segment),
                5 if !race.has(to, segment) => Event::Rejected(to, segment),
                6 if !race.has(to, segment) => Event::Doubted(to, segment),
                _ if race.writing.is_none() => Event::WriteBegan,
                7 => Event::WriteFailed,
                _ => Event::WriteEnded,
            };
            race.happen(event, &rules);
        }
        // The end: what is not confirmed goes to disk.
        race.happen(Event::WriteEnded, &rules);
        race.manager.close(race.now.steady, race.bench);
        race.manager.reject_all();
        for _ in 0..2 * SEGMENTS {
            race.happen(Event::WriteBegan, &rules);
            race.happen(Event::WriteEnded, &rules);
            race.happen(Event::Passed, &rules);
        }
        assert!(race.manager.is_drained(), "something stays: {:?}", race.events);
        assert_eq!(race.ended.len(), race.tickets.len(), "nobody waits: {:?}", race.events);
        for (segment, _) in race.tickets.values() {
            let lacks = (0..DESTINATIONS).any(|to| !race.has(to, segment.segment));
            assert!(!lacks || race.is_filed(*segment), "{segment} is lost: {:?}", race.events);
            if lacks { filed += 1 } else { straight += 1 }
        }
        orders.insert(race.events);
    }
    assert!(orders.len() as u64 * 100 > ORDERS * 99, "{} orders are different", orders.len());
    assert!(filed > 1_000 && straight > 1_000, "{filed} filed, {straight} confirmed");
}

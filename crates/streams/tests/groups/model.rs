//! Groups beside a model that keeps one thing per message: what it is, whose, and how often it was
//! handed out. Schedules are drawn; what every answer says and what every message is must be the
//! same.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handoff_streams::Message;
use handoff_streams::groups::{
    CommitOutcome, GroupCommand, GroupReply, LeaseId, Mark, MemberId, MessageStatus, Order,
    VerdictStatus,
};
use handoff_types::Span;
use proptest::prelude::*;

use crate::world::{World, polling, work};

const PARTITIONS: u32 = 3;
const IN_FLIGHT: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Pending,
    Out(MemberId, LeaseId),
    Processed,
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    is: Is,
    attempt: u32,
    key: u8,
}

#[derive(Clone, Debug)]
enum Act {
    Produce(u32, Vec<u8>),
    Join,
    Leave(usize),
    Poll(usize, usize),
    Commit(usize, u32, u64, u64, VerdictStatus, bool),
    Pass(u64),
    Seek(u32, u64),
    Trim(u32, u64),
}

fn act() -> impl Strategy<Value = Act> {
    let status = prop_oneof![
        6 => Just(VerdictStatus::Ok),
        1 => Just(VerdictStatus::Failed),
        2 => Just(VerdictStatus::Retry),
        1 => Just(VerdictStatus::Extend),
    ];
    prop_oneof![
        4 => (0..PARTITIONS, prop::collection::vec(0u8..4, 1..6)).prop_map(|(p, k)| Act::Produce(p, k)),
        2 => Just(Act::Join),
        1 => (0usize..4).prop_map(Act::Leave),
        8 => (0usize..4, 1usize..6).prop_map(|(who, max)| Act::Poll(who, max)),
        10 => (0usize..4, 0..PARTITIONS, 0u64..12, 0u64..4, status, any::<bool>())
            .prop_map(|(who, p, from, more, status, named)| {
                Act::Commit(who, p, from, more, status, named)
            }),
        3 => (1u64..40).prop_map(Act::Pass),
        1 => (0..PARTITIONS, 0u64..12).prop_map(|(p, to)| Act::Seek(p, to)),
        1 => (0..PARTITIONS, 0u64..6).prop_map(|(p, to)| Act::Trim(p, to)),
    ]
}

struct Model {
    world: World,
    order: Order,
    members: Vec<MemberId>,
    /// Of each partition.
    messages: BTreeMap<(u32, u64), Known>,
    floors: BTreeMap<u32, u64>,
}

impl Model {
    fn new(order: Order) -> Self {
        let mut world = World::like(PARTITIONS, |settings| {
            settings.order = order;
            settings.max_attempts = 3;
            settings.in_flight_max = u32::try_from(IN_FLIGHT).unwrap();
        });
        world.careful = true;
        Self {
            world,
            order,
            members: Vec::new(),
            messages: BTreeMap::new(),
            floors: BTreeMap::new(),
        }
    }

    fn who(&self, n: usize) -> Option<MemberId> {
        self.members.get(n % self.members.len().max(1)).copied()
    }

    fn run(&mut self, act: &Act) {
        match act {
            Act::Produce(partition, keys) => self.produce(*partition, keys),
            Act::Join => {
                if self.members.len() < 4 {
                    let member = self.world.join();
                    self.members.push(member);
                }
            }
            Act::Leave(n) => {
                if let Some(member) = self.who(*n) {
                    self.world.leave(member);
                    self.members.retain(|one| *one != member);
                    self.give_back(|is| matches!(is, Is::Out(of, _) if of == member));
                }
            }
            Act::Poll(n, max) => {
                if let Some(member) = self.who(*n) {
                    self.poll(member, *max);
                }
            }
            Act::Commit(n, partition, from, more, status, named) => {
                if let Some(member) = self.who(*n) {
                    self.commit(member, *partition, *from, from + more, *status, *named);
                }
            }
            Act::Pass(secs) => self.pass(*secs),
            Act::Seek(partition, to) => {
                let at = self.world.at(*partition);
                let end = self.world.state.partition(at).unwrap().end;
                let to = (*to).min(end).max(self.world.state.partition(at).unwrap().start);
                let before = self.world.position(*partition);
                let stays = before.start() == to && before.next() == to;
                self.world.seek(vec![(at, to)], false);
                if !stays {
                    for ((of, offset), known) in &mut self.messages {
                        if of == partition {
                            match *offset < to {
                                true if known.is == Is::Dead => {}
                                true => known.is = Is::Processed,
                                false => *known = Known { is: Is::Pending, attempt: 0, ..*known },
                            }
                        }
                    }
                    self.floors.insert(*partition, to);
                }
            }
            Act::Trim(partition, below) => {
                let at = self.world.at(*partition);
                let command =
                    handoff_streams::Command::Trim { partition: at, below: *below, bytes: 0 };
                self.world.apply(&command);
            }
        }
        self.look();
    }

    fn produce(&mut self, partition: u32, keys: &[u8]) {
        let end = self.world.state.partition(self.world.at(partition)).unwrap().end;
        let message = |key: &u8| Message {
            key: (*key > 0).then(|| Bytes::from(vec![*key])),
            payload: Bytes::from_static(b"x"),
            partition: Some(partition),
            ..Message::default()
        };
        self.world.produce(keys.iter().map(message).collect());
        for (n, key) in keys.iter().enumerate() {
            let known = Known { is: Is::Pending, attempt: 0, key: *key };
            self.messages.insert((partition, end + n as u64), known);
        }
    }

    fn give_back(&mut self, which: impl Fn(Is) -> bool) {
        for known in self.messages.values_mut().filter(|known| which(known.is)) {
            known.is = Is::Pending;
        }
    }

    fn poll(&mut self, member: MemberId, max: usize) {
        let found = self.world.found(member, max);
        let starts: BTreeMap<_, _> =
            found.iter().map(|one| (one.partition.number, one.kept)).collect();
        let reply = self.world.group(polling(member, max, found, Default::default()));
        let GroupReply::Polled { batches, .. } = reply else { panic!("{reply:?}") };
        // What retention took is as good as processed once somebody looked.
        for (number, kept) in starts {
            for ((of, offset), known) in &mut self.messages {
                if *of == number && *offset < kept && known.is == Is::Pending {
                    known.is = Is::Processed;
                }
            }
        }
        let before = self.messages.clone();
        let mut handed = BTreeSet::new();
        for batch in &batches {
            let number = batch.partition.number;
            let assigned = self.world.view().members;
            let own = assigned.iter().find(|one| one.member == member).unwrap();
            assert!(own.assigned.contains(&batch.partition), "of its own partitions");
            for offset in batch.base..batch.base + batch.count {
                let known = self.messages.get_mut(&(number, offset)).unwrap();
                assert_eq!(known.is, Is::Pending, "{number}/{offset} was not free");
                assert_eq!(known.attempt + 1, batch.attempt);
                *known =
                    Known { is: Is::Out(member, batch.lease), attempt: batch.attempt, ..*known };
                assert!(handed.insert((number, offset)), "an offset twice");
            }
        }
        assert!(handed.len() <= max);
        self.check_order(&before, &handed);
    }

    /// Nothing is handed out while something before it, that it has to wait for, is out or pending
    /// and not handed out with it.
    fn check_order(&self, before: &BTreeMap<(u32, u64), Known>, handed: &BTreeSet<(u32, u64)>) {
        for (number, offset) in handed {
            let key = before[&(*number, *offset)].key;
            let earlier = before.range((*number, 0)..(*number, *offset));
            for ((_, other), known) in earlier {
                let waits = match self.order {
                    Order::Free => false,
                    Order::Key => key != 0 && known.key == key,
                    Order::Partition => true,
                };
                let open = !matches!(known.is, Is::Processed | Is::Dead);
                let free = handed.contains(&(*number, *other));
                assert!(!waits || !open || free, "{number}/{offset} came before {other}");
            }
        }
    }

    fn commit(
        &mut self,
        member: MemberId,
        number: u32,
        from: u64,
        to: u64,
        status: VerdictStatus,
        named: bool,
    ) {
        let mut verdict = self.world.verdict(number, from, to, status);
        let held = |known: &Known| match known.is {
            Is::Out(of, lease) if of == member => Some(lease),
            _ => None,
        };
        if named {
            verdict.lease =
                (from..=to).find_map(|offset| held(self.messages.get(&(number, offset))?));
        }
        let lease = verdict.lease;
        let results = self.world.commit(member, vec![verdict]);
        let mut answered = BTreeMap::new();
        let mut next = from;
        for one in &results {
            assert_eq!(one.from, next, "answers are without a gap");
            next = one.to + 1;
            answered.extend((one.from..=one.to).map(|offset| (offset, one.outcome)));
        }
        assert_eq!(next, to + 1);
        let view = self.world.view();
        let own = view.members.iter().find(|one| one.member == member).unwrap();
        let counts = match own.assigned.contains(&self.world.at(number)) {
            true => CommitOutcome::Done,
            false => CommitOutcome::Late,
        };
        let mut retried = Vec::new();
        for (offset, outcome) in answered {
            let Some(known) = self.messages.get_mut(&(number, offset)) else {
                assert_eq!(outcome, CommitOutcome::Fenced, "there is no {offset}");
                continue;
            };
            match known.is {
                Is::Out(of, id) if of == member && lease.is_none_or(|lease| lease == id) => {
                    assert_eq!(outcome, counts);
                    match status {
                        VerdictStatus::Ok => known.is = Is::Processed,
                        VerdictStatus::Failed => known.is = Is::Dead,
                        VerdictStatus::Extend => {}
                        VerdictStatus::Retry if known.attempt >= 3 => known.is = Is::Dead,
                        VerdictStatus::Retry => {
                            known.is = Is::Pending;
                            retried.push((offset, id, known.key));
                        }
                    }
                }
                Is::Out(..) | Is::Pending => assert_eq!(outcome, CommitOutcome::Fenced),
                // Whether it was this member that finished it the model does not know.
                Is::Processed | Is::Dead => {
                    assert!(lease.is_some() || outcome != CommitOutcome::Fenced);
                }
            }
        }
        for (offset, id, key) in retried {
            let behind = self.messages.range_mut((number, offset + 1)..(number, u64::MAX));
            for ((_, later), known) in behind {
                let waits = match self.order {
                    Order::Free => false,
                    Order::Key => key != 0 && known.key == key,
                    Order::Partition => true,
                };
                if waits && known.is == Is::Out(member, id) && !(from..=to).contains(later) {
                    *known = Known { is: Is::Pending, attempt: known.attempt - 1, ..*known };
                }
            }
        }
    }

    fn pass(&mut self, secs: u64) {
        self.world.pass(Span::from_secs(secs));
        for member in self.members.clone() {
            self.world.beat(member, 0);
        }
        let over: BTreeSet<(u32, u64)> = (0..PARTITIONS)
            .flat_map(|number| {
                let position = self.world.position(number);
                let over =
                    position.leases().filter(|(_, one)| one.deadline <= self.world.now.steady);
                let over: Vec<LeaseId> = over.map(|(id, _)| id).collect();
                let held = self.messages.iter().filter(move |((of, _), known)| {
                    *of == number && matches!(known.is, Is::Out(_, id) if over.contains(&id))
                });
                held.map(|(key, _)| *key).collect::<Vec<_>>()
            })
            .collect();
        let (_, _, dead) = self.world.sweep();
        let mut died = 0;
        for key in over {
            let known = self.messages.get_mut(&key).unwrap();
            known.is = if known.attempt >= 3 { Is::Dead } else { Is::Pending };
            died += u64::from(known.is == Is::Dead);
        }
        assert_eq!(dead, died);
    }

    /// Every message is what the model says it is, and what is committed never went back.
    fn look(&mut self) {
        for ((number, offset), known) in &self.messages {
            let at = self.world.at(*number);
            let status = self.world.state.message_status(&work(), at, *offset, self.world.now);
            let status = status.unwrap();
            let same = match (&status, known.is) {
                (MessageStatus::Pending { attempt, .. }, Is::Pending) => *attempt == known.attempt,
                (MessageStatus::Processing { attempt, member, lease, .. }, Is::Out(of, id)) => {
                    (*member, *lease, *attempt) == (of, id, known.attempt)
                }
                (MessageStatus::Processed, Is::Processed) => true,
                (MessageStatus::Dead { .. }, Is::Dead) => true,
                // Retention took its offset; its letter is still there.
                (MessageStatus::Processed, Is::Dead) => true,
                _ => false,
            };
            assert!(same, "{number}/{offset} is {status:?}, not {known:?}");
        }
        for number in 0..PARTITIONS {
            let position = self.world.position(number);
            let (start, next) = (position.start(), position.next());
            let floor = self.floors.entry(number).or_default();
            assert!(start >= *floor, "what is committed went back");
            *floor = start;
            assert!(next >= start);
            let mut open = 0;
            let end = position.ranges().fold(start, |at, (first, range)| {
                assert_eq!(first, at, "ranges lie side by side");
                let finished = range.mark == Mark::Done;
                open += if finished { 0 } else { range.last - first + 1 };
                range.last + 1
            });
            assert_eq!(end, next);
            assert_eq!(position.open(), open);
            assert!(open <= IN_FLIGHT, "{open} are not finished");
        }
        let view = self.world.view();
        let mut owners = BTreeSet::new();
        for member in &view.members {
            for partition in &member.assigned {
                assert!(owners.insert(*partition), "two have {partition}");
            }
        }
        assert!(view.members.is_empty() || owners.len() == PARTITIONS as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_what_one_record_per_message_would_say_it_is(
        order in prop_oneof![Just(Order::Key), Just(Order::Partition), Just(Order::Free)],
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut model = Model::new(order);
        for act in &acts {
            model.run(act);
        }
    }
}

#[test]
fn a_command_for_a_group_that_is_not_there_is_refused_with_words() {
    let mut world = World::new();
    let member = MemberId(1);
    let refused = world.refused(GroupCommand::Leave { group: work(), member });
    assert!(refused.to_string().starts_with("there is no group `work`"), "{refused}");
}

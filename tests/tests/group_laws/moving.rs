//! Members that come one by one, go one by one, and die without a word, while messages flow.

use std::collections::{BTreeMap, BTreeSet};

use handoff_sim::dice::Dice;
use handoff_tests::member::{self, Batch, Member};
use serde_json::json;

use crate::world::{Shown, Spot, World, payloads};

/// Of two topics, so that no number of members but 13 has the same share each.
const PARTITIONS: [(&str, u32); 2] = [("orders", 8), ("returns", 5)];
const PARTITIONS_ALL: usize = 13;

const MEMBERS: usize = 8;

/// Nobody is silent for so long by mistake.
const LONG: u64 = 3_600_000;

/// The shortest there is.
const SHORT: u64 = 100;

/// Everybody in a group, and what is known of every message.
struct Flow {
    world: World,
    dice: Dice,
    members: Vec<Member>,
    produced: u64,
    /// What a member holds, the oldest first.
    held: BTreeMap<String, Vec<Batch>>,
    /// Who holds a message.
    holders: BTreeMap<(Spot, u64), String>,
    /// Messages that were finished: each once.
    finished: BTreeSet<String>,
    late: u64,
}

impl Flow {
    fn new(seed: u64) -> Self {
        let mut world = World::start();
        for (name, partitions) in PARTITIONS {
            world.topic(name, partitions);
        }
        let topics = PARTITIONS.map(|(name, _)| name);
        let long = json!({"ordering": "none", "leaseMs": 3_600_000, "maxAttempts": 100});
        world.group("billing", &topics, &long);
        Self {
            world,
            dice: Dice::new(seed),
            members: Vec::new(),
            produced: 0,
            held: BTreeMap::new(),
            holders: BTreeMap::new(),
            finished: BTreeSet::new(),
            late: 0,
        }
    }

    fn shown(&mut self) -> Shown {
        self.world.show("billing")
    }

    /// Some messages come, some are handed out, some are finished.
    fn flow(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for (topic, partitions) in PARTITIONS {
                let numbers = self.produced..self.produced + 6;
                self.produced = numbers.end;
                let messages: Vec<_> = numbers
                    .map(|n| json!({"payload": n.to_string(), "partition": self.dice.below(partitions.into())}))
                    .collect();
                self.world.produce(topic, &messages);
            }
            for member in self.members.clone() {
                self.poll(&member);
                // Up to three polls are held, so that a partition that moves leaves leases behind.
                if self.dice.one_in(3) {
                    self.commit(&member);
                }
            }
        }
    }

    /// Whatever a member is handed is of its partitions, and nobody else holds it.
    fn poll(&mut self, member: &Member) {
        let most = 1 + self.dice.below(8);
        let batches = self.world.poll_with(member, &json!({"maxMessages": most}));
        let owners = self.shown().owners();
        for batch in &batches {
            let spot = (batch.topic.clone(), batch.partition);
            assert_eq!(owners.get(&spot), Some(&member.id), "{batch:?} is another's");
            for offset in batch.offsets() {
                let holder = self.holders.insert((spot.clone(), offset), member.id.clone());
                assert_eq!(holder, None, "{spot:?} {offset} is out");
            }
        }
        self.held.entry(member.id.clone()).or_default().extend(batches);
    }

    /// Everything a member holds counts, whoever has its partition by now.
    fn commit(&mut self, member: &Member) {
        let owners = self.shown().owners();
        for batch in self.held.remove(&member.id).unwrap_or_default() {
            let spot = (batch.topic.clone(), batch.partition);
            let outcomes = self.world.commit(member, &[batch.verdict("ok")]);
            let own = owners.get(&spot) == Some(&member.id);
            let expected = if own { "done" } else { "late" };
            assert!(outcomes.iter().all(|one| one.outcome == expected), "{own} {outcomes:?}");
            self.late += u64::from(!own);
            for offset in batch.offsets() {
                self.holders.remove(&(spot.clone(), offset));
            }
            for payload in payloads(std::slice::from_ref(&batch)) {
                assert!(self.finished.insert(payload.clone()), "{payload} counted twice");
            }
        }
    }

    /// Somebody comes: nothing moves but what goes to it, and that is no more than its share.
    fn join(&mut self, session: u64) -> Option<Member> {
        let before = self.shown().owners();
        let more = json!({"sessionTimeoutMs": session, "client": self.members.len().to_string()});
        let newcomer = self.world.join("billing", &more);
        let shown = self.shown();
        if !shown.has(&newcomer) {
            return None;
        }
        let after = shown.owners();
        let moved = moved(&before, &after);
        assert!(moved.iter().all(|(_, to)| *to == newcomer.id), "{before:?} {after:?}");
        let share = PARTITIONS_ALL / (self.members.len() + 1);
        let fair = if before.is_empty() { PARTITIONS_ALL } else { share };
        assert_eq!(moved.len(), fair, "{before:?} {after:?}");
        balanced(&after, self.members.len() + 1);
        Some(newcomer)
    }

    /// Somebody is gone: what the others have they keep, and what it had is theirs.
    fn gone(&mut self, who: &Member, before: &BTreeMap<Spot, String>) {
        let after = self.shown().owners();
        let lost = |(spot, owner): &(&Spot, &String)| {
            **owner != who.id && after.get(*spot) != Some(*owner)
        };
        let lost: Vec<_> = before.iter().filter(lost).collect();
        assert!(lost.is_empty(), "{lost:?} moved without need: {after:?}");
        balanced(&after, self.members.len());
        // What it held comes again, to whoever has the partition now.
        for batch in self.held.remove(&who.id).unwrap_or_default() {
            for offset in batch.offsets() {
                self.holders.remove(&((batch.topic.clone(), batch.partition), offset));
            }
            let outcomes = self.world.commit(who, &[batch.verdict("ok")]);
            assert!(outcomes.iter().all(|one| one.outcome == "fenced"), "{outcomes:?}");
        }
    }
}

/// What has another owner, and who that is.
fn moved(before: &BTreeMap<Spot, String>, after: &BTreeMap<Spot, String>) -> Vec<(Spot, String)> {
    let other = after.iter().filter(|(spot, owner)| before.get(*spot) != Some(*owner));
    other.map(|(spot, owner)| (spot.clone(), owner.clone())).collect()
}

/// Every partition has an owner, and nobody has two more than another.
fn balanced(owners: &BTreeMap<Spot, String>, members: usize) {
    assert_eq!(owners.len(), PARTITIONS_ALL, "{owners:?}");
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for owner in owners.values() {
        *shares.entry(owner).or_default() += 1;
    }
    assert_eq!(shares.len(), members, "{owners:?}");
    let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
    assert!(most - least <= 1, "{shares:?}");
}

#[test]
fn members_come_leave_and_die_and_every_partition_has_one_owner_and_moves_only_if_it_must() {
    let mut flow = Flow::new(7);
    for _ in 0..MEMBERS {
        let newcomer = flow.join(LONG).unwrap();
        flow.members.push(newcomer);
        flow.flow(4);
    }
    assert!(flow.late > 0, "no partition moved while messages of it were out");

    for _ in 0..3 {
        let at = usize::try_from(flow.dice.below(flow.members.len() as u64)).unwrap();
        let before = flow.shown().owners();
        let leaver = flow.members.remove(at);
        flow.world.leave(&leaver);
        flow.gone(&leaver, &before);
        flow.flow(3);
    }

    let mut died_holding = 0;
    while died_holding < 3 {
        // Its session may be over before anybody sees it: then another one comes.
        let Some(doomed) = flow.join(SHORT) else { continue };
        let answer = doomed.poll(&mut flow.world.http, &json!({"maxMessages": 20})).unwrap();
        if answer.status == 200 {
            let batches = Batch::all(&answer).unwrap();
            died_holding += usize::from(!batches.is_empty());
            flow.held.insert(doomed.id.clone(), batches);
        }
        let mut before = flow.shown().owners();
        // From now on it says nothing; whoever waits for news hears when it is gone.
        let witness = flow.members[0].clone();
        let mut generation = witness.generation;
        while flow.shown().has(&doomed) {
            before = flow.shown().owners();
            let beat = json!({"version": 1, "generation": generation});
            let beat = flow.world.ask("POST", &witness.path("/heartbeat"), Some(&beat));
            generation = beat["generation"].as_u64().unwrap();
        }
        flow.gone(&doomed, &before);
        let gone = doomed.poll(&mut flow.world.http, &json!({})).unwrap();
        assert_eq!((gone.status, &*member::code(&gone)), (404, "streams.member_gone"));
        flow.flow(2);
    }

    while flow.members.len() > 1 {
        let before = flow.shown().owners();
        let leaver = flow.members.pop().unwrap();
        flow.commit(&leaver);
        flow.world.leave(&leaver);
        flow.gone(&leaver, &before);
        flow.flow(1);
    }
    let last = flow.members[0].clone();
    while flow.shown().lag() > 0 {
        flow.poll(&last);
        flow.commit(&last);
    }
    let expected: BTreeSet<String> = (0..flow.produced).map(|n| n.to_string()).collect();
    assert_eq!(flow.finished, expected);
}

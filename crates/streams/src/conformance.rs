//! What every store passes. Each function is one promise of [`port`](crate::port) and panics when it
//! is broken; [`all`] runs every one of them on a fresh store.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::Bytes;
use handoff_types::{Entropy, Now, Outcome, Sight, Span, Wall};

use crate::batch::{self, Builder};
use crate::faulty::{Fails, Faulty};
use crate::groups::{
    CommitOutcome, Found, GroupBounds, GroupCommand, GroupName, GroupReply, HandedOut, Join,
    Letter, MemberId, OnCorrupt, Verdict, VerdictStatus,
};
use crate::port::{Batches, CommitError, Failed, Hold, Step, Store, Version};
use crate::{
    Bounds, Broker, Change, Command, Compression, Durability, Key, Message, PartitionId, Place,
    Produce, Produced, ProducerId, Registration, Reply, Scope, Status, Topic, TopicId, TopicName,
    TopicSettings, TopicSpec,
};

/// Runs every promise on stores that are empty when they are made.
pub fn all<S: Store>(fresh: impl Fn() -> S) {
    promises(&fresh);
    promises_through_failures(&fresh);
}

/// Runs every promise on stores that do what they are asked.
pub fn promises<S: Store>(fresh: impl Fn() -> S) {
    an_aggregate_that_never_was_has_version_zero(&fresh());
    a_commit_makes_every_step_true_and_versions_grow_by_one(&fresh());
    a_commit_on_an_old_version_conflicts_and_changes_nothing(&fresh());
    a_step_that_only_looked_conflicts_too_and_changes_no_version(&fresh());
    a_conflict_of_one_step_keeps_out_all(&fresh());
    a_version_goes_on_growing_after_its_aggregate_is_gone(&fresh());
    of_two_that_change_what_the_other_looked_at_one_conflicts(&fresh());
    batches_are_read_back_whole_from_any_offset_inside(&fresh());
    what_conflicted_is_not_readable(&fresh());
    what_was_trimmed_says_where_it_begins_now(&fresh());
    whoever_watches_is_woken_by_the_commit_and_not_before(&fresh());
    whoever_watches_an_old_version_is_told_at_once(&fresh());
    what_is_held_waits_for_its_guard(&fresh());
    a_guard_that_is_dropped_lets_others_in(&fresh());
    the_clock_does_not_go_back(&fresh());
    keys_are_found_in_order_and_only_of_what_is_there(&fresh());
    two_brokers_give_every_message_its_own_offset(&fresh());
    a_broker_that_knows_old_versions_decides_again(&fresh());
    what_is_due_is_delivered_by_a_broker_that_never_heard_of_it(&fresh());
    two_brokers_hand_every_message_to_one_member(&fresh());
    whoever_appends_is_not_in_the_way_of_whoever_polls(&fresh());
    a_dead_letter_and_its_verdict_are_one_commit(&fresh());
    a_member_may_switch_brokers_between_poll_and_commit(&fresh());
}

/// Runs what holds however often a store fails, before or after doing what it was asked.
pub fn promises_through_failures<S: Store>(fresh: impl Fn() -> S) {
    for (every, fails) in (2..12).flat_map(|n| [(n, Fails::Before), (n, Fails::After)]) {
        what_is_retried_through_failures_is_stored_once(&Faulty::new(fresh(), every, fails));
        what_is_consumed_through_failures_is_handed_out_once(&Faulty::new(fresh(), every, fails));
    }
}

/// Waits for a future on this thread.
pub fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn is_ready<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn name(text: &str) -> TopicName {
    text.parse().expect("a name")
}

fn settings() -> TopicSettings {
    TopicSettings {
        retention: None,
        retention_bytes: None,
        durability: Durability::Fsync,
        compression: Compression::None,
    }
}

fn topic(text: &str, id: u32) -> Topic {
    let created = Wall(1_000_000);
    Topic { id: TopicId(id), name: name(text), partitions: 1, settings: settings(), created }
}

fn create(text: &str, id: u32) -> Step {
    step(Key::Topic(name(text)), 0, vec![Change::TopicCreated(topic(text, id))])
}

fn step(key: Key, expected: u64, changes: Vec<Change>) -> Step {
    Step { key, expected: Version(expected), changes }
}

fn partition(number: u32) -> PartitionId {
    PartitionId { topic: TopicId(7), number }
}

fn append(partition: PartitionId, base: u64, payloads: &[&str]) -> Change {
    let mut builder = Builder::new(base, Wall(5_000_000), 64);
    for payload in payloads {
        builder.add(None, payload.as_bytes(), [].into_iter());
    }
    let count = builder.count();
    let batch = builder.finish(Compression::None);
    let bytes = u32::try_from(batch.len()).expect("small");
    Change::Appended { partition, base, count, last: Wall(5_000_000), bytes, batch }
}

fn commit<S: Store>(store: &S, steps: Vec<Step>) -> Result<(), CommitError> {
    wait(store.commit(steps, store.now(), None))
}

fn made<S: Store>(store: &S, steps: Vec<Step>) {
    commit(store, steps).expect("a commit on the newest versions is made");
}

fn version<S: Store>(store: &S, key: &Key) -> Version {
    let (loaded, _) = wait(store.load(std::slice::from_ref(key), Hold::Free)).expect("loads");
    loaded.first().expect("one for each key").version
}

fn is_there<S: Store>(store: &S, key: &Key) -> bool {
    let (loaded, _) = wait(store.load(std::slice::from_ref(key), Hold::Free)).expect("loads");
    loaded.first().expect("one for each key").aggregate.is_some()
}

fn opened<S: Store>(store: &S, number: u32) -> Key {
    let key = Key::Partition(partition(number));
    made(store, vec![step(key.clone(), 0, vec![Change::PartitionOpened(partition(number))])]);
    key
}

fn payloads<S: Store>(store: &S, number: u32, offset: u64) -> Vec<(u64, String)> {
    match wait(store.read(partition(number), offset, 1 << 20)).expect("reads") {
        Batches::Some(batches) => batches.iter().flat_map(texts).collect(),
        Batches::End { .. } => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn texts(batch: &Bytes) -> Vec<(u64, String)> {
    let records = batch::records(batch, 1 << 20).expect("a sound batch");
    let text =
        |payload: Option<Bytes>| String::from_utf8_lossy(&payload.unwrap_or_default()).into();
    records.into_iter().map(|record| (record.offset, text(record.payload))).collect()
}

fn an_aggregate_that_never_was_has_version_zero<S: Store>(store: &S) {
    let keys = [Key::Topic(name("a")), Key::Counters, Key::Producer(ProducerId(9))];
    let (loaded, guard) = wait(store.load(&keys, Hold::Free)).expect("loads");
    assert!(guard.is_none(), "nothing was to be held");
    assert_eq!(loaded.len(), keys.len());
    assert!(loaded.iter().all(|one| one.version == Version(0)));
    assert!(loaded.iter().skip(2).all(|one| one.aggregate.is_none()));
}

fn a_commit_makes_every_step_true_and_versions_grow_by_one<S: Store>(store: &S) {
    made(store, vec![create("a", 1), create("b", 2)]);
    let (a, b) = (Key::Topic(name("a")), Key::Topic(name("b")));
    assert!(is_there(store, &a) && is_there(store, &b));
    let grown = vec![Change::TopicGrown(name("a"), 2), Change::TopicGrown(name("a"), 3)];
    made(store, vec![step(a.clone(), 1, grown)]);
    assert_eq!((version(store, &a), version(store, &b)), (Version(2), Version(1)));
    let (loaded, _) = wait(store.load(&[a], Hold::Free)).expect("loads");
    let aggregate = loaded.into_iter().next().expect("one").aggregate;
    assert!(matches!(aggregate, Some(crate::Aggregate::Topic(topic)) if topic.partitions == 3));
}

fn a_commit_on_an_old_version_conflicts_and_changes_nothing<S: Store>(store: &S) {
    made(store, vec![create("a", 1)]);
    let key = Key::Topic(name("a"));
    let late = step(key.clone(), 0, vec![Change::TopicDeleted(name("a"))]);
    assert_eq!(commit(store, vec![late]), Err(CommitError::Conflict(vec![key.clone()])));
    let early = step(key.clone(), 2, vec![Change::TopicDeleted(name("a"))]);
    assert_eq!(commit(store, vec![early]), Err(CommitError::Conflict(vec![key.clone()])));
    assert!(is_there(store, &key));
    assert_eq!(version(store, &key), Version(1));
}

fn a_step_that_only_looked_conflicts_too_and_changes_no_version<S: Store>(store: &S) {
    made(store, vec![create("a", 1)]);
    let looked = |at| step(Key::Topic(name("a")), at, Vec::new());
    let conflict = commit(store, vec![looked(0), create("b", 2)]);
    assert_eq!(conflict, Err(CommitError::Conflict(vec![Key::Topic(name("a"))])));
    assert!(!is_there(store, &Key::Topic(name("b"))));
    made(store, vec![looked(1), create("b", 2)]);
    assert_eq!(version(store, &Key::Topic(name("a"))), Version(1));
}

fn a_conflict_of_one_step_keeps_out_all<S: Store>(store: &S) {
    made(store, vec![create("b", 2)]);
    let conflict = commit(store, vec![create("a", 1), create("b", 3), create("c", 4)]);
    assert_eq!(conflict, Err(CommitError::Conflict(vec![Key::Topic(name("b"))])));
    for free in ["a", "c"] {
        assert_eq!(version(store, &Key::Topic(name(free))), Version(0), "{free}");
    }
}

fn a_version_goes_on_growing_after_its_aggregate_is_gone<S: Store>(store: &S) {
    made(store, vec![create("a", 1)]);
    let key = Key::Topic(name("a"));
    made(store, vec![step(key.clone(), 1, vec![Change::TopicDeleted(name("a"))])]);
    assert!(!is_there(store, &key));
    assert_eq!(version(store, &key), Version(2));
    let again = commit(store, vec![create("a", 5)]);
    assert_eq!(again, Err(CommitError::Conflict(vec![key])), "it is not as if it never was");
}

fn of_two_that_change_what_the_other_looked_at_one_conflicts<S: Store>(store: &S) {
    for round in 0..20 {
        let names = ["a", "b"].map(|text| format!("{text}{round}"));
        let looks = |at: usize| {
            let changed = create(names.get(at).map_or("", String::as_str), 2 * round + 1);
            let other = names.get(1 - at).map_or("", String::as_str);
            vec![changed, step(Key::Topic(name(other)), 0, Vec::new())]
        };
        let results = thread::scope(|scope| {
            let both = [0, 1].map(|at| scope.spawn(move || commit(store, looks(at))));
            both.map(|one| one.join().expect("commits"))
        });
        let made = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(made, 1, "round {round}: {results:?}");
    }
}

fn batches_are_read_back_whole_from_any_offset_inside<S: Store>(store: &S) {
    let (one, two) = (opened(store, 0), opened(store, 1));
    made(store, vec![step(one.clone(), 1, vec![append(partition(0), 0, &["a", "b", "c"])])]);
    made(
        store,
        vec![
            step(one, 2, vec![append(partition(0), 3, &["d"])]),
            step(two, 1, vec![append(partition(1), 0, &["x"])]),
        ],
    );
    let all = [(0, "a"), (1, "b"), (2, "c"), (3, "d")].map(|(at, text)| (at, text.to_owned()));
    for offset in 0..3 {
        assert_eq!(payloads(store, 0, offset), all, "from {offset}");
    }
    assert_eq!(payloads(store, 0, 3), all.get(3..).unwrap_or_default());
    assert_eq!(payloads(store, 1, 0), [(0, "x".to_owned())]);
    let end = wait(store.read(partition(0), 4, 1)).expect("reads");
    assert_eq!(end, Batches::End { end: 4 });
    let Batches::Some(least) = wait(store.read(partition(0), 0, 0)).expect("reads") else {
        panic!("at least one batch is given, however few bytes are asked for")
    };
    assert_eq!(least.len(), 1);
}

fn what_conflicted_is_not_readable<S: Store>(store: &S) {
    let key = opened(store, 0);
    let refused = commit(store, vec![step(key, 0, vec![append(partition(0), 0, &["a"])])]);
    assert!(matches!(refused, Err(CommitError::Conflict(_))));
    let read = wait(store.read(partition(0), 0, 1 << 20)).expect("reads");
    assert_eq!(read, Batches::End { end: 0 });
}

fn what_was_trimmed_says_where_it_begins_now<S: Store>(store: &S) {
    let key = opened(store, 0);
    made(store, vec![step(key.clone(), 1, vec![append(partition(0), 0, &["a", "b"])])]);
    made(store, vec![step(key.clone(), 2, vec![append(partition(0), 2, &["c"])])]);
    let trimmed = Change::Trimmed { partition: partition(0), start: 2, bytes: 1 };
    made(store, vec![step(key, 3, vec![trimmed])]);
    for offset in 0..2 {
        let read = wait(store.read(partition(0), offset, 1 << 20)).expect("reads");
        assert_eq!(read, Batches::Trimmed { start: 2 });
    }
    assert_eq!(payloads(store, 0, 2), [(2, "c".to_owned())]);
}

fn whoever_watches_is_woken_by_the_commit_and_not_before<S: Store>(store: &S) {
    made(store, vec![create("a", 1)]);
    let watched = [(Key::Topic(name("a")), Version(1)), (Key::Topic(name("b")), Version(0))];
    let mut watch = pin!(store.watch(&watched));
    assert!(!is_ready(watch.as_mut()), "nothing happened");
    made(store, vec![create("b", 2)]);
    wait(watch);
}

fn whoever_watches_an_old_version_is_told_at_once<S: Store>(store: &S) {
    made(store, vec![create("a", 1)]);
    wait(store.watch(&[(Key::Topic(name("a")), Version(0))]));
}

fn what_is_held_waits_for_its_guard<S: Store>(store: &S) {
    made(store, vec![create("a", 1), create("b", 2)]);
    let keys = [Key::Topic(name("a")), Key::Topic(name("b"))];
    let (_, guard) = wait(store.load(&keys, Hold::Locked)).expect("loads");
    assert!(guard.is_some(), "a guard was asked for");
    let grow = |partitions| {
        step(Key::Topic(name("a")), 1, vec![Change::TopicGrown(name("a"), partitions)])
    };
    let mut other = pin!(store.commit(vec![grow(5)], store.now(), None));
    assert!(!is_ready(other.as_mut()), "it is held");
    wait(store.commit(vec![grow(9)], store.now(), guard)).expect("whoever holds it may");
    let late = wait(other);
    assert_eq!(late, Err(CommitError::Conflict(vec![Key::Topic(name("a"))])));
}

fn a_guard_that_is_dropped_lets_others_in<S: Store>(store: &S) {
    let key = Key::Topic(name("a"));
    let (_, guard) = wait(store.load(std::slice::from_ref(&key), Hold::Locked)).expect("loads");
    let mut second = pin!(store.load(std::slice::from_ref(&key), Hold::Locked));
    assert!(!is_ready(second.as_mut()), "one at a time");
    drop(guard);
    drop(wait(second).expect("loads"));
    made(store, vec![create("a", 1)]);
}

fn keys_are_found_in_order_and_only_of_what_is_there<S: Store>(store: &S) {
    made(store, vec![create("c", 3), create("a", 1), create("b", 2), create("d", 4)]);
    let partition = opened(store, 0);
    let key = |text| Key::Topic(name(text));
    made(store, vec![step(key("b"), 1, vec![Change::TopicDeleted(name("b"))])]);
    let find = |from, to, limit| wait(store.find(from..=to, limit)).expect("finds");
    assert_eq!(find(key("a"), key("z"), 10), [key("a"), key("c"), key("d")]);
    assert_eq!(find(key("a"), key("c"), 10), [key("a"), key("c")]);
    assert_eq!(find(key("a.1"), key("z"), 1), [key("c")]);
    assert_eq!(find(Key::Counters, key("z"), 2), [partition, key("a")]);
    assert_eq!(find(key("x"), key("z"), 2), []);
}

fn the_clock_does_not_go_back<S: Store>(store: &S) {
    let first = store.now();
    made(store, vec![create("a", 1)]);
    assert!(store.now().steady >= first.steady);
}

/// Bounds that stand in nobody's way.
#[must_use]
pub fn wide() -> Bounds {
    Bounds {
        message_bytes_max: 1 << 20,
        headers_max: 64,
        batch_messages_max: 10_000,
        topics_max: 1_000,
        partitions_max: 10_000,
        producers_max: 1_000,
        remembered_max: 1_024,
        missing_max: 64,
        producer_idle: Span::from_secs(7 * 86_400),
        scheduled_max: 1_000,
        scheduled_bytes_max: 1 << 20,
        deliver_ahead_max: Span::from_secs(366 * 86_400),
    }
}

fn chance(number: u64) -> Entropy {
    Entropy(u128::from(number) << 64 | 0x5eed)
}

fn create_topic(partitions: u32) -> Command {
    let topic = TopicSpec { name: name("orders"), partitions, settings: settings() };
    Command::CreateTopic { topic, bounds: wide() }
}

fn produce(producer: Option<(ProducerId, u64)>, texts: &[String]) -> Command {
    let message = |text: &String| Message {
        key: Some(Bytes::from_static(b"k")),
        payload: text.clone().into(),
        ..Message::default()
    };
    let messages = texts.iter().map(message).collect();
    let produce = Produce { topic: name("orders"), producer, messages };
    Command::Produce { produce, bounds: wide() }
}

fn results(reply: Reply) -> Vec<Produced> {
    match reply {
        Reply::Produced { results, .. } => results,
        other => panic!("{other:?}"),
    }
}

fn place(produced: &Produced) -> (PartitionId, u64) {
    match produced.place {
        Some(Place::At(partition, offset)) => (partition, offset),
        other => panic!("no place: {other:?}"),
    }
}

fn two_brokers_give_every_message_its_own_offset<S: Store>(store: &S) {
    let brokers = [Broker::<&S>::new(store), Broker::<&S>::new(store)];
    let [first, second] = &brokers;
    wait(first.execute(&create_topic(3), chance(0))).expect("made");
    let mut seen = BTreeMap::new();
    for n in 0..40_u64 {
        let broker = if n % 3 == 0 { first } else { second };
        let text = format!("message {n}");
        let command = produce(None, std::slice::from_ref(&text));
        let (reply, _) = wait(broker.execute(&command, chance(n))).expect("stored");
        for produced in results(reply) {
            assert_eq!(produced.status, Status::Stored);
            assert_eq!(seen.insert(place(&produced), text.clone()), None, "an offset twice");
        }
    }
    let dense: BTreeSet<u64> = seen.keys().map(|(_, offset)| *offset).collect();
    assert!(dense.into_iter().eq(0..40), "one key, one partition, no gap");
}

fn a_broker_that_knows_old_versions_decides_again<S: Store>(store: &S) {
    let brokers = [Broker::<&S>::new(store), Broker::<&S>::new(store)];
    let [first, second] = &brokers;
    wait(first.execute(&create_topic(1), chance(0))).expect("made");
    let id = ProducerId(77);
    let send = |sequence: u64| produce(Some((id, sequence)), &[format!("text {sequence}")]);
    let stored = wait(second.execute(&send(1), chance(1))).expect("stored").0;
    let offset = results(stored).first().map(place);
    // The first broker has never heard of the producer, then hears of it, then is behind again.
    let again = wait(first.execute(&send(1), chance(2))).expect("answered").0;
    let again = results(again);
    assert_eq!(again.first().map(|one| one.status), Some(Status::Duplicate));
    assert_eq!(again.first().map(place), offset);
    wait(second.execute(&send(2), chance(3))).expect("stored");
    let ahead = wait(first.execute(&send(4), chance(4))).expect("stored").0;
    let Reply::Produced { results, missing, .. } = ahead else { panic!("{ahead:?}") };
    assert_eq!(results.first().map(|one| one.status), Some(Status::StoredAfterGap));
    assert_eq!(missing, [3..=3]);
    let registration = Registration { producer: Some(id), ..Registration::default() };
    let command = Command::RegisterProducer { registration, sight: Sight::All, bounds: wide() };
    let reply = wait(second.execute(&command, chance(5))).expect("answered").0;
    let Reply::Registered { scope, last, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((scope, last), (Scope::Producer, Some(4)));
}

fn what_is_due_is_delivered_by_a_broker_that_never_heard_of_it<S: Store>(store: &S) {
    let brokers = [Broker::<&S>::new(store), Broker::<&S>::new(store)];
    let [first, second] = &brokers;
    wait(first.execute(&create_topic(1), chance(0))).expect("made");
    let due = store.now().wall + Span::from_millis(1);
    let message = Message { deliver_at: Some(due), payload: "late".into(), ..Message::default() };
    let produce = Produce { topic: name("orders"), producer: None, messages: vec![message] };
    let command = Command::Produce { produce, bounds: wide() };
    let scheduled = wait(first.execute(&command, chance(1))).expect("stored").0;
    assert_eq!(results(scheduled).first().map(|one| one.status), Some(Status::Scheduled));
    let tick = Command::Tick { limit: 10, bytes_max: 1 << 20, bounds: wide() };
    let mut delivered = 0;
    // A store that is told the time stays before it; one that has a clock goes on.
    for draw in 2.. {
        let is_due = store.now().wall >= due;
        match wait(second.execute(&tick, chance(draw))).expect("answered").0 {
            Reply::Ticked { delivered: now, .. } => delivered += now,
            other => panic!("{other:?}"),
        }
        if is_due || draw > 100 {
            assert_eq!(delivered, usize::from(is_due));
            break;
        }
    }
    let partition = PartitionId { topic: TopicId(1), number: 0 };
    match wait(store.read(partition, 0, 1 << 20)).expect("reads") {
        Batches::Some(batches) => assert_eq!((batches.len(), delivered), (1, 1)),
        Batches::End { .. } => assert_eq!(delivered, 0),
        other => panic!("{other:?}"),
    }
}

fn what_is_retried_through_failures_is_stored_once<S: Store>(store: &Faulty<S>) {
    let broker = Broker::<&Faulty<S>>::new(store);
    let mut tries = 0;
    let mut persist = |command: &Command| loop {
        tries += 1;
        assert!(tries < 10_000, "it never succeeds");
        match wait(broker.execute(command, chance(tries))) {
            Ok((reply, _)) => return reply,
            Err(failed) => {
                assert!(matches!(failed.outcome, Outcome::NotApplied | Outcome::Unknown))
            }
        }
    };
    // A topic that was made by a try whose answer was lost is there already.
    persist(&create_topic(2));
    let id = ProducerId(5);
    let mut acknowledged = BTreeMap::new();
    for n in 0..25_u64 {
        let texts = [format!("a{n}"), format!("b{n}")];
        let reply = persist(&produce(Some((id, 1 + 2 * n)), &texts));
        for (text, produced) in texts.iter().zip(results(reply)) {
            assert!(matches!(produced.status, Status::Stored | Status::Duplicate), "{produced:?}");
            assert_eq!(acknowledged.insert(place(&produced), text.clone()), None);
        }
    }
    let mut stored = BTreeMap::new();
    for partition in acknowledged.keys().map(|(partition, _)| *partition).collect::<BTreeSet<_>>() {
        let mut offset = 0;
        loop {
            match wait(store.underneath().read(partition, offset, 1 << 20)).expect("reads") {
                Batches::Some(batches) => {
                    for (at, text) in batches.iter().flat_map(texts) {
                        assert_eq!(at, offset, "dense");
                        stored.insert((partition, at), text);
                        offset += 1;
                    }
                }
                Batches::End { .. } => break,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(stored, acknowledged, "every one once, at its offset");
}

fn group_name() -> GroupName {
    "work".parse().expect("a name")
}

fn join() -> Command {
    let join = Join {
        group: group_name(),
        topics: vec![name("orders")],
        client: "conformance".to_owned(),
        instance: None,
        session: Span::from_secs(3_600),
        begin: Vec::new(),
    };
    Command::Group(GroupCommand::Join { join, limits: GroupBounds::default() })
}

fn joined(reply: Reply) -> MemberId {
    match reply {
        Reply::Group(GroupReply::Joined { member, .. }) => member,
        other => panic!("{other:?}"),
    }
}

fn poll(member: MemberId, found: Vec<Found>) -> Command {
    let (group, max_messages, max_bytes) = (group_name(), 4, 1 << 20);
    let on_corrupt = OnCorrupt::Stop;
    let poll = GroupCommand::Poll { group, member, max_messages, max_bytes, found, on_corrupt };
    Command::Group(poll)
}

fn commit_of(member: MemberId, batch: &HandedOut, status: VerdictStatus) -> GroupCommand {
    let verdict = Verdict {
        partition: batch.partition,
        from: batch.base,
        to: batch.base + batch.count - 1,
        status,
        error: Some("it cannot be".to_owned()),
        lease: Some(batch.lease),
        delay: None,
    };
    GroupCommand::Commit {
        group: group_name(),
        member,
        results: vec![verdict],
        produce: Vec::new(),
        bodies: Vec::new(),
        bounds: wide(),
    }
}

/// Polls as a shell does: reads what may be handed out and asks for it.
fn polled<S: Store>(
    broker: &Broker<&S>,
    member: MemberId,
    turn: u64,
) -> Result<Vec<HandedOut>, Failed> {
    let (found, records) = wait(broker.find(&group_name(), member, (4, 1 << 20), turn))?;
    match wait(broker.execute(&poll(member, found), chance(turn)))?.0 {
        Reply::Group(GroupReply::Polled { batches, .. }) => {
            for batch in &batches {
                for offset in batch.base..batch.base + batch.count {
                    assert!(records.contains_key(&(batch.partition, offset)), "it was read");
                }
            }
            Ok(batches)
        }
        other => panic!("{other:?}"),
    }
}

/// Commits as a shell does: reads what may die, and asks again with it.
fn committed<S: Store>(
    broker: &Broker<&S>,
    mut command: GroupCommand,
) -> Result<Vec<CommitOutcome>, Failed> {
    for n in 0..10 {
        match wait(broker.execute(&Command::Group(command.clone()), chance(n)))?.0 {
            Reply::Group(GroupReply::Committed { results, .. }) => {
                return Ok(results.iter().map(|one| one.outcome).collect());
            }
            Reply::Group(GroupReply::Wants(reads)) => {
                let read = wait(broker.bodies(&reads))?;
                let GroupCommand::Commit { bodies, .. } = &mut command else { panic!() };
                *bodies = read;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it wants more and more")
}

fn offsets(batches: &[HandedOut]) -> impl Iterator<Item = (PartitionId, u64)> {
    batches.iter().flat_map(|batch| {
        (batch.base..batch.base + batch.count).map(|offset| (batch.partition, offset))
    })
}

fn filled<S: Store>(broker: &Broker<&S>, partitions: u32, messages: u64) {
    wait(broker.execute(&create_topic(partitions), chance(0))).expect("made");
    for n in 0..messages {
        let mut command = produce(None, &[format!("message {n}")]);
        if let Command::Produce { produce, .. } = &mut command {
            for message in &mut produce.messages {
                message.key = None;
                message.partition = u32::try_from(n).ok().and_then(|n| n.checked_rem(partitions));
            }
        }
        wait(broker.execute(&command, chance(n))).expect("stored");
    }
}

fn two_brokers_hand_every_message_to_one_member<S: Store>(store: &S) {
    let brokers = [Broker::<&S>::new(store), Broker::<&S>::new(store)];
    let [first, second] = &brokers;
    filled(first, 2, 40);
    let one = joined(wait(first.execute(&join(), chance(1))).expect("in").0);
    let two = joined(wait(second.execute(&join(), chance(2))).expect("in").0);
    let mut seen = BTreeSet::new();
    for turn in 0..12 {
        // Both see the same candidates before either has committed, through either broker.
        for (member, broker) in [(one, first), (one, second), (two, second), (two, first)] {
            let batches = polled(broker, member, turn).expect("answered");
            for place in offsets(&batches) {
                assert!(seen.insert(place), "{place:?} was handed out twice");
            }
        }
    }
    assert_eq!(seen.len(), 40, "every message was handed out");
}

fn whoever_appends_is_not_in_the_way_of_whoever_polls<S: Store>(store: &S) {
    let broker = Broker::<&S>::new(store);
    filled(&broker, 1, 3);
    let member = joined(wait(broker.execute(&join(), chance(1))).expect("in").0);
    let (found, _) = wait(broker.find(&group_name(), member, (4, 1 << 20), 0)).expect("read");
    let command = poll(member, found);
    let steps = wait(broker.look(
        |state| crate::Streams::needs(state, &command),
        |state| crate::Streams::needs(state, &command),
    ));
    let partitions = |key: &Key| matches!(key, Key::Partition(_));
    assert!(!steps.expect("looked").iter().any(partitions), "a poll looks at no end");
}

fn a_dead_letter_and_its_verdict_are_one_commit<S: Store>(store: &S) {
    let brokers = [Broker::<&S>::new(store), Broker::<&S>::new(store)];
    let [first, second] = &brokers;
    filled(first, 1, 2);
    let member = joined(wait(first.execute(&join(), chance(1))).expect("in").0);
    let batches = polled(first, member, 0).expect("answered");
    let batch = batches.first().expect("one");
    let fails = commit_of(member, batch, VerdictStatus::Failed);
    assert_eq!(committed(second, fails.clone()), Ok(vec![CommitOutcome::Done]));
    // The first broker does not know yet; it finds out, and nothing dies twice.
    assert_eq!(committed(first, fails), Ok(vec![CommitOutcome::Done]));
    let letters = Key::Topic(name("work.dead"));
    let (loaded, _) = wait(store.load(&[letters], Hold::Free)).expect("loads");
    let topic = match loaded.into_iter().next().and_then(|one| one.aggregate) {
        Some(crate::Aggregate::Topic(topic)) => topic,
        other => panic!("{other:?}"),
    };
    let at = PartitionId { topic: topic.id, number: 0 };
    let Batches::Some(batches) = wait(store.read(at, 0, 1 << 20)).expect("reads") else {
        panic!("no letters")
    };
    let records = batches.iter().flat_map(|batch| batch::records(batch, 1 << 20).expect("sound"));
    let origins: Vec<u64> =
        records.map(|record| Letter::of(&record).expect("a letter").offset).collect();
    assert_eq!(origins, [0, 1]);
}

fn a_member_may_switch_brokers_between_poll_and_commit<S: Store>(store: &S) {
    let brokers = [Broker::<&S>::new(store), Broker::<&S>::new(store)];
    let [first, second] = &brokers;
    filled(first, 1, 12);
    let member = joined(wait(second.execute(&join(), chance(1))).expect("in").0);
    let mut done = 0;
    for turn in 0..3 {
        let (polls, commits) = if turn % 2 == 0 { (first, second) } else { (second, first) };
        for batch in polled(polls, member, turn).expect("answered") {
            let ok = commit_of(member, &batch, VerdictStatus::Ok);
            assert_eq!(committed(commits, ok), Ok(vec![CommitOutcome::Done]));
            done += batch.count;
        }
    }
    assert_eq!(done, 12);
}

fn what_is_consumed_through_failures_is_handed_out_once<S: Store>(store: &Faulty<S>) {
    let broker = Broker::<&Faulty<S>>::new(store);
    let mut tries = 0;
    let mut persist = |command: &Command| loop {
        tries += 1;
        assert!(tries < 10_000, "it never succeeds");
        if let Ok((reply, _)) = wait(broker.execute(command, chance(tries))) {
            return reply;
        }
    };
    persist(&create_topic(1));
    for n in 0..10_u64 {
        persist(&produce(Some((ProducerId(5), 1 + n)), &[format!("message {n}")]));
    }
    // A member whose joining was not answered holds a place and nothing else.
    let member = joined(persist(&join()));
    let mut seen = BTreeMap::new();
    for turn in 0..400 {
        // A poll whose answer was lost handed out what nobody knows of: it comes back when its lease
        // is over, never before.
        let Ok(batches) = polled(&broker, member, turn) else { continue };
        for (place, attempt) in batches.iter().flat_map(|batch| {
            offsets(std::slice::from_ref(batch)).map(|place| (place, batch.attempt))
        }) {
            assert_eq!(attempt, 1);
            assert_eq!(seen.insert(place, attempt), None, "{place:?} was handed out twice");
        }
        for batch in batches {
            let ok = commit_of(member, &batch, VerdictStatus::Ok);
            let said = (0..1_000).find_map(|_| committed(&broker, ok.clone()).ok());
            assert_eq!(said, Some(vec![CommitOutcome::Done]), "said until it is heard, it is done");
        }
    }
}

/// A time for stores that are told it.
#[must_use]
pub fn noon() -> Now {
    Now { wall: Wall(1_794_000_000_000_000), steady: handoff_types::Steady(1_000_000) }
}

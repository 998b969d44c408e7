//! Changes, aggregates and keys as bytes. That those of a living room come back is looked at after
//! every command of every other test here.

use std::sync::Arc;

use bytes::Bytes;
use handoff_streams::groups::{
    Given, Group, GroupChange, GroupId, GroupName, GroupSettings, Keys, LeaseId, Member, MemberId,
    Members, Order, Run, Start, Step,
};
use handoff_streams::{
    Aggregate, Change, Compression, Durability, Header, Key, Message, Partition, PartitionId,
    Place, Producer, ProducerId, Remembered, Scheduled, ScheduledId, Scope, State, Streams, Topic,
    TopicId, TopicName, TopicSettings, decode_aggregate, decode_change, encode_aggregate,
    encode_change,
};
use handoff_types::{Machine, Span, Steady, Wall};
use proptest::prelude::*;

use crate::room::topic;

fn name() -> impl Strategy<Value = TopicName> {
    "[a-zA-Z0-9_-]{1,20}".prop_map(|text| topic(&text))
}

fn settings() -> impl Strategy<Value = TopicSettings> {
    use Compression::{Gzip, Lz4, None as Plain, Snappy, Zstd};
    let durability = prop_oneof![Just(Durability::Fsync), Just(Durability::Os)];
    let compression = prop::sample::select(vec![Plain, Gzip, Snappy, Lz4, Zstd]);
    (any::<Option<u64>>(), any::<Option<u64>>(), durability, compression).prop_map(
        |(retention, retention_bytes, durability, compression)| TopicSettings {
            retention: retention.map(Span),
            retention_bytes,
            durability,
            compression,
        },
    )
}

fn partition_id() -> impl Strategy<Value = PartitionId> {
    // A few numbers, so that changes meet.
    let number = || prop_oneof![0u32..3, any::<u32>()];
    (number(), number()).prop_map(|(topic, number)| PartitionId { topic: TopicId(topic), number })
}

fn id() -> impl Strategy<Value = u128> {
    prop_oneof![0u128..3, any::<u128>()]
}

fn producer() -> impl Strategy<Value = Producer> {
    let scope = prop_oneof![Just(Scope::Producer), Just(Scope::Topic)];
    let topics = prop::collection::btree_set(any::<u32>().prop_map(TopicId), 0..4);
    (".{0,20}", scope, any::<i64>(), any::<i64>(), topics).prop_map(
        |(name, scope, used, forget, topics)| Producer {
            name,
            scope,
            used: Wall(used),
            forget: Wall(forget),
            topics,
        },
    )
}

fn remembered() -> impl Strategy<Value = Remembered> {
    let place = prop_oneof![
        4 => (partition_id(), prop_oneof![0u64..20, any::<u64>()]).prop_map(|(p, o)| Place::At(p, o)),
        1 => id().prop_map(|id| Place::Scheduled(ScheduledId(id))),
    ];
    (prop_oneof![0u64..20, any::<u64>()], any::<u32>(), place)
        .prop_map(|(sequence, crc, place)| Remembered { sequence, crc, place })
}

/// Single ones, and runs of sequences and offsets.
fn stored() -> impl Strategy<Value = Vec<Remembered>> {
    let run = (remembered(), 1u64..5).prop_map(|(first, count)| {
        let one = |n: u64| Remembered {
            sequence: first.sequence.wrapping_add(n),
            place: match first.place {
                Place::At(partition, offset) => Place::At(partition, offset.wrapping_add(n)),
                scheduled @ Place::Scheduled(_) => scheduled,
            },
            ..first
        };
        (0..count).map(one).collect::<Vec<_>>()
    });
    prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat())
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn message() -> impl Strategy<Value = Message> {
    let headers = prop::collection::vec((bytes(), bytes()), 0..4);
    let rest = (any::<Option<u32>>(), any::<Option<i64>>(), any::<Option<u64>>());
    (prop::option::of(bytes()), bytes(), headers, rest).prop_map(
        |(key, payload, headers, (partition, deliver_at, ttl))| Message {
            key,
            payload,
            headers: headers.into_iter().map(|(name, value)| Header { name, value }).collect(),
            partition,
            deliver_at: deliver_at.map(Wall),
            ttl: ttl.map(Span),
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let some_topic = || prop::option::of((0u32..3).prop_map(TopicId));
    prop_oneof![
        1 => any::<u32>().prop_map(|n| Change::NextTopic(TopicId(n))),
        1 => (any::<u32>(), name(), any::<u32>(), settings(), any::<i64>()).prop_map(
            |(id, name, partitions, settings, created)| Change::TopicCreated(Topic {
                id: TopicId(id),
                name,
                partitions,
                settings,
                created: Wall(created),
            })
        ),
        1 => (name(), settings()).prop_map(|(name, settings)| Change::TopicAltered(name, settings)),
        1 => (name(), any::<u32>()).prop_map(|(name, count)| Change::TopicGrown(name, count)),
        1 => name().prop_map(Change::TopicDeleted),
        1 => (0u32..3, name()).prop_map(|(id, name)| Change::TopicNamed(TopicId(id), name)),
        1 => (0u32..3).prop_map(|id| Change::TopicUnnamed(TopicId(id))),
        1 => partition_id().prop_map(Change::PartitionOpened),
        1 => partition_id().prop_map(Change::PartitionClosed),
        1 => (partition_id(), any::<u64>(), any::<u32>(), any::<i64>(), any::<u32>()).prop_map(
            |(partition, base, count, last, bytes)| Change::Appended {
                partition,
                base,
                count,
                last: Wall(last),
                bytes,
                batch: Bytes::new(),
            }
        ),
        1 => (partition_id(), any::<u64>(), any::<u64>())
            .prop_map(|(partition, start, bytes)| Change::Trimmed { partition, start, bytes }),
        1 => (id(), producer()).prop_map(|(id, one)| Change::ProducerSeen(ProducerId(id), one)),
        1 => id().prop_map(|id| Change::ProducerForgotten(ProducerId(id))),
        1 => (id(), some_topic(), stored(), 0u32..9, 0u32..5).prop_map(
            |(id, topic, stored, remembered_max, missing_max)| Change::Sequenced {
                producer: ProducerId(id),
                topic,
                stored,
                remembered_max,
                missing_max,
            }
        ),
        1 => (id(), some_topic()).prop_map(|(id, t)| Change::SequencesForgotten(ProducerId(id), t)),
        1 => (id(), 0u32..3, any::<i64>(), any::<Option<(u128, u64)>>(), message()).prop_map(
            |(id, topic, due, producer, message)| {
                let producer = producer.map(|(id, sequence)| (ProducerId(id), sequence));
                let (id, topic, due) = (ScheduledId(id), TopicId(topic), Wall(due));
                Change::Scheduled(Box::new(Scheduled { id, topic, due, producer, message }))
            }
        ),
        1 => id().prop_map(|id| Change::Unscheduled(ScheduledId(id))),
        12 => group_change().prop_map(Change::Group),
    ]
}

fn run() -> impl Strategy<Value = Run> {
    prop_oneof![
        4 => (0u64..40, 0u64..8).prop_map(|(first, more)| (first, first + more)),
        1 => any::<(u64, u64)>().prop_map(|(a, b)| (a.min(b), a.max(b))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let keys = prop::collection::vec(0u32..3, 1..8);
    let runs = || prop::collection::vec(run(), 0..4);
    let letter = prop::option::of((partition_id(), any::<u64>()));
    let error = prop::option::of(".{0,9}".prop_map(Arc::<str>::from));
    prop_oneof![
        prop_oneof![0u64..20, any::<u64>()].prop_map(|at| Step::Begin { at }),
        keys.prop_map(|keys| Step::Known { count: keys.len() as u64, keys: Keys::of(keys) }),
        any::<u64>().prop_map(|count| Step::Known { count, keys: Keys::default() }),
        (0u64..30, 0u128..3, 0u64..9, runs()).prop_map(|(lease, member, deadline, runs)| {
            let (lease, member, deadline) = (LeaseId(lease), MemberId(member), Steady(deadline));
            Step::Lease { lease, member, deadline, runs }
        }),
        run().prop_map(Step::Done),
        (run(), letter).prop_map(|(run, letter)| Step::Dead { run, letter }),
        (run(), 0u64..9, 0u32..4, error).prop_map(|(run, until, attempt, error)| {
            Step::Wait { run, until: Steady(until), attempt, error }
        }),
        (0u64..30, any::<u64>()).prop_map(|(lease, at)| {
            Step::Extend { lease: LeaseId(lease), deadline: Steady(at) }
        }),
        prop_oneof![0u64..40, any::<u64>()].prop_map(|below| Step::Lost { below }),
        prop::option::of(run()).prop_map(Step::Damaged),
    ]
}

fn group_settings() -> impl Strategy<Value = GroupSettings> {
    let order = prop_oneof![Just(Order::Key), Just(Order::Partition), Just(Order::Free)];
    let start = prop_oneof![Just(Start::Earliest), Just(Start::Latest)];
    let numbers = any::<(u32, u32, u64, u64, u64)>();
    (prop::collection::vec(name(), 0..3), start, order, name(), numbers).prop_map(
        |(topics, start, order, dead_letter, (max_attempts, in_flight_max, a, b, c))| {
            GroupSettings {
                topics,
                start,
                order,
                max_attempts,
                dead_letter,
                lease: Span(a),
                backoff: Span(b),
                backoff_max: Span(c),
                in_flight_max,
            }
        },
    )
}

fn members() -> impl Strategy<Value = Members> {
    let partitions = || prop::collection::vec(partition_id(), 0..3);
    let member = (
        (".{0,9}", prop::option::of(".{0,9}"), prop::collection::vec(name(), 0..3)),
        (any::<u64>(), any::<u64>(), any::<i64>(), partitions(), partitions()),
    );
    let member = member.prop_map(
        |((client, instance, topics), (session, deadline, since, assigned, former))| Member {
            client,
            instance,
            topics,
            session: Span(session),
            deadline: Steady(deadline),
            since: Wall(since),
            assigned,
            former,
        },
    );
    let given = (name(), any::<u32>(), any::<u32>());
    let given =
        given.prop_map(|(name, id, partitions)| Given { name, id: TopicId(id), partitions });
    let members = prop::collection::btree_map(id().prop_map(MemberId), member, 0..3);
    (any::<u64>(), members, prop::collection::vec(given, 0..3))
        .prop_map(|(generation, members, given)| Members { generation, members, given })
}

fn group_change() -> impl Strategy<Value = GroupChange> {
    let group = || (0u64..3).prop_map(GroupId);
    let text = || "[0-2]".prop_map(|text| text.parse::<GroupName>().unwrap());
    // Two groups never share a number.
    let made = (0u64..3, group_settings(), any::<i64>());
    let made = made.prop_map(|(id, settings, created)| {
        (id, id.to_string().parse().unwrap(), settings, created)
    });
    prop_oneof![
        1 => made.prop_map(|(id, name, settings, created)| {
            let (id, created) = (GroupId(id), Wall(created));
            GroupChange::Made(Box::new(Group { id, name, settings, created }))
        }),
        1 => (text(), group_settings())
            .prop_map(|(name, settings)| GroupChange::Altered(name, Box::new(settings))),
        1 => text().prop_map(GroupChange::Deleted),
        1 => (group(), members()).prop_map(|(id, all)| GroupChange::Members(id, Box::new(all))),
        1 => group().prop_map(GroupChange::MembersGone),
        1 => (group(), id(), any::<u64>())
            .prop_map(|(id, who, at)| GroupChange::Seen(id, MemberId(who), Steady(at))),
        8 => (group(), partition_id(), prop::collection::vec(step(), 0..9))
            .prop_map(|(id, partition, steps)| GroupChange::Moved(id, partition, steps)),
        1 => (group(), partition_id()).prop_map(|(id, at)| GroupChange::PositionGone(id, at)),
        1 => (group(), partition_id(), prop::collection::vec(run(), 0..4))
            .prop_map(|(id, at, runs)| GroupChange::Replayed(id, at, runs)),
        1 => (group(), partition_id()).prop_map(|(id, at)| GroupChange::ReplayedGone(id, at)),
    ]
}

fn encoded(change: &Change) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_change(change, &mut bytes);
    bytes
}

fn keys(state: &State) -> Vec<Key> {
    state.keys_from(&Key::Counters).collect()
}

proptest! {
    #[test]
    fn a_change_reads_back_and_tells_where_it_ends(change in change(), behind in bytes()) {
        let mut bytes = encoded(&change);
        bytes.extend_from_slice(&behind);
        let (read, rest) = decode_change(&bytes).unwrap();
        prop_assert_eq!(read, change);
        prop_assert_eq!(rest, &behind[..]);
    }

    #[test]
    fn a_change_that_is_cut_is_not_read(change in change(), cut in any::<prop::sample::Index>()) {
        let bytes = encoded(&change);
        let cut = cut.index(bytes.len());
        prop_assert!(decode_change(&bytes[..cut]).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_not_and_what_is_read_is_written_the_same(
        kind in prop_oneof![0u8..20, 30u8..44],
        bytes in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..80),
    ) {
        let bytes = [vec![kind], bytes].concat();
        if let Ok((change, rest)) = decode_change(&bytes) {
            prop_assert_eq!(&encoded(&change)[..], &bytes[..bytes.len() - rest.len()]);
        }
        if let Ok((key, aggregate, rest)) = decode_aggregate(&bytes) {
            let mut out = Vec::new();
            encode_aggregate(&key, &aggregate, &mut out);
            prop_assert_eq!(&out[..], &bytes[..bytes.len() - rest.len()]);
        }
    }

    /// Nobody decides such changes; whoever replays them must not fall over, and a state must not
    /// depend on how it came about.
    #[test]
    fn any_changes_can_become_true_and_their_state_reads_back(
        changes in prop::collection::vec(change(), 0..40),
    ) {
        let mut state = State::default();
        for change in &changes {
            // Two topics never share a number.
            if let Change::TopicCreated(topic) = change
                && state.topic_by_id(topic.id).is_some()
            {
                continue;
            }
            Streams::evolve(&mut state, change);
        }
        let mut loaded = State::default();
        for key in keys(&state).iter().rev() {
            let mut bytes = Vec::new();
            encode_aggregate(key, &state.aggregate(key).unwrap(), &mut bytes);
            let (read, aggregate, rest) = decode_aggregate(&bytes).unwrap();
            prop_assert_eq!((&read, rest.len()), (key, 0));
            loaded.put(&read, Some(aggregate));
        }
        prop_assert_eq!(&loaded, &state);
        for key in keys(&state) {
            loaded.put(&key, None);
        }
        prop_assert_eq!(loaded, State::default());
    }

    /// Chunks of a checkpoint are true at different times: what is skipped by key must be enough.
    #[test]
    fn replay_that_skips_what_a_chunk_has_gives_the_same_state(
        changes in prop::collection::vec(change(), 1..40),
        cut in any::<prop::sample::Index>(),
        split in any::<prop::sample::Index>(),
    ) {
        let mut numbers = std::collections::BTreeSet::new();
        let changes: Vec<_> = changes
            .into_iter()
            .filter(|change| match change {
                Change::TopicCreated(topic) => numbers.insert(topic.id),
                _ => true,
            })
            .collect();
        let cut = cut.index(changes.len() + 1);
        let mut live = State::default();
        let mut at_cut = State::default();
        for (n, change) in changes.iter().enumerate() {
            if n == cut {
                at_cut = live.clone();
            }
            Streams::evolve(&mut live, change);
        }
        if cut == changes.len() {
            at_cut = live.clone();
        }
        // The chunk below `middle` is true at the cut, the one above it at the beginning.
        let all: Vec<Key> = changes.iter().map(Change::key).collect();
        let middle = match all.is_empty() {
            true => Key::Counters,
            false => all[split.index(all.len())].clone(),
        };
        let mut rebuilt = State::default();
        for key in keys(&at_cut).iter().filter(|key| **key < middle) {
            rebuilt.put(key, at_cut.aggregate(key));
        }
        for (n, change) in changes.iter().enumerate() {
            if n >= cut || change.key() >= middle {
                Streams::evolve(&mut rebuilt, change);
            }
        }
        prop_assert_eq!(rebuilt, live);
    }

    #[test]
    fn keys_sort_as_their_bytes_and_read_back(
        a in change().prop_map(|change| change.key()),
        b in change().prop_map(|change| change.key()),
    ) {
        prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
        prop_assert_eq!(Key::from_bytes(&a.to_bytes()), Some(a));
    }

    #[test]
    fn any_bytes_are_a_key_or_none(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
        if let Some(key) = Key::from_bytes(&bytes) {
            prop_assert_eq!(&key.to_bytes()[..], &bytes[..]);
        }
    }

    #[test]
    fn keys_go_on_from_any_key(
        changes in prop::collection::vec(change(), 0..30),
        from in change().prop_map(|change| change.key()),
    ) {
        let mut state = State::default();
        changes.iter().for_each(|change| Streams::evolve(&mut state, change));
        let expected: Vec<_> = keys(&state).into_iter().filter(|key| *key >= from).collect();
        prop_assert_eq!(state.keys_from(&from).collect::<Vec<_>>(), expected);
    }
}

/// The bytes on disk are a format: whoever changes them adds a kind.
#[test]
fn bytes_are_what_they_were() {
    let partition = PartitionId { topic: TopicId(1), number: 300 };
    let appended = Change::Appended {
        partition,
        base: 5,
        count: 2,
        last: Wall(-1),
        bytes: 128,
        batch: Bytes::from_static(b"travels beside"),
    };
    assert_eq!(encoded(&appended), [8, 1, 0xac, 2, 5, 2, 1, 0x80, 1]);
    let one = |sequence, offset| Remembered {
        sequence,
        crc: 0x0403_0201,
        place: Place::At(partition, offset),
    };
    let sequenced = Change::Sequenced {
        producer: ProducerId(1),
        topic: Some(TopicId(7)),
        stored: vec![one(3, 9), one(4, 10), one(6, 11)],
        remembered_max: 8,
        missing_max: 3,
    };
    let guid = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let expected: Vec<u8> = [
        &[12][..],
        &guid,
        &[1, 7, 8, 3, 2],
        &[3, 2, 0, 1, 0xac, 2, 9, 1, 2, 3, 4, 1, 2, 3, 4],
        &[6, 1, 0, 1, 0xac, 2, 11, 1, 2, 3, 4],
    ]
    .concat();
    assert_eq!(encoded(&sequenced), expected);
    let named = Change::TopicNamed(TopicId(300), topic("ab"));
    assert_eq!(encoded(&named), [16, 0xac, 2, 2, b'a', b'b']);
    assert_eq!(encoded(&Change::TopicUnnamed(TopicId(3))), [17, 3]);
    let seen = |topics: &[u32]| Producer {
        name: "n".to_owned(),
        scope: Scope::Topic,
        used: Wall(1),
        forget: Wall(2),
        topics: topics.iter().copied().map(TopicId).collect(),
    };
    let seen = |topics| encoded(&Change::ProducerSeen(ProducerId(1), seen(topics)));
    assert_eq!(seen(&[]), [&[10][..], &guid, &[1, b'n', 1, 2, 4]].concat());
    assert_eq!(seen(&[2, 3, 9]), [&[18][..], &guid, &[1, b'n', 1, 2, 4, 3, 2, 0, 5]].concat());
}

#[test]
fn a_batch_is_not_among_the_bytes_of_its_change() {
    let change = Change::Appended {
        partition: PartitionId::default(),
        base: 0,
        count: 1,
        last: Wall(0),
        bytes: 3,
        batch: Bytes::from_static(b"abc"),
    };
    let (read, _) = decode_change(&encoded(&change)).map(|(c, r)| (c, r.len())).unwrap();
    assert!(matches!(read, Change::Appended { batch, .. } if batch.is_empty()));
}

#[test]
fn a_partition_that_ends_before_it_begins_is_refused() {
    let written = |start, end| {
        let partition = Partition { start, end, ..Partition::default() };
        let (key, mut out) = (Key::Partition(PartitionId::default()), Vec::new());
        encode_aggregate(&key, &Aggregate::Partition(partition), &mut out);
        out
    };
    assert!(decode_aggregate(&written(4, 4)).is_ok());
    let refused = decode_aggregate(&written(5, 4)).unwrap_err();
    assert_eq!(refused.0, "a partition ends before it begins");
}

/// The number of the next lease is one above the last: were it another's, two members would hold the
/// same lease.
#[test]
fn a_position_that_cannot_have_come_about_is_refused() {
    let position = |ranges: &[u8], last_lease: u8, dead: &[u8]| {
        let lease = [&[1, 2][..], &[7; 16], &[9, 1, 10, 0]].concat();
        let end = [0, 0, 0];
        let parts = [&[34][..], &[0; 8], &[1, 0, 10], ranges, &lease, &[last_lease, 0], dead, &end];
        decode_aggregate(&parts.concat()).map(|(.., rest)| rest.len()).map_err(|bad| bad.0)
    };
    // One message is out under lease 2, offset 10.
    let (out, none) = (&[1, 1, 1, 2, 1, 0][..], &[0][..]);
    assert_eq!(position(out, 2, none), Ok(0));
    let refused = Err("what is known of messages does not fit together".to_owned());
    assert_eq!(position(out, 1, none), refused, "the next lease would be this one");
    let dead = |first: u8| [1, first, 0, 0];
    assert_eq!(position(out, 2, &dead(10)), Ok(0));
    assert_eq!(position(out, 2, &dead(11)), refused, "it was not looked at");
    let finished_first = [&[2, 1, 2][..], &out[1..]].concat();
    assert_eq!(position(&finished_first, 2, none), refused, "it is committed");
}

#[test]
fn an_aggregate_of_another_kind_than_its_key_is_not_put() {
    let mut state = State::default();
    let key = Key::Topic(topic("a"));
    state.put(&key, Some(Aggregate::Counters(TopicId(5))));
    assert_eq!(state, State::default());
}

//! Producers say who they are.

use std::collections::BTreeSet;

use handoff_types::{Decision, Entropy, Now, Sight, Span, Wall};

use crate::decide::Decided;
use crate::{Bounds, Change, Producer, ProducerId, Refusal, Registration, Reply, Scope, State};

/// How exactly it is known when a producer was last heard of. Finer, and every request of every
/// producer would be a change of it.
const USED_STEP: Span = Span::from_secs(3600);

pub(crate) fn register(
    state: &State,
    registration: &Registration,
    sight: &Sight,
    bounds: &Bounds,
    now: Now,
    entropy: Entropy,
) -> Result<Decided, Refusal> {
    let Registration { producer: id, name, scope } = registration;
    let name = name.as_deref();
    if name.is_some_and(|name| {
        name.len() > Producer::NAME_BYTES_MAX || name.chars().any(char::is_control)
    }) {
        let max = Producer::NAME_BYTES_MAX;
        return Err(Refusal::ProducerName(max));
    }
    let id = id.unwrap_or_else(|| guid(entropy));
    let known = state.producer(id);
    let mut producer = heard(known, now.wall, bounds);
    match known {
        None => {
            room_for_one(state, bounds)?;
            producer.scope = scope.unwrap_or_default();
        }
        Some(known) if scope.is_some_and(|scope| scope != known.scope) => {
            return Err(Refusal::ScopeFixed(match known.scope {
                Scope::Producer => "all its messages",
                Scope::Topic => "its messages to each topic",
            }));
        }
        Some(_) => {}
    }
    if let Some(name) = name {
        name.clone_into(&mut producer.name);
    }
    let scope = producer.scope;
    let changes = match known == Some(&producer) {
        true => Vec::new(),
        false => vec![Change::ProducerSeen(id, producer)],
    };
    let last = state.sequences(id, None).and_then(|all| all.floor.map(|_| all.last));
    let mut last_by_topic: Vec<_> = state
        .sequences_of(id)
        .filter_map(|(topic, sequences)| {
            let name = state.name(topic?)?;
            let seen = sequences.floor.is_some() && sight.sees(name.as_str());
            seen.then(|| (name.clone(), sequences.last))
        })
        .collect();
    last_by_topic.sort();
    let reply = Reply::Registered { producer: id, scope, last, last_by_topic };
    Ok(Decision { reply, changes, actions: Vec::new() })
}

/// What is to be known of a producer that is heard of now.
pub(crate) fn heard(known: Option<&Producer>, wall: Wall, bounds: &Bounds) -> Producer {
    let step = i64::try_from(USED_STEP.0).unwrap_or(i64::MAX);
    let hour = Wall(wall.0.saturating_sub(wall.0.rem_euclid(step)));
    match known {
        // A clock that was set back makes nobody forgotten earlier.
        Some(known) if known.used >= hour => known.clone(),
        _ => Producer {
            name: known.map_or_else(String::new, |known| known.name.clone()),
            scope: known.map_or(Scope::Producer, |known| known.scope),
            used: hour,
            // It may have been heard of until the end of that hour.
            forget: hour + USED_STEP + bounds.producer_idle,
            topics: known.map_or_else(BTreeSet::new, |known| known.topics.clone()),
        },
    }
}

/// Whether another producer fits.
pub(crate) fn room_for_one(state: &State, bounds: &Bounds) -> Result<(), Refusal> {
    let max = bounds.producers_max;
    if state.counts().producers >= max {
        return Err(Refusal::Limit(format!(
            "streams.producers_max allows {max} producers; one that is idle for \
             streams.producer_idle_hours is forgotten"
        )));
    }
    Ok(())
}

/// A random GUID as RFC 9562 has it: version 4.
fn guid(entropy: Entropy) -> ProducerId {
    let words = u128::from(entropy.word(0)) << 64 | u128::from(entropy.word(1));
    ProducerId(words & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62)
}

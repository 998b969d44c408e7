//! What may become an event.

use std::collections::VecDeque;
use std::sync::Arc;

use handoff_types::{Decision, Entropy, Now, Sight, Span};

use crate::decide::Decided;
use crate::outlet::{NAME_BYTES_MAX, guid};
use crate::schedule::secs;
use crate::{
    BadSchedule, Bounds, Change, Due, Event, Id, Outlet, Period, Publish, Refusal, Registered,
    Registration, Repeat, Reply, Schedule, Source, State, Totals,
};

/// Decides a registration. A refused one takes no id; one that never occurs takes one and leaves
/// nothing behind.
pub(crate) fn register(
    state: &State,
    asked: &Registration,
    bounds: &Bounds,
    sight: &Sight,
    (now, entropy): (Now, Entropy),
) -> Decided {
    let (id, event) = match admit(state, asked, bounds, sight, now) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            let reply = Reply::Refused(refusal);
            return Decision { reply, changes: Vec::new(), actions: Vec::new() };
        }
    };
    let next = event.as_ref().map(|event| event.due.wall(now));
    let outlet = event.as_ref().zip(asked.publish.as_ref());
    let opened = outlet.map(|(event, publish)| Change::Opened {
        id,
        outlet: Box::new(open(event, publish, entropy)),
    });
    let registered = event.map(|event| Change::Registered { id, event });
    let counted = Change::Counted(Totals { registered: 1, ..Totals::default() });
    Decision {
        reply: Reply::Registered(Registered { id, at: now.wall, next }),
        changes: registered.into_iter().chain(opened).chain([counted]).collect(),
        actions: Vec::new(),
    }
}

fn admit(
    state: &State,
    asked: &Registration,
    bounds: &Bounds,
    sight: &Sight,
    now: Now,
) -> Result<(Id, Option<Box<Event>>), Refusal> {
    let repeat = repeat(asked.repeat)?;
    let bytes = asked.description.len();
    if bytes > bounds.description_bytes_max {
        return Err(Refusal::Description { bytes, max: bounds.description_bytes_max });
    }
    let types = types(&asked.types, bounds, sight)?;
    let due = first(&asked.schedule, asked.repeat, bounds, now)?;
    asked.publish.as_ref().map_or(Ok(()), check_publish)?;
    let id = state.next_id().ok_or(Refusal::Exhausted)?;
    let Some(repeat) = repeat else { return Ok((id, None)) };
    // What is left of events that are gone counts for those that leave something behind.
    let left = asked.publish.as_ref().map_or(0, |_| state.outlets().ended());
    let there = (state.len() as u64).saturating_add(left);
    if there >= bounds.events_max {
        return Err(Refusal::Full(there));
    }
    let event = Event {
        description: asked.description.as_str().into(),
        types,
        schedule: asked.schedule.clone(),
        repeat,
        updated: now.wall,
        due,
        occurrences: 0,
        skipped: 0,
    };
    Ok((id, Some(Box::new(event))))
}

fn open(event: &Event, publish: &Publish, entropy: Entropy) -> Outlet {
    let source = Source {
        producer: guid(entropy),
        topic: publish.topic.as_str().into(),
        key: publish.key.as_deref().map(Into::into),
        description: event.description.clone(),
        types: event.types.clone(),
    };
    Outlet { source: Arc::new(source), ended: false, next: 1, waiting: VecDeque::new() }
}

fn check_publish(publish: &Publish) -> Result<(), Refusal> {
    let fits = |name: &str| (1..=NAME_BYTES_MAX).contains(&name.len());
    let refused =
        |what: &str| Err(Refusal::Publish(format!("the {what} has 1 to {NAME_BYTES_MAX} bytes")));
    if !fits(&publish.topic) {
        return refused("name of the topic to publish to");
    }
    if !publish.key.as_deref().is_none_or(fits) {
        return refused("key to publish with");
    }
    Ok(())
}

/// None: it never occurs.
fn repeat(asked: i32) -> Result<Option<Repeat>, Refusal> {
    match asked {
        ..-1 => Err(Refusal::Repeat(asked)),
        -1 => Ok(Some(Repeat::Forever)),
        0 => Ok(None),
        1.. => Ok(Some(Repeat::Left(asked.unsigned_abs()))),
    }
}

fn types(asked: &[String], bounds: &Bounds, sight: &Sight) -> Result<Box<[Arc<str>]>, Refusal> {
    let mut names: Vec<&str> = asked.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let refused = |words: String| Err(Refusal::Types(words));
    if names.len() > bounds.types_max {
        return refused(format!(
            "there are {} types; an event has at most {}",
            names.len(),
            bounds.types_max
        ));
    }
    if names.first().is_some_and(|name| name.is_empty()) {
        return refused("a type has no name".to_owned());
    }
    if let Some(name) = names.iter().find(|name| name.len() > bounds.type_bytes_max) {
        return refused(format!(
            "the name of a type has {} bytes; at most {} are kept",
            name.len(),
            bounds.type_bytes_max
        ));
    }
    if let Some(name) = names.iter().find(|name| !sight.sees(name)) {
        return Err(Refusal::OutOfSight(format!("your token does not cover the type {name}")));
    }
    if names.is_empty() && *sight != Sight::All {
        let words = "an event without a type is seen only by tokens for all events; name a type that your token covers";
        return Err(Refusal::OutOfSight(words.to_owned()));
    }
    Ok(names.into_iter().map(Arc::from).collect())
}

/// When it is due first.
fn first(schedule: &Schedule, repeat: i32, bounds: &Bounds, now: Now) -> Result<Due, BadSchedule> {
    match schedule {
        Schedule::Every(period) => {
            check_period(*period, bounds)?;
            Ok(Due::Steady(now.steady + period.span()))
        }
        Schedule::Cron(cron) => cron.next_after(now.wall).map(Due::Wall).ok_or_else(|| {
            BadSchedule(format!(
                "`{}` in {} never comes: no month it names has such a day, or the calendar ends",
                cron.expression(),
                cron.zone()
            ))
        }),
        Schedule::At(at) => {
            if !matches!(repeat, 0 | 1) {
                return Err(BadSchedule(format!(
                    "repeat is {repeat}; an event at one time occurs once, so it must be 1"
                )));
            }
            if *at < now.wall {
                return Err(BadSchedule(format!(
                    "the time was {} seconds ago; it must be still to come",
                    secs(now.wall.since(*at))
                )));
            }
            if at.since(now.wall) > bounds.period_max {
                return Err(BadSchedule(format!(
                    "the time is more than {} seconds away, the most there is",
                    secs(bounds.period_max)
                )));
            }
            Ok(Due::Wall(*at))
        }
    }
}

/// Compared as the numbers that were sent: 0.09999999 is below 0.1 also where microseconds cannot
/// tell.
fn check_period(period: Period, bounds: &Bounds) -> Result<(), BadSchedule> {
    let given = period.secs();
    let (min, max) = (secs(bounds.period_min), secs(bounds.period_max));
    if given > max {
        return Err(BadSchedule(format!("the period is {given} seconds; {max} are the most")));
    }
    if given < min {
        return Err(BadSchedule(format!(
            "the period is {given} seconds; {min} are the least (events.period_min_secs)"
        )));
    }
    if period.span() == Span::ZERO {
        return Err(BadSchedule(format!("the period is {given} seconds; it must take time")));
    }
    Ok(())
}

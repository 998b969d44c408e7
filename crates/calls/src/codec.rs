//! Changes and aggregates as bytes, for every store.
//!
//! ```text
//! change      │ kind u8 │ …
//!              1 registered    │ call
//!              2 offered       │ id │ executor │ fence │ until │ at signed
//!              3 accepted      │ id │ attempt │ until │ at signed
//!              4 extended      │ id │ until
//!              5 returned      │ id │ after? │ attempt │ why u8 │ at signed
//!              6 ended         │ id │ outcome │ by? │ attempt │ dead flag │ forget │ at signed
//!              7 acknowledged  │ id │ at signed
//!              8 buried        │ id │ forget
//!              9 forgotten     │ id
//!             10 channel       │ name │ settings
//!             11 channel gone  │ name
//!             12 fences        │ above │ until
//! aggregate   │ kind u8 │ …
//!              1 channel       │ name │ settings
//!              2 call          │ call
//!              3 fences        │ until
//!
//! call         │ id │ seq │ caller? │ channel │ params │ digest u64 │ key? │ trace? │ again for?
//!              │ created signed │ deadline │ begin by? │ fence │ attempt │ taken? (client │ fence)
//!              │ stage │ how many │ (at signed │ what u8 │ who?) × how many
//! stage        │ 0 │ waiting  │ 1 │ until │ later  │ 2 │ executor │ until │ offered
//!              │ 3 │ executor │ until │ running  │ 4 │ leader │ following
//!              │ 5 │ outcome │ at signed │ forget │ acked flag │ dead flag │ ended
//! outcome      │ 0 │ body │ answer  │ 1 │ 0 │ name │ message │ code │ the handler failed
//!              │ 1 │ 1 │ its executor was lost  │ 1 │ 2 │ nobody was there
//!              │ 2 │ 0 in the queue, 1 as a whole │ timeout  │ 3 │ cancelled
//! settings     │ fail when lost flag │ attempts │ back-off │ back-off at most │ lease │ queue timeout?
//!              │ durability u8: 0 disk, 1 memory │ fail without consumer flag
//! ```
//!
//! Ids are 16 bytes, big-endian. Numbers are LEB128, seven bits a byte, low bits first, shortest form
//! only; signed ones are zigzag first. A digest is little-endian. A name, a text or a body is its length
//! and its bytes; what has a `?` is 0, or 1 and itself; a flag is 0 or 1. Times are microseconds.
//!
//! What is never kept ([`Keep::Never`](crate::Keep::Never)) has no bytes: writing it is a mistake of
//! whoever does, and writes nothing. A kind never gets another meaning: whatever is to be said in
//! another way gets a new one.

mod front;
mod out;

use thiserror::Error;

use self::front::{Front, bad};
use self::out::Out;
use crate::{Aggregate, Change, Durability, Failure, TimedOut};

/// Bytes that are not what this version writes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Undecodable(pub String);

/// Appends a change's bytes. They tell where they end. What speaks of clients has none.
pub fn encode_change(change: &Change, out: &mut Vec<u8>) {
    let mut out = Out(out);
    match change {
        Change::Registered(call) => out.kind(1).call(call),
        Change::Offered { call, executor, fence, until, at } => {
            out.kind(2).id(call.number());
            out.client(*executor);
            out.number(*fence);
            out.number(until.0);
            out.signed(at.0);
        }
        Change::Accepted { call, attempt, until, at } => {
            out.kind(3).id(call.number());
            out.number((*attempt).into());
            out.number(until.0);
            out.signed(at.0);
        }
        Change::Extended { call, until } => {
            out.kind(4).id(call.number());
            out.number(until.0);
        }
        Change::Returned { call, after, attempt, why, at } => {
            out.kind(5).id(call.number());
            out.option(*after, |out, after| out.number(after.0));
            out.number((*attempt).into());
            out.byte(*why as u8);
            out.signed(at.0);
        }
        Change::Ended { call, outcome, by, attempt, dead, forget, at } => {
            out.kind(6).id(call.number());
            out.outcome(outcome);
            out.option(*by, Out::client);
            out.number((*attempt).into());
            out.flag(*dead);
            out.number(forget.0);
            out.signed(at.0);
        }
        Change::Acknowledged { call, at } => {
            out.kind(7).id(call.number());
            out.signed(at.0);
        }
        Change::Buried { call, forget } => {
            out.kind(8).id(call.number());
            out.number(forget.0);
        }
        Change::Forgotten(call) => out.kind(9).id(call.number()),
        Change::Channel(name, settings) => {
            out.kind(10).text(name.as_str());
            out.settings(settings);
        }
        Change::ChannelGone(name) => out.kind(11).text(name.as_str()),
        Change::Fences { above, until } => {
            out.kind(12).number(*above);
            out.number(*until);
        }
        Change::Client(_) | Change::Heard { .. } | Change::ClientGone(_) => {
            debug_assert!(false, "{change:?} is never kept");
        }
    }
}

/// Reads the change at the front of `bytes` and gives what stands behind it.
///
/// # Errors
/// [`Undecodable`] for anything [`encode_change`] does not write.
pub fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
    let mut front = Front(bytes);
    let change = match front.byte()? {
        1 => Change::Registered(Box::new(front.call()?)),
        2 => Change::Offered {
            call: front.call_id()?,
            executor: front.client()?,
            fence: front.number()?,
            until: front.steady()?,
            at: front.wall()?,
        },
        3 => Change::Accepted {
            call: front.call_id()?,
            attempt: front.tiny()?,
            until: front.steady()?,
            at: front.wall()?,
        },
        4 => Change::Extended { call: front.call_id()?, until: front.steady()? },
        5 => Change::Returned {
            call: front.call_id()?,
            after: front.option(Front::steady)?,
            attempt: front.tiny()?,
            why: front.happened()?,
            at: front.wall()?,
        },
        6 => Change::Ended {
            call: front.call_id()?,
            outcome: front.outcome()?,
            by: front.option(Front::client)?,
            attempt: front.tiny()?,
            dead: front.flag()?,
            forget: front.steady()?,
            at: front.wall()?,
        },
        7 => Change::Acknowledged { call: front.call_id()?, at: front.wall()? },
        8 => Change::Buried { call: front.call_id()?, forget: front.steady()? },
        9 => Change::Forgotten(front.call_id()?),
        10 => Change::Channel(front.name()?, front.settings()?),
        11 => Change::ChannelGone(front.name()?),
        12 => Change::Fences { above: front.number()?, until: front.number()? },
        kind => return Err(Undecodable(format!("{kind} is no kind of change"))),
    };
    Ok((change, front.0))
}

/// Appends an aggregate's bytes, its key among them. They tell where they end.
pub fn encode_aggregate(aggregate: &Aggregate, out: &mut Vec<u8>) {
    let mut out = Out(out);
    match aggregate {
        Aggregate::Channel(name, settings) => {
            out.kind(1).text(name.as_str());
            out.settings(settings);
        }
        Aggregate::Call(call) => out.kind(2).call(call),
        Aggregate::Fences(until) => out.kind(3).number(*until),
    }
}

/// Reads the aggregate at the front of `bytes` and gives what stands behind it.
///
/// # Errors
/// [`Undecodable`] for anything [`encode_aggregate`] does not write.
pub fn decode_aggregate(bytes: &[u8]) -> Result<(Aggregate, &[u8]), Undecodable> {
    let mut front = Front(bytes);
    let aggregate = match front.byte()? {
        1 => Aggregate::Channel(front.name()?, front.settings()?),
        2 => Aggregate::Call(Box::new(front.call()?)),
        3 => Aggregate::Fences(front.number()?),
        kind => return Err(Undecodable(format!("{kind} is no kind of aggregate"))),
    };
    Ok((aggregate, front.0))
}

const fn failed_number(failure: &Failure) -> u8 {
    match failure {
        Failure::Handler(_) => 0,
        Failure::ExecutorLost => 1,
        Failure::NoConsumer => 2,
    }
}

const fn timed_out_number(which: TimedOut) -> u8 {
    match which {
        TimedOut::InQueue => 0,
        TimedOut::Deadline => 1,
    }
}

fn timed_out_of(number: u8) -> Result<TimedOut, Undecodable> {
    match number {
        0 => Ok(TimedOut::InQueue),
        1 => Ok(TimedOut::Deadline),
        _ => bad("a call has two times"),
    }
}

const fn durability_number(durability: Durability) -> u8 {
    match durability {
        Durability::Disk => 0,
        Durability::Memory => 1,
    }
}

fn durability_of(number: u8) -> Result<Durability, Undecodable> {
    match number {
        0 => Ok(Durability::Disk),
        1 => Ok(Durability::Memory),
        _ => bad("there are two kinds of durability"),
    }
}

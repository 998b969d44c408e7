//! Changes and aggregates as bytes, for every store.
//!
//! ```text
//! change      │ kind u8 │ …
//!              1 counted              │ counters
//!              2 company              │ company
//!              3 company gone         │ number
//!              4 subsystem            │ subsystem
//!              5 subsystem gone       │ number
//!              6 database             │ database
//!              7 database gone        │ number
//!              8 device               │ device
//!              9 device gone          │ number
//!             10 route                │ company │ subsystem │ database
//!             11 route gone           │ company │ subsystem
//!             12 accepted             │ seq │ message
//!             13 placed               │ seq │ place │ since signed │ standing │ attempts │ silences
//!             14 forgotten            │ seq
//!             15 begun                │ process
//!             16 narrowed             │ number │ served list │ keyed flag
//!             17 extended             │ number │ deadline
//!             18 ready                │ number │ served list │ prepared list │ digest u64
//!                                     │ ready signed │ deadline │ lease
//!             19 turned               │ number │ phase │ ended? signed │ words? │ settled flag
//!             20 contradicted         │ number
//!             21 process forgotten    │ number
//!             22 logged               │ entry
//! aggregate   │ kind u8 │ …
//!              1 counters             │ counters
//!              2 company              │ company
//!              3 subsystem            │ subsystem
//!              4 database             │ database
//!              5 device               │ device
//!              6 route                │ company │ subsystem │ database
//!              7 message              │ seq │ message
//!              8 process              │ process
//!              9 log                  │ entry
//!
//! counters     │ seq │ process │ log │ entity
//! company      │ number │ id │ name │ created signed
//! subsystem    │ number │ id │ name │ created signed
//! database     │ number │ id │ company │ name │ token? 32 bytes │ created signed
//! device       │ number │ id │ company │ subsystem │ name │ token? 32 bytes
//!              │ code? (32 bytes │ expires signed) │ blocked flag │ created signed
//! message      │ id │ way u8: 0 to the ERP, 1 to a device │ database │ device │ subsystem │ type?
//!              │ created signed │ received signed │ by created flag │ bytes │ CRC-32C u32 │ digest u64
//!              │ attempts │ silences │ place │ since signed │ standing
//! place        u8: 0 Messages, 1 Prepared, 2 Log, 3 Unknown, 4 Error
//! standing     │ 0 │ free  │ 1 │ until │ late  │ 2 │ process │ served  │ 3 │ words │ aside
//! process      │ number │ nonce u64 │ database │ phase │ started signed │ deadline │ lease
//!              │ request key? │ served list │ prepared list │ digest u64 │ ready? signed
//!              │ ended? signed │ words? │ settled flag │ contradicted flag
//! phase        u8: 0 started, 1 ready, 2 cleanup, 3 failed, 4 done, 5 rolled back, 6 interrupted,
//!              7 expired, 8 unknown, 9 resolved as rolled back, 10 resolved as committed
//! served list  │ how many │ (seq │ status u8: 0 none, 1 processed, 2 deadlock, 3 incorrect │ error?) × how many
//! prepared list│ how many │ (seq │ notice flag) × how many
//! entry        │ number │ at signed │ database │ what u8 │ process? (number │ nonce u64)
//!              │ message? (seq │ id) │ code? signed │ words
//! ```
//!
//! Numbers are LEB128, seven bits a byte, low bits first, shortest form only; signed ones are zigzag
//! first. Digests, nonces and sums are little-endian. A name or a text is its length and its bytes;
//! what has a `?` is 0, or 1 and itself; a flag is 0 or 1. Times are microseconds.
//!
//! A kind never gets another meaning: whatever is to be said in another way gets a new one.

mod front;
mod out;

use bytes::Bytes;
use thiserror::Error;

use self::front::{Front, bad};
use self::out::Out;
use crate::{Aggregate, Change, CompanyNo, DatabaseNo, DeviceNo, Happened, Phase, Place, Seq};
use crate::{Status, SubsystemNo, Way};

/// Bytes that are not what this version writes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Undecodable(pub String);

/// Appends a change's bytes. They tell where they end. A body is not among them.
pub fn encode_change(change: &Change, out: &mut Vec<u8>) {
    let mut out = Out(out);
    match change {
        Change::Counted(counters) => out.kind(1).counters(counters),
        Change::Company(company) => out.kind(2).company(company),
        Change::CompanyGone(no) => out.kind(3).small(no.0),
        Change::Subsystem(subsystem) => out.kind(4).subsystem(subsystem),
        Change::SubsystemGone(no) => out.kind(5).small(no.0),
        Change::Database(database) => out.kind(6).database(database),
        Change::DatabaseGone(no) => out.kind(7).small(no.0),
        Change::Device(device) => out.kind(8).device(device),
        Change::DeviceGone(no) => out.kind(9).small(no.0),
        Change::Route(route) => out.kind(10).route(route),
        Change::RouteGone(company, subsystem) => {
            out.kind(11).small(company.0);
            out.small(subsystem.0);
        }
        Change::Accepted { seq, message, body: _ } => {
            out.kind(12).number(seq.0);
            out.message(message);
        }
        Change::Placed { seq, place, since, standing, attempts, silences } => {
            out.kind(13).number(seq.0);
            out.byte(place_number(*place));
            out.signed(since.0);
            out.standing(standing);
            out.small((*attempts).into());
            out.small((*silences).into());
        }
        Change::Forgotten(seq) => out.kind(14).number(seq.0),
        Change::Begun(process) => out.kind(15).process(process),
        Change::Narrowed { number, to_erp, keyed } => {
            out.kind(16).number(*number);
            out.served(to_erp);
            out.flag(*keyed);
        }
        Change::Extended { number, deadline } => {
            out.kind(17).number(*number);
            out.number(deadline.0);
        }
        Change::Ready { number, to_erp, from_erp, digest, ready, deadline, lease } => {
            out.kind(18).number(*number);
            out.served(to_erp);
            out.prepared(from_erp);
            out.raw(&digest.to_le_bytes());
            out.signed(ready.0);
            out.number(deadline.0);
            out.number(lease.0);
        }
        Change::Turned { number, phase, ended, words, settled } => {
            out.kind(19).number(*number);
            out.byte(phase_number(*phase));
            out.option(*ended, |out, ended| out.signed(ended.0));
            out.option(words.as_deref(), Out::text);
            out.flag(*settled);
        }
        Change::Contradicted(number) => out.kind(20).number(*number),
        Change::ProcessForgotten(number) => out.kind(21).number(*number),
        Change::Logged(entry) => out.kind(22).entry(entry),
    }
}

/// Reads the change at the front of `bytes` and gives what stands behind it.
///
/// # Errors
/// [`Undecodable`] for anything [`encode_change`] does not write.
pub fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
    let mut front = Front(bytes);
    let change = match front.byte()? {
        1 => Change::Counted(front.counters()?),
        2 => Change::Company(front.company()?),
        3 => Change::CompanyGone(CompanyNo(front.small()?)),
        4 => Change::Subsystem(front.subsystem()?),
        5 => Change::SubsystemGone(SubsystemNo(front.small()?)),
        6 => Change::Database(front.database()?),
        7 => Change::DatabaseGone(DatabaseNo(front.small()?)),
        8 => Change::Device(front.device()?),
        9 => Change::DeviceGone(DeviceNo(front.small()?)),
        10 => Change::Route(front.route()?),
        11 => Change::RouteGone(CompanyNo(front.small()?), SubsystemNo(front.small()?)),
        12 => Change::Accepted {
            seq: Seq(front.number()?),
            message: Box::new(front.message()?),
            body: Bytes::new(),
        },
        13 => Change::Placed {
            seq: Seq(front.number()?),
            place: front.place()?,
            since: front.wall()?,
            standing: front.standing()?,
            attempts: front.tiny()?,
            silences: front.tiny()?,
        },
        14 => Change::Forgotten(Seq(front.number()?)),
        15 => Change::Begun(Box::new(front.process()?)),
        16 => Change::Narrowed {
            number: front.number()?,
            to_erp: front.served()?,
            keyed: front.flag()?,
        },
        17 => Change::Extended { number: front.number()?, deadline: front.steady()? },
        18 => Change::Ready {
            number: front.number()?,
            to_erp: front.served()?,
            from_erp: front.prepared()?,
            digest: front.fixed()?,
            ready: front.wall()?,
            deadline: front.steady()?,
            lease: front.span()?,
        },
        19 => Change::Turned {
            number: front.number()?,
            phase: front.phase()?,
            ended: front.option(Front::wall)?,
            words: front.option(Front::words)?,
            settled: front.flag()?,
        },
        20 => Change::Contradicted(front.number()?),
        21 => Change::ProcessForgotten(front.number()?),
        22 => Change::Logged(front.entry()?),
        kind => return Err(Undecodable(format!("{kind} is no kind of change"))),
    };
    Ok((change, front.0))
}

/// Appends an aggregate's bytes, its key among them. They tell where they end.
pub fn encode_aggregate(aggregate: &Aggregate, out: &mut Vec<u8>) {
    let mut out = Out(out);
    match aggregate {
        Aggregate::Counters(counters) => out.kind(1).counters(counters),
        Aggregate::Company(company) => out.kind(2).company(company),
        Aggregate::Subsystem(subsystem) => out.kind(3).subsystem(subsystem),
        Aggregate::Database(database) => out.kind(4).database(database),
        Aggregate::Device(device) => out.kind(5).device(device),
        Aggregate::Route(route) => out.kind(6).route(route),
        Aggregate::Message(seq, message) => {
            out.kind(7).number(seq.0);
            out.message(message);
        }
        Aggregate::Process(process) => out.kind(8).process(process),
        Aggregate::Log(entry) => out.kind(9).entry(entry),
    }
}

/// Reads the aggregate at the front of `bytes` and gives what stands behind it.
///
/// # Errors
/// [`Undecodable`] for anything [`encode_aggregate`] does not write.
pub fn decode_aggregate(bytes: &[u8]) -> Result<(Aggregate, &[u8]), Undecodable> {
    let mut front = Front(bytes);
    let aggregate = match front.byte()? {
        1 => Aggregate::Counters(front.counters()?),
        2 => Aggregate::Company(front.company()?),
        3 => Aggregate::Subsystem(front.subsystem()?),
        4 => Aggregate::Database(front.database()?),
        5 => Aggregate::Device(front.device()?),
        6 => Aggregate::Route(front.route()?),
        7 => Aggregate::Message(Seq(front.number()?), Box::new(front.message()?)),
        8 => Aggregate::Process(Box::new(front.process()?)),
        9 => Aggregate::Log(front.entry()?),
        kind => return Err(Undecodable(format!("{kind} is no kind of aggregate"))),
    };
    Ok((aggregate, front.0))
}

const fn place_number(place: Place) -> u8 {
    match place {
        Place::Messages => 0,
        Place::Prepared => 1,
        Place::Log => 2,
        Place::Unknown => 3,
        Place::Error => 4,
    }
}

fn place_of(number: u8) -> Result<Place, Undecodable> {
    Ok(match number {
        0 => Place::Messages,
        1 => Place::Prepared,
        2 => Place::Log,
        3 => Place::Unknown,
        4 => Place::Error,
        _ => return bad("there are five places"),
    })
}

const fn way_number(way: Way) -> u8 {
    match way {
        Way::ToErp => 0,
        Way::ToDevice => 1,
    }
}

fn way_of(number: u8) -> Result<Way, Undecodable> {
    match number {
        0 => Ok(Way::ToErp),
        1 => Ok(Way::ToDevice),
        _ => bad("a message goes one of two ways"),
    }
}

const fn phase_number(phase: Phase) -> u8 {
    match phase {
        Phase::Started => 0,
        Phase::Ready => 1,
        Phase::Cleanup => 2,
        Phase::Failed => 3,
        Phase::Done => 4,
        Phase::RolledBack => 5,
        Phase::Interrupted => 6,
        Phase::Expired => 7,
        Phase::Unknown => 8,
        Phase::Resolved { committed: false } => 9,
        Phase::Resolved { committed: true } => 10,
    }
}

fn phase_of(number: u8) -> Result<Phase, Undecodable> {
    Ok(match number {
        0 => Phase::Started,
        1 => Phase::Ready,
        2 => Phase::Cleanup,
        3 => Phase::Failed,
        4 => Phase::Done,
        5 => Phase::RolledBack,
        6 => Phase::Interrupted,
        7 => Phase::Expired,
        8 => Phase::Unknown,
        9 => Phase::Resolved { committed: false },
        10 => Phase::Resolved { committed: true },
        _ => return bad("a process is in no such phase"),
    })
}

const fn status_number(status: Option<Status>) -> u8 {
    match status {
        None => 0,
        Some(Status::Processed) => 1,
        Some(Status::Deadlock) => 2,
        Some(Status::Incorrect) => 3,
    }
}

fn status_of(number: u8) -> Result<Option<Status>, Undecodable> {
    Ok(match number {
        0 => None,
        1 => Some(Status::Processed),
        2 => Some(Status::Deadlock),
        3 => Some(Status::Incorrect),
        _ => return bad("there are three verdicts"),
    })
}

fn happened_of(number: u8) -> Result<Happened, Undecodable> {
    let unknown = || Undecodable(format!("nothing is known to happen under the number {number}"));
    Happened::from_number(number).ok_or_else(unknown)
}

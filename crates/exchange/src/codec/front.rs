//! One thing after the other.

use std::str::FromStr;

use handoff_types::{Span, Steady, Wall};

use super::{Undecodable, happened_of, phase_of, place_of, status_of, way_of};
use crate::{
    BadName, Code, Company, CompanyNo, Counters, Database, DatabaseNo, Device, DeviceNo, LogEntry,
    Message, Phase, Place, Prepared, Process, ProcessId, Route, Seq, Served, Standing, Subsystem,
    SubsystemNo,
};

/// The smallest of its kind: seq, status, no error.
const SERVED_BYTES_MIN: usize = 3;
/// The smallest of its kind: seq, notice.
const PREPARED_BYTES_MIN: usize = 2;

/// Takes one thing after the other from the front of some bytes.
pub(super) struct Front<'a>(pub(super) &'a [u8]);

impl<'a> Front<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Undecodable> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Undecodable> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Undecodable> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => bad("a flag is 0 or 1"),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, Undecodable> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << shift;
            let overlong = byte == 0 && shift > 0;
            if overlong || shifted >> shift != bits {
                break;
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        bad("a number is not written as numbers are")
    }

    pub(super) fn small(&mut self) -> Result<u32, Undecodable> {
        u32::try_from(self.number()?).or_else(|_| bad("a number is too large"))
    }

    pub(super) fn tiny(&mut self) -> Result<u16, Undecodable> {
        u16::try_from(self.number()?).or_else(|_| bad("a number is too large"))
    }

    fn signed(&mut self) -> Result<i64, Undecodable> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn fixed(&mut self) -> Result<u64, Undecodable> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn wall(&mut self) -> Result<Wall, Undecodable> {
        self.signed().map(Wall)
    }

    pub(super) fn steady(&mut self) -> Result<Steady, Undecodable> {
        self.number().map(Steady)
    }

    pub(super) fn span(&mut self) -> Result<Span, Undecodable> {
        self.number().map(Span)
    }

    fn text(&mut self) -> Result<&'a str, Undecodable> {
        let length = usize::try_from(self.number()?).map_err(|_| short())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        str::from_utf8(bytes).or_else(|_| bad("a text is not UTF-8"))
    }

    pub(super) fn words(&mut self) -> Result<Box<str>, Undecodable> {
        self.text().map(Box::from)
    }

    fn name<T: FromStr<Err = BadName>>(&mut self) -> Result<T, Undecodable> {
        self.text()?.parse().map_err(|bad: BadName| Undecodable(bad.to_string()))
    }

    pub(super) fn option<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> Result<T, Undecodable>,
    ) -> Result<Option<T>, Undecodable> {
        if self.flag()? { get(self).map(Some) } else { Ok(None) }
    }

    /// How many follow that take at least `bytes` each: never more than there can be.
    fn count(&mut self, bytes: usize) -> Result<usize, Undecodable> {
        let count = usize::try_from(self.number()?).map_err(|_| short())?;
        if count > self.0.len() / bytes { Err(short()) } else { Ok(count) }
    }

    fn list<T>(
        &mut self,
        bytes: usize,
        mut get: impl FnMut(&mut Self) -> Result<T, Undecodable>,
    ) -> Result<Vec<T>, Undecodable> {
        let count = self.count(bytes)?;
        (0..count).map(|_| get(self)).collect()
    }

    pub(super) fn counters(&mut self) -> Result<Counters, Undecodable> {
        Ok(Counters {
            seq: self.number()?,
            process: self.number()?,
            log: self.number()?,
            entity: self.small()?,
        })
    }

    pub(super) fn company(&mut self) -> Result<Company, Undecodable> {
        Ok(Company {
            no: CompanyNo(self.small()?),
            id: self.name()?,
            name: self.words()?,
            created: self.wall()?,
        })
    }

    pub(super) fn subsystem(&mut self) -> Result<Subsystem, Undecodable> {
        Ok(Subsystem {
            no: SubsystemNo(self.small()?),
            id: self.name()?,
            name: self.words()?,
            created: self.wall()?,
        })
    }

    pub(super) fn database(&mut self) -> Result<Database, Undecodable> {
        Ok(Database {
            no: DatabaseNo(self.small()?),
            id: self.name()?,
            company: CompanyNo(self.small()?),
            name: self.words()?,
            token: self.option(Self::array)?,
            created: self.wall()?,
        })
    }

    pub(super) fn device(&mut self) -> Result<Device, Undecodable> {
        Ok(Device {
            no: DeviceNo(self.small()?),
            id: self.name()?,
            company: CompanyNo(self.small()?),
            subsystem: SubsystemNo(self.small()?),
            name: self.words()?,
            token: self.option(Self::array)?,
            code: self
                .option(|front| Ok(Code { digest: front.array()?, expires: front.wall()? }))?,
            blocked: self.flag()?,
            created: self.wall()?,
        })
    }

    pub(super) fn route(&mut self) -> Result<Route, Undecodable> {
        Ok(Route {
            company: CompanyNo(self.small()?),
            subsystem: SubsystemNo(self.small()?),
            database: DatabaseNo(self.small()?),
        })
    }

    pub(super) fn message(&mut self) -> Result<Message, Undecodable> {
        Ok(Message {
            id: self.name()?,
            way: way_of(self.byte()?)?,
            database: DatabaseNo(self.small()?),
            device: DeviceNo(self.small()?),
            subsystem: SubsystemNo(self.small()?),
            kind: self.option(Self::name)?,
            created: self.wall()?,
            received: self.wall()?,
            by_created: self.flag()?,
            bytes: self.small()?,
            crc: self.array().map(u32::from_le_bytes)?,
            digest: self.fixed()?,
            attempts: self.tiny()?,
            silences: self.tiny()?,
            place: self.place()?,
            since: self.wall()?,
            standing: self.standing()?,
        })
    }

    pub(super) fn place(&mut self) -> Result<Place, Undecodable> {
        place_of(self.byte()?)
    }

    pub(super) fn standing(&mut self) -> Result<Standing, Undecodable> {
        Ok(match self.byte()? {
            0 => Standing::Free,
            1 => Standing::Late(self.steady()?),
            2 => Standing::Served(self.number()?),
            3 => Standing::Aside(self.words()?.into()),
            _ => return bad("a message has one of four standings"),
        })
    }

    pub(super) fn phase(&mut self) -> Result<Phase, Undecodable> {
        phase_of(self.byte()?)
    }

    pub(super) fn process(&mut self) -> Result<Process, Undecodable> {
        Ok(Process {
            id: self.process_id()?,
            database: DatabaseNo(self.small()?),
            phase: self.phase()?,
            started: self.wall()?,
            deadline: self.steady()?,
            lease: self.span()?,
            request_key: self.option(Self::words)?,
            to_erp: self.served()?,
            from_erp: self.prepared()?,
            digest: self.fixed()?,
            ready: self.option(Self::wall)?,
            ended: self.option(Self::wall)?,
            words: self.option(Self::words)?,
            settled: self.flag()?,
            contradicted: self.flag()?,
        })
    }

    fn process_id(&mut self) -> Result<ProcessId, Undecodable> {
        Ok(ProcessId { number: self.number()?, nonce: self.fixed()? })
    }

    pub(super) fn served(&mut self) -> Result<Vec<Served>, Undecodable> {
        self.list(SERVED_BYTES_MIN, |front| {
            Ok(Served {
                seq: Seq(front.number()?),
                status: status_of(front.byte()?)?,
                error: front.option(Self::words)?,
            })
        })
    }

    pub(super) fn prepared(&mut self) -> Result<Vec<Prepared>, Undecodable> {
        self.list(PREPARED_BYTES_MIN, |front| {
            Ok(Prepared { seq: Seq(front.number()?), notice: front.flag()? })
        })
    }

    pub(super) fn entry(&mut self) -> Result<LogEntry, Undecodable> {
        Ok(LogEntry {
            number: self.number()?,
            at: self.wall()?,
            database: DatabaseNo(self.small()?),
            what: happened_of(self.byte()?)?,
            process: self.option(Self::process_id)?,
            message: self.option(|front| Ok((Seq(front.number()?), front.name()?)))?,
            code: self.option(Self::signed)?,
            words: self.words()?,
        })
    }
}

pub(super) fn bad<T>(words: &str) -> Result<T, Undecodable> {
    Err(Undecodable(words.to_owned()))
}

fn short() -> Undecodable {
    Undecodable("the bytes end too early".to_owned())
}

//! One thing behind the other.

use super::{phase_number, place_number, status_number, way_number};
use crate::{
    Code, Company, Counters, Database, Device, LogEntry, Message, Prepared, Process, ProcessId,
    Route, Served, Standing, Subsystem,
};

/// Puts one thing behind the other.
pub(super) struct Out<'a>(pub(super) &'a mut Vec<u8>);

impl Out<'_> {
    pub(super) fn kind(&mut self, kind: u8) -> &mut Self {
        self.byte(kind);
        self
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.byte(flag.into());
    }

    pub(super) fn number(&mut self, mut number: u64) {
        loop {
            let low = number.to_le_bytes()[0] & 0x7f;
            number >>= 7;
            if number == 0 {
                return self.byte(low);
            }
            self.byte(low | 0x80);
        }
    }

    pub(super) fn small(&mut self, number: u32) {
        self.number(number.into());
    }

    pub(super) fn signed(&mut self, number: i64) {
        self.number((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.raw(text.as_bytes());
    }

    pub(super) fn option<T>(&mut self, some: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.flag(some.is_some());
        if let Some(some) = some {
            put(self, some);
        }
    }

    pub(super) fn counters(&mut self, counters: &Counters) {
        let Counters { seq, process, log, entity } = *counters;
        self.number(seq);
        self.number(process);
        self.number(log);
        self.small(entity);
    }

    pub(super) fn company(&mut self, company: &Company) {
        let Company { no, id, name, created } = company;
        self.small(no.0);
        self.text(id.as_str());
        self.text(name);
        self.signed(created.0);
    }

    pub(super) fn subsystem(&mut self, subsystem: &Subsystem) {
        let Subsystem { no, id, name, created } = subsystem;
        self.small(no.0);
        self.text(id.as_str());
        self.text(name);
        self.signed(created.0);
    }

    pub(super) fn database(&mut self, database: &Database) {
        let Database { no, id, company, name, token, created } = database;
        self.small(no.0);
        self.text(id.as_str());
        self.small(company.0);
        self.text(name);
        self.option(token.as_ref(), |out, token| out.raw(token));
        self.signed(created.0);
    }

    pub(super) fn device(&mut self, device: &Device) {
        let Device { no, id, company, subsystem, name, token, code, blocked, created } = device;
        self.small(no.0);
        self.text(id.as_str());
        self.small(company.0);
        self.small(subsystem.0);
        self.text(name);
        self.option(token.as_ref(), |out, token| out.raw(token));
        self.option(code.as_ref(), |out, Code { digest, expires }| {
            out.raw(digest);
            out.signed(expires.0);
        });
        self.flag(*blocked);
        self.signed(created.0);
    }

    pub(super) fn route(&mut self, route: &Route) {
        let Route { company, subsystem, database } = route;
        self.small(company.0);
        self.small(subsystem.0);
        self.small(database.0);
    }

    pub(super) fn message(&mut self, message: &Message) {
        let Message { id, way, database, device, subsystem, kind, .. } = message;
        self.text(id.as_str());
        self.byte(way_number(*way));
        self.small(database.0);
        self.small(device.0);
        self.small(subsystem.0);
        self.option(kind.as_ref(), |out, kind| out.text(kind.as_str()));
        let Message { created, received, by_created, bytes, crc, digest, .. } = message;
        self.signed(created.0);
        self.signed(received.0);
        self.flag(*by_created);
        self.small(*bytes);
        self.raw(&crc.to_le_bytes());
        self.raw(&digest.to_le_bytes());
        let Message { attempts, silences, place, since, standing, .. } = message;
        self.small((*attempts).into());
        self.small((*silences).into());
        self.byte(place_number(*place));
        self.signed(since.0);
        self.standing(standing);
    }

    pub(super) fn standing(&mut self, standing: &Standing) {
        match standing {
            Standing::Free => self.byte(0),
            Standing::Late(until) => self.kind(1).number(until.0),
            Standing::Served(process) => self.kind(2).number(*process),
            Standing::Aside(words) => self.kind(3).text(words),
        }
    }

    pub(super) fn process(&mut self, process: &Process) {
        let Process { id, database, phase, started, deadline, lease, request_key, .. } = process;
        self.process_id(*id);
        self.small(database.0);
        self.byte(phase_number(*phase));
        self.signed(started.0);
        self.number(deadline.0);
        self.number(lease.0);
        self.option(request_key.as_deref(), Self::text);
        let Process { to_erp, from_erp, digest, ready, ended, words, .. } = process;
        self.served(to_erp);
        self.prepared(from_erp);
        self.raw(&digest.to_le_bytes());
        self.option(*ready, |out, ready| out.signed(ready.0));
        self.option(*ended, |out, ended| out.signed(ended.0));
        self.option(words.as_deref(), Self::text);
        self.flag(process.settled);
        self.flag(process.contradicted);
    }

    fn process_id(&mut self, id: ProcessId) {
        self.number(id.number);
        self.raw(&id.nonce.to_le_bytes());
    }

    pub(super) fn served(&mut self, served: &[Served]) {
        self.number(served.len() as u64);
        for Served { seq, status, error } in served {
            self.number(seq.0);
            self.byte(status_number(*status));
            self.option(error.as_deref(), Self::text);
        }
    }

    pub(super) fn prepared(&mut self, prepared: &[Prepared]) {
        self.number(prepared.len() as u64);
        for Prepared { seq, notice } in prepared {
            self.number(seq.0);
            self.flag(*notice);
        }
    }

    pub(super) fn entry(&mut self, entry: &LogEntry) {
        let LogEntry { number, at, database, what, process, message, code, words } = entry;
        self.number(*number);
        self.signed(at.0);
        self.small(database.0);
        self.byte(*what as u8);
        self.option(*process, Self::process_id);
        self.option(message.as_ref(), |out, (seq, id)| {
            out.number(seq.0);
            out.text(id.as_str());
        });
        self.option(*code, Self::signed);
        self.text(words);
    }
}

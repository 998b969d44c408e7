//! Devices: activation, what they send, what they have received.

use std::collections::BTreeSet;

use super::Draft;
use super::draft::About;
use crate::{
    Change, Database, DatabaseNo, Device, DeviceNo, Digest, Happened, MessageId, NewMessage, Place,
    Receipt, Refusal, Reply, Standing, Way,
};

impl<'a> Draft<'a> {
    pub(super) fn activate(&mut self, code: &Digest, token: &Digest) -> Result<Reply, Refusal> {
        let device = self.state.device_by_code(code).ok_or(Refusal::WrongCode)?;
        if device.code.is_none_or(|code| code.expires <= self.now.wall) {
            return Err(Refusal::WrongCode);
        }
        if device.blocked {
            return Err(Refusal::Blocked);
        }
        if self.state.device_by_token(token).is_some() {
            return Err(Refusal::Invalid("another device has this token; draw again"));
        }
        let no = device.no;
        self.change(Change::Device(Device { token: Some(*token), code: None, ..device.clone() }));
        Ok(Reply::Activated(no))
    }

    pub(super) fn post(
        &mut self,
        device: DeviceNo,
        messages: &[NewMessage],
    ) -> Result<Reply, Refusal> {
        let device = self.sender(device)?;
        let route = self.state.route(device.company, device.subsystem);
        let database = route.and_then(|no| self.state.database(no));
        self.take(database, device, messages).map(Reply::Posted)
    }

    pub(super) fn take_in(
        &mut self,
        database: DatabaseNo,
        device: DeviceNo,
        message: &NewMessage,
    ) -> Result<Reply, Refusal> {
        let none = |what| Refusal::NotFound { what, id: "".into() };
        let database = self.state.database(database).ok_or(none("database"))?;
        let device = self.state.device(device).ok_or(none("device"))?;
        if device.company != database.company {
            return Err(none("device"));
        }
        let receipts = self.take(Some(database), device, std::slice::from_ref(message))?;
        for receipt in receipts.iter().filter(|receipt| !receipt.again) {
            let about = About::message(receipt.seq, message.id);
            let words = format!("a file of device {} was taken in", device.id);
            self.log(database.no, Happened::TakenIn, about, &words);
        }
        Ok(Reply::Posted(receipts))
    }

    /// What was sent before is answered as it was then, also if there is no way for it any more.
    fn take(
        &mut self,
        database: Option<&Database>,
        device: &Device,
        messages: &[NewMessage],
    ) -> Result<Vec<Receipt>, Refusal> {
        let mut ids = BTreeSet::new();
        let mut receipts = Vec::with_capacity(messages.len());
        for new in messages {
            if !ids.insert(new.id) {
                return Err(Refusal::IdTwice(new.id));
            }
            let receipt = match self.state.sent_by_device(device.no, &new.id) {
                Some((_, known)) if known.digest != new.digest => {
                    return Err(Refusal::IdReused(new.id));
                }
                Some((seq, known)) => Receipt { seq, received: known.received, again: true },
                None => {
                    let database = database.ok_or_else(|| self.no_route(device))?;
                    let seq = self.accept(Way::ToErp, (database, device), new, Place::Messages);
                    Receipt { seq, received: self.now.wall, again: false }
                }
            };
            receipts.push(receipt);
        }
        let fresh = receipts.iter().filter(|receipt| !receipt.again).count() as u64;
        let waiting = database.map_or(0, |database| self.state.counts(database.no).to_erp);
        if fresh > 0 && waiting.saturating_add(fresh) > self.rules.queue_max {
            return Err(Refusal::Full { what: "messages waiting for the database", many: waiting });
        }
        if fresh > 0 {
            self.expect_room(fresh)?;
        }
        Ok(receipts)
    }

    fn no_route(&self, device: &Device) -> Refusal {
        let company = self.state.company(device.company).map_or("", |one| one.id.as_str());
        let subsystem = self.state.subsystem(device.subsystem).map_or("", |one| one.id.as_str());
        Refusal::NoRoute { company: company.into(), subsystem: subsystem.into() }
    }

    /// Whether so many messages more can be known. Those that are over make room.
    pub(super) fn expect_room(&self, fresh: u64) -> Result<(), Refusal> {
        let living = self.state.message_count().saturating_sub(self.state.over().len() as u64);
        match living.saturating_add(fresh) > self.rules.messages_max {
            true => Err(Refusal::Full { what: "messages", many: living }),
            false => Ok(()),
        }
    }

    pub(super) fn ack(&mut self, device: DeviceNo, ids: &[MessageId]) -> Result<Reply, Refusal> {
        let device = self.sender(device)?;
        let (mut fresh, mut again) = (0, 0);
        for id in ids.iter().collect::<BTreeSet<_>>() {
            let databases = self.state.databases_of(device.company);
            let found = databases.filter_map(|one| self.state.sent_by_database(one.no, id));
            // Two databases may call two messages the same: one that waits is meant.
            let mine = found
                .filter(|(_, message)| message.device == device.no)
                .filter(|(_, message)| matches!(message.place, Place::Messages | Place::Log))
                .min_by_key(|(_, message)| message.place == Place::Log);
            let Some((seq, message)) = mine else { return Err(Refusal::NoMessage(*id)) };
            if message.place == Place::Log {
                again += 1;
                continue;
            }
            fresh += 1;
            self.place((seq, message), (Place::Log, Standing::Free), None);
        }
        Ok(Reply::Acked { fresh, again })
    }

    /// A device that may send.
    fn sender(&self, device: DeviceNo) -> Result<&'a Device, Refusal> {
        let gone = || Refusal::NotFound { what: "device", id: "".into() };
        let device = self.state.device(device).ok_or_else(gone)?;
        match device.blocked || device.token.is_none() {
            true => Err(Refusal::Blocked),
            false => Ok(device),
        }
    }
}

//! What devices send, and what they say that they have.

use std::collections::BTreeSet;

use handoff_exchange::{
    Database, DatabaseNo, Device, DeviceNo, Happened, Message, MessageId, NewMessage, Place,
    ProcessId, Receipt, Reply, Seq, Standing, Way,
};
use handoff_types::Span;

use super::{Case, Expect, Letter, Oracle, Violation, is_answer, no_answer};

impl Oracle {
    /// Judges what a device sent, or what was found in a folder of its database.
    pub(super) fn posted(
        &mut self,
        case: &Case<'_>,
        device: DeviceNo,
        into: Option<DatabaseNo>,
        messages: &[NewMessage],
    ) -> Result<Expect, Violation> {
        let Some(device) = self.devices.values().find(|one| one.no == device).cloned() else {
            return case.refused(["not found"]).map(|()| Expect::default());
        };
        let route = match into {
            Some(database) => Some(database),
            None => self.routes.get(&(device.company, device.subsystem)).copied(),
        };
        let database = route.and_then(|no| self.database(no)).cloned();
        let mut wrong = BTreeSet::new();
        if into.is_none() && (device.blocked || device.token.is_none()) {
            wrong.insert("blocked");
        }
        if into.is_some() && database.as_ref().is_none_or(|one| one.company != device.company) {
            wrong.insert("not found");
        }
        let known: Vec<Option<Seq>> =
            messages.iter().map(|new| self.sent_by(device.no, new.id)).collect();
        for (new, seq) in messages.iter().zip(&known) {
            let letter = seq.and_then(|seq| self.letters.get(&seq));
            if letter.is_some_and(|letter| letter.is.digest != new.digest) {
                wrong.insert("id reused");
            }
        }
        let ids: BTreeSet<MessageId> = messages.iter().map(|new| new.id).collect();
        if ids.len() < messages.len() {
            wrong.insert("id twice");
        }
        let fresh = known.iter().filter(|seq| seq.is_none()).count() as u64;
        // What was stored is stored, wherever messages go by now.
        if fresh > 0 {
            match &database {
                None => drop(wrong.insert("no route")),
                Some(database) => {
                    let waits = |letter: &&Letter| is_queued(&letter.is, database.no);
                    let waiting = self.letters.values().filter(waits).count() as u64;
                    if waiting + fresh > case.rules.queue_max || self.is_full(case, fresh) {
                        wrong.insert("full");
                    }
                }
            }
        }
        if case.objects(&wrong)? {
            return Ok(Expect::default());
        }
        let mut expect = Expect::default();
        let mut receipts = Vec::new();
        for (new, seq) in messages.iter().zip(known) {
            let letter = seq.and_then(|seq| self.letters.get(&seq).map(|letter| (seq, letter)));
            receipts.push(match (letter, &database) {
                (Some((seq, letter)), _) => {
                    Receipt { seq, received: letter.is.received, again: true }
                }
                (None, Some(database)) => {
                    let seq = self.accept(case, Way::ToErp, (database, &device), new, None);
                    if into.is_some() {
                        expect.logs.push((Happened::TakenIn, None, Some(seq)));
                    }
                    Receipt { seq, received: case.now.wall, again: false }
                }
                (None, None) => return Err(no_answer(case.asked, "it goes nowhere".to_owned())),
            });
        }
        is_answer(case.asked, case.reply, &Reply::Posted(receipts))?;
        Ok(expect)
    }

    fn sent_by(&self, device: DeviceNo, id: MessageId) -> Option<Seq> {
        let is = |letter: &Letter| {
            letter.is.way == Way::ToErp && letter.is.device == device && letter.is.id == id
        };
        self.letters.iter().find(|(_, letter)| is(letter)).map(|(seq, _)| *seq)
    }

    /// Whether so many more cannot be known, though those that are over make room.
    pub(super) fn is_full(&self, case: &Case<'_>, fresh: u64) -> bool {
        let lives = |letter: &&Letter| !matches!(letter.is.place, Place::Log | Place::Error);
        let living = self.letters.values().filter(lives).count() as u64;
        living + fresh > case.rules.messages_max
    }

    /// A message is there.
    pub(super) fn accept(
        &mut self,
        case: &Case<'_>,
        way: Way,
        (database, device): (&Database, &Device),
        new: &NewMessage,
        by: Option<(ProcessId, bool)>,
    ) -> Seq {
        self.seq += 1;
        let seq = Seq(self.seq);
        let subsystem = self.subsystems.values().find(|one| one.no == device.subsystem);
        let subsystem = subsystem.map_or("", |one| one.id.as_str());
        let body = body(way, (database, device, subsystem), new);
        let now = case.now.wall;
        let is = Message {
            id: new.id,
            way,
            database: database.no,
            device: device.no,
            subsystem: device.subsystem,
            kind: new.kind.clone(),
            created: new.created,
            received: now,
            by_created: way == Way::ToErp && case.rules.by_created,
            bytes: u32::try_from(body.len()).unwrap_or(0),
            crc: crc32c::crc32c(body.as_bytes()),
            digest: new.digest,
            attempts: 0,
            silences: 0,
            place: if way == Way::ToErp { Place::Messages } else { Place::Prepared },
            since: now,
            standing: Standing::Free,
        };
        self.letters.insert(seq, Letter { is, wait: Span::ZERO, by });
        seq
    }

    pub(super) fn acked(
        &mut self,
        case: &Case<'_>,
        device: DeviceNo,
        ids: &[MessageId],
    ) -> Result<Expect, Violation> {
        let Some(found) = self.devices.values().find(|one| one.no == device) else {
            return case.refused(["not found"]).map(|()| Expect::default());
        };
        let mut wrong = BTreeSet::new();
        if found.blocked || found.token.is_none() {
            wrong.insert("blocked");
        }
        let (mut fresh, mut again) = (Vec::new(), 0);
        for id in ids.iter().collect::<BTreeSet<_>>() {
            let mine = self.letters.iter().filter(|(_, letter)| {
                letter.is.way == Way::ToDevice && letter.is.device == device && letter.is.id == *id
            });
            let places: Vec<(Seq, Place)> = mine.map(|(seq, one)| (*seq, one.is.place)).collect();
            let waiting: Vec<Seq> =
                places.iter().filter(|one| one.1 == Place::Messages).map(|one| one.0).collect();
            // Two databases may use the same name: which of theirs goes first is the room's choice.
            let gone = |seq: &&Seq| {
                case.look.messages.get(seq).is_none_or(|one| one.place != Place::Messages)
            };
            let taken = waiting.iter().find(gone).or(waiting.first());
            match taken {
                Some(seq) => fresh.push(*seq),
                None if places.iter().any(|one| one.1 == Place::Log) => again += 1,
                None => drop(wrong.insert("no message")),
            }
        }
        if case.objects(&wrong)? {
            return Ok(Expect::default());
        }
        let count = u32::try_from(fresh.len()).unwrap_or(0);
        is_answer(case.asked, case.reply, &Reply::Acked { fresh: count, again })?;
        for seq in fresh {
            self.place(seq, Place::Log, Standing::Free, case.now);
        }
        Ok(Expect::default())
    }
}

fn is_queued(message: &Message, database: DatabaseNo) -> bool {
    message.database == database && message.way == Way::ToErp && message.place == Place::Messages
}

/// A message as it is stored.
pub(in crate::exchange) fn body(
    way: Way,
    (database, device, subsystem): (&Database, &Device, &str),
    new: &NewMessage,
) -> String {
    let (from, to) = match way {
        Way::ToErp => (device.id.as_str(), database.id.as_str()),
        Way::ToDevice => (database.id.as_str(), device.id.as_str()),
    };
    let text = |name: &str, value: Option<&str>| {
        value.map(|value| format!(",\"{name}\":\"{value}\"")).unwrap_or_default()
    };
    let fields = [
        text("id", Some(new.id.as_str())),
        text("from", Some(from)),
        text("to", Some(to)),
        text("appSystem", Some(subsystem)),
        text("createdAt", Some(&new.created_text)),
        text("replyTo", new.reply_to.as_ref().map(MessageId::as_str)),
        text("type", new.kind.as_ref().map(|kind| kind.as_str())),
    ];
    let payload = String::from_utf8_lossy(&new.payload);
    format!("{{\"version\":1{},\"payload\":{payload}}}", fields.concat())
}

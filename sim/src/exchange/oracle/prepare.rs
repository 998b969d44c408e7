//! What an ERP says before its database commits.

use std::collections::{BTreeMap, BTreeSet};

use handoff_exchange::{
    DeviceNo, Happened, Message, MessageId, NewMessage, NewReply, Phase, Place, Prepared, Process,
    Reply, Seq, Served, Status, Verdict, Way,
};
use handoff_types::Wall;

use super::{Case, Expect, Letter, Oracle, Violation, is_answer, named, no_answer};

impl Oracle {
    pub(super) fn prepared(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        (verdicts, replies): (&[Verdict], &[NewReply]),
        digest: u64,
    ) -> Result<Expect, Violation> {
        let mut wrong = BTreeSet::new();
        let mut expect = Expect::default();
        match process.phase {
            Phase::Started => self.misfits(case, process, verdicts, replies, &mut wrong),
            Phase::Ready if process.digest == digest => {
                let deadline = Some(process.deadline);
                is_answer(case.asked, case.reply, &Reply::Ok { deadline })?;
                return Ok(expect);
            }
            Phase::Ready => drop(wrong.insert("prepared otherwise")),
            _ => drop(wrong.insert("past")),
        }
        if case.objects(&wrong)? {
            return Ok(expect);
        }
        let deadline = case.now.steady + case.rules.ready_timeout;
        is_answer(case.asked, case.reply, &Reply::Ok { deadline: Some(deadline) })?;
        let number = process.id.number;
        let served = named(process, &self.letters);
        for verdict in verdicts {
            let what = match verdict.status {
                Status::Processed => continue,
                Status::Deadlock => Happened::Deadlock,
                Status::Incorrect => Happened::Incorrect,
            };
            expect.logs.push((what, Some(number), served.get(&verdict.message).copied()));
        }
        let mut from_erp = Vec::new();
        let Some(database) = self.database(process.database).cloned() else {
            return Err(no_answer(case.asked, "the database is gone".to_owned()));
        };
        for NewReply { to, message } in replies {
            let device = self.devices.get(&(database.company, to.clone())).cloned();
            let Some(device) = device else {
                return Err(no_answer(case.asked, "the device is gone".to_owned()));
            };
            let by = Some((process.id, false));
            let seq = self.accept(case, Way::ToDevice, (&database, &device), message, by);
            from_erp.push(Prepared { seq, notice: false });
        }
        if case.rules.notify_sender {
            for seq in self.notified(case, process, verdicts, &from_erp)? {
                from_erp.push(Prepared { seq, notice: true });
            }
        }
        let status =
            |id: MessageId| verdicts.iter().find(|one| one.message == id).map(|one| one.status);
        let letters = &self.letters;
        if let Some(known) = self.processes.get_mut(&number) {
            for Served { seq, status: said, .. } in &mut known.to_erp {
                *said = letters.get(seq).and_then(|letter| status(letter.is.id));
            }
            (known.phase, known.request_key) = (Phase::Ready, None);
            (known.from_erp, known.digest) = (from_erp, digest);
            known.ready = Some(case.now.wall);
            (known.deadline, known.lease) = (deadline, case.rules.ready_timeout);
        }
        Ok(expect)
    }

    /// Whoever sent what cannot be processed is told so, in the order of the messages, behind what
    /// the ERP sends; unless as much waits for the device as may, or there is no room at all.
    fn notified(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        verdicts: &[Verdict],
        replies: &[Prepared],
    ) -> Result<Vec<Seq>, Violation> {
        let Some(database) = self.database(process.database).cloned() else {
            return Ok(Vec::new());
        };
        let mut notices: Vec<Seq> = Vec::new();
        for one in &process.to_erp {
            let Some(about) = self.letters.get(&one.seq).map(|letter| letter.is.clone()) else {
                continue;
            };
            let said = verdicts.iter().find(|verdict| verdict.message == about.id);
            let Some(verdict) = said.filter(|one| one.status == Status::Incorrect) else {
                continue;
            };
            let to = self.devices.values().find(|device| device.no == about.device).cloned();
            let Some(device) = to else { continue };
            let is_coming = replies.iter().map(|reply| reply.seq).chain(notices.iter().copied());
            let is_coming: BTreeSet<Seq> = is_coming.collect();
            let waits = |seq: &Seq, is: &Message| {
                let here = is.place == Place::Messages || is_coming.contains(seq);
                here && is.way == Way::ToDevice && is.device == device.no
            };
            let waiting = self.letters.iter().filter(|(seq, letter)| waits(seq, &letter.is));
            if waiting.count() as u64 >= case.rules.queue_max || self.is_full(case, 1) {
                continue;
            }
            // What it is called is the room's choice, if nothing else of the database is.
            let called = case.look.messages.get(&Seq(self.seq + 1)).map(|found| found.id);
            let of_database = |is: &Message| is.way == Way::ToDevice && is.database == database.no;
            let mut others = self.letters.values().map(|letter| &letter.is);
            let Some(id) = called.filter(|id| !others.any(|is| of_database(is) && is.id == *id))
            else {
                let why = format!("the device of {} is told of it", about.id);
                return Err(no_answer(case.asked, why));
            };
            let new = notice(id, verdict, case.now.wall);
            let by = Some((process.id, true));
            notices.push(self.accept(case, Way::ToDevice, (&database, &device), &new, by));
        }
        Ok(notices)
    }

    /// What does not fit a process that has begun.
    fn misfits(
        &self,
        case: &Case<'_>,
        process: &Process,
        verdicts: &[Verdict],
        replies: &[NewReply],
        wrong: &mut BTreeSet<&'static str>,
    ) {
        let served = named(process, &self.letters);
        let said: BTreeSet<MessageId> = verdicts.iter().map(|one| one.message).collect();
        let mut when = |is: bool, why: &'static str| {
            if is {
                wrong.insert(why);
            }
        };
        when(said.len() < verdicts.len(), "named twice");
        when(said.iter().any(|id| !served.contains_key(id)), "not served");
        when(served.keys().any(|id| !said.contains(id)), "no verdict");
        let ids: BTreeSet<MessageId> = replies.iter().map(|one| one.message.id).collect();
        when(ids.len() < replies.len(), "named twice");
        let used = |letter: &Letter| {
            let is = &letter.is;
            is.way == Way::ToDevice && is.database == process.database && ids.contains(&is.id)
        };
        when(self.letters.values().any(used), "id used");
        let company = self.database(process.database).map(|one| one.company);
        let mut more: BTreeMap<DeviceNo, u64> = BTreeMap::new();
        for reply in replies {
            let device = company.and_then(|of| self.devices.get(&(of, reply.to.clone())));
            when(device.is_none(), "no device");
            if let Some(device) = device {
                *more.entry(device.no).or_default() += 1;
            }
        }
        for (device, more) in more {
            let waits = |letter: &&Letter| {
                let is = &letter.is;
                is.way == Way::ToDevice && is.device == device && is.place == Place::Messages
            };
            let waiting = self.letters.values().filter(waits).count() as u64;
            when(waiting + more > case.rules.queue_max, "queue full");
        }
        // Whoever says nothing needs no room.
        when(!replies.is_empty() && self.is_full(case, replies.len() as u64), "full");
    }

    pub(super) fn beaten(
        &mut self,
        case: &Case<'_>,
        process: &Process,
    ) -> Result<Expect, Violation> {
        if !process.phase.is_live() {
            return case.refused(["past"]).map(|()| Expect::default());
        }
        let deadline = process.deadline.max(case.now.steady + process.lease);
        is_answer(case.asked, case.reply, &Reply::Ok { deadline: Some(deadline) })?;
        if let Some(known) = self.processes.get_mut(&process.id.number) {
            known.deadline = deadline;
        }
        Ok(Expect::default())
    }
}

/// What a device is told: which message, and what the ERP says of it.
fn notice(id: MessageId, verdict: &Verdict, now: Wall) -> NewMessage {
    let words = verdict.error.as_deref().unwrap_or("the message could not be processed");
    let words = words.replace('\\', "\\\\").replace('"', "\\\"");
    let payload = match verdict.code {
        Some(code) => format!("{{\"code\":{code},\"error\":\"{words}\"}}"),
        None => format!("{{\"error\":\"{words}\"}}"),
    };
    let created = jiff::Timestamp::from_microsecond(now.0).unwrap_or_default();
    NewMessage {
        id,
        kind: "ERROR".parse().ok(),
        created: now,
        created_text: created.to_string().into(),
        reply_to: Some(verdict.message),
        payload: payload.into(),
        digest: 0,
    }
}

//! What an ERP is given to process, and what it takes of it.

use std::collections::BTreeSet;

use handoff_exchange::{
    Begun, DatabaseNo, EntityId, Handed, Happened, Message, MessageId, Phase, Place, Process,
    Reply, Seq, Served, Standing, Way, Wish,
};
use handoff_types::Span;

use super::{Back, Case, Expect, Oracle, SUSPECT_FROM, Violation, is_answer, named, no_answer};

/// The least time a process is given, and the most it is to wait for another.
const SECOND: Span = Span::from_secs(1);

impl Oracle {
    pub(super) fn begun(
        &mut self,
        case: &Case<'_>,
        database: DatabaseNo,
        wish: &Wish,
    ) -> Result<Expect, Violation> {
        let Some(company) = self.database(database).map(|one| one.company) else {
            return case.refused(["not found"]).map(|()| Expect::default());
        };
        let mut wrong = BTreeSet::new();
        if wish.files_max == Some(0) {
            wrong.insert("invalid");
        }
        let live = self.is_live(database).cloned();
        let no_subsystem = |id: &EntityId| !self.subsystems.contains_key(id);
        let no_device = |id: &EntityId| !self.devices.contains_key(&(company, id.clone()));
        let lost = wish.subsystems.iter().flatten().any(no_subsystem)
            || wish.producers.iter().flatten().any(no_device);
        // Whoever is told to come back is not told what else is wrong.
        if lost && live.is_none() {
            wrong.insert("not found");
        }
        if case.objects(&wrong)? {
            return Ok(Expect::default());
        }
        let Reply::Begun(begun) = case.reply else {
            return Err(no_answer(case.asked, "that is no answer to it".to_owned()));
        };
        if let Some(live) = live {
            return self.met(case, &live, wish, begun);
        }
        let chosen = self.chosen(case, database, wish);
        match begun {
            Begun::Idle => {
                let found: Vec<Seq> = Vec::new();
                is_answer(case.asked, &found, &chosen)?;
                Ok(Expect::default())
            }
            Begun::Busy { .. } => Err(no_answer(case.asked, "nobody is at work".to_owned())),
            Begun::Started { id, deadline, messages } => {
                is_answer(case.asked, messages, &self.handed(&chosen))?;
                let lease = wish.lease.unwrap_or(case.rules.started_timeout);
                let lease = lease.min(case.rules.started_timeout).max(SECOND);
                is_answer(case.asked, deadline, &(case.now.steady + lease))?;
                is_answer(case.asked, &id.number, &(self.process + 1))?;
                self.process = id.number;
                for seq in &chosen {
                    self.place(*seq, Place::Messages, Standing::Served(id.number), case.now);
                }
                let served = |seq: &Seq| Served { seq: *seq, status: None, error: None };
                let process = Process {
                    id: *id,
                    database,
                    phase: Phase::Started,
                    started: case.now.wall,
                    deadline: *deadline,
                    lease,
                    request_key: wish.request_key.clone(),
                    to_erp: chosen.iter().map(served).collect(),
                    from_erp: Vec::new(),
                    digest: 0,
                    ready: None,
                    ended: None,
                    words: None,
                    settled: true,
                    contradicted: false,
                };
                self.processes.insert(id.number, process);
                Ok(Expect::default())
            }
        }
    }

    /// A process is live: whoever asks with its key is given it again, anybody else comes later.
    fn met(
        &self,
        case: &Case<'_>,
        live: &Process,
        wish: &Wish,
        begun: &Begun,
    ) -> Result<Expect, Violation> {
        let same = wish.request_key.is_some() && wish.request_key == live.request_key;
        let seqs: Vec<Seq> = live.to_erp.iter().map(|one| one.seq).collect();
        match begun {
            Begun::Started { id, deadline, messages } if same && live.phase == Phase::Started => {
                is_answer(case.asked, id, &live.id)?;
                is_answer(case.asked, deadline, &live.deadline)?;
                is_answer(case.asked, messages, &self.handed(&seqs))?;
            }
            Begun::Busy { retry_after } if !same || live.phase != Phase::Started => {
                let left = live.deadline.since(case.now.steady).max(SECOND);
                if *retry_after == Span::ZERO || *retry_after > left {
                    return Err(no_answer(case.asked, format!("it ends in {left:?}")));
                }
            }
            _ => return Err(no_answer(case.asked, format!("there is {live:?}"))),
        }
        Ok(Expect::default())
    }

    fn handed(&self, seqs: &[Seq]) -> Vec<Handed> {
        let handed = |seq: &Seq| {
            let is = &self.letters.get(seq)?.is;
            Some(Handed { seq: *seq, attempt: u32::from(is.attempts + is.silences) + 1 })
        };
        seqs.iter().filter_map(handed).collect()
    }

    /// What is served next: what waits, the oldest first, as much as fits and at least one.
    fn chosen(&self, case: &Case<'_>, database: DatabaseNo, wish: &Wish) -> Vec<Seq> {
        let files = wish.files_max.unwrap_or(u32::MAX).min(case.rules.files_max).max(1);
        let most = wish.bytes_max.unwrap_or(u64::MAX).min(case.rules.bytes_max);
        let now = case.now.steady;
        let waits = |is: &Message| match is.standing {
            Standing::Free => Some(true),
            Standing::Late(until) => Some(until <= now),
            Standing::Served(_) | Standing::Aside(_) => None,
        };
        let order = |is: &Message, seq: Seq| (if is.by_created { is.created.0 } else { 0 }, seq);
        let mut queue: Vec<(Seq, &Message, bool)> = self
            .letters
            .iter()
            .map(|(seq, letter)| (*seq, &letter.is))
            .filter(|(_, is)| {
                is.database == database && is.way == Way::ToErp && is.place == Place::Messages
            })
            .filter_map(|(seq, is)| Some((seq, is, waits(is)?)))
            .collect();
        queue.sort_by_key(|(seq, is, _)| order(is, *seq));
        let (mut seqs, mut ids, mut bytes) = (Vec::new(), BTreeSet::<MessageId>::new(), 0);
        let mut held = BTreeSet::new();
        for (seq, is, ready) in queue {
            if seqs.len() as u64 >= u64::from(files) {
                break;
            }
            if !self.is_wanted(is, wish) || (case.rules.in_order && held.contains(&is.device)) {
                continue;
            }
            let suspect = is.silences >= SUSPECT_FROM;
            let alone = !seqs.is_empty() && (suspect || ids.contains(&is.id));
            if !ready || alone {
                held.insert(is.device);
                continue;
            }
            if !seqs.is_empty() && bytes + u64::from(is.bytes) > most {
                break;
            }
            bytes += u64::from(is.bytes);
            seqs.push(seq);
            ids.insert(is.id);
            if suspect {
                break;
            }
        }
        seqs
    }

    fn is_wanted(&self, message: &Message, wish: &Wish) -> bool {
        let subsystem = self.subsystems.values().find(|one| one.no == message.subsystem);
        let device = self.devices.values().find(|one| one.no == message.device);
        let named = |ids: &Option<Vec<EntityId>>, id: Option<&EntityId>| {
            ids.as_ref().is_none_or(|ids| id.is_some_and(|id| ids.contains(id)))
        };
        named(&wish.subsystems, subsystem.map(|one| &one.id))
            && named(&wish.producers, device.map(|one| &one.id))
    }

    /// The ERP takes some of what it was given.
    pub(super) fn narrowed(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        ids: &[MessageId],
    ) -> Result<Expect, Violation> {
        let mut wrong = BTreeSet::new();
        let served = named(process, &self.letters);
        let taken: BTreeSet<MessageId> = ids.iter().copied().collect();
        if process.phase == Phase::Started {
            if ids.iter().any(|id| !served.contains_key(id)) {
                wrong.insert("not served");
            }
            if taken.len() < ids.len() {
                wrong.insert("named twice");
            }
        } else {
            wrong.insert("past");
        }
        if case.objects(&wrong)? {
            return Ok(Expect::default());
        }
        case.ends(Ok(()))?;
        let mut expect = Expect::default();
        let number = process.id.number;
        let declined: Vec<Seq> =
            served.iter().filter(|(id, _)| !taken.contains(*id)).map(|(_, seq)| *seq).collect();
        for seq in &declined {
            self.give_back(case, *seq, Back::Failed, number, &mut expect)?;
        }
        if let Some(known) = self.processes.get_mut(&number) {
            known.to_erp.retain(|one| !declined.contains(&one.seq));
            known.request_key = None;
            if known.to_erp.is_empty() {
                expect.logs.push((Happened::Interrupted, Some(number), None));
                self.turn(case, number, Phase::Interrupted, &mut expect);
            }
        }
        Ok(expect)
    }
}

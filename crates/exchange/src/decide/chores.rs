//! What nobody outside asks for: time, folders, retention; and what an administrator puts right.

use std::collections::BTreeSet;

use handoff_types::Wall;

use super::Draft;
use super::draft::About;
use crate::{
    Action, Change, DatabaseNo, Happened, Phase, Place, Process, Refusal, Reply, Seq, Served, Spot,
    Standing, Way,
};

/// How many processes are given up in one decision.
pub const EXPIRED_AT_ONCE: usize = 16;

/// How many undecided processes people are reminded of at once.
pub const REMINDED_AT_ONCE: usize = 100;

/// How many messages are put back in one decision.
const REQUEUED_MAX: usize = 1_000;

impl Draft<'_> {
    pub(super) fn tick(&mut self) -> Reply {
        let state = self.state;
        let due = |now| state.deadlines().take_while(move |(deadline, _)| *deadline <= now);
        for (_, process) in due(self.now.steady).take(EXPIRED_AT_ONCE) {
            self.expire(process);
        }
        Reply::More(due(self.now.steady).nth(EXPIRED_AT_ONCE).is_some())
    }

    pub(super) fn opened(&mut self) -> Reply {
        let state = self.state;
        let kept = self.now.steady + self.rules.grace;
        for (deadline, process) in state.deadlines() {
            if process.phase != Phase::Ready {
                continue;
            }
            if deadline < kept {
                self.change(Change::Extended { number: process.id.number, deadline: kept });
            }
            let words = "the server was started again while the database decided; \
                         the ERP is to report commit or rollback";
            self.log(process.database, Happened::InDoubt, About::process(process.id), words);
        }
        for process in state.unsettled() {
            self.drive(process);
        }
        self.remind()
    }

    pub(super) fn remind(&mut self) -> Reply {
        let state = self.state;
        let undecided = state.databases().flat_map(|database| state.unknown(database.no));
        for process in undecided.take(REMINDED_AT_ONCE) {
            let words = "nobody has said yet whether the database committed";
            let about = About::process(process.id);
            self.log(process.database, Happened::StillUnknown, about, words);
        }
        Reply::Done
    }

    /// The files of a process once more, wherever they may still be.
    fn drive(&mut self, process: &Process) {
        let requests = process.to_erp.iter().map(|served| served.seq);
        let replies = process.from_erp.iter().map(|prepared| prepared.seq);
        let resolved = matches!(process.phase, Phase::Resolved { .. });
        for (seq, before) in requests
            .map(|seq| (seq, Place::Messages))
            .chain(replies.map(|seq| (seq, Place::Prepared)))
        {
            let Some(message) = self.state.message(seq) else { continue };
            let place = if resolved { Place::Unknown } else { before };
            let (database, to) = (message.database, message.spot());
            if place == to.place {
                continue;
            }
            let from = Spot { place, since: message.received };
            let process = Some(process.id.number);
            self.act(Action::Move { database, seq, from, to: Some(to), gone: None, process });
        }
        let (number, round) = (process.id.number, process.phase.round());
        self.act(Action::Settle { number, round });
    }

    pub(super) fn settled(&mut self, number: u64, round: u8) -> Reply {
        let Some(process) = self.state.process_by_number(number) else { return Reply::Done };
        let is_past = process.phase.round() != round;
        if process.settled || process.phase.is_live() || is_past {
            return Reply::Done;
        }
        let (phase, ended) = match process.phase {
            Phase::Cleanup | Phase::Failed => (Phase::Done, Some(self.now.wall)),
            phase => (phase, process.ended),
        };
        if process.phase == Phase::Failed {
            let words = "all files are where they belong";
            self.log(process.database, Happened::Mended, About::process(process.id), words);
        }
        let words = process.words.clone().filter(|_| process.phase != Phase::Failed);
        self.change(Change::Turned { number, phase, ended, words, settled: true });
        Reply::Done
    }

    pub(super) fn stuck(&mut self, number: u64, words: &str) -> Reply {
        let Some(process) = self.state.process_by_number(number) else { return Reply::Done };
        if process.settled || process.phase.is_live() {
            return Reply::Done;
        }
        let about = About::process(process.id);
        match process.phase {
            Phase::Cleanup => {
                let (phase, ended) = (Phase::Failed, process.ended);
                let kept = Some(super::draft::fit(words));
                self.change(Change::Turned { number, phase, ended, words: kept, settled: false });
                self.log(process.database, Happened::Failed, about, words);
            }
            Phase::Failed => {}
            _ => self.log_once(process.database, Happened::Failed, about, words),
        }
        Reply::Done
    }

    pub(super) fn damaged(&mut self, seq: Seq, words: &str) -> Reply {
        let Some(message) = self.state.message(seq) else { return Reply::Done };
        if matches!(message.standing, Standing::Aside(_)) {
            return Reply::Done;
        }
        let served = match message.standing {
            Standing::Served(number) => self.state.process_by_number(number),
            _ => None,
        };
        // Whatever its database decides, it will be said of it; then it is looked at again.
        if served.is_some_and(|process| process.phase == Phase::Ready) {
            return Reply::Done;
        }
        let aside = Standing::Aside(super::draft::fit(words).into());
        let place = if message.place == Place::Messages { Place::Error } else { message.place };
        self.place((seq, message), (place, aside), None);
        self.log(message.database, Happened::Damaged, About::message(seq, message.id), words);
        if let Some(process) = served.filter(|process| process.phase == Phase::Started) {
            let others = process.to_erp.iter().filter(|served| served.seq != seq);
            let to_erp: Vec<Served> = others.cloned().collect();
            let (number, empty) = (process.id.number, to_erp.is_empty());
            self.change(Change::Narrowed { number, to_erp, keyed: true });
            if empty {
                let words = "its only message cannot be read";
                self.turn(process, Phase::Interrupted, words, false);
            }
        }
        Reply::Done
    }

    pub(super) fn requeue(
        &mut self,
        database: DatabaseNo,
        messages: &[Seq],
    ) -> Result<Reply, Refusal> {
        self.database(database)?;
        if messages.len() > REQUEUED_MAX {
            return Err(Refusal::Invalid("at most 1,000 messages are put back at once"));
        }
        let mut many = 0;
        for seq in messages.iter().collect::<BTreeSet<_>>() {
            let found = self.state.message(*seq).filter(|message| message.database == database);
            let message = found.ok_or_else(|| {
                let id = seq.0.to_string().into();
                Refusal::NotFound { what: "message", id }
            })?;
            if !matches!(message.place, Place::Error | Place::Log) {
                return Err(Refusal::NotAside(seq.0));
            }
            self.renew(*seq, message);
            let words = match message.way {
                Way::ToErp => "it is served to the ERP again",
                Way::ToDevice => "it is delivered to its device again",
            };
            self.log(database, Happened::Requeued, About::message(*seq, message.id), words);
            many += 1;
        }
        Ok(Reply::Requeued(many))
    }

    pub(super) fn retain(&mut self, many: u32) -> Reply {
        let many = usize::try_from(many).unwrap_or(usize::MAX);
        let kept_from = self.kept_from();
        let excess = self.state.message_count().saturating_sub(self.rules.messages_max);
        let excess = usize::try_from(excess).unwrap_or(usize::MAX);
        let state = self.state;
        // Whoever still moves files owns them.
        let owned: BTreeSet<Seq> = state.unsettled().flat_map(seqs).collect();
        let old = state.over().enumerate();
        let old = old.take_while(|(at, (since, _))| *at < excess || *since < kept_from);
        let old = old.filter(|(_, (_, seq))| !owned.contains(seq));
        let mut forgotten = 0;
        for (_, (_, seq)) in old.take(many) {
            forgotten += 1;
            if let Some(message) = state.message(seq) {
                self.forget(seq, message, None);
            }
        }
        let kept = usize::try_from(self.rules.processes_kept_max).unwrap_or(usize::MAX);
        let excess = state.ended().len().saturating_sub(kept);
        let old = state.ended().enumerate();
        let old = old.take_while(|(at, (ended, _))| *at < excess || *ended < kept_from);
        for (_, (_, number)) in old.take(many.saturating_sub(forgotten)) {
            forgotten += 1;
            self.change(Change::ProcessForgotten(number));
        }
        Reply::More(forgotten >= many)
    }

    fn kept_from(&self) -> Wall {
        let retention = i64::try_from(self.rules.retention.0).unwrap_or(i64::MAX);
        Wall(self.now.wall.0.saturating_sub(retention))
    }
}

/// The messages of a process.
fn seqs(process: &Process) -> impl Iterator<Item = Seq> {
    let requests = process.to_erp.iter().map(|served| served.seq);
    requests.chain(process.from_erp.iter().map(|prepared| prepared.seq))
}

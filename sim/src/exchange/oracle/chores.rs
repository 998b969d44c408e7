//! Time, folders, retention, and what an administrator puts right.

use std::collections::BTreeSet;

use handoff_exchange::{DatabaseNo, Happened, Phase, Place, Process, Reply, Seq, Standing};
use handoff_types::Wall;

use super::{Case, Expect, Letter, Oracle, Violation, is_answer};

impl Oracle {
    pub(super) fn ticked(&mut self, case: &Case<'_>) -> Result<Expect, Violation> {
        let mut expect = Expect::default();
        let due = |one: &&Process| one.phase.is_live() && one.deadline <= case.now.steady;
        let due: Vec<Process> = self.processes.values().filter(due).cloned().collect();
        for process in due {
            self.expired(case, &process, &mut expect)?;
        }
        is_answer(case.asked, case.reply, &Reply::More(false))?;
        Ok(expect)
    }

    /// A server has begun: what is ready is kept for a while, and people are told.
    pub(super) fn opened(&mut self, case: &Case<'_>) -> Result<Expect, Violation> {
        let mut expect = Expect { drives: true, ..self.reminders() };
        let kept = case.now.steady + case.rules.grace;
        for process in self.processes.values_mut().filter(|one| one.phase == Phase::Ready) {
            process.deadline = process.deadline.max(kept);
            expect.logs.push((Happened::InDoubt, Some(process.id.number), None));
        }
        is_answer(case.asked, case.reply, &Reply::Done)?;
        Ok(expect)
    }

    pub(super) fn reminded(&mut self, case: &Case<'_>) -> Result<Expect, Violation> {
        is_answer(case.asked, case.reply, &Reply::Done)?;
        Ok(self.reminders())
    }

    fn reminders(&self) -> Expect {
        let undecided = self.processes.values().filter(|one| one.phase == Phase::Unknown);
        let note = |one: &Process| (Happened::StillUnknown, Some(one.id.number), None);
        Expect { logs: undecided.map(note).collect(), ..Expect::default() }
    }

    /// The folders show what a process decided. What they say of an earlier decision is late.
    pub(super) fn settled(
        &mut self,
        case: &Case<'_>,
        number: u64,
        round: u8,
    ) -> Result<Expect, Violation> {
        is_answer(case.asked, case.reply, &Reply::Done)?;
        let mut expect = Expect::default();
        if self.owed.get(&number) != Some(&round) {
            return Ok(expect);
        }
        let Some(process) = self.processes.get_mut(&number) else { return Ok(expect) };
        if process.settled || process.phase.is_live() {
            return Ok(expect);
        }
        if process.phase == Phase::Failed {
            expect.logs.push((Happened::Mended, Some(number), None));
        }
        if matches!(process.phase, Phase::Cleanup | Phase::Failed) {
            (process.phase, process.ended) = (Phase::Done, Some(case.now.wall));
        }
        process.settled = true;
        Ok(expect)
    }

    pub(super) fn stuck(&mut self, case: &Case<'_>, number: u64) -> Result<Expect, Violation> {
        is_answer(case.asked, case.reply, &Reply::Done)?;
        let mut expect = Expect::default();
        let Some(process) = self.processes.get_mut(&number) else { return Ok(expect) };
        if process.settled || process.phase.is_live() {
            return Ok(expect);
        }
        let note = (Happened::Failed, Some(number), None);
        match process.phase {
            Phase::Cleanup => {
                process.phase = Phase::Failed;
                expect.logs.push(note);
            }
            Phase::Failed => {}
            _ => expect.maybe.push(note),
        }
        Ok(expect)
    }

    pub(super) fn damaged(&mut self, case: &Case<'_>, seq: Seq) -> Result<Expect, Violation> {
        is_answer(case.asked, case.reply, &Reply::Done)?;
        let mut expect = Expect::default();
        let Some(Letter { is, .. }) = self.letters.get(&seq) else { return Ok(expect) };
        let served = match is.standing {
            Standing::Aside(_) => return Ok(expect),
            Standing::Served(number) => self.processes.get(&number).cloned(),
            Standing::Free | Standing::Late(_) => None,
        };
        // What its database decides is said of it all the same.
        if served.as_ref().is_some_and(|one| one.phase == Phase::Ready) {
            return Ok(expect);
        }
        let place = if is.place == Place::Messages { Place::Error } else { is.place };
        self.place(seq, place, Standing::Aside("*".into()), case.now);
        expect.logs.push((Happened::Damaged, None, Some(seq)));
        let number = served.map(|one| one.id.number);
        if let Some(known) = number.and_then(|number| self.processes.get_mut(&number)) {
            known.to_erp.retain(|one| one.seq != seq);
            if known.to_erp.is_empty() {
                let number = known.id.number;
                self.turn(case, number, Phase::Interrupted, &mut expect);
            }
        }
        Ok(expect)
    }

    pub(super) fn requeued(
        &mut self,
        case: &Case<'_>,
        database: DatabaseNo,
        messages: &[Seq],
    ) -> Result<Expect, Violation> {
        let mut wrong = BTreeSet::new();
        if self.database(database).is_none() {
            wrong.insert("not found");
        }
        let messages: BTreeSet<Seq> = messages.iter().copied().collect();
        for seq in &messages {
            match self.letters.get(seq).filter(|one| one.is.database == database) {
                None => drop(wrong.insert("not found")),
                Some(one) if !matches!(one.is.place, Place::Error | Place::Log) => {
                    wrong.insert("not aside");
                }
                Some(_) => {}
            }
        }
        if case.objects(&wrong)? {
            return Ok(Expect::default());
        }
        let count = u32::try_from(messages.len()).unwrap_or(0);
        is_answer(case.asked, case.reply, &Reply::Requeued(count))?;
        let mut expect = Expect::default();
        for seq in messages {
            self.place(seq, Place::Messages, Standing::Free, case.now);
            if let Some(letter) = self.letters.get_mut(&seq) {
                (letter.is.attempts, letter.is.silences) = (0, 0);
                letter.wait = handoff_types::Span::ZERO;
            }
            expect.logs.push((Happened::Requeued, None, Some(seq)));
        }
        Ok(expect)
    }

    /// What is over is forgotten when it is too old, or when there is too much; nothing else ever.
    pub(super) fn retained(&mut self, case: &Case<'_>, many: u32) -> Result<Expect, Violation> {
        let many = usize::try_from(many).unwrap_or(usize::MAX);
        let retention = i64::try_from(case.rules.retention.0).unwrap_or(i64::MAX);
        let kept_from = Wall(case.now.wall.0.saturating_sub(retention));
        let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let excess = small((self.letters.len() as u64).saturating_sub(case.rules.messages_max));
        let over = |letter: &Letter| matches!(letter.is.place, Place::Log | Place::Error);
        let over = self.letters.iter().filter(|(_, letter)| over(letter));
        let old =
            oldest(over.map(|(seq, letter)| (letter.is.since, *seq)).collect(), excess, kept_from);
        // Whoever still moves files owns them.
        let owned: BTreeSet<Seq> = self
            .processes
            .values()
            .filter(|one| !one.settled && !one.phase.is_live())
            .flat_map(|one| {
                let requests = one.to_erp.iter().map(|served| served.seq);
                requests.chain(one.from_erp.iter().map(|prepared| prepared.seq))
            })
            .collect();
        let old = old.into_iter().filter(|seq| !owned.contains(seq));
        let old: Vec<Seq> = old.take(many).collect();
        for seq in &old {
            self.letters.remove(seq);
        }
        let over = self.processes.values().filter(|one| one.phase.is_over() && one.settled);
        let over: Vec<(Wall, u64)> =
            over.map(|one| (one.ended.unwrap_or(one.started), one.id.number)).collect();
        let excess = over.len().saturating_sub(small(case.rules.processes_kept_max));
        let gone = oldest(over, excess, kept_from);
        let gone: Vec<u64> = gone.into_iter().take(many - old.len()).collect();
        for number in &gone {
            self.processes.remove(number);
        }
        let more = old.len() + gone.len() >= many;
        is_answer(case.asked, case.reply, &Reply::More(more))?;
        Ok(Expect::default())
    }
}

/// Those that go: the oldest, while they are too many or too old.
fn oldest<T: Ord>(mut all: Vec<(Wall, T)>, excess: usize, kept_from: Wall) -> Vec<T> {
    all.sort();
    let gone = all.into_iter().enumerate();
    let gone = gone.take_while(|(at, (since, _))| *at < excess || *since < kept_from);
    gone.map(|(_, (_, one))| one).collect()
}

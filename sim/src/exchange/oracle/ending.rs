//! How a process ends.

use std::collections::BTreeSet;

use handoff_exchange::{
    DatabaseNo, Happened, Outcome, Phase, Place, Prepared, Process, Reply, Seq, Standing, Status,
};

use super::{Back, Case, Expect, Oracle, Violation, no_answer, outcome_is};

/// That it is so, or what is in the way.
type Ends = Result<(), BTreeSet<&'static str>>;

impl Oracle {
    /// The ERP says what its database did.
    pub(super) fn reported(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        committed: bool,
        expect: &mut Expect,
    ) -> Result<Ends, Violation> {
        let number = process.id.number;
        let is_over = match process.phase {
            Phase::Started if committed => return Ok(Err(BTreeSet::from(["not prepared"]))),
            Phase::Started => {
                self.given_up(case, process, expect)?;
                return Ok(Ok(()));
            }
            Phase::Ready if committed => {
                self.spread(case, process, Place::Log, expect)?;
                for Prepared { seq, .. } in &process.from_erp {
                    self.hand(*seq, Place::Messages, case);
                }
                self.turn(case, number, Phase::Cleanup, expect);
                return Ok(Ok(()));
            }
            Phase::Ready => {
                for one in &process.to_erp {
                    self.give_back(case, one.seq, Back::InVain, number, expect)?;
                }
                for Prepared { seq, .. } in &process.from_erp {
                    self.letters.remove(seq);
                }
                self.turn(case, number, Phase::RolledBack, expect);
                expect.logs.push((Happened::RolledBack, Some(number), None));
                return Ok(Ok(()));
            }
            Phase::Unknown => {
                self.said_late(case, process, committed, expect);
                return Ok(Ok(()));
            }
            Phase::Cleanup | Phase::Failed | Phase::Done => true,
            Phase::Resolved { committed } => committed,
            Phase::RolledBack | Phase::Interrupted | Phase::Expired => false,
        };
        if is_over == committed {
            return Ok(Ok(()));
        }
        if let Some(known) = self.processes.get_mut(&number)
            && !known.contradicted
        {
            known.contradicted = true;
            expect.logs.push((Happened::Contradiction, Some(number), None));
        }
        Ok(Err(BTreeSet::from(["contradicts"])))
    }

    /// What nobody knew is said: what was processed, and what rests on it, goes on from Unknown.
    fn said_late(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        committed: bool,
        expect: &mut Expect,
    ) {
        let number = process.id.number;
        let processed = process.to_erp.iter().filter(|one| one.status == Some(Status::Processed));
        for one in processed {
            if self.place_of(one.seq) == Some(Place::Unknown) {
                let to = if committed { Place::Log } else { Place::Messages };
                self.place(one.seq, to, Standing::Free, case.now);
            }
        }
        for Prepared { seq, .. } in process.from_erp.iter().filter(|one| !one.notice) {
            if self.place_of(*seq) != Some(Place::Unknown) {
                continue;
            }
            match committed {
                true => self.place(*seq, Place::Messages, Standing::Free, case.now),
                false => drop(self.letters.remove(seq)),
            }
        }
        self.turn(case, number, Phase::Resolved { committed }, expect);
        expect.logs.push((Happened::Resolved, Some(number), None));
    }

    fn place_of(&self, seq: Seq) -> Option<Place> {
        self.letters.get(&seq).map(|letter| letter.is.place)
    }

    fn hand(&mut self, seq: Seq, to: Place, case: &Case<'_>) {
        self.place(seq, to, Standing::Free, case.now);
    }

    /// Requests go where their verdicts say.
    fn spread(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        processed: Place,
        expect: &mut Expect,
    ) -> Result<(), Violation> {
        let number = process.id.number;
        for one in &process.to_erp {
            match one.status {
                Some(Status::Processed) => {
                    self.place(one.seq, processed, Standing::Free, case.now);
                }
                Some(Status::Incorrect) => {
                    let aside = Standing::Aside("*".into());
                    self.place(one.seq, Place::Error, aside, case.now);
                }
                Some(Status::Deadlock) => {
                    self.give_back(case, one.seq, Back::Failed, number, expect)?;
                }
                None => {
                    let why = format!("{:?} is in it without a verdict", one.seq);
                    return Err(no_answer(case.asked, why));
                }
            }
        }
        Ok(())
    }

    fn given_up(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        expect: &mut Expect,
    ) -> Result<(), Violation> {
        let number = process.id.number;
        for one in &process.to_erp {
            self.give_back(case, one.seq, Back::Untried, number, expect)?;
        }
        self.turn(case, number, Phase::Interrupted, expect);
        expect.logs.push((Happened::Interrupted, Some(number), None));
        Ok(())
    }

    pub(super) fn interrupted(
        &mut self,
        case: &Case<'_>,
        process: &Process,
    ) -> Result<Expect, Violation> {
        let mut expect = Expect::default();
        let number = process.id.number;
        let ends = match process.phase {
            Phase::Started => {
                self.given_up(case, process, &mut expect)?;
                Ok(())
            }
            Phase::Interrupted => Ok(()),
            // What never happened may be said to have stopped.
            Phase::RolledBack | Phase::Expired | Phase::Resolved { committed: false } => {
                return match case.reply {
                    Reply::Ok { .. } => Ok(expect),
                    _ => case.refused(["past"]).map(|()| expect),
                };
            }
            Phase::Ready | Phase::Unknown => {
                expect.maybe.push((Happened::TooLate, Some(number), None));
                Err(BTreeSet::from(["ready"]))
            }
            Phase::Cleanup | Phase::Failed | Phase::Done | Phase::Resolved { committed: true } => {
                Err(BTreeSet::from(["past"]))
            }
        };
        case.ends(ends)?;
        Ok(expect)
    }

    pub(super) fn resolved(
        &mut self,
        case: &Case<'_>,
        database: DatabaseNo,
        outcomes: &[Outcome],
    ) -> Result<Expect, Violation> {
        let Reply::Resolved(results) = case.reply else {
            return Err(no_answer(case.asked, "that is no answer to it".to_owned()));
        };
        if results.len() != outcomes.len() {
            return Err(no_answer(case.asked, "one result for each".to_owned()));
        }
        let mut expect = Expect::default();
        for (outcome, result) in outcomes.iter().zip(results) {
            let known = self.processes.get(&outcome.id.number);
            let known = known.filter(|one| one.id == outcome.id && one.database == database);
            let ends = match known.cloned() {
                None => Err(BTreeSet::from(["no process"])),
                Some(process) => self.reported(case, &process, outcome.committed, &mut expect)?,
            };
            outcome_is(case, result, &ends)?;
        }
        Ok(expect)
    }

    /// Nobody was heard of in time.
    pub(super) fn expired(
        &mut self,
        case: &Case<'_>,
        process: &Process,
        expect: &mut Expect,
    ) -> Result<(), Violation> {
        let number = process.id.number;
        if process.phase == Phase::Started {
            for one in &process.to_erp {
                self.give_back(case, one.seq, Back::InVain, number, expect)?;
            }
            self.turn(case, number, Phase::Expired, expect);
            expect.logs.push((Happened::Expired, Some(number), None));
            return Ok(());
        }
        self.spread(case, process, Place::Unknown, expect)?;
        for Prepared { seq, notice } in &process.from_erp {
            self.hand(*seq, if *notice { Place::Messages } else { Place::Unknown }, case);
        }
        self.turn(case, number, Phase::Unknown, expect);
        expect.logs.push((Happened::Unknown, Some(number), None));
        Ok(())
    }
}

//! What must be once everybody did their work: every message processed, refused or set aside, and
//! whatever nobody can know announced.

use handoff_exchange::{
    Ask, Begun, Command, Database, MessageId, Outcome, Phase, ProcessId, Reply, Rules, Seq, State,
    Status, Step, Verdict, Wish,
};
use handoff_types::{Entropy, Now, Span};

use super::Rules as Speaks;
use super::asked::{Asked, Look, What};
use super::databases::Databases;
use super::oracle::Oracle;
use super::workload::{Style, Who, Workload};
use crate::driver::{Fault, ensure};

/// More rounds than anybody needs: processes and waits are over by then.
const ROUNDS: usize = 400;

/// Time between two of them.
const PAUSE: Span = Span::from_secs(60);

/// A room whose work is done to the end.
struct Drain<'a> {
    oracle: &'a mut Oracle,
    databases: &'a mut Databases,
    state: State,
    now: Now,
    rules: Rules,
    draws: u128,
}

/// Lets every ERP do all there is to do, on a copy of the room.
pub(super) fn drain<M: Speaks>(
    oracle: &mut Oracle,
    databases: &mut Databases,
    workload: &Workload,
    state: &State,
    now: Now,
) -> Result<(), Fault> {
    let rules = Rules { in_order: workload.rules.in_order, ..Rules::default() };
    let (state, draws) = (state.clone(), 1 << 100);
    let mut drain = Drain { oracle, databases, state, now, rules, draws };
    drain.ask::<M>(Ask::Opened)?;
    // Whoever was in the middle of something is not there any more.
    for process in state_processes(&drain.state) {
        drain.databases.roll_back(process.0, process.1);
    }
    let all: Vec<Database> = drain.state.databases().cloned().collect();
    for database in &all {
        let reports = workload.style(&database.id) == Style::Marker;
        drain.database::<M>(database, reports)?;
    }
    drain.settle::<M>()?;
    let reports = |id: &_| workload.style(id) == Style::Marker;
    oracle.is_done(databases, reports)?;
    Ok(())
}

fn state_processes(state: &State) -> Vec<(handoff_exchange::DatabaseNo, ProcessId)> {
    state.processes_below(u64::MAX).map(|one| (one.database, one.id)).collect()
}

impl Drain<'_> {
    fn ask<M: Speaks>(&mut self, ask: Ask) -> Result<Reply, Fault> {
        self.draws += 1;
        let command = Command { ask, rules: self.rules };
        let decided = M::decide(&self.state, &command, self.now, Entropy(self.draws));
        decided.changes.iter().for_each(|change| M::evolve(&mut self.state, change));
        let look = Look::at::<M>(&self.state, self.now);
        let (reply, actions) = (decided.reply, decided.actions);
        let command = Box::new(command);
        let what = What::Command { command, reply: reply.clone(), actions };
        let asked = Asked { now: self.now, who: Who::Nobody, what, look };
        self.oracle.answered(&asked, self.databases)?;
        Ok(reply)
    }

    fn settle<M: Speaks>(&mut self) -> Result<(), Fault> {
        for (number, round) in self.oracle.owed() {
            self.ask::<M>(Ask::Settled { number, round })?;
        }
        let left = self.state.unsettled().count();
        ensure(left == 0, || format!("{left} processes are never settled"))
    }

    fn database<M: Speaks>(&mut self, database: &Database, reports: bool) -> Result<(), Fault> {
        let no = database.no;
        for _ in 0..ROUNDS {
            self.ask::<M>(Ask::Tick)?;
            self.settle::<M>()?;
            if reports {
                self.resolve::<M>(database)?;
            }
            let busy = self.state.live(no).is_some();
            let undecided = reports && self.state.unknown(no).next().is_some();
            if !busy && !undecided && !self.oracle.waits(no) {
                return Ok(());
            }
            self.work::<M>(database)?;
            self.now.steady = self.now.steady + PAUSE;
            self.now.wall = self.now.wall + PAUSE;
        }
        Err(Fault::Invariant(format!("the work of {} never ends", database.id)))
    }

    fn resolve<M: Speaks>(&mut self, database: &Database) -> Result<(), Fault> {
        let no = database.no;
        let ready = self.state.live(no).filter(|live| live.phase == Phase::Ready);
        let ids: Vec<ProcessId> =
            ready.into_iter().chain(self.state.unknown(no)).map(|one| one.id).collect();
        let mut outcomes = Vec::new();
        for id in ids {
            let committed = self.databases.fence(no, id);
            let open = || Fault::Invariant(format!("{id} is open, and nobody is there"));
            outcomes.push(Outcome { id, committed: committed.ok_or_else(open)? });
        }
        if !outcomes.is_empty() {
            self.ask::<M>(Ask::Resolve { database: no, outcomes })?;
        }
        Ok(())
    }

    /// Processes what there is.
    fn work<M: Speaks>(&mut self, database: &Database) -> Result<(), Fault> {
        let no = database.no;
        let begun = self.ask::<M>(Ask::Begin { database: no, wish: Wish::default() })?;
        let Reply::Begun(Begun::Started { id, messages, .. }) = begun else { return Ok(()) };
        let seqs: Vec<Seq> = messages.iter().map(|one| one.seq).collect();
        let ids: Vec<MessageId> =
            seqs.iter().filter_map(|seq| Some(self.state.message(*seq)?.id)).collect();
        self.databases.open(no, id);
        let processed = |message: &MessageId| Verdict {
            message: *message,
            status: Status::Processed,
            code: None,
            error: None,
        };
        let verdicts = ids.iter().map(processed).collect();
        let prepare = Step::Prepare { verdicts, messages: Vec::new(), digest: 1 };
        let prepared = self.ask::<M>(Ask::Process { database: no, id, step: prepare })?;
        let ok = matches!(prepared, Reply::Ok { .. });
        ensure(ok, || format!("{id} cannot be prepared: {prepared:?}"))?;
        self.databases.commit(no, id, &seqs)?;
        self.ask::<M>(Ask::Process { database: no, id, step: Step::Commit }).map(drop)
    }
}

//! What must be once everybody did their work: every call that was confirmed is over.

use handoff_calls::{Ask, Command, Notice, Rules, Serves, State};
use handoff_types::{Entropy, Now, Span};

use super::Rules as Speaks;
use super::asked::Asked;
use super::oracle::{Oracle, answer};
use super::workload::{CALLERS, CHANNELS, WORKERS, name};
use crate::driver::{Fault, ensure};

/// More rounds than anybody needs: leases and pauses are over by then.
const ROUNDS: usize = 60;

/// Time between two of them.
const PAUSE: Span = Span::from_secs(3);

/// More ticks than one moment has.
const TICKS: usize = 100;

/// A room whose work is done to the end.
struct Drain<'a> {
    oracle: &'a mut Oracle,
    state: State,
    now: Now,
    rules: Rules,
    draws: u128,
}

/// One consumer serves everything and answers everything, on a copy of the room.
pub(super) fn drain<M: Speaks>(
    oracle: &mut Oracle,
    rules: Rules,
    state: &State,
    now: Now,
) -> Result<(), Fault> {
    let (state, draws) = (state.clone(), 1 << 100);
    let mut drain = Drain { oracle, state, now, rules, draws };
    drain.ask::<M>(Ask::Opened)?;
    for _ in 0..ROUNDS {
        drain.round::<M>()?;
        if drain.state.open_count() == 0 {
            return Ok(drain.oracle.closes()?);
        }
    }
    let open = drain.state.open_count();
    Err(Fault::Invariant(format!("{open} calls never end")))
}

impl Drain<'_> {
    fn ask<M: Speaks>(&mut self, ask: Ask) -> Result<Vec<Notice>, Fault> {
        self.draws += 1;
        let command = Command { ask, rules: self.rules };
        let decided = M::decide(&self.state, &command, self.now, Entropy(self.draws));
        decided.changes.iter().for_each(|change| M::evolve(&mut self.state, change));
        let (reply, notices) = (decided.reply, decided.actions);
        self.oracle.decides(&command.ask, self.now);
        let asked = Asked { now: self.now, ask: command.ask, reply, notices };
        self.oracle.answered(&asked)?;
        Ok(asked.notices)
    }

    fn round<M: Speaks>(&mut self) -> Result<(), Fault> {
        for client in CALLERS {
            self.ask::<M>(Ask::Init { client, name: "".into(), serves: Vec::new(), eager: false })?;
        }
        let [client, ..] = WORKERS;
        let all = CHANNELS.map(|channel| Serves { channel: name(channel), concurrency: 100 });
        let mut told = self.ask::<M>(Ask::Init {
            client,
            name: "".into(),
            serves: all.to_vec(),
            eager: false,
        })?;
        for ticks in 0.. {
            ensure(ticks < TICKS, || "one moment never ends".to_owned())?;
            let due = M::next_deadline(&self.state, self.now);
            if due.is_none_or(|due| due > self.now.steady) {
                break;
            }
            told.extend(self.ask::<M>(Ask::Tick)?);
        }
        for notice in told {
            let Notice::Offer(offer) = notice else { continue };
            if offer.to == client {
                let (call, fence) = (offer.call, offer.fence);
                let result = Ok(answer(client, fence));
                self.ask::<M>(Ask::Respond { client, call, fence, result })?;
            }
        }
        self.now.steady = self.now.steady + PAUSE;
        self.now.wall = self.now.wall + PAUSE;
        Ok(())
    }
}

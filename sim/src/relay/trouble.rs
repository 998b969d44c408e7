//! What goes wrong: destinations, lines, disks, and the agent itself.

use handoff_log::disk::{Call, Calls, Short};
use handoff_relay_agent::ByHand;
use handoff_types::Span;

use super::centre::{Centre, Manner};
use super::{Line, PLACES, Plan, Relayed, Twist};
use crate::driver::Fault;
use crate::history::{History, Kind};

impl<T: Twist> Relayed<T> {
    pub(super) fn behave(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(place) = self.dice.pick(&self.plan.to).copied() else { return Ok(()) };
        let manners = [
            (Manner::Takes, "a destination is well"),
            (Manner::Takes, "a destination is well"),
            (Manner::Gone, "a destination is gone"),
            (Manner::Gone, "a destination is gone"),
            (Manner::Mute, "confirmations are lost"),
            (Manner::Refuses, "a sink is down"),
        ];
        let Some((manner, word)) = self.dice.pick(&manners).copied() else { return Ok(()) };
        history.tell(format_args!("d{place}: {word}"));
        history.count(Kind::Injected, word);
        let dies = self.dice.one_in(3);
        if let Some(centre) = self.centres.get_mut(place) {
            centre.manner = manner;
            if dies {
                history.count(Kind::Injected, "a receiver forgets its decoders");
                centre.restart();
            }
        }
        if dies || manner == Manner::Gone {
            let to = |line: &Line| self.plan.to.get(line.call.to) == Some(&place);
            let lines: Vec<u64> =
                self.lines.iter().filter(|(_, line)| to(line)).map(|(id, _)| *id).collect();
            for id in lines {
                self.cut(id, history)?;
            }
        }
        Ok(())
    }

    /// Somebody says again what was said once.
    pub(super) fn replay(&mut self, history: &mut History) -> Result<(), Fault> {
        let place = usize::try_from(self.dice.below(PLACES as u64)).unwrap_or(0);
        let (one, two) = (self.dice.roll(), self.dice.roll());
        let pick = move |count: usize| {
            let roll = if count > 5 { one } else { two };
            usize::try_from(roll % (count as u64).max(1)).unwrap_or(0)
        };
        let line = u64::MAX - self.dice.below(1 << 40);
        let Some(centre) = self.centres.get_mut(place) else { return Ok(()) };
        if let Some(before) = centre.replay::<T>(line, pick)? {
            history.tell(format_args!("d{place} hears something again, and hangs up on {before}"));
            history.count(Kind::Injected, "something is said again");
            if self.lines.remove(&before).is_some()
                && let Some(agent) = &mut self.agent
            {
                agent.down(before);
            }
        }
        Ok(())
    }

    pub(super) fn strike(&mut self, history: &mut History) {
        let soon = 1 + self.dice.below(4);
        let word = match self.dice.below(8) {
            0 | 1 => {
                self.faults.fail_nth(Calls::Only(Call::Sync), soon);
                "a sync fails"
            }
            2 => {
                self.faults.fail_nth(Calls::Only(Call::Write), soon);
                "a write fails"
            }
            3 => {
                self.faults.shorten_nth(1, Short::OneByte);
                self.faults.fail_nth(Calls::Only(Call::Write), 2);
                "a write fails halfway"
            }
            4 => {
                self.faults.fill(self.dice.below(4_000));
                "the disk is nearly full"
            }
            5 => {
                self.faults.fail_all(Calls::Syncs);
                "all syncs fail"
            }
            6 => {
                self.faults.fail_nth(Calls::Only(Call::Read), soon);
                "a read fails"
            }
            _ => {
                self.faults.fail_nth(Calls::Any, 1 + self.dice.below(20));
                "some call fails"
            }
        };
        history.tell(format_args!("from now on {word}"));
        history.count(Kind::Injected, word);
    }

    /// The agent ends without a word, and its machine perhaps with it.
    pub(super) fn crash(&mut self, history: &mut History) -> Result<(), Fault> {
        self.agent = None;
        self.answers.clear();
        self.oracle.died();
        if self.dice.one_in(2) {
            history.tell(format_args!("the agent is killed"));
            history.count(Kind::Restart, "killed");
            self.disk = self.disk.kill();
        } else {
            history.tell(format_args!("the power fails"));
            history.count(Kind::Restart, "the power fails");
            self.disk = self.disk.crash(self.dice.roll()).0;
        }
        self.hang_up();
        self.begin(history)
    }

    /// Whoever talked to the agent notices that it is gone.
    fn hang_up(&mut self) {
        self.lines.clear();
        self.centres.iter_mut().for_each(Centre::hang_up);
    }

    /// The agent stops in order, if it can, and begins with another configuration.
    pub(super) fn restart(&mut self, plan: Plan, history: &mut History) -> Result<(), Fault> {
        if let Some(agent) = &mut self.agent {
            agent.stop();
        }
        let over = self.now().steady + Span::from_secs(30);
        let stopped = loop {
            self.turn(history)?;
            while self.agent.as_mut().is_some_and(ByHand::work) {}
            let lines: Vec<u64> = self.lines.keys().copied().collect();
            for line in lines {
                self.carry(line, history)?;
            }
            for place in 0..PLACES {
                self.store(place)?;
            }
            self.listen(history)?;
            if self.agent.as_mut().is_none_or(ByHand::has_stopped) {
                break true;
            }
            if over <= self.now().steady {
                break false;
            }
            self.pass(Span::from_millis(200));
        };
        let failing = self.faults.struck();
        while self.agent.as_mut().is_some_and(ByHand::work) {}
        self.listen(history)?;
        self.agent = None;
        self.answers.clear();
        // What was asked of the disk last may have failed: then it is as if it had died.
        let orderly = stopped && self.faults.struck() == failing;
        history.tell(format_args!("stopped: {orderly}"));
        history.count(Kind::Restart, if orderly { "stopped" } else { "stopped, not in order" });
        if !orderly {
            self.oracle.died();
        }
        self.disk = self.disk.kill();
        self.hang_up();
        self.plan = plan;
        self.begin(history)
    }
}

//! What goes wrong: destinations, lines, disks, and the agent itself.

use handoff_log::disk::{Call, Calls, Crash, Short};
use handoff_relay_agent::ByHand;
use handoff_types::Span;

use super::centre::Manner;
use super::oracle::SiteId;
use super::site::{Site, copied};
use super::{Line, PLACES, Plan, Relayed, Twist};
use crate::driver::Fault;
use crate::history::{History, Kind};

impl<T: Twist> Relayed<T> {
    pub(super) fn behave(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(place) = self.dice.pick(&self.here.plan.to).copied() else { return Ok(()) };
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
            let to = |line: &Line| line.place == place;
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
            if let Some(line) = self.lines.remove(&before) {
                self.turn_to(line.site);
                if let Some(agent) = &mut self.here.agent {
                    agent.down(line.call.line);
                }
            }
        }
        Ok(())
    }

    pub(super) fn strike(&mut self, history: &mut History) {
        let soon = 1 + self.dice.below(4);
        let word = match self.dice.below(8) {
            0 | 1 => {
                self.here.faults.fail_nth(Calls::Only(Call::Sync), soon);
                "a sync fails"
            }
            2 => {
                self.here.faults.fail_nth(Calls::Only(Call::Write), soon);
                "a write fails"
            }
            3 => {
                self.here.faults.shorten_nth(1, Short::OneByte);
                self.here.faults.fail_nth(Calls::Only(Call::Write), 2);
                "a write fails halfway"
            }
            4 => {
                self.here.faults.fill(self.dice.below(4_000));
                "the disk is nearly full"
            }
            5 => {
                self.here.faults.fail_all(Calls::Syncs);
                "all syncs fail"
            }
            6 => {
                self.here.faults.fail_nth(Calls::Only(Call::Read), soon);
                "a read fails"
            }
            _ => {
                self.here.faults.fail_nth(Calls::Any, 1 + self.dice.below(20));
                "some call fails"
            }
        };
        history.tell(format_args!("from now on {word}"));
        history.count(Kind::Injected, word);
    }

    /// The agent ends without a word, and its machine perhaps with it.
    pub(super) fn crash(&mut self, history: &mut History) -> Result<(), Fault> {
        self.die();
        let site = self.here.id;
        self.oracle.died(site);
        if self.dice.one_in(2) {
            history.tell(format_args!("{site} is killed"));
            history.count(Kind::Restart, "killed");
            self.here.disk = self.here.disk.kill();
        } else {
            history.tell(format_args!("the power of {site} fails"));
            history.count(Kind::Restart, "the power fails");
            let seed = self.dice.roll();
            let after = if T::LIES { Crash::new() } else { self.here.disk.crash(seed).0 };
            self.here.disk = after;
        }
        self.begin(history)
    }

    /// The agent is gone, and whoever talked to it notices.
    fn die(&mut self) {
        self.here.agent = None;
        self.here.answers.clear();
        let site = self.here.id;
        self.lines.retain(|_, line| line.site != site);
    }

    /// Its directory is copied while it runs. Another agent with the same name and the same
    /// configuration begins on the copy, beside it; or the copy is kept.
    pub(super) fn copy(&mut self, history: &mut History) -> Result<(), Fault> {
        let copied = self.here.copied();
        let copied = copied.map_err(|error| Fault::Invariant(format!("no copy: {error}")))?;
        let site = self.here.id;
        if !self.others.is_empty() || self.dice.one_in(2) {
            history.tell(format_args!("the directory of {site} is copied"));
            self.here.older = Some(copied);
            return Ok(());
        }
        history.tell(format_args!("another agent begins on a copy of the directory of {site}"));
        history.count(Kind::Injected, "another agent begins on a copy");
        let twin = Site::on(SiteId(1), copied, self.here.plan.clone());
        self.others.push(std::mem::replace(&mut self.here, twin));
        self.begin(history)
    }

    /// The agent ends, and begins again on an older copy of its directory.
    pub(super) fn restore(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(older) = &self.here.older else { return Ok(()) };
        let again = copied(&older.seen());
        let again = again.map_err(|error| Fault::Invariant(format!("no copy: {error}")))?;
        let site = self.here.id;
        history.tell(format_args!("{site} begins again on an older copy of its directory"));
        history.count(Kind::Injected, "it begins on an older copy");
        self.die();
        self.oracle.restored(site);
        self.here.disk = again;
        self.begin(history)
    }

    /// The agent stops in order, if it can, and begins with another configuration.
    pub(super) fn restart(&mut self, plan: Plan, history: &mut History) -> Result<(), Fault> {
        if let Some(agent) = &mut self.here.agent {
            agent.stop();
        }
        let site = self.here.id;
        let over = self.now().steady + Span::from_secs(30);
        let stopped = loop {
            self.turn(history)?;
            while self.here.agent.as_mut().is_some_and(ByHand::work) {}
            let lines: Vec<u64> = self.lines.keys().copied().collect();
            for line in lines {
                self.carry(line, history)?;
            }
            self.turn_to(site);
            for place in 0..PLACES {
                self.store(place)?;
            }
            self.listen(history)?;
            if self.here.agent.as_mut().is_none_or(ByHand::has_stopped) {
                break true;
            }
            if over <= self.now().steady {
                break false;
            }
            self.pass(Span::from_millis(200));
        };
        let failing = self.here.faults.struck();
        while self.here.agent.as_mut().is_some_and(ByHand::work) {}
        self.listen(history)?;
        self.die();
        // What was asked of the disk last may have failed: then it is as if it had died.
        let orderly = stopped && self.here.faults.struck() == failing;
        history.tell(format_args!("{site} stopped: {orderly}"));
        history.count(Kind::Restart, if orderly { "stopped" } else { "stopped, not in order" });
        if !orderly {
            self.oracle.died(site);
        }
        self.here.disk = self.here.disk.kill();
        self.here.plan = plan;
        self.begin(history)
    }
}

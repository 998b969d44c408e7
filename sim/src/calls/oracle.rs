//! Whoever judges the calls room. It knows what was asked, what was answered and what was told; of the
//! machine it knows nothing.

mod violation;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handoff_calls::{
    Ask, CallId, ClientId, Failing, Failure, NewCall, Notice, Offer, OnLost, Outcome, Reply, State,
    TimedOut,
};
use handoff_types::{Now, Steady};

pub use self::violation::Violation;
use super::asked::Asked;
use super::workload::{KEPT, settings};

/// What is believed of all calls.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    calls: BTreeMap<CallId, Belief>,
    /// Those that somebody wanted no more. It may be decided before anybody was told of the call.
    cancelled: BTreeSet<CallId>,
    /// Which call every fence was told of: none is told of another, nor of one whose id comes again.
    fences: BTreeMap<u64, (CallId, Nth)>,
    /// How many calls there were, those whose id came again counted again.
    drawn: Nth,
}

/// Which of all calls it is.
type Nth = u64;

/// What is believed of a call.
#[derive(Clone, Debug)]
struct Belief {
    nth: Nth,
    asked: NewCall,
    /// When it was asked for first.
    since: Steady,
    /// The room has it: somebody was told so, or it was found after a restart.
    there: bool,
    /// How it ended, and when that was decided.
    end: Option<(Outcome, Steady)>,
    /// Its caller said that it has the outcome.
    acked: bool,
    /// The largest fence that came back after a restart, told or not.
    came_back: u64,
    /// To whom each fence was told, and as which attempt.
    fences: BTreeMap<u64, (ClientId, u16)>,
    /// Fences under which it was begun, and when its executor was last told that it has it.
    begun: BTreeMap<u64, Steady>,
    /// Fences whose error was taken, to be tried again.
    failed: BTreeSet<u64>,
    /// The result that was taken for good.
    result: Option<u64>,
}

impl Belief {
    fn of(asked: &NewCall, since: Steady, drawn: &mut Nth) -> Self {
        *drawn += 1;
        Self {
            nth: *drawn,
            asked: asked.clone(),
            since,
            there: false,
            end: None,
            acked: false,
            came_back: 0,
            fences: BTreeMap::new(),
            begun: BTreeMap::new(),
            failed: BTreeSet::new(),
            result: None,
        }
    }

    fn settings(&self) -> handoff_calls::ChannelSettings {
        settings(self.asked.channel.as_str())
    }

    /// Whether a crash leaves it. One that nobody could run had nothing to lose.
    fn is_durable(&self) -> bool {
        let lost = Outcome::Failed(Failure::NoConsumer);
        let in_vain = self.end.as_ref().is_some_and(|(outcome, _)| *outcome == lost);
        self.settings().durability == handoff_calls::Durability::Disk && !in_vain
    }

    /// Whether it may be known no more: it is over, and its time is too, or nobody needs it.
    fn may_be_forgotten(&self, now: Steady) -> bool {
        let needed = !self.acked && self.asked.caller.is_some();
        self.end.as_ref().is_some_and(|(_, at)| !needed || *at + KEPT <= now)
    }

    /// Whether something that was decided then is about one that had its id before. What was written beside
    /// something else is heard late, and one in memory may be forgotten and come again meanwhile.
    fn came_after(&self, decided: Steady) -> bool {
        decided < self.since
    }

    /// It ends as another does.
    fn is_keyed(&self) -> bool {
        self.asked.key.is_some()
    }

    fn latest(&self) -> Option<(u64, ClientId)> {
        self.fences.last_key_value().map(|(fence, (client, _))| (*fence, *client))
    }
}

impl Oracle {
    /// Something was decided, of which perhaps nobody ever hears.
    pub(super) fn decides(&mut self, ask: &Ask, now: Now) {
        match ask {
            // If something is written beside it, its caller hears that it is there when that is on disk. If it
            // lives in memory its end waits for no disk, and may be heard before.
            Ask::Request(new) => {
                let drawn = &mut self.drawn;
                self.calls.entry(new.id).or_insert_with(|| Belief::of(new, now.steady, drawn));
            }
            Ask::Cancel { call, .. } => {
                self.cancelled.insert(*call);
            }
            Ask::Acknowledge { call, .. } => {
                self.calls.entry(*call).and_modify(|call| call.acked = true);
            }
            _ => {}
        }
    }

    /// Somebody is told.
    pub(super) fn answered(&mut self, asked: &Asked) -> Result<(), Violation> {
        let Asked { now, ask, reply, notices } = asked;
        match (ask, reply) {
            (Ask::Request(new), Reply::Registered { call, again }) => {
                self.registered(new, *call, *again, now.steady)?;
            }
            (
                Ask::Accept { client, call, fence } | Ask::Heartbeat { client, call, fence },
                Reply::Held(true),
            ) => self.begins((*client, *call, *fence), now.steady)?,
            (Ask::Respond { client, call, fence, result }, Reply::Taken(Ok(()))) => {
                self.takes((*client, *call, *fence), result, now.steady)?;
            }
            _ => {}
        }
        notices.iter().try_for_each(|notice| self.told(notice, now.steady))
    }

    fn registered(
        &mut self,
        new: &NewCall,
        call: CallId,
        again: bool,
        now: Steady,
    ) -> Result<(), Violation> {
        if call != new.id {
            // Somebody without a name asks for a key that is known.
            return Ok(());
        }
        match self.calls.get_mut(&call) {
            Some(known) if again => {
                known.there = true;
                Ok(())
            }
            None if again => Err(Violation::Unasked(call)),
            Some(known) if !known.there && known.end.is_some() && !known.is_durable() => {
                known.there = true;
                Ok(())
            }
            Some(known) if known.there && !known.may_be_forgotten(now) => {
                Err(Violation::Forgotten { call, why: "it was registered anew" })
            }
            _ => {
                let fresh = Belief::of(new, now, &mut self.drawn);
                self.calls.insert(call, Belief { there: true, ..fresh });
                Ok(())
            }
        }
    }

    fn known(&mut self, call: CallId) -> Result<&mut Belief, Violation> {
        self.calls.get_mut(&call).ok_or(Violation::Unasked(call))
    }

    /// A consumer was told that it may run a call.
    fn begins(
        &mut self,
        (client, call, fence): (ClientId, CallId, u64),
        now: Steady,
    ) -> Result<(), Violation> {
        let known = self.known(call)?;
        let wrong = |why| Err(Violation::Begun { call, fence, why });
        if known.came_after(now) {
            return Ok(());
        }
        if known.latest() != Some((fence, client)) {
            return wrong("another offer is the latest");
        }
        if known.end.is_some() {
            return wrong("it is over");
        }
        let before = known.begun.range(..fence).next_back().map(|(fence, at)| (*fence, *at));
        if let Some((before, heard)) = before.filter(|_| !known.begun.contains_key(&fence)) {
            let settings = known.settings();
            let lost = settings.on_lost == OnLost::Redeliver && heard + settings.lease <= now;
            if !lost && !known.failed.contains(&before) {
                return wrong("whoever ran it was not lost");
            }
        }
        known.begun.insert(fence, now);
        if known.begun.len() > usize::from(known.settings().attempts_max) {
            return wrong("it ran often enough");
        }
        Ok(())
    }

    /// A consumer was told of a call that is its to run.
    fn begins_at_once(&mut self, offer: &Offer, now: Steady) -> Result<(), Violation> {
        let (call, fence) = (offer.call, offer.fence);
        let known = self.known(call)?;
        if known.settings().on_lost != OnLost::Redeliver {
            return Err(Violation::Begun { call, fence, why: "it must not run twice" });
        }
        if known.is_durable() {
            return self.begins((offer.to, call, fence), now);
        }
        // Of one that is in memory only, what came later may have been heard before.
        known.begun.entry(fence).or_insert(now);
        Ok(())
    }

    /// A consumer was told that its result counts.
    fn takes(
        &mut self,
        (client, call, fence): (ClientId, CallId, u64),
        result: &Result<Bytes, Failing>,
        now: Steady,
    ) -> Result<(), Violation> {
        let known = self.known(call)?;
        let wrong = |why| Err(Violation::Fence { call, fence, why });
        if known.result == Some(fence) || known.came_after(now) {
            return Ok(());
        }
        if known.failed.contains(&fence) {
            // Perhaps it had only been about to fail when the server was killed.
            known.result = known.result.or(result.is_ok().then_some(fence));
            return Ok(());
        }
        if known.latest() != Some((fence, client)) {
            return wrong("a result under it counts, and another offer is the latest");
        }
        // Whoever waits for the disk is told in the order of decisions, so the end comes with it.
        if known.end.is_some() {
            return wrong("a result under it counts, and the call was over");
        }
        known.begun.entry(fence).or_insert(now);
        match result {
            Err(failing) if !failing.terminal => drop(known.failed.insert(fence)),
            _ => known.result = Some(fence),
        }
        Ok(())
    }

    fn told(&mut self, notice: &Notice, now: Steady) -> Result<(), Violation> {
        let of = match notice {
            Notice::Offer(offer) => Some(offer.call),
            Notice::Ended { call, .. } => Some(*call),
            _ => None,
        };
        if of.and_then(|call| self.calls.get(&call)).is_some_and(|known| known.came_after(now)) {
            return Ok(());
        }
        match notice {
            Notice::Offer(offer) => {
                self.offered(offer)?;
                if offer.held { self.begins_at_once(offer, now) } else { Ok(()) }
            }
            Notice::Ended { call, outcome, .. } => self.ended(*call, outcome, now),
            Notice::Registered { call, .. } => self.known(*call).map(drop),
            _ => Ok(()),
        }
    }

    fn offered(&mut self, offer: &Offer) -> Result<(), Violation> {
        let (call, fence) = (offer.call, offer.fence);
        let wrong = |why| Err(Violation::Fence { call, fence, why });
        let nth = self.known(call)?.nth;
        if *self.fences.entry(fence).or_insert((call, nth)) != (call, nth) {
            return wrong("it was told of another call");
        }
        let known = self.known(call)?;
        if offer.params != known.asked.params || offer.caller != known.asked.caller {
            return wrong("it is told with another content");
        }
        match known.fences.get(&fence) {
            Some(before) if *before == (offer.to, offer.attempt) => Ok(()),
            Some(_) => wrong("it was told otherwise before"),
            // What is said of one that is in memory only does not wait for the disk, and an offer that
            // was decided beside others does.
            None if known.is_durable()
                && known.latest().is_some_and(|(latest, _)| latest > fence) =>
            {
                wrong("a larger one was told before")
            }
            None if known.end.is_some() && known.is_durable() => wrong("the call is over"),
            None if offer.attempt > known.settings().attempts_max => {
                wrong("it was begun often enough")
            }
            None => {
                known.fences.insert(fence, (offer.to, offer.attempt));
                Ok(())
            }
        }
    }

    fn ended(&mut self, call: CallId, outcome: &Outcome, now: Steady) -> Result<(), Violation> {
        let cancelled = self.cancelled.contains(&call);
        let known = self.known(call)?;
        if let Some((before, _)) = &known.end {
            let (before, after) = (format!("{before:?}"), format!("{outcome:?}"));
            return match before == after {
                true => Ok(()),
                false => Err(Violation::EndedTwice { call, before, after }),
            };
        }
        let late =
            |time: Option<handoff_types::Span>| time.is_some_and(|time| known.since + time <= now);
        let why = match outcome {
            Outcome::TimedOut(TimedOut::Deadline) => {
                let time = known.asked.timeout.unwrap_or(super::workload::CALL_TIME);
                (!late(Some(time))).then_some("its time was not over")
            }
            Outcome::TimedOut(TimedOut::InQueue) => match known.begun.is_empty() {
                true => (!late(known.asked.queue_timeout)).then_some("it could have waited"),
                false => Some("it was begun"),
            },
            Outcome::Cancelled => (!cancelled).then_some("nobody cancelled it"),
            Outcome::Failed(Failure::NoConsumer) => {
                (!known.asked.only_with_consumer).then_some("it was to wait")
            }
            Outcome::Failed(Failure::ExecutorLost) => {
                let offered = known.came_back > 0 || !known.fences.is_empty();
                (!offered).then_some("nobody had it")
            }
            Outcome::Failed(Failure::Handler(_)) => {
                (known.failed.is_empty() && known.result.is_none()).then_some("no handler failed")
            }
            // It names whoever made it, and the fence.
            Outcome::Answer(body) => {
                match known.result.and_then(|fence| known.fences.get(&fence)) {
                    Some((client, _)) => {
                        let fence = known.result.unwrap_or(0);
                        (*body != answer(*client, fence)).then_some("it is another's answer")
                    }
                    None => Some("nobody answered it"),
                }
            }
        };
        // What shares its key decides.
        if let Some(why) = why.filter(|_| !known.is_keyed()) {
            return Err(Violation::Ended { call, how: format!("{outcome:?}"), why });
        }
        known.end = Some((outcome.clone(), now));
        Ok(())
    }

    /// A server goes on with this state. Gives how many of the calls that were asked for in vain are
    /// there.
    pub(super) fn recovered(
        &mut self,
        lost: &[Asked],
        state: &State,
        now: Now,
    ) -> Result<usize, Violation> {
        // What was decided and told to nobody may be true all the same.
        let mut ends: BTreeMap<CallId, Vec<(&Outcome, Steady)>> = BTreeMap::new();
        let mut offers: BTreeMap<CallId, u64> = BTreeMap::new();
        // Ids of calls that may be forgotten, used again.
        let mut anew: BTreeMap<CallId, &Asked> = BTreeMap::new();
        // Results that were taken, perhaps.
        let mut results: BTreeMap<CallId, u64> = BTreeMap::new();
        for asked in lost {
            if let Ask::Request(new) = &asked.ask {
                let drawn = &mut self.drawn;
                let fresh = || Belief::of(new, asked.now.steady, drawn);
                self.calls.entry(new.id).or_insert_with(fresh);
                if let Reply::Registered { call, again: false } = &asked.reply {
                    anew.insert(*call, asked);
                }
            }
            if let (Ask::Respond { call, fence, result, .. }, Reply::Taken(Ok(()))) =
                (&asked.ask, &asked.reply)
            {
                // One under an older fence was only said again.
                let most = results.entry(*call).or_default();
                *most = (*most).max(*fence);
                // Perhaps it failed, and is tried again.
                self.calls.entry(*call).and_modify(|known| {
                    known.failed.extend(result.is_err().then_some(*fence));
                });
            }
            for notice in &asked.notices {
                match notice {
                    Notice::Ended { call, outcome, .. } => {
                        ends.entry(*call).or_default().push((outcome, asked.now.steady));
                    }
                    Notice::Offer(offer) => {
                        let most = offers.entry(offer.call).or_default();
                        *most = (*most).max(offer.fence);
                    }
                    _ => {}
                }
            }
        }
        let mut survived = 0;
        for (id, known) in &mut self.calls {
            // One that lives in memory only is gone with its server, or was forgotten before it; and of what
            // nobody was told, the last that was asked may be there.
            let may_be_another =
                known.may_be_forgotten(now.steady) || !known.is_durable() || !known.there;
            if let Some(asked) = anew.get(id).filter(|_| may_be_another)
                && let Ask::Request(new) = &asked.ask
                && state.call(*id).is_some_and(|call| call.created == asked.now.wall)
            {
                *known = Belief::of(new, asked.now.steady, &mut self.drawn);
            } else if !known.is_durable() {
                *known = Belief::of(&known.asked, now.steady, &mut self.drawn);
                continue;
            }
            known.since = known.since.min(now.steady);
            known.begun.values_mut().for_each(|heard| *heard = (*heard).min(now.steady));
            let ended = ends.get(id).map(Vec::as_slice).unwrap_or_default();
            let Some(call) = state.call(*id) else {
                let needed = !known.acked && known.asked.caller.is_some();
                let unseen = ended.iter().any(|(_, at)| !needed || *at + KEPT <= now.steady);
                if known.there && !known.may_be_forgotten(now.steady) && !unseen {
                    let why = "it is not there after a restart";
                    return Err(Violation::Forgotten { call: *id, why });
                }
                *known = Belief::of(&known.asked, now.steady, &mut self.drawn);
                continue;
            };
            survived += usize::from(!known.there);
            known.there = true;
            let told = known.latest().map_or(0, |(fence, _)| fence);
            let least = told.max(known.came_back);
            let most = offers.get(id).copied().unwrap_or(0).max(least);
            if call.fence < least || call.fence > most {
                let why = "this is what came back, and it was not told or another was";
                return Err(Violation::Fence { call: *id, fence: call.fence, why });
            }
            known.came_back = call.fence;
            let found = call.ended().map(|ended| &ended.outcome);
            match (&known.end, found) {
                (None, None) => {}
                (Some((before, _)), Some(found)) if before == found => {}
                (None, Some(found)) if ended.iter().any(|(end, _)| *end == found) => {
                    let at = ended.iter().find(|(end, _)| *end == found).map(|(_, at)| *at);
                    known.end = Some((found.clone(), at.unwrap_or(now.steady).min(now.steady)));
                    // An answer names whoever made it, and the fence.
                    let named = known.fences.iter().find(|(fence, (client, _))| {
                        *found == Outcome::Answer(answer(*client, **fence))
                    });
                    let named = named.map(|(fence, _)| *fence);
                    known.result = named.or(known.result).or(results.get(id).copied());
                }
                (before, found) => {
                    let before = format!("{:?}", before.as_ref().map(|(outcome, _)| outcome));
                    let after = format!("{found:?} after a restart");
                    return Err(Violation::EndedTwice { call: *id, before, after });
                }
            }
        }
        Ok(survived)
    }

    /// Everybody has done all there is to do: whatever was confirmed is over.
    pub(super) fn closes(&self) -> Result<(), Violation> {
        let open = self.calls.iter().find(|(_, known)| known.there && known.end.is_none());
        open.map_or(Ok(()), |(call, _)| Err(Violation::Endless(*call)))
    }
}

/// What a consumer answers.
pub(super) fn answer(client: ClientId, fence: u64) -> Bytes {
    Bytes::from(format!("\"{client} {fence}\""))
}

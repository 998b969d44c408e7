//! What time brings: calls that are due are decided one by one and applied side by side.

use handoff_calls::{Ask, Call, CallId, Reply, Stage};
use handoff_types::{Span, Steady};

use crate::line::Line;
use crate::resp::Value;
use crate::room::Room;
use crate::scene::{Scene, Words, words};
use crate::scripts::Script;
use crate::steps::Steps;
use crate::trouble::Trouble;

/// Calls that are looked at in one go.
pub(crate) const DUE_AT_ONCE: usize = 256;

/// How often a stock peer is told again what it did not confirm.
const TELL_AGAIN: Span = Span::from_secs(1);

impl Room {
    /// Takes care of what is due and offers what can be offered, some of it. Says whether there was
    /// something.
    pub(crate) async fn tick(&self, line: &Line) -> Result<bool, Trouble> {
        let now = self.now(line).await?.steady.0.to_string();
        let most = DUE_AT_ONCE.to_string();
        let due = words(&["ZRANGEBYSCORE", "origami:x:due", "-inf", &now, "LIMIT", "0", &most]);
        let due = ids(&self.must(line, &due).await?);
        let offered = words(&["LRANGE", "origami:requests:request_ack_pool:list", "0", &most]);
        let mut all = ids(&self.must(line, &offered).await?);
        let found = !due.is_empty();
        all.extend(due);
        self.look_at(line, &all).await?;
        let waiting = words(&["SRANDMEMBER", "origami:x:waiting", "64"]);
        let waiting = self.must(line, &waiting).await?;
        let channels = waiting.array().iter().filter_map(Value::text).map(str::to_owned);
        self.drain(line, &channels.collect::<Vec<_>>()).await?;
        Ok(found)
    }

    /// Decides about calls that may be due.
    pub(crate) async fn look_at(&self, line: &Line, ids: &[CallId]) -> Result<(), Trouble> {
        let scene = Scene::load(line, self.clock, &self.rules, ids).await?;
        let mut several = Vec::new();
        for id in ids {
            let steps = self.steps_about(&scene, *id);
            if !steps.is_empty() {
                several.push(steps.arguments(&scene.records));
            }
        }
        self.apply_all(line, several).await
    }

    fn steps_about(&self, scene: &Scene, id: CallId) -> Steps {
        let Some(call) = scene.state.call(id) else {
            let mut steps = Steps::default();
            // Its hash has lapsed, or makes no sense to anybody.
            if !scene.records.contains_key(&id) {
                steps.sweep(id);
            }
            return steps;
        };
        let mut state = scene.only(id);
        let gone = matches!(&call.stage, Stage::Offered { executor, .. } if !scene.is_alive(Some(*executor)));
        if gone {
            // Nobody will accept it, so that it need not wait until it is too late.
            let mut call = call.clone();
            if let Stage::Offered { until, .. } = &mut call.stage {
                *until = scene.now.steady;
            }
            state.put(handoff_calls::Aggregate::Call(Box::new(call)));
        }
        let decision = self.decision(&state, scene.now, &Ask::Tick);
        let stock = |call: &Call| scene.is_stock(call.caller);
        let mut steps = Steps::of(&state, &decision.changes, &decision.actions, stock);
        if matches!(decision.reply, Reply::More(true)) {
            return steps;
        }
        // Nothing is due yet. Stock peers are told again what they did not confirm.
        let again = scene.now.steady + TELL_AGAIN;
        match &call.stage {
            Stage::Offered { executor, .. } if scene.is_stock(Some(*executor)) => {
                steps.tell_again(id, &["OFFERED", &executor.to_string()]);
                steps.due(id, call.due().min(again));
            }
            Stage::Ended(ended) if !ended.acked && scene.is_stock(call.caller) => {
                if scene.is_alive(call.caller) {
                    steps.tell_again(id, &["ENDED"]);
                }
                steps.due(id, ended.forget.min(again));
            }
            Stage::Ended(ended) if ended.forget == Steady(u64::MAX) => {
                // A stock peer's script ended it, and will see that it lapses.
                steps.due(id, again + Span::from_secs(60));
            }
            _ => steps.due(id, call.due()),
        }
        steps
    }

    /// Offers calls that stock peers brought.
    pub(crate) async fn offer(&self, line: &Line, ids: &[CallId]) -> Result<(), Trouble> {
        let several = ids.iter().map(|id| {
            let id = id.to_string();
            words(&[&id, "PENDING", "0", "1", "1", "OFFER"])
        });
        self.apply_all(line, several.collect()).await
    }

    /// Offers what waits in channels.
    pub(crate) async fn drain(&self, line: &Line, channels: &[String]) -> Result<(), Trouble> {
        let nobody = crate::layout::NOBODY;
        let several =
            channels.iter().map(|channel| words(&[nobody, "", "0", "1", "2", "DRAIN", channel]));
        self.apply_all(line, several.collect()).await
    }

    /// Applies several decisions, each on its own: one that somebody was faster about is due again.
    async fn apply_all(&self, line: &Line, several: Vec<Words>) -> Result<(), Trouble> {
        let rules = self.rules_text().into_bytes();
        let mut tasks = Vec::with_capacity(several.len());
        for arguments in several {
            let mut all = vec![rules.clone()];
            all.extend(arguments);
            tasks.push(all);
        }
        for value in self.scripts.run_all(line, Script::Apply, &tasks).await? {
            if let Value::Error(error) = value {
                return Err(Trouble::refused(&self.address, &error));
            }
        }
        Ok(())
    }
}

pub(crate) fn ids(value: &Value) -> Vec<CallId> {
    value.array().iter().filter_map(|id| id.text()?.parse().ok()).collect()
}

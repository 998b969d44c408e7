//! Changes made true.

use bytes::Bytes;

use crate::{Change, Ended, Happened, Stage, State};

pub(crate) fn evolve(state: &mut State, change: &Change) {
    match change {
        Change::Registered(call) => state.put_call(call.clone()),
        Change::Offered { call, executor, fence, until, at } => {
            state.fences.give(*fence);
            state.change_call(*call, |call| {
                call.stage = Stage::Offered { executor: *executor, until: *until };
                call.fence = *fence;
                call.note(*at, Happened::Offered, Some(*executor));
            });
        }
        Change::Accepted { call, attempt, until, at } => state.change_call(*call, |call| {
            let Some(executor) = call.executor() else { return };
            call.stage = Stage::Running { executor, until: *until };
            call.attempt = *attempt;
            call.note(*at, Happened::Accepted, Some(executor));
        }),
        Change::Extended { call, until } => state.change_call(*call, |call| {
            if let Stage::Running { until: old, .. } = &mut call.stage {
                *old = *until;
            }
        }),
        Change::Returned { call, after, attempt, why, at } => state.change_call(*call, |call| {
            let executor = call.executor();
            if let Some(executor) = executor.filter(|_| *why == Happened::Failed) {
                call.taken = Some((executor, call.fence));
            }
            call.stage = after.map_or(Stage::Waiting, Stage::Later);
            call.attempt = *attempt;
            call.note(*at, *why, executor);
        }),
        Change::Ended { call, outcome, by, attempt, dead, forget, at } => {
            state.change_call(*call, |call| {
                if let Some(by) = by {
                    call.taken = Some((*by, call.fence));
                }
                if !dead {
                    call.params = Bytes::new();
                }
                call.attempt = *attempt;
                call.note(*at, Happened::Ended, by.or(call.executor()));
                let (outcome, acked) = (outcome.clone(), false);
                let ended = Ended { outcome, at: *at, forget: *forget, acked, dead: *dead };
                call.stage = Stage::Ended(ended);
            });
        }
        Change::Acknowledged { call, at } => state.change_call(*call, |call| {
            let caller = call.caller;
            if let Stage::Ended(ended) = &mut call.stage {
                ended.acked = true;
                call.note(*at, Happened::Acknowledged, caller);
            }
        }),
        Change::Buried { call, forget } => state.change_call(*call, |call| {
            if let Stage::Ended(ended) = &mut call.stage {
                ended.dead = false;
                ended.forget = *forget;
                call.params = Bytes::new();
            }
        }),
        Change::Forgotten(call) => state.remove_call(*call),
        Change::Client(client) => state.put_client(client.clone()),
        Change::Heard { client, until } => state.hear(*client, *until),
        Change::ClientGone(client) => state.remove_client(*client),
        Change::Channel(name, settings) => state.set_channel(name, Some(*settings)),
        Change::ChannelGone(name) => state.set_channel(name, None),
        Change::Fences { above, until } => state.fences.allow(*above, *until),
    }
}

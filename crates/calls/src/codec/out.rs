//! One thing behind the other.

use super::{durability_number, failed_number, timed_out_number};
use crate::{
    Call, ChannelSettings, ClientId, Ended, Event, Failure, HandlerError, OnLost, Outcome, Stage,
    WithoutConsumer,
};

/// Puts one thing behind the other.
pub(super) struct Out<'a>(pub(super) &'a mut Vec<u8>);

impl Out<'_> {
    pub(super) fn kind(&mut self, kind: u8) -> &mut Self {
        self.byte(kind);
        self
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.byte(flag.into());
    }

    pub(super) fn number(&mut self, mut number: u64) {
        loop {
            let low = number.to_le_bytes()[0] & 0x7f;
            number >>= 7;
            if number == 0 {
                return self.byte(low);
            }
            self.byte(low | 0x80);
        }
    }

    pub(super) fn signed(&mut self, number: i64) {
        self.number((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
    }

    pub(super) fn id(&mut self, id: u128) {
        self.0.extend_from_slice(&id.to_be_bytes());
    }

    pub(super) fn client(&mut self, client: ClientId) {
        self.id(client.number());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn option<T>(&mut self, some: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.flag(some.is_some());
        if let Some(some) = some {
            put(self, some);
        }
    }

    pub(super) fn call(&mut self, call: &Call) {
        let Call { id, seq, caller, channel, params, digest, key, trace, again_for, .. } = call;
        self.id(id.number());
        self.number(*seq);
        self.option(*caller, Self::client);
        self.text(channel.as_str());
        self.bytes(params);
        self.0.extend_from_slice(&digest.to_le_bytes());
        self.option(key.as_ref(), |out, key| out.text(key.as_str()));
        self.option(trace.as_ref(), |out, trace| out.text(trace.as_str()));
        self.option(*again_for, |out, id| out.id(id.number()));
        let Call { created, deadline, begin_by, fence, attempt, taken, stage, .. } = call;
        self.signed(created.0);
        self.number(deadline.0);
        self.option(*begin_by, |out, by| out.number(by.0));
        self.number(*fence);
        self.number((*attempt).into());
        self.option(*taken, |out, (client, fence)| {
            out.client(client);
            out.number(fence);
        });
        self.stage(stage);
        self.number(call.history.len() as u64);
        for Event { at, what, who } in &call.history {
            self.signed(at.0);
            self.byte(*what as u8);
            self.option(*who, Self::client);
        }
    }

    fn stage(&mut self, stage: &Stage) {
        match stage {
            Stage::Waiting => self.byte(0),
            Stage::Later(until) => self.kind(1).number(until.0),
            Stage::Offered { executor, until } => {
                self.kind(2).client(*executor);
                self.number(until.0);
            }
            Stage::Running { executor, until } => {
                self.kind(3).client(*executor);
                self.number(until.0);
            }
            Stage::Following(leader) => self.kind(4).id(leader.number()),
            Stage::Ended(Ended { outcome, at, forget, acked, dead }) => {
                self.kind(5).outcome(outcome);
                self.signed(at.0);
                self.number(forget.0);
                self.flag(*acked);
                self.flag(*dead);
            }
        }
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Answer(body) => self.kind(0).bytes(body),
            Outcome::Failed(failure) => {
                self.kind(1).byte(failed_number(failure));
                if let Failure::Handler(HandlerError { name, message, code }) = failure {
                    self.text(name);
                    self.text(message);
                    self.text(code);
                }
            }
            Outcome::TimedOut(which) => self.kind(2).byte(timed_out_number(*which)),
            Outcome::Cancelled => self.byte(3),
        }
    }

    pub(super) fn settings(&mut self, settings: &ChannelSettings) {
        let ChannelSettings { on_lost, attempts_max, backoff_min, backoff_max, .. } = settings;
        self.flag(*on_lost == OnLost::Fail);
        self.number((*attempts_max).into());
        self.number(backoff_min.0);
        self.number(backoff_max.0);
        let ChannelSettings { lease, queue_timeout, durability, without_consumer, .. } = settings;
        self.number(lease.0);
        self.option(*queue_timeout, |out, timeout| out.number(timeout.0));
        self.byte(durability_number(*durability));
        self.flag(*without_consumer == WithoutConsumer::Fail);
    }
}

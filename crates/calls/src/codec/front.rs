//! One thing after the other.

use std::str::FromStr;

use bytes::Bytes;
use handoff_types::{Span, Steady, Wall};

use super::{Undecodable, durability_of, timed_out_of};
use crate::{
    BadName, Call, CallId, ChannelSettings, ClientId, Ended, Event, Failure, HandlerError,
    Happened, OnLost, Outcome, Stage, WithoutConsumer,
};

/// The smallest of its kind: when, what, nobody.
const EVENT_BYTES_MIN: usize = 3;

/// Takes one thing after the other from the front of some bytes.
pub(super) struct Front<'a>(pub(super) &'a [u8]);

impl<'a> Front<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Undecodable> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Undecodable> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Undecodable> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => bad("a flag is 0 or 1"),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, Undecodable> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << shift;
            let overlong = byte == 0 && shift > 0;
            if overlong || shifted >> shift != bits {
                break;
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        bad("a number is not written as numbers are")
    }

    pub(super) fn tiny(&mut self) -> Result<u16, Undecodable> {
        u16::try_from(self.number()?).or_else(|_| bad("a number is too large"))
    }

    fn signed(&mut self) -> Result<i64, Undecodable> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn wall(&mut self) -> Result<Wall, Undecodable> {
        self.signed().map(Wall)
    }

    pub(super) fn steady(&mut self) -> Result<Steady, Undecodable> {
        self.number().map(Steady)
    }

    fn span(&mut self) -> Result<Span, Undecodable> {
        self.number().map(Span)
    }

    pub(super) fn call_id(&mut self) -> Result<CallId, Undecodable> {
        self.array().map(u128::from_be_bytes).map(CallId::from_number)
    }

    pub(super) fn client(&mut self) -> Result<ClientId, Undecodable> {
        self.array().map(u128::from_be_bytes).map(ClientId::from_number)
    }

    fn slice(&mut self) -> Result<&'a [u8], Undecodable> {
        let length = usize::try_from(self.number()?).map_err(|_| short())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn body(&mut self) -> Result<Bytes, Undecodable> {
        self.slice().map(Bytes::copy_from_slice)
    }

    fn text(&mut self) -> Result<&'a str, Undecodable> {
        str::from_utf8(self.slice()?).or_else(|_| bad("a text is not UTF-8"))
    }

    fn words(&mut self) -> Result<Box<str>, Undecodable> {
        self.text().map(Box::from)
    }

    pub(super) fn name<T: FromStr<Err = BadName>>(&mut self) -> Result<T, Undecodable> {
        self.text()?.parse().map_err(|bad: BadName| Undecodable(bad.to_string()))
    }

    pub(super) fn option<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> Result<T, Undecodable>,
    ) -> Result<Option<T>, Undecodable> {
        if self.flag()? { get(self).map(Some) } else { Ok(None) }
    }

    pub(super) fn call(&mut self) -> Result<Call, Undecodable> {
        Ok(Call {
            id: self.call_id()?,
            seq: self.number()?,
            caller: self.option(Self::client)?,
            channel: self.name()?,
            params: self.body()?,
            digest: self.array().map(u64::from_le_bytes)?,
            key: self.option(Self::name)?,
            trace: self.option(Self::name)?,
            again_for: self.option(Self::call_id)?,
            durable: true,
            created: self.wall()?,
            deadline: self.steady()?,
            begin_by: self.option(Self::steady)?,
            fence: self.number()?,
            attempt: self.tiny()?,
            taken: self.option(|front| Ok((front.client()?, front.number()?)))?,
            stage: self.stage()?,
            history: self.history()?,
        })
    }

    fn history(&mut self) -> Result<Vec<Event>, Undecodable> {
        let count = usize::try_from(self.number()?).map_err(|_| short())?;
        if count > self.0.len() / EVENT_BYTES_MIN {
            return Err(short());
        }
        let event = |front: &mut Self| {
            Ok(Event {
                at: front.wall()?,
                what: front.happened()?,
                who: front.option(Self::client)?,
            })
        };
        (0..count).map(|_| event(self)).collect()
    }

    pub(super) fn happened(&mut self) -> Result<Happened, Undecodable> {
        let number = self.byte()?;
        let unknown =
            || Undecodable(format!("nothing is known to happen under the number {number}"));
        Happened::from_number(number).ok_or_else(unknown)
    }

    fn stage(&mut self) -> Result<Stage, Undecodable> {
        Ok(match self.byte()? {
            0 => Stage::Waiting,
            1 => Stage::Later(self.steady()?),
            2 => Stage::Offered { executor: self.client()?, until: self.steady()? },
            3 => Stage::Running { executor: self.client()?, until: self.steady()? },
            4 => Stage::Following(self.call_id()?),
            5 => Stage::Ended(Ended {
                outcome: self.outcome()?,
                at: self.wall()?,
                forget: self.steady()?,
                acked: self.flag()?,
                dead: self.flag()?,
            }),
            _ => return bad("a call is in no such stage"),
        })
    }

    pub(super) fn outcome(&mut self) -> Result<Outcome, Undecodable> {
        Ok(match self.byte()? {
            0 => Outcome::Answer(self.body()?),
            1 => Outcome::Failed(match self.byte()? {
                0 => Failure::Handler(HandlerError {
                    name: self.words()?,
                    message: self.words()?,
                    code: self.words()?,
                }),
                1 => Failure::ExecutorLost,
                2 => Failure::NoConsumer,
                _ => return bad("a call fails in one of three ways"),
            }),
            2 => Outcome::TimedOut(timed_out_of(self.byte()?)?),
            3 => Outcome::Cancelled,
            _ => return bad("a call ends in one of four ways"),
        })
    }

    pub(super) fn settings(&mut self) -> Result<ChannelSettings, Undecodable> {
        Ok(ChannelSettings {
            on_lost: if self.flag()? { OnLost::Fail } else { OnLost::Redeliver },
            attempts_max: self.tiny()?,
            backoff_min: self.span()?,
            backoff_max: self.span()?,
            lease: self.span()?,
            queue_timeout: self.option(Self::span)?,
            durability: durability_of(self.byte()?)?,
            without_consumer: match self.flag()? {
                true => WithoutConsumer::Fail,
                false => WithoutConsumer::Park,
            },
        })
    }
}

pub(super) fn bad<T>(words: &str) -> Result<T, Undecodable> {
    Err(Undecodable(words.to_owned()))
}

fn short() -> Undecodable {
    Undecodable("the bytes end too early".to_owned())
}

//! A destination: the receiver of the relay over a sink that survives everything.
//!
//! Samples and mark are stored in one step, some time after they came. What came and was not stored when
//! the conversation ended, or the receiver died, was never there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use handoff_relay::codec::{Decoded, Workbench};
use handoff_relay::session::{Hello, Message, Reason};
use handoff_relay::{BlockId, Received, Receiver, ReceiverLimits, SegmentKey, ShardId};
use handoff_types::Span;

use super::Twist;
use super::oracle::{Oracle, Place, Violation};

/// What it does to those who come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Takes,
    /// Nobody can connect.
    Gone,
    /// It takes, and says nothing.
    Mute,
    /// Its sink is down.
    Refuses,
}

/// What came and is not stored.
#[derive(Debug)]
struct Pending {
    key: SegmentKey,
    /// None for what the agent passes by.
    samples: Option<Vec<(String, i64, u64)>>,
}

#[derive(Debug)]
struct Block {
    receiver: Receiver,
    /// Whose connection speaks for it.
    speaker: u64,
    pending: VecDeque<Pending>,
}

/// A conversation as it was heard, to be replayed.
#[derive(Debug)]
struct Heard {
    line: u64,
    hello: Hello,
    messages: Vec<Message>,
}

/// How much of a conversation is remembered.
const HEARD: usize = 40;

pub(super) struct Centre {
    place: Place,
    pub(super) manner: Manner,
    marks: BTreeMap<(BlockId, ShardId), u32>,
    blocks: BTreeMap<BlockId, Block>,
    heard: VecDeque<Heard>,
    bench: Workbench,
    decoded: Decoded,
}

impl Centre {
    pub(super) fn new(place: Place, bench: Workbench) -> Self {
        Self {
            place,
            manner: Manner::Takes,
            marks: BTreeMap::new(),
            blocks: BTreeMap::new(),
            heard: VecDeque::new(),
            bench,
            decoded: Decoded::default(),
        }
    }

    /// Dies: decoders, conversations and what was not stored are gone.
    pub(super) fn restart(&mut self) {
        self.blocks.clear();
    }

    /// Whether what came is stored.
    pub(super) fn is_idle(&self) -> bool {
        self.blocks.values().all(|block| block.pending.is_empty())
    }

    /// A message of a connection. None closes it.
    pub(super) fn hear<T: Twist>(
        &mut self,
        line: u64,
        message: &Message,
    ) -> Result<Option<Vec<Message>>, Violation> {
        if let Message::Hello(hello) = message {
            if self.heard.len() > 4 {
                self.heard.pop_front();
            }
            self.heard.push_back(Heard { line, hello: hello.clone(), messages: Vec::new() });
            return Ok(Some(self.greet::<T>(line, hello)));
        }
        let mut heard = self.heard.iter_mut();
        if let Some(heard) = heard.find(|one| one.line == line && one.messages.len() < HEARD) {
            heard.messages.push(message.clone());
        }
        let Some(block) = self.blocks.iter().find(|(_, one)| one.speaker == line) else {
            return Ok(None);
        };
        let block = *block.0;
        self.take::<T>(block, message)
    }

    fn greet<T: Twist>(&mut self, line: u64, hello: &Hello) -> Vec<Message> {
        let block = hello.origin.block;
        let limits = ReceiverLimits { credit: 2_000, ..ReceiverLimits::default() };
        let known = match self.blocks.entry(block) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => match Receiver::new(hello, limits) {
                Ok(receiver) => {
                    let pending = VecDeque::new();
                    place.insert(Block { receiver, speaker: line, pending })
                }
                Err(refusal) => return vec![refusal],
            },
        };
        known.speaker = line;
        known.pending.clear();
        let marks = &self.marks;
        let mark = |shard| T::mark(marks.get(&(block, shard)).copied());
        vec![known.receiver.greeted(hello, mark)]
    }

    fn take<T: Twist>(
        &mut self,
        block: BlockId,
        message: &Message,
    ) -> Result<Option<Vec<Message>>, Violation> {
        let Some(known) = self.blocks.get_mut(&block) else { return Ok(None) };
        let receiver = &mut known.receiver;
        match receiver.received(message, &mut self.bench, &mut self.decoded) {
            Received::Nothing | Received::Ended => Ok(Some(Vec::new())),
            Received::Answer(answer) => {
                let permanent =
                    matches!(&answer, Message::Reject { reason, .. } if reason.is_permanent());
                if permanent {
                    return Err(Violation::PassedBy(self.place));
                }
                Ok(Some(vec![answer]))
            }
            Received::Broken(_) => Ok(None),
            Received::Skipped(key) => {
                known.pending.push_back(Pending { key, samples: None });
                Ok(Some(Vec::new()))
            }
            Received::Samples(key) if self.manner == Manner::Refuses => {
                let again = Span::from_millis(300);
                let refused = receiver.refused(key, T::reason(), again, "not now".into());
                let before = |other: SegmentKey| other.shard != key.shard || other < key;
                known.pending.retain(|pending| before(pending.key));
                Ok(Some(refused.into_iter().collect()))
            }
            Received::Samples(key) => {
                let mut samples = Vec::new();
                if let Some(decoder) = receiver.decoder(key.shard) {
                    for (series, given) in self.decoded.series() {
                        let labels = decoder.labels(series).map(|(_, value)| value);
                        let name: Vec<u8> = labels.flatten().copied().collect();
                        let name = String::from_utf8_lossy(&name).into_owned();
                        samples.extend(given.iter().map(|one| (name.clone(), one.time, one.bits)));
                    }
                }
                known.pending.push_back(Pending { key, samples: Some(samples) });
                if T::CONFIRMS_EARLY {
                    return Ok(Some(vec![Message::Ack(key)]));
                }
                Ok(Some(Vec::new()))
            }
        }
    }

    /// Stores the next of what came, of any block; gives the connection that waits and the answer.
    pub(super) fn store<T: Twist>(
        &mut self,
        oracle: &mut Oracle,
    ) -> Result<Option<(u64, Message)>, Violation> {
        let to = self.place;
        let waiting = self.blocks.iter_mut().find(|(_, known)| !known.pending.is_empty());
        let Some((block, known)) = waiting else { return Ok(None) };
        let Some(Pending { key, samples }) = known.pending.pop_front() else { return Ok(None) };
        let mark = self.marks.get(&(*block, key.shard)).copied();
        // The mark is the sink's: what is not above it came twice before it was stored once.
        if mark >= Some(key.segment) && !T::FORGETS {
            let answer = known.receiver.stored(key);
            return Ok(Some((known.speaker, answer.unwrap_or(Message::Ack(key)))));
        }
        match samples {
            None => return Err(Violation::PassedBy(to)),
            Some(samples) => {
                let expected = mark.map_or(0, |mark| mark + 1);
                if key.segment != expected && !T::FORGETS {
                    let segment = key.segment;
                    return Err(Violation::OutOfOrder { to, segment, expected });
                }
                if !T::DROPS {
                    for (series, time, bits) in samples {
                        let sample = f64::from_bits(T::value(bits));
                        // Numbers of samples are small and whole.
                        #[expect(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "whole numbers below 2^53"
                        )]
                        oracle.arrives(to, sample as u64, &series, time)?;
                    }
                }
            }
        }
        self.marks.insert((*block, key.shard), key.segment);
        let answer = known.receiver.stored(key);
        Ok(answer.map(|answer| (known.speaker, answer)))
    }

    /// Hears again what it heard once, from any message on, and gives the lines that speak for nothing
    /// any more. Nothing may come of it.
    pub(super) fn replay<T: Twist>(
        &mut self,
        line: u64,
        pick: impl Fn(usize) -> usize,
    ) -> Result<Option<u64>, Violation> {
        let Some(heard) = self.heard.get(pick(self.heard.len())) else { return Ok(None) };
        let hello = heard.hello.clone();
        let from = pick(heard.messages.len() + 1);
        let suffix: Vec<Message> = heard.messages.iter().skip(from).cloned().collect();
        let block = hello.origin.block;
        let before = self.blocks.get(&block).map(|known| known.speaker);
        self.greet::<T>(line, &hello);
        for message in suffix {
            if self.take::<T>(block, &message)?.is_none() {
                break;
            }
        }
        // What was replayed is stored as if the agent had sent it: it did.
        Ok(before)
    }
}

/// Why a sink that is down does not take a segment.
pub(super) const NOT_NOW: Reason = Reason::RetryAfter;

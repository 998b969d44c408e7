//! A destination with a sink in memory that survives its own restarts.

use std::collections::BTreeMap;

use handoff_relay::codec::{Decoded, Workbench};
use handoff_relay::session::{Frames, Message, Reason, encode};
use handoff_relay::{BlockId, Received, Receiver, ReceiverLimits, ShardId};
use handoff_types::Span;

/// What the sink has of one sample: its series, its time and its value.
pub type Taken = (String, i64, u64);

pub struct Destination {
    pub up: bool,
    /// Answers with this instead of taking samples.
    pub refusing: Option<Reason>,
    /// Does not answer at all, although it takes samples.
    pub mute: bool,
    pub limits: ReceiverLimits,
    pub taken: Vec<Taken>,
    pub marks: BTreeMap<(BlockId, ShardId), u32>,
    receivers: BTreeMap<BlockId, Receiver>,
    bench: Workbench,
}

/// The far end of a connection.
#[derive(Default)]
pub struct FarEnd {
    frames: Frames,
    block: Option<BlockId>,
}

impl Destination {
    pub fn new() -> Self {
        Self {
            up: true,
            refusing: None,
            mute: false,
            limits: ReceiverLimits::default(),
            taken: Vec::new(),
            marks: BTreeMap::new(),
            receivers: BTreeMap::new(),
            bench: Workbench::new().unwrap(),
        }
    }

    /// Dies and comes back: the sink and its marks are there, the decoders are not.
    pub fn restart(&mut self) {
        self.receivers.clear();
    }

    /// Takes bytes of a connection and answers. None closes it.
    pub fn hear(&mut self, end: &mut FarEnd, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        end.frames.push(bytes);
        loop {
            let Ok(next) = end.frames.next_message() else { return None };
            let Some(message) = next else { break };
            let answer = match (end.block, message) {
                (None, Message::Hello(hello)) => {
                    let block = hello.origin.block;
                    end.block = Some(block);
                    end.frames.allow(self.limits.frame_bytes_max as usize);
                    let limits = self.limits;
                    let receiver = self.receivers.entry(block);
                    let receiver =
                        receiver.or_insert_with(|| Receiver::new(&hello, limits).unwrap());
                    let marks = &self.marks;
                    Some(receiver.greeted(&hello, |shard| marks.get(&(block, shard)).copied()))
                }
                (Some(block), message) => self.answer(block, &message)?,
                _ => return None,
            };
            if let Some(answer) = answer.filter(|_| !self.mute) {
                encode(&answer, &mut out);
            }
        }
        Some(out)
    }

    fn answer(&mut self, block: BlockId, message: &Message) -> Option<Option<Message>> {
        let receiver = self.receivers.get_mut(&block)?;
        let mut decoded = Decoded::default();
        match receiver.received(message, &mut self.bench, &mut decoded) {
            Received::Nothing | Received::Ended => Some(None),
            Received::Answer(answer) => Some(Some(answer)),
            Received::Broken(_) => None,
            Received::Skipped(key) => {
                self.marks.insert((block, key.shard), key.segment);
                Some(receiver.stored(key))
            }
            Received::Samples(key) => {
                if let Some(reason) = self.refusing {
                    let again = Span::from_secs(1);
                    return Some(receiver.refused(key, reason, again, "the sink is down".into()));
                }
                let decoder = receiver.decoder(key.shard).unwrap();
                for (series, samples) in decoded.series() {
                    let name: Vec<String> = decoder
                        .labels(series)
                        .map(|(name, value)| {
                            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                            format!("{}={}", text(name), text(value))
                        })
                        .collect();
                    let name = name.join(",");
                    self.taken.extend(samples.iter().map(|one| (name.clone(), one.time, one.bits)));
                }
                // One record: the samples and the mark.
                self.marks.insert((block, key.shard), key.segment);
                Some(receiver.stored(key))
            }
        }
    }
}

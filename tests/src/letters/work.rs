//! What is asked of the server.

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use super::ledger::{Ledger, Letter, Topic};
use crate::wall::{rfc3339, wall_millis};

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) what: What,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

/// What was asked, for the ledger.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Letters, by their numbers, with the producer and the first sequence if there are any.
    Produce { letters: Vec<u64>, producer: Option<(usize, u64)>, again: bool },
    /// One that must be refused: nothing of it may ever be found.
    Refused { status: u16 },
    /// A letter that waits is not wanted any more.
    Cancel(u64),
}

/// Draws what is asked next.
#[derive(Debug)]
pub(super) struct Work {
    dice: Dice,
    seed: u64,
    /// The next sequence of each producer.
    sequences: Vec<u64>,
}

impl Work {
    pub(super) fn new(dice: Dice, seed: u64) -> Self {
        Self { dice, seed, sequences: vec![1; super::WRITERS] }
    }

    /// What a producer was not answered: repeated under the same sequences, or given up.
    pub(super) fn again(&mut self, writer: usize, ledger: &mut Ledger) -> Vec<Asked> {
        let unanswered = ledger.unanswered(writer);
        if self.dice.one_in(3) {
            return Vec::new();
        }
        let again = |mut asked: Asked| {
            if let What::Produce { again, .. } = &mut asked.what {
                *again = true;
            }
            asked
        };
        unanswered.into_iter().map(again).collect()
    }

    pub(super) fn next(&mut self, writer: usize, ledger: &mut Ledger) -> Asked {
        match self.dice.below(100) {
            0..4 => self.refused(writer, ledger),
            4..10 => self.scheduled(ledger),
            10..14 => match ledger.some_scheduled(self.dice.below(u64::MAX)) {
                Some((letter, id)) => {
                    ledger.cancelling(letter);
                    let path = format!("/v1/streams/scheduled/{id}");
                    Asked { what: What::Cancel(letter), method: "DELETE", path, body: None }
                }
                None => self.produce(writer, ledger),
            },
            14..30 => self.plain(ledger),
            _ => self.produce(writer, ledger),
        }
    }

    /// With a sequence: it may be repeated.
    fn produce(&mut self, writer: usize, ledger: &mut Ledger) -> Asked {
        let topic = self.topic();
        let count = 1 + self.dice.below(12);
        let Some(next) = self.sequences.get_mut(writer) else { return self.plain(ledger) };
        let first = *next;
        *next += count;
        let (letters, messages) = self.letters(count, topic, ledger);
        let body = json!({
            "version": 1, "producer": guid(self.seed, writer), "sequence": first,
            "messages": messages,
        });
        let what = What::Produce { letters, producer: Some((writer, first)), again: false };
        let asked = Asked { what, method: "POST", path: path(topic), body: Some(body) };
        ledger.asking(writer, &asked);
        asked
    }

    /// Without one: it is asked once.
    fn plain(&mut self, ledger: &mut Ledger) -> Asked {
        let topic = self.topic();
        let count = 1 + self.dice.below(6);
        let (letters, messages) = self.letters(count, topic, ledger);
        let body = json!({ "version": 1, "messages": messages });
        let what = What::Produce { letters, producer: None, again: false };
        Asked { what, method: "POST", path: path(topic), body: Some(body) }
    }

    fn scheduled(&mut self, ledger: &mut Ledger) -> Asked {
        let topic = self.topic();
        let due = wall_millis() + i64::try_from(self.dice.below(1_500)).unwrap_or(0);
        let letter = Letter { topic, bytes: 40, due: Some(due) };
        let number = ledger.write(letter);
        let message = json!({ "payload": letter.text(number), "deliverAt": rfc3339(due) });
        let body = json!({ "version": 1, "messages": [message] });
        let what = What::Produce { letters: vec![number], producer: None, again: false };
        Asked { what, method: "POST", path: path(topic), body: Some(body) }
    }

    fn refused(&mut self, writer: usize, ledger: &mut Ledger) -> Asked {
        let topic = self.topic();
        let forbidden = ledger.forbid();
        let text = format!("forbidden {forbidden}");
        let (status, body, path) = match self.dice.below(4) {
            // The first would do, the second cannot: neither is stored.
            0 => {
                let messages = json!([{ "payload": text }, { "payload": text, "partition": 999 }]);
                (404, json!({ "version": 1, "messages": messages }), path(topic))
            }
            1 => {
                let path = "/v1/streams/topics/nowhere/messages".to_owned();
                (404, json!({ "version": 1, "messages": [{ "payload": text }] }), path)
            }
            2 => {
                let headers = json!({ "handoff.expires": "1" });
                let messages = json!([{ "payload": text, "headers": headers }]);
                (422, json!({ "version": 1, "messages": messages }), path(topic))
            }
            _ => match ledger.acknowledged_sequence(writer) {
                Some(sequence) => {
                    let producer = guid(self.seed, writer);
                    let messages = json!([{ "payload": text }]);
                    let body = json!({
                        "version": 1, "producer": producer, "sequence": sequence,
                        "messages": messages,
                    });
                    (409, body, path(topic))
                }
                None => return self.plain(ledger),
            },
        };
        Asked { what: What::Refused { status }, method: "POST", path, body: Some(body) }
    }

    fn letters(&mut self, count: u64, topic: Topic, ledger: &mut Ledger) -> (Vec<u64>, Vec<Value>) {
        let mut letters = Vec::new();
        let mut messages = Vec::new();
        for _ in 0..count {
            let bytes = match self.dice.below(100) {
                0 => 30_000 + self.dice.below(60_000),
                1..10 => 1_000 + self.dice.below(4_000),
                _ => 16 + self.dice.below(100),
            };
            let letter = Letter { topic, bytes: usize::try_from(bytes).unwrap_or(16), due: None };
            let number = ledger.write(letter);
            let payload = letter.text(number);
            let message = match self.dice.below(4) {
                0 => {
                    json!({ "payload": payload, "key": format!("k{}", self.dice.below(20)) })
                }
                1 => {
                    let partition = self.dice.below(topic.partitions().into());
                    json!({ "payload": payload, "partition": partition })
                }
                2 => {
                    let headers = json!({ "trace": { "base64": "AAEC/w==" } });
                    json!({ "payload": payload, "headers": headers })
                }
                _ => json!({ "payload": payload }),
            };
            letters.push(number);
            messages.push(message);
        }
        (letters, messages)
    }

    fn topic(&mut self) -> Topic {
        self.dice.pick(&Topic::ALL).copied().unwrap_or(Topic::Letters)
    }
}

fn path(topic: Topic) -> String {
    format!("/v1/streams/topics/{}/messages", topic.name())
}

fn guid(seed: u64, writer: usize) -> String {
    format!("{:08x}-0000-4000-8000-{:012x}", seed & 0xffff_ffff, writer + 1)
}

//! What was sent, given out, done and answered: each message counted once, whatever was repeated.
//!
//! ```text
//!  device ──sent──▶ server ──acknowledged──▶ served ──▶ processed ──▶ reply ──▶ received
//!                                              ▲  └─deadlock─┘ └ or incorrect
//! ```
//! A message is lost if it was acknowledged and the server does not know it any more. It is doubled
//! if the ERP committed it twice, if a device got it after saying that it had it, or if the server
//! has it twice.

use std::collections::HashMap;

use serde::Serialize;

/// A message of a device: which device, and which of its messages.
pub(super) type Sent = (u32, u64);

/// What became of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    acknowledged: bool,
    served: bool,
    processed: u32,
    incorrect: bool,
    /// How often the server has it.
    known: u32,
}

/// What became of a reply.
#[derive(Clone, Copy, Debug, Default)]
struct Reply {
    received: bool,
    /// It came after the device had said that it has it.
    again: bool,
    known: u32,
}

/// Everything that happened to the messages of one run.
#[derive(Debug)]
pub(super) struct Ledger {
    run: String,
    messages: HashMap<Sent, Fate>,
    replies: HashMap<u64, Reply>,
    counts: Counts,
    next_reply: u64,
    /// The first of this run that the server stored.
    first_seq: Option<u64>,
}

/// What is counted as it happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    pub(super) served: u64,
    pub(super) processed: u64,
    pub(super) deadlocks: u64,
    pub(super) incorrect: u64,
    pub(super) replies: u64,
    pub(super) received: u64,
    pub(super) other_replies: u64,
    pub(super) older: u64,
    pub(super) older_processed: u64,
    pub(super) retries: u64,
}

/// The end of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) devices: u32,
    pub(super) seconds: u64,
    pub(super) sent: u64,
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    pub(super) unanswered: u64,
    pub(super) served: u64,
    pub(super) processed: u64,
    pub(super) deadlocks: u64,
    pub(super) incorrect: u64,
    pub(super) waiting: u64,
    pub(super) replies: u64,
    pub(super) received: u64,
    pub(super) replies_waiting: u64,
    pub(super) other_replies: u64,
    pub(super) older: u64,
    pub(super) older_processed: u64,
    pub(super) retries: u64,
    /// None if the server could not be asked what it has.
    pub(super) lost: Option<u64>,
    pub(super) doubled: u64,
}

impl Ledger {
    /// Of a run whose messages are known by this word.
    pub(super) fn new(run: String) -> Self {
        let (messages, replies) = (HashMap::new(), HashMap::new());
        let counts = Counts::default();
        Self { run, messages, replies, counts, next_reply: 0, first_seq: None }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// A message is about to be sent; gives its id.
    pub(super) fn send(&mut self, sent: Sent) -> String {
        self.messages.entry(sent).or_default();
        self.counts.sent += 1;
        format!("{}-{}-{}", self.run, sent.0, sent.1)
    }

    /// The server has it.
    pub(super) fn acknowledged(&mut self, sent: Sent, seq: u64) {
        let fate = self.messages.entry(sent).or_default();
        self.counts.acknowledged += u64::from(!fate.acknowledged);
        fate.acknowledged = true;
        self.first_seq = Some(self.first_seq.map_or(seq, |first| first.min(seq)));
    }

    /// The server does not want it.
    pub(super) fn refused(&mut self) {
        self.counts.refused += 1;
    }

    /// Something was sent once more.
    pub(super) fn retried(&mut self) {
        self.counts.retries += 1;
    }

    /// The ERP was given a message.
    pub(super) fn served(&mut self, id: &str) {
        let Some(sent) = self.of_message(id) else { return };
        let fate = self.messages.entry(sent).or_default();
        self.counts.served += u64::from(!fate.served);
        fate.served = true;
    }

    /// The ERP's database has committed these. A device gets a reply to each that was processed.
    pub(super) fn committed(&mut self, done: &Done) {
        for id in &done.processed {
            let Some(sent) = self.of_message(id) else {
                self.counts.older_processed += 1;
                continue;
            };
            let fate = self.messages.entry(sent).or_default();
            self.counts.processed += u64::from(fate.processed == 0);
            fate.processed += 1;
        }
        for id in &done.incorrect {
            if let Some(sent) = self.of_message(id) {
                let fate = self.messages.entry(sent).or_default();
                self.counts.incorrect += u64::from(!fate.incorrect);
                fate.incorrect = true;
            }
        }
        self.counts.deadlocks += done.deadlocks;
        for id in &done.replies {
            if let Some(number) = self.of_reply(id) {
                self.replies.entry(number).or_default();
                self.counts.replies += 1;
            }
        }
    }

    /// An id for a reply, used once.
    pub(super) fn reply_id(&mut self) -> String {
        self.next_reply += 1;
        format!("{}-r{}", self.run, self.next_reply)
    }

    /// A device has said that it has a message, and was believed.
    pub(super) fn received(&mut self, id: &str, answers: Option<&str>) {
        match self.of_reply(id) {
            Some(number) => {
                let reply = self.replies.entry(number).or_default();
                self.counts.received += u64::from(!reply.received);
                reply.again |= reply.received;
                reply.received = true;
            }
            None if answers.is_some_and(|id| self.of_message(id).is_some()) => {
                self.counts.other_replies += 1;
            }
            None => self.counts.older += 1,
        }
    }

    /// Whether all that can be expected has come.
    pub(super) fn is_settled(&self) -> bool {
        let counts = &self.counts;
        let done = counts.processed + counts.incorrect;
        done >= counts.acknowledged && counts.received >= counts.replies
    }

    /// From where on the server has messages of this run.
    pub(super) fn first_seq(&self) -> Option<u64> {
        self.first_seq
    }

    /// The server has this message, in whatever folder.
    pub(super) fn known(&mut self, id: &str) {
        if let Some(sent) = self.of_message(id) {
            self.messages.entry(sent).or_default().known += 1;
        } else if let Some(number) = self.of_reply(id) {
            self.replies.entry(number).or_default().known += 1;
        }
    }

    /// The end of it. `asked` is whether the server has said what it has.
    pub(super) fn summary(&self, devices: u32, seconds: u64, asked: bool) -> Summary {
        let Counts { sent, acknowledged, refused, .. } = self.counts;
        let (mut lost, mut doubled, mut waiting) = (0, 0, 0);
        for fate in self.messages.values() {
            lost += u64::from(fate.acknowledged && fate.known == 0);
            doubled += u64::from(fate.processed > 1 || fate.known > 1);
            let open = fate.processed == 0 && !fate.incorrect;
            waiting += u64::from(fate.acknowledged && open && (fate.known > 0 || !asked));
        }
        let mut replies_waiting = 0;
        for reply in self.replies.values() {
            lost += u64::from(!reply.received && reply.known == 0);
            doubled += u64::from(reply.again || reply.known > 1);
            replies_waiting += u64::from(!reply.received && (reply.known > 0 || !asked));
        }
        Summary {
            devices,
            seconds,
            sent,
            acknowledged,
            refused,
            unanswered: sent.saturating_sub(acknowledged + refused),
            served: self.counts.served,
            processed: self.counts.processed,
            deadlocks: self.counts.deadlocks,
            incorrect: self.counts.incorrect,
            waiting,
            replies: self.counts.replies,
            received: self.counts.received,
            replies_waiting,
            other_replies: self.counts.other_replies,
            older: self.counts.older,
            older_processed: self.counts.older_processed,
            retries: self.counts.retries,
            lost: asked.then_some(lost),
            doubled,
        }
    }

    fn of_message(&self, id: &str) -> Option<Sent> {
        let rest = id.strip_prefix(&self.run)?.strip_prefix('-')?;
        let (device, number) = rest.split_once('-')?;
        Some((device.parse().ok()?, number.parse().ok()?))
    }

    fn of_reply(&self, id: &str) -> Option<u64> {
        id.strip_prefix(&self.run)?.strip_prefix("-r")?.parse().ok()
    }
}

/// What a database committed, by the ids of messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    pub(super) processed: Vec<String>,
    pub(super) incorrect: Vec<String>,
    pub(super) deadlocks: u64,
    pub(super) replies: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::{Done, Ledger, Summary};

    /// A message that went all the way, with its reply.
    fn whole(ledger: &mut Ledger) -> (String, String) {
        let id = ledger.send((3, 7));
        ledger.acknowledged((3, 7), 40);
        ledger.served(&id);
        let reply = ledger.reply_id();
        let done =
            Done { processed: vec![id.clone()], replies: vec![reply.clone()], ..Done::default() };
        ledger.committed(&done);
        ledger.received(&reply, Some(&id));
        (id, reply)
    }

    fn known(ledger: &mut Ledger, ids: &[&str]) -> Summary {
        ids.iter().for_each(|id| ledger.known(id));
        ledger.summary(1, 1, true)
    }

    #[test]
    fn whatever_is_repeated_is_counted_once() {
        let mut ledger = Ledger::new("run".to_owned());
        let (id, reply) = whole(&mut ledger);
        ledger.acknowledged((3, 7), 40);
        ledger.served(&id);
        assert!(ledger.is_settled());
        assert_eq!(ledger.first_seq(), Some(40));
        let sum = known(&mut ledger, &[&id, &reply]);
        assert_eq!((sum.sent, sum.acknowledged, sum.served, sum.processed), (1, 1, 1, 1));
        assert_eq!((sum.replies, sum.received, sum.lost, sum.doubled), (1, 1, Some(0), 0));
        assert_eq!((sum.waiting, sum.replies_waiting, sum.unanswered), (0, 0, 0));
    }

    #[test]
    fn what_was_acknowledged_and_is_nowhere_is_lost() {
        let mut ledger = Ledger::new("run".to_owned());
        let id = ledger.send((0, 0));
        assert_eq!(known(&mut ledger, &[]).lost, Some(0), "nobody said that it is stored");
        ledger.acknowledged((0, 0), 1);
        assert_eq!((ledger.is_settled(), known(&mut ledger, &[]).lost), (false, Some(1)));
        let unasked = ledger.summary(1, 1, false);
        assert_eq!((unasked.lost, unasked.waiting), (None, 1));
        let sum = known(&mut ledger, &[&id]);
        assert_eq!((sum.lost, sum.waiting), (Some(0), 1));
    }

    #[test]
    fn a_reply_that_nobody_got_is_lost_or_waits() {
        let mut ledger = Ledger::new("run".to_owned());
        let reply = ledger.reply_id();
        ledger.committed(&Done { replies: vec![reply.clone()], ..Done::default() });
        assert_eq!((ledger.is_settled(), known(&mut ledger, &[]).lost), (false, Some(1)));
        let sum = known(&mut ledger, &[&reply]);
        assert_eq!((sum.lost, sum.replies_waiting), (Some(0), 1));
    }

    #[test]
    fn what_is_done_twice_is_doubled() {
        let mut ledger = Ledger::new("run".to_owned());
        let (id, reply) = whole(&mut ledger);
        ledger.committed(&Done { processed: vec![id.clone()], ..Done::default() });
        let sum = known(&mut ledger, &[&id, &reply]);
        assert_eq!((sum.processed, sum.doubled), (1, 1));
        ledger.received(&reply, None);
        assert_eq!(known(&mut ledger, &[]).doubled, 2);
        let mut ledger = Ledger::new("run".to_owned());
        let (id, reply) = whole(&mut ledger);
        assert_eq!(known(&mut ledger, &[&id, &id, &reply]).doubled, 1);
    }

    #[test]
    fn messages_of_others_are_not_counted() {
        let mut ledger = Ledger::new("run".to_owned());
        whole(&mut ledger);
        for id in ["other-1-1", "run-", "run-x-1", "runs-1-1", "", "run-1"] {
            ledger.served(id);
            ledger.known(id);
        }
        ledger.committed(&Done { processed: vec!["other-1-1".to_owned()], ..Done::default() });
        assert_eq!((ledger.counts().served, ledger.counts().processed), (1, 1));
        assert_eq!(ledger.counts().older_processed, 1);
        ledger.received("notice-1", Some("run-3-7"));
        ledger.received("old-r1", Some("old-1-1"));
        assert_eq!((ledger.counts().other_replies, ledger.counts().older), (1, 1));
        assert_eq!(ledger.counts().received, 1);
    }
}

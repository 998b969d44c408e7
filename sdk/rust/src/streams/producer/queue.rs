//! Messages that wait for a lane: which go next, and when.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::{Limits, SendError};
use crate::connect::later;
use crate::streams::message::{Message, Sent};

/// A message that waits.
pub(super) struct Waiting {
    /// Its place among all that were taken.
    pub(super) ticket: u64,
    pub(super) message: Message,
    pub(super) bytes: usize,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Result<Sent, SendError>>,
    /// Its share of the buffer, given back when it is answered.
    pub(super) space: OwnedSemaphorePermit,
}

impl Waiting {
    /// Answers. Whoever does not want to know has dropped the other end.
    pub(super) fn answer(self, result: Result<Sent, SendError>) {
        drop(self.space);
        drop(self.answer.send(result));
    }
}

/// Messages that travel together: of one topic, with sequences one after the other.
pub(super) struct Batch {
    pub(super) topic: Arc<str>,
    pub(super) messages: Vec<Waiting>,
}

impl Batch {
    /// The sequence the sender gave to the first, if it did.
    pub(super) fn given(&self) -> Option<u64> {
        self.messages.first().and_then(|first| first.message.sequence)
    }
}

/// What a lane does next.
pub(super) enum Next {
    /// Sends these.
    Send(Batch),
    /// Waits, at most until then.
    Wait(Option<Instant>),
    /// Ends: it is closed and empty.
    End,
}

/// The messages of one lane.
#[derive(Default)]
pub(super) struct Queue {
    topics: BTreeMap<Arc<str>, VecDeque<Waiting>>,
    /// The first ticket of the batch on its way.
    on_its_way: Option<u64>,
    /// What came before this ticket does not linger.
    hurry_below: u64,
    closed: bool,
    /// Why nothing is sent any more.
    over: Option<SendError>,
}

impl Queue {
    pub(super) fn push(&mut self, topic: &str, waiting: Waiting) -> Result<(), SendError> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        if self.closed {
            return Err(SendError::Closed);
        }
        match self.topics.get_mut(topic) {
            Some(line) => line.push_back(waiting),
            None => drop(self.topics.insert(topic.into(), VecDeque::from([waiting]))),
        }
        Ok(())
    }

    /// The batch to be sent now, if there is one. It counts as on its way until [`Queue::done`].
    ///
    /// Of the topics that need not wait, the one whose first message is the oldest comes first.
    pub(super) fn next(&mut self, limits: &Limits, now: Instant) -> Next {
        let mut ready: Option<(u64, &Arc<str>)> = None;
        let mut until: Option<Instant> = None;
        for (topic, line) in &self.topics {
            let Some(first) = line.front() else { continue };
            let due = later(first.since, limits.linger);
            let hurried = self.closed || first.ticket < self.hurry_below || due <= now;
            if hurried || is_full(line, limits) {
                if ready.is_none_or(|(ticket, _)| first.ticket < ticket) {
                    ready = Some((first.ticket, topic));
                }
            } else {
                until = Some(until.map_or(due, |until| until.min(due)));
            }
        }
        let Some((ticket, topic)) = ready else {
            let ended = self.closed && self.topics.is_empty();
            return if ended { Next::End } else { Next::Wait(until) };
        };
        let topic = Arc::clone(topic);
        let messages = self.take(&topic, limits);
        self.on_its_way = Some(ticket);
        Next::Send(Batch { topic, messages })
    }

    /// Takes what may travel together from the begin of a line.
    fn take(&mut self, topic: &Arc<str>, limits: &Limits) -> Vec<Waiting> {
        let Some(line) = self.topics.get_mut(topic) else { return Vec::new() };
        let count = together(line, limits);
        let taken = line.drain(..count.min(line.len())).collect();
        if line.is_empty() {
            self.topics.remove(topic);
        }
        taken
    }

    /// Puts messages back to the begin of their line.
    pub(super) fn put_back(&mut self, topic: &Arc<str>, messages: Vec<Waiting>) {
        let line = self.topics.entry(Arc::clone(topic)).or_default();
        for waiting in messages.into_iter().rev() {
            line.push_front(waiting);
        }
    }

    /// The batch on its way was answered.
    pub(super) fn done(&mut self) {
        self.on_its_way = None;
    }

    /// What was taken so far is to be sent without lingering.
    pub(super) fn flush(&mut self, below: u64) {
        self.hurry_below = self.hurry_below.max(below);
    }

    /// Whether everything before a ticket is answered.
    pub(super) fn is_done(&self, below: u64) -> bool {
        let fronts = self.topics.values().filter_map(|line| line.front());
        let mut first = fronts.map(|first| first.ticket).chain(self.on_its_way);
        first.all(|ticket| ticket >= below)
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Nothing is sent any more; gives what waited.
    pub(super) fn give_up(&mut self, why: SendError) -> Vec<Waiting> {
        self.over = Some(why);
        std::mem::take(&mut self.topics).into_values().flatten().collect()
    }
}

/// Whether no more messages would fit into the first batch of a line.
fn is_full(line: &VecDeque<Waiting>, limits: &Limits) -> bool {
    let count = together(line, limits);
    count >= limits.batch_messages_max || count < line.len()
}

/// How many messages at the begin of a line may travel together: at least one.
fn together(line: &VecDeque<Waiting>, limits: &Limits) -> usize {
    let mut bytes = 0_usize;
    let mut expected = line.front().and_then(|first| first.message.sequence);
    let given = expected.is_some();
    let fits = |waiting: &&Waiting| {
        bytes = bytes.saturating_add(waiting.bytes);
        let follows = waiting.message.sequence == expected;
        expected = expected.and_then(|sequence| sequence.checked_add(1));
        bytes <= limits.batch_bytes_max && follows && given == waiting.message.sequence.is_some()
    };
    line.iter().take(limits.batch_messages_max).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::{Semaphore, oneshot};
    use tokio::time::Instant;

    use super::{Limits, Next, Queue, Waiting};
    use crate::Backoff;
    use crate::streams::message::Message;

    fn limits(linger: Duration) -> Limits {
        Limits {
            linger,
            batch_messages_max: 3,
            batch_bytes_max: 100,
            buffer_bytes_max: 1000,
            retries: 0,
            backoff: Backoff::default(),
        }
    }

    fn waiting(ticket: u64, bytes: usize, sequence: Option<u64>, since: Instant) -> Waiting {
        let space = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let message = Message { sequence, ..Message::new("x") };
        Waiting { ticket, message, bytes, since, answer: oneshot::channel().0, space }
    }

    /// Topics and tickets of the batches that are sent at once.
    fn batches(queue: &mut Queue, limits: &Limits, now: Instant) -> Vec<(String, Vec<u64>)> {
        let mut found = Vec::new();
        while let Next::Send(batch) = queue.next(limits, now) {
            let tickets = batch.messages.iter().map(|waiting| waiting.ticket).collect();
            found.push((batch.topic.to_string(), tickets));
            queue.done();
        }
        found
    }

    fn filled(entries: &[(&str, u64, usize, Option<u64>)], now: Instant) -> Queue {
        let mut queue = Queue::default();
        for (topic, ticket, bytes, sequence) in entries {
            assert!(queue.push(topic, waiting(*ticket, *bytes, *sequence, now)).is_ok());
        }
        queue
    }

    fn check(entries: &[(&str, u64, usize, Option<u64>)], expected: &[(&str, &[u64])]) {
        let now = Instant::now();
        let found = batches(&mut filled(entries, now), &limits(Duration::ZERO), now);
        let expected: Vec<_> = expected
            .iter()
            .map(|(topic, tickets)| ((*topic).to_owned(), tickets.to_vec()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn messages_of_a_topic_travel_together_up_to_both_limits() {
        let a = |ticket, bytes| ("a", ticket, bytes, None);
        check(&[a(0, 10), a(1, 10), a(2, 10), a(3, 10)], &[("a", &[0, 1, 2]), ("a", &[3])]);
        check(&[a(0, 60), a(1, 40), a(2, 1)], &[("a", &[0, 1]), ("a", &[2])]);
        check(&[a(0, 500), a(1, 1)], &[("a", &[0]), ("a", &[1])]);
    }

    #[test]
    fn the_topic_that_waits_longest_is_first() {
        let entries =
            [("b", 0, 10, None), ("a", 1, 10, None), ("b", 2, 10, None), ("a", 3, 10, None)];
        check(&entries, &[("b", &[0, 2]), ("a", &[1, 3])]);
    }

    #[test]
    fn sequences_that_do_not_follow_each_other_travel_apart() {
        let entries = [
            ("a", 0, 1, Some(5)),
            ("a", 1, 1, Some(6)),
            ("a", 2, 1, Some(8)),
            ("a", 3, 1, None),
            ("a", 4, 1, Some(u64::MAX)),
            ("a", 5, 1, None),
        ];
        let expected: [(&str, &[u64]); 5] =
            [("a", &[0, 1]), ("a", &[2]), ("a", &[3]), ("a", &[4]), ("a", &[5])];
        check(&entries, &expected);
    }

    #[test]
    fn messages_linger_unless_there_are_enough_or_somebody_waits() {
        let limits = limits(Duration::from_secs(5));
        let now = Instant::now();
        let late = now + Duration::from_secs(5);
        let two = [("a", 0, 10, None), ("a", 1, 10, None)];
        let mut queue = filled(&two, now);
        match queue.next(&limits, now) {
            Next::Wait(Some(until)) => assert_eq!(until, late),
            _ => panic!("it does not linger"),
        }
        assert_eq!(batches(&mut queue, &limits, late).len(), 1);
        let mut queue = filled(&two, now);
        queue.flush(1);
        assert_eq!(batches(&mut queue, &limits, now).len(), 1, "flushed");
        let mut queue = filled(&[&two[..], &[("a", 2, 10, None)]].concat(), now);
        assert_eq!(batches(&mut queue, &limits, now).len(), 1, "enough messages");
        let mut queue = filled(&[&two[..], &[("a", 2, 90, None)]].concat(), now);
        assert_eq!(batches(&mut queue, &limits, now), [("a".to_owned(), vec![0, 1])]);
        let mut queue = filled(&two, now);
        queue.close();
        assert_eq!(batches(&mut queue, &limits, now).len(), 1, "closed");
        assert!(matches!(queue.next(&limits, now), Next::End));
    }

    #[test]
    fn what_is_on_its_way_is_not_done() {
        let now = Instant::now();
        let limits = limits(Duration::ZERO);
        let mut queue = filled(&[("a", 7, 10, None), ("b", 8, 10, None)], now);
        assert!(queue.is_done(7) && !queue.is_done(8));
        let Next::Send(batch) = queue.next(&limits, now) else { panic!("nothing is sent") };
        assert!(!queue.is_done(8));
        queue.put_back(&batch.topic, batch.messages);
        queue.done();
        assert!(!queue.is_done(8));
        assert_eq!(batches(&mut queue, &limits, now).len(), 2);
        assert!(queue.is_done(u64::MAX));
    }
}

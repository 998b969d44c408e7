//! Consuming as a member of a group.
//!
//! ```text
//!            ┌─ heart: one held heartbeat after the other ──▶ Notices (assigned, gone, …)
//!  join ──▶  │      │ not known any more: join again, with back-off
//!            │      ▼
//!            │   member, assignment ◀── read by polls and commits; who is told `gone` says so here
//!            │
//!            └─ next ──▶ what was polled and not taken ──▶ the caller ──▶ commit
//!                 │ nothing: a poll, in a task of its own
//!                 ▼
//!               waits for that task
//! ```
//! * A poll is a task, and [`Consumer::next`] only waits for it. So a `next` that is dropped loses
//!   nothing: the poll goes on, and what it brings waits for the next call. At most one poll is
//!   under way, and none before somebody asks: messages do not wait here under a lease that runs.
//! * If the answer of a poll is lost, so are its leases: when they run out, the messages are
//!   delivered again, with the next attempt.
//! * A commit is repeated until it is answered. Repeating is harmless: what is done stays done, each
//!   result carries the lease it was given under, and what is produced with it carries a sequence.
//! * A message that is to be tried again takes those back that must not overtake it (`ordering`), also
//!   from here. So after a retry the server is asked which of a partition are still ours, before any
//!   more of them are given.
//! * Only the heart joins. Whatever was polled as the member before is thrown away then: its leases
//!   are void, and it comes again.

mod commit;
mod delivered;
mod member;
mod poll;
mod wire;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::sleep;

use self::commit::Sender;
use self::member::{Heart, Member, State};
use self::poll::{Poll, Polled};
use super::groups::{self, Assigned};
use super::message::Message;
use super::reader::Start;
use crate::{Backoff, Client, Error};

pub use commit::{Commit, CommitError, Committed, Committer, Finished, Outcome as CommitOutcome};
pub use delivered::{Batch, CORRELATION_ID, Delivered, REPLY_TO, Verdict};

/// How many notices wait to be taken.
const NOTICES_MAX: usize = 64;

/// How a consumer behaves.
#[derive(Clone, Debug)]
#[must_use]
pub struct ConsumerOptions {
    group: String,
    topics: Vec<String>,
    client: Option<String>,
    instance: Option<String>,
    session_timeout: Option<Duration>,
    from: Option<Start>,
    max_messages: u32,
    max_bytes: Option<u64>,
    wait: Duration,
    retries: u32,
    backoff: Backoff,
}

impl ConsumerOptions {
    /// A member of this group, of the topics that the group declares.
    pub fn new(group: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            topics: Vec::new(),
            client: None,
            instance: None,
            session_timeout: None,
            from: None,
            max_messages: 100,
            max_bytes: None,
            wait: Duration::from_secs(10),
            retries: 10,
            backoff: Backoff::default(),
        }
    }

    /// Consumes this topic; several may be given. A group that is not there is made for them.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// A name, for people.
    pub fn client(mut self, name: impl Into<String>) -> Self {
        self.client = Some(name.into());
        self
    }

    /// A name under which it comes back: after a restart within the session timeout it has the
    /// partitions that it had, and nobody else is disturbed. No two may use one at a time: the
    /// second takes the place of the first.
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = Some(name.into());
        self
    }

    /// How long it may be silent before others get its messages. As the server has it unless said
    /// otherwise.
    pub fn session_timeout(mut self, time: Duration) -> Self {
        self.session_timeout = Some(time);
        self
    }

    /// Where the group begins in a partition that it does not know yet. As the group has it unless
    /// said otherwise, which is the earliest message.
    pub fn from(mut self, start: Start) -> Self {
        self.from = Some(start);
        self
    }

    /// How many messages a poll brings at most. 100 unless said otherwise. All of a poll are leased
    /// at once, so they should be done within the group's lease (30 s), or be extended.
    pub fn max_messages(mut self, messages: u32) -> Self {
        self.max_messages = messages.max(1);
        self
    }

    /// About how many bytes a poll brings at most. As the server has it unless said otherwise.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// How long a poll waits at the server for a message. 10 s unless said otherwise; it goes on
    /// with another poll then.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// How often a commit is repeated after a timeout, a lost connection or a 5xx. 10 times unless
    /// said otherwise. Polls and joins are repeated for as long as it takes.
    pub fn retries(mut self, times: u32) -> Self {
        self.retries = times;
        self
    }

    /// How long to wait before something is tried again.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }
}

/// What happens to a consumer besides messages.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// It has other partitions than before. What it was given of those it has no more may still be
    /// committed; others go on behind it.
    Assigned {
        /// Counts changes of who has which partition.
        generation: u64,
        /// All it has now.
        assignment: Vec<Assigned>,
        /// Those that are new.
        gained: Vec<Assigned>,
        /// Those that somebody else has now.
        lost: Vec<Assigned>,
    },
    /// The server takes this member for dead. What it was given comes again, here or elsewhere, and
    /// commits of it are refused. It is joining again.
    Gone,
    /// It is a member again, and has these partitions.
    Rejoined {
        /// What the server calls it now.
        member: String,
        /// All it has now.
        assignment: Vec<Assigned>,
    },
    /// The server cannot be asked; it is tried again, with back-off.
    Interrupted {
        /// Why.
        cause: Error,
    },
    /// The server answers again.
    Reconnected,
}

/// What happens to a consumer besides messages, as it happens: for a task of its own.
#[derive(Debug)]
pub struct Notices(mpsc::Receiver<Notice>);

impl Notices {
    /// The next notice. None once the consumer is gone. Those that nobody takes are kept up to a
    /// number; then no more are told until some were taken.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Notice> {
        self.0.recv().await
    }
}

/// A member of a group: takes messages and says what became of them.
///
/// A message that was committed [`Verdict::ok`](Delivered::ok) is not delivered to its group again.
/// One that was not, is: when its lease runs out, when the consumer leaves, or when it is taken for
/// dead. So effects outside of Handoff may happen twice and should know [`Delivered::attempt`];
/// what is produced by the same [`Commit`] happens once.
///
/// # Dropped
/// As a crash: others get its messages when the session is over. [`Consumer::leave`] returns them
/// at once.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use handoff_sdk::streams::{Commit, ConsumerOptions, Message};
///
/// let options = ConsumerOptions::new("billing").topic("orders");
/// let mut consumer = client.streams().consumer(options).await?;
/// while let Some(order) = consumer.next().await {
///     let order = order?;
///     let bill = Message::new(format!("bill for {:?}", order.message.payload));
///     // Either both happen or neither.
///     consumer.commit(Commit::of(order.ok()).produce("bills", bill)).await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct Consumer {
    shared: Arc<Shared>,
    committer: Committer,
    /// With a connection of its own: a poll is held, and others must not wait behind it.
    poller: Client,
    polled: VecDeque<Batch>,
    /// As which member it was polled.
    epoch: u64,
    polling: Option<JoinHandle<Option<Polled>>>,
    notices: Option<Notices>,
    heart: AbortHandle,
}

/// What a consumer, its heart, its polls and its committers have in common.
struct Shared {
    client: Client,
    options: ConsumerOptions,
    state: watch::Sender<State>,
    /// Why it cannot be a member any more.
    over: Mutex<Option<Error>>,
    tell: mpsc::Sender<Notice>,
    /// Whether the last request of heart or poll failed, as far as notices are concerned.
    interrupted: Mutex<bool>,
    /// Partitions with a retry since they were looked at last: some of what was polled of them may
    /// have been taken back.
    retried: Mutex<BTreeSet<(String, u32)>>,
    /// Who produces by commits. It is held for the whole of a commit, because sequences must be
    /// used one after the other: a lock of tokio.
    sender: tokio::sync::Mutex<Option<Sender>>,
}

impl Consumer {
    pub(super) async fn join(client: &Client, options: ConsumerOptions) -> Result<Self, Error> {
        let member = member::join(client, &options, 1).await?;
        let (tell, told) = mpsc::channel(NOTICES_MAX);
        let shared = Arc::new(Shared {
            client: client.clone(),
            options,
            state: watch::Sender::new(State::Joined(Arc::new(member))),
            over: Mutex::new(None),
            tell,
            interrupted: Mutex::new(false),
            retried: Mutex::new(BTreeSet::new()),
            sender: tokio::sync::Mutex::new(None),
        });
        let heart = Heart::new(Arc::clone(&shared), client.apart());
        Ok(Self {
            committer: Committer::new(Arc::clone(&shared)),
            shared,
            poller: client.apart(),
            polled: VecDeque::new(),
            epoch: 0,
            polling: None,
            notices: Some(Notices(told)),
            heart: tokio::spawn(heart.run()).abort_handle(),
        })
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.shared.options.group
    }

    /// What the server calls this member now. None while it is joining again.
    #[must_use]
    pub fn member(&self) -> Option<String> {
        self.shared.member().map(|member| member.id.clone())
    }

    /// The partitions it has now.
    #[must_use]
    pub fn assignment(&self) -> Vec<Assigned> {
        self.shared.member().map(|member| member.assignment.clone()).unwrap_or_default()
    }

    /// What happens besides messages. It can be taken once.
    pub fn notices(&mut self) -> Option<Notices> {
        self.notices.take()
    }

    /// Who commits, for tasks that work on messages at the same time. It may be cloned, and is of
    /// use as long as the consumer is there.
    #[must_use]
    pub fn committer(&self) -> Committer {
        self.committer.clone()
    }

    /// The next message. It waits for as long as it takes, through lost connections and restarts of
    /// the server. None once it is over, which an error has told before.
    ///
    /// # Errors
    /// [`Error`] for what time does not heal: a token that was revoked, a group that was deleted.
    ///
    /// After a retry, messages that must not overtake it are not given; they come again behind it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: a poll that is under way goes on by itself, and
    /// what it brings is given by the next call. The leases of those messages run meanwhile.
    pub async fn next(&mut self) -> Option<Result<Delivered, Error>> {
        loop {
            self.forget_void().await;
            if let Some(batch) = self.polled.front_mut() {
                match batch.take_first() {
                    Some(message) => return Some(Ok(message)),
                    None => drop(self.polled.pop_front()),
                }
                continue;
            }
            if let Err(error) = self.more().await? {
                return Some(Err(error));
            }
        }
    }

    /// The next messages that have one lease: consecutive ones of one partition. For whoever works
    /// on many at once, and commits them at once: see [`Consumer::next`].
    ///
    /// # Errors
    /// As [`Consumer::next`].
    ///
    /// # Cancel safety
    /// As [`Consumer::next`].
    pub async fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        loop {
            self.forget_void().await;
            match self.polled.pop_front() {
                Some(batch) if batch.messages().is_empty() => {}
                Some(batch) => return Some(Ok(batch)),
                None => {
                    if let Err(error) = self.more().await? {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    /// Says what became of messages: see [`Committer::commit`].
    ///
    /// # Errors
    /// [`CommitError`]
    ///
    /// # Cancel safety
    /// As [`Committer::commit`].
    pub async fn commit(&self, commit: impl Into<Commit>) -> Result<Committed, CommitError> {
        self.committer.commit(commit).await
    }

    /// Answers a message and finishes it, in one step: see [`Committer::reply`].
    ///
    /// # Errors
    /// [`CommitError`]
    ///
    /// # Cancel safety
    /// As [`Committer::commit`].
    pub async fn reply(
        &self,
        message: &Delivered,
        answer: impl Into<Message>,
    ) -> Result<Committed, CommitError> {
        self.committer.reply(message, answer).await
    }

    /// Leaves the group. What was not committed is delivered to others at once.
    ///
    /// # Errors
    /// [`Error`] if the server could not be told often enough: then others get its messages when
    /// the session is over.
    ///
    /// # Cancel safety
    /// Dropped, it may have left or not; it is no consumer any more in either case.
    pub async fn leave(mut self) -> Result<(), Error> {
        let member = self.shared.member();
        self.shared.state.send_replace(State::Left);
        self.heart.abort();
        if let Some(polling) = self.polling.take() {
            // Awaited, so that no poll arrives after the farewell.
            polling.abort();
            drop(polling.await);
        }
        let Some(member) = member else { return Ok(()) };
        let target = groups::target(self.group()).segment("members").segment(&member.id);
        let Shared { client, options, .. } = &*self.shared;
        let mut failures = 0;
        loop {
            let error = match client.delete_path(target.as_str()).await {
                Ok(()) => return Ok(()),
                Err(error) if member::is_gone(&error) => return Ok(()),
                Err(error) => error,
            };
            if !error.is_temporary() || failures >= options.retries {
                return Err(error);
            }
            sleep(options.backoff.wait(failures, retry_after(&error))).await;
            failures += 1;
        }
    }

    /// Waits for the poll that is under way, or for a new one. None: it is over.
    async fn more(&mut self) -> Option<Result<(), Error>> {
        let polling = self.polling.get_or_insert_with(|| {
            let poll = Poll::new(Arc::clone(&self.shared), self.poller.clone());
            tokio::spawn(poll.run())
        });
        // Waiting by reference: dropped here, the task is still there.
        let ended = polling.await;
        self.polling = None;
        match ended.ok().flatten() {
            Some(Polled { epoch, batches }) => {
                self.epoch = epoch;
                self.polled.extend(batches);
                Some(Ok(()))
            }
            None => self.shared.take_over().map(Err),
        }
    }

    /// Throws away what was polled and is not ours any more: it comes again.
    async fn forget_void(&mut self) {
        let valid = self.shared.member().is_some_and(|member| member.epoch == self.epoch);
        if !valid {
            self.polled.clear();
        }
        if self.polled.is_empty() {
            self.shared.retried().clear();
        }
        let Some(first) = self.polled.front() else { return };
        let place = (first.topic().to_owned(), first.partition());
        if !self.shared.retried().contains(&place) {
            return;
        }
        let of_it = |batch: &&Batch| (batch.topic(), batch.partition()) == (&place.0, place.1);
        // Extended, because that changes nothing for those that are ours, and the others are fenced.
        let commit: Commit = self.polled.iter().filter(of_it).map(Batch::extend).collect();
        let asked = self.committer.commit(commit).await;
        // If it cannot be said, none of them is given: they come again when their lease is over.
        let ours = |offset: u64| match &asked {
            Ok(committed) => !committed.fenced().any(|range| {
                (&range.topic, range.partition) == (&place.0, place.1)
                    && (range.from..=range.to).contains(&offset)
            }),
            Err(_) => false,
        };
        for batch in std::mem::take(&mut self.polled) {
            match of_it(&&batch) {
                true => self.polled.extend(batch.kept(ours)),
                false => self.polled.push_back(batch),
            }
        }
        self.shared.retried().remove(&place);
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.shared.state.send_replace(State::Left);
        self.heart.abort();
        if let Some(polling) = &self.polling {
            polling.abort();
        }
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("group", &self.group())
            .field("member", &self.member())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The member, unless it is joining again or has left.
    fn member(&self) -> Option<Arc<Member>> {
        match &*self.state.borrow() {
            State::Joined(member) => Some(Arc::clone(member)),
            State::Gone | State::Over | State::Left => None,
        }
    }

    /// The server does not know this member any more.
    fn gone(&self, epoch: u64) {
        let told = self.state.send_if_modified(|state| match state {
            State::Joined(member) if member.epoch == epoch => {
                *state = State::Gone;
                true
            }
            _ => false,
        });
        if told {
            self.tell(Notice::Gone);
        }
    }

    /// It can be a member no more.
    fn end(&self, error: Error) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.state.send_if_modified(|state| match state {
            State::Left => false,
            _ => {
                *state = State::Over;
                true
            }
        });
    }

    fn take_over(&self) -> Option<Error> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Tells, if there is room: whoever does not take notices does not want them.
    fn tell(&self, notice: Notice) {
        drop(self.tell.try_send(notice));
    }

    /// A request of heart or poll failed.
    fn failed(&self, cause: Error) {
        let before = self.was_interrupted(true);
        if !before {
            self.tell(Notice::Interrupted { cause });
        }
    }

    /// A request of heart or poll was answered.
    fn answered(&self) {
        let before = self.was_interrupted(false);
        if before {
            self.tell(Notice::Reconnected);
        }
    }

    fn retried(&self) -> MutexGuard<'_, BTreeSet<(String, u32)>> {
        self.retried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_interrupted(&self, now: bool) -> bool {
        let mut interrupted = self.interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *interrupted, now)
    }
}

fn retry_after(error: &Error) -> Option<Duration> {
    error.problem().and_then(|problem| problem.retry_after)
}

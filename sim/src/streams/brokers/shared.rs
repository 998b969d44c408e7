//! The store that the brokers share: every call takes some turns, and some go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use handoff_streams::memory::{Locks, Memory};
use handoff_streams::port::{Batches, CommitError, Failed, Hold, Loaded, Step, Store, Version};
use handoff_streams::{Action, Change, Command, Key, PartitionId, Reply, State, Streams};
use handoff_types::{Decision, Entropy, Machine, Now, Outcome};

use crate::dice::Dice;

/// Changes by the aggregate they belong to.
type ByKey = BTreeMap<Key, Vec<Change>>;

/// What a store does otherwise than it should.
pub trait Meddle: fmt::Debug + Send + Sync + 'static {
    /// What is committed instead of this.
    fn commit(steps: Vec<Step>, _memory: &Memory) -> Vec<Step> {
        steps
    }

    /// What is loaded instead of this.
    fn load(loaded: Vec<Loaded>) -> Vec<Loaded> {
        loaded
    }
}

/// A store that does what it should.
#[derive(Debug)]
pub struct Honest;

impl Meddle for Honest {}

/// One broker's way to the store.
pub(crate) struct Shared<D> {
    memory: Memory,
    inner: Arc<Mutex<Inner>>,
    party: usize,
    meddler: PhantomData<fn(D)>,
}

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Self {
        self.for_party(self.party)
    }
}

impl<D> fmt::Debug for Shared<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("party", &self.party).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Inner {
    dice: Dice,
    /// What each broker does.
    doing: BTreeMap<usize, (Command, Entropy)>,
    /// What the last commit of each broker decided.
    decided: BTreeMap<usize, (Reply, Vec<Action>)>,
    commits: Vec<Committed>,
    notes: Vec<&'static str>,
    /// A commit that will be made, or not, when nobody waits for it any more.
    late: Option<Late>,
}

/// A commit that nobody waits for.
#[derive(Debug)]
struct Late {
    party: usize,
    steps: Vec<Step>,
    now: Now,
    doing: (Command, Entropy),
}

/// A commit that was made.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) party: usize,
    pub(crate) now: Now,
    pub(crate) command: Command,
    /// Everything there is right behind it.
    pub(crate) state: State,
    /// What was looked at, if that was not everything.
    pub(crate) among: Option<BTreeSet<Key>>,
    /// What was committed.
    pub(crate) seen: ByKey,
    /// What would have been, had the broker seen everything.
    pub(crate) whole: ByKey,
    pub(crate) reply: Reply,
    pub(crate) actions: Vec<Action>,
}

impl Inner {
    /// The last commit is one that somebody waits for.
    fn answers(&mut self) {
        if let Some(Committed { party, reply, actions, .. }) = self.commits.last() {
            self.decided.insert(*party, (reply.clone(), actions.clone()));
        }
    }
}

impl<D> Shared<D> {
    pub(crate) fn new(memory: Memory, dice: Dice) -> Self {
        let inner = Inner {
            dice,
            doing: BTreeMap::new(),
            decided: BTreeMap::new(),
            commits: Vec::new(),
            notes: Vec::new(),
            late: None,
        };
        let inner = Arc::new(Mutex::new(inner));
        Self { memory, inner, party: 0, meddler: PhantomData }
    }

    pub(crate) fn for_party(&self, party: usize) -> Self {
        let (memory, inner) = (self.memory.clone(), Arc::clone(&self.inner));
        Self { memory, inner, party, meddler: PhantomData }
    }

    pub(crate) const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A broker begins a command.
    pub(crate) fn begins(&self, party: usize, command: &Command, entropy: Entropy) {
        self.inner().doing.insert(party, (command.clone(), entropy));
    }

    /// What a broker's last commit decided.
    pub(crate) fn decided(&self, party: usize) -> Option<(Reply, Vec<Action>)> {
        self.inner().decided.get(&party).cloned()
    }

    pub(crate) fn take_commits(&self) -> Vec<Committed> {
        std::mem::take(&mut self.inner().commits)
    }

    pub(crate) fn take_notes(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.inner().notes)
    }

    /// A commit arrives that nobody waits for.
    pub(crate) fn late_commit(&self) {
        let Some(late) = self.inner().late.take() else { return };
        let Late { party, steps, now, doing } = late;
        let before = self.memory.look(State::clone);
        let mut committing = pin!(self.memory.commit(steps.clone(), now, None));
        let waker = std::task::Waker::noop();
        let made = committing.as_mut().poll(&mut std::task::Context::from_waker(waker));
        let mut inner = self.inner();
        match made {
            Poll::Ready(Ok(())) => {
                inner.notes.push("late commit made");
                drop(inner);
                self.made(party, &before, &steps, now, doing);
            }
            _ => inner.notes.push("late commit in vain"),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: &'static str) {
        self.inner().notes.push(what);
    }

    fn happens_once_in(&self, times: u64) -> bool {
        self.inner().dice.one_in(times)
    }

    /// Others have their turns.
    async fn take_turns(&self) {
        let mut turns = self.inner().dice.below(3);
        std::future::poll_fn(|_| {
            if turns == 0 {
                return Poll::Ready(());
            }
            turns -= 1;
            Poll::Pending
        })
        .await;
    }

    /// A commit was made on this state.
    fn made(
        &self,
        party: usize,
        before: &State,
        steps: &[Step],
        now: Now,
        (command, entropy): (Command, Entropy),
    ) {
        // What is due is decided among what was found, everything else on what there is.
        let named: BTreeSet<Key> = steps.iter().map(|step| step.key.clone()).collect();
        let among = matches!(command, Command::Tick { .. }).then_some(named);
        let mut known = before.clone();
        for key in before.keys_from(&Key::Counters) {
            let found = matches!(
                key,
                Key::Producer(_)
                    | Key::Scheduled(_)
                    | Key::Sequences(..)
                    | Key::Position(..)
                    | Key::Replayed(..)
            );
            if found && among.as_ref().is_some_and(|among| !among.contains(&key)) {
                known.put(&key, None);
            }
        }
        let whole = Streams::decide(&known, &command, now, entropy);
        let mut seen: ByKey = BTreeMap::new();
        for step in steps.iter().filter(|step| !step.changes.is_empty()) {
            seen.insert(step.key.clone(), step.changes.clone());
        }
        let Decision { reply, changes, actions } = whole;
        let mut whole: ByKey = BTreeMap::new();
        for change in changes {
            whole.entry(change.key()).or_default().push(change);
        }
        let state = self.memory.look(State::clone);
        let mut inner = self.inner();
        let committed =
            Committed { party, now, command, state, among, seen, whole, reply, actions };
        inner.commits.push(committed);
    }
}

fn failed(outcome: Outcome) -> Failed {
    Failed { outcome, why: "the store did not answer".to_owned() }
}

impl<D: Meddle> Store for Shared<D> {
    type Guard = Locks;

    async fn load(&self, keys: &[Key], hold: Hold) -> Result<(Vec<Loaded>, Option<Locks>), Failed> {
        self.take_turns().await;
        if self.happens_once_in(60) {
            self.note("could not load");
            return Err(failed(Outcome::NotApplied));
        }
        let (loaded, guard) = self.memory.load(keys, hold).await?;
        self.note(match hold {
            Hold::Free => "loaded",
            Hold::Locked => "loaded and locked",
        });
        self.take_turns().await;
        Ok((D::load(loaded), guard))
    }

    async fn find(&self, range: RangeInclusive<Key>, limit: usize) -> Result<Vec<Key>, Failed> {
        self.take_turns().await;
        let found = self.memory.find(range, limit).await;
        self.take_turns().await;
        found
    }

    async fn commit(
        &self,
        steps: Vec<Step>,
        now: Now,
        guard: Option<Locks>,
    ) -> Result<(), CommitError> {
        self.take_turns().await;
        let steps = D::commit(steps, &self.memory);
        let doing = self.inner().doing.get(&self.party).cloned();
        let Some(doing) = doing else { return Err(failed(Outcome::NotApplied).into()) };
        if self.happens_once_in(40) {
            self.note("commit failed");
            return Err(failed(Outcome::NotApplied).into());
        }
        if self.happens_once_in(40) {
            self.note("commit delayed");
            self.inner().late = Some(Late { party: self.party, steps, now, doing });
            return Err(failed(Outcome::Unknown).into());
        }
        // With a lock nobody else can have changed anything.
        if guard.is_none() && self.happens_once_in(8) {
            self.note("conflict for no reason");
            let all = steps.into_iter().map(|step| step.key).collect();
            return Err(CommitError::Conflict(all));
        }
        let mut committing = pin!(self.memory.commit(steps.clone(), now, guard));
        let mut waits = false;
        let committed = std::future::poll_fn(|context| {
            let before = self.memory.look(State::clone);
            match committing.as_mut().poll(context) {
                Poll::Pending => {
                    waits = true;
                    Poll::Pending
                }
                Poll::Ready(Ok(())) => {
                    self.made(self.party, &before, &steps, now, doing.clone());
                    self.inner().answers();
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            }
        })
        .await;
        if waits {
            self.note("waited for a lock");
        }
        match committed {
            Ok(()) if self.happens_once_in(25) => {
                self.note("answer lost");
                Err(failed(Outcome::Unknown).into())
            }
            Ok(()) => {
                self.note("committed");
                self.take_turns().await;
                Ok(())
            }
            Err(error) => {
                self.note("met a conflict");
                self.take_turns().await;
                Err(error)
            }
        }
    }

    async fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Batches, Failed> {
        self.memory.read(partition, offset, max_bytes).await
    }

    async fn watch(&self, keys: &[(Key, Version)]) {
        self.memory.watch(keys).await;
    }

    fn now(&self) -> Now {
        self.memory.now()
    }
}

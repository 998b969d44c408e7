//! Lines to clients that are connected: what each is told, in order, up to a number of bytes.
//!
//! A client is rung when it is told something that somebody waits for: a call, its end, a pong. What only
//! confirms what the client said goes with the next of those, or by itself after [`QUIET_MAX`]: a message
//! of its own would cost both sides more than all that is in it.
//!
//! A client has one line. Whoever does not take what it is told loses its connection and hears it
//! again when it comes back.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_calls::{CallId, ClientId, Notice, Offer, Outcome};
use tokio::sync::Notify;

use crate::rooms::RoomError;

/// How long something that nobody waits for may wait for company.
pub(super) const QUIET_MAX: Duration = Duration::from_millis(2);

/// What a frame takes besides its body, about.
const FRAME_BYTES: usize = 256;

/// Something on its way to a client.
#[derive(Debug)]
pub(crate) enum Told {
    /// What the room says.
    Notice(Notice),
    /// A call that was refused: nothing is registered.
    Refused {
        /// Which.
        call: CallId,
        /// Why.
        error: RoomError,
    },
}

/// Something for a client.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) to: ClientId,
    pub(super) told: Told,
    /// Somebody waits for it.
    pub(super) awaited: bool,
}

/// Why a line has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client did not take what it was told.
    Slow,
    /// The client has connected again.
    Replaced,
    /// The room does not know the client, or does not want it.
    Refused,
    /// The server stops.
    Stopped,
}

/// The line of one connection.
#[derive(Debug)]
pub(crate) struct Line {
    inner: Mutex<Inner>,
    bell: Notify,
    bytes_max: usize,
    /// Whose connection it is.
    owner: String,
}

#[derive(Debug, Default)]
struct Inner {
    told: VecDeque<Told>,
    bytes: usize,
    ended: Option<(Ended, String)>,
}

impl Line {
    pub(crate) fn new(bytes_max: usize, owner: &str) -> Self {
        let owner = owner.to_owned();
        Self { inner: Mutex::default(), bell: Notify::new(), bytes_max, owner }
    }

    /// Puts something behind all that is to be told.
    pub(crate) fn push(&self, told: Told) {
        self.put_all(std::iter::once(told));
        self.ring();
    }

    /// The same for several things; whoever is to hear of them is rung later.
    fn put_all(&self, told: impl Iterator<Item = Told>) {
        let mut inner = self.lock();
        for one in told {
            if inner.ended.is_some() {
                break;
            }
            let bytes = weight(&one);
            if inner.bytes.saturating_add(bytes) > self.bytes_max && !inner.told.is_empty() {
                let words = "the client does not read fast enough".to_owned();
                inner.told.clear();
                inner.ended = Some((Ended::Slow, words));
            } else {
                inner.bytes += bytes;
                inner.told.push_back(one);
            }
        }
    }

    /// Whoever takes what it is told is to look.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Ends it; what was told before is still taken.
    pub(super) fn end(&self, why: Ended, words: impl Into<String>) {
        let mut inner = self.lock();
        inner.ended.get_or_insert((why, words.into()));
        drop(inner);
        self.bell.notify_one();
    }

    /// All that is to be told now. Waits if there is nothing.
    ///
    /// # Errors
    /// Why it has ended, when all was taken.
    ///
    /// # Cancel safety
    /// Takes nothing unless it is done.
    pub(crate) async fn take(&self) -> Result<VecDeque<Told>, (Ended, String)> {
        loop {
            let rung = self.bell.notified();
            {
                let mut inner = self.lock();
                if !inner.told.is_empty() {
                    inner.bytes = 0;
                    return Ok(std::mem::take(&mut inner.told));
                }
                if let Some(ended) = &inner.ended {
                    return Err(ended.clone());
                }
            }
            rung.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a frame of it takes, about.
pub(crate) fn weight(told: &Told) -> usize {
    FRAME_BYTES
        + match told {
            Told::Notice(Notice::Offer(offer)) => {
                let Offer { params, .. } = &**offer;
                params.len()
            }
            Told::Notice(Notice::Ended { outcome: Outcome::Answer(body), .. }) => body.len(),
            Told::Notice(Notice::Ended { outcome, .. }) => outcome.bytes(),
            Told::Notice(_) | Told::Refused { .. } => 0,
        }
}

/// The lines of all clients that are connected.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<ClientId, Arc<Line>>>);

impl Lines {
    /// A client has connected. Its line before, if there is one, ends. False if that is somebody
    /// else's: whoever learns the id of a client does not become it.
    pub(super) fn put(&self, client: ClientId, line: &Arc<Line>) -> bool {
        let mut lines = self.lock();
        if lines.get(&client).is_some_and(|before| before.owner != line.owner) {
            return false;
        }
        let before = lines.insert(client, Arc::clone(line));
        drop(lines);
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, line)) {
            before.end(Ended::Replaced, "the client has connected again");
        }
        true
    }

    /// A connection is gone. False if the client has another by now.
    pub(super) fn remove(&self, client: ClientId, line: &Arc<Line>) -> bool {
        let mut lines = self.lock();
        let own = lines.get(&client).is_some_and(|found| Arc::ptr_eq(found, line));
        if own {
            lines.remove(&client);
        }
        own
    }

    /// Tells clients all of this, each in its order. Lines of those who are told nothing that somebody waits
    /// for are not rung, and given back.
    pub(super) fn tell_all(&self, post: &mut Vec<Letter>, quiet: &mut Vec<Arc<Line>>) {
        // The order of what one client is told stays.
        post.sort_by_key(|letter| letter.to);
        let mut left = post.drain(..).peekable();
        while let Some(first) = left.next() {
            let (client, mut awaited) = (first.to, first.awaited);
            let same = std::iter::from_fn(|| left.next_if(|letter| letter.to == client));
            let same = same.inspect(|letter| awaited |= letter.awaited);
            let all = std::iter::once(first).chain(same).map(|letter| letter.told);
            match self.lock().get(&client).cloned() {
                Some(line) => {
                    line.put_all(all);
                    if awaited { line.ring() } else { quiet.push(line) }
                }
                None => all.for_each(drop),
            }
        }
    }

    /// Ends a client's line.
    pub(super) fn end(&self, client: ClientId, why: Ended, words: &str) {
        let line = self.lock().remove(&client);
        if let Some(line) = line {
            line.end(why, words);
        }
    }

    /// Ends all of them.
    pub(super) fn end_all(&self) {
        let lines = std::mem::take(&mut *self.lock());
        lines.into_values().for_each(|line| line.end(Ended::Stopped, "the server is stopping"));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientId, Arc<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, Letter, Line, Lines, Told};
    use handoff_calls::{ClientId, Notice};
    use std::sync::Arc;

    const CLIENT: ClientId = ClientId::of_chance(1);

    fn tell(lines: &Lines, told: Told) {
        lines.tell_all(&mut vec![Letter { to: CLIENT, told, awaited: true }], &mut Vec::new());
    }

    fn pong() -> Told {
        Told::Notice(Notice::Pong { to: CLIENT })
    }

    #[tokio::test]
    async fn what_is_told_is_taken_in_order_and_then_the_end() {
        let (lines, line) = (Lines::default(), Arc::new(Line::new(1 << 20, "a")));
        assert!(lines.put(CLIENT, &line));
        tell(&lines, pong());
        tell(&lines, Told::Notice(Notice::Stopped { to: CLIENT }));
        lines.end_all();
        let told = line.take().await.unwrap();
        assert!(matches!(told.back(), Some(Told::Notice(Notice::Stopped { .. }))));
        assert_eq!((told.len(), line.take().await.unwrap_err().0), (2, Ended::Stopped));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_goes_with_what_somebody_does_and_before_it() {
        let (lines, line) = (Lines::default(), Arc::new(Line::new(1 << 20, "a")));
        assert!(lines.put(CLIENT, &line));
        let call = handoff_calls::CallId::of_chance(2);
        let told = Told::Notice(Notice::Acknowledged { to: CLIENT, call });
        let mut quiet = Vec::new();
        lines.tell_all(&mut vec![Letter { to: CLIENT, told, awaited: false }], &mut quiet);
        let mut taking = Box::pin(line.take());
        let rung = futures_util::poll!(&mut taking);
        assert!(rung.is_ready(), "whoever looks by itself finds it");
        drop(taking);
        let told = Told::Notice(Notice::Acknowledged { to: CLIENT, call });
        let mut taking = Box::pin(line.take());
        assert!(futures_util::poll!(&mut taking).is_pending());
        lines.tell_all(&mut vec![Letter { to: CLIENT, told, awaited: false }], &mut quiet);
        assert_eq!(quiet.len(), 2);
        tell(&lines, pong());
        let told = taking.await.unwrap();
        assert_eq!(told.len(), 2);
        assert!(matches!(told.front(), Some(Told::Notice(Notice::Acknowledged { .. }))));
    }

    #[tokio::test]
    async fn whoever_does_not_take_what_it_is_told_is_ended() {
        let (lines, line) = (Lines::default(), Arc::new(Line::new(600, "a")));
        assert!(lines.put(CLIENT, &line));
        for _ in 0..3 {
            tell(&lines, pong());
        }
        assert_eq!(line.take().await.unwrap_err().0, Ended::Slow);
    }

    #[tokio::test]
    async fn a_client_that_connects_again_ends_its_line_before_and_only_that() {
        let (lines, first) = (Lines::default(), Arc::new(Line::new(600, "a")));
        assert!(lines.put(CLIENT, &first));
        let second = Arc::new(Line::new(600, "a"));
        assert!(lines.put(CLIENT, &second));
        assert_eq!(first.take().await.unwrap_err().0, Ended::Replaced);
        assert!(!lines.remove(CLIENT, &first), "the second is there");
        tell(&lines, pong());
        assert_eq!(second.take().await.unwrap().len(), 1);
        assert!(!lines.put(CLIENT, &Arc::new(Line::new(600, "b"))), "it is somebody else's");
        assert!(lines.remove(CLIENT, &second));
        assert!(lines.put(CLIENT, &Arc::new(Line::new(600, "b"))));
    }
}

//! A receiver on a real socket. Its sink is in this process and survives whatever is done to the
//! receiver: samples and mark are one step.

mod conversation;

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use handoff_relay::session::Reason;
use handoff_relay::{Origin, Receiver, ShardId};

use super::samples::Taken;
use crate::clock;
use crate::served::PATIENCE;

/// What it does to those who come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It takes and confirms.
    Takes,
    /// It takes and says nothing any more, once greeted.
    Mute,
    /// It takes nothing and says why.
    Refuses(Reason),
    /// It closes every connection.
    Gone,
    /// It accepts connections and neither reads nor writes.
    Silent,
    /// It closes each connection after so many bytes that came, or so many that went.
    Cuts(usize, usize),
}

/// What is known there.
struct State {
    manner: Manner,
    stopping: bool,
    taken: BTreeMap<Taken, u64>,
    marks: BTreeMap<(Origin, ShardId), u32>,
    receivers: BTreeMap<Origin, Receiver>,
    /// Whose connection speaks for a block.
    speaks: BTreeMap<Origin, u64>,
    connections: BTreeMap<u64, TcpStream>,
    greeted: u64,
    cut: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Default for State {
    fn default() -> Self {
        Self {
            manner: Manner::Takes,
            stopping: false,
            taken: BTreeMap::new(),
            marks: BTreeMap::new(),
            receivers: BTreeMap::new(),
            speaks: BTreeMap::new(),
            connections: BTreeMap::new(),
            greeted: 0,
            cut: 0,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A receiver. Dropped, it ends.
pub struct Centre {
    /// Where it listens, whatever is done to it.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    reception: Option<JoinHandle<()>>,
}

impl Centre {
    /// Listens on a free port.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn new() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let reception = thread::spawn(move || receive(&listener, &theirs));
        Ok(Self { address, shared, reception: Some(reception) })
    }

    /// Behaves like this from now on. Connections that are there end.
    pub fn behave(&self, manner: Manner) {
        let mut state = self.shared.state();
        state.manner = manner;
        end_all(&mut state);
    }

    /// Behaves like this from now on, to those who are there too.
    pub fn turn(&self, manner: Manner) {
        self.shared.state().manner = manner;
    }

    /// Loses everything but its sink: decoders, conversations.
    pub fn restart(&self) {
        let mut state = self.shared.state();
        state.receivers.clear();
        end_all(&mut state);
    }

    /// How often each sample was taken.
    #[must_use]
    pub fn taken(&self) -> BTreeMap<Taken, u64> {
        self.shared.state().taken.clone()
    }

    /// Conversations that began, and connections that it cut.
    #[must_use]
    pub fn met(&self) -> (u64, u64) {
        let state = self.shared.state();
        (state.greeted, state.cut)
    }

    /// Waits until it has as many samples.
    ///
    /// # Panics
    /// When they do not come.
    #[track_caller]
    pub fn wait_for(&self, samples: usize) {
        let over = clock() + PATIENCE;
        let mut state = self.shared.state();
        while state.taken.len() < samples {
            let left = over.saturating_duration_since(clock());
            assert!(!left.is_zero(), "{} of {samples} samples came", state.taken.len());
            let (next, _) = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
    }

    /// Waits until a conversation began after this many.
    ///
    /// # Panics
    /// When none does.
    #[track_caller]
    pub fn wait_for_greeting(&self, after: u64) {
        let over = clock() + PATIENCE;
        let mut state = self.shared.state();
        while state.greeted <= after {
            let left = over.saturating_duration_since(clock());
            assert!(!left.is_zero(), "nobody came");
            let (next, _) = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
    }

    /// Whether it has these samples, each once, and no others.
    ///
    /// # Panics
    /// When not.
    #[track_caller]
    pub fn assert_exactly(&self, samples: &[Taken]) {
        self.wait_for(samples.len());
        let taken = self.taken();
        for sample in samples {
            assert_eq!(taken.get(sample), Some(&1), "{sample:?}");
        }
        assert_eq!(taken.len(), samples.len(), "there are others");
    }
}

impl Drop for Centre {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopping = true;
        end_all(&mut state);
        drop(state);
        // Somebody must come, or it would wait for ever.
        drop(TcpStream::connect(self.address));
        if let Some(reception) = self.reception.take() {
            drop(reception.join());
        }
    }
}

fn end_all(state: &mut State) {
    for stream in std::mem::take(&mut state.connections).into_values() {
        // It may have ended by itself.
        drop(stream.shutdown(Shutdown::Both));
    }
    state.speaks.clear();
}

fn receive(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut conversations = Vec::new();
    for (id, stream) in (0..).zip(listener.incoming()) {
        let Ok(stream) = stream else { continue };
        let mut state = shared.state();
        if state.stopping {
            break;
        }
        if state.manner == Manner::Gone {
            continue;
        }
        let Ok(own) = stream.try_clone() else { continue };
        state.connections.insert(id, own);
        drop(state);
        let theirs = Arc::clone(shared);
        conversations.push(thread::spawn(move || conversation::hold(id, stream, &theirs)));
    }
    for one in conversations {
        drop(one.join());
    }
}

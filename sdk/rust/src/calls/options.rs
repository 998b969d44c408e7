//! How callers and workers behave.

use std::time::Duration;

use super::session::Pace;
use crate::Backoff;

/// How a session behaves, whoever has it.
#[derive(Clone, Debug)]
pub(super) struct SessionOptions {
    pub(super) name: String,
    pub(super) pace: Pace,
    pub(super) backoff: Backoff,
    pub(super) frame_bytes_max: usize,
}

impl SessionOptions {
    fn new() -> Self {
        let pace = Pace {
            ping_interval: Duration::from_secs(1),
            ping_timeout: Duration::from_secs(1),
            repeat: Duration::from_secs(5),
        };
        let backoff =
            Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };
        Self { name: String::new(), pace, backoff, frame_bytes_max: 16 << 20 }
    }
}

macro_rules! session_options {
    () => {
        /// A name, for people who look at the server.
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.session.name = name.into();
            self
        }

        /// How often the way to the server and back is tried, and for how long an answer is waited:
        /// once that time is over the connection is suspect, after as long again it is given up and
        /// made anew. 1 s and 1 s unless said otherwise; what the server says counts more.
        pub fn ping(mut self, interval: Duration, timeout: Duration) -> Self {
            self.session.pace.ping_interval = interval;
            self.session.pace.ping_timeout = timeout;
            self
        }

        /// After how long something is said again that the server does not confirm, while it
        /// answers otherwise. 5 s unless said otherwise.
        pub fn repeat_after(mut self, time: Duration) -> Self {
            self.session.pace.repeat = time;
            self
        }

        /// How long to wait before a connection is made again. From 100 ms to 5 s unless said
        /// otherwise.
        pub fn backoff(mut self, backoff: Backoff) -> Self {
            self.session.backoff = backoff;
            self
        }

        /// The longest frame that is taken from the server. 16 MiB unless said otherwise.
        pub fn frame_bytes_max(mut self, bytes: usize) -> Self {
            self.session.frame_bytes_max = bytes;
            self
        }
    };
}

/// How a caller behaves.
#[derive(Clone, Debug)]
#[must_use]
pub struct CallerOptions {
    pub(super) session: SessionOptions,
    pub(super) timeout: Option<Duration>,
    pub(super) calls_max: usize,
    pub(super) buffer_bytes_max: usize,
}

impl CallerOptions {
    /// A caller as most are.
    pub fn new() -> Self {
        Self {
            session: SessionOptions::new(),
            timeout: Some(Duration::from_secs(60)),
            calls_max: 1024,
            buffer_bytes_max: 32 << 20,
        }
    }

    session_options!();

    /// The time of a call that names none. 60 s unless said otherwise; none: as long as the server
    /// allows.
    pub fn timeout(mut self, time: Option<Duration>) -> Self {
        self.timeout = time;
        self
    }

    /// How many calls may be under way: the next waits for one to end. 1024 unless said otherwise.
    pub fn calls_max(mut self, calls: usize) -> Self {
        self.calls_max = calls.max(1);
        self
    }

    /// How many bytes of calls may be under way. 32 MiB unless said otherwise, 4 GiB at most.
    pub fn buffer_bytes_max(mut self, bytes: usize) -> Self {
        self.buffer_bytes_max = bytes.min(u32::MAX as usize);
        self
    }
}

impl Default for CallerOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How a worker behaves.
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkerOptions {
    pub(super) session: SessionOptions,
    pub(super) cancel_grace: Duration,
}

impl WorkerOptions {
    /// A worker as most are.
    pub fn new() -> Self {
        Self { session: SessionOptions::new(), cancel_grace: Duration::from_secs(5) }
    }

    session_options!();

    /// How long a handler may go on after it was told to end; then it is dropped where it waits.
    /// 5 s unless said otherwise.
    pub fn cancel_grace(mut self, time: Duration) -> Self {
        self.cancel_grace = time;
        self
    }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self::new()
    }
}

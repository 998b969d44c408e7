//! A session of the sevent protocol over TCP, or TLS over it.
//!
//! # Constraints
//! * One task owns the connection. Requests go to it through a bounded queue and are written in
//!   the order of that queue, which is the order of the answers. So `&self` methods may be used by
//!   any number of tasks at once, and each gets its own answer.
//! * A request that was given up (its future dropped, or its time over) keeps its place: its
//!   answer is read and thrown away, and no other answer moves.
//! * Every request has one of three outcomes: answered; refused ([`Error::Refused`]); unknown
//!   ([`Error::Unknown`]). If it surely did not reach the server it is [`Error::NotSent`].
//! * Notifications wait in a bounded queue. When it is full, nothing more is read from the
//!   connection, **answers included**, until somebody takes one or [`Notifications`] is dropped.
//!   So whoever takes notifications must not wait for a request in the same breath; and a server
//!   closes a session that does not read for long.
//!
//! ```text
//!  register() ─┐  queue   ┌──────────┐ octets ┌────────┐
//!  list()     ─┼─────────▶│          ├───────▶│        │
//!  …          ─┘          │  driver  │        │ server │
//!  answers    ◀───────────┤          │◀───────┤        │
//!  next()     ◀───────────┴──────────┘        └────────┘
//!               queue
//! ```
//!
//! ```no_run
//! use handoff_sdk::sevent::{Event, Options, Selection, Session};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let (session, mut notifications) = Session::connect("127.0.0.1:5987", Options::new()).await?;
//! let tea = Event { description: "tea".to_owned(), period: 240.0, repeat: 1 };
//! let registered = session.register(tea, &["kitchen"]).await?;
//! session.subscribe(Selection { ids: vec![registered.id], types: Vec::new() }).await?;
//! if let Some(notification) = notifications.next().await {
//!     println!("{}", notification.event.description);
//! }
//! # Ok(())
//! # }
//! ```

mod driver;
mod error;
mod options;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use handoff_sevent::{Answer, MessageCode, Request};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::connect::connect;
use driver::{Command, Driver};

pub use error::{Ended, Error, Trouble};
pub use handoff_sevent::{ErrorCode, Event, Selection};
pub use options::Options;

/// A session. Cheap to clone; clones share the connection, which ends when the last of them and
/// the [`Notifications`] are gone.
#[derive(Clone)]
pub struct Session {
    commands: mpsc::Sender<Command>,
    ended: Arc<OnceLock<Ended>>,
    request_timeout: Duration,
}

/// Notifications of a session, in the order the server sent them.
pub struct Notifications {
    queue: mpsc::Receiver<Notification>,
    ended: Arc<OnceLock<Ended>>,
}

/// An event was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// Its id.
    pub id: i32,
    /// When, in Unix seconds.
    pub timestamp: i64,
}

/// What is known of an event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventInfo {
    /// Its id.
    pub id: i32,
    /// Its types.
    pub types: Vec<String>,
    /// What it is.
    pub event: Event,
    /// Its last update, in Unix seconds.
    pub timestamp: i64,
}

/// An event has occurred.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notification {
    /// Its id.
    pub id: i32,
    /// Its types.
    pub types: Vec<String>,
    /// What it was before this occurrence: `repeat` counts it too.
    pub event: Event,
    /// Its last update before this one, in Unix seconds.
    pub timestamp: i64,
}

/// The moment of a timestamp. None if it is beyond what the system can tell.
///
/// ```
/// use std::time::UNIX_EPOCH;
/// assert_eq!(handoff_sdk::sevent::system_time(0), Some(UNIX_EPOCH));
/// ```
#[must_use]
pub fn system_time(timestamp: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(timestamp.unsigned_abs());
    if timestamp < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    }
}

impl Session {
    /// Connects to a server by host and port; the port is 5987 if none is given. A token is shown
    /// with the first request: a wrong one is refused there, not here, and a server that asks for
    /// one closes a session that asks nothing for some seconds.
    ///
    /// # Errors
    /// [`crate::Error::Unreachable`], [`crate::Error::Timeout`]; [`crate::Error::Invalid`] when
    /// address or options cannot be used.
    ///
    /// # Cancel safety
    /// Dropped, the connection is closed.
    pub async fn connect(
        address: &str,
        options: Options,
    ) -> Result<(Self, Notifications), crate::Error> {
        let (host, port) = options::parse(address)?;
        let tls = match &options.tls {
            Some(tls) => Some(tls.config().map_err(crate::Error::Invalid)?),
            None => None,
        };
        let stream = Box::pin(connect(host, port, tls.as_ref(), options.connect_timeout))
            .await
            .map_err(|error| options.unreachable(address, error))?;
        let (commands, queued) = mpsc::channel(options.requests_max);
        let (notify, queue) = mpsc::channel(options.notifications_max);
        let ended = Arc::new(OnceLock::new());
        let driver = Driver::new(stream, &options, queued, notify, Arc::clone(&ended));
        tokio::spawn(driver.run());
        let request_timeout = options.request_timeout;
        let session = Self { commands, ended: Arc::clone(&ended), request_timeout };
        Ok((session, Notifications { queue, ended }))
    }

    /// Registers an event. On disk when it answers.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn register(&self, event: Event, types: &[&str]) -> Result<Registered, Error> {
        let types = types.iter().map(|name| (*name).to_owned()).collect();
        match self.request(Request::RegisterEvent { event, types }).await? {
            Answer::EventRegistration { id, timestamp } => Ok(Registered { id, timestamp }),
            other => Err(self.misfit(&other)),
        }
    }

    /// The ids of events, ascending: of those that have one of the types, or of all if none are
    /// given. An empty list of types selects nothing.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn list(&self, types: Option<&[&str]>) -> Result<Vec<i32>, Error> {
        let types = types.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        match self.request(Request::ListEvents { types }).await? {
            Answer::ListedEvents { ids } => Ok(ids),
            other => Err(self.misfit(&other)),
        }
    }

    /// Deletes events, and gives the ids of those that were there, ascending.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn delete(&self, selection: Selection) -> Result<Vec<i32>, Error> {
        match self.request(Request::DeleteEvent(selection)).await? {
            Answer::DeletedEvents { ids } => Ok(ids),
            other => Err(self.misfit(&other)),
        }
    }

    /// Adds to the filter: events and types to be told of. As a whole or not at all.
    ///
    /// # Errors
    /// [`Error`]; [`ErrorCode::EventNotExists`] if one of the events is not there.
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn subscribe(&self, selection: Selection) -> Result<(), Error> {
        self.change_filter(Request::Subscribe(selection)).await
    }

    /// Takes from the filter. As a whole or not at all.
    ///
    /// # Errors
    /// As [`Session::subscribe`].
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn unsubscribe(&self, selection: Selection) -> Result<(), Error> {
        self.change_filter(Request::Unsubscribe(selection)).await
    }

    /// Replaces the filter. As a whole or not at all.
    ///
    /// # Errors
    /// As [`Session::subscribe`].
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn replace_filter(&self, selection: Selection) -> Result<(), Error> {
        self.change_filter(Request::Filter(selection)).await
    }

    /// The filter.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn filter(&self) -> Result<Selection, Error> {
        match self.request(Request::GetFilter).await? {
            Answer::Filter(selection) => Ok(selection),
            other => Err(self.misfit(&other)),
        }
    }

    /// What is known of an event.
    ///
    /// # Errors
    /// [`Error`]; [`ErrorCode::EventNotExists`] if it is not there.
    ///
    /// # Cancel safety
    /// As [`Session::request`].
    pub async fn get(&self, id: i32) -> Result<EventInfo, Error> {
        match self.request(Request::GetEvent { id }).await? {
            Answer::EventInfo { id, types, event, timestamp } => {
                Ok(EventInfo { id, types, event, timestamp })
            }
            other => Err(self.misfit(&other)),
        }
    }

    /// Sends a request and gives its answer, of the kind that belongs to the request.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// Dropped, the request may have been carried out or not; other requests are not touched.
    pub async fn request(&self, request: Request) -> Result<Answer, Error> {
        let waited = self.request_timeout;
        let place = match timeout(waited, self.commands.reserve()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(Error::NotSent(self.trouble())),
            Err(_) => return Err(Error::NotSent(Trouble::Timeout(waited))),
        };
        let (reply, answer) = oneshot::channel();
        place.send(Command { request, reply });
        match timeout(waited, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Unknown(self.trouble())),
            Err(_) => Err(Error::Unknown(Trouble::Timeout(waited))),
        }
    }

    /// Why the session is over, if it is.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended.get().cloned()
    }

    async fn change_filter(&self, request: Request) -> Result<(), Error> {
        match self.request(request).await? {
            Answer::FilterUpdated => Ok(()),
            other => Err(self.misfit(&other)),
        }
    }

    fn trouble(&self) -> Trouble {
        // Without a reason the driver itself is gone: its runtime has stopped.
        Trouble::Ended(self.ended().unwrap_or(Ended::Stopped))
    }

    /// Cannot happen: the driver lets only the answer through that belongs to the request.
    fn misfit(&self, answer: &Answer) -> Error {
        Error::Unknown(Trouble::Ended(Ended::protocol(format!("unexpected {:?}", answer.code()))))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("ended", &self.ended.get()).finish_non_exhaustive()
    }
}

impl Notifications {
    /// The next notification. None once the session is over and all were taken; [`Self::ended`]
    /// then says why.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Notification> {
        self.queue.recv().await
    }

    /// Why the session is over, if it is.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended.get().cloned()
    }
}

impl fmt::Debug for Notifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifications").field("ended", &self.ended.get()).finish_non_exhaustive()
    }
}

/// The kind of answer that belongs to a request.
fn expected(request: &Request) -> MessageCode {
    match request {
        Request::RegisterEvent { .. } => MessageCode::EventRegistration,
        Request::ListEvents { .. } => MessageCode::ListedEvents,
        Request::DeleteEvent(_) => MessageCode::DeletedEvents,
        Request::Subscribe(_) | Request::Unsubscribe(_) | Request::Filter(_) => {
            MessageCode::FilterUpdated
        }
        Request::GetFilter => MessageCode::Filter,
        Request::GetEvent { .. } => MessageCode::EventInfo,
    }
}

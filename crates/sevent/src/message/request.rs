//! What a client sends.

use bytes::BytesMut;

use super::options::{Options, end, read_event};
use super::outline::{Body, Outline};
use super::{ErrorCode, Malformed, MessageCode, Received, Request, Selection};
use crate::primitive::Reader;

impl Request {
    /// Reads a message from its id on, as [`crate::Frames::next`] gives it.
    ///
    /// # Errors
    /// A message that no client sends, or one that is broken. The session goes on.
    pub fn decode(frame: &[u8]) -> Result<Received, Malformed> {
        let Some((&octet, rest)) = frame.split_first() else {
            return Err(Malformed::format(0, "a message without an id".to_owned()));
        };
        let code = MessageCode::from_octet(octet)
            .filter(|code| is_request(*code))
            .ok_or_else(|| Malformed::wrong(octet, "server"))?;
        read(code, rest).map_err(|why| Malformed::format(octet, why))
    }

    /// Appends the message, its size first.
    ///
    /// # Panics
    /// If it is 4 GiB or more.
    pub fn encode(&self, token: Option<&[u8]>, out: &mut BytesMut) {
        Outline { token, ..self.outline() }.put(out);
    }

    fn outline(&self) -> Outline<'_> {
        let outline = Outline::new(self.code());
        match self {
            Self::RegisterEvent { event, types } => {
                Outline { types: non_empty(types), body: Body::Event(event), ..outline }
            }
            Self::ListEvents { types } => Outline { types: types.as_deref(), ..outline },
            Self::DeleteEvent(selection)
            | Self::Subscribe(selection)
            | Self::Unsubscribe(selection)
            | Self::Filter(selection) => Outline {
                ids: non_empty(&selection.ids),
                types: non_empty(&selection.types),
                ..outline
            },
            Self::GetFilter => outline,
            Self::GetEvent { id } => Outline { id: Some(*id), ..outline },
        }
    }
}

fn is_request(code: MessageCode) -> bool {
    match code {
        MessageCode::RegisterEvent
        | MessageCode::ListEvents
        | MessageCode::DeleteEvent
        | MessageCode::Subscribe
        | MessageCode::Unsubscribe
        | MessageCode::GetFilter
        | MessageCode::Filter
        | MessageCode::GetEvent => true,
        MessageCode::Error
        | MessageCode::EventRegistration
        | MessageCode::ListedEvents
        | MessageCode::DeletedEvents
        | MessageCode::FilterUpdated
        | MessageCode::EventInfo
        | MessageCode::Notify => false,
    }
}

fn read(code: MessageCode, rest: &[u8]) -> Result<Received, String> {
    let mut reader = Reader::new(rest);
    let mut options = Options::read(&mut reader)?;
    let token = options.token.take();
    let has_types = options.event_type + options.event_types > 0;
    let request = match code {
        MessageCode::RegisterEvent => {
            Request::RegisterEvent { event: read_event(&mut reader)?, types: options.types }
        }
        MessageCode::ListEvents => {
            Request::ListEvents { types: has_types.then_some(options.types) }
        }
        MessageCode::DeleteEvent => Request::DeleteEvent(options.into()),
        MessageCode::Subscribe => Request::Subscribe(options.into()),
        MessageCode::Unsubscribe => Request::Unsubscribe(options.into()),
        MessageCode::Filter => Request::Filter(options.into()),
        MessageCode::GetEvent => Request::GetEvent { id: options.only_id()? },
        MessageCode::GetFilter => Request::GetFilter,
        _ => return Err("not a request".to_owned()),
    };
    end(&reader)?;
    Ok(Received { request, token })
}

fn non_empty<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

impl From<Options> for Selection {
    fn from(options: Options) -> Self {
        Self { ids: options.ids, types: options.types }
    }
}

impl Malformed {
    pub(super) const fn format(code: u8, why: String) -> Self {
        Self { code, error: ErrorCode::FormatError, why }
    }

    /// A code that `receiver` does not take.
    pub(super) fn wrong(code: u8, receiver: &str) -> Self {
        let why = match MessageCode::from_octet(code) {
            Some(known) => format!("a {receiver} does not take {known} messages"),
            None => format!("there is no message {code}"),
        };
        Self { code, error: ErrorCode::WrongMessage, why }
    }
}

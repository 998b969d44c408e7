//! What a server sends.

use bytes::{Bytes, BytesMut};

use super::options::{Options, end, read_event};
use super::outline::{Body, Outline};
use super::{Answer, ErrorCode, Malformed, MessageCode};
use crate::primitive::{Reader, Unreadable};

impl Answer {
    /// Reads a message from its id on, as [`crate::Frames::next`] gives it.
    ///
    /// # Errors
    /// A message that no server sends, or one that is broken.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let Some((&octet, rest)) = frame.split_first() else {
            return Err(Malformed::format(0, "a message without an id".to_owned()));
        };
        let code = MessageCode::from_octet(octet)
            .filter(|code| is_answer(*code))
            .ok_or_else(|| Malformed::wrong(octet, "client"))?;
        read(code, rest).map_err(|why| Malformed::format(octet, why))
    }

    /// Octets of the message, its size included.
    ///
    /// # Panics
    /// If it is 4 GiB or more.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.outline().measure().whole
    }

    /// Appends the message, its size first. Grows `out` once.
    ///
    /// # Panics
    /// If it is 4 GiB or more.
    pub fn encode(&self, out: &mut BytesMut) {
        self.outline().put(out);
    }

    /// The message in a buffer of its own, to be shared by many sessions.
    ///
    /// # Panics
    /// If it is 4 GiB or more.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.encode(&mut out);
        out.freeze()
    }

    pub(super) fn outline(&self) -> Outline<'_> {
        let outline = Outline::new(self.code());
        match self {
            Self::Error { last_id, code, message } => {
                Outline { body: Body::Error { last_id: *last_id, code: *code, message }, ..outline }
            }
            Self::EventRegistration { id, timestamp } => {
                Outline { id: Some(*id), body: Body::Time(*timestamp), ..outline }
            }
            Self::ListedEvents { ids } | Self::DeletedEvents { ids } => {
                Outline { ids: Some(ids), ..outline }
            }
            Self::FilterUpdated => outline,
            Self::Filter(filter) => {
                Outline { ids: Some(&filter.ids), types: Some(&filter.types), ..outline }
            }
            Self::EventInfo { id, types, event, timestamp }
            | Self::Notify { id, types, event, timestamp } => Outline {
                id: Some(*id),
                types: Some(types),
                body: Body::EventAt(event, *timestamp),
                ..outline
            },
        }
    }
}

fn is_answer(code: MessageCode) -> bool {
    match code {
        MessageCode::Error
        | MessageCode::EventRegistration
        | MessageCode::ListedEvents
        | MessageCode::DeletedEvents
        | MessageCode::FilterUpdated
        | MessageCode::Filter
        | MessageCode::EventInfo
        | MessageCode::Notify => true,
        MessageCode::RegisterEvent
        | MessageCode::ListEvents
        | MessageCode::DeleteEvent
        | MessageCode::Subscribe
        | MessageCode::Unsubscribe
        | MessageCode::GetFilter
        | MessageCode::GetEvent => false,
    }
}

fn read(code: MessageCode, rest: &[u8]) -> Result<Answer, String> {
    let mut reader = Reader::new(rest);
    let options = Options::read(&mut reader)?;
    let has_ids = || match options.event_ids {
        0 => Err("no EventIDs option".to_owned()),
        _ => Ok(()),
    };
    let has_types = || match options.event_types {
        0 => Err("no EventTypes option".to_owned()),
        _ => Ok(()),
    };
    let answer = match code {
        MessageCode::Error => read_error(&mut reader)?,
        MessageCode::EventRegistration => {
            Answer::EventRegistration { id: options.only_id()?, timestamp: read_time(&mut reader)? }
        }
        MessageCode::ListedEvents => {
            has_ids()?;
            Answer::ListedEvents { ids: options.ids }
        }
        MessageCode::DeletedEvents => {
            has_ids()?;
            Answer::DeletedEvents { ids: options.ids }
        }
        MessageCode::FilterUpdated => Answer::FilterUpdated,
        MessageCode::Filter => {
            has_ids()?;
            has_types()?;
            Answer::Filter(options.into())
        }
        MessageCode::EventInfo => {
            has_types()?;
            Answer::EventInfo {
                id: options.only_id()?,
                types: options.types,
                event: read_event(&mut reader)?,
                timestamp: read_time(&mut reader)?,
            }
        }
        MessageCode::Notify => {
            has_types()?;
            Answer::Notify {
                id: options.only_id()?,
                types: options.types,
                event: read_event(&mut reader)?,
                timestamp: read_time(&mut reader)?,
            }
        }
        _ => return Err("not an answer".to_owned()),
    };
    end(&reader)?;
    Ok(answer)
}

fn read_error(reader: &mut Reader<'_>) -> Result<Answer, String> {
    let within = |error: Unreadable| format!("body: {error}");
    let last_id = reader.byte().map_err(within)?;
    let octet = reader.byte().map_err(within)?;
    let code = ErrorCode::from_octet(octet).ok_or_else(|| format!("there is no error {octet}"))?;
    let message = reader.string().map_err(|error| format!("message: {error}"))?.to_owned();
    Ok(Answer::Error { last_id, code, message })
}

fn read_time(reader: &mut Reader<'_>) -> Result<i64, String> {
    reader.time().map_err(|error| format!("timestamp: {error}"))
}

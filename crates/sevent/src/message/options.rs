//! What may stand between a message's id and its body.

use bytes::Bytes;

use super::Event;
use crate::primitive::{Reader, Unreadable};

/// Ends the list.
pub(super) const END: u8 = 0;
pub(super) const EVENT_ID: u8 = 1;
pub(super) const EVENT_TYPE: u8 = 2;
pub(super) const EVENT_IDS: u8 = 3;
pub(super) const EVENT_TYPES: u8 = 4;
pub(super) const TOKEN: u8 = 100;
const LAST: u8 = 127;

/// What all options of a message say together.
#[derive(Default)]
pub(super) struct Options {
    /// Of EventID and EventIDs.
    pub(super) ids: Vec<i32>,
    /// Of EventType and EventTypes.
    pub(super) types: Vec<String>,
    /// The last EventID.
    pub(super) single: Option<i32>,
    /// How many of each were there.
    pub(super) event_id: usize,
    pub(super) event_ids: usize,
    pub(super) event_type: usize,
    pub(super) event_types: usize,
    pub(super) token: Option<Bytes>,
}

impl Options {
    /// Reads the options and the octet that ends them.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, String> {
        let mut options = Self::default();
        loop {
            let id = reader.byte().map_err(|_| "the options do not end".to_owned())?;
            if id == END {
                return Ok(options);
            }
            let within = |error: Unreadable| format!("option {id}: {error}");
            if id > LAST {
                return Err(format!("option {id}: ids end at {LAST}"));
            }
            let size = reader.varint_unsigned().map_err(within)?;
            let body = reader.take(usize::try_from(size).unwrap_or(usize::MAX)).map_err(within)?;
            options.add(id, body)?;
        }
    }

    fn add(&mut self, id: u8, body: &[u8]) -> Result<(), String> {
        if id == TOKEN {
            return match self.token.replace(Bytes::copy_from_slice(body)) {
                None => Ok(()),
                Some(_) => Err(format!("option {id}: more than one token")),
            };
        }
        self.add_events(id, body).map_err(|error| format!("option {id}: {error}"))
    }

    fn add_events(&mut self, id: u8, body: &[u8]) -> Result<(), Unreadable> {
        let mut reader = Reader::new(body);
        match id {
            EVENT_ID => {
                let id = reader.varint()?;
                self.ids.push(id);
                self.single = Some(id);
                self.event_id += 1;
            }
            EVENT_TYPE => {
                self.types.push(reader.string()?.to_owned());
                self.event_type += 1;
            }
            EVENT_IDS => {
                reader.varints(&mut self.ids)?;
                self.event_ids += 1;
            }
            EVENT_TYPES => {
                reader.var_strings(&mut self.types)?;
                self.event_types += 1;
            }
            _ => return Ok(()),
        }
        reader.end()
    }

    /// The id of a message that has exactly one EventID.
    pub(super) fn only_id(&self) -> Result<i32, String> {
        match (self.single, self.event_id) {
            (Some(id), 1) => Ok(id),
            (_, count) => Err(format!("{count} EventID options where there must be one")),
        }
    }
}

/// Reads an Event off a body.
pub(super) fn read_event(reader: &mut Reader<'_>) -> Result<Event, String> {
    let description = reader.var_string().map_err(|error| format!("description: {error}"))?;
    let period = reader.double().map_err(|error| format!("period: {error}"))?;
    let repeat = reader.varint().map_err(|error| format!("repeat: {error}"))?;
    Ok(Event { description: description.to_owned(), period, repeat })
}

/// Nothing may come after a body.
pub(super) fn end(reader: &Reader<'_>) -> Result<(), String> {
    reader.end().map_err(|error| format!("body: {error}"))
}

//! What the folders ask of the room.

use handoff_exchange::{EntityId, Message, Seq, Spot, State, Way};

use super::FileName;

/// Where the file of a message belongs, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filed {
    /// The database in whose folder it lies.
    pub database: EntityId,
    /// Its name.
    pub name: FileName,
    /// Where.
    pub spot: Spot,
    /// The length of the body.
    pub bytes: u32,
    /// CRC-32C of the body.
    pub crc: u32,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Where do the files of these messages belong?
    Messages(Vec<Seq>),
    /// The same of so many messages from one on, in their order.
    From(Seq, usize),
    /// Which databases are there?
    Databases,
}

/// The answer to the question of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// In the order of the question; nothing for a message that is not known, or not any more.
    Messages(Vec<Option<Filed>>),
    /// Fewer than asked for at the end.
    From(Vec<Filed>),
    /// The databases.
    Databases {
        /// Their ids: the names of their folders.
        ids: Vec<EntityId>,
        /// The number of the next message: none from it on was ever given out.
        next: Seq,
    },
}

/// The room, as the folders see it from their thread.
pub trait Known {
    /// Has a question answered by [`answer`]. Nothing if the room is closed: the work is put off.
    ///
    /// The answer must rest on durable changes only, or a file could be removed whose message a
    /// crash brings back: whoever answers from the live state waits for the room's barrier before
    /// handing it over.
    fn ask(&mut self, question: &Question) -> Option<Answer>;
}

/// Answers a question.
#[must_use]
pub fn answer(state: &State, question: &Question) -> Answer {
    match question {
        Question::Messages(seqs) => Answer::Messages(
            seqs.iter().map(|seq| filed(state, *seq, state.message(*seq)?)).collect(),
        ),
        Question::From(seq, many) => Answer::From(
            state
                .messages_from(*seq)
                .take(*many)
                .filter_map(|(seq, message)| filed(state, seq, message))
                .collect(),
        ),
        Question::Databases => Answer::Databases {
            ids: state.databases().map(|database| database.id.clone()).collect(),
            next: Seq(state.counters().seq.saturating_add(1)),
        },
    }
}

/// Where the file of a message belongs. Entities outlive their messages: there is nothing only for a
/// message of a database that never was.
#[must_use]
pub fn filed(state: &State, seq: Seq, message: &Message) -> Option<Filed> {
    let database = state.database(message.database)?.id.clone();
    let device = state.device(message.device).map_or(&database, |device| &device.id).clone();
    let (from, to) = match message.way {
        Way::ToErp => (device, database.clone()),
        Way::ToDevice => (database.clone(), device),
    };
    let name = FileName { seq, id: message.id, from, to, kind: message.kind.clone() };
    let Message { bytes, crc, .. } = *message;
    Some(Filed { database, name, spot: message.spot(), bytes, crc })
}

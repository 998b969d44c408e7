//! Requests that have no answer yet, in the order they came.

use std::vec;

use handoff_events::{Id, Selection};
use handoff_sevent::Answer;
use handoff_types::Sight;

use super::translate::{self, unix_secs, wire_id};
use crate::rooms::RoomError;
use crate::rooms::events::{Listing, Question, Reply, pieces};

/// A request on its way.
#[derive(Debug)]
pub(super) struct Pending {
    /// Its code on the wire.
    pub(super) code: u8,
    /// What was reserved for it and its answer.
    pub(super) reserved: usize,
    pub(super) kind: Kind,
}

/// What kind of answer it waits for.
#[derive(Debug)]
pub(super) enum Kind {
    /// Nothing on the wire: the session is being begun.
    Opening,
    /// The answer is known already and keeps its place.
    Known(Box<Answer>),
    /// One reply of the room.
    Asked,
    /// As many as it takes to list.
    Listing(Box<Gathered>),
    /// As many as it takes to delete.
    Deleting(Box<Deleting>),
}

/// A list on its way.
#[derive(Debug)]
pub(super) struct Gathered {
    listing: Listing,
    ids: Vec<i32>,
    /// The first id that was not there when the list was begun.
    bound: Option<Option<Id>>,
}

/// A deletion on its way.
#[derive(Debug)]
pub(super) struct Deleting {
    sight: Sight,
    piece: Selection,
    rest: vec::IntoIter<Selection>,
    ids: Vec<i32>,
}

/// What comes of a reply.
#[derive(Debug)]
pub(super) enum Step {
    /// The session has begun.
    Begun,
    /// The session cannot begin.
    Refused(Answer),
    /// The request is answered.
    Answered(Answer),
    /// The room is asked again.
    Again(Question),
}

impl Kind {
    /// Begins a list.
    pub(super) fn listing(types: Option<Vec<String>>, sight: Sight) -> (Self, Question) {
        let types = types.map(Into::into);
        let listing = Listing { types, sight, from: Id::default(), limit: usize::MAX };
        let question = Question::List(listing.clone());
        (Self::Listing(Box::new(Gathered { listing, ids: Vec::new(), bound: None })), question)
    }

    /// Begins a deletion.
    pub(super) fn deleting(selection: Selection, sight: Sight) -> (Self, Question) {
        let mut rest = pieces(selection).into_iter();
        let piece = rest.next().unwrap_or_default();
        let question = Question::Delete(piece.clone(), sight.clone());
        (Self::Deleting(Box::new(Deleting { sight, piece, rest, ids: Vec::new() })), question)
    }

    /// Whether the room may have to be asked again before it is asked something else.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Listing(_) | Self::Deleting(_))
    }
}

impl Pending {
    /// Takes a reply of the room.
    pub(super) fn take(&mut self, reply: Result<Reply, RoomError>) -> Step {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if matches!(self.kind, Kind::Opening) => {
                return Step::Refused(translate::error(0, &error));
            }
            Err(error) => return Step::Answered(translate::error(self.code, &error)),
        };
        match (&mut self.kind, reply) {
            (Kind::Opening, _) => Step::Begun,
            (Kind::Listing(gathered), Reply::Ids { ids, next, new }) => {
                gathered.take(ids, next, new)
            }
            (Kind::Deleting(deleting), Reply::Deleted { ids, more }) => deleting.take(ids, more),
            (_, reply) => Step::Answered(answer(reply)),
        }
    }
}

impl Gathered {
    fn take(&mut self, ids: Vec<Id>, next: Option<Id>, new: Option<Id>) -> Step {
        let bound = *self.bound.get_or_insert(new);
        let was_there = |id: &Id| bound.is_none_or(|bound| *id < bound);
        self.ids.extend(ids.into_iter().filter(was_there).map(wire_id));
        match next.filter(was_there) {
            Some(next) => {
                self.listing.from = next;
                Step::Again(Question::List(self.listing.clone()))
            }
            None => Step::Answered(Answer::ListedEvents { ids: std::mem::take(&mut self.ids) }),
        }
    }
}

impl Deleting {
    fn take(&mut self, ids: Vec<Id>, more: bool) -> Step {
        self.ids.extend(ids.into_iter().map(wire_id));
        if !more {
            match self.rest.next() {
                Some(piece) => self.piece = piece,
                None => {
                    let mut ids = std::mem::take(&mut self.ids);
                    ids.sort_unstable();
                    return Step::Answered(Answer::DeletedEvents { ids });
                }
            }
        }
        Step::Again(Question::Delete(self.piece.clone(), self.sight.clone()))
    }
}

fn answer(reply: Reply) -> Answer {
    match reply {
        Reply::Registered(registered) => Answer::EventRegistration {
            id: wire_id(registered.id),
            timestamp: unix_secs(registered.at),
        },
        Reply::View(view) => translate::event_info(*view),
        Reply::Filter(filter) => translate::filter(*filter),
        Reply::Deleted { ids, .. } => {
            Answer::DeletedEvents { ids: ids.into_iter().map(wire_id).collect() }
        }
        Reply::Ids { ids, .. } => {
            Answer::ListedEvents { ids: ids.into_iter().map(wire_id).collect() }
        }
        Reply::Done
        | Reply::Views { .. }
        | Reply::DeadLetters(_)
        | Reply::Letters { .. }
        | Reply::Stats(_) => Answer::FilterUpdated,
    }
}

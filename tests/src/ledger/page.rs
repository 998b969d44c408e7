//! What the room must look like, key by key, from the prose of its rules.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use handoff_sim::room::{Command, Name, Refusal, Reply};

use crate::wire::Looks;

/// No value lies further from zero.
const FURTHEST: i64 = 1_000_000;

/// How many tickets a key remembers.
const REMEMBERED: usize = 16;

/// All keys.
#[derive(Clone, Debug, Default)]
pub struct Pages(BTreeMap<Name, Page>);

/// One key.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    value: i64,
    accepted: u64,
    tickets: VecDeque<(u64, i64)>,
    pub(super) notes: Vec<Bytes>,
}

impl Pages {
    pub(super) fn keys(&self) -> impl Iterator<Item = (Name, &Page)> {
        self.0.iter().map(|(key, page)| (*key, page))
    }

    /// Whether an answer says that something changed.
    pub(super) fn changes(reply: &Reply) -> bool {
        matches!(reply, Reply::Value { .. } | Reply::Moved { .. } | Reply::Noted { .. })
    }

    /// What a command must be answered now.
    pub(super) fn answer(&self, command: &Command) -> Reply {
        match *command {
            Command::Add { key, by, ticket } => match (self.ticket(key, ticket), self.sum(key, by))
            {
                (Some(value), _) => Reply::Repeated { value },
                (None, Ok(value)) => Reply::Value { value },
                (None, Err(over)) => Reply::Refused(over),
            },
            Command::Move { from, to, .. } if from == to => Reply::Refused(Refusal::SameKey),
            Command::Move { from, to, by, ticket } => {
                if let Some(value) = self.ticket(from, ticket) {
                    return Reply::Repeated { value };
                }
                // What cannot be negated is far above every limit anyway.
                let less = by.checked_neg().unwrap_or(i64::MAX);
                match (self.sum(from, less), self.sum(to, by)) {
                    (Ok(from), Ok(to)) => Reply::Moved { from, to },
                    (Err(over), _) | (_, Err(over)) => Reply::Refused(over),
                }
            }
            Command::Note { key, .. } => Reply::Noted { offset: self.looks(key).notes },
            ref other => unreachable!("{other} is never asked"),
        }
    }

    /// Makes a command true, if the rules allow it.
    pub(super) fn take(&mut self, command: &Command) {
        let reply = self.answer(command);
        match (command, reply) {
            (Command::Add { key, ticket, .. }, Reply::Value { value }) => {
                self.page(*key).put(value).remember(*ticket);
            }
            (Command::Move { from, to, ticket, .. }, Reply::Moved { from: gives, to: gets }) => {
                self.page(*from).put(gives).remember(*ticket);
                self.page(*to).put(gets);
            }
            (Command::Note { key, body }, Reply::Noted { .. }) => {
                self.page(*key).notes.push(body.clone());
            }
            _ => {}
        }
    }

    pub(super) fn looks(&self, key: Name) -> Looks {
        self.0.get(&key).map_or_else(Looks::default, |page| Looks {
            value: page.value,
            accepted: page.accepted,
            tickets: page.tickets.iter().copied().collect(),
            notes: page.notes.len() as u64,
            last: page.notes.last().map(|body| crc32c::crc32c(body)),
        })
    }

    pub(super) fn note(&self, key: Name, offset: u64) -> Option<&[u8]> {
        let notes = &self.0.get(&key)?.notes;
        notes.get(usize::try_from(offset).ok()?).map(|body| &**body)
    }

    fn page(&mut self, key: Name) -> &mut Page {
        self.0.entry(key).or_default()
    }

    fn ticket(&self, key: Name, ticket: u64) -> Option<i64> {
        let tickets = &self.0.get(&key)?.tickets;
        tickets.iter().find(|(known, _)| *known == ticket).map(|(_, value)| *value)
    }

    fn sum(&self, key: Name, by: i64) -> Result<i64, Refusal> {
        let value = self.0.get(&key).map_or(0, |page| page.value);
        let sum = value.saturating_add(by);
        if sum.unsigned_abs() > FURTHEST.unsigned_abs() {
            return Err(Refusal::OverLimit { key, value, limit: FURTHEST });
        }
        Ok(sum)
    }
}

impl Page {
    fn put(&mut self, value: i64) -> &mut Self {
        self.value = value;
        self.accepted += 1;
        self
    }

    fn remember(&mut self, ticket: u64) {
        if self.tickets.len() == REMEMBERED {
            self.tickets.pop_front();
        }
        self.tickets.push_back((ticket, self.value));
    }
}

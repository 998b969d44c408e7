//! Devices and an ERP that know only the protocol, and what they remember. Nothing of the room's is
//! used here but its words.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handoff_exchange::{MessageId, NewMessage, NewReply, ProcessId, Status, Verdict};
use handoff_types::Wall;

/// What a client does once it gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Asks again until it is answered, and reports what its database did.
    Retries,
    /// Is never heard of again.
    Gone,
}

/// What the database of an ERP did with one process.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) id: ProcessId,
    pub(crate) verdicts: BTreeMap<MessageId, Status>,
    /// None while it is open.
    pub(crate) committed: Option<bool>,
    /// Somebody answered that it is taken down.
    pub(crate) reported: bool,
    pub(crate) replies: Vec<MessageId>,
}

/// What devices and the ERP remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Messages that a device sent, and whether it was told that they are stored.
    pub(crate) sent: BTreeMap<MessageId, bool>,
    pub(crate) transactions: Vec<Transaction>,
    /// Replies a device was given, how often its application used them.
    pub(crate) used: BTreeMap<MessageId, u32>,
    /// Replies whose acknowledgement was answered.
    pub(crate) acked: BTreeSet<MessageId>,
}

impl Ledger {
    /// How often a message's effects are in the database.
    pub(crate) fn effects(&self, id: &MessageId) -> usize {
        let has = |one: &&Transaction| {
            one.committed == Some(true) && one.verdicts.get(id) == Some(&Status::Processed)
        };
        self.transactions.iter().filter(has).count()
    }

    /// Whether the transaction that made a reply has committed.
    pub(crate) fn is_true(&self, reply: &MessageId) -> bool {
        let made = |one: &&Transaction| one.replies.contains(reply);
        self.transactions.iter().filter(made).any(|one| one.committed == Some(true))
    }

    pub(crate) fn open(&mut self) -> &mut Transaction {
        self.transactions.last_mut().unwrap()
    }
}

pub(crate) fn mid(text: &str) -> MessageId {
    text.parse().unwrap()
}

pub(crate) fn message(name: &str) -> NewMessage {
    NewMessage {
        id: mid(name),
        kind: Some("DOCS".parse().unwrap()),
        created: Wall(1_700_000_000_000_000),
        created_text: "2023-11-14T22:13:20Z".into(),
        reply_to: None,
        payload: Bytes::from(format!("{{\"of\":\"{name}\",\"text\":\"{}\"}}", name.repeat(300))),
        digest: name.bytes().fold(5, |sum, byte| sum * 31 + u64::from(byte)),
    }
}

pub(crate) fn reply(name: &str, to: &str) -> NewReply {
    NewReply { to: to.parse().unwrap(), message: message(name) }
}

pub(crate) fn verdicts(statuses: &BTreeMap<MessageId, Status>) -> Vec<Verdict> {
    let verdict = |(message, status): (&MessageId, &Status)| Verdict {
        message: *message,
        status: *status,
        code: None,
        error: (*status == Status::Incorrect).then(|| "no such article".into()),
    };
    statuses.iter().map(verdict).collect()
}

//! What is said between a victim and its caller: one line each way.
//!
//! ```text
//!  caller   7 add k00 -5 12            8 move k00 k01 5 13      9 note k00 <hex>
//!           10 tally k00               11 body k00 3
//!  victim   ready pid=… tail=… …       event checkpoint done
//!           7 value -5                 8 moved -10 5            9 noted 0
//!           8 no log.journal_full the journal has …             8 lost unknown
//! ```
//!
//! Requests are answered in their order, each when what the answer rests on is durable; `no` is
//! said at once. Holds are not spoken of: they depend on the victim's clock, and the simulator
//! judges them.

use std::fmt::Write;

use bytes::Bytes;
use handoff_sim::room::{Command, Name, Refusal, Reply, Tally};
use handoff_types::Outcome;

/// What a caller asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A command of the room: an add, a move or a note.
    Do(Command),
    /// Everything that is known of a key.
    Tally(Name),
    /// The body of a note.
    Body(Name, u64),
}

/// What a victim answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What the room says.
    Reply(Reply),
    /// The log did not take it; nothing changed.
    No {
        /// The stable code.
        code: String,
        /// Why, for people.
        words: String,
    },
    /// The journal stopped before it was durable.
    Lost(Outcome),
    /// What a key looks like: value, changes, tickets with their values, notes.
    Tally(Looks),
    /// A body; none if there is no such note.
    Body(Option<Bytes>),
}

/// Everything that can be seen of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Its value.
    pub value: i64,
    /// How many adds and moves have changed it.
    pub accepted: u64,
    /// The tickets it remembers, oldest first, each with the value it led to.
    pub tickets: Vec<(u64, i64)>,
    /// How many notes it has.
    pub notes: u64,
    /// CRC-32C of the last note.
    pub last: Option<u32>,
}

impl From<&Tally> for Looks {
    fn from(tally: &Tally) -> Self {
        Self {
            value: tally.value,
            accepted: tally.accepted,
            tickets: tally.tickets.iter().copied().collect(),
            notes: tally.notes,
            last: tally.last,
        }
    }
}

impl Ask {
    /// The line that asks this.
    #[must_use]
    pub fn line(&self, id: u64) -> String {
        match self {
            Self::Do(Command::Add { key, by, ticket }) => format!("{id} add {key} {by} {ticket}"),
            Self::Do(Command::Move { from, to, by, ticket }) => {
                format!("{id} move {from} {to} {by} {ticket}")
            }
            Self::Do(Command::Note { key, body }) => format!("{id} note {key} {}", hex(body)),
            Self::Do(other) => unreachable!("{other} is not spoken of"),
            Self::Tally(key) => format!("{id} tally {key}"),
            Self::Body(key, offset) => format!("{id} body {key} {offset}"),
        }
    }

    /// What a line asks; `None` if it is no such line.
    #[must_use]
    pub fn parse(line: &str) -> Option<(u64, Self)> {
        let words: Vec<&str> = line.split(' ').collect();
        let (id, words) = words.split_first()?;
        let ask = match *words {
            ["add", key, by, ticket] => Self::Do(Command::Add {
                key: key.parse().ok()?,
                by: by.parse().ok()?,
                ticket: ticket.parse().ok()?,
            }),
            ["move", from, to, by, ticket] => Self::Do(Command::Move {
                from: from.parse().ok()?,
                to: to.parse().ok()?,
                by: by.parse().ok()?,
                ticket: ticket.parse().ok()?,
            }),
            ["note", key, body] => {
                Self::Do(Command::Note { key: key.parse().ok()?, body: unhex(body)? })
            }
            ["tally", key] => Self::Tally(key.parse().ok()?),
            ["body", key, offset] => Self::Body(key.parse().ok()?, offset.parse().ok()?),
            _ => return None,
        };
        Some((id.parse().ok()?, ask))
    }
}

impl Answer {
    /// The line that answers this.
    #[must_use]
    pub fn line(&self, id: u64) -> String {
        match self {
            Self::Reply(reply) => format!("{id} {}", reply_words(reply)),
            Self::No { code, words } => format!("{id} no {code} {words}"),
            Self::Lost(Outcome::Unknown) => format!("{id} lost unknown"),
            Self::Lost(Outcome::NotApplied) => format!("{id} lost not-applied"),
            Self::Tally(looks) => {
                let Looks { value, accepted, tickets, notes, last } = looks;
                let mut line = format!("{id} tally {value} {accepted} {notes} ");
                match last {
                    Some(crc) => line += &format!("{crc:08x}"),
                    None => line.push('-'),
                }
                for (ticket, value) in tickets {
                    line += &format!(" {ticket}={value}");
                }
                line
            }
            Self::Body(Some(body)) => format!("{id} body {}", hex(body)),
            Self::Body(None) => format!("{id} nobody"),
        }
    }

    /// What a line answers; `None` if it is no such line.
    #[must_use]
    pub fn parse(line: &str) -> Option<(u64, Self)> {
        let (id, rest) = line.split_once(' ')?;
        Some((id.parse().ok()?, parse_answer(rest)?))
    }
}

fn reply_words(reply: &Reply) -> String {
    match reply {
        Reply::Value { value } => format!("value {value}"),
        Reply::Repeated { value } => format!("repeated {value}"),
        Reply::Moved { from, to } => format!("moved {from} {to}"),
        Reply::Noted { offset } => format!("noted {offset}"),
        Reply::Refused(Refusal::OverLimit { key, value, limit }) => {
            format!("over {key} {value} {limit}")
        }
        Reply::Refused(Refusal::SameKey) => "same-key".to_owned(),
        other => unreachable!("'{other}' answers nothing that is asked"),
    }
}

fn parse_answer(rest: &str) -> Option<Answer> {
    if let Some(refusal) = rest.strip_prefix("no ") {
        let (code, words) = refusal.split_once(' ')?;
        return Some(Answer::No { code: code.to_owned(), words: words.to_owned() });
    }
    let words: Vec<&str> = rest.split(' ').collect();
    let answer = match *words {
        ["value", value] => Answer::Reply(Reply::Value { value: value.parse().ok()? }),
        ["repeated", value] => Answer::Reply(Reply::Repeated { value: value.parse().ok()? }),
        ["moved", from, to] => {
            Answer::Reply(Reply::Moved { from: from.parse().ok()?, to: to.parse().ok()? })
        }
        ["noted", offset] => Answer::Reply(Reply::Noted { offset: offset.parse().ok()? }),
        ["over", key, value, limit] => Answer::Reply(Reply::Refused(Refusal::OverLimit {
            key: key.parse().ok()?,
            value: value.parse().ok()?,
            limit: limit.parse().ok()?,
        })),
        ["same-key"] => Answer::Reply(Reply::Refused(Refusal::SameKey)),
        ["lost", "unknown"] => Answer::Lost(Outcome::Unknown),
        ["lost", "not-applied"] => Answer::Lost(Outcome::NotApplied),
        ["tally", value, accepted, notes, last, ref tickets @ ..] => {
            let ticket = |pair: &&str| {
                let (ticket, value) = pair.split_once('=')?;
                Some((ticket.parse().ok()?, value.parse().ok()?))
            };
            Answer::Tally(Looks {
                value: value.parse().ok()?,
                accepted: accepted.parse().ok()?,
                notes: notes.parse().ok()?,
                last: match last {
                    "-" => None,
                    crc => Some(u32::from_str_radix(crc, 16).ok()?),
                },
                tickets: tickets.iter().map(ticket).collect::<Option<_>>()?,
            })
        }
        ["body", body] => Answer::Body(Some(unhex(body)?)),
        ["nobody"] => Answer::Body(None),
        _ => return None,
    };
    Some(answer)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes all that is written to it");
    }
    text
}

fn unhex(text: &str) -> Option<Bytes> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    rest.is_empty().then(|| bytes.collect::<Option<Vec<u8>>>())?.map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::{Answer, Ask, Looks};
    use bytes::Bytes;
    use handoff_sim::room::{Command, Name, Refusal, Reply};
    use handoff_types::Outcome;

    #[test]
    fn what_is_asked_is_what_is_heard() {
        let (a, b) = (Name::numbered(0), Name::numbered(1));
        for ask in [
            Ask::Do(Command::Add { key: a, by: -5, ticket: u64::MAX }),
            Ask::Do(Command::Move { from: a, to: b, by: i64::MIN, ticket: 1 }),
            Ask::Do(Command::Note { key: a, body: Bytes::from_static(b"\0\xff\n ") }),
            Ask::Do(Command::Note { key: a, body: Bytes::new() }),
            Ask::Tally(b),
            Ask::Body(b, 7),
        ] {
            assert_eq!(Ask::parse(&ask.line(3)), Some((3, ask)));
        }
    }

    #[test]
    fn what_is_answered_is_what_is_heard() {
        let over = Refusal::OverLimit { key: Name::numbered(2), value: -7, limit: 1_000_000 };
        let looks = Looks {
            value: -1,
            accepted: 2,
            tickets: vec![(3, -4), (5, 6)],
            notes: 7,
            last: Some(8),
        };
        for answer in [
            Answer::Reply(Reply::Value { value: -5 }),
            Answer::Reply(Reply::Repeated { value: 5 }),
            Answer::Reply(Reply::Moved { from: -5, to: 5 }),
            Answer::Reply(Reply::Noted { offset: 9 }),
            Answer::Reply(Reply::Refused(over)),
            Answer::Reply(Reply::Refused(Refusal::SameKey)),
            Answer::No { code: "log.busy".to_owned(), words: "not now, later".to_owned() },
            Answer::Lost(Outcome::Unknown),
            Answer::Lost(Outcome::NotApplied),
            Answer::Tally(looks),
            Answer::Tally(Looks::default()),
            Answer::Body(Some(Bytes::from_static(b"\0\x7f"))),
            Answer::Body(Some(Bytes::new())),
            Answer::Body(None),
        ] {
            assert_eq!(Answer::parse(&answer.line(4)), Some((4, answer)));
        }
    }

    #[test]
    fn half_a_line_is_no_line() {
        for line in ["", "7", "7 add k00 1", "7 note k00 0", "7 note k00 0g", "x tally k00"] {
            assert_eq!(Ask::parse(line), None, "{line:?}");
        }
        for line in ["", "7", "7 value", "7 tally 1 2", "7 body 0", "event moved"] {
            assert_eq!(Answer::parse(line), None, "{line:?}");
        }
    }
}

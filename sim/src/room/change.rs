//! What becomes true in the counter room, and its bytes.
//!
//! ```text
//! change   version u8 = 1 │ kind u8 │ key name │ fields
//!   1 added          by signed │ ticket number
//!   2 moved out      by signed │ ticket number
//!   3 moved in       by signed
//!   4 hold taken     hold number │ until number
//!   5 hold released  hold number
//!   6 hold ended     hold number
//!   7 noted          offset number │ length number │ crc
//! ```
//!
//! A change carries no body. Its bytes stay small whatever was noted, and replay needs no body.

use std::fmt;

use handoff_types::Steady;

use super::codec::{Malformed, Reader, put_crc, put_name, put_number, put_signed};
use super::{Hold, Name};

const VERSION: u8 = 1;

const ADDED: u8 = 1;
const MOVED_OUT: u8 = 2;
const MOVED_IN: u8 = 3;
const HOLD_TAKEN: u8 = 4;
const HOLD_RELEASED: u8 = 5;
const HOLD_ENDED: u8 = 6;
const NOTED: u8 = 7;

/// One thing that became true of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The value changed.
    Added {
        /// Whose.
        key: Name,
        /// By how much.
        by: i64,
        /// Under which ticket.
        ticket: u64,
    },
    /// A part of the value went to another key.
    MovedOut {
        /// From whom.
        key: Name,
        /// How much.
        by: i64,
        /// Under which ticket.
        ticket: u64,
    },
    /// A part of another key's value arrived.
    MovedIn {
        /// At whom.
        key: Name,
        /// How much.
        by: i64,
    },
    /// The key has a hold.
    HoldTaken {
        /// Who.
        key: Name,
        /// The hold.
        hold: Hold,
    },
    /// Its hold was given back.
    HoldReleased {
        /// Whose.
        key: Name,
        /// Which.
        hold: u64,
    },
    /// Its hold was over and was ended.
    HoldEnded {
        /// Whose.
        key: Name,
        /// Which.
        hold: u64,
    },
    /// The key has one more note.
    Noted {
        /// Who.
        key: Name,
        /// The note's number.
        offset: u64,
        /// The body's length in bytes.
        length: u64,
        /// CRC-32C of the body.
        crc: u32,
    },
}

/// Where the body of a command belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// The number of its key: bodies of one lane are kept and read together.
    pub lane: u32,
    /// Its number in the lane, without a gap.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
    /// Its CRC-32C.
    pub crc: u32,
}

impl Change {
    /// The one key it is about.
    #[must_use]
    pub const fn key(&self) -> Name {
        match self {
            Self::Added { key, .. }
            | Self::MovedOut { key, .. }
            | Self::MovedIn { key, .. }
            | Self::HoldTaken { key, .. }
            | Self::HoldReleased { key, .. }
            | Self::HoldEnded { key, .. }
            | Self::Noted { key, .. } => *key,
        }
    }

    /// Where the command's body belongs, if this change is about one.
    #[must_use]
    pub const fn bulk(&self) -> Option<Bulk> {
        match *self {
            Self::Noted { key, offset, length, crc } => {
                Some(Bulk { lane: key.number(), offset, length, crc })
            }
            _ => None,
        }
    }

    /// Appends the change's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION, self.kind()]);
        put_name(out, self.key());
        match *self {
            Self::Added { by, ticket, .. } | Self::MovedOut { by, ticket, .. } => {
                put_signed(out, by);
                put_number(out, ticket);
            }
            Self::MovedIn { by, .. } => put_signed(out, by),
            Self::HoldTaken { hold, .. } => {
                put_number(out, hold.id);
                put_number(out, hold.until.0);
            }
            Self::HoldReleased { hold, .. } | Self::HoldEnded { hold, .. } => put_number(out, hold),
            Self::Noted { offset, length, crc, .. } => {
                put_number(out, offset);
                put_number(out, length);
                put_crc(out, crc);
            }
        }
    }

    /// Takes one change from the front and gives what follows it.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that [`Change::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut reader = Reader::new(bytes);
        match reader.byte("a change")? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        let kind = reader.byte("a change")?;
        let key = reader.name()?;
        let change = match kind {
            ADDED => Self::Added { key, by: reader.signed()?, ticket: reader.number()? },
            MOVED_OUT => Self::MovedOut { key, by: reader.signed()?, ticket: reader.number()? },
            MOVED_IN => Self::MovedIn { key, by: reader.signed()? },
            HOLD_TAKEN => {
                let hold = Hold { id: reader.number()?, until: Steady(reader.number()?) };
                Self::HoldTaken { key, hold }
            }
            HOLD_RELEASED => Self::HoldReleased { key, hold: reader.number()? },
            HOLD_ENDED => Self::HoldEnded { key, hold: reader.number()? },
            NOTED => Self::Noted {
                key,
                offset: reader.number()?,
                length: reader.number()?,
                crc: reader.crc()?,
            },
            other => return Err(Malformed::Kind(other)),
        };
        Ok((change, reader.rest()))
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Added { .. } => ADDED,
            Self::MovedOut { .. } => MOVED_OUT,
            Self::MovedIn { .. } => MOVED_IN,
            Self::HoldTaken { .. } => HOLD_TAKEN,
            Self::HoldReleased { .. } => HOLD_RELEASED,
            Self::HoldEnded { .. } => HOLD_ENDED,
            Self::Noted { .. } => NOTED,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { key, by, ticket } => write!(f, "{key} {by:+} (ticket {ticket})"),
            Self::MovedOut { key, by, ticket } => {
                write!(f, "{key} gave {by:+} (ticket {ticket})")
            }
            Self::MovedIn { key, by } => write!(f, "{key} got {by:+}"),
            Self::HoldTaken { key, hold } => write!(f, "{key} has {hold}"),
            Self::HoldReleased { key, hold } => write!(f, "{key} released from {hold:016x}"),
            Self::HoldEnded { key, hold } => write!(f, "{key} rid of {hold:016x}"),
            Self::Noted { key, offset, length, crc } => {
                write!(f, "{key} note {offset}, {length} bytes, crc {crc:08x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Malformed};
    use crate::room::{Hold, Name};
    use handoff_types::Steady;

    fn one_of_each() -> [Change; 7] {
        let key = Name::numbered(7);
        [
            Change::Added { key, by: -5, ticket: 300 },
            Change::MovedOut { key, by: i64::MIN, ticket: u64::MAX },
            Change::MovedIn { key, by: i64::MAX },
            Change::HoldTaken { key, hold: Hold { id: u64::MAX, until: Steady(12_345) } },
            Change::HoldReleased { key, hold: 1 },
            Change::HoldEnded { key, hold: 1 << 63 },
            Change::Noted { key, offset: 0, length: 2 << 20, crc: 0xdead_beef },
        ]
    }

    #[test]
    fn every_change_comes_back_from_its_bytes_one_after_the_other() {
        let mut bytes = Vec::new();
        one_of_each().iter().for_each(|change| change.encode(&mut bytes));
        let mut rest = bytes.as_slice();
        for change in one_of_each() {
            let (decoded, after) = Change::decode(rest).unwrap();
            assert_eq!(decoded, change);
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_change_cut_anywhere_is_refused() {
        for change in one_of_each() {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            for end in 0..bytes.len() {
                let cut = Change::decode(&bytes[..end]);
                assert!(matches!(cut, Err(Malformed::Truncated(_))), "{change} cut at {end}");
            }
        }
    }

    #[test]
    fn whatever_decodes_encodes_to_the_same_bytes() {
        for change in one_of_each() {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            for (at, flip) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit)))
            {
                let mut flipped = bytes.clone();
                flipped[at] ^= flip;
                if let Ok((other, rest)) = Change::decode(&flipped) {
                    let mut again = Vec::new();
                    other.encode(&mut again);
                    assert_eq!(again, flipped[..flipped.len() - rest.len()]);
                }
            }
        }
    }

    #[test]
    fn another_version_and_an_unknown_kind_are_told_apart() {
        assert_eq!(Change::decode(&[2, 1]), Err(Malformed::Version(2)));
        assert_eq!(Change::decode(&[1, 8, 1, b'a']), Err(Malformed::Kind(8)));
    }

    /// A change of this text is a change of the format: bytes of old directories are decoded for
    /// ever.
    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let hex = one_of_each().map(|change| {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        let written = [
            "0101036b303709ac02",
            "0102036b3037ffffffffffffffffff01ffffffffffffffffff01",
            "0103036b3037feffffffffffffffff01",
            "0104036b3037ffffffffffffffffff01b960",
            "0105036b303701",
            "0106036b303780808080808080808001",
            "0107036b30370080808001efbeadde",
        ];
        assert_eq!(hex, written);
    }
}

//! What an aggregate is found by.

use bytes::Bytes;

use crate::{CompanyNo, DatabaseNo, DeviceNo, Seq, SubsystemNo};

/// The key of an aggregate. Keys are ordered as their bytes are. Entities come first, so that a
/// state that is read back knows whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The numbers that are next.
    Counters,
    /// A company.
    Company(CompanyNo),
    /// A subsystem.
    Subsystem(SubsystemNo),
    /// A database.
    Database(DatabaseNo),
    /// A device.
    Device(DeviceNo),
    /// A route.
    Route(CompanyNo, SubsystemNo),
    /// An entry of the log.
    Log(u64),
    /// A process.
    Process(u64),
    /// A message.
    Message(Seq),
}

impl Key {
    /// The key's bytes, with numbers big-endian, so that they sort as the keys do:
    ///
    /// ```text
    /// 1 │                              counters
    /// 2 │ number u32 │                 a company
    /// 3 │ number u32 │                 a subsystem
    /// 4 │ number u32 │                 a database
    /// 5 │ number u32 │                 a device
    /// 6 │ company u32 │ subsystem u32 │ a route
    /// 7 │ number u64 │                 an entry of the log
    /// 8 │ number u64 │                 a process
    /// 9 │ seq u64 │                    a message
    /// ```
    #[must_use]
    pub fn to_bytes(self) -> Bytes {
        let numbers = |kind: u8, numbers: &[&[u8]]| {
            let mut bytes = vec![kind];
            numbers.iter().for_each(|number| bytes.extend_from_slice(number));
            Bytes::from(bytes)
        };
        match self {
            Self::Counters => numbers(1, &[]),
            Self::Company(no) => numbers(2, &[&no.0.to_be_bytes()]),
            Self::Subsystem(no) => numbers(3, &[&no.0.to_be_bytes()]),
            Self::Database(no) => numbers(4, &[&no.0.to_be_bytes()]),
            Self::Device(no) => numbers(5, &[&no.0.to_be_bytes()]),
            Self::Route(company, subsystem) => {
                numbers(6, &[&company.0.to_be_bytes(), &subsystem.0.to_be_bytes()])
            }
            Self::Log(number) => numbers(7, &[&number.to_be_bytes()]),
            Self::Process(number) => numbers(8, &[&number.to_be_bytes()]),
            Self::Message(seq) => numbers(9, &[&seq.0.to_be_bytes()]),
        }
    }

    /// The key of these bytes, if they are one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let four = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
        let eight = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        Some(match kind {
            1 if rest.is_empty() => Self::Counters,
            2 => Self::Company(CompanyNo(four(rest)?)),
            3 => Self::Subsystem(SubsystemNo(four(rest)?)),
            4 => Self::Database(DatabaseNo(four(rest)?)),
            5 => Self::Device(DeviceNo(four(rest)?)),
            6 => {
                let (company, subsystem) = rest.split_at_checked(4)?;
                Self::Route(CompanyNo(four(company)?), SubsystemNo(four(subsystem)?))
            }
            7 => Self::Log(eight(rest)?),
            8 => Self::Process(eight(rest)?),
            9 => Self::Message(Seq(eight(rest)?)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Key;
    use crate::{CompanyNo, DatabaseNo, DeviceNo, Seq, SubsystemNo};

    #[test]
    fn keys_sort_as_their_bytes_do_and_read_back() {
        let keys = [
            Key::Counters,
            Key::Company(CompanyNo(1)),
            Key::Company(CompanyNo(256)),
            Key::Subsystem(SubsystemNo(3)),
            Key::Database(DatabaseNo(0)),
            Key::Device(DeviceNo(u32::MAX)),
            Key::Route(CompanyNo(1), SubsystemNo(2)),
            Key::Route(CompanyNo(2), SubsystemNo(1)),
            Key::Log(7),
            Key::Process(1),
            Key::Message(Seq(255)),
            Key::Message(Seq(256)),
        ];
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_bytes() < pair[1].to_bytes(), "{pair:?}");
        }
        for key in keys {
            assert_eq!(Key::from_bytes(&key.to_bytes()), Some(key));
        }
    }
}

//! MessagePack, as far as the API needs it: maps with names, arrays, text, octets and numbers.
//!
//! Whatever comes is read or refused without trust in a length it states: nothing is reserved for
//! more than the octets that are there.

use bytes::Bytes;
use rmp::Marker;

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

type Read<T> = Result<T, Malformed>;

/// Reads values one after the other. Texts and octets are not copied.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    whole: &'a Bytes,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(whole: &'a Bytes) -> Self {
        Self { whole, rest: whole }
    }

    /// A map: what is done for each of its names. It must take the value.
    pub(super) fn map(&mut self, mut each: impl FnMut(&mut Self, &str) -> Read<()>) -> Read<()> {
        let entries = match self.marker()? {
            Marker::FixMap(entries) => u64::from(entries),
            Marker::Map16 => self.number(2)?,
            Marker::Map32 => self.number(4)?,
            _ => return Err(Malformed("a map is missing")),
        };
        for _ in 0..entries {
            let name = self.text()?;
            each(self, name)?;
        }
        Ok(())
    }

    /// An array, value by value.
    pub(super) fn array<T>(&mut self, mut each: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let entries = match self.marker()? {
            Marker::FixArray(entries) => u64::from(entries),
            Marker::Array16 => self.number(2)?,
            Marker::Array32 => self.number(4)?,
            _ => return Err(Malformed("an array is missing")),
        };
        // Every value has at least one octet.
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        if entries > self.rest.len() {
            return Err(Malformed("it ends too early"));
        }
        let mut values = Vec::with_capacity(entries);
        for _ in 0..entries {
            values.push(each(self)?);
        }
        Ok(values)
    }

    /// A value, or nothing.
    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<Option<T>> {
        match self.rest.split_first() {
            Some((first, rest)) if Marker::from_u8(*first) == Marker::Null => {
                self.rest = rest;
                Ok(None)
            }
            _ => read(self).map(Some),
        }
    }

    /// A text.
    pub(super) fn text(&mut self) -> Read<&'a str> {
        std::str::from_utf8(self.octets()?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// Octets, written as such or as a text.
    pub(super) fn data(&mut self) -> Read<Bytes> {
        let octets = self.octets()?;
        Ok(self.whole.slice_ref(octets))
    }

    /// A number that is not negative.
    pub(super) fn uint(&mut self) -> Read<u64> {
        let marker = self.marker()?;
        self.uint_of(marker)?.ok_or(Malformed("a number is missing"))
    }

    /// Whether the next value is a number that is not negative.
    pub(super) fn is_uint(&self) -> bool {
        self.rest.first().is_some_and(|first| {
            matches!(
                Marker::from_u8(*first),
                Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64
            )
        })
    }

    /// Yes or no.
    pub(super) fn boolean(&mut self) -> Read<bool> {
        match self.marker()? {
            Marker::True => Ok(true),
            Marker::False => Ok(false),
            _ => Err(Malformed("yes or no is missing")),
        }
    }

    /// Passes over a value, whatever it is.
    pub(super) fn skip(&mut self) -> Read<()> {
        let mut left: u64 = 1;
        while left > 0 {
            left -= 1;
            let octets = match self.marker()? {
                Marker::Null | Marker::True | Marker::False => 0,
                Marker::FixPos(_) | Marker::FixNeg(_) => 0,
                Marker::U8 | Marker::I8 => 1,
                Marker::U16 | Marker::I16 => 2,
                Marker::U32 | Marker::I32 | Marker::F32 => 4,
                Marker::U64 | Marker::I64 | Marker::F64 => 8,
                Marker::FixStr(octets) => u64::from(octets),
                Marker::Str8 | Marker::Bin8 => self.number(1)?,
                Marker::Str16 | Marker::Bin16 => self.number(2)?,
                Marker::Str32 | Marker::Bin32 => self.number(4)?,
                Marker::FixExt1 => 2,
                Marker::FixExt2 => 3,
                Marker::FixExt4 => 5,
                Marker::FixExt8 => 9,
                Marker::FixExt16 => 17,
                Marker::Ext8 => self.number(1)? + 1,
                Marker::Ext16 => self.number(2)? + 1,
                Marker::Ext32 => self.number(4)? + 1,
                marker => {
                    left += match marker {
                        Marker::FixArray(entries) => u64::from(entries),
                        Marker::Array16 => self.number(2)?,
                        Marker::Array32 => self.number(4)?,
                        Marker::FixMap(entries) => u64::from(entries) * 2,
                        Marker::Map16 => self.number(2)? * 2,
                        Marker::Map32 => self.number(4)? * 2,
                        _ => return Err(Malformed("it holds something that is no MessagePack")),
                    };
                    0
                }
            };
            self.take(octets)?;
        }
        Ok(())
    }

    /// Nothing is left.
    pub(super) fn end(&self) -> Read<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("it goes on after its end")) }
    }

    fn octets(&mut self) -> Read<&'a [u8]> {
        let length = match self.marker()? {
            Marker::FixStr(length) => u64::from(length),
            Marker::Str8 | Marker::Bin8 => self.number(1)?,
            Marker::Str16 | Marker::Bin16 => self.number(2)?,
            Marker::Str32 | Marker::Bin32 => self.number(4)?,
            _ => return Err(Malformed("a text is missing")),
        };
        self.take(length)
    }

    fn uint_of(&mut self, marker: Marker) -> Read<Option<u64>> {
        Ok(Some(match marker {
            Marker::FixPos(number) => u64::from(number),
            Marker::U8 => self.number(1)?,
            Marker::U16 => self.number(2)?,
            Marker::U32 => self.number(4)?,
            Marker::U64 => self.number(8)?,
            _ => return Ok(None),
        }))
    }

    fn marker(&mut self) -> Read<Marker> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(Marker::from_u8(*first))
    }

    fn number(&mut self, octets: u64) -> Read<u64> {
        let octets = self.take(octets)?;
        Ok(octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
    }

    fn take(&mut self, octets: u64) -> Read<&'a [u8]> {
        let octets = usize::try_from(octets).unwrap_or(usize::MAX);
        let (taken, rest) =
            self.rest.split_at_checked(octets).ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

    use super::{Decoder, Malformed};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes.into()
    }

    #[test]
    fn a_map_is_read_name_by_name_and_what_is_unknown_is_passed_over() {
        let bytes = written(|out| {
            rmp::encode::write_map_len(out, 3).unwrap();
            rmp::encode::write_str(out, "newer").unwrap();
            rmp::encode::write_array_len(out, 3).unwrap();
            rmp::encode::write_map_len(out, 1).unwrap();
            rmp::encode::write_f64(out, 0.5).unwrap();
            rmp::encode::write_sint(out, -70_000).unwrap();
            rmp::encode::write_ext_meta(out, 4, 7).unwrap();
            out.extend([1, 2, 3, 4]);
            rmp::encode::write_bool(out, true).unwrap();
            rmp::encode::write_str(out, "offset").unwrap();
            rmp::encode::write_uint(out, 300).unwrap();
            rmp::encode::write_str(out, "key").unwrap();
            rmp::encode::write_nil(out).unwrap();
        });
        let mut decoder = Decoder::new(&bytes);
        let (mut offset, mut key) = (0, Some(Bytes::new()));
        let read = decoder.map(|decoder, name| {
            match name {
                "offset" => offset = decoder.uint()?,
                "key" => key = decoder.optional(Decoder::data)?,
                _ => decoder.skip()?,
            }
            Ok(())
        });
        assert_eq!((read, decoder.end()), (Ok(()), Ok(())));
        assert_eq!((offset, key), (300, None));
    }

    #[test]
    fn a_length_that_is_not_there_reserves_nothing() {
        for bytes in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 0][..],
            &[0xdc, 0, 9, 1],
            &[0xc6, 0xff, 0xff, 0xff, 0xff],
        ] {
            let bytes = Bytes::copy_from_slice(bytes);
            assert!(Decoder::new(&bytes).array(Decoder::uint).is_err());
            assert!(Decoder::new(&bytes).data().is_err());
            assert_eq!(Decoder::new(&bytes).skip(), Err(Malformed("it ends too early")));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_another_encoder_writes_is_read(
            number: u64,
            octets: Vec<u8>,
            text in ".{0,70000}",
            yes: bool,
        ) {
            let bytes = written(|out| {
                rmp::encode::write_array_len(out, 4).unwrap();
                rmp::encode::write_uint(out, number).unwrap();
                rmp::encode::write_bin(out, &octets).unwrap();
                rmp::encode::write_str(out, &text).unwrap();
                rmp::encode::write_bool(out, yes).unwrap();
            });
            let mut skipped = Decoder::new(&bytes);
            prop_assert_eq!(skipped.skip(), Ok(()));
            prop_assert_eq!(skipped.end(), Ok(()));
            let mut decoder = Decoder::new(&bytes);
            let mut at = 0;
            let read = decoder.array(|decoder| {
                at += 1;
                match at {
                    1 => assert_eq!(decoder.uint()?, number),
                    2 => assert_eq!(decoder.data()?, octets),
                    3 => assert_eq!(decoder.text()?, text),
                    _ => assert_eq!(decoder.boolean()?, yes),
                }
                Ok(())
            });
            prop_assert!(read.is_ok());
        }

        #[test]
        fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(octets);
            let skipped = Decoder::new(&bytes).skip().is_ok();
            let map = Decoder::new(&bytes).map(|decoder, _| decoder.skip()).is_ok();
            let array = Decoder::new(&bytes).array(Decoder::data).is_ok();
            prop_assert!(skipped || !(map || array), "what is read can be passed over");
        }
    }
}

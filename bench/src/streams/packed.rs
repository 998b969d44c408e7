//! MessagePack, as far as answers are looked through.

/// Bytes that are gone through from their front.
#[derive(Debug)]
pub(super) struct Packed<'a> {
    rest: &'a [u8],
}

enum Item<'a> {
    Map(usize),
    Array(usize),
    Text(&'a [u8]),
    Unsigned(u64),
    Other,
}

impl<'a> Packed<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn map(&mut self) -> Option<usize> {
        match self.next()? {
            Item::Map(fields) => Some(fields),
            _ => None,
        }
    }

    pub(super) fn array(&mut self) -> Option<usize> {
        match self.next()? {
            Item::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        match self.next()? {
            Item::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn unsigned(&mut self) -> Option<u64> {
        match self.next()? {
            Item::Unsigned(number) => Some(number),
            _ => None,
        }
    }

    /// Goes past one value, whatever it is.
    pub(super) fn skip(&mut self) -> Option<()> {
        let mut values = 1_usize;
        while values > 0 {
            values -= 1;
            values += match self.next()? {
                Item::Map(fields) => 2 * fields,
                Item::Array(items) => items,
                Item::Text(_) | Item::Unsigned(_) | Item::Other => 0,
            };
        }
        Some(())
    }

    fn next(&mut self) -> Option<Item<'a>> {
        let kind = *self.take(1)?.first()?;
        Some(match kind {
            0x00..=0x7f => Item::Unsigned(kind.into()),
            0x80..=0x8f => Item::Map(usize::from(kind & 15)),
            0x90..=0x9f => Item::Array(usize::from(kind & 15)),
            0xa0..=0xbf => Item::Text(self.take(usize::from(kind & 31))?),
            0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Item::Other,
            0xc4..=0xc6 => {
                let length = self.number(1 << (kind - 0xc4))?;
                self.take(usize::try_from(length).ok()?)?;
                Item::Other
            }
            0xca | 0xcb => {
                self.take(4 << (kind - 0xca))?;
                Item::Other
            }
            0xcc..=0xcf => Item::Unsigned(self.number(1 << (kind - 0xcc))?),
            0xd0..=0xd3 => {
                self.take(1 << (kind - 0xd0))?;
                Item::Other
            }
            0xd9..=0xdb => {
                let length = self.number(1 << (kind - 0xd9))?;
                Item::Text(self.take(usize::try_from(length).ok()?)?)
            }
            0xdc | 0xdd => Item::Array(usize::try_from(self.number(2 << (kind - 0xdc))?).ok()?),
            0xde | 0xdf => Item::Map(usize::try_from(self.number(2 << (kind - 0xde))?).ok()?),
            _ => return None,
        })
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let bytes = self.take(bytes)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::Packed;

    #[test]
    fn what_is_not_wanted_is_gone_past_whatever_it_is() {
        let bytes = [
            &[0x83][..],
            b"\xa1a\x92\xc4\x02xy\x81\xa1k\xcb\0\0\0\0\0\0\0\0",
            b"\xa1b\xcd\x01\x02",
            b"\xd9\x01c\xdc\0\x01\xc0",
        ]
        .concat();
        let mut packed = Packed::new(&bytes);
        assert_eq!(packed.map(), Some(3));
        assert_eq!(packed.text(), Some(&b"a"[..]));
        packed.skip().unwrap();
        assert_eq!((packed.text(), packed.unsigned()), (Some(&b"b"[..]), Some(258)));
        assert_eq!((packed.text(), packed.array()), (Some(&b"c"[..]), Some(1)));
        packed.skip().unwrap();
        assert!(packed.skip().is_none(), "there is no more");
        assert!(Packed::new(b"\xa5ab").text().is_none(), "it is cut off");
    }
}

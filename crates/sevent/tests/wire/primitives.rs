//! VarInts, strings, lists, and the limits of each.

use crate::support::hex;
use bytes::BytesMut;
use handoff_sevent::primitive::{
    Reader, Unreadable, peek_varint, put_double, put_time, put_var_string, put_varint,
    put_varint_unsigned, varint_len,
};
use proptest::prelude::*;

fn varint(text: &str) -> Result<i32, Unreadable> {
    let octets = hex(text);
    let mut reader = Reader::new(&octets);
    let value = reader.varint()?;
    reader.end().map(|()| value)
}

#[test]
fn numbers_have_the_octets_of_the_protocol() {
    let cases = [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "80 01"),
        (687, "af 05"),
        (16_383, "ff 7f"),
        (16_384, "80 80 01"),
        (48_677, "a5 fc 02"),
        (2_097_151, "ff ff 7f"),
        (2_097_152, "80 80 80 01"),
        (268_435_455, "ff ff ff 7f"),
        (268_435_456, "80 80 80 80 01"),
        (i32::MAX, "ff ff ff ff 07"),
        (i32::MIN, "80 80 80 80 08"),
        (-2, "fe ff ff ff 0f"),
        (-1, "ff ff ff ff 0f"),
    ];
    for (value, octets) in cases {
        let mut out = BytesMut::new();
        put_varint(value, &mut out);
        assert_eq!(out, hex(octets), "{value}");
        assert_eq!(varint(octets), Ok(value));
        assert_eq!(varint_len(value), out.len(), "{value}");
    }
}

#[test]
fn numbers_may_be_longer_than_they_need_be() {
    assert_eq!(varint("80 00"), Ok(0));
    assert_eq!(varint("80 80 80 80 00"), Ok(0));
    assert_eq!(varint("81 80 00"), Ok(1));
    assert_eq!(varint("ff 80 80 80 00"), Ok(127));
}

#[test]
fn a_sixth_octet_or_a_33rd_bit_is_refused() {
    for octets in [
        "80 80 80 80 80 00",
        "ff ff ff ff ff 0f",
        "80 80 80 80 80",
        "ff ff ff ff 1f",
        "80 80 80 80 10",
        "80 80 80 80 40",
        "80 80 80 80 8f",
    ] {
        assert_eq!(varint(octets), Err(Unreadable::VarIntTooLong), "{octets}");
    }
}

#[test]
fn a_number_that_is_cut_short_is_refused() {
    for octets in ["", "80", "ff ff", "ff ff ff", "ff ff ff ff"] {
        assert!(matches!(varint(octets), Err(Unreadable::Short { .. })), "{octets}");
        assert_eq!(peek_varint(&hex(octets)), Ok(None), "{octets}");
    }
}

#[test]
fn strings_are_utf8_with_their_length_in_octets() {
    let mut out = BytesMut::new();
    put_var_string("событие", &mut out);
    assert_eq!(out, hex("0e d1 81 d0 be d0 b1 d1 8b d1 82 d0 b8 d0 b5"));
    let mut reader = Reader::new(&out);
    assert!(!reader.is_empty());
    assert_eq!(reader.var_string(), Ok("событие"));
    assert!(reader.is_empty());

    assert_eq!(Reader::new(&[0]).var_string(), Ok(""));
    assert_eq!(Reader::new(&hex("02 \"a\" 00")).var_string(), Ok("a\0"));
    assert_eq!(
        Reader::new(&hex("05 \"four\"")).var_string(),
        Err(Unreadable::Short { wanted: 5, left: 4 })
    );
    for not in ["01 ff", "02 c0 80", "03 ed a0 80", "01 d1"] {
        assert_eq!(Reader::new(&hex(not)).var_string(), Err(Unreadable::NotUtf8), "{not}");
    }
    assert_eq!(Reader::new(&hex("\"all\"")).string(), Ok("all"));
    assert_eq!(Reader::new(&[0xff]).string(), Err(Unreadable::NotUtf8));
}

#[test]
fn a_negative_length_is_longer_than_anything() {
    let octets = hex("ff ff ff ff 0f \"abc\"");
    assert!(matches!(Reader::new(&octets).var_string(), Err(Unreadable::Short { left: 3, .. })));
}

#[test]
fn doubles_and_times_are_big_endian() {
    let mut out = BytesMut::new();
    put_double(86_400.0, &mut out);
    put_double(-0.1, &mut out);
    put_time(1_700_000_000, &mut out);
    put_time(-1, &mut out);
    assert_eq!(
        out,
        hex("40 f5 18 00 00 00 00 00  bf b9 99 99 99 99 99 9a \
             00 00 00 00 65 53 f1 00  ff ff ff ff ff ff ff ff")
    );
    let mut reader = Reader::new(&out);
    assert_eq!(reader.double(), Ok(86_400.0));
    assert_eq!(reader.double(), Ok(-0.1));
    assert_eq!(reader.time(), Ok(1_700_000_000));
    assert_eq!(reader.time(), Ok(-1));
    assert_eq!(reader.end(), Ok(()));
    assert_eq!(reader.double(), Err(Unreadable::Short { wanted: 8, left: 0 }));
    assert_eq!(Reader::new(&[0; 7]).time(), Err(Unreadable::Short { wanted: 8, left: 7 }));
}

#[test]
fn a_double_keeps_the_bits_of_its_nan() {
    let octets = hex("7f f8 00 00 00 00 be ef");
    let value = Reader::new(&octets).double().unwrap();
    let mut out = BytesMut::new();
    put_double(value, &mut out);
    assert_eq!(out, octets);
}

#[test]
fn a_list_that_says_more_than_it_has_allocates_nothing() {
    for (octets, count) in [
        ("03 00 00", 3),
        ("01", 1),
        ("ff ff ff ff 0f 00 00", u32::MAX),
        ("80 80 80 80 08 00", 1 << 31),
        ("ff ff ff ff 07", i32::MAX.unsigned_abs()),
    ] {
        let octets = hex(octets);
        let left = octets.len() - peek_varint(&octets).unwrap().unwrap().1;
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        let refused = Err(Unreadable::Count { count, left });
        assert_eq!(Reader::new(&octets).varints(&mut ids), refused);
        assert_eq!(Reader::new(&octets).var_strings(&mut names), refused);
        assert_eq!((ids.capacity(), names.capacity()), (0, 0));
    }
}

#[test]
fn a_list_makes_room_as_its_items_are_read() {
    // 1,000,000 names, says the list; the first takes all octets there are.
    let mut octets = hex("c0 84 3d");
    octets.extend(hex("ff ff ff 7f"));
    octets.resize(1_000_010, 0);
    let mut names = Vec::new();
    assert!(Reader::new(&octets).var_strings(&mut names).is_err());
    assert!(names.capacity() <= 1024, "{}", names.capacity());
}

#[test]
fn lists_are_appended() {
    let mut ids = vec![9];
    let octets = hex("02 af 05 ff ff ff ff 0f");
    assert_eq!(Reader::new(&octets).varints(&mut ids), Ok(()));
    assert_eq!(ids, [9, 687, -1]);
    let mut names = vec!["first".to_owned()];
    let octets = hex("02 00 01 \"x\"");
    assert_eq!(Reader::new(&octets).var_strings(&mut names), Ok(()));
    assert_eq!(names, ["first", "", "x"]);
}

proptest! {
    #[test]
    fn every_number_comes_back(value: i32) {
        let mut out = BytesMut::new();
        put_varint(value, &mut out);
        prop_assert_eq!(out.len(), varint_len(value));
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.varint(), Ok(value));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..40)) {
        let start = Reader::new(&octets);
        let left = |reader: Reader<'_>| reader.rest().len();
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        let mut reader = start;
        if reader.varints(&mut ids).is_ok() {
            prop_assert!(ids.len() + 1 + left(reader) <= octets.len());
        }
        let mut reader = start;
        if reader.var_strings(&mut names).is_ok() {
            let text: usize = names.iter().map(String::len).sum();
            prop_assert!(names.len() + text + 1 + left(reader) <= octets.len());
        }
        let mut reader = start;
        if let Ok(text) = reader.var_string() {
            prop_assert!(text.len() + 1 + left(reader) <= octets.len());
        }
        let mut reader = start;
        prop_assert_eq!(reader.string().is_ok(), std::str::from_utf8(&octets).is_ok());
        let mut reader = start;
        prop_assert_eq!(reader.double().is_ok(), octets.len() >= 8);
        let mut reader = start;
        prop_assert_eq!(reader.time().is_ok(), octets.len() >= 8);
        if let Ok(Some((value, taken))) = peek_varint(&octets) {
            prop_assert!((1..=5).contains(&taken));
            let mut again = BytesMut::new();
            put_varint_unsigned(value, &mut again);
            prop_assert!(again.len() <= taken);
            prop_assert_eq!(peek_varint(&again), Ok(Some((value, again.len()))));
        }
    }
}

//! RESP2 in any number of pieces, and what a hostile server may say.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use bytes::{Bytes, BytesMut};
use handoff_store_redis::resp::{Bounds, Decoder, Malformed, Value, encode};
use proptest::prelude::*;

fn decoder() -> Decoder {
    Decoder::new(Bounds { value_bytes_max: 4096, elements_max: 64 })
}

fn decode(bytes: &[u8]) -> Result<Option<Value>, Malformed> {
    decoder().next(&mut BytesMut::from(bytes))
}

fn bulk(text: &'static str) -> Value {
    Value::Bulk(Bytes::from_static(text.as_bytes()))
}

/// A value as a server writes it.
fn write(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Simple(word) => into.extend([b"+", &word[..], b"\r\n"].concat()),
        Value::Error(words) => into.extend(format!("-{words}\r\n").bytes()),
        Value::Integer(number) => into.extend(format!(":{number}\r\n").bytes()),
        Value::Null => into.extend(b"$-1\r\n"),
        Value::Bulk(bytes) => {
            into.extend(format!("${}\r\n", bytes.len()).bytes());
            into.extend([&bytes[..], b"\r\n"].concat());
        }
        Value::Array(values) => {
            into.extend(format!("*{}\r\n", values.len()).bytes());
            values.iter().for_each(|value| write(value, into));
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        "[ -~]{0,12}".prop_map(|word| Value::Simple(word.into())),
        "[ -~]{0,12}".prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Bulk(bytes.into())),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::Array))
}

proptest! {
    #[test]
    fn values_come_back_whatever_pieces_they_come_in(
        values in prop::collection::vec(any_value(), 1..6),
        cuts in prop::collection::vec(1usize..9, 1..8),
    ) {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write(value, &mut bytes));
        let (mut decoder, mut buffer, mut found) = (decoder(), BytesMut::new(), Vec::new());
        let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            (rest, _) = (behind, buffer.extend_from_slice(piece));
            while let Some(value) = decoder.next(&mut buffer).unwrap() {
                found.push(value);
            }
        }
        prop_assert_eq!(found, values);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic_or_take_more_than_there_is(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (mut decoder, mut buffer) = (decoder(), BytesMut::from(&bytes[..]));
        while let Ok(Some(_)) = decoder.next(&mut buffer) {}
        prop_assert!(buffer.len() <= bytes.len());
    }

    #[test]
    fn a_command_is_an_array_of_bulks(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6)) {
        let mut bytes = Vec::new();
        encode(parts.iter().map(|part| &part[..]), &mut bytes);
        let bulks = parts.into_iter().map(|part| Value::Bulk(part.into())).collect();
        prop_assert_eq!(decode(&bytes).unwrap(), Some(Value::Array(bulks)));
    }
}

#[test]
fn every_kind_of_value_is_read_as_the_protocol_writes_it() {
    let cases: [(&[u8], Value); 8] = [
        (b"+OK\r\n", Value::Simple(Bytes::from_static(b"OK"))),
        (b"-NOSCRIPT gone\r\n", Value::Error("NOSCRIPT gone".to_owned())),
        (b":-7\r\n", Value::Integer(-7)),
        (b"$3\r\na\r\n\r\n", bulk("a\r\n")),
        (b"$0\r\n\r\n", bulk("")),
        (b"$-1\r\n", Value::Null),
        (b"*-1\r\n", Value::Null),
        (b"*2\r\n*0\r\n$1\r\nx\r\n", Value::Array(vec![Value::Array(vec![]), bulk("x")])),
    ];
    for (bytes, value) in cases {
        assert_eq!(decode(bytes), Ok(Some(value)));
    }
}

#[test]
fn a_value_that_announces_too_much_is_refused_before_it_comes() {
    assert!(matches!(decode(b"$5000\r\n"), Err(Malformed::TooLarge(_))));
    assert!(matches!(decode(b"*65\r\n"), Err(Malformed::TooLarge(_))));
    assert!(matches!(decode(&b"*1\r\n".repeat(12)), Err(Malformed::TooLarge(_))));
    let line = [b"+".as_slice(), &[b'x'; 70_000]].concat();
    assert!(matches!(decode(&line), Err(Malformed::TooLarge(_))));
    assert_eq!(
        decode(b"$9223372036854775807\r\n"),
        Err(Malformed::TooLarge("calls.redis_value_bytes_max"))
    );
}

#[test]
fn what_is_no_resp_is_refused() {
    assert_eq!(decode(b"HTTP/1.1 200 OK\r\n"), Err(Malformed::Kind(b'H')));
    for garbled in
        [&b"$x\r\n"[..], b":1x\r\n", b"$-2\r\n", b"*-2\r\n", b"+x\n", b"$1\r\nabc", b":\r\n"]
    {
        assert_eq!(decode(garbled), Err(Malformed::Garbled), "{garbled:?}");
    }
}

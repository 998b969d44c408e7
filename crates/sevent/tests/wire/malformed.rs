//! Frames that are sound and hold no request. Each is answered; the session goes on.

use crate::support::{any_octets, any_request, decode, encoded, hex};
use handoff_sevent::{Answer, ErrorCode, MessageCode, Request};
use proptest::prelude::*;

/// What a client sends.
const REQUESTS: [u8; 8] = [2, 4, 6, 8, 9, 11, 12, 13];

/// Is refused with the code of the message and this reason.
fn check(octets: &str, why: &str) {
    let malformed = decode(octets).expect_err(octets);
    assert_eq!(malformed.why, why, "{octets}");
    assert_eq!(malformed.error, ErrorCode::FormatError, "{octets}");
    assert_eq!(malformed.code, hex(octets)[0], "{octets}");
}

/// The same for every request that has no body.
fn check_bodiless(rest: &str, why: &str) {
    for code in REQUESTS.into_iter().filter(|code| *code != 2) {
        check(&format!("{code:02x} {rest}"), why);
    }
}

#[test]
fn what_no_client_sends_is_a_wrong_message_whatever_follows() {
    for code in (0..=255).filter(|code| !REQUESTS.contains(code)) {
        for rest in [&[0][..], &[], &[0xff; 20], &[1, 1, 5, 0, 7]] {
            let malformed = Request::decode(&[&[code], rest].concat()).unwrap_err();
            assert_eq!(malformed.error, ErrorCode::WrongMessage);
            assert_eq!(malformed.code, code);
            assert!(matches!(
                Answer::from(malformed),
                Answer::Error { last_id, code: ErrorCode::WrongMessage, .. } if last_id == code
            ));
        }
    }
    assert_eq!(decode("0f 00").unwrap_err().why, "a server does not take Notify messages");
    assert_eq!(decode("00 00").unwrap_err().why, "there is no message 0");
    assert_eq!(decode("80 00").unwrap_err().why, "there is no message 128");
}

#[test]
fn no_octets_at_all_are_no_message() {
    let malformed = Request::decode(&[]).unwrap_err();
    assert_eq!((malformed.code, malformed.error), (0, ErrorCode::FormatError));
    let malformed = Answer::decode(&[]).unwrap_err();
    assert_eq!((malformed.code, malformed.error), (0, ErrorCode::FormatError));
}

#[test]
fn options_must_end() {
    for code in REQUESTS {
        check(&format!("{code:02x}"), "the options do not end");
        check(&format!("{code:02x}  01 01 05"), "the options do not end");
        check(&format!("{code:02x}  63 00"), "the options do not end");
    }
}

#[test]
fn option_ids_end_at_127() {
    check_bodiless("80 00  00", "option 128: ids end at 127");
    check_bodiless("ff 01 00  00", "option 255: ids end at 127");
}

#[test]
fn an_option_is_not_longer_than_its_message() {
    check_bodiless("63", "option 99: needs 1 octets, has 0");
    check_bodiless("63 80", "option 99: needs 2 octets, has 1");
    check_bodiless("63 05 00", "option 99: needs 5 octets, has 1");
    check_bodiless("63 ff ff ff ff 0f 00", "option 99: needs 4294967295 octets, has 1");
    check_bodiless("63 ff ff ff ff 1f 00", "option 99: a VarInt of more than 32 bits");
    check_bodiless("63 80 80 80 80 80 00 00", "option 99: a VarInt of more than 32 bits");
}

#[test]
fn known_options_are_looked_into_wherever_they_are() {
    check_bodiless("01 00  00", "option 1: needs 1 octets, has 0");
    check_bodiless("01 01 80  00", "option 1: needs 2 octets, has 1");
    check_bodiless("01 02 05 00  00", "option 1: 1 octets too many");
    check_bodiless("01 05 ff ff ff ff 1f  00", "option 1: a VarInt of more than 32 bits");
    check_bodiless("02 01 ff  00", "option 2: not UTF-8");
    check_bodiless("03 00  00", "option 3: needs 1 octets, has 0");
    check_bodiless("03 02 01 80  00", "option 3: needs 2 octets, has 1");
    check_bodiless("03 03 01 05 06  00", "option 3: 1 octets too many");
    check_bodiless("04 00  00", "option 4: needs 1 octets, has 0");
    check_bodiless("04 03 01 05 \"x\"  00", "option 4: needs 5 octets, has 1");
    check_bodiless("04 03 01 01 ff  00", "option 4: not UTF-8");
    check_bodiless("04 03 01 00 00  00", "option 4: 1 octets too many");
}

#[test]
fn a_list_does_not_reach_beyond_its_option() {
    check_bodiless("03 02 02 05  00", "option 3: a list of 2 items in 1 octets");
    check_bodiless("03 05 ff ff ff ff 0f  00", "option 3: a list of 4294967295 items in 0 octets");
    check_bodiless(
        "03 06 80 80 80 80 08 00  00",
        "option 3: a list of 2147483648 items in 1 octets",
    );
    check_bodiless("04 05 ff ff ff ff 07  00", "option 4: a list of 2147483647 items in 0 octets");
    check_bodiless("04 06 80 80 80 80 10 00  00", "option 4: a VarInt of more than 32 bits");
}

#[test]
fn a_message_without_a_body_has_no_octets_after_its_options() {
    for code in REQUESTS.into_iter().filter(|code| ![2, 13].contains(code)) {
        check(&format!("{code:02x}  00  00"), "body: 1 octets too many");
        check(&format!("{code:02x}  63 00  00  01 01 05 00"), "body: 4 octets too many");
    }
    check("0d  01 01 05  00  00", "body: 1 octets too many");
}

#[test]
fn an_event_is_complete_and_nothing_follows_it() {
    check("02  00", "description: needs 1 octets, has 0");
    check("02  00  03 \"ab\"", "description: needs 3 octets, has 2");
    check("02  00  01 ff", "description: not UTF-8");
    check("02  00  ff ff ff ff 0f \"ab\"", "description: needs 4294967295 octets, has 2");
    check("02  00  80 80 80 80 80 00", "description: a VarInt of more than 32 bits");
    check("02  00  01 \"d\"", "period: needs 8 octets, has 0");
    check("02  00  01 \"d\"  40 f5 18 00 00 00 00", "period: needs 8 octets, has 7");
    check("02  00  01 \"d\"  40 f5 18 00 00 00 00 00", "repeat: needs 1 octets, has 0");
    check("02  00  01 \"d\"  40 f5 18 00 00 00 00 00  ff", "repeat: needs 2 octets, has 1");
    check(
        "02  00  01 \"d\"  40 f5 18 00 00 00 00 00  ff ff ff ff 7f",
        "repeat: a VarInt of more than 32 bits",
    );
    check("02  00  01 \"d\"  40 f5 18 00 00 00 00 00  01  00", "body: 1 octets too many");
}

#[test]
fn get_event_asks_for_exactly_one_event() {
    check("0d  00", "0 EventID options where there must be one");
    check("0d  01 01 05  01 01 05  00", "2 EventID options where there must be one");
    check("0d  01 01 05  01 01 06  01 01 07  00", "3 EventID options where there must be one");
    check("0d  03 02 01 05  00", "0 EventID options where there must be one");
}

#[test]
fn a_message_brings_one_token_at_most() {
    check_bodiless("64 01 \"a\"  64 01 \"a\"  00", "option 100: more than one token");
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    let octets = hex("02  04 08 01 06 \"backup\"  64 02 \"tk\"  00  \
         0e \"nightly backup\"  40 f5 18 00 00 00 00 00  07");
    assert!(Request::decode(&octets).is_ok());
    for len in 1..octets.len() {
        let malformed = Request::decode(&octets[..len]).expect_err("a part is not the whole");
        assert_eq!((malformed.code, malformed.error), (2, ErrorCode::FormatError), "{len}");
    }
}

proptest! {
    #[test]
    fn any_octets_are_a_message_or_are_refused_with_their_code(octets in any_octets()) {
        let first = octets.first().copied().unwrap_or(0);
        match Request::decode(&octets) {
            Ok(received) => prop_assert_eq!(received.request.code().octet(), first),
            Err(malformed) => {
                prop_assert_eq!(malformed.code, first);
                prop_assert_eq!(
                    malformed.error == ErrorCode::WrongMessage,
                    !octets.is_empty() && !REQUESTS.contains(&first)
                );
                prop_assert!(malformed.why.len() < 100, "{}", malformed.why);
            }
        }
        match Answer::decode(&octets) {
            Ok(answer) => prop_assert_eq!(answer.code().octet(), first),
            Err(malformed) => prop_assert_eq!(malformed.code, first),
        }
    }

    #[test]
    fn a_request_with_an_octet_too_many_is_refused(request in any_request(), octet: u8) {
        let mut octets = crate::support::frame(&encoded(&request, None)).to_vec();
        octets.push(octet);
        prop_assert!(Request::decode(&octets).is_err());
    }
}

#[test]
fn codes_have_their_numbers_and_names() {
    for (index, code) in MessageCode::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(code.octet()), index + 1);
        assert_eq!(MessageCode::from_octet(code.octet()), Some(code));
        assert_eq!(code.to_string(), format!("{code:?}"));
    }
    for (index, code) in ErrorCode::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(code.octet()), index + 1);
        assert_eq!(ErrorCode::from_octet(code.octet()), Some(code));
        assert_eq!(code.to_string(), format!("{code:?}"));
    }
    assert_eq!(MessageCode::from_octet(0), None);
    assert_eq!(MessageCode::from_octet(16), None);
    assert_eq!(ErrorCode::from_octet(0), None);
    assert_eq!(ErrorCode::from_octet(6), None);
}

//! Every message of a server and every error, octet by octet.

use crate::support::{frame, hex, names, selection};
use bytes::BytesMut;
use handoff_sevent::{Answer, ErrorCode, Event, FrameError, Malformed};

/// The message is written as these octets, and these octets are read as the message.
fn check(answer: Answer, octets: &str) {
    let octets = hex(octets);
    let mut out = BytesMut::from(&b"before"[..]);
    answer.encode(&mut out);
    assert_eq!(out.split_off(6), octets);
    assert_eq!(out, "before");
    assert_eq!(answer.to_bytes(), octets);
    assert_eq!(answer.encoded_len(), octets.len());
    assert_eq!(Answer::decode(&frame(&octets)), Ok(answer));
}

fn backup() -> Event {
    Event { description: "nightly backup".to_owned(), period: 86_400.0, repeat: 7 }
}

fn error(code: ErrorCode) -> Answer {
    Answer::Error { last_id: 13, code, message: "why".to_owned() }
}

#[test]
fn format_error() {
    check(error(ErrorCode::FormatError), "07 01 00  0d 01 \"why\"");
}

#[test]
fn invalid_property() {
    check(error(ErrorCode::InvalidProperty), "07 01 00  0d 02 \"why\"");
}

#[test]
fn internal_error() {
    check(error(ErrorCode::InternalError), "07 01 00  0d 03 \"why\"");
}

#[test]
fn event_not_exists() {
    check(error(ErrorCode::EventNotExists), "07 01 00  0d 04 \"why\"");
}

#[test]
fn wrong_message() {
    check(error(ErrorCode::WrongMessage), "07 01 00  0d 05 \"why\"");
}

#[test]
fn an_error_says_the_code_as_it_was_and_anything_or_nothing_about_it() {
    let of = |last_id, message: &str| Answer::Error {
        last_id,
        code: ErrorCode::WrongMessage,
        message: message.to_owned(),
    };
    check(of(255, ""), "04 01 00  ff 05");
    check(of(0, "нет"), "0a 01 00  00 05 d0 bd d0 b5 d1 82");
    // 200 octets of text: the size takes two.
    check(of(1, &"a".repeat(200)), &format!("cc 01 01 00  01 05 \"{}\"", "a".repeat(200)));
}

#[test]
fn a_malformed_request_is_answered_with_its_own_code() {
    let malformed = Malformed { code: 13, error: ErrorCode::FormatError, why: "why".to_owned() };
    assert_eq!(malformed.to_string(), "why");
    assert_eq!(Answer::from(malformed), error(ErrorCode::FormatError));
}

#[test]
fn a_broken_frame_is_answered_with_code_zero() {
    let Answer::Error { last_id: 0, code: ErrorCode::FormatError, message } =
        Answer::from(FrameError::TooLarge { size: 2_000_000, max: 1_048_576 })
    else {
        panic!("a broken frame is a FormatError");
    };
    assert_eq!(message, "a message of 2000000 octets; at most 1048576 are taken");
    assert_eq!(
        Answer::from(FrameError::Empty).to_bytes(),
        hex("1a 01 00  00 01 \"a message of size zero\"")
    );
}

#[test]
fn event_registration() {
    check(
        Answer::EventRegistration { id: 0, timestamp: 1_700_000_000 },
        "0d 03  01 01 00  00  00 00 00 00 65 53 f1 00",
    );
    check(
        Answer::EventRegistration { id: i32::MAX, timestamp: -1 },
        "11 03  01 05 ff ff ff ff 07  00  ff ff ff ff ff ff ff ff",
    );
}

#[test]
fn listed_events() {
    check(Answer::ListedEvents { ids: Vec::new() }, "05 05  03 01 00  00");
    check(Answer::ListedEvents { ids: vec![0, 1, 687] }, "09 05  03 05 03 00 01 af 05  00");
}

#[test]
fn deleted_events() {
    check(Answer::DeletedEvents { ids: Vec::new() }, "05 07  03 01 00  00");
    check(Answer::DeletedEvents { ids: vec![48_677] }, "08 07  03 04 01 a5 fc 02  00");
}

#[test]
fn filter_updated() {
    check(Answer::FilterUpdated, "02 0a 00");
}

#[test]
fn filter() {
    check(Answer::Filter(selection(&[], &[])), "08 0c  03 01 00  04 01 00  00");
    check(
        Answer::Filter(selection(&[1, 687], &["a", "bc"])),
        "10 0c  03 04 02 01 af 05  04 06 02 01 \"a\" 02 \"bc\"  00",
    );
}

#[test]
fn event_info() {
    check(
        Answer::EventInfo {
            id: 5,
            types: names(&["backup"]),
            event: backup(),
            timestamp: 1_700_000_000,
        },
        "2f 0e  01 01 05  04 08 01 06 \"backup\"  00  0e \"nightly backup\"  \
         40 f5 18 00 00 00 00 00  07  00 00 00 00 65 53 f1 00",
    );
}

#[test]
fn notify() {
    check(
        Answer::Notify {
            id: 5,
            types: names(&["backup"]),
            event: backup(),
            timestamp: 1_700_000_000,
        },
        "2f 0f  01 01 05  04 08 01 06 \"backup\"  00  0e \"nightly backup\"  \
         40 f5 18 00 00 00 00 00  07  00 00 00 00 65 53 f1 00",
    );
    check(
        Answer::Notify {
            id: 5,
            types: Vec::new(),
            event: Event { description: String::new(), period: 0.5, repeat: -1 },
            timestamp: 0,
        },
        "1e 0f  01 01 05  04 01 00  00  00  3f e0 00 00 00 00 00 00  ff ff ff ff 0f  \
         00 00 00 00 00 00 00 00",
    );
}

#[test]
fn a_notification_is_encoded_once_and_shared() {
    let answer = Answer::Notify {
        id: 5,
        types: names(&["backup"]),
        event: backup(),
        timestamp: 1_700_000_000,
    };
    let encoded = answer.to_bytes();
    let shared = encoded.clone();
    assert_eq!(encoded.as_ptr(), shared.as_ptr());
}

#[test]
fn a_client_reads_every_occurrence_of_an_option_and_skips_unknown_ones() {
    assert_eq!(
        Answer::decode(&hex("05  03 02 01 05  63 02 ff ff  03 02 01 06  01 01 07  00")),
        Ok(Answer::ListedEvents { ids: vec![5, 6, 7] })
    );
    assert_eq!(Answer::decode(&hex("0a  7f 00  00")), Ok(Answer::FilterUpdated));
}

#[test]
fn a_client_refuses_what_lacks_its_options() {
    let cases = [
        ("03  00  00 00 00 00 65 53 f1 00", "0 EventID options where there must be one"),
        (
            "03  01 01 05  01 01 06  00  00 00 00 00 65 53 f1 00",
            "2 EventID options where there must be one",
        ),
        ("05  00", "no EventIDs option"),
        ("05  01 01 05  00", "no EventIDs option"),
        ("07  00", "no EventIDs option"),
        ("0c  04 01 00  00", "no EventIDs option"),
        ("0c  03 01 00  00", "no EventTypes option"),
        ("0e  01 01 05  00", "no EventTypes option"),
        ("0f  04 01 00  00", "0 EventID options where there must be one"),
    ];
    for (octets, why) in cases {
        let malformed = Answer::decode(&hex(octets)).unwrap_err();
        assert_eq!((malformed.error, &*malformed.why), (ErrorCode::FormatError, why), "{octets}");
    }
}

#[test]
fn a_client_refuses_broken_bodies() {
    let cases = [
        ("01  00", "body: needs 1 octets, has 0"),
        ("01  00  02", "body: needs 1 octets, has 0"),
        ("01  00  02 06", "there is no error 6"),
        ("01  00  02 00", "there is no error 0"),
        ("01  00  02 01 ff", "message: not UTF-8"),
        ("03  01 01 05  00  00 00", "timestamp: needs 8 octets, has 2"),
        ("03  01 01 05  00  00 00 00 00 65 53 f1 00 00", "body: 1 octets too many"),
        ("05  03 01 00  00  00", "body: 1 octets too many"),
        ("0a  00  00", "body: 1 octets too many"),
        ("0e  01 01 05  04 01 00  00", "description: needs 1 octets, has 0"),
        ("0f  01 01 05  04 01 00  00  00 3f", "period: needs 8 octets, has 1"),
    ];
    for (octets, why) in cases {
        let malformed = Answer::decode(&hex(octets)).unwrap_err();
        assert_eq!((malformed.error, &*malformed.why), (ErrorCode::FormatError, why), "{octets}");
    }
}

#[test]
fn a_client_takes_no_requests() {
    for code in [0, 2, 4, 6, 8, 9, 11, 13, 16, 127, 128, 255] {
        let malformed = Answer::decode(&[code, 0]).unwrap_err();
        assert_eq!((malformed.code, malformed.error), (code, ErrorCode::WrongMessage));
    }
}

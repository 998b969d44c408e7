//! Every message of a client, octet by octet.

use crate::support::{decode, encoded, frame, hex, names, selection};
use handoff_sevent::{Event, Received, Request};

/// The message is written as these octets, and these octets are read as the message.
fn check(request: Request, token: Option<&[u8]>, octets: &str) {
    let octets = hex(octets);
    assert_eq!(encoded(&request, token), octets);
    let received = Request::decode(&frame(&octets)).unwrap();
    assert_eq!(received.request, request);
    assert_eq!(received.token.as_deref(), token);
}

fn asked(text: &str) -> Request {
    decode(text).unwrap().request
}

#[test]
fn register_event() {
    check(
        Request::RegisterEvent {
            event: Event { description: "nightly backup".to_owned(), period: 86_400.0, repeat: 7 },
            types: names(&["backup"]),
        },
        None,
        "24 02  04 08 01 06 \"backup\"  00  0e \"nightly backup\"  40 f5 18 00 00 00 00 00  07",
    );
    check(
        Request::RegisterEvent {
            event: Event { description: String::new(), period: 0.5, repeat: -1 },
            types: Vec::new(),
        },
        None,
        "10 02  00  00  3f e0 00 00 00 00 00 00  ff ff ff ff 0f",
    );
}

#[test]
fn list_events() {
    check(Request::ListEvents { types: None }, None, "02 04 00");
    check(Request::ListEvents { types: Some(Vec::new()) }, None, "05 04  04 01 00  00");
    check(
        Request::ListEvents { types: Some(names(&["a", "б"])) },
        None,
        "0a 04  04 06 02 01 \"a\" 02 d0 b1  00",
    );
}

#[test]
fn delete_event() {
    check(Request::DeleteEvent(selection(&[], &[])), None, "02 06 00");
    check(
        Request::DeleteEvent(selection(&[687, 48_677, 0], &["x"])),
        None,
        "10 06  03 07 03 af 05 a5 fc 02 00  04 03 01 01 \"x\"  00",
    );
}

#[test]
fn subscribe() {
    check(Request::Subscribe(selection(&[5], &[])), None, "06 08  03 02 01 05  00");
}

#[test]
fn unsubscribe() {
    check(Request::Unsubscribe(selection(&[], &["x"])), None, "07 09  04 03 01 01 \"x\"  00");
}

#[test]
fn get_filter() {
    check(Request::GetFilter, None, "02 0b 00");
}

#[test]
fn filter() {
    check(Request::Filter(selection(&[], &[])), None, "02 0c 00");
    check(
        Request::Filter(selection(&[1], &["a"])),
        None,
        "0b 0c  03 02 01 01  04 03 01 01 \"a\"  00",
    );
}

#[test]
fn get_event() {
    check(Request::GetEvent { id: 687 }, None, "06 0d  01 02 af 05  00");
    check(Request::GetEvent { id: -1 }, None, "09 0d  01 05 ff ff ff ff 0f  00");
}

#[test]
fn any_request_may_bring_a_token() {
    check(Request::GetFilter, Some(b"s3cret"), "0a 0b  64 06 \"s3cret\"  00");
    check(Request::GetFilter, Some(b""), "04 0b  64 00  00");
    check(Request::GetEvent { id: 5 }, Some(&[0xff, 0]), "09 0d  01 01 05  64 02 ff 00  00");
}

#[test]
fn a_token_is_not_shown() {
    let received = decode("0b  64 06 \"s3cret\"  00").unwrap();
    let shown = format!("{received:?}");
    assert_eq!(shown, "Received { request: GetFilter, has_token: true }");
}

#[test]
fn every_occurrence_of_an_option_counts() {
    let event = "00  01 \"d\"  3f f0 00 00 00 00 00 00  01";
    let types = "02 01 \"a\"  04 05 02 01 \"b\" 01 \"c\"  02 00  04 01 00  02 01 \"a\"";
    let Request::RegisterEvent { types: found, .. } = asked(&format!("02 {types} {event}")) else {
        panic!("RegisterEvent is what was sent");
    };
    assert_eq!(found, ["a", "b", "c", "", "a"]);
    assert_eq!(
        asked(&format!("04 {types} 00")),
        Request::ListEvents { types: Some(names(&["a", "b", "c", "", "a"])) }
    );

    let options = "01 01 05  02 01 \"x\"  03 03 02 06 07  01 01 05  04 03 01 01 \"y\"  03 01 00  \
                   03 02 01 08";
    let all = selection(&[5, 6, 7, 5, 8], &["x", "y"]);
    assert_eq!(asked(&format!("06 {options} 00")), Request::DeleteEvent(all.clone()));
    assert_eq!(asked(&format!("08 {options} 00")), Request::Subscribe(all.clone()));
    assert_eq!(asked(&format!("09 {options} 00")), Request::Unsubscribe(all.clone()));
    assert_eq!(asked(&format!("0c {options} 00")), Request::Filter(all));
}

#[test]
fn listing_by_no_type_is_not_listing_everything() {
    assert_eq!(asked("04  00"), Request::ListEvents { types: None });
    assert_eq!(asked("04  04 01 00  00"), Request::ListEvents { types: Some(Vec::new()) });
    assert_eq!(asked("04  02 00  00"), Request::ListEvents { types: Some(names(&[""])) });
    // Ids are no types.
    assert_eq!(asked("04  01 01 05  03 02 01 06  00"), Request::ListEvents { types: None });
}

#[test]
fn unknown_options_are_skipped_by_their_size() {
    let unknown = "05 00  7f 03 00 01 02  63 81 00 ff  65 01 64";
    let known = Received { request: Request::GetEvent { id: 5 }, token: None };
    assert_eq!(decode(&format!("0d {unknown} 01 01 05 {unknown} 00")), Ok(known));
    assert_eq!(
        asked(&format!("08 {unknown} 03 02 01 06 {unknown} 00")),
        Request::Subscribe(selection(&[6], &[]))
    );
}

#[test]
fn options_a_message_has_no_use_for_are_ignored() {
    assert_eq!(asked("0b  01 01 05  02 01 \"x\"  03 01 00  04 01 00  00"), Request::GetFilter);
    assert_eq!(
        asked("0d  02 01 \"x\"  03 02 01 06  01 01 05  04 01 00  00"),
        Request::GetEvent { id: 5 }
    );
    assert!(matches!(
        asked("02  01 01 05  03 01 00  00  00  3f f0 00 00 00 00 00 00  01"),
        Request::RegisterEvent { types, .. } if types.is_empty()
    ));
}

#[test]
fn numbers_inside_a_request_may_be_longer_than_they_need_be() {
    assert_eq!(asked("0d  01 82 00 85 00  00"), Request::GetEvent { id: 5 });
    assert_eq!(asked("08  03 84 80 00 81 00 85 00  00"), Request::Subscribe(selection(&[5], &[])));
}

#[test]
fn a_period_that_is_no_number_is_for_the_room_to_refuse() {
    let Request::RegisterEvent { event, .. } =
        asked("02  00  00  7f f8 00 00 00 00 be ef  fe ff ff ff 0f")
    else {
        panic!("RegisterEvent is what was sent");
    };
    assert_eq!(event.period.to_bits(), 0x7ff8_0000_0000_beef);
    assert_eq!(event.repeat, -2);
}

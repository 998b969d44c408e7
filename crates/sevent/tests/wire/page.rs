//! `docs/sevent.md` shows octets that people paste. They must be messages.

use crate::support::{frame, hex};
use handoff_sevent::{Answer, MessageCode, Request};

const PAGE: &str = include_str!("../../../../docs/sevent.md");

/// A dump that is longer than this is of more than one message.
const LINE_OF_XXD: usize = 16;

#[test]
fn what_the_page_sends_are_requests() {
    let mut sent = Vec::new();
    for line in PAGE.lines().filter(|line| line.contains("xxd -r -p")) {
        let Some((_, rest)) = line.split_once("echo '") else { continue };
        let (digits, _) = rest.split_once('\'').expect("the quote ends");
        let received = Request::decode(&frame(&pairs(digits))).expect(line);
        sent.push(received.request.code());
    }
    assert_eq!(
        sent,
        [
            MessageCode::ListEvents,
            MessageCode::RegisterEvent,
            MessageCode::GetEvent,
            MessageCode::Subscribe,
            MessageCode::RegisterEvent,
        ]
    );
}

#[test]
fn what_the_page_gets_are_answers() {
    let mut got = Vec::new();
    for line in PAGE.lines() {
        let Some((_, rest)) = line.split_once("00000000: ") else { continue };
        let (octets, _) = rest.split_once("  ").expect("a dump has columns");
        assert!(octets.split(' ').count() <= LINE_OF_XXD);
        let answer = Answer::decode(&frame(&hex(octets))).expect(line);
        got.push(answer.code());
    }
    assert_eq!(got, [MessageCode::ListedEvents, MessageCode::EventRegistration]);
}

/// Hex with white space anywhere between octets.
fn pairs(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let octets = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    hex(&octets.collect::<Vec<_>>().join(" "))
}

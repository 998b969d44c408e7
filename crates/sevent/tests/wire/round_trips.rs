//! What is written is read back, and what was read is written the same for ever after.

use crate::support::{any_answer, any_octets, any_request, encoded, frame};
use bytes::{Bytes, BytesMut};
use handoff_sevent::{Answer, Received, Request};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_request_comes_back(
        request in any_request(),
        token in proptest::option::of(vec(any::<u8>(), 0..200)),
    ) {
        let octets = encoded(&request, token.as_deref());
        let received = Request::decode(&frame(&octets));
        prop_assert_eq!(received, Ok(Received { request, token: token.map(Bytes::from) }));
    }

    #[test]
    fn every_answer_comes_back(answer in any_answer()) {
        let octets = answer.to_bytes();
        prop_assert_eq!(octets.len(), answer.encoded_len());
        prop_assert_eq!(Answer::decode(&frame(&octets)), Ok(answer));
    }

    // Compared as octets: a NaN is not equal to itself.
    #[test]
    fn what_was_read_is_written_the_same_ever_after(octets in any_octets()) {
        if let Ok(received) = Request::decode(&octets) {
            let mut once = BytesMut::new();
            received.encode(&mut once);
            let mut twice = BytesMut::new();
            Request::decode(&frame(&once)).unwrap().encode(&mut twice);
            prop_assert_eq!(once, twice);
        }
        if let Ok(answer) = Answer::decode(&octets) {
            let once = answer.to_bytes();
            prop_assert_eq!(&Answer::decode(&frame(&once)).unwrap().to_bytes(), &once);
        }
    }
}

//! The reader of MessagePack. It is the server's own file: the server is not built for this.

use bytes::Bytes;

#[path = "../../crates/server/src/http/streams/msgpack.rs"]
#[allow(dead_code, unreachable_pub, reason = "the server uses all of it")]
mod msgpack;

/// A body: read head by head, then as a whole.
pub fn body(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    let mut unpack = msgpack::Unpack::new(body.clone());
    while let Ok(token) = unpack.next() {
        match token {
            msgpack::Token::Array(count) | msgpack::Token::Map(count) => {
                assert!(count <= data.len(), "more is announced than there can be");
            }
            msgpack::Token::Text(part) | msgpack::Token::Octets(part) => {
                assert!(part.is_empty() || data_holds(&body, &part), "nothing is copied");
            }
            msgpack::Token::Signed(n) => assert!(n < 0),
            _ => {}
        }
    }
    let Ok(value) = msgpack::to_json(body) else { return };
    let mut written = Vec::new();
    msgpack::from_json(&value, &mut written);
    let again = msgpack::to_json(written.into()).expect("what is written is read");
    assert_eq!(again, value);
}

fn data_holds(body: &Bytes, part: &Bytes) -> bool {
    let (body, part) = (body.as_ptr_range(), part.as_ptr_range());
    body.start <= part.start && part.end <= body.end
}

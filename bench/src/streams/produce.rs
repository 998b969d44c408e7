//! Produce requests, ready to be sent.

use crate::http::post;

/// A produce request in MessagePack: messages of this many bytes, with keys if any are given.
pub(super) fn produce(topic: &str, count: usize, bytes: usize, keys: &[String]) -> Vec<u8> {
    let payload: Vec<u8> = b"handoff ".iter().copied().cycle().take(bytes).collect();
    let mut body = vec![0x82];
    text(&mut body, "version");
    body.push(1);
    text(&mut body, "messages");
    body.push(0xdd);
    body.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
    for number in 0..count {
        let key = keys.get(number % keys.len().max(1));
        body.push(0x81 + u8::from(key.is_some()));
        if let Some(key) = key {
            text(&mut body, "key");
            text(&mut body, key);
        }
        text(&mut body, "payload");
        body.push(0xc6);
        body.extend_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes());
        body.extend_from_slice(&payload);
    }
    post(&format!("/v1/streams/topics/{topic}/messages"), "application/msgpack", &body)
}

/// A text of fewer than 256 bytes.
fn text(out: &mut Vec<u8>, text: &str) {
    out.push(0xd9);
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(text.as_bytes());
}

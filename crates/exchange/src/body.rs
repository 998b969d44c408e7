//! A message's body: one JSON object, put together from names that need no escaping and from a
//! payload that was checked when it came.

use bytes::Bytes;

use crate::NewMessage;

/// Who sends, to whom, in which subsystem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) subsystem: &'a str,
}

pub(crate) fn compose(address: Address<'_>, message: &NewMessage) -> Bytes {
    let Address { from, to, subsystem } = address;
    let NewMessage { id, kind, created_text, reply_to, payload, .. } = message;
    let mut head = format!(
        r#"{{"version":1,"id":"{id}","from":"{from}","to":"{to}","appSystem":"{subsystem}","createdAt":"{created_text}""#
    );
    if let Some(reply_to) = reply_to {
        head.push_str(&format!(r#","replyTo":"{reply_to}""#));
    }
    if let Some(kind) = kind {
        head.push_str(&format!(r#","type":"{kind}""#));
    }
    head.push_str(r#","payload":"#);
    let mut body = Vec::with_capacity(head.len() + payload.len() + 1);
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(payload);
    body.push(b'}');
    body.into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use handoff_types::Wall;

    use super::{Address, compose};
    use crate::NewMessage;

    #[test]
    fn a_body_is_one_object_with_the_payload_as_it_came() {
        let message = NewMessage {
            id: "m-1".parse().unwrap(),
            kind: Some("DOCS".parse().unwrap()),
            created: Wall(0),
            created_text: "1970-01-01T00:00:00Z".into(),
            reply_to: Some("q-1".parse().unwrap()),
            payload: Bytes::from_static(br#"{"a": 1}"#),
            digest: 0,
        };
        let address = Address { from: "phone", to: "db", subsystem: "stock" };
        assert_eq!(
            compose(address, &message),
            r#"{"version":1,"id":"m-1","from":"phone","to":"db","appSystem":"stock","createdAt":"1970-01-01T00:00:00Z","replyTo":"q-1","type":"DOCS","payload":{"a": 1}}"#
        );
        let plain = NewMessage { kind: None, reply_to: None, ..message };
        assert_eq!(
            compose(address, &plain),
            r#"{"version":1,"id":"m-1","from":"phone","to":"db","appSystem":"stock","createdAt":"1970-01-01T00:00:00Z","payload":{"a": 1}}"#
        );
    }
}

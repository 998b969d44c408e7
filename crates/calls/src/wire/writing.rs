//! Frames as text. What serde makes of them is the same, letter for letter (a test compares); this asks
//! nobody about names that never change, and takes bodies for what they are: JSON already.

use std::io::Write as _;

use super::{
    CallError, Down, Empty, Ended, Fenced, Init, Named, Offer, Ping, Pong, Request, Response, Up,
};
use crate::names::ID_LENGTH;

/// A frame that can be written. Its bodies are JSON.
pub trait Frame {
    /// Puts the text of the frame behind what is there.
    fn write(&self, out: &mut Vec<u8>);
}

impl Frame for Up<&[u8]> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Init(init) => write_init(init, out),
            Self::Ping(Ping { n }) => Members::begin(out, "ping").number("n", *n).end(),
            Self::Request(request) => write_request(request, out),
            Self::RequestAck(fenced) => write_fenced("request_ack", *fenced, out),
            Self::Heartbeat(fenced) => write_fenced("heartbeat", *fenced, out),
            Self::Response(response) => write_response(response, out),
            Self::ResponseAck(named) => write_named("response_ack", *named, out),
            Self::Cancel(named) => write_named("cancel", *named, out),
            Self::Stop(Empty {}) => Members::begin(out, "stop").end(),
        }
    }
}

impl Frame for Down<&[u8]> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::A(pong) => write_pong(pong, out),
            Self::B(offer) => write_offer(offer, out),
            Self::C(named) => write_named("c", *named, out),
            Self::D(held) => {
                let members = Members::begin(out, "d").id("id", &held.id.text());
                members.number("fence", held.fence).flag("held", held.held).end();
            }
            Self::E(ended) => write_ended(ended, out),
            Self::F(named) => write_named("f", *named, out),
            Self::G(taken) => {
                let members = Members::begin(out, "g").id("id", &taken.id.text());
                members.number("fence", taken.fence).flag("taken", taken.taken).end();
            }
            Self::H(Empty {}) => Members::begin(out, "h").end(),
            Self::Cancelled(fenced) => write_fenced("cancelled", *fenced, out),
        }
    }
}

fn write_named(kind: &'static str, Named { id }: Named, out: &mut Vec<u8>) {
    Members::begin(out, kind).id("id", &id.text()).end();
}

fn write_fenced(kind: &'static str, Fenced { id, fence }: Fenced, out: &mut Vec<u8>) {
    Members::begin(out, kind).id("id", &id.text()).number("fence", fence).end();
}

fn write_init(init: &Init, out: &mut Vec<u8>) {
    let name = Some(&*init.name).filter(|name| !name.is_empty());
    let mut members =
        Members::begin(out, "init").id("client", &init.client.text()).some_text("name", name);
    if !init.serves.is_empty() {
        members.name("serves");
        for (number, serves) in init.serves.iter().enumerate() {
            members.out.extend_from_slice(if number == 0 { b"[{" } else { b",{" });
            members.first = true;
            members = members
                .text("channel", serves.channel.as_str())
                .number("concurrency", u64::from(serves.concurrency));
            members.out.push(b'}');
        }
        members.out.push(b']');
    }
    members.if_so("many", init.many).if_so("eager", init.eager).end();
}

fn write_pong(pong: &Pong, out: &mut Vec<u8>) {
    Members::begin(out, "a")
        .number("n", pong.n)
        .some_number("pingIntervalMs", pong.ping_interval_ms)
        .some_number("pingTimeoutMs", pong.ping_timeout_ms)
        .some_number("bodyBytesMax", pong.body_bytes_max)
        .if_so("many", pong.many)
        .end();
}

fn write_request(request: &Request<&[u8]>, out: &mut Vec<u8>) {
    Members::begin(out, "request")
        .id("id", &request.id.text())
        .text("channel", request.channel.as_str())
        .body("params", request.params)
        .some_text("key", request.key.as_ref().map(|key| key.as_str()))
        .some_number("timeoutMs", request.timeout_ms)
        .some_number("queueTimeoutMs", request.queue_timeout_ms)
        .if_so("onlyWithConsumer", request.only_with_consumer)
        .some_text("traceparent", request.traceparent.as_ref().map(|trace| trace.as_str()))
        .end();
}

fn write_response(response: &Response<&[u8]>, out: &mut Vec<u8>) {
    Members::begin(out, "response")
        .id("id", &response.id.text())
        .number("fence", response.fence)
        .body("answer", response.answer)
        .error(response.error.as_ref())
        .if_so("terminal", response.terminal)
        .some_number("retryAfterMs", response.retry_after_ms)
        .end();
}

fn write_offer(offer: &Offer<&[u8]>, out: &mut Vec<u8>) {
    let mut members =
        Members::begin(out, "b").id("id", &offer.id.text()).text("channel", offer.channel.as_str());
    if let Some(caller) = offer.caller {
        members = members.id("caller", &caller.text());
    }
    members
        .body("params", Some(offer.params))
        .number("fence", offer.fence)
        .number("attempt", u64::from(offer.attempt))
        .number("deadlineMs", offer.deadline_ms)
        .number("leaseMs", offer.lease_ms)
        .if_so("held", offer.held)
        .some_text("traceparent", offer.traceparent.as_ref().map(|trace| trace.as_str()))
        .end();
}

fn write_ended(ended: &Ended<&[u8]>, out: &mut Vec<u8>) {
    let members = Members::begin(out, "e")
        .id("id", &ended.id.text())
        .number("status", u64::from(ended.status))
        .body("answer", ended.answer)
        .error(ended.error.as_ref());
    match ended.executor {
        Some(executor) => members.id("executor", &executor.text()).end(),
        None => members.end(),
    }
}

/// The members of a frame, one behind the other. Names are words that need no escaping.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Members<'a> {
    fn begin(out: &'a mut Vec<u8>, kind: &'static str) -> Self {
        for piece in ["{\"", kind, "\":{"] {
            out.extend_from_slice(piece.as_bytes());
        }
        Self { out, first: true }
    }

    fn name(&mut self, name: &'static str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        for piece in ["\"", name, "\":"] {
            self.out.extend_from_slice(piece.as_bytes());
        }
    }

    fn id(mut self, name: &'static str, text: &[u8; ID_LENGTH]) -> Self {
        self.name(name);
        self.out.push(b'"');
        self.out.extend_from_slice(text);
        self.out.push(b'"');
        self
    }

    fn number(mut self, name: &'static str, number: u64) -> Self {
        self.name(name);
        // A vector takes whatever is written to it.
        drop(write!(self.out, "{number}"));
        self
    }

    fn some_number(self, name: &'static str, number: Option<u64>) -> Self {
        match number {
            Some(number) => self.number(name, number),
            None => self,
        }
    }

    fn flag(mut self, name: &'static str, flag: bool) -> Self {
        self.name(name);
        self.out.extend_from_slice(if flag { b"true" } else { b"false" });
        self
    }

    fn if_so(self, name: &'static str, flag: bool) -> Self {
        if flag { self.flag(name, true) } else { self }
    }

    fn text(mut self, name: &'static str, text: &str) -> Self {
        self.name(name);
        write_text(text, self.out);
        self
    }

    fn some_text(self, name: &'static str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    fn body(mut self, name: &'static str, body: Option<&[u8]>) -> Self {
        if let Some(body) = body {
            self.name(name);
            self.out.extend_from_slice(body);
        }
        self
    }

    fn error(mut self, error: Option<&CallError>) -> Self {
        let Some(CallError { name, message, code }) = error else { return self };
        self.name("error");
        self.out.push(b'{');
        self.first = true;
        let members = self.text("name", name).text("message", message).text("code", code);
        members.out.push(b'}');
        members
    }

    fn end(self) {
        self.out.extend_from_slice(b"}}");
    }
}

/// A text between quotes, with what JSON wants escaped.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, behind)) = escaped.split_first() else { break };
        let short = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            _ => 0,
        };
        match short {
            // A vector takes whatever is written to it.
            0 => drop(write!(out, "\\u{byte:04x}")),
            short => out.extend_from_slice(&[b'\\', short]),
        }
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use serde::Serialize;

    use super::super::Serves;
    use super::*;
    use crate::{CallId, ClientId, IdempotencyKey, TraceParent};

    const BODIES: [&str; 4] = ["null", "{\"a\":[1,\"\\n\"]}", "\"ü\"", "7"];

    fn raw(body: &str) -> &RawValue {
        serde_json::from_str(body).unwrap()
    }

    /// What is written, and what serde makes of the same frame.
    fn same(written: &impl Frame, by_serde: &impl Serialize) {
        let mut text = b"before".to_vec();
        written.write(&mut text);
        let by_serde = serde_json::to_string(by_serde).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), format!("before{by_serde}"));
    }

    /// Whatever a frame can hold.
    #[derive(Clone, Debug)]
    struct Held {
        id: CallId,
        client: Option<ClientId>,
        body: Option<&'static str>,
        key: Option<IdempotencyKey>,
        trace: Option<TraceParent>,
        error: Option<CallError>,
        numbers: (u64, Option<u64>, Option<u64>),
        flag: bool,
    }

    fn held() -> impl Strategy<Value = Held> {
        let error =
            ("(?s).{0,9}", "[\\x00-\\x7f]{0,9}", ".{0,9}").prop_map(|(name, message, code)| {
                CallError { name: name.into(), message: message.into(), code: code.into() }
            });
        let trace = any::<u128>().prop_map(|n| {
            format!("00-{:032x}-00f067aa0ba902b7-01", n | 1).parse::<TraceParent>().unwrap()
        });
        (
            (any::<u128>(), of(any::<u128>())),
            of(proptest::sample::select(&BODIES[..])),
            of("[ -~]{1,20}".prop_filter_map("no key", |key| key.parse().ok())),
            of(trace),
            of(error),
            (any::<u64>(), of(any::<u64>()), of(any::<u64>())),
            any::<bool>(),
        )
            .prop_map(|((id, client), body, key, trace, error, numbers, flag)| Held {
                id: CallId::from_number(id),
                client: client.map(ClientId::from_number),
                body,
                key,
                trace,
                error,
                numbers,
                flag,
            })
    }

    fn ups<B>(held: &Held, body: impl Fn(&'static str) -> B) -> Vec<Up<B>> {
        let Held { id, key, trace, error, numbers: (n, some, other), flag, .. } = held.clone();
        let channel: crate::ChannelName = "orders.eu-1".parse().unwrap();
        let serves = vec![Serves { channel: channel.clone(), concurrency: 3 }];
        let client = ClientId::from_number(id.number());
        let name = "a \"name\"".into();
        vec![
            Up::Init(Init { client, name, serves, many: flag, eager: !flag }),
            Up::Ping(Ping { n }),
            Up::Request(Request {
                id,
                channel,
                params: held.body.map(&body),
                key,
                timeout_ms: some,
                queue_timeout_ms: other,
                only_with_consumer: flag,
                traceparent: trace,
            }),
            Up::RequestAck(Fenced { id, fence: n }),
            Up::Heartbeat(Fenced { id, fence: n }),
            Up::Response(Response {
                id,
                fence: n,
                answer: held.body.map(&body),
                error,
                terminal: flag,
                retry_after_ms: some,
            }),
            Up::ResponseAck(Named { id }),
            Up::Cancel(Named { id }),
            Up::Stop(Empty {}),
        ]
    }

    fn downs<B>(held: &Held, body: impl Fn(&'static str) -> B) -> Vec<Down<B>> {
        let Held { id, client, trace, error, numbers: (n, some, other), flag, .. } = held.clone();
        vec![
            Down::A(Pong {
                n,
                ping_interval_ms: some,
                ping_timeout_ms: other,
                body_bytes_max: some,
                many: flag,
            }),
            Down::B(Offer {
                id,
                channel: "orders.eu-1".parse().unwrap(),
                caller: client,
                params: body(held.body.unwrap_or("null")),
                fence: n,
                attempt: 3,
                deadline_ms: n,
                lease_ms: 30_000,
                held: flag,
                traceparent: trace,
            }),
            Down::C(Named { id }),
            Down::D(super::super::Held { id, fence: n, held: flag }),
            Down::E(Ended { id, status: 2, answer: held.body.map(&body), error, executor: client }),
            Down::F(Named { id }),
            Down::G(super::super::Taken { id, fence: n, taken: flag }),
            Down::H(Empty {}),
            Down::Cancelled(Fenced { id, fence: n }),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_is_written_as_serde_writes_it(held in held()) {
            let bytes = |body: &'static str| body.as_bytes();
            for (ours, theirs) in ups(&held, bytes).iter().zip(&ups(&held, raw)) {
                same(ours, theirs);
            }
            for (ours, theirs) in downs(&held, bytes).iter().zip(&downs(&held, raw)) {
                same(ours, theirs);
            }
        }
    }
}

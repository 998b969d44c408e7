//! The other side: a listener, and WebSockets that are read and written by hand.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use handoff_sdk::calls::{Caller, CallerOptions, WorkerOptions};
use handoff_sdk::{Backoff, Client, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_websockets::{CloseCode, Message, ServerBuilder, WebSocketStream};

/// Longer than anything here takes on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for what must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it should have come by now")
}

/// Long enough that no busy machine is taken for a silent one.
pub(crate) const CALM: Duration = Duration::from_secs(20);

/// Short enough to wait for.
pub(crate) const HASTY: Duration = Duration::from_millis(50);

pub(crate) fn backoff() -> Backoff {
    Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(5) }
}

pub(crate) struct Listener(TcpListener);

pub(crate) async fn listener() -> Listener {
    Listener(TcpListener::bind("127.0.0.1:0").await.unwrap())
}

impl Listener {
    pub(crate) fn options(&self) -> Options {
        Options::new(format!("http://{}", self.0.local_addr().unwrap()))
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.options().token("secret")).unwrap()
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        within(self.0.accept()).await.unwrap().0
    }

    /// The next connection, and its greeting answered.
    pub(crate) async fn greeted(&self) -> Peer {
        let mut peer = self.accept().await;
        let init = peer.asked("init").await;
        assert_eq!(init["client"].as_str().unwrap().len(), 36);
        peer.client = init["client"].as_str().unwrap().to_owned();
        peer.init = init;
        peer.say(json!({"a": {"n": 0, "bodyBytesMax": 10_000}})).await;
        peer
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Peer {
        let name = "sec-websocket-protocol".parse().unwrap();
        let protocol = "handoff.calls.v1".parse().unwrap();
        let builder = ServerBuilder::new().add_header(name, protocol).unwrap();
        let (request, web) = within(builder.accept(self.tcp().await)).await.unwrap();
        assert_eq!(request.uri().path(), "/v1/calls/connect");
        assert_eq!(request.headers()["authorization"], "Bearer secret");
        assert_eq!(request.headers()["sec-websocket-protocol"], "handoff.calls.v1");
        Peer { web, client: String::new(), init: Value::Null }
    }

    /// A caller, and the server's end of its first connection.
    pub(crate) async fn caller(&self, options: CallerOptions) -> (Caller, Peer) {
        let client = self.client();
        let calls = client.calls();
        let options = options.backoff(backoff());
        let (caller, peer) =
            within(async { tokio::join!(calls.caller(options), self.greeted()) }).await;
        (caller.unwrap(), peer)
    }
}

/// A caller that takes nobody for silent.
pub(crate) fn calm() -> CallerOptions {
    CallerOptions::new().ping(CALM, CALM)
}

pub(crate) fn calm_worker() -> WorkerOptions {
    WorkerOptions::new().ping(CALM, CALM).backoff(backoff())
}

/// One connection of a client.
pub(crate) struct Peer {
    web: WebSocketStream<TcpStream>,
    pub(crate) client: String,
    pub(crate) init: Value,
}

impl Peer {
    /// The members of the next frame, which is of this kind. Pings are answered on the way.
    pub(crate) async fn asked(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.heard().await.expect("a frame, not the end");
            if let (Some(ping), false) = (frame.get("ping"), kind == "ping") {
                self.say(json!({"a": {"n": ping["n"]}})).await;
                continue;
            }
            assert!(frame.get(kind).is_some(), "{kind} should have come, not {frame}");
            return frame[kind].clone();
        }
    }

    /// The next frame, whatever it is; none at the end.
    pub(crate) async fn heard(&mut self) -> Option<Value> {
        loop {
            let message = match within(self.web.next()).await {
                Some(Ok(message)) if !message.is_close() => message,
                _ => return None,
            };
            if let Some(text) = message.as_text() {
                return Some(serde_json::from_str(text).unwrap());
            }
        }
    }

    pub(crate) async fn say(&mut self, frame: Value) {
        self.say_text(&frame.to_string()).await;
    }

    pub(crate) async fn say_text(&mut self, text: &str) {
        within(self.web.send(Message::text(text.to_owned()))).await.unwrap();
    }

    /// Says farewell with a code and a reason.
    pub(crate) async fn dismiss(mut self, code: CloseCode, reason: &str) {
        within(self.web.send(Message::close(Some(code), reason))).await.unwrap();
        self.closed().await;
    }

    /// The same, past acknowledgements, which are confirmed on the way.
    pub(crate) async fn asked_past_acks(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.heard().await.expect("a frame, not the end");
            if let Some(acknowledged) = frame.get("response_ack") {
                self.say(json!({"f": {"id": acknowledged["id"]}})).await;
                continue;
            }
            assert!(frame.get(kind).is_some(), "{kind} should have come, not {frame}");
            return frame[kind].clone();
        }
    }

    /// Answers so many calls with twice their number.
    pub(crate) async fn double(&mut self, many: usize) {
        let mut left = many;
        while left > 0 {
            let frame = self.heard().await.expect("a frame, not the end");
            if let Some(asked) = frame.get("request") {
                let (id, doubled) = (&asked["id"], asked["params"].as_u64().unwrap() * 2);
                self.say(json!({"c": {"id": id}})).await;
                self.say(json!({"e": {"id": id, "status": 0, "answer": doubled}})).await;
            } else {
                self.say(json!({"f": {"id": frame["response_ack"]["id"]}})).await;
                left -= 1;
            }
        }
    }

    /// Answers a call: registered, over, acknowledged.
    pub(crate) async fn answer(&mut self, request: &Value, answer: Value) {
        let id = &request["id"];
        self.say(json!({"c": {"id": id}})).await;
        self.say(json!({"e": {"id": id, "status": 0, "answer": answer}})).await;
        assert_eq!(&self.asked("response_ack").await["id"], id);
        self.say(json!({"f": {"id": id}})).await;
    }

    /// Offers a call and lets it begin.
    pub(crate) async fn offer(&mut self, offer: Value) {
        self.say(json!({"b": offer})).await;
        let accepted = self.asked("request_ack").await;
        assert_eq!((&accepted["id"], &accepted["fence"]), (&offer["id"], &offer["fence"]));
        self.hold(&offer).await;
    }

    pub(crate) async fn hold(&mut self, offer: &Value) {
        self.say(json!({"d": {"id": offer["id"], "fence": offer["fence"], "held": true}})).await;
    }

    /// Waits until the client closes the connection, or drops it. Whatever it says is not answered.
    pub(crate) async fn closed(&mut self) {
        while self.heard().await.is_some() {}
    }
}

/// A refusal before there is a WebSocket.
pub(crate) async fn refuse(mut stream: TcpStream, status: &str, body: &str) {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        assert!(within(stream.read_buf(&mut head)).await.unwrap() > 0);
    }
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    within(stream.write_all(answer.as_bytes())).await.unwrap();
}

/// An offer of the channel `double`.
pub(crate) fn offer(id: &str, fence: u64, params: &Value) -> Value {
    json!({"id": id, "channel": "double", "params": params, "fence": fence, "attempt": fence,
        "deadlineMs": 60_000, "leaseMs": 30_000})
}

pub(crate) const ONE: &str = "00000000-0000-4000-8000-000000000001";
pub(crate) const TWO: &str = "00000000-0000-4000-8000-000000000002";

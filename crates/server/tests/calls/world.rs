//! A whole server in this process, and clients of its calls.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use handoff_calls::wire::SUBPROTOCOL;
use handoff_server::serve::{Hooks, Listeners, ServeError, run};
use handoff_server::settings::Settings;
use http::{HeaderName, HeaderValue, Uri};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_websockets::{ClientBuilder, CloseCode, Error, MaybeTlsStream, Message, WebSocketStream};

use crate::http_client::{self, Answer, PATIENCE};

/// A server that is ready.
pub struct World {
    pub address: SocketAddr,
    settings: Settings,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
    directory: TempDir,
}

pub const CALLER: &str = "c64e9eb3-0295-4506-8d69-86e56b8ecf6f";
pub const WORKER: &str = "98206706-632c-469b-9064-39ae8a4610b4";
pub const OTHER: &str = "6a39ba8a-0400-4d55-b13e-a99b0e966bab";

/// The id of a call.
pub fn id(n: u32) -> String {
    format!("6ba04b7c-705f-4f86-9d77-{n:012x}")
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.server.data_dir = directory.path().join("data");
        settings.server.listen.set_port(0);
        settings.relay.enabled = false;
        settings.server.disk_free_min = Some(0);
        settings.events.enabled = false;
        settings.streams.enabled = false;
        settings.exchange.enabled = false;
        settings.log.limits.journal_file_bytes = 1 << 20;
        settings.log.limits.journal_bytes_max = 16 << 20;
        settings.log.limits.journal_reserve_bytes = 2 << 20;
        settings.log.limits.change_bytes_max = 8 << 20;
        change(&mut settings);
        Self::begin(directory, settings).await
    }

    /// A server that asks for tokens, and one that may do everything.
    pub async fn locked() -> (Self, String) {
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join("token");
        let token = handoff_server::auth::mint("first", Vec::new(), None).unwrap().0;
        std::fs::write(&file, &token).unwrap();
        let world = Self::start_with(|settings| {
            settings.auth.enabled = true;
            settings.auth.bootstrap_token_file = Some(file);
        })
        .await;
        (world, token)
    }

    async fn begin(directory: TempDir, settings: Settings) -> Self {
        let (said, ready) = oneshot::channel::<Listeners>();
        let stop = CancellationToken::new();
        let hooks = Hooks {
            ready: Box::new(move |at| said.send(*at).unwrap()),
            stop: stop.clone(),
            ..Hooks::none()
        };
        let mut task = tokio::spawn(run(settings.clone(), hooks));
        let ready = tokio::select! {
            ready = timeout(PATIENCE, ready) => ready.unwrap(),
            ended = &mut task => panic!("the server did not start: {:?}", ended.unwrap()),
        };
        Self { address: ready.unwrap().http, settings, stop, task, directory }
    }

    pub async fn restart(self) -> Self {
        let (directory, settings) = self.stop().await;
        Self::begin(directory, settings).await
    }

    pub async fn stop(self) -> (TempDir, Settings) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("it ends").unwrap().unwrap();
        (self.directory, self.settings)
    }

    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask_with(method, path, body, &[]).await
    }

    pub async fn ask_with(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        more: &[(&str, &str)],
    ) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let mut headers = vec![("content-type", "application/json")];
        headers.extend_from_slice(more);
        http_client::ask(self.address, method, &format!("/v1/calls{path}"), &headers, text).await
    }

    pub async fn see(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    pub async fn connect(&self) -> Client {
        self.connect_as(None).await.unwrap()
    }

    pub async fn connect_as(&self, token: Option<&str>) -> Result<Client, Error> {
        let uri: Uri = format!("ws://{}/v1/calls/connect", self.address).parse().unwrap();
        let name = HeaderName::from_static("sec-websocket-protocol");
        let mut builder = ClientBuilder::from_uri(uri)
            .add_header(name, HeaderValue::from_static(SUBPROTOCOL))
            .unwrap();
        if let Some(token) = token {
            let name = HeaderName::from_static("authorization");
            let value = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
            builder = builder.add_header(name, value).unwrap();
        }
        let (socket, response) = timeout(PATIENCE, builder.connect()).await.unwrap()?;
        assert_eq!(response.headers()["sec-websocket-protocol"], SUBPROTOCOL);
        Ok(Client { socket })
    }

    /// A client that calls.
    pub async fn caller(&self) -> Client {
        let mut client = self.connect().await;
        client.init(json!({"client": CALLER})).await;
        client
    }

    /// A client that serves `work`.
    pub async fn worker(&self, client: &str, concurrency: u32) -> Client {
        let mut worker = self.connect().await;
        let serves = json!([{"channel": "work", "concurrency": concurrency}]);
        worker.init(json!({"client": client, "name": "worker", "serves": serves})).await;
        worker
    }
}

/// A client over its WebSocket.
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    pub async fn say(&mut self, frame: Value) {
        self.say_text(frame.to_string()).await;
    }

    pub async fn say_text(&mut self, text: String) {
        timeout(PATIENCE, self.socket.send(Message::text(text))).await.unwrap().unwrap();
    }

    pub async fn say_binary(&mut self) {
        let message = Message::binary(vec![1, 2, 3]);
        timeout(PATIENCE, self.socket.send(message)).await.unwrap().unwrap();
    }

    /// The next frame.
    pub async fn hear(&mut self) -> Value {
        let message = timeout(PATIENCE, self.socket.next()).await.expect("something is said");
        let message = message.expect("the connection is there").unwrap();
        let text = message.as_text().unwrap_or_else(|| panic!("no frame: {message:?}"));
        serde_json::from_str(text).unwrap()
    }

    /// The next frame, which must be of this kind; its members.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let frame = self.hear().await;
        frame.get(kind).unwrap_or_else(|| panic!("no {kind}: {frame}")).clone()
    }

    /// Why the server ends the connection.
    pub async fn closed(&mut self) -> (CloseCode, String) {
        loop {
            let message = timeout(PATIENCE, self.socket.next()).await.expect("it ends");
            let message = message.expect("it says why").unwrap();
            if let Some((code, why)) = message.as_close() {
                return (code, why.to_owned());
            }
        }
    }

    pub async fn init(&mut self, init: Value) -> Value {
        self.say(json!({"init": init})).await;
        self.expect("a").await
    }

    pub async fn request(&mut self, n: u32, params: Value) {
        self.say(json!({"request": {"id": id(n), "channel": "work", "params": params}})).await;
        assert_eq!(self.expect("c").await, json!({"id": id(n)}));
    }

    /// Hears of a call and begins it.
    pub async fn begin(&mut self, n: u32) -> Value {
        let offer = self.expect("b").await;
        assert_eq!(offer["id"], id(n));
        self.say(json!({"request_ack": {"id": id(n), "fence": offer["fence"]}})).await;
        let held = self.expect("d").await;
        assert_eq!(held, json!({"id": id(n), "fence": offer["fence"], "held": true}));
        offer
    }

    pub async fn respond(&mut self, n: u32, fence: u64, answer: Value) -> bool {
        self.say(json!({"response": {"id": id(n), "fence": fence, "answer": answer}})).await;
        let taken = self.expect("g").await;
        assert_eq!((&taken["id"], &taken["fence"]), (&json!(id(n)), &json!(fence)));
        taken["taken"].as_bool().unwrap()
    }

    /// The end of a call, acknowledged.
    pub async fn end(&mut self, n: u32) -> Value {
        let end = self.expect("e").await;
        assert_eq!(end["id"], id(n));
        self.say(json!({"response_ack": {"id": id(n)}})).await;
        assert_eq!(self.expect("f").await, json!({"id": id(n)}));
        end
    }
}

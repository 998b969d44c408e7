//! A client that hides nothing: one request at a time, or bytes as they are.

pub mod talk;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than anything here takes, and shorter than anybody's patience.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An answer, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The code of a refusal; everything a refusal must have is there.
    pub fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        let code = problem["code"].as_str().unwrap().to_owned();
        assert_eq!(problem["type"], format!("urn:handoff:error:{code}"));
        // An ERP reads one word in every answer about its process.
        assert!(problem["status"] == self.status || problem["status"] == "CANCELLED", "{problem}");
        assert_eq!(problem["requestId"], self.header("x-request-id").unwrap());
        for field in ["title", "detail", "remedy"] {
            assert!(!problem[field].as_str().unwrap().is_empty(), "{field}: {problem}");
        }
        code
    }

    pub fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

/// Asks, on a connection of its own.
pub async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    ask_on(stream, method, path, headers, body).await
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, &[], "").await
}

pub async fn delete(address: SocketAddr, path: &str) -> Answer {
    ask(address, "DELETE", path, &[], "").await
}

pub async fn post(address: SocketAddr, path: &str, body: impl Into<Bytes>) -> Answer {
    ask(address, "POST", path, &[("content-type", "application/json")], body).await
}

/// Asks with HTTP/1.1 on a stream, plain or not.
pub async fn ask_on<S>(
    stream: S,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = request(method, path, headers, body);
    let answer = async { whole(sender.send_request(request).await.unwrap()).await };
    timeout(PATIENCE, answer).await.expect("an answer in time")
}

/// Asks several times with HTTP/2 on one stream, at once.
pub async fn ask_on_h2<S>(stream: S, asked: &[(&str, &str)]) -> Vec<Answer>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut sent = Vec::new();
    for (method, path) in asked {
        let request = request(method, &format!("http://localhost{path}"), &[], "");
        sent.push(sender.send_request(request));
    }
    let mut answers = Vec::new();
    for response in sent {
        let answer = async { whole(response.await.unwrap()).await };
        answers.push(timeout(PATIENCE, answer).await.expect("an answer in time"));
    }
    answers
}

fn request(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap());
    request = request.uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(HeaderName::from_bytes(name.as_bytes()).unwrap(), *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

async fn whole(response: hyper::Response<hyper::body::Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

/// Sends bytes and reads everything until the other side closes.
pub async fn converse(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    until_closed(&mut stream).await
}

/// Everything until the other side closes, in whatever way.
pub async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut read)).await;
    // A reset is a way to close.
    drop(ended.expect("the connection is closed in time"));
    String::from_utf8_lossy(&read).into_owned()
}

/// Reads until a text has come.
pub async fn until(stream: &mut (impl AsyncRead + Unpin), text: &str) -> String {
    let mut read = String::new();
    let mut buffer = [0; 4096];
    let waiting = async {
        while !read.contains(text) {
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "closed before {text:?} came:\n{read}");
            read.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    };
    if timeout(PATIENCE, waiting).await.is_err() {
        panic!("{text:?} did not come:\n{read}");
    }
    read
}

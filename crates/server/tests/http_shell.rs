//! HTTP before any room is open: connections, limits, refusals that need no room, and the end.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod http_client;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handoff_server::http::{App, Limits, openapi, serve};
use handoff_server::runtime::{Phase, Readiness, RoomStatus};
use handoff_server::settings::Settings;
use handoff_server::telemetry::{LogHandle, Metrics};
use handoff_types::Room;
use http_client::{ask, ask_on, ask_on_h2, converse, get, until, until_closed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

struct Shell {
    address: SocketAddr,
    app: Arc<App>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Shell {
    async fn start() -> Self {
        Self::start_with(|_| {}, None).await
    }

    async fn start_with(change: impl FnOnce(&mut Limits), tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new("9.9.9"));
        let app =
            App::new(&Settings::default(), "9.9.9", Readiness::new(), metrics, LogHandle::silent());
        let mut limits = app.limits();
        change(&mut limits);
        app.set_limits(limits);
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, tls, Arc::clone(&app), stop.clone()));
        Self { address, app, stop, task }
    }

    async fn get(&self, path: &str) -> http_client::Answer {
        get(self.address, path).await
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(http_client::PATIENCE, self.task).await.expect("it ends").unwrap();
    }

    async fn metric(&self, line: &str) -> bool {
        self.get("/metrics").await.text().lines().any(|found| found == line)
    }
}

/// Every operation of the document: method, path with numbers for names, and its id.
fn operations() -> Vec<(String, String, String)> {
    let document = serde_json::to_value(openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            operations.push((method.to_uppercase(), path.replace("{id}", "7"), id));
        }
    }
    operations
}

#[tokio::test]
async fn a_server_that_is_starting_answers_what_it_can_and_refuses_the_rest() {
    let shell = Shell::start().await;
    assert_eq!(shell.get("/healthz").await.text(), "ok\n");
    let home = shell.get("/").await;
    assert_eq!(home.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(home.text().contains("Handoff 9.9.9"));
    let ready = shell.get("/readyz").await;
    assert_eq!((ready.status, ready.header("retry-after")), (503, Some("1")));
    assert_eq!(ready.json()["phase"], "starting");
    assert_eq!(ready.json()["obstacle"], "starting: opening the data directory");
    assert_eq!(shell.get("/openapi.json").await.json()["openapi"], "3.1.0");
    assert!(shell.get("/metrics").await.text().ends_with("# EOF\n"));
    for (method, path, id) in operations() {
        if path.starts_with("/v1/") {
            let answer = ask(shell.address, &method, &path, &[], "").await;
            assert_eq!((answer.status, &*answer.code()), (503, "room_off"), "{id}");
            assert_eq!(answer.header("retry-after"), Some("1"), "{id}");
        }
    }
}

#[tokio::test]
async fn readiness_names_what_is_closed() {
    let shell = Shell::start().await;
    let readiness = &shell.app.readiness;
    readiness.set_room(Room::House, RoomStatus::Open);
    readiness.set_room(Room::Events, RoomStatus::Closed("records are lost".to_owned()));
    readiness.set_room(Room::Calls, RoomStatus::Off);
    readiness.set_phase(Phase::Ready);
    let closed = shell.get("/readyz").await;
    assert_eq!(closed.status, 503);
    let body = closed.json();
    assert_eq!(body["obstacle"], "events is closed: records are lost");
    assert_eq!(body["rooms"][1]["state"], "closed");
    assert_eq!(body["rooms"][1]["why"], "records are lost");
    readiness.set_room(Room::Events, RoomStatus::Open);
    let open = shell.get("/readyz").await;
    assert_eq!((open.status, open.json()["ready"].as_bool()), (200, Some(true)));
    readiness.set_phase(Phase::Stopping);
    assert_eq!(shell.get("/readyz").await.json()["phase"], "stopping");
}

#[tokio::test]
async fn a_path_or_method_that_is_not_there_is_refused_with_words() {
    let shell = Shell::start().await;
    for path in ["/v2/events", "/v1/event", "/healthz/", "/v1/events/7/x", "//", "/v1"] {
        let answer = shell.get(path).await;
        assert_eq!((answer.status, &*answer.code()), (404, "request.no_such_path"), "{path}");
    }
    for (method, path, allowed) in [
        ("POST", "/healthz", "GET,HEAD"),
        ("PUT", "/v1/events", "GET,HEAD,POST,DELETE"),
        ("OPTIONS", "/v1/events/7", "GET,HEAD,DELETE"),
        ("BREW", "/v1/tokens/7", "DELETE"),
    ] {
        let answer = ask(shell.address, method, path, &[], "").await;
        assert_eq!((answer.status, &*answer.code()), (405, "request.wrong_method"), "{path}");
        assert_eq!(answer.header("allow"), Some(allowed), "{path}");
    }
}

#[tokio::test]
async fn every_documented_operation_is_a_route_and_nothing_else_is() {
    let shell = Shell::start().await;
    let operations = operations();
    for (method, path, id) in &operations {
        let answer = ask(shell.address, method, path, &[], "").await;
        assert!(![404, 405].contains(&answer.status), "{id} is no route");
    }
    for (_, path, _) in &operations {
        let mut documented: Vec<&str> = operations
            .iter()
            .filter(|(_, other, _)| other == path)
            .map(|(method, ..)| method.as_str())
            .collect();
        if documented.contains(&"GET") {
            documented.push("HEAD");
        }
        let answer = ask(shell.address, "TRACE", path, &[], "").await;
        let mut allowed: Vec<&str> = answer.header("allow").unwrap().split(',').collect();
        allowed.sort_unstable();
        documented.sort_unstable();
        assert_eq!(allowed, documented, "{path}");
    }
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_takes_over_a_sane_one() {
    let shell = Shell::start().await;
    for path in ["/healthz", "/readyz", "/nowhere", "/v1/events"] {
        let drawn = shell.get(path).await;
        assert_eq!(drawn.header("x-request-id").unwrap().len(), 16, "{path}");
        let given = [("x-request-id", "order-7:2")];
        let answer = ask(shell.address, "GET", path, &given, "").await;
        assert_eq!(answer.header("x-request-id"), Some("order-7:2"), "{path}");
        let odd = [("x-request-id", "a b")];
        let answer = ask(shell.address, "GET", path, &odd, "").await;
        assert_eq!(answer.header("x-request-id").unwrap().len(), 16, "{path}");
    }
}

#[tokio::test]
async fn a_trace_is_answered_and_a_malformed_one_ignored() {
    let shell = Shell::start().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let answer = ask(shell.address, "GET", "/readyz", &[("traceparent", trace)], "").await;
    let response = answer.header("traceresponse").unwrap();
    assert!(response.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{response}");
    assert!(response.ends_with("-01") && !response.contains("00f067aa0ba902b7"), "{response}");
    let bad = [("traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01")];
    let answer = ask(shell.address, "GET", "/readyz", &bad, "").await;
    assert_eq!(answer.header("traceresponse"), None);
}

#[tokio::test]
async fn head_is_get_without_a_body_also_for_refusals() {
    let shell = Shell::start().await;
    for (path, status) in [("/healthz", 200), ("/readyz", 503), ("/v1/events", 503)] {
        let answer = ask(shell.address, "HEAD", path, &[], "").await;
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{path}");
    }
    let stream = TcpStream::connect(shell.address).await.unwrap();
    let answers = ask_on_h2(stream, &[("HEAD", "/v1/events"), ("HEAD", "/nowhere")]).await;
    assert!(answers.iter().all(|answer| answer.body.is_empty()));
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_path() {
    let shell = Shell::start().await;
    for path in ["/v1/events/7", "/v1/events/8", "/wp-login.php", "/healthz"] {
        shell.get(path).await;
    }
    ask(shell.address, "BREW", "/healthz", &[], "").await;
    let text = shell.get("/metrics").await;
    let requests: Vec<&str> = text
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("handoff_http_requests_total"))
        .collect();
    for line in [
        "{route=\"/v1/events/{id}\",method=\"GET\",status=\"503\"} 2",
        "{route=\"none\",method=\"GET\",status=\"404\"} 1",
        "{route=\"/healthz\",method=\"GET\",status=\"200\"} 1",
        "{route=\"/healthz\",method=\"other\",status=\"405\"} 1",
        // Gone past the router, it has its place from the beginning.
        "{route=\"/v1/streams/topics/{topic}/messages\",method=\"POST\",status=\"200\"} 0",
        "{route=\"/v1/exchange/messages\",method=\"POST\",status=\"201\"} 0",
    ] {
        assert!(requests.contains(&line), "{line} is not in {requests:?}");
    }
    assert_eq!(requests.len(), 6);
}

#[tokio::test]
async fn a_proxy_before_a_server_without_locks_is_noticed() {
    let shell = Shell::start().await;
    assert!(shell.metric("handoff_http_proxied_without_auth_total 0").await);
    for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        ask(shell.address, "GET", "/readyz", &[(name, "203.0.113.7")], "").await;
    }
    assert!(shell.metric("handoff_http_proxied_without_auth_total 3").await);
}

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_closed() {
    let shell = Shell::start_with(|limits| limits.connections_max = 2, None).await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(shell.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        until(&mut stream, "ok\n").await;
        kept.push(stream);
    }
    let refused =
        converse(shell.address, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{refused}");
    assert!(refused.contains("application/problem+json") && refused.contains("server.busy"));
    assert!(refused.contains("\r\nretry-after: 1\r\n") && refused.contains("connection: close"));
    let stream = TcpStream::connect(shell.address).await.unwrap();
    let answer = ask_on(stream, "GET", "/healthz", &[], "").await;
    assert_eq!((answer.status, &*answer.code()), (503, "server.busy"));

    // Those that are open go on, and one that leaves makes room.
    let first = &mut kept[0];
    first.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let metrics = until(first, "# EOF").await;
    assert!(metrics.contains("handoff_http_turned_away_connections_total 2\n"), "{metrics}");
    assert!(metrics.contains("handoff_http_connections 2\n"), "{metrics}");
    assert!(metrics.contains("handoff_http_connections_max 2\n"), "{metrics}");
    let mut second = kept.pop().unwrap();
    second
        .write_all(b"GET /healthz HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    until_closed(&mut second).await;
    // Its task ends some time after the socket is closed.
    let admitted = async {
        while shell.get("/healthz").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(http_client::PATIENCE, admitted).await.expect("there is room again");
}

#[tokio::test]
async fn a_limit_that_is_raised_counts_from_the_next_connection_on() {
    let shell = Shell::start_with(|limits| limits.connections_max = 0, None).await;
    assert_eq!(shell.get("/healthz").await.status, 503);
    shell.app.set_limits(Limits { connections_max: 1, ..shell.app.limits() });
    assert_eq!(shell.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn whoever_is_too_slow_with_a_head_is_cut_off() {
    let brief = |limits: &mut Limits| limits.header_time_max = Duration::from_millis(50);
    let shell = Shell::start_with(brief, None).await;
    for begun in ["", "G", "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nhost"] {
        let read = converse(shell.address, begun.as_bytes()).await;
        assert!(!read.contains("HTTP/1.1"), "{begun}: {read}");
    }
    // Also between two requests.
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until(&mut stream, "ok\n").await;
    stream.write_all(b"GET /healthz").await.unwrap();
    assert_eq!(until_closed(&mut stream).await, "");
    assert!(shell.metric("handoff_http_idle_connections_closed_total 6").await);
}

#[tokio::test]
async fn an_idle_connection_outlives_the_time_of_a_head() {
    let brief = |limits: &mut Limits| limits.header_time_max = Duration::from_millis(100);
    let shell = Shell::start_with(brief, None).await;
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        until(&mut stream, "ok\n").await;
        // The time of a head passes, and of another.
        assert_eq!(converse(shell.address, b"G").await, "");
        assert_eq!(converse(shell.address, b"G").await, "");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_when_keep_alive_is_over() {
    let brief = |limits: &mut Limits| limits.keep_alive = Duration::from_millis(20);
    let shell = Shell::start_with(brief, None).await;
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until(&mut stream, "ok\n").await;
    assert_eq!(until_closed(&mut stream).await, "");
}

#[tokio::test]
async fn whoever_takes_nothing_of_an_answer_is_closed() {
    let brief = |limits: &mut Limits| limits.stall_max = Duration::from_millis(100);
    let shell = Shell::start_with(brief, None).await;
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    // More than sockets hold, and nobody reads it.
    let asks = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
    let (_, mut asking) = stream.split();
    // The rest of it is refused once the connection is closed.
    drop(timeout(http_client::PATIENCE, asking.write_all(&asks)).await.expect("it is not read"));
    let closed =
        async { while !shell.metric("handoff_http_idle_connections_closed_total 1").await {} };
    timeout(http_client::PATIENCE, closed).await.expect("it is closed");
}

/// The kinds of HTTP/2 frames that came.
fn kinds(read: &[u8]) -> Vec<u8> {
    let (mut kinds, mut rest) = (Vec::new(), read);
    while let [a, b, c, kind, _flags, _, _, _, _, behind @ ..] = rest {
        kinds.push(*kind);
        rest = &behind[u32::from_be_bytes([0, *a, *b, *c]) as usize..];
    }
    kinds
}

/// Reads until the connection is closed, or until a text has come.
async fn read_until(stream: &mut TcpStream, text: Option<&[u8]>, read: &mut Vec<u8>) {
    let waiting = async {
        while text.is_none_or(|text| !read.windows(text.len()).any(|found| found == text)) {
            match stream.read_buf(read).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    timeout(http_client::PATIENCE, waiting).await.expect("it comes in time");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0handoff!";
const GOAWAY: u8 = 7;

#[tokio::test]
async fn an_idle_http2_connection_is_told_before_it_is_closed_and_pings_are_no_heads() {
    let brief = |limits: &mut Limits| {
        limits.header_time_max = Duration::from_millis(100);
        limits.keep_alive = Duration::from_millis(300);
    };
    let shell = Shell::start_with(brief, None).await;
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    // HEADERS of stream 1, the last: GET http://x/healthz, mostly from the static table.
    let head = b"\x82\x86\x41\x01x\x04\x08/healthz";
    let length = u8::try_from(head.len()).unwrap();
    let request = [&[0, 0, length, 1, 5, 0, 0, 0, 1], &head[..]].concat();
    stream.write_all(&[PREFACE, &request].concat()).await.unwrap();
    let mut read = Vec::new();
    read_until(&mut stream, Some(b"ok\n"), &mut read).await;
    stream.write_all(PING).await.unwrap();
    read_until(&mut stream, None, &mut read).await;
    assert!(kinds(&read).contains(&GOAWAY), "{:?}", kinds(&read));
}

#[tokio::test]
async fn an_http2_connection_that_asks_nothing_is_told_before_it_is_closed() {
    let brief = |limits: &mut Limits| limits.header_time_max = Duration::from_millis(100);
    let shell = Shell::start_with(brief, None).await;
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    let mut read = Vec::new();
    read_until(&mut stream, None, &mut read).await;
    assert!(kinds(&read).contains(&GOAWAY), "{:?}", kinds(&read));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let shell = Shell::start().await;
    let mut asked = Vec::new();
    for n in 0..20 {
        let path = ["/healthz", "/readyz", "/nowhere"][n % 3];
        asked.extend(
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-request-id: n{n}\r\n").bytes(),
        );
        asked.extend(if n == 19 { "connection: close\r\n\r\n" } else { "\r\n" }.bytes());
    }
    let answers = converse(shell.address, &asked).await;
    let ids: Vec<&str> =
        answers.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect();
    let expected: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn what_is_not_http_is_closed_without_harm() {
    let shell = Shell::start().await;
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(shell.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let read = until_closed(&mut stream).await;
        assert!(read.is_empty() || read.starts_with("HTTP/1.1 400"), "{read}");
    }
    let long = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(70 << 10));
    let read = converse(shell.address, long.as_bytes()).await;
    assert!(read.is_empty() || read.starts_with("HTTP/1.1 431"), "{read}");
    assert_eq!(shell.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn http_2_is_spoken_with_whoever_begins_with_it() {
    let shell = Shell::start().await;
    let stream = TcpStream::connect(shell.address).await.unwrap();
    let asked = [("GET", "/healthz"), ("GET", "/nowhere"), ("POST", "/healthz")];
    let answers = ask_on_h2(stream, &asked).await;
    assert_eq!(answers[0].text(), "ok\n");
    assert_eq!(answers[1].code(), "request.no_such_path");
    assert_eq!(answers[2].code(), "request.wrong_method");
}

fn certificates() -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = handoff_server::tls::HTTP.iter().map(|name| name.to_vec()).collect();
    (Arc::new(config), certificate)
}

fn connector(certificate: CertificateDer<'static>, protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn both_protocols_are_spoken_inside_tls() {
    let (config, certificate) = certificates();
    let shell = Shell::start_with(|_| {}, Some(config)).await;
    let name = ServerName::try_from("localhost").unwrap();
    for protocols in [&[][..], &[b"http/1.1".as_slice()]] {
        let stream = TcpStream::connect(shell.address).await.unwrap();
        let connector = connector(certificate.clone(), protocols);
        let stream = connector.connect(name.clone(), stream).await.unwrap();
        assert_eq!(ask_on(stream, "GET", "/healthz", &[], "").await.text(), "ok\n");
    }
    let stream = TcpStream::connect(shell.address).await.unwrap();
    let connector = connector(certificate, &[b"h2", b"http/1.1"]);
    let stream = connector.connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let answers = ask_on_h2(stream, &[("GET", "/readyz"), ("GET", "/healthz")]).await;
    assert_eq!((answers[0].status, answers[1].text()), (503, "ok\n"));
}

#[tokio::test]
async fn whoever_does_not_shake_hands_is_cut_off_and_plain_words_are_not_understood() {
    let (config, _) = certificates();
    let brief = |limits: &mut Limits| limits.header_time_max = Duration::from_millis(50);
    let shell = Shell::start_with(brief, Some(config)).await;
    assert_eq!(converse(shell.address, b"").await, "");
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    let ended = stream.read_to_end(&mut read);
    drop(timeout(http_client::PATIENCE, ended).await.expect("it is closed"));
    assert!(!read.starts_with(b"HTTP"), "{read:?}");
}

#[tokio::test]
async fn a_server_that_stops_closes_idle_connections_and_takes_no_more() {
    let shell = Shell::start().await;
    let address = shell.address;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until(&mut idle, "ok\n").await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    // Accepted: a later connection was.
    get(address, "/healthz").await;
    shell.stop().await;
    assert_eq!(until_closed(&mut idle).await, "");
    assert_eq!(until_closed(&mut silent).await, "");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_no_connection_open() {
    let shell = Shell::start().await;
    let mut stream = TcpStream::connect(shell.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until(&mut stream, "ok\n").await;
    shell.task.abort();
    assert_eq!(until_closed(&mut stream).await, "");
}

//! Sessions over sockets, on a listener whose bounds a test can choose.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use handoff_server::auth::Gatekeeper;
use handoff_server::sevent::{self, Parts};
use handoff_sevent::{Answer, Event, Frames, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::room::{PATIENCE, Rented, clock, settings};

/// A listener before a room.
struct Listening {
    at: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listening {
    async fn open(room: &Rented, stall_max: Duration) -> Self {
        Self::open_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), room, stall_max)
    }

    fn open_on(listener: TcpListener, room: &Rented, stall_max: Duration) -> Self {
        let at = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (room, gate) = (room.room.clone(), Gatekeeper::new(None));
        let greeting_max = watch::channel(PATIENCE).1;
        let parts = Parts { room, gate, tls: None, greeting_max, stall_max };
        let task = tokio::spawn(sevent::serve(listener, parts, stop.clone()));
        Self { at, stop, task }
    }

    async fn close(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

fn octets(request: &Request) -> BytesMut {
    let mut octets = BytesMut::new();
    request.encode(None, &mut octets);
    octets
}

fn event(description: String) -> Request {
    let event = Event { description, period: 3600.0, repeat: -1 };
    Request::RegisterEvent { event, types: vec![] }
}

async fn read(stream: &mut TcpStream, count: usize) -> Vec<Answer> {
    let (mut frames, mut answers) = (Frames::new(u32::MAX), Vec::new());
    while answers.len() < count {
        let read = timeout(PATIENCE, stream.read_buf(frames.buffer_mut())).await.unwrap();
        assert!(read.unwrap() > 0, "the session ended after {} answers", answers.len());
        while let Some(frame) = frames.next().unwrap() {
            answers.push(Answer::decode(&frame).unwrap());
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_takes_no_answers_is_closed_and_what_it_held_is_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _hands) = clock();
    let mut settings = settings();
    settings.events.answers_bytes_max = 1 << 20;
    let room = Rented::open(directory.path(), &clock, &settings).await;
    let listening = Listening::open(&room, Duration::from_millis(100)).await;
    let mut stalled = TcpStream::connect(listening.at).await.unwrap();
    stalled.write_all(&octets(&event("w".repeat(20 << 10)))).await.unwrap();
    read(&mut stalled, 1).await;
    // More answers than sockets hold, and nobody reads them. The requests are small.
    let asks = octets(&Request::GetEvent { id: 0 }).repeat(4000);
    timeout(PATIENCE, stalled.write_all(&asks)).await.unwrap().unwrap();
    while room.room.stats().await.unwrap().slow_sessions == 0 {
        yield_now().await;
    }
    // All of the memory can be had again: this takes most of it.
    let mut other = TcpStream::connect(listening.at).await.unwrap();
    other.write_all(&octets(&event("w".repeat(30 << 10)))).await.unwrap();
    assert!(matches!(read(&mut other, 1).await[..], [Answer::EventRegistration { id: 1, .. }]));
    drop((stalled, other));
    listening.close().await;
    room.close().await;
}

/// Each octet that is taken is a sign of life, and what the session holds is wanted by others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_takes_answers_drop_by_drop_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _hands) = clock();
    let room = Rented::open(directory.path(), &clock, &settings()).await;
    // Sockets that hold so little that every drop is seen on the other side.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(4 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listening =
        Listening::open_on(socket.listen(8).unwrap(), &room, Duration::from_millis(500));
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut slow = socket.connect(listening.at).await.unwrap();
    slow.write_all(&octets(&event("w".repeat(20 << 10)))).await.unwrap();
    read(&mut slow, 1).await;
    let asks = octets(&Request::GetEvent { id: 0 }).repeat(200);
    slow.write_all(&asks).await.unwrap();
    // At most 50 KiB a second: without a bound it would be told all of its 4 MB.
    let (mut drops, mut taken) = (interval(Duration::from_millis(10)), 0);
    drops.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while room.room.stats().await.unwrap().slow_sessions == 0 {
        drops.tick().await;
        let read = timeout(PATIENCE, slow.read(&mut [0; 512])).await.unwrap();
        taken += read.unwrap_or(0);
        assert!(taken < 1 << 20, "it goes on and on");
    }
    drop(slow);
    listening.close().await;
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_for_many_sessions_share_little_memory_and_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _hands) = clock();
    let mut settings = settings();
    settings.events.answers_bytes_max = 1 << 20;
    let room = Rented::open(directory.path(), &clock, &settings).await;
    let listening = Listening::open(&room, PATIENCE).await;
    let mut stream = TcpStream::connect(listening.at).await.unwrap();
    let one = octets(&event(String::new()));
    for _ in 0..60 {
        stream.write_all(&one.repeat(1000)).await.unwrap();
        read(&mut stream, 1000).await;
    }
    let mut sessions = JoinSet::new();
    for _ in 0..16 {
        let at = listening.at;
        sessions.spawn(async move {
            let mut stream = TcpStream::connect(at).await.unwrap();
            let asks = octets(&Request::ListEvents { types: None }).repeat(3);
            stream.write_all(&asks).await.unwrap();
            for answer in read(&mut stream, 3).await {
                let Answer::ListedEvents { ids } = answer else { panic!("{answer:?}") };
                assert!(ids.into_iter().eq(0..60_000));
            }
        });
    }
    while let Some(session) = timeout(PATIENCE, sessions.join_next()).await.unwrap() {
        session.unwrap();
    }
    drop(stream);
    listening.close().await;
    room.close().await;
}

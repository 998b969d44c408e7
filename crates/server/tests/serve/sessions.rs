//! What a session promises.

use handoff_sevent::{Answer, ErrorCode, Request, Selection};

use crate::client::{Client, event, every, octets, of_type};
use crate::world::{Served, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let mut client = Client::connect(&server).await;
    let mut all = Vec::new();
    for n in 0..100 {
        all.extend_from_slice(&octets(&every(3600.0, "a"), None));
        all.extend_from_slice(&octets(&Request::GetEvent { id: n }, None));
        all.extend_from_slice(&octets(&every(-1.0, "a"), None));
        // A server's message, and one whose option is cut short.
        all.extend_from_slice(&[2, 15, 0]);
        all.extend_from_slice(&[3, 13, 1, 9]);
        all.extend_from_slice(&octets(&Request::GetFilter, None));
        all.extend_from_slice(&octets(&Request::ListEvents { types: None }, None));
    }
    client.send_octets(&all).await;
    for n in 0..100 {
        let Answer::EventRegistration { id, .. } = client.answer().await else { panic!("{n}") };
        assert_eq!(id, n);
        let Answer::EventInfo { id, .. } = client.answer().await else { panic!("{n}") };
        assert_eq!(id, n);
        assert_eq!(error(&client.answer().await), (2, ErrorCode::InvalidProperty));
        assert_eq!(error(&client.answer().await), (15, ErrorCode::WrongMessage));
        assert_eq!(error(&client.answer().await), (13, ErrorCode::FormatError));
        assert_eq!(client.answer().await, Answer::Filter(Selection::default()));
        let ids = (0..=n).collect();
        assert_eq!(client.answer().await, Answer::ListedEvents { ids });
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_its_side_gets_every_answer_and_then_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..50 {
        client.send(every(3600.0, "a")).await;
    }
    client.half_close().await;
    for n in 0..50 {
        let Answer::EventRegistration { id, .. } = client.answer().await else { panic!("{n}") };
        assert_eq!(id, n);
    }
    assert_eq!(client.next().await, None);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_frame_is_answered_after_what_came_before_and_ends_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    for broken in [&[0][..], &[0xff, 0xff, 0xff, 0xff, 0x7f], &[0xff, 0xff, 0x7f]] {
        let mut client = Client::connect(&server).await;
        client.send(every(3600.0, "a")).await;
        client.send_octets(broken).await;
        // The server must not listen to this, and must not let it take the answer back.
        client.send_octets(&[7; 4096]).await;
        assert!(matches!(client.answer().await, Answer::EventRegistration { .. }));
        assert_eq!(error(&client.answer().await), (0, ErrorCode::FormatError));
        client.half_close().await;
        assert_eq!(client.next().await, None);
        // The same from a client that closes its side at once.
        let mut client = Client::connect(&server).await;
        client.send_octets(broken).await;
        client.half_close().await;
        assert_eq!(error(&client.answer().await), (0, ErrorCode::FormatError));
        assert_eq!(client.next().await, None);
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_told_what_its_filter_matches_and_nothing_after_it_has_unsubscribed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let (mut one, mut two) = (Client::connect(&server).await, Client::connect(&server).await);
    let id = two.register(every(0.1, "a")).await;
    two.register(every(0.1, "b")).await;
    assert_eq!(one.ask(Request::Subscribe(of_type("a"))).await, Answer::FilterUpdated);
    for _ in 0..3 {
        let Answer::Notify { id: told, types, event, .. } = one.told().await else { panic!() };
        assert_eq!((told, &*types, event.repeat), (id, &["a".to_owned()][..], -1));
    }
    assert_eq!(one.ask(Request::Unsubscribe(of_type("a"))).await, Answer::FilterUpdated);
    // Whatever came before that answer was kept; behind it comes nothing but answers.
    assert_eq!(two.ask(Request::Subscribe(of_type("a"))).await, Answer::FilterUpdated);
    for _ in 0..3 {
        two.told().await;
    }
    one.send(Request::GetFilter).await;
    assert_eq!(one.next().await, Some(Answer::Filter(Selection::default())));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_does_not_read_is_closed_and_the_others_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.events.session_queue_bytes_max = 4 << 20;
    let server = Served::start(settings).await;
    let (mut slow, mut fast) = (Client::connect(&server).await, Client::connect(&server).await);
    for client in [&mut slow, &mut fast] {
        assert_eq!(client.ask(Request::Subscribe(of_type("a"))).await, Answer::FilterUpdated);
    }
    let description = "w".repeat(60 << 10);
    for _ in 0..40 {
        fast.register(event(0.1, -1, "a", &description)).await;
    }
    // Sockets hold some ten MiB, the queue four; this is far more than that.
    for _ in 0..600 {
        assert!(matches!(fast.told().await, Answer::Notify { .. }));
    }
    while slow.next().await.is_some() {}
    for _ in 0..40 {
        assert!(matches!(fast.told().await, Answer::Notify { .. }));
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_longer_than_one_turn_of_the_room_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let mut client = Client::connect(&server).await;
    let count = 20_000;
    let request = octets(&every(3600.0, "a"), None);
    let mut sent = 0;
    while sent < count {
        client.send_octets(&request.repeat(500)).await;
        for _ in 0..500 {
            let Answer::EventRegistration { id, .. } = client.answer().await else { panic!() };
            assert_eq!(id, sent);
            sent += 1;
        }
    }
    assert_eq!(client.list().await, (0..count).collect::<Vec<_>>());
    let everything = Request::DeleteEvent(of_type("a"));
    let Answer::DeletedEvents { ids } = client.ask(everything).await else { panic!() };
    assert_eq!(ids, (0..count).collect::<Vec<_>>());
    assert!(client.list().await.is_empty());
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_too_many_is_told_so_and_closed() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.events.sessions_max = 2;
    let server = Served::start(settings).await;
    let (mut one, mut two) = (Client::connect(&server).await, Client::connect(&server).await);
    assert!(one.list().await.is_empty() && two.list().await.is_empty());
    let mut three = Client::connect(&server).await;
    assert_eq!(error(&three.answer().await), (0, ErrorCode::InternalError));
    assert_eq!(three.next().await, None);
    drop(one);
    // Its place is free as soon as the server has noticed.
    loop {
        let mut again = Client::connect(&server).await;
        again.send(Request::GetFilter).await;
        match again.next().await {
            Some(Answer::Filter(_)) => break,
            Some(Answer::Error { .. }) | None => {}
            other => panic!("{other:?}"),
        }
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_the_watermark_events_are_refused_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let id = Client::connect(&server).await.register(every(3600.0, "a")).await;
    server.stop().await.unwrap();
    let mut low = settings(directory.path());
    low.server.disk_free_min = Some(u64::MAX - 1);
    let server = Served::start(low).await;
    let mut client = Client::connect(&server).await;
    let refused = client.ask(every(3600.0, "a")).await;
    assert_eq!(error(&refused), (2, ErrorCode::InternalError));
    let Answer::Error { message, .. } = refused else { panic!() };
    assert!(message.contains("nothing new is taken"), "{message}");
    let gone = client.ask(Request::DeleteEvent(of_type("a"))).await;
    assert_eq!(gone, Answer::DeletedEvents { ids: vec![id] });
    server.stop().await.unwrap();
}

fn error(answer: &Answer) -> (u8, ErrorCode) {
    match answer {
        Answer::Error { last_id, code, .. } => (*last_id, *code),
        other => panic!("no error: {other:?}"),
    }
}

//! How a session ends, and what is then known of its requests.

use std::time::Duration;

use handoff_sdk::Outcome;
use handoff_sdk::sevent::{Ended, Error, ErrorCode, Options, Session, Trouble};
use handoff_sevent::{Answer, Request};
use proptest::prelude::{ProptestConfig, any, proptest};
use tokio::net::TcpListener;

use crate::peer::{ended, event, listed, notify, octets, session, within};

fn trouble(error: &Error) -> &Ended {
    match error {
        Error::Unknown(Trouble::Ended(ended)) | Error::NotSent(Trouble::Ended(ended)) => ended,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_cut_at_any_octet_leaves_its_request_unknown() {
    let answers = [
        listed(300),
        Answer::EventRegistration { id: 7, timestamp: 1 },
        Answer::EventInfo { id: 7, types: vec!["a".to_owned()], event: event("tea"), timestamp: 1 },
    ];
    for answer in answers {
        let whole = octets(&answer);
        for end in 0..whole.len() {
            let (session, mut notifications, mut peer) = session(Options::new()).await;
            let request = match answer {
                Answer::ListedEvents { .. } => Request::ListEvents { types: None },
                Answer::EventRegistration { .. } => {
                    Request::RegisterEvent { event: event("tea"), types: Vec::new() }
                }
                _ => Request::GetEvent { id: 7 },
            };
            let server = async {
                peer.asked().await;
                peer.write(&whole[..end]).await;
                drop(peer);
            };
            let (result, ()) =
                within(async { tokio::join!(session.request(request), server) }).await;
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Unknown(_)), "{end}: {error:?}");
            assert_eq!(error.outcome(), Outcome::Unknown);
            match (end, trouble(&error)) {
                (0, Ended::Closed) | (1.., Ended::Cut) => {}
                other => panic!("{other:?}"),
            }
            assert!(matches!(ended(&mut notifications).await, Ended::Closed | Ended::Cut));
            let error = within(session.list(None)).await.unwrap_err();
            assert!(matches!(error, Error::NotSent(_)), "{error:?}");
            assert_eq!(error.outcome(), Outcome::NotApplied);
        }
    }
}

#[tokio::test]
async fn a_lost_connection_fails_everything_that_waits_and_spares_what_was_answered() {
    let (session, mut notifications, mut peer) = session(Options::new()).await;
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.list(None).await })
        })
        .collect();
    for _ in 0..10 {
        peer.asked().await;
    }
    let sent = [listed(0), notify(1), listed(1), notify(2)];
    peer.write(&sent.iter().map(octets).collect::<Vec<_>>().concat()).await;
    drop(peer);
    for (n, task) in (0..).zip(tasks) {
        match within(task).await.unwrap() {
            Ok(ids) => assert!(n < 2 && ids == [n], "{n}: {ids:?}"),
            Err(error) => assert!(n >= 2 && matches!(error, Error::Unknown(_)), "{n}: {error:?}"),
        }
    }
    assert_eq!(within(notifications.next()).await.unwrap().id, 1);
    assert_eq!(within(notifications.next()).await.unwrap().id, 2);
    assert!(within(notifications.next()).await.is_none());
    assert!(session.ended().is_some());
}

/// More than any socket buffers: what did not leave this process cannot have been carried out.
#[tokio::test]
async fn what_was_not_written_whole_was_not_sent() {
    let (session, _notifications, mut peer) = session(Options::new()).await;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.register(event(&"x".repeat(1_000_000)), &[]).await })
        })
        .collect();
    peer.asked().await;
    drop(peer);
    let mut errors = Vec::new();
    for task in tasks {
        errors.push(within(task).await.unwrap().unwrap_err());
    }
    assert!(matches!(errors[0], Error::Unknown(_)), "{:?}", errors[0]);
    assert!(matches!(errors[63], Error::NotSent(_)), "{:?}", errors[63]);
    let sent = errors.iter().take_while(|error| matches!(error, Error::Unknown(_))).count();
    assert!(errors[sent..].iter().all(|error| matches!(error, Error::NotSent(_))), "{errors:?}");
}

#[tokio::test]
async fn a_request_that_was_cut_while_it_was_written_was_not_sent() {
    use tokio::io::AsyncReadExt as _;
    let options = Options::new().request_bytes_max(u32::MAX);
    let (session, _notifications, mut peer) = session(options).await;
    let server = async {
        within(peer.stream.read_u8()).await.unwrap();
        drop(peer);
    };
    // More than any socket buffers.
    let ask = session.register(event(&"x".repeat(64 << 20)), &[]);
    let (result, ()) = within(async { tokio::join!(ask, server) }).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::NotSent(Trouble::Ended(_))), "{error:?}");
}

#[tokio::test]
async fn an_error_that_answers_nothing_is_why_the_session_ended() {
    let (session, mut notifications, mut peer) = session(Options::new()).await;
    let message = "too many sessions".to_owned();
    peer.answer(&Answer::Error { last_id: 0, code: ErrorCode::InternalError, message }).await;
    match ended(&mut notifications).await {
        Ended::Dismissed { code: ErrorCode::InternalError, message } => {
            assert_eq!(message, "too many sessions");
        }
        other => panic!("{other:?}"),
    }
    let error = session.list(None).await.unwrap_err();
    assert!(error.to_string().contains("too many sessions"), "{error}");
    peer.closed().await;
}

#[tokio::test]
async fn an_answer_of_the_wrong_kind_ends_the_session() {
    let (session, mut notifications, mut peer) = session(Options::new()).await;
    let server = async {
        peer.asked().await;
        peer.asked().await;
        peer.answer(&listed(1)).await;
    };
    let asks = async { tokio::join!(session.filter(), session.list(None)) };
    let ((one, two), ()) = within(async { tokio::join!(asks, server) }).await;
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert!(matches!(error, Error::Unknown(_)), "{error:?}");
        assert!(error.to_string().contains("ListedEvents where Filter was due"), "{error}");
    }
    assert!(matches!(ended(&mut notifications).await, Ended::Protocol(_)));
}

#[tokio::test]
async fn what_no_server_says_ends_the_session() {
    let too_long = [0xff, 0xff, 0xff, 0x7f, 3];
    let cases: [(&[u8], &str); 6] = [
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: 999\r\n\r\n<html>",
            "does not speak sevent",
        ),
        (b"\x00", "size zero"),
        (b"\xff\xff\xff\xff\xff\x01", "not a VarInt"),
        (&too_long, "at most 67108864"),
        (b"\x02\x02\x00", "does not speak sevent"),
        (b"\x03\x0a\x00\x00", "does not speak sevent"),
    ];
    for (octets, words) in cases {
        let (session, mut notifications, mut peer) = session(Options::new()).await;
        let server = async {
            peer.asked().await;
            peer.write(octets).await;
            peer
        };
        let (result, _peer) = within(async { tokio::join!(session.list(None), server) }).await;
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Unknown(_)), "{octets:?}: {error:?}");
        assert!(error.to_string().contains(words), "{octets:?}: {error}");
        assert!(matches!(ended(&mut notifications).await, Ended::Protocol(_)));
    }
}

#[tokio::test]
async fn a_message_longer_than_is_taken_ends_the_session() {
    let (session, mut notifications, mut peer) = session(Options::new().frame_bytes_max(10)).await;
    let server = async {
        peer.asked().await;
        peer.answer(&Answer::ListedEvents { ids: (0..10).collect() }).await;
    };
    let (result, ()) = within(async { tokio::join!(session.list(None), server) }).await;
    assert!(result.unwrap_err().to_string().contains("at most 10"));
    assert!(matches!(ended(&mut notifications).await, Ended::Protocol(_)));
}

#[tokio::test]
async fn a_silent_server_is_asked_and_then_given_up() {
    let (session, mut notifications, mut peer) =
        session(Options::new().silence_max(Duration::from_secs(60))).await;
    // From here on time passes only when there is nothing to read.
    tokio::time::pause();
    for _ in 0..5 {
        let request = tokio::select! {
            told = notifications.next() => panic!("{told:?}"),
            received = peer.try_received() => received.unwrap().request,
        };
        assert_eq!(request, Request::GetFilter);
        peer.answer(&Answer::Filter(handoff_sdk::sevent::Selection::default())).await;
    }
    assert!(session.ended().is_none());
    let begun = tokio::time::Instant::now();
    assert!(notifications.next().await.is_none());
    assert!(matches!(notifications.ended(), Some(Ended::Silent(_))), "{:?}", notifications.ended());
    assert!((90..=120).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_session_that_does_not_take_notifications_does_not_call_the_server_silent() {
    let options = Options::new().notifications_max(1).silence_max(Duration::from_secs(60));
    let (session, mut notifications, mut peer) = session(options).await;
    for id in 0..3 {
        peer.answer(&notify(id)).await;
    }
    // One is taken, so the next is in the queue and the last is held.
    tokio::time::pause();
    assert_eq!(notifications.next().await.unwrap().id, 0);
    for _ in 0..100 {
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    for id in 1..3 {
        assert_eq!(notifications.next().await.unwrap().id, id);
    }
    assert!(session.ended().is_none());
    tokio::time::resume();
    let server = async {
        loop {
            let answer = match peer.asked().await {
                Request::GetFilter => Answer::Filter(handoff_sdk::sevent::Selection::default()),
                _ => break peer.answer(&listed(1)).await,
            };
            peer.answer(&answer).await;
        }
    };
    let (answer, ()) = within(async { tokio::join!(session.list(None), server) }).await;
    assert_eq!(answer.unwrap(), [1]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_what_to_check() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = Session::connect(&address.to_string(), Options::new()).await.unwrap_err();
    assert!(matches!(error, handoff_sdk::Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(error.remedy().unwrap().contains("events.listen"));
    let error = Session::connect("http://a", Options::new()).await.unwrap_err();
    assert!(matches!(error, handoff_sdk::Error::Invalid(_)), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Whatever a server says, every request gets an outcome and the session an end.
    #[test]
    fn no_octets_leave_a_request_without_an_outcome(
        octets in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (session, mut notifications, mut peer) = session(Options::new()).await;
            let server = async {
                peer.asked().await;
                // The session may have ended before all of it is written.
                use tokio::io::AsyncWriteExt as _;
                drop(peer.stream.write_all(&octets).await);
                drop(peer);
            };
            let (_, ()) = within(async { tokio::join!(session.list(None), server) }).await;
            ended(&mut notifications).await;
        });
    }
}

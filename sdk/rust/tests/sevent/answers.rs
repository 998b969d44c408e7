//! Every request and its answer; many at once; some given up.

use std::collections::VecDeque;
use std::time::Duration;

use handoff_sdk::Outcome;
use handoff_sdk::sevent::{Error, ErrorCode, Options, Selection, Trouble};
use handoff_sevent::{Answer, Event, Request};
use proptest::prelude::{ProptestConfig, any, proptest};

use crate::peer::{event, listed, notify, octets, session, within};

fn selection() -> Selection {
    Selection { ids: vec![3, 4], types: vec!["a".to_owned(), "б".to_owned()] }
}

#[tokio::test]
async fn every_request_is_written_as_the_protocol_says_and_its_answer_understood() {
    let (session, _notifications, mut peer) = session(Options::new()).await;
    let client = async {
        let registered = session.register(event("tea"), &["a", "b"]).await.unwrap();
        assert_eq!((registered.id, registered.timestamp), (7, 1_800_000_000));
        assert_eq!(session.list(None).await.unwrap(), [1, 2]);
        assert!(session.list(Some(&["a"])).await.unwrap().is_empty());
        assert!(session.list(Some(&[])).await.unwrap().is_empty());
        assert_eq!(session.delete(selection()).await.unwrap(), [3]);
        session.subscribe(selection()).await.unwrap();
        session.unsubscribe(selection()).await.unwrap();
        session.replace_filter(selection()).await.unwrap();
        assert_eq!(session.filter().await.unwrap(), selection());
        let info = session.get(7).await.unwrap();
        assert_eq!((info.id, info.timestamp, info.event), (7, -1, event("tea")));
        assert_eq!(info.types, ["a"]);
    };
    let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let ids = |ids: &[i32]| Answer::ListedEvents { ids: ids.to_vec() };
    let script = [
        (
            Request::RegisterEvent { event: event("tea"), types: types(&["a", "b"]) },
            Answer::EventRegistration { id: 7, timestamp: 1_800_000_000 },
        ),
        (Request::ListEvents { types: None }, ids(&[1, 2])),
        (Request::ListEvents { types: Some(types(&["a"])) }, ids(&[])),
        (Request::ListEvents { types: Some(types(&[])) }, ids(&[])),
        (Request::DeleteEvent(selection()), Answer::DeletedEvents { ids: vec![3] }),
        (Request::Subscribe(selection()), Answer::FilterUpdated),
        (Request::Unsubscribe(selection()), Answer::FilterUpdated),
        (Request::Filter(selection()), Answer::FilterUpdated),
        (Request::GetFilter, Answer::Filter(selection())),
        (
            Request::GetEvent { id: 7 },
            Answer::EventInfo { id: 7, types: types(&["a"]), event: event("tea"), timestamp: -1 },
        ),
    ];
    let server = async {
        for (request, answer) in script {
            let received = peer.received().await;
            assert_eq!((received.request, received.token), (request, None));
            peer.answer(&answer).await;
        }
    };
    within(async { tokio::join!(client, server) }).await;
}

/// The same octet by octet, against the tables of the protocol and not against our own codec.
#[tokio::test]
async fn octets_are_those_of_the_protocol() {
    let (session, _notifications, mut peer) = session(Options::new()).await;
    let tea = Event { description: "tea".to_owned(), period: 1.0, repeat: -1 };
    let client = async { session.register(tea, &["a"]).await.unwrap() };
    let server = async {
        use tokio::io::AsyncReadExt as _;
        let expected =
            b"\x18\x02\x04\x03\x01\x01a\x00\x03tea\x3f\xf0\0\0\0\0\0\0\xff\xff\xff\xff\x0f";
        let mut read = vec![0; expected.len()];
        within(peer.stream.read_exact(&mut read)).await.unwrap();
        assert_eq!(read, expected);
        peer.write(b"\x0e\x03\x01\x02\xaf\x05\x00\0\0\0\0\x6b\x49\xd2\x00").await;
    };
    let (registered, ()) = within(async { tokio::join!(client, server) }).await;
    assert_eq!((registered.id, registered.timestamp), (687, 1_800_000_000));
}

#[tokio::test]
async fn a_refusal_is_the_answer_of_its_request_and_the_session_goes_on() {
    let (session, _notifications, mut peer) = session(Options::new()).await;
    for (code, outcome) in [
        (ErrorCode::FormatError, Outcome::NotApplied),
        (ErrorCode::InvalidProperty, Outcome::NotApplied),
        (ErrorCode::InternalError, Outcome::Unknown),
        (ErrorCode::EventNotExists, Outcome::NotApplied),
        (ErrorCode::WrongMessage, Outcome::NotApplied),
    ] {
        let server = async {
            peer.asked().await;
            peer.answer(&Answer::Error { last_id: 13, code, message: "no".to_owned() }).await;
            peer.asked().await;
            peer.answer(&listed(5)).await;
        };
        let client = async { (session.get(1).await.unwrap_err(), session.list(None).await) };
        let ((error, list), ()) = within(async { tokio::join!(client, server) }).await;
        assert_eq!((error.code(), error.outcome()), (Some(code), outcome));
        assert!(error.to_string().contains("no"), "{error}");
        assert_eq!(list.unwrap(), [5]);
    }
}

/// A request whose answer tells which it was.
async fn ask(session: &handoff_sdk::sevent::Session, n: usize) -> Vec<i32> {
    session.list(Some(&[&n.to_string()])).await.unwrap()
}

fn number(request: &Request) -> i32 {
    match request {
        Request::ListEvents { types: Some(types) } => types[0].parse().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn requests_of_many_tasks_are_under_way_at_once_and_each_gets_its_own_answer() {
    let (session, _notifications, mut peer) = session(Options::new()).await;
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let session = session.clone();
            tokio::spawn(async move { ask(&session, n).await })
        })
        .collect();
    // All of them before the first answer.
    let mut numbers = Vec::new();
    for _ in 0..200 {
        numbers.push(number(&peer.asked().await));
    }
    let answers: Vec<_> = numbers.iter().map(|n| octets(&listed(*n))).collect();
    peer.write(&answers.concat()).await;
    for (n, task) in (0..).zip(tasks) {
        assert_eq!(within(task).await.unwrap(), [n]);
    }
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_was_said() {
    let (session, _notifications, mut peer) = session(Options::new().requests_max(2)).await;
    let tasks: Vec<_> = (0..6)
        .map(|n| {
            let session = session.clone();
            tokio::spawn(async move { ask(&session, n).await })
        })
        .collect();
    let mut waiting = VecDeque::new();
    for answered in 0..6 {
        if waiting.is_empty() {
            waiting.push_back(number(&peer.asked().await));
        }
        // Whatever could come by now comes.
        for _ in 0..300 {
            tokio::select! {
                biased;
                received = peer.try_received() => {
                    waiting.push_back(number(&received.unwrap().request));
                }
                () = tokio::task::yield_now() => {}
            }
        }
        assert!(waiting.len() <= 2, "after {answered}: {waiting:?}");
        peer.answer(&listed(waiting.pop_front().unwrap())).await;
    }
    for (n, task) in (0..).zip(tasks) {
        assert_eq!(within(task).await.unwrap(), [n]);
    }
}

#[tokio::test]
async fn a_request_that_was_given_up_does_not_shift_answers() {
    let (session, _notifications, mut peer) = session(Options::new()).await;
    for n in 0..10 {
        let given_up = ask(&session, 1000 + n);
        let received = tokio::select! {
            answer = given_up => panic!("{answer:?}"),
            request = peer.asked() => number(&request),
        };
        let server = async {
            let second = number(&peer.asked().await);
            peer.answer(&listed(received)).await;
            peer.answer(&listed(second)).await;
        };
        let (answer, ()) = within(async { tokio::join!(ask(&session, n), server) }).await;
        assert_eq!(answer, [i32::try_from(n).unwrap()]);
    }
}

#[tokio::test]
async fn a_request_whose_time_is_over_is_unknown_and_its_answer_nobodys() {
    let options = Options::new().request_timeout(Duration::from_secs(10));
    let (session, _notifications, mut peer) = session(options).await;
    // From here on time passes only when there is nothing to read.
    tokio::time::pause();
    let error = session.list(None).await.unwrap_err();
    assert!(matches!(error, Error::Unknown(Trouble::Timeout(_))), "{error:?}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    tokio::time::resume();
    peer.asked().await;
    peer.answer(&listed(1)).await;
    let server = async {
        peer.asked().await;
        peer.answer(&listed(2)).await;
    };
    let (answer, ()) = within(async { tokio::join!(session.list(None), server) }).await;
    assert_eq!(answer.unwrap(), [2]);
    assert!(session.ended().is_none());
}

#[tokio::test]
async fn a_request_that_no_server_takes_is_refused_here_and_the_session_goes_on() {
    let options = Options::new().request_bytes_max(100).token("secret");
    let (session, _notifications, mut peer) = session(options).await;
    for length in [90, 101, 2_000_000] {
        let error = session.register(event(&"x".repeat(length)), &[]).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { max: 100 }), "{error:?}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
    let server = async {
        let received = peer.received().await;
        assert_eq!(received.token.as_deref(), Some(b"secret".as_slice()));
        peer.answer(&listed(1)).await;
    };
    let (answer, ()) = within(async { tokio::join!(session.list(None), server) }).await;
    assert_eq!(answer.unwrap(), [1]);
}

#[tokio::test]
async fn patience_and_queues_may_be_endless() {
    let options = Options::new()
        .connect_timeout(Duration::MAX)
        .request_timeout(Duration::MAX)
        .silence_max(Duration::MAX)
        .requests_max(usize::MAX)
        .notifications_max(usize::MAX);
    let (session, _notifications, mut peer) = session(options).await;
    let server = async {
        peer.asked().await;
        peer.answer(&listed(1)).await;
    };
    let (answer, ()) = within(async { tokio::join!(session.list(None), server) }).await;
    assert_eq!(answer.unwrap(), [1]);
}

#[tokio::test]
async fn a_token_is_shown_once_with_the_first_request() {
    let (session, _notifications, mut peer) = session(Options::new().token("hf_1")).await;
    assert!(!format!("{:?}", Options::new().token("hf_1")).contains("hf_1"));
    for token in [Some(b"hf_1".as_slice()), None, None] {
        let server = async {
            assert_eq!(peer.received().await.token.as_deref(), token);
            peer.answer(&Answer::FilterUpdated).await;
        };
        let subscribe = session.subscribe(Selection::default());
        within(async { tokio::join!(subscribe, server) }).await.0.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Answers and notifications in any mixture, in pieces of any size.
    #[test]
    fn answers_and_notifications_come_in_order_however_they_are_cut(
        kinds in proptest::collection::vec(any::<bool>(), 1..40),
        piece in 1..30_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(within(async {
            let (session, mut notifications, mut peer) = session(Options::new()).await;
            let asked = kinds.iter().filter(|is_answer| **is_answer).count();
            let requests: Vec<_> = (0..asked)
                .map(|n| {
                    let session = session.clone();
                    tokio::spawn(async move { ask(&session, n).await })
                })
                .collect();
            let mut numbers = Vec::new();
            for _ in 0..asked {
                numbers.push(number(&peer.asked().await));
            }
            let mut numbers = numbers.into_iter();
            let mut told = 0..;
            let stream: Vec<_> = kinds
                .iter()
                .map(|is_answer| match is_answer {
                    true => octets(&listed(numbers.next().unwrap())),
                    false => octets(&notify(told.next().unwrap())),
                })
                .collect();
            for part in stream.concat().chunks(piece) {
                peer.write(part).await;
                tokio::task::yield_now().await;
            }
            for (n, request) in (0..).zip(requests) {
                assert_eq!(request.await.unwrap(), [n]);
            }
            for n in 0..told.start {
                assert_eq!(notifications.next().await.unwrap().id, n);
            }
        }));
    }
}

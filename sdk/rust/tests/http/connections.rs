//! Connections: kept, closed, refused, silent; and what is sent a second time.

use std::time::Duration;

use handoff_sdk::events::NewEvent;
use handoff_sdk::{Client, Error, Options, Outcome};
use tokio::net::TcpListener;

use crate::peer::{listener, ok, within};

fn event() -> NewEvent {
    NewEvent::every(Duration::from_secs(1), "a")
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let listener = listener().await;
    let client = listener.client();
    let server = async {
        let mut peer = listener.accept().await;
        for n in 0..20 {
            assert_eq!(peer.asked().await.line, format!("GET /{n}"));
            peer.json(&n.to_string()).await;
        }
    };
    let calls = async {
        for n in 0..20 {
            assert_eq!(client.get_json::<u32>(&format!("/{n}")).await.unwrap(), n);
        }
    };
    within(async { tokio::join!(calls, server) }).await;
}

#[tokio::test]
async fn requests_at_once_each_have_a_connection_and_get_their_own_answer() {
    let listener = listener().await;
    let client = listener.client();
    let asks: Vec<_> = (0..10)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.get_json::<u32>(&format!("/{n}")).await.unwrap() })
        })
        .collect();
    let mut peers = Vec::new();
    for _ in 0..10 {
        let mut peer = listener.accept().await;
        let line = peer.asked().await.line;
        peers.push((peer, line));
    }
    for (peer, line) in peers.iter_mut().rev() {
        peer.json(line.trim_start_matches("GET /")).await;
    }
    for (n, ask) in (0..).zip(asks) {
        assert_eq!(within(ask).await.unwrap(), n);
    }
}

#[tokio::test]
async fn no_more_connections_are_kept_than_was_said() {
    let listener = listener().await;
    let client = Client::new(listener.options().idle_connections_max(1)).unwrap();
    let asks = async { tokio::join!(client.get_json::<u32>("/1"), client.get_json::<u32>("/2")) };
    let server = async {
        let (mut one, mut two) = (listener.accept().await, listener.accept().await);
        tokio::join!(one.asked(), two.asked());
        one.json("1").await;
        two.json("1").await;
        (one, two)
    };
    let ((a, b), (one, two)) = within(async { tokio::join!(asks, server) }).await;
    assert_eq!((a.unwrap(), b.unwrap()), (1, 1));
    within(async {
        tokio::select! {
            () = one.closed() => {}
            () = two.closed() => {}
        }
    })
    .await;
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_does_not_fail_the_next_request() {
    for method in ["GET", "POST"] {
        let listener = listener().await;
        let client = listener.client();
        let server = async {
            let mut peer = listener.accept().await;
            peer.asked().await;
            peer.json("1").await;
            drop(peer);
        };
        let (first, ()) =
            within(async { tokio::join!(client.get_json::<u32>("/1"), server) }).await;
        assert_eq!(first.unwrap(), 1);
        let server = async {
            let mut peer = listener.accept().await;
            assert_eq!(peer.asked().await.line, format!("{method} /2"));
            peer.json("2").await;
        };
        let ask = async {
            match method {
                "GET" => client.get_json::<u32>("/2").await,
                _ => client.post_json::<_, u32>("/2", &1).await,
            }
        };
        // Whether the end is noticed before or after the request is handed over is a race. A POST
        // may lose it only if something of it was written, and then it must not be sent again.
        match within(async {
            tokio::select! {
                result = ask => result,
                () = async { server.await; std::future::pending().await } => unreachable!(),
            }
        })
        .await
        {
            Ok(answer) => assert_eq!(answer, 2),
            Err(error) => {
                assert_eq!(method, "POST", "{error:?}");
                assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_question_whose_kept_connection_dies_is_asked_again_once() {
    let listener = listener().await;
    let client = listener.client();
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.json("1").await;
        assert_eq!(peer.asked().await.line, "GET /2");
        drop(peer);
        let mut peer = listener.accept().await;
        assert_eq!(peer.asked().await.line, "GET /2");
        drop(peer);
        assert_eq!(listener.serve(&ok("3")).await.line, "GET /3");
    };
    let calls = async {
        assert_eq!(client.get_json::<u32>("/1").await.unwrap(), 1);
        let error = client.get_json::<u32>("/2").await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        assert_eq!(client.get_json::<u32>("/3").await.unwrap(), 3);
    };
    within(async { tokio::join!(calls, server) }).await;
}

#[tokio::test]
async fn a_change_that_was_sent_is_never_sent_again() {
    let listener = listener().await;
    let client = listener.client();
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.json("1").await;
        assert_eq!(peer.asked().await.line, "POST /v1/events");
        drop(peer);
        let mut peer = listener.accept().await;
        assert_eq!(peer.asked().await.line, "DELETE /v1/events/1");
        drop(peer);
        assert_eq!(listener.serve(&ok("3")).await.line, "GET /3");
    };
    let calls = async {
        assert_eq!(client.get_json::<u32>("/1").await.unwrap(), 1);
        for result in
            [client.events().register(&event()).await.map(drop), client.events().delete(1).await]
        {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Lost { .. }), "{error:?}");
            assert_eq!(error.outcome(), Outcome::Unknown);
            assert!(error.remedy().unwrap().contains("may have been carried out"));
        }
        assert_eq!(client.get_json::<u32>("/3").await.unwrap(), 3);
    };
    within(async { tokio::join!(calls, server) }).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_what_to_check() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let client = Client::new(Options::new(format!("http://127.0.0.1:{port}"))).unwrap();
    let error = client.events().register(&event()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(error.is_temporary());
    let words = error.to_string();
    assert!(words.contains(&port.to_string()) && words.contains("refused"), "{words}");
    assert!(error.remedy().unwrap().contains("handoff serve"));
}

#[tokio::test]
async fn a_name_that_nobody_has_is_unreachable() {
    // A name of more than 63 letters is refused before anybody is asked for it.
    let client = Client::new(Options::new(format!("http://{}.invalid", "x".repeat(64)))).unwrap();
    let error = within(client.server()).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    assert!(error.is_temporary());
}

#[tokio::test]
async fn silence_ends_with_a_timeout_that_says_whether_anything_was_sent() {
    let listener = listener().await;
    let options = listener.options().request_timeout(Duration::from_millis(50));
    let client = Client::new(options).unwrap();
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.closed().await;
    };
    let events = client.events();
    let event = event();
    let (result, ()) = within(async { tokio::join!(events.register(&event), server) }).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Timeout { sent: true, .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_body_that_stops_coming_is_a_timeout_too() {
    let listener = listener().await;
    let client =
        Client::new(listener.options().request_timeout(Duration::from_millis(50))).unwrap();
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345").await;
        peer.closed().await;
    };
    let (result, ()) = within(async { tokio::join!(client.metrics(), server) }).await;
    assert!(matches!(result, Err(Error::Timeout { sent: true, .. })), "{result:?}");
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection_and_no_other() {
    let listener = listener().await;
    let client = listener.client();
    let other = client.clone();
    let other = tokio::spawn(async move { other.get_json::<u32>("/other").await });
    let mut kept = listener.accept().await;
    kept.asked().await;
    {
        let ask = client.get_json::<u32>("/1");
        let server = async {
            let mut peer = listener.accept().await;
            peer.asked().await;
            peer
        };
        let peer = within(async {
            tokio::select! {
                result = ask => panic!("{result:?}"),
                peer = server => peer,
            }
        })
        .await;
        peer.closed().await;
    }
    kept.json("5").await;
    assert_eq!(within(other).await.unwrap().unwrap(), 5);
    let (result, line) = within(async {
        tokio::join!(client.get_json::<u32>("/2"), async {
            let line = kept.asked().await.line;
            kept.json("2").await;
            line
        })
    })
    .await;
    assert_eq!((result.unwrap(), line.as_str()), (2, "GET /2"));
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_is_served_as_well() {
    let listener = listener().await;
    let client = listener.client();
    for n in 0..5_u32 {
        let reply = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{n}");
        let ask = async { client.post_json::<_, u32>("/", &n).await };
        let (result, asked) = within(async { tokio::join!(ask, listener.serve(&reply)) }).await;
        assert_eq!((result.unwrap(), asked.json()), (n, n.into()));
    }
}

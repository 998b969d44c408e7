//! Occurrences as a stream: told in order, cut anywhere, connected again.

use std::time::Duration;

use handoff_sdk::events::{Backoff, Filter, Notice, Occurrence, Repeat, Watch, WatchOptions};
use handoff_sdk::{Client, Error, Outcome};

use crate::peer::{Listener, Peer, answer, listener, ok, within};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const READY: &str = "event: ready\ndata: {\"version\":1}\n\n";

fn notify(occurrence: u64) -> String {
    format!(
        "event: notify\nid: 7-{occurrence}\ndata: {{\"version\":1,\"id\":7,\"types\":[\"a\"],\
         \"description\":\"tea\",\"periodSecs\":1.5,\"repeat\":-1,\"updatedAt\":\"2027-01-15T08:00:00Z\",\
         \"dueAt\":\"2027-01-15T08:00:01.5Z\",\"occurrence\":{occurrence},\"late\":true,\"new\":1}}\n\n"
    )
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

impl Peer {
    async fn say(&mut self, text: &str) {
        self.write(chunk(text).as_bytes()).await;
    }
}

/// Accepts a watch and tells it that it stands.
async fn begin(listener: &Listener) -> (Peer, String) {
    let mut peer = listener.accept().await;
    let asked = peer.asked().await;
    assert_eq!(asked.header("accept"), Some("text/event-stream"));
    peer.write(HEAD.as_bytes()).await;
    peer.say(READY).await;
    (peer, asked.line)
}

async fn watch(listener: &Listener, options: WatchOptions) -> (Watch, Peer) {
    let client = listener.client();
    let events = client.events();
    let open = events.watch_with(Filter::new(), options);
    let (watch, (peer, _)) = within(async { tokio::join!(open, begin(listener)) }).await;
    (watch.unwrap(), peer)
}

async fn next(watch: &mut Watch) -> Option<Result<Notice, Error>> {
    within(watch.next()).await
}

async fn occurrence(watch: &mut Watch) -> Occurrence {
    match next(watch).await {
        Some(Ok(Notice::Occurred(occurrence))) => occurrence,
        other => panic!("{other:?}"),
    }
}

/// Connects again at once, as far as a test is concerned.
fn at_once() -> WatchOptions {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    WatchOptions::new().reconnect(backoff)
}

#[tokio::test]
async fn a_watch_stands_once_the_server_says_so() {
    let listener = listener().await;
    let client = listener.client();
    let filter = Filter::new().of_type("a b").id(7);
    let events = client.events();
    let mut open = Box::pin(events.watch(filter));
    let mut peer = within(async {
        let silent = async {
            let mut peer = listener.accept().await;
            assert_eq!(peer.asked().await.line, "GET /v1/events/stream?type=a%20b&id=7");
            peer.write(HEAD.as_bytes()).await;
            peer.say(": not yet\n\n").await;
            peer
        };
        tokio::select! {
            result = &mut open => panic!("{result:?}"),
            peer = silent => peer,
        }
    })
    .await;
    let ((), watch) = within(async { tokio::join!(peer.say(READY), open) }).await;
    watch.unwrap();
}

#[tokio::test]
async fn occurrences_are_told_in_order_with_everything_that_is_known() {
    let listener = listener().await;
    let (mut watch, mut peer) = watch(&listener, WatchOptions::new()).await;
    peer.say(&format!("{}: beat\n\n{}", notify(1), notify(2))).await;
    peer.say("event: newer\ndata: {}\n\n").await;
    peer.say(&notify(3)).await;
    let first = occurrence(&mut watch).await;
    assert_eq!((first.id, first.occurrence, first.repeat), (7, 1, Repeat::Forever));
    assert_eq!(
        (first.types.as_slice(), first.description.as_str()),
        (&["a".to_owned()][..], "tea")
    );
    assert_eq!(first.due_at.as_str(), "2027-01-15T08:00:01.5Z");
    assert!(first.late);
    assert_eq!(occurrence(&mut watch).await.occurrence, 2);
    assert_eq!(occurrence(&mut watch).await.occurrence, 3);
}

#[tokio::test]
async fn occurrences_that_come_with_the_greeting_are_not_lost() {
    let listener = listener().await;
    let client = listener.client();
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.write(format!("{HEAD}{}", chunk(&format!("{READY}{}", notify(1)))).as_bytes()).await;
        peer
    };
    let events = client.events();
    let (watch, _peer) = within(async { tokio::join!(events.watch(Filter::new()), server) }).await;
    assert_eq!(occurrence(&mut watch.unwrap()).await.occurrence, 1);
}

#[tokio::test]
async fn a_future_that_is_dropped_in_the_middle_of_an_occurrence_loses_nothing() {
    let listener = listener().await;
    let (mut watch, mut peer) = watch(&listener, WatchOptions::new()).await;
    let text = notify(1);
    for piece in text.as_bytes().chunks(3) {
        peer.say(std::str::from_utf8(piece).unwrap()).await;
        // Read at least this piece, then give up.
        tokio::select! {
            biased;
            notice = watch.next() => {
                assert!(matches!(notice, Some(Ok(Notice::Occurred(_)))), "{notice:?}");
                return;
            }
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(occurrence(&mut watch).await.occurrence, 1);
}

#[tokio::test]
async fn a_watch_that_breaks_says_so_and_is_over() {
    for farewell in ["", "event: closed\ndata: {\"version\":1,\"reason\":\"slow\"}\n\n"] {
        let listener = listener().await;
        let (mut watch, mut peer) = watch(&listener, WatchOptions::new()).await;
        peer.say(&notify(1)).await;
        peer.say(&notify(2)[..50]).await;
        if !farewell.is_empty() {
            peer.say(&format!("\n\n{farewell}")).await;
        }
        peer.write(b"0\r\n\r\n").await;
        occurrence(&mut watch).await;
        let error = match next(&mut watch).await {
            // Half an occurrence that is ended by an empty line is unreadable.
            Some(Err(error)) => error,
            other => panic!("{other:?}"),
        };
        match farewell {
            "" => assert!(error.to_string().contains("ended the stream"), "{error}"),
            _ => assert!(matches!(error, Error::Protocol { .. }), "{error:?}"),
        }
        assert!(next(&mut watch).await.is_none());
    }
}

#[tokio::test]
async fn a_server_that_ends_a_watch_is_asked_for_its_reason() {
    for (data, words) in [
        (r#"{"version":1,"reason":"stopping"}"#, "is stopping"),
        (r#"{"version":1,"reason":"slow"}"#, "some are lost"),
        (r#"{"version":1,"reason":"moon"}"#, "moon"),
        ("", "ended the stream"),
    ] {
        let listener = listener().await;
        let (mut watch, mut peer) = watch(&listener, WatchOptions::new()).await;
        peer.say(&format!("event: closed\ndata: {data}\n\n")).await;
        let Some(Err(error)) = next(&mut watch).await else { panic!("no error") };
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_told_after_what_had_come_whole() {
    let stream = format!("{}{}", chunk(&notify(1)), chunk(&notify(2)));
    for end in (0..stream.len()).step_by(7) {
        let listener = listener().await;
        let (mut watch, mut peer) = watch(&listener, WatchOptions::new()).await;
        peer.write(&stream.as_bytes()[..end]).await;
        drop(peer);
        let mut told = 0;
        let error = loop {
            match next(&mut watch).await.unwrap() {
                Ok(_) => told += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Lost { .. }), "{end}: {error:?}");
        assert!(told <= end / notify(1).len(), "{end}: {told}");
        assert!(next(&mut watch).await.is_none());
    }
}

#[tokio::test]
async fn a_gap_is_told_when_a_watch_is_connected_again() {
    let listener = listener().await;
    let (mut watch, mut peer) = watch(&listener, at_once()).await;
    peer.say(&notify(1)).await;
    assert_eq!(occurrence(&mut watch).await.occurrence, 1);
    drop(peer);
    match next(&mut watch).await {
        Some(Ok(Notice::Interrupted { cause: Error::Lost { .. } })) => {}
        other => panic!("{other:?}"),
    }
    let server = async {
        let busy = answer("503 Busy", "application/problem+json", r#"{"title":"b","code":"c"}"#);
        listener.serve(&busy).await;
        drop(listener.accept().await);
        let (mut peer, _) = begin(&listener).await;
        peer.say(&notify(9)).await;
        peer
    };
    let (notice, _peer) = within(async { tokio::join!(watch.next(), server) }).await;
    match notice {
        Some(Ok(Notice::Reconnected { attempts: 3 })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(occurrence(&mut watch).await.occurrence, 9);
}

#[tokio::test]
async fn connecting_again_goes_on_when_its_future_is_dropped() {
    let listener = listener().await;
    let (mut watch, peer) = watch(&listener, at_once()).await;
    drop(peer);
    assert!(matches!(next(&mut watch).await, Some(Ok(Notice::Interrupted { .. }))));
    // The attempt is begun in a future that is dropped while the server keeps it waiting.
    let mut peer = within(async {
        let server = async {
            let mut peer = listener.accept().await;
            peer.asked().await;
            peer
        };
        tokio::select! {
            notice = watch.next() => panic!("{notice:?}"),
            peer = server => peer,
        }
    })
    .await;
    peer.write(HEAD.as_bytes()).await;
    peer.say(READY).await;
    let notice = next(&mut watch).await;
    assert!(matches!(notice, Some(Ok(Notice::Reconnected { attempts: 1 }))), "{notice:?}");
}

#[tokio::test]
async fn what_time_does_not_heal_ends_a_watch() {
    for status in ["401 Unauthorized", "404 Not Found"] {
        let listener = listener().await;
        let (mut watch, peer) = watch(&listener, at_once()).await;
        drop(peer);
        assert!(matches!(next(&mut watch).await, Some(Ok(Notice::Interrupted { .. }))));
        let refusal = answer(status, "application/problem+json", r#"{"title":"t","code":"c"}"#);
        let (notice, _) =
            within(async { tokio::join!(watch.next(), listener.serve(&refusal)) }).await;
        let Some(Err(error)) = notice else { panic!("{notice:?}") };
        assert_eq!(error.code(), Some("c"));
        assert!(next(&mut watch).await.is_none());
    }
}

#[tokio::test]
async fn a_watch_that_cannot_begin_is_not_tried_twice() {
    let refusal =
        answer("404 Not Found", "application/problem+json", r#"{"code":"event_not_found"}"#);
    let page = ok("{}");
    for (reply, protocol) in [(&refusal, false), (&page, true)] {
        let listener = listener().await;
        let client = listener.client();
        let events = client.events();
        let open = events.watch_with(Filter::new().id(7), at_once());
        let (watch, _) = within(async { tokio::join!(open, listener.serve(reply)) }).await;
        let error = watch.unwrap_err();
        assert_eq!(matches!(error, Error::Protocol { .. }), protocol, "{error:?}");
        assert_eq!(error.code().is_some(), !protocol);
    }
}

#[tokio::test]
async fn a_server_that_never_says_that_a_watch_stands_is_a_timeout() {
    let listener = listener().await;
    let client =
        Client::new(listener.options().request_timeout(Duration::from_millis(50))).unwrap();
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.write(HEAD.as_bytes()).await;
        peer.closed().await;
    };
    let events = client.events();
    let (watch, ()) = within(async { tokio::join!(events.watch(Filter::new()), server) }).await;
    let error = watch.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn silence_breaks_a_watch_and_a_comment_is_no_silence() {
    let listener = listener().await;
    let options = WatchOptions::new().silence_max(Duration::from_secs(60));
    let (mut watch, mut peer) = watch(&listener, options).await;
    // From here on time passes only when there is nothing to read.
    tokio::time::pause();
    for _ in 0..10 {
        let waited = tokio::time::timeout(Duration::from_secs(59), watch.next()).await;
        assert!(waited.is_err(), "{waited:?}");
        peer.say(":\n\n").await;
    }
    let begun = tokio::time::Instant::now();
    let Some(Err(error)) = watch.next().await else { panic!("no error") };
    assert!((60..=65).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert!(error.to_string().contains("silent for 60 s"), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn whoever_did_not_listen_for_long_does_not_call_the_server_silent() {
    let listener = listener().await;
    let options = WatchOptions::new().silence_max(Duration::from_secs(60));
    let (mut watch, mut peer) = watch(&listener, options).await;
    peer.say(&notify(1)).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3600)).await;
    let notice = watch.next().await;
    assert!(matches!(notice, Some(Ok(Notice::Occurred(_)))), "{notice:?}");
}

#[tokio::test]
async fn patience_may_be_endless() {
    let listener = listener().await;
    let options = listener.options().connect_timeout(Duration::MAX).request_timeout(Duration::MAX);
    let client = Client::new(options).unwrap();
    let events = client.events();
    let options = WatchOptions::new().silence_max(Duration::MAX);
    let open = events.watch_with(Filter::new(), options);
    let (watch, (mut peer, _)) = within(async { tokio::join!(open, begin(&listener)) }).await;
    peer.say(&notify(1)).await;
    assert_eq!(occurrence(&mut watch.unwrap()).await.occurrence, 1);
}

#[tokio::test]
async fn dropping_a_watch_closes_its_connection() {
    let listener = listener().await;
    let (watch, peer) = watch(&listener, WatchOptions::new()).await;
    drop(watch);
    peer.closed().await;
}

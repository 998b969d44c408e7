//! Peers in the layouts of others: every byte of theirs is as their documents have it.

use bytes::Bytes;
use handoff_calls::{Failing, Failure, HandlerError, Outcome};
use handoff_store_redis::{Guardian, Job, Options, Request, Service};
use handoff_tests::origami::{Peer, Told, Version};
use handoff_tests::redis::Server;

use crate::{Begun, answer, channel, client, echo, must, runtime};

const TEXTS: [&str; 5] = ["null", "{\"a\":\"ü\"}", "[1,[2,[3]]]", "\"0\"", "1234567e-4"];

#[test]
fn our_caller_and_a_foreign_consumer_understand_each_other() {
    for version in Version::ALL {
        let server = Server::start();
        let mut peer = Peer::start(&server, version, "work");
        let node = peer.node.clone();
        let consumer = std::thread::spawn(move || {
            for _ in TEXTS {
                peer.serve_one(|params| ("0", format!("[{params}]")));
            }
            peer.serve_one(|_| {
                ("1", r#"{"name":"TypeError","message":"no","stack":"s","code":7}"#.to_owned())
            });
        });
        runtime().block_on(async {
            let caller = client(&server.address(), Vec::new()).await;
            for text in TEXTS {
                assert_eq!(answer(&caller, "work", text).await, format!("[{text}]"), "{version:?}");
            }
            let fails = caller.call(Request::new(channel("work"), "1"));
            let failed = must("an end", fails).await.unwrap();
            assert_eq!(failed.executor.unwrap().to_string(), node, "{version:?}");
            let Outcome::Failed(Failure::Handler(error)) = failed.outcome else {
                panic!("{failed:?}")
            };
            assert_eq!((&*error.name, &*error.message, &*error.code), ("TypeError", "no", "7"));
        });
        consumer.join().unwrap();
    }
}

#[test]
fn a_foreign_caller_and_our_consumer_understand_each_other() {
    for version in Version::ALL {
        let server = Server::start();
        let runtime = runtime();
        let (_worker, _guardian) = runtime.block_on(async {
            let service = Service::new(channel("work"), 4, |job: Job| async move {
                if job.params == "\"fail\"" {
                    let (name, message) = ("Stock".into(), "none left".into());
                    let error = HandlerError { name, message, code: "E1".into() };
                    return Err(Failing { error, terminal: true, retry_after: None });
                }
                Ok(Bytes::from([b"[", &job.params[..], b"]"].concat()))
            });
            let worker = client(&server.address(), vec![service]).await;
            (worker, Guardian::start(&server.address(), Options::default()).await.unwrap())
        });
        let mut peer = Peer::start(&server, version, "");
        for text in TEXTS {
            let id = peer.request("work", text, "0");
            assert_eq!(peer.told_of('c').message, id);
            assert_eq!(peer.end_of(&id), ("0".to_owned(), format!("[{text}]")), "{version:?}");
        }
        let id = peer.request("work", "\"fail\"", "0");
        let (digit, answer) = peer.end_of(&id);
        let words = r#"{"name":"Stock","message":"none left","stack":"","code":"E1","cause":null}"#;
        assert_eq!((&*digit, &*answer), ("1", words), "{version:?}");
    }
}

/// What our scripts publish for a peer of each version, byte for byte.
#[test]
fn every_event_for_a_foreign_peer_has_the_bytes_of_its_version() {
    for version in Version::ALL {
        let server = Server::start();
        let runtime = runtime();
        let begun = Begun::default();
        let (caller, worker, _guardian) = runtime.block_on(async {
            let caller = client(&server.address(), Vec::new()).await;
            let worker = client(&server.address(), vec![echo("ours", 1, &begun)]).await;
            let guardian = Guardian::start(&server.address(), Options::default()).await.unwrap();
            (caller, worker, guardian)
        });
        let mut peer = Peer::start(&server, version, "theirs");
        let id = handoff_calls::CallId::of_chance(7);
        let asked = runtime.spawn({
            let caller = caller.clone();
            let request = Request { id: Some(id), ..Request::new(channel("theirs"), "{\"n\":1}") };
            async move { caller.call(request).await.unwrap().outcome }
        });
        let work = format!("{id}{}{{\"n\":1}}", caller.id());
        let offer = Told {
            kind: 'b',
            channel: "theirs".to_owned(),
            message: if version == Version::Early { work } else { id.to_string() },
        };
        assert_eq!(peer.told(), offer);
        peer.accept(&id.to_string());
        peer.told_of('d');
        peer.respond(&id.to_string(), "0", "1");
        let ended = runtime.block_on(must("the answer", asked)).unwrap();
        assert_eq!(ended, Outcome::Answer("1".into()));
        peer.told_of('g');

        let id = peer.request("ours", "[7]", "0");
        let by = worker.id();
        let ended = if version == Version::Early { format!("0{id}{by}[7]") } else { id.clone() };
        assert_eq!(peer.told_of('e').message, ended);
        peer.settle(&id);
        peer.told_of('f');

        // A call that nobody begins in time has neither executor nor answer.
        let id = peer.request("void", "1", "0.3");
        let ended = if version == Version::Early { format!("2{id}") } else { id.clone() };
        assert_eq!(peer.told_of('e').message, ended);
        peer.settle(&id);
        let settled = if version == Version::Early { id.clone() } else { format!("2{id}") };
        assert_eq!(peer.told_of('f').message, settled);
    }
}

//! Who is let in.

use std::fs;

use handoff_house::ActKind;
use handoff_log::disk::Memory;
use handoff_types::{Span, Wall};
use tempfile::TempDir;

use super::*;
use crate::rooms::house::bench::{BEGIN, Bench};

async fn with_token(bench: &Bench, scopes: &[&str], expires: Option<Wall>) -> (String, TokenId) {
    let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
    let (text, token) = mint("ci", scopes, expires).unwrap();
    let id = token.id.clone();
    bench.room.create(token, "local").await.unwrap();
    (text, id)
}

#[test]
fn a_house_without_locks_lets_everybody_do_everything() {
    let gate = Gatekeeper::new(None);
    for token in [None, Some(&b"whatever"[..])] {
        let caller = gate.admit(token).unwrap();
        assert_eq!((caller.name(), caller.token.as_ref()), ("local", None));
        assert!(caller.is_admin());
        assert_eq!(caller.sight(Room::Events), Some(Sight::All));
    }
}

#[tokio::test]
async fn a_token_lets_in_and_shows_what_its_scopes_allow() {
    let bench = Bench::committing(&Memory::new());
    let gate = Gatekeeper::new(Some(bench.room.clone()));
    let (text, id) = with_token(&bench, &["events:acme.*", "streams"], None).await;
    let caller = gate.admit(Some(text.as_bytes())).unwrap();
    assert_eq!(caller.name(), &*id.0);
    assert!(!caller.is_admin());
    assert_eq!(caller.sight(Room::Streams), Some(Sight::All));
    assert_eq!(caller.sight(Room::Calls), None);
    let sight = caller.sight(Room::Events).unwrap();
    assert!(sight.sees("acme.x") && !sight.sees("other"));
    let (text, _) = with_token(&bench, &["admin"], None).await;
    assert!(gate.admit(Some(text.as_bytes())).unwrap().is_admin());
    bench.close().await;
}

#[tokio::test]
async fn whoever_brings_no_known_token_stays_out() {
    let bench = Bench::committing(&Memory::new());
    let gate = Gatekeeper::new(Some(bench.room.clone()));
    let ends = BEGIN.wall + Span::from_secs(1);
    let (expired, _) = with_token(&bench, &["admin"], Some(ends)).await;
    let (revoked, id) = with_token(&bench, &["admin"], None).await;
    bench.room.revoke(id, "local").await.unwrap();
    bench.hands.pass(Span::from_secs(1));
    let (never_made, _) = mint("x", vec![Scope::Admin], None).unwrap();
    let deny = |token: Option<&[u8]>| gate.admit(token).unwrap_err();
    assert_eq!(deny(None), Denied::Missing);
    for text in [&expired, &revoked, &never_made, "", "Bearer x"] {
        assert_eq!(deny(Some(text.as_bytes())), Denied::Unknown, "{text}");
    }
    assert_eq!(deny(Some(b"\xff\0")), Denied::Unknown);
    assert_eq!(
        (Denied::Missing.code(), Denied::Unknown.code()),
        (Code::TokenMissing, Code::TokenUnknown)
    );
    bench.close().await;
}

#[tokio::test]
async fn a_typing_error_is_told_from_an_unknown_token() {
    let bench = Bench::committing(&Memory::new());
    let gate = Gatekeeper::new(Some(bench.room.clone()));
    let (text, _) = with_token(&bench, &["admin"], None).await;
    let cut = &text.as_bytes()[..text.len() - 1];
    assert_eq!(gate.admit(Some(cut)).unwrap_err(), Denied::Mistyped);
    assert_eq!(Denied::Mistyped.code(), Code::TokenUnknown);
    bench.close().await;
}

/// It need not be written like a drawn one, not even if it begins so.
#[tokio::test]
async fn a_token_whose_text_was_chosen_lets_in() {
    let bench = Bench::committing(&Memory::new());
    let gate = Gatekeeper::new(Some(bench.room.clone()));
    for text in ["correct-horse-battery-staple", "ho_looks_like_one_of_ours"] {
        let token = from_text(text, "x", vec![Scope::Admin], None).unwrap();
        bench.room.create(token, "local").await.unwrap();
        assert!(gate.admit(Some(text.as_bytes())).unwrap().is_admin());
    }
    bench.close().await;
}

#[tokio::test]
async fn the_token_in_a_file_is_made_once() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("token");
    fs::write(&file, "  correct-horse-battery-staple\n").unwrap();
    let disk = Memory::new();
    let bench = Bench::committing(&disk);
    let made = bootstrap(&bench.room, &file).await.unwrap();
    let Bootstrapped::Made(id) = made else { panic!("{made:?}") };
    let there = bootstrap(&bench.room, &file).await.unwrap();
    assert_eq!(there, Bootstrapped::There(id.clone()));
    bench.close().await;
    let bench = Bench::committing(&disk);
    let there = bootstrap(&bench.room, &file).await.unwrap();
    assert_eq!(there, Bootstrapped::There(id.clone()));
    let gate = Gatekeeper::new(Some(bench.room.clone()));
    let caller = gate.admit(Some(b"correct-horse-battery-staple")).unwrap();
    assert!(caller.is_admin() && caller.token == Some(id));
    let acts = bench.room.acts(None, 10).await.unwrap();
    assert_eq!(acts.len(), 1);
    assert_eq!((acts[0].kind, &*acts[0].who), (ActKind::TokenCreated, "local"));
    bench.close().await;
}

#[tokio::test]
async fn a_revoked_token_does_not_come_back_from_its_file() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("token");
    fs::write(&file, "correct-horse-battery-staple").unwrap();
    let bench = Bench::committing(&Memory::new());
    let Bootstrapped::Made(id) = bootstrap(&bench.room, &file).await.unwrap() else { panic!() };
    bench.room.revoke(id, "local").await.unwrap();
    let error = bootstrap(&bench.room, &file).await.unwrap_err();
    assert!(matches!(error, BootstrapError::Revoked { .. }), "{error}");
    assert_eq!(bench.room.tokens().await.unwrap(), []);
    bench.close().await;
}

#[tokio::test]
async fn a_file_without_a_token_is_named_with_what_is_wrong() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("token");
    let bench = Bench::committing(&Memory::new());
    let words = bootstrap(&bench.room, &file).await.unwrap_err().to_string();
    assert!(words.contains("auth.bootstrap_token_file"), "{words}");
    let long = "x".repeat(5000);
    let cases = [
        (&b""[..], "this one has 0"),
        (b"short\n", "this one has 5"),
        (b"two words in one token", "character 4"),
        (b"two-lines\nwith-tokens", "character 10"),
        (b"sixteen-bytes-\xff\xfe\xfd", "character 15"),
        (long.as_bytes(), "16 to 256 characters"),
    ];
    for (bytes, expected) in cases {
        fs::write(&file, bytes).unwrap();
        let words = bootstrap(&bench.room, &file).await.unwrap_err().to_string();
        assert!(words.contains(expected) && words.contains("/token"), "{words}");
        assert!(!words.contains("two-lines") && !words.contains("xxx"), "{words}");
    }
    assert_eq!(bench.room.tokens().await.unwrap(), []);
    bench.close().await;
}

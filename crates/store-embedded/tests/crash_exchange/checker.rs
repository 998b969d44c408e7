//! Looks at folders and answers only, and says what of the promises does not hold. It reads names and
//! bytes of files by itself and asks the room for nothing but its list of places.

use std::collections::BTreeMap;

use handoff_exchange::{MessageId, Place, Status};
use handoff_log::disk::{Disk, Memory, read_small};

use crate::clients::{Client, Ledger, Transaction, message};
use crate::office::Office;

const PLACES: [(Place, &str); 5] = [
    (Place::Messages, "Messages"),
    (Place::Prepared, "Prepared"),
    (Place::Log, "Log"),
    (Place::Unknown, "Unknown"),
    (Place::Error, "Error"),
];

/// The files of a database's folders: where, the message's id, and what is in it.
fn files(disk: &Memory, database: &str) -> Vec<(Place, String, Vec<u8>)> {
    let mut found = Vec::new();
    for (place, folder) in PLACES {
        let root = format!("exchange/{database}/{folder}");
        let mut dirs = vec![root.clone()];
        if matches!(place, Place::Log | Place::Error) {
            dirs.extend(
                disk.list(&root).unwrap_or_default().iter().map(|day| format!("{root}/{day}")),
            );
        }
        for dir in dirs {
            for name in disk.list(&dir).unwrap_or_default() {
                assert!(!name.starts_with('.'), "a file was left half made: {dir}/{name}");
                // A number of 16 digits, a dash, the id up to `_from_`.
                let Some(rest) = name.get(17..).filter(|_| name.ends_with(".json")) else {
                    continue;
                };
                let id = rest.split("_from_").next().unwrap().to_owned();
                let bytes = read_small(disk, &format!("{dir}/{name}"), 1 << 20).unwrap().unwrap();
                found.push((place, id, bytes));
            }
        }
    }
    found
}

/// The messages that have a file, with their places.
pub(crate) fn names(disk: &Memory, database: &str) -> Vec<(String, Place)> {
    let mut names: Vec<_> =
        files(disk, database).into_iter().map(|(place, id, _)| (id, place)).collect();
    names.sort();
    names
}

/// What a message's file holds, written from the specification.
fn body(name: &str, from: &str, to: &str) -> Vec<u8> {
    let payload = String::from_utf8(message(name).payload.to_vec()).unwrap();
    format!(
        "{{\"version\":1,\"id\":\"{name}\",\"from\":\"{from}\",\"to\":\"{to}\",\"appSystem\":\"stock\",\
         \"createdAt\":\"2023-11-14T22:13:20Z\",\"type\":\"DOCS\",\"payload\":{payload}}}"
    )
    .into_bytes()
}

/// Where a request must be, once nobody does anything any more; none if it may be nowhere.
fn belongs(ledger: &Ledger, id: &MessageId) -> Option<Vec<Place>> {
    let of = |one: &&Transaction| one.verdicts.contains_key(id) && one.committed.is_some();
    let last = ledger.transactions.iter().rfind(of);
    let Some(last) = last else { return Some(vec![Place::Messages]) };
    let status = last.verdicts[id];
    Some(match (last.committed, status, last.reported) {
        // What nobody said is set aside, or the server knows.
        (Some(true), Status::Processed, false) => vec![Place::Unknown],
        (Some(true), Status::Processed, true) => vec![Place::Log],
        (Some(true), Status::Incorrect, _) => vec![Place::Error],
        (Some(true), Status::Deadlock, _) => vec![Place::Messages],
        // It had no effect to roll back; what was set aside while nobody knew stays there.
        (Some(false), Status::Incorrect, _) => vec![Place::Error, Place::Messages],
        (Some(false), Status::Processed, false) => vec![Place::Unknown, Place::Messages],
        _ => vec![Place::Messages],
    })
}

/// Checks what must hold once everything is at rest.
pub(crate) fn check(office: &Office, disk: &Memory, ledger: &Ledger, client: Client) {
    let mut where_is: BTreeMap<String, Vec<(Place, Vec<u8>)>> = BTreeMap::new();
    for (place, id, bytes) in files(disk, "db") {
        where_is.entry(id).or_default().push((place, bytes));
    }
    // I1: every message that was acknowledged is in exactly one folder, with its own bytes.
    for (id, stored) in &ledger.sent {
        let found = where_is.remove(id.as_str()).unwrap_or_default();
        assert!(found.len() <= 1, "{id} is in {} places", found.len());
        assert!(!stored || found.len() == 1, "{id} was acknowledged and is gone");
        let Some((place, bytes)) = found.first() else { continue };
        assert_eq!(bytes, &body(id.as_str(), "phone", "db"), "the bytes of {id}");
        let allowed = belongs(ledger, id).unwrap();
        assert!(allowed.contains(place), "{id} is in {place:?} and belongs to {allowed:?}");
        // I2: what a committed transaction processed is never in the queue again.
        assert!(ledger.effects(id) <= 1, "{id} was processed twice");
        assert!(
            ledger.effects(id) == 0 || *place != Place::Messages,
            "{id} was processed and waits to be processed again"
        );
    }
    // I3: a reply is where a device sees it only if its transaction committed.
    for transaction in &ledger.transactions {
        for reply in &transaction.replies {
            let found = where_is.remove(reply.as_str()).unwrap_or_default();
            assert!(found.len() <= 1, "{reply} is in {} places", found.len());
            let place = found.first().map(|(place, bytes)| {
                assert_eq!(bytes, &body(reply.as_str(), "db", "phone"), "the bytes of {reply}");
                *place
            });
            match (transaction.committed, transaction.reported) {
                (Some(true), true) => {
                    let seen = matches!(place, Some(Place::Messages | Place::Log));
                    assert!(seen, "{reply} of a committed transaction is in {place:?}");
                }
                (Some(true), false) => {
                    assert_eq!(place, Some(Place::Unknown), "{reply}, of which nobody reported");
                }
                _ => {
                    let hidden = matches!(place, None | Some(Place::Unknown));
                    assert!(hidden, "{reply} of no committed transaction is in {place:?}");
                }
            }
            if ledger.acked.contains(reply) {
                assert_eq!(place, Some(Place::Log), "{reply} was acknowledged");
            }
        }
    }
    for reply in ledger.used.keys() {
        assert!(ledger.is_true(reply), "a device used {reply}, whose transaction did not commit");
    }
    assert!(where_is.is_empty(), "files of nobody: {:?}", where_is.keys());
    // I4: nothing is left that only a person could end, and whoever reports leaves nothing undecided.
    let state = office.state();
    let database = state.database_by_id(&"db".parse().unwrap()).unwrap().no;
    assert!(state.live(database).is_none(), "a process is live for ever");
    assert_eq!(state.unsettled().count(), 0, "a process does not settle");
    if client == Client::Retries {
        assert_eq!(
            state.unknown(database).count(),
            0,
            "an ERP that reports left something undecided"
        );
    }
    // I6: what belongs to another company was touched by nobody.
    let theirs = files(disk, "db2");
    assert_eq!(theirs.len(), 1, "the other company has one message");
    assert_eq!(theirs[0], (Place::Messages, "theirs".into(), body("theirs", "phone", "db2")));
}

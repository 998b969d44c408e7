//! The folders of the exchange in one hand with the room, and whoever compares them with what they
//! should show. The one who compares shares no code with the one who keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use handoff_exchange::{Action, Ask, Place, Seq, State, Way};
use handoff_log::disk::{Disk, Open, read_full_at};
use handoff_log::journal::Journal;
use handoff_log::segments::Segments;
use handoff_store_embedded::folders::{
    Answer, Bodies, Folders, Known, More, Options, Orders, Question, Report, answer, filed,
};
use handoff_store_embedded::{Host, Loading, Persist};
use handoff_types::{Steady, Wall};

use super::oracle::Oracle;
use crate::driver::{Fault, ensure};
use crate::server::Excuses;

/// More pieces of work than there can be.
const PIECES_MAX: usize = 10_000;

/// Where the folders are.
const ROOT: &str = "exchange";

/// The folders of one server.
pub(super) struct Hand {
    folders: Folders,
    orders: Orders,
    bodies: Bodies,
    /// What was decided and is durable, and the folders do not know.
    due: Vec<Action>,
}

impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hand").field("due", &self.due).finish_non_exhaustive()
    }
}

/// The room, whose changes are all durable.
struct Direct<'a>(&'a State);

impl Known for Direct<'_> {
    fn ask(&mut self, question: &Question) -> Option<Answer> {
        Some(answer(self.0, question))
    }
}

impl Hand {
    /// Brings a room to life, with its folders.
    pub(super) fn of<M: Persist>(
        loading: Loading<M>,
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        disk: Arc<dyn Disk>,
    ) -> (Host<M>, Self) {
        let (host, filing) = loading.into_filing_host(journal, segments);
        let folders = Folders::new(disk, filing, Options { take_in_bytes_max: 1 << 20 });
        let (orders, bodies) = (folders.orders(), folders.bodies());
        (host, Self { folders, orders, bodies, due: Vec::new() })
    }

    /// Something was decided, and it is durable.
    pub(super) fn decided(&mut self, actions: &[Action]) {
        self.due.extend(actions.iter().cloned());
    }

    /// Does some pieces of what is to be done. All that the state says is durable.
    pub(super) fn work(&mut self, state: &State, now: Steady, pieces: usize) -> bool {
        self.orders.take(state, &std::mem::take(&mut self.due));
        let mut more = More::Now;
        for _ in 0..pieces {
            more = self.folders.work(&mut Direct(state), now);
            if more == More::No {
                break;
            }
        }
        more != More::No
    }

    pub(super) fn sync(&mut self, now: Steady) {
        self.folders.sync(now);
    }

    pub(super) fn compare(&self) {
        self.orders.compare();
    }

    /// When something that failed is tried again.
    pub(super) fn next_due(&self) -> Option<Steady> {
        self.folders.next_due()
    }

    /// What the room is to be told, and all of it in words.
    pub(super) fn reports(&mut self) -> (Vec<Ask>, Vec<String>) {
        let (mut asks, mut words) = (Vec::new(), Vec::new());
        for report in self.folders.take_reports() {
            words.push(format!("{report:?}"));
            match report {
                Report::Settled { process, round } => {
                    asks.push(Ask::Settled { number: process, round });
                }
                Report::Stuck { process, words } => {
                    asks.push(Ask::Stuck { number: process, words });
                }
                Report::Damaged { seq, words } => asks.push(Ask::Damaged { seq, words }),
                _ => {}
            }
        }
        (asks, words)
    }

    /// Does all there is to do at this moment.
    ///
    /// # Errors
    /// When there is no end to it.
    pub(super) fn finish(&mut self, state: &State, now: Steady) -> Result<(), Fault> {
        let more = self.work(state, now, PIECES_MAX);
        self.folders.sync(now);
        ensure(!more, || "the work of the folders never ends".to_owned())
    }

    /// Every body that somebody was told of is what it was.
    ///
    /// # Errors
    /// When one is not, or is not there.
    pub(super) fn read_all(
        &self,
        state: &State,
        oracle: &Oracle,
        excuses: Excuses,
    ) -> Result<(), Fault> {
        for (seq, bytes, crc) in oracle.bodies() {
            let Some(message) = state.message(seq) else { continue };
            let found = filed(state, seq, message).map(|filed| self.bodies.read(&filed));
            match found {
                Some(Ok(body)) => {
                    let fits = body.len() as u64 == u64::from(bytes);
                    let fits = fits && crc32c::crc32c(&body) == crc;
                    ensure(fits, || format!("the body of {seq:?} is {body:?}"))?;
                }
                Some(Err(_)) if excuses.fault || excuses.damage => return Ok(()),
                other => return Err(Fault::Invariant(format!("the body of {seq:?}: {other:?}"))),
            }
        }
        Ok(())
    }
}

/// Compares the folders with what the oracle knows: every message has one file where it belongs, with
/// exactly its bytes, and there is nothing else.
///
/// # Errors
/// When they differ.
pub(super) fn compare(disk: &dyn Disk, state: &State, oracle: &Oracle) -> Result<(), Fault> {
    let mut expected: BTreeMap<String, (Seq, u32, u32)> = BTreeMap::new();
    for (seq, message) in oracle.messages() {
        let database = state.database(message.database).map_or("?", |one| one.id.as_str());
        let device = state.device(message.device).map_or("?", |one| one.id.as_str());
        let (from, to) = match message.way {
            Way::ToErp => (device, database),
            Way::ToDevice => (database, device),
        };
        let kind = message.kind.as_ref().map(|kind| format!("__{kind}")).unwrap_or_default();
        let name = format!("{:016x}-{}_from_{from}_to_{to}{kind}.json", seq.0, message.id);
        let folder = match message.place {
            Place::Messages => "Messages".to_owned(),
            Place::Prepared => "Prepared".to_owned(),
            Place::Unknown => "Unknown".to_owned(),
            Place::Log => format!("Log/{}", day(message.since)),
            Place::Error => format!("Error/{}", day(message.since)),
        };
        let path = format!("{ROOT}/{database}/{folder}/{name}");
        expected.insert(path, (seq, message.bytes, message.crc));
    }
    let mut found = BTreeSet::new();
    for database in disk.list(ROOT).unwrap_or_default() {
        for folder in disk.list(&format!("{ROOT}/{database}")).unwrap_or_default() {
            let dir = format!("{ROOT}/{database}/{folder}");
            for name in disk.list(&dir).unwrap_or_default() {
                match disk.list(&format!("{dir}/{name}")) {
                    Ok(names) => {
                        found.extend(names.iter().map(|one| format!("{dir}/{name}/{one}")));
                    }
                    Err(_) => drop(found.insert(format!("{dir}/{name}"))),
                }
            }
        }
    }
    for path in found.iter().chain(expected.keys()) {
        let there = found.contains(path);
        let Some((seq, bytes, crc)) = expected.get(path).filter(|_| there) else {
            let belongs = expected.contains_key(path);
            let what = format!("{path} is there: {there}, and belongs there: {belongs}");
            return Err(Fault::Invariant(what));
        };
        let content = read(disk, path)?;
        let fits = content.len() as u64 == u64::from(*bytes) && crc32c::crc32c(&content) == *crc;
        ensure(fits, || format!("the file of {seq:?} is {content:?}"))?;
    }
    Ok(())
}

fn read(disk: &dyn Disk, path: &str) -> Result<Vec<u8>, Fault> {
    let failed = |error: std::io::Error| Fault::Invariant(format!("{path}: {error}"));
    let file = disk.open(path, Open::Read).map_err(failed)?;
    let len = usize::try_from(file.len().map_err(failed)?).unwrap_or(0);
    let mut content = vec![0; len];
    read_full_at(&*file, &mut content, 0).map_err(failed)?;
    Ok(content)
}

/// The day of a moment, in UTC.
fn day(at: Wall) -> String {
    let moment = jiff::Timestamp::from_microsecond(at.0).unwrap_or_default();
    moment.strftime("%Y-%m-%d").to_string()
}

//! Bodies are written into their files, in the order of the journal.
//!
//! A body that cannot be written keeps itself and those behind it in the journal. Those behind it are
//! written all the same, so that one folder that cannot be written to hides no others.

use std::io::{self, ErrorKind};

use bytes::Bytes;
use handoff_exchange::Seq;
use handoff_log::journal::{BodyAt, ReadError};
use handoff_log::segments::Move;
use handoff_types::{Position, Steady};

use super::files::{Content, content};
use super::hand::Made;
use super::known::{Filed, Known};
use super::name::spot_dir;
use super::{Folders, Report, WRITING_PAUSE_MAX, ask_messages, is_full};
use crate::books::Batch;

/// Bodies of how many records are written before it is noted that they are: on a slow disk these are
/// what whoever sends waits for at once.
const FILED_AT_ONCE: usize = 256;

/// Of how many a batch is so that it is worth a second pair of hands.
const HELPED_FROM: usize = 64;

/// The bodies of the record that was read last.
type Last = Option<(Position, Vec<Bytes>)>;

impl Folders {
    /// Writes the bodies of a batch. Gives whether there was more than a batch: what comes while one is
    /// written waits for others, because the room is asked once for all of them.
    pub(super) fn file(&mut self, known: &mut dyn Known, now: Steady) -> bool {
        if !self.writing.is_due(now) {
            return false;
        }
        self.filing.shared.settle();
        let batch = self.filing.shared.next_batch(FILED_AT_ONCE);
        if batch.is_empty() {
            return false;
        }
        let seqs: Vec<Seq> = batch.moves.iter().map(|moved| Seq(moved.base)).collect();
        let Some(answers) = ask_messages(known, &seqs) else { return false };
        let mut failed = None;
        let mut done = 0;
        let outcomes = self.file_all(&batch, &answers);
        for ((seq, filed), outcome) in seqs.into_iter().zip(&answers).zip(outcomes) {
            if let Some(filed) = filed
                && let Err(fault) = outcome
            {
                self.written(seq, Err(&fault), now);
                let full = is_full(&fault);
                failed.get_or_insert_with(|| {
                    (format!("file {} cannot be written: {fault}", filed.name), full)
                });
                if full {
                    // Nor can those that wait to be written.
                    let waiting: Vec<Seq> = self.unwritten.keys().copied().collect();
                    waiting.into_iter().for_each(|seq| self.written(seq, Err(&fault), now));
                    break;
                }
                continue;
            }
            self.written(seq, Ok(()), now);
            if failed.is_some() {
                self.filed.insert(seq);
            } else {
                done += 1;
                self.filed.remove(&seq);
            }
        }
        self.filing.shared.made(batch.through(done));
        self.unsynced |= done > 0;
        match failed {
            Some((words, full)) => {
                self.writing.failed(now, WRITING_PAUSE_MAX);
                self.behind(&words, full);
                false
            }
            None => {
                self.writing.succeeded();
                batch.more
            }
        }
    }

    /// Writes the bodies of a batch, and says what became of each, up to the first that met a full disk.
    fn file_all(&mut self, batch: &Batch, answers: &[Option<Filed>]) -> Vec<io::Result<()>> {
        let helped = batch.moves.len() >= HELPED_FROM;
        let mut hand = self.hand.take_if(|_| helped);
        let mut last = None;
        let mut outcomes = Vec::with_capacity(batch.moves.len());
        let records = batch.moves.iter().zip(&batch.sequences);
        for (nth, ((moved, sequence), filed)) in records.zip(answers).enumerate() {
            let unsure = *sequence <= self.filing.unsure;
            let outcome = match filed {
                Some(filed) if !self.filed.contains(&Seq(moved.base)) => {
                    match (self.file_one(moved, filed, unsure, &mut last), &mut hand) {
                        (Ok(Some(made)), Some(hand)) => {
                            hand.give(nth, made);
                            Ok(())
                        }
                        (Ok(Some(made)), None) => made.fill(&*self.files.disk),
                        (done, _) => done.map(drop),
                    }
                }
                _ => Ok(()),
            };
            let full = outcome.as_ref().is_err_and(is_full);
            outcomes.push(outcome);
            if full {
                break;
            }
        }
        if let Some(mut hand) = hand {
            for (nth, fault) in hand.wait() {
                if let Some(outcome) = outcomes.get_mut(nth) {
                    *outcome = Err(fault);
                }
            }
            self.hand = Some(hand);
        }
        outcomes
    }

    /// Writes the file of a message, but for what is to be filled in.
    fn file_one(
        &mut self,
        moved: &Move,
        filed: &Filed,
        unsure: bool,
        last: &mut Last,
    ) -> io::Result<Option<Made>> {
        let dir = spot_dir(&filed.database, filed.spot);
        let name = filed.name.text();
        let Some(body) = self.body_of(moved, last)? else {
            return self.without_body(&dir, &name, filed).map(|()| None);
        };
        if unsure {
            return self.files.replace(&dir, &name, &body).map(|()| None);
        }
        match self.files.make(&dir, &name, &body) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other.map(Some),
        }
        let path = format!("{dir}/{name}");
        match content(&*self.files.disk, &path, filed)? {
            Content::Right => Ok(None),
            Content::Nothing => Err(ErrorKind::AlreadyExists.into()),
            Content::Wrong(length) => {
                self.files.set_aside(&path, length)?;
                let words = "another file was in the place of a message and was set aside";
                self.reports.push(Report::Mended { path, words });
                self.files.make(&dir, &name, &body).map(Some)
            }
        }
    }

    /// The journal has lost a body. Perhaps it was filed before.
    fn without_body(&mut self, dir: &str, name: &str, filed: &Filed) -> io::Result<()> {
        let path = format!("{dir}/{name}");
        if content(&*self.files.disk, &path, filed)? != Content::Right {
            let words = format!("the body of {path} is damaged in the journal").into();
            self.reports.push(Report::Damaged { seq: filed.name.seq, words });
        }
        Ok(())
    }

    /// A body from the journal; nothing if it is damaged there.
    fn body_of(&mut self, moved: &Move, last: &mut Last) -> io::Result<Option<Bytes>> {
        let (position, index) = moved.body;
        if last.as_ref().is_none_or(|(at, _)| *at != position) {
            let journal = &self.filing.shared.journal;
            match journal.bodies_ahead(position, &mut self.ahead) {
                Ok(bodies) => *last = Some((position, bodies)),
                // Damage costs what it hits: the record's other bodies can still be had.
                Err(ReadError::Corrupt(_)) => {
                    return match journal.body(BodyAt { position, index }) {
                        Ok(body) => Ok(Some(body)),
                        Err(ReadError::Corrupt(_)) => Ok(None),
                        Err(error) => Err(io::Error::other(error)),
                    };
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let bodies = last.as_ref().map(|(_, bodies)| bodies.as_slice()).unwrap_or_default();
        Ok(usize::try_from(index).ok().and_then(|index| bodies.get(index)).cloned())
    }
}

//! Bodies, wherever they are.
//!
//! ```text
//!  expected ──durable──▶ in the journal ──file written, synced──▶ in its file
//!  not readable          read from the journal                    read from the file, checked
//! ```
//!
//! A file may be moved while it is looked for: whoever has looked everywhere and found nothing looks
//! again if a file was moved meanwhile.

use std::io;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use handoff_exchange::Seq;
use handoff_log::disk::Disk;
use handoff_log::journal::ReadError;
use thiserror::Error;

use super::files::{is_body, nearby, other_days, read};
use super::known::Filed;
use super::name::spot_dir;
use super::orders::Desk;
use crate::books::Shared;
use crate::exchange::frame_of;

/// How often it is looked everywhere for a file while others are moved.
const LOOKS_MAX: usize = 64;

/// Why a body could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Its message is not durable yet.
    #[error("message {} is not durable yet", .0.0)]
    NotDurable(Seq),
    /// The journal cannot give it, and may later.
    #[error(transparent)]
    Journal(ReadError),
    /// The disk cannot, and may later.
    #[error("the disk failed file {path}: {fault}")]
    Disk {
        /// Which file.
        path: String,
        /// What the disk answered.
        #[source]
        fault: io::Error,
    },
    /// There is no file, wherever it is looked for. See [`BodyError::is_lost`].
    #[error("the file {path} is gone")]
    Missing {
        /// Where it belongs.
        path: String,
    },
    /// What is in the file is not what was received. See [`BodyError::is_lost`].
    #[error("the file {path} is damaged: its length or checksum is not the message's")]
    Damaged {
        /// The file.
        path: String,
    },
}

impl BodyError {
    /// Whether the body is gone for good: its message is to be set aside by `Ask::Damaged`. Otherwise it
    /// is to be read again later.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Damaged { .. })
    }
}

/// Reads the bodies of messages, on any thread. May block for the disk, never for the room.
#[derive(Clone, Debug)]
pub struct Bodies {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) desk: Arc<Desk>,
    pub(super) shared: Arc<Shared>,
}

impl Bodies {
    /// The body of a message: exactly the bytes that were accepted.
    ///
    /// # Errors
    /// [`BodyError`]; see [`BodyError::is_lost`] for what to do.
    pub fn read(&self, filed: &Filed) -> Result<Bytes, BodyError> {
        let (found, damaged) = match self.in_journal(filed.name.seq)? {
            Some(body) if is_body(&body, body.len() as u64, filed) => return Ok(body),
            // The journal's copy is damaged; the file may be there.
            _ => self.in_file(filed)?,
        };
        if let Some(body) = found {
            return Ok(body);
        }
        let path = format!("{}/{}", spot_dir(&filed.database, filed.spot), filed.name);
        Err(match damaged {
            Some(path) => BodyError::Damaged { path },
            None => BodyError::Missing { path },
        })
    }

    /// The body, if the journal has it and it is not in a file for sure.
    pub(super) fn in_journal(&self, seq: Seq) -> Result<Option<Bytes>, BodyError> {
        match self.shared.place(frame_of(seq)) {
            (Some(at), _) => match self.shared.records.body(at) {
                Ok(body) => Ok(Some(body)),
                // It was filed and synced since, or is damaged: the file is all there is.
                Err(ReadError::Trimmed(_) | ReadError::Corrupt(_)) => Ok(None),
                Err(error) => Err(BodyError::Journal(error)),
            },
            (None, true) => Err(BodyError::NotDurable(seq)),
            (None, false) => Ok(None),
        }
    }

    /// The body from a file, and a file of its name that has something else in it.
    fn in_file(&self, filed: &Filed) -> Result<(Option<Bytes>, Option<String>), BodyError> {
        let failed = |path: &str| {
            let path = path.to_owned();
            move |fault| BodyError::Disk { path, fault }
        };
        let name = filed.name.to_string();
        let here = spot_dir(&filed.database, filed.spot);
        let near = [vec![here.clone()], nearby(filed)].concat();
        for look in 1..=LOOKS_MAX {
            let calm = self.desk.calm();
            let still = || calm.is_some() && self.desk.calm() == calm;
            let mut damaged = None;
            let mut search = |dirs: &[String]| {
                for dir in dirs {
                    let path = format!("{dir}/{name}");
                    match read(&*self.disk, &path, filed.bytes.into()).map_err(failed(&path))? {
                        Some((body, length)) if is_body(&body, length, filed) => {
                            return Ok(Some(body));
                        }
                        Some(_) if damaged.is_none() => damaged = Some(path),
                        _ => {}
                    }
                }
                Ok(None)
            };
            if let Some(body) = search(&near)? {
                return Ok((Some(body.into()), None));
            }
            // Which other days there are is looked up only if it is surely nowhere else.
            if !still() && look < LOOKS_MAX {
                thread::yield_now();
                continue;
            }
            let others = other_days(&*self.disk, filed).map_err(failed(&here))?;
            if let Some(body) = search(&others)? {
                return Ok((Some(body.into()), None));
            }
            if still() {
                return Ok((None, damaged));
            }
        }
        let fault = io::Error::new(io::ErrorKind::WouldBlock, "files are being moved");
        Err(failed(&name)(fault))
    }
}

//! What an agent finds when it starts.
//!
//! A block is numbered by one process, from its first segment to its last. Every start begins a new
//! one; files that are there are sealed, as they are, and sent:
//!
//! * No file: what was confirmed is nothing, by the destinations of the configuration (rule 2.1).
//! * A file: its destinations are those it names (2.2, 2.2.2), what they confirmed is what its
//!   statuses say (2.2.3), and whoever is not configured any more keeps what is for it.
//! * No file is continued, whether its destinations are the same (2.2.1) and its shards whole (2.2.4)
//!   or not. A directory may have been copied, or be an older copy of itself, and the process that
//!   went on with the other one has given the next numbers to other samples. Only a destination could
//!   tell, and a file with something in it is a file whose destination was not there.

use std::collections::BTreeMap;
use std::io;

use handoff_relay::refill::{Opened, Refill, RefillError, RefillLimits, Spool, Troubles};
use tracing::{info, warn};

use super::{FileId, Sealed};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Every file.
    pub(crate) files: BTreeMap<FileId, Refill>,
    /// The same to be sent, oldest first.
    pub(crate) sealed: Vec<Sealed>,
    /// Parts that could not be read, and bytes of them of which no copy could be kept.
    pub(crate) damaged: u64,
    pub(crate) unkept_bytes: u64,
}

/// Opens every file of the spool, and seals what is not sealed.
pub(crate) fn open(spool: &Spool, limits: RefillLimits) -> Result<Opening, RefillError> {
    let mut opening = Opening::default();
    for file in spool.files()? {
        let (mut refill, troubles) = match Refill::open(spool.clone(), limits, &file.name) {
            Ok(Opened::Refill(refill, troubles)) => (*refill, troubles),
            Ok(Opened::Nothing(troubles)) => {
                opening.note(&file.name, &troubles);
                continue;
            }
            // A later version wrote it: it is not ours to touch, and need not stop anybody.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                warn!(file = file.name, error = &error as &dyn std::error::Error, "left alone");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        opening.note(&file.name, &troubles);
        let id = FileId::new(file.begun, refill.ledger().block());
        if opening.files.contains_key(&id) {
            warn!(file = file.name, "another file has the same block and age; set aside");
            spool.set_aside(refill.name())?;
            continue;
        }
        refill.seal()?;
        opening.sealed.push(Sealed::of(id, &refill));
        opening.files.insert(id, refill);
    }
    Ok(opening)
}

impl Opening {
    fn note(&mut self, file: &str, troubles: &Troubles) {
        let Troubles { damage, torn_bytes, zero_bytes, unkept_bytes } = troubles;
        self.damaged += damage.len() as u64;
        self.unkept_bytes += unkept_bytes;
        if !damage.is_empty() || *torn_bytes > 0 {
            let parts = damage.len();
            warn!(file, parts, torn_bytes, unkept_bytes, "damaged; a copy is in the quarantine");
        } else if *zero_bytes > 0 {
            info!(file, zero_bytes, "zeros at the end were cut off");
        }
    }
}

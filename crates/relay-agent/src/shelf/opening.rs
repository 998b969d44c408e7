//! What an agent finds when it starts.

use std::collections::BTreeMap;
use std::io;

use handoff_relay::codec::{Decoder, Workbench};
use handoff_relay::refill::{Frame, Opened, Refill, RefillError, RefillLimits, Spool, Troubles};
use handoff_relay::{AckStatus, BlockId, DeliveryRules, NO_SEGMENT, SegmentKey};
use tracing::{info, warn};

use super::{FileId, Sealed};

/// A block that goes on where its agent stopped.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) file: FileId,
    pub(crate) block: BlockId,
    pub(crate) acks: AckStatus,
    pub(crate) decoders: Vec<Decoder>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Every file.
    pub(crate) files: BTreeMap<FileId, Refill>,
    /// The block to go on with.
    pub(crate) resumed: Option<Resumed>,
    /// Files to be sent.
    pub(crate) sealed: Vec<Sealed>,
    /// Parts that could not be read, and bytes of them of which no copy could be kept.
    pub(crate) damaged: u64,
    pub(crate) unkept_bytes: u64,
}

/// Opens every file of the spool. The latest that can be continued is; the others are sealed.
pub(crate) fn open(
    spool: &Spool,
    limits: RefillLimits,
    rules: &DeliveryRules,
) -> Result<Opening, RefillError> {
    let mut opening = Opening::default();
    for file in spool.files()?.into_iter().rev() {
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
        let continuable = refill.continuable(&rules.destinations, rules.shards);
        match continuable {
            Ok(()) if opening.resumed.is_none() && !file.sealed => {
                opening.resumed = resume(id, &mut refill, rules)?;
            }
            Ok(()) => {}
            Err(why) => info!(file = file.name, %why, "not continued but sent"),
        }
        if opening.resumed.as_ref().is_none_or(|resumed| resumed.file != id) {
            refill.seal()?;
            opening.sealed.push(Sealed::of(id, &refill));
        }
        opening.files.insert(id, refill);
    }
    opening.sealed.reverse();
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

/// Takes a file over. From its first frame on it is nobody else's to continue.
fn resume(
    file: FileId,
    refill: &mut Refill,
    rules: &DeliveryRules,
) -> Result<Option<Resumed>, RefillError> {
    let ledger = refill.ledger();
    let (block, acks) = (ledger.block(), ledger.acks().clone());
    let mut bench = Workbench::new()?;
    let mut decoders = Vec::new();
    for shard in rules.shards.ids() {
        let Some(entry) = ledger.entries(shard).last().copied() else { return Ok(None) };
        let key = SegmentKey { shard, segment: entry.segment };
        let bytes = match refill.read(key, entry) {
            Ok(bytes) => bytes,
            Err(RefillError::Damaged(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(decoder) = Decoder::from_key_frame(&bytes, rules.codec, &mut bench) else {
            return Ok(None);
        };
        decoders.push(decoder);
    }
    let numbers = acks.names().len() * usize::from(acks.shards().count());
    match refill.append(&[Frame::Statuses(vec![NO_SEGMENT; numbers])]) {
        Ok(()) => Ok(Some(Resumed { file, block, acks, decoders })),
        Err(RefillError::Full) => Ok(None),
        Err(error) => Err(error),
    }
}

//! What encoding and decoding need and no series owns.

use std::fmt;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

use super::samples::Columns;

/// Level 1: measured on mixed samples, level 3 takes 1 to 2 % off the size and twice the time.
const ZSTD_LEVEL: i32 = 1;

/// Compressors and room for columns, kept from segment to segment. One for each thread is enough:
/// any number of encoders and decoders share it.
pub struct Workbench {
    pub(super) packer: Compressor<'static>,
    pub(super) unpacker: Decompressor<'static>,
    pub(super) inside: Vec<u8>,
    pub(super) packed: Vec<u8>,
    pub(super) columns: Columns,
}

impl Workbench {
    /// A new one.
    ///
    /// # Errors
    /// There is no memory for a compressor.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            packer: Compressor::new(ZSTD_LEVEL)?,
            unpacker: Decompressor::new()?,
            inside: Vec::new(),
            packed: Vec::new(),
            columns: Columns::default(),
        })
    }
}

impl fmt::Debug for Workbench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workbench").finish_non_exhaustive()
    }
}

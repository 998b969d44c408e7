//! What encoding and decoding need and no series owns.

use std::fmt;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

use super::samples::Columns;

/// Measured on 20,000 made-up series of mixed shapes, 30 scrapes: level 1 leaves 2.23 bytes of 3.45 a
/// sample and takes 6.5 ns; level 3 leaves 2.25 and takes 9.0 ns, level 5 2.22 and 14.4 ns. LZ4 takes
/// 2.8 ns and leaves 2.41; of integer counters alone 1.15 where level 1 leaves 0.85.
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

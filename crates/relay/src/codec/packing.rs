//! What is inside, smaller: zstd, and what a peer may claim of it.
//!
//! Room is made for what is there and not for what is said: what claims to be large has to have the
//! blocks for it.

use super::Workbench;
use crate::wire::{Front, Malformed};

/// What may be claimed without being looked into.
const CLAIM_BYTES: usize = 256 << 10;

/// The most that one block of zstd can be unpacked.
const BLOCK_BYTES_MAX: usize = 128 << 10;

const MAGIC: u32 = 0xfd2f_b528;

impl Workbench {
    /// Packs `inside` into `packed`. Whether that is smaller.
    pub(super) fn pack(&mut self) -> bool {
        self.packed.clear();
        let most = zstd::zstd_safe::compress_bound(self.inside.len());
        self.packed.reserve(most);
        let written = self.packer.compress_to_buffer(&self.inside, &mut self.packed);
        written.is_ok_and(|len| len < self.inside.len())
    }

    /// Unpacks into `inside`, which has so many bytes then.
    pub(super) fn unpack(&mut self, packed: &[u8], inside: usize) -> Result<&[u8], Malformed> {
        if inside > CLAIM_BYTES && inside > most(packed)? {
            return Err(Malformed("claims more than it holds"));
        }
        self.inside.clear();
        self.inside.reserve(inside);
        let read = self.unpacker.decompress_to_buffer(packed, &mut self.inside);
        match read {
            Ok(len) if len == inside && self.inside.len() == inside => Ok(&self.inside),
            _ => Err(Malformed("cannot be unpacked")),
        }
    }
}

/// The most that a frame of zstd can be unpacked, by its blocks (RFC 8878, 3.1.1).
fn most(packed: &[u8]) -> Result<usize, Malformed> {
    let mut front = Front(packed);
    if front.u32()? != MAGIC {
        return Err(Malformed("is not packed as it says"));
    }
    let descriptor = front.byte()?;
    let is_single = descriptor & 0x20 != 0;
    let window = usize::from(!is_single);
    let dictionary = match descriptor & 3 {
        3 => 4,
        bytes => usize::from(bytes),
    };
    let content = match descriptor >> 6 {
        0 => usize::from(is_single),
        power => 1 << power,
    };
    front.bytes(window + dictionary + content)?;
    let mut most = 0_usize;
    loop {
        let [low, middle, high] = front.array()?;
        let head = u32::from_le_bytes([low, middle, high, 0]);
        let size = (head >> 3) as usize;
        let (here, unpacked) = match head >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, BLOCK_BYTES_MAX),
            _ => return Err(Malformed("cannot be unpacked")),
        };
        front.bytes(here)?;
        most = most.saturating_add(unpacked.min(BLOCK_BYTES_MAX));
        if head & 1 != 0 {
            return Ok(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES_MAX, CLAIM_BYTES, most};
    use crate::codec::Workbench;
    use proptest::prelude::*;

    fn packed(inside: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(inside, 1).unwrap()
    }

    #[test]
    fn what_is_as_large_as_it_says_is_unpacked() {
        let mut bench = Workbench::new().unwrap();
        for len in [0, 1, CLAIM_BYTES, CLAIM_BYTES + 1, 40 * BLOCK_BYTES_MAX + 7] {
            let inside: Vec<u8> = (0..len).map(|at| (at / 1_000).to_le_bytes()[0]).collect();
            assert_eq!(bench.unpack(&packed(&inside), len), Ok(&inside[..]), "{len}");
        }
    }

    #[test]
    fn no_room_is_made_for_what_is_only_claimed() {
        let mut bench = Workbench::new().unwrap();
        // A frame that says it has 64 MiB, and ends with its first block.
        let mut lie = 0xfd2f_b528_u32.to_le_bytes().to_vec();
        lie.push(0xa0);
        lie.extend_from_slice(&(64_u32 << 20).to_le_bytes());
        lie.extend_from_slice(&[0x01 | 5 << 3, 0, 0]);
        lie.extend_from_slice(b"hello");
        assert_eq!(most(&lie), Ok(5));
        for claim in [lie.as_slice(), &packed(&[7; 100]), b"", &[0xff; 4_000]] {
            assert!(bench.unpack(claim, 64 << 20).is_err());
            assert!(bench.inside.capacity() <= CLAIM_BYTES);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_unpacks_to_more_than_its_blocks(
            inside in prop::collection::vec(0..4_u8, 0..3_000),
            times in 1..300_usize,
        ) {
            let inside = inside.repeat(times);
            prop_assert!(most(&packed(&inside)).unwrap() >= inside.len());
        }

        #[test]
        fn any_bytes_are_no_frame_or_have_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frame = 0xfd2f_b528_u32.to_le_bytes().to_vec();
            frame.extend_from_slice(&bytes);
            most(&frame).ok();
        }
    }
}

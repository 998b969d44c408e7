//! Which partition a key belongs to.

/// The partition of a key: murmur2 as Kafka's Java client, franz-go and kafkajs have it. A topic
/// without partitions has none; 0 is answered.
#[must_use]
pub fn partition_of_key(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff).checked_rem(partitions).unwrap_or(0)
}

/// Appleby's MurmurHash2 with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let (words, tail) = bytes.as_chunks::<4>();
    // Kafka's length is a 32-bit number; longer keys do not exist.
    let mut hash = SEED ^ u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (at, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::{murmur2, partition_of_key};

    /// From `UtilsTest.testMurmur2` of Apache Kafka.
    #[test]
    fn hashes_are_those_of_kafkas_java_client() {
        let known: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn a_key_goes_where_the_hash_without_its_sign_says() {
        // 3_321_034_988 & 0x7fff_ffff = 1_173_551_340, as `Utils.toPositive` has it.
        assert_eq!(partition_of_key(b"21", 10), 0);
        assert_eq!(partition_of_key(b"21", 7), 1_173_551_340 % 7);
        assert_eq!(partition_of_key(b"abc", 1000), 107);
        assert_eq!(partition_of_key(b"abc", 1), 0);
        assert_eq!(partition_of_key(b"abc", 0), 0);
    }
}

//! What a series takes of an agent's memory, all told.

use handoff_relay::codec::{CodecLimits, Encoder, Trailing, Workbench};
use handoff_relay::{Batch, BlockId, Sample, Sharder, Shards};

use crate::counting::{alone, in_use};

const SERIES: usize = 100_000;
const BATCH: usize = 2_000;
const BYTES_MAX: usize = 150;
const BLOCK: BlockId = BlockId([2; 16]);

/// Series as exporters have them: five labels, two of which say which one it is.
fn batch(from: usize) -> Batch {
    let mut batch = Batch::default();
    for at in from..from + BATCH {
        let labels = [
            ("__name__", format!("node_network_metric_{}_total", at % 200)),
            ("device", format!("eth{}", at % 4)),
            ("instance", format!("host-{}.example.com:9100", at / 200)),
            ("job", "node".to_owned()),
            ("mode", format!("m{}", at % 8)),
        ];
        let labels = labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        batch.push(labels, &[Sample::new(1_700_000_000_000, 5.0)]).unwrap();
    }
    batch
}

#[test]
fn a_series_fits_into_its_share_with_the_trailing_decoder() {
    let _alone = alone();
    let begin = in_use();
    let mut bench = Workbench::new().unwrap();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    let mut trailing = Trailing::new(BLOCK, 0);
    for from in (0..SERIES).step_by(BATCH) {
        let batch = batch(from);
        encoder.add(&Sharder::new(Shards::ONE).shard(&batch)).unwrap();
        let segment = encoder.encode(&mut bench).unwrap();
        trailing.skip(&segment.bytes, &encoder, &mut bench).unwrap();
    }
    assert_eq!(encoder.series_len() as usize, SERIES);
    // The room for columns is shared by all shards and no part of a series.
    let with_columns = in_use();
    drop(bench);
    let columns = with_columns - in_use();
    let bytes = (in_use() - begin) / SERIES;
    println!("{bytes} bytes a series; {columns} bytes of room for columns");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes a series");
}

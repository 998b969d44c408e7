//! The whole stream, labels included, against what remote write sends for the same batches.

use handoff_relay::codec::{CodecLimits, Encoder, Workbench};
use handoff_relay::{Batch, BlockId, Sample, Sharder, Shards};
use handoff_types::entropy::mix;

use crate::independent::{bytes, packed, request_v1, sample, series_v1};

const SERIES: usize = 1_000;
const SCRAPES: usize = 60;

/// Labels, value and time.
type Scraped = (Vec<(String, String)>, f64, i64);

/// A host's metrics: counters, gauges with decimals, constants, sums of seconds.
fn scrape(step: usize, values: &mut [f64], dice: &mut u64) -> Vec<Scraped> {
    let mut out = Vec::new();
    for (at, value) in values.iter_mut().enumerate() {
        *dice = mix(*dice);
        let draw = u32::try_from(*dice >> 32).unwrap();
        match at % 6 {
            0 | 1 => *value += f64::from(draw % 200),
            2 => *value = ((*value * 100.0).round() + f64::from(draw % 41) - 20.0) / 100.0,
            3 => *value += f64::from(draw % 1_000_000) * 1e-9 * 15.0,
            _ => {}
        }
        let labels = vec![
            ("__name__".to_owned(), format!("node_something_{}_total", at % 97)),
            ("cluster".to_owned(), "production-eu-west-1".to_owned()),
            ("instance".to_owned(), format!("host-{}.example.com:9100", at / 97)),
            ("job".to_owned(), "node-exporter".to_owned()),
            ("namespace".to_owned(), "monitoring".to_owned()),
        ];
        out.push((labels, *value, 1_700_000_000_000 + i64::try_from(step).unwrap() * 15_000));
    }
    out
}

fn body_v1(scrape: &[Scraped]) -> Vec<u8> {
    let series = scrape.iter().map(|(labels, value, time)| {
        let labels: Vec<_> = labels.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        series_v1(&labels, &[(*value, *time)])
    });
    request_v1(&series.collect::<Vec<_>>())
}

fn body_v2(scrape: &[Scraped]) -> Vec<u8> {
    let mut symbols = vec![String::new()];
    let mut places = std::collections::HashMap::from([(String::new(), 0_u64)]);
    let mut series = Vec::new();
    for (labels, value, time) in scrape {
        let mut refs = Vec::new();
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            let next = symbols.len() as u64;
            refs.push(*places.entry(text.clone()).or_insert_with(|| {
                symbols.push(text.clone());
                next
            }));
        }
        let one = [packed(1, &refs), bytes(2, &sample(*value, *time))].concat();
        series.extend(bytes(5, &one));
    }
    let symbols = symbols.iter().flat_map(|symbol| bytes(4, symbol.as_bytes()));
    symbols.chain(series).collect()
}

#[test]
fn the_stream_is_a_fraction_of_what_remote_write_sends() {
    let mut bench = Workbench::new().unwrap();
    let mut encoder = Encoder::new(BlockId([1; 16]), 0, CodecLimits::default());
    let (mut ours, mut snappy_v1, mut zstd_v2) = (0, 0, 0);
    let mut values = vec![1_000.0; SERIES];
    let mut dice = 3;
    for step in 0..SCRAPES {
        let scrape = scrape(step, &mut values, &mut dice);
        let mut batch = Batch::default();
        for (labels, value, time) in &scrape {
            let labels = labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            batch.push(labels, &[Sample::new(*time, *value)]).unwrap();
        }
        encoder.add(&Sharder::new(Shards::ONE).shard(&batch)).unwrap();
        ours += encoder.encode(&mut bench).unwrap().bytes.len();
        snappy_v1 += snap::raw::Encoder::new().compress_vec(&body_v1(&scrape)).unwrap().len();
        zstd_v2 += zstd::bulk::compress(&body_v2(&scrape), 3).unwrap().len();
    }
    let samples = SERIES * SCRAPES;
    eprintln!(
        "hundredths of bytes a sample: ours {}, 1.0 and Snappy {}, 2.0 and zstd {}",
        ours * 100 / samples,
        snappy_v1 * 100 / samples,
        zstd_v2 * 100 / samples
    );
    assert!(ours * 4 <= snappy_v1, "{ours} bytes, 1.0 and Snappy take {snappy_v1}");
    assert!(ours * 10 <= zstd_v2 * 6, "{ours} bytes, 2.0 and zstd take {zstd_v2}");
}

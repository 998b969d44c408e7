//! What a sample takes, labels and all, an hour of scrapes every fifteen seconds.

use handoff_relay::codec::{CodecLimits, Encoder};

use crate::corpus::{Corpus, Shape};
use crate::world::{BLOCK, add, bench};

const SERIES: usize = 1_000;
const SCRAPES: usize = 240;

/// Hundredths of bytes a sample.
fn hundredths(shapes: &[Shape]) -> usize {
    let mut bench = bench();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    let mut corpus = Corpus::new(SERIES, shapes);
    let mut bytes = 0;
    for _ in 0..SCRAPES {
        add(&mut encoder, &corpus.scrape());
        bytes += encoder.encode(&mut bench).unwrap().bytes.len();
    }
    bytes * 100 / (SERIES * SCRAPES)
}

fn check(name: &str, shapes: &[Shape], most: usize) {
    let found = hundredths(shapes);
    eprintln!("{name}: {}.{:02} bytes a sample", found / 100, found % 100);
    assert!(found <= most, "{name}: {found} hundredths of a byte a sample, at most {most}");
}

#[test]
fn samples_are_as_small_as_promised() {
    use Shape::{Constant, Counter, Decimal, Entropy, Seconds};
    check("integer counters", &[Counter], 200);
    check("gauges with two decimals", &[Decimal], 400);
    check("constants", &[Constant], 50);
    check("sums of seconds", &[Seconds], 800);
    check("full doubles", &[Entropy], 850);
    check("mixed", &[Counter, Constant, Decimal, Counter, Constant, Seconds, Entropy], 500);
}

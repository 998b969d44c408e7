//! What the exchange keeps, and when it lets go.

use bytes::Bytes;
use handoff_relay::{Exchange, ExchangeLimits, Got, PutError, SegmentKey, Shards};
use handoff_types::{Span, Steady};

const START: Steady = Steady(1_000);

fn exchange(destinations: usize) -> Exchange {
    let shards = Shards::from_power(1).unwrap();
    Exchange::new(ExchangeLimits::default(), destinations, shards)
}

fn key(shard: u16, segment: u32) -> SegmentKey {
    SegmentKey { shard, segment }
}

fn put(exchange: &mut Exchange, shard: u16, segments: std::ops::Range<u32>) {
    for segment in segments {
        let bytes = Bytes::from(vec![u8::try_from(segment).unwrap(); 10]);
        exchange.put(key(shard, segment), bytes, START).unwrap();
    }
}

fn keys(left: Vec<(SegmentKey, Bytes)>) -> Vec<SegmentKey> {
    left.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_segment_is_found_not_made_yet_or_gone() {
    let mut exchange = exchange(1);
    put(&mut exchange, 0, 0..2);
    assert_eq!(exchange.get(key(0, 1)), Got::Segment(Bytes::from(vec![1; 10])));
    assert_eq!(exchange.get(key(0, 2)), Got::NotYet);
    assert_eq!(exchange.get(key(1, 0)), Got::NotYet);
    exchange.ack(key(0, 0), 0, START);
    assert_eq!(exchange.get(key(0, 0)), Got::Gone);
    assert_eq!(exchange.bytes(), 10);
}

#[test]
fn segments_go_in_one_after_the_other_and_not_after_the_end() {
    let mut exchange = exchange(1);
    let bytes = Bytes::new();
    assert_eq!(exchange.put(key(0, 1), bytes.clone(), START), Err(PutError::OutOfOrder(key(0, 1))));
    assert_eq!(exchange.put(key(2, 0), bytes.clone(), START), Err(PutError::OutOfOrder(key(2, 0))));
    exchange.close();
    assert_eq!(exchange.put(key(0, 0), bytes, START), Err(PutError::Closed));
}

#[test]
fn a_segment_leaves_when_every_destination_has_it() {
    let mut exchange = exchange(2);
    put(&mut exchange, 0, 0..4);
    assert_eq!(keys(exchange.ack(key(0, 2), 0, START)), []);
    assert_eq!(keys(exchange.ack(key(0, 1), 1, START)), [key(0, 0), key(0, 1)]);
    assert_eq!(keys(exchange.ack(key(0, 0), 1, START)), [], "an old one says nothing");
    assert_eq!(keys(exchange.ack(key(0, 3), 1, START)), [key(0, 2)]);
    assert_eq!(keys(exchange.ack(key(0, 3), 0, START)), [key(0, 3)]);
    assert!(exchange.is_empty() && exchange.bytes() == 0);
}

#[test]
fn what_is_here_for_longer_than_the_window_is_for_the_file_and_so_is_the_rest_of_its_shard() {
    let mut exchange = exchange(1);
    put(&mut exchange, 0, 0..2);
    put(&mut exchange, 1, 0..1);
    exchange.ack(key(1, 0), 0, START);
    assert_eq!(exchange.rejected(START), []);
    let end = START + Span::from_secs(10);
    assert_eq!(exchange.next_deadline(), Some(end));
    exchange.put(key(1, 1), Bytes::new(), end).unwrap();
    assert_eq!(exchange.rejected(end), [key(0, 0), key(0, 1)]);
    assert!(exchange.has_left());
    exchange.put(key(0, 2), Bytes::new(), end).unwrap();
    assert_eq!(exchange.rejected(end), [key(0, 0), key(0, 1), key(0, 2)]);
    assert_eq!(keys(exchange.remove(&[key(0, 0), key(0, 1)])), [key(0, 0), key(0, 1)]);
    assert_eq!(exchange.rejected(end), [key(0, 2)]);
}

#[test]
fn a_doubt_heals_when_the_destination_goes_on_in_time() {
    let mut exchange = exchange(2);
    put(&mut exchange, 0, 0..2);
    let later = START + Span::from_secs(2);
    exchange.reject(key(0, 0), 0, later);
    exchange.ack(key(0, 0), 0, START);
    assert_eq!(exchange.rejected(later), []);
    exchange.reject(key(0, 1), 0, later);
    exchange.ack(key(0, 1), 1, later);
    assert_eq!(exchange.rejected(later), [key(0, 1)], "another's confirmation heals nothing");
}

#[test]
fn a_confirmation_during_the_write_of_a_rejected_segment_settles_it_once() {
    let mut exchange = exchange(1);
    put(&mut exchange, 0, 0..2);
    exchange.reject(key(0, 0), 0, START);
    let writing = exchange.rejected(START);
    assert_eq!(writing, [key(0, 0), key(0, 1)]);
    assert_eq!(keys(exchange.ack(key(0, 1), 0, START)), writing);
    assert_eq!(keys(exchange.remove(&writing)), [], "they have left already");
}

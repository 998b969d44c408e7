//! Damage on disk, as readers are told of it.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_log::segments::{Lane, Read};

use crate::server::{Server, frames, limits};

/// What stands at the offsets of a lane: bodies, and ranges that are damaged, neighbours taken
/// together.
fn pieces(server: &Server, lane: u64, end: u64) -> Vec<Result<Vec<u8>, (u64, u64)>> {
    let reader = server.host.reader();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < end {
        match reader.read_below(Lane(lane), at, end, 1 << 20).unwrap() {
            Read::Frames(frames) => {
                at = frames.last().unwrap().end();
                pieces.extend(frames.into_iter().map(|frame| Ok(frame.body.to_vec())));
            }
            Read::Corrupt { from, to } => {
                assert!(from <= at && at < to);
                at = to;
                match pieces.last_mut() {
                    Some(Err((_, end))) if *end == from => *end = to,
                    _ => pieces.push(Err((from, to))),
                }
            }
            other => panic!("{other:?} at {at}"),
        }
    }
    pieces
}

#[test]
fn a_flipped_bit_in_a_sealed_segment_costs_its_frame_and_the_rest_is_served() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    let body = |n: u8| vec![n; 1000];
    for n in 0..30 {
        server.write(1, 2, &body(n));
    }
    server.move_all();
    server.write(1, 2, &body(30));
    let path = format!("segments/{:016x}/{:020}.segment", 1, 0);
    let mut file = disk.contents(&path).unwrap();
    // The third frame of the first segment.
    file[32 + 2 * 1040 + 500] ^= 4;
    disk.overwrite(&path, file).unwrap();
    let mut expected: Vec<_> = (0..31).map(|n| Ok(body(n))).collect();
    expected[2] = Err((4, 6));
    assert_eq!(pieces(&server, 1, 62), expected);
    let reader = server.host.reader();
    assert_eq!(frames(reader.read(Lane(1), 0, 1 << 20).unwrap()).len(), 2, "up to the damage");
    assert_eq!(reader.read(Lane(1), 5, 0).unwrap(), Read::Corrupt { from: 4, to: 6 });
}

#[test]
fn a_lane_that_lost_its_end_is_damaged_up_to_where_the_journal_goes_on() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    for n in 0..4 {
        server.write(1, 1, &[n; 100]);
    }
    server.checkpoint().unwrap();
    server.write(1, 1, &[4; 100]);
    drop(server);
    let path = format!("segments/{:016x}/{:020}.segment", 1, 0);
    let mut file = disk.contents(&path).unwrap();
    file.truncate(32 + 3 * 144);
    disk.overwrite(&path, file).unwrap();
    let mut server = Server::open(Arc::new(disk));
    let expected =
        [Ok(vec![0; 100]), Ok(vec![1; 100]), Ok(vec![2; 100]), Err((3, 4)), Ok(vec![4; 100])];
    assert_eq!(pieces(&server, 1, 5), expected);
    server.move_all();
    assert_eq!(pieces(&server, 1, 5), expected);
}

#[test]
fn a_lane_that_lost_all_it_had_is_damaged_and_not_trimmed() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.write(1, 1, &[0; 100]);
    server.checkpoint().unwrap();
    server.write(1, 1, &[1; 100]);
    drop(server);
    let path = format!("segments/{:016x}/{:020}.segment", 1, 0);
    let mut file = disk.contents(&path).unwrap();
    file[32 + 60] ^= 8;
    disk.overwrite(&path, file).unwrap();
    let mut server = Server::open(Arc::new(disk));
    let expected = [Err((0, 1)), Ok(vec![1; 100])];
    assert_eq!(pieces(&server, 1, 2), expected);
    server.move_all();
    assert_eq!(pieces(&server, 1, 2), expected);
}

/// The disk damages a record after the room was told that it is durable.
#[test]
fn a_damaged_record_costs_its_bodies_in_the_journal_and_in_segments() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    let marks: [&[u8]; 3] = [b"first body", b"second body", b"third body"];
    for mark in marks {
        server.write(1, 1, mark);
    }
    let path = "journal/0000.journal";
    let mut file = disk.contents(path).unwrap();
    let at = file.windows(11).position(|bytes| bytes == b"second body").unwrap();
    file[at] ^= 1;
    disk.overwrite(path, file).unwrap();
    let expected = [Ok(marks[0].to_vec()), Err((1, 2)), Ok(marks[2].to_vec())];
    assert_eq!(pieces(&server, 1, 3), expected);
    server.move_all();
    assert_eq!(pieces(&server, 1, 3), expected);
}

/// An entry in pieces loses the bodies that the damage hit and no others, whoever reads.
#[test]
fn damage_to_one_piece_of_an_entry_leaves_the_bodies_in_others() {
    let disk = Memory::new();
    let mut server = Server::open_with(Arc::new(disk.clone()), &limits());
    let body = |n: u8| vec![n; 40_000];
    let made: Vec<_> = (1..=10).map(body).collect();
    let lines: Vec<_> = made.iter().map(|body| (1, 1, &body[..])).collect();
    server.append(&lines);
    server.journal.commit().unwrap();
    let mut hit = 0;
    for slot in 0..4 {
        let path = format!("journal/{slot:04}.journal");
        let Some(mut file) = disk.contents(&path) else { continue };
        let Some(at) = file.windows(64).position(|bytes| bytes == [7; 64]) else { continue };
        file[at + 32] ^= 1;
        disk.overwrite(&path, file).unwrap();
        hit += 1;
        break;
    }
    assert_eq!(hit, 1);
    let told = pieces(&server, 1, 10);
    let lost: Vec<_> = told.iter().filter_map(|piece| piece.clone().err()).collect();
    assert!(matches!(lost[..], [(from, to)] if from > 0 && to - from < 8), "{lost:?}");
    assert!(told[0] == Ok(body(1)));
    server.move_all();
    assert!(pieces(&server, 1, 10) == told, "moving changes nothing");
}

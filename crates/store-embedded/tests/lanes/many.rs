//! As many lanes as a server has partitions.

use std::sync::Arc;

use handoff_log::disk::{Counting, Memory};
use handoff_types::Limits;

use crate::server::{Server, bodies, limits};

const LANES: u64 = 10_000;

fn roomy() -> Limits {
    Limits {
        journal_file_bytes: 4 << 20,
        journal_bytes_max: 64 << 20,
        room_queue_bytes_max: 8 << 20,
        change_bytes_max: 8 << 20,
        segment_bytes: 1 << 20,
        segment_files_open_max: 64,
        segment_warm_bytes: 1 << 20,
        ..limits()
    }
}

/// Each lane gets twenty frames in twenty entries, and one write, because the mover takes them
/// together.
#[test]
fn frames_of_many_lanes_are_written_lane_by_lane() {
    let disk = Counting::new(Arc::new(Memory::new()));
    let mut server = Server::open_with(Arc::new(disk.clone()), &roomy());
    for _ in 0..20 {
        let lines: Vec<_> = (0..200).map(|lane| (lane, 1, &b"body"[..])).collect();
        server.append(&lines);
        server.journal.commit().unwrap();
    }
    let before = disk.counts();
    server.host.bulk().copy(usize::MAX).unwrap();
    let after = disk.counts();
    assert_eq!(after.writes - before.writes, 2 * 200, "a header and a run for each lane");
    assert_eq!(after.sync_alls, before.sync_alls);
    server.host.bulk().sync().unwrap();
    assert_eq!(disk.counts().sync_alls - before.sync_alls, 1);
}

#[test]
fn ten_thousand_lanes_are_moved_and_read_with_few_files_open() {
    let mut server = Server::open_with(Arc::new(Memory::new()), &roomy());
    for round in 0..2_u8 {
        for some in 0..LANES / 1000 {
            let body = [round; 32];
            let lanes = some * 1000..(some + 1) * 1000;
            let lines: Vec<_> = lanes.map(|lane| (lane, 1, &body[..])).collect();
            server.append(&lines);
            server.journal.commit().unwrap();
        }
        server.move_all();
    }
    let reader = server.host.reader();
    for lane in (0..LANES).step_by(97) {
        assert_eq!(bodies(&reader, lane, 0, 1 << 20), [vec![0; 32], vec![1; 32]], "lane {lane}");
    }
    assert_eq!(server.host.lanes().on_disk().unwrap().len() as u64, LANES);
    server.checkpoint().unwrap();
}

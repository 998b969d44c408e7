//! Readers on threads of their own, while everything else goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use handoff_log::disk::{Call, Calls, Disk, Faulty, Memory};
use handoff_log::segments::{Lane, Read};
use handoff_store_embedded::Reader;

use crate::server::Server;

fn body_of(n: u64) -> Vec<u8> {
    let bytes = 50 + usize::try_from(n % 7).unwrap() * 100;
    n.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// Reads a lane from some offset to what is durable at least, and checks every frame. Offsets that
/// were trimmed are passed over.
fn check(reader: &Reader, from: u64, durable: u64, max_bytes: u64) {
    let mut at = from;
    while at < durable {
        match reader.read(Lane(1), at, max_bytes).unwrap() {
            Read::Frames(frames) => {
                assert!(frames[0].base <= at && at < frames[0].end());
                assert!(frames.windows(2).all(|pair| pair[0].end() == pair[1].base));
                for frame in &frames {
                    assert_eq!(frame.body, body_of(frame.base / 2), "at {}", frame.base);
                }
                at = frames.last().unwrap().end();
            }
            Read::Trimmed { start } => at = start,
            other => panic!("{other:?} at {at}, of which {durable} are durable"),
        }
    }
}

/// Appends, commits, moves, syncs, fails syncs, takes checkpoints that let the journal forget, and
/// trims, while readers read.
#[test]
fn readers_beside_everything_never_miss_a_frame_and_never_see_damage() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut server = Server::open(Arc::new(disk) as Arc<dyn Disk>);
    let durable = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3_u64)
        .map(|number| {
            let reader = server.host.reader();
            let (durable, over) = (Arc::clone(&durable), Arc::clone(&over));
            thread::spawn(move || {
                let mut rounds = 0_u64;
                while !over.load(Ordering::Acquire) || rounds == 0 {
                    let end = durable.load(Ordering::Acquire);
                    let back = [end, 40, 5][usize::try_from(number).unwrap()];
                    check(
                        &reader,
                        end.saturating_sub(back),
                        end,
                        [0, 3000, 1 << 20][usize::try_from(number).unwrap()],
                    );
                    rounds += 1;
                }
            })
        })
        .collect();
    for n in 0..1500_u64 {
        server.append(&[(1, 2, &body_of(n))]);
        server.journal.commit().unwrap();
        durable.store(2 * (n + 1), Ordering::Release);
        if n % 3 == 0 {
            server.host.bulk().copy(2).unwrap();
        }
        if n % 50 == 20 {
            faults.fail_nth(Calls::Only(Call::SyncAll), 1);
            server.host.bulk().sync().unwrap_err();
        }
        if n % 40 == 39 {
            server.checkpoint().unwrap();
            server.host.lanes().trim(Lane(1), (2 * n).saturating_sub(400)).unwrap();
        }
    }
    over.store(true, Ordering::Release);
    for reader in readers {
        reader.join().unwrap();
    }
}

//! One thread that keeps several entries on their way, as a server does for bulk.

use std::collections::VecDeque;
use std::io;

use handoff_log::journal::{Committed, Entry};

use super::subject::Subject;

/// What is on its way at most; a journal admits twice that of one room.
const WINDOW_BYTES: u64 = 8 << 20;

/// Appends entries for as long as there are any, and hands over each in their order once it is
/// durable. Gives how many bytes that were.
pub(super) fn pipeline<T>(
    subject: &Subject,
    mut next: impl FnMut() -> Option<(Entry, T)>,
    mut durable: impl FnMut(Committed, T) -> io::Result<()>,
) -> io::Result<u64> {
    let mut window = VecDeque::new();
    let (mut under_way, mut total) = (0, 0);
    while let Some((entry, tag)) = next() {
        let bytes = entry.bytes();
        while under_way + bytes > WINDOW_BYTES {
            let Some((ticket, bytes, tag)) = window.pop_front() else { break };
            under_way -= bytes;
            durable(wait(ticket)?, tag)?;
        }
        under_way += bytes;
        total += bytes;
        window.push_back((subject.append(entry)?, bytes, tag));
    }
    for (ticket, _, tag) in window {
        durable(wait(ticket)?, tag)?;
    }
    Ok(total)
}

fn wait(ticket: handoff_log::journal::Ticket) -> io::Result<Committed> {
    ticket.wait().map_err(io::Error::other)
}

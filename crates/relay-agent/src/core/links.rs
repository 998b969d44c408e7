//! The live path: a session for each destination of each block that is in memory.

use handoff_relay::session::{HelloAck, Message};
use handoff_relay::{BlockId, DeliveryManager, Got, Happened, Origin, Sender, ShardId, Want};
use handoff_types::{Now, Span, Steady};
use tracing::{error, warn};

use super::Core;
use crate::line::{Heard, Line, LineId, tell};

/// What may be on its way to one destination in one conversation, whatever credit it gives. One
/// segment of each shard may be above it.
pub(super) const FLIGHT_BYTES_MAX: u32 = 32 << 20;

/// One destination of one block.
pub(super) struct Link {
    block: BlockId,
    to: usize,
    sender: Sender,
    line: Option<Line>,
    /// The destination has the numbers of the block from somebody else: nothing more goes there live.
    over: bool,
    /// What it needs next is in a file, no longer in memory.
    behind: bool,
}

impl Link {
    pub(super) fn next_deadline(&self) -> Option<Steady> {
        self.sender.next_deadline()
    }
}

/// No more credit than we want to use.
pub(crate) fn modest(message: Message) -> Message {
    match message {
        Message::HelloAck(ack) => {
            let share = FLIGHT_BYTES_MAX / u32::try_from(ack.shards.len().max(1)).unwrap_or(1);
            Message::HelloAck(HelloAck { credit: ack.credit.min(share.max(1)), ..ack })
        }
        other => other,
    }
}

impl Core {
    /// Sessions for blocks that are new.
    pub(super) fn open_links(&mut self) {
        let blocks = [self.keeper.leaving(), Some(self.keeper.present())];
        for one in blocks.into_iter().flatten() {
            let block = one.block();
            if self.links.iter().any(|link| link.block == block) {
                continue;
            }
            for (to, road) in self.roads.iter() {
                let origin = Origin { agent: self.agent.clone(), block };
                let acked = |shard| one.acks().last(shard, to);
                let (name, token) = (road.name.clone(), road.token.clone());
                let sender = Sender::new(name, origin, self.rules.shards, token, false, acked)
                    .with_rules(self.session);
                let (line, over, behind) = (None, false, false);
                self.links.push(Link { block, to, sender, line, over, behind });
            }
        }
    }

    pub(super) fn drive_links(&mut self, now: Now) {
        let mut links = std::mem::take(&mut self.links);
        for link in &mut links {
            self.drive(link, now);
        }
        self.links = links;
    }

    fn drive(&mut self, link: &mut Link, now: Now) {
        if link.over {
            return;
        }
        if link.behind && self.backlog.owes(link.block, link.to) {
            return self.make_way(link, now);
        }
        if link.line.is_none() {
            link.behind = false;
            link.line = self.roads.line(link.to, now.steady);
        }
        match link.sender.tick(now.steady) {
            Some(Ok(message)) => {
                tell(link.line.as_ref(), message);
            }
            Some(Err(happened)) => return self.happened(link, happened, now),
            None => {}
        }
        for shard in self.rules.shards.ids() {
            while let Some(line) = link.line.as_ref().filter(|line| line.has_room()) {
                let Some(want) = link.sender.wanted_of(shard, now.steady) else { break };
                let Some(block) = self.keeper.block_mut(link.block) else { return };
                let message = match want {
                    Want::Segment(key) => match block.get(key) {
                        Got::Segment(bytes) => link.sender.segment(key, &bytes).ok_or(key),
                        Got::NotYet => break,
                        // It is in the file, and for the backlog.
                        Got::Gone => {
                            block.strand();
                            link.behind = true;
                            break;
                        }
                    },
                    Want::KeyFrame(key) => match block.restore(shard, &mut self.bench) {
                        Some((from, bytes)) if from.segment <= key.segment => {
                            link.sender.key_frame(from, bytes).ok_or(key)
                        }
                        _ => {
                            block.strand();
                            link.behind = true;
                            break;
                        }
                    },
                };
                match message {
                    Ok(message) => {
                        let (segments, bytes) = size(&message);
                        line.say(message);
                        if let Some(road) = self.roads.get(link.to) {
                            road.sent(segments, bytes);
                        }
                    }
                    Err(key) => {
                        warn!(destination = %link.sender.destination(), %key, "larger than it takes");
                        block.reject(key, link.to, now.steady);
                        break;
                    }
                }
            }
        }
    }

    /// Lines whose conversations are open.
    pub(super) fn open_lines(&self) -> impl Iterator<Item = &Line> {
        let open = self.links.iter().filter(|link| link.sender.is_open());
        open.filter_map(|link| link.line.as_ref())
    }

    /// Takes what was heard of a line, if it is one of these.
    pub(super) fn heard_of_link(&mut self, line: LineId, heard: &Heard, now: Now) -> bool {
        let mine = |link: &Link| link.line.as_ref().is_some_and(|one| one.id == line);
        let Some(at) = self.links.iter().position(mine) else { return false };
        let mut link = self.links.swap_remove(at);
        match heard {
            Heard::Up => {
                let hello = link.sender.connected(now.steady);
                if let Some(line) = &mut link.line {
                    line.up = true;
                    line.say(hello);
                }
            }
            Heard::Message(message) => {
                let block = self.keeper.block_mut(link.block);
                let encoded = |shard: ShardId| block.as_ref().and_then(|one| one.encoded(shard));
                let message = modest(message.clone());
                for one in link.sender.received(message, now.steady, encoded) {
                    self.happened(&mut link, one, now);
                }
            }
            Heard::Taken => link.sender.took(now.steady),
            Heard::Down(why) => self.part(&mut link, why, Span::ZERO, now),
        }
        self.links.push(link);
        true
    }

    fn happened(&mut self, link: &mut Link, happened: Happened, now: Now) {
        let to = link.to;
        let Some(block) = self.keeper.block_mut(link.block) else { return };
        let Some(road) = self.roads.get_mut(to) else { return };
        match happened {
            Happened::Opened => {
                road.opened();
                link.behind = false;
                self.keeper.meet(to);
                self.tell_again = now.steady;
            }
            Happened::Acked(key) => {
                road.confirmed();
                block.ack(key, to, now.steady, &mut self.bench);
                self.backlog.confirmed(link.block, to, key);
            }
            Happened::Rejected { key, reason, words } => {
                road.rejected();
                warn!(destination = %road.name, %key, ?reason, words, "not taken; it goes to disk");
                block.reject(key, to, now.steady);
            }
            Happened::Ahead(key) => {
                error!(destination = %road.name, block = %link.block, %key,
                    "it has numbers of this block that were never given here; was this machine cloned while the agent ran? The block goes there under another name");
                block.ahead(to);
                link.over = true;
                self.part(link, "it has the block from somebody else", Span::ZERO, now);
            }
            Happened::Missing(segments) => road.misses(link.block, segments),
            Happened::Refused { reason, retry_after, words } => {
                let why = format!("it refuses ({reason:?}): {words}");
                self.part(link, &why, retry_after, now);
            }
            Happened::Broken(why) => self.part(link, why, Span::ZERO, now),
        }
    }

    /// Whether a destination is served from memory, as far as is known: then not from a file of the
    /// same block beside it. Both would speak for the block, and it has one voice.
    pub(super) fn speaks_live(&self, block: BlockId, to: usize) -> bool {
        let mut links = self.links.iter();
        links.any(|link| link.block == block && link.to == to && !link.over && !link.behind)
    }

    /// A file of the block is on its way there: until it has arrived, nothing is said from memory.
    fn make_way(&mut self, link: &mut Link, now: Now) {
        let Some(line) = link.line.take() else { return };
        if link.sender.is_open()
            && let Some(road) = self.roads.get(link.to)
        {
            road.closed();
        }
        let doubted = link.sender.lost();
        line.finish();
        if let Some(block) = self.keeper.block_mut(link.block) {
            block.doubt(&doubted, link.to, now.steady);
        }
    }

    /// The line is gone: what was on its way is in doubt.
    fn part(&mut self, link: &mut Link, why: &str, not_before: Span, now: Now) {
        if link.line.take().is_none() {
            return;
        }
        let open = link.sender.is_open();
        let doubted = link.sender.lost();
        let entropy = self.outside.roll();
        if let Some(road) = self.roads.get_mut(link.to) {
            if open {
                road.closed();
            }
            road.failed(why, not_before, now, entropy);
        }
        self.keeper.part(link.to);
        if let Some(block) = self.keeper.block_mut(link.block) {
            block.doubt(&doubted, link.to, now.steady);
        }
    }

    /// The sessions of a block that has left. Whoever has all of it is told that this was all.
    pub(super) fn close_links(&mut self, left: &DeliveryManager) {
        let block = left.block();
        let (over, links) = std::mem::take(&mut self.links)
            .into_iter()
            .partition(|link: &Link| link.block == block);
        self.links = links;
        for link in over {
            let Link { sender, line, to, .. } = link;
            let Some(line) = line else { continue };
            if !sender.is_open() {
                continue;
            }
            if let Some(road) = self.roads.get(to) {
                road.closed();
            }
            let whole = |shard| sender.acked(shard) == left.encoded(shard);
            if self.rules.shards.ids().all(whole) {
                line.say(Message::End);
            }
            line.finish();
        }
    }
}

/// Segments and bytes of what is sent.
pub(super) const fn size(message: &Message) -> (u64, usize) {
    match message {
        Message::Segment { bytes, .. } => (1, bytes.len()),
        Message::KeyFrame { bytes, .. } => (0, bytes.len()),
        _ => (0, 0),
    }
}

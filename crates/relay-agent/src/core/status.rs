//! What destinations are told of the agent, for people there.

use handoff_relay::session::{DestinationStatus, Message, Status};
use handoff_types::{Now, Span};

use super::Core;
use crate::metrics::{Because, GIVEN_UP_AGE, GIVEN_UP_DAMAGED, GIVEN_UP_REFUSED};

/// How often.
const TELL_EVERY: Span = Span::from_secs(10);

impl Core {
    /// Tells every destination how the agent is, when it is time.
    pub(super) fn tell_status(&mut self, now: Now) {
        if now.steady < self.tell_again {
            return;
        }
        self.tell_again = now.steady + TELL_EVERY;
        let status = self.status(now);
        for line in self.open_lines() {
            // One that has no room hears it next time.
            line.say(Message::Status(status.clone()));
        }
    }

    fn status(&self, now: Now) -> Status {
        let counted = &self.metrics.counted;
        let number = |gauge: i64| u64::try_from(gauge).unwrap_or(0);
        let given_up = [GIVEN_UP_AGE, GIVEN_UP_REFUSED, GIVEN_UP_DAMAGED]
            .map(|reason| counted.given_up.get_or_create(&Because { reason }).get());
        let destinations = self.roads.iter().map(|(to, road)| DestinationStatus {
            name: road.name.clone(),
            connected: road.is_connected(),
            gone_millis: road.gone_for(now.steady).0 / 1_000,
            lag_millis: self.lag(to, now).map(|lag| lag.0 / 1_000),
        });
        Status {
            memory_bytes: number(counted.memory_bytes.get()),
            spool_bytes: number(counted.spool_bytes.get()),
            spool_bytes_max: self.spool_bytes_max,
            files: number(counted.backlog_files.get()),
            quarantine_bytes: number(counted.quarantine_bytes.get()),
            given_up: given_up.into_iter().sum(),
            destinations: destinations.collect(),
        }
    }
    /// How old the oldest is that a destination has not confirmed. Of what is in files it is only known
    /// that it is not older than its block.
    fn lag(&self, to: usize, now: Now) -> Option<Span> {
        let blocks = self.keeper.leaving().into_iter().chain([self.keeper.present()]);
        let since = blocks.filter_map(|block| block.unconfirmed_since(to)).min();
        let in_memory = since.map(|since| now.steady.since(since));
        let in_files = self.backlog.owed_since(to).map(|begun| now.wall.since(begun));
        in_memory.max(in_files)
    }
}

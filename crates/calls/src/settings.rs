//! How the calls of a channel are treated.

use handoff_types::Span;

/// The settings of a channel. One that nobody described has those of the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSettings {
    /// What becomes of a call whose executor is lost.
    pub on_lost: OnLost,
    /// How often a call is begun at most.
    pub attempts_max: u16,
    /// How long it waits after the first attempt that failed. Each further wait is twice the one
    /// before, and a random half of it is left out.
    pub backoff_min: Span,
    /// What doubling ends at.
    pub backoff_max: Span,
    /// How long an executor may be silent about a call that it runs.
    pub lease: Span,
    /// How long a call waits to be begun for the first time.
    pub queue_timeout: Option<Span>,
    /// What a crash of the server leaves.
    pub durability: Durability,
    /// What becomes of a call that nobody is there to run.
    pub without_consumer: WithoutConsumer,
}

impl ChannelSettings {
    /// The longest of all times that a channel can set.
    pub const TIME_MAX: Span = Span::from_secs(30 * 86_400);
    /// The shortest lease.
    pub const LEASE_MIN: Span = Span::from_millis(100);

    /// What is wrong with them.
    ///
    /// # Errors
    /// What must be otherwise, in words.
    pub fn check(&self) -> Result<(), &'static str> {
        let times = [self.backoff_min, self.backoff_max, self.lease];
        let longest = times.into_iter().chain(self.queue_timeout).max();
        match self {
            _ if self.attempts_max == 0 => {
                Err("a call is begun at least once: attempts_max is 1 or more")
            }
            _ if self.lease < Self::LEASE_MIN => Err("a lease is at least 100 ms"),
            _ if self.backoff_min > self.backoff_max => Err("backoff_min is not above backoff_max"),
            _ if self.queue_timeout == Some(Span::ZERO) => {
                Err("a queue timeout is above 0; leave it out for none")
            }
            _ if longest > Some(Self::TIME_MAX) => Err("times of a channel are at most 30 days"),
            _ => Ok(()),
        }
    }
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            on_lost: OnLost::Redeliver,
            attempts_max: 3,
            backoff_min: Span::from_millis(100),
            backoff_max: Span::from_secs(60),
            lease: Span::from_secs(30),
            queue_timeout: None,
            durability: Durability::Disk,
            without_consumer: WithoutConsumer::Park,
        }
    }
}

/// What becomes of a call whose executor is lost while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// Another one gets it, as long as it has attempts left.
    Redeliver,
    /// It ends: nobody knows how far it came.
    Fail,
}

/// What a crash of the server leaves of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Everything: it is on disk before anybody hears of it.
    Disk,
    /// Nothing. Its caller sends it again.
    Memory,
}

/// What becomes of a call that nobody is there to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutConsumer {
    /// It waits for one.
    Park,
    /// It ends at once.
    Fail,
}

#[cfg(test)]
mod tests {
    use super::ChannelSettings;
    use handoff_types::Span;

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let good = ChannelSettings::default();
        assert_eq!(good.check(), Ok(()));
        for bad in [
            ChannelSettings { attempts_max: 0, ..good },
            ChannelSettings { lease: Span::ZERO, ..good },
            ChannelSettings { backoff_min: Span::from_secs(61), ..good },
            ChannelSettings { queue_timeout: Some(Span::ZERO), ..good },
            ChannelSettings { queue_timeout: Some(Span(u64::MAX)), ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}

//! The worlds there are, by name.

use crate::brokers::Brokers;
use crate::calls::{self, Called};
use crate::dice::Dice;
use crate::driver::{Failure, World, drive};
use crate::embedded::{self, Embedded};
use crate::events::{self, Timed};
use crate::exchange::{self, Exchanged};
use crate::groups::{self, Grouped};
use crate::history::{History, Keep};
use crate::relay::{self, Relayed};
use crate::room::Counter;
use crate::store::ConflictingStore;
use crate::streams::{self, Streamed};

/// A world that can be made from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Two brokers over one store that conflicts.
    Brokers,
    /// One server on embedded storage, over a disk that crashes and fails.
    Embedded,
    /// The same with the events room in it.
    Events,
    /// The same with the streams room in it.
    Streams,
    /// Two brokers of streams over one store that conflicts.
    StreamsBrokers,
    /// One server with consumer groups on embedded storage.
    Groups,
    /// Consumer groups at two brokers over one store that conflicts.
    GroupsBrokers,
    /// One server with the exchange on embedded storage.
    Exchange,
    /// One server with the calls room on embedded storage.
    Calls,
    /// One agent of the relay before destinations that come and go.
    Relay,
}

impl Scenario {
    /// Every one there is.
    pub const ALL: [Self; 10] = [
        Self::Brokers,
        Self::Embedded,
        Self::Events,
        Self::Streams,
        Self::StreamsBrokers,
        Self::Groups,
        Self::GroupsBrokers,
        Self::Exchange,
        Self::Calls,
        Self::Relay,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brokers => "brokers",
            Self::Embedded => "embedded",
            Self::Events => "events",
            Self::Streams => "streams",
            Self::StreamsBrokers => "streams-brokers",
            Self::Groups => "groups",
            Self::GroupsBrokers => "groups-brokers",
            Self::Exchange => "exchange",
            Self::Calls => "calls",
            Self::Relay => "relay",
        }
    }

    /// How many steps a run has if nobody says otherwise.
    #[must_use]
    pub const fn steps(self) -> u64 {
        match self {
            Self::Brokers => 1_000,
            Self::Embedded => 600,
            Self::Events => 500,
            Self::Streams => 500,
            Self::StreamsBrokers => 1_500,
            Self::Groups => 500,
            Self::GroupsBrokers => 1_500,
            Self::Exchange => 500,
            Self::Calls => 500,
            Self::Relay => 600,
        }
    }

    /// The world of a seed.
    #[must_use]
    pub fn open(self, seed: u64) -> Box<dyn World> {
        let mut dice = Dice::new(seed);
        match self {
            Self::Brokers => {
                let store = ConflictingStore::<Counter>::new(dice.fork());
                Box::new(Brokers::<Counter, _>::new(store, dice))
            }
            Self::Embedded => Box::new(Embedded::<embedded::Sound>::new(dice)),
            Self::Events => Box::new(Timed::<events::Sound>::new(dice)),
            Self::Streams => Box::new(Streamed::<streams::Sound>::new(dice)),
            Self::StreamsBrokers => {
                Box::new(streams::brokers::Brokered::<handoff_streams::Streams>::new(dice))
            }
            Self::Groups => Box::new(Grouped::<groups::Sound>::new(dice)),
            Self::GroupsBrokers => {
                Box::new(groups::brokers::Brokered::<handoff_streams::Streams>::new(dice))
            }
            Self::Exchange => Box::new(Exchanged::<exchange::Sound>::new(dice)),
            Self::Calls => Box::new(Called::<calls::Sound>::new(dice)),
            Self::Relay => Box::new(Relayed::<relay::Sound>::new(dice)),
        }
    }
}

/// Runs one seed of a scenario.
///
/// # Errors
/// [`Failure`] at the first step that breaks something.
pub fn run(scenario: Scenario, seed: u64, steps: u64, keep: Keep) -> Result<History, Box<Failure>> {
    let mut world = scenario.open(seed);
    drive(scenario.name(), world.as_mut(), seed, steps, History::new(keep))
}

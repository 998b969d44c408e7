//! What `handoff bench` can be asked.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::{Failed, Report, calls, events, exchange, log, relay, streams};

/// What is measured.
#[derive(Debug, Subcommand)]
pub enum What {
    /// The journal and its segments, against plain group commit on the same disk
    Log(LogArgs),
    /// The events room of a server of its own, through its sockets
    Events(EventsArgs),
    /// The streams room of a server of its own, through its socket, beside NATS and Redis if they are
    /// installed
    Streams(StreamsArgs),
    /// The exchange of a server of its own, through its socket, against files made durable one by one
    Exchange(ExchangeArgs),
    /// Calls through a server of its own and through Redis, beside NATS and BullMQ if they are installed
    Calls(CallsArgs),
    /// The relay's codec: bytes a sample beside remote write of the same batches, samples a second
    Relay(RelayArgs),
}

/// Where to write and how to print.
#[derive(Debug, Args)]
pub struct Common {
    /// Write into a fresh directory in this one; it is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Everything once and short: shows that it works, the figures mean little
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
}

/// `bench log`
#[derive(Debug, Args)]
pub struct LogArgs {
    #[command(flatten)]
    common: Common,
    /// How long each measurement runs, in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// Measure one part only
    #[arg(long, value_name = "PART")]
    only: Option<LogPart>,
}

/// `bench events`
#[derive(Debug, Args)]
pub struct EventsArgs {
    #[command(flatten)]
    common: Common,
    /// How long each measurement runs, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// How many events are registered
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    events: u32,
}

/// `bench streams`
#[derive(Debug, Args)]
pub struct StreamsArgs {
    #[command(flatten)]
    common: Common,
    /// How long each measurement runs, in seconds
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// How long the sustained one runs, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    sustained: Duration,
    /// How much backlog the start is measured with, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 10)]
    backlog: u64,
    /// Measure one part only
    #[arg(long, value_name = "PART")]
    only: Option<StreamsPart>,
    /// Where nats-server and redis-server are, if not on the PATH
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

/// `bench exchange`
#[derive(Debug, Args)]
pub struct ExchangeArgs {
    #[command(flatten)]
    common: Common,
    /// How long each measurement runs, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// How long devices send, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    sustained: Duration,
    /// How many messages the long queue has
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    queued: usize,
    /// Measure one part only
    #[arg(long, value_name = "PART")]
    only: Option<ExchangePart>,
}

/// `bench calls`
#[derive(Debug, Args)]
pub struct CallsArgs {
    #[command(flatten)]
    common: Common,
    /// How long each measurement runs, in seconds
    #[arg(long, value_name = "S", default_value = "1.5", value_parser = seconds)]
    seconds: Duration,
    /// How often each is repeated; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Measure one part only
    #[arg(long, value_name = "PART")]
    only: Option<CallsPart>,
    /// Where nats-server, redis-server and what speaks to NATS and BullMQ are, if not on the PATH
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CallsPart {
    Memory,
    Disk,
    Redis,
    Parked,
}

impl From<CallsPart> for calls::Part {
    fn from(name: CallsPart) -> Self {
        match name {
            CallsPart::Memory => Self::Memory,
            CallsPart::Disk => Self::Disk,
            CallsPart::Redis => Self::Redis,
            CallsPart::Parked => Self::Parked,
        }
    }
}

/// `bench relay`
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// How long each measurement of speed runs, in seconds
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// Everything once and short: shows that it works, the figures mean little
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Recorded scrapes to measure too, as bench/corpus/record makes them
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExchangePart {
    Posts,
    Queue,
}

impl From<ExchangePart> for exchange::Part {
    fn from(name: ExchangePart) -> Self {
        match name {
            ExchangePart::Posts => Self::Posts,
            ExchangePart::Queue => Self::Queue,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StreamsPart {
    Single,
    Batches,
    Sustained,
    Fetch,
    Groups,
    Partitions,
    Backlog,
    Peers,
}

impl From<StreamsPart> for streams::Part {
    fn from(name: StreamsPart) -> Self {
        match name {
            StreamsPart::Single => Self::Single,
            StreamsPart::Batches => Self::Batches,
            StreamsPart::Sustained => Self::Sustained,
            StreamsPart::Fetch => Self::Fetch,
            StreamsPart::Groups => Self::Groups,
            StreamsPart::Partitions => Self::Partitions,
            StreamsPart::Backlog => Self::Backlog,
            StreamsPart::Peers => Self::Peers,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogPart {
    Callers,
    Bulk,
    Neighbours,
    Recovery,
}

impl From<LogPart> for log::Part {
    fn from(name: LogPart) -> Self {
        match name {
            LogPart::Callers => Self::Callers,
            LogPart::Bulk => Self::Bulk,
            LogPart::Neighbours => Self::Neighbours,
            LogPart::Recovery => Self::Recovery,
        }
    }
}

/// Measures what is asked and tells on the way what it is doing. `server` is the program that is
/// started as `server serve …` where a server is measured.
///
/// # Errors
/// See [`Failed`].
pub fn run(what: &What, server: &std::path::Path, talk: &dyn Fn(&str)) -> Result<Report, Failed> {
    match what {
        What::Log(LogArgs { common, seconds, only }) => {
            let dir = &common.dir;
            let plan =
                if common.quick { log::Plan::quick(dir) } else { log::Plan::of(dir, *seconds) };
            log::run(&only.map_or(plan.clone(), |part| plan.only(part.into())), talk)
        }
        What::Events(EventsArgs { common, seconds, events }) => {
            let plan = if common.quick {
                events::Plan::quick(&common.dir)
            } else {
                events::Plan::of(&common.dir, *seconds, *events)
            };
            events::run(&plan, server, talk)
        }
        What::Streams(arguments) => {
            let StreamsArgs { common, seconds, sustained, backlog, only, peers } = arguments;
            let mut plan = if common.quick {
                streams::Plan::quick(&common.dir)
            } else {
                streams::Plan::of(&common.dir, *seconds, *sustained, *backlog << 30)
            };
            plan.peers.clone_from(peers);
            plan.only = only.map(Into::into);
            streams::run(&plan, server, talk)
        }
        What::Exchange(arguments) => {
            let ExchangeArgs { common, seconds, sustained, queued, only } = arguments;
            let mut plan = if common.quick {
                exchange::Plan::quick(&common.dir)
            } else {
                exchange::Plan::of(&common.dir, *seconds, *sustained, *queued)
            };
            plan.only = only.map(Into::into);
            exchange::run(&plan, server, talk)
        }
        What::Calls(CallsArgs { common, seconds, repeats, only, peers }) => {
            let mut plan = if common.quick {
                calls::Plan::quick(&common.dir)
            } else {
                calls::Plan::of(&common.dir, *seconds, *repeats)
            };
            plan.peers.clone_from(peers);
            plan.only = only.map(Into::into);
            calls::run(&plan, server, talk)
        }
        What::Relay(RelayArgs { seconds, quick, corpus }) => {
            let mut plan = if *quick { relay::Plan::quick() } else { relay::Plan::of(*seconds) };
            plan.corpus.clone_from(corpus);
            relay::run(&plan, talk)
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be from 0.1 to 600".to_owned())
    }
}

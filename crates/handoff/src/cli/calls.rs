//! Calls, and whoever is called.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use handoff_sdk::calls::CallId;

use crate::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff call bill \"7\"
  handoff call bill \"{}\" --timeout 5s --key order-4711
  handoff call bill \"7\" --no-wait
  handoff call bill \"7\" --json > answer.json
  handoff call bill \"7\" --redis redis://127.0.0.1:6379/0

The answer goes to stdout. The call survives every break of the connection: it is sent again under its
own id and run as one. Ctrl-C cancels it.
Exit codes: 0 answered, 1 the handler failed, its worker was lost, or nobody knows, 4 refused, 5 its time
was over, nobody serves the channel, or the server cannot be reached.")]
pub(crate) struct CallArgs {
    /// Which channel
    pub(crate) channel: String,
    /// What the handler gets, JSON; - for stdin [default: stdin; null if there is none]
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) params: Option<String>,
    /// The time of the whole call
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "60s")]
    pub(crate) timeout: Duration,
    /// The time until somebody begins it [default: the channel's]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) queue_timeout: Option<Duration>,
    /// Calls of the channel with the same key are the same call
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Do not wait for the end: the id goes to stdout once the call is on disk
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Fail at once if nobody serves the channel
    #[arg(long)]
    pub(crate) only_with_worker: bool,
    /// Where it stands in a trace, a W3C traceparent
    #[arg(long, value_name = "TRACEPARENT")]
    pub(crate) traceparent: Option<String>,
    #[command(flatten)]
    pub(crate) through: Through,
}

/// What calls go through.
#[derive(Debug, Args)]
pub(crate) struct Through {
    /// Go through a Redis that services share instead of a server, as in redis://user:password@host:6379/0;
    /// rediss:// for TLS. With a password prefer the variable: others on this machine see what is typed
    /// [env: HANDOFF_REDIS_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) redis: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff worker bill --exec ./bill.sh
  handoff worker bill void --exec ./bill.sh --concurrency 4 --time-limit 10s
  handoff worker shout --exec \"tr a-z A-Z\" --text --max 1
  handoff worker bill --lines ./bill-server --concurrency 2
  handoff worker bill --exec ./bill.sh --redis redis://127.0.0.1:6379/0

With --exec a shell runs the command for each call: its stdin is what the caller sent, JSON, and its
stdout is the answer, JSON, or any text with --text. HANDOFF_CALL, _CHANNEL, _ATTEMPT, _FENCE, _CALLER,
_DEADLINE_MS and _TRACEPARENT are in its environment. 0 means answered; anything else is an error, with
the end of its stderr as the message and exit_N as the code, and is tried again as the channel has it,
or not with --terminal N.
With --lines the command is started once for each call at a time, and lives: a line of JSON in, a line of
JSON out. One that ends is started again; the call it had failed.
Its lease is kept while a command runs. A call that nobody wants any more, or whose time is over, ends
its command. SIGTERM and Ctrl-C take no more calls and finish what runs, for as long as --drain says.")]
#[command(group = ArgGroup::new("how").required(true).args(["exec", "lines"]))]
pub(crate) struct WorkerArgs {
    /// Which channels
    #[arg(value_name = "CHANNEL", required = true)]
    pub(crate) channels: Vec<String>,
    /// Run this for each call
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<String>,
    /// Run this once, and give it a line for each call
    #[arg(long, value_name = "COMMAND")]
    pub(crate) lines: Option<String>,
    /// So many calls of each channel at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// How long a command may take; then it is ended, and the call failed
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) time_limit: Option<Duration>,
    /// The answer is text, and no JSON
    #[arg(long)]
    pub(crate) text: bool,
    /// An exit code after which a call is not tried again; several may be given
    #[arg(long, value_name = "CODE", requires = "exec")]
    pub(crate) terminal: Vec<i32>,
    /// Stop after so many calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max: Option<u64>,
    /// How long what runs is waited for at the end
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    pub(crate) drain: Duration,
    /// A name, for people
    #[arg(long, value_name = "NAME", default_value = "handoff worker")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) through: Through,
}

#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    #[command(subcommand)]
    pub(crate) verb: CallsVerb,
    #[command(flatten)]
    pub(crate) through: Through,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CallsVerb {
    /// List calls, the latest first
    #[command(after_help = "\
Examples:
  handoff calls list
  handoff calls list --channel bill --open
  handoff calls list --limit 10 --json
  handoff calls list --redis redis://127.0.0.1:6379/0")]
    List {
        /// Only those of this channel
        #[arg(long, value_name = "CHANNEL")]
        channel: Option<String>,
        /// Only those that are not over
        #[arg(long)]
        open: bool,
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one call, and what happened to it
    #[command(after_help = "\
Examples:
  handoff calls show 6ba04b7c-705f-4f86-9d77-a822d11acdb1
  handoff calls show 6ba04b7c-705f-4f86-9d77-a822d11acdb1 --json")]
    Show {
        /// Its id
        id: CallId,
    },
    /// Cancel calls; whoever runs one is told
    #[command(after_help = "\
Examples:
  handoff calls cancel 6ba04b7c-705f-4f86-9d77-a822d11acdb1")]
    Cancel {
        /// Their ids
        #[arg(value_name = "ID", required = true)]
        ids: Vec<CallId>,
    },
    /// Calls that were given up: list, show, call again, drop
    #[command(subcommand)]
    Dead(DeadCallVerb),
    /// List channels: workers, calls, dead letters
    #[command(after_help = "\
Examples:
  handoff calls channels
  handoff calls channels --json")]
    Channels,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCallVerb {
    /// List them, the oldest first, and why they are dead
    #[command(after_help = "\
Examples:
  handoff calls dead list
  handoff calls dead list bill --limit 10 --json")]
    List {
        /// Only those of this channel
        channel: Option<String>,
        /// Only so many of a channel
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one, and what happened to it
    #[command(after_help = "\
Examples:
  handoff calls dead show 6ba04b7c-705f-4f86-9d77-a822d11acdb1")]
    Show {
        /// Its id
        id: CallId,
    },
    /// Call them again, each under a new id, which goes to stdout
    #[command(after_help = "\
Examples:
  handoff calls dead requeue 6ba04b7c-705f-4f86-9d77-a822d11acdb1
  handoff calls dead requeue --channel bill")]
    #[command(group = ArgGroup::new("which").required(true).args(["ids", "channel"]))]
    Requeue {
        /// Their ids
        #[arg(value_name = "ID")]
        ids: Vec<CallId>,
        /// All of this channel
        #[arg(long, value_name = "CHANNEL")]
        channel: Option<String>,
    },
    /// Drop them: one, or all of a channel; asks first
    #[command(after_help = "\
Examples:
  handoff calls dead purge bill --yes
  handoff calls dead purge bill --id 6ba04b7c-705f-4f86-9d77-a822d11acdb1")]
    Purge {
        /// Which channel
        channel: String,
        /// Only this one
        #[arg(long, value_name = "ID")]
        id: Option<CallId>,
    },
}

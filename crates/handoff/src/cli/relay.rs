//! The relay: an agent at the edge, and its refill files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum RelayVerb {
    /// Run an agent: take samples in, keep them through outages, ship them
    Run(RelayRunArgs),
    /// Print a relay.toml to begin with: every key, what it means, and its default
    #[command(after_help = "\
Examples:
  handoff relay config > relay.toml")]
    Config,
    /// Show what is in a refill file, without touching it
    #[command(after_help = "\
Examples:
  handoff relay inspect handoff-relay/spool/1763337600000-0b5f6c0e-7f0f-4d1c-9d0a-2f4f1f3c9a11.refill
  handoff relay inspect backlog.refill --json

Every shard with its segments, what each destination has confirmed of them, and damage.
Exit codes: 0 it is sound, 1 it cannot be read or is damaged, 3 there is no such file.")]
    Inspect {
        /// The file
        file: PathBuf,
    },
    /// List the agents that a server receives, and how far behind they are
    #[command(after_help = "\
Examples:
  handoff relay agents
  handoff relay agents --json | jq -r 'select(.lagMs > 60000) | .agent'

Agents are known from their first connection after the server's start on. Without --json: name, connected,
lag of the newest sample, samples taken, segments not taken, what the agent has spooled and set aside,
when it was last heard of. Where samples go, and what is wrong there, is said on stderr.")]
    Agents {
        /// How many at most
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Show one agent that a server receives
    #[command(after_help = "\
Examples:
  handoff relay show edge-7

Exit codes: 0 it is known, 3 it was not heard of since the server started.")]
    Show {
        /// Its name
        agent: String,
    },
    /// Send a refill file to a receiver by hand: one that was set aside, or from another machine
    #[command(after_help = "\
Examples:
  handoff relay replay backlog.refill --to handoff://127.0.0.1:7071 --agent edge-7
  handoff relay replay backlog.refill --to handoffs://relay.example.org --agent edge-7 --token-file token

Everything in it that can be decoded is sent. The receiver knows agent and block and takes nothing twice,
so it may be run again; with another name than that of its agent the samples are new to it.
Exit codes: 0 all of it is confirmed, 1 the file cannot be read or some of it was never taken, 3 there is
no such file, 4 refused, 5 the receiver does not answer.")]
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff relay run
  handoff relay run --config /etc/handoff/relay.toml
  handoff relay run --listen 127.0.0.1:0 --data-dir /var/lib/handoff-relay --set agent.promise=delivered

Prometheus sends to it with remote_write: [{url: http://127.0.0.1:7072/api/v1/write}].
With --json the first line on stdout, once it is up, says where it listens:
  {\"event\":\"ready\",\"listeners\":{\"http\":\"127.0.0.1:7072\"}}

SIGTERM and Ctrl-C stop it: what no destination confirms goes to disk, and is sent by the next start.
Exit codes: 0 told to stop, 1 it cannot start or the disk failed it, 5 the port or the data directory is
taken.")]
pub(crate) struct RelayRunArgs {
    /// The configuration [default: ./relay.toml, then /etc/handoff/relay.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where refill files are kept (agent.data_dir)
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where samples come in (agent.listen); port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Set any key of the configuration
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", value_parser = super::assignment)]
    pub(crate) assignments: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The file
    pub(crate) file: PathBuf,
    /// Where the receiver listens: handoff://HOST:PORT, or handoffs://HOST:PORT inside TLS
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// The agent whose file it is
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: String,
}

//! What can be asked about groups, about consuming, and about what was given up.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::OutputFormat;
use crate::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// Make a group; it is on disk when this is done
    #[command(after_help = "\
Examples:
  handoff group create billing --topic orders
  handoff group create billing --topic orders --ordering none --max-attempts 3 --lease 2m
  handoff group create audit --topic orders --topic bills --start latest

What is not said is as the server makes groups. `handoff consume` makes a group by itself.")]
    Create {
        /// Its name: letters, digits, dots, underscores and dashes
        name: String,
        #[command(flatten)]
        settings: GroupFlags,
    },
    /// List groups, by name, with what they have still to do
    #[command(after_help = "\
Examples:
  handoff group list
  handoff group list --json | jq .lag")]
    List {
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show a group: members, lag, and why nothing is delivered if so
    #[command(after_help = "\
Examples:
  handoff group show billing
  handoff group show billing --json | jq .partitions")]
    Show {
        /// Its name
        name: String,
    },
    /// Change the settings of a group; what is not said stays
    #[command(visible_alias = "alter")]
    #[command(after_help = "\
Examples:
  handoff group set billing --max-attempts 10
  handoff group set billing --lease 5m --backoff 2s --backoff-max 10m")]
    #[command(group = ArgGroup::new("what").required(true).multiple(true).args([
        "topics", "start", "ordering", "max_attempts", "dead_letter", "lease", "backoff",
        "backoff_max", "in_flight_max",
    ]))]
    Set {
        /// Its name
        name: String,
        #[command(flatten)]
        settings: GroupFlags,
    },
    /// Delete a group and all it knows of messages; its dead letters stay in their topic
    #[command(after_help = "\
Examples:
  handoff group delete billing
  handoff group delete billing --yes

It asks first, and says what it has still to do.")]
    Delete {
        /// Its name
        name: String,
    },
    /// Let a group go on elsewhere: deliver messages again, or never
    #[command(after_help = "\
Examples:
  handoff group seek billing orders --to earliest
  handoff group seek billing orders --to 2027-01-01T00:00:00Z --yes
  handoff group seek billing orders --partition 0 --to 100 --dry-run

--to is earliest, latest, an offset (with --partition), a time, or a length of time ago. It prints
what it would do, partition by partition, and asks. What members hold of those partitions is void.
A line is: topic, partition, from, to, delivered again, skipped, void.")]
    Seek {
        /// Its name
        name: String,
        /// The topic
        topic: String,
        /// Only this partition
        #[arg(long, value_name = "P")]
        partition: Option<u32>,
        /// Where it goes on
        #[arg(long, value_name = "WHERE")]
        to: String,
        /// Say what it would do, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// What a message is to a group: pending, processing, processed or dead
    #[command(after_help = "\
Examples:
  handoff group status billing orders 0 1042
  handoff group status billing orders 0 1042 --json")]
    Status {
        /// The group
        name: String,
        /// The topic
        topic: String,
        /// The partition
        partition: u32,
        /// The offset
        offset: u64,
    },
    /// Take a member out of a group; what it holds is delivered to others at once
    #[command(visible_alias = "leave")]
    #[command(after_help = "\
Examples:
  handoff group remove billing 0190a7c2f00070008000000000000001

A member that still runs learns of it, and joins again.")]
    Remove {
        /// The group
        name: String,
        /// The member, as `group show` shows it
        member: String,
    },
}

/// What may be said of a group's settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct GroupFlags {
    /// A topic it consumes; several may be given
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// Where it begins in a partition it does not know yet: earliest, latest, or a time
    #[arg(long, value_name = "WHERE")]
    pub(crate) start: Option<String>,
    /// What waits while a message is processed: later ones of its key, of its partition, nothing
    #[arg(long, value_name = "HOW")]
    pub(crate) ordering: Option<OrderingArg>,
    /// How often a message is delivered before it is given up
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: Option<u32>,
    /// The topic of what is given up
    #[arg(long, value_name = "TOPIC")]
    pub(crate) dead_letter: Option<String>,
    /// How long a member has for what it was given
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) lease: Option<Duration>,
    /// How long the first retry waits; doubled each time
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) backoff: Option<Duration>,
    /// How long a retry waits at most
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) backoff_max: Option<Duration>,
    /// How many messages of a partition may be out, or wait for their retry or for those before
    /// them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) in_flight_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderingArg {
    /// Later messages of its key
    Key,
    /// Later messages of its partition
    Partition,
    /// Nothing
    None,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff consume orders --group billing
  handoff consume orders --group billing --max 10 --json
  handoff consume orders --group billing --idle 5s --output-format raw > payloads
  handoff consume orders --group billing --exec \"./bill.sh\" --instance worker-1
  handoff consume orders --group look --no-commit --max 1

A message is committed once it is printed: whatever was not printed is delivered again. With --exec a
shell runs the command for each message: the message is its stdin, and HANDOFF_TOPIC, _PARTITION,
_OFFSET, _KEY, _ATTEMPT and _GROUP are in its environment. 0 means done; anything else is a retry, or
with --on-failure dead a dead letter. Its lease is extended while the command runs.
A line is: topic, partition, offset, time, key, message. Ctrl-C leaves the group in order; with
--instance it stays a member for the session timeout, and takes its place again if it is back by then.")]
pub(crate) struct ConsumeArgs {
    /// Which topics [default: those the group declares]
    #[arg(value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// As a member of this group; it is made if it is not there
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: String,
    /// A name to come back under: a restart does not disturb the others
    #[arg(long, visible_alias = "member", value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Where a new group begins: earliest, latest, an offset, a time, or a length of time ago
    #[arg(long, value_name = "WHERE")]
    pub(crate) from: Option<String>,
    /// Stop after so many
    #[arg(long, visible_alias = "limit", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max: Option<u64>,
    /// Stop when nothing came for so long
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) idle: Option<Duration>,
    /// How many are taken at once [default: 100, with --exec 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// How long it may be silent before others get its messages
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) session_timeout: Option<Duration>,
    /// Run this for each message
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<String>,
    /// What becomes of a message whose command fails
    #[arg(long, value_name = "WHAT", requires = "exec", default_value = "retry")]
    pub(crate) on_failure: OnFailure,
    /// How long such a message waits before it is delivered again [default: the group's back-off]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "exec")]
    pub(crate) delay: Option<Duration>,
    /// Look only: what is printed is delivered again; it counts as an attempt
    #[arg(long, conflicts_with = "exec")]
    pub(crate) no_commit: bool,
    /// How messages are printed
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "exec"])]
    pub(crate) output_format: Option<OutputFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailure {
    /// It is delivered again; after the group's last attempt it is a dead letter
    Retry,
    /// It is a dead letter at once
    Dead,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LetterVerb {
    /// List what a group gave up, the oldest first, and why
    #[command(after_help = "\
Examples:
  handoff dead list billing
  handoff dead list billing --json | jq .error

A line is: offset, partition, origin, attempts, put back or not, error.")]
    List {
        /// The group
        group: String,
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one dead letter with everything in it
    #[command(after_help = "\
Examples:
  handoff dead show billing 7
  handoff dead show billing 7 --json | jq -r .payload")]
    Show {
        /// The group
        group: String,
        /// Its offset, as `dead list` shows it
        offset: u64,
        /// Its partition
        #[arg(long, value_name = "P", default_value_t = 0)]
        partition: u32,
    },
    /// Put dead letters back where they came from, for this group alone
    #[command(after_help = "\
Examples:
  handoff dead replay billing 7
  handoff dead replay billing 7 12
  handoff dead replay billing --range 7..=40
  handoff dead replay billing --all

One that was put back before is not put back again.")]
    #[command(group = ArgGroup::new("which").required(true).args(["offsets", "range", "all"]))]
    Replay {
        /// The group
        group: String,
        /// Their offsets, as `dead list` shows them
        #[arg(value_name = "OFFSET")]
        offsets: Vec<u64>,
        /// Those from one offset to another, both included
        #[arg(long, value_name = "FROM..=TO", value_parser = range)]
        range: Option<(u64, u64)>,
        /// All of them
        #[arg(long)]
        all: bool,
        /// Their partition
        #[arg(long, value_name = "P", default_value_t = 0, conflicts_with = "all")]
        partition: u32,
    },
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let ends = text.split_once("..=");
    let ends = ends.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    ends.filter(|(from, to)| from <= to)
        .ok_or_else(|| format!("`{text}` is no range: write it as in 7..=40"))
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_have_both_ends_and_go_forward() {
        assert_eq!(range("7..=40"), Ok((7, 40)));
        assert_eq!(range("7..=7"), Ok((7, 7)));
        for text in ["", "7", "7..40", "7..=", "40..=7", "a..=b"] {
            assert!(range(text).unwrap_err().contains("7..=40"), "{text}");
        }
    }
}

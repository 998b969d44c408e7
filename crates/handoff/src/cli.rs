//! What can be asked on the command line: nouns and verbs.

mod calls;
mod exchange;
mod groups;
mod relay;
mod streams;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand};

use crate::duration;

pub(crate) use calls::{CallArgs, CallsArgs, CallsVerb, DeadCallVerb, Through, WorkerArgs};
pub(crate) use exchange::{
    CompanyVerb, DatabaseVerb, DeviceVerb, ExchangeVerb, PlaceArg, Rate, RouteVerb, SimulateArgs,
    SubsystemVerb,
};
pub(crate) use groups::{ConsumeArgs, GroupFlags, GroupVerb, LetterVerb, OnFailure, OrderingArg};
pub(crate) use relay::{RelayRunArgs, RelayVerb, ReplayArgs};
pub(crate) use streams::{
    Bound, CompressionArg, DurabilityArg, OutputFormat, ProduceArgs, ReadArgs, TopicSettings,
    TopicVerb,
};

/// Where a server is if nobody says.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7070";

#[derive(Debug, Parser)]
#[command(
    name = "handoff",
    version,
    about = "One binary for messages that must arrive",
    after_help = "\
First steps:
  handoff serve                                     start a server, with nothing else
  handoff event watch --type backup                 in a second terminal: wait for it
  handoff event add --type backup --every 10s hello in a third: let it happen
  handoff topic create orders                       or: a topic,
  handoff produce orders hello                      a message in it,
  handoff read orders                               what is there,
  handoff consume orders --group billing            and each message to one of a group
  handoff exchange simulate --company demo --subsystem sales --erp
                                                    or: devices, and an ERP that answers them
  handoff worker shout --exec 'tr a-z A-Z'          or: somebody who answers,
  handoff call shout 7                              and somebody who calls
  handoff relay run --config relay.toml             or: an agent that ships samples

Data goes to stdout, talk to stderr. A list is a table on a terminal, tab-separated lines without a
header anywhere else, and JSON with --json.

Exit codes: 0 done, 1 failed, 2 not understood, 3 not found, 4 refused, 5 unavailable (try later).",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) noun: Noun,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The server's HTTP address [env: HANDOFF_URL] [default: http://127.0.0.1:7070]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The token to show it; others on this machine can see it, so prefer the file [env: HANDOFF_TOKEN]
    #[arg(long, global = true, value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,
    /// A file that holds the token [env: HANDOFF_TOKEN_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates to believe besides the public ones, PEM [env: HANDOFF_CA_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Print JSON: one object, or one a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Do not ask before something is deleted or repaired
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Noun {
    /// Run the server until it is told to stop
    Serve(ServeArgs),
    /// Timed events: register, list, show, delete, watch
    #[command(subcommand)]
    Event(EventVerb),
    /// Topics: make, list, show, grow, change, delete
    #[command(subcommand)]
    Topic(TopicVerb),
    /// Send messages to a topic
    Produce(ProduceArgs),
    /// Read messages of a topic, and follow it
    Read(ReadArgs),
    /// Take messages as a member of a group: each goes to one of them
    Consume(ConsumeArgs),
    /// Groups: make, list, show, change, move, delete
    #[command(subcommand)]
    Group(GroupVerb),
    /// What groups gave up: list, show, put back
    #[command(subcommand)]
    Dead(LetterVerb),
    /// Messages between devices and the database behind an ERP, in two phases
    #[command(subcommand)]
    Exchange(ExchangeVerb),
    /// Call whoever serves a channel, and print the answer
    Call(CallArgs),
    /// Serve channels with a command
    Worker(WorkerArgs),
    /// Calls: list, show, cancel, dead letters, channels
    Calls(CallsArgs),
    /// Samples from the edge: an agent that ships them, and its refill files
    #[command(subcommand)]
    Relay(RelayVerb),
    /// Tokens that open a server
    #[command(subcommand)]
    Token(TokenVerb),
    /// Who did what: administrative acts, the latest first
    Audit(AuditArgs),
    /// The configuration: check it, show it
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Look at everything a server needs, and say what to do
    Doctor(DoctorArgs),
    /// Whether the server at --url lives; for container health checks
    Health(HealthArgs),
    /// Measure what this machine gives, against floors of the same run
    #[command(after_help = "\
Examples:
  handoff bench log --dir /var/lib/handoff
  handoff bench events --quick --json")]
    Bench {
        #[command(subcommand)]
        what: handoff_bench::cli::What,
    },
    /// Completions for a shell, to stdout
    #[command(after_help = "\
Examples:
  handoff completions bash > /etc/bash_completion.d/handoff
  handoff completions zsh > ~/.zfunc/_handoff
  handoff completions fish > ~/.config/fish/completions/handoff.fish")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// The version of this program and of what is built in
    #[command(after_help = "\
Examples:
  handoff version
  handoff version --json")]
    Version,
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration [default: ./handoff.toml, then /etc/handoff/handoff.toml, then none]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where everything durable is kept (server.data_dir)
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Set any key of the configuration
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", value_parser = assignment)]
    pub(crate) assignments: Vec<(String, String)>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff serve
  handoff serve --data-dir /var/lib/handoff --listen 127.0.0.1:8080
  handoff serve --config /etc/handoff/handoff.toml --set server.log_level=debug

With --json the first line on stdout, once everything is up, says where it listens:
  {\"event\":\"ready\",\"listeners\":{\"http\":\"127.0.0.1:7070\",\"events\":\"127.0.0.1:5987\"}}

SIGTERM and Ctrl-C stop it in order; SIGHUP reads the configuration and certificates again.
Exit codes: 0 told to stop, 1 it cannot start or the disk failed it, 5 a port or the data directory is
taken, or the disk is full.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Where HTTP listens (server.listen); port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Where sevent listens (events.listen)
    #[arg(long, value_name = "ADDR")]
    pub(crate) events_listen: Option<SocketAddr>,
    /// Where the relay's agents come to (relay.listen)
    #[arg(long, value_name = "ADDR")]
    pub(crate) relay_listen: Option<SocketAddr>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventVerb {
    /// Register an event; its id goes to stdout, and it is on disk then
    Add(AddArgs),
    /// List events, in ascending order of their ids
    #[command(after_help = "\
Examples:
  handoff event list
  handoff event list --type backup --type restore
  handoff event list --json | jq .nextAt")]
    List {
        /// Only events of this type; several may be given
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one event
    #[command(after_help = "\
Examples:
  handoff event show 7
  handoff event show 7 --json")]
    Show {
        /// Its id
        id: u32,
    },
    /// Delete events by id or by type
    #[command(after_help = "\
Examples:
  handoff event delete 7 8
  handoff event delete --type backup --yes

Deleting by type asks first, and says how many it would be. Unknown ids are an error (exit code 3),
but the others are deleted.")]
    #[command(group = ArgGroup::new("which").required(true).multiple(true).args(["ids", "types"]))]
    Delete {
        /// Their ids
        #[arg(value_name = "ID")]
        ids: Vec<u32>,
        /// All events of this type; several may be given
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
    },
    /// Print a line for each occurrence, as it happens
    #[command(after_help = "\
Examples:
  handoff event watch --type backup
  handoff event watch --id 7 --count 1
  handoff event watch --json | while read -r line; do echo \"$line\"; done

Without --type and --id every event is watched. When the connection breaks it is made again, and
stderr says so: what occurred meanwhile is not told.
A line is: time it was due, id, number of the occurrence, what is left, types, description.")]
    Watch {
        /// Events of this type; several may be given
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// This event; several may be given
        #[arg(long = "id", value_name = "ID")]
        ids: Vec<u32>,
        /// Stop after so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
    /// Occurrences that did not come to their topics: list, retry, delete
    #[command(subcommand)]
    Dead(DeadVerb),
    /// How the room is doing
    #[command(after_help = "\
Examples:
  handoff event stats
  handoff event stats --json")]
    Stats,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadVerb {
    /// List them, the oldest first, and why they are dead
    #[command(after_help = "\
Examples:
  handoff event dead list
  handoff event dead list --json | jq .why")]
    List {
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Hand them over to their topics again; what a topic has it does not store twice
    #[command(after_help = "\
Examples:
  handoff event dead retry 7 8
  handoff event dead retry --all")]
    Retry(DeadArgs),
    /// Delete them; asks first when it is all of them
    #[command(after_help = "\
Examples:
  handoff event dead delete 7
  handoff event dead delete --all --yes")]
    Delete(DeadArgs),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["numbers", "all"]))]
pub(crate) struct DeadArgs {
    /// Their numbers, as `event dead list` shows them
    #[arg(value_name = "NUMBER")]
    pub(crate) numbers: Vec<u64>,
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff event add --type backup --every 24h --times 7 \"nightly backup\"
  handoff event add --type report --cron \"0 3 * * *\" --tz Europe/Minsk \"morning report\"
  handoff event add --at 2027-01-01T00:00:00Z \"happy new year\"
  handoff event add --every 1m --publish ticks \"one message a minute in the topic ticks\"
  handoff event add --at \"2027-01-01 09:00\" --tz Europe/Minsk \"back to work\"

Lengths of time are written 24h, 1h30m, 500ms or 7d.")]
#[command(group = ArgGroup::new("when").required(true).args(["every", "cron", "at"]))]
pub(crate) struct AddArgs {
    /// What it is, for people
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) description: String,
    /// A type, to find and watch it by; several may be given
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Every so often, counted from now
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) every: Option<Duration>,
    /// At times of a calendar: minute, hour, day, month, day of the week
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Option<String>,
    /// Once, at a time: 2027-01-01T00:00:00Z, or a local time with --tz
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// The time zone of --cron or --at [default: UTC for --cron]
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    pub(crate) tz: Option<String>,
    /// How often it occurs; then it is gone [default: for ever, --at once]
    #[arg(long, value_name = "N")]
    pub(crate) times: Option<u32>,
    /// A topic that gets a message for each occurrence, exactly once [default key: the event's id]
    #[arg(long, value_name = "TOPIC[:KEY]")]
    pub(crate) publish: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token; it goes to stdout, once and never again
    #[command(after_help = "\
Examples:
  handoff token create --name ci --scope events:acme.*
  handoff token create --name ops --scope admin --expires 90d
  handoff token create --name first --scope admin --data-dir /var/lib/handoff

With --data-dir the token is made on a stopped server: so the first one is made.")]
    Create {
        /// A name, for people
        #[arg(long)]
        name: String,
        /// What it allows: admin, events, events:acme.*, exchange:acme; several may be given
        #[arg(long = "scope", value_name = "SCOPE", required = true)]
        scopes: Vec<String>,
        /// When it ends: after a length of time such as 90d, or at a time such as 2027-01-01T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// The data directory of a stopped server
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// List tokens, without their texts
    #[command(after_help = "\
Examples:
  handoff token list
  handoff token list --data-dir /var/lib/handoff --json")]
    List {
        /// The data directory of a stopped server
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Revoke a token by its id; from then on it opens nothing
    #[command(after_help = "\
Examples:
  handoff token revoke k3x9q2ab
  handoff token revoke k3x9q2ab --data-dir /var/lib/handoff")]
    Revoke {
        /// Its id, as `token list` shows it
        id: String,
        /// The data directory of a stopped server
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff audit
  handoff audit --limit 1000 --json")]
pub(crate) struct AuditArgs {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Say everything that is wrong with a configuration, with line and column
    #[command(after_help = "\
Examples:
  handoff config check
  handoff config check /etc/handoff/handoff.toml

The environment is checked with it. Exit code 0: nothing is wrong; 1: something is.")]
    Check {
        /// The file [default: the one `serve` would find]
        file: Option<PathBuf>,
    },
    /// Print the values in force and where each came from
    #[command(after_help = "\
Examples:
  handoff config show
  handoff config show --config /etc/handoff/handoff.toml --json
  handoff config show --defaults > handoff.toml")]
    Show {
        #[command(flatten)]
        config: ConfigArgs,
        /// Print an annotated file with the default of every key instead
        #[arg(long, conflicts_with_all = ["config", "data_dir", "assignments"])]
        defaults: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff doctor
  handoff doctor --data-dir /var/lib/handoff --json
  handoff doctor --config /etc/handoff/handoff.toml --repair
  handoff doctor --bundle support.tar

Each check says ok, warn, fail or skip, and what to do. Exit code 0: nothing failed; 1: something did.
Nothing is changed without --repair. --repair works on a stopped server only: damaged ranges of the
journal are copied to quarantine/ in the data directory, their loss is accepted, and the room opens.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Set damaged ranges of the journal aside and open what they closed; asks first
    #[arg(long)]
    pub(crate) repair: bool,
    /// Write everything that helps others to help into a tar file; it holds no secrets
    #[arg(long, value_name = "FILE.tar", conflicts_with = "repair")]
    pub(crate) bundle: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff health
  handoff health --ready --url http://127.0.0.1:7070

Asks /healthz, which answers as soon as the process runs; with --ready /readyz, which says no while
rooms are read at the start, while one is closed, and once it is told to stop. Neither needs a token.
Exit codes: 0 yes, 5 no or nobody answers, 1 what answers is no such server or is not believed,
2 the command was not understood.")]
pub(crate) struct HealthArgs {
    /// Ask whether it takes work, not only whether it lives
    #[arg(long)]
    pub(crate) ready: bool,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if key.contains('.') => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("write it as in server.log_level=debug".to_owned()),
    }
}

impl ConfigArgs {
    /// What the flags set: the key's path, the flag's name, the value.
    pub(crate) fn flags(&self) -> Vec<(String, String, OsString)> {
        let mut flags = Vec::new();
        for (key, value) in &self.assignments {
            flags.push((key.clone(), "--set".to_owned(), value.into()));
        }
        if let Some(dir) = &self.data_dir {
            flags.push(("server.data_dir".to_owned(), "--data-dir".to_owned(), dir.into()));
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{Command, CommandFactory, Parser};

    fn leaves(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        for sub in command.get_subcommands() {
            let path = format!("{path} {}", sub.get_name());
            if sub.has_subcommands() {
                assert!(sub.get_about().is_some(), "{path} says nothing about itself");
                leaves(sub, &path, found);
            } else {
                found.push((path, sub.clone()));
            }
        }
    }

    /// Words of a line as a shell would make them, as far as the examples need it.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(" | ").next().unwrap();
        let line = line.split(" > ").next().unwrap();
        let mut words = Vec::new();
        for (n, part) in line.split('"').enumerate() {
            if n % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        words
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_its_examples_are_understood() {
        let mut found = Vec::new();
        leaves(&Cli::command(), "handoff", &mut found);
        assert!(found.len() > 15);
        for (path, command) in found {
            assert!(command.get_about().is_some(), "{path} says nothing about itself");
            for arg in command.get_arguments().filter(|arg| !arg.is_global_set()) {
                assert!(arg.get_help().is_some(), "{path}: {} says nothing", arg.get_id());
            }
            if path.starts_with("handoff bench ") {
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                help.lines().map(str::trim).filter(|line| line.starts_with("handoff ")).collect();
            assert!(!examples.is_empty(), "{path} has no example");
            for example in examples {
                assert!(example.starts_with(&path), "{example} is an example of {path}");
                if let Err(error) = Cli::try_parse_from(words(example)) {
                    panic!("{example}: {error}");
                }
            }
        }
    }

    #[test]
    fn an_event_needs_one_schedule() {
        let check = |line: &str| Cli::try_parse_from(words(line)).is_ok();
        assert!(check("handoff event add --every 1s x"));
        assert!(!check("handoff event add x"));
        assert!(!check("handoff event add --every 1s --at 2027-01-01T00:00:00Z x"));
        assert!(!check("handoff event add --every 1s --tz UTC x"));
        assert!(!check("handoff event add --every 10 x"), "a number alone has no unit");
        assert!(!check("handoff event delete"));
        assert!(!check("handoff event watch --count 0"));
    }
}

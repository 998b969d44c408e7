//! What can be asked about the exchange: who takes part, what lies where, and what became of it.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum ExchangeVerb {
    /// Companies: make, list, show, remove
    #[command(subcommand)]
    Company(CompanyVerb),
    /// Subsystems of devices (appSystem): make, list, show, remove
    #[command(subcommand)]
    Subsystem(SubsystemVerb),
    /// Databases behind ERPs: make, list, show, remove, give a token
    #[command(subcommand)]
    Database(DatabaseVerb),
    /// Devices: make, list, show, remove, give a code, lock out
    #[command(subcommand)]
    Device(DeviceVerb),
    /// Which database the messages of a company's subsystem go to
    #[command(subcommand)]
    Route(RouteVerb),
    /// List the messages of a database, the oldest first
    #[command(visible_alias = "list")]
    #[command(after_help = "\
Examples:
  handoff exchange messages books
  handoff exchange messages books --place error
  handoff exchange messages books --device phone-1 --limit 20 --json

A line is: seq, id, direction, device, subsystem, place, standing, attempts, bytes, received.")]
    Messages {
        /// The database
        database: String,
        /// Only those of one folder
        #[arg(long, value_name = "PLACE")]
        place: Option<PlaceArg>,
        /// Only those from or to this device
        #[arg(long, value_name = "DEVICE")]
        device: Option<String>,
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one message
    #[command(after_help = "\
Examples:
  handoff exchange show books 42
  handoff exchange show books 000000000000002a
  handoff exchange show books 42 --body | jq .payload")]
    Show {
        /// The database
        database: String,
        /// Its seq, as `exchange messages` shows it, or the 16 digits its file begins with
        #[arg(value_parser = seq)]
        seq: u64,
        /// Print its body instead, as it is stored
        #[arg(long)]
        body: bool,
    },
    /// List the processes of a database, the latest first
    #[command(after_help = "\
Examples:
  handoff exchange processes books
  handoff exchange processes books --limit 5 --json

A line is: id, state, begun, ended or given up, messages, replies, words.")]
    Processes {
        /// The database
        database: String,
        /// Only so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
    },
    /// Show one process, message by message
    #[command(after_help = "\
Examples:
  handoff exchange process books 2a-00c4f1d2e3a4b5c6")]
    Process {
        /// The database
        database: String,
        /// The process
        process: String,
    },
    /// List processes of which nobody knows whether the database committed
    #[command(after_help = "\
Examples:
  handoff exchange indoubt books
  handoff exchange indoubt books --json | jq -r .processId")]
    Indoubt {
        /// The database
        database: String,
    },
    /// Say what became of such a process; look in the database first
    #[command(after_help = "\
Examples:
  handoff exchange resolve books 2a-00c4f1d2e3a4b5c6 --committed
  handoff exchange resolve books 2a-00c4f1d2e3a4b5c6 --rolled-back --yes

Committed: its messages are done, its replies go to the devices. Rolled back: its messages are given out
again, its replies are dropped. It asks first: whoever says it wrongly does messages twice, or never.")]
    #[command(group = ArgGroup::new("outcome").required(true).args(["committed", "rolled_back"]))]
    Resolve {
        /// The database
        database: String,
        /// The process
        process: String,
        /// The database committed
        #[arg(long)]
        committed: bool,
        /// It rolled back
        #[arg(long)]
        rolled_back: bool,
    },
    /// Put messages of Log or Error back into their queue; asks first
    #[command(after_help = "\
Examples:
  handoff exchange requeue books 42
  handoff exchange requeue books 42 43 44 --yes

All or none. A message that was processed before is processed again.")]
    Requeue {
        /// The database
        database: String,
        /// Their seqs, as `exchange messages` shows them
        #[arg(value_name = "SEQ", required = true, value_parser = seq)]
        messages: Vec<u64>,
    },
    /// Compare the folders of a database with what the server knows
    #[command(after_help = "\
Examples:
  handoff exchange rescan books

A message put into Messages by hand is taken in; anything else that is not the server's is named by
`exchange foreign`; a file that was removed is written again.")]
    Rescan {
        /// The database
        database: String,
    },
    /// Files in the folders of a database that are not the exchange's
    #[command(after_help = "\
Examples:
  handoff exchange foreign books")]
    Foreign {
        /// The database
        database: String,
    },
    /// What happened in a database, the latest first
    #[command(after_help = "\
Examples:
  handoff exchange log books
  handoff exchange log books --what deadlock --what incorrect --limit 20

A line is: time, what, process, message, code, words.")]
    Log {
        /// The database
        database: String,
        /// Only this: deadlock, incorrect, expired, unknown, failed, poison, …; several may be given
        #[arg(long, value_name = "WHAT")]
        what: Vec<String>,
        /// Only so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
        limit: u64,
    },
    /// How the room is doing
    #[command(after_help = "\
Examples:
  handoff exchange stats
  handoff exchange stats --json")]
    Stats,
    /// Devices that send and read, and an ERP if wanted: for demonstrations and load
    Simulate(SimulateArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaceArg {
    /// Waiting for the ERP or for a device
    Messages,
    /// Replies of a process that has not committed yet
    Prepared,
    /// Processed, or received by their device
    Log,
    /// Of processes of which nobody knows whether they committed
    Unknown,
    /// Those that could not be processed
    Error,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CompanyVerb {
    /// List companies, by id
    #[command(after_help = "\
Examples:
  handoff exchange company list
  handoff exchange company list --json")]
    List {
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one
    #[command(after_help = "\
Examples:
  handoff exchange company show acme
  handoff exchange company show acme --json")]
    Show {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
    },
    /// Make a company, or give it another name
    #[command(visible_alias = "add")]
    #[command(after_help = "\
Examples:
  handoff exchange company put acme --name \"Acme Ltd\"")]
    Put {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
        /// A name, for people [default: the one it has, else its id]
        #[arg(long)]
        name: Option<String>,
    },
    /// Remove a company without databases, devices and routes; asks first
    #[command(visible_alias = "delete")]
    #[command(after_help = "\
Examples:
  handoff exchange company remove acme
  handoff exchange company remove acme --yes")]
    Remove {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubsystemVerb {
    /// List subsystems, by id
    #[command(after_help = "\
Examples:
  handoff exchange subsystem list
  handoff exchange subsystem list --json")]
    List {
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one
    #[command(after_help = "\
Examples:
  handoff exchange subsystem show sales
  handoff exchange subsystem show sales --json")]
    Show {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
    },
    /// Make a subsystem, or give it another name
    #[command(visible_alias = "add")]
    #[command(after_help = "\
Examples:
  handoff exchange subsystem put sales --name \"Orders from the road\"")]
    Put {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
        /// A name, for people [default: the one it has, else its id]
        #[arg(long)]
        name: Option<String>,
    },
    /// Remove a subsystem without devices and routes; asks first
    #[command(visible_alias = "delete")]
    #[command(after_help = "\
Examples:
  handoff exchange subsystem remove sales
  handoff exchange subsystem remove sales --yes")]
    Remove {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DatabaseVerb {
    /// List databases, by id
    #[command(after_help = "\
Examples:
  handoff exchange database list
  handoff exchange database list --company acme --json")]
    List {
        /// Only those of this company
        #[arg(long, value_name = "COMPANY")]
        company: Option<String>,
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one
    #[command(after_help = "\
Examples:
  handoff exchange database show books
  handoff exchange database show books --json")]
    Show {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
    },
    /// Make a database, or give it another name
    #[command(visible_alias = "add")]
    #[command(after_help = "\
Examples:
  handoff exchange database put books --company acme --name \"Accounting\"

Its id is also the name of its folder in the data directory.")]
    Put {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
        /// Whose it is; for ever
        #[arg(long, value_name = "COMPANY")]
        company: String,
        /// A name, for people [default: the one it has, else its id]
        #[arg(long)]
        name: Option<String>,
    },
    /// Remove a database without routes and messages; asks first
    #[command(visible_alias = "delete")]
    #[command(after_help = "\
Examples:
  handoff exchange database remove books
  handoff exchange database remove books --yes")]
    Remove {
        /// Its id: 1 to 16 letters, digits and dashes
        id: String,
    },
    /// Give a database a token, for its ERP; it goes to stdout, once and never again
    #[command(after_help = "\
Examples:
  handoff exchange database token books > books.token

If it has one already it asks first: that one opens nothing any more.")]
    Token {
        /// Its id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceVerb {
    /// List devices, by company and id
    #[command(after_help = "\
Examples:
  handoff exchange device list
  handoff exchange device list --company acme --json")]
    List {
        /// Only those of this company
        #[arg(long, value_name = "COMPANY")]
        company: Option<String>,
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one
    #[command(after_help = "\
Examples:
  handoff exchange device show acme phone-1
  handoff exchange device show acme phone-1 --json")]
    Show {
        /// Its company
        company: String,
        /// Its id: 1 to 16 letters, digits and dashes
        device: String,
    },
    /// Make a device, or give it another name or subsystem
    #[command(visible_alias = "add")]
    #[command(after_help = "\
Examples:
  handoff exchange device put acme phone-1 --subsystem sales --name \"Vera\"")]
    Put {
        /// Its company
        company: String,
        /// Its id: 1 to 16 letters, digits and dashes
        device: String,
        /// What it is part of
        #[arg(long, value_name = "SUBSYSTEM")]
        subsystem: String,
        /// A name, for people [default: the one it has, else its id]
        #[arg(long)]
        name: Option<String>,
    },
    /// Remove a device without messages; asks first
    #[command(visible_alias = "delete")]
    #[command(after_help = "\
Examples:
  handoff exchange device remove acme phone-1
  handoff exchange device remove acme phone-1 --yes")]
    Remove {
        /// Its company
        company: String,
        /// Its id: 1 to 16 letters, digits and dashes
        device: String,
    },
    /// Give a device a code that activates it, once; it goes to stdout
    #[command(after_help = "\
Examples:
  handoff exchange device code acme phone-1

A code it had is void. Its token works until the new code is used.")]
    Code {
        /// Its company
        company: String,
        /// Its id
        device: String,
    },
    /// Lock a device out: its token opens nothing, its messages wait
    #[command(after_help = "\
Examples:
  handoff exchange device block acme phone-1")]
    Block {
        /// Its company
        company: String,
        /// Its id
        device: String,
    },
    /// Let a device in again
    #[command(after_help = "\
Examples:
  handoff exchange device unblock acme phone-1")]
    Unblock {
        /// Its company
        company: String,
        /// Its id
        device: String,
    },
    /// What a device said of itself last, since the server was started
    #[command(after_help = "\
Examples:
  handoff exchange device log acme phone-1")]
    Log {
        /// Its company
        company: String,
        /// Its id
        device: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RouteVerb {
    /// List routes
    #[command(after_help = "\
Examples:
  handoff exchange route list
  handoff exchange route list --company acme --json")]
    List {
        /// Only those of this company
        #[arg(long, value_name = "COMPANY")]
        company: Option<String>,
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one
    #[command(after_help = "\
Examples:
  handoff exchange route show acme sales
  handoff exchange route show acme sales --json")]
    Show {
        /// The company
        company: String,
        /// The subsystem
        subsystem: String,
    },
    /// Send what a company's subsystem sends to a database, from now on
    #[command(visible_alias = "add")]
    #[command(after_help = "\
Examples:
  handoff exchange route put acme sales books")]
    Put {
        /// The company
        company: String,
        /// The subsystem
        subsystem: String,
        /// A database of the company
        database: String,
    },
    /// Remove a route; what was sent before stays where it is; asks first
    #[command(visible_alias = "delete")]
    #[command(after_help = "\
Examples:
  handoff exchange route remove acme sales
  handoff exchange route remove acme sales --yes")]
    Remove {
        /// The company
        company: String,
        /// The subsystem
        subsystem: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff exchange simulate --company demo --subsystem sales --devices 20 --erp
  handoff exchange simulate --company demo --subsystem sales --devices 1000 --rate 500 --seconds 60 --erp
  handoff exchange simulate --company demo --subsystem sales --devices 50 --rate max --size 4096 --json

Company, subsystem, database, route and devices (sim-0 and so on) that are not there are made, and stay.
Every device sends messages of its own, reads what the ERP answers, and says that it has it. With --erp
the command is the ERP too, for these devices only: it processes most, meets a few deadlocks, refuses a
few, and answers what it processed. Without it an ERP of your own may answer while they send. At the end
every message is counted once, and the server is asked what it has.
Ctrl-C ends the sending; what is under way is finished. Exit codes: 0 nothing is lost or doubled, 1 something is.")]
pub(crate) struct SimulateArgs {
    /// The company
    #[arg(long, value_name = "COMPANY")]
    pub(crate) company: String,
    /// The subsystem of the devices
    #[arg(long, value_name = "SUBSYSTEM")]
    pub(crate) subsystem: String,
    /// How many devices
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) devices: u32,
    /// Messages a second of all devices together, or max [default: one a second from each device]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,
    /// For how many seconds they send
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) seconds: u64,
    /// Bytes of each message's payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=16_777_216))]
    pub(crate) size: u32,
    /// Be the ERP too
    #[arg(long)]
    pub(crate) erp: bool,
    /// The database [default: where the route leads, else one made for it]
    #[arg(long, value_name = "DATABASE")]
    pub(crate) database: Option<String>,
}

/// How many messages are sent a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// So many.
    Of(f64),
    /// As many as are answered.
    Max,
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let rate = text.parse::<f64>().ok().filter(|rate| (0.001..=1e6).contains(rate));
        rate.map(Self::Of).ok_or_else(|| {
            format!("`{text}` is no rate: write a number up to 1000000, as in 50 or 0.5, or max")
        })
    }
}

/// A message's place in the order of all: as it is listed, or as its file is named.
fn seq(text: &str) -> Result<u64, String> {
    let bad = || {
        format!("`{text}` is no seq: write a number, or the 16 hexadecimal digits of a file's name")
    };
    if text.len() == 16 {
        return u64::from_str_radix(text, 16).map_err(|_| bad());
    }
    text.parse().map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::{Rate, seq};

    #[test]
    fn a_seq_is_written_as_it_is_listed_or_as_its_file_is_named() {
        assert_eq!(seq("42"), Ok(42));
        assert_eq!(seq("000000000000002a"), Ok(42));
        for text in ["", "-1", "2a", "0x2a", "000000000000002g"] {
            assert!(seq(text).unwrap_err().contains("16 hexadecimal"), "{text}");
        }
    }

    #[test]
    fn a_rate_is_a_number_or_all_there_is() {
        assert_eq!("50".parse(), Ok(Rate::Of(50.0)));
        assert_eq!("0.5".parse(), Ok(Rate::Of(0.5)));
        assert_eq!("max".parse(), Ok(Rate::Max));
        for text in ["", "0", "-1", "NaN", "inf", "1e9", "fast"] {
            assert!(text.parse::<Rate>().unwrap_err().contains("0.5"), "{text}");
        }
    }
}

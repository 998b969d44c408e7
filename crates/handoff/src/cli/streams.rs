//! What can be asked about topics and messages.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use crate::config::bytes;
use crate::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum TopicVerb {
    /// Make a topic; it is on disk when this is done
    #[command(after_help = "\
Examples:
  handoff topic create orders
  handoff topic create orders --partitions 8 --retention 7d --retention-bytes 10GiB
  handoff topic create samples --durability os --compression zstd

What is not said is as the server's configuration has it. --retention-bytes counts per partition.")]
    Create {
        /// Its name: letters, digits, dots, underscores and dashes
        name: String,
        /// How many partitions [default: 1]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        partitions: Option<u32>,
        #[command(flatten)]
        settings: TopicSettings,
    },
    /// List topics, by name
    #[command(after_help = "\
Examples:
  handoff topic list
  handoff topic list --json | jq .name")]
    List {
        /// Only so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show a topic, its partitions, and how evenly they are filled
    #[command(after_help = "\
Examples:
  handoff topic show orders
  handoff topic show orders --json")]
    Show {
        /// Its name
        name: String,
    },
    /// Give a topic more partitions
    #[command(after_help = "\
Examples:
  handoff topic grow orders --partitions 16 --yes

Keys go elsewhere from then on: messages of one key that are there already stay where they are, so
their order relative to later ones is over. That is why it asks first.")]
    Grow {
        /// Its name
        name: String,
        /// How many it has then
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        partitions: u32,
    },
    /// Change the settings of a topic; what is not said stays
    #[command(after_help = "\
Examples:
  handoff topic set orders --retention 30d
  handoff topic set orders --retention none --compression lz4")]
    #[command(group = ArgGroup::new("what").required(true).multiple(true)
        .args(["retention", "retention_bytes", "durability", "compression"]))]
    Set {
        /// Its name
        name: String,
        #[command(flatten)]
        settings: TopicSettings,
    },
    /// Delete a topic and everything in it
    #[command(after_help = "\
Examples:
  handoff topic delete orders
  handoff topic delete orders --yes

It asks first, and says how much is in it.")]
    Delete {
        /// Its name
        name: String,
    },
    /// List messages of a topic that wait for their time
    #[command(after_help = "\
Examples:
  handoff topic scheduled orders
  handoff topic scheduled orders --json | jq .deliverAt")]
    Scheduled {
        /// The topic
        name: String,
    },
    /// Take back a message that waits for its time
    #[command(after_help = "\
Examples:
  handoff topic cancel 0190a7c2f00070008000000000000001")]
    Cancel {
        /// Its id, as `topic scheduled` shows it
        id: String,
    },
}

/// What may be said of a topic's settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct TopicSettings {
    /// How long messages are kept: 7d, 12h, or none for ever
    #[arg(long, value_name = "TIME", value_parser = time_or_none)]
    pub(crate) retention: Option<Bound<Duration>>,
    /// How many bytes of a partition are kept: 10GiB, or none for all
    #[arg(long, value_name = "BYTES", value_parser = bytes_or_none)]
    pub(crate) retention_bytes: Option<Bound<u64>>,
    /// When a producer is answered: on disk, or in the server's hands
    #[arg(long, value_name = "WHEN")]
    pub(crate) durability: Option<DurabilityArg>,
    /// How what is stored is compressed
    #[arg(long, value_name = "HOW")]
    pub(crate) compression: Option<CompressionArg>,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound<T>(pub(crate) Option<T>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// When its messages are on disk
    Fsync,
    /// When they are in the server's hands; a crash may lose the last of them
    Os,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionArg {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff produce orders \"one message\" \"another one\" --key customer-42
  handoff produce orders --file orders.ndjson --rate 1000/s
  handoff produce orders --key-separator : --header source=shop < lines
  handoff produce photos --whole --file cat.jpg --file dog.jpg
  handoff produce orders \"not yet\" --in 10m

Without messages and files, lines are read from stdin. What is lost on the way is sent again and is
stored once. When it ends with 0, everything is on disk (or as the topic's durability says).
Results go to stdout for messages on the command line, and for all with --json.")]
pub(crate) struct ProduceArgs {
    /// Where to
    pub(crate) topic: String,
    /// What; each is one message
    #[arg(value_name = "MESSAGE", conflicts_with = "files")]
    pub(crate) messages: Vec<String>,
    /// Lines of a file, each one message; several may be given
    #[arg(long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A file is one message, and not each of its lines
    #[arg(long, conflicts_with_all = ["messages", "key_separator"])]
    pub(crate) whole: bool,
    /// Their key: messages of one key keep their order
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// What stands between key and message in each of them
    #[arg(long, value_name = "TEXT", conflicts_with = "key", value_parser = separator)]
    pub(crate) key_separator: Option<String>,
    /// A header; several may be given
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The partition [default: by the key, or the one with the fewest bytes]
    #[arg(long, value_name = "P")]
    pub(crate) partition: Option<u32>,
    /// Deliver them at this time: 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) deliver_at: Option<String>,
    /// Deliver them after so long
    #[arg(long = "in", value_name = "TIME", value_parser = duration::parse, conflicts_with = "deliver_at")]
    pub(crate) after: Option<Duration>,
    /// For how long anybody wants them
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    /// How many at most, per second or minute
    #[arg(long, value_name = "N/s", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Go on as this producer, by its GUID
    #[arg(long, value_name = "GUID")]
    pub(crate) producer: Option<String>,
    /// How many travel together at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  handoff read orders
  handoff read orders --partition 0 --from 100 --limit 10
  handoff read orders --from 2027-01-01T00:00:00Z --key customer-42 --json
  handoff read orders --from 1h --follow
  handoff read orders --output-format raw > payloads

Without --partition all of them are read, in the order of their times. --from is earliest, latest, an
offset (with --partition), a time, or a length of time ago.
A line is: partition, offset, time, key, message. raw is the messages alone, each with a newline.")]
pub(crate) struct ReadArgs {
    /// Which topic
    pub(crate) topic: String,
    /// Only this partition
    #[arg(long, value_name = "P")]
    pub(crate) partition: Option<u32>,
    /// Where to begin [default: earliest, with --follow latest]
    #[arg(long, value_name = "WHERE")]
    pub(crate) from: Option<String>,
    /// Only messages of this key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Stop after so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Go on with what comes, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How messages are printed
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) output_format: Option<OutputFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The payloads, each with a newline
    Raw,
    /// One JSON object a line
    Json,
}

fn time_or_none(text: &str) -> Result<Bound<Duration>, String> {
    if text == "none" { Ok(Bound(None)) } else { duration::parse(text).map(|t| Bound(Some(t))) }
}

fn bytes_or_none(text: &str) -> Result<Bound<u64>, String> {
    if text == "none" { Ok(Bound(None)) } else { bytes::parse(text).map(|b| Bound(Some(b))) }
}

fn separator(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty; write it as in --key-separator :".to_owned()),
        "\\t" => Ok("\t".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no header: write it as in source=shop")),
    }
}

/// Messages per second.
fn rate(text: &str) -> Result<f64, String> {
    let (number, each) = match text.split_once('/') {
        None | Some((_, "s")) => (text.trim_end_matches("/s"), 1.0),
        Some((number, "m")) => (number, 60.0),
        Some((number, "h")) => (number, 3600.0),
        Some(_) => ("", 1.0),
    };
    let rate = number.parse::<f64>().ok().map(|number| number / each);
    rate.filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| format!("`{text}` is no rate: write it as in 1000/s or 30/m"))
}

#[cfg(test)]
mod tests {
    use super::{header, rate, separator};

    #[test]
    fn rates_are_read_as_people_write_them() {
        assert_eq!(rate("1000/s"), Ok(1000.0));
        assert_eq!(rate("1000"), Ok(1000.0));
        assert_eq!(rate("30/m"), Ok(0.5));
        assert_eq!(rate("0.5/s"), Ok(0.5));
        for text in ["", "/s", "0", "-1/s", "5/d", "fast", "inf", "1/s/s"] {
            assert!(rate(text).unwrap_err().contains("1000/s"), "{text}");
        }
    }

    #[test]
    fn headers_have_a_name_and_separators_something() {
        assert_eq!(header("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(header("a").is_err() && header("=a").is_err());
        assert_eq!(separator("\\t").as_deref(), Ok("\t"));
        assert!(separator("").is_err());
    }
}

//! A program that keeps samples: the sink of `relay.callback`, with the SDK, for whoever wants to kill it.
//!
//! Its ledger is a file with a line for each segment: what it is known by, and its samples. What is taken
//! together is written together and synced before it is confirmed; a line that a crash cut is cut off by
//! the next start. So marks and samples are one. A forgetful one says that it has nothing, always.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use handoff_sdk::relay::{FeedOptions, Lane, Refused, Segment, Sink};
use handoff_sdk::{Backoff, Client, Options};
use serde::{Deserialize, Serialize};

use crate::relay::samples::Taken;

/// What it is told.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// The server.
    #[arg(long)]
    pub url: String,
    /// What it shows.
    #[arg(long)]
    pub token: Option<String>,
    /// Its ledger.
    #[arg(long)]
    pub ledger: PathBuf,
    /// It says that it has nothing.
    #[arg(long)]
    pub forgetful: bool,
}

/// A segment in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What it is known by.
    pub id: String,
    agent: String,
    block: String,
    shard: u16,
    number: u32,
    /// What is in it.
    pub samples: Vec<Taken>,
}

struct Keeper {
    file: File,
    marks: BTreeMap<Lane, u32>,
    forgetful: bool,
}

/// Everything in a ledger, in its order, up to a line that was cut.
///
/// # Errors
/// Whatever the operating system answers, and when a whole line makes no sense.
pub fn ledger(path: &Path) -> io::Result<Vec<Kept>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let whole = text.rfind('\n').map_or(0, |last| last + 1);
    let lines = text.get(..whole).unwrap_or_default().lines();
    lines.map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
}

impl Keeper {
    fn open(path: &Path, forgetful: bool) -> io::Result<Self> {
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or(0, |last| last + 1);
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        let mut marks = BTreeMap::new();
        for Kept { agent, block, shard, number, .. } in ledger(path)? {
            marks.insert(Lane { agent, block, shard }, number);
        }
        Ok(Self { file, marks, forgetful })
    }

    fn keep(&mut self, segments: &[Segment]) -> Result<(), Refused> {
        let mut lines = String::new();
        for segment in segments {
            let mut samples = Vec::new();
            for series in segment.series().map_err(Refused::never)? {
                let values: Vec<&str> =
                    series.labels.iter().map(|(_, value)| value.as_str()).collect();
                let name = values.join(",");
                let row = |one: &handoff_sdk::relay::Sample| {
                    (name.clone(), one.time_ms, one.value.to_bits())
                };
                samples.extend(series.samples.iter().map(row));
            }
            let Lane { agent, block, shard } = segment.lane.clone();
            let kept =
                Kept { id: segment.id(), agent, block, shard, number: segment.number, samples };
            lines += &serde_json::to_string(&kept).map_err(Refused::later)?;
            lines.push('\n');
        }
        self.file.write_all(lines.as_bytes()).map_err(Refused::later)?;
        self.file.sync_data().map_err(Refused::later)?;
        for segment in segments {
            self.marks.insert(segment.lane.clone(), segment.number);
        }
        Ok(())
    }
}

impl Sink for Keeper {
    async fn mark(&mut self, lane: &Lane) -> Result<Option<u32>, Refused> {
        Ok(self.marks.get(lane).copied().filter(|_| !self.forgetful))
    }

    async fn take(&mut self, segments: &[Segment]) -> Result<(), Refused> {
        self.keep(segments)
    }
}

/// Keeps samples until it is killed, or the server does not want it.
///
/// # Errors
/// In words.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let mut keeper = Keeper::open(&arguments.ledger, arguments.forgetful)
        .map_err(|error| format!("{}: {error}", arguments.ledger.display()))?;
    let mut options = Options::new(&arguments.url);
    if let Some(token) = &arguments.token {
        options = options.token(token);
    }
    let backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(200) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = Client::new(options).map_err(|error| error.to_string())?;
        io::stdout().write_all(b"ready\n").map_err(|error| error.to_string())?;
        let fed = client.relay().feed(&mut keeper, FeedOptions::new().backoff(backoff)).await;
        match fed {
            Ok(never) => match never {},
            Err(error) => Err(error.to_string()),
        }
    })
}

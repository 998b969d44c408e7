//! Messages on their way to stdout.

use serde::Serialize;

use crate::cli::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::terminal::{List, Terminal, plain};

/// How many bytes of raw messages are printed at once.
const RAW_BYTES: usize = 64 << 10;

/// Prints messages one after the other.
pub(super) enum Printer {
    List {
        list: List,
    },
    /// As they come: a table is drawn when it is full.
    Lines {
        terminal: Terminal,
    },
    Raw {
        terminal: Terminal,
        buffer: Vec<u8>,
    },
    Json {
        terminal: Terminal,
        buffer: Vec<u8>,
    },
}

impl Printer {
    /// As was asked. A table if there are columns for one; otherwise each line as it comes.
    pub(super) fn new(
        terminal: &Terminal,
        format: Option<OutputFormat>,
        columns: Option<&'static [&'static str]>,
    ) -> Self {
        let (terminal, buffer) = (*terminal, Vec::new());
        match format {
            Some(OutputFormat::Raw) => Self::Raw { terminal, buffer },
            Some(OutputFormat::Json) => Self::Json { terminal, buffer },
            None if terminal.json => Self::Json { terminal, buffer },
            None => match columns {
                Some(columns) => Self::List { list: terminal.list(columns) },
                None => Self::Lines { terminal },
            },
        }
    }

    /// Prints a message: its cells, the same as JSON, or its payload.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(super) fn print(
        &mut self,
        cells: &[String],
        data: &impl Serialize,
        payload: &[u8],
    ) -> Result<(), Failure> {
        let full = match self {
            Self::List { list } => return list.row(cells, data),
            Self::Lines { terminal } => {
                let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
                return terminal.print(&cells.join("\t"));
            }
            Self::Raw { buffer, .. } => {
                buffer.extend_from_slice(payload);
                buffer.push(b'\n');
                buffer.len() >= RAW_BYTES
            }
            Self::Json { buffer, .. } => {
                serde_json::to_writer(&mut *buffer, data).map_err(|error| {
                    Failure::new(Exit::Failed, format!("this cannot be shown as JSON: {error}"))
                })?;
                buffer.push(b'\n');
                buffer.len() >= RAW_BYTES
            }
        };
        if full { self.flush() } else { Ok(()) }
    }

    /// Shows what there is so far.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::List { list } => list.flush(),
            Self::Lines { .. } => Ok(()),
            Self::Raw { terminal, buffer } | Self::Json { terminal, buffer } => {
                terminal.print_octets(&std::mem::take(buffer))
            }
        }
    }

    /// Shows the rest.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }
}

//! Where messages come from: arguments, files, stdin. Files and stdin are read by a thread of their
//! own, which waits when nobody takes what it read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use crate::exit::{Exit, Failure};

/// The longest message that is read: what no server takes is not kept in memory.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// Messages that were read and not taken.
const READ_MAX: usize = 1024;

/// Where to read from.
pub(super) enum Source {
    /// Each is a message.
    Arguments(Vec<String>),
    /// Lines of these, or each as a whole. None: stdin.
    Files { files: Vec<PathBuf>, whole: bool },
}

/// A message, and how far its input has been read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) octets: Vec<u8>,
    pub(super) read: u64,
}

/// Messages on their way.
pub(super) struct Input {
    pieces: mpsc::Receiver<Result<Piece, Failure>>,
    bytes: Option<u64>,
}

impl Input {
    /// Opens everything, so that a file that is not there is told before anything is sent.
    pub(super) fn open(source: Source) -> Result<Self, Failure> {
        let (give, pieces) = mpsc::channel(READ_MAX);
        let (readers, whole, bytes) = match source {
            Source::Arguments(messages) => {
                let readers = messages.into_iter().map(|message| {
                    let name = "the command line".to_owned();
                    let octets: Box<dyn Read + Send> =
                        Box::new(io::Cursor::new(message.into_bytes()));
                    (name, octets)
                });
                (readers.collect(), true, None)
            }
            Source::Files { files, whole } if files.is_empty() => {
                let stdin: Box<dyn Read + Send> = Box::new(io::stdin());
                (vec![("stdin".to_owned(), stdin)], whole, None)
            }
            Source::Files { files, whole } => {
                let mut readers = Vec::new();
                let mut bytes = Some(0_u64);
                for path in &files {
                    let (file, length) = open(path)?;
                    bytes = bytes.zip(length).map(|(sum, length)| sum.saturating_add(length));
                    let file: Box<dyn Read + Send> = Box::new(file);
                    readers.push((path.display().to_string(), file));
                }
                (readers, whole, bytes)
            }
        };
        let work = move || {
            let mut read = 0;
            for (name, reader) in readers {
                if !pour(&name, BufReader::new(reader), whole, &mut read, &give) {
                    return;
                }
            }
        };
        // It ends with the input, or when nobody takes what it gives, or with the process.
        std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(work)
            .map_err(|error| Failure::new(Exit::Failed, format!("nothing can be read: {error}")))?;
        Ok(Self { pieces, bytes })
    }

    /// How much there is to read, if that is known.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// The next message. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<Piece, Failure>> {
        self.pieces.recv().await
    }
}

fn open(path: &Path) -> Result<(File, Option<u64>), Failure> {
    let bad = |error: io::Error| {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        Failure::new(exit, format!("{} cannot be read: {error}", path.display()))
            .remedy("nothing was sent; check the path and who may read it")
    };
    let file = File::open(path).map_err(bad)?;
    let about = file.metadata().map_err(bad)?;
    if about.is_dir() {
        return Err(bad(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    Ok((file, about.is_file().then_some(about.len())))
}

/// Gives the messages of one reader. Whether to go on.
fn pour(
    name: &str,
    mut reader: impl BufRead,
    whole: bool,
    read: &mut u64,
    give: &mpsc::Sender<Result<Piece, Failure>>,
) -> bool {
    let mut number: u64 = 0;
    loop {
        number += 1;
        let mut octets = Vec::new();
        let mut some = reader.by_ref().take(MESSAGE_BYTES_MAX + 1);
        let taken =
            if whole { some.read_to_end(&mut octets) } else { some.read_until(b'\n', &mut octets) };
        let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        *read = read.saturating_add(length);
        let piece = match taken {
            Ok(0) if !whole => return true,
            Ok(_) if length > MESSAGE_BYTES_MAX => {
                let place = if whole { String::new() } else { format!(", line {number}") };
                let mib = MESSAGE_BYTES_MAX >> 20;
                let what = format!("{name}{place}: longer than {mib} MiB, which no message may be");
                Err(Failure::new(Exit::Refused, what))
            }
            Ok(_) => {
                if !whole {
                    strip_newline(&mut octets);
                }
                Ok(Piece { octets, read: *read })
            }
            Err(error) => {
                Err(Failure::new(Exit::Failed, format!("{name} cannot be read: {error}")))
            }
        };
        let failed = piece.is_err();
        if give.blocking_send(piece).is_err() || failed {
            return false;
        }
        if whole {
            return true;
        }
    }
}

fn strip_newline(line: &mut Vec<u8>) {
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_BYTES_MAX, Piece, pour};
    use tokio::sync::mpsc;

    fn pieces(text: &[u8], whole: bool) -> Vec<Vec<u8>> {
        let (give, mut taken) = mpsc::channel(100);
        assert!(pour("a test", text, whole, &mut 0, &give));
        drop(give);
        std::iter::from_fn(|| taken.blocking_recv()).map(|piece| piece.unwrap().octets).collect()
    }

    #[test]
    fn each_line_is_a_message_with_or_without_a_newline_at_the_end() {
        assert_eq!(pieces(b"a\nb\r\n\nc", false), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(pieces(b"a\n", false), [b"a"]);
        assert_eq!(pieces(b"\xff\r\r\n", false), [b"\xff\r"]);
        assert!(pieces(b"", false).is_empty());
    }

    #[test]
    fn a_whole_file_is_one_message() {
        assert_eq!(pieces(b"a\nb\r\n", true), [b"a\nb\r\n"]);
        assert_eq!(pieces(b"", true), [b""]);
    }

    #[test]
    fn a_line_without_end_is_refused_and_not_kept() {
        let endless = std::io::BufReader::new(std::io::Read::take(
            std::io::repeat(b'x'),
            MESSAGE_BYTES_MAX + 10,
        ));
        let (give, mut taken) = mpsc::channel::<Result<Piece, _>>(1);
        assert!(!pour("endless", endless, false, &mut 0, &give));
        let failure = taken.blocking_recv().unwrap().unwrap_err();
        assert!(failure.what.contains("endless, line 1"), "{failure}");
    }
}

//! Makes the data directories under `fixtures/` for the format this version writes.
//!
//! Only for a new format. A fixture that git knows is left as it is, whatever this program would
//! make today: it is what an older version left on somebody's disk.
//!
//! Every damaged one is the sound one with a few bytes changed, so the same bytes on every run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, ExitCode};

use bytes::Bytes;
use handoff_log::journal::format::{BLOCK, RECORD_HEADER, ROUND_HEADER};
use handoff_sim::dice::Dice;
use handoff_sim::room::{Command, Counter, Name};
use handoff_store_embedded::{Checkpointing, Progress};
use handoff_tests::fixture::{DATA, EXPECT, Open, copy, findings};
use handoff_tests::place::Place;
use handoff_tests::workspace;
use handoff_types::{Entropy, Now, Span, Steady, Wall};

/// The format this program makes fixtures of.
const FORMAT: &str = "1";

/// Commands before the checkpoint, and after it.
const BEFORE: u64 = 20;
const AFTER: u64 = 14;

type Failure = Box<dyn std::error::Error>;

/// A fixture's name, what must be found in it, and what is done to a sound directory for it.
type Damage<'a> = (&'a str, &'a str, &'a dyn Fn(&Path) -> io::Result<()>);

fn main() -> ExitCode {
    match make() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fixtures: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn make() -> Result<(), Failure> {
    let place = Place::temporary()?;
    let sound = place.path().join("sound");
    let spots = write_sound(&sound)?;
    let damages: [Damage<'_>; 8] = [
        ("sound", "goes on", &|_| Ok(())),
        ("torn-tail", "tail Torn", &|data| spots.last.tear(data, 0xa5)),
        ("zeroed-tail", "tail Zeroed", &|data| spots.last.tear(data, 0)),
        ("flipped-record", "closed counter", &|data| {
            flip(&data.join(&spots.middle.file), spots.middle.payload())
        }),
        ("flipped-round-header", "damage from", &|data| {
            flip(&data.join(&spots.middle.file), spots.middle.from + 20)
        }),
        ("damaged-checkpoint", "refused log.room_damaged", &|data| {
            flip_middle(&first_file(&data.join("checkpoints"))?)
        }),
        ("damaged-segment", "corrupt from", &|data| {
            flip_middle(&first_file(&first_file(&data.join("segments"))?)?)
        }),
        ("lost-header", "refused data.unreadable", &|data| {
            overwrite(&data.join(&spots.middle.file), 0, BLOCK, 0)
        }),
    ];
    for (name, must_find, damage) in damages {
        let data = place.path().join(name);
        if name != "sound" {
            copy(&sound, &data)?;
            damage(&data)?;
        }
        keep(&format!("{FORMAT}/{name}"), &data, must_find)?;
    }
    let future = place.path().join("future");
    fs::create_dir_all(&future)?;
    let version = "handoff data directory\nformat 2\nid 00000000000000000000000000000001\n";
    fs::write(future.join("VERSION"), version)?;
    keep("2-from-the-future", &future, "refused data.newer")
}

/// Puts a directory and what is found in it under `fixtures/`, unless git has it already.
fn keep(name: &str, data: &Path, must_find: &str) -> Result<(), Failure> {
    let fixture = workspace::root().join("fixtures").join(name);
    if tracked(&fixture)? {
        eprintln!("{name}: kept as it was committed");
        return Ok(());
    }
    let trial = Place::temporary()?;
    let copied = trial.path().join(DATA);
    copy(data, &copied)?;
    let expect = findings(&copied);
    if !expect.contains(must_find) {
        return Err(format!("{name} should find '{must_find}' and finds:\n{expect}").into());
    }
    match fs::remove_dir_all(&fixture) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    copy(data, &fixture.join(DATA))?;
    fs::write(fixture.join(EXPECT), expect)?;
    eprintln!("{name}: made");
    Ok(())
}

/// Whether git has any file of a fixture.
fn tracked(fixture: &Path) -> Result<bool, Failure> {
    let listed = Program::new("git")
        .args(["ls-files", "--"])
        .arg(fixture)
        .current_dir(workspace::root())
        .output()?;
    Ok(!listed.stdout.is_empty())
}

/// Where in the journal things are.
struct Spots {
    /// A round with rounds behind it.
    middle: Spot,
    /// The last one.
    last: Spot,
}

/// What one commit wrote: a round of one record, then the mark behind it.
#[derive(Clone)]
struct Spot {
    file: PathBuf,
    from: u64,
    mark: u64,
}

impl Spot {
    /// A byte of the record's content.
    fn payload(&self) -> u64 {
        self.from + (ROUND_HEADER + RECORD_HEADER) as u64 + 6
    }

    /// Leaves the first block of the round; the rest, and the mark, never reached the disk.
    fn tear(&self, data: &Path, there_before: u8) -> io::Result<()> {
        let rest = self.mark + BLOCK - self.from - BLOCK;
        overwrite(&data.join(&self.file), self.from + BLOCK, rest, there_before)
    }
}

/// A room that has done a bit of everything: values, moves, holds, notes of all sizes, some in
/// segments and some in the journal, a checkpoint, rolled files.
fn write_sound(data: &Path) -> Result<Spots, Failure> {
    let mut open = Open::new(data, Entropy(0x5eed)).map_err(|refused| refused.1)?;
    let mut dice = Dice::new(1);
    let mut time = Now { wall: Wall(1_767_225_600_000_000), steady: Steady(1_000_000) };
    let mut act = |open: &mut Open, command: Command| {
        time.wall = time.wall + Span::from_millis(250);
        time.steady = time.steady + Span::from_millis(250);
        open.act(&command, time, dice.entropy()).map(|()| time)
    };
    for number in 0..BEFORE {
        act(&mut open, command(number)).map_err(|refused| refused.1)?;
    }
    open.host.bulk().copy(usize::MAX)?;
    open.host.bulk().sync()?;
    let mut checkpoint = Checkpointing::begin::<Counter>(&open.directory, 128)?;
    let now = Now { wall: Wall(1_767_225_610_000_000), steady: Steady(11_000_000) };
    while checkpoint.step(&mut open.host, now)? != Progress::Done {}
    let mut middle = None;
    for number in BEFORE..BEFORE + AFTER {
        let before = journal(data)?;
        act(&mut open, command(number)).map_err(|refused| refused.1)?;
        if number == BEFORE + AFTER / 2 {
            middle = Some(written(&before, &journal(data)?)?);
        }
    }
    let before = journal(data)?;
    let long = Command::Note { key: Name::numbered(1), body: body(99, 6000) };
    act(&mut open, long).map_err(|refused| refused.1)?;
    let last = written(&before, &journal(data)?)?;
    drop(open);
    remove_empty(data)?;
    Ok(Spots { middle: middle.ok_or("no round in the middle")?, last })
}

fn command(number: u64) -> Command {
    let key = Name::numbered(u8::try_from(number % 5).unwrap_or(0));
    let to = Name::numbered(u8::try_from(number % 3 + 5).unwrap_or(0));
    match number % 6 {
        0 | 1 => Command::Add { key, by: 100 + number.cast_signed(), ticket: number },
        2 => Command::Move { from: key, to, by: 3, ticket: number },
        3 if number % 4 == 1 => Command::Note { key, body: body(number, 20_000) },
        3 | 4 => Command::Note { key, body: body(number, 10 * number) },
        _ => Command::Hold { key: to, span: Span::from_millis(400) },
    }
}

/// A body that compresses, so that the repository stays small.
fn body(number: u64, bytes: u64) -> Bytes {
    let line = format!("note {number}, one line like the other\n");
    let bytes = usize::try_from(bytes).unwrap_or(0);
    line.bytes().cycle().take(bytes).collect()
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn journal(data: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(data.join("journal"))? {
        let entry = entry?;
        files.insert(Path::new("journal").join(entry.file_name()), fs::read(entry.path())?);
    }
    Ok(files)
}

/// Where one commit wrote, from what changed. Headers of files made ready do not count.
fn written(before: &Files, after: &Files) -> Result<Spot, Failure> {
    let mut spots = Vec::new();
    for (file, new) in after {
        let old = before.get(file).map_or(&[][..], Vec::as_slice);
        let old = old.iter().chain(std::iter::repeat(&0));
        let changed = (0_u64..).zip(new.iter().zip(old)).filter(|(_, (new, old))| new != old);
        let blocks: Vec<u64> =
            changed.map(|(at, _)| at - at % BLOCK).filter(|block| *block > 0).collect();
        if let (Some(from), Some(mark)) = (blocks.first(), blocks.last()) {
            spots.push(Spot { file: file.clone(), from: *from, mark: *mark });
        }
    }
    match spots.as_slice() {
        [spot] if spot.mark > spot.from => Ok(spot.clone()),
        _ => Err("a commit did not write one round and one mark to one file".into()),
    }
}

fn flip(path: &Path, at: u64) -> io::Result<()> {
    let mut bytes = fs::read(path)?;
    let place = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at));
    *place.ok_or(io::ErrorKind::UnexpectedEof)? ^= 0x10;
    fs::write(path, bytes)
}

fn flip_middle(path: &Path) -> io::Result<()> {
    let len = fs::metadata(path)?.len();
    flip(path, len / 2)
}

fn overwrite(path: &Path, from: u64, count: u64, byte: u8) -> io::Result<()> {
    let mut bytes = fs::read(path)?;
    let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
    let range = bytes.get_mut(at(from)..at(from + count));
    range.ok_or(io::ErrorKind::UnexpectedEof)?.fill(byte);
    fs::write(path, bytes)
}

fn first_file(dir: &Path) -> io::Result<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    paths.into_iter().next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Git keeps no empty directories, so none is part of a fixture.
fn remove_empty(data: &Path) -> io::Result<()> {
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        if path.is_dir() && fs::read_dir(&path)?.next().is_none() {
            fs::remove_dir(&path)?;
        }
    }
    Ok(())
}

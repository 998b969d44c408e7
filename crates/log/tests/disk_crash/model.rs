//! Random lives and ends, compared with a model that shares no code with the disk.
//!
//! The model remembers, for each file, every content it had since its last sync, and for each
//! name, every file it stood for since its directory was synced. A survivor must be made of those.
//! A file carries its number in its first bytes, synced before anything else and never written
//! again, so that it can be known under any name.

use handoff_log::disk::{Coverage, Crash, Disk, File, Open, read_full_at, write_all_at};
use handoff_types::entropy::mix;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const LIVES: u64 = 1_500;
const ENDS_PER_LIFE: u64 = 8;
const STEPS: usize = 60;
const NAMES: [&str; 6] = ["a", "b", "d/a", "d/b", "e/a", "e/b"];
const DIRS: [&str; 3] = ["", "d", "e"];
const NUMBER_LEN: usize = 8;
const LONGEST: usize = 4_000;

#[test]
fn each_case_of_the_fault_model_occurs() {
    let mut coverage = Coverage::default();
    for seed in 0..200 {
        coverage += Life::lived(seed).disk.crash(seed).1;
    }
    assert_eq!(coverage.crashes, 200);
    assert_eq!(coverage.missing(), [""; 0], "{coverage:#?}");
}

#[test]
fn nothing_synced_is_ever_lost_or_altered() {
    for seed in 0..LIVES {
        let life = Life::lived(seed);
        for end in 0..ENDS_PER_LIFE {
            let (survivor, report) = life.disk.crash(end);
            life.check(&survivor, &format!("life {seed}, end {end}, {report:?}"));
        }
        life.check(&life.disk.crash_keeping_nothing().0, &format!("life {seed}, nothing kept"));
        life.check(&life.disk.crash_keeping_everything().0, &format!("life {seed}, all kept"));
    }
}

#[test]
fn what_is_found_after_a_crash_is_durable() {
    for seed in 0..LIVES / 10 {
        let found = Life::lived(seed).disk.crash(seed).0;
        let before: Vec<_> = NAMES.iter().map(|name| read(&found, name)).collect();
        let again = found.crash(mix(seed)).0;
        let after: Vec<_> = NAMES.iter().map(|name| read(&again, name)).collect();
        assert_eq!(before, after, "life {seed}");
    }
}

/// A disk with a past, and what the model knows of it.
struct Life {
    disk: Crash,
    dice: Dice,
    files: Vec<FileModel>,
    names: BTreeMap<&'static str, NameModel>,
}

struct FileModel {
    handle: Arc<dyn File>,
    /// Every content since the last sync; the first is durable.
    contents: Vec<Vec<u8>>,
    /// It was under a synced name once, and nothing since would take it away.
    must_be_found: bool,
}

/// Every file, by number, that the name stood for since its directory was synced; the first is
/// durable, the last current.
type NameModel = Vec<Option<usize>>;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = mix(self.0);
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

impl Life {
    /// A life of many random steps.
    fn lived(seed: u64) -> Self {
        let disk = Crash::new();
        for dir in ["d", "e"] {
            disk.create_dir(dir).unwrap();
        }
        disk.sync_all().unwrap();
        let names = NAMES.iter().map(|name| (*name, vec![None])).collect();
        let mut life = Self { disk, dice: Dice(seed), files: Vec::new(), names };
        for _ in 0..STEPS {
            life.step();
        }
        life
    }

    fn step(&mut self) {
        let name = NAMES[self.dice.below(NAMES.len())];
        match (self.dice.below(16), self.current(name)) {
            (0, _) => {
                let dir = DIRS[self.dice.below(DIRS.len())];
                self.sync_dir(dir);
            }
            (1, _) if self.dice.below(4) == 0 => self.sync_all(),
            (_, None) => self.create(name),
            (1..3, Some(_)) => self.remove(name),
            (3..6, Some(number)) => {
                let to = NAMES[self.dice.below(NAMES.len())];
                self.rename(name, to, number);
            }
            (6..8, Some(number)) => self.sync(number),
            (8..10, Some(number)) => self.set_len(number),
            (_, Some(number)) => self.write(number),
        }
    }

    fn create(&mut self, name: &'static str) {
        let number = self.files.len();
        let bytes = (number as u64).to_le_bytes().to_vec();
        let handle = self.disk.open(name, Open::Create).unwrap();
        write_all_at(handle.as_ref(), &bytes, 0).unwrap();
        handle.sync().unwrap();
        self.files.push(FileModel { handle, contents: vec![bytes], must_be_found: false });
        self.bind(name, Some(number));
    }

    fn remove(&mut self, name: &'static str) {
        self.disk.remove(name).unwrap();
        self.release(name);
        self.bind(name, None);
    }

    fn rename(&mut self, from: &'static str, to: &'static str, number: usize) {
        self.disk.rename(from, to).unwrap();
        if from != to {
            self.release(to);
            self.bind(from, None);
            self.bind(to, Some(number));
        }
    }

    fn sync(&mut self, number: usize) {
        let file = &mut self.files[number];
        file.handle.sync().unwrap();
        file.contents.drain(..file.contents.len() - 1);
    }

    fn set_len(&mut self, number: usize) {
        let len = NUMBER_LEN + self.dice.below(LONGEST);
        let file = &mut self.files[number];
        file.handle.set_len(len as u64).unwrap();
        let mut content = file.contents.last().unwrap().clone();
        content.resize(len, 0);
        file.contents.push(content);
    }

    fn write(&mut self, number: usize) {
        let offset = NUMBER_LEN + self.dice.below(LONGEST);
        let byte = u8::try_from(self.dice.below(256)).unwrap();
        let bytes = vec![byte; 1 + self.dice.below(1_500)];
        let file = &mut self.files[number];
        write_all_at(file.handle.as_ref(), &bytes, offset as u64).unwrap();
        let mut content = file.contents.last().unwrap().clone();
        content.resize(content.len().max(offset + bytes.len()), 0);
        content[offset..offset + bytes.len()].copy_from_slice(&bytes);
        file.contents.push(content);
    }

    fn sync_dir(&mut self, dir: &str) {
        self.disk.sync_dir(dir).unwrap();
        for name in NAMES {
            if name.rsplit_once('/').map_or("", |(parent, _)| parent) == dir {
                self.settle(name);
            }
        }
    }

    fn sync_all(&mut self) {
        self.disk.sync_all().unwrap();
        NAMES.iter().for_each(|name| self.settle(name));
        for file in &mut self.files {
            file.contents.drain(..file.contents.len() - 1);
        }
    }

    fn current(&self, name: &str) -> Option<usize> {
        *self.names[name].last().unwrap()
    }

    fn bind(&mut self, name: &str, number: Option<usize>) {
        self.names.get_mut(name).unwrap().push(number);
    }

    /// The file under this name may be gone from here on.
    fn release(&mut self, name: &str) {
        if let Some(number) = self.current(name) {
            self.files[number].must_be_found = false;
        }
    }

    fn settle(&mut self, name: &str) {
        let current = self.current(name);
        *self.names.get_mut(name).unwrap() = vec![current];
        if let Some(number) = current {
            self.files[number].must_be_found = true;
        }
    }

    fn check(&self, survivor: &Crash, which: &str) {
        let mut found = BTreeSet::new();
        for (name, model) in &self.names {
            let content = read(survivor, name);
            let number = content.as_ref().map(|content| number_of(content));
            assert!(model.contains(&number), "{name} is {number:?}, was {model:?}: {which}");
            if let (Some(content), Some(number)) = (content, number) {
                assert!(found.insert(number), "file {number} has two names: {which}");
                check_content(&content, &self.files[number].contents, name, which);
            }
        }
        for (number, file) in self.files.iter().enumerate() {
            let lost = file.must_be_found && !found.contains(&number);
            assert!(!lost, "file {number} is under no name: {which}");
        }
    }
}

/// Each byte, and the length, must be one that the file had since its last sync.
fn check_content(content: &[u8], past: &[Vec<u8>], name: &str, which: &str) {
    let had_len = past.iter().any(|version| version.len() == content.len());
    assert!(had_len, "{name} never had {} bytes: {which}", content.len());
    for (at, byte) in content.iter().enumerate() {
        let had = past.iter().any(|version| version.get(at).copied().unwrap_or(0) == *byte);
        assert!(had, "{name} never had {byte} at {at}: {which}");
    }
}

fn number_of(content: &[u8]) -> usize {
    let number = content[..NUMBER_LEN].try_into().unwrap();
    usize::try_from(u64::from_le_bytes(number)).unwrap()
}

fn read(disk: &Crash, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(path, Open::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(read_full_at(file.as_ref(), &mut bytes, 0).unwrap(), bytes.len());
    Some(bytes)
}

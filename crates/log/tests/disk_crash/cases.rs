//! One promise of the fault model at a time, seen from outside.

use handoff_log::disk::{Crash, Disk, File, Open, When, read_full_at, write_all_at};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};

const SECTOR: usize = 512;
const SEEDS: std::ops::Range<u64> = 0..400;

#[test]
fn a_write_survives_in_every_combination_of_its_sectors() {
    let disk = synced(&[("a", &[0; 3 * SECTOR])]);
    write(&disk, "a", &[1; 3 * SECTOR], 0);
    let seen = outcomes(&disk, |disk| {
        let content = get(disk, "a").unwrap();
        let sector = |n: usize| {
            let sector = &content[n * SECTOR..(n + 1) * SECTOR];
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is written whole");
            sector[0]
        };
        [sector(0), sector(1), sector(2)]
    });
    assert_eq!(seen.len(), 8, "{seen:?}");
}

#[test]
fn sectors_are_those_of_the_file_and_not_of_the_write() {
    let disk = synced(&[("a", &[0; 2 * SECTOR])]);
    write(&disk, "a", &[1; SECTOR], SECTOR / 2);
    let seen = outcomes(&disk, |disk| {
        let content = get(disk, "a").unwrap();
        assert_eq!(content[..SECTOR / 2], [0; SECTOR / 2], "not part of the write");
        (content[SECTOR / 2], content[SECTOR - 1], content[SECTOR], content[3 * SECTOR / 2 - 1])
    });
    assert_eq!(seen, BTreeSet::from([(0, 0, 0, 0), (1, 1, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1)]));
}

#[test]
fn of_several_writes_to_a_sector_any_may_be_the_last() {
    let disk = synced(&[("a", &[0; SECTOR])]);
    for version in 1..=3 {
        write(&disk, "a", &[version; SECTOR], 0);
    }
    let seen = outcomes(&disk, |disk| get(disk, "a").unwrap()[0]);
    assert_eq!(seen, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_later_write_may_survive_an_earlier_one() {
    let disk = synced(&[("a", &[0; 100])]);
    write(&disk, "a", &[1; 10], 0);
    write(&disk, "a", &[2; 10], 10);
    let seen = outcomes(&disk, |disk| {
        let content = get(disk, "a").unwrap();
        (content[0], content[10])
    });
    assert_eq!(seen, BTreeSet::from([(0, 0), (1, 0), (0, 2), (1, 2)]));
}

#[test]
fn length_and_content_survive_independently() {
    let disk = synced(&[("a", b"old.")]);
    write(&disk, "a", b"new.", 4);
    write(&disk, "a", b"ever", 0);
    let seen = outcomes(&disk, |disk| String::from_utf8(get(disk, "a").unwrap()).unwrap());
    let expected = ["old.", "old.new.", "old.\0\0\0\0", "ever", "evernew.", "ever\0\0\0\0"];
    assert_eq!(seen, expected.map(str::to_owned).into());
}

#[test]
fn a_file_may_keep_any_length_it_had() {
    let disk = synced(&[("a", &[1; 1000])]);
    let file = disk.open("a", Open::Write).unwrap();
    for len in [3000, 10, 2000] {
        file.set_len(len).unwrap();
    }
    let seen = outcomes(&disk, |disk| get(disk, "a").unwrap().len());
    assert_eq!(seen, BTreeSet::from([10, 1000, 2000, 3000]));
}

#[test]
fn bytes_cut_off_may_come_back_until_the_cut_is_synced() {
    let disk = synced(&[("a", &[1; 1000])]);
    let file = disk.open("a", Open::Write).unwrap();
    file.set_len(0).unwrap();
    file.set_len(1000).unwrap();
    let seen = outcomes(&disk, |disk| get(disk, "a").unwrap().last().copied());
    assert_eq!(seen, BTreeSet::from([None, Some(0), Some(1)]));

    let disk = synced(&[("a", &[1; 1000])]);
    let file = disk.open("a", Open::Write).unwrap();
    file.set_len(0).unwrap();
    file.sync().unwrap();
    file.set_len(1000).unwrap();
    let seen = outcomes(&disk, |disk| get(disk, "a").unwrap().last().copied());
    assert_eq!(seen, BTreeSet::from([None, Some(0)]));
}

#[test]
fn a_file_synced_under_an_unsynced_name_may_vanish_or_stay_whole() {
    let disk = Crash::new();
    write_new(&disk, "a", b"hello").sync().unwrap();
    let seen = outcomes(&disk, |disk| get(disk, "a"));
    assert_eq!(seen, BTreeSet::from([None, Some(b"hello".to_vec())]));
}

#[test]
fn a_name_synced_over_unsynced_content_may_be_an_empty_file() {
    let disk = Crash::new();
    write_new(&disk, "a", b"hello");
    disk.sync_dir("").unwrap();
    let seen = outcomes(&disk, |disk| get(disk, "a"));
    let expected = [&b""[..], b"hello", b"\0\0\0\0\0"].map(|content| Some(content.to_vec()));
    assert_eq!(seen, expected.into());
}

#[test]
fn a_directory_not_synced_takes_along_what_was_synced_in_it() {
    let disk = Crash::new();
    disk.create_dir("d/e").unwrap();
    write_new(&disk, "d/e/a", b"hello").sync().unwrap();
    disk.sync_dir("d/e").unwrap();
    disk.sync_dir("d").unwrap();
    let seen = outcomes(&disk, |disk| get(disk, "d/e/a"));
    assert_eq!(seen, BTreeSet::from([None, Some(b"hello".to_vec())]));
    let disk = disk.crash_keeping_everything().0;
    assert_eq!(outcomes(&disk, |disk| get(disk, "d/e/a")).len(), 1, "found, hence durable");
}

#[test]
fn a_directory_made_again_after_it_was_lost_is_empty() {
    let disk = Crash::new();
    disk.create_dir("d").unwrap();
    write_new(&disk, "d/a", b"hello").sync().unwrap();
    disk.sync_dir("d").unwrap();
    let disk = disk.crash_keeping_nothing().0;
    disk.create_dir("d").unwrap();
    assert_eq!(disk.list("d").unwrap(), [""; 0]);
}

#[test]
fn a_rename_that_replaces_leaves_the_old_or_the_new_file_and_never_neither() {
    let disk = synced(&[("a", b"old"), ("a.tmp", b"new")]);
    disk.rename("a.tmp", "a").unwrap();
    let seen = outcomes(&disk, |disk| (get(disk, "a"), get(disk, "a.tmp")));
    let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    assert_eq!(seen, BTreeSet::from([(old, new.clone()), (new.clone(), None)]));
    let disk = synced(&[("a", b"old"), ("a.tmp", b"new")]);
    disk.rename("a.tmp", "a").unwrap();
    disk.sync_dir("").unwrap();
    let seen = outcomes(&disk, |disk| (get(disk, "a"), get(disk, "a.tmp")));
    assert_eq!(seen, BTreeSet::from([(new, None)]));
}

#[test]
fn a_rename_between_directories_is_durable_with_either_of_them() {
    for synced_dir in ["d", "e"] {
        let disk = synced(&[("d/a", b"hello"), ("e/other", b"")]);
        disk.rename("d/a", "e/b").unwrap();
        disk.sync_dir(synced_dir).unwrap();
        let seen = outcomes(&disk, |disk| (get(disk, "d/a"), get(disk, "e/b")));
        assert_eq!(seen, BTreeSet::from([(None, Some(b"hello".to_vec()))]), "{synced_dir}");
    }
}

#[test]
fn a_rename_into_a_new_directory_never_loses_the_file() {
    let moved = || {
        let disk = synced(&[("a", b"hello")]);
        disk.create_dir("d/e").unwrap();
        disk.rename("a", "d/e/b").unwrap();
        disk
    };
    let hello = Some(b"hello".to_vec());
    let seen = outcomes(&moved(), |disk| (get(disk, "a"), get(disk, "d/e/b")));
    assert_eq!(seen, BTreeSet::from([(hello.clone(), None), (None, hello.clone())]));
    for synced_dir in ["", "d/e"] {
        let disk = moved();
        disk.sync_dir(synced_dir).unwrap();
        let seen = outcomes(&disk, |disk| (get(disk, "a"), get(disk, "d/e/b")));
        assert_eq!(seen, BTreeSet::from([(None, hello.clone())]), "{synced_dir:?}");
    }
}

#[test]
fn a_directory_that_is_removed_never_takes_along_what_had_left_it() {
    let disk = synced(&[("d/a", b"hello"), ("d/b", b"")]);
    disk.rename_new("d/a", "a").unwrap();
    disk.remove("d/b").unwrap();
    disk.remove_dir("d").unwrap();
    let hello = Some(b"hello".to_vec());
    let seen = outcomes(&disk, |disk| (get(disk, "a"), get(disk, "d/a"), disk.list("d").is_ok()));
    assert!(seen.iter().all(|(new, old, _)| [new, old].contains(&&hello)), "{seen:?}");
    assert!(seen.contains(&(hello.clone(), None, false)), "{seen:?}");
    assert!(seen.contains(&(None, hello, true)), "{seen:?}");
}

#[test]
fn changes_of_different_names_survive_in_any_order() {
    let disk = synced(&[("removed", b""), ("renamed", b"")]);
    write_new(&disk, "made", b"");
    disk.remove("removed").unwrap();
    disk.rename("renamed", "new").unwrap();
    assert_eq!(outcomes(&disk, |disk| disk.list("").unwrap()).len(), 8);
}

#[test]
fn changes_of_one_name_survive_only_with_those_before_them() {
    let disk = Crash::new();
    write_new(&disk, "a", b"");
    disk.rename("a", "b").unwrap();
    disk.remove("b").unwrap();
    let seen = outcomes(&disk, |disk| disk.list("").unwrap().concat());
    assert_eq!(seen, ["", "a", "b"].map(str::to_owned).into());
}

#[test]
fn syncing_everything_leaves_a_crash_nothing_to_choose() {
    let disk = synced(&[("removed", b""), ("renamed", b"x"), ("d/a", &[1; 1000])]);
    disk.create_dir("e/f").unwrap();
    write_new(&disk, "e/f/made", b"hello");
    disk.remove("removed").unwrap();
    disk.rename("renamed", "e/new").unwrap();
    write(&disk, "d/a", &[2; 1000], 500);
    disk.sync_all().unwrap();
    let seen = outcomes(&disk, |disk| {
        ["removed", "renamed", "e/f/made", "e/new", "d/a"].map(|path| get(disk, path))
    });
    let [removed, renamed, made, new, written] = seen.first().unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((removed, renamed), (&None, &None));
    assert_eq!((made.as_deref(), new.as_deref()), (Some(&b"hello"[..]), Some(&b"x"[..])));
    assert_eq!(written.as_ref().unwrap()[499..501], [1, 2]);
}

#[test]
fn keeping_nothing_leaves_what_was_synced_and_keeping_everything_what_was_seen() {
    let disk = synced(&[("a", &[1; 1000]), ("b", b"b")]);
    write(&disk, "a", &[2; 1000], 500);
    disk.open("b", Open::Write).unwrap().set_len(0).unwrap();
    disk.rename("b", "c").unwrap();
    write_new(&disk, "d", b"d");

    let (nothing, report) = disk.crash_keeping_nothing();
    assert_eq!(nothing.list("").unwrap(), ["a", "b"]);
    assert_eq!(get(&nothing, "a").unwrap(), [1; 1000]);
    assert_eq!(get(&nothing, "b").unwrap(), b"b");
    assert_eq!((report.writes_lost, report.writes_kept), (1, 0));
    assert_eq!((report.renames_undone, report.creations_undone), (1, 1));

    let (everything, report) = disk.crash_keeping_everything();
    assert_eq!(everything.list("").unwrap(), ["a", "c", "d"]);
    assert_eq!(get(&everything, "a").unwrap(), [[1; 500].as_slice(), &[2; 1000]].concat());
    assert_eq!(get(&everything, "c").unwrap(), b"");
    assert_eq!((report.writes_lost, report.writes_kept), (0, 2));
    assert_eq!((report.renames_kept, report.creations_undone), (1, 0));
}

#[test]
fn a_dead_process_can_do_nothing() {
    let disk = synced(&[("a", b"hello")]);
    let file = disk.open("a", Open::Write).unwrap();
    let clone = disk.clone();
    let survivor = disk.crash(1).0;
    let errors = refusals(&clone, file.as_ref());
    assert_eq!(errors.map(|error| error.to_string()), ["crashed"; 12].map(str::to_owned));
    assert_eq!(get(&survivor, "a").unwrap(), b"hello");
}

#[test]
fn equal_seeds_leave_equal_disks_and_different_ones_differ() {
    let disk = synced(&[("a", &[0; 10_000])]);
    for step in 0..20 {
        write(&disk, "a", &[1; 2000], step * 400);
    }
    let left = |seed| get(&disk.crash(seed).0, "a").unwrap();
    for seed in SEEDS {
        assert_eq!(left(seed), left(seed), "seed {seed}");
    }
    let distinct: BTreeSet<_> = SEEDS.map(left).collect();
    assert!(distinct.len() > 100, "only {} different ends", distinct.len());
}

#[test]
fn halts_on_the_asked_side_of_each_sync() {
    let workload = |disk: &Crash| -> io::Result<()> {
        let file = disk.open("a", Open::Create)?;
        disk.sync_dir("")?;
        write_all_at(file.as_ref(), b"1", 0)?;
        file.sync()?;
        write_all_at(file.as_ref(), b"2", 1)?;
        disk.sync_all()
    };
    let disk = Crash::new();
    workload(&disk).unwrap();
    assert_eq!(disk.syncs(), 3);

    let durable = [None, Some(&b""[..]), Some(b"1"), Some(b"12")];
    for n in 1..=3 {
        for (when, done) in [(When::Before, n - 1), (When::After, n)] {
            let disk = Crash::new();
            disk.halt_at_sync(n as u64, when);
            let error = workload(&disk).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Other, "halted"));
            assert!(disk.is_halted());
            disk.list("").unwrap_err();
            let left = get(&disk.crash_keeping_nothing().0, "a");
            assert_eq!(left.as_deref(), durable[done], "{when:?} sync {n}");
        }
    }
    let disk = Crash::new();
    disk.halt_at_sync(4, When::Before);
    workload(&disk).unwrap();
    assert!(!disk.is_halted());
}

#[test]
fn a_halted_process_can_do_nothing_either() {
    let disk = synced(&[("a", b"hello")]);
    let file = disk.open("a", Open::Write).unwrap();
    disk.halt_at_sync(disk.syncs() + 1, When::After);
    disk.sync_all().unwrap_err();
    let errors = refusals(&disk, file.as_ref());
    assert_eq!(errors.map(|error| error.to_string()), ["halted"; 12].map(str::to_owned));
}

/// A disk whose every file is durable.
fn synced(files: &[(&str, &[u8])]) -> Crash {
    let disk = Crash::new();
    for (path, content) in files {
        if let Some((dir, _)) = path.rsplit_once('/') {
            disk.create_dir(dir).unwrap();
        }
        write_new(&disk, path, content);
    }
    disk.sync_all().unwrap();
    disk
}

/// What is to be seen after each of many crashes of the same life.
fn outcomes<T: Ord>(disk: &Crash, look: impl Fn(&Crash) -> T) -> BTreeSet<T> {
    SEEDS.map(|seed| look(&disk.crash(seed).0)).collect()
}

fn write_new(disk: &Crash, path: &str, bytes: &[u8]) -> std::sync::Arc<dyn File> {
    let file = disk.open(path, Open::Create).unwrap();
    write_all_at(file.as_ref(), bytes, 0).unwrap();
    file
}

fn write(disk: &Crash, path: &str, bytes: &[u8], offset: usize) {
    let file = disk.open(path, Open::Write).unwrap();
    write_all_at(file.as_ref(), bytes, offset as u64).unwrap();
}

fn get(disk: &Crash, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(path, Open::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(read_full_at(file.as_ref(), &mut bytes, 0).unwrap(), bytes.len());
    Some(bytes)
}

/// What each call of the port answers when none may succeed.
fn refusals(disk: &dyn Disk, file: &dyn File) -> [io::Error; 12] {
    [
        disk.open("a", Open::Read).unwrap_err(),
        disk.list("").unwrap_err(),
        disk.create_dir("d").unwrap_err(),
        disk.rename("a", "b").unwrap_err(),
        disk.remove("a").unwrap_err(),
        disk.sync_dir("").unwrap_err(),
        disk.sync_all().unwrap_err(),
        file.len().unwrap_err(),
        file.read_at(&mut [0], 0).unwrap_err(),
        file.write_at(b"x", 0).unwrap_err(),
        file.set_len(0).unwrap_err(),
        file.sync().unwrap_err(),
    ]
}

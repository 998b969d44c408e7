//! What every disk must do alike, run on each twin of the port.
//!
//! A twin that answers differently from the operating system proves nothing about the log above
//! it, so the list is one and the twins only say how they are made.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at the first lie")]

use handoff_log::disk::{
    Counting, Crash, Disk, Faulty, File, FoundWhat, Memory, Open, Real, read_full_at, write_all_at,
};
use std::io::ErrorKind;
use std::sync::Arc;

/// A disk under test, and what must live as long as it.
struct Twin {
    disk: Arc<dyn Disk>,
    _root: Option<tempfile::TempDir>,
}

impl From<Arc<dyn Disk>> for Twin {
    fn from(disk: Arc<dyn Disk>) -> Self {
        Self { disk, _root: None }
    }
}

fn memory() -> Twin {
    Twin::from(Arc::new(Memory::new()) as Arc<dyn Disk>)
}

fn real() -> Twin {
    let root = tempfile::tempdir().unwrap();
    Twin { disk: Arc::new(Real::new(root.path()).unwrap()), _root: Some(root) }
}

fn crash() -> Twin {
    Twin::from(Arc::new(Crash::new()) as Arc<dyn Disk>)
}

fn counting() -> Twin {
    Twin::from(Arc::new(Counting::new(Arc::new(Memory::new()))) as Arc<dyn Disk>)
}

fn faulty() -> Twin {
    Twin::from(Arc::new(Faulty::new(Arc::new(Memory::new())).0) as Arc<dyn Disk>)
}

macro_rules! promises {
    ($($promise:ident)*) => {
        promises!(@on memory $($promise)*);
        promises!(@on real $($promise)*);
        promises!(@on crash $($promise)*);
        promises!(@on counting $($promise)*);
        promises!(@on faulty $($promise)*);
    };
    (@on $twin:ident $($promise:ident)*) => {
        mod $twin {
            $(#[test]
            fn $promise() {
                let twin = super::$twin();
                super::$promise(twin.disk.as_ref());
            })*
        }
    };
}

promises! {
    opens_only_what_is_there_and_creates_only_what_is_not
    opening_a_file_again_keeps_what_it_holds
    a_file_opened_for_reading_refuses_to_be_changed
    reads_stop_at_the_end_of_the_file
    a_write_past_the_end_leaves_zeros_in_between
    a_write_inside_a_file_changes_nothing_around_it
    set_len_cuts_and_grows_with_zeros
    a_file_can_be_longer_than_the_disk_as_long_as_it_is_a_hole
    rename_moves_a_file_and_replaces_what_is_there
    rename_to_its_own_name_changes_nothing
    a_failed_rename_leaves_both_names_as_they_were
    rename_new_moves_a_file_and_takes_no_name_that_is_taken
    remove_dir_takes_away_only_what_is_empty
    walking_gives_every_name_once_and_what_it_stands_for
    an_open_handle_follows_its_file_through_a_rename
    an_open_handle_outlives_the_removal_of_its_file
    remove_takes_away_exactly_one_name
    list_is_sorted_and_not_recursive
    create_dir_makes_those_above_and_may_be_repeated
    what_is_missing_is_said_to_be_missing
    a_file_is_not_a_directory_and_a_directory_not_a_file
    paths_that_leave_the_tree_or_have_two_spellings_are_refused
    syncs_succeed_and_change_nothing_that_can_be_read
    a_name_synced_twice_or_with_nothing_to_sync_is_fine
}

fn opens_only_what_is_there_and_creates_only_what_is_not(disk: &dyn Disk) {
    assert_eq!(kind(disk.open("a", Open::Read)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open("a", Open::Write)), ErrorKind::NotFound);
    let file = disk.open("a", Open::Create).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    assert_eq!(kind(disk.open("a", Open::Create)), ErrorKind::AlreadyExists);
    disk.open("a", Open::Read).unwrap();
    disk.open("a", Open::Write).unwrap();
}

fn opening_a_file_again_keeps_what_it_holds(disk: &dyn Disk) {
    put(disk, "a", b"hello");
    let file = disk.open("a", Open::Write).unwrap();
    assert_eq!(content(file.as_ref()), b"hello");
    write_all_at(file.as_ref(), b"J", 0).unwrap();
    assert_eq!(get(disk, "a"), b"Jello");
}

fn a_file_opened_for_reading_refuses_to_be_changed(disk: &dyn Disk) {
    put(disk, "a", b"hello");
    let file = disk.open("a", Open::Read).unwrap();
    file.write_at(b"J", 0).unwrap_err();
    file.set_len(1).unwrap_err();
    file.sync().unwrap();
    assert_eq!(get(disk, "a"), b"hello");
}

fn reads_stop_at_the_end_of_the_file(disk: &dyn Disk) {
    put(disk, "a", b"hello");
    let file = disk.open("a", Open::Read).unwrap();
    let mut buffer = [9; 8];
    assert_eq!(file.read_at(&mut buffer, 3).unwrap(), 2);
    assert_eq!(buffer, *b"lo\x09\x09\x09\x09\x09\x09");
    assert_eq!(file.read_at(&mut buffer, 5).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
}

fn a_write_past_the_end_leaves_zeros_in_between(disk: &dyn Disk) {
    let file = disk.open("a", Open::Create).unwrap();
    write_all_at(file.as_ref(), b"x", 0).unwrap();
    write_all_at(file.as_ref(), b"y", 10_000).unwrap();
    let mut expected = vec![0; 10_001];
    expected[0] = b'x';
    expected[10_000] = b'y';
    assert_eq!(content(file.as_ref()), expected);
    file.write_at(&[], 20_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_001, "writing nothing does not grow a file");
}

fn a_write_inside_a_file_changes_nothing_around_it(disk: &dyn Disk) {
    let mut expected: Vec<u8> = (0..20_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    put(disk, "a", &expected);
    let file = disk.open("a", Open::Write).unwrap();
    write_all_at(file.as_ref(), &[0xee; 9_000], 4_000).unwrap();
    expected[4_000..13_000].fill(0xee);
    assert_eq!(content(file.as_ref()), expected);
}

fn set_len_cuts_and_grows_with_zeros(disk: &dyn Disk) {
    put(disk, "a", &[7; 9_000]);
    let file = disk.open("a", Open::Write).unwrap();
    file.set_len(5_000).unwrap();
    assert_eq!(file.len().unwrap(), 5_000);
    file.set_len(9_000).unwrap();
    let mut expected = vec![7; 5_000];
    expected.resize(9_000, 0);
    assert_eq!(content(file.as_ref()), expected);
    file.set_len(0).unwrap();
    assert_eq!(content(file.as_ref()), b"");
}

fn a_file_can_be_longer_than_the_disk_as_long_as_it_is_a_hole(disk: &dyn Disk) {
    let file = disk.open("a", Open::Create).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 40);
    let mut buffer = [9; 4];
    assert_eq!(file.read_at(&mut buffer, 1 << 39).unwrap(), 4);
    assert_eq!(buffer, [0; 4]);
    file.write_at(b"x", u64::MAX).unwrap_err();
    file.set_len(u64::MAX).unwrap_err();
    assert_eq!(file.len().unwrap(), 1 << 40);
}

fn rename_moves_a_file_and_replaces_what_is_there(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    put(disk, "new", b"new");
    put(disk, "d/old", b"old");
    disk.rename("new", "d/old").unwrap();
    assert_eq!(get(disk, "d/old"), b"new");
    assert_eq!(kind(disk.open("new", Open::Read)), ErrorKind::NotFound);
    assert_eq!(disk.list("").unwrap(), ["d"]);
    assert_eq!(disk.list("d").unwrap(), ["old"]);
}

fn rename_to_its_own_name_changes_nothing(disk: &dyn Disk) {
    put(disk, "a", b"hello");
    disk.rename("a", "a").unwrap();
    assert_eq!(get(disk, "a"), b"hello");
}

fn a_failed_rename_leaves_both_names_as_they_were(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    put(disk, "a", b"hello");
    assert_eq!(kind(disk.rename("missing", "a")), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename("a", "missing/a")), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename("a", "a/b")), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.rename("a", "d")), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename("d", "e")), ErrorKind::IsADirectory);
    assert_eq!(get(disk, "a"), b"hello");
    assert_eq!(disk.list("").unwrap(), ["a", "d"]);
}

fn rename_new_moves_a_file_and_takes_no_name_that_is_taken(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    put(disk, "a", b"a");
    put(disk, "b", b"b");
    for taken in ["b", "a", "d"] {
        assert_eq!(kind(disk.rename_new("a", taken)), ErrorKind::AlreadyExists, "{taken}");
    }
    assert_eq!(kind(disk.rename_new("c", "d/c")), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename_new("c", "b")), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename_new("a", "e/a")), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename_new("d", "e")), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename_new("a", "../a")), ErrorKind::InvalidInput);
    assert_eq!((get(disk, "a"), get(disk, "b")), (b"a".to_vec(), b"b".to_vec()));
    disk.rename_new("a", "d/a").unwrap();
    assert_eq!((get(disk, "d/a"), disk.list("").unwrap().concat()), (b"a".to_vec(), "bd".into()));
}

fn remove_dir_takes_away_only_what_is_empty(disk: &dyn Disk) {
    disk.create_dir("d/e").unwrap();
    put(disk, "d/e/a", b"");
    assert_eq!(kind(disk.remove_dir("d/e")), ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.remove_dir("d/e/a")), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.remove_dir("x")), ErrorKind::NotFound);
    assert_eq!(kind(disk.remove_dir("")), ErrorKind::InvalidInput);
    disk.remove("d/e/a").unwrap();
    disk.remove_dir("d/e").unwrap();
    assert_eq!(disk.list("d").unwrap(), [""; 0]);
}

fn walking_gives_every_name_once_and_what_it_stands_for(disk: &dyn Disk) {
    disk.create_dir("d/e").unwrap();
    put(disk, "d/a", b"");
    put(disk, "d/e/below", b"");
    let mut found: Vec<_> = disk.walk("d").unwrap().map(|found| found.unwrap()).collect();
    found.sort();
    let found: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.what)).collect();
    assert_eq!(found, [("a", FoundWhat::File), ("e", FoundWhat::Dir)]);
    assert_eq!(disk.walk("d/e").unwrap().count(), 1);
    assert_eq!(kind(disk.walk("x").map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(disk.walk("d/a").map(drop)), ErrorKind::NotADirectory);
}

fn an_open_handle_follows_its_file_through_a_rename(disk: &dyn Disk) {
    put(disk, "a", b"hello");
    let file = disk.open("a", Open::Write).unwrap();
    disk.rename("a", "b").unwrap();
    put(disk, "a", b"another");
    write_all_at(file.as_ref(), b"J", 0).unwrap();
    assert_eq!(get(disk, "b"), b"Jello");
    assert_eq!(get(disk, "a"), b"another");
}

fn an_open_handle_outlives_the_removal_of_its_file(disk: &dyn Disk) {
    put(disk, "a", b"hello");
    let file = disk.open("a", Open::Write).unwrap();
    disk.remove("a").unwrap();
    put(disk, "a", b"another");
    write_all_at(file.as_ref(), b"J", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(content(file.as_ref()), b"Jello");
    assert_eq!(get(disk, "a"), b"another");
}

fn remove_takes_away_exactly_one_name(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    put(disk, "a", b"");
    put(disk, "ab", b"");
    disk.remove("a").unwrap();
    assert_eq!(disk.list("").unwrap(), ["ab", "d"]);
    assert_eq!(kind(disk.remove("a")), ErrorKind::NotFound);
    disk.remove("d").unwrap_err();
    assert_eq!(disk.list("").unwrap(), ["ab", "d"]);
}

fn list_is_sorted_and_not_recursive(disk: &dyn Disk) {
    disk.create_dir("d/below").unwrap();
    for path in ["d/10", "d/9", "d/b-c", "d/b", "d/below/x", "d.txt", "e"] {
        put(disk, path, b"");
    }
    assert_eq!(disk.list("d").unwrap(), ["10", "9", "b", "b-c", "below"]);
    assert_eq!(disk.list("").unwrap(), ["d", "d.txt", "e"]);
}

fn create_dir_makes_those_above_and_may_be_repeated(disk: &dyn Disk) {
    disk.create_dir("a/b/c").unwrap();
    disk.create_dir("a/b/c").unwrap();
    disk.create_dir("a/b").unwrap();
    disk.create_dir("").unwrap();
    assert_eq!(disk.list("a").unwrap(), ["b"]);
    assert_eq!(disk.list("a/b/c").unwrap(), [""; 0]);
    put(disk, "f", b"");
    assert_eq!(kind(disk.create_dir("f")), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.create_dir("f/g")), ErrorKind::NotADirectory);
}

fn what_is_missing_is_said_to_be_missing(disk: &dyn Disk) {
    assert_eq!(kind(disk.list("d")), ErrorKind::NotFound);
    assert_eq!(kind(disk.sync_dir("d")), ErrorKind::NotFound);
    assert_eq!(kind(disk.remove("a")), ErrorKind::NotFound);
    assert_eq!(kind(disk.remove("d/a")), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename("a", "b")), ErrorKind::NotFound);
    assert_eq!(kind(disk.open("d/a", Open::Create)), ErrorKind::NotFound);
    assert_eq!(disk.list("").unwrap(), [""; 0]);
}

fn a_file_is_not_a_directory_and_a_directory_not_a_file(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    put(disk, "f", b"");
    for how in [Open::Read, Open::Write] {
        assert_eq!(kind(disk.open("d", how)), ErrorKind::IsADirectory, "{how:?}");
    }
    for how in [Open::Read, Open::Write, Open::Create] {
        assert_eq!(kind(disk.open("f/a", how)), ErrorKind::NotADirectory, "{how:?}");
    }
    assert_eq!(kind(disk.open("d", Open::Create)), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.list("f")), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.sync_dir("f")), ErrorKind::NotADirectory);
}

fn paths_that_leave_the_tree_or_have_two_spellings_are_refused(disk: &dyn Disk) {
    put(disk, "a", b"hello");
    for path in ["..", "../a", "d/../a", "/a", "d//a", "d/", ".", "./a", "a\0"] {
        assert_eq!(kind(disk.open(path, Open::Create)), ErrorKind::InvalidInput, "open {path:?}");
        assert_eq!(kind(disk.list(path)), ErrorKind::InvalidInput, "list {path:?}");
        assert_eq!(kind(disk.create_dir(path)), ErrorKind::InvalidInput, "create_dir {path:?}");
        assert_eq!(kind(disk.rename("a", path)), ErrorKind::InvalidInput, "rename to {path:?}");
        assert_eq!(kind(disk.rename(path, "b")), ErrorKind::InvalidInput, "rename {path:?}");
        assert_eq!(kind(disk.remove(path)), ErrorKind::InvalidInput, "remove {path:?}");
        assert_eq!(kind(disk.sync_dir(path)), ErrorKind::InvalidInput, "sync_dir {path:?}");
    }
    assert_eq!(kind(disk.open("", Open::Read)), ErrorKind::InvalidInput);
    assert_eq!(kind(disk.remove("")), ErrorKind::InvalidInput);
    assert_eq!(disk.list("").unwrap(), ["a"]);
}

fn syncs_succeed_and_change_nothing_that_can_be_read(disk: &dyn Disk) {
    disk.create_dir("d").unwrap();
    let file = disk.open("d/a", Open::Create).unwrap();
    write_all_at(file.as_ref(), b"hello", 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir("d").unwrap();
    disk.sync_dir("").unwrap();
    write_all_at(file.as_ref(), b"J", 0).unwrap();
    disk.sync_all().unwrap();
    assert_eq!(get(disk, "d/a"), b"Jello");
    assert_eq!(disk.list("d").unwrap(), ["a"]);
}

fn a_name_synced_twice_or_with_nothing_to_sync_is_fine(disk: &dyn Disk) {
    disk.sync_all().unwrap();
    disk.sync_dir("").unwrap();
    put(disk, "a", b"x");
    disk.sync_dir("").unwrap();
    disk.sync_dir("").unwrap();
    disk.sync_all().unwrap();
    assert_eq!(get(disk, "a"), b"x");
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("the call must fail").kind()
}

fn put(disk: &dyn Disk, path: &str, bytes: &[u8]) {
    let file = disk.open(path, Open::Create).unwrap();
    write_all_at(file.as_ref(), bytes, 0).unwrap();
}

fn get(disk: &dyn Disk, path: &str) -> Vec<u8> {
    content(disk.open(path, Open::Read).unwrap().as_ref())
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(read_full_at(file, &mut bytes, 0).unwrap(), bytes.len());
    bytes
}

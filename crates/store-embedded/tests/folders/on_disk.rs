//! On the operating system's own disk.

use std::fs;
use std::sync::Arc;

use handoff_exchange::{Ask, Status, Step};
use handoff_log::disk::{Disk, Real};
use handoff_store_embedded::folders::{BodyError, Report};

use crate::world::{World, body};

fn world() -> (tempfile::TempDir, World) {
    let root = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(Real::new(root.path()).unwrap());
    let world = World::new(&disk);
    (root, world)
}

#[test]
fn a_whole_life_leaves_the_files_where_an_administrator_looks() {
    let (root, mut world) = world();
    world.post("a", "m1").unwrap();
    world.post("b", "m2").unwrap();
    let process = world.begin().unwrap();
    let verdicts = [("m1", Status::Processed), ("m2", Status::Incorrect)];
    world.prepare(process, &verdicts, &[("r1", "a")]).unwrap();
    world.work().unwrap();
    let prepared = root.path().join(world.path(world.seq("r1")));
    assert_eq!(fs::read(&prepared).unwrap(), body("r1", "db", "a"));
    world.step(process, Step::Commit).unwrap();
    world.work().unwrap();
    world.checkpoint().unwrap();
    world.check_folders("after a commit");
    world.ask(Ask::Opened).unwrap();
    world.compare().unwrap();
    world.check_folders("compared");
    let disk = Arc::clone(&world.directory.disk);
    let again = World::open(&disk).unwrap();
    again.check_bodies("after a restart");
}

/// Whoever can write to the folder could have any file of the server read.
#[test]
fn a_link_in_place_of_a_file_is_never_followed() {
    let (root, mut world) = world();
    let seq = world.post("a", "m1").unwrap();
    world.work().unwrap();
    let path = root.path().join(world.path(seq));
    let secret = root.path().join("secret");
    fs::rename(&path, &secret).unwrap();
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    let read = world.bodies.read(&world.filed(seq));
    assert!(matches!(read, Err(BodyError::Missing { .. })), "{read:?}");
    let link = root.path().join("exchange/db/Messages/0000000000000000-x_from_a_to_db.json");
    std::os::unix::fs::symlink(&secret, link).unwrap();
    world.compare().unwrap();
    assert!(!world.reports.iter().any(|report| matches!(report, Report::TakeIn { .. })));
    let compared = world.reports.iter().rev().find_map(|report| match report {
        Report::Compared(compared) => Some(compared.clone()),
        _ => None,
    });
    assert_eq!(compared.unwrap().foreign, 2);
    assert_eq!(fs::read(&secret).unwrap(), body("m1", "a", "db"));
}

#[test]
fn a_name_that_is_not_text_stops_nothing() {
    use std::os::unix::ffi::OsStrExt;
    let (root, mut world) = world();
    world.post("a", "m1").unwrap();
    world.work().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.json");
    if fs::write(root.path().join("exchange/db/Messages").join(name), b"x").is_err() {
        // Not every filesystem has such names.
        return;
    }
    world.compare().unwrap();
    let Some(Report::Compared(compared)) = world.reports.last() else { panic!("not compared") };
    assert_eq!((compared.foreign, compared.failed), (1, 0));
}

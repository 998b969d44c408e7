//! What people do to folders.

use std::sync::Arc;

use handoff_exchange::{Ask, Place, Reply, Seq, Status, Step};
use handoff_log::disk::{Disk, Memory};
use handoff_store_embedded::folders::{BodyError, Compared, Report};

use crate::world::{DAY, World, body, message, mid};

fn world() -> (Memory, World) {
    let disk = Memory::new();
    let world = World::new(&(Arc::new(disk.clone()) as Arc<dyn Disk>));
    (disk, world)
}

fn last_compared(world: &World) -> Compared {
    let compared = world.reports.iter().rev().find_map(|report| match report {
        Report::Compared(compared) => Some(compared.clone()),
        _ => None,
    });
    compared.unwrap()
}

fn damaged(world: &World) -> Vec<Seq> {
    let seq = |report: &Report| match report {
        Report::Damaged { seq, .. } => Some(*seq),
        _ => None,
    };
    world.reports.iter().filter_map(seq).collect()
}

#[test]
fn a_file_that_was_removed_is_restored_from_the_journal_or_its_message_set_aside() {
    let (disk, mut world) = world();
    let [one, two] = ["m1", "m2"].map(|name| world.post("a", name).unwrap());
    world.work().unwrap();
    disk.remove(&world.path(one)).unwrap();
    assert!(world.bodies.read(&world.filed(one)).unwrap_err().is_lost());
    assert_eq!(world.bodies.read(&world.filed(two)).unwrap(), body("m2", "a", "db"));
    world.compare().unwrap();
    assert_eq!(damaged(&world).first(), Some(&one));
    assert_eq!(world.found("m1").unwrap().1.place, Place::Error);
    assert_eq!(world.found("m2").unwrap().1.place, Place::Messages);
    // One whose body the journal still has.
    let three = world.post("a", "m3").unwrap();
    let mut known = crate::world::Direct(world.host.state());
    world.folders.work(&mut known, world.now.steady);
    disk.remove(&world.path(three)).unwrap();
    let process = world.begin().unwrap();
    let verdicts = [("m2", Status::Processed), ("m3", Status::Processed)];
    world.prepare(process, &verdicts, &[]).unwrap();
    world.step(process, Step::Commit).unwrap();
    let mut known = crate::world::Direct(world.host.state());
    world.folders.work(&mut known, world.now.steady);
    assert_eq!(disk.contents(&world.path(three)).unwrap(), body("m3", "a", "db"));
    world.work().unwrap();
}

#[test]
fn an_empty_and_a_damaged_file_cost_their_message_and_no_other() {
    let (disk, mut world) = world();
    let seqs = ["m1", "m2", "m3"].map(|name| world.post("a", name).unwrap());
    world.work().unwrap();
    disk.overwrite(&world.path(seqs[0]), Vec::new()).unwrap();
    let mut bytes = body("m2", "a", "db").to_vec();
    bytes[100] ^= 1;
    disk.overwrite(&world.path(seqs[1]), bytes).unwrap();
    for seq in &seqs[..2] {
        let error = world.bodies.read(&world.filed(*seq)).unwrap_err();
        assert!(matches!(error, BodyError::Damaged { .. }) && error.is_lost(), "{error}");
    }
    assert_eq!(world.bodies.read(&world.filed(seqs[2])).unwrap(), body("m3", "a", "db"));
    // Lengths are looked at in passing; the other is found when it is read.
    world.compare().unwrap();
    assert_eq!(damaged(&world).first(), Some(&seqs[0]));
    assert!(!damaged(&world).contains(&seqs[1]));
    assert_eq!(world.found("m1").unwrap().1.place, Place::Error);
}

#[test]
fn a_file_moved_by_hand_is_moved_back_and_served_meanwhile() {
    let (disk, mut world) = world();
    let seq = world.post("a", "m1").unwrap();
    world.work().unwrap();
    let path = world.path(seq);
    let elsewhere = path.replace("Messages", "Log/2020-02-02");
    disk.create_dir("exchange/db/Log/2020-02-02").unwrap();
    disk.rename(&path, &elsewhere).unwrap();
    assert_eq!(world.bodies.read(&world.filed(seq)).unwrap(), body("m1", "a", "db"));
    world.compare().unwrap();
    world.check_folders("moved back");
    assert_eq!((last_compared(&world).mended, last_compared(&world).foreign), (1, 0));
}

/// Requeueing is asked of the room. A copy in the queue is not a second message.
#[test]
fn a_copy_of_a_known_message_is_never_taken_for_another() {
    let (disk, mut world) = world();
    let seq = world.post("a", "m1").unwrap();
    let process = world.begin().unwrap();
    world.prepare(process, &[("m1", Status::Incorrect)], &[]).unwrap();
    world.step(process, Step::Commit).unwrap();
    world.work().unwrap();
    let path = world.path(seq);
    assert!(path.starts_with(&format!("exchange/db/Error/{DAY}/")), "{path}");
    let copy = path.replace(&format!("Error/{DAY}"), "Messages");
    disk.overwrite(&copy, disk.contents(&path).unwrap()).unwrap();
    world.compare().unwrap();
    assert!(!world.reports.iter().any(|report| matches!(report, Report::TakeIn { .. })));
    world.check_folders("the copy is gone");
    // One that was changed is kept, and not as the message.
    disk.overwrite(&copy, b"{\"changed\":true}".to_vec()).unwrap();
    world.compare().unwrap();
    assert_eq!(disk.contents(&format!("{copy}.conflict-1")).unwrap(), b"{\"changed\":true}");
    assert_eq!(disk.contents(&path).unwrap(), body("m1", "a", "db"));
    world.compare().unwrap();
    assert_eq!(last_compared(&world).foreign, 1, "{:?}", last_compared(&world));
}

#[test]
fn a_new_file_in_messages_is_offered_taken_in_and_removed() {
    let (disk, mut world) = world();
    world.post("a", "m1").unwrap();
    world.work().unwrap();
    let path = "exchange/db/Messages/0000000000000000-new_from_b_to_db__DOCS.json";
    disk.overwrite(path, b"whatever".to_vec()).unwrap();
    world.compare().unwrap();
    let offered = |world: &World| {
        let offered = world.reports.iter().filter_map(|report| match report {
            Report::TakeIn { path, name, content, .. } => {
                Some((path.clone(), name.id, name.from.to_string(), content.clone()))
            }
            _ => None,
        });
        offered.collect::<Vec<_>>()
    };
    let expected = (path.to_owned(), mid("new"), "b".to_owned(), "whatever".into());
    assert_eq!(offered(&world), std::slice::from_ref(&expected));
    // Not twice while nobody has answered.
    world.compare().unwrap();
    assert_eq!(offered(&world).len(), 1);
    // Refused: shown, and not offered by looks, which come often, while it is as it was.
    world.orders.not_taken_in(path);
    world.orders.look();
    world.work().unwrap();
    assert!(!last_compared(&world).whole);
    assert_eq!(last_compared(&world).shown[0].path, path);
    assert_eq!(offered(&world).len(), 1);
    // Somebody wrote on.
    disk.overwrite(path, b"whatever it was".to_vec()).unwrap();
    world.orders.look();
    world.work().unwrap();
    let changed = (path.to_owned(), mid("new"), "b".to_owned(), "whatever it was".into());
    assert_eq!(offered(&world), [expected.clone(), changed.clone()]);
    // Refused again: a comparison offers it as it is.
    world.orders.not_taken_in(path);
    world.compare().unwrap();
    assert_eq!(offered(&world), [expected, changed.clone(), changed]);
    let (database, device) = (world.db(), world.no("b"));
    let reply = world.ask(Ask::TakeIn { database, device, message: message("new") }).unwrap();
    assert!(matches!(reply, Reply::Posted(_) | Reply::Done), "{reply:?}");
    world.orders.taken_in(path);
    world.work().unwrap();
    world.check_folders("taken in");
    world.compare().unwrap();
    assert_eq!(last_compared(&world).foreign, 0);
    assert_eq!(offered(&world).len(), 3);
}

#[test]
fn many_new_files_are_offered_some_at_a_time_and_it_is_told_that_more_are_left() {
    let (disk, mut world) = world();
    world.post("a", "m1").unwrap();
    world.work().unwrap();
    for n in 0..20 {
        let path = format!("exchange/db/Messages/0000000000000000-new-{n}_from_b_to_db.json");
        disk.overwrite(&path, b"whatever".to_vec()).unwrap();
    }
    let mut paths = Vec::new();
    for left in [4, 0] {
        world.orders.look();
        world.work().unwrap();
        assert_eq!(last_compared(&world).left, left);
        for report in std::mem::take(&mut world.reports) {
            if let Report::TakeIn { path, .. } = report {
                world.orders.not_taken_in(&path);
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 20);
}

/// It was processed, forgotten, and its file should be gone: taken in, it would be processed again.
#[test]
fn a_file_with_a_used_number_of_a_forgotten_message_is_not_taken_in() {
    let (disk, mut world) = world();
    let seq = world.post("a", "m1").unwrap();
    world.work().unwrap();
    let name = world.path(seq);
    let process = world.begin().unwrap();
    world.prepare(process, &[("m1", Status::Processed)], &[]).unwrap();
    world.step(process, Step::Commit).unwrap();
    world.work().unwrap();
    world.rules.messages_max = 0;
    world.ask(Ask::Retain { many: 10 }).unwrap();
    world.work().unwrap();
    assert!(world.found("m1").is_none());
    assert!(world.files().is_empty(), "{:?}", world.files().keys());
    assert_eq!(disk.list("exchange/db/Log").unwrap(), [""; 0], "the day is gone as well");
    disk.overwrite(&name, body("m1", "a", "db").to_vec()).unwrap();
    let stray = name.replace("Messages", "Prepared");
    disk.overwrite(&stray, body("m1", "a", "db").to_vec()).unwrap();
    world.compare().unwrap();
    assert!(!world.reports.iter().any(|report| matches!(report, Report::TakeIn { .. })));
    assert_eq!(last_compared(&world).shown[0].path, name);
    assert_eq!(disk.contents(&stray), None);
}

#[test]
fn whatever_else_lies_around_is_counted_shown_and_left_alone() {
    let (disk, mut world) = world();
    let seq = world.post("a", "m1").unwrap();
    world.work().unwrap();
    let foreign = [
        "exchange/readme.txt",
        "exchange/other/Messages/0000000000000000-x_from_a_to_other.json",
        "exchange/db/Notes/x",
        "exchange/db/x.json",
        "exchange/db/Messages/x.json",
        "exchange/db/Messages/.hidden",
        "exchange/db/Messages/0000000000000000-x_from_a_to_elsewhere.json",
        "exchange/db/Messages/sub/x.json",
        "exchange/db/Log/x.json",
        "exchange/db/Log/someday/x.json",
        "exchange/db/Log/2020-01-01/x.json",
        "exchange/db/Error/2020-01-01/00000000000000ff-x_from_a_to_db.json",
    ];
    for path in foreign {
        disk.overwrite(path, b"mine".to_vec()).unwrap();
    }
    let own = world.path(seq);
    let leftover = own.replace("Messages/", "Messages/.");
    disk.overwrite(&leftover, b"half".to_vec()).unwrap();
    world.folders.write_processes("{}").unwrap();
    world.compare().unwrap();
    let compared = last_compared(&world);
    assert_eq!(compared.foreign, foreign.len() as u64, "{compared:?}");
    assert_eq!((compared.shown.len(), compared.failed), (foreign.len(), 0));
    for path in foreign {
        assert_eq!(disk.contents(path).unwrap(), b"mine", "{path}");
    }
    assert_eq!(disk.contents(&leftover), None);
    world.check_bodies("among foreign files");
}

#[test]
fn a_folder_that_was_removed_is_made_again() {
    let (disk, mut world) = world();
    world.post("a", "m1").unwrap();
    world.work().unwrap();
    disk.remove(&world.path(Seq(1))).unwrap();
    disk.remove_dir("exchange/db/Messages").unwrap();
    world.post("a", "m2").unwrap();
    world.work().unwrap();
    assert_eq!(disk.contents(&world.path(Seq(2))).unwrap(), body("m2", "a", "db"));
}

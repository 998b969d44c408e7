//! `processes.json`, which people look at and nothing depends on (D7 of the crash matrix).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{World, is_ok};

fn list(world: &World) -> PathBuf {
    world.folder("erp1").with_file_name("processes.json")
}

/// Whether the list has a process, by its id.
fn lists(path: &Path, process: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(process))
}

async fn until_stuck(world: &World, stuck: bool) {
    while world.see("stats").await["processListStuck"] != Value::Bool(stuck) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_list_of_processes_that_cannot_be_written_is_shown_and_stops_nothing() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    until_stuck(&world, false).await;
    let path = list(&world);
    // It may be there already.
    drop(std::fs::remove_file(&path));
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("somebody's"), "file").unwrap();

    let (first, served) = world.started().await;
    until_stuck(&world, true).await;
    assert!(is_ok(&world.prepare(&first, &served, json!([])).await));
    assert!(is_ok(&world.commit(&first).await));
    world.send(&phone, "m-2", json!(2)).await;
    let (second, served) = world.started().await;
    assert_eq!(served, ["m-2"]);
    while world.state_of(&first).await != "DONE" {
        tokio::task::yield_now().await;
    }
    assert!(path.join("somebody's").is_file(), "what is not ours is left alone");
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing half written lies beside the folder of erp1: {left:?}");

    let world = world.restart().await;
    assert_eq!(world.state_of(&second).await, "STARTED", "it is no reason not to start");
    until_stuck(&world, true).await;

    // Nothing happens to any process meanwhile.
    std::fs::remove_dir_all(&path).unwrap();
    until_stuck(&world, false).await;
    assert!(lists(&path, &second));
}

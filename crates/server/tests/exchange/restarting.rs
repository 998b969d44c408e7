//! Folders, and what a server finds when it starts again.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{World, ids, is_ok, message, reply};

/// Asks until every body has its file and every file is where it belongs.
async fn until_filed(world: &World) {
    loop {
        let stats = world.see("stats").await;
        if stats["unfiled"] == 0 && stats["filesToMove"] == 0 && stats["unsettledProcesses"] == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn only(folder: &Path) -> PathBuf {
    let names = names(folder);
    assert_eq!(names.len(), 1, "{names:?}");
    folder.join(&names[0])
}

#[tokio::test]
async fn an_administrator_finds_each_message_as_a_file_in_its_folder() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let seq = world.send(&phone, "m-1", json!({"a": 1})).await;
    until_filed(&world).await;
    let folder = world.folder("erp1");
    let file = only(&folder.join("Messages"));
    let name = file.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("{seq:016x}-m-1_from_phone-1_to_erp1.json"));
    let stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(stored["payload"], json!({"a": 1}));

    let (process, served) = world.started().await;
    let replies = json!([reply("r-1", "phone-1", json!(1))]);
    assert!(is_ok(&world.prepare(&process, &served, replies).await));
    until_filed(&world).await;
    assert!(only(&folder.join("Prepared")).to_str().unwrap().contains("r-1_from_erp1_to_phone-1"));
    assert!(is_ok(&world.commit(&process).await));
    until_filed(&world).await;
    assert_eq!(world.state_of(&process).await, "DONE");
    assert!(names(&folder.join("Prepared")).is_empty());
    assert!(only(&folder.join("Messages")).to_str().unwrap().contains("r-1"));
    let day = only(&folder.join("Log"));
    assert!(only(&day).to_str().unwrap().contains("m-1"));
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let erp = world.erp_token("erp1").await;
    world.send(&phone, "m-1", json!(1)).await;
    world.send(&phone, "m-2", json!(2)).await;
    let begun = world.begin_process(json!({"maxFiles": 1})).await.json();
    let process = begun["processId"].as_str().unwrap().to_owned();
    let replies = json!([reply("r-1", "phone-1", json!(1))]);
    assert!(is_ok(&world.prepare(&process, &["m-1".to_owned()], replies).await));
    let places = world.places().await;

    let world = world.restart().await;
    assert_eq!(world.places().await, places);
    assert_eq!(world.state_of(&process).await, "READY_TO_COMMIT");
    let log = world.see("databases/erp1/log?what=in_doubt").await;
    assert_eq!(log["entries"][0]["processId"], process, "it is announced");
    let path = "/v1/exchange/databases/erp1/indoubt";
    let doubt = world.ask(Some(&erp), "GET", path, &Value::Null).await;
    assert_eq!(doubt.json()["processes"][0]["state"], "READY_TO_COMMIT");
    assert!(is_ok(&world.commit(&process).await));
    let again = world.post(&phone, &message("m-1", json!(1))).await;
    assert_eq!(again.json()["results"][0]["status"], "duplicate");

    let world = world.restart().await;
    assert!(is_ok(&world.commit(&process).await), "a late report is answered as the first was");
    assert_eq!(ids(&world.fetch(&phone, "").await), ["r-1"]);
    assert_eq!(world.started().await.1, ["m-2"]);
}

#[tokio::test]
async fn a_damaged_file_costs_one_message_and_the_rest_is_served() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    for n in 1..=3 {
        world.send(&phone, &format!("m-{n}"), json!(n)).await;
    }
    until_filed(&world).await;
    let folder = world.folder("erp1").join("Messages");
    let file = folder.join(&names(&folder)[1]);
    std::fs::write(&file, b"{}").unwrap();
    let begun = world.begin_process(json!({})).await.json();
    assert_eq!(ids(&begun), ["m-1", "m-3"]);
    let process = begun["processId"].as_str().unwrap();
    let prepared = world.prepare(process, &["m-1".to_owned(), "m-3".to_owned()], json!([])).await;
    assert!(is_ok(&prepared), "{}", prepared.text());
    let log = world.see("databases/erp1/log?what=damaged").await;
    assert_eq!(log["entries"][0]["messageId"], "m-2");
    let entry = world.see("databases/erp1/messages?place=error").await;
    assert_eq!(entry["messages"][0]["standing"], "aside");
}

#[tokio::test]
async fn a_file_that_is_put_in_by_hand_is_taken_in_and_another_is_shown() {
    let world = World::start().await;
    world.phone("phone-1").await;
    let folder = world.folder("erp1").join("Messages");
    std::fs::create_dir_all(&folder).unwrap();
    let name = "0000000000000000-hand-1_from_phone-1_to_erp1.json";
    let body = message("hand-1", json!("by hand")).to_string();
    std::fs::write(folder.join("half"), &body).unwrap();
    std::fs::rename(folder.join("half"), folder.join(name)).unwrap();
    std::fs::write(folder.join("notes.txt"), "mine").unwrap();
    // Nobody asks for it.
    let begun = loop {
        let begun = world.begin_process(json!({})).await.json();
        if begun["status"] == "OK" {
            break begun;
        }
    };
    let rescan = world.admin("POST", "databases/erp1/rescan", Value::Null).await;
    assert_eq!((rescan.status, rescan.json()), (202, json!({"version": 1, "status": "OK"})));
    assert_eq!(begun["messages"][0]["payload"], "by hand");
    assert_eq!(begun["messages"][0]["from"], "phone-1");
    let log = world.see("databases/erp1/log?what=taken_in").await;
    assert_eq!(log["entries"][0]["messageId"], "hand-1");
    let foreign = loop {
        let foreign = world.see("databases/erp1/foreign").await;
        if foreign["files"].as_array().unwrap().len() == 1 {
            break foreign;
        }
        tokio::task::yield_now().await;
    };
    assert!(foreign["files"][0]["path"].as_str().unwrap().ends_with("notes.txt"), "{foreign}");
    assert_eq!(std::fs::read(folder.join("notes.txt")).unwrap(), b"mine");
}

//! `deploy/relay.toml` and the keys in `docs/relay.md`, made from the registry and compared with what
//! the repository has.

use std::fs;
use std::path::{Path, PathBuf};

use super::destinations::DeclaredDestination;
use super::keys::{KEYS, SECTIONS};
use super::{RelayConfig, annotated, load};
use crate::config::Inputs;
use crate::config::declared::Declared as _;

const BEGIN: &str = "<!-- keys: made from crates/handoff/src/config/relay/keys.rs -->\n";
const END: &str = "<!-- end of keys -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn keys() -> String {
    let config = RelayConfig::default();
    let mut page = String::new();
    for (section, doc) in SECTIONS {
        page += &format!("\n### `[{section}]`\n\n{doc}\n\n");
        page += "| key | takes | default | range |\n|---|---|---|---|\n";
        for key in KEYS.iter().filter(|key| key.section == *section) {
            let value = key.kind.toml(&(key.get)(&config));
            let default = value.map_or_else(|| "none".to_owned(), |value| format!("`{value}`"));
            let range = key.kind.range().unwrap_or_default();
            let takes = key.kind.name();
            page += &format!("| `{}`<br>{} | {takes} | {default} | {range} |\n", key.name, key.doc);
        }
    }
    page += "\n### `[[relay.destination]]`\n\nWho is to have everything, one table each.\n\n";
    page += "| key | takes |\n|---|---|\n";
    for key in DeclaredDestination::KEYS {
        page += &format!("| `{}`<br>{} | {} |\n", key.name, key.doc, key.kind.name());
    }
    page + "\n"
}

#[track_caller]
fn compare(path: &str, expected: &str) {
    let path = root().join(path);
    if std::env::var_os("HANDOFF_UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is not what the registry says; HANDOFF_UPDATE=1",
        path.display()
    );
}

#[test]
fn the_file_to_begin_with_has_every_key() {
    compare("deploy/relay.toml", &annotated());
}

#[test]
fn the_page_has_every_key() {
    let page = fs::read_to_string(root().join("docs/relay.md")).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("docs/relay.md has a place for the keys");
    let (_, behind) = rest.split_once(END).expect("the place for the keys ends");
    compare("docs/relay.md", &format!("{before}{BEGIN}{}{END}{behind}", keys()));
}

#[test]
fn the_file_to_begin_with_is_a_configuration_with_every_line_in_force_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("relay.toml");
    fs::write(&path, annotated()).unwrap();
    let inputs = Inputs { file: Some(path.clone()), ..Inputs::default() };
    load(&inputs).unwrap();
    let bare = annotated().lines().fold(String::new(), |text, line| {
        let key =
            line.strip_prefix("# ").filter(|rest| rest.contains(" = ") && !rest.contains('…'));
        let is_key = key
            .is_some_and(|rest| KEYS.iter().any(|key| rest.split(" = ").next() == Some(key.name)));
        text + if is_key { key.unwrap_or(line) } else { line } + "\n"
    });
    fs::write(&path, bare).unwrap();
    load(&inputs).unwrap();
}

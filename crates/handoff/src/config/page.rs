//! `docs/config.md` and `deploy/handoff.toml`, made from the registry and compared with what the
//! repository has.

use std::fs;
use std::path::Path;

use handoff_server::settings::{DeclaredChannel, DeclaredGroup, DeclaredTopic, Settings};

use super::declared::Declared;
use super::keys::{KEYS, SECTIONS};
use super::show::annotated;

fn page() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         `handoff.toml` is looked for as `--config FILE`, `./handoff.toml`, `/etc/handoff/handoff.toml`; without one the\n\
         defaults hold. Precedence: default < file < environment < flag. Every key can be set by a variable\n\
         `HANDOFF_<SECTION>__<KEY>` (`HANDOFF_SERVER__LISTEN=127.0.0.1:8080`) and, with `handoff serve`, by\n\
         `--set section.key=value`. Unknown keys are errors, in the file and in the environment.\n\n\
         - `handoff config check [FILE]` says everything that is wrong, with line and column.\n\
         - `handoff config show` prints the values in force and where each came from.\n\
         - `handoff config show --defaults` prints an annotated file to begin with (`deploy/handoff.toml`).\n\n\
         Times are written `10s`, `1h30m`, `500ms`; a bare number counts in the unit of the key's name. Bytes are written\n\
         `64MiB`, `1GB` or as a number. Relative paths begin in the directory the server is started in. *reload* means that\n\
         SIGHUP (`systemctl reload`) brings a new value in force; the others need a restart.\n\n\
         This page is generated from the registry of keys (`crates/handoff/src/config/keys.rs`); do not edit it.\n",
    );
    let settings = Settings::default();
    for section in SECTIONS {
        page += &format!("\n## `[{}]`\n\n{}\n\n", section.name, section.doc);
        page += "| key | takes | default | range | reload | since |\n|---|---|---|---|---|---|\n";
        for key in KEYS.iter().filter(|key| key.section == section.name) {
            let value = (key.get)(&settings);
            let default = match key.kind.toml(&value) {
                Some(value) => format!("`{value}`"),
                None => key.unset.to_owned(),
            };
            page += &format!(
                "| `{}`<br>{} | {} | {default} | {} | {} | {} |\n",
                key.name,
                key.doc,
                key.kind.name(),
                key.kind.range().unwrap_or_default(),
                if key.reload { "yes" } else { "" },
                key.since,
            );
        }
    }
    page += &table::<DeclaredTopic>("Topics that are made at start if they are not there");
    page += &table::<DeclaredGroup>("Groups that are made at start if they are not there");
    page += &table::<DeclaredChannel>(
        "Channels of calls that are described at start, with what they leave out as `[calls]` has it",
    );
    page
}

fn table<T: Declared>(what: &str) -> String {
    let mut page = format!("\n### `[[{}.{}]]`\n\n{what}, one table each.\n\n", T::SECTION, T::WORD);
    page += "| key | takes | range |\n|---|---|---|\n";
    for key in T::KEYS {
        let range = key.kind.range().unwrap_or_default();
        page += &format!("| `{}`<br>{} | {} | {range} |\n", key.name, key.doc, key.kind.name());
    }
    page
}

#[track_caller]
fn check(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("HANDOFF_UPDATE").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} does not say what the registry says; to write it anew:\n  \
         HANDOFF_UPDATE=1 cargo nextest run -p handoff config::page",
        path.display()
    );
}

#[test]
fn the_page_explains_every_key() {
    check("docs/config.md", &page());
}

#[test]
fn the_example_shows_every_key() {
    check("deploy/handoff.toml", &annotated());
}

//! House style as a test, so that it is argued once.
//!
//! Reads every file that git knows or would take. Words that must not appear are put together from
//! pieces here, or this file would find itself.

use handoff_tests::workspace::{self, assert_faultless};
use handoff_types::Code;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const RUST_LINES_MAX: usize = 800;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"];

/// A file of the repository that people write by hand.
struct Source {
    /// Its path from the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines that are there to test, with their numbers.
    fn lines_for_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.path.starts_with("tests/") || self.path.contains("/tests/");
        let first = if all {
            Some(0)
        } else {
            self.text.lines().position(|line| line.trim() == "#[cfg(test)]")
        };
        numbered(&self.text).skip(first.unwrap_or(usize::MAX))
    }
}

#[test]
fn nothing_is_left_unfinished() {
    let in_rust =
        [["to", "do!("].concat(), ["unimple", "mented!("].concat(), ["#[ig", "nore"].concat()];
    let anywhere = [["FIX", "ME"].concat(), ["XX", "X"].concat()];
    let mut wrong = Vec::new();
    for source in sources() {
        for (number, line) in numbered(&source.text) {
            let unfinished = in_rust.iter().filter(|word| source.is_rust() && line.contains(*word));
            let marked = anywhere.iter().filter(|word| has_word(line, word));
            wrong.extend(
                unfinished.chain(marked).map(|word| {
                    format!("{}:{number}: finish what `{word}` leaves open", source.path)
                }),
            );
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn tests_are_named_for_what_they_promise() {
    let prefix = ["fn te", "st_"].concat();
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust()) {
        for (number, _) in source.lines_for_tests().filter(|(_, line)| line.contains(&prefix)) {
            wrong.push(format!(
                "{}:{number}: name the promise, as in `redelivers_after_lease_expires`",
                source.path
            ));
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn tests_wait_for_the_thing_itself() {
    let words = [["thread::sl", "eep"].concat(), ["sl", "eep("].concat()];
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust()) {
        let sleeping = source
            .lines_for_tests()
            .filter(|(_, line)| words.iter().any(|word| line.contains(word)));
        for (number, _) in sleeping {
            wrong.push(format!(
                "{}:{number}: a pause hopes; wait for the event itself, with a deadline",
                source.path
            ));
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn files_are_named_for_what_they_hold() {
    let empty = |part: &str| {
        let stem = part.split('.').next().unwrap_or(part);
        let noun = stem.rsplit(['_', '-']).next().unwrap_or(stem);
        EMPTY_NAMES.contains(&noun)
    };
    let wrong: Vec<String> = files()
        .iter()
        .filter(|path| path.split('/').any(empty))
        .map(|path| format!("{path}: say the noun it is about"))
        .collect();
    assert_faultless(&wrong);
}

#[test]
fn a_rust_file_holds_one_idea() {
    let wrong: Vec<String> = sources()
        .iter()
        .filter(|source| source.is_rust())
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > RUST_LINES_MAX)
        .map(|(source, lines)| {
            format!("{}: {lines} lines; split it where its ideas part", source.path)
        })
        .collect();
    assert_faultless(&wrong);
}

#[test]
fn a_crate_begins_by_saying_what_it_is() {
    let wrong: Vec<String> = sources()
        .iter()
        .filter(|source| {
            let path = Path::new(&source.path);
            let in_bin = path.parent().is_some_and(|folder| folder.ends_with("src/bin"));
            let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") || in_bin;
            is_root && source.is_rust() && !source.text.starts_with("//!")
        })
        .map(|source| format!("{}: begin with a `//!` that says what it is for", source.path))
        .collect();
    assert_faultless(&wrong);
}

#[test]
fn white_space_is_where_it_means_something() {
    let mut wrong = Vec::new();
    for source in sources() {
        let path = &source.path;
        for (number, line) in numbered(&source.text) {
            if line != line.trim_end() {
                wrong.push(format!("{path}:{number}: white space at the end of the line"));
            }
            if line.trim_start_matches(' ').starts_with('\t') {
                wrong.push(format!("{path}:{number}: indent with spaces"));
            }
        }
        if !source.text.is_empty()
            && (!source.text.ends_with('\n') || source.text.ends_with("\n\n"))
        {
            wrong.push(format!("{path}: end the file with exactly one newline"));
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn every_code_is_explained() {
    let path = workspace::root().join("docs/errors.md");
    let expected = errors_page();
    if std::env::var_os("HANDOFF_UPDATE").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().expect("the page lies in a folder"))
            .and_then(|()| fs::write(&path, &expected))
            .expect("the page can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/errors.md does not say what handoff_types::Code says; to write it anew:\n  \
         HANDOFF_UPDATE=1 cargo nextest run -p handoff-tests every_code_is_explained"
    );
}

/// The page of all codes: what happened (the variant's own doc comment) and what to do.
fn errors_page() -> String {
    let path = workspace::root().join("crates/types/src/code.rs");
    let source = fs::read_to_string(path).expect("codes are in crates/types/src/code.rs");
    let variants = variants(&source);
    let names: Vec<&str> = variants.iter().map(|(name, _)| &**name).collect();
    let all: Vec<String> = Code::ALL.iter().map(|code| format!("{code:?}")).collect();
    assert_eq!(names, all, "Code::ALL must list every code, in the order of the enum");

    let mut page = String::from(
        "# Error codes\n\nEvery refusal and fault carries one of these codes. Programs may match \
         on a code: its text is never\nchanged and never given another meaning.\n\nThis page is \
         generated from `handoff_types::Code`; do not edit it.\n",
    );
    for (code, (name, meaning)) in Code::ALL.iter().zip(&variants) {
        assert!(!meaning.is_empty(), "give Code::{name} a doc comment: it is what users read");
        page += &format!(
            "\n## `{}`\n\n{meaning}\n\n**What to do:** {}.\n",
            code.text(),
            code.remedy().trim_end_matches('.')
        );
    }
    page
}

/// The variants of `Code` in the source, each with its doc comment.
fn variants(source: &str) -> Vec<(String, String)> {
    let body = source.lines().skip_while(|line| !line.starts_with("pub enum Code")).skip(1);
    let mut found = Vec::new();
    let mut meaning = Vec::new();
    for line in body.map(str::trim).take_while(|line| *line != "}") {
        if let Some(doc) = line.strip_prefix("///") {
            meaning.push(doc.trim());
        } else if let Some(name) = line.strip_suffix(',') {
            found.push((name.to_owned(), meaning.join(" ")));
            meaning.clear();
        }
    }
    found
}

/// Every file that git tracks or would track.
fn files() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(workspace::root())
        .output()
        .expect("git can be started");
    assert!(
        output.status.success(),
        "git does not list the files here; run the tests in a clone:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listing = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let files: Vec<String> = listing
        .split('\0')
        .filter(|path| !path.is_empty() && absolute(path).is_file())
        .map(str::to_owned)
        .collect();
    assert!(files.iter().any(|path| path == "Cargo.toml"), "git lists no Cargo.toml: {files:?}");
    files
}

/// The files that people write by hand; not licences, locks, fixtures or what a build made.
fn sources() -> Vec<Source> {
    let by_hand = |path: &String| {
        let written = ["rs", "toml", "md", "sh", "sql", "lua", "proto", "yml", "ts", "tsx", "css"];
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
        let script = path.starts_with("scripts/") || path.starts_with(".ci/");
        let made = path.starts_with("fixtures/") || path.contains("/dist/");
        !made && (script || extension.is_some_and(|extension| written.contains(&extension)))
    };
    files()
        .into_iter()
        .filter(by_hand)
        .map(|path| {
            let text = fs::read_to_string(absolute(&path))
                .unwrap_or_else(|error| panic!("{path} is not text: {error}"));
            Source { path, text }
        })
        .collect()
}

fn absolute(path: &str) -> PathBuf {
    workspace::root().join(path)
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
}

/// Whether a line contains a word that is no part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        let after = line.get(start + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

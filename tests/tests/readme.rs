//! The README's commands are run as they stand there, in their order, against the real binary.
//!
//! A comment above each shell block says how: `<!-- run -->` in a shell whose PATH has the binary
//! and whose server is running; `<!-- serve -->` starts that server; `<!-- not run: WHY -->` is
//! for what builds or takes minutes. A block without such a comment fails.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use handoff_tests::place::Place;
use handoff_tests::prometheus::free;
use handoff_tests::served::{self, PATIENCE, Served};
use handoff_tests::workspace;
use std::fs;
use std::process::{Command, Stdio};

#[derive(Debug, PartialEq, Eq)]
enum How {
    Run,
    Serve,
    NotRun,
}

#[derive(Debug)]
struct Block {
    line: usize,
    how: How,
    text: String,
}

fn blocks(readme: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut how = None;
    let mut open: Option<Block> = None;
    for (number, line) in readme.lines().enumerate() {
        if let Some(block) = &mut open {
            if line == "```" {
                blocks.extend(open.take());
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if line == "```sh" {
            let line = number + 1;
            let how = how.take().unwrap_or_else(|| {
                panic!(
                    "README.md:{line}: say above this block how it is tried: run, serve, not run"
                )
            });
            open = Some(Block { line, how, text: String::new() });
        } else if line == "<!-- run -->" {
            how = Some(How::Run);
        } else if line == "<!-- serve -->" {
            how = Some(How::Serve);
        } else if line.starts_with("<!-- not run: ") {
            how = Some(How::NotRun);
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

#[test]
fn commands_of_the_readme_do_what_it_says() {
    let readme = fs::read_to_string(workspace::root().join("README.md")).unwrap();
    let blocks = blocks(&readme);
    assert!(blocks.iter().any(|block| block.how == How::Serve), "no block starts the server");
    assert!(blocks.iter().any(|block| block.how == How::Run), "no block is run");
    let place = Place::temporary().unwrap();
    let mut served = None;
    for Block { line, how, text } in blocks {
        match how {
            How::NotRun => {}
            How::Serve => {
                assert!(text.contains("serve"), "README.md:{line} starts no server");
                served = Some(Served::start(&served::lair(place.path())).unwrap());
            }
            How::Run => {
                let served = served.as_ref().expect("the server is started first");
                run(line, &text, served, &place);
            }
        }
    }
    served.unwrap().stop().unwrap();
}

/// Runs a block; every command in it must succeed.
fn run(line: usize, text: &str, served: &Served, place: &Place) {
    let programs = served::program();
    let path = format!(
        "{}:{}",
        programs.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    // The README speaks of the usual ports; this server has others.
    let text = text
        .replace("127.0.0.1:7070", &served.http.to_string())
        .replace("127.0.0.1:7071", &served.relay.unwrap().to_string())
        .replace("127.0.0.1:7072", &free().unwrap().to_string())
        .replace("127.0.0.1/5987", &served.events.to_string().replace(':', "/"));
    let output = Command::new("timeout")
        .arg(PATIENCE.as_secs().to_string())
        .args(["bash", "-euo", "pipefail", "-c", &text])
        .env("PATH", path)
        .env("HANDOFF_URL", format!("http://{}", served.http))
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "README.md:{line}: {}\n{text}\n{out}\n{err}", output.status);
}

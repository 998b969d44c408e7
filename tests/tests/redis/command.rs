//! Calls on the command line through Redis, without a server.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use handoff_tests::redis::Server;
use handoff_tests::served::program;
use handoff_tests::workspace;
use serde_json::{Value, json};

fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).args(["--redis", &server.address()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    command(server, arguments).output().unwrap()
}

fn ended(output: &Output, code: i32) -> String {
    let (data, talk) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{talk}");
    String::from_utf8(data.clone()).unwrap()
}

/// A worker that serves.
struct Worker {
    child: Child,
    talk: BufReader<ChildStderr>,
}

impl Worker {
    fn start(server: &Server, arguments: &[&str]) -> Self {
        let mut child = command(server, &[&["worker"], arguments].concat()).spawn().unwrap();
        let mut talk = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        talk.read_line(&mut line).unwrap();
        assert!(line.starts_with("serving "), "{line}");
        Self { child, talk }
    }

    /// What it says until it ends by itself.
    fn ends(mut self) -> String {
        let mut words = String::new();
        self.talk.read_to_string(&mut words).unwrap();
        assert!(self.child.wait().unwrap().success(), "{words}");
        words
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_command_answers_calls_through_redis_alone() {
    let server = Server::start();
    let worker = Worker::start(&server, &["shout", "--exec", "tr a-z A-Z", "--max", "2"]);
    let answer = run(&server, &["call", "shout", "{\"say\": \"hello\"}"]);
    assert_eq!(ended(&answer, 0), "{\"SAY\": \"HELLO\"}\n");
    let answer = run(&server, &["call", "shout", "\"ä\"", "--json"]);
    let answer: Value = serde_json::from_str(&ended(&answer, 0)).unwrap();
    assert_eq!(answer["answer"], json!("ä"));
    assert!(worker.ends().contains("2 calls served"));
    let nobody = run(&server, &["call", "shout", "1", "--only-with-worker"]);
    ended(&nobody, 5);
}

#[test]
fn calls_that_redis_keeps_are_listed_and_shown() {
    let server = Server::start();
    let id = ended(&run(&server, &["call", "later", "{\"n\":1}", "--no-wait"]), 0);
    let id = id.trim();
    let listed = ended(&run(&server, &["calls", "list", "--open"]), 0);
    assert!(listed.starts_with(&format!("{id}\tlater\twaiting\t-\t0\t")), "{listed}");
    let channels = ended(&run(&server, &["calls", "channels"]), 0);
    assert!(channels.starts_with("later\t0\t1\t0\t0\t3\tredeliver"), "{channels}");
    let shown = ended(&run(&server, &["calls", "show", id]), 0);
    assert!(shown.contains("params\t{\"n\":1}") && shown.contains("registered"), "{shown}");

    let fail = ["later", "--exec", "echo no >&2; exit 3", "--max", "3"];
    Worker::start(&server, &fail).ends();
    let shown: Value =
        serde_json::from_str(&ended(&run(&server, &["calls", "show", id, "--json"]), 0)).unwrap();
    assert_eq!((&shown["outcome"], &shown["error"]["code"]), (&json!("error"), &json!("exit_3")));
    let dead = ended(&run(&server, &["calls", "dead", "list"]), 0);
    assert!(dead.starts_with(&format!("{id}\tlater\t3\t")), "{dead}");
    let again = ended(&run(&server, &["calls", "dead", "requeue", id]), 0);
    Worker::start(&server, &["later", "--exec", "cat", "--max", "1"]).ends();
    let shown = ended(&run(&server, &["calls", "show", again.trim()]), 0);
    assert!(shown.contains("answer\t{\"n\":1}"), "{shown}");
    let none = "00000000-0000-4000-8000-000000000001";
    ended(&run(&server, &["calls", "show", none]), 3);
}

#[test]
fn a_redis_that_cannot_be_used_is_said_with_its_exit_code() {
    let mut server = Server::start();
    let both = run(&server, &["call", "a", "1", "--url", "http://127.0.0.1:1"]);
    ended(&both, 2);
    let wrong = Command::new(program())
        .args(["call", "a", "1", "--redis", "redis://u:secret@h:x"])
        .output()
        .unwrap();
    ended(&wrong, 2);
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains("secret"));
    server.kill();
    ended(&run(&server, &["call", "a", "1"]), 5);
    let mut of_variable = Command::new(program());
    of_variable.args(["worker", "a", "--exec", "cat"]).env("HANDOFF_REDIS_URL", server.address());
    ended(&of_variable.output().unwrap(), 5);
}

#[test]
fn what_the_readme_says_of_redis_is_so() {
    let readme = std::fs::read_to_string(workspace::root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("<!-- not run: there is a Redis only where").unwrap();
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let server = Server::start();
    assert!(block.contains("redis://127.0.0.1:6379/0"));
    let block = block.replace("redis://127.0.0.1:6379/0", &server.address());
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program().parent().unwrap().display());
    let ran = Command::new("sh").args(["-e", "-c", &block]).env("PATH", path).output().unwrap();
    let said = ended(&ran, 0);
    assert!(said.contains("\"THROUGH REDIS\"") && said.contains("\tshout\tover\tanswer"), "{said}");
}

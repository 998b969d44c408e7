//! What cargo knows about this workspace: its members, everything below them, and who uses whom.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of the workspace and of everything it depends on, by cargo's package id.
#[derive(Debug)]
pub struct Workspace {
    /// Every package, on every platform, with every feature.
    pub packages: BTreeMap<String, Package>,
}

/// One package.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, as an SPDX expression.
    pub license: Option<String>,
    /// The oldest compiler it supports.
    pub rust_version: Option<String>,
    /// Its edition of the language.
    pub edition: String,
    /// Where it comes from; nothing for a path.
    pub source: Option<String>,
    /// Its `Cargo.toml`.
    pub manifest: PathBuf,
    /// Whether it belongs to this workspace.
    pub is_member: bool,
    /// Names it asks for, whether or not a feature or a platform wants them.
    pub declared: Vec<Dependency>,
    /// Ids of what is linked into it or runs while it is built.
    pub links: BTreeSet<String>,
    /// Of those, what is linked into it.
    pub runs: BTreeSet<String>,
}

/// A name that a package asks for.
#[derive(Debug)]
pub struct Dependency {
    /// The package asked for.
    pub name: String,
    /// Whether only tests, examples and benchmarks ask.
    pub is_dev: bool,
}

/// The directory of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the package of tests lies below the root").to_path_buf()
}

/// Fails with the whole list of faults, unless there are none.
///
/// # Panics
///
/// If there is a fault.
#[track_caller]
pub fn assert_faultless(faults: &[String]) {
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

impl Workspace {
    /// Asks cargo, which must find `Cargo.lock` up to date.
    ///
    /// # Panics
    ///
    /// If cargo fails or answers in a form that is not known.
    #[must_use]
    pub fn read() -> Self {
        let metadata = cargo(&["metadata", "--format-version", "1", "--locked", "--all-features"]);
        let metadata: Value = serde_json::from_slice(&metadata).expect("cargo answers JSON");
        let built = built();
        let members: BTreeSet<&str> =
            list(&metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
        let mut packages: BTreeMap<String, Package> = list(&metadata, "packages")
            .iter()
            .filter(|entry| built.contains(&(text(entry, "name"), text(entry, "version"))))
            .map(|entry| {
                let id = text(entry, "id");
                let package = package(entry, members.contains(id.as_str()));
                (id, package)
            })
            .collect();
        for node in list(metadata.get("resolve").expect("cargo resolves"), "nodes") {
            let Some(user) = packages.get_mut(&text(node, "id")) else { continue };
            let links = list(node, "deps").iter().filter(|dep| is_linked(dep));
            user.links.extend(links.map(|dep| text(dep, "pkg")));
            let runs = list(node, "deps").iter().filter(|dep| has_kind(dep, |kind| kind.is_none()));
            user.runs.extend(runs.map(|dep| text(dep, "pkg")));
        }
        Self { packages }
    }

    /// The packages of this workspace.
    pub fn members(&self) -> impl Iterator<Item = (&String, &Package)> {
        self.packages.iter().filter(|(_, package)| package.is_member)
    }

    /// Everything that these packages link, and they themselves.
    #[must_use]
    pub fn linked_by<'a>(&'a self, ids: impl Iterator<Item = &'a String>) -> BTreeSet<&'a String> {
        self.reached(ids, |package| &package.links)
    }

    /// The same without what only runs while they are built.
    #[must_use]
    pub fn run_by<'a>(&'a self, ids: impl Iterator<Item = &'a String>) -> BTreeSet<&'a String> {
        self.reached(ids, |package| &package.runs)
    }

    fn reached<'a>(
        &'a self,
        ids: impl Iterator<Item = &'a String>,
        next: impl Fn(&'a Package) -> &'a BTreeSet<String>,
    ) -> BTreeSet<&'a String> {
        let mut open: Vec<&String> = ids.collect();
        let mut found = BTreeSet::new();
        while let Some(id) = open.pop() {
            if found.insert(id)
                && let Some(package) = self.packages.get(id)
            {
                open.extend(next(package));
            }
        }
        found
    }
}

/// What is built for some platform, by name and version. The metadata also list what only a
/// feature that nobody has asked for would bring.
fn built() -> BTreeSet<(String, String)> {
    let every = ["--workspace", "--all-features", "--target", "all", "--edges", "normal,build,dev"];
    let plain = ["--prefix", "none", "--format", "{p}", "--locked"];
    let tree = cargo(&[&["tree"], &every[..], &plain[..]].concat());
    String::from_utf8_lossy(&tree)
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
        })
        .collect()
}

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root()).output();
    let output = output.expect("cargo can be started");
    assert!(
        output.status.success(),
        "cargo {arguments:?} failed; if Cargo.lock is out of date, run `cargo check`:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

fn package(entry: &Value, is_member: bool) -> Package {
    let declared = list(entry, "dependencies")
        .iter()
        .map(|dependency| Dependency {
            name: text(dependency, "name"),
            is_dev: optional(dependency, "kind").as_deref() == Some("dev"),
        })
        .collect();
    Package {
        name: text(entry, "name"),
        version: text(entry, "version"),
        license: optional(entry, "license"),
        rust_version: optional(entry, "rust_version"),
        edition: text(entry, "edition"),
        source: optional(entry, "source"),
        manifest: text(entry, "manifest_path").into(),
        is_member,
        declared,
        links: BTreeSet::new(),
        runs: BTreeSet::new(),
    }
}

fn is_linked(dependency: &Value) -> bool {
    has_kind(dependency, |kind| kind != Some("dev"))
}

fn has_kind(dependency: &Value, is: impl Fn(Option<&str>) -> bool) -> bool {
    list(dependency, "dep_kinds").iter().any(|kind| is(optional(kind, "kind").as_deref()))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let found = value.get(key).and_then(Value::as_array);
    found.unwrap_or_else(|| panic!("cargo metadata has no list {key}"))
}

fn text(value: &Value, key: &str) -> String {
    optional(value, key).unwrap_or_else(|| panic!("cargo metadata has no text {key}"))
}

fn optional(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

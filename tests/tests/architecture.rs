//! The drawing of the house, as a test: which package may use which, what comes from outside, and
//! under which licence. An arrow that is not drawn does not exist.

use handoff_tests::workspace::{self, Package, Workspace, assert_faultless};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// A package and the packages of this workspace that it may use. `dev` is what only its tests may
/// use besides.
struct Row {
    package: &'static str,
    uses: &'static [&'static str],
    dev: &'static [&'static str],
}

const fn row(package: &'static str, uses: &'static [&'static str]) -> Row {
    Row { package, uses, dev: &[] }
}

/// The whole drawing, also of packages that are still to be built.
const DRAWING: &[Row] = &[
    row("handoff-types", &[]),
    row("handoff-log", &["handoff-types"]),
    row("handoff-streams", &["handoff-types"]),
    row("handoff-exchange", &["handoff-types"]),
    row("handoff-calls", &["handoff-types"]),
    row("handoff-events", &["handoff-types"]),
    row("handoff-house", &["handoff-types"]),
    row("handoff-sevent", &[]),
    row("handoff-relay", &["handoff-types", "handoff-log"]),
    row("handoff-relay-agent", &["handoff-types", "handoff-log", "handoff-relay"]),
    row(
        "handoff-store-embedded",
        &[
            "handoff-types",
            "handoff-log",
            "handoff-streams",
            "handoff-exchange",
            "handoff-calls",
            "handoff-events",
            "handoff-house",
            "handoff-relay",
        ],
    ),
    row("handoff-store-postgres", &["handoff-types", "handoff-streams"]),
    row("handoff-store-redis", &["handoff-types", "handoff-calls"]),
    row(
        "handoff-sdk",
        &["handoff-types", "handoff-calls", "handoff-sevent", "handoff-store-redis"],
    ),
    row("handoff-bridge", &["handoff-sdk"]),
    row("handoff-example-orders", &["handoff-sdk"]),
    row(
        "handoff-server",
        &[
            "handoff-types",
            "handoff-log",
            "handoff-streams",
            "handoff-exchange",
            "handoff-calls",
            "handoff-events",
            "handoff-house",
            "handoff-relay",
            "handoff-sevent",
            "handoff-store-embedded",
            "handoff-store-postgres",
            "handoff-store-redis",
        ],
    ),
    row("handoff-probe", &[]),
    row(
        "handoff-bench",
        &[
            "handoff-types",
            "handoff-log",
            "handoff-probe",
            "handoff-relay",
            "handoff-sdk",
            "handoff-sevent",
        ],
    ),
    row(
        "handoff",
        &[
            "handoff-types",
            "handoff-log",
            "handoff-server",
            "handoff-relay",
            "handoff-relay-agent",
            "handoff-sdk",
            "handoff-bridge",
            "handoff-bench",
        ],
    ),
    row(
        "handoff-sim",
        &[
            "handoff-types",
            "handoff-log",
            "handoff-streams",
            "handoff-exchange",
            "handoff-calls",
            "handoff-events",
            "handoff-house",
            "handoff-relay",
            "handoff-relay-agent",
            "handoff-store-embedded",
        ],
    ),
    row("handoff-tests", ANYTHING),
];

const ANYTHING: &[&str] = &["*"];

/// Packages that decide. They are told the time and the dice, and never wait.
const DECIDERS: &[&str] = &[
    "handoff-types",
    "handoff-streams",
    "handoff-exchange",
    "handoff-calls",
    "handoff-events",
    "handoff-house",
    "handoff-sevent",
    "handoff-log",
];

/// What other people's programs link. It is content with an older compiler.
const FOR_CLIENTS: &[&str] = &["handoff-sevent"];

/// What no decider may link, however far below.
const NOT_FOR_DECIDERS: &[(&str, &str)] = &[
    ("tokio", "waiting belongs to the shell: server, store or relay agent"),
    ("axum", "HTTP belongs to the server"),
    ("rand", "dice are an argument: take an Entropy"),
    ("getrandom", "dice are an argument: take an Entropy"),
    ("chrono", "time is an argument: take a Now"),
    ("serde_json", "JSON is a wire's word: translate in the server"),
];

/// What the agent at the edge must build without.
const NOT_FOR_RELAY: &[(&str, &str)] = &[
    ("axum", "the agent stays small"),
    ("tokio-postgres", "the agent stays small"),
    ("redis", "the agent stays small"),
];

/// All that `handoff-types` may take from outside.
const FOR_TYPES: &[&str] = &["bytes", "serde", "thiserror", "uuid"];

/// Crates that are not wanted anywhere, not even below a test.
const BANNED: &[(&str, &str)] = &[
    ("async-std", "discontinued; tokio is the one runtime"),
    ("bincode", "its last release does not compile, on purpose"),
    ("chrono", "jiff knows time zones; one clock library is enough"),
    ("fail", "a global registry of failpoints breaks parallel tests"),
    ("native-tls", "TLS is rustls on every listener"),
    ("openssl-sys", "TLS is rustls on every listener; a C library ends the static binary"),
    ("ring", "rustls has one provider here, aws-lc-rs; two of them panic at start"),
    ("sled", "storage is handoff-log"),
    ("sqlx", "a cancelled begin() hands a connection inside a transaction back to the pool"),
];

/// Crates that are there in more than one version, and why that cannot be helped today.
const DOUBLES: &[(&str, &str)] = &[
    ("syn", "zerocopy-derive is still on 2; build time only"),
    (
        "wasi",
        "whoami, below tokio-postgres, is on another; for WebAssembly only, which is not built",
    ),
];

/// Licences that need nothing from a user but a notice.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[test]
fn arrows_that_are_not_drawn_do_not_exist() {
    let workspace = Workspace::read();
    let names: BTreeSet<&str> = workspace.members().map(|(_, member)| &*member.name).collect();
    let mut wrong = Vec::new();
    for (_, member) in workspace.members() {
        let Some(row) = DRAWING.iter().find(|row| row.package == member.name) else {
            wrong.push(format!(
                "{} is not in the drawing: give it a row in DRAWING ({}) and a place in ARCHITECTURE.md",
                member.name,
                file!()
            ));
            continue;
        };
        for asked in member.declared.iter().filter(|asked| names.contains(&*asked.name)) {
            let allowed = [row.uses, if asked.is_dev { row.dev } else { &[] }].concat();
            // A package's tests may ask for more features of itself.
            let own = asked.is_dev && asked.name == member.name;
            if allowed != ANYTHING && !own && !allowed.contains(&&*asked.name) {
                wrong.push(format!(
                    "{} may not use {}{}: move the code to the room it belongs to; if the design \
                     itself changes, draw the arrow in DRAWING ({}) and in ARCHITECTURE.md",
                    member.name,
                    asked.name,
                    if asked.is_dev { " in its tests" } else { "" },
                    file!()
                ));
            }
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn drawing_speaks_of_packages_that_are_drawn_and_has_no_circle() {
    let mut drawn: Vec<&str> = Vec::new();
    for row in DRAWING.iter().filter(|row| row.uses != ANYTHING) {
        for used in row.uses.iter().chain(row.dev) {
            assert!(
                drawn.contains(used),
                "{} uses {used}, which has no row above it: rows stand in the order of the house, \
                 lowest first",
                row.package
            );
        }
        assert!(!drawn.contains(&row.package), "{} has two rows", row.package);
        drawn.push(row.package);
    }
}

#[test]
fn deciders_link_no_runtime_no_clock_no_dice() {
    let workspace = Workspace::read();
    let mut wrong = Vec::new();
    for decider in DECIDERS {
        wrong.extend(links_of(&workspace, decider, NOT_FOR_DECIDERS));
    }
    assert_faultless(&wrong);
}

#[test]
fn relay_agent_links_no_server() {
    let workspace = Workspace::read();
    let mut wrong = links_of(&workspace, "handoff-relay", NOT_FOR_RELAY);
    wrong.extend(links_of(&workspace, "handoff-relay-agent", NOT_FOR_RELAY));
    assert_faultless(&wrong);
}

#[test]
fn types_take_only_a_handful_from_outside() {
    let workspace = Workspace::read();
    let types = member(&workspace, "handoff-types").expect("there is a package of types");
    let wrong: Vec<String> = types
        .declared
        .iter()
        .filter(|asked| !asked.is_dev && !FOR_TYPES.contains(&&*asked.name))
        .map(|asked| {
            format!(
                "handoff-types may not use {}: every room would pay for it; keep it in the one \
                 room that needs it",
                asked.name
            )
        })
        .collect();
    assert_faultless(&wrong);
}

#[test]
fn banned_crates_are_nowhere() {
    let workspace = Workspace::read();
    let mut wrong = Vec::new();
    for package in workspace.packages.values() {
        for (name, reason) in BANNED.iter().filter(|(name, _)| *name == package.name) {
            wrong.push(format!(
                "{name} is banned: {reason}; `cargo tree -i {name} -e all` shows who brings it"
            ));
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn a_crate_is_there_once_or_has_an_excuse() {
    let workspace = Workspace::read();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in workspace.packages.values() {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let doubles: BTreeMap<&str, Vec<&str>> =
        versions.into_iter().filter(|(_, versions)| versions.len() > 1).collect();
    let mut wrong = Vec::new();
    for (name, versions) in &doubles {
        if !DOUBLES.iter().any(|(excused, _)| excused == name) {
            wrong.push(format!(
                "{name} is there as {}: `cargo tree -d` shows who brings each; choose versions \
                 that agree, or excuse it in DOUBLES ({}) with the reason",
                versions.join(" and "),
                file!()
            ));
        }
    }
    for (name, reason) in DOUBLES.iter().filter(|(name, _)| !doubles.contains_key(name)) {
        wrong.push(format!(
            "{name} is there once now ({reason}): take it out of DOUBLES ({})",
            file!()
        ));
    }
    assert_faultless(&wrong);
}

#[test]
fn what_comes_from_outside_is_published_and_freely_licensed() {
    let workspace = Workspace::read();
    let mut wrong = Vec::new();
    for package in workspace.packages.values().filter(|package| !package.is_member) {
        let Package { name, version, license, source, .. } = package;
        if !source.as_deref().is_some_and(|source| source.starts_with("registry+")) {
            wrong.push(format!(
                "{name} {version} comes from {}: depend on a published version",
                source.as_deref().unwrap_or("a folder outside the workspace")
            ));
        }
        match license {
            Some(expression) if permits(expression) => {}
            Some(expression) => wrong.push(format!(
                "{name} {version} is under {expression}: choose another crate, or, if the licence \
                 asks for no more than a notice, add it to LICENCES ({})",
                file!()
            )),
            None => {
                wrong.push(format!("{name} {version} names no SPDX licence: choose another crate"))
            }
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    for good in [
        "MIT",
        "MIT OR Apache-2.0",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(MIT OR GPL-2.0-only) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(permits(good), "{good} is free to use");
    }
    for bad in [
        "",
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "MIT AND (GPL-2.0-only OR LGPL-2.1-only)",
        "Apache-2.0 WITH Unknown-exception",
        "MIT OR",
        "(MIT",
        "MIT Apache-2.0",
    ] {
        assert!(!permits(bad), "{bad:?} must be refused");
    }
}

#[test]
fn members_share_one_licence_one_compiler_one_edition() {
    let root = workspace::root();
    let mut wrong = Vec::new();
    for (_, member) in Workspace::read().members() {
        let found = (member.license.as_deref(), member.rust_version.as_deref(), &*member.edition);
        let compiler = if FOR_CLIENTS.contains(&&*member.name) { "1.85" } else { "1.95" };
        if found != (Some("MIT OR Apache-2.0"), Some(compiler), "2024") {
            wrong.push(format!(
                "{} has {found:?}: write license.workspace, edition.workspace and, with \
                 {compiler}, rust-version",
                member.name
            ));
        }
    }
    for file in ["rust-toolchain", "rust-toolchain.toml"] {
        if root.join(file).exists() {
            wrong.push(format!("remove {file}: rust-version names the compiler, nothing pins it"));
        }
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        if !root.join(file).exists() {
            wrong.push(format!("{file} is missing"));
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn versions_stand_in_the_workspace_table_only() {
    let mut wrong = Vec::new();
    for (_, member) in Workspace::read().members() {
        let manifest = fs::read_to_string(&member.manifest).expect("a member has a manifest");
        wrong.extend(
            manifest_faults(&manifest).into_iter().map(|fault| format!("{}: {fault}", member.name)),
        );
    }
    assert_faultless(&wrong);
}

#[test]
fn a_version_in_a_members_manifest_is_found() {
    let lints = "[lints]\nworkspace = true\n";
    let check = |manifest: &str, faults: usize| {
        assert_eq!(manifest_faults(&format!("{manifest}\n{lints}")).len(), faults, "{manifest}");
    };
    check("[package]\nname = \"x\"\n[dependencies]\nbytes.workspace = true # why", 0);
    check("[dev-dependencies]\nbytes = { workspace = true, features = [\"serde\"] }", 0);
    check("[dependencies]\nbytes = \"1\"", 1);
    check("[target.'cfg(unix)'.dependencies]\nrustix = { version = \"1\" }", 1);
    check("[build-dependencies.cc]\nversion = \"1\"", 1);
    assert_eq!(manifest_faults("[package]\nname = \"x\"").len(), 1, "lints must be the house's");
}

#[test]
fn bill_of_materials_names_licence_and_checksum_of_everything_shipped() {
    let output = Command::new(env!("CARGO_BIN_EXE_sbom")).output().expect("sbom can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bill: Value = serde_json::from_slice(&output.stdout).expect("the bill is JSON");
    let parts = bill["components"].as_array().expect("the bill has components");
    let names: BTreeSet<&str> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
    assert!(names.contains("handoff-log") && names.contains("bytes"), "missing in {names:?}");
    assert!(!names.contains("proptest"), "what only tests use is not shipped");
    let bare: Vec<String> = parts
        .iter()
        .filter(|part| {
            let ours = part["name"].as_str().is_some_and(|name| name.starts_with("handoff"));
            part["licenses"][0].is_null() || (part["hashes"][0].is_null() && !ours)
        })
        .map(|part| format!("{} has no licence or no checksum in Cargo.lock", part["name"]))
        .collect();
    assert_faultless(&bare);
}

fn member<'a>(workspace: &'a Workspace, name: &str) -> Option<&'a Package> {
    workspace.members().map(|(_, member)| member).find(|member| member.name == name)
}

/// What a member links, directly or not, of the crates it must not. A member that does not exist
/// yet links nothing.
fn links_of(workspace: &Workspace, name: &str, unwanted: &[(&str, &str)]) -> Vec<String> {
    let ids = workspace.members().filter(|(_, member)| member.name == name).map(|(id, _)| id);
    let linked = workspace.run_by(ids);
    let linked: BTreeSet<&str> = linked
        .into_iter()
        .filter_map(|id| workspace.packages.get(id))
        .map(|package| &*package.name)
        .collect();
    unwanted
        .iter()
        .filter(|(crate_name, _)| linked.contains(crate_name))
        .map(|(crate_name, reason)| {
            format!(
                "{name} links {crate_name}: {reason}; `cargo tree -p {name} -e normal -i \
                 {crate_name}` shows the way"
            )
        })
        .collect()
}

/// What a member's manifest says that the workspace should say.
fn manifest_faults(manifest: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut section = "";
    let mut house_lints = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            if section.contains("dependencies.") {
                faults.push(format!(
                    "write the dependency of [{section}] on one line, with `workspace = true`"
                ));
            }
            continue;
        }
        let statement = line.split('#').next().unwrap_or_default().trim();
        if statement.is_empty() {
            continue;
        }
        if section == "lints" && statement == "workspace = true" {
            house_lints = true;
        }
        if section.ends_with("dependencies") && !statement.contains("workspace = true") {
            faults.push(format!(
                "`{statement}`: put the version into [workspace.dependencies] of the root and \
                 write `workspace = true` here"
            ));
        }
    }
    if !house_lints {
        faults.push("add [lints] with `workspace = true`".to_owned());
    }
    faults
}

/// Whether an SPDX expression can be met with licences of the list alone.
fn permits(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words) == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>) -> Option<bool> {
    let mut permitted = all_of(words)?;
    while words.next_if_eq(&"OR").is_some() {
        permitted |= all_of(words)?;
    }
    Some(permitted)
}

fn all_of(words: &mut Words<'_>) -> Option<bool> {
    let mut permitted = one_of(words)?;
    while words.next_if_eq(&"AND").is_some() {
        permitted &= one_of(words)?;
    }
    Some(permitted)
}

fn one_of(words: &mut Words<'_>) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let permitted = any_of(words)?;
        return words.next_if_eq(&")").map(|_| permitted);
    }
    let licence = match words.next_if_eq(&"WITH") {
        Some(with) => format!("{word} {with} {}", words.next()?),
        None => word.to_owned(),
    };
    Some(LICENCES.contains(&licence.as_str()))
}

//! Prints the bill of materials of what Handoff ships: CycloneDX 1.5, JSON, on stdout.
//!
//! Shipped is what the packages under `crates/` and `sdk/` link or run while they are built, on
//! any platform and with any feature; test dependencies are not. Equal sources print equal bytes.

use handoff_tests::workspace::{self, Package, Workspace};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

fn main() -> std::io::Result<()> {
    let root = workspace::root();
    let workspace = Workspace::read();
    let checksums = checksums(&std::fs::read_to_string(root.join("Cargo.lock"))?);
    let shipped = workspace.members().filter(|(_, member)| {
        ["crates", "sdk"].iter().any(|folder| member.manifest.starts_with(root.join(folder)))
    });
    let linked = workspace.linked_by(shipped.map(|(id, _)| id));
    let parts: Vec<&Package> =
        linked.into_iter().filter_map(|id| workspace.packages.get(id)).collect();
    let version = parts.iter().find(|part| part.is_member).map(|part| part.version.as_str());
    let components: Vec<Value> = parts.iter().map(|part| component(part, &checksums)).collect();
    let dependencies: Vec<Value> = parts
        .iter()
        .map(|part| {
            let uses = part.links.iter().filter_map(|id| workspace.packages.get(id));
            json!({ "ref": url(part), "dependsOn": uses.map(url).collect::<Vec<_>>() })
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": { "type": "application", "name": "handoff", "version": version },
        },
        "components": components,
        "dependencies": dependencies,
    });
    writeln!(std::io::stdout().lock(), "{bill:#}")
}

fn component(part: &Package, checksums: &BTreeMap<(String, String), String>) -> Value {
    // Cargo still accepts the slash of old manifests; SPDX does not.
    let licence =
        part.license.iter().map(|text| json!({ "expression": text.replace('/', " OR ") }));
    let checksum = checksums.get(&(part.name.clone(), part.version.clone()));
    let hash = checksum.iter().map(|hex| json!({ "alg": "SHA-256", "content": hex }));
    json!({
        "type": "library",
        "bom-ref": url(part),
        "name": part.name,
        "version": part.version,
        "purl": url(part),
        "licenses": licence.collect::<Vec<_>>(),
        "hashes": hash.collect::<Vec<_>>(),
    })
}

fn url(part: &Package) -> String {
    format!("pkg:cargo/{}@{}", part.name, part.version)
}

/// Reads the checksums of `Cargo.lock` by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let entries = lock.split("[[package]]");
    entries
        .filter_map(|entry| {
            let field = |name: &str| {
                let prefix = format!("{name} = \"");
                let value = entry.lines().find_map(|line| line.strip_prefix(&prefix))?;
                value.strip_suffix('"').map(str::to_owned)
            };
            Some(((field("name")?, field("version")?), field("checksum")?))
        })
        .collect()
}

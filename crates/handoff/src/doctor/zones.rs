//! The database of time zones: ours is built in, the system's may know more.

use std::fs;

use handoff_server::http::time_zone_database;

use super::Finding;

/// Where systems say which version they have.
const PLACES: [(&str, &str); 2] =
    [("/usr/share/zoneinfo/tzdata.zi", "# version "), ("/usr/share/zoneinfo/+VERSION", "")];

/// Compares the versions.
pub(super) fn check() -> Finding {
    let system = PLACES.iter().find_map(|(path, before)| {
        let text = fs::read_to_string(path).ok()?;
        Some(text.lines().next()?.strip_prefix(before)?.trim().to_owned())
    });
    compared(time_zone_database(), system.as_deref())
}

fn compared(ours: &str, system: Option<&str>) -> Finding {
    const CHECK: &str = "time zones";
    match system {
        // Versions are a year and a letter: 2026a, 2026b.
        Some(system) if system > ours => {
            let what = format!("the bundled database is {ours}, the system has {system}");
            Finding::warn(CHECK, what, "rules may have changed since; update handoff")
        }
        Some(system) => Finding::ok(CHECK, format!("bundled {ours}, the system has {system}")),
        None => {
            Finding::ok(CHECK, format!("bundled {ours}; the system has none, and none is needed"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::compared;
    use crate::doctor::Verdict;

    #[test]
    fn a_system_that_knows_newer_rules_is_told() {
        assert_eq!(compared("2026a", Some("2026b")).verdict, Verdict::Warn);
        assert_eq!(compared("2026b", Some("2026b")).verdict, Verdict::Ok);
        assert_eq!(compared("2026b", Some("2024a")).verdict, Verdict::Ok);
        assert_eq!(compared("2026b", None).verdict, Verdict::Ok);
    }
}

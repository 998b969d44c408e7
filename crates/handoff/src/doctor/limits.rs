//! What the system lets a process have, and what the doors are made of.

use handoff_server::settings::Settings;
use handoff_server::tls::Certificates;
use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::config::open_doors;

/// Files that are open besides connections and segments: journal, listeners, logs.
const OTHERS: u64 = 128;

/// How many files a server with these settings may have open at once.
pub(crate) fn files_needed(settings: &Settings) -> u64 {
    let sessions = if settings.events.enabled { settings.events.sessions_max } else { 0 };
    let agents = if settings.relay.enabled { settings.relay.sessions_max } else { 0 };
    let segments = settings.log.limits.segment_files_open_max;
    let counts = [settings.server.connections_max, sessions, agents, segments];
    counts.into_iter().map(|count| count as u64).sum::<u64>() + OTHERS
}

/// The limit of open files. `serve` raises its own as far as the hard limit lets it.
pub(super) fn open_files(settings: &Settings) -> Option<Finding> {
    const CHECK: &str = "open files";
    let needed = files_needed(settings);
    let limit = getrlimit(Resource::Nofile).maximum;
    let what = |limit: &str| {
        format!(
            "{limit} may be open, {needed} are the most these settings ask for (server.connections_max, events.sessions_max, relay.sessions_max, log.segment_files_open_max)"
        )
    };
    Some(match limit {
        Some(limit) if limit < needed => Finding::warn(
            CHECK,
            what(&limit.to_string()),
            "raise the hard limit (LimitNOFILE= of the unit, ulimit -Hn), or lower the keys",
        ),
        Some(limit) => Finding::ok(CHECK, what(&limit.to_string())),
        None => Finding::ok(CHECK, what("any number")),
    })
}

/// Who can reach the doors, and what they must show.
pub(super) fn doors(settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "auth";
    let mut findings = Vec::new();
    let open = open_doors(settings);
    if settings.auth.enabled {
        findings.push(Finding::ok(CHECK, "every caller shows a token"));
    } else {
        findings.push(Finding::ok(CHECK, "off: only this machine can reach the listeners"));
    }
    for (key, address) in open {
        let plain = match key {
            "events.listen" => !settings.events.tls,
            "relay.listen" => !settings.relay.tls,
            _ => settings.server.tls.is_none(),
        };
        if plain {
            let what = format!(
                "{key} = {address} is not on loopback and without TLS: tokens can be read on the way"
            );
            findings.push(Finding::warn("TLS", what, "set server.tls_cert_file and server.tls_key_file (and events.tls, relay.tls), or let a proxy do it"));
        }
    }
    if let Some(tls) = &settings.server.tls {
        findings.push(match Certificates::load(tls) {
            Ok(_) => Finding::ok("TLS", format!("{} and its key fit", tls.cert_file.display())),
            Err(error) => {
                let remedy = "mend what is said; the certificate is read again on SIGHUP";
                Finding::fail("TLS", error.to_string(), remedy)
            }
        });
    }
    if settings.auth.bootstrap_token_file.is_some() && !settings.auth.enabled {
        let what = "auth.bootstrap_token_file is set and auth.enabled is false: it does nothing";
        findings.push(Finding::warn(CHECK, what, "set auth.enabled = true, or take the file out"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Settings, doors, files_needed};
    use crate::doctor::Verdict;
    use handoff_server::settings::Tls;

    #[test]
    fn a_token_that_travels_in_the_clear_is_told() {
        let mut settings = Settings::default();
        assert!(doors(&settings).iter().all(|finding| finding.verdict == Verdict::Ok));
        settings.auth.enabled = true;
        settings.server.listen = "0.0.0.0:7070".parse().unwrap();
        let found = doors(&settings);
        assert!(found.iter().any(|finding| finding.what.contains("without TLS")), "{found:?}");
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_told() {
        let mut settings = Settings::default();
        let tls =
            Tls { cert_file: "/nowhere/cert.pem".into(), key_file: "/nowhere/key.pem".into() };
        settings.server.tls = Some(tls);
        let found = doors(&settings);
        let bad = found.iter().find(|finding| finding.verdict == Verdict::Fail).unwrap();
        assert!(bad.what.contains("/nowhere/cert.pem"), "{bad:?}");
    }

    #[test]
    fn a_room_that_is_off_needs_no_files() {
        let mut settings = Settings::default();
        let with = files_needed(&settings);
        settings.events.enabled = false;
        assert_eq!(with - files_needed(&settings), settings.events.sessions_max as u64);
    }
}

//! What keys ask of each other.

use std::net::SocketAddr;

use handoff_server::settings::Settings;
use handoff_server::telemetry::LogHandle;
use handoff_types::Code;

use super::bytes;
use super::problem::Problem;

/// Everything that is wrong between keys that are each right.
pub(crate) fn check(settings: &Settings) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut wrong = |what: String, help: &str| {
        problems.push(Problem::new(None, what, Some(help.to_owned())));
    };
    if let Some(tls) = &settings.server.tls {
        if tls.key_file.as_os_str().is_empty() {
            wrong(
                "server.tls_cert_file is set without server.tls_key_file".to_owned(),
                "name the file of its private key, or take both out",
            );
        }
        if tls.cert_file.as_os_str().is_empty() {
            wrong(
                "server.tls_key_file is set without server.tls_cert_file".to_owned(),
                "name the file of the certificate, or take both out",
            );
        }
    }
    // The log itself says what a level is; one that nobody writes to can be asked without a log.
    if let Err(error) = LogHandle::silent().set_level(&settings.server.log_level) {
        wrong(format!("server.log_level: {error}"), "choose one of them");
    }
    let events = &settings.events;
    if events.enabled && events.listen == settings.server.listen && events.listen.port() != 0 {
        wrong(
            format!("server.listen and events.listen are both {}", events.listen),
            "give each its own port",
        );
    }
    let relay = &settings.relay;
    if relay.enabled && relay.listen.port() != 0 {
        for (key, other) in [("server", settings.server.listen), ("events", events.listen)] {
            if relay.listen == other && (key == "server" || events.enabled) {
                wrong(
                    format!("{key}.listen and relay.listen are both {other}"),
                    "give each its own port",
                );
            }
        }
    }
    let limits = &settings.log.limits;
    if limits.journal_bytes_max / 3 < limits.journal_file_bytes {
        wrong(
            format!(
                "log.journal_bytes_max ({}) has no space for three files of log.journal_file_bytes ({})",
                bytes::show(limits.journal_bytes_max),
                bytes::show(limits.journal_file_bytes)
            ),
            "make the ring larger or its files smaller",
        );
    }
    let kept = limits.journal_reserve_bytes.saturating_add(limits.change_bytes_max);
    if kept > limits.journal_bytes_max {
        wrong(
            format!(
                "log.journal_bytes_max ({}) is below log.journal_reserve_bytes ({}) and log.change_bytes_max ({}) together",
                bytes::show(limits.journal_bytes_max),
                bytes::show(limits.journal_reserve_bytes),
                bytes::show(limits.change_bytes_max)
            ),
            "make the ring larger, or lower one of the other two: the largest change must fit beside the reserve",
        );
    }
    let exchange = &settings.exchange;
    if exchange.message_bytes_max > exchange.request_bytes_max {
        wrong(
            format!(
                "exchange.message_bytes_max ({}) is above exchange.request_bytes_max ({})",
                bytes::show(exchange.message_bytes_max as u64),
                bytes::show(exchange.request_bytes_max as u64)
            ),
            "no such message could be sent: raise the latter or lower the former",
        );
    }
    let calls = &settings.calls;
    if let Err(words) = calls.channel.check() {
        wrong(format!("channels as [calls] has them cannot be: {words}"), "change one of the two");
    }
    for one in &calls.channels {
        if let Err(words) = one.settings(&calls.channel).check() {
            wrong(
                format!("the channel `{}` cannot be: {words}", one.name),
                "what [[calls.channel]] does not say is as [calls] has it",
            );
        }
    }
    problems.extend(without_certificate(settings));
    problems.extend(without_lock(settings));
    problems
}

/// TLS that has nothing to show. The server would refuse it with the same code.
fn without_certificate(settings: &Settings) -> Option<Problem> {
    let events = &settings.events;
    (events.enabled && events.tls && settings.server.tls.is_none()).then(|| Problem {
        at: None,
        what: "events.tls is on and there is no certificate".to_owned(),
        help: Some(
            "set server.tls_cert_file and server.tls_key_file, or events.tls = false".to_owned(),
        ),
        code: Code::CertificateUnusable,
    })
}

/// Doors that others can reach and that ask for no tokens. The server would refuse them with the
/// same code.
fn without_lock(settings: &Settings) -> Vec<Problem> {
    const HELP: &str = "set auth.enabled = true (`handoff token create --name first --scope admin --data-dir DIR` makes the first token), or listen on 127.0.0.1";
    if settings.auth.enabled {
        return Vec::new();
    }
    let problem = |(key, address): (&str, SocketAddr)| Problem {
        at: None,
        what: format!("{key} = {address} is not on loopback and auth.enabled is false"),
        help: Some(HELP.to_owned()),
        code: Code::AuthRequired,
    };
    open_doors(settings).into_iter().map(problem).collect()
}

/// Listeners that others than this machine can reach.
pub(crate) fn open_doors(settings: &Settings) -> Vec<(&'static str, SocketAddr)> {
    let mut doors = vec![("server.listen", settings.server.listen)];
    if settings.events.enabled {
        doors.push(("events.listen", settings.events.listen));
    }
    if settings.relay.enabled {
        doors.push(("relay.listen", settings.relay.listen));
    }
    doors.retain(|(_, address)| !address.ip().to_canonical().is_loopback());
    doors
}

#[cfg(test)]
mod tests {
    use super::{Settings, check};
    use handoff_server::settings::{DeclaredChannel, Tls};
    use handoff_types::Span;

    #[track_caller]
    fn one(change: impl FnOnce(&mut Settings), words: &str) {
        let mut settings = Settings::default();
        change(&mut settings);
        let found = check(&settings);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains(words), "{}", found[0]);
    }

    #[test]
    fn a_channel_begins_with_what_calls_has() {
        let declared = || DeclaredChannel::named("pay".parse().unwrap());
        let long = |settings: &mut Settings| {
            settings.calls.channel.backoff_max = Span::from_secs(1);
            let backoff_min = Some(Span::from_secs(2));
            settings.calls.channels = vec![DeclaredChannel { backoff_min, ..declared() }];
        };
        one(long, "the channel `pay` cannot be: backoff_min is not above backoff_max");
        let wrong = |settings: &mut Settings| {
            settings.calls.channel.backoff_max = Span::ZERO;
        };
        one(wrong, "channels as [calls] has them cannot be: backoff_min is not above backoff_max");
    }

    #[test]
    fn the_defaults_agree_with_each_other() {
        assert_eq!(check(&Settings::default()), []);
    }

    #[test]
    fn half_a_certificate_is_refused() {
        let tls = |cert: &str, key: &str| Tls { cert_file: cert.into(), key_file: key.into() };
        one(|settings| settings.server.tls = Some(tls("c", "")), "without server.tls_key_file");
        one(|settings| settings.server.tls = Some(tls("", "k")), "without server.tls_cert_file");
    }

    #[test]
    fn tls_without_a_certificate_is_refused() {
        one(|settings| settings.events.tls = true, "no certificate");
    }

    #[test]
    fn a_door_to_the_network_needs_a_lock() {
        let everywhere = "0.0.0.0:7070".parse().unwrap();
        one(|settings| settings.server.listen = everywhere, "auth.enabled is false");
        one(|settings| settings.events.listen = "[::]:5987".parse().unwrap(), "events.listen");
        let mut settings = Settings::default();
        settings.server.listen = everywhere;
        settings.auth.enabled = true;
        assert_eq!(check(&settings), []);
        settings.server.listen = "[::ffff:127.0.0.1]:7070".parse().unwrap();
        settings.auth.enabled = false;
        assert_eq!(check(&settings), [], "loopback, however it is written");
        settings.events.listen = everywhere;
        settings.events.enabled = false;
        assert_eq!(check(&settings), [], "a door that is not there needs no lock");
    }

    #[test]
    fn two_listeners_need_two_ports() {
        one(|settings| settings.events.listen = settings.server.listen, "both 127.0.0.1:7070");
    }

    #[test]
    fn a_ring_without_space_for_its_reserve_is_refused() {
        one(
            |settings| settings.log.limits.journal_reserve_bytes = 1 << 30,
            "journal_reserve_bytes",
        );
        one(|settings| settings.log.limits.journal_file_bytes = 1 << 30, "three files");
    }

    #[test]
    fn a_message_that_fits_into_no_request_is_refused() {
        one(|settings| settings.exchange.request_bytes_max = 1 << 20, "message_bytes_max");
    }
}

//! What SIGHUP changes while the server runs.
//!
//! | at once | with the next start |
//! |---|---|
//! | certificates, for connections from now on | `server.data_dir`, `server.listen`, `server.log_format` |
//! | `server.log_level`, `server.access_log`, `server.slow_ms` | switching TLS on or off |
//! | limits of HTTP, and of greetings to sevent, for connections from now on | `log.*` |
//! | `server.disk_free_min`, `server.stop_secs_max` | `auth.*` |
//! | `streams.*`, for requests from now on | `streams.enabled`, `.delivery_bytes_max`, `[[streams.topic]]`, `[[streams.group]]` |
//! | `exchange.*`, for requests from now on | `exchange.enabled`, `.reads_max`, `.waiting_max` |
//! | `calls.*`, for requests from now on | `calls.enabled`, `.clients_max`, `.waiting_max`, `.redis_url`, `[[calls.channel]]` |
//! | limits and times of `relay.*`, for agents that connect from now on | `relay.enabled`, `.listen`, `.tls`, where samples go, `.intake_bytes_max`, `.pending_bytes_max` |
//! | `events.*`, for registrations and sessions from now on | `events.enabled`, `.listen`, `.tls`, `.answers_bytes_max` |

use crate::settings::Settings;

/// The settings that differ and need another start, by their keys.
pub(super) fn needs_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let (was, is) = (&old.server, &new.server);
    let differs = [
        ("server.data_dir", was.data_dir != is.data_dir),
        ("server.listen", was.listen != is.listen),
        ("server.log_format", was.log_format != is.log_format),
        ("server.tls_cert_file", was.tls.is_some() != is.tls.is_some()),
        ("log.limits", old.log.limits != new.log.limits),
        ("log.checkpoint_bytes", old.log.checkpoint_bytes != new.log.checkpoint_bytes),
        ("log.checkpoint_secs", old.log.checkpoint_every != new.log.checkpoint_every),
        ("auth.enabled", old.auth.enabled != new.auth.enabled),
        (
            "auth.bootstrap_token_file",
            old.auth.bootstrap_token_file != new.auth.bootstrap_token_file,
        ),
        ("events.enabled", old.events.enabled != new.events.enabled),
        ("events.listen", old.events.listen != new.events.listen),
        ("events.tls", old.events.tls != new.events.tls),
        ("events.answers_bytes_max", old.events.answers_bytes_max != new.events.answers_bytes_max),
        ("streams.enabled", old.streams.enabled != new.streams.enabled),
        (
            "streams.delivery_bytes_max",
            old.streams.delivery_bytes_max != new.streams.delivery_bytes_max,
        ),
        ("streams.topic", old.streams.topics != new.streams.topics),
        ("streams.group", old.streams.groups != new.streams.groups),
        ("exchange.enabled", old.exchange.enabled != new.exchange.enabled),
        ("exchange.reads_max", old.exchange.reads_max != new.exchange.reads_max),
        ("exchange.waiting_max", old.exchange.waiting_max != new.exchange.waiting_max),
        ("calls.enabled", old.calls.enabled != new.calls.enabled),
        ("calls.clients_max", old.calls.clients_max != new.calls.clients_max),
        ("calls.waiting_max", old.calls.waiting_max != new.calls.waiting_max),
        ("calls.redis_url", old.calls.redis_url != new.calls.redis_url),
        ("calls.channel", old.calls.channels != new.calls.channels),
        ("relay.enabled", old.relay.enabled != new.relay.enabled),
        ("relay.listen", old.relay.listen != new.relay.listen),
        ("relay.tls", old.relay.tls != new.relay.tls),
        ("relay.topic", old.relay.topic() != new.relay.topic()),
        ("relay.topic_partitions", old.relay.topic_partitions != new.relay.topic_partitions),
        ("relay.message_bytes_max", old.relay.handing() != new.relay.handing()),
        ("relay.write_url", old.relay.write_url != new.relay.write_url),
        ("relay.write_token_file", old.relay.write_token_file != new.relay.write_token_file),
        ("relay.write_ca_file", old.relay.write_ca_file != new.relay.write_ca_file),
        ("relay.write_secs_max", old.relay.write_time_max != new.relay.write_time_max),
        ("relay.callback", old.relay.callback != new.relay.callback),
        ("relay.callback_secs_max", old.relay.callback_time_max != new.relay.callback_time_max),
        ("relay.intake_bytes_max", old.relay.intake_bytes_max != new.relay.intake_bytes_max),
        ("relay.pending_bytes_max", old.relay.pending_bytes_max != new.relay.pending_bytes_max),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::needs_restart;
    use crate::settings::Settings;

    #[test]
    fn what_needs_another_start_is_named_and_what_does_not_is_not() {
        let old = Settings::default();
        assert!(needs_restart(&old, &old).is_empty());
        let mut new = old.clone();
        new.server.log_level = "debug".to_owned();
        new.events.sessions_max = 1;
        new.events.bounds.types_max = 1;
        assert!(needs_restart(&old, &new).is_empty());
        new.server.listen.set_port(1);
        new.events.enabled = false;
        new.log.limits.journal_bytes_max += 1;
        assert_eq!(needs_restart(&old, &new), ["server.listen", "log.limits", "events.enabled"]);
    }
}

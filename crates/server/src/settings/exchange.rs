//! `[exchange]`

use std::time::Duration;

use handoff_exchange::Rules;
use handoff_types::Span;

/// `[exchange]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// `exchange.enabled`
    pub enabled: bool,
    /// `exchange.max_files`: messages in a process.
    pub max_files: u32,
    /// `exchange.max_mb`: and their megabytes, 1,048,576 bytes each.
    pub max_mb: u64,
    /// `exchange.started_timeout_secs`: how long a process may take before it is ready.
    pub started_timeout: Span,
    /// `exchange.ready_timeout_secs`: how long it is waited for the outcome of one that is.
    pub ready_timeout: Span,
    /// `exchange.restart_grace_secs`: how long such a process is kept after a start, whatever its
    /// time says.
    pub restart_grace: Span,
    /// `exchange.retention_days`: how long what is over is kept.
    pub retention: Span,
    /// `exchange.retention_check_secs`: how often somebody looks for it.
    pub retention_every: Duration,
    /// `exchange.max_attempts`: after so many a message is set aside; 0 for never.
    pub max_attempts: u32,
    /// `exchange.order`
    pub order: ServeOrder,
    /// `exchange.ordering`
    pub ordering: Ordering,
    /// `exchange.notify_sender`: a device is told of messages that could not be processed.
    pub notify_sender: bool,
    /// `exchange.messages_max`: messages that are known at once.
    pub messages_max: u64,
    /// `exchange.queue_max`: messages that wait for one database, or for one device.
    pub queue_max: u64,
    /// `exchange.processes_kept_max`: processes that are over and known.
    pub processes_kept_max: u64,
    /// `exchange.activation_hours`: how long a code activates its device.
    pub activation: Span,
    /// `exchange.activation_tries_max`: wrong codes a minute, of one address.
    pub activation_tries_max: u32,
    /// `exchange.activation_addresses_max`: addresses whose wrong codes are counted.
    pub activation_addresses_max: usize,
    /// `exchange.message_bytes_max`: the body of one message.
    pub message_bytes_max: usize,
    /// `exchange.request_bytes_max`: the largest body of a request with messages.
    pub request_bytes_max: usize,
    /// `exchange.request_messages_max`: messages, verdicts or ids in one request.
    pub request_messages_max: usize,
    /// `exchange.fetch_messages_max`: messages that a device is given at once.
    pub fetch_messages_max: usize,
    /// `exchange.fetch_bytes_max`: and their bytes. The first is given however large it is.
    pub fetch_bytes_max: u64,
    /// `exchange.wait_secs_max`: how long a device may wait for messages.
    pub wait_max: Duration,
    /// `exchange.waiting_max`: devices that may wait at once.
    pub waiting_max: usize,
    /// `exchange.reads_max`: bodies that are read at once.
    pub reads_max: usize,
    /// `exchange.files_behind_secs_max`: how far the folders may be behind before nothing new is
    /// taken. From half of it on, what is new waits for them.
    pub files_behind_max: Duration,
    /// `exchange.device_log_lines_max`: lines that are kept of what a device says of itself.
    pub device_log_lines_max: usize,
    /// `exchange.device_logs_max`: devices whose lines are kept.
    pub device_logs_max: usize,
}

/// What of a queue comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeOrder {
    /// What was received first.
    Received,
    /// What was made first, by the clocks of the senders.
    Created,
}

/// What waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// Nothing.
    None,
    /// What a device sent waits for what it sent before.
    Producer,
}

impl Exchange {
    /// What decisions depend on.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules {
            files_max: self.max_files,
            bytes_max: self.max_mb.saturating_mul(1 << 20),
            started_timeout: self.started_timeout,
            ready_timeout: self.ready_timeout,
            grace: self.restart_grace,
            attempts_max: u16::try_from(self.max_attempts).unwrap_or(u16::MAX),
            by_created: self.order == ServeOrder::Created,
            in_order: self.ordering == Ordering::Producer,
            notify_sender: self.notify_sender,
            retention: self.retention,
            messages_max: self.messages_max,
            queue_max: self.queue_max,
            processes_kept_max: self.processes_kept_max,
        }
    }
}

impl Default for Exchange {
    fn default() -> Self {
        let days = |days: u64| Span::from_secs(days * 86_400);
        Self {
            enabled: true,
            max_files: 10,
            max_mb: 20,
            started_timeout: Span::from_secs(600),
            ready_timeout: Span::from_secs(600),
            restart_grace: Span::from_secs(120),
            retention: days(90),
            retention_every: Duration::from_secs(60),
            max_attempts: 20,
            order: ServeOrder::Received,
            ordering: Ordering::None,
            notify_sender: false,
            messages_max: 4_000_000,
            queue_max: 2_000_000,
            processes_kept_max: 100_000,
            activation: days(1),
            activation_tries_max: 5,
            activation_addresses_max: 10_000,
            message_bytes_max: 20 << 20,
            request_bytes_max: 32 << 20,
            request_messages_max: 1_000,
            fetch_messages_max: 1_000,
            fetch_bytes_max: 20 << 20,
            wait_max: Duration::from_secs(30),
            waiting_max: 10_000,
            reads_max: 16,
            files_behind_max: Duration::from_secs(5),
            device_log_lines_max: 1_000,
            device_logs_max: 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exchange;
    use handoff_exchange::Rules;

    #[test]
    fn the_usual_settings_are_the_usual_rules() {
        assert_eq!(Exchange::default().rules(), Rules::default());
    }
}

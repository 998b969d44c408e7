//! Stable codes of refusals and faults, by what the caller must do.

use std::fmt;

/// Whether the thing that failed may have happened all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not happen and will not.
    NotApplied,
    /// It may have happened. Ask, or repeat with the same identity.
    Unknown,
}

/// A stable code. Users and tests match on the text; a text is never reused for another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The room's queue to the disk is full.
    RoomBusy,
    /// The journal has no space for new messages.
    JournalFull,
    /// The disk has no space left.
    DiskFull,
    /// The disk failed a write or a sync; the journal is being continued elsewhere.
    JournalPoisoned,
    /// The journal has stopped.
    JournalClosed,
    /// The room is closed because the disk lost some of its records.
    RoomDamaged,
    /// What was asked for is damaged on disk.
    Corrupt,
    /// What was asked for has been removed already.
    Trimmed,
    /// The change is larger than one change may be.
    ChangeTooLarge,
    /// Another process uses the data directory.
    DirectoryInUse,
    /// The data directory was written by a newer version.
    DirectoryNewer,
    /// The data directory is not one of ours, or its marks are unreadable.
    DirectoryUnreadable,
    /// The process may not use the data directory.
    DirectoryForbidden,
    /// The disk answered with an error.
    DiskFault,
    /// The disk of the data directory is nearly full; nothing new is taken.
    DiskLow,
    /// The request cannot be read.
    RequestMalformed,
    /// A field of the request has a value that is not allowed.
    RequestInvalid,
    /// The body is larger than the server takes.
    RequestTooLarge,
    /// The request took longer than the server waits.
    RequestTooSlow,
    /// There is nothing at this path.
    NoSuchPath,
    /// The path does not take this method.
    WrongMethod,
    /// The body is not in a format that is read here.
    WrongMediaType,
    /// The server asks for a token and none came.
    TokenMissing,
    /// The token is unknown, revoked or expired.
    TokenUnknown,
    /// The server asks for no tokens, and the request was sent to a name that is not its own.
    ForeignHost,
    /// The token does not allow this.
    OutOfScope,
    /// There is no such token.
    TokenNotFound,
    /// There is no such event.
    EventNotFound,
    /// The event cannot be registered as it is described.
    EventInvalid,
    /// There are as many events as the room takes, or all ids are used.
    EventsFull,
    /// The filter has more entries than a session may have.
    FilterTooLarge,
    /// There is no such topic.
    TopicNotFound,
    /// There is a topic of this name already.
    TopicExists,
    /// The topic has no such partition.
    PartitionNotFound,
    /// A topic, a message or a producer cannot be as it is described.
    StreamsInvalid,
    /// There are as many topics, partitions, producers or waiting messages as the room takes.
    StreamsLimit,
    /// The producer used this sequence for another message.
    SequenceReused,
    /// The sequence is older than what is remembered of the producer.
    SequenceTooOld,
    /// No message with this id waits for its time.
    ScheduledNotFound,
    /// The token sends more bytes than it may.
    StreamsQuota,
    /// There is no such group.
    GroupNotFound,
    /// There is a group of this name already.
    GroupExists,
    /// The member is not in the group, or not any more.
    MemberGone,
    /// Some of the messages are not held by the member any more, so nothing was stored.
    Fenced,
    /// There is no such company, subsystem, database, device, route, message or process, or none that the
    /// caller sees.
    ExchangeNotFound,
    /// A message or an entity of the exchange cannot be as it is described.
    ExchangeInvalid,
    /// The id belongs to another company.
    ExchangeTaken,
    /// Something still needs what is to be removed.
    ExchangeInUse,
    /// As many messages wait, or as many of something are kept, as the exchange takes.
    ExchangeFull,
    /// The messages of the device's subsystem go to no database.
    NoRoute,
    /// The activation code is wrong, used or expired.
    WrongCode,
    /// Too many wrong activation codes came from this address.
    TooManyTries,
    /// The device is locked out.
    DeviceBlocked,
    /// The sender used this message id for another content.
    MessageReused,
    /// The call does not fit its process: a verdict is missing, double or foreign, or a message cannot go.
    ProcessUnfit,
    /// The process was prepared with other verdicts or messages.
    PreparedOtherwise,
    /// A commit of a process that was never prepared.
    NotPrepared,
    /// An interruption of a process that is ready to commit.
    ProcessReady,
    /// The report contradicts what was reported before.
    Contradiction,
    /// No agent of the relay has this name, or none that the caller sees.
    AgentNotFound,
    /// A program wants to take samples, and the receiver gives them to none.
    CallbackOff,
    /// There is no such call, dead letter or channel, or none that the caller sees.
    CallNotFound,
    /// A call, a client or a channel cannot be as it is described.
    CallsInvalid,
    /// There are as many calls, bytes, channels or clients as the room takes.
    CallsFull,
    /// The id of a call stands for another one.
    CallReused,
    /// The idempotency key stands for another call.
    KeyReused,
    /// There are as many connections or sessions as the server takes.
    ServerBusy,
    /// The server is stopping.
    ServerStopping,
    /// Another program listens where the server should.
    PortTaken,
    /// The server cannot listen on this address.
    AddressUnusable,
    /// The certificate or its key is missing or cannot be used.
    CertificateUnusable,
    /// A listener that others can reach asks for no tokens.
    AuthRequired,
    /// The token in the bootstrap file cannot be made.
    BootstrapUnusable,
    /// The configuration cannot be used.
    ConfigInvalid,
    /// The room is switched off, or not ready yet.
    RoomOff,
    /// The server made a mistake.
    Internal,
}

impl Code {
    /// Every code there is, for the page that explains them.
    pub const ALL: [Self; 76] = [
        Self::RoomBusy,
        Self::JournalFull,
        Self::DiskFull,
        Self::JournalPoisoned,
        Self::JournalClosed,
        Self::RoomDamaged,
        Self::Corrupt,
        Self::Trimmed,
        Self::ChangeTooLarge,
        Self::DirectoryInUse,
        Self::DirectoryNewer,
        Self::DirectoryUnreadable,
        Self::DirectoryForbidden,
        Self::DiskFault,
        Self::DiskLow,
        Self::RequestMalformed,
        Self::RequestInvalid,
        Self::RequestTooLarge,
        Self::RequestTooSlow,
        Self::NoSuchPath,
        Self::WrongMethod,
        Self::WrongMediaType,
        Self::TokenMissing,
        Self::TokenUnknown,
        Self::ForeignHost,
        Self::OutOfScope,
        Self::TokenNotFound,
        Self::EventNotFound,
        Self::EventInvalid,
        Self::EventsFull,
        Self::FilterTooLarge,
        Self::TopicNotFound,
        Self::TopicExists,
        Self::PartitionNotFound,
        Self::StreamsInvalid,
        Self::StreamsLimit,
        Self::SequenceReused,
        Self::SequenceTooOld,
        Self::ScheduledNotFound,
        Self::StreamsQuota,
        Self::GroupNotFound,
        Self::GroupExists,
        Self::MemberGone,
        Self::Fenced,
        Self::ExchangeNotFound,
        Self::ExchangeInvalid,
        Self::ExchangeTaken,
        Self::ExchangeInUse,
        Self::ExchangeFull,
        Self::NoRoute,
        Self::WrongCode,
        Self::TooManyTries,
        Self::DeviceBlocked,
        Self::MessageReused,
        Self::ProcessUnfit,
        Self::PreparedOtherwise,
        Self::NotPrepared,
        Self::ProcessReady,
        Self::Contradiction,
        Self::AgentNotFound,
        Self::CallbackOff,
        Self::CallNotFound,
        Self::CallsInvalid,
        Self::CallsFull,
        Self::CallReused,
        Self::KeyReused,
        Self::ServerBusy,
        Self::ServerStopping,
        Self::PortTaken,
        Self::AddressUnusable,
        Self::CertificateUnusable,
        Self::AuthRequired,
        Self::BootstrapUnusable,
        Self::ConfigInvalid,
        Self::RoomOff,
        Self::Internal,
    ];

    /// The text users match on.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::RoomBusy => "log.room_busy",
            Self::JournalFull => "log.journal_full",
            Self::DiskFull => "log.disk_full",
            Self::JournalPoisoned => "log.poisoned",
            Self::JournalClosed => "log.closed",
            Self::RoomDamaged => "log.room_damaged",
            Self::Corrupt => "log.corrupt",
            Self::Trimmed => "log.trimmed",
            Self::ChangeTooLarge => "log.change_too_large",
            Self::DirectoryInUse => "data.in_use",
            Self::DirectoryNewer => "data.newer",
            Self::DirectoryUnreadable => "data.unreadable",
            Self::DirectoryForbidden => "data.forbidden",
            Self::DiskFault => "log.disk_fault",
            Self::DiskLow => "disk_low",
            Self::RequestMalformed => "request.malformed",
            Self::RequestInvalid => "request.invalid",
            Self::RequestTooLarge => "request.too_large",
            Self::RequestTooSlow => "request.too_slow",
            Self::NoSuchPath => "request.no_such_path",
            Self::WrongMethod => "request.wrong_method",
            Self::WrongMediaType => "request.wrong_media_type",
            Self::TokenMissing => "auth.token_missing",
            Self::TokenUnknown => "auth.token_unknown",
            Self::ForeignHost => "auth.foreign_host",
            Self::OutOfScope => "auth.out_of_scope",
            Self::TokenNotFound => "token_not_found",
            Self::EventNotFound => "event_not_found",
            Self::EventInvalid => "event_invalid",
            Self::EventsFull => "events_full",
            Self::FilterTooLarge => "filter_too_large",
            Self::TopicNotFound => "streams.topic_not_found",
            Self::TopicExists => "streams.topic_exists",
            Self::PartitionNotFound => "streams.partition_not_found",
            Self::StreamsInvalid => "streams.invalid",
            Self::StreamsLimit => "streams.limit",
            Self::SequenceReused => "streams.sequence_reused",
            Self::SequenceTooOld => "streams.sequence_too_old",
            Self::ScheduledNotFound => "streams.scheduled_not_found",
            Self::StreamsQuota => "streams.quota",
            Self::GroupNotFound => "streams.group_not_found",
            Self::GroupExists => "streams.group_exists",
            Self::MemberGone => "streams.member_gone",
            Self::Fenced => "streams.fenced",
            Self::ExchangeNotFound => "exchange.not_found",
            Self::ExchangeInvalid => "exchange.invalid",
            Self::ExchangeTaken => "exchange.taken",
            Self::ExchangeInUse => "exchange.in_use",
            Self::ExchangeFull => "exchange.full",
            Self::NoRoute => "exchange.no_route",
            Self::WrongCode => "exchange.wrong_code",
            Self::TooManyTries => "exchange.too_many_tries",
            Self::DeviceBlocked => "exchange.device_blocked",
            Self::MessageReused => "exchange.message_reused",
            Self::ProcessUnfit => "exchange.unfit",
            Self::PreparedOtherwise => "exchange.prepared_otherwise",
            Self::NotPrepared => "exchange.not_prepared",
            Self::ProcessReady => "exchange.process_ready",
            Self::Contradiction => "exchange.contradiction",
            Self::AgentNotFound => "relay.agent_not_found",
            Self::CallbackOff => "relay.callback_off",
            Self::CallNotFound => "calls.not_found",
            Self::CallsInvalid => "calls.invalid",
            Self::CallsFull => "calls.full",
            Self::CallReused => "calls.id_reused",
            Self::KeyReused => "calls.key_reused",
            Self::ServerBusy => "server.busy",
            Self::ServerStopping => "server.stopping",
            Self::PortTaken => "server.port_taken",
            Self::AddressUnusable => "server.address",
            Self::CertificateUnusable => "server.certificate",
            Self::AuthRequired => "server.auth_required",
            Self::BootstrapUnusable => "server.bootstrap_token",
            Self::ConfigInvalid => "config.invalid",
            Self::RoomOff => "room_off",
            Self::Internal => "internal",
        }
    }

    /// What the caller or the operator can do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::RoomBusy => {
                "send again after a short pause; the room is writing as fast as its disk"
            }
            Self::JournalFull => {
                "wait until checkpoints free the ring, or raise log.journal_bytes_max"
            }
            Self::DiskFull => {
                "free space on the disk of the data directory; work goes on by itself"
            }
            Self::JournalPoisoned => {
                "wait; look at the kernel log for the disk's error if it lasts"
            }
            Self::JournalClosed => "start the server again; it recovers by itself",
            Self::RoomDamaged => {
                "run doctor --repair: it sets the damaged range aside and opens the room"
            }
            Self::Corrupt => "the rest is served; restore the range from a backup or skip it",
            Self::Trimmed => "read from the first position that is still kept",
            Self::ChangeTooLarge => "split the request, or raise log.change_bytes_max",
            Self::DirectoryInUse => "stop the other process, or give this one another --data-dir",
            Self::DirectoryNewer => "start the version that wrote it, or a newer one",
            Self::DirectoryUnreadable => {
                "check --data-dir; restore the directory from a backup if it is the right one"
            }
            Self::DirectoryForbidden => {
                "give it to the user that runs the server (chown -R), or choose another --data-dir"
            }
            Self::DiskFault => {
                "look at the kernel log for the disk's error; nothing acknowledged is lost"
            }
            Self::DiskLow => {
                "free space, or lower server.disk_free_min; deletions and acknowledgements go on"
            }
            Self::RequestMalformed => {
                "look at the detail, and at /openapi.json for what is expected"
            }
            Self::RequestInvalid => "correct the field that the detail names; nothing changed",
            Self::RequestTooLarge => "send less at once, or raise server.body_bytes_max",
            Self::RequestTooSlow => "ask for less at once, or raise server.request_secs_max",
            Self::NoSuchPath => "see /openapi.json for what there is",
            Self::WrongMethod => "see /openapi.json for what it takes",
            Self::WrongMediaType => "send application/json",
            Self::TokenMissing => {
                "send `Authorization: Bearer TOKEN`; `handoff token create` makes one"
            }
            Self::TokenUnknown => "check it, or make another with `handoff token create`",
            Self::ForeignHost => "ask by the address or as localhost, or set auth.enabled = true",
            Self::OutOfScope => "use a token whose scope covers the room and the name",
            Self::TokenNotFound => "`handoff token list` shows those there are",
            Self::EventNotFound => {
                "`handoff event list` shows those there are; it may have run out"
            }
            Self::EventInvalid => "correct what the detail names; nothing changed",
            Self::EventsFull => "delete events, or raise events.events_max",
            Self::FilterTooLarge => {
                "subscribe to types instead of single events, or raise events.filter_entries_max"
            }
            Self::TopicNotFound => {
                "`handoff topic list` shows those there are; `handoff topic create` makes one"
            }
            Self::TopicExists => {
                "use it, or choose another name; `handoff topic show` says what it is"
            }
            Self::PartitionNotFound => {
                "`handoff topic show` says how many there are; `handoff topic grow` makes more"
            }
            Self::StreamsInvalid => "correct what the detail names; nothing changed",
            Self::StreamsLimit => "remove some, or raise the key that the detail names",
            Self::SequenceReused => {
                "give each message a sequence of its own; register the producer to learn its last one"
            }
            Self::SequenceTooOld => {
                "send it with a new sequence if a second copy does no harm, or look whether it is stored"
            }
            Self::ScheduledNotFound => {
                "`GET /v1/streams/topics/{topic}/scheduled` lists those that wait; it may have been delivered"
            }
            Self::StreamsQuota => {
                "send again after the pause, or raise streams.token_bytes_per_sec"
            }
            Self::GroupNotFound => {
                "`handoff group list` shows those there are; joining with topics makes one"
            }
            Self::GroupExists => {
                "use it, or choose another name; `handoff group show` says what it is"
            }
            Self::MemberGone => {
                "join again; what the member held is handed out again, so drop what is not committed"
            }
            Self::Fenced => {
                "drop this work: the messages are, or will be, in somebody else's hands; go on with the next poll"
            }
            Self::ExchangeNotFound => "check the id; `handoff exchange` lists what there is",
            Self::ExchangeInvalid => "correct what the detail names; nothing changed",
            Self::ExchangeTaken => "choose another id",
            Self::ExchangeInUse => "remove what the detail names first",
            Self::ExchangeFull => {
                "wait until some are processed or fetched, or raise the key that the detail names"
            }
            Self::NoRoute => {
                "an administrator sets a route: `handoff exchange route put COMPANY SUBSYSTEM DATABASE`"
            }
            Self::WrongCode => "ask the administrator for another code",
            Self::TooManyTries => "wait, and check the code before it is sent again",
            Self::DeviceBlocked => "ask the administrator; its messages are kept meanwhile",
            Self::MessageReused => "give every message its own id",
            Self::ProcessUnfit => {
                "roll back, correct what the detail names, and begin again; nothing was written"
            }
            Self::PreparedOtherwise => "roll back and report it; one process is prepared once",
            Self::NotPrepared => {
                "prepare first and commit the database only then; what was committed without it is given out again"
            }
            Self::ProcessReady => "report rollback or commit, whichever the database did",
            Self::Contradiction => "an administrator was told; look what the database really did",
            Self::AgentNotFound => {
                "check the name; agents are known from their first connection after a start on"
            }
            Self::CallbackOff => "set relay.callback = true and start the server again",
            Self::CallNotFound => {
                "check the id; a call that is over is known for calls.kept_secs only"
            }
            Self::CallsInvalid => "correct what the detail names; nothing changed",
            Self::CallsFull => {
                "wait until some are over, serve the channel, or raise the key that the detail names"
            }
            Self::CallReused => "give every call its own id",
            Self::KeyReused => "give every call its own key, or send the same content again",
            Self::ServerBusy => {
                "close some, or raise server.connections_max or events.sessions_max"
            }
            Self::ServerStopping => "send it again to the server that takes over",
            Self::PortTaken => {
                "stop the other program, or choose another address with --listen, --events-listen or --relay-listen"
            }
            Self::AddressUnusable => {
                "choose an address of this machine (`ip addr`) and a port above 1023"
            }
            Self::CertificateUnusable => {
                "check server.tls_cert_file and server.tls_key_file, and who may read them"
            }
            Self::AuthRequired => "set auth.enabled = true, or listen on 127.0.0.1",
            Self::BootstrapUnusable => {
                "write another into auth.bootstrap_token_file, or take the key out"
            }
            Self::ConfigInvalid => {
                "mend it; `handoff config check` says what is wrong without starting anything"
            }
            Self::RoomOff => "set <room>.enabled = true, or wait until /readyz says ready",
            Self::Internal => "report it with the request id; the log has the rest",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_codes_share_a_text() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
    }
}

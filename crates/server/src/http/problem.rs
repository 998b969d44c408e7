//! Refusals as `application/problem+json` (RFC 9457).
//!
//! A handler gives a [`Problem`]; the front writes it, because only the front knows the request's
//! id. Which status and title a code has stands in one table.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use handoff_log::journal::Lost;
use handoff_types::{Code, Outcome, Room};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use crate::rooms::RoomError;
use crate::runtime::{Phase, RoomStatus};

/// The media type of every refusal.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A refusal on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What users match on.
    pub code: Code,
    /// What was wrong with this request, in words.
    pub detail: String,
    status: StatusCode,
    retry_after: Option<u32>,
    outcome: Outcome,
    start: Option<u64>,
    /// It answers an ERP, which is to roll back.
    cancels: bool,
}

/// A refusal as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Problem, example = json!({
    "type": "urn:handoff:error:event_not_found",
    "title": "there is no such event",
    "status": 404,
    "detail": "there is no event 7",
    "code": "event_not_found",
    "remedy": "`handoff event list` shows those there are; it may have run out",
    "requestId": "4bf92f3577b34da6",
}))]
pub struct ProblemBody {
    /// `urn:handoff:error:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What kind of refusal it is, the same for every request.
    pub title: String,
    /// The status of the answer; the word `CANCELLED` for an ERP that is to roll back.
    pub status: StatusName,
    /// What was wrong with this request.
    pub detail: String,
    /// The stable code. Match on this.
    pub code: String,
    /// What the caller or the operator can do about it.
    pub remedy: String,
    /// What the log calls this request.
    pub request_id: String,
    /// `unknown` if what was asked may have happened all the same. Absent: nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeName>,
    /// The first offset that is kept, if what was asked for is not any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
}

/// The status of an answer, in digits or as the word that an ERP switches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ProblemStatus)]
pub enum StatusName {
    /// The HTTP status.
    Number(u16),
    /// An ERP is to roll back.
    Word(Word),
}

/// See [`StatusName::Word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProblemWord)]
pub enum Word {
    /// Nothing of the process goes on.
    #[serde(rename = "CANCELLED")]
    Cancelled,
}

/// What is known of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Outcome)]
pub enum OutcomeName {
    /// It may have happened.
    Unknown,
}

/// A code as HTTP says it.
#[derive(Clone, Copy, Debug)]
struct Said {
    code: Code,
    status: StatusCode,
    title: &'static str,
    /// Seconds after which it may be otherwise without anybody doing anything.
    retry_after: Option<u32>,
}

const fn said(code: Code, status: StatusCode, title: &'static str) -> Said {
    Said { code, status, title, retry_after: None }
}

const fn later(code: Code, status: StatusCode, title: &'static str, seconds: u32) -> Said {
    Said { code, status, title, retry_after: Some(seconds) }
}

/// Every code, its status, its title, and when to come again.
const TABLE: &[Said] = &[
    later(Code::RoomBusy, StatusCode::SERVICE_UNAVAILABLE, "the room is busy", 1),
    later(Code::JournalFull, StatusCode::SERVICE_UNAVAILABLE, "the journal is full", 5),
    later(Code::DiskFull, StatusCode::INSUFFICIENT_STORAGE, "the disk is full", 30),
    later(Code::JournalPoisoned, StatusCode::SERVICE_UNAVAILABLE, "the disk failed", 5),
    later(Code::JournalClosed, StatusCode::SERVICE_UNAVAILABLE, "the journal has stopped", 10),
    said(Code::RoomDamaged, StatusCode::SERVICE_UNAVAILABLE, "the room is closed by damage"),
    said(Code::Corrupt, StatusCode::INTERNAL_SERVER_ERROR, "this is damaged on disk"),
    said(Code::Trimmed, StatusCode::GONE, "this has been removed already"),
    said(Code::ChangeTooLarge, StatusCode::PAYLOAD_TOO_LARGE, "the change is too large"),
    said(Code::DirectoryInUse, StatusCode::INTERNAL_SERVER_ERROR, "the data directory is in use"),
    said(Code::DirectoryNewer, StatusCode::INTERNAL_SERVER_ERROR, "the data directory is newer"),
    said(
        Code::DirectoryUnreadable,
        StatusCode::INTERNAL_SERVER_ERROR,
        "the data directory is unreadable",
    ),
    said(
        Code::DirectoryForbidden,
        StatusCode::INTERNAL_SERVER_ERROR,
        "the data directory is forbidden",
    ),
    later(Code::DiskFault, StatusCode::SERVICE_UNAVAILABLE, "the disk failed", 5),
    later(Code::DiskLow, StatusCode::INSUFFICIENT_STORAGE, "the disk is nearly full", 30),
    said(Code::RequestMalformed, StatusCode::BAD_REQUEST, "the request cannot be read"),
    said(Code::RequestInvalid, StatusCode::UNPROCESSABLE_ENTITY, "the request is not valid"),
    said(Code::RequestTooLarge, StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
    said(Code::RequestTooSlow, StatusCode::REQUEST_TIMEOUT, "it took too long"),
    said(Code::NoSuchPath, StatusCode::NOT_FOUND, "there is nothing here"),
    said(Code::WrongMethod, StatusCode::METHOD_NOT_ALLOWED, "not with this method"),
    said(Code::WrongMediaType, StatusCode::UNSUPPORTED_MEDIA_TYPE, "not in this format"),
    said(Code::TokenMissing, StatusCode::UNAUTHORIZED, "a token is needed"),
    said(Code::TokenUnknown, StatusCode::UNAUTHORIZED, "the token opens nothing"),
    said(Code::ForeignHost, StatusCode::MISDIRECTED_REQUEST, "not by this name"),
    said(Code::OutOfScope, StatusCode::FORBIDDEN, "the token does not allow this"),
    said(Code::TokenNotFound, StatusCode::NOT_FOUND, "there is no such token"),
    said(Code::EventNotFound, StatusCode::NOT_FOUND, "there is no such event"),
    said(Code::EventInvalid, StatusCode::UNPROCESSABLE_ENTITY, "the event is not valid"),
    said(Code::EventsFull, StatusCode::CONFLICT, "no more events are taken"),
    said(Code::FilterTooLarge, StatusCode::UNPROCESSABLE_ENTITY, "the filter is too large"),
    said(Code::TopicNotFound, StatusCode::NOT_FOUND, "there is no such topic"),
    said(Code::TopicExists, StatusCode::CONFLICT, "there is such a topic already"),
    said(Code::PartitionNotFound, StatusCode::NOT_FOUND, "there is no such partition"),
    said(
        Code::StreamsInvalid,
        StatusCode::UNPROCESSABLE_ENTITY,
        "the request to streams is not valid",
    ),
    said(Code::StreamsLimit, StatusCode::CONFLICT, "no more are taken"),
    said(Code::SequenceReused, StatusCode::CONFLICT, "the sequence is used already"),
    said(Code::SequenceTooOld, StatusCode::CONFLICT, "the sequence is too old"),
    said(Code::ScheduledNotFound, StatusCode::NOT_FOUND, "no such message waits"),
    later(Code::StreamsQuota, StatusCode::TOO_MANY_REQUESTS, "too much at once", 1),
    said(Code::GroupNotFound, StatusCode::NOT_FOUND, "there is no such group"),
    said(Code::GroupExists, StatusCode::CONFLICT, "there is such a group already"),
    said(Code::MemberGone, StatusCode::NOT_FOUND, "the member is not in the group"),
    said(Code::Fenced, StatusCode::CONFLICT, "the messages are not the member's any more"),
    said(Code::ExchangeNotFound, StatusCode::NOT_FOUND, "there is no such thing"),
    said(
        Code::ExchangeInvalid,
        StatusCode::UNPROCESSABLE_ENTITY,
        "the request to the exchange is not valid",
    ),
    said(Code::ExchangeTaken, StatusCode::CONFLICT, "somebody else has this id"),
    said(Code::ExchangeInUse, StatusCode::CONFLICT, "something needs it"),
    later(Code::ExchangeFull, StatusCode::SERVICE_UNAVAILABLE, "no more are taken", 30),
    said(Code::NoRoute, StatusCode::UNPROCESSABLE_ENTITY, "the messages go nowhere"),
    said(Code::WrongCode, StatusCode::FORBIDDEN, "the code opens nothing"),
    later(Code::TooManyTries, StatusCode::TOO_MANY_REQUESTS, "too many wrong codes", 60),
    said(Code::DeviceBlocked, StatusCode::FORBIDDEN, "the device is locked out"),
    said(Code::MessageReused, StatusCode::CONFLICT, "the message id is used already"),
    said(Code::ProcessUnfit, StatusCode::UNPROCESSABLE_ENTITY, "the call does not fit the process"),
    said(Code::PreparedOtherwise, StatusCode::CONFLICT, "it was prepared otherwise"),
    said(Code::NotPrepared, StatusCode::CONFLICT, "it was not prepared"),
    said(Code::ProcessReady, StatusCode::CONFLICT, "it is ready to commit"),
    said(Code::Contradiction, StatusCode::CONFLICT, "the report contradicts an earlier one"),
    said(Code::AgentNotFound, StatusCode::NOT_FOUND, "there is no such agent"),
    said(Code::CallbackOff, StatusCode::CONFLICT, "no program takes samples here"),
    said(Code::CallNotFound, StatusCode::NOT_FOUND, "there is no such call"),
    said(Code::CallsInvalid, StatusCode::UNPROCESSABLE_ENTITY, "the request to calls is not valid"),
    later(Code::CallsFull, StatusCode::SERVICE_UNAVAILABLE, "no more are taken", 5),
    said(Code::CallReused, StatusCode::CONFLICT, "the call id is used already"),
    said(Code::KeyReused, StatusCode::CONFLICT, "the key is used already"),
    later(Code::ServerBusy, StatusCode::SERVICE_UNAVAILABLE, "the server is busy", 1),
    later(Code::ServerStopping, StatusCode::SERVICE_UNAVAILABLE, "the server is stopping", 5),
    said(Code::PortTaken, StatusCode::INTERNAL_SERVER_ERROR, "the port is taken"),
    said(Code::AddressUnusable, StatusCode::INTERNAL_SERVER_ERROR, "the address cannot be used"),
    said(
        Code::CertificateUnusable,
        StatusCode::INTERNAL_SERVER_ERROR,
        "the certificate cannot be used",
    ),
    said(Code::AuthRequired, StatusCode::INTERNAL_SERVER_ERROR, "others could do everything"),
    said(
        Code::BootstrapUnusable,
        StatusCode::INTERNAL_SERVER_ERROR,
        "the first token cannot be made",
    ),
    said(
        Code::ConfigInvalid,
        StatusCode::INTERNAL_SERVER_ERROR,
        "the configuration cannot be used",
    ),
    later(Code::RoomOff, StatusCode::SERVICE_UNAVAILABLE, "the room is not open", 1),
    said(Code::Internal, StatusCode::INTERNAL_SERVER_ERROR, "the server made a mistake"),
];

/// A request whose answer did not come in time is not one that did not come in time: whoever
/// reads 408 may send it again, and this one may have happened.
const ANSWER_TOO_SLOW: StatusCode = StatusCode::GATEWAY_TIMEOUT;

fn look_up(code: Code) -> Said {
    let unnamed = said(code, StatusCode::INTERNAL_SERVER_ERROR, "the server made a mistake");
    TABLE.iter().copied().find(|said| said.code == code).unwrap_or(unnamed)
}

/// The status a code is said with.
#[must_use]
pub fn status(code: Code) -> StatusCode {
    look_up(code).status
}

/// What kind of refusal a code is, in words.
#[must_use]
pub fn title(code: Code) -> &'static str {
    look_up(code).title
}

impl Problem {
    /// A refusal: nothing changed.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let Said { status, retry_after, .. } = look_up(code);
        let outcome = Outcome::NotApplied;
        Self {
            code,
            detail: detail.into(),
            status,
            retry_after,
            outcome,
            start: None,
            cancels: false,
        }
    }

    /// The answer did not come in time.
    #[must_use]
    pub(super) fn answer_too_slow(seconds: f64) -> Self {
        let detail = format!("there was no answer within {seconds} s; it may have happened");
        Self::new(Code::RequestTooSlow, detail).with_status(ANSWER_TOO_SLOW).unsure()
    }

    /// The handler panicked.
    #[must_use]
    pub(super) fn panicked() -> Self {
        Self::new(Code::Internal, "the server made a mistake with this request").unsure()
    }

    /// The journal stopped before the answer was durable.
    fn lost(lost: &Lost) -> Self {
        let problem = Self::new(Code::JournalClosed, lost.to_string());
        if lost.outcome == Outcome::Unknown { problem.unsure() } else { problem }
    }

    /// Some of it may have happened before something failed.
    pub(super) fn unsure_if_fault(self) -> Self {
        if self.status.is_server_error() { self.unsure() } else { self }
    }

    /// What was asked for is not kept any more; from here on it is.
    pub(super) fn trimmed(start: u64) -> Self {
        let detail = format!("this is not kept any more; offset {start} is the first that is");
        Self { start: Some(start), ..Self::new(Code::Trimmed, detail) }
    }

    /// It answers an ERP: also in the word that it switches on.
    pub(super) fn cancelling(mut self) -> Self {
        self.cancels = true;
        self
    }

    /// The same, but only if what was asked cannot be done, now or later.
    pub(super) fn cancelling_if_refused(self) -> Self {
        if self.status.is_client_error() { self.cancelling() } else { self }
    }

    /// When it may be otherwise.
    pub(super) fn again_in(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    fn unsure(mut self) -> Self {
        self.outcome = Outcome::Unknown;
        self
    }

    fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// A room that cannot be asked, by what is known of it.
    pub(super) fn closed(app: &App, room: Room) -> Self {
        match app.room(room) {
            (Phase::Stopping, _) => Self::new(Code::ServerStopping, "the server is stopping"),
            (Phase::Starting(what), _) => Self::new(Code::RoomOff, format!("starting: {what}")),
            (Phase::Ready, RoomStatus::Closed(why)) => {
                Self::new(Code::RoomDamaged, format!("{room} is closed: {why}"))
            }
            (Phase::Ready, RoomStatus::Starting) => {
                Self::new(Code::RoomOff, format!("{room} is starting"))
            }
            (Phase::Ready, RoomStatus::Off | RoomStatus::Open) => {
                Self::new(Code::RoomOff, format!("{room} is switched off"))
            }
        }
    }

    /// What a room answered.
    pub(super) fn of(app: &App, room: Room, error: RoomError) -> Self {
        use handoff_events::{FilterError, Refusal as Event};
        use handoff_house::Refusal as House;
        let words = error.to_string();
        let code = match error {
            RoomError::Event(Event::OutOfSight(_)) => Code::OutOfScope,
            RoomError::Event(Event::Exhausted | Event::Full(_)) => Code::EventsFull,
            RoomError::Event(_) => Code::EventInvalid,
            RoomError::Filter(FilterError::NoEvent(_)) | RoomError::NoEvent(_) => {
                Code::EventNotFound
            }
            RoomError::Filter(FilterError::OutOfSight(_)) => Code::OutOfScope,
            RoomError::Filter(FilterError::TooLarge(_)) => Code::FilterTooLarge,
            RoomError::House(House::NoToken(_)) => Code::TokenNotFound,
            RoomError::House(House::Invalid(_) | House::Full(_)) => Code::RequestInvalid,
            RoomError::Stream(refusal) => stream_code(&refusal),
            RoomError::Exchange(refusal) => exchange_code(&refusal),
            RoomError::Calls(refusal) => refusal.code(),
            RoomError::ChannelOutOfSight(_) => Code::OutOfScope,
            RoomError::FilesBehind(_) | RoomError::CallsBusy => Code::RoomBusy,
            RoomError::FilesFull(_) => Code::DiskFull,
            RoomError::Quota { seconds, .. } => {
                return Self { retry_after: Some(seconds), ..Self::new(Code::StreamsQuota, words) };
            }
            RoomError::Journal(refused) => refused.code(),
            RoomError::Lost(lost) => return Self::lost(&lost),
            RoomError::DiskLow { .. } => Code::DiskLow,
            RoomError::OutOfSight(_) => Code::OutOfScope,
            RoomError::Unreadable(_) => Code::DiskFault,
            RoomError::Delivering(_) => Code::RoomBusy,
            RoomError::Sessions(_) => Code::ServerBusy,
            RoomError::Closed(_) => return Self::closed(app, room),
            _ => Code::Internal,
        };
        Self::new(code, words)
    }

    /// Writes it, into an answer that may have headers already.
    pub(super) fn write(self, mut response: Response, request_id: &str) -> Response {
        let Self { code, detail, status, retry_after, outcome, start, cancels } = self;
        let unknown = outcome == Outcome::Unknown;
        let body = ProblemBody {
            kind: format!("urn:handoff:error:{code}"),
            title: title(code).to_owned(),
            status: match cancels {
                true => StatusName::Word(Word::Cancelled),
                false => StatusName::Number(status.as_u16()),
            },
            detail,
            code: code.text().to_owned(),
            remedy: code.remedy().to_owned(),
            request_id: request_id.to_owned(),
            outcome: unknown.then_some(OutcomeName::Unknown),
            start,
        };
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = challenge(code) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        *response.body_mut() = Body::from(serde_json::to_vec(&body).unwrap_or_default());
        response
    }
}

/// The code of what the streams room refuses.
fn stream_code(refusal: &handoff_streams::Refusal) -> Code {
    use handoff_streams::Refusal;
    use handoff_streams::groups::GroupRefusal;
    match refusal {
        Refusal::NoTopic(_) => Code::TopicNotFound,
        Refusal::TopicExists(_) => Code::TopicExists,
        Refusal::NoPartition { .. } => Code::PartitionNotFound,
        Refusal::Limit(_) => Code::StreamsLimit,
        Refusal::SequenceReused { .. } => Code::SequenceReused,
        Refusal::SequenceTooOld { .. } => Code::SequenceTooOld,
        Refusal::NoScheduled(_) => Code::ScheduledNotFound,
        Refusal::Group(GroupRefusal::NoGroup(_)) => Code::GroupNotFound,
        Refusal::Group(GroupRefusal::GroupExists(_)) => Code::GroupExists,
        Refusal::Group(GroupRefusal::MemberGone(_)) => Code::MemberGone,
        Refusal::Group(GroupRefusal::Fenced { .. }) => Code::Fenced,
        _ => Code::StreamsInvalid,
    }
}

/// The code of what the exchange refuses.
fn exchange_code(refusal: &handoff_exchange::Refusal) -> Code {
    use handoff_exchange::Refusal;
    match refusal {
        Refusal::NotFound { .. } | Refusal::NoMessage(_) => Code::ExchangeNotFound,
        Refusal::Taken { .. } => Code::ExchangeTaken,
        Refusal::InUse { .. } => Code::ExchangeInUse,
        Refusal::Full { .. } => Code::ExchangeFull,
        Refusal::WrongCode => Code::WrongCode,
        Refusal::Blocked => Code::DeviceBlocked,
        Refusal::NoRoute { .. } => Code::NoRoute,
        Refusal::IdReused(_) => Code::MessageReused,
        _ => Code::ExchangeInvalid,
    }
}

/// What a client is told to do about its token (RFC 6750).
fn challenge(code: Code) -> Option<&'static str> {
    match code {
        Code::TokenMissing => Some(r#"Bearer realm="handoff""#),
        Code::TokenUnknown => Some(r#"Bearer realm="handoff", error="invalid_token""#),
        Code::OutOfScope => Some(r#"Bearer realm="handoff", error="insufficient_scope""#),
        _ => None,
    }
}

impl IntoResponse for Problem {
    /// Only carries the problem: the front writes it.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::{Problem, TABLE, status, title};
    use crate::http::App;
    use crate::rooms::RoomError;
    use crate::runtime::{Phase, Readiness, RoomStatus};
    use crate::settings::Settings;
    use crate::telemetry::{LogHandle, Metrics};
    use handoff_log::journal::{Lost, Refused};
    use handoff_types::{Code, Outcome, Position, Room};
    use std::io;
    use std::sync::Arc;

    #[test]
    fn every_code_has_one_status_and_a_title() {
        for code in Code::ALL {
            let rows = TABLE.iter().filter(|said| said.code == code).count();
            assert_eq!(rows, 1, "{code}");
            assert!(!title(code).is_empty());
            assert!(status(code).is_client_error() || status(code).is_server_error(), "{code}");
        }
        assert_eq!(TABLE.len(), Code::ALL.len());
    }

    #[test]
    fn who_is_told_to_come_again_is_told_when() {
        for said in TABLE {
            if said.retry_after.is_some() {
                let later = said.status.is_server_error() || said.status.as_u16() == 429;
                assert!(later, "{}", said.code);
            }
        }
    }

    fn app() -> Arc<App> {
        let readiness = Readiness::new();
        readiness.set_room(Room::Events, RoomStatus::Open);
        readiness.set_phase(Phase::Ready);
        let metrics = Arc::new(Metrics::new("1"));
        App::new(&Settings::default(), "1", readiness, metrics, LogHandle::silent())
    }

    fn of(app: &App, error: impl Into<RoomError>) -> Problem {
        Problem::of(app, Room::Events, error.into())
    }

    #[test]
    fn what_the_journal_refuses_has_its_own_words_and_changed_nothing() {
        let app = app();
        let full = || Arc::new(io::Error::from(io::ErrorKind::StorageFull));
        let broken = || Arc::new(io::Error::other("broken"));
        let room = Room::Events;
        for (refused, status, code, retry) in [
            (Refused::Busy { room, waiting: 2, limit: 1 }, 503, "log.room_busy", Some(1)),
            (Refused::Full { free: 1, reserve: 2 }, 503, "log.journal_full", Some(5)),
            (Refused::NoFile { fault: full() }, 507, "log.disk_full", Some(30)),
            (Refused::NoFile { fault: broken() }, 503, "log.disk_fault", Some(5)),
            (Refused::Poisoned { fault: broken() }, 503, "log.poisoned", Some(5)),
            (Refused::Closed, 503, "log.closed", Some(10)),
            (Refused::Damaged { room, at: Position(7) }, 503, "log.room_damaged", None),
            (Refused::TooLarge { bytes: 2, limit: 1 }, 413, "log.change_too_large", None),
        ] {
            let words = refused.to_string();
            let problem = of(&app, refused);
            assert_eq!((problem.status.as_u16(), problem.code.text()), (status, code));
            assert_eq!((problem.retry_after, problem.detail), (retry, words), "{code}");
            assert_eq!(problem.outcome, Outcome::NotApplied, "{code}");
        }
    }

    #[test]
    fn what_the_journal_lost_may_have_happened_or_not() {
        for outcome in [Outcome::Unknown, Outcome::NotApplied] {
            let problem = of(&app(), Lost { outcome });
            assert_eq!((problem.code, problem.outcome), (Code::JournalClosed, outcome));
        }
    }

    #[test]
    fn what_a_room_refuses_has_the_code_of_what_the_caller_must_do() {
        use handoff_events::{BadSchedule, FilterError, Refusal as Event};
        use handoff_house::Refusal as House;
        let app = app();
        let text = || "x".to_owned();
        let cases: [(RoomError, Code); 15] = [
            (Event::Schedule(BadSchedule(text())).into(), Code::EventInvalid),
            (Event::Repeat(-2).into(), Code::EventInvalid),
            (Event::Description { bytes: 2, max: 1 }.into(), Code::EventInvalid),
            (Event::Types(text()).into(), Code::EventInvalid),
            (Event::OutOfSight(text()).into(), Code::OutOfScope),
            (Event::Exhausted.into(), Code::EventsFull),
            (Event::Full(1).into(), Code::EventsFull),
            (FilterError::NoEvent(7).into(), Code::EventNotFound),
            (FilterError::OutOfSight(text()).into(), Code::OutOfScope),
            (FilterError::TooLarge(1).into(), Code::FilterTooLarge),
            (RoomError::NoEvent(7), Code::EventNotFound),
            (House::NoToken(text()).into(), Code::TokenNotFound),
            (House::Invalid(text()).into(), Code::RequestInvalid),
            (RoomError::DiskLow { free: 1, min: 2 }, Code::DiskLow),
            (RoomError::Sessions(1), Code::ServerBusy),
        ];
        for (error, code) in cases {
            let words = error.to_string();
            let problem = of(&app, error);
            assert_eq!((problem.code, problem.detail), (code, words));
        }
    }

    #[test]
    fn what_the_streams_room_refuses_has_its_code() {
        use handoff_streams::{PartitionId, Place, Refusal, ScheduledId, TopicName};
        let app = app();
        let name = || "orders".parse::<TopicName>().unwrap();
        let text = || "x".to_owned();
        let place = Place::At(PartitionId::default(), 7);
        for (refusal, code) in [
            (Refusal::NoTopic(name()), Code::TopicNotFound),
            (Refusal::TopicExists(name()), Code::TopicExists),
            (Refusal::Partitions(text()), Code::StreamsInvalid),
            (
                Refusal::NoPartition { topic: name(), partition: 2, count: 2 },
                Code::PartitionNotFound,
            ),
            (Refusal::Limit(text()), Code::StreamsLimit),
            (Refusal::Message { number: 0, why: text() }, Code::StreamsInvalid),
            (Refusal::Empty, Code::StreamsInvalid),
            (Refusal::SequenceReused { sequence: 1, place }, Code::SequenceReused),
            (Refusal::SequenceTooOld { sequence: 1, floor: 2 }, Code::SequenceTooOld),
            (Refusal::SequenceRange, Code::StreamsInvalid),
            (Refusal::ScopeFixed("x"), Code::StreamsInvalid),
            (Refusal::NoScheduled(ScheduledId(1)), Code::ScheduledNotFound),
            (Refusal::TooFarAhead { number: 0, hours: 1 }, Code::StreamsInvalid),
        ] {
            let words = refusal.to_string();
            let problem = of(&app, refusal);
            assert_eq!((problem.code, problem.detail), (code, words));
        }
        let quota = of(&app, RoomError::Quota { rate: 5, seconds: 9 });
        assert_eq!((quota.code, quota.retry_after), (Code::StreamsQuota, Some(9)));
        assert_eq!(Problem::trimmed(7).start, Some(7));
    }

    #[test]
    fn a_closed_room_is_answered_by_what_the_board_says() {
        let app = app();
        let closed = |app: &App| of(app, RoomError::Closed("x".to_owned())).code;
        assert_eq!(closed(&app), Code::RoomOff);
        app.readiness.set_room(Room::Events, RoomStatus::Closed("damage".to_owned()));
        assert_eq!(closed(&app), Code::RoomDamaged);
        app.readiness.set_room(Room::Events, RoomStatus::Starting);
        assert_eq!(closed(&app), Code::RoomOff);
        app.readiness.set_phase(Phase::Stopping);
        assert_eq!(closed(&app), Code::ServerStopping);
    }
}

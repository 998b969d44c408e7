//! The way past the router, for what is asked most.
//!
//! To find a route, to make a span for lines that nobody writes and to look for counters by their
//! labels takes longer than to store a small message. Here nothing is looked for, and a span is made
//! when there is something to say. Whatever is unusual about a request goes through the router.

use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use handoff_streams::TopicName;
use hyper::body::Incoming;

use super::access::StreamsAsker;
use super::alarm::{Alarm, Alarms, Late};
use super::exchange::Posting;
use super::front::{Door, Passage, caught};
use super::json::{body_too_slow, read_body, written};
use super::problem::Problem;
use super::streams::Intake;
use super::{App, front};
use crate::telemetry::Counted;

/// The routes that are gone past, as the router knows them.
const PRODUCE: &str = "/v1/streams/topics/{topic}/messages";
const POST: &str = "/v1/exchange/messages";

/// What is asked most, each time of a `POST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Messages are to be stored in a topic.
    Produce(TopicName),
    /// A device sends messages.
    Post,
}

/// What is counted of each errand.
#[derive(Debug)]
pub(super) struct Errands {
    produce: Counted,
    post: Counted,
}

impl Errands {
    pub(super) fn new(app: &App, routes: &front::Routes) -> Self {
        let http = app.metrics.http();
        let counted = |route, usual: StatusCode| {
            http.counted(&routes.label(Some(route)), "POST", usual.into())
        };
        Self { produce: counted(PRODUCE, StatusCode::OK), post: counted(POST, StatusCode::CREATED) }
    }

    pub(super) fn of(&self, errand: &Errand) -> &Counted {
        match errand {
            Errand::Produce(_) => &self.produce,
            Errand::Post => &self.post,
        }
    }
}

impl Errand {
    /// The errand of a request that asks for nothing else.
    pub(super) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        if method != Method::POST || uri.query().is_some() {
            return None;
        }
        Self::of_path(uri.path())
    }

    /// The errand of the path of such a request.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        if path == POST {
            return Some(Self::Post);
        }
        let topic = path.strip_prefix("/v1/streams/topics/")?.strip_suffix("/messages")?;
        topic.parse().ok().map(Self::Produce)
    }

    /// The path of such a request.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Produce(topic) => PRODUCE.replace("{topic}", topic.as_str()),
            Self::Post => POST.to_owned(),
        }
    }

    /// Lets whoever asks in, before anything of what is to be stored is looked at.
    pub(super) fn admit<'a>(
        &self,
        door: &'a Door,
        headers: &HeaderMap,
    ) -> Result<Admitted<'a>, Problem> {
        Ok(match self {
            Self::Produce(topic) => {
                let asker = StreamsAsker::admit(door, headers)?;
                Admitted::Produce(Intake::new(door, asker, topic.clone(), headers)?)
            }
            Self::Post => Admitted::Post(Posting::new(door, headers)?),
        })
    }
}

/// An errand whose body may come.
pub(super) enum Admitted<'a> {
    Produce(Intake<'a>),
    Post(Posting<'a>),
}

impl Admitted<'_> {
    /// What the body may weigh.
    pub(super) fn bytes_max(&self) -> usize {
        match self {
            Self::Produce(intake) => intake.bytes_max(),
            Self::Post(posting) => posting.bytes_max(),
        }
    }

    /// Stores the messages of the body.
    pub(super) async fn store(self, body: Bytes) -> Result<Written, Problem> {
        match self {
            Self::Produce(intake) => intake.store(body).await,
            Self::Post(posting) => posting.store(body).await,
        }
    }
}

/// What became of messages, as it is sent.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) status: StatusCode,
    pub(super) media_type: &'static str,
    pub(super) bytes: Vec<u8>,
}

impl Written {
    pub(super) fn into_response(self) -> Response {
        let mut response = written(self.bytes, self.media_type);
        *response.status_mut() = self.status;
        response
    }
}

/// Runs an errand.
pub(super) async fn run(
    door: &Door,
    alarms: &Alarms,
    errand: &Errand,
    request: Request<Incoming>,
) -> Response {
    let path = || request.uri().path().to_owned();
    let passage = Passage::begin(door, request.method(), path, request.headers());
    let mut alarm = alarms.set(passage.deadline().0);
    let answer = caught(stored(door, &mut alarm, errand, request)).await;
    let counted = door.errands.of(errand);
    let (response, took) = passage.end(door, &counted.route, answer);
    let status = response.status().as_u16();
    door.app.metrics.http().answered_one(counted, status, took);
    response
}

/// The answer, unless it is late.
async fn stored(
    door: &Door,
    alarm: &mut Alarm<'_>,
    errand: &Errand,
    request: Request<Incoming>,
) -> Result<Response, Late> {
    let (parts, body) = request.into_parts();
    let admitted = match errand.admit(door, &parts.headers) {
        Ok(admitted) => admitted,
        Err(problem) => return Ok(problem.into_response()),
    };
    let body = alarm.before(read_body(&parts.headers, body, admitted.bytes_max())).await;
    let stored = match body.unwrap_or_else(|Late| Err(body_too_slow())) {
        Ok(body) => alarm.before(admitted.store(body)).await?,
        Err(problem) => Err(problem),
    };
    Ok(stored.map_or_else(|problem| problem.into_response(), Written::into_response))
}

#[cfg(test)]
mod tests {
    use super::Errand;
    use axum::http::{Method, Uri};

    #[test]
    fn only_plain_requests_go_past_the_router() {
        let errand =
            |method: Method, uri: &'static str| Errand::of(&method, &Uri::from_static(uri));
        let produce = "/v1/streams/topics/orders.eu/messages";
        let topic = "orders.eu".parse().unwrap();
        assert_eq!(errand(Method::POST, produce), Some(Errand::Produce(topic)));
        assert_eq!(errand(Method::POST, "/v1/exchange/messages"), Some(Errand::Post));
        for plain in [produce, "/v1/exchange/messages"] {
            assert_eq!(errand(Method::GET, plain), None);
            assert_eq!(errand(Method::POST, plain).unwrap().path(), plain);
        }
        for other in [
            "/v1/streams/topics/orders.eu/messages?x=1",
            "/v1/streams/topics/orders%2Eeu/messages",
            "/v1/streams/topics/a/b/messages",
            "/v1/streams/topics//messages",
            "/v1/streams/topics/messages",
            "/v1/streams/topics/orders/messages/",
            "/v1/streams/topics/orders",
            "/v1/exchange/messages?x=1",
            "/v1/exchange/messages/",
            "/v1/exchange/messages/ack",
            "/v1/exchange/message%73",
        ] {
            assert_eq!(errand(Method::POST, other), None, "{other}");
        }
    }
}

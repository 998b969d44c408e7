//! The way past the router, for what is asked most.
//!
//! To find a route, to make a span for lines that nobody writes and to look for counters by their
//! labels takes longer than to store a small message. Here nothing is looked for, and a span is made
//! when there is something to say. Whatever is unusual about a request goes through the router.

use axum::http::{Method, Request, Uri};
use axum::response::{IntoResponse as _, Response};
use handoff_streams::TopicName;
use hyper::body::Incoming;

use super::access::StreamsAsker;
use super::alarm::{Alarm, Alarms, Late};
use super::front::{Door, Passage, caught};
use super::json::{body_too_slow, read_body};
use super::streams::{Intake, Written};

/// The route that is gone past, as the router knows it.
pub(super) const PRODUCE: &str = "/v1/streams/topics/{topic}/messages";

/// The topic of a request that stores messages and asks for nothing else.
pub(super) fn topic_to_produce(method: &Method, uri: &Uri) -> Option<TopicName> {
    if method != Method::POST || uri.query().is_some() {
        return None;
    }
    topic_of(uri.path())
}

/// The topic of the path of such a request.
pub(super) fn topic_of(path: &str) -> Option<TopicName> {
    path.strip_prefix("/v1/streams/topics/")?.strip_suffix("/messages")?.parse().ok()
}

/// The path of such a request.
pub(super) fn path_of(topic: &TopicName) -> String {
    PRODUCE.replace("{topic}", topic.as_str())
}

/// Stores messages.
pub(super) async fn produce(
    door: &Door,
    alarms: &Alarms,
    topic: TopicName,
    request: Request<Incoming>,
) -> Response {
    let path = || request.uri().path().to_owned();
    let passage = Passage::begin(door, request.method(), path, request.headers());
    let mut alarm = alarms.set(passage.deadline().0);
    let answer = caught(stored(door, &mut alarm, topic, request)).await;
    let (response, took) = passage.end(door, &door.produce.route, answer);
    let status = response.status().as_u16();
    door.app.metrics.http().answered_one(&door.produce, status, took);
    response
}

/// The answer, unless it is late.
async fn stored(
    door: &Door,
    alarm: &mut Alarm<'_>,
    topic: TopicName,
    request: Request<Incoming>,
) -> Result<Response, Late> {
    let (parts, body) = request.into_parts();
    let asker = StreamsAsker::admit(door, &parts.headers);
    let intake = match asker.and_then(|asker| Intake::new(door, asker, topic, &parts.headers)) {
        Ok(intake) => intake,
        Err(problem) => return Ok(problem.into_response()),
    };
    let body = alarm.before(read_body(&parts.headers, body, intake.bytes_max())).await;
    let stored = match body.unwrap_or_else(|Late| Err(body_too_slow())) {
        Ok(body) => alarm.before(intake.store(body)).await?,
        Err(problem) => Err(problem),
    };
    Ok(stored.map_or_else(|problem| problem.into_response(), Written::into_response))
}

#[cfg(test)]
mod tests {
    use super::topic_to_produce;
    use axum::http::{Method, Uri};

    #[test]
    fn only_plain_requests_go_past_the_router() {
        let topic = |method: Method, uri: &'static str| {
            topic_to_produce(&method, &Uri::from_static(uri)).map(|name| name.to_string())
        };
        let plain = "/v1/streams/topics/orders.eu/messages";
        assert_eq!(topic(Method::POST, plain).as_deref(), Some("orders.eu"));
        assert_eq!(topic(Method::GET, plain), None);
        for other in [
            "/v1/streams/topics/orders.eu/messages?x=1",
            "/v1/streams/topics/orders%2Eeu/messages",
            "/v1/streams/topics/a/b/messages",
            "/v1/streams/topics//messages",
            "/v1/streams/topics/messages",
            "/v1/streams/topics/orders/messages/",
            "/v1/streams/topics/orders",
        ] {
            assert_eq!(topic(Method::POST, other), None, "{other}");
        }
    }
}

//! What happens to every request, whatever it asks.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, error_span, field};

use super::alarm::Late;
use super::correlation::{REQUEST_ID, RequestId, TRACERESPONSE, Trace};
use super::direct::Errands;
use super::problem::Problem;
use super::{App, Limits};
use crate::telemetry::RequestLabels;

/// Headers that proxies add.
static PROXY_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-forwarded-for"),
    header::FORWARDED,
    HeaderName::from_static("x-real-ip"),
];

/// What every handler can reach. Cheap to clone: every request does.
#[derive(Clone, Debug)]
pub(super) struct Door(Arc<Behind>);

/// What is behind the door.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) app: Arc<App>,
    /// The server is told to stop: streams end.
    pub(super) stop: CancellationToken,
    pub(super) routes: Routes,
    /// `/openapi.json`
    pub(super) document: Bytes,
    /// Answers of `/healthz`, which goes past the front.
    pub(super) healthz: Counter,
    /// What goes past the router.
    pub(super) errands: Errands,
}

impl Door {
    pub(super) fn new(
        app: Arc<App>,
        stop: CancellationToken,
        routes: Routes,
        document: Bytes,
    ) -> Self {
        let route = routes.label(Some("/healthz"));
        let labels = RequestLabels { route, method: "GET", status: 200 };
        let healthz = app.metrics.http().requests.get_or_create_owned(&labels);
        let errands = Errands::new(&app, &routes);
        Self(Arc::new(Behind { app, stop, routes, document, healthz, errands }))
    }
}

impl Deref for Door {
    type Target = Behind;

    fn deref(&self) -> &Behind {
        &self.0
    }
}

/// When an answer must be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(pub(super) Instant);

/// How long an answer was allowed to wait for something to happen: so much longer it takes before it
/// is slow.
#[derive(Clone, Copy, Debug)]
pub(super) struct MayWait(pub(super) Duration);

/// Templates of paths, as labels of metrics: whatever clients ask for, there are no others.
#[derive(Debug)]
pub(super) struct Routes {
    known: HashMap<Box<str>, Arc<str>>,
    none: Arc<str>,
}

impl Routes {
    pub(super) fn new<'a>(templates: impl IntoIterator<Item = &'a str>) -> Self {
        let known = templates.into_iter().map(|path| (path.into(), path.into())).collect();
        Self { known, none: "none".into() }
    }

    pub(super) fn label(&self, template: Option<&str>) -> Arc<str> {
        let known = template.and_then(|template| self.known.get(template));
        Arc::clone(known.unwrap_or(&self.none))
    }
}

/// Gives a request an id, a deadline, a place in log and metrics, and an answer in every case.
pub(super) async fn front(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let template = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = door.routes.label(template);
    let path = || request.uri().path().to_owned();
    let mut passage = Passage::begin(&door, request.method(), path, request.headers());
    let span = passage.span();
    passage.span = Some(span.clone());
    request.extensions_mut().insert(passage.deadline());
    let answer = timeout_at(passage.deadline().0, caught(next.run(request))).instrument(span).await;
    let answer = answer.map_or(Some(Err(Late)), |response| response.map(Ok));
    let (response, took) = passage.end(&door, &route, answer);
    let (method, status) = (passage.method, response.status().as_u16());
    door.app.metrics.http().answered(RequestLabels { route, method, status }, took);
    response
}

/// A request between its first line and its answer.
#[derive(Debug)]
pub(super) struct Passage {
    begun: Instant,
    limits: Limits,
    id: RequestId,
    trace: Option<Trace>,
    method: &'static str,
    is_head: bool,
    /// For the access log, if there is one.
    path: Option<String>,
    /// What log lines are said in; made when the first is.
    span: Option<Span>,
}

/// What came of a request: an answer, none in time, or none because of a panic.
pub(super) type Outcome = Option<Result<Response, Late>>;

impl Passage {
    pub(super) fn begin(
        door: &Door,
        method: &Method,
        path: impl FnOnce() -> String,
        headers: &HeaderMap,
    ) -> Self {
        let app = &door.app;
        let limits = app.limits();
        note_proxy(app, headers);
        Self {
            begun: Instant::now(),
            id: RequestId::of(headers, &app.ids),
            trace: Trace::of(headers),
            method: method_label(method),
            is_head: method == Method::HEAD,
            path: limits.access_log.then(path),
            limits,
            span: None,
        }
    }

    /// When the answer must be there.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline(self.begun + self.limits.request_time_max)
    }

    /// The answer as it goes out, and how long it took.
    pub(super) fn end(&self, door: &Door, route: &str, answer: Outcome) -> (Response, Duration) {
        let app = &door.app;
        let mut response = match answer {
            Some(Ok(response)) => response,
            None => {
                app.metrics.http().panics.inc();
                let method = self.method;
                let words = || tracing::error!(method, route, "a request ended in a panic");
                self.span().in_scope(words);
                Problem::panicked().into_response()
            }
            Some(Err(Late)) => {
                let limit = self.limits.request_time_max.as_secs_f64();
                Problem::answer_too_slow(limit).into_response()
            }
        };
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            response = problem.write(response, self.id.as_str());
        }
        if self.is_head {
            *response.body_mut() = Body::empty();
        }
        response.headers_mut().insert(REQUEST_ID, self.id.header());
        if let Some(trace) = self.traceresponse(door) {
            response.headers_mut().insert(TRACERESPONSE, trace);
        }
        let patience = response.extensions_mut().remove::<MayWait>();
        let took = self.over(route, response.status().as_u16(), patience);
        (response, took)
    }

    /// What the request is called.
    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// What the answer says of its trace, if it belongs to one.
    pub(super) fn traceresponse(&self, door: &Door) -> Option<HeaderValue> {
        self.trace.map(|trace| trace.response(door.app.ids.draw()))
    }

    /// Says what is to be said of a request that is answered, and how long it took.
    pub(super) fn over(&self, route: &str, status: u16, patience: Option<MayWait>) -> Duration {
        let took = self.begun.elapsed();
        self.say(route, status, took, is_slow(took, self.limits.slow, patience));
        took
    }

    fn say(&self, route: &str, status: u16, took: Duration, is_slow: bool) {
        if self.path.is_none() && !is_slow {
            return;
        }
        let (method, millis) = (self.method, took.as_secs_f64() * 1_000.0);
        self.span().in_scope(|| {
            if let Some(path) = &self.path {
                tracing::info!(target: "handoff::access", method, path, status, millis, "request");
            }
            if is_slow {
                tracing::warn!(method, route, status, millis, "slow request");
            }
        });
    }

    fn span(&self) -> Span {
        if let Some(span) = &self.span {
            return span.clone();
        }
        let span = error_span!("request", request_id = self.id.as_str(), trace_id = field::Empty);
        if let Some(trace) = self.trace {
            span.record("trace_id", field::display(trace));
        }
        span
    }
}

fn is_slow(took: Duration, slow: Duration, patience: Option<MayWait>) -> bool {
    let MayWait(patience) = patience.unwrap_or(MayWait(Duration::ZERO));
    took > slow.saturating_add(patience)
}

/// Runs a future to its end; none if it panicked. What it said is logged by the hook of panics.
pub(super) async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

/// Remembers that a proxy stands before a server that trusts everybody who reaches it.
fn note_proxy(app: &App, headers: &HeaderMap) {
    if !app.auth && PROXY_HEADERS.iter().any(|name| headers.contains_key(name)) {
        let before = app.metrics.http().proxied.inc();
        if before == 0 {
            tracing::warn!(
                "a proxy stands before this server and auth is off: whoever reaches the proxy may do everything; set auth.enabled"
            );
        }
    }
}

/// Methods as labels of metrics: those there are, and one name for all others.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::{Door, MayWait, Routes, front, is_slow};
    use crate::http::App;
    use crate::runtime::Readiness;
    use crate::settings::Settings;
    use crate::telemetry::{LogHandle, Metrics};
    use axum::Router;
    use axum::body::Body;
    use axum::http::Request;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use bytes::Bytes;
    use http_body_util::BodyExt as _;
    use serde_json::Value;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt as _;

    #[test]
    fn whoever_asked_to_wait_is_not_slow_because_he_waited() {
        let seconds = Duration::from_secs;
        assert!(is_slow(seconds(2), seconds(1), None));
        assert!(!is_slow(seconds(1), seconds(1), None));
        assert!(!is_slow(seconds(31), seconds(1), Some(MayWait(seconds(30)))));
        assert!(is_slow(seconds(32), seconds(1), Some(MayWait(seconds(30)))));
    }

    #[test]
    fn whatever_is_asked_for_the_labels_are_a_closed_set() {
        let routes = Routes::new(["/v1/events", "/v1/events/{id}"]);
        assert_eq!(&*routes.label(Some("/v1/events/{id}")), "/v1/events/{id}");
        assert_eq!(&*routes.label(Some("/v1/other")), "none");
        assert_eq!(&*routes.label(None), "none");
    }

    fn app() -> Arc<App> {
        let metrics = Arc::new(Metrics::new("1"));
        App::new(&Settings::default(), "1", Readiness::new(), metrics, LogHandle::silent())
    }

    async fn ask(app: &Arc<App>, router: Router) -> (u16, Value) {
        let (stop, routes) = (CancellationToken::new(), Routes::new(["/"]));
        let door = Door::new(Arc::clone(app), stop, routes, Bytes::new());
        let router = router.layer(from_fn_with_state(door, front));
        let response =
            router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        assert!(response.headers().contains_key("x-request-id"));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_counted() {
        let app = app();
        async fn panics() -> &'static str {
            tokio::task::yield_now().await;
            panic!("on purpose")
        }
        let (status, problem) = ask(&app, Router::new().route("/", get(panics))).await;
        assert_eq!((status, &problem["code"]), (500, &"internal".into()));
        assert_eq!(problem["outcome"], "unknown");
        assert!(!problem.to_string().contains("on purpose"), "nobody's business: {problem}");
        assert_eq!(app.metrics.http().panics.get(), 1);
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_is_one_nobody_knows() {
        let app = app();
        let brief = Duration::from_millis(10);
        app.set_limits(crate::http::Limits { request_time_max: brief, ..app.limits() });
        let (status, problem) =
            ask(&app, Router::new().route("/", get(std::future::pending::<&'static str>))).await;
        assert_eq!((status, &problem["code"]), (504, &"request.too_slow".into()));
        assert_eq!(problem["outcome"], "unknown");
    }
}

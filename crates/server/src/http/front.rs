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
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, error_span, field};

use super::correlation::{REQUEST_ID, RequestId, TRACERESPONSE, Trace};
use super::problem::Problem;
use super::{App, Limits};
use crate::telemetry::RequestLabels;

/// Headers that proxies add.
const PROXY_HEADERS: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];

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
        Self(Arc::new(Behind { app, stop, routes, document, healthz }))
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
    let begun = Instant::now();
    let app = &door.app;
    let limits = app.limits();
    let id = RequestId::of(request.headers(), &app.ids);
    let trace = Trace::of(request.headers());
    let template = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = door.routes.label(template);
    let method = method_label(request.method());
    let head = request.method() == Method::HEAD;
    let path = limits.access_log.then(|| request.uri().path().to_owned());
    note_proxy(app, request.headers());
    let span = error_span!("request", request_id = id.as_str(), trace_id = field::Empty);
    if let Some(trace) = trace {
        span.record("trace_id", field::display(trace));
    }

    let deadline = begun + limits.request_time_max;
    request.extensions_mut().insert(Deadline(deadline));
    let answer = timeout_at(deadline, caught(next.run(request))).instrument(span.clone()).await;
    let mut response = match answer {
        Ok(Some(response)) => response,
        Ok(None) => {
            app.metrics.http().panics.inc();
            span.in_scope(|| tracing::error!(method, %route, "a request ended in a panic"));
            Problem::panicked().into_response()
        }
        Err(_) => Problem::answer_too_slow(limits.request_time_max.as_secs_f64()).into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = problem.write(response, id.as_str());
    }
    if head {
        *response.body_mut() = Body::empty();
    }
    response.headers_mut().insert(REQUEST_ID, id.header());
    if let Some(trace) = trace {
        response.headers_mut().insert(TRACERESPONSE, trace.response(app.ids.draw()));
    }

    let (status, took) = (response.status().as_u16(), begun.elapsed());
    span.in_scope(|| say(limits, method, &route, path.as_deref(), status, took));
    app.metrics.http().answered(RequestLabels { route, method, status }, took);
    response
}

fn say(limits: Limits, method: &str, route: &str, path: Option<&str>, status: u16, took: Duration) {
    let millis = took.as_secs_f64() * 1_000.0;
    if let Some(path) = path {
        tracing::info!(target: "handoff::access", method, path, status, millis, "request");
    }
    if took > limits.slow {
        tracing::warn!(method, route, status, millis, "slow request");
    }
}

/// Runs a future to its end; none if it panicked. What it said is logged by the hook of panics.
async fn caught<F: Future>(future: F) -> Option<F::Output> {
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
    if !app.auth && PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)) {
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
    use super::{Door, Routes, front};
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

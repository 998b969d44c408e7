//! Being a member: joining, heartbeats, and joining again.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until};

use super::{ConsumerOptions, Notice, Shared, retry_after};
use crate::client::VERSION;
use crate::streams::groups::{self, Assigned};
use crate::streams::reader::Start;
use crate::streams::topic::millis;
use crate::{Client, Error};

/// The shortest time between two heartbeats that bring nothing new: a server that does not hold
/// them must not be asked without end.
const BEAT_MIN: Duration = Duration::from_millis(500);

/// What a consumer is at the moment.
#[derive(Clone, Debug)]
pub(super) enum State {
    Joined(Arc<Member>),
    /// The server does not know the member any more; the heart is joining again.
    Gone,
    /// Joining again was refused.
    Over,
    /// It left, or was dropped.
    Left,
}

/// A member, as the server knows it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: String,
    /// How often it joined: a member that joined again may have the same id, and not the leases.
    pub(super) epoch: u64,
    generation: u64,
    session: Duration,
    pub(super) assignment: Vec<Assigned>,
}

/// Whether the server does not know the member any more.
pub(super) fn is_gone(error: &Error) -> bool {
    error.code() == Some("streams.member_gone")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Joined {
    member: String,
    generation: u64,
    session_timeout_ms: u64,
    #[serde(default)]
    assignment: Vec<Assigned>,
}

/// Joins once.
pub(super) async fn join(
    client: &Client,
    options: &ConsumerOptions,
    epoch: u64,
) -> Result<Member, Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a> {
        version: u32,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        topics: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        instance: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        session_timeout_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<&'a Start>,
    }
    let body = Body {
        version: VERSION,
        topics: &options.topics,
        client: options.client.as_deref(),
        instance: options.instance.as_deref(),
        session_timeout_ms: options.session_timeout.map(millis),
        from: options.from.as_ref(),
    };
    let target = groups::target(&options.group).segment("members");
    let joined: Joined = client.post_json(target.as_str(), &body).await?;
    Ok(Member {
        id: joined.member,
        epoch,
        generation: joined.generation,
        session: Duration::from_millis(joined.session_timeout_ms),
        assignment: joined.assignment,
    })
}

#[derive(Deserialize)]
struct Beat {
    generation: u64,
    #[serde(default)]
    assignment: Vec<Assigned>,
}

/// Keeps a consumer a member.
pub(super) struct Heart {
    shared: Arc<Shared>,
    /// With a connection of its own: heartbeats are held.
    client: Client,
    /// Failures in a row; also joins that no heartbeat has confirmed.
    failures: u32,
    epoch: u64,
}

impl Heart {
    pub(super) fn new(shared: Arc<Shared>, client: Client) -> Self {
        Self { shared, client, failures: 0, epoch: 1 }
    }

    /// Beats until the consumer leaves or cannot be a member any more.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut changes = shared.state.subscribe();
        loop {
            let state = changes.borrow_and_update().clone();
            match state {
                State::Over | State::Left => return,
                State::Gone => self.join_again().await,
                State::Joined(member) => {
                    // Both may be dropped: a heartbeat that is asked anew says the same.
                    tokio::select! {
                        () = self.beat(&member) => {}
                        _ = changes.wait_for(|state| !matches!(state, State::Joined(_))) => {}
                    }
                }
            }
        }
    }

    /// One heartbeat, and what follows from it.
    async fn beat(&mut self, member: &Arc<Member>) {
        let begun = Instant::now();
        let error = match self.ask(member).await {
            Ok(beat) => {
                self.failures = 0;
                self.shared.answered();
                let quiet = beat.generation == member.generation;
                self.shared.assign(member, beat);
                if quiet {
                    sleep_until(begun + BEAT_MIN.min(member.session / 10)).await;
                }
                return;
            }
            Err(error) => error,
        };
        if is_gone(&error) {
            return self.shared.gone(member.epoch);
        }
        if !error.is_temporary() {
            return self.shared.end(error);
        }
        let wait = self.backoff(retry_after(&error));
        self.shared.failed(error);
        sleep(wait).await;
    }

    /// Asks whether anything is new. The server holds it for up to a third of the session; an answer
    /// that is later than two thirds will not come, and there is time to ask again.
    async fn ask(&self, member: &Member) -> Result<Beat, Error> {
        #[derive(Serialize)]
        struct Body {
            version: u32,
            generation: u64,
        }
        let target = groups::target(&self.shared.options.group)
            .segment("members")
            .segment(&member.id)
            .segment("heartbeat");
        let body = Body { version: VERSION, generation: member.generation };
        let held = member.session / 3;
        let time = held.saturating_add(held.min(self.client.inner.request_timeout));
        self.client.post_json_within(target.as_str(), &body, time).await
    }

    async fn join_again(&mut self) {
        if self.failures > 0 {
            sleep(self.backoff(None)).await;
        }
        self.failures += 1;
        self.epoch += 1;
        match join(&self.client, &self.shared.options, self.epoch).await {
            Ok(member) => self.shared.joined(member),
            Err(error) if error.is_temporary() => {
                let wait = self.backoff(retry_after(&error));
                self.shared.failed(error);
                sleep(wait).await;
            }
            Err(error) => self.shared.end(error),
        }
    }

    fn backoff(&mut self, asked: Option<Duration>) -> Duration {
        let wait = self.shared.options.backoff.wait(self.failures, asked);
        self.failures = self.failures.saturating_add(1);
        wait
    }
}

impl Shared {
    /// It is a member again.
    fn joined(&self, member: Member) {
        let notice =
            Notice::Rejoined { member: member.id.clone(), assignment: member.assignment.clone() };
        let joined = self.state.send_if_modified(|state| match state {
            State::Gone => {
                *state = State::Joined(Arc::new(member));
                true
            }
            _ => false,
        });
        if joined {
            self.answered();
            self.tell(notice);
        }
    }

    /// What a heartbeat says of its partitions.
    fn assign(&self, member: &Arc<Member>, beat: Beat) {
        let Beat { generation, assignment } = beat;
        if generation == member.generation {
            return;
        }
        let without = |all: &[Assigned], others: &[Assigned]| -> Vec<Assigned> {
            let is_new = |one: &&Assigned| !others.iter().any(|other| other.is_same(one));
            all.iter().filter(is_new).cloned().collect()
        };
        let gained = without(&assignment, &member.assignment);
        let lost = without(&member.assignment, &assignment);
        let next = Member { generation, assignment: assignment.clone(), ..Member::clone(member) };
        let changed = self.state.send_if_modified(|state| match state {
            State::Joined(known) if known.epoch == member.epoch => {
                *state = State::Joined(Arc::new(next));
                true
            }
            _ => false,
        });
        // Others may have changed places, and this one not.
        if changed && !(gained.is_empty() && lost.is_empty()) {
            self.tell(Notice::Assigned { generation, assignment, gained, lost });
        }
    }
}

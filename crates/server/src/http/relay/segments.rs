//! `GET /v1/relay/segments`: a program that takes samples, and keeps the marks itself.
//!
//! ```text
//!  server ──▶ program   text    {"mark":{"ask":7,"agent":"edge-7","block":"…","shard":0}}
//!                       binary  length of the head u32 LE │ {"take":{"ask":8,…,"segment":17,"samples":40}} │ body
//!  program ──▶ server   text    {"has":{"ask":7,"mark":16}} · {"taken":{"ask":8}}
//!                               {"refused":{"ask":8,"permanent":false,"words":"…"}}
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use handoff_types::{Code, Sight};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_websockets::{CloseCode, Error, Message};

use super::RelayAsker;
use crate::http::access::Key;
use crate::http::front::Door;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::websocket::{End, WebSocket, farewell, greet};
use crate::relay::{Answer, Ask, Asked, Post};

/// What is spoken.
const SUBPROTOCOL: &str = "handoff.relay.v1";

/// The largest frame of a program: a refusal with its words.
const FRAME_BYTES_MAX: usize = 64 << 10;

/// How often a program is looked at, and how long it may be silent.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// What a program is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Down<'a> {
    Mark(Place<'a>),
    Take {
        #[serde(flatten)]
        place: Place<'a>,
        segment: u32,
        samples: u64,
    },
}

#[derive(Debug, Serialize)]
struct Place<'a> {
    ask: u64,
    agent: &'a str,
    block: String,
    shard: u16,
}

/// What a program says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Up {
    Has {
        ask: u64,
        mark: Option<u32>,
    },
    Taken {
        ask: u64,
    },
    Refused {
        ask: u64,
        #[serde(default)]
        permanent: bool,
        #[serde(default)]
        words: String,
    },
}

/// A WebSocket for a program that takes samples. `docs/relay.md` has its frames.
#[utoipa::path(
    get, path = "/v1/relay/segments", operation_id = "takeRelaySegments", tag = "relay",
    responses((status = 101, description = "A WebSocket of the subprotocol `handoff.relay.v1`."))
)]
pub(in crate::http) async fn take_relay_segments(
    asker: RelayAsker,
    query: Query,
    mut request: Request,
) -> Result<Response, Problem> {
    query.known(&[])?;
    if asker.sight != Sight::All {
        let words = "a program takes the samples of all agents; the token is for some of them";
        return Err(Problem::new(Code::OutOfScope, words));
    }
    let programs = asker.relay.programs().ok_or_else(|| {
        Problem::new(Code::CallbackOff, "relay.callback is false: samples go elsewhere")
    })?;
    let greeted = greet(&mut request, SUBPROTOCOL)?;
    let key = Key::of(request.headers());
    let RelayAsker { door, .. } = asker;
    Ok(greeted.then(FRAME_BYTES_MAX, move |socket| async move {
        let post = programs.come();
        tracing::info!("a program takes samples");
        let program = Program { post, door, key, asks: BTreeMap::new(), next: 0 };
        program.serve(socket).await;
        tracing::info!("a program that took samples has left");
    }))
}

/// A program that is connected.
struct Program {
    post: Post,
    door: Door,
    key: Key,
    /// Questions that it has not answered.
    asks: BTreeMap<u64, oneshot::Sender<Answer>>,
    next: u64,
}

impl Program {
    async fn serve(mut self, mut socket: WebSocket) {
        let end = self.converse(&mut socket).await;
        let patience = self.door.app.limits().stall_max;
        // Whoever waits for an answer hears now that none comes.
        drop(self);
        if let Some(end) = end {
            farewell(socket, end, patience).await;
        }
    }

    /// Carries frames both ways. Why it ends; none if the program has gone.
    async fn converse(&mut self, socket: &mut WebSocket) -> Option<End> {
        let (door, replaced) = (self.door.clone(), self.post.replaced.clone());
        let stall_max = door.app.limits().stall_max;
        let mut heard = Instant::now();
        let mut look = heard + LOOK_EVERY;
        loop {
            // All of these can be dropped at any time: they take nothing unless they are done.
            let frame = tokio::select! {
                biased;
                () = door.stop.cancelled() => return Some(End::stopping()),
                () = replaced.cancelled() => {
                    return Some(End::policy("another program takes samples from now on"));
                }
                said = socket.next() => {
                    heard = Instant::now();
                    match said {
                        None => return None,
                        Some(Ok(message)) if message.is_text() => {
                            if let Err(end) = self.hear(message.as_payload()) {
                                return Some(end);
                            }
                            continue;
                        }
                        Some(Ok(message)) if message.is_close() => return None,
                        Some(Ok(message)) if message.is_binary() => {
                            return Some(End::protocol("frames of a program are text"));
                        }
                        // The library answers pings of WebSocket itself.
                        Some(Ok(_)) => continue,
                        Some(Err(Error::Protocol(why))) => {
                            return Some(End::protocol(format!("no frame: {why}")));
                        }
                        Some(Err(_)) => return None,
                    }
                }
                Some(ask) = self.post.asks.recv() => match self.frame_of(ask) {
                    Some(frame) => frame,
                    None => continue,
                },
                () = sleep_until(look) => {
                    look = Instant::now() + LOOK_EVERY;
                    if heard.elapsed() > SILENCE_MAX {
                        let words = "the program was silent for too long".to_owned();
                        return Some(End { code: CloseCode::GOING_AWAY, words });
                    }
                    if !self.key.fits(&self.door) {
                        return Some(End::policy("the token is revoked or expired"));
                    }
                    // Nobody waits for those any more.
                    self.asks.retain(|_, answer| !answer.is_closed());
                    Message::ping(Bytes::new())
                }
            };
            match timeout(stall_max, socket.send(frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return None,
            }
        }
    }

    /// A question as a frame. None if nobody waits for the answer.
    fn frame_of(&mut self, Ask { asked, answer }: Ask) -> Option<Message> {
        if answer.is_closed() {
            return None;
        }
        self.next += 1;
        let ask = self.next;
        let frame = match &asked {
            Asked::Mark(origin, shard) => {
                let (agent, block) = (origin.agent.as_str(), origin.block.to_string());
                let place = Place { ask, agent, block, shard: *shard };
                Message::text(serde_json::to_string(&Down::Mark(place)).ok()?)
            }
            Asked::Take { origin, key, samples, body } => {
                let (agent, block) = (origin.agent.as_str(), origin.block.to_string());
                let place = Place { ask, agent, block, shard: key.shard };
                let take = Down::Take { place, segment: key.segment, samples: *samples };
                let head = serde_json::to_vec(&take).ok()?;
                let mut frame = BytesMut::with_capacity(4 + head.len() + body.len());
                frame.put_u32_le(u32::try_from(head.len()).ok()?);
                frame.extend_from_slice(&head);
                frame.extend_from_slice(body);
                Message::binary(frame.freeze())
            }
        };
        self.asks.insert(ask, answer);
        Some(frame)
    }

    /// The program answered.
    fn hear(&mut self, text: &[u8]) -> Result<(), End> {
        let up: Up = serde_json::from_slice(text)
            .map_err(|bad| End::protocol(format!("no frame: {bad}")))?;
        let (ask, answer) = match up {
            Up::Has { ask, mark } => (ask, Answer::Has(mark)),
            Up::Taken { ask } => (ask, Answer::Taken),
            Up::Refused { ask, permanent, words } => {
                (ask, Answer::Refused { is_permanent: permanent, words })
            }
        };
        // One that is not known came too late: nobody waits for it.
        if let Some(waiting) = self.asks.remove(&ask) {
            drop(waiting.send(answer));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Down, Place, Up};

    #[test]
    fn frames_are_as_documented() {
        let place = || Place { ask: 7, agent: "edge-7", block: "b".to_owned(), shard: 1 };
        assert_eq!(
            serde_json::to_string(&Down::Mark(place())).unwrap(),
            r#"{"mark":{"ask":7,"agent":"edge-7","block":"b","shard":1}}"#
        );
        assert_eq!(
            serde_json::to_string(&Down::Take { place: place(), segment: 17, samples: 40 })
                .unwrap(),
            r#"{"take":{"ask":7,"agent":"edge-7","block":"b","shard":1,"segment":17,"samples":40}}"#
        );
        for frame in [
            r#"{"has":{"ask":7,"mark":16}}"#,
            r#"{"has":{"ask":7,"mark":null}}"#,
            r#"{"taken":{"ask":8}}"#,
            r#"{"refused":{"ask":8,"permanent":true,"words":"no"}}"#,
            r#"{"refused":{"ask":8}}"#,
        ] {
            assert!(serde_json::from_str::<Up>(frame).is_ok(), "{frame}");
        }
    }
}

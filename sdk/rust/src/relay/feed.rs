//! One connection after the other, and a sink that is asked what it has and given what it has not.
//!
//! While the sink works, what comes is read up to a bound, so that the server hears that somebody is
//! there, and segments that came meanwhile are given together. Questions are answered in the order they
//! came: a mark is told when everything that was handed over before it was taken or refused.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tokio_websockets::{CloseCode, Message};

use super::{FeedOptions, Lane, Refused, Segment, Sink};
use crate::Error;
use crate::client::Inner;
use crate::websocket::{self, Web};

/// Where segments are.
const PATH: &str = "/v1/relay/segments";
const SUBPROTOCOL: &str = "handoff.relay.v1";

/// What a frame has besides a segment, at most.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// How long the server may be silent, which asks every few seconds whether somebody is there, and how
/// long it may take to take an answer.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// What the server says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Down {
    Mark(Place),
    Take {
        #[serde(flatten)]
        place: Place,
        segment: u32,
        samples: u64,
    },
}

#[derive(Debug, Deserialize)]
struct Place {
    ask: u64,
    agent: String,
    block: String,
    shard: u16,
}

/// What is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Up {
    Has { ask: u64, mark: Option<u32> },
    Taken { ask: u64 },
    Refused { ask: u64, permanent: bool, words: String },
}

impl Up {
    fn refused(ask: u64, Refused { is_permanent: permanent, mut words }: Refused) -> Self {
        words.truncate(words.floor_char_boundary(1 << 10));
        Self::Refused { ask, permanent, words }
    }
}

/// A question that waits for the sink.
#[derive(Debug)]
enum Question {
    Mark(u64, Lane),
    Take(u64, Segment),
}

impl Question {
    fn bytes(&self) -> usize {
        match self {
            Self::Mark(..) => 0,
            Self::Take(_, segment) => segment.body.len(),
        }
    }
}

/// What the sink does at once.
#[derive(Debug)]
enum Job {
    Mark(u64, Lane),
    Take(Vec<u64>, Vec<Segment>),
}

pub(super) async fn feed<S: Sink>(
    inner: &Inner,
    sink: &mut S,
    options: &FeedOptions,
) -> Result<Infallible, Error> {
    let mut failures = 0;
    loop {
        let bytes_max = options.segment_bytes_max.saturating_add(HEAD_BYTES_MAX);
        let error = match websocket::open(inner, PATH, SUBPROTOCOL, bytes_max).await {
            Ok(web) => {
                let mut line = Line::new(web, inner, options);
                let Err(error) = line.serve(sink).await;
                if line.was_heard {
                    failures = 0;
                }
                error
            }
            Err(error) => error,
        };
        if !error.is_temporary() {
            return Err(error);
        }
        sleep(options.backoff.wait(failures, None)).await;
        failures = failures.saturating_add(1);
    }
}

/// One connection.
struct Line<'a> {
    reader: SplitStream<Web>,
    writer: SplitSink<Web, Message>,
    waiting: Waiting<'a>,
    was_heard: bool,
}

/// What was read and not answered.
struct Waiting<'a> {
    inner: &'a Inner,
    options: &'a FeedOptions,
    questions: VecDeque<Question>,
    bytes: usize,
}

impl<'a> Line<'a> {
    fn new(web: Web, inner: &'a Inner, options: &'a FeedOptions) -> Self {
        let (writer, reader) = web.split();
        let waiting = Waiting { inner, options, questions: VecDeque::new(), bytes: 0 };
        Self { reader, writer, waiting, was_heard: false }
    }

    /// Answers until the connection ends.
    async fn serve<S: Sink>(&mut self, sink: &mut S) -> Result<Infallible, Error> {
        loop {
            let Some(job) = self.waiting.job() else {
                let read = timeout(SILENCE_MAX, self.reader.next()).await;
                let message = read.map_err(|_| self.waiting.lost("the server is silent"))?;
                self.waiting.hear(message)?;
                self.was_heard = true;
                continue;
            };
            let mut lost = None;
            let answers = {
                let mut working = pin!(work(sink, job));
                loop {
                    let reads = lost.is_none() && self.waiting.has_room();
                    tokio::select! {
                        biased;
                        answers = &mut working => break answers,
                        // What is read is kept before anything else is waited for.
                        message = self.reader.next(), if reads => {
                            // The sink finishes what it began: only its own process cuts it short.
                            lost = self.waiting.hear(message).err();
                        }
                    }
                }
            };
            if let Some(error) = lost {
                return Err(error);
            }
            self.say(answers).await?;
        }
    }

    async fn say(&mut self, answers: Vec<Up>) -> Result<(), Error> {
        let writer = &mut self.writer;
        let said = async {
            for answer in answers {
                // Numbers and text: it can be written.
                let text = serde_json::to_string(&answer).unwrap_or_default();
                writer.feed(Message::text(text)).await?;
            }
            writer.flush().await
        };
        match timeout(SILENCE_MAX, said).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.waiting.lost(error)),
            Err(_) => Err(self.waiting.lost("the server takes no answer")),
        }
    }
}

impl Waiting<'_> {
    fn lost(&self, cause: impl Into<crate::Cause>) -> Error {
        Error::Lost { url: self.inner.transport.base.url.clone(), cause: cause.into() }
    }

    fn has_room(&self) -> bool {
        self.bytes < self.options.waiting_bytes_max
    }

    /// Keeps what was read. What a newer server says besides is passed over.
    fn hear(
        &mut self,
        message: Option<Result<Message, tokio_websockets::Error>>,
    ) -> Result<(), Error> {
        let message = match message {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(self.lost(error)),
            None => return Err(self.lost("the server closed it")),
        };
        if let Some((code, reason)) = message.as_close() {
            return Err(match code {
                CloseCode::POLICY_VIOLATION => {
                    let (url, why) = (self.inner.transport.base.url.clone(), reason.to_owned());
                    Error::Dismissed { url, why }
                }
                _ => self.lost(format!("the server closed it ({reason})")),
            });
        }
        let question = if let Some(text) = message.as_text() {
            match serde_json::from_str(text) {
                Ok(Down::Mark(Place { ask, agent, block, shard })) => {
                    Some(Question::Mark(ask, Lane { agent, block, shard }))
                }
                _ => None,
            }
        } else if message.is_binary() {
            segment(message.into_payload().into())
        } else {
            None
        };
        if let Some(question) = question {
            self.bytes += question.bytes();
            self.questions.push_back(question);
        }
        Ok(())
    }

    /// What the sink does next: it is asked for a mark, or given the segments in front.
    fn job(&mut self) -> Option<Job> {
        let (mut asks, mut segments) = (Vec::new(), Vec::new());
        while segments.len() < self.options.together {
            let is_take = |question: &mut Question| matches!(question, Question::Take(..));
            let Some(next) = self.questions.pop_front_if(is_take) else { break };
            self.bytes -= next.bytes();
            if let Question::Take(ask, segment) = next {
                asks.push(ask);
                segments.push(segment);
            }
        }
        if !segments.is_empty() {
            return Some(Job::Take(asks, segments));
        }
        match self.questions.pop_front()? {
            Question::Mark(ask, lane) => Some(Job::Mark(ask, lane)),
            Question::Take(ask, segment) => Some(Job::Take(vec![ask], vec![segment])),
        }
    }
}

/// A segment: the length of its head, the head, the body.
fn segment(frame: Bytes) -> Option<Question> {
    let (length, rest) = frame.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (head, body) = rest.split_at_checked(length)?;
    let Ok(Down::Take { place, segment: number, samples }) = serde_json::from_slice(head) else {
        return None;
    };
    let Place { ask, agent, block, shard } = place;
    let lane = Lane { agent, block, shard };
    Some(Question::Take(ask, Segment { lane, number, samples, body: frame.slice_ref(body) }))
}

/// Lets the sink do something, and says what became of it.
async fn work<S: Sink>(sink: &mut S, job: Job) -> Vec<Up> {
    let (asks, segments) = match job {
        Job::Mark(ask, lane) => {
            return vec![match sink.mark(&lane).await {
                Ok(mark) => Up::Has { ask, mark },
                Err(refused) => Up::refused(ask, refused),
            }];
        }
        Job::Take(asks, segments) => (asks, segments),
    };
    let outcome = sink.take(&segments).await;
    let one_is_bad = outcome.as_ref().is_err_and(|refused| refused.is_permanent);
    let answer = |ask: u64, outcome: Result<(), Refused>| match outcome {
        Ok(()) => Up::Taken { ask },
        Err(refused) => Up::refused(ask, refused),
    };
    if !one_is_bad || segments.len() < 2 {
        return asks.into_iter().map(|ask| answer(ask, outcome.clone())).collect();
    }
    let mut answers = Vec::with_capacity(asks.len());
    for (ask, segment) in asks.into_iter().zip(&segments) {
        answers.push(answer(ask, sink.take(std::slice::from_ref(segment)).await));
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::{Job, Up, segment, work};
    use crate::relay::{Lane, Refused, Segment, Sink};
    use bytes::{BufMut as _, Bytes, BytesMut};

    fn frame(head: &str, body: &[u8]) -> Bytes {
        let mut frame = BytesMut::new();
        frame.put_u32_le(u32::try_from(head.len()).unwrap());
        frame.extend_from_slice(head.as_bytes());
        frame.extend_from_slice(body);
        frame.freeze()
    }

    #[test]
    fn a_segment_is_its_head_and_the_rest() {
        let head =
            r#"{"take":{"ask":8,"agent":"edge","block":"b","shard":1,"segment":17,"samples":2}}"#;
        let Some(super::Question::Take(8, found)) = segment(frame(head, b"body")) else {
            panic!("it is not read")
        };
        assert_eq!(found.id(), "edge/b/1/17");
        assert_eq!(found.body, b"body".as_slice());
        for (head, body) in
            [("{}", "x"), (r#"{"mark":{"ask":1,"agent":"a","block":"b","shard":0}}"#, "")]
        {
            assert!(segment(frame(head, body.as_bytes())).is_none(), "{head}");
        }
        assert!(segment(Bytes::from_static(b"\xff\xff\xff\xff{}")).is_none());
        assert!(segment(Bytes::from_static(b"\x01")).is_none());
    }

    /// Takes all but one segment, and nothing together with that one.
    #[derive(Default)]
    struct Picky {
        taken: Vec<u32>,
        asked: usize,
    }

    impl Sink for Picky {
        async fn mark(&mut self, _: &Lane) -> Result<Option<u32>, Refused> {
            Ok(self.taken.last().copied())
        }

        async fn take(&mut self, segments: &[Segment]) -> Result<(), Refused> {
            self.asked += 1;
            if segments.iter().any(|segment| segment.number == 2) {
                return Err(Refused::never("two"));
            }
            self.taken.extend(segments.iter().map(|segment| segment.number));
            Ok(())
        }
    }

    #[tokio::test]
    async fn one_that_is_refused_for_good_takes_no_other_with_it() {
        let one = |number: u32| Segment {
            lane: Lane { agent: format!("a{number}"), block: "b".to_owned(), shard: 0 },
            number,
            samples: 1,
            body: Bytes::new(),
        };
        let mut sink = Picky::default();
        let job = Job::Take(vec![11, 12, 13], vec![one(1), one(2), one(3)]);
        let answers = work(&mut sink, job).await;
        let said: Vec<String> =
            answers.iter().map(|answer: &Up| serde_json::to_string(answer).unwrap()).collect();
        assert_eq!(
            said,
            [
                r#"{"taken":{"ask":11}}"#,
                r#"{"refused":{"ask":12,"permanent":true,"words":"two"}}"#,
                r#"{"taken":{"ask":13}}"#
            ]
        );
        assert_eq!((sink.taken, sink.asked), (vec![1, 3], 4));
    }
}

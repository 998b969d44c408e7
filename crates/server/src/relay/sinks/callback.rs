//! A program: it connects with the SDK, is handed segments by their ids, and keeps the marks itself.
//!
//! * One program at a time; whoever comes later takes the place of the other.
//! * It is asked for its mark of a shard before it is handed anything of it: when an agent greets, when
//!   another program came, and whenever nobody knows whether it took what it was handed last. So a program
//!   that keeps its mark with what it takes has each segment once; one that does not is handed some
//!   again, under the same ids.
//! * Of a shard one segment is on its way at a time, so that a mark never passes one that was refused.
//!
//! ```text
//!  Sinks ──▶ CallbackSink ──Ask──▶ Post: the place of the program ──▶ http/relay/segments ──▶ SDK
//!                   ▲ Answer: mark · taken · refused ◀──────────────────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use handoff_relay::{Origin, SegmentKey, ShardId, Shards};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Failure, OneByOne};
use crate::relay::delivery::Parcel;
use crate::relay::machine::Made;
use crate::settings;

/// Questions that wait to be written to the program. What they carry counts as pending.
const ASKS_MAX: usize = 64;

/// What a program is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The last segment of a shard that it has.
    Mark(Origin, ShardId),
    /// To take a segment.
    Take {
        /// Whose it is.
        origin: Origin,
        /// Which.
        key: SegmentKey,
        /// How many samples it has.
        samples: u64,
        /// `io.prometheus.write.v2.Request`
        body: Bytes,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The last segment of the shard that it has, durably.
    Has(Option<u32>),
    /// It has the segment, durably.
    Taken,
    /// It does not do it, now or ever.
    Refused {
        /// Whether it never will.
        is_permanent: bool,
        /// Why not.
        words: String,
    },
}

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) asked: Asked,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// Where a program that takes segments stands, if there is one. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs(Arc<Mutex<Standing>>);

#[derive(Debug, Default)]
struct Standing {
    next: u64,
    present: Option<Present>,
}

#[derive(Clone, Debug)]
struct Present {
    number: u64,
    asks: mpsc::Sender<Ask>,
    leave: CancellationToken,
}

/// The place of a program. Dropped, the program has left.
#[derive(Debug)]
pub(crate) struct Post {
    programs: Programs,
    number: u64,
    /// What it is asked.
    pub(crate) asks: mpsc::Receiver<Ask>,
    /// Another program has come.
    pub(crate) replaced: CancellationToken,
}

impl Programs {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program comes, and takes the place of another.
    pub(crate) fn come(&self) -> Post {
        let (to, asks) = mpsc::channel(ASKS_MAX);
        let replaced = CancellationToken::new();
        let mut standing = self.standing();
        standing.next += 1;
        let number = standing.next;
        let present = Present { number, asks: to, leave: replaced.clone() };
        if let Some(other) = standing.present.replace(present) {
            other.leave.cancel();
        }
        drop(standing);
        Post { programs: self.clone(), number, asks, replaced }
    }

    fn present(&self) -> Option<Present> {
        self.standing().present.clone()
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.programs.standing().present.take_if(|present| present.number == self.number);
    }
}

/// The program as a sink.
#[derive(Debug)]
pub(super) struct CallbackSink {
    programs: Programs,
    time_max: Duration,
    bytes_max: usize,
    /// Which program's mark of a shard is known.
    known: Mutex<BTreeMap<(Origin, ShardId), u64>>,
}

impl CallbackSink {
    pub(super) fn new(settings: &settings::Relay) -> Self {
        Self {
            programs: Programs::default(),
            time_max: settings.callback_time_max,
            bytes_max: settings.message_bytes_max,
            known: Mutex::default(),
        }
    }

    pub(super) fn programs(&self) -> Programs {
        self.programs.clone()
    }

    /// The largest segment, as a message.
    pub(super) const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(Origin, ShardId), u64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> Result<Present, Failure> {
        let words = "no program takes samples (relay.callback); one connects with the SDK";
        self.programs.present().ok_or_else(|| Failure::later(words))
    }

    /// What the program has of each shard.
    pub(super) async fn marks(
        &self,
        origin: &Origin,
        shards: Shards,
    ) -> Result<Vec<Option<u32>>, Failure> {
        let present = self.present()?;
        try_join_all(shards.ids().map(|shard| self.mark(&present, origin, shard))).await
    }

    /// Nobody sends the block any more.
    pub(super) fn left(&self, origin: &Origin) {
        self.known().retain(|(whose, _), _| whose != origin);
    }

    async fn mark(
        &self,
        present: &Present,
        origin: &Origin,
        shard: ShardId,
    ) -> Result<Option<u32>, Failure> {
        match self.ask(present, Asked::Mark(origin.clone(), shard)).await? {
            Answer::Has(mark) => {
                self.known().insert((origin.clone(), shard), present.number);
                Ok(mark)
            }
            Answer::Refused { words, .. } => Err(Failure::later(words)),
            Answer::Taken => Err(Failure::later("the program answers another question")),
        }
    }

    async fn ask(&self, present: &Present, asked: Asked) -> Result<Answer, Failure> {
        let (answer, answered) = oneshot::channel();
        let asking = async {
            present.asks.send(Ask { asked, answer }).await.ok()?;
            answered.await.ok()
        };
        match timeout(self.time_max, asking).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Failure::later("the program that takes samples has left")),
            Err(_) => Err(Failure::later(format!(
                "the program that takes samples did not answer within relay.callback_secs_max, {:?}",
                self.time_max
            ))),
        }
    }
}

impl OneByOne for CallbackSink {
    /// Hands a segment over, unless the program has it. What it has then.
    async fn give(
        &self,
        origin: &Origin,
        parcel: &Parcel,
        made: &Made,
    ) -> Result<Option<u32>, Failure> {
        let SegmentKey { shard, segment } = parcel.key;
        let wanted = Some(segment);
        let present = self.present()?;
        let place = (origin.clone(), shard);
        if self.known().get(&place) != Some(&present.number) {
            let has = self.mark(&present, origin, shard).await?;
            if has >= wanted {
                return Ok(has);
            }
        }
        // Until it answers, nobody knows its mark.
        self.known().remove(&place);
        let asked = Asked::Take {
            origin: origin.clone(),
            key: parcel.key,
            samples: made.samples,
            body: made.v2.clone(),
        };
        let answer = self.ask(&present, asked).await?;
        match answer {
            Answer::Has(_) => return Err(Failure::later("the program answers another question")),
            Answer::Taken | Answer::Refused { .. } => self.known().insert(place, present.number),
        };
        match answer {
            Answer::Refused { is_permanent: true, words } => Err(Failure::never(words)),
            Answer::Refused { is_permanent: false, words } => Err(Failure::later(words)),
            Answer::Taken | Answer::Has(_) => Ok(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Asked, CallbackSink, Post};
    use crate::relay::delivery::{Content, Parcel};
    use crate::relay::machine::Made;
    use crate::relay::sinks::{Failure, OneByOne as _, Reached};
    use crate::settings;
    use handoff_relay::session::Reason;
    use handoff_relay::{BlockId, Name, Origin, SegmentKey, Shards};
    use std::time::Duration;

    fn origin() -> Origin {
        Origin { agent: Name::try_from("edge").unwrap(), block: BlockId([7; 16]) }
    }

    fn parcels(segments: std::ops::Range<u32>) -> Vec<Parcel> {
        let parcel = |segment| Parcel {
            key: SegmentKey { shard: 0, segment },
            content: Content::Samples { made: Made::default(), _pending: None },
        };
        segments.map(parcel).collect()
    }

    fn sink() -> CallbackSink {
        let time_max = Duration::from_secs(30);
        CallbackSink::new(&settings::Relay { callback_time_max: time_max, ..Default::default() })
    }

    /// A program that has this much, takes so many, and then leaves. What it was asked.
    async fn program(mut post: Post, mut mark: Option<u32>, takes: usize) -> Vec<String> {
        let (mut heard, mut taken) = (Vec::new(), 0);
        while let Some(ask) = post.asks.recv().await {
            match ask.asked {
                Asked::Mark(..) => {
                    heard.push("mark".to_owned());
                    drop(ask.answer.send(Answer::Has(mark)));
                }
                Asked::Take { key, .. } => {
                    heard.push(key.segment.to_string());
                    if taken == takes {
                        // It may have it, and nobody hears so.
                        break;
                    }
                    (mark, taken) = (Some(key.segment), taken + 1);
                    drop(ask.answer.send(Answer::Taken));
                }
            }
        }
        heard
    }

    #[tokio::test]
    async fn a_program_is_asked_what_it_has_and_handed_the_rest_in_order() {
        let sink = sink();
        let at_work = tokio::spawn(program(sink.programs().come(), Some(1), 2));
        let reached = sink.deliver(&origin(), &parcels(0..4), None).await;
        assert_eq!(reached, Reached { mark: Some(3), failed: None });
        drop(sink.programs().come());
        assert_eq!(at_work.await.unwrap(), ["mark", "2", "3"]);
    }

    #[tokio::test]
    async fn whoever_comes_after_one_that_left_in_the_middle_is_asked_first() {
        let sink = sink();
        let at_work = tokio::spawn(program(sink.programs().come(), None, 1));
        let reached = sink.deliver(&origin(), &parcels(0..3), None).await;
        assert_eq!(reached.mark, Some(0));
        assert_eq!(reached.failed.map(|failed| failed.reason), Some(Reason::RetryAfter));
        assert_eq!(at_work.await.unwrap(), ["mark", "0", "1"]);
        // It had the second after all.
        let next = tokio::spawn(program(sink.programs().come(), Some(1), 9));
        let reached = sink.deliver(&origin(), &parcels(1..3), reached.mark).await;
        assert_eq!(reached, Reached { mark: Some(2), failed: None });
        drop(sink.programs().come());
        assert_eq!(next.await.unwrap(), ["mark", "2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_answer_is_asked_for_its_mark_before_it_is_handed_more() {
        let sink = sink();
        let mut post = sink.programs().come();
        let silent = tokio::spawn(async move {
            let first = post.asks.recv().await.unwrap();
            assert!(first.answer.send(Answer::Has(None)).is_ok());
            let _late = post.asks.recv().await.unwrap();
            let then = post.asks.recv().await.unwrap();
            assert_eq!(then.asked, Asked::Mark(origin(), 0));
            assert!(then.answer.send(Answer::Has(Some(0))).is_ok());
            post
        });
        let reached = sink.deliver(&origin(), &parcels(0..1), None).await;
        assert!(reached.failed.unwrap().words.contains("relay.callback_secs_max"));
        let reached = sink.deliver(&origin(), &parcels(0..1), None).await;
        assert_eq!(reached, Reached { mark: Some(0), failed: None });
        drop(silent.await.unwrap());
    }

    #[tokio::test]
    async fn nothing_passes_one_that_was_refused() {
        let sink = sink();
        let mut post = sink.programs().come();
        let picky = tokio::spawn(async move {
            while let Some(ask) = post.asks.recv().await {
                let answer = match ask.asked {
                    Asked::Mark(..) => Answer::Has(None),
                    Asked::Take { key, .. } if key.segment == 0 => Answer::Taken,
                    Asked::Take { key, .. } => {
                        assert_eq!(key.segment, 1, "it was handed one behind it");
                        Answer::Refused { is_permanent: true, words: "no".to_owned() }
                    }
                };
                drop(ask.answer.send(answer));
            }
        });
        let reached = sink.deliver(&origin(), &parcels(0..3), None).await;
        assert_eq!(reached, Reached { mark: Some(0), failed: Some(Failure::never("no")) });
        drop(sink.programs().come());
        picky.await.unwrap();
    }

    #[tokio::test]
    async fn the_later_program_takes_the_place_of_the_earlier() {
        let sink = sink();
        let nobody = sink.marks(&origin(), Shards::ONE).await.unwrap_err();
        assert_eq!(nobody.reason, Reason::RetryAfter);
        let first = sink.programs().come();
        let second = sink.programs().come();
        assert!(first.replaced.is_cancelled() && !second.replaced.is_cancelled());
        drop(first);
        let at_work = tokio::spawn(program(second, Some(4), 0));
        assert_eq!(sink.marks(&origin(), Shards::ONE).await.unwrap(), [Some(4)]);
        drop(sink.programs().come());
        at_work.await.unwrap();
    }
}

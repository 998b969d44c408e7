//! What is owed to whom. It knows what was sent, what was answered, and what arrived.
//!
//! * A sample arrives at a destination at most once, and only if it was sent and not refused.
//! * What was promised arrives at everybody who was named when it was sent: whatever crashes.
//! * What was taken and not promised arrives too, unless the agent died without a word after that.
//! * What an agent took before it began on an older copy of its directory may be gone with the newer
//!   one. What it takes afterwards is owed like everything else.
//! * Delivered means: it is there when that is said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use handoff_relay::{Mode, Outcome, SendError};

/// The number of a sample; its value says it.
pub(super) type SampleId = u64;

/// A destination, by its place among all there can be.
pub(super) type Place = usize;

/// An agent with a directory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SiteId(pub(super) u8);

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent {}", self.0)
    }
}

/// Something the rules do not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A sample arrives again.
    #[error("destination {to} has sample {sample} twice")]
    Doubled {
        /// Where.
        to: Place,
        /// Which.
        sample: SampleId,
    },
    /// A sample arrives that nobody sent, or that was refused, or not as it was sent.
    #[error("destination {to} has sample {sample}, and {why}")]
    Unasked {
        /// Where.
        to: Place,
        /// Which.
        sample: SampleId,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A sample that is owed never arrives.
    #[error("destination {to} lacks sample {sample}, which {why}")]
    Lost {
        /// Where.
        to: Place,
        /// Which.
        sample: SampleId,
        /// Why it is owed.
        why: &'static str,
    },
    /// Delivery is said of what is not there.
    #[error("sample {sample} is said to be delivered, and destination {to} lacks it")]
    NotDelivered {
        /// Where.
        to: Place,
        /// Which.
        sample: SampleId,
    },
    /// A segment is taken that is not the next one.
    #[error("destination {to} took segment {segment} of a shard, and {expected} is the next")]
    OutOfOrder {
        /// Where.
        to: Place,
        /// Which.
        segment: u32,
        /// Which it should be.
        expected: u32,
    },
    /// An agent passes something by that nothing is wrong with.
    #[error("destination {0} is told to go on without something that it could have had")]
    PassedBy(Place),
    /// An agent before healthy destinations and on a healthy disk takes nothing.
    #[error("everything is well, and the agent answers {0}")]
    Unwilling(String),
    /// Files stay of which everything was delivered.
    #[error("everything is delivered, and {0} is still in the spool")]
    LeftBehind(String),
}

/// What was said of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Nothing, or that it takes longer.
    Nothing,
    /// The promise is kept, or they are on disk.
    Safe,
    /// They were not taken.
    Refused,
}

#[derive(Clone, Debug)]
struct Put {
    site: SiteId,
    to: Vec<Place>,
    mode: Mode,
    said: Said,
    /// Whether the agent died without a word since.
    died: bool,
    series: u32,
    time: i64,
}

/// A batch that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PutId(u64);

/// The books.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    puts: BTreeMap<PutId, Put>,
    /// Samples by the batch they were sent in.
    sent: BTreeMap<SampleId, PutId>,
    arrived: BTreeSet<(Place, SampleId)>,
}

impl Oracle {
    /// Samples are sent to whoever is configured.
    pub(super) fn put(
        &mut self,
        site: SiteId,
        samples: std::ops::Range<SampleId>,
        time: i64,
        mode: Mode,
        to: Vec<Place>,
    ) -> PutId {
        let id = PutId(samples.start);
        let series = u32::try_from(samples.end - samples.start).unwrap_or(u32::MAX);
        self.sent.extend(samples.map(|sample| (sample, id)));
        let put = Put { site, to, mode, said: Said::Nothing, died: false, series, time };
        self.puts.insert(id, put);
        id
    }

    /// An answer came.
    ///
    /// # Errors
    /// See [`Violation`].
    pub(super) fn answered(
        &mut self,
        id: PutId,
        answer: Result<Outcome, SendError>,
    ) -> Result<(), Violation> {
        let Some(put) = self.puts.get_mut(&id) else { return Ok(()) };
        put.said = match answer {
            Err(_) => Said::Refused,
            Ok(Outcome::Late) => Said::Nothing,
            Ok(Outcome::Spooled) => Said::Safe,
            Ok(Outcome::Kept) if put.mode == Mode::Memory => Said::Nothing,
            Ok(Outcome::Kept) => Said::Safe,
        };
        if answer == Ok(Outcome::Kept) && put.mode == Mode::Delivered {
            let places = put.to.clone();
            for sample in self.samples(id) {
                for to in &places {
                    if !self.arrived.contains(&(*to, sample)) {
                        return Err(Violation::NotDelivered { to: *to, sample });
                    }
                }
            }
        }
        Ok(())
    }

    fn samples(&self, id: PutId) -> std::ops::Range<SampleId> {
        let series = self.puts.get(&id).map_or(0, |put| put.series);
        id.0..id.0 + u64::from(series)
    }

    /// A destination has taken a sample for good.
    ///
    /// # Errors
    /// See [`Violation`].
    pub(super) fn arrives(
        &mut self,
        to: Place,
        sample: SampleId,
        series: &str,
        time: i64,
    ) -> Result<(), Violation> {
        let unasked = |why| Err(Violation::Unasked { to, sample, why });
        let Some((id, put)) = self.sent.get(&sample).and_then(|id| Some((id, self.puts.get(id)?)))
        else {
            return unasked("nobody sent it");
        };
        if put.said == Said::Refused {
            return unasked("it was refused");
        }
        if !put.to.contains(&to) {
            return unasked("it was not for it");
        }
        if put.time != time || format!("s{}", sample - id.0) != series {
            return unasked("it has another time or series");
        }
        if !self.arrived.insert((to, sample)) {
            return Err(Violation::Doubled { to, sample });
        }
        Ok(())
    }

    /// An agent died without a word: what was not promised may be gone.
    pub(super) fn died(&mut self, site: SiteId) {
        self.puts_of(site).for_each(|put| put.died = true);
    }

    /// An agent begins on an older copy of its directory: what was only in the newer one is gone.
    pub(super) fn restored(&mut self, site: SiteId) {
        for put in self.puts_of(site) {
            put.died = true;
            if put.said == Said::Safe {
                put.said = Said::Nothing;
            }
        }
    }

    fn puts_of(&mut self, site: SiteId) -> impl Iterator<Item = &mut Put> {
        self.puts.values_mut().filter(move |put| put.site == site)
    }

    /// The refusal of a batch, in words.
    pub(super) fn refusal(&self, id: PutId) -> Option<String> {
        let put = self.puts.get(&id)?;
        (put.said == Said::Refused).then(|| "that it is full".to_owned())
    }

    /// The first sample that is owed and not there.
    pub(super) fn owed(&self) -> Option<Violation> {
        for (sample, id) in &self.sent {
            let Some(put) = self.puts.get(id) else { continue };
            let why = match put.said {
                Said::Refused => continue,
                Said::Safe => "was promised",
                Said::Nothing if put.died => continue,
                Said::Nothing => "was taken",
            };
            let lacks = |to: &&Place| !self.arrived.contains(&(**to, *sample));
            if let Some(to) = put.to.iter().find(lacks) {
                return Some(Violation::Lost { to: *to, sample: *sample, why });
            }
        }
        None
    }

    /// How many samples arrived, each destination counted.
    pub(super) fn arrivals(&self) -> usize {
        self.arrived.len()
    }
}

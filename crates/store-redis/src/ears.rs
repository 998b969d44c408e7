//! What a client hears: the eight events, and the line of ours that stands before some of them.
//!
//! A script publishes that line right before its event, to a node that registered as ours, on
//! `origami.x` + its id:
//!
//! ```text
//!  x  b request fence attempt deadline lease now trace  before b: what an offer's bytes have no place for
//!  x  d request fence                                   before d: which offer is not the client's
//!  x  e request executor outcome                        before e: who ran it, and how exactly it ended
//!  x  g request fence 1|0                               before g: whether the result was taken
//!  x  k request fence                                   alone: the call is wanted no more
//! ```
//!
//! An event of a stock peer's script comes without it.

use bytes::Bytes;
use handoff_calls::{CallId, ChannelName, ClientId, Outcome, TraceParent};
use handoff_types::{Span, Steady};

use crate::layout::{self, Event, ID_BYTES, Id, Work};
use crate::words::outcome_of;

/// Something a client hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Pong,
    Offered {
        call: CallId,
        channel: ChannelName,
        work: Option<Work>,
        facts: Option<Facts>,
    },
    Registered {
        call: CallId,
    },
    /// With the fence of the offer that is not held, if somebody said.
    Held {
        call: CallId,
        held: bool,
        work: Option<Work>,
        denied: Option<u64>,
    },
    Ended {
        call: CallId,
        end: Option<(Outcome, Option<ClientId>)>,
    },
    Acknowledged {
        call: CallId,
        end: Option<(Outcome, Option<ClientId>)>,
    },
    Taken {
        call: CallId,
        fence: Option<u64>,
        taken: bool,
    },
    Stopped,
    Cancelled {
        call: CallId,
        fence: u64,
    },
}

/// What an offer's bytes have no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) fence: u64,
    pub(crate) attempt: u16,
    pub(crate) deadline: Option<Steady>,
    pub(crate) lease: Span,
    /// What time it was for Redis.
    pub(crate) now: Steady,
    pub(crate) trace: Option<TraceParent>,
}

impl Facts {
    /// How much was left of the time of the whole call; none if nobody said.
    pub(crate) fn time_left(&self) -> Option<Span> {
        self.deadline.map(|deadline| Span(deadline.0.saturating_sub(self.now.0)))
    }
}

/// A line of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Offer(CallId, Facts),
    End(CallId, Option<ClientId>, String),
    Taken(CallId, u64, bool),
    Denied(CallId, u64),
}

/// Puts lines and events together.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    line: Option<Line>,
}

/// The channels that a client hears of itself on.
pub(crate) fn channels(me: ClientId, serves: impl Iterator<Item = ChannelName>) -> Vec<String> {
    let own = ['a', 'c', 'd', 'e', 'f', 'g', 'h', 'x'].map(|kind| format!("origami.{kind}{me}"));
    own.into_iter().chain(serves.map(|channel| format!("origami.b{me}{channel}"))).collect()
}

impl Ears {
    /// What a message says; nothing if it is a line before an event, or makes no sense.
    pub(crate) fn hear(&mut self, channel: &str, message: &Bytes) -> Option<Heard> {
        if let Some(rest) = channel.strip_prefix("origami.x") {
            rest.parse::<ClientId>().ok()?;
            return self.line(std::str::from_utf8(message).ok()?);
        }
        let line = self.line.take();
        let (_, event) = Event::read(channel, message)
            .inspect_err(|error| tracing::debug!(%error, "a message that is no event"))
            .ok()?;
        let id = |request: &Id| request.as_str().parse::<CallId>().ok();
        Some(match event {
            Event::Pong => Heard::Pong,
            Event::Stopped => Heard::Stopped,
            Event::Offered { request, channel, work } => {
                let call = id(&request)?;
                let facts = match line {
                    Some(Line::Offer(of, facts)) if of == call => Some(facts),
                    _ => None,
                };
                Heard::Offered { call, channel: channel.parse().ok()?, work, facts }
            }
            Event::Registered { request } => Heard::Registered { call: id(&request)? },
            Event::Accepted { request, granted, work } => {
                let call = id(&request)?;
                let denied = match line {
                    Some(Line::Denied(of, fence)) if of == call => Some(fence),
                    _ => None,
                };
                Heard::Held { call, held: granted, work, denied }
            }
            Event::Ended { request, ended } => {
                let call = id(&request)?;
                Heard::Ended { call, end: ended.map(|ended| end(call, ended, line)) }
            }
            Event::Settled { request, ended } => {
                let call = id(&request)?;
                Heard::Acknowledged { call, end: ended.map(|ended| end(call, ended, line)) }
            }
            Event::Stored { request } => {
                let call = id(&request)?;
                let (fence, taken) = match line {
                    Some(Line::Taken(of, fence, taken)) if of == call => (Some(fence), taken),
                    _ => (None, true),
                };
                Heard::Taken { call, fence, taken }
            }
        })
    }

    fn line(&mut self, text: &str) -> Option<Heard> {
        let (kind, rest) = text.split_at_checked(1)?;
        let (id, rest) = rest.split_at_checked(ID_BYTES)?;
        let call = id.parse().ok()?;
        match kind {
            "b" => {
                let mut words = rest.split(' ');
                let mut number = || words.next()?.parse::<u64>().ok();
                let (fence, attempt) = (number()?, u16::try_from(number()?).ok()?);
                let deadline = number().filter(|deadline| *deadline > 0).map(Steady);
                let (lease, now) = (Span(number()?), Steady(number()?));
                let trace = words.next().and_then(|trace| trace.parse().ok());
                self.line =
                    Some(Line::Offer(call, Facts { fence, attempt, deadline, lease, now, trace }));
            }
            "e" => {
                let (executor, outcome) = rest.split_at_checked(ID_BYTES)?;
                let executor = executor.parse().ok().filter(|_| executor != layout::NOBODY);
                self.line = Some(Line::End(call, executor, outcome.to_owned()));
            }
            "g" => {
                let (fence, taken) = rest.split_once(' ')?;
                self.line = Some(Line::Taken(call, fence.parse().ok()?, taken == "1"));
            }
            "d" => self.line = Some(Line::Denied(call, rest.parse().ok()?)),
            "k" => return Some(Heard::Cancelled { call, fence: rest.parse().ok()? }),
            _ => {}
        }
        None
    }
}

fn end(call: CallId, ended: layout::Ended, line: Option<Line>) -> (Outcome, Option<ClientId>) {
    let (executor, word) = match line {
        Some(Line::End(of, executor, word)) if of == call => (executor, word),
        _ => (ended.executor.and_then(|id| id.as_str().parse().ok()), String::new()),
    };
    (outcome_of(ended.digit, &word, ended.answer), executor)
}

#[cfg(test)]
mod tests {
    use super::{Ears, Heard};
    use bytes::Bytes;
    use handoff_calls::{Failure, Outcome, TimedOut};

    const ME: &str = "98206706-632c-469b-9064-39ae8a4610b4";
    const CALL: &str = "6ba04b7c-705f-4f86-9d77-a822d11acdb1";

    fn hear(ears: &mut Ears, kind: &str, message: &str) -> Option<Heard> {
        let name = if kind == "b" { "work" } else { "" };
        ears.hear(&format!("origami.{kind}{ME}{name}"), &Bytes::from(message.to_owned()))
    }

    #[test]
    fn an_offer_has_what_the_line_before_it_says_and_nothing_without_one() {
        let mut ears = Ears::default();
        assert_eq!(
            hear(
                &mut ears,
                "x",
                &format!("b{CALL}3 2 1700000000000000 30000000 1699999999000000 00-ab")
            ),
            None
        );
        let offer = format!("{CALL}{ME}{{}}");
        let Some(Heard::Offered { facts: Some(facts), work: Some(_), .. }) =
            hear(&mut ears, "b", &offer)
        else {
            panic!("no offer with facts");
        };
        assert_eq!((facts.fence, facts.attempt, facts.lease.0), (3, 2, 30_000_000));
        assert_eq!(facts.time_left().unwrap().0, 1_000_000);
        assert_eq!(facts.trace.unwrap().as_str(), "00-ab");
        let again = hear(&mut ears, "b", CALL);
        assert!(matches!(again, Some(Heard::Offered { facts: None, work: None, .. })), "{again:?}");
    }

    #[test]
    fn a_line_counts_only_for_the_event_right_behind_it_and_for_the_same_call() {
        let mut ears = Ears::default();
        let other = CALL.replace('6', "7");
        assert_eq!(hear(&mut ears, "x", &format!("g{other}7 0")), None);
        let taken = hear(&mut ears, "g", CALL).unwrap();
        assert!(matches!(taken, Heard::Taken { fence: None, taken: true, .. }), "{taken:?}");
        assert_eq!(hear(&mut ears, "x", &format!("g{CALL}7 0")), None);
        let taken = hear(&mut ears, "g", CALL).unwrap();
        assert!(matches!(taken, Heard::Taken { fence: Some(7), taken: false, .. }), "{taken:?}");
    }

    #[test]
    fn an_offer_that_is_not_held_is_named_by_its_fence() {
        let mut ears = Ears::default();
        assert_eq!(hear(&mut ears, "x", &format!("d{CALL}7")), None);
        let denied = hear(&mut ears, "d", &format!("0{CALL}")).unwrap();
        assert!(matches!(denied, Heard::Held { held: false, denied: Some(7), .. }), "{denied:?}");
        let denied = hear(&mut ears, "d", &format!("0{CALL}")).unwrap();
        assert!(matches!(denied, Heard::Held { held: false, denied: None, .. }), "{denied:?}");
    }

    #[test]
    fn an_end_is_told_exactly_by_ours_and_by_its_digit_by_others() {
        let mut ears = Ears::default();
        let mut end = |line: Option<&str>, message: &str| {
            if let Some(word) = line {
                assert_eq!(hear(&mut ears, "x", &format!("e{CALL}{ME}{word}")), None);
            }
            match hear(&mut ears, "e", message) {
                Some(Heard::Ended { end: Some((outcome, executor)), .. }) => {
                    (outcome, executor.is_some())
                }
                other => panic!("{other:?}"),
            }
        };
        let timeout = format!("2{CALL}");
        assert_eq!(end(Some("deadline"), &timeout).0, Outcome::TimedOut(TimedOut::Deadline));
        assert_eq!(end(None, &timeout), (Outcome::TimedOut(TimedOut::InQueue), false));
        let lost = end(Some("executor_lost"), &format!("1{CALL}{{}}"));
        assert_eq!(lost, (Outcome::Failed(Failure::ExecutorLost), true));
        let early = end(None, &format!("0{CALL}{ME}[7]"));
        assert_eq!(early, (Outcome::Answer("[7]".into()), true));
    }

    #[test]
    fn what_makes_no_sense_is_passed_by() {
        let mut ears = Ears::default();
        for (kind, message) in
            [("x", ""), ("x", "b"), ("x", "bé"), ("x", &format!("z{CALL}")), ("c", "?")]
        {
            assert_eq!(hear(&mut ears, kind, message), None);
        }
        let upper = CALL.to_uppercase();
        assert_eq!(hear(&mut ears, "c", &upper), None, "no id of a call");
    }
}

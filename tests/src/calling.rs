//! A hunt on the calls of the real server: a caller that sends until it is told the end, and a worker
//! that begins what it may and answers until it is told that its answer is there. Both live in this
//! process, through every server that dies, under ids that they keep.
//!
//! * A call that was confirmed ends, once, and however often its end is told it is the same.
//! * A result that was taken is the end of its call; one that was not is not.
//! * Fences grow, and only the latest counts.
//! * In the channel `once` nothing is begun twice, whoever dies.

mod caller;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::path::Path;
use std::time::Duration;

use handoff_sim::dice::Dice;
use serde_json::json;

use self::caller::Caller;
use self::worker::Worker;
use crate::clock;
use crate::http::Http;
use crate::ledger::Trouble;
use crate::served::{PATIENCE, Served};
use crate::stalk::{Bag, End, Found, Hunts, Session, Stalk};
use crate::websocket::WebSocket;

/// A step in so many loses the connection of whoever takes it.
const CUTS: u64 = 400;

/// A hunt.
#[derive(Debug)]
pub struct Hunt {
    stalk: Stalk,
    desk: Desk,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Calls that were confirmed.
    pub registered: u64,
    /// Calls that ended in an answer.
    pub answered: u64,
    /// Calls that ended otherwise.
    pub failed: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls that were begun, again included.
    pub begun: u64,
    /// Results that came too late.
    pub late: u64,
    /// Steps that were taken again because nobody said that they were taken.
    pub again: u64,
}

impl AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.registered += other.registered;
        self.answered += other.answered;
        self.failed += other.failed;
        self.refused += other.refused;
        self.begun += other.begun;
        self.late += other.late;
        self.again += other.again;
    }
}

#[derive(Debug)]
struct Desk {
    caller: Caller,
    worker: Worker,
    /// The channel `once` is described.
    described: bool,
    /// The last server: everything comes to its end.
    closing: bool,
}

impl Hunt {
    /// On a directory of its own.
    #[must_use]
    pub fn new(seed: u64, place: &Path) -> Self {
        let mut stalk = Stalk::new(seed, place);
        let lair = stalk.lair.clone();
        stalk.lair = lair
            .set("HANDOFF_CALLS__LEASE_MS", "1500")
            .set("HANDOFF_CALLS__BACKOFF_MS", "1")
            .set("HANDOFF_CALLS__OFFER_TIMEOUT_MS", "1000");
        let desk =
            Desk { caller: Caller::new(), worker: Worker::new(), described: false, closing: false };
        Self { stalk, desk }
    }

    /// What happened so far.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        let Desk { caller, worker, .. } = &self.desk;
        Outcomes {
            begun: worker.begun(),
            late: worker.late,
            again: caller.again + worker.again,
            ..caller.outcomes()
        }
    }
}

impl Hunts for Hunt {
    fn bag(&self) -> Bag {
        self.stalk.bag()
    }

    fn life(&mut self) -> Result<(), Box<Found>> {
        let lair = self.stalk.lair.clone();
        self.stalk.life(&lair, &mut self.desk)
    }

    fn finish(&mut self) -> Result<(), Box<Found>> {
        self.desk.closing = true;
        self.stalk.undisturbed(Duration::from_millis(200), &mut self.desk)
    }
}

impl Session for Desk {
    fn session(
        &mut self,
        dice: &mut Dice,
        served: &Served,
        time: Duration,
        doomed: bool,
    ) -> Result<(), End> {
        let begun = clock();
        if !self.described {
            self.describe(served.http)?;
        }
        let connect = || WebSocket::connect(served.http, "/v1/calls/connect", PATIENCE);
        let (mut to_caller, mut to_worker) = (connect()?, connect()?);
        self.caller.comes(&mut to_caller)?;
        self.worker.comes(&mut to_worker)?;
        loop {
            let over = !doomed && begun.elapsed() >= time;
            if over && (!self.closing || self.caller.is_done()) {
                break;
            }
            if begun.elapsed() >= PATIENCE {
                return Err(Trouble("calls do not come to their end".to_owned()).into());
            }
            if dice.one_in(CUTS) && !over {
                to_caller = connect()?;
                self.caller.comes(&mut to_caller)?;
            }
            if dice.one_in(CUTS) && !over {
                to_worker = connect()?;
                self.worker.comes(&mut to_worker)?;
            }
            self.caller.act(dice, &mut to_caller, !over)?;
            self.worker.act(dice, &mut to_worker)?;
        }
        if self.closing { Ok(self.judge()?) } else { Ok(()) }
    }

    fn gone(&mut self) {}
}

impl Desk {
    /// What is begun in `once` is not begun again because whoever ran it is lost.
    fn describe(&mut self, address: SocketAddr) -> Result<(), End> {
        let mut http = Http::connect(address, PATIENCE)?;
        let body = json!({"version": 1, "onLost": "fail"});
        http.send("PUT", "/v1/calls/channels/once", Some(&body))?;
        let answer = http.answer()?;
        if answer.status != 200 {
            return Err(Trouble(format!("the channel is not described: {answer:?}")).into());
        }
        self.described = true;
        Ok(())
    }

    /// Everything that was confirmed has its end, and a result that was taken is one.
    fn judge(&self) -> Result<(), Trouble> {
        self.caller.judge()?;
        self.worker.judge(|call| self.caller.answer(call))
    }
}

/// The member of a frame that it must have.
fn member<'a>(frame: &'a serde_json::Value, name: &str) -> Result<&'a serde_json::Value, End> {
    let absent = || Trouble(format!("{frame} has no {name}"));
    Ok(frame.get(name).ok_or_else(absent)?)
}

fn text<'a>(frame: &'a serde_json::Value, name: &str) -> Result<&'a str, End> {
    let wrong = || Trouble(format!("{name} in {frame} is no text"));
    Ok(member(frame, name)?.as_str().ok_or_else(wrong)?)
}

fn number(frame: &serde_json::Value, name: &str) -> Result<u64, End> {
    let wrong = || Trouble(format!("{name} in {frame} is no number"));
    Ok(member(frame, name)?.as_u64().ok_or_else(wrong)?)
}

/// Says a frame; an error means that the server is gone.
fn say(socket: &mut WebSocket, frame: &serde_json::Value) -> io::Result<()> {
    socket.say(frame)
}

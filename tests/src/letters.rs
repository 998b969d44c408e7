//! The hunt on streams: real servers are killed at random moments under load, and a ledger in this
//! process judges what the next one has stored.
//!
//! ```text
//!  start ─▶ ready ─▶ read every partition ─▶ judge ─▶ repeat what was not answered, produce,
//!                                                     schedule, cancel, read ─▶ struck
//! ```
//!
//! A letter is a message with a number in it, so that it is known wherever it shows up. Whoever else
//! has to do with letters lives [`Beside`] those who write them.

mod ledger;
mod work;

use std::path::Path;
use std::time::Duration;

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use self::ledger::Found as Letter;
pub(crate) use self::ledger::Topic;
pub use self::ledger::{Ledger, Outcomes};
use self::work::Work;
use crate::clock;
use crate::http::{Answer, Http};
use crate::ledger::Trouble;
use crate::served::{PATIENCE, Served};
use crate::stalk::{Bag, End, Found, Hunts, Session, Stalk};

/// How many requests a connection has underway at most.
const WINDOW: u64 = 4;

/// Producers, each with a connection of its own.
const WRITERS: usize = 3;

/// How long the last server waits for what is still to be delivered.
const DELIVERY_MAX: Duration = Duration::from_secs(30);

/// A hunt on one data directory.
#[derive(Debug)]
pub struct Hunt<B = Nobody> {
    stalk: Stalk,
    caller: Caller<B>,
}

/// Whoever has to do with letters while they are written.
pub trait Beside {
    /// A server is ready, the topics are there, and what is in them was judged.
    ///
    /// # Errors
    /// [`End`]
    fn begin(
        &mut self,
        ledger: &Ledger,
        dice: &mut Dice,
        served: &Served,
        looker: &mut Http,
    ) -> Result<(), End>;

    /// Some more letters were written.
    ///
    /// # Errors
    /// [`End`]
    fn round(&mut self, dice: &mut Dice, looker: &mut Http) -> Result<(), End>;

    /// The last letter is written, delivered and judged.
    ///
    /// # Errors
    /// [`End`]
    fn finish(&mut self, ledger: &Ledger, looker: &mut Http) -> Result<(), End>;
}

/// Nobody has to do with letters but those who write them.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Beside for Nobody {
    fn begin(&mut self, _: &Ledger, _: &mut Dice, _: &Served, _: &mut Http) -> Result<(), End> {
        Ok(())
    }

    fn round(&mut self, _: &mut Dice, _: &mut Http) -> Result<(), End> {
        Ok(())
    }

    fn finish(&mut self, _: &Ledger, _: &mut Http) -> Result<(), End> {
        Ok(())
    }
}

/// Whoever produces, reads and remembers.
#[derive(Debug)]
struct Caller<B> {
    ledger: Ledger,
    work: Work,
    beside: B,
    /// The last server waits until nothing is scheduled any more.
    last: bool,
}

impl Hunt {
    /// A hunt on a directory of its own.
    #[must_use]
    pub fn new(seed: u64, place: &Path) -> Self {
        Self::beside(seed, place, Nobody)
    }
}

impl<B: Beside> Hunt<B> {
    /// A hunt on a directory of its own, with somebody beside.
    #[must_use]
    pub fn beside(seed: u64, place: &Path, beside: B) -> Self {
        let mut stalk = Stalk::new(seed, place);
        let work = Work::new(stalk.dice.fork(), seed);
        Self { stalk, caller: Caller { ledger: Ledger::default(), work, beside, last: false } }
    }

    /// What became of what was asked.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        self.caller.ledger.outcomes()
    }

    /// Whoever is beside.
    pub fn other(&self) -> &B {
        &self.caller.beside
    }
}

impl<B: Beside> Hunts for Hunt<B> {
    fn bag(&self) -> Bag {
        self.stalk.bag()
    }

    fn life(&mut self) -> Result<(), Box<Found>> {
        let lair = self.stalk.lair.clone();
        self.stalk.life(&lair, &mut self.caller)
    }

    fn finish(&mut self) -> Result<(), Box<Found>> {
        self.caller.last = true;
        self.stalk.undisturbed(Duration::from_millis(200), &mut self.caller)
    }
}

impl<B: Beside> Session for Caller<B> {
    fn session(
        &mut self,
        dice: &mut Dice,
        served: &Served,
        time: Duration,
        doomed: bool,
    ) -> Result<(), End> {
        let connect = || Http::connect(served.http, PATIENCE);
        let mut looker = connect()?;
        for topic in Topic::ALL {
            create(&mut looker, topic)?;
        }
        self.look(&mut looker, false)?;
        self.beside.begin(&self.ledger, dice, served, &mut looker)?;
        let mut writers = (0..WRITERS).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
        let begun = clock();
        let mut first = true;
        while doomed || begun.elapsed() < time {
            let mut rounds = Vec::new();
            for (number, writer) in writers.iter_mut().enumerate() {
                let mut asked = match first {
                    true => self.work.again(number, &mut self.ledger),
                    false => Vec::new(),
                };
                let more = 1 + dice.below(WINDOW);
                asked.extend((0..more).map(|_| self.work.next(number, &mut self.ledger)));
                for one in &asked {
                    writer.send(one.method, &one.path, one.body.as_ref())?;
                }
                rounds.push(asked);
            }
            first = false;
            for (writer, asked) in writers.iter_mut().zip(rounds) {
                for one in asked {
                    let answer = writer.answer()?;
                    self.ledger.answered(
                        &one,
                        answer.status,
                        &answer.json().unwrap_or_default(),
                    )?;
                }
            }
            self.glance(&mut looker, dice)?;
            self.beside.round(dice, &mut looker)?;
        }
        if self.last {
            self.until_delivered(&mut looker)?;
        }
        self.look(&mut looker, self.last)?;
        match self.last {
            true => self.beside.finish(&self.ledger, &mut looker),
            false => Ok(()),
        }
    }

    fn gone(&mut self) {
        self.ledger.gone();
    }
}

impl<B> Caller<B> {
    /// Reads every partition of every topic from its beginning. What waited is there when `all` is
    /// delivered.
    fn look(&mut self, looker: &mut Http, all: bool) -> Result<(), End> {
        self.ledger.look_begins();
        for topic in Topic::ALL {
            for partition in 0..topic.partitions() {
                let mut offset = 0;
                while let Some(next) = self.read(looker, topic, partition, offset)? {
                    offset = next;
                }
                self.ledger.read_to_end(topic, partition, offset)?;
            }
        }
        Ok(self.ledger.look_ends(all)?)
    }

    /// Reads a page where something new may be.
    fn glance(&mut self, looker: &mut Http, dice: &mut Dice) -> Result<(), End> {
        let topic = dice.pick(&Topic::ALL).copied().unwrap_or(Topic::Letters);
        let partition = u32::try_from(dice.below(topic.partitions().into())).unwrap_or(0);
        let offset = self.ledger.end_of(topic, partition);
        self.read(looker, topic, partition, offset).map(drop)
    }

    /// Reads a page; the next offset, if there was something.
    fn read(
        &mut self,
        looker: &mut Http,
        topic: Topic,
        partition: u32,
        offset: u64,
    ) -> Result<Option<u64>, End> {
        let path = format!(
            "/v1/streams/topics/{}/partitions/{partition}/messages?offset={offset}&limit=1000",
            topic.name()
        );
        let answer = looker.ask("GET", &path, None)?;
        let page = expect(&answer, 200)?;
        if page
            .get("corrupt")
            .is_some_and(|ranges| ranges.as_array().is_some_and(|r| !r.is_empty()))
        {
            return Err(Trouble(format!("{path}: damaged: {page}")).into());
        }
        let messages = page.get("messages").and_then(Value::as_array);
        let messages = messages.ok_or_else(|| Trouble(format!("{path}: no messages: {page}")))?;
        for (at, message) in (offset..).zip(messages) {
            let letter = Letter::read(message).ok_or_else(|| Trouble(format!("{message}")))?;
            if letter.offset != at {
                let offset = letter.offset;
                return Err(Trouble(format!("{path}: offset {offset} stands at {at}")).into());
            }
            self.ledger.read(topic, partition, &letter)?;
        }
        Ok((!messages.is_empty()).then_some(offset + messages.len() as u64))
    }

    fn until_delivered(&mut self, looker: &mut Http) -> Result<(), End> {
        let begun = clock();
        for topic in Topic::ALL {
            let path = format!("/v1/streams/topics/{}/scheduled", topic.name());
            loop {
                let page = expect(&looker.ask("GET", &path, None)?, 200)?;
                if page.get("scheduled").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                    break;
                }
                if begun.elapsed() > DELIVERY_MAX {
                    return Err(Trouble(format!("never delivered: {page}")).into());
                }
                // A new message in any partition ends the wait early; this is how long it may take.
                let wait = format!(
                    "/v1/streams/topics/{}/partitions/0/messages?offset={}&waitMs=200",
                    topic.name(),
                    self.ledger.end_of(topic, 0)
                );
                expect(&looker.ask("GET", &wait, None)?, 200)?;
            }
        }
        Ok(())
    }
}

fn create(looker: &mut Http, topic: Topic) -> Result<(), End> {
    let body = json!({
        "version": 1, "name": topic.name(), "partitions": topic.partitions(),
        "compression": topic.compression(),
    });
    let answer = looker.ask("POST", "/v1/streams/topics", Some(&body))?;
    match answer.status {
        201 | 409 => Ok(()),
        _ => Err(Trouble(format!("no topic: {answer:?}")).into()),
    }
}

/// The body of an answer that is as it should be.
pub(crate) fn expect(answer: &Answer, status: u16) -> Result<Value, End> {
    if answer.status != status {
        let body = String::from_utf8_lossy(&answer.body);
        let words = format!("{status} was expected, {} came: {body}", answer.status);
        return Err(Trouble(words).into());
    }
    Ok(answer.json()?)
}

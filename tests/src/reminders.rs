//! The hunt on the events room: real servers are killed at random moments under load, and a
//! ledger in this process judges what the next one finds and tells.
//!
//! ```text
//!  start ─▶ ready ─▶ list, look at every event ─▶ judge ─▶ work and listen ─▶ struck
//!    └──────────────────── a strike may come anywhere ────────────────────┘
//! ```

mod ledger;
mod work;

use std::path::Path;
use std::time::Duration;

use handoff_sim::dice::Dice;

pub use self::ledger::{Ledger, Outcomes};
use self::work::{Asked, Work};
use crate::clock;
use crate::ledger::Trouble;
use crate::served::{PATIENCE, Served};
use crate::sevent::{Message, Peer, code, names, option};
use crate::stalk::{Bag, End, Found, Hunts, Session, Stalk};

/// How many requests a session has underway at most.
const WINDOW: u64 = 48;

/// How many lookups are underway while everything is looked at.
const LOOKUPS: usize = 256;

/// How long the listener is listened to between two rounds of work.
const GLANCE: Duration = Duration::from_millis(1);

/// A hunt on one data directory.
#[derive(Debug)]
pub struct Hunt {
    stalk: Stalk,
    caller: Caller,
}

/// Whoever asks, listens and remembers.
#[derive(Debug)]
struct Caller {
    ledger: Ledger,
    work: Work,
}

impl Hunt {
    /// A hunt on a directory of its own.
    #[must_use]
    pub fn new(seed: u64, place: &Path) -> Self {
        let mut stalk = Stalk::new(seed, place);
        let work = Work::new(stalk.dice.fork());
        Self { stalk, caller: Caller { ledger: Ledger::default(), work } }
    }

    /// What became of what was asked.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        self.caller.ledger.outcomes()
    }
}

impl Hunts for Hunt {
    fn bag(&self) -> Bag {
        self.stalk.bag()
    }

    fn life(&mut self) -> Result<(), Box<Found>> {
        let policy = self.stalk.dice.pick(&["skip", "once", "all"]).copied().unwrap_or("skip");
        let lair = self.stalk.lair.clone().set("HANDOFF_EVENTS__CATCH_UP", policy);
        self.stalk.life(&lair, &mut self.caller)
    }

    fn finish(&mut self) -> Result<(), Box<Found>> {
        self.stalk.undisturbed(Duration::from_millis(200), &mut self.caller)
    }
}

impl Session for Caller {
    fn session(
        &mut self,
        dice: &mut Dice,
        served: &Served,
        time: Duration,
        doomed: bool,
    ) -> Result<(), End> {
        self.ledger.begin();
        let connect = || Peer::connect(served.events, PATIENCE);
        let mut looker = connect()?;
        self.look(&mut looker)?;
        let mut listener = connect()?;
        let types = (option::EVENT_TYPES, names(&work::TYPES));
        expect(&listener.ask(code::SUBSCRIBE, &[types], &[])?, code::FILTER_UPDATED)?;
        let mut workers = [connect()?, connect()?];
        let begun = clock();
        // Whoever is to be killed works until it is.
        while doomed || begun.elapsed() < time {
            let mut rounds = Vec::new();
            for worker in &mut workers {
                let count = 1 + dice.below(WINDOW);
                let asked: Vec<Asked> =
                    (0..count).map(|_| self.work.next(&mut self.ledger)).collect();
                let octets: Vec<u8> = asked.iter().flat_map(|asked| asked.octets.clone()).collect();
                worker.send(&octets)?;
                rounds.push(asked);
            }
            for (worker, asked) in workers.iter_mut().zip(rounds) {
                for asked in asked {
                    let answer = worker.answer()?;
                    self.ledger.answered(&asked.what, &answer)?;
                }
            }
            self.listen(&mut listener)?;
        }
        self.look(&mut looker)
    }

    fn gone(&mut self) {
        self.ledger.gone();
    }
}

impl Caller {
    /// Every event there is, one by one.
    fn look(&mut self, peer: &mut Peer) -> Result<(), End> {
        let began = clock();
        let listed = peer.ask(code::LIST_EVENTS, &[], &[])?;
        expect(&listed, code::LISTED_EVENTS)?;
        let ids = listed.ids().ok_or_else(|| Trouble("a list without ids".to_owned()))?;
        let mut found = Vec::new();
        for some in ids.chunks(LOOKUPS) {
            let octets: Vec<u8> = some.iter().flat_map(|id| work::get(*id)).collect();
            peer.send(&octets)?;
            for id in some {
                found.push((*id, peer.answer()?));
            }
        }
        Ok(self.ledger.looked(&ids, &found, began)?)
    }

    fn listen(&mut self, listener: &mut Peer) -> Result<(), End> {
        listener.set_patience(GLANCE)?;
        loop {
            match listener.message() {
                Ok(Some(message)) => {
                    expect(&message, code::NOTIFY)?;
                    self.ledger.notified(&message)?;
                }
                Ok(None) => return Err(End::Cut(std::io::ErrorKind::UnexpectedEof.into())),
                Err(error) if quiet(&error) => return Ok(()),
                Err(error) => return Err(End::Cut(error)),
            }
        }
    }
}

fn quiet(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

fn expect(message: &Message, code: u8) -> Result<(), Trouble> {
    if message.code == code {
        return Ok(());
    }
    Err(Trouble(format!("message {code} was expected, {message:?} came")))
}

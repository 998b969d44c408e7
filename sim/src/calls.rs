//! The world of one server with the calls room in it.
//!
//! See [`crate::server`] for what goes wrong and what must hold. Besides that, callers and consumers are
//! not to be relied on, and neither is the way between: what they are told is lost, they say things
//! twice, too late, or of what was never theirs; they go away and come back.
//!
//! What need not wait for the disk does not wait here either, as in the server: an answer that rests on
//! what was told before, or on what lives in memory only, is heard at once.
//!
//! At the end of every seed one consumer serves everything and answers everything: then every call that
//! was confirmed has ended, once.

mod asked;
mod drain;
mod oracle;
mod workload;

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_calls::{Ask, Calls, Change, Command, Notice, Reply, State};
use handoff_log::journal::{Purpose, Refused};
use handoff_store_embedded::{Applied, Host, Persist};
use handoff_types::{Entropy, Machine, Now, Span};

use self::asked::{Asked, hash, kind, why, words};
use self::oracle::Oracle;
pub use self::oracle::Violation;
use self::workload::Workload;
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
pub use crate::server::Parts;
use crate::server::{
    Act, Decided, Deed, Flat, Household, Lodger, Rooms as Lodgings, Server, Site, Tenant,
};

/// A machine that speaks of calls.
pub trait Rules:
    Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Notice>
{
}

impl<M> Rules for M where
    M: Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Notice>
{
}

/// Everything as it is.
#[derive(Debug)]
pub struct Sound;

impl Parts for Sound {
    type Rooms = Calling<Calls>;
}

/// A server with the calls room.
pub type Called<P> = Server<P>;

/// What is written of a call besides its bodies, at most.
const CALL_BYTES: u64 = 600;

/// What is written when one is forgotten.
const FORGOTTEN_BYTES: u64 = 20;

/// The calls room, or one that is twisted, and whoever uses it.
#[derive(Debug)]
pub struct Calling<M> {
    workload: Workload,
    oracle: Oracle,
    /// How far the server is with saying that it is there.
    opened: Opened,
    machine: PhantomData<M>,
}

/// How far a server is with saying that it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opened {
    /// It has not said it.
    #[default]
    Not,
    /// It is not on disk yet.
    Said,
    /// Clients may come.
    Yes,
}

impl<M: Persist + Rules + fmt::Debug + 'static> Lodgings for Calling<M> {
    fn move_in(dice: &mut Dice) -> Household {
        let tenant: Calling<M> = Calling {
            workload: Workload::new(dice.fork()),
            oracle: Oracle::default(),
            opened: Opened::Not,
            machine: PhantomData,
        };
        let rooms: Vec<Box<dyn Lodger>> = vec![Box::new(Flat::new(tenant))];
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        let deed = |deed| Act::Room(0, deed);
        let temper = vec![
            (between(400, 700), deed(Deed::Command)),
            (between(100, 450), Act::Commit),
            (between(60, 200), deed(Deed::Tick)),
            (between(10, 40), deed(Deed::Checkpoint)),
            (between(0, 5), Act::Strike),
            (between(5, 15), Act::Mend),
            (between(0, 8), Act::Halt),
            (between(0, 8), Act::Restart),
        ];
        Household { rooms, temper }
    }

    fn wall_step(dice: &mut Dice) -> i64 {
        match dice.below(3) {
            0 => dice.around(86_400) * 1_000_000,
            _ => dice.around(60) * 1_000_000,
        }
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Tenant for Calling<M> {
    type Room = M;
    type Asked = Asked;
    const HAS_BODIES: bool = false;

    fn hash(state: &State) -> u64 {
        hash(state)
    }

    fn check_alike(&self, live: &State, rebuilt: &State, _: Now) -> Result<(), Fault> {
        ensure(live.stored() == rebuilt.stored(), || {
            "a state read back is not what a crash should leave of the living one".to_owned()
        })
    }

    fn say(command: &Command) -> String {
        words(&command.ask)
    }

    fn sort(command: &Command) -> (&'static str, Purpose, Vec<Bytes>) {
        let purpose = match &command.ask {
            Ask::Request(_) | Ask::SetChannel { .. } | Ask::Requeue { .. } => Purpose::Accept,
            _ => Purpose::Finish,
        };
        (kind(&command.ask), purpose, Vec::new())
    }

    fn apply(
        host: &mut Host<M>,
        command: &Command,
        _: Vec<Bytes>,
        purpose: Purpose,
        chance: (Now, Entropy),
    ) -> Result<Applied<M>, Refused> {
        let bytes = bytes_of(&command.ask, host.state());
        host.apply_made(command, bytes, purpose, chance)
    }

    fn is_light(command: &Command, state: &State) -> bool {
        // What nobody asked for rests on memory alone if nothing of it is written.
        command.ask.is_light(state) || matches!(command.ask, Ask::Tick)
    }

    fn stands_alone(reply: &Reply) -> bool {
        matches!(reply, Reply::Registered { again: false, .. })
    }

    fn decided(&mut self, decided: Decided<Self>, _: &State) -> Asked {
        let Decided { command, now, reply, actions } = decided;
        self.oracle.decides(&command.ask, now);
        Asked { now, ask: command.ask, reply, notices: actions }
    }

    fn answered(&mut self, asked: Asked, history: &mut History) -> Result<(), Fault> {
        history.tell(format_args!("{asked}"));
        tell(&asked, history);
        if let Ask::Opened = asked.ask {
            self.opened = Opened::Yes;
        }
        self.oracle.answered(&asked)?;
        self.workload.heard(&asked, history);
        Ok(())
    }

    fn lost(&mut self, asked: &Asked) -> &'static str {
        kind(&asked.ask)
    }

    fn recovered(&mut self, lost: Vec<Asked>, state: &State, now: Now) -> Result<usize, Fault> {
        self.opened = Opened::Not;
        self.workload.begins();
        Ok(self.oracle.recovered(&lost, state, now)?)
    }

    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        match flat.tenant.opened {
            Opened::Not => {
                let opened = flat.tenant.workload.command(Ask::Opened);
                if flat.send(&opened, site, history)? && flat.tenant.opened == Opened::Not {
                    flat.tenant.opened = Opened::Said;
                }
                return Ok(());
            }
            Opened::Said => return Ok(()),
            Opened::Yes => {}
        }
        match deed {
            Deed::Command => {
                let ask = flat.tenant.workload.next();
                let command = flat.tenant.workload.command(ask);
                flat.send(&command, site, history).map(drop)
            }
            Deed::Tick => flat.drive(site, history),
            _ => Ok(()),
        }
    }

    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        if flat.tenant.opened != Opened::Yes || !flat.tenant.workload.is_described() {
            return Ok(());
        }
        for _ in 0..site.dice.below(5) {
            let ask = flat.tenant.workload.large();
            let command = flat.tenant.workload.command(ask);
            flat.send(&command, site, history)?;
        }
        Ok(())
    }

    fn knock(&mut self, _: &State) -> Command {
        self.workload.command(Ask::Ping { client: workload::NOBODY })
    }

    fn settle(&mut self, state: &State, now: Now) -> Result<(), Fault> {
        self.oracle.recovered(&[], state, now)?;
        drain::drain::<M>(&mut self.oracle, self.workload.rules, state, now)
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Flat<Calling<M>> {
    /// Time passes up to what is due, mostly; sometimes the tick comes too early, or late.
    fn drive(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let now = site.clock.now();
        match site.dice.below(8) {
            0 => site.clock.pass(Span::from_millis(site.dice.below(20_000))),
            1..4 => {}
            _ => {
                if let Some(deadline) = life.host.next_deadline(now) {
                    site.clock.pass(deadline.since(now.steady).min(Span::from_secs(10)));
                }
            }
        }
        let tick = self.tenant.workload.command(Ask::Tick);
        self.send(&tick, site, history).map(drop)
    }
}

/// What a question may write at most, as a server tells before it asks.
fn bytes_of(ask: &Ask, state: &State) -> u64 {
    let followed = |call, bytes: u64| {
        let followers = state.follower_count(call) as u64;
        (bytes + CALL_BYTES) * (followers + 1)
    };
    let all = || state.open_count() * CALL_BYTES + state.call_count() * FORGOTTEN_BYTES;
    match ask {
        Ask::Request(new) => new.params.len() as u64 + 2 * CALL_BYTES,
        Ask::Respond { call, result: Ok(body), .. } => followed(*call, body.len() as u64),
        Ask::Respond { call, result: Err(failing), .. } => {
            followed(*call, failing.error.message.len() as u64)
        }
        Ask::Cancel { call, .. } => followed(*call, 0),
        Ask::Requeue { call } => {
            state.call(*call).map_or(0, |call| call.params.len() as u64) + 2 * CALL_BYTES
        }
        Ask::Opened => CALL_BYTES,
        Ask::Tick | Ask::Purge { .. } | Ask::Init { .. } | Ask::Stop { .. } | Ask::Away { .. } => {
            all()
        }
        _ => 0,
    }
}

/// Counts what came of something that was asked.
fn tell(asked: &Asked, history: &mut History) {
    let kind = kind(&asked.ask);
    match why(&asked.reply) {
        Some(why) => {
            history.count(Kind::Refused, kind);
            history.count(Kind::Refusal, why);
        }
        None => history.count(Kind::Acknowledged, kind),
    }
    if let Reply::Registered { again: true, .. } = asked.reply {
        history.count(Kind::Repeated, kind);
    }
    for notice in &asked.notices {
        history.count(Kind::Performed, asked::told(notice));
    }
}

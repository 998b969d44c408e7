//! The world of one server on embedded storage with the counter room in it.
//!
//! See [`crate::server`] for what goes wrong and what must hold.

mod notes;

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_log::journal::Purpose;
use handoff_log::segments::WriteError;
use handoff_store_embedded::{Host, Persist};
use handoff_types::{Now, Span, Wall};

use self::notes::Notes;
use crate::brokers::Rules;
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
use crate::oracle::Oracle;
use crate::room::{Action, Command, Counter, Name, Reply, Seen, State, VALUE_LIMIT, note_frame};
pub use crate::server::Parts;
use crate::server::{Act, Decided, Deed, Excuses, Flat, Household, Rooms, Server, Site, Tenant};
use crate::workload::{Bodies, Workload};

/// A server with the counter room.
pub type Embedded<P> = Server<P>;

/// Everything as it is.
#[derive(Debug)]
pub struct Sound;

impl Parts for Sound {
    type Rooms = Counting<Counter>;
}

/// The counter room, or one that is twisted, and whoever uses it.
#[derive(Debug)]
pub struct Counting<M> {
    workload: Workload,
    oracle: Oracle,
    notes: Notes,
    machine: PhantomData<M>,
}

impl<M: Persist + Rules + fmt::Debug + 'static> Rooms for Counting<M> {
    fn move_in(dice: &mut Dice) -> Household {
        let rooms = vec![Box::new(Flat::new(Self::new(dice))) as _];
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        let deed = |deed| Act::Room(0, deed);
        let temper = vec![
            (between(150, 300), deed(Deed::Command)),
            (between(10, 100), Act::Commit),
            (between(2, 25), deed(Deed::Copy)),
            (between(2, 15), deed(Deed::Sync)),
            (between(3, 60), deed(Deed::Checkpoint)),
            (15, deed(Deed::Read)),
            (between(0, 10), deed(Deed::Retain)),
            (between(2, 15), deed(Deed::Tick)),
            (between(0, 10), Act::Strike),
            (between(10, 20), Act::Mend),
            (between(0, 24), Act::Halt),
            (between(0, 10), Act::Restart),
        ];
        Household { rooms, temper }
    }
}

/// A command that was decided and not answered.
#[derive(Debug)]
pub(crate) struct Asked {
    command: Command,
    now: Now,
    reply: Reply,
    actions: Vec<Action>,
}

impl<M: Persist + Rules + fmt::Debug + 'static> Tenant for Counting<M> {
    type Room = M;
    type Asked = Asked;
    const HAS_BODIES: bool = true;

    fn hash(state: &State) -> u64 {
        state.hash()
    }

    fn check_state(&self, state: &State) -> Result<(), Fault> {
        for key in state.keys() {
            let value = state.tally(key).value;
            ensure((-VALUE_LIMIT..=VALUE_LIMIT).contains(&value), || format!("{key} is {value}"))?;
        }
        Ok(())
    }

    fn say(command: &Command) -> String {
        command.to_string()
    }

    fn sort(command: &Command) -> (&'static str, Purpose, Vec<Bytes>) {
        let purpose = match command {
            Command::Tick | Command::Release { .. } => Purpose::Finish,
            _ => Purpose::Accept,
        };
        (command.kind(), purpose, command.body().cloned().into_iter().collect())
    }

    fn decided(&mut self, decided: Decided<Self>, _: &State) -> Asked {
        let Decided { command, now, reply, actions } = decided;
        Asked { command, now, reply, actions }
    }

    fn answered(&mut self, asked: Asked, history: &mut History) -> Result<(), Fault> {
        let Asked { command, now, reply, actions } = asked;
        if let (Command::Note { key, .. }, Reply::Noted { offset }) = (&command, &reply) {
            self.notes.told(*key, offset + 1);
        }
        history.tell(format_args!("{command}: {reply}"));
        for action in &actions {
            history.count(Kind::Performed, action.kind());
            history.tell(format_args!("{action}"));
        }
        history.count_answer(&command, &reply);
        self.workload.heard(&command, &reply);
        self.oracle.acknowledged(&command, now, &reply, &actions)?;
        Ok(())
    }

    fn lost(&mut self, asked: &Asked) -> &'static str {
        self.workload.lost(&asked.command);
        asked.command.kind()
    }

    fn recovered(&mut self, lost: Vec<Asked>, state: &State, _: Now) -> Result<usize, Fault> {
        let lost: Vec<_> = lost.into_iter().map(|asked| (asked.command, asked.now)).collect();
        let observed = seen(state).collect();
        let survived = self.oracle.recovered(&lost, &observed)?;
        self.notes.goes_on_with(state);
        Ok(survived)
    }

    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        match deed {
            Deed::Command => {
                let command = match flat.tenant.oracle.crowded() {
                    Some(key) => Command::Read { key },
                    None => flat.tenant.workload.next_command(),
                };
                flat.send(&command, site, history).map(drop)
            }
            Deed::Tick => tick(flat, site, history),
            Deed::Copy => copy(flat, site, history),
            Deed::Sync => sync(flat, site, history),
            Deed::Read => read(flat, site, history),
            Deed::Retain => retain(flat, site, history),
            Deed::Checkpoint | Deed::Settle => Ok(()),
        }
    }

    /// Bodies make a round of many sectors, and that can be torn.
    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        for _ in 0..site.dice.below(6) {
            let note = flat.tenant.workload.note();
            flat.send(&note, site, history)?;
        }
        Ok(())
    }

    fn knock(&mut self, _: &State) -> Command {
        Command::Read { key: self.workload.key() }
    }

    fn judge_bodies(&mut self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        self.notes.judge_all(host, &mut self.oracle, excuses)
    }

    fn look_at_bodies(&self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        self.notes.clone().judge_all(host, &mut self.oracle.clone(), excuses)
    }

    fn settle(&mut self, state: &State, _: Now) -> Result<(), Fault> {
        self.oracle.settle(seen(state))?;
        Ok(())
    }
}

impl<M> Counting<M> {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let workload = Workload::new(dice.fork(), Bodies::BEYOND_SMALL_RECORDS);
        let (oracle, notes) = (Oracle::default(), Notes::default());
        Self { workload, oracle, notes, machine: PhantomData }
    }
}

fn seen(state: &State) -> impl Iterator<Item = (Name, Seen)> {
    state.keys().map(|key| (key, state.tally(key).seen()))
}

/// Time passes up to the room's next deadline, if there is one, and the room is driven.
fn tick<T: Tenant<Room: Rules>>(
    flat: &mut Flat<T>,
    site: &mut Site,
    history: &mut History,
) -> Result<(), Fault> {
    let Some(life) = &flat.life else { return Ok(()) };
    let now = site.clock.now();
    if let Some(deadline) = life.host.next_deadline(now) {
        let wait = deadline.since(now.steady);
        site.clock.pass(wait.min(Span::from_secs(10)));
    }
    flat.send(&Command::Tick, site, history).map(drop)
}

fn copy<T: Tenant>(
    flat: &mut Flat<T>,
    site: &mut Site,
    history: &mut History,
) -> Result<(), Fault> {
    let Some(life) = &mut flat.life else { return Ok(()) };
    let entries = 1 + usize::try_from(site.dice.below(6)).unwrap_or(0);
    let (what, words) = match life.host.bulk().copy(entries) {
        Ok(copied) => ("bodies copied", copied.to_string()),
        Err(error) => ("copy failed", error.to_string()),
    };
    site.note(what, &words, what == "copy failed", history)
}

fn sync<T: Tenant>(
    flat: &mut Flat<T>,
    site: &mut Site,
    history: &mut History,
) -> Result<(), Fault> {
    let Some(life) = &mut flat.life else { return Ok(()) };
    match life.host.bulk().sync() {
        Ok(()) => {
            site.note("segments synced", "", false, history)?;
            flat.check_durable_bodies(site)
        }
        Err(error) => site.note("segments not synced", &error.to_string(), true, history),
    }
}

/// Reads some bodies, those that nobody was told of as well.
fn read<M: Persist + Rules + fmt::Debug + 'static>(
    flat: &mut Flat<Counting<M>>,
    site: &mut Site,
    history: &mut History,
) -> Result<(), Fault> {
    let Some(life) = &mut flat.life else { return Ok(()) };
    let Counting { workload, oracle, notes, .. } = &mut flat.tenant;
    let excuses = site.excuses();
    let key = workload.key();
    let count = life.host.state().tally(key).notes;
    for _ in 0..count.min(4) {
        let note = (key, site.dice.below(count));
        let what = notes.judge(&life.host, note, oracle, excuses)?;
        history.count(Kind::Storage, what);
        history.tell(format_args!("note {} of {key}: {what}", note.1));
    }
    Ok(())
}

/// Gives up the oldest bodies of a key, by one of the three rules there are.
fn retain<M: Persist + Rules + fmt::Debug + 'static>(
    flat: &mut Flat<Counting<M>>,
    site: &mut Site,
    history: &mut History,
) -> Result<(), Fault> {
    let Counting { workload, notes, .. } = &mut flat.tenant;
    let key = workload.key();
    let below = site.dice.below(notes.of(key) + 1);
    let rule = site.dice.below(3);
    let Some(life) = &mut flat.life else { return Ok(()) };
    let lane = note_frame(key, 0).lane;
    let segments = life.host.bulk().segments();
    let (what, retained) = match rule {
        0 => {
            notes.give_up(key, below);
            ("trimmed by offset", segments.trim(lane, below))
        }
        1 => {
            notes.give_up(key, below);
            let older_than = Some(Wall(below.cast_signed()));
            ("retained by age", segments.retain(lane, None, older_than))
        }
        _ => {
            let keep = Some(site.dice.below(64 << 10));
            let retained = segments.end(lane).map_err(WriteError::from).and_then(|end| {
                let retained = segments.retain(lane, keep, None);
                notes.give_up(key, *retained.as_ref().unwrap_or(&end));
                retained
            });
            ("retained by size", retained)
        }
    };
    match retained {
        Ok(start) => site.note(what, &format!("{key} begins at {start}"), false, history),
        Err(error) => site.note("retention failed", &error.to_string(), true, history),
    }
}

//! A tenant's place in a server: its state, its way to the journal, and what must come back.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use handoff_log::checkpoint;
use handoff_log::directory::Directory;
use handoff_log::disk::{Disk, Memory};
use handoff_log::journal::{Journal, Refused, Ticket};
use handoff_log::segments::Segments;
use handoff_store_embedded::{
    Applied, Checkpointing, Host, LoadError, Loading, Loads, Persist, Progress,
};
use handoff_types::{Entropy, Now, Room, Sequence};

use super::ledger::{Ledger, Line};
use super::opening::{Closed, Loaded, ReadBack};
use super::parts::Deed;
use super::site::{Excuses, Site};
use super::tenant::{CommandOf, Decided, Tenant};
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};

/// More steps than a checkpoint of such rooms can have.
const CHECKPOINT_STEPS_MAX: usize = 1_000;

/// How often the mover may fail after the cause has ended: once to notice that it is poisoned.
const MOVER_TRIES: usize = 2;

/// A room of a server, whatever its machine.
pub(crate) trait Lodger: fmt::Debug {
    fn room(&self) -> Room;

    /// Takes the room from its checkpoint.
    fn load(&mut self, directory: &Directory) -> Result<(), LoadError>;

    /// The room as it is being loaded.
    fn loads(&mut self) -> Option<&mut dyn Loads>;

    /// The room is not there this time.
    fn drop_loading(&mut self);

    /// Judges what was loaded.
    fn check_loaded(&self) -> Result<Option<Found>, Fault>;

    /// Brings to life what was loaded.
    fn start(&mut self, journal: Arc<dyn Journal>, segments: Arc<Segments>, disk: Arc<dyn Disk>);

    /// Lets the oracle judge what came back. Gives how many records that were, and how much
    /// that was lost survived.
    fn recovered(&mut self, now: Now) -> Result<Option<(Sequence, usize)>, Fault>;

    /// Judges every body.
    fn judge_bodies(&mut self, excuses: Excuses) -> Result<(), Fault>;

    /// The room as it would be read from a disk.
    fn probe<'a>(&'a self, directory: &Directory)
    -> Result<Option<Box<dyn Probe + 'a>>, LoadError>;

    /// What must be true of the living state.
    fn check_state(&self) -> Result<(), Fault>;

    fn act(&mut self, deed: Deed, site: &mut Site, history: &mut History) -> Result<(), Fault>;

    fn burst(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault>;

    /// Answers whatever is durable.
    fn release(&mut self, site: &Site, history: &mut History) -> Result<(), Fault>;

    /// How many wait for an answer.
    fn waiting(&self) -> usize;

    /// The disk is well: bodies move and a checkpoint ends.
    fn go_on(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault>;

    /// The disk is well and every room has a checkpoint: something is admitted.
    fn knock(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault>;

    fn clock_set(&mut self, step: i64);

    /// The server ends. Gives how much will never be answered.
    fn end(&mut self) -> usize;

    /// Counts what will never be answered.
    fn count_lost(&mut self, history: &mut History);

    fn settle(&mut self, now: Now, history: &mut History) -> Result<(), Fault>;
}

/// What was loaded of a room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The last record, and what the ledger says of it.
    pub(crate) line: Line,
    /// The latest time its checkpoint knows of.
    pub(crate) clock: Option<Now>,
}

/// A room read back from a disk that nobody goes on with.
pub(crate) trait Probe {
    fn loads(&mut self) -> &mut dyn Loads;

    fn check(&self, now: Now) -> Result<Found, Fault>;
}

/// A tenant's place.
pub(crate) struct Flat<T: Tenant> {
    pub(crate) tenant: T,
    ledger: Ledger,
    pub(crate) life: Option<Life<T>>,
    loading: Option<Loading<T::Room>>,
    /// The last record that the server began with.
    through: Sequence,
    /// What was asked of the last server and never answered.
    lost: Vec<T::Asked>,
}

/// A room between the opening and the end of its server.
pub(crate) struct Life<T: Tenant> {
    pub(crate) host: Host<T::Room>,
    checkpoint: Option<Checkpointing>,
    underway: VecDeque<(T::Asked, Ticket)>,
}

impl<T: Tenant> fmt::Debug for Flat<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flat").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl<T: Tenant> Flat<T> {
    pub(crate) fn new(tenant: T) -> Self {
        let ledger = Ledger::new(T::hash(&Default::default()));
        let through = Sequence::NONE;
        Self { tenant, ledger, life: None, loading: None, through, lost: Vec::new() }
    }

    /// Sends a command and says whether it was admitted.
    pub(crate) fn send(
        &mut self,
        command: &CommandOf<T>,
        site: &mut Site,
        history: &mut History,
    ) -> Result<bool, Fault> {
        let Some(life) = &mut self.life else { return Ok(false) };
        let moment = site.clock.tell();
        let (kind, purpose, bodies) = T::sort(command);
        history.count(Kind::Sent, kind);
        history.tell(format_args!("at {}: {}", moment.now, T::say(command)));
        let chance = (moment.now, site.dice.entropy());
        let light = T::is_light(command, life.host.state());
        match T::apply(&mut life.host, command, bodies, purpose, chance) {
            Ok(Applied { reply, actions, ticket, sequence, unwritten }) => {
                if let Some(sequence) = sequence {
                    self.ledger.appended(sequence, T::hash(life.host.state()), moment);
                }
                let at_once = unwritten && (light || T::stands_alone(&reply));
                let (command, now) = (command.clone(), moment.now);
                let decided = Decided { command, now, reply, actions };
                let asked = self.tenant.decided(decided, life.host.state());
                if at_once {
                    self.tenant.answered(asked, history)?;
                    return Ok(true);
                }
                life.underway.push_back((asked, ticket));
                self.release(site, history)?;
                Ok(true)
            }
            Err(refused) => {
                let (why, always) = match refused {
                    Refused::Busy { .. } => ("busy", true),
                    Refused::Full { .. } => ("journal full", true),
                    Refused::TooLarge { .. } => ("too large", true),
                    Refused::NoFile { .. } => ("no file", false),
                    Refused::Poisoned { .. } => ("poisoned", false),
                    _ => ("for no reason", false),
                };
                history.count(Kind::NotAdmitted, why);
                history.tell(format_args!("not admitted: {refused}"));
                ensure(always || site.is_excused(), || format!("{refused}, and no fault struck"))?;
                Ok(false)
            }
        }
    }

    /// Whether nothing waits for the disk.
    pub(crate) fn is_quiet(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.underway.is_empty())
    }

    /// Asks for something that changes nothing durable. The answer waits for what it rests on.
    pub(crate) fn ask(
        &mut self,
        asked: T::Asked,
        site: &Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let ticket = life.host.journal().barrier(T::Room::ROOM);
        life.underway.push_back((asked, ticket));
        self.release(site, history)
    }

    /// Answers whatever is durable, in the order it was decided, and lets the oracle judge.
    pub(crate) fn release(&mut self, site: &Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let mut more = false;
        while let Some(outcome) = life.underway.front().and_then(|(_, ticket)| ticket.outcome()) {
            let Some((asked, _)) = life.underway.pop_front() else { break };
            let committed = outcome.map_err(|lost| Fault::Invariant(lost.to_string()))?;
            more |= self.ledger.told(committed.sequence);
            self.tenant.answered(asked, history)?;
        }
        let skipped = life.underway.iter().any(|(_, ticket)| ticket.outcome().is_some());
        ensure(!skipped, || "an answer came before one that was decided earlier".to_owned())?;
        if more { self.check_durable(site).map(drop) } else { Ok(()) }
    }

    /// Some bodies go to segments.
    pub(crate) fn copy(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let entries = 1 + usize::try_from(site.dice.below(6)).unwrap_or(0);
        let (what, words) = match life.host.bulk().copy(entries) {
            Ok(copied) => ("bodies copied", copied.to_string()),
            Err(error) => ("copy failed", error.to_string()),
        };
        site.note(what, &words, what == "copy failed", history)
    }

    /// The segments become durable.
    pub(crate) fn sync(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        match life.host.bulk().sync() {
            Ok(()) => {
                site.note("segments synced", "", false, history)?;
                self.check_durable_bodies(site)
            }
            Err(error) => site.note("segments not synced", &error.to_string(), true, history),
        }
    }

    /// Takes some steps of a checkpoint, or begins one.
    fn checkpoint(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let steps = 1 + site.dice.below(20);
        for _ in 0..steps {
            match self.checkpoint_step(site, history)? {
                Some(Progress::More) => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Takes one step of a checkpoint. Gives nothing if it was given up.
    fn checkpoint_step(
        &mut self,
        site: &mut Site,
        history: &mut History,
    ) -> Result<Option<Progress>, Fault> {
        let now = site.clock.tell().now;
        let (Some(life), Some(process)) = (&mut self.life, &site.process) else { return Ok(None) };
        let progress = match &mut life.checkpoint {
            Some(checkpoint) => checkpoint.step(&mut life.host, now),
            None => {
                let bytes = 40 + usize::try_from(site.dice.below(1200)).unwrap_or(0);
                Checkpointing::begin::<T::Room>(&process.directory, bytes).map(|begun| {
                    life.checkpoint = Some(begun);
                    Progress::More
                })
            }
        };
        match progress {
            Ok(Progress::Done) => {
                life.checkpoint = None;
                site.note("checkpoint done", "", false, history)?;
                self.check_durable_bodies(site)?;
                Ok(Some(Progress::Done))
            }
            Ok(progress) => {
                let what = match progress {
                    Progress::Waiting => "checkpoint waits",
                    _ => "checkpoint goes on",
                };
                site.note(what, "", false, history)?;
                Ok(Some(progress))
            }
            Err(error) => {
                life.checkpoint = None;
                site.note("checkpoint given up", &error.to_string(), true, history)?;
                Ok(None)
            }
        }
    }

    /// Whatever somebody was told would survive if the power failed now.
    fn check_durable(&self, site: &Site) -> Result<(ReadBack, Loading<T::Room>), Fault> {
        let mut alone = Alone { loading: None };
        let disk: Memory = site.disk.durable();
        let back = ReadBack::of(&mut alone, Arc::new(disk), Entropy(0)).map_err(unexpected)?;
        site.check_report(&back.report)?;
        let Some(loading) = alone.loading else { return Err(vanished(T::Room::ROOM)) };
        let line = self.ledger.check(T::hash(loading.state()), loading.through())?;
        let known = [loading.clock(), back.report.clock];
        site.check_known(known.into_iter().flatten(), line)?;
        Ok((back, loading))
    }

    /// So would every body.
    pub(crate) fn check_durable_bodies(&self, site: &Site) -> Result<(), Fault> {
        let (back, loading) = self.check_durable(site)?;
        if !T::HAS_BODIES {
            return Ok(());
        }
        let disk = Arc::clone(&back.directory.disk);
        let (journal, segments) = back.start_to_look().map_err(unexpected)?;
        let excuses = Excuses { fault: false, damage: site.damaged };
        self.tenant.look_at_loaded(loading, journal, segments, disk, excuses)
    }

    /// All bodies go to segments and become durable there.
    pub(crate) fn move_to_segments(&mut self) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let mut moved = Ok(0);
        for _ in 0..MOVER_TRIES {
            let bulk = life.host.bulk();
            moved = bulk.copy(usize::MAX).and_then(|copied| bulk.sync().map(|()| copied));
            if moved.is_ok() {
                break;
            }
        }
        moved.map(drop).map_err(|error| though_well(&error.to_string()))
    }
}

pub(crate) fn unexpected(closed: Closed) -> Fault {
    let (Closed::ByFault(words) | Closed::ByDamage(words)) = closed;
    Fault::Invariant(format!("the directory cannot be opened: {words}"))
}

fn though_well(what: &str) -> Fault {
    Fault::Invariant(format!("{what} though the disk is well"))
}

pub(crate) fn vanished(room: Room) -> Fault {
    Fault::Invariant(format!("{room} is closed by damage where there is none"))
}

/// One room that is read back while nobody asks for the others.
struct Alone<M: Persist> {
    loading: Option<Loading<M>>,
}

impl<M: Persist<State: Default>> Loaded for Alone<M> {
    fn begin(&mut self, directory: &Directory) -> Result<(), Closed> {
        self.loading = Some(Loading::begin(directory)?);
        Ok(())
    }

    fn loads(&mut self) -> Vec<&mut dyn Loads> {
        self.loading.iter_mut().map(|loading| loading as &mut dyn Loads).collect()
    }

    fn close(&mut self, room: Room, _: String) {
        if room == M::ROOM {
            self.loading = None;
        }
    }
}

/// A room being read back beside the living one.
struct Beside<'a, T: Tenant> {
    flat: &'a Flat<T>,
    loading: Loading<T::Room>,
}

impl<T: Tenant> Probe for Beside<'_, T> {
    fn loads(&mut self) -> &mut dyn Loads {
        &mut self.loading
    }

    fn check(&self, now: Now) -> Result<Found, Fault> {
        let Self { flat, loading } = self;
        let line = flat.ledger.check(T::hash(loading.state()), loading.through())?;
        if let Some(life) = &flat.life
            && flat.ledger.is_last(loading.through())
        {
            flat.tenant.check_alike(life.host.state(), loading.state(), now)?;
        }
        Ok(Found { line, clock: loading.clock() })
    }
}

impl<T: Tenant> Lodger for Flat<T> {
    fn room(&self) -> Room {
        T::Room::ROOM
    }

    fn load(&mut self, directory: &Directory) -> Result<(), LoadError> {
        self.loading = Some(Loading::begin(directory)?);
        Ok(())
    }

    fn loads(&mut self) -> Option<&mut dyn Loads> {
        self.loading.as_mut().map(|loading| loading as &mut dyn Loads)
    }

    fn drop_loading(&mut self) {
        self.loading = None;
    }

    fn check_loaded(&self) -> Result<Option<Found>, Fault> {
        let Some(loading) = &self.loading else { return Ok(None) };
        let line = self.ledger.check(T::hash(loading.state()), loading.through())?;
        Ok(Some(Found { line, clock: loading.clock() }))
    }

    fn start(&mut self, journal: Arc<dyn Journal>, segments: Arc<Segments>, disk: Arc<dyn Disk>) {
        let Some(loading) = self.loading.take() else { return };
        self.through = loading.through();
        self.ledger.goes_on_after(self.through);
        let host = self.tenant.bring_to_life(loading, journal, segments, disk);
        self.life = Some(Life { host, checkpoint: None, underway: VecDeque::new() });
    }

    fn recovered(&mut self, now: Now) -> Result<Option<(Sequence, usize)>, Fault> {
        let Some(life) = &self.life else { return Ok(None) };
        let lost = std::mem::take(&mut self.lost);
        let survived = self.tenant.recovered(lost, life.host.state(), now)?;
        Ok(Some((self.through, survived)))
    }

    fn judge_bodies(&mut self, excuses: Excuses) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        self.tenant.judge_bodies(&life.host, excuses)
    }

    fn probe<'a>(
        &'a self,
        directory: &Directory,
    ) -> Result<Option<Box<dyn Probe + 'a>>, LoadError> {
        if self.life.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(Beside { flat: self, loading: Loading::begin(directory)? })))
    }

    fn check_state(&self) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        self.tenant.check_state(life.host.state())
    }

    fn act(&mut self, deed: Deed, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        if self.life.is_none() {
            return Ok(());
        }
        match deed {
            Deed::Checkpoint => self.checkpoint(site, history),
            _ => T::act(self, deed, site, history),
        }
    }

    fn burst(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        T::burst(self, site, history)
    }

    fn release(&mut self, site: &Site, history: &mut History) -> Result<(), Fault> {
        Flat::release(self, site, history)
    }

    fn waiting(&self) -> usize {
        self.life.as_ref().map_or(0, |life| life.underway.len())
    }

    fn go_on(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        if self.life.is_none() {
            return Ok(());
        }
        if T::HAS_BODIES {
            T::move_bodies(self, site, history)?;
        }
        if let Some(life) = &mut self.life {
            life.checkpoint = None;
        }
        for _ in 0..CHECKPOINT_STEPS_MAX {
            match self.checkpoint_step(site, history)? {
                Some(Progress::Done) => return Ok(()),
                Some(_) => {}
                None => return Err(though_well("a checkpoint is given up")),
            }
        }
        Err(though_well("a checkpoint never ends"))
    }

    fn knock(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let knock = self.tenant.knock(life.host.state());
        let admitted = self.send(&knock, site, history)?;
        if admitted { Ok(()) } else { Err(though_well("nothing is admitted")) }
    }

    fn clock_set(&mut self, step: i64) {
        self.tenant.clock_set(step);
    }

    fn end(&mut self) -> usize {
        let life = self.life.take();
        self.tenant.ended();
        self.lost.extend(life.into_iter().flat_map(|life| life.underway).map(|(asked, _)| asked));
        self.lost.len()
    }

    fn count_lost(&mut self, history: &mut History) {
        for asked in &self.lost {
            history.count(Kind::Unknown, self.tenant.lost(asked));
        }
    }

    fn settle(&mut self, now: Now, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let state = life.host.state();
        history.tell(format_args!("ends with state {:016x}", T::hash(state)));
        self.tenant.settle(state, now)
    }
}

/// The rooms of a server that opens.
pub(crate) struct Lodgers<'a> {
    pub(crate) rooms: &'a mut [Box<dyn Lodger>],
    /// Those that are damaged, and why.
    pub(crate) closed: Vec<(Room, String)>,
}

impl Loaded for Lodgers<'_> {
    fn begin(&mut self, directory: &Directory) -> Result<(), Closed> {
        for room in &mut *self.rooms {
            room.drop_loading();
            match room.load(directory) {
                Ok(()) => {}
                Err(LoadError::Checkpoint(error @ checkpoint::Error::Disk { .. })) => {
                    return Err(Closed::ByFault(error.to_string()));
                }
                Err(error) => self.closed.push((room.room(), error.to_string())),
            }
        }
        match self.closed.last() {
            Some((_, words)) if self.closed.len() == self.rooms.len() => {
                Err(Closed::ByDamage(words.clone()))
            }
            _ => Ok(()),
        }
    }

    fn loads(&mut self) -> Vec<&mut dyn Loads> {
        self.rooms.iter_mut().filter_map(|room| room.loads()).collect()
    }

    fn close(&mut self, room: Room, words: String) {
        for lodger in self.rooms.iter_mut().filter(|lodger| lodger.room() == room) {
            lodger.drop_loading();
            self.closed.push((room, words.clone()));
        }
    }
}

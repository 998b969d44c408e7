//! A room under test: its machine, whoever asks it for something, and whoever judges it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::disk::Disk;
use handoff_log::journal::{Journal, Purpose, Refused};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Applied, Host, Loading, Persist};
use handoff_types::{Entropy, Machine, Now};

use super::flat::Flat;
use super::parts::Deed;
use super::site::{Excuses, Site};
use crate::driver::Fault;
use crate::history::History;

/// The state of a tenant's room.
pub(crate) type StateOf<T> = <<T as Tenant>::Room as Machine>::State;

/// What a tenant's room is asked.
pub(crate) type CommandOf<T> = <<T as Tenant>::Room as Machine>::Command;

/// A decision that nobody was told of.
pub(crate) struct Decided<T: Tenant> {
    pub(crate) command: CommandOf<T>,
    pub(crate) now: Now,
    pub(crate) reply: <T::Room as Machine>::Reply,
    pub(crate) actions: Vec<<T::Room as Machine>::Action>,
}

/// A room, its callers and its oracle. The callers and the oracle outlive the server.
pub(crate) trait Tenant: fmt::Debug + Sized + 'static {
    /// The machine.
    type Room: Persist<State: Default, Command: Clone>;

    /// Something that was asked, with its answer, while nobody was told of it.
    type Asked: fmt::Debug;

    /// Whether its changes have bodies.
    const HAS_BODIES: bool;

    /// A hash of everything in a state.
    fn hash(state: &StateOf<Self>) -> u64;

    /// What must be true of every state.
    ///
    /// # Errors
    /// When it is not.
    fn check_state(&self, _state: &StateOf<Self>) -> Result<(), Fault> {
        Ok(())
    }

    /// A state rebuilt from the disk up to the last record answers as the live one does.
    ///
    /// # Errors
    /// When it does not.
    fn check_alike(
        &self,
        _live: &StateOf<Self>,
        _rebuilt: &StateOf<Self>,
        _now: Now,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// A command in words.
    fn say(command: &CommandOf<Self>) -> String;

    /// The name of a kind of command, what it is for, and its bodies.
    fn sort(command: &CommandOf<Self>) -> (&'static str, Purpose, Vec<Bytes>);

    /// Hands a command to the room.
    ///
    /// # Errors
    /// When it is not admitted.
    fn apply(
        host: &mut Host<Self::Room>,
        command: &CommandOf<Self>,
        bodies: Vec<Bytes>,
        purpose: Purpose,
        chance: (Now, Entropy),
    ) -> Result<Applied<Self::Room>, Refused> {
        host.apply(command, bodies, purpose, chance)
    }

    /// Whether an answer to it need not wait for the disk, if nothing of it is written. `state` is the
    /// one before it.
    fn is_light(_command: &CommandOf<Self>, _state: &StateOf<Self>) -> bool {
        false
    }

    /// Whether an answer rests on nothing but what it says, if nothing of it is written.
    fn stands_alone(_reply: &<Self::Room as Machine>::Reply) -> bool {
        false
    }

    /// A command was decided. The state has its changes already.
    fn decided(&mut self, decided: Decided<Self>, state: &StateOf<Self>) -> Self::Asked;

    /// An answer is released.
    ///
    /// # Errors
    /// When the oracle objects.
    fn answered(&mut self, asked: Self::Asked, history: &mut History) -> Result<(), Fault>;

    /// What was asked will never be answered. Gives its kind.
    fn lost(&mut self, asked: &Self::Asked) -> &'static str;

    /// A server goes on with this state, which has everything that was answered and the effects
    /// of some of what was lost. Says of how many.
    ///
    /// # Errors
    /// When the oracle objects.
    fn recovered(
        &mut self,
        lost: Vec<Self::Asked>,
        state: &StateOf<Self>,
        now: Now,
    ) -> Result<usize, Fault>;

    /// The room does something other than checkpoints.
    ///
    /// # Errors
    /// When something is wrong.
    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault>;

    /// Sends what makes a round of many sectors.
    ///
    /// # Errors
    /// As [`Self::act`].
    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault>;

    /// A command that is admitted whenever anything is, and changes little.
    fn knock(&mut self, state: &StateOf<Self>) -> CommandOf<Self>;

    /// The operator has set the clock by so many microseconds.
    fn clock_set(&mut self, _step: i64) {}

    /// Brings to life what was loaded.
    fn bring_to_life(
        &mut self,
        loading: Loading<Self::Room>,
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        _disk: Arc<dyn Disk>,
    ) -> Host<Self::Room> {
        loading.into_host(journal, segments)
    }

    /// The server is gone, and with it whatever the room had besides.
    fn ended(&mut self) {}

    /// The disk is well: all bodies leave the journal.
    ///
    /// # Errors
    /// When they cannot, or are not where they should be then.
    fn move_bodies(
        flat: &mut Flat<Self>,
        _site: &mut Site,
        _history: &mut History,
    ) -> Result<(), Fault> {
        flat.move_to_segments()
    }

    /// Judges every body that somebody was told of.
    ///
    /// # Errors
    /// When one is not what it was, or is not there.
    fn judge_bodies(&mut self, _host: &Host<Self::Room>, _excuses: Excuses) -> Result<(), Fault> {
        Ok(())
    }

    /// The same of what was loaded from a disk that is looked at only.
    ///
    /// # Errors
    /// As [`Self::judge_bodies`].
    fn look_at_loaded(
        &self,
        loading: Loading<Self::Room>,
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        _disk: Arc<dyn Disk>,
        excuses: Excuses,
    ) -> Result<(), Fault> {
        self.look_at_bodies(&loading.into_host(journal, segments), excuses)
    }

    /// The same of the bodies on a disk that is looked at only.
    ///
    /// # Errors
    /// As [`Self::judge_bodies`].
    fn look_at_bodies(&self, _host: &Host<Self::Room>, _excuses: Excuses) -> Result<(), Fault> {
        Ok(())
    }

    /// The run is over.
    ///
    /// # Errors
    /// When something acknowledged is not there, or something is that should not be.
    fn settle(&mut self, state: &StateOf<Self>, now: Now) -> Result<(), Fault>;
}

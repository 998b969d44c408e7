//! What every transport passes. Each function is one promise and panics when it is broken; [`all`]
//! runs every one of them on a fresh transport, [`model::schedules`] runs random ones.
//!
//! A transport under test is a [`Bench`]: its clock stands still until it is told how much time passes.

mod answering;
mod channels;
mod clients;
mod eager;
mod ending;
mod kit;
mod letters;
mod limits;
mod memory;
pub mod model;
mod requesting;

use handoff_types::Span;

pub use self::memory::Memory;
use crate::Rules;
use crate::transport::Transport;

/// A transport whose clock the suite moves.
pub trait Bench: Transport {
    /// So much time passes, and everything that is due by then is done, at its time.
    fn pass(&self, time: Span) -> impl Future<Output = ()> + Send;

    /// Whether a call can be a consumer's as soon as it is offered, for those that ask for it.
    fn knows_eager(&self) -> bool {
        true
    }
}

/// Makes transports that know nothing yet and keep these rules.
pub trait Fresh: Sync {
    /// What it makes.
    type Bench: Bench;

    /// Another one.
    fn fresh(&self, rules: Rules) -> impl Future<Output = Self::Bench> + Send;
}

/// Runs every promise.
pub async fn all<F: Fresh>(fresh: &F) {
    of_calls(fresh).await;
    limits::of_the_house(fresh).await;
}

/// Runs every promise but how much a room keeps in all: of one that lies in somebody else's server, that
/// server has a say in it.
pub async fn of_calls<F: Fresh>(fresh: &F) {
    clients::all(fresh).await;
    requesting::all(fresh).await;
    answering::all(fresh).await;
    eager::all(fresh).await;
    ending::all(fresh).await;
    letters::all(fresh).await;
    channels::all(fresh).await;
    limits::of_calls(fresh).await;
}

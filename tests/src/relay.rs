//! An agent of the relay and whoever it sends to: [`Agent`] is the real binary as a process, [`Centre`]
//! a receiver on a real socket whose sink is in this process, [`samples`] makes bodies of remote write
//! without the code that reads them. [`Hunt`] kills agents and keeps the ledger.

mod agent;
mod centre;
mod hunt;
pub mod samples;

pub use agent::{Agent, Den};
pub use centre::{Centre, Manner};
pub use hunt::{Hunt, Outcomes, wait};

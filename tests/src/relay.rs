//! An agent of the relay and whoever it sends to: [`Agent`] is the real binary as a process, [`Centre`]
//! a receiver on a real socket whose sink is in this process, [`samples`] makes bodies of remote write
//! without the code that reads them. [`Hunt`] kills agents and keeps the ledger. [`Reception`] is the real
//! server as a receiver, [`Chase`] kills it too, and a program that keeps samples. [`Database`] is
//! somebody who takes remote write.

mod agent;
mod centre;
mod chase;
mod database;
mod ends;
mod herd;
mod hunt;
mod ledger;
mod reception;
pub mod samples;

pub use agent::{Agent, Den};
pub use centre::{Centre, Manner};
pub use chase::{Chase, Keeping};
pub use database::{Database, Says};
pub use ends::{BothEnds, long_outage};
pub use herd::{Figures, herd};
pub use hunt::Hunt;
pub use ledger::{Outcomes, Trouble, wait};
pub use reception::{Reception, samples_of};

//! The deterministic simulator: random commands, faults and clocks from one seed, judged by an
//! oracle that shares no code with the room it judges.
//!
//! * [`room`] is the room under test: small, and free for other test packages to use.
//! * [`oracle`] knows the room's rules from their prose and judges answers.
//! * [`store`] is a store that refuses and forgets to answer, [`brokers`] two brokers that share
//!   it: the world of several brokers on one database.
//! * [`server`] is one server over the journal, on a disk that crashes and fails, with whatever
//!   rooms; [`embedded`] is the world where that is the counter room, [`events`] the one where it is
//!   the events room, mostly with others beside it, [`streams`] the one where it is the streams room,
//!   [`groups`] the one where consumers read there, [`exchange`] the one where it is the exchange,
//!   [`calls`] the one where it is the calls room.
//! * [`relay`] is a relay's agent, with its files, before destinations that come and go.
//! * [`driver`] runs a [`driver::World`] for a number of steps; [`scenario`] names the worlds.
//!
//! Nothing here asks a clock, draws a random number, starts a thread or iterates a hash map: a
//! seed is a history, and the same one every time.

pub mod brokers;
pub mod calls;
pub mod dice;
pub mod driver;
pub mod embedded;
pub mod events;
pub mod exchange;
pub mod groups;
pub mod history;
mod house;
pub mod keyed;
pub mod oracle;
pub mod relay;
pub mod room;
pub mod scenario;
pub mod server;
pub mod store;
pub mod streams;
pub mod workload;

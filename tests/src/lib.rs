//! Black-box tests: real processes, `kill -9`, and a ledger that lives in another process than
//! what it judges.
//!
//! * [`victim`] runs the counter room on the real disk and answers on stdout; [`wire`] is what is
//!   said between it and its caller.
//! * [`ledger`] is the caller's memory: acknowledged, refused, unknown. [`hunt`] kills victims at
//!   random moments and lets the ledger judge what the next one finds.
//! * [`prey`] is a victim as a process, [`small_disk`] a filesystem that can be filled up.
//! * [`served`] is the real binary as a process, [`sevent`] a client that knows only octets,
//!   [`http`] one that knows only HTTP. [`stalk`] follows servers and strikes them; [`reminders`] is
//!   the hunt on the events room, [`letters`] the one on streams, each with its own ledger.
//!   [`groups`] adds those who read: [`consumer`] is one of them as a process, [`member`] what it
//!   says to the server.
//! * [`mailbox`] is the hunt on the exchange: devices, an ERP that reports and one that does not, each
//!   with a database of its own in this process.
//! * [`calling`] is the hunt on calls: a caller and a worker that keep their ids through every server,
//!   over [`websocket`], which knows only octets.
//! * [`keeper`] is a program that keeps what agents of the relay send. [`postgres`] is a PostgreSQL server of one's own, [`redis`] a Redis server. [`origami`] is a peer of
//!   calls on Redis that knows only bytes, in the layouts of others; [`node`] one of ours as a process.
//!   [`storm`] breaks one thing after the other while clients of ours call each other there;
//!   [`on_redis`] is the room of calls there on a clock that a test moves, alone or beside the machine.
//! * [`relay`] is an agent at the edge as a process, and the centres it sends to, in this process;
//!   [`prometheus`] is one that sends to it.
//! * [`fixture`] opens data directories of every format there has been.
//! * [`wall`] is the operator's clock as text, [`workspace`] what cargo knows of this house.

pub mod calling;
pub mod consumer;
pub mod fixture;
pub mod groups;
pub mod http;
pub mod hunt;
pub mod keeper;
pub mod ledger;
pub mod letters;
pub mod mailbox;
pub mod member;
pub mod node;
pub mod on_redis;
pub mod origami;
pub mod place;
pub mod postgres;
pub mod prey;
pub mod prometheus;
pub mod redis;
pub mod relay;
pub mod reminders;
pub mod served;
pub mod sevent;
pub mod small_disk;
pub mod stalk;
pub mod storm;
pub mod victim;
pub mod wall;
pub mod websocket;
pub mod wire;
pub mod workspace;

use std::time::Instant;

/// What time it is for whoever waits for another process with a deadline.
#[expect(clippy::disallowed_methods, reason = "another process runs on real time")]
fn clock() -> Instant {
    Instant::now()
}

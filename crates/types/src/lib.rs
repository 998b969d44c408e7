//! Words that every room says aloud: room names, positions, time, entropy, limits, error codes,
//! and the shape of a machine.
//!
//! Nothing here performs IO, asks a clock, draws a random number or knows a room's rules.

pub mod code;
pub mod entropy;
pub mod limits;
pub mod machine;
pub mod names;
pub mod position;
pub mod room;
pub mod time;

pub use code::{Code, Outcome};
pub use entropy::Entropy;
pub use limits::Limits;
pub use machine::{Decision, Machine};
pub use names::{BadScope, Pattern, Scope, Sight};
pub use position::{Position, Sequence};
pub use room::Room;
pub use time::{Now, Span, Steady, Wall};

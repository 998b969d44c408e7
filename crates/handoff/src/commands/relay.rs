//! `handoff relay`

mod agents;
mod inspect;
mod replay;
mod run;

use super::Context;
use crate::cli::RelayVerb;
use crate::config::relay::annotated;
use crate::exit::Failure;

/// Does what was asked of a relay.
pub(super) fn run(context: Context<'_>, verb: RelayVerb) -> Result<(), Failure> {
    match verb {
        RelayVerb::Run(args) => run::run(context, args),
        RelayVerb::Config => context.terminal.print(&annotated()),
        RelayVerb::Inspect { file } => inspect::run(context, &file),
        RelayVerb::Agents { limit } => super::wait(agents::list(context, limit)),
        RelayVerb::Show { agent } => super::wait(agents::show(context, &agent)),
        RelayVerb::Replay(args) => super::wait(replay::run(context, args)),
    }
}

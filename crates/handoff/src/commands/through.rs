//! What calls go through: a server, or a Redis that services share.

use handoff_sdk::Client;
use handoff_sdk::calls::{Caller, CallerOptions, Redis, Worker, WorkerOptions};

use super::Context;
use crate::cli::Through;
use crate::exit::{Exit, Failure};

/// What calls go through.
pub(super) enum Place {
    Server(Client),
    Redis(Redis),
}

impl Place {
    /// The Redis of a flag or a variable, otherwise the server. A flag wins over a variable, whichever
    /// of the two it names.
    pub(super) fn of(context: Context<'_>, through: &Through) -> Result<Self, Failure> {
        let Context { global, surroundings, .. } = context;
        if through.redis.is_some() && global.url.is_some() {
            let what = "--url names a server and --redis a Redis: calls go through one of them";
            return Err(Failure::new(Exit::Usage, what));
        }
        match surroundings.redis(through.redis.as_deref(), global)? {
            Some(redis) => Ok(Self::Redis(redis)),
            None => Ok(Self::Server(surroundings.client(global)?)),
        }
    }

    pub(super) async fn caller(&self, options: CallerOptions) -> Result<Caller, Failure> {
        Ok(match self {
            Self::Server(client) => client.calls().caller(options).await?,
            Self::Redis(redis) => redis.caller(options).await?,
        })
    }

    pub(super) fn worker(&self, options: WorkerOptions) -> Worker<'_> {
        match self {
            Self::Server(client) => client.calls().worker(options),
            Self::Redis(redis) => redis.worker(options),
        }
    }
}

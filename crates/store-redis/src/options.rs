//! How a client or a guardian is set up.

use std::sync::Arc;
use std::time::Duration;

use handoff_calls::Rules;

use crate::address::Address;
use crate::dice::Dice;
use crate::introduction::Introduction;
use crate::room::Room;
use crate::scripts::{Clock, Scripts};
use crate::socket::Tls;
use crate::trouble::Trouble;

/// How a client or a guardian is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it calls itself, for people.
    pub name: String,
    /// What else it says it is.
    pub introduction: Introduction,
    /// Limits and times.
    pub rules: Rules,
    /// Whom a `rediss://` address believes besides the public authorities; none for nobody.
    pub tls: Option<Tls>,
    /// Whose clock scripts go by.
    pub clock: Clock,
    /// `calls.ping_interval_ms`: how often it is asked whether the way there and back is alive.
    pub ping_interval: Duration,
    /// `calls.ping_timeout_ms`: how long the answer may take before all connections are dropped.
    pub ping_timeout: Duration,
    /// `calls.connect_timeout_ms`: how long a connection may take to be let in.
    pub connect_timeout: Duration,
    /// `calls.confirm_timeout_ms`: how long a step may stay unconfirmed before it is taken again.
    pub confirm_timeout: Duration,
    /// How long a server that is not there is left alone, at first and at most.
    pub retry: (Duration, Duration),
    /// `calls.outstanding_max`: calls that a client waits for at once.
    pub outstanding_max: usize,
    /// Whether a client guards while nobody else does.
    pub guards: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "handoff".to_owned(),
            introduction: Introduction::default(),
            rules: Rules::default(),
            tls: None,
            clock: Clock::Redis,
            ping_interval: Duration::from_secs(1),
            ping_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(2),
            confirm_timeout: Duration::from_secs(2),
            retry: (Duration::from_millis(50), Duration::from_secs(1)),
            outstanding_max: 100_000,
            guards: true,
        }
    }
}

impl Options {
    pub(crate) fn room(&self, address: &Address) -> Result<Room, Trouble> {
        let dice = Dice::new().map_err(|why| Trouble::unreachable(address, why))?;
        Ok(Room {
            address: address.clone(),
            scripts: Arc::new(Scripts::new(address.clone(), self.clock)),
            clock: self.clock,
            rules: self.rules,
            dice,
            introduction: Arc::new(self.introduction.clone()),
        })
    }

    /// With the public authorities if an address needs some and none are given.
    pub(crate) fn with_tls(mut self, address: &Address) -> Result<Self, Trouble> {
        if address.tls && self.tls.is_none() {
            let tls = Tls::believing(b"").map_err(|why| Trouble::unreachable(address, why))?;
            self.tls = Some(tls);
        }
        Ok(self)
    }
}

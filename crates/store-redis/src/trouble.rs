//! What goes wrong, for people.

use std::fmt;

use thiserror::Error;

use crate::address::Address;

/// Why a server cannot be used, or what it refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// Nobody answers there, or not in time.
    #[error("cannot reach {place}: {why}. Is it running, and does it listen there?")]
    Unreachable {
        /// Where.
        place: String,
        /// What the system says.
        why: String,
    },
    /// It does not let this user in.
    #[error("{place} does not let this user in: {why}. Check user and password in the address")]
    NotLetIn {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// The user may not do what is needed.
    #[error(
        "{place}: {why}. The user needs keys origami:*, channels origami.*, and the commands of \
         scripting, pub/sub, strings, hashes, lists, sets and sorted sets"
    )]
    NotAllowed {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// Nothing can be written there.
    #[error("{place} is read-only, as a replica is: name the server that takes writes")]
    ReadOnly {
        /// Where.
        place: String,
    },
    /// It is a node of a cluster.
    #[error(
        "{place} is part of a cluster, and calls on Redis are for a single node: name a server that \
         is not clustered, or let Handoff itself carry the calls"
    )]
    Cluster {
        /// Where.
        place: String,
    },
    /// The connection broke, or was dropped because it was silent.
    #[error("the connection to {place} broke: {why}")]
    Broken {
        /// Where.
        place: String,
        /// What happened.
        why: String,
    },
    /// It refused.
    #[error("{place}: {why}")]
    Refused {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
}

impl Trouble {
    pub(crate) fn unreachable(address: &Address, why: impl fmt::Display) -> Self {
        Self::Unreachable { place: address.to_string(), why: why.to_string() }
    }

    pub(crate) fn broken(address: &Address, why: impl fmt::Display) -> Self {
        Self::Broken { place: address.to_string(), why: why.to_string() }
    }

    pub(crate) fn no_tls(address: &Address) -> Self {
        Self::unreachable(address, "its address asks for TLS, and nobody said whom to believe")
    }

    /// What an error of the server means.
    pub(crate) fn refused(address: &Address, words: &str) -> Self {
        let (place, why) = (address.to_string(), words.to_owned());
        match words.split(' ').next().unwrap_or_default() {
            "WRONGPASS" | "NOAUTH" => Self::NotLetIn { place, why },
            "NOPERM" => Self::NotAllowed { place, why },
            // What a script may not has no code of its own.
            "ERR" if words.contains("The user executing the script can't") => {
                Self::NotAllowed { place, why }
            }
            "READONLY" => Self::ReadOnly { place },
            "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => Self::Cluster { place },
            _ => Self::Refused { place, why },
        }
    }

    /// Whether a further try may succeed without anybody doing something about it. A server that is
    /// read-only may be one that was replaced: its address leads to another by and by.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::ReadOnly { .. }
            | Self::Refused { .. } => true,
            Self::NotLetIn { .. } | Self::NotAllowed { .. } | Self::Cluster { .. } => false,
        }
    }
}

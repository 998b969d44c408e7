//! `[[relay.destination]]`: who is to have everything.

use std::path::PathBuf;

use handoff_relay_agent::Address;

use crate::config::declared::{self, Declared, DeclaredKey, declared_key};
use crate::config::value::{Field as _, Kind, Value};

/// A destination as a file has it.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredDestination {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    located: bool,
}

impl Declared for DeclaredDestination {
    const SECTION: &'static str = "relay";
    const WORD: &'static str = "destination";
    const KEYS: &'static [DeclaredKey<Self>] = DESTINATION_KEYS;

    fn blank() -> Self {
        let address = Address { host: String::new(), port: 0, tls: false };
        Self { name: String::new(), address, token_file: None, ca_file: None, located: false }
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn wrong(&self) -> Option<String> {
        (!self.located).then(|| "it has no url: write url = \"handoff://HOST:7071\"".to_owned())
    }
}

/// Every key of a destination.
const DESTINATION_KEYS: &[DeclaredKey<DeclaredDestination>] = &[
    DeclaredKey {
        name: "name",
        kind: Kind::Text,
        doc: "What refill files call it: 1 to 128 visible ASCII characters. Under another name it is another destination.",
        get: |one| Value::Text(one.name.clone()),
        put: |one, value| {
            if let Value::Text(text) = value {
                handoff_relay::Name::try_from(text.as_str()).map_err(|why| why.to_string())?;
                one.name = text;
            }
            Ok(())
        },
    },
    DeclaredKey {
        name: "url",
        kind: Kind::Text,
        doc: "Where its receiver listens: handoff://HOST:PORT, or handoffs://HOST:PORT inside TLS.",
        get: |one| Value::Text(one.address.to_string()),
        put: |one, value| {
            if let Value::Text(text) = value {
                one.address = text.parse().map_err(|why| format!("{why}"))?;
                one.located = true;
            }
            Ok(())
        },
    },
    declared_key!(token_file: Kind::Path, token_file,
        "A file with the token that shows the receiver who sends."),
    declared_key!(ca_file: Kind::Path, ca_file,
        "Certificates to believe besides the public ones, PEM."),
];

/// A destination that says enough, for people who begin.
pub(super) fn example() -> DeclaredDestination {
    declared::with([
        ("name", Value::Text("centre".to_owned())),
        ("url", Value::Text("handoff://127.0.0.1:7071".to_owned())),
    ])
}

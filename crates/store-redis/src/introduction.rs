//! Who a client says it is: fields of its hash, for people and for what it understands.

/// What a client registers as, besides its id and its channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The application.
    pub app: String,
    /// Its version.
    pub app_version: String,
    /// Its process.
    pub process: String,
    /// The machine it runs on.
    pub host: String,
    /// The machine's system.
    pub platform: String,
}

/// What every client of ours registers as; anything but `NodeJS` gets the layout of the seed.
const PROGRAM: &str = "Handoff";

impl Default for Introduction {
    fn default() -> Self {
        let none = || "none".to_owned();
        let process = std::process::id().to_string();
        let platform = std::env::consts::OS.to_owned();
        Self { app: none(), app_version: none(), process, host: none(), platform }
    }
}

impl Introduction {
    /// In the order of the script.
    pub(crate) fn words(&self) -> [&str; 7] {
        let Self { app, app_version, process, host, platform } = self;
        [app, app_version, process, host, platform, PROGRAM, env!("CARGO_PKG_VERSION")]
    }
}

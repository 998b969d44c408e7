//! `handoff version`

use handoff_server::http::time_zone_database as zones;

use crate::exit::Failure;
use crate::terminal::Terminal;

/// The release of this program.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Prints the version.
pub(super) fn run(terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        let version = serde_json::json!({ "release": RELEASE, "timeZones": zones() });
        return terminal.print_json(&version);
    }
    terminal.print(&format!("handoff {RELEASE} (time zones {})", zones()))
}

//! What is said about a connection that is lost and found.

use handoff_sdk::calls::{Link, Links};

use crate::terminal::Terminal;

/// Says what becomes of a connection, to whoever wants to hear it.
pub(super) async fn tell_links(terminal: Terminal, mut links: Links) {
    let mut broken = false;
    while let Some(link) = links.next().await {
        match link {
            Link::Down { why } => {
                broken = true;
                terminal.talk(&format!("{why}; trying again"));
            }
            Link::Up if broken => {
                broken = false;
                terminal.talk("connected again");
            }
            _ => {}
        }
    }
}

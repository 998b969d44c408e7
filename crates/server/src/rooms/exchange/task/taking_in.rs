//! Files that somebody put into a folder.

use handoff_exchange::{Ask, Command, Reply};
use handoff_log::journal::Purpose;
use handoff_types::Now;
use tracing::warn;

use super::{Effect, Room, Then, weight};
use crate::rooms::exchange::mailbox::Offered;

impl Room {
    /// Takes in a file as if its device had sent it. What becomes of the file is said once it is
    /// durable.
    pub(super) fn take_in(&mut self, offered: Offered, now: Now) {
        let Offered { path, database, device, message } = offered;
        let state = self.host.state();
        let found = state.database_by_id(&database).and_then(|database| {
            let device = state.device_by_id(database.company, &device)?;
            Some((database.no, device.no))
        });
        let Some((database, device)) = found else {
            warn!(path, "a file of no device of the company is left where it is");
            return self.shared.orders.not_taken_in(&path);
        };
        if let Err(error) = self.watermark.check() {
            warn!(path, %error, "a file is taken in later");
            return self.shared.orders.not_taken_in(&path);
        }
        let ask = Ask::TakeIn { database, device, message };
        let bytes = weight(state, &ask);
        let command = Command { ask, rules: self.settings.rules() };
        match self.apply(&command, bytes, Purpose::Accept, now) {
            Ok(applied) => {
                self.count(&command.ask, &applied.reply, now);
                // What is known already stays where it is and is nobody's.
                let taken = matches!(&applied.reply, Reply::Posted(receipts) if receipts.iter().all(|one| !one.again));
                if let Reply::Refused(refusal) = &applied.reply {
                    warn!(path, %refusal, "a file is not taken in");
                }
                let then = Then::TakenIn(path, taken);
                let effect = Effect { shown: Vec::new(), actions: applied.actions, then };
                self.releases.push(applied.ticket, effect);
            }
            Err(error) => {
                warn!(path, %error, "a file is taken in later");
                self.shared.orders.not_taken_in(&path);
            }
        }
    }
}

//! Messages between devices and the database behind an ERP, handed over in two phases.
//!
//! # Constraints
//! * What a device sends has an id of the device's own: sent again, it is stored once.
//! * What an ERP is given is in a process until the ERP says what became of it. It prepares, its
//!   database decides, it reports. Every report may be repeated.
//! * Nothing here retries: [`Error::outcome`] says what is known after a failure, and every call
//!   about a process may then be sent again as it was.
//!
//! ```no_run
//! use handoff_sdk::exchange::{Begun, NewMessage, NewReply, Verdict, Wish};
//! use handoff_sdk::{Client, Options, Time};
//! use serde_json::json;
//!
//! # async fn run(now: Time, code: &str) -> Result<(), handoff_sdk::Error> {
//! let client = Client::new(Options::new("http://127.0.0.1:7070"))?;
//!
//! // A device shows its code once, and its token from then on.
//! let device = client.exchange().activate(code).await?;
//! let phone = client.with_token(&device.token)?;
//! let order = NewMessage::new("order-1", now.clone(), json!({"amount": 7}));
//! phone.exchange().as_device().send(&[order]).await?;
//!
//! // The ERP takes what waits, prepares, commits its own transaction, and says so.
//! let erp = client.exchange().as_erp("books");
//! if let Begun::Started(process) = erp.begin(&Wish::new()).await? {
//!     let verdicts: Vec<_> = process.messages.iter().map(|m| Verdict::processed(&m.id)).collect();
//!     let reply = NewReply::new("bill-1", &device.id, now, json!({"ok": true}));
//!     if erp.prepare(&process.process_id, &verdicts, &[reply]).await?.is_ok() {
//!         // COMMIT of the database here
//!         erp.commit(&process.process_id).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Error::outcome`]: crate::Error::outcome

mod admin;
mod device;
mod entity;
mod erp;
mod look;
mod page;
mod process;

use serde::Serialize;

use crate::client::Client;

pub use device::{AsDevice, Inbox, NewMessage, Receipt, Stored};
pub use entity::{
    Activated, Code, Company, Database, Device, DeviceEntry, Places, Route, Subsystem, Waiting,
};
pub use erp::{AsErp, Begun, NewReply, Started, Verdict, VerdictStatus, Wish};
pub use look::{Entry, ForeignFile, Foreigners, LogEntry, MessageQuery};
pub use page::Page;
pub use process::{Answered, Outcome, Process, ProcessFile, ReplyFile, Resolution};

/// Companies, databases and devices, and the messages between them.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    client: &'a Client,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// What a device asks. The client shows the device's token: see [`Client::with_token`].
    #[must_use]
    pub fn as_device(&self) -> AsDevice<'a> {
        AsDevice::new(self.client)
    }

    /// What the ERP of this database asks.
    #[must_use]
    pub fn as_erp(&self, database: impl Into<String>) -> AsErp<'a> {
        AsErp::new(self.client, database.into())
    }
}

/// A body of a request: the version, and the rest beside it.
#[derive(Serialize)]
struct Body<T> {
    version: u32,
    #[serde(flatten)]
    rest: T,
}

/// A body with nothing but its version.
#[derive(Serialize)]
struct Nothing {}

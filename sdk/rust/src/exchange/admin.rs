//! Entities: made, looked at, changed, removed. Needs a token for the exchange.

use serde::{Deserialize, Serialize};

use super::entity::{Activated, Code, Company, Database, Device, DeviceEntry, Route, Subsystem};
use super::page::{One, Page};
use super::{Body, Exchange, Nothing};
use crate::client::VERSION;
use crate::{Error, Target};

/// Where the room is.
pub(super) const ROOM: &str = "/v1/exchange";

fn room(kind: &str) -> Target {
    Target::new(ROOM).segment(kind)
}

#[derive(Serialize)]
struct Named<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Deserialize)]
struct Deleted {
    #[serde(default)]
    deleted: String,
}

impl Exchange<'_> {
    /// One page of companies, by id: those after an id, and at most so many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn companies(
        &self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<Company>, Error> {
        Page::ask(self.client, room("companies"), "after", after, limit).await
    }

    /// One company.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn company(&self, id: &str) -> Result<Company, Error> {
        let one: One<Company> =
            self.client.get_json(room("companies").segment(id).as_str()).await?;
        Ok(one.item)
    }

    /// Makes a company, or gives it another name. On disk when it answers.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn put_company(&self, id: &str, name: Option<&str>) -> Result<Company, Error> {
        let body = Body { version: VERSION, rest: Named { name } };
        let one: One<Company> =
            self.client.put_json(room("companies").segment(id).as_str(), &body).await?;
        Ok(one.item)
    }

    /// Removes a company without databases, devices and routes, and says what is gone.
    ///
    /// # Errors
    /// [`Error`]; `exchange.in_use` while something needs it.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn remove_company(&self, id: &str) -> Result<String, Error> {
        self.remove(&room("companies").segment(id)).await
    }

    /// One page of subsystems, by id: those after an id, and at most so many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn subsystems(
        &self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<Subsystem>, Error> {
        Page::ask(self.client, room("subsystems"), "after", after, limit).await
    }

    /// One subsystem.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn subsystem(&self, id: &str) -> Result<Subsystem, Error> {
        let one: One<Subsystem> =
            self.client.get_json(room("subsystems").segment(id).as_str()).await?;
        Ok(one.item)
    }

    /// Makes a subsystem, or gives it another name. On disk when it answers.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn put_subsystem(&self, id: &str, name: Option<&str>) -> Result<Subsystem, Error> {
        let body = Body { version: VERSION, rest: Named { name } };
        let one: One<Subsystem> =
            self.client.put_json(room("subsystems").segment(id).as_str(), &body).await?;
        Ok(one.item)
    }

    /// Removes a subsystem without devices and routes, and says what is gone.
    ///
    /// # Errors
    /// [`Error`]; `exchange.in_use` while something needs it.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn remove_subsystem(&self, id: &str) -> Result<String, Error> {
        self.remove(&room("subsystems").segment(id)).await
    }

    /// One page of databases: those of a company, or of all; after a place, and at most so many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn databases(
        &self,
        company: Option<&str>,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<Database>, Error> {
        let target = room("databases").queries("company", company);
        Page::ask(self.client, target, "after", after, limit).await
    }

    /// One database, with what waits in it and the process that keeps it busy.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn database(&self, id: &str) -> Result<Database, Error> {
        let one: One<Database> =
            self.client.get_json(room("databases").segment(id).as_str()).await?;
        Ok(one.item)
    }

    /// Makes a database, or gives it another name. It stays with its company.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn put_database(
        &self,
        id: &str,
        company: &str,
        name: Option<&str>,
    ) -> Result<Database, Error> {
        #[derive(Serialize)]
        struct New<'a> {
            company: &'a str,
            #[serde(flatten)]
            named: Named<'a>,
        }
        let body = Body { version: VERSION, rest: New { company, named: Named { name } } };
        let one: One<Database> =
            self.client.put_json(room("databases").segment(id).as_str(), &body).await?;
        Ok(one.item)
    }

    /// Removes a database without routes and messages, and says what is gone.
    ///
    /// # Errors
    /// [`Error`]; `exchange.in_use` while something needs it.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn remove_database(&self, id: &str) -> Result<String, Error> {
        self.remove(&room("databases").segment(id)).await
    }

    /// Gives a database another token, for its ERP. The one before opens nothing any more.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn database_token(&self, id: &str) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Made {
            token: String,
        }
        let target = room("databases").segment(id).segment("token");
        let body = Body { version: VERSION, rest: Nothing {} };
        let made: Made = self.client.post_json(target.as_str(), &body).await?;
        Ok(made.token)
    }

    /// One page of devices: those of a company, or of all; after a place, and at most so many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn devices(
        &self,
        company: Option<&str>,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<Device>, Error> {
        let target = room("devices").queries("company", company);
        Page::ask(self.client, target, "after", after, limit).await
    }

    /// One device, with what waits for it.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn device(&self, company: &str, id: &str) -> Result<Device, Error> {
        let target = room("devices").segment(company).segment(id);
        let one: One<Device> = self.client.get_json(target.as_str()).await?;
        Ok(one.item)
    }

    /// Makes a device, or gives it another name or subsystem.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn put_device(
        &self,
        company: &str,
        id: &str,
        subsystem: &str,
        name: Option<&str>,
    ) -> Result<Device, Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct New<'a> {
            app_system: &'a str,
            #[serde(flatten)]
            named: Named<'a>,
        }
        let rest = New { app_system: subsystem, named: Named { name } };
        let target = room("devices").segment(company).segment(id);
        let one: One<Device> =
            self.client.put_json(target.as_str(), &Body { version: VERSION, rest }).await?;
        Ok(one.item)
    }

    /// Removes a device without messages, and says what is gone.
    ///
    /// # Errors
    /// [`Error`]; `exchange.in_use` while something needs it.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn remove_device(&self, company: &str, id: &str) -> Result<String, Error> {
        self.remove(&room("devices").segment(company).segment(id)).await
    }

    /// Gives a device a code that activates it, once. A code it had is void; its token works until
    /// the code is used.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn device_code(&self, company: &str, id: &str) -> Result<Code, Error> {
        self.device_call(company, id, "code").await
    }

    /// Locks a device out: its token opens nothing, its messages wait.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn block_device(&self, company: &str, id: &str) -> Result<Device, Error> {
        let one: One<Device> = self.device_call(company, id, "block").await?;
        Ok(one.item)
    }

    /// Lets a device in again.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn unblock_device(&self, company: &str, id: &str) -> Result<Device, Error> {
        let one: One<Device> = self.device_call(company, id, "unblock").await?;
        Ok(one.item)
    }

    /// What a device said of itself last.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn device_log(&self, company: &str, id: &str) -> Result<Vec<DeviceEntry>, Error> {
        let target = room("devices").segment(company).segment(id).segment("log");
        let page: Page<DeviceEntry> = self.client.get_json(target.as_str()).await?;
        Ok(page.items)
    }

    /// One page of routes: those of a company, or of all; after a place, and at most so many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn routes(
        &self,
        company: Option<&str>,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<Route>, Error> {
        let target = room("routes").queries("company", company);
        Page::ask(self.client, target, "after", after, limit).await
    }

    /// Where the messages of a company's subsystem go.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn route(&self, company: &str, subsystem: &str) -> Result<Route, Error> {
        let target = room("routes").segment(company).segment(subsystem);
        let one: One<Route> = self.client.get_json(target.as_str()).await?;
        Ok(one.item)
    }

    /// Sends what a company's subsystem sends to a database of the company, from now on.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn put_route(
        &self,
        company: &str,
        subsystem: &str,
        database: &str,
    ) -> Result<Route, Error> {
        #[derive(Serialize)]
        struct New<'a> {
            database: &'a str,
        }
        let body = Body { version: VERSION, rest: New { database } };
        let target = room("routes").segment(company).segment(subsystem);
        let one: One<Route> = self.client.put_json(target.as_str(), &body).await?;
        Ok(one.item)
    }

    /// Removes a route, and says what is gone. What was sent before stays where it is.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn remove_route(&self, company: &str, subsystem: &str) -> Result<String, Error> {
        self.remove(&room("routes").segment(company).segment(subsystem)).await
    }

    /// Makes a device active by its code. Asks for no token, and gives the one that the device shows
    /// from then on.
    ///
    /// # Errors
    /// [`Error`]; `exchange.wrong_code` if it is wrong, used or expired.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn activate(&self, code: &str) -> Result<Activated, Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            code: &'a str,
        }
        let body = Body { version: VERSION, rest: Shown { code } };
        let target = room("device").segment("activate");
        self.client.post_json(target.as_str(), &body).await
    }

    async fn remove(&self, target: &Target) -> Result<String, Error> {
        let gone: Deleted = self.client.delete_json(target.as_str()).await?;
        Ok(gone.deleted)
    }

    async fn device_call<T: serde::de::DeserializeOwned>(
        &self,
        company: &str,
        id: &str,
        verb: &str,
    ) -> Result<T, Error> {
        let target = room("devices").segment(company).segment(id).segment(verb);
        let body = Body { version: VERSION, rest: Nothing {} };
        self.client.post_json(target.as_str(), &body).await
    }
}

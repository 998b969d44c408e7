//! Entities.

use super::Draft;
use crate::{
    Admin, Change, Code, Company, CompanyNo, Counts, Database, DatabaseNo, Device, DeviceNo,
    EntityId, Refusal, Reply, Route, Subsystem, SubsystemNo,
};

/// How many entities there are of a kind at most.
const COMPANIES_MAX: usize = 10_000;
const SUBSYSTEMS_MAX: usize = 1_000;
const DATABASES_MAX: usize = 10_000;
const DEVICES_MAX: usize = 200_000;

/// The longest name for people, in bytes.
const NAME_BYTES_MAX: usize = 256;

impl<'a> Draft<'a> {
    pub(super) fn admin(&mut self, admin: &Admin) -> Result<Reply, Refusal> {
        match admin {
            Admin::PutCompany { id, name } => self.put_company(id, name)?,
            Admin::RemoveCompany(id) => self.remove_company(id)?,
            Admin::PutSubsystem { id, name } => self.put_subsystem(id, name)?,
            Admin::RemoveSubsystem(id) => self.remove_subsystem(id)?,
            Admin::PutDatabase { id, company, name } => self.put_database(id, company, name)?,
            Admin::RemoveDatabase(id) => self.remove_database(id)?,
            Admin::DatabaseToken { id, token } => {
                let database = self.database_by_id(id)?;
                if self.state.database_by_token(token).is_some() {
                    return Err(Refusal::Invalid("another database has this token; draw again"));
                }
                self.change(Change::Database(Database { token: Some(*token), ..database.clone() }));
            }
            Admin::PutDevice { company, id, subsystem, name } => {
                self.put_device((company, id), subsystem, name)?;
            }
            Admin::RemoveDevice { company, id } => {
                let device = self.device(company, id)?;
                if self.state.count_of_device(device.no) > 0 {
                    let needs = "there are messages of it or for it; lock it out instead";
                    return Err(in_use("device", id, needs));
                }
                self.change(Change::DeviceGone(device.no));
            }
            Admin::DeviceCode { company, id, code, expires } => {
                let device = self.device(company, id)?;
                if self.state.device_by_code(code).is_some_and(|other| other.no != device.no) {
                    return Err(Refusal::Invalid("another device has this code; draw again"));
                }
                let code = Some(Code { digest: *code, expires: *expires });
                self.change(Change::Device(Device { code, ..device.clone() }));
            }
            Admin::BlockDevice { company, id, blocked } => {
                let device = self.device(company, id)?;
                if device.blocked != *blocked {
                    self.change(Change::Device(Device { blocked: *blocked, ..device.clone() }));
                }
            }
            Admin::PutRoute { company, subsystem, database } => {
                let company = self.company(company)?.no;
                let subsystem = self.subsystem(subsystem)?.no;
                let found = self.database_by_id(database)?;
                if found.company != company {
                    return Err(not_found("database", database));
                }
                let route = Route { company, subsystem, database: found.no };
                if self.state.route(company, subsystem) != Some(found.no) {
                    self.change(Change::Route(route));
                }
            }
            Admin::RemoveRoute { company, subsystem } => {
                let (of, from) = (self.company(company)?.no, self.subsystem(subsystem)?.no);
                if self.state.route(of, from).is_none() {
                    let id = format!("{company}/{subsystem}").into();
                    return Err(Refusal::NotFound { what: "route", id });
                }
                self.change(Change::RouteGone(of, from));
            }
        }
        Ok(Reply::Done)
    }

    fn put_company(&mut self, id: &EntityId, name: &str) -> Result<(), Refusal> {
        let name = checked(name)?;
        let company = match self.state.company_by_id(id) {
            Some(known) => Company { name, ..known.clone() },
            None => {
                expect_room("companies", self.state.companies().count(), COMPANIES_MAX)?;
                let no = CompanyNo(self.next_entity());
                Company { no, id: id.clone(), name, created: self.now.wall }
            }
        };
        if self.state.company(company.no) != Some(&company) {
            self.change(Change::Company(company));
        }
        Ok(())
    }

    fn remove_company(&mut self, id: &EntityId) -> Result<(), Refusal> {
        let company = self.company(id)?.no;
        if self.state.databases_of(company).next().is_some() {
            return Err(in_use("company", id, "it has databases; remove them first"));
        }
        if self.state.devices_of(company).next().is_some() {
            return Err(in_use("company", id, "it has devices; remove them first"));
        }
        if self.state.routes().any(|route| route.company == company) {
            return Err(in_use("company", id, "it has routes; remove them first"));
        }
        self.change(Change::CompanyGone(company));
        Ok(())
    }

    fn put_subsystem(&mut self, id: &EntityId, name: &str) -> Result<(), Refusal> {
        let name = checked(name)?;
        let subsystem = match self.state.subsystem_by_id(id) {
            Some(known) => Subsystem { name, ..known.clone() },
            None => {
                expect_room("subsystems", self.state.subsystems().count(), SUBSYSTEMS_MAX)?;
                let no = SubsystemNo(self.next_entity());
                Subsystem { no, id: id.clone(), name, created: self.now.wall }
            }
        };
        if self.state.subsystem(subsystem.no) != Some(&subsystem) {
            self.change(Change::Subsystem(subsystem));
        }
        Ok(())
    }

    fn remove_subsystem(&mut self, id: &EntityId) -> Result<(), Refusal> {
        let subsystem = self.subsystem(id)?.no;
        if self.state.devices().any(|device| device.subsystem == subsystem) {
            return Err(in_use("subsystem", id, "it has devices; remove them first"));
        }
        if self.state.routes().any(|route| route.subsystem == subsystem) {
            return Err(in_use("subsystem", id, "it has routes; remove them first"));
        }
        self.change(Change::SubsystemGone(subsystem));
        Ok(())
    }

    fn put_database(&mut self, id: &EntityId, of: &EntityId, name: &str) -> Result<(), Refusal> {
        let name = checked(name)?;
        let company = self.company(of)?.no;
        let database = match self.state.database_by_id(id) {
            Some(known) if known.company != company => {
                return Err(Refusal::Taken { what: "database", id: id.as_str().into() });
            }
            Some(known) => Database { name, ..known.clone() },
            None => {
                expect_room("databases", self.state.databases().count(), DATABASES_MAX)?;
                let no = DatabaseNo(self.next_entity());
                let (id, created) = (id.clone(), self.now.wall);
                Database { no, id, company, name, token: None, created }
            }
        };
        if self.state.database(database.no) != Some(&database) {
            self.change(Change::Database(database));
        }
        Ok(())
    }

    fn remove_database(&mut self, id: &EntityId) -> Result<(), Refusal> {
        let database = self.database_by_id(id)?;
        let no = database.no;
        if self.state.routes().any(|route| route.database == no) {
            return Err(in_use("database", id, "routes lead to it; remove them first"));
        }
        let unsettled = self.state.unsettled().any(|process| process.database == no);
        let undecided = self.state.unknown(no).next().is_some();
        if unsettled || undecided || self.state.live(no).is_some() {
            return Err(in_use("database", id, "it has processes that are not over"));
        }
        if self.state.counts(no) != Counts::default() {
            return Err(in_use("database", id, "there are messages of it or for it"));
        }
        self.change(Change::DatabaseGone(no));
        Ok(())
    }

    fn put_device(
        &mut self,
        (company, id): (&EntityId, &EntityId),
        subsystem: &EntityId,
        name: &str,
    ) -> Result<(), Refusal> {
        let name = checked(name)?;
        let company = self.company(company)?.no;
        let subsystem = self.subsystem(subsystem)?.no;
        let device = match self.state.device_by_id(company, id) {
            Some(known) => Device { name, subsystem, ..known.clone() },
            None => {
                expect_room("devices", self.state.devices().count(), DEVICES_MAX)?;
                Device {
                    no: DeviceNo(self.next_entity()),
                    id: id.clone(),
                    company,
                    subsystem,
                    name,
                    token: None,
                    code: None,
                    blocked: false,
                    created: self.now.wall,
                }
            }
        };
        if self.state.device(device.no) != Some(&device) {
            self.change(Change::Device(device));
        }
        Ok(())
    }

    fn company(&self, id: &EntityId) -> Result<&'a Company, Refusal> {
        self.state.company_by_id(id).ok_or_else(|| not_found("company", id))
    }

    fn subsystem(&self, id: &EntityId) -> Result<&'a Subsystem, Refusal> {
        self.state.subsystem_by_id(id).ok_or_else(|| not_found("subsystem", id))
    }

    fn database_by_id(&self, id: &EntityId) -> Result<&'a Database, Refusal> {
        self.state.database_by_id(id).ok_or_else(|| not_found("database", id))
    }

    fn device(&self, company: &EntityId, id: &EntityId) -> Result<&'a Device, Refusal> {
        let company = self.company(company)?.no;
        self.state.device_by_id(company, id).ok_or_else(|| not_found("device", id))
    }
}

fn checked(name: &str) -> Result<Box<str>, Refusal> {
    match name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        true => Err(Refusal::Invalid("a name has at most 256 bytes and no control characters")),
        false => Ok(name.into()),
    }
}

fn expect_room(what: &'static str, many: usize, max: usize) -> Result<(), Refusal> {
    if many < max { Ok(()) } else { Err(Refusal::Full { what, many: many as u64 }) }
}

fn not_found(what: &'static str, id: &EntityId) -> Refusal {
    Refusal::NotFound { what, id: id.as_str().into() }
}

fn in_use(what: &'static str, id: &EntityId, needs: &'static str) -> Refusal {
    Refusal::InUse { what, id: id.as_str().into(), needs }
}

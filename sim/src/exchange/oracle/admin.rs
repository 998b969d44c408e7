//! Companies, subsystems, databases, devices and routes.

use std::collections::BTreeSet;

use handoff_exchange::{
    Admin, Code, Company, Database, Device, Digest, EntityId, Reply, Subsystem,
};

use super::{Case, Expect, Oracle, Violation, is_answer, no_answer};

impl Oracle {
    pub(super) fn administered(
        &mut self,
        case: &Case<'_>,
        admin: &Admin,
    ) -> Result<Expect, Violation> {
        let reasons = self.wrong_with(admin);
        if case.objects(&reasons)? {
            return Ok(Expect::default());
        }
        is_answer(case.asked, case.reply, &Reply::Done)?;
        let now = case.now.wall;
        match admin.clone() {
            Admin::PutCompany { id, name } => {
                let found = case.look.companies.iter().find(|one| one.id == id);
                let known = self.companies.get(&id).map(|one| (one.no, one.created));
                let (no, created) = match (known, found) {
                    (Some(known), _) => known,
                    (None, Some(found)) => (found.no, now),
                    (None, None) => return Err(missing(case)),
                };
                self.number(case, no.0, known.is_none())?;
                self.companies.insert(id.clone(), Company { no, id, name, created });
            }
            Admin::RemoveCompany(id) => drop(self.companies.remove(&id)),
            Admin::PutSubsystem { id, name } => {
                let found = case.look.subsystems.iter().find(|one| one.id == id);
                let known = self.subsystems.get(&id).map(|one| (one.no, one.created));
                let (no, created) = match (known, found) {
                    (Some(known), _) => known,
                    (None, Some(found)) => (found.no, now),
                    (None, None) => return Err(missing(case)),
                };
                self.number(case, no.0, known.is_none())?;
                self.subsystems.insert(id.clone(), Subsystem { no, id, name, created });
            }
            Admin::RemoveSubsystem(id) => drop(self.subsystems.remove(&id)),
            Admin::PutDatabase { id, company, name } => {
                let Some(of) = self.companies.get(&company).map(|one| one.no) else {
                    return Err(missing(case));
                };
                let fresh = !self.databases.contains_key(&id);
                let found = case.look.databases.iter().find(|one| one.id == id);
                let no = found.ok_or_else(|| missing(case))?.no;
                self.number(case, no.0, fresh)?;
                let made =
                    Database { no, id: id.clone(), company: of, name, token: None, created: now };
                let database = self.databases.entry(id).or_insert_with(|| made.clone());
                database.name = made.name;
            }
            Admin::RemoveDatabase(id) => drop(self.databases.remove(&id)),
            Admin::DatabaseToken { id, token } => {
                if let Some(database) = self.databases.get_mut(&id) {
                    database.token = Some(token);
                }
            }
            Admin::PutDevice { company, id, subsystem, name } => {
                let of = self.companies.get(&company).map(|one| one.no);
                let sub = self.subsystems.get(&subsystem).map(|one| one.no);
                let (Some(company), Some(subsystem)) = (of, sub) else { return Err(missing(case)) };
                let found =
                    case.look.devices.iter().find(|one| one.company == company && one.id == id);
                let no = found.ok_or_else(|| missing(case))?.no;
                let key = (company, id.clone());
                self.number(case, no.0, !self.devices.contains_key(&key))?;
                let (token, code, blocked, created) = (None, None, false, now);
                let made =
                    Device { no, id, company, subsystem, name, token, code, blocked, created };
                let device = self.devices.entry(key).or_insert_with(|| made.clone());
                (device.name, device.subsystem) = (made.name, subsystem);
            }
            Admin::RemoveDevice { company, id } => {
                if let Some(of) = self.companies.get(&company) {
                    self.devices.remove(&(of.no, id));
                }
            }
            Admin::DeviceCode { company, id, code, expires } => {
                let code = Some(Code { digest: code, expires });
                self.change_device(&company, &id, |device| device.code = code);
            }
            Admin::BlockDevice { company, id, blocked } => {
                self.change_device(&company, &id, |device| device.blocked = blocked);
            }
            Admin::PutRoute { company, subsystem, database } => {
                let company = self.companies.get(&company).map(|one| one.no);
                let subsystem = self.subsystems.get(&subsystem).map(|one| one.no);
                let database = self.databases.get(&database).map(|one| one.no);
                if let (Some(of), Some(sub), Some(to)) = (company, subsystem, database) {
                    self.routes.insert((of, sub), to);
                }
            }
            Admin::RemoveRoute { company, subsystem } => {
                let company = self.companies.get(&company).map(|one| one.no);
                let subsystem = self.subsystems.get(&subsystem).map(|one| one.no);
                company.zip(subsystem).map(|key| self.routes.remove(&key));
            }
        }
        Ok(Expect::default())
    }

    /// A number is never used again, nor for anything else.
    fn number(&mut self, case: &Case<'_>, number: u32, fresh: bool) -> Result<(), Violation> {
        let unused = !self.numbers.contains(&number);
        if fresh != unused {
            return Err(no_answer(case.asked, format!("number {number} is another's")));
        }
        self.numbers.insert(number);
        Ok(())
    }

    fn change_device(&mut self, company: &EntityId, id: &EntityId, with: impl FnOnce(&mut Device)) {
        let of = self.companies.get(company).map(|one| one.no);
        let device = of.and_then(|of| self.devices.get_mut(&(of, id.clone())));
        if let Some(device) = device {
            with(device);
        }
    }

    fn wrong_with(&self, admin: &Admin) -> BTreeSet<&'static str> {
        let mut wrong = BTreeSet::new();
        let company = |id: &EntityId| self.companies.get(id).map(|one| one.no);
        let subsystem = |id: &EntityId| self.subsystems.get(id).map(|one| one.no);
        let database = |id: &EntityId| self.databases.get(id);
        let device = |of: &EntityId, id: &EntityId| {
            self.devices.get(&(company(of)?, id.clone())).map(|one| one.no)
        };
        let mut when = |is: bool, why: &'static str| {
            if is {
                wrong.insert(why);
            }
        };
        match admin {
            Admin::PutCompany { .. } | Admin::PutSubsystem { .. } => {}
            Admin::RemoveCompany(id) => {
                let no = company(id);
                when(no.is_none(), "not found");
                let used = self.databases.values().any(|one| Some(one.company) == no)
                    || self.devices.values().any(|one| Some(one.company) == no)
                    || self.routes.keys().any(|(of, _)| Some(*of) == no);
                when(used, "in use");
            }
            Admin::RemoveSubsystem(id) => {
                let no = subsystem(id);
                when(no.is_none(), "not found");
                let used = self.devices.values().any(|one| Some(one.subsystem) == no)
                    || self.routes.keys().any(|(_, of)| Some(*of) == no);
                when(used, "in use");
            }
            Admin::PutDatabase { id, company: of, .. } => {
                let of = company(of);
                when(of.is_none(), "not found");
                when(database(id).is_some_and(|known| of != Some(known.company)), "taken");
            }
            Admin::RemoveDatabase(id) => {
                let no = database(id).map(|one| one.no);
                when(no.is_none(), "not found");
                let at_work = |one: &handoff_exchange::Process| {
                    Some(one.database) == no && (!one.phase.is_over() || !one.settled)
                };
                let used = self.routes.values().any(|to| Some(*to) == no)
                    || self.letters.values().any(|one| Some(one.is.database) == no)
                    || self.processes.values().any(at_work);
                when(used, "in use");
            }
            Admin::DatabaseToken { id, .. } => when(database(id).is_none(), "not found"),
            Admin::PutDevice { company: of, subsystem: sub, .. } => {
                when(company(of).is_none() || subsystem(sub).is_none(), "not found");
            }
            Admin::RemoveDevice { company: of, id } => {
                let no = device(of, id);
                when(no.is_none(), "not found");
                when(self.letters.values().any(|one| Some(one.is.device) == no), "in use");
            }
            Admin::DeviceCode { company: of, id, .. }
            | Admin::BlockDevice { company: of, id, .. } => {
                when(device(of, id).is_none(), "not found");
            }
            Admin::PutRoute { company: of, subsystem: sub, database: to } => {
                let of = company(of);
                let theirs = database(to).is_some_and(|one| Some(one.company) == of);
                when(of.is_none() || subsystem(sub).is_none() || !theirs, "not found");
            }
            Admin::RemoveRoute { company: of, subsystem: sub } => {
                let key = company(of).zip(subsystem(sub));
                when(key.is_none_or(|key| !self.routes.contains_key(&key)), "not found");
            }
        }
        wrong
    }

    pub(super) fn activated(
        &mut self,
        case: &Case<'_>,
        code: &Digest,
        token: &Digest,
    ) -> Result<Expect, Violation> {
        let has = |device: &&mut Device| device.code.is_some_and(|one| one.digest == *code);
        let Some(device) = self.devices.values_mut().find(has) else {
            return case.refused(["wrong code"]).map(|()| Expect::default());
        };
        let mut wrong = BTreeSet::new();
        if device.code.is_some_and(|one| one.expires <= case.now.wall) {
            wrong.insert("wrong code");
        }
        if device.blocked {
            wrong.insert("blocked");
        }
        if case.objects(&wrong)? {
            return Ok(Expect::default());
        }
        (device.token, device.code) = (Some(*token), None);
        is_answer(case.asked, case.reply, &Reply::Activated(device.no))?;
        Ok(Expect::default())
    }
}

fn missing(case: &Case<'_>) -> Violation {
    no_answer(case.asked, "it is not there".to_owned())
}

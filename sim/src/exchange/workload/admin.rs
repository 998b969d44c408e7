//! Administrators, and the world they set up.

use handoff_exchange::{Admin, Ask, DatabaseNo, Place, Seq, State, Way};
use handoff_types::{Now, Span};

use super::{Workload, aside, entity};
use crate::exchange::databases::Databases;

const COMPANIES: [&str; 2] = ["acme", "beta"];

pub(in crate::exchange) const SUBSYSTEMS: [&str; 2] = ["sales", "stock"];

/// Databases and whose they are.
pub(in crate::exchange) const DATABASES: [(&str, &str); 3] =
    [("acme-1", "acme"), ("acme-2", "acme"), ("beta-1", "beta")];

/// Devices: of whom, which, in what.
pub(in crate::exchange) const DEVICES: [(&str, &str, &str); 5] = [
    ("acme", "p1", "sales"),
    ("acme", "p2", "sales"),
    ("acme", "p3", "stock"),
    ("beta", "p1", "sales"),
    ("beta", "p4", "stock"),
];

const ROUTES: [(&str, &str, &str); 4] = [
    ("acme", "sales", "acme-1"),
    ("acme", "stock", "acme-2"),
    ("beta", "sales", "beta-1"),
    ("beta", "stock", "beta-1"),
];

impl Workload {
    /// What is to be set up before anything else, or again once in so many times.
    pub(super) fn missing(&mut self, state: &State, now: Now) -> Option<(Ask, u64)> {
        let company = |id: &str| state.company_by_id(&entity(id));
        let subsystem = |id: &str| state.subsystem_by_id(&entity(id));
        for id in COMPANIES {
            if company(id).is_none() {
                let name = "Company".into();
                return Some((admin(Admin::PutCompany { id: entity(id), name }), 1));
            }
        }
        for id in SUBSYSTEMS {
            if subsystem(id).is_none() {
                let name = "Subsystem".into();
                return Some((admin(Admin::PutSubsystem { id: entity(id), name }), 1));
            }
        }
        for (id, of) in DATABASES {
            if state.database_by_id(&entity(id)).is_none() {
                let (id, company, name) = (entity(id), entity(of), "Base".into());
                return Some((admin(Admin::PutDatabase { id, company, name }), 1));
            }
        }
        for (of, sub, to) in ROUTES {
            let route = company(of)
                .zip(subsystem(sub))
                .and_then(|(company, subsystem)| state.route(company.no, subsystem.no));
            if route.is_none() {
                let (company, subsystem, database) = (entity(of), entity(sub), entity(to));
                let patience = if state.message_count() == 0 { 1 } else { 5 };
                return Some((admin(Admin::PutRoute { company, subsystem, database }), patience));
            }
        }
        for (of, id, sub) in DEVICES {
            let device = company(of).and_then(|one| state.device_by_id(one.no, &entity(id)));
            let (company, id, subsystem) = (entity(of), entity(id), entity(sub));
            let Some(device) = device else {
                let name = "P".into();
                return Some((admin(Admin::PutDevice { company, id, subsystem, name }), 1));
            };
            if device.token.is_none() || device.code.is_some() {
                let ask = match device.code {
                    Some(code) if code.expires > now.wall => {
                        let code = code.digest;
                        Ask::Activate { code, token: self.secret() }
                    }
                    _ => self.code(company, id, now),
                };
                return Some((ask, 2));
            }
            if device.blocked {
                return Some((admin(Admin::BlockDevice { company, id, blocked: false }), 5));
            }
        }
        None
    }

    fn secret(&mut self) -> [u8; 32] {
        let mut secret = [0; 32];
        for eight in secret.chunks_mut(8) {
            eight.copy_from_slice(&self.dice.roll().to_le_bytes());
        }
        secret
    }

    fn code(
        &mut self,
        company: handoff_exchange::EntityId,
        id: handoff_exchange::EntityId,
        now: Now,
    ) -> Ask {
        let code = self.secret();
        let lasts = Span::from_secs(self.dice.below(100_000));
        admin(Admin::DeviceCode { company, id, code, expires: now.wall + lasts })
    }

    /// An administrator does something, often something that cannot be.
    pub(super) fn administer(
        &mut self,
        state: &State,
        databases: &mut Databases,
        now: Now,
    ) -> Option<Ask> {
        let device = self.dice.pick(&DEVICES).copied()?;
        let (id, of) = self.dice.pick(&DATABASES).copied()?;
        let company = if self.dice.one_in(8) { entity("gamma") } else { entity(device.0) };
        let subsystem = entity(self.dice.pick(&SUBSYSTEMS).copied()?);
        let name = "Another".into();
        Some(match self.dice.below(24) {
            0 => admin(Admin::PutCompany { id: company, name }),
            1 => admin(Admin::RemoveCompany(company)),
            2 => admin(Admin::PutSubsystem { id: subsystem, name }),
            3 => admin(Admin::RemoveSubsystem(subsystem)),
            4 => admin(Admin::PutDatabase { id: entity(id), company, name }),
            5 => admin(Admin::RemoveDatabase(entity(id))),
            6 => admin(Admin::DatabaseToken { id: entity(id), token: self.secret() }),
            7 => admin(Admin::PutDevice { company, id: entity(device.1), subsystem, name }),
            8 => admin(Admin::RemoveDevice { company, id: entity(device.1) }),
            9 => self.code(company, entity(device.1), now),
            10 | 11 => {
                let (id, blocked) = (entity(device.1), self.dice.one_in(2));
                admin(Admin::BlockDevice { company, id, blocked })
            }
            12 | 13 => admin(Admin::PutRoute { company, subsystem, database: entity(id) }),
            14 => admin(Admin::RemoveRoute { company, subsystem }),
            15 => Ask::Activate { code: self.secret(), token: self.secret() },
            16 => self.take_in(state, id, now)?,
            17 if self.dice.one_in(3) => self.damaged(state)?,
            17 => admin(Admin::PutDatabase { id: entity(id), company: entity(of), name }),
            _ => self.requeue(state, databases, id)?,
        })
    }

    fn requeue(&mut self, state: &State, databases: &mut Databases, id: &str) -> Option<Ask> {
        let place = *self.dice.pick(&[Place::Error, Place::Unknown, Place::Unknown, Place::Log])?;
        let somewhere = state.messages_from(Seq(0)).filter(|(_, one)| one.place == place);
        let somewhere: Vec<DatabaseNo> = somewhere.map(|(_, one)| one.database).collect();
        let database = match self.dice.pick(&somewhere) {
            Some(database) => *database,
            None => state.database_by_id(&entity(id))?.no,
        };
        let all = aside(state, database);
        let there: Vec<_> = all.iter().filter(|one| one.1 == place).copied().collect();
        let wanted = if self.dice.one_in(4) { &all } else { &there };
        let mut messages: Vec<Seq> = Vec::new();
        for _ in 0..1 + self.dice.below(2) {
            messages.extend(self.dice.pick(wanted).map(|(seq, ..)| *seq));
        }
        if self.dice.one_in(10) {
            messages.push(Seq(self.dice.below(1_000_000)));
        }
        for seq in &messages {
            let found = all.iter().find(|(one, ..)| one == seq);
            // What is in Unknown and undecided must not be wished for: it may have been processed.
            if found.is_some_and(|(_, place, way)| *place == Place::Log && *way == Way::ToErp)
                && databases.is_processed(*seq)
            {
                databases.wish_once_more(*seq);
            }
        }
        Some(Ask::Requeue { database, messages })
    }

    fn damaged(&mut self, state: &State) -> Option<Ask> {
        let all: Vec<Seq> = state.messages_from(Seq(0)).map(|(seq, _)| seq).collect();
        let seq = self.dice.pick(&all).copied()?;
        Some(Ask::Damaged { seq, words: "the file cannot be read".into() })
    }

    /// A file is put into a folder by hand.
    fn take_in(&mut self, state: &State, id: &str, now: Now) -> Option<Ask> {
        let database = state.database_by_id(&entity(id))?;
        let devices: Vec<_> = state.devices_of(database.company).map(|one| one.no).collect();
        let device = self.dice.pick(&devices).copied()?;
        let message = self.message(now, 5, None);
        Some(Ask::TakeIn { database: DatabaseNo(database.no.0), device, message })
    }
}

fn admin(admin: Admin) -> Ask {
    Ask::Admin(admin)
}

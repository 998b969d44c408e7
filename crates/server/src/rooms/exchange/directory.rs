//! Entities as far as they are durable, for whoever has to know who asks without waiting for the
//! room.

use std::ops::Deref;

use handoff_exchange::{Admin, Ask, Change, Exchange, Key, State};
use handoff_types::Machine as _;

use super::mailbox::Shown;

/// A state of entities only.
#[derive(Debug)]
pub(crate) struct Directory(State);

impl Deref for Directory {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Directory {
    /// The entities of a state.
    pub(super) fn of(state: &State) -> Self {
        let mut entities = State::default();
        let keys = state.keys_from(&Key::Counters).take_while(|key| *key < Key::Log(0));
        keys.filter_map(|key| state.aggregate(&key)).for_each(|one| entities.put(one));
        Self(entities)
    }

    /// An entity is other than it was.
    pub(super) fn show(&mut self, Shown { key, now }: Shown) {
        if let Some(now) = now {
            return self.0.put(now);
        }
        let gone = match key {
            Key::Company(no) => Change::CompanyGone(no),
            Key::Subsystem(no) => Change::SubsystemGone(no),
            Key::Database(no) => Change::DatabaseGone(no),
            Key::Device(no) => Change::DeviceGone(no),
            Key::Route(company, subsystem) => Change::RouteGone(company, subsystem),
            Key::Counters | Key::Log(_) | Key::Process(_) | Key::Message(_) => return,
        };
        Exchange::evolve(&mut self.0, &gone);
    }
}

/// The entity that a question is about, as the state knows it. Asked before and after a decision it
/// finds what was made and what was removed.
pub(super) fn touched(state: &State, ask: &Ask) -> Option<Key> {
    match ask {
        Ask::Activate { code, token } => {
            let device = state.device_by_code(code).or_else(|| state.device_by_token(token))?;
            Some(Key::Device(device.no))
        }
        Ask::Admin(admin) => of_admin(state, admin),
        _ => None,
    }
}

fn of_admin(state: &State, admin: &Admin) -> Option<Key> {
    match admin {
        Admin::PutCompany { id, .. } | Admin::RemoveCompany(id) => {
            Some(Key::Company(state.company_by_id(id)?.no))
        }
        Admin::PutSubsystem { id, .. } | Admin::RemoveSubsystem(id) => {
            Some(Key::Subsystem(state.subsystem_by_id(id)?.no))
        }
        Admin::PutDatabase { id, .. }
        | Admin::RemoveDatabase(id)
        | Admin::DatabaseToken { id, .. } => Some(Key::Database(state.database_by_id(id)?.no)),
        Admin::PutDevice { company, id, .. }
        | Admin::RemoveDevice { company, id }
        | Admin::DeviceCode { company, id, .. }
        | Admin::BlockDevice { company, id, .. } => {
            let company = state.company_by_id(company)?.no;
            Some(Key::Device(state.device_by_id(company, id)?.no))
        }
        Admin::PutRoute { company, subsystem, .. } | Admin::RemoveRoute { company, subsystem } => {
            let company = state.company_by_id(company)?.no;
            Some(Key::Route(company, state.subsystem_by_id(subsystem)?.no))
        }
    }
}

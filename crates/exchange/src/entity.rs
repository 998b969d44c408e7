//! Who exchanges messages: companies, their subsystems, databases and devices.

use handoff_types::Wall;

use crate::EntityId;

/// SHA-256 of a secret's text.
pub type Digest = [u8; 32];

/// A company's number. Numbers are never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompanyNo(pub u32);

/// A subsystem's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubsystemNo(pub u32);

/// A database's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseNo(pub u32);

/// A device's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNo(pub u32);

/// A company.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Company {
    /// Its number.
    pub no: CompanyNo,
    /// Unique.
    pub id: EntityId,
    /// For people.
    pub name: Box<str>,
    /// When it was made.
    pub created: Wall,
}

/// A subsystem: one mobile solution, `appSystem` in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Its number.
    pub no: SubsystemNo,
    /// Unique.
    pub id: EntityId,
    /// For people.
    pub name: Box<str>,
    /// When it was made.
    pub created: Wall,
}

/// A database behind an ERP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Its number.
    pub no: DatabaseNo,
    /// `dbId`, unique among all companies; also the name of its folder.
    pub id: EntityId,
    /// Whose it is. For ever.
    pub company: CompanyNo,
    /// For people.
    pub name: Box<str>,
    /// Of the token its ERP shows, once there is one.
    pub token: Option<Digest>,
    /// When it was made.
    pub created: Wall,
}

/// An account of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number.
    pub no: DeviceNo,
    /// Its address, unique in its company.
    pub id: EntityId,
    /// Whose it is. For ever.
    pub company: CompanyNo,
    /// What it is part of.
    pub subsystem: SubsystemNo,
    /// For people.
    pub name: Box<str>,
    /// Of the token it shows, once it was activated.
    pub token: Option<Digest>,
    /// What activates it, until it was used.
    pub code: Option<Code>,
    /// Its token opens nothing. Its messages wait.
    pub blocked: bool,
    /// When it was made.
    pub created: Wall,
}

/// A code that activates a device, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Of its text.
    pub digest: Digest,
    /// By the operator's clock.
    pub expires: Wall,
}

/// Which database the messages of a company's subsystem go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The company.
    pub company: CompanyNo,
    /// The subsystem.
    pub subsystem: SubsystemNo,
    /// A database of the same company.
    pub database: DatabaseNo,
}

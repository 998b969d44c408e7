//! A hunt on the exchange of the real server: devices that send until they are answered, one ERP that
//! reports what its database did and one that knows the protocol's first text only, and connections
//! that break off. Their databases are in this process: what they committed is a fact.
//!
//! * Whatever was acknowledged is in one folder at the end, and was processed once.
//! * Nothing whose effects are in a database is served to it again.
//! * A device sees a reply only of a transaction that committed.
//! * The ERP that reports leaves nothing undecided; what the other leaves is in Unknown and announced.

mod device;
mod erp;
pub mod folders;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use self::device::Device;
use self::erp::Erp;
use crate::clock;
use crate::http::{Answer, Http};
use crate::ledger::Trouble;
use crate::served::{PATIENCE, Served};
use crate::stalk::{Bag, End, Found, Hunts, Session, Stalk};

/// One answer in so many is not waited for.
const CUTS: u64 = 12;

/// A hunt.
#[derive(Debug)]
pub struct Hunt {
    stalk: Stalk,
    office: Office,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Messages a device was told to be stored.
    pub stored: u64,
    /// Messages served to an ERP.
    pub served: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that rolled back.
    pub rolled_back: u64,
    /// Requests whose answer never came.
    pub lost: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Replies that devices used.
    pub replies: u64,
    /// Processes in Unknown at the end.
    pub unknown: u64,
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.served += other.served;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.lost += other.lost;
        self.cancelled += other.cancelled;
        self.replies += other.replies;
        self.unknown += other.unknown;
    }
}

#[derive(Debug)]
struct Office {
    devices: Vec<Device>,
    erps: Vec<Erp>,
    outcomes: Outcomes,
    exchange: PathBuf,
    /// The last server: everything is worked off and looked at.
    closing: bool,
}

/// Somebody asks the server, over a connection that may break off.
#[derive(Debug)]
struct Line<'a> {
    address: SocketAddr,
    http: Option<Http>,
    token: Option<&'a str>,
    /// One answer in so many is not waited for; none if all are.
    cuts: Option<u64>,
    lost: u64,
}

impl Line<'_> {
    fn to(address: SocketAddr) -> Self {
        Self { address, http: None, token: None, cuts: None, lost: 0 }
    }

    /// Asks. An error means that nobody knows what became of it.
    fn ask(
        &mut self,
        dice: &mut Dice,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<Answer> {
        let mut http = match self.http.take() {
            Some(http) => http,
            None => {
                let http = Http::connect(self.address, PATIENCE)?;
                match self.token {
                    Some(token) => http.bearing(token),
                    None => http,
                }
            }
        };
        let answer = http.send(method, path, body).and_then(|()| {
            match self.cuts.is_some_and(|cuts| dice.one_in(cuts)) {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => http.answer(),
            }
        });
        match &answer {
            Ok(_) => self.http = Some(http),
            Err(_) => self.lost += 1,
        }
        answer
    }
}

/// Whether a connection broke off because it was to, and the server may well be there.
fn is_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

impl Hunt {
    /// On a directory of its own.
    #[must_use]
    pub fn new(seed: u64, place: &Path) -> Self {
        let mut stalk = Stalk::new(seed, place);
        let lair = stalk.lair.clone();
        stalk.lair = lair
            .set("HANDOFF_EXCHANGE__STARTED_TIMEOUT_SECS", "1")
            .set("HANDOFF_EXCHANGE__READY_TIMEOUT_SECS", "1")
            .set("HANDOFF_EXCHANGE__RESTART_GRACE_SECS", "1")
            .set("HANDOFF_EXCHANGE__MAX_ATTEMPTS", "0");
        let exchange = stalk.lair.data_dir.join("exchange");
        let erps = vec![Erp::new("books", true), Erp::new("plain", false)];
        let devices = Vec::new();
        let outcomes = Outcomes::default();
        let office = Office { devices, erps, outcomes, exchange, closing: false };
        Self { stalk, office }
    }

    /// What happened so far.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        let mut outcomes = self.office.outcomes;
        outcomes.stored = self.office.devices.iter().map(|one| one.stored.len() as u64).sum();
        outcomes.replies = self.office.devices.iter().map(|one| one.used.len() as u64).sum();
        for erp in &self.office.erps {
            outcomes.served += erp.served;
            outcomes.cancelled += erp.cancelled;
            let ended = |how| erp.transactions.iter().filter(|one| one.committed == how).count();
            outcomes.committed += ended(Some(true)) as u64;
            outcomes.rolled_back += ended(Some(false)) as u64;
        }
        outcomes
    }
}

impl Hunts for Hunt {
    fn bag(&self) -> Bag {
        self.stalk.bag()
    }

    fn life(&mut self) -> Result<(), Box<Found>> {
        if self.office.devices.is_empty() {
            return self.stalk.undisturbed(Duration::from_millis(1), &mut self.office);
        }
        let lair = self.stalk.lair.clone();
        self.stalk.life(&lair, &mut self.office)
    }

    fn finish(&mut self) -> Result<(), Box<Found>> {
        self.office.closing = true;
        self.stalk.undisturbed(Duration::from_millis(200), &mut self.office)
    }
}

impl Session for Office {
    fn session(
        &mut self,
        dice: &mut Dice,
        served: &Served,
        time: Duration,
        doomed: bool,
    ) -> Result<(), End> {
        if self.devices.is_empty() {
            self.set_up(dice, served.http)?;
        }
        let begun = clock();
        let tokens: Vec<String> = self.devices.iter().map(|one| one.token.clone()).collect();
        let mut lines: Vec<Line<'_>> = tokens
            .iter()
            .map(|token| Line { token: Some(token), cuts: Some(CUTS), ..Line::to(served.http) })
            .collect();
        let mut erp_lines: Vec<Line<'_>> =
            self.erps.iter().map(|_| Line { cuts: Some(CUTS), ..Line::to(served.http) }).collect();
        let worked = loop {
            if !doomed && begun.elapsed() >= time {
                break Ok(());
            }
            if let Err(end) = self.act(dice, &mut lines, &mut erp_lines) {
                break Err(end);
            }
        };
        self.outcomes.lost += lines.iter().chain(&erp_lines).map(|line| line.lost).sum::<u64>();
        worked?;
        if self.closing { self.close(dice, served.http) } else { Ok(()) }
    }

    fn gone(&mut self) {}
}

impl Office {
    /// Somebody does something.
    fn act(
        &mut self,
        dice: &mut Dice,
        lines: &mut [Line<'_>],
        erp_lines: &mut [Line<'_>],
    ) -> Result<(), End> {
        let at = usize::try_from(dice.below(self.devices.len() as u64 + 2)).unwrap_or(0);
        let acted = match (self.devices.get_mut(at), lines.get_mut(at)) {
            (Some(device), Some(line)) => device.act(dice, line, &self.erps),
            _ => {
                let at = usize::try_from(dice.below(2)).unwrap_or(0);
                let (Some(erp), Some(line)) = (self.erps.get_mut(at), erp_lines.get_mut(at)) else {
                    return Ok(());
                };
                erp.act(dice, line, true)
            }
        };
        match acted {
            Err(End::Cut(error)) if is_cut(&error) => Ok(()),
            acted => acted,
        }
    }

    /// Makes a company with two databases and two devices for each.
    fn set_up(&mut self, dice: &mut Dice, address: SocketAddr) -> Result<(), End> {
        let mut line = Line::to(address);
        let mut put = |path: &str, body: Value| -> Result<Value, End> {
            let method = if body.get("post").is_some() { "POST" } else { "PUT" };
            let mut body = body;
            body.as_object_mut().map(|fields| fields.remove("post"));
            let answer = line.ask(dice, method, &format!("/v1/exchange/{path}"), Some(&body))?;
            match answer.status {
                200 | 201 => Ok(answer.json()?),
                _ => Err(odd(path, &answer).into()),
            }
        };
        put("companies/acme", json!({"version": 1}))?;
        for erp in &self.erps {
            let database = &erp.database;
            put(&format!("subsystems/{database}"), json!({"version": 1}))?;
            put(&format!("databases/{database}"), json!({"version": 1, "company": "acme"}))?;
            let route = json!({"version": 1, "database": database});
            put(&format!("routes/acme/{database}"), route)?;
            for number in 0..2 {
                let id = format!("{database}-{number}");
                let path = format!("devices/acme/{id}");
                put(&path, json!({"version": 1, "appSystem": database}))?;
                let code = put(&format!("{path}/code"), json!({"version": 1, "post": true}))?;
                let code = text(&code, "code");
                let activate = json!({"version": 1, "code": code, "post": true});
                let token = text(&put("device/activate", activate)?, "token");
                self.devices.push(Device::new(id, database.clone(), token));
            }
        }
        Ok(())
    }

    /// Works off what is left, undisturbed, and looks at everything.
    fn close(&mut self, dice: &mut Dice, address: SocketAddr) -> Result<(), End> {
        let begun = clock();
        let mut line = Line::to(address);
        for device in &mut self.devices {
            let token = device.token.clone();
            let mut line = Line { token: Some(&token), ..Line::to(address) };
            while device.owes() {
                patient(begun)?;
                device.send(dice, &mut line)?;
            }
        }
        for erp in &mut self.erps {
            // What nobody ends expires; what was tried in vain comes again.
            while !erp.is_done(dice, &mut line)? {
                patient(begun)?;
                erp.act(dice, &mut line, false)?;
            }
        }
        for device in &mut self.devices {
            let token = device.token.clone();
            let mut line = Line { token: Some(&token), ..Line::to(address) };
            while device.fetch(dice, &mut line, &self.erps)? {
                patient(begun)?;
            }
        }
        for at in 0..self.erps.len() {
            self.look(at, dice, &mut line)?;
        }
        Ok(())
    }

    /// Compares a database's messages and files with what devices and its ERP remember.
    fn look(&mut self, at: usize, dice: &mut Dice, line: &mut Line<'_>) -> Result<(), End> {
        let Some(erp) = self.erps.get(at) else { return Ok(()) };
        let database = &erp.database;
        let listed = list(dice, line, database)?;
        for device in self.devices.iter().filter(|device| device.database == *database) {
            for id in &device.stored {
                let place = listed.get(id).map(String::as_str);
                let effects = erp.effects.get(id).copied().unwrap_or(0);
                let fits = matches!(
                    (place, effects, erp.reports),
                    (Some("log"), 1, _)
                        | (Some("unknown"), 0 | 1, false)
                        | (Some("error"), 0, _)
                        | (Some("messages"), 0, false)
                );
                if !fits {
                    return Err(Trouble(format!(
                        "{database}: message {id} was stored, its effects are there {effects} \
                         times, and it is in {place:?}"
                    ))
                    .into());
                }
            }
        }
        erp.check_replies(&listed)?;
        let path = format!("/v1/exchange/databases/{database}/indoubt");
        let in_doubt = line.ask(dice, "GET", &path, None)?.json()?;
        let in_doubt = many(&in_doubt, "processes").len() as u64;
        if erp.reports && in_doubt > 0 {
            let words = format!("{database}: {in_doubt} processes are in doubt, all were reported");
            return Err(Trouble(words).into());
        }
        let path = format!("/v1/exchange/databases/{database}/log?what=unknown&limit=1000");
        let told = line.ask(dice, "GET", &path, None)?.json()?;
        let told = many(&told, "entries").len() as u64;
        if told < in_doubt.min(1_000) {
            let words = format!("{database}: {in_doubt} processes in doubt, {told} were announced");
            return Err(Trouble(words).into());
        }
        self.outcomes.unknown += in_doubt;
        folders::compare(&self.exchange.join(database), &listed, PATIENCE)?;
        Ok(())
    }
}

/// Every message of a database and its place, by id.
fn list(
    dice: &mut Dice,
    line: &mut Line<'_>,
    database: &str,
) -> Result<BTreeMap<String, String>, End> {
    let mut listed = BTreeMap::new();
    let mut after = 0;
    loop {
        let path = format!("/v1/exchange/databases/{database}/messages?limit=1000&after={after}");
        let answer = line.ask(dice, "GET", &path, None)?;
        let page = answer.json()?;
        let messages = many(&page, "messages");
        if messages.is_empty() {
            return Ok(listed);
        }
        for message in messages {
            after = message.get("seq").and_then(Value::as_u64).unwrap_or(u64::MAX).max(after);
            let id = text(message, "id");
            if listed.insert(id.clone(), text(message, "place")).is_some() {
                return Err(Trouble(format!("{database}: {id} is there twice")).into());
            }
        }
    }
}

/// A field as text; nothing if it is none.
fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A field as a list; an empty one if it is none.
fn many<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn odd(what: &str, answer: &Answer) -> Trouble {
    let words = String::from_utf8_lossy(&answer.body);
    Trouble(format!("{what} is answered {}: {words}", answer.status))
}

/// Gives up after a while.
fn patient(begun: std::time::Instant) -> Result<(), Trouble> {
    match begun.elapsed() < 2 * PATIENCE {
        true => Ok(()),
        false => Err(Trouble("the work does not come to an end".to_owned())),
    }
}

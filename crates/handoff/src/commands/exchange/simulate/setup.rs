//! Makes what a simulation needs and is not there, and activates its devices.

use std::sync::Arc;

use handoff_sdk::exchange::Exchange;
use handoff_sdk::{Client, Error};
use handoff_types::Code;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::{of_company, of_database, of_device, of_subsystem, route_of};
use super::stopped;
use crate::cli::SimulateArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// The longest id an entity has.
const ID_LENGTH_MAX: usize = 16;

/// A device that may send and read.
pub(super) struct Phone {
    pub(super) number: u32,
    pub(super) id: String,
    pub(super) client: Client,
}

/// Makes what is missing, after saying so. Gives the database.
pub(super) async fn entities(
    room: Exchange<'_>,
    terminal: &Terminal,
    args: &SimulateArgs,
) -> Result<String, Failure> {
    let SimulateArgs { company, subsystem, .. } = args;
    let has_company = is_there(room.company(company).await)?;
    let has_subsystem = is_there(room.subsystem(subsystem).await)?;
    let route =
        if has_company && has_subsystem { route_of(room, company, subsystem).await? } else { None };
    let database = database(args, route.as_deref())?;
    let has_database = is_there(room.database(&database).await)?;
    let mut missing = Vec::new();
    for (has, what, id) in [
        (has_company, "company", company),
        (has_subsystem, "subsystem", subsystem),
        (has_database, "database", &database),
    ] {
        if !has {
            missing.push(format!("{what} {id}"));
        }
    }
    if route.is_none() {
        missing.push(format!("the route of {company} {subsystem} to {database}"));
    }
    if missing.is_empty() {
        return Ok(database);
    }
    terminal.talk(&format!("not there yet, and made now: {}", missing.join(", ")));
    if !has_company {
        room.put_company(company, Some("simulated")).await.map_err(of_company)?;
    }
    if !has_subsystem {
        room.put_subsystem(subsystem, Some("simulated")).await.map_err(of_subsystem)?;
    }
    if !has_database {
        let put = room.put_database(&database, company, Some("simulated")).await;
        put.map_err(of_database)?;
    }
    if route.is_none() {
        let put = room.put_route(company, subsystem, &database).await;
        put.map_err(of_database)?;
    }
    Ok(database)
}

/// Where messages go. A route that is there is somebody's, and is not changed.
fn database(args: &SimulateArgs, route: Option<&str>) -> Result<String, Failure> {
    let SimulateArgs { company, subsystem, database, .. } = args;
    match (database, route) {
        (Some(wanted), Some(there)) if wanted != there => {
            let what = format!(
                "what subsystem {subsystem} of company {company} sends goes to database {there}, \
                 not to {wanted}"
            );
            let remedy = format!(
                "leave out --database, or change the route first: handoff exchange route put \
                 {company} {subsystem} {wanted}"
            );
            Err(Failure::new(Exit::Refused, what).remedy(remedy))
        }
        (_, Some(there)) => Ok(there.to_owned()),
        (Some(wanted), None) => Ok(wanted.clone()),
        (None, None) => {
            let kept = ID_LENGTH_MAX - "-sim".len();
            Ok(format!("{}-sim", company.chars().take(kept).collect::<String>()))
        }
    }
}

/// Whether something is there. Only that it is not is no failure.
fn is_there<T>(answer: Result<T, Error>) -> Result<bool, Failure> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(Code::ExchangeNotFound.text()) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes the devices that are missing, and activates all of them, some at a time.
pub(super) async fn phones(
    client: &Client,
    terminal: &Terminal,
    args: &SimulateArgs,
    permits: &Arc<Semaphore>,
) -> Result<Vec<Phone>, Failure> {
    terminal.talk(&format!("activating {}", counted(to_usize(args.devices), "device")));
    let mut tasks = JoinSet::new();
    let mut phones = Vec::new();
    // A code counts as wrong until it was found right, and few wrong ones are taken from here.
    let door = Arc::new(Semaphore::new(1));
    for number in 0..args.devices {
        let permit = Arc::clone(permits).acquire_owned().await.map_err(|_| stopped())?;
        let (client, company, subsystem) =
            (client.clone(), args.company.clone(), args.subsystem.clone());
        let (terminal, door) = (*terminal, Arc::clone(&door));
        tasks.spawn(async move {
            let phone = phone(&client, &terminal, &door, &company, &subsystem, number).await;
            drop(permit);
            phone
        });
        while let Some(done) = tasks.try_join_next() {
            phones.push(done.map_err(|_| stopped())??);
        }
    }
    while let Some(done) = tasks.join_next().await {
        phones.push(done.map_err(|_| stopped())??);
    }
    Ok(phones)
}

async fn phone(
    client: &Client,
    terminal: &Terminal,
    door: &Semaphore,
    company: &str,
    subsystem: &str,
    number: u32,
) -> Result<Phone, Failure> {
    let room = client.exchange();
    let id = format!("sim-{number}");
    if !is_there(room.device(company, &id).await)? {
        let put = room.put_device(company, &id, subsystem, Some("simulated")).await;
        put.map_err(of_device)?;
    }
    let code = room.device_code(company, &id).await.map_err(of_device)?;
    let turn = door.acquire().await.map_err(|_| stopped())?;
    let active = loop {
        match room.activate(&code.code).await {
            Ok(active) => break active,
            Err(error) => match error.problem().and_then(|problem| problem.retry_after) {
                Some(time) if error.code() == Some(Code::TooManyTries.text()) => {
                    terminal.talk(&format!("{error}; waiting {} s", time.as_secs()));
                    sleep(time).await;
                }
                _ => return Err(Failure::of_change(error)),
            },
        }
    };
    drop(turn);
    if active.app_system != subsystem {
        let what = format!(
            "device {id} of company {company} belongs to subsystem {}, not to {subsystem}",
            active.app_system
        );
        let remedy = format!(
            "name that subsystem, or move it: handoff exchange device put {company} {id} \
             --subsystem {subsystem}"
        );
        return Err(Failure::new(Exit::Refused, what).remedy(remedy));
    }
    Ok(Phone { number, id, client: client.with_token(&active.token)? })
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::database;
    use crate::cli::{Cli, ExchangeVerb, Noun, SimulateArgs};
    use clap::Parser;

    fn args(more: &[&str]) -> SimulateArgs {
        let base = ["handoff", "exchange", "simulate", "--company", "acme-international"];
        let base = base.iter().chain(&["--subsystem", "sales"]).chain(more);
        match Cli::parse_from(base).noun {
            Noun::Exchange(ExchangeVerb::Simulate(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_route_that_is_there_is_not_changed() {
        assert_eq!(database(&args(&[]), Some("books")).unwrap(), "books");
        assert_eq!(database(&args(&["--database", "books"]), Some("books")).unwrap(), "books");
        let failure = database(&args(&["--database", "other"]), Some("books")).unwrap_err();
        assert!(failure.to_string().contains("route put acme-international sales other"));
    }

    #[test]
    fn a_database_that_nobody_names_has_an_id_that_can_be() {
        assert_eq!(database(&args(&["--database", "books"]), None).unwrap(), "books");
        assert_eq!(database(&args(&[]), None).unwrap(), "acme-interna-sim");
    }
}

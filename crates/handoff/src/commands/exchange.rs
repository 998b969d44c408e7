//! `handoff exchange`

mod databases;
mod devices;
mod entities;
mod messages;
mod processes;
mod simulate;

use handoff_sdk::exchange::{Exchange, Page};
use handoff_sdk::{Client, Error};
use handoff_types::Code;
use serde_json::json;

use super::Context;
use crate::cli::ExchangeVerb;
use crate::exit::Failure;
use crate::terminal::Terminal;

/// How many are asked for at once.
const PAGE: u32 = 500;

/// Does what the verb says.
pub(super) async fn run(context: Context<'_>, verb: ExchangeVerb) -> Result<(), Failure> {
    let terminal = context.terminal;
    if let ExchangeVerb::Simulate(args) = verb {
        return simulate::run(context, args).await;
    }
    let client = context.surroundings.client(context.global)?;
    let room = client.exchange();
    match verb {
        ExchangeVerb::Company(verb) => entities::company(room, terminal, verb).await,
        ExchangeVerb::Subsystem(verb) => entities::subsystem(room, terminal, verb).await,
        ExchangeVerb::Route(verb) => entities::route(room, terminal, verb).await,
        ExchangeVerb::Database(verb) => databases::run(room, terminal, verb).await,
        ExchangeVerb::Device(verb) => devices::run(room, terminal, verb).await,
        other => look(&client, terminal, other).await,
    }
}

/// What is asked about one database.
async fn look(client: &Client, terminal: &Terminal, verb: ExchangeVerb) -> Result<(), Failure> {
    let room = client.exchange();
    match verb {
        ExchangeVerb::Messages { database, place, device, limit } => {
            messages::list(room, terminal, &database, place, device, limit).await
        }
        ExchangeVerb::Show { database, seq, body } => {
            messages::show(room, terminal, &database, seq, body).await
        }
        ExchangeVerb::Requeue { database, messages } => {
            messages::requeue(room, terminal, &database, &messages).await
        }
        ExchangeVerb::Rescan { database } => messages::rescan(room, terminal, &database).await,
        ExchangeVerb::Foreign { database } => messages::foreign(room, terminal, &database).await,
        ExchangeVerb::Log { database, what, limit } => {
            messages::log(room, terminal, &database, &what, limit).await
        }
        ExchangeVerb::Stats => messages::stats(room, terminal).await,
        ExchangeVerb::Processes { database, limit } => {
            processes::list(room, terminal, &database, limit).await
        }
        ExchangeVerb::Process { database, process } => {
            processes::show(room, terminal, &database, &process).await
        }
        ExchangeVerb::Indoubt { database } => processes::in_doubt(room, terminal, &database).await,
        ExchangeVerb::Resolve { database, process, committed, .. } => {
            processes::resolve(room, terminal, &database, &process, committed).await
        }
        ExchangeVerb::Company(_)
        | ExchangeVerb::Subsystem(_)
        | ExchangeVerb::Route(_)
        | ExchangeVerb::Database(_)
        | ExchangeVerb::Device(_)
        | ExchangeVerb::Simulate(_) => Ok(()),
    }
}

/// Asks for page after page, and gives one after the other.
async fn all<T>(
    limit: Option<u64>,
    mut ask: impl AsyncFnMut(Option<&str>, u32) -> Result<Page<T>, Error>,
    mut each: impl FnMut(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut place: Option<String> = None;
    loop {
        let most = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = ask(place.as_deref(), most).await.map_err(of_database)?;
        for item in page.items {
            each(item)?;
            left = left.saturating_sub(1);
        }
        match page.next {
            Some(next) if left > 0 => place = Some(next),
            _ => return Ok(()),
        }
    }
}

/// Says what was removed.
fn removed(terminal: &Terminal, what: &str, id: &str) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(&json!({ "removed": id }));
    }
    terminal.talk(&format!("{what} {id} is removed"));
    Ok(())
}

/// What to do when something is not there depends on what it is.
fn absent(error: Error, remedy: &str) -> Failure {
    let is_absent = error.code() == Some(Code::ExchangeNotFound.text());
    let failure = Failure::of_change(error);
    if is_absent { failure.remedy(remedy) } else { failure }
}

fn of_company(error: Error) -> Failure {
    absent(error, "`handoff exchange company list` shows those there are, `company put` makes one")
}

fn of_subsystem(error: Error) -> Failure {
    absent(
        error,
        "`handoff exchange subsystem list` shows those there are, `subsystem put` makes one",
    )
}

fn of_database(error: Error) -> Failure {
    absent(
        error,
        "`handoff exchange database list` shows the databases there are, `database put` makes one",
    )
}

fn of_device(error: Error) -> Failure {
    absent(error, "`handoff exchange device list` shows those there are, `device put` makes one")
}

/// Where the messages of a subsystem go; none if there is no route.
///
/// # Errors
/// Those of the request.
async fn route_of(
    room: Exchange<'_>,
    company: &str,
    subsystem: &str,
) -> Result<Option<String>, Failure> {
    match room.route(company, subsystem).await {
        Ok(route) => Ok(Some(route.database)),
        Err(error) if error.code() == Some(Code::ExchangeNotFound.text()) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Text, or a dash where there is none.
fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{absent, or_dash};
    use crate::exit::Exit;
    use handoff_sdk::{Error, Problem};

    fn refused(code: &str, status: u16) -> Error {
        let mut problem = Problem::default();
        problem.status = status;
        problem.code = Some(code.to_owned());
        problem.remedy = Some("as the server says".to_owned());
        Error::Problem(Box::new(problem))
    }

    #[test]
    fn what_is_not_there_says_which_command_lists_what_is() {
        let failure = absent(refused("exchange.not_found", 404), "look here");
        assert_eq!((failure.exit, failure.remedy.as_deref()), (Exit::NotFound, Some("look here")));
        let failure = absent(refused("exchange.in_use", 409), "look here");
        let remedy = failure.remedy.as_deref();
        assert_eq!((failure.exit, remedy), (Exit::Refused, Some("as the server says")));
    }

    #[test]
    fn nothing_is_shown_as_a_dash() {
        assert_eq!((or_dash(None::<u64>), or_dash(Some(7))), ("-".to_owned(), "7".to_owned()));
    }
}

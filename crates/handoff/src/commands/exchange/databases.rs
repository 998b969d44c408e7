//! `handoff exchange database`

use handoff_sdk::exchange::{Database, Exchange};
use serde_json::json;

use super::{absent, all, of_database, or_dash, removed, yes};
use crate::cli::DatabaseVerb;
use crate::config::bytes;
use crate::exit::Failure;
use crate::terminal::Terminal;

pub(super) async fn run(
    room: Exchange<'_>,
    terminal: &Terminal,
    verb: DatabaseVerb,
) -> Result<(), Failure> {
    match verb {
        DatabaseVerb::List { company, limit } => list(room, terminal, company, limit).await,
        DatabaseVerb::Show { id } => {
            let database = room.database(&id).await.map_err(of_database)?;
            if terminal.json {
                return terminal.print_json(&database);
            }
            terminal.record(&rows(&database))
        }
        DatabaseVerb::Put { id, company, name } => {
            let name = match name {
                Some(name) => Some(name),
                None => room.database(&id).await.ok().map(|there| there.name),
            };
            let put = room.put_database(&id, &company, name.as_deref()).await;
            let database = put.map_err(|error| {
                absent(error, &format!("`handoff exchange company put {company}` makes it"))
            })?;
            if terminal.json {
                return terminal.print_json(&database);
            }
            terminal.talk(&format!("database {id} of company {company} is there"));
            if !database.has_token {
                terminal.talk(&format!(
                    "next, a token for its ERP: handoff exchange database token {id}"
                ));
            }
            Ok(())
        }
        DatabaseVerb::Remove { id } => {
            let database = room.database(&id).await.map_err(of_database)?;
            terminal.confirm(&format!(
                "database {id} of company {} will be removed, with its token and folders",
                database.company
            ))?;
            room.remove_database(&id).await.map_err(of_database)?;
            removed(terminal, "database", &id)
        }
        DatabaseVerb::Token { id } => token(room, terminal, &id).await,
    }
}

async fn list(
    room: Exchange<'_>,
    terminal: &Terminal,
    company: Option<String>,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let mut list = terminal.list(&["id", "company", "token", "name", "created"]);
    let ask = async |after: Option<&str>, most| {
        room.databases(company.as_deref(), after, Some(most)).await
    };
    all(limit, ask, |database: Database| {
        let cells = [
            database.id.clone(),
            database.company.clone(),
            yes(database.has_token),
            database.name.clone(),
            or_dash(database.created_at.as_ref()),
        ];
        list.row(&cells, &database)
    })
    .await?;
    if list.finish()? == 0 {
        let make = "`handoff exchange database put ID --company COMPANY` makes one";
        terminal.talk(&format!("there are no databases; {make}"));
    }
    Ok(())
}

async fn token(room: Exchange<'_>, terminal: &Terminal, id: &str) -> Result<(), Failure> {
    if room.database(id).await.map_err(of_database)?.has_token {
        terminal.confirm(&format!(
            "database {id} has a token; it will open nothing any more, and whoever shows it is \
             refused"
        ))?;
    }
    let token = room.database_token(id).await.map_err(of_database)?;
    if terminal.json {
        return terminal.print_json(&json!({ "database": id, "token": token }));
    }
    terminal.print(&token)?;
    terminal.talk(&format!(
        "the ERP of database {id} shows it as `Authorization: Bearer`; keep it, it is not shown \
         again"
    ));
    Ok(())
}

fn rows(database: &Database) -> Vec<(&'static str, String)> {
    let waiting = database.waiting.unwrap_or_default();
    let places = database.places.unwrap_or_default();
    let mut rows = vec![
        ("id", database.id.clone()),
        ("company", database.company.clone()),
        ("name", database.name.clone()),
        ("created", or_dash(database.created_at.as_ref())),
        ("token", yes(database.has_token)),
        ("waiting for the ERP", waiting.to_erp.to_string()),
        ("waiting for devices", waiting.to_devices.to_string()),
        ("prepared", places.prepared.to_string()),
        ("log", places.log.to_string()),
        ("unknown", places.unknown.to_string()),
        ("error", places.error.to_string()),
        ("bytes", database.bytes.map_or_else(|| "-".to_owned(), bytes::about)),
    ];
    let busy = match &database.process {
        Some(process) => {
            let until = or_dash(process.deadline.as_ref());
            format!("{} {} until {until}", process.process_id, process.state)
        }
        None => "-".to_owned(),
    };
    rows.push(("process", busy));
    if let Some(open) = database.unknown_processes.filter(|open| *open > 0) {
        let find = format!("handoff exchange indoubt {}", database.id);
        rows.push(("in doubt", format!("{open}: {find}")));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::rows;
    use serde_json::json;

    #[test]
    fn a_database_shows_what_waits_and_what_keeps_it_busy() {
        let database = json!({"id": "books", "company": "acme", "hasToken": true,
            "waiting": {"toErp": 3, "toDevices": 2}, "places": {"prepared": 1, "error": 4},
            "bytes": 2048, "process": {"processId": "1-a", "number": 1, "dbId": "books",
                "state": "STARTED", "startedAt": "2027-01-15T08:00:00Z",
                "deadline": "2027-01-15T08:10:00Z"}});
        let rows = rows(&serde_json::from_value(database).unwrap());
        for row in [
            ("waiting for the ERP", "3"),
            ("waiting for devices", "2"),
            ("error", "4"),
            ("log", "0"),
            ("bytes", "2.0 KiB"),
            ("process", "1-a STARTED until 2027-01-15T08:10:00Z"),
        ] {
            assert!(rows.iter().any(|(name, value)| (*name, value.as_str()) == row), "{rows:?}");
        }
    }
}

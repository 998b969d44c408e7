//! `handoff exchange company`, `subsystem` and `route`

use handoff_sdk::exchange::{Company, Exchange, Route, Subsystem};

use super::{absent, all, of_company, of_subsystem, or_dash, removed};
use crate::cli::{CompanyVerb, RouteVerb, SubsystemVerb};
use crate::exit::Failure;
use crate::terminal::Terminal;

pub(super) async fn company(
    room: Exchange<'_>,
    terminal: &Terminal,
    verb: CompanyVerb,
) -> Result<(), Failure> {
    match verb {
        CompanyVerb::List { limit } => {
            let mut list = terminal.list(&["id", "name", "created"]);
            let ask = async |after: Option<&str>, most| room.companies(after, Some(most)).await;
            all(limit, ask, |company: Company| {
                let created = or_dash(company.created_at.as_ref());
                list.row(&[company.id.clone(), company.name.clone(), created], &company)
            })
            .await?;
            if list.finish()? == 0 {
                terminal
                    .talk("there are no companies; `handoff exchange company put ID` makes one");
            }
            Ok(())
        }
        CompanyVerb::Show { id } => {
            let company = room.company(&id).await.map_err(of_company)?;
            if terminal.json {
                return terminal.print_json(&company);
            }
            let created = or_dash(company.created_at);
            terminal.record(&[("id", company.id), ("name", company.name), ("created", created)])
        }
        CompanyVerb::Put { id, name } => {
            let name = match name {
                Some(name) => Some(name),
                None => room.company(&id).await.ok().map(|there| there.name),
            };
            let company = room.put_company(&id, name.as_deref()).await?;
            if terminal.json {
                return terminal.print_json(&company);
            }
            terminal.talk(&format!("company {id} is there"));
            terminal.talk(&format!(
                "next, a database for it: handoff exchange database put ID --company {id}"
            ));
            Ok(())
        }
        CompanyVerb::Remove { id } => {
            room.company(&id).await.map_err(of_company)?;
            terminal.confirm(&format!("company {id} will be removed"))?;
            room.remove_company(&id).await.map_err(of_company)?;
            removed(terminal, "company", &id)
        }
    }
}

pub(super) async fn subsystem(
    room: Exchange<'_>,
    terminal: &Terminal,
    verb: SubsystemVerb,
) -> Result<(), Failure> {
    match verb {
        SubsystemVerb::List { limit } => {
            let mut list = terminal.list(&["id", "name", "created"]);
            let ask = async |after: Option<&str>, most| room.subsystems(after, Some(most)).await;
            all(limit, ask, |subsystem: Subsystem| {
                let created = or_dash(subsystem.created_at.as_ref());
                list.row(&[subsystem.id.clone(), subsystem.name.clone(), created], &subsystem)
            })
            .await?;
            if list.finish()? == 0 {
                terminal
                    .talk("there are no subsystems; `handoff exchange subsystem put ID` makes one");
            }
            Ok(())
        }
        SubsystemVerb::Show { id } => {
            let subsystem = room.subsystem(&id).await.map_err(of_subsystem)?;
            if terminal.json {
                return terminal.print_json(&subsystem);
            }
            let created = or_dash(subsystem.created_at);
            terminal.record(&[("id", subsystem.id), ("name", subsystem.name), ("created", created)])
        }
        SubsystemVerb::Put { id, name } => {
            let name = match name {
                Some(name) => Some(name),
                None => room.subsystem(&id).await.ok().map(|there| there.name),
            };
            let subsystem = room.put_subsystem(&id, name.as_deref()).await?;
            if terminal.json {
                return terminal.print_json(&subsystem);
            }
            terminal.talk(&format!("subsystem {id} is there"));
            terminal.talk(&format!(
                "next, where it sends to: handoff exchange route put COMPANY {id} DATABASE"
            ));
            Ok(())
        }
        SubsystemVerb::Remove { id } => {
            room.subsystem(&id).await.map_err(of_subsystem)?;
            terminal.confirm(&format!("subsystem {id} will be removed"))?;
            room.remove_subsystem(&id).await.map_err(of_subsystem)?;
            removed(terminal, "subsystem", &id)
        }
    }
}

pub(super) async fn route(
    room: Exchange<'_>,
    terminal: &Terminal,
    verb: RouteVerb,
) -> Result<(), Failure> {
    match verb {
        RouteVerb::List { company, limit } => {
            let mut list = terminal.list(&["company", "subsystem", "database"]);
            let ask = async |after: Option<&str>, most| {
                room.routes(company.as_deref(), after, Some(most)).await
            };
            all(limit, ask, |route: Route| {
                let cells =
                    [route.company.clone(), route.app_system.clone(), route.database.clone()];
                list.row(&cells, &route)
            })
            .await?;
            if list.finish()? == 0 {
                let make = "`handoff exchange route put COMPANY SUBSYSTEM DATABASE` makes one";
                terminal.talk(&format!("there are no routes; {make}"));
            }
            Ok(())
        }
        RouteVerb::Show { company, subsystem } => {
            let shown = room.route(&company, &subsystem).await;
            let route = shown.map_err(|error| {
                let set = format!("handoff exchange route put {company} {subsystem} DATABASE");
                absent(error, &format!("`{set}` sets it"))
            })?;
            if terminal.json {
                return terminal.print_json(&route);
            }
            let Route { company, app_system, database, .. } = route;
            terminal.record(&[
                ("company", company),
                ("subsystem", app_system),
                ("database", database),
            ])
        }
        RouteVerb::Put { company, subsystem, database } => {
            let put = room.put_route(&company, &subsystem, &database).await;
            let route = put.map_err(|error| {
                let lists = "`handoff exchange company list`, `subsystem list` and `database list` \
                             show what there is";
                absent(error, lists)
            })?;
            if terminal.json {
                return terminal.print_json(&route);
            }
            terminal.talk(&format!(
                "what subsystem {subsystem} of company {company} sends goes to database {database}"
            ));
            Ok(())
        }
        RouteVerb::Remove { company, subsystem } => {
            let lists = "`handoff exchange route list` shows those there are";
            let route = room.route(&company, &subsystem).await;
            let database = route.map_err(|error| absent(error, lists))?.database;
            terminal.confirm(&format!(
                "devices of subsystem {subsystem} of company {company} will not be able to send to \
                 database {database} any more"
            ))?;
            let gone = room.remove_route(&company, &subsystem).await;
            gone.map_err(|error| absent(error, lists))?;
            removed(terminal, "route", &format!("{company} {subsystem}"))
        }
    }
}

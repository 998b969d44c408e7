//! `handoff exchange device`

use handoff_sdk::exchange::{Device, Exchange};

use super::{absent, all, of_device, or_dash, removed, route_of, yes};
use crate::cli::DeviceVerb;
use crate::exit::Failure;
use crate::terminal::Terminal;

pub(super) async fn run(
    room: Exchange<'_>,
    terminal: &Terminal,
    verb: DeviceVerb,
) -> Result<(), Failure> {
    match verb {
        DeviceVerb::List { company, limit } => list(room, terminal, company, limit).await,
        DeviceVerb::Show { company, device } => {
            let device = room.device(&company, &device).await.map_err(of_device)?;
            if terminal.json {
                return terminal.print_json(&device);
            }
            let database = route_of(room, &company, &device.app_system).await?;
            terminal.record(&rows(&device, database.as_deref()))?;
            warn_of_route(terminal, &device, database.as_deref());
            Ok(())
        }
        DeviceVerb::Put { company, device, subsystem, name } => {
            let name = match name {
                Some(name) => Some(name),
                None => room.device(&company, &device).await.ok().map(|there| there.name),
            };
            let put = room.put_device(&company, &device, &subsystem, name.as_deref()).await;
            let device = put.map_err(|error| {
                let make = format!(
                    "`handoff exchange company put {company}` and `handoff exchange subsystem put \
                     {subsystem}` make what is missing"
                );
                absent(error, &make)
            })?;
            if terminal.json {
                return terminal.print_json(&device);
            }
            let id = &device.id;
            terminal.talk(&format!(
                "device {id} of company {company} is there, in subsystem {subsystem}"
            ));
            if !device.active {
                terminal.talk(&format!(
                    "next, a code that activates it: handoff exchange device code {company} {id}"
                ));
            }
            let database = route_of(room, &company, &subsystem).await?;
            warn_of_route(terminal, &device, database.as_deref());
            Ok(())
        }
        DeviceVerb::Remove { company, device } => {
            room.device(&company, &device).await.map_err(of_device)?;
            terminal.confirm(&format!("device {device} of company {company} will be removed"))?;
            room.remove_device(&company, &device).await.map_err(of_device)?;
            removed(terminal, "device", &format!("{company} {device}"))
        }
        DeviceVerb::Code { company, device } => {
            let code = room.device_code(&company, &device).await.map_err(of_device)?;
            if terminal.json {
                return terminal.print_json(&code);
            }
            terminal.print(&code.code)?;
            terminal.talk(&format!(
                "device {device} shows it once, until {}: POST /v1/exchange/device/activate \
                 {{\"version\":1,\"code\":\"…\"}} answers its token",
                code.expires_at
            ));
            Ok(())
        }
        DeviceVerb::Block { company, device } => {
            let device = room.block_device(&company, &device).await.map_err(of_device)?;
            told(terminal, &device, "is locked out; its messages wait")
        }
        DeviceVerb::Unblock { company, device } => {
            let device = room.unblock_device(&company, &device).await.map_err(of_device)?;
            told(terminal, &device, "may send and read")
        }
        DeviceVerb::Log { company, device } => log(room, terminal, &company, &device).await,
    }
}

async fn list(
    room: Exchange<'_>,
    terminal: &Terminal,
    company: Option<String>,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let mut list = terminal.list(&["company", "id", "subsystem", "state", "name", "created"]);
    let ask =
        async |after: Option<&str>, most| room.devices(company.as_deref(), after, Some(most)).await;
    all(limit, ask, |device: Device| {
        let cells = [
            device.company.clone(),
            device.id.clone(),
            device.app_system.clone(),
            state(&device).to_owned(),
            device.name.clone(),
            or_dash(device.created_at.as_ref()),
        ];
        list.row(&cells, &device)
    })
    .await?;
    if list.finish()? == 0 {
        let make = "`handoff exchange device put COMPANY ID --subsystem SUBSYSTEM` makes one";
        terminal.talk(&format!("there are no devices; {make}"));
    }
    Ok(())
}

async fn log(
    room: Exchange<'_>,
    terminal: &Terminal,
    company: &str,
    device: &str,
) -> Result<(), Failure> {
    let mut list = terminal.list(&["at", "received", "text"]);
    for entry in room.device_log(company, device).await.map_err(of_device)? {
        let cells = [entry.at.to_string(), or_dash(entry.received_at.as_ref()), entry.text.clone()];
        list.row(&cells, &entry)?;
    }
    if list.finish()? == 0 {
        terminal.talk(&format!("device {device} has said nothing since the server started"));
    }
    Ok(())
}

/// What a device can do, in a word.
fn state(device: &Device) -> &'static str {
    match (device.blocked, device.active, device.code_expires_at.is_some()) {
        (true, _, _) => "blocked",
        (false, true, _) => "active",
        (false, false, true) => "has a code",
        (false, false, false) => "new",
    }
}

fn rows(device: &Device, database: Option<&str>) -> Vec<(&'static str, String)> {
    vec![
        ("company", device.company.clone()),
        ("id", device.id.clone()),
        ("name", device.name.clone()),
        ("subsystem", device.app_system.clone()),
        ("sends to", or_dash(database)),
        ("created", or_dash(device.created_at.as_ref())),
        ("active", yes(device.active)),
        ("blocked", yes(device.blocked)),
        ("code until", or_dash(device.code_expires_at.as_ref())),
        ("waiting for it", or_dash(device.waiting)),
        ("messages", or_dash(device.messages)),
    ]
}

/// A device without a route cannot send; better now than when it is in the field.
fn warn_of_route(terminal: &Terminal, device: &Device, database: Option<&str>) {
    if database.is_none() {
        let (company, subsystem) = (&device.company, &device.app_system);
        terminal.warn(&format!(
            "what subsystem {subsystem} of company {company} sends goes nowhere yet; set it: \
             handoff exchange route put {company} {subsystem} DATABASE"
        ));
    }
}

fn told(terminal: &Terminal, device: &Device, what: &str) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(device);
    }
    terminal.talk(&format!("device {} of company {} {what}", device.id, device.company));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{rows, state};
    use handoff_sdk::exchange::Device;
    use serde_json::json;

    fn device(more: &serde_json::Value) -> Device {
        let mut device = json!({"company": "acme", "id": "phone-1", "appSystem": "sales"});
        device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(device).unwrap()
    }

    #[test]
    fn a_device_is_in_one_state() {
        let check = |more, expected| assert_eq!(state(&device(&more)), expected, "{more}");
        check(json!({}), "new");
        check(json!({"codeExpiresAt": "2027-01-15T08:00:00Z"}), "has a code");
        check(json!({"active": true, "codeExpiresAt": "2027-01-15T08:00:00Z"}), "active");
        check(json!({"active": true, "blocked": true}), "blocked");
    }

    #[test]
    fn a_device_without_a_route_sends_nowhere() {
        let rows = rows(&device(&json!({"waiting": 3})), None);
        assert!(rows.contains(&("sends to", "-".to_owned())), "{rows:?}");
        assert!(rows.contains(&("waiting for it", "3".to_owned())), "{rows:?}");
    }
}

//! `handoff token`: over HTTP, or in the data directory of a stopped server.

use std::path::Path;
use std::time::SystemTime;

use handoff_sdk::tokens::NewToken;
use handoff_server::auth::mint;
use handoff_server::auth::offline::{OfflineError, apply_offline, tokens_offline};
use handoff_server::house::{Command, Refusal, Reply, TokenId};
use handoff_types::{Code, Limits, Scope, Wall};
use jiff::Timestamp;
use serde_json::json;

use super::{Context, wait};
use crate::cli::TokenVerb;
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use crate::{clock, config, duration};

/// Who acts, for the audit, when no token says it.
pub(super) const LOCAL: &str = "local";

/// Does what the verb says.
pub(super) fn run(context: Context<'_>, verb: TokenVerb) -> Result<(), Failure> {
    let terminal = context.terminal;
    match verb {
        TokenVerb::Create { name, scopes, expires, data_dir } => {
            let scopes = read_scopes(&scopes)?;
            let expires =
                expires.as_deref().map(|text| read_end(text, clock::wall())).transpose()?;
            let made = match data_dir {
                Some(dir) => create_offline(context, &dir, &name, scopes, expires)?,
                None => wait(create(context, &name, scopes, expires))?,
            };
            show_made(terminal, &made)
        }
        TokenVerb::List { data_dir: Some(dir) } => {
            let tokens = tokens_offline(&dir, &limits(context)).map_err(offline)?;
            let rows = tokens.into_iter().map(|token| Row {
                id: token.token.id.to_string(),
                name: token.token.name.clone(),
                scopes: token.token.scopes.iter().map(ToString::to_string).collect(),
                created_at: Some(stamp(token.created)),
                expires_at: token.token.expires.map(stamp),
            });
            show_list(terminal, rows)
        }
        TokenVerb::List { data_dir: None } => {
            let tokens = wait(async {
                let client = context.surroundings.client(context.global)?;
                Ok(client.tokens().list().await?)
            })?;
            let rows = tokens.into_iter().map(|token| Row {
                id: token.id.clone(),
                name: token.name.clone(),
                scopes: token.scopes.clone(),
                created_at: token.created_at.map(|time| time.to_string()),
                expires_at: token.expires_at.map(|time| time.to_string()),
            });
            show_list(terminal, rows)
        }
        TokenVerb::Revoke { id, data_dir } => {
            match data_dir {
                Some(dir) => {
                    // Whoever takes something away does not want a directory made.
                    if !dir.join("VERSION").exists() {
                        let what = format!("there is no data directory {}", dir.display());
                        return Err(Failure::new(Exit::Failed, what).remedy("check --data-dir"));
                    }
                    let id = TokenId(id.as_str().into());
                    let command = Command::Revoke { id, who: LOCAL.to_owned() };
                    one(apply_offline(&dir, &limits(context), vec![command]).map_err(offline)?)?;
                }
                None => wait(async {
                    let client = context.surroundings.client(context.global)?;
                    Ok(client.tokens().revoke(&id).await?)
                })?,
            }
            if terminal.json {
                return terminal.print_json(&json!({ "revoked": id }));
            }
            terminal.talk(&format!("token {id} opens nothing any more"));
            Ok(())
        }
    }
}

/// A token just made, wherever.
struct Made {
    id: String,
    text: String,
    name: String,
    scopes: Vec<String>,
    expires_at: Option<String>,
}

async fn create(
    context: Context<'_>,
    name: &str,
    scopes: Vec<Scope>,
    expires: Option<Timestamp>,
) -> Result<Made, Failure> {
    let client = context.surroundings.client(context.global)?;
    let mut token = NewToken::new(name, scopes.iter().map(ToString::to_string));
    if let Some(end) = expires {
        token = token.expires_at(handoff_sdk::Time::new(end.to_string()));
    }
    let made = client.tokens().create(&token).await.map_err(Failure::of_change)?;
    Ok(Made {
        id: made.id,
        text: made.token,
        name: made.name,
        scopes: made.scopes,
        expires_at: made.expires_at.map(|time| time.to_string()),
    })
}

fn create_offline(
    context: Context<'_>,
    dir: &Path,
    name: &str,
    scopes: Vec<Scope>,
    expires: Option<Timestamp>,
) -> Result<Made, Failure> {
    let shown = scopes.iter().map(ToString::to_string).collect();
    let end = expires.map(|end| Wall(end.as_microsecond()));
    let (text, token) = mint(name, scopes, end)
        .map_err(|error| Failure::new(Exit::Failed, format!("no token can be drawn: {error}")))?;
    let id = token.id.to_string();
    let command = Command::Create { token: Box::new(token), who: LOCAL.to_owned() };
    one(apply_offline(dir, &limits(context), vec![command]).map_err(offline)?)?;
    let expires_at = expires.map(|end| end.to_string());
    Ok(Made { id, text, name: name.to_owned(), scopes: shown, expires_at })
}

fn show_made(terminal: &Terminal, made: &Made) -> Result<(), Failure> {
    let Made { id, text, name, scopes, expires_at } = made;
    if terminal.json {
        return terminal.print_json(&json!({
            "id": id, "token": text, "name": name, "scopes": scopes, "expiresAt": expires_at,
        }));
    }
    terminal.print(text)?;
    terminal.talk(&format!(
        "token {id} ({name}) allows {}; keep its text, it is not shown again",
        scopes.join(" ")
    ));
    Ok(())
}

/// A token as it is listed.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    name: String,
    scopes: Vec<String>,
    created_at: Option<String>,
    expires_at: Option<String>,
}

fn show_list(terminal: &Terminal, rows: impl Iterator<Item = Row>) -> Result<(), Failure> {
    let mut list = terminal.list(&["id", "name", "scopes", "created", "expires"]);
    for row in rows {
        let or =
            |time: &Option<String>, none: &str| time.clone().unwrap_or_else(|| none.to_owned());
        let cells = [
            row.id.clone(),
            row.name.clone(),
            row.scopes.join(" "),
            or(&row.created_at, "-"),
            or(&row.expires_at, "never"),
        ];
        list.row(&cells, &row)?;
    }
    if list.finish()? == 0 {
        terminal.talk("there are no tokens; `handoff token create` makes one");
    }
    Ok(())
}

fn read_scopes(scopes: &[String]) -> Result<Vec<Scope>, Failure> {
    let read = scopes.iter().map(|scope| scope.parse::<Scope>());
    read.collect::<Result<_, _>>().map_err(|bad| Failure::new(Exit::Usage, bad.to_string()))
}

/// When a token ends: after a length of time from now, or at a time.
fn read_end(text: &str, now: SystemTime) -> Result<Timestamp, Failure> {
    if let Ok(end) = text.parse::<Timestamp>() {
        if SystemTime::from(end) <= now {
            let what = format!("--expires {text} is past: the token would open nothing");
            return Err(Failure::new(Exit::Usage, what).remedy("give a time that is still to come"));
        }
        return Ok(end);
    }
    let after = duration::parse(text).map_err(|words| {
        Failure::new(Exit::Usage, words).remedy("or write a time, as in 2027-01-01T00:00:00Z")
    })?;
    let end = now.checked_add(after).and_then(|end| Timestamp::try_from(end).ok());
    let far = || Failure::new(Exit::Usage, format!("{text} from now is no time any more"));
    let end = end.ok_or_else(far)?;
    // Whole seconds: nobody means more.
    Timestamp::from_second(end.as_second()).map_err(|_| far())
}

fn stamp(wall: Wall) -> String {
    Timestamp::from_microsecond(wall.0).map_or_else(|_| wall.0.to_string(), |time| time.to_string())
}

/// The limits of the journal as the server would have them. Whoever makes the first token may
/// have no sound configuration yet, and must not be stopped by it.
pub(super) fn limits(context: Context<'_>) -> Limits {
    match config::load(&context.surroundings.inputs(None, Vec::new())) {
        Ok(config) => config.settings.log.limits,
        Err(_) => {
            context.terminal.warn("the configuration has problems (`handoff config check`); the default limits are used");
            Limits::default()
        }
    }
}

/// The answer to one command.
pub(super) fn one(replies: Vec<Reply>) -> Result<(), Failure> {
    match replies.into_iter().next() {
        Some(Reply::Refused(refusal)) => {
            let code = match refusal {
                Refusal::NoToken(_) => Code::TokenNotFound,
                _ => Code::RequestInvalid,
            };
            Err(Failure::code(code, refusal.to_string()))
        }
        Some(Reply::Done) => Ok(()),
        None => Err(Failure::new(Exit::Failed, "nothing was answered")),
    }
}

pub(super) fn offline(error: OfflineError) -> Failure {
    Failure::code(error.code(), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::read_end;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_token_ends_after_a_while_or_at_a_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_500);
        let check = |text: &str, expected: &str| {
            assert_eq!(read_end(text, now).unwrap().to_string(), expected, "{text}");
        };
        check("1d", "2027-01-16T08:00:00Z");
        check("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z");
        for text in ["tomorrow", "90", "99999999w", "2027-01-15T08:00:00Z", "1970-01-01T00:00:00Z"]
        {
            assert!(read_end(text, now).is_err(), "{text}");
        }
    }
}

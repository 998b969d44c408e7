//! An ERP and its database. One keeps a marker and reports what its database did until it is heard,
//! across its own deaths; the other calls once and forgets.

use std::collections::BTreeMap;

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use super::{Line, many, odd, text};
use crate::http::Answer;
use crate::ledger::Trouble;
use crate::stalk::End;

/// An ERP with its database.
#[derive(Debug)]
pub(super) struct Erp {
    pub(super) database: String,
    /// It keeps markers and reports.
    pub(super) reports: bool,
    at: At,
    /// Names its starts; the same until one is answered.
    key: u64,
    pub(super) transactions: Vec<Transaction>,
    /// How often the effects of a message are in the database.
    pub(super) effects: BTreeMap<String, u32>,
    pub(super) served: u64,
    pub(super) cancelled: u64,
}

#[derive(Clone, Debug)]
enum At {
    Rest,
    /// Messages were given out: ids and their devices.
    Started {
        process: String,
        messages: Vec<(String, String)>,
    },
    /// The database has decided, and the server is to be told.
    Decided {
        process: String,
        committed: bool,
    },
}

/// What the database did.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) committed: Option<bool>,
    replies: Vec<String>,
    reported: bool,
}

impl Erp {
    pub(super) fn new(database: &str, reports: bool) -> Self {
        Self {
            database: database.to_owned(),
            reports,
            at: At::Rest,
            key: 0,
            transactions: Vec::new(),
            effects: BTreeMap::new(),
            served: 0,
            cancelled: 0,
        }
    }

    /// Whether a transaction with this reply committed.
    pub(super) fn has_committed(&self, reply: &str) -> bool {
        let made = |one: &&Transaction| one.replies.iter().any(|made| made == reply);
        self.transactions.iter().filter(made).any(|one| one.committed == Some(true))
    }

    /// Replies of transactions that committed and were reported are there, those of others are not
    /// where devices see them.
    pub(super) fn check_replies(&self, listed: &BTreeMap<String, String>) -> Result<(), Trouble> {
        for transaction in &self.transactions {
            for reply in &transaction.replies {
                let place = listed.get(reply).map(String::as_str);
                let fits = match (transaction.committed, place) {
                    (Some(true), Some("messages" | "log")) => true,
                    (Some(true), Some("unknown")) => !transaction.reported,
                    (_, None) => transaction.committed != Some(true),
                    (_, Some("unknown")) => !self.reports,
                    _ => false,
                };
                if !fits {
                    let words = format!("reply {reply} of {transaction:?} is in {place:?}");
                    return Err(Trouble(format!("{}: {words}", self.database)));
                }
            }
        }
        Ok(())
    }

    /// Whether nothing is left to do: nothing under way, nothing to be served.
    pub(super) fn is_done(&self, dice: &mut Dice, line: &mut Line<'_>) -> Result<bool, End> {
        if !matches!(self.at, At::Rest) {
            return Ok(false);
        }
        let answer = line.ask(dice, "GET", &self.path(""), None)?;
        let shown = answer.json()?;
        let waits = shown.pointer("/database/waiting/toErp").and_then(Value::as_u64);
        Ok(waits == Some(0) && shown.pointer("/database/process").is_none_or(Value::is_null))
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/exchange/databases/{}{rest}", self.database)
    }

    /// The next call of the protocol. It may die at any point if it `may_die`.
    pub(super) fn act(
        &mut self,
        dice: &mut Dice,
        line: &mut Line<'_>,
        may_die: bool,
    ) -> Result<(), End> {
        match self.at.clone() {
            At::Rest => self.start(dice, line),
            At::Started { .. } if may_die && dice.one_in(12) => {
                self.at = At::Rest;
                Ok(())
            }
            At::Started { process, messages } => {
                self.prepare(dice, line, &process, &messages, may_die)
            }
            At::Decided { process, committed } => self.report(dice, line, &process, committed),
        }
    }

    fn start(&mut self, dice: &mut Dice, line: &mut Line<'_>) -> Result<(), End> {
        let key = self.reports.then(|| format!("start-{}", self.key));
        let files = 1 + dice.below(10);
        let wish = match key {
            Some(key) => json!({"version": 1, "maxFiles": files, "requestKey": key}),
            None => json!({"version": 1, "maxFiles": files}),
        };
        let answer = line.ask(dice, "POST", &self.path("/processes"), Some(&wish))?;
        if is_later(&answer) {
            return Ok(());
        }
        let shown = answer.json()?;
        match (answer.status, shown.get("status").and_then(Value::as_str)) {
            (200, Some("IDLE" | "BUSY")) => Ok(()),
            (201, Some("OK")) => {
                self.key += 1;
                let messages = many(&shown, "messages").iter();
                let messages: Vec<(String, String)> =
                    messages.map(|one| (text(one, "id"), text(one, "from"))).collect();
                for (id, _) in &messages {
                    self.served += 1;
                    if self.effects.contains_key(id) {
                        let words =
                            format!("{}: {id} was processed and is served again", self.database);
                        return Err(Trouble(words).into());
                    }
                }
                self.at = At::Started { process: text(&shown, "processId"), messages };
                Ok(())
            }
            _ => Err(odd("API_1", &answer).into()),
        }
    }

    fn prepare(
        &mut self,
        dice: &mut Dice,
        line: &mut Line<'_>,
        process: &str,
        messages: &[(String, String)],
        may_die: bool,
    ) -> Result<(), End> {
        let number = self.transactions.len();
        let mut done = Vec::new();
        let mut verdicts = Vec::new();
        let mut sent = Vec::new();
        for (at, (id, from)) in messages.iter().enumerate() {
            // A device's own messages alternate, so that all verdicts occur and all work ends.
            let status = match dice.below(20) {
                0 if may_die => "PROCESSED_DEADLOCK",
                1 if may_die => "PROCESSED_INCORRECT",
                _ => "PROCESSED",
            };
            let error = (status == "PROCESSED_INCORRECT").then_some("no such article");
            verdicts.push(match error {
                Some(error) => json!({"messageId": id, "status": status, "error": error}),
                None => json!({"messageId": id, "status": status}),
            });
            if status == "PROCESSED" {
                done.push(id.clone());
                sent.push(json!({
                    "id": format!("{}-r{number}-{at}", self.database),
                    "to": from,
                    "createdAt": "2026-01-01T00:00:00Z",
                    "replyTo": id,
                    "payload": {"accepted": true},
                }));
            }
        }
        let replies = sent.iter().map(|one| text(one, "id")).collect();
        self.transactions.push(Transaction { committed: None, replies, reported: false });
        let body = json!({"version": 1, "verdicts": verdicts, "messages": sent});
        let path = self.path(&format!("/processes/{process}/prepare"));
        let answer = line.ask(dice, "PUT", &path, Some(&body));
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // Without an answer the database rolls back. Only one of the two says so.
                self.decide(process, false, self.reports);
                return Err(End::Cut(error));
            }
        };
        let status = text(&answer.json()?, "status");
        match (answer.status, status.as_str()) {
            (200, "OK") => {}
            (200, "CANCELLED") => {
                self.cancelled += 1;
                self.decide(process, false, false);
                return Ok(());
            }
            // Refused: the server is full or busy, or the process is not what it was.
            (429 | 503 | 507, _) => {
                self.decide(process, false, self.reports);
                return Ok(());
            }
            _ => return Err(odd("API_3", &answer).into()),
        }
        let commits = !may_die || !dice.one_in(6);
        if commits {
            for id in done {
                let effects = self.effects.entry(id.clone()).or_default();
                *effects += 1;
                if *effects > 1 {
                    let words = format!("{}: {id} was processed twice", self.database);
                    return Err(Trouble(words).into());
                }
            }
        }
        // Whoever has a marker reads it when he lives again; the other one never speaks of it.
        let dies = may_die && dice.one_in(8);
        self.decide(process, commits, self.reports || !dies);
        Ok(())
    }

    fn decide(&mut self, process: &str, committed: bool, tells: bool) {
        if let Some(open) = self.transactions.last_mut() {
            open.committed = Some(committed);
        }
        self.at = match tells {
            true => At::Decided { process: process.to_owned(), committed },
            false => At::Rest,
        };
    }

    fn report(
        &mut self,
        dice: &mut Dice,
        line: &mut Line<'_>,
        process: &str,
        committed: bool,
    ) -> Result<(), End> {
        let (verb, body) = match committed {
            true => ("commit", json!({"version": 1})),
            false => ("rollback", json!({"version": 1, "error": "it was rolled back"})),
        };
        let path = self.path(&format!("/processes/{process}/{verb}"));
        let answer = line.ask(dice, "POST", &path, Some(&body));
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                if !self.reports {
                    self.at = At::Rest;
                }
                return Err(End::Cut(error));
            }
        };
        match answer.status {
            200 => {
                self.at = At::Rest;
                if let Some(last) = self.transactions.last_mut() {
                    last.reported = true;
                }
                Ok(())
            }
            429 | 503 | 507 => Ok(()),
            _ => Err(odd(verb, &answer).into()),
        }
    }
}

/// Whether the server says that it takes nothing for now.
fn is_later(answer: &Answer) -> bool {
    matches!(answer.status, 429 | 503 | 507)
}

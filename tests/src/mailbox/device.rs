//! A device: sends each message until it is told that it is stored, and uses each reply once.

use std::collections::BTreeSet;

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use super::erp::Erp;
use super::{Line, many, odd, text};
use crate::ledger::Trouble;
use crate::stalk::End;

/// A device.
#[derive(Debug)]
pub(super) struct Device {
    id: String,
    pub(super) database: String,
    pub(super) token: String,
    next: u64,
    /// Sent, and nobody said that it is stored.
    pending: Option<Value>,
    /// Ids of what is stored.
    pub(super) stored: BTreeSet<String>,
    /// Ids of replies its application has used.
    pub(super) used: BTreeSet<String>,
}

impl Device {
    pub(super) fn new(id: String, database: String, token: String) -> Self {
        let (stored, used) = (BTreeSet::new(), BTreeSet::new());
        Self { id, database, token, next: 0, pending: None, stored, used }
    }

    pub(super) fn owes(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn act(
        &mut self,
        dice: &mut Dice,
        line: &mut Line<'_>,
        erps: &[Erp],
    ) -> Result<(), End> {
        if dice.one_in(3) {
            return self.fetch(dice, line, erps).map(drop);
        }
        if self.pending.is_none() {
            self.next += 1;
            let text = "x".repeat(usize::try_from(dice.below(3_000)).unwrap_or(0));
            self.pending = Some(json!({
                "version": 1,
                "id": format!("{}-{}", self.id, self.next),
                "createdAt": "2026-01-01T00:00:00Z",
                "type": "DOCS",
                "payload": {"text": text},
            }));
        }
        self.send(dice, line)
    }

    /// Sends what is pending, once.
    pub(super) fn send(&mut self, dice: &mut Dice, line: &mut Line<'_>) -> Result<(), End> {
        let Some(message) = &self.pending else { return Ok(()) };
        let answer = line.ask(dice, "POST", "/v1/exchange/messages", Some(message))?;
        match answer.status {
            200 | 201 => {
                self.stored.insert(text(message, "id"));
                self.pending = None;
                Ok(())
            }
            // Not now.
            429 | 503 | 507 => Ok(()),
            _ => Err(odd("a message", &answer).into()),
        }
    }

    /// Takes what there is, uses what is new, and says so. Whether there was anything.
    pub(super) fn fetch(
        &mut self,
        dice: &mut Dice,
        line: &mut Line<'_>,
        erps: &[Erp],
    ) -> Result<bool, End> {
        let answer = line.ask(dice, "GET", "/v1/exchange/messages?limit=20", None)?;
        match answer.status {
            200 => {}
            429 | 503 => return Ok(false),
            _ => return Err(odd("a device's messages", &answer).into()),
        }
        let page = answer.json()?;
        let ids: Vec<String> = many(&page, "messages").iter().map(|one| text(one, "id")).collect();
        let erp = erps.iter().find(|erp| erp.database == self.database);
        for id in &ids {
            if !erp.is_some_and(|erp| erp.has_committed(id)) {
                let words = format!("{} sees {id}, whose transaction did not commit", self.id);
                return Err(Trouble(words).into());
            }
            self.used.insert(id.clone());
        }
        if ids.is_empty() {
            return Ok(false);
        }
        let ack = json!({"version": 1, "ids": ids});
        let answer = line.ask(dice, "POST", "/v1/exchange/messages/ack", Some(&ack))?;
        match answer.status {
            200 | 204 | 429 | 503 => Ok(true),
            _ => Err(odd("an acknowledgement", &answer).into()),
        }
    }
}

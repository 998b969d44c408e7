//! A device: it sends until it is answered, and takes its messages as often as it must.

use std::collections::VecDeque;

use handoff_exchange::{Ask, DeviceNo, MessageId, NewMessage, Reply, Seq, State};
use handoff_types::Now;

use super::{DEVICES, digest, entity, message_id, new_message};
use crate::dice::Dice;
use crate::exchange::asked::{Asked, What};

/// How much it remembers of what it sent and got.
const REMEMBERED: usize = 8;

/// A device.
#[derive(Debug)]
pub(super) struct Phone {
    n: usize,
    calls: u64,
    /// The call whose answer it waits for.
    waits: Option<u64>,
    /// What it sent and was not answered.
    unanswered: Option<Vec<NewMessage>>,
    sent: VecDeque<NewMessage>,
    /// What it found and did not say that it has.
    found: Vec<MessageId>,
    /// What it said that it has.
    acked: VecDeque<MessageId>,
}

impl Phone {
    pub(super) fn new(n: usize) -> Self {
        Self {
            n,
            calls: 0,
            waits: None,
            unanswered: None,
            sent: VecDeque::new(),
            found: Vec::new(),
            acked: VecDeque::new(),
        }
    }

    pub(super) fn number(&self, state: &State) -> Option<DeviceNo> {
        let (company, id, _) = DEVICES.get(self.n)?;
        let company = state.company_by_id(&entity(company))?;
        Some(state.device_by_id(company.no, &entity(id))?.no)
    }

    fn call(&mut self) -> u64 {
        self.calls += 1;
        self.waits = Some(self.calls);
        self.calls
    }

    /// It looks for its messages.
    pub(super) fn fetches(&mut self) -> Option<u64> {
        if self.waits.is_some() {
            return None;
        }
        Some(self.call())
    }

    pub(super) fn turn(
        &mut self,
        state: &State,
        now: Now,
        crowded: bool,
        dice: &mut Dice,
        made: &mut u64,
    ) -> Option<(Ask, u64)> {
        let device = self.number(state)?;
        if self.waits.is_some() {
            // It may lose patience before it is answered.
            if !dice.one_in(4) {
                return None;
            }
            self.waits = None;
        }
        let ask = match dice.below(20) {
            0..6 | 10..16 if !self.found.is_empty() => self.ack(device, dice),
            6 | 16 if !self.acked.is_empty() || dice.one_in(4) => {
                let ids = vec![self.acked.front().copied().unwrap_or(message_id("nothing"))];
                Ask::Ack { device, ids }
            }
            7 => self.odd_ack(device, state, dice),
            8 | 9 => self.odd_post(device, dice)?,
            _ => match (self.unanswered.clone(), crowded) {
                (Some(messages), _) => Ask::Post { device, messages },
                (None, true) if !dice.one_in(6) => return None,
                _ => self.post(device, now, dice, made),
            },
        };
        Some((ask, self.call()))
    }

    fn post(&mut self, device: DeviceNo, now: Now, dice: &mut Dice, made: &mut u64) -> Ask {
        let mut messages = Vec::new();
        let count = if dice.one_in(3) { 1 + dice.below(4) } else { 1 };
        for _ in 0..count {
            *made += 1;
            let bytes = match dice.below(12) {
                0 => 3_000,
                1..4 => 300,
                _ => dice.below(60),
            };
            let bytes = usize::try_from(bytes).unwrap_or(0);
            // Ids are each device's own: two of them may use the same.
            let own = if dice.one_in(4) { *made % 5 } else { *made };
            messages.push(new_message(&format!("m-{own}"), now, bytes, None, dice));
        }
        if dice.one_in(3)
            && let Some(old) = self.sent.back()
        {
            messages.insert(0, old.clone());
        }
        self.unanswered = Some(messages.clone());
        Ask::Post { device, messages }
    }

    /// The same again, the same id with something else in it, or an id twice.
    fn odd_post(&mut self, device: DeviceNo, dice: &mut Dice) -> Option<Ask> {
        let place = usize::try_from(dice.below(self.sent.len() as u64)).unwrap_or(0);
        let mut message = self.sent.get(place)?.clone();
        let messages = match dice.below(4) {
            0 => vec![message.clone(), message],
            1 => {
                message.created_text = "another time".into();
                message.digest = digest(&message);
                vec![message]
            }
            _ => vec![message],
        };
        Some(Ask::Post { device, messages })
    }

    fn ack(&mut self, device: DeviceNo, dice: &mut Dice) -> Ask {
        let mut ids = self.found.clone();
        if dice.one_in(3) {
            ids.truncate(1);
        }
        if dice.one_in(8) {
            ids.extend(ids.first().copied());
        }
        Ask::Ack { device, ids }
    }

    /// What is not its own, or not there.
    fn odd_ack(&mut self, device: DeviceNo, state: &State, dice: &mut Dice) -> Ask {
        let all: Vec<MessageId> = state.messages_from(Seq(0)).map(|(_, one)| one.id).collect();
        let mut ids: Vec<MessageId> = dice.pick(&all).copied().into_iter().collect();
        if dice.one_in(2) {
            ids.extend(self.found.first().copied());
        }
        Ask::Ack { device, ids }
    }

    pub(super) fn heard(&mut self, call: u64, asked: &Asked) {
        if self.waits != Some(call) {
            return;
        }
        self.waits = None;
        match &asked.what {
            What::Command { command, reply, .. } => match (&command.ask, reply) {
                (Ask::Post { messages, .. }, Reply::Posted(_)) => {
                    self.unanswered = None;
                    self.sent.extend(messages.iter().cloned());
                    while self.sent.len() > REMEMBERED {
                        self.sent.pop_front();
                    }
                }
                // What is refused is thought over.
                (Ask::Post { .. }, _) => self.unanswered = None,
                (Ask::Ack { ids, .. }, Reply::Acked { .. }) => {
                    // Now and then it forgets that it was answered.
                    if !call.is_multiple_of(3) {
                        self.found.retain(|id| !ids.contains(id));
                    }
                    self.acked.extend(ids);
                    while self.acked.len() > REMEMBERED {
                        self.acked.pop_front();
                    }
                }
                _ => {}
            },
            What::Fetch { found, .. } => {
                let ids = found.iter().filter_map(|seq| Some(asked.look.messages.get(seq)?.id));
                self.found = ids.collect();
            }
        }
    }

    /// It will send again what it sent.
    pub(super) fn unheard(&mut self, call: u64) {
        if self.waits == Some(call) {
            self.waits = None;
        }
    }
}

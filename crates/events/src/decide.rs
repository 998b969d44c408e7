//! The rules.

use handoff_types::{Decision, Entropy, Machine, Now, Sight, Span, Steady, Wall};

use crate::happen::happen;
use crate::publish::{Closing, answered, delete_letters, hand_over, refused, retry};
use crate::register::register;
use crate::{
    Action, Change, Command, Due, Event, Gone, Id, Reply, Schedule, Selection, State, Totals,
};

/// The machine of the events room.
#[derive(Clone, Copy, Debug)]
pub enum Events {}

pub(crate) type Decided = Decision<Reply, Change, Action>;

impl Machine for Events {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Action;

    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        match command {
            Command::Register { event, bounds, sight } => {
                register(state, event, bounds, sight, (now, entropy))
            }
            Command::Delete { selection, sight, limit } => delete(state, selection, sight, *limit),
            Command::Tick { limit, tardiness, publishing } => {
                let late_max = Some(tardiness.late_max);
                happen(state, *limit, (tardiness, late_max), *publishing, now)
            }
            Command::Resume { limit, tardiness, publishing } => {
                happen(state, *limit, (tardiness, None), *publishing, now)
            }
            Command::Reschedule { from, limit } => reschedule(state, *from, *limit, now),
            Command::HandOver { from, limit } => hand_over(state, *from, *limit),
            Command::Published { id, sequence } => answered(state, *id, *sequence),
            Command::PublishRefused { id, sequence, why, publishing } => {
                refused(state, (*id, *sequence), why, *publishing, now)
            }
            Command::RetryLetters { letters, sight, limit } => retry(state, letters, sight, *limit),
            Command::DeleteLetters { letters, sight, limit } => {
                delete_letters(state, letters, sight, *limit)
            }
        }
    }

    fn evolve(state: &mut State, change: &Change) {
        state.evolve(change);
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        state.dues().first(now)
    }
}

fn delete(state: &State, selection: &Selection, sight: &Sight, limit: usize) -> Decided {
    let mut selected = state.selected(selection, sight);
    let ids: Vec<Id> = selected.by_ref().take(limit).collect();
    let more = selected.next().is_some();
    let gone = |id: &Id| Change::Gone { id: *id, why: Gone::Deleted, count: 0, skipped: 0 };
    let mut changes: Vec<Change> = ids.iter().map(gone).collect();
    let mut closing = Closing::new(state);
    ids.iter().for_each(|id| closing.end(*id));
    changes.extend(closing.changes());
    if !ids.is_empty() {
        let deleted = ids.len() as u64;
        changes.push(Change::Counted(Totals { deleted, ..Totals::default() }));
    }
    let actions = ids.iter().map(|id| Action::Forget(*id)).collect();
    Decision { reply: Reply::Deleted { ids, more }, changes, actions }
}

fn reschedule(state: &State, from: Id, limit: usize, now: Now) -> Decided {
    let mut changes = Vec::new();
    let mut events = state.starting_at(from);
    let mut next = None;
    if state.dues().by_wall() {
        for (id, event) in events.by_ref().take(limit) {
            let anew = anew(event, now.wall);
            changes.extend(anew.map(|due| Change::Rescheduled { id, due: Due::Wall(due) }));
        }
        next = events.next().map(|(id, _)| id);
    }
    let reply = Reply::Rescheduled { count: changes.len() as u64, next };
    Decision { reply, changes, actions: Vec::new() }
}

/// When an event must be due instead, now that the operator's clock shows `now`.
///
/// ```text
///              interval          interval
///   ···──┼──────────────────┼──────────────────┼──▶ wall
///        │                  updated            due
///   anew │ ◀─ kept: what happened already does not happen again
/// ```
///
/// A clock that went back makes an event wait longer. As long as it stands no more than one
/// interval before the event's last update, the event keeps its time: it waits at most one
/// interval more, and no time of the calendar comes twice. Further back it would stand still for
/// as long as the clock went back, so it is scheduled from what the clock shows. A one-shot time
/// means the time it says.
fn anew(event: &Event, now: Wall) -> Option<Wall> {
    let (Schedule::Cron(cron), Due::Wall(due)) = (&event.schedule, event.due) else { return None };
    if now >= event.updated {
        return None;
    }
    let interval = cron.next_after(due).map_or(Span::ZERO, |following| following.since(due));
    let back = event.updated.since(now);
    (back > interval).then(|| cron.next_after(now)).flatten().filter(|next| *next != due)
}

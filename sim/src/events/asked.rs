//! What is asked of the events room, with its answer, on its way to whoever asked.

use std::fmt;

use handoff_events::{
    Action, Command, EventView, Filter, FilterError, Id, LetterView, Notification, Outlet, Reply,
    Schedule, Selection, SessionId, State, Totals,
};
use handoff_types::{Machine, Now, Sight, Steady};

/// Something that was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// When it was decided.
    pub(super) now: Now,
    pub(super) what: What,
    /// Who is told of what with it.
    pub(super) told: Vec<Told>,
}

/// What was asked, and the answer.
#[derive(Clone, Debug)]
pub(super) enum What {
    Command {
        command: Command,
        reply: Reply,
        actions: Vec<Action>,
        /// All events right behind it, where the answer alone does not say what has become of
        /// each.
        look: Option<Look>,
    },
    Open {
        session: SessionId,
        sight: Sight,
        entries_max: usize,
    },
    Close {
        session: SessionId,
    },
    Filter {
        session: SessionId,
        change: FilterChange,
        result: Result<(), FilterError>,
        /// The filter as it is then.
        filter: Option<Filter>,
    },
    List {
        types: Option<Vec<String>>,
        sight: Sight,
        from: Id,
        limit: usize,
        found: Vec<Id>,
    },
    View {
        id: Id,
        sight: Sight,
        found: Option<EventView>,
    },
    Select {
        selection: Selection,
        sight: Sight,
        found: Vec<Id>,
    },
    Look(Look),
}

/// How a filter changes.
#[derive(Clone, Debug)]
pub(super) enum FilterChange {
    Subscribe(Selection),
    Unsubscribe(Selection),
    Replace(Selection),
    Everything,
}

/// A session is told of an occurrence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) session: SessionId,
    pub(super) notification: Notification,
}

/// Everything there is to see.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) events: Vec<EventView>,
    pub(super) totals: Totals,
    pub(super) next_id: Option<Id>,
    pub(super) deadline: Option<Steady>,
    /// Ways to topics, those of events that are gone included.
    pub(super) outlets: Vec<(Id, Outlet)>,
    pub(super) letters: Vec<LetterView>,
}

impl Look {
    pub(super) fn at<M: Machine<State = State>>(state: &State, now: Now) -> Self {
        Self {
            events: state.page(None, &Sight::All, Id::default(), usize::MAX, now),
            totals: state.totals(),
            next_id: state.next_id(),
            deadline: M::next_deadline(state, now),
            outlets: state.outlets_from(Id::default()).map(|(id, o)| (id, o.clone())).collect(),
            letters: state.letters(&Sight::All, 0, usize::MAX),
        }
    }
}

impl Asked {
    /// A name for the kind of it.
    pub(super) fn kind(&self) -> &'static str {
        match &self.what {
            What::Command { command, .. } => kind(command),
            What::Open { .. } => "open",
            What::Close { .. } => "close",
            What::Filter { change: FilterChange::Subscribe(_), .. } => "subscribe",
            What::Filter { change: FilterChange::Unsubscribe(_), .. } => "unsubscribe",
            What::Filter { change: FilterChange::Replace(_), .. } => "replace",
            What::Filter { change: FilterChange::Everything, .. } => "everything",
            What::List { .. } => "list",
            What::View { .. } => "view",
            What::Select { .. } => "select",
            What::Look(_) => "look",
        }
    }
}

/// A name for the kind of a command.
pub(super) fn kind(command: &Command) -> &'static str {
    match command {
        Command::Register { .. } => "register",
        Command::Delete { .. } => "delete",
        Command::Tick { .. } => "tick",
        Command::Resume { .. } => "resume",
        Command::Reschedule { .. } => "reschedule",
        Command::HandOver { .. } => "hand over",
        Command::Published { .. } => "published",
        Command::PublishRefused { .. } => "refused by the topic",
        Command::RetryLetters { .. } => "retry letters",
        Command::DeleteLetters { .. } => "delete letters",
    }
}

/// A command in words, without what is the same every time.
pub(super) fn words(command: &Command) -> String {
    match command {
        Command::Register { event, sight, .. } => {
            let schedule = match &event.schedule {
                Schedule::Every(period) => format!("every {} s", period.secs()),
                Schedule::Cron(cron) => format!("cron {} in {}", cron.expression(), cron.zone()),
                Schedule::At(at) => format!("at {}", at.0),
            };
            let (types, repeat) = (&event.types, event.repeat);
            let (bytes, to) = (event.description.len(), &event.publish);
            format!(
                "register {schedule} × {repeat}, types {types:?}, {bytes} bytes, to {to:?}, for {sight:?}"
            )
        }
        Command::Delete { selection, sight, limit } => {
            format!("delete {} for {sight:?}, {limit} at most", Chosen(selection))
        }
        Command::Tick { limit, tardiness, publishing } => {
            format!("tick {limit}, {tardiness:?}, {publishing:?}")
        }
        Command::Resume { limit, tardiness, publishing } => {
            format!("resume {limit}, {tardiness:?}, {publishing:?}")
        }
        Command::HandOver { from, limit } => format!("hand over {limit} from {from}"),
        Command::Published { id, sequence } => format!("{sequence} of {id} is published"),
        Command::PublishRefused { id, sequence, why, .. } => {
            format!("{sequence} of {id} is refused: {why}")
        }
        Command::RetryLetters { letters, sight, limit } => {
            format!("retry {letters:?} for {sight:?}, {limit} at most")
        }
        Command::DeleteLetters { letters, sight, limit } => {
            format!("delete {letters:?} for {sight:?}, {limit} at most")
        }
        Command::Reschedule { from, limit } => format!("reschedule {limit} from {from}"),
    }
}

/// A selection in words.
struct Chosen<'a>(&'a Selection);

impl fmt::Display for Chosen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} and {:?}", self.0.ids, self.0.types)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Command { command, reply, .. } => write!(f, "{}: {reply:?}", words(command)),
            What::Open { session, sight, .. } => write!(f, "open {}: {sight:?}", session.0),
            What::Close { session } => write!(f, "close {}", session.0),
            What::Filter { session, change, result, .. } => {
                write!(f, "{} of {}", self.kind(), session.0)?;
                if let FilterChange::Subscribe(selection)
                | FilterChange::Unsubscribe(selection)
                | FilterChange::Replace(selection) = change
                {
                    write!(f, " {}", Chosen(selection))?;
                }
                write!(f, ": {result:?}")
            }
            What::List { types, sight, from, limit, found } => {
                let found: Vec<u32> = found.iter().map(|id| id.number()).collect();
                write!(f, "list {types:?} for {sight:?}, {limit} from {from}: {found:?}")
            }
            What::View { id, sight, found } => {
                write!(f, "view {id} for {sight:?}: {}", found.is_some())
            }
            What::Select { selection, sight, found } => {
                write!(f, "select {} for {sight:?}: {} found", Chosen(selection), found.len())
            }
            What::Look(look) => write!(f, "look: {} events", look.events.len()),
        }
    }
}

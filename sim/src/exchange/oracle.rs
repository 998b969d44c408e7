//! The judge of the exchange: knows the rules from their prose and only ever sees what was asked, the
//! answers, what people can look at, the time, and what the databases really did. Of the room it uses
//! the vocabulary, never a line of its logic.
//!
//! It keeps one record for every message and one for every process. Where the rules leave the room a
//! choice (ids, how long a message waits), what is to be seen right behind must be one of the choices
//! there are.

mod admin;
mod begin;
mod chores;
mod device;
mod ending;
mod looks;
mod prepare;
mod violation;

use std::collections::{BTreeMap, BTreeSet};

use handoff_exchange::{
    Action, Ask, Cancelled, Command, Company, CompanyNo, Database, DatabaseNo, Device, EntityId,
    Happened, Message, MessageId, Phase, Place, Process, ProcessId, Reply, Rules, Seq, Spot,
    Standing, Step, Subsystem, SubsystemNo, Way,
};
use handoff_types::{Now, Span};

pub use self::violation::Violation;
use super::asked::{Asked, Look, What, why, why_cancelled, words};
use super::databases::{Databases, Fate};

/// The longest a message waits after it was tried in vain.
const WAIT_MAX: Span = Span::from_secs(300);

/// After so many silences a message is served alone.
const SUSPECT_FROM: u16 = 3;

/// Judges what is answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    companies: BTreeMap<EntityId, Company>,
    subsystems: BTreeMap<EntityId, Subsystem>,
    databases: BTreeMap<EntityId, Database>,
    devices: BTreeMap<(CompanyNo, EntityId), Device>,
    routes: BTreeMap<(CompanyNo, SubsystemNo), DatabaseNo>,
    /// Numbers of entities that are used up.
    numbers: BTreeSet<u32>,
    letters: BTreeMap<Seq, Letter>,
    processes: BTreeMap<u64, Process>,
    /// The last that was given.
    seq: u64,
    process: u64,
    /// By what the folders are to say of a process that they show what it decided last.
    owed: BTreeMap<u64, u8>,
    /// Processes whose end nobody knows and that people were told of.
    announced: BTreeSet<u64>,
}

/// A message.
#[derive(Clone, Debug)]
struct Letter {
    is: Message,
    /// How long it waited the last time it was tried in vain.
    wait: Span,
    /// Of a reply: in which process it came, and whether it rests on no transaction.
    by: Option<(ProcessId, bool)>,
}

/// What must have been said and done besides the answer.
#[derive(Debug, Default)]
struct Expect {
    logs: Vec<Note>,
    /// What may be said or not.
    maybe: Vec<Note>,
    /// Files are driven once more, wherever they are: nobody can tell which.
    drives: bool,
    /// Processes that decided something.
    turned: BTreeSet<u64>,
}

/// An entry of the log: what, of which process, of which message.
type Note = (Happened, Option<u64>, Option<Seq>);

/// Why a message goes back to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    Untried,
    InVain,
    Failed,
}

impl Oracle {
    /// Judges an answer and what is to be seen behind it. Answers are judged in the order in which
    /// they were decided.
    pub(super) fn answered(
        &mut self,
        asked: &Asked,
        databases: &Databases,
    ) -> Result<(), Violation> {
        match &asked.what {
            What::Fetch { device, found } => {
                let waits = |letter: &Letter| {
                    let one = &letter.is;
                    one.way == Way::ToDevice
                        && one.device == *device
                        && one.place == Place::Messages
                };
                let all = self.letters.iter().filter(|(_, letter)| waits(letter));
                let expected: Vec<Seq> = all.map(|(seq, _)| *seq).collect();
                is_answer(asked, found, &expected)?;
            }
            What::Command { command, reply, actions } => {
                let before = self.spots();
                let expect = self.judge(asked, command, reply)?;
                self.agrees(asked, databases)?;
                self.looks(&asked.look)?;
                self.acts(asked, actions, &expect, &before)?;
                self.owes(actions, &expect)?;
                let told = actions.iter().filter_map(|action| match action {
                    Action::Log(entry) if entry.what == Happened::Unknown => entry.process,
                    _ => None,
                });
                self.announced.extend(told.map(|id| id.number));
            }
        }
        self.looks(&asked.look)
    }

    /// Judges what came back after a restart.
    pub(super) fn recovered(
        &mut self,
        lost: &[Asked],
        look: &Look,
        databases: &Databases,
    ) -> Result<usize, Violation> {
        let mut attempt = self.clone();
        let mut first = None;
        for survived in 0..=lost.len() {
            match attempt.looks(look) {
                Ok(()) => {
                    *self = attempt;
                    return Ok(survived);
                }
                Err(violation) => drop(first.get_or_insert(violation)),
            }
            if let Some(next) = lost.get(survived) {
                attempt.answered(next, databases)?;
            }
        }
        let closest = first.map(|violation| violation.to_string()).unwrap_or_default();
        Err(Violation::Recovery { lost: lost.len(), closest })
    }

    /// What must be true of databases and messages together.
    fn agrees(&self, asked: &Asked, databases: &Databases) -> Result<(), Violation> {
        if let What::Command {
            reply: Reply::Begun(handoff_exchange::Begun::Started { messages, .. }),
            ..
        } = &asked.what
        {
            for handed in messages {
                if databases.is_processed(handed.seq) {
                    return Err(Violation::ServedAgain { seq: handed.seq.0 });
                }
            }
        }
        for (seq, is) in &asked.look.messages {
            let by = self.letters.get(seq).and_then(|letter| letter.by);
            let Some((id, notice)) = by else { continue };
            let seen = matches!(is.place, Place::Messages | Place::Log);
            let fate = databases.fate(is.database, id);
            if seen && !notice && fate != Some(Fate::Committed) {
                return Err(Violation::SeenTooEarly { seq: seq.0, process: id.number });
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        asked: &Asked,
        command: &Command,
        reply: &Reply,
    ) -> Result<Expect, Violation> {
        let Command { ask, rules } = command;
        let case = Case { asked, rules, now: asked.now, look: &asked.look, reply };
        match ask {
            Ask::Admin(admin) => self.administered(&case, admin),
            Ask::Activate { code, token } => self.activated(&case, code, token),
            Ask::Post { device, messages } => self.posted(&case, *device, None, messages),
            Ask::TakeIn { database, device, message } => {
                let messages = std::slice::from_ref(message);
                self.posted(&case, *device, Some(*database), messages)
            }
            Ask::Ack { device, ids } => self.acked(&case, *device, ids),
            Ask::Begin { database, wish } => self.begun(&case, *database, wish),
            Ask::Process { database, id, step } => self.stepped(&case, *database, *id, step),
            Ask::Resolve { database, outcomes } => self.resolved(&case, *database, outcomes),
            Ask::Requeue { database, messages } => self.requeued(&case, *database, messages),
            Ask::Damaged { seq, .. } => self.damaged(&case, *seq),
            Ask::Settled { number, round } => self.settled(&case, *number, *round),
            Ask::Stuck { number, .. } => self.stuck(&case, *number),
            Ask::Opened => self.opened(&case),
            Ask::Remind => self.reminded(&case),
            Ask::Tick => self.ticked(&case),
            Ask::Retain { many } => self.retained(&case, *many),
        }
    }

    fn stepped(
        &mut self,
        case: &Case<'_>,
        database: DatabaseNo,
        id: ProcessId,
        step: &Step,
    ) -> Result<Expect, Violation> {
        let known = self.processes.get(&id.number);
        let known = known.filter(|one| one.id == id && one.database == database).cloned();
        let Some(process) = known else {
            let gone = !self.databases.values().any(|one| one.no == database);
            let reasons = if gone { ["not found"] } else { ["no process"] };
            return case.refused(reasons).map(|()| Expect::default());
        };
        match step {
            Step::Narrow(ids) => self.narrowed(case, &process, ids),
            Step::Prepare { verdicts, messages, digest } => {
                self.prepared(case, &process, (verdicts, messages), *digest)
            }
            Step::Commit | Step::Rollback(_) => {
                let committed = *step == Step::Commit;
                let mut expect = Expect::default();
                let expected = self.reported(case, &process, committed, &mut expect)?;
                case.ends(expected)?;
                Ok(expect)
            }
            Step::Interrupt(_) => self.interrupted(case, &process),
            Step::Heartbeat => self.beaten(case, &process),
        }
    }

    /// Where every message is, and of whom.
    fn spots(&self) -> BTreeMap<Seq, (Spot, DatabaseNo)> {
        let spot = |letter: &Letter| (letter.is.spot(), letter.is.database);
        self.letters.iter().map(|(seq, letter)| (*seq, spot(letter))).collect()
    }

    /// A message is elsewhere, or stands otherwise.
    fn place(&mut self, seq: Seq, place: Place, standing: Standing, now: Now) {
        if let Some(Letter { is, .. }) = self.letters.get_mut(&seq) {
            if is.place != place {
                is.since = now.wall;
            }
            (is.place, is.standing) = (place, standing);
        }
    }

    /// A message goes back to where it was in its queue, or is set aside if it was tried too often.
    fn give_back(
        &mut self,
        case: &Case<'_>,
        seq: Seq,
        back: Back,
        process: u64,
        expect: &mut Expect,
    ) -> Result<(), Violation> {
        let Some(letter) = self.letters.get_mut(&seq) else { return Ok(()) };
        let is = &mut letter.is;
        let alone = is.silences >= SUSPECT_FROM;
        let failed = back == Back::Failed || (back == Back::InVain && alone);
        is.silences += u16::from(back == Back::InVain);
        is.attempts += u16::from(failed);
        let max = case.rules.attempts_max;
        let words = |what: &str| Standing::Aside(what.into());
        if failed && max > 0 && is.attempts >= max {
            expect.logs.push((Happened::Poison, Some(process), Some(seq)));
            self.place(seq, Place::Error, words("*"), case.now);
            return Ok(());
        }
        let tried = is.attempts;
        let found = case.look.messages.get(&seq).map(|one| one.standing.clone());
        let standing = match found {
            Some(Standing::Late(until)) if failed => {
                let wait = until.since(case.now.steady);
                let fits = until > case.now.steady && wait <= WAIT_MAX && wait >= letter.wait;
                if !fits {
                    let why = format!("{seq:?} waits for {wait:?} after {:?}", letter.wait);
                    return Err(no_answer(case.asked, why));
                }
                letter.wait = wait;
                Standing::Late(until)
            }
            // The first time costs nothing; whatever comes after it waits.
            _ if failed && tried > 1 => {
                let why = format!("{seq:?} was tried {tried} times and does not wait");
                return Err(no_answer(case.asked, why));
            }
            _ => Standing::Free,
        };
        self.place(seq, Place::Messages, standing, case.now);
        Ok(())
    }

    /// A process is in another phase.
    fn turn(&mut self, case: &Case<'_>, number: u64, phase: Phase, expect: &mut Expect) {
        if let Some(process) = self.processes.get_mut(&number) {
            process.phase = phase;
            process.ended = (phase != Phase::Cleanup).then_some(case.now.wall);
            // Whether anything has to be moved is judged by what is moved.
            process.settled = case.look.processes.get(&number).is_some_and(|one| one.settled);
        }
        expect.turned.insert(number);
    }

    fn is_live(&self, database: DatabaseNo) -> Option<&Process> {
        self.processes.values().find(|one| one.database == database && one.phase.is_live())
    }

    fn database(&self, no: DatabaseNo) -> Option<&Database> {
        self.databases.values().find(|one| one.no == no)
    }

    /// What must be once everybody did their work.
    pub(super) fn is_done(
        &self,
        databases: &Databases,
        reports: impl Fn(&EntityId) -> bool,
    ) -> Result<(), Violation> {
        for (seq, Letter { is, .. }) in &self.letters {
            let times = databases.times(*seq);
            let fits = match (is.way, is.place) {
                (Way::ToErp, Place::Log) => times > 0,
                (Way::ToErp, Place::Error) => !databases.is_processed(*seq),
                (Way::ToErp, Place::Messages) | (_, Place::Prepared) => false,
                (Way::ToDevice, Place::Messages | Place::Log | Place::Error) => true,
                (_, Place::Unknown) => {
                    self.database(is.database).is_some_and(|one| !reports(&one.id))
                }
            };
            if !fits {
                let why = format!("at the end, and it was processed {times} times: {is:?}");
                return Err(Violation::Message { seq: seq.0, why });
            }
        }
        let unknown = self.processes.values().filter(|one| one.phase == Phase::Unknown);
        for process in unknown {
            let number = process.id.number;
            let database = self.database(process.database);
            if database.is_some_and(|one| reports(&one.id)) || !self.announced.contains(&number) {
                return Err(Violation::Undecided { number });
            }
        }
        Ok(())
    }

    /// The messages there are.
    pub(super) fn messages(&self) -> impl Iterator<Item = (Seq, &Message)> {
        self.letters.iter().map(|(seq, letter)| (*seq, &letter.is))
    }

    /// The messages there are, how long their bodies are and their sums.
    pub(super) fn bodies(&self) -> impl Iterator<Item = (Seq, u32, u32)> {
        self.letters.iter().map(|(seq, letter)| (*seq, letter.is.bytes, letter.is.crc))
    }

    /// What the folders are to say once all files are where they belong.
    pub(super) fn owed(&self) -> Vec<(u64, u8)> {
        let unsettled = |number: &u64| {
            let process = self.processes.get(number);
            process.is_some_and(|one| !one.settled && !one.phase.is_live())
        };
        let owed = self.owed.iter().filter(|(number, _)| unsettled(number));
        owed.map(|(number, round)| (*number, *round)).collect()
    }

    /// Whether anything waits for this database.
    pub(super) fn waits(&self, database: DatabaseNo) -> bool {
        self.letters.values().any(|letter| {
            let is = &letter.is;
            is.database == database && is.way == Way::ToErp && is.place == Place::Messages
        })
    }
}

/// Something to be judged.
struct Case<'a> {
    asked: &'a Asked,
    rules: &'a Rules,
    now: Now,
    look: &'a Look,
    reply: &'a Reply,
}

impl Case<'_> {
    /// The answer is a refusal, for one of these reasons.
    fn refused<'r>(&self, reasons: impl IntoIterator<Item = &'r str>) -> Result<(), Violation> {
        let reasons: Vec<&str> = reasons.into_iter().collect();
        match why(self.reply) {
            Some(found) if reasons.contains(&found) => Ok(()),
            _ => Err(no_answer(self.asked, format!("what is wrong with it is {reasons:?}"))),
        }
    }

    /// Says whether it is refused; if so, for one of these reasons, and it is not refused without.
    fn objects(&self, reasons: &BTreeSet<&str>) -> Result<bool, Violation> {
        let refusal = matches!(self.reply, Reply::Refused(_) | Reply::Cancelled(_));
        if reasons.is_empty() && !refusal {
            return Ok(false);
        }
        self.refused(reasons.iter().copied()).map(|()| true)
    }

    /// The answer says that it is so, or what is in the way.
    fn ends(&self, expected: Result<(), BTreeSet<&'static str>>) -> Result<(), Violation> {
        match (expected, self.reply) {
            (Ok(()), Reply::Ok { .. }) => Ok(()),
            (Ok(()), _) => Err(no_answer(self.asked, "it is so".to_owned())),
            (Err(reasons), _) => self.refused(reasons),
        }
    }
}

/// What is in the way of one outcome.
fn outcome_is(
    case: &Case<'_>,
    found: &Result<(), Cancelled>,
    expected: &Result<(), BTreeSet<&'static str>>,
) -> Result<(), Violation> {
    let fits = match (found, expected) {
        (Ok(()), Ok(())) => true,
        (Err(cancelled), Err(reasons)) => reasons.contains(why_cancelled(cancelled)),
        _ => false,
    };
    let why = || format!("an outcome should be {expected:?}");
    if fits { Ok(()) } else { Err(no_answer(case.asked, why())) }
}

fn is_answer<T: PartialEq + std::fmt::Debug>(
    asked: &Asked,
    found: &T,
    expected: &T,
) -> Result<(), Violation> {
    if found == expected {
        return Ok(());
    }
    Err(no_answer(asked, format!("it should be {expected:?}")))
}

fn no_answer(asked: &Asked, why: String) -> Violation {
    let (asked, answer) = match &asked.what {
        What::Command { command, reply, .. } => (words(command), format!("{reply:?}")),
        What::Fetch { found, .. } => (asked.to_string(), format!("{found:?}")),
    };
    Violation::Answer { asked, answer, why }
}

/// The messages of a process, by what the ERP calls them.
fn named(process: &Process, letters: &BTreeMap<Seq, Letter>) -> BTreeMap<MessageId, Seq> {
    let named = |seq: Seq| letters.get(&seq).map(|letter| (letter.is.id, seq));
    process.to_erp.iter().filter_map(|one| named(one.seq)).collect()
}

//! One victim, from its start to its end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use handoff_sim::dice::Dice;
use handoff_sim::room::{Command, Name};

use super::plan::{Act, Plan, Trigger};
use super::work::KEYS;
use crate::clock;
use crate::ledger::{Bodies, Found, Heard, Ledger, Trouble};
use crate::prey::{Lair, Prey, Said};
use crate::wire::Ask;

/// A victim that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many bodies are asked for at a time.
const BODIES_UNDERWAY: usize = 64;

/// How many of a key's older notes are read back at each start.
const SAMPLED: u64 = 2;

/// How much is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every key, every note in doubt, and some of the others.
    Sample,
    /// Everything there is.
    All,
}

/// How a victim ended, as it was meant to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By `SIGKILL`.
    Killed,
    /// By itself, because its stdin ended.
    Closed,
}

/// A victim and what is in store for it.
#[derive(Debug)]
pub struct Chase {
    prey: Prey,
    plan: Plan,
    /// When the last act was, or the start.
    since: Instant,
    ready_at: Option<Instant>,
    ready: String,
    answers: u64,
    events: BTreeMap<String, u64>,
    inquired: bool,
    froze: bool,
    closing: bool,
    killed: bool,
}

impl Chase {
    /// Starts a victim.
    ///
    /// # Errors
    /// [`Trouble`] when it cannot be started.
    pub fn start(lair: &Lair, plan: Plan) -> Result<Self, Trouble> {
        let prey = lair.start().map_err(|error| Trouble(format!("no victim: {error}")))?;
        Ok(Self {
            prey,
            plan,
            since: clock(),
            ready_at: None,
            ready: String::new(),
            answers: 0,
            events: BTreeMap::new(),
            inquired: false,
            froze: false,
            closing: false,
            killed: false,
        })
    }

    /// Waits until it is ready; `false` if it is gone before.
    ///
    /// # Errors
    /// [`Trouble`] when recovery found damage where there was only a kill, or it ended by itself.
    pub fn ready(&mut self) -> Result<bool, Trouble> {
        while let Some(line) = self.line()? {
            if !line.starts_with("ready ") {
                self.note_event(&line);
                continue;
            }
            let sound = ["damage=0", "healed=0", "shortened=0"];
            if !sound.iter().all(|word| line.split(' ').any(|found| found == *word)) {
                return Err(Trouble(format!("a kill is no damage, yet: {line}")));
            }
            self.ready_at = Some(clock());
            self.ready = line;
            return Ok(true);
        }
        Ok(false)
    }

    /// Asks something.
    pub fn ask(&mut self, ledger: &mut Ledger, ask: Ask) {
        self.prey.say(ledger.ask(ask));
    }

    /// As [`Self::hear`], but `None` when nothing is heard for a while.
    ///
    /// # Errors
    /// [`Trouble`] when the ledger objects, or the victim ends.
    pub fn hear_within(
        &mut self,
        ledger: &mut Ledger,
        wait: Duration,
    ) -> Result<Option<Heard>, Trouble> {
        loop {
            match self.prey.listen(wait) {
                Said::Line(line) if self.note_event(&line) => {}
                Said::Line(line) => {
                    self.answers += 1;
                    return ledger.hear(&line).map(Some);
                }
                Said::Silent => return Ok(None),
                Said::Gone => return Err(Trouble("it is gone".to_owned())),
            }
        }
    }

    /// Waits for the next answer and has it judged; `None` when the victim is gone.
    ///
    /// # Errors
    /// [`Trouble`] when the ledger objects, or the victim hangs or ends by itself.
    pub fn hear(&mut self, ledger: &mut Ledger) -> Result<Option<Heard>, Trouble> {
        while let Some(line) = self.line()? {
            if self.note_event(&line) {
                continue;
            }
            self.answers += 1;
            return ledger.hear(&line).map(Some);
        }
        Ok(None)
    }

    /// Asks for everything the victim found and has it judged. Gives the unknown commands that
    /// can be asked again; `None` when the victim is gone.
    ///
    /// # Errors
    /// [`Trouble`] when something is not as it must be.
    pub fn inquire(
        &mut self,
        ledger: &mut Ledger,
        dice: &mut Dice,
        depth: Depth,
    ) -> Result<Option<Vec<Command>>, Trouble> {
        let mut found = Found::new();
        for key in (0..KEYS).map(Name::numbered) {
            self.ask(ledger, Ask::Tally(key));
        }
        while ledger.underway() > 0 {
            match self.hear(ledger)? {
                None => return Ok(None),
                Some(Heard::Tally(key, looks)) => drop(found.insert(key, looks)),
                Some(other) => return Err(Trouble(format!("not asked for: {other:?}"))),
            }
        }
        let known: BTreeMap<Name, u64> = ledger.notes().collect();
        let mut wanted: Vec<(Name, u64)> = Vec::new();
        for (key, looks) in &found {
            let known = known.get(key).copied().unwrap_or(0);
            wanted.extend((known..looks.notes).map(|offset| (*key, offset)));
            match depth {
                Depth::All => wanted.extend((0..known).map(|offset| (*key, offset))),
                Depth::Sample if known > 0 => {
                    wanted.push((*key, known - 1));
                    wanted.extend((0..SAMPLED).map(|_| (*key, dice.below(known))));
                }
                Depth::Sample => {}
            }
        }
        let Some(bodies) = self.read(ledger, &wanted)? else { return Ok(None) };
        let again = ledger.settle(&found, &bodies)?;
        self.inquired = true;
        Ok(Some(again))
    }

    /// Tells it to end. What it was asked it answers first.
    pub fn close(&mut self) {
        self.closing = true;
        self.prey.close();
    }

    /// Ends the victim if nothing has, hears what it said last, and says how it ended.
    ///
    /// # Errors
    /// [`Trouble`] when the ledger objects, or it did not end as it should.
    pub fn end(&mut self, ledger: &mut Ledger) -> Result<Ending, Trouble> {
        if !self.closing && !self.killed {
            self.strike(Act::Kill)?;
        }
        while self.hear_any(ledger)? {}
        let status = self.prey.ended().map_err(|error| Trouble(format!("no status: {error}")))?;
        if self.killed {
            return Ok(Ending::Killed);
        }
        if !status.success() {
            return Err(Trouble(format!("told to end, it ended with {status}")));
        }
        Ok(Ending::Closed)
    }

    /// Waits until a victim that was told nothing has ended by itself; its exit code and words.
    ///
    /// # Errors
    /// [`Trouble`] when the ledger objects, or it does not end.
    pub fn ends_by_itself(
        &mut self,
        ledger: &mut Ledger,
    ) -> Result<(Option<i32>, String), Trouble> {
        self.closing = true;
        while self.hear_any(ledger)? {}
        let status = self.prey.ended().map_err(|error| Trouble(format!("no status: {error}")))?;
        Ok((status.code(), self.last_words()))
    }

    /// Whether it was told to end and takes no more requests.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether it came so far as to be ready.
    #[must_use]
    pub fn was_ready(&self) -> bool {
        self.ready_at.is_some()
    }

    /// Whether it was frozen.
    #[must_use]
    pub fn froze(&self) -> bool {
        self.froze
    }

    /// Whether recovery cut something off.
    #[must_use]
    pub fn found_torn(&self) -> bool {
        ["Torn", "Zeroed", "Unordered"].iter().any(|tail| self.ready.contains(tail))
    }

    /// How many checkpoints it was seen to take.
    #[must_use]
    pub fn checkpoints(&self) -> u64 {
        self.events.get("checkpoint done").copied().unwrap_or(0)
    }

    /// How often it told of trouble with the disk.
    #[must_use]
    pub fn troubles(&self) -> Vec<&str> {
        self.events.keys().filter_map(|event| event.strip_prefix("trouble ")).collect()
    }

    /// The process itself.
    pub fn prey(&mut self) -> &mut Prey {
        &mut self.prey
    }

    /// The last words on its stderr.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.prey.last_words()
    }

    fn read(
        &mut self,
        ledger: &mut Ledger,
        wanted: &[(Name, u64)],
    ) -> Result<Option<Bodies>, Trouble> {
        let mut bodies = Bodies::new();
        for some in wanted.chunks(BODIES_UNDERWAY) {
            for (key, offset) in some {
                self.ask(ledger, Ask::Body(*key, *offset));
            }
            while ledger.underway() > 0 {
                match self.hear(ledger)? {
                    None => return Ok(None),
                    Some(Heard::Body(key, offset, body)) => {
                        drop(bodies.insert((key, offset), body));
                    }
                    Some(other) => return Err(Trouble(format!("not asked for: {other:?}"))),
                }
            }
        }
        Ok(Some(bodies))
    }

    /// Counts what the victim tells of; whether the line was that.
    fn note_event(&mut self, line: &str) -> bool {
        let event = line.strip_prefix("event ");
        if let Some(event) = event {
            *self.events.entry(event.to_owned()).or_default() += 1;
        }
        event.is_some()
    }

    fn hear_any(&mut self, ledger: &mut Ledger) -> Result<bool, Trouble> {
        if self.ready_at.is_some() {
            return Ok(self.hear(ledger)?.is_some());
        }
        Ok(self.line()?.is_some())
    }

    /// The next line, with the plan carried out meanwhile; `None` when the victim is gone.
    fn line(&mut self) -> Result<Option<String>, Trouble> {
        let mut heard = clock();
        loop {
            while let Some(act) = self.due() {
                self.strike(act)?;
                heard = clock();
            }
            let wait = self.next_act_in().unwrap_or(PATIENCE).min(PATIENCE);
            match self.prey.listen(wait) {
                Said::Line(line) => return Ok(Some(line)),
                Said::Silent if heard.elapsed() > PATIENCE => {
                    let words = format!("silent for {} s: it hangs", PATIENCE.as_secs());
                    return Err(Trouble(words));
                }
                Said::Silent => {}
                Said::Gone if self.killed || self.closing => return Ok(None),
                Said::Gone => {
                    let status = self.prey.ended();
                    return Err(Trouble(format!("it ended by itself: {status:?}")));
                }
            }
        }
    }

    /// The next act, if its moment has come.
    fn due(&mut self) -> Option<Act> {
        let (trigger, act) = *self.plan.acts.front()?;
        let come = match trigger {
            Trigger::After(time) => self.since.elapsed() >= time,
            Trigger::AfterReady(time) => self.ready_at.is_some_and(|at| at.elapsed() >= time),
            Trigger::Answers(answers) => self.ready_at.is_some() && self.answers >= answers,
            Trigger::Event(event, times) => {
                self.events.get(event).is_some_and(|told| *told >= times)
            }
        };
        // Whoever asks for everything must be able to ask to the end.
        let come = come && (act != Act::Close || self.inquired);
        if come {
            self.plan.acts.pop_front();
        }
        come.then_some(act)
    }

    /// How long to wait for the next act, if that is a matter of time.
    fn next_act_in(&self) -> Option<Duration> {
        let (trigger, _) = self.plan.acts.front()?;
        match trigger {
            Trigger::After(time) => Some(time.saturating_sub(self.since.elapsed())),
            Trigger::AfterReady(time) => self.ready_at.map(|at| time.saturating_sub(at.elapsed())),
            Trigger::Answers(_) | Trigger::Event(..) => None,
        }
    }

    fn strike(&mut self, act: Act) -> Result<(), Trouble> {
        self.since = clock();
        let done = match act {
            Act::Kill => {
                self.killed = true;
                self.prey.kill()
            }
            Act::Freeze => {
                self.froze = true;
                self.prey.freeze()
            }
            Act::Thaw => self.prey.thaw(),
            Act::Close => {
                self.close();
                Ok(())
            }
        };
        done.map_err(|error| Trouble(format!("{act:?} failed: {error}")))
    }
}

//! What a server does while it runs.

use handoff_log::journal::{Purpose, Refused};
use handoff_log::segments::WriteError;
use handoff_store_embedded::{Applied, Checkpointing, Progress};
use handoff_types::{Span, Wall};

use super::Embedded;
use super::notes::Excuses;
use super::parts::Parts;
use super::process::Underway;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
use crate::room::{Command, Reply, note_frame};

/// More steps than a checkpoint of this room can have.
const CHECKPOINT_STEPS_MAX: usize = 1_000;

/// How often the mover may fail after the cause has ended: once to notice that it is poisoned.
const MOVER_TRIES: usize = 2;

impl<P: Parts> Embedded<P> {
    pub(super) fn command(&mut self, history: &mut History) -> Result<(), Fault> {
        let command = match self.oracle.crowded() {
            Some(key) => Command::Read { key },
            None => self.workload.next_command(),
        };
        self.send(&command, history).map(drop)
    }

    /// Time passes up to the room's next deadline, if there is one, and the room is driven.
    pub(super) fn tick(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        if let Some(deadline) = life.host.next_deadline() {
            let wait = deadline.since(self.clock.now().steady);
            self.clock.pass(wait.min(Span::from_secs(10)));
        }
        self.send(&Command::Tick, history).map(drop)
    }

    /// Sends a command and says whether it was admitted.
    pub(super) fn send(&mut self, command: &Command, history: &mut History) -> Result<bool, Fault> {
        let Some(life) = &mut self.life else { return Ok(false) };
        let moment = self.clock.tell();
        history.count(Kind::Sent, command.kind());
        history.tell(format_args!("at {}: {command}", moment.now));
        let purpose = match command {
            Command::Tick | Command::Release { .. } => Purpose::Finish,
            _ => Purpose::Accept,
        };
        let bodies = command.body().cloned().into_iter().collect();
        let chance = (moment.now, self.dice.entropy());
        match life.host.apply(command, bodies, purpose, chance) {
            Ok(Applied { reply, actions, ticket, sequence }) => {
                if let Some(sequence) = sequence {
                    self.ledger.appended(sequence, life.host.state(), moment);
                }
                let (command, now) = (command.clone(), moment.now);
                life.underway.push_back(Underway { command, now, reply, actions, ticket });
                self.release(history)?;
                Ok(true)
            }
            Err(refused) => {
                let (why, always) = match refused {
                    Refused::Busy { .. } => ("busy", true),
                    Refused::Full { .. } => ("journal full", true),
                    Refused::TooLarge { .. } => ("too large", true),
                    Refused::NoFile { .. } => ("no file", false),
                    Refused::Poisoned { .. } => ("poisoned", false),
                    _ => ("for no reason", false),
                };
                history.count(Kind::NotAdmitted, why);
                history.tell(format_args!("not admitted: {refused}"));
                ensure(always || self.is_excused(), || format!("{refused}, and no fault struck"))?;
                Ok(false)
            }
        }
    }

    pub(super) fn commit(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let committed = life.inline.commit();
        life.marked = committed.is_ok();
        let (what, words) = match &committed {
            Ok(()) => ("committed", String::new()),
            Err(stalled) => ("commit stalled", stalled.to_string()),
        };
        history.count(Kind::Storage, what);
        history.tell(format_args!("{what} {words}"));
        ensure(committed.is_ok() || self.is_excused(), || format!("{words}, and no fault struck"))?;
        self.release(history)?;
        let waiting = self.life.as_ref().map_or(0, |life| life.underway.len());
        ensure(committed.is_err() || waiting == 0, || format!("{waiting} wait after a commit"))
    }

    /// Answers whatever is durable, in the order it was decided, and lets the oracle judge.
    pub(super) fn release(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let mut answered = false;
        while let Some(outcome) = life.underway.front().and_then(|one| one.ticket.outcome()) {
            let Some(one) = life.underway.pop_front() else { break };
            let Underway { command, now, reply, actions, .. } = one;
            let committed = outcome.map_err(|lost| Fault::Invariant(lost.to_string()))?;
            self.ledger.told(committed.sequence);
            if let (Command::Note { key, .. }, Reply::Noted { offset }) = (&command, &reply) {
                self.notes.told(*key, offset + 1);
            }
            history.tell(format_args!("{command}: {reply}"));
            for action in &actions {
                history.count(Kind::Performed, action.kind());
                history.tell(format_args!("{action}"));
            }
            history.count_answer(&command, &reply);
            self.workload.heard(&command, &reply);
            self.oracle.acknowledged(&command, now, &reply, &actions)?;
            answered = true;
        }
        let skipped = life.underway.iter().any(|one| one.ticket.outcome().is_some());
        ensure(!skipped, || "an answer came before one that was decided earlier".to_owned())?;
        if answered { self.check_durable() } else { Ok(()) }
    }

    pub(super) fn copy(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let entries = 1 + usize::try_from(self.dice.below(6)).unwrap_or(0);
        let (what, words) = match life.host.bulk().copy(entries) {
            Ok(copied) => ("bodies copied", copied.to_string()),
            Err(error) => ("copy failed", error.to_string()),
        };
        self.note(what, &words, what == "copy failed", history)
    }

    pub(super) fn sync(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let synced = life.host.bulk().sync();
        match synced {
            Ok(()) => {
                self.note("segments synced", "", false, history)?;
                self.check_durable_bodies()
            }
            Err(error) => self.note("segments not synced", &error.to_string(), true, history),
        }
    }

    /// Takes some steps of a checkpoint, or begins one.
    pub(super) fn checkpoint(&mut self, history: &mut History) -> Result<(), Fault> {
        let steps = 1 + self.dice.below(20);
        for _ in 0..steps {
            match self.checkpoint_step(history)? {
                Some(Progress::More) => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Takes one step of a checkpoint. Gives nothing if it was given up.
    fn checkpoint_step(&mut self, history: &mut History) -> Result<Option<Progress>, Fault> {
        let now = self.clock.tell().now;
        let Some(life) = &mut self.life else { return Ok(None) };
        let progress = match &mut life.checkpoint {
            Some(checkpoint) => checkpoint.step(&mut life.host, now),
            None => {
                let bytes = 40 + usize::try_from(self.dice.below(1200)).unwrap_or(0);
                Checkpointing::begin::<P::Room>(&life.directory, bytes).map(|begun| {
                    life.checkpoint = Some(begun);
                    Progress::More
                })
            }
        };
        match progress {
            Ok(Progress::Done) => {
                life.checkpoint = None;
                self.note("checkpoint done", "", false, history)?;
                self.check_durable_bodies()?;
                Ok(Some(Progress::Done))
            }
            Ok(progress) => {
                let what = match progress {
                    Progress::Waiting => "checkpoint waits",
                    _ => "checkpoint goes on",
                };
                self.note(what, "", false, history)?;
                Ok(Some(progress))
            }
            Err(error) => {
                life.checkpoint = None;
                self.note("checkpoint given up", &error.to_string(), true, history)?;
                Ok(None)
            }
        }
    }

    /// Reads some bodies, those that nobody was told of as well.
    pub(super) fn read(&mut self, history: &mut History) -> Result<(), Fault> {
        let excused = self.is_excused();
        let Some(life) = &mut self.life else { return Ok(()) };
        let fault = excused || life.trouble.is_planned();
        let excuses = Excuses { fault, damage: self.damaged };
        let key = self.workload.key();
        let notes = life.host.state().tally(key).notes;
        for _ in 0..notes.min(4) {
            let note = (key, self.dice.below(notes));
            let what = self.notes.judge::<P>(&life.host, note, &mut self.oracle, excuses)?;
            history.count(Kind::Storage, what);
            history.tell(format_args!("note {} of {key}: {what}", note.1));
        }
        Ok(())
    }

    /// Gives up the oldest bodies of a key, by one of the three rules there are.
    pub(super) fn retain(&mut self, history: &mut History) -> Result<(), Fault> {
        let key = self.workload.key();
        let below = self.dice.below(self.notes.of(key) + 1);
        let rule = self.dice.below(3);
        let Some(life) = &mut self.life else { return Ok(()) };
        let lane = note_frame(key, 0).lane;
        let segments = life.host.bulk().segments();
        let (what, retained) = match rule {
            0 => {
                self.notes.give_up(key, below);
                ("trimmed by offset", segments.trim(lane, below))
            }
            1 => {
                self.notes.give_up(key, below);
                let older_than = Some(Wall(below.cast_signed()));
                ("retained by age", segments.retain(lane, None, older_than))
            }
            _ => {
                let keep = Some(self.dice.below(64 << 10));
                let retained = segments.end(lane).map_err(WriteError::from).and_then(|end| {
                    let retained = segments.retain(lane, keep, None);
                    self.notes.give_up(key, *retained.as_ref().unwrap_or(&end));
                    retained
                });
                ("retained by size", retained)
            }
        };
        match retained {
            Ok(start) => self.note(what, &format!("{key} begins at {start}"), false, history),
            Err(error) => self.note("retention failed", &error.to_string(), true, history),
        }
    }

    pub(super) fn strike(&mut self, history: &mut History) -> Result<(), Fault> {
        if let Some(life) = &mut self.life {
            life.trouble.plan(&mut self.dice, history);
        }
        Ok(())
    }

    /// The cause of the trouble ends. Whether anybody looks at once is another matter.
    pub(super) fn mend(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        if !life.trouble.is_planned() {
            return Ok(());
        }
        life.trouble.end(history);
        if self.dice.one_in(2) { self.relieve(history) } else { Ok(()) }
    }

    /// Ends every fault. From then on everything works again, without anybody's help.
    pub(super) fn relieve(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        life.trouble.end(history);
        life.trouble.report(history);
        let relieved = self.go_on(history);
        match relieved {
            Ok(()) => {
                if let Some(life) = &mut self.life {
                    life.trouble.forget();
                }
                history.count(Kind::Storage, "relieved");
                Ok(())
            }
            // A machine that stops in the middle cannot go on.
            Err(_) if self.disk.is_halted() => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    fn go_on(&mut self, history: &mut History) -> Result<(), Fault> {
        self.commit(history)?;
        let Some(life) = &mut self.life else { return Ok(()) };
        let waiting = life.underway.len();
        ensure(waiting == 0, || format!("{waiting} still wait though the disk is well"))?;
        let mut moved = Ok(0);
        for _ in 0..MOVER_TRIES {
            let bulk = life.host.bulk();
            moved = bulk.copy(usize::MAX).and_then(|copied| bulk.sync().map(|()| copied));
            if moved.is_ok() {
                break;
            }
        }
        if let Err(error) = moved {
            return Err(Fault::Invariant(format!("{error}, though the disk is well")));
        }
        life.checkpoint = None;
        let well = "though the disk is well";
        let mut steps = 0;
        loop {
            steps += 1;
            ensure(steps < CHECKPOINT_STEPS_MAX, || format!("a checkpoint never ends {well}"))?;
            match self.checkpoint_step(history)? {
                Some(Progress::Done) => break,
                Some(_) => {}
                None => return Err(Fault::Invariant(format!("a checkpoint is given up {well}"))),
            }
        }
        let read = Command::Read { key: self.workload.key() };
        let admitted = self.send(&read, history)?;
        ensure(admitted, || format!("nothing is admitted {well}"))
    }

    /// Writes down what storage did, and that an error came from somewhere.
    fn note(
        &mut self,
        what: &'static str,
        words: &str,
        failed: bool,
        history: &mut History,
    ) -> Result<(), Fault> {
        history.count(Kind::Storage, what);
        history.tell(format_args!("{what} {words}"));
        ensure(!failed || self.is_excused(), || format!("{what}: {words}, and no fault struck"))
    }

    /// Whether the disk is to blame for whatever does not work.
    fn is_excused(&self) -> bool {
        let struck = self.life.as_ref().is_some_and(|life| life.trouble.excuses());
        struck || self.disk.is_halted()
    }
}

//! `handoff exchange simulate`

mod erp;
mod ledger;
mod phone;
mod progress;
mod setup;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_sdk::exchange::{Entry, MessageQuery};
use handoff_sdk::{Client, Error, Options};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};

use self::ledger::{Counts, Ledger, Summary};
use self::phone::Pace;
use self::progress::Progress;
use self::setup::Phone;
use super::super::stopping::listen;
use super::{Context, all, or_dash};
use crate::cli::{Rate, SimulateArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

/// How many requests are under way at once, and how many connections are kept.
const CONNECTIONS: usize = 64;

/// How often all devices together look for messages.
const LOOKS_A_SECOND: f64 = 400.0;

/// How often one device looks at most.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long nothing may happen before the rest is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long tasks may take to end.
const ENDING: Duration = Duration::from_secs(40);

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Devices send.
    Sending,
    /// What was sent is processed and answered.
    Ending,
    /// What is under way is finished.
    Over,
}

/// What all tasks share.
struct Shared {
    terminal: Terminal,
    run: String,
    phase: watch::Sender<Phase>,
    permits: Arc<Semaphore>,
    ledger: Mutex<Ledger>,
    /// Whether people know that something fails.
    troubled: AtomicBool,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first failure is told; a thousand devices would tell it a thousand times.
    fn trouble(&self, error: &Error) {
        if !self.troubled.swap(true, Ordering::Relaxed) {
            let failure = Failure::of(error);
            self.terminal.warn(&format!("{failure}\n  more of the kind is counted, not told"));
        }
    }
}

/// Sets up, runs, counts, and says whether anything was lost or doubled.
pub(super) async fn run(context: Context<'_>, args: SimulateArgs) -> Result<(), Failure> {
    let terminal = context.terminal;
    let url = context.surroundings.url(context.global)?;
    let options = Options::new(url).idle_connections_max(CONNECTIONS);
    let client = context.surroundings.client_with(options, context.global)?;
    let mut stop = listen();
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let set_up = async {
        let database = setup::entities(client.exchange(), terminal, &args).await?;
        let phones = setup::phones(&client, terminal, &args, &permits).await?;
        Ok::<_, Failure>((database, phones))
    };
    // All of it may be dropped: what was made stays, and the next run finds it.
    let (database, phones) = tokio::select! {
        made = set_up => made?,
        _ = stop.wait_for(|stop| *stop) => return Err(stopped()),
    };
    let run = format!("{:08x}", RandomState::new().build_hasher().finish() >> 32);
    let shared = Arc::new(Shared {
        terminal: *terminal,
        run: run.clone(),
        phase: watch::Sender::new(Phase::Sending),
        permits,
        ledger: Mutex::new(Ledger::new(run)),
        troubled: AtomicBool::new(false),
    });
    terminal.talk(&format!(
        "{} devices send to database {database} for {} s; stop with Ctrl-C",
        args.devices, args.seconds
    ));
    let begun = Instant::now();
    let look_every = look_every(args.devices);
    let mut tasks = start(&shared, &client, &database, phones, &args, look_every);
    conduct(&shared, &args, &mut stop, begun, PATIENCE.max(look_every * 3)).await;
    shared.phase.send_replace(Phase::Over);
    let sent_for = begun.elapsed().as_secs();
    let ended = timeout(ENDING, async { while tasks.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        terminal.warn("some requests were never answered; they are given up");
        tasks.shutdown().await;
    }
    let asked = ask_server(&shared, &client, &database).await;
    let summary = shared.ledger().summary(args.devices, sent_for, asked.is_ok());
    tell(terminal, &summary, &database, args.erp)?;
    asked
}

/// Starts everybody.
fn start(
    shared: &Arc<Shared>,
    client: &Client,
    database: &str,
    phones: Vec<Phone>,
    args: &SimulateArgs,
    look_every: Duration,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let ids = phones.iter().map(|phone| phone.id.clone()).collect();
    let period = period(args.devices, args.rate);
    let size = usize::try_from(args.size).unwrap_or(usize::MAX);
    let now = Instant::now();
    for phone in phones {
        let phone = Arc::new(phone);
        // They do not all begin at once.
        let part = f64::from(phone.number) / f64::from(args.devices);
        let first = now + period.unwrap_or_default().mul_f64(part);
        let pace = Pace { first, period, size };
        tasks.spawn(phone::send(Arc::clone(shared), Arc::clone(&phone), pace));
        let first = now + look_every.mul_f64(part);
        tasks.spawn(phone::read(Arc::clone(shared), phone, first, look_every));
    }
    if args.erp {
        let (client, database) = (client.clone(), database.to_owned());
        tasks.spawn(erp::run(Arc::clone(shared), client, database, ids));
    }
    tasks
}

/// Lets them send, then waits for the rest as long as something happens.
async fn conduct(
    shared: &Shared,
    args: &SimulateArgs,
    stop: &mut watch::Receiver<bool>,
    begun: Instant,
    patience: Duration,
) {
    let sending = Duration::from_secs(args.seconds);
    let mut progress = Progress::new(&shared.terminal);
    let mut ticks = interval(Duration::from_millis(100));
    let mut last = (begun, shared.ledger().counts());
    loop {
        // Both may be dropped: that it is told to stop stays so.
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
        let (now, counts) = (Instant::now(), shared.ledger().counts());
        progress.draw(counts, now.duration_since(begun), args.erp);
        // To try again is no progress.
        let counts = Counts { retries: 0, ..counts };
        if counts != last.1 {
            last = (now, counts);
        }
        if now.duration_since(begun) < sending {
            last.0 = now;
            continue;
        }
        if *shared.phase.borrow() == Phase::Sending {
            shared.phase.send_replace(Phase::Ending);
            last.0 = now;
            // What was begun before is counted by the next look.
            continue;
        }
        let all_answered = counts.acknowledged + counts.refused >= counts.sent;
        let is_done = all_answered && (!args.erp || shared.ledger().is_settled());
        if is_done || now.duration_since(last.0) > patience {
            break;
        }
    }
    progress.clear();
}

/// What the server has of this run, in whatever folder.
async fn ask_server(shared: &Shared, client: &Client, database: &str) -> Result<(), Failure> {
    let Some(first) = shared.ledger().first_seq() else { return Ok(()) };
    let room = client.exchange();
    let before = first.saturating_sub(1).to_string();
    let ask = async |after: Option<&str>, most| {
        let query = MessageQuery::new().after(after.unwrap_or(&before)).limit(most);
        room.messages(database, &query).await
    };
    all(None, ask, |entry: Entry| {
        shared.ledger().known(&entry.id);
        Ok(())
    })
    .await
}

/// The end of it: figures to stdout, and loud words if a promise was broken.
fn tell(terminal: &Terminal, summary: &Summary, database: &str, erp: bool) -> Result<(), Failure> {
    if terminal.json {
        terminal.print_json(summary)?;
    } else {
        terminal.record(&rows(summary, erp))?;
    }
    let lost = summary.lost.unwrap_or_default();
    if lost + summary.doubled > 0 {
        let what = format!(
            "{lost} messages are LOST and {} are DOUBLED, of {} acknowledged and {} replies",
            summary.doubled, summary.acknowledged, summary.replies
        );
        let remedy = format!(
            "keep the data directory; look at `handoff exchange log {database}` and report it"
        );
        return Err(Failure::new(Exit::Failed, what).remedy(remedy));
    }
    if summary.acknowledged == 0 {
        let what = "no message was acknowledged";
        return Err(Failure::new(Exit::Failed, what).remedy("see the warning above"));
    }
    if summary.lost.is_none() {
        terminal.warn("nobody knows whether anything is lost: the server could not be asked");
        return Ok(());
    }
    terminal.talk("nothing is lost, nothing is doubled");
    if summary.waiting > 0 && !erp {
        terminal.talk("with --erp, or an ERP of your own, they are processed and answered");
    }
    Ok(())
}

fn rows(summary: &Summary, erp: bool) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("devices", u64::from(summary.devices)),
        ("seconds", summary.seconds),
        ("sent", summary.sent),
        ("acknowledged", summary.acknowledged),
    ];
    let mut some = |name, value| {
        if value > 0 {
            rows.push((name, value));
        }
    };
    some("refused", summary.refused);
    some("never answered", summary.unanswered);
    some("sent once more", summary.retries);
    if erp {
        rows.extend([
            ("served to the ERP", summary.served),
            ("processed", summary.processed),
            ("deadlocks", summary.deadlocks),
            ("incorrect", summary.incorrect),
            ("replies", summary.replies),
            ("replies received", summary.received),
        ]);
    }
    let mut some = |name, value| {
        if value > 0 {
            rows.push((name, value));
        }
    };
    // With an ERP of our own they are the server's, about messages that could not be processed.
    let others = if erp { "told of an error" } else { "replies received" };
    some(others, summary.other_replies);
    some("processed of earlier runs", summary.older_processed);
    some("received of earlier runs", summary.older);
    some("waiting for the ERP", summary.waiting);
    some("waiting for devices", summary.replies_waiting);
    let mut rows: Vec<_> =
        rows.into_iter().map(|(name, value)| (name, value.to_string())).collect();
    rows.push(("lost", or_dash(summary.lost)));
    rows.push(("doubled", summary.doubled.to_string()));
    rows
}

/// How long a device waits between two messages; none: not at all.
fn period(devices: u32, rate: Option<Rate>) -> Option<Duration> {
    match rate {
        None => Some(Duration::from_secs(1)),
        Some(Rate::Max) => None,
        Some(Rate::Of(rate)) => Duration::try_from_secs_f64(f64::from(devices) / rate).ok(),
    }
}

/// How long a device waits between two looks.
fn look_every(devices: u32) -> Duration {
    LOOK_EVERY.max(Duration::from_secs_f64(f64::from(devices) / LOOKS_A_SECOND))
}

/// It was told to stop before it had begun.
fn stopped() -> Failure {
    Failure::new(Exit::Failed, "stopped before it had begun; what was made stays")
}

#[cfg(test)]
mod tests {
    use super::{Summary, look_every, period, rows};
    use crate::cli::Rate;
    use std::time::Duration;

    #[test]
    fn the_rate_is_that_of_all_devices_together() {
        assert_eq!(period(10, None), Some(Duration::from_secs(1)));
        assert_eq!(period(10, Some(Rate::Of(5.0))), Some(Duration::from_secs(2)));
        assert_eq!(period(10, Some(Rate::Max)), None);
    }

    #[test]
    fn many_devices_look_more_seldom() {
        assert_eq!(look_every(10), Duration::from_millis(500));
        assert_eq!(look_every(4000), Duration::from_secs(10));
    }

    #[test]
    fn what_did_not_happen_is_not_told_but_that_nothing_is_lost_is() {
        let summary = Summary { devices: 3, acknowledged: 5, waiting: 5, ..Summary::default() };
        let rows = rows(&summary, false);
        let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
        let expected = ["devices", "seconds", "sent", "acknowledged", "waiting for the ERP"];
        assert_eq!(names, [&expected[..], &["lost", "doubled"]].concat());
    }
}

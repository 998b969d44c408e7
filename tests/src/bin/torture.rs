//! The long torture of one room: for as long as asked, killed processes and crash states of the
//! simulator take turns. `scripts/torture` starts it.
//!
//! Stdout has the summary, stderr tells how it goes. A failure names the seed to begin with and
//! leaves the data directory where it is.

use clap::{Parser, ValueEnum};
use handoff_calls::conformance::model;
use handoff_sim::history::Keep;
use handoff_sim::scenario::{Scenario, run};
use handoff_tests::hunt::Hunt;
use handoff_tests::on_redis::OnServer;
use handoff_tests::on_redis::twin::Twins;
use handoff_tests::place::Place;
use handoff_tests::redis::Server;
use handoff_tests::stalk::{Bag, Hunts};
use handoff_tests::{calling, groups, letters, mailbox, relay, reminders, storm};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many victims live in one data directory. Then everything is read back, and a fresh one is
/// begun.
const LIVES: u64 = 60;

/// How much of the time goes to simulated seeds, between two directories.
const SEEDS_TIME: Duration = Duration::from_secs(8);

/// Tortures one room.
#[derive(Clone, Parser)]
struct Arguments {
    /// Which
    room: Tortured,
    /// For how many seconds
    #[arg(long)]
    for_secs: u64,
    /// Where to begin
    #[arg(long)]
    seed: u64,
    /// Where the data directories are made; beside this program if nobody says otherwise
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Tortured {
    /// The journal, segments and checkpoints
    Log,
    /// The events room of the real server
    Events,
    /// The streams room of the real server
    Streams,
    /// Groups of the real server, and their consumers
    Groups,
    /// The exchange of the real server, with devices and ERPs
    Exchange,
    /// Calls of the real server, and on Redis
    Calls,
    /// The agent of the relay, and the centres it sends to
    Relay,
    /// Agents of the relay that come back together
    Herd,
    /// A Prometheus at both ends of the relay, and a long outage between them
    Prometheus,
}

#[derive(Default)]
struct Sum {
    directories: u64,
    kills: u64,
    kills_at_start: u64,
    clean_ends: u64,
    freezes: u64,
    torn: u64,
    checkpoints: u64,
    acknowledged: u64,
    refused: u64,
    turned_away: u64,
    unknown_there: u64,
    unknown_missing: u64,
    bodies: u64,
    seeds: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let tortured = match arguments.room {
        Tortured::Log => torture_log(&arguments),
        Tortured::Events => torture_events(&arguments),
        Tortured::Streams => torture_streams(&arguments),
        Tortured::Groups => torture_groups(&arguments),
        Tortured::Exchange => torture_exchange(&arguments),
        Tortured::Calls => torture_calls(&arguments),
        Tortured::Relay => torture_relay(&arguments),
        Tortured::Herd => torture_herd(&arguments),
        Tortured::Prometheus => torture_prometheus(&arguments),
    };
    match tortured {
        Ok(summary) => {
            print(&summary);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Where this program lies, and what it starts.
fn programs() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    Ok(here.parent().unwrap_or(Path::new(".")).to_owned())
}

/// A program that lies beside this one.
fn beside(name: &str) -> Result<PathBuf, String> {
    let program = programs()?.join(name);
    if program.is_file() {
        return Ok(program);
    }
    let words = format!("cargo build -p handoff-tests --bin {name}, with this program's profile");
    Err(format!("there is no {}: {words}", program.display()))
}

/// One data directory after the other until time is over, with simulated seeds between them.
fn follow<H: Hunts>(
    arguments: &Arguments,
    (room, scenarios): (&str, &[Scenario]),
    begin: impl Fn(u64, &Path) -> H,
    mut seen: impl FnMut(&H),
) -> Result<Sum, String> {
    let parent = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => programs()?.join("torture-data"),
    };
    let over = clock() + Duration::from_secs(arguments.for_secs);
    let mut sum = Sum::default();
    let mut bag = Bag::default();
    let mut simulated = arguments.seed;
    for round in 0.. {
        let seed = arguments.seed.wrapping_add(round);
        let mut place = Place::below(&parent).map_err(|error| format!("no directory: {error}"))?;
        let mut hunt = begin(seed, place.path());
        let mut hunted = Ok(());
        for _ in 0..LIVES {
            hunted = hunted.and_then(|()| hunt.life());
            if hunted.is_err() || clock() >= over {
                break;
            }
        }
        if let Err(found) = hunted.and_then(|()| hunt.finish()) {
            place.keep();
            return Err(format!("{found}\nagain: scripts/torture {room} --seed {seed}"));
        }
        bag += hunt.bag();
        seen(&hunt);
        sum.directories += 1;
        simulate(&mut simulated, scenarios, over, &mut sum)?;
        eprintln!("seed {seed}: {bag:?}, {} simulated seeds", sum.seeds);
        if clock() >= over {
            break;
        }
    }
    (sum.kills, sum.kills_at_start) = (bag.kills, bag.kills_at_start);
    (sum.freezes, sum.clean_ends) = (bag.freezes, bag.clean_ends);
    Ok(sum)
}

/// What is told of every hunt on real servers.
fn followed(sum: &Sum) -> Summary {
    vec![
        ("data directories", sum.directories),
        ("servers killed", sum.kills),
        ("  before being ready", sum.kills_at_start),
        ("servers frozen", sum.freezes),
        ("servers ended", sum.clean_ends),
        ("simulated seeds", sum.seeds),
    ]
}

fn torture_events(arguments: &Arguments) -> Result<Summary, String> {
    let mut outcomes = reminders::Outcomes::default();
    let sum = follow(arguments, ("events", &[Scenario::Events]), reminders::Hunt::new, |hunt| {
        outcomes += hunt.outcomes();
    })?;
    let mut summary = followed(&sum);
    summary.extend([
        ("registered", outcomes.acknowledged),
        ("refused by the rules", outcomes.refused),
        ("unknown, there", outcomes.unknown_there),
        ("unknown, not there", outcomes.unknown_missing),
        ("deleted", outcomes.deleted),
        ("notified", outcomes.notified),
        ("events looked at", outcomes.looked),
    ]);
    Ok(summary)
}

fn torture_exchange(arguments: &Arguments) -> Result<Summary, String> {
    let mut outcomes = mailbox::Outcomes::default();
    let worlds = [Scenario::Exchange];
    let sum = follow(arguments, ("exchange", &worlds), mailbox::Hunt::new, |hunt| {
        outcomes += hunt.outcomes();
    })?;
    let mut summary = followed(&sum);
    summary.extend([
        ("messages stored", outcomes.stored),
        ("messages served", outcomes.served),
        ("transactions committed", outcomes.committed),
        ("transactions rolled back", outcomes.rolled_back),
        ("answers lost", outcomes.lost),
        ("calls cancelled", outcomes.cancelled),
        ("replies used", outcomes.replies),
        ("processes left unknown", outcomes.unknown),
    ]);
    Ok(summary)
}

/// Half of the time the real server, the other half Redis.
fn torture_calls(arguments: &Arguments) -> Result<Summary, String> {
    let mut outcomes = calling::Outcomes::default();
    let half = Arguments { for_secs: arguments.for_secs.div_ceil(2), ..arguments.clone() };
    let sum = follow(&half, ("calls", &[Scenario::Calls]), calling::Hunt::new, |hunt| {
        outcomes += hunt.outcomes();
    })?;
    let (weather, schedules) = torture_redis(&half);
    let mut summary = followed(&sum);
    summary.extend([
        ("confirmed", outcomes.registered),
        ("  answered", outcomes.answered),
        ("  ended otherwise", outcomes.failed),
        ("begun", outcomes.begun),
        ("too late", outcomes.late),
        ("said again", outcomes.again),
        ("answered on Redis", weather.answered),
        ("links swallowed", weather.holes),
        ("Redis frozen", weather.freezes),
        ("Redis killed", weather.kills),
        ("scripts forgotten", weather.flushes),
        ("connections closed", weather.closed),
        ("schedules on Redis", schedules),
    ]);
    Ok(summary)
}

/// Storms, and between them schedules: some on Redis alone, some that the machine goes through as well.
fn torture_redis(arguments: &Arguments) -> (storm::Weather, u64) {
    let over = clock() + Duration::from_secs(arguments.for_secs);
    let (mut weather, mut schedules) = (storm::Weather::default(), 0);
    let mut seed = arguments.seed;
    while clock() < over {
        let again = Again(seed);
        weather += storm::rage(seed);
        let server = Server::start();
        let until = over.min(clock() + SEEDS_TIME);
        let runtime = storm::runtime();
        while clock() < until {
            let one = seed..seed.wrapping_add(1);
            runtime.block_on(model::schedules(&OnServer(&server), one.clone()));
            runtime.block_on(model::schedules_without_choice(&Twins(&server), one));
            seed = seed.wrapping_add(1);
            schedules += 2;
        }
        eprintln!("seed {}: {weather:?}, {schedules} schedules", again.0);
    }
    (weather, schedules)
}

/// Says where a panic can be met again.
struct Again(u64);

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again: scripts/torture calls --seed {}", self.0);
        }
    }
}

/// One directory after the other until time is over: agents killed, centres that come and go.
fn torture_relay(arguments: &Arguments) -> Result<Summary, String> {
    let parent = parent_of(arguments)?;
    let keeper = beside("keeper")?;
    let over = clock() + Duration::from_secs(arguments.for_secs);
    let mut sum = relay::Outcomes::default();
    let (mut directories, mut servers, mut keepers) = (0, 0, 0);
    while clock() < over {
        let seed = arguments.seed.wrapping_add(directories);
        let mut place = Place::below(&parent).map_err(|error| format!("no directory: {error}"))?;
        let hunt = relay::Hunt::new(seed, place.path());
        let mut hunt = hunt.map_err(|error| format!("no centre: {error}"))?;
        let mut hunted = Ok(());
        for _ in 0..LIVES {
            hunted = hunted.and_then(|()| hunt.life());
            if hunted.is_err() || clock() >= over {
                break;
            }
        }
        if let Err(found) = hunted.and_then(|()| hunt.finish()) {
            place.keep();
            return Err(format!("{found}\nagain: scripts/torture relay --seed {seed}"));
        }
        directories += 1;
        sum += hunt.outcomes();
        for kept_by in [None, Some(&keeper)] {
            let (outcomes, killed) = chase(&parent, kept_by.map(PathBuf::as_path), seed, over)?;
            directories += 1;
            sum += outcomes;
            servers += killed.0;
            keepers += killed.1;
        }
        eprintln!("{directories} directories, {} kills, {servers} of servers", sum.kills);
    }
    Ok(vec![
        ("directories", directories),
        ("kills", sum.kills),
        ("  before ready", sum.kills_at_start),
        ("kills of servers", servers),
        ("kills of programs that keep samples", keepers),
        ("clean ends", sum.clean_ends),
        ("samples acknowledged", sum.acknowledged),
        ("samples refused", sum.refused),
        ("samples unknown", sum.unknown),
        ("refill files found", sum.found_files),
    ])
}

/// Agent and server, both killed, and a program that keeps samples if there is one. What became of
/// samples, and how many servers and programs were killed.
fn chase(
    parent: &Path,
    keeper: Option<&Path>,
    seed: u64,
    over: Instant,
) -> Result<(relay::Outcomes, (u64, u64)), String> {
    let mut place = Place::below(parent).map_err(|error| format!("no directory: {error}"))?;
    let chase = match keeper {
        Some(program) => relay::Chase::keeping(program, false, seed, place.path()),
        None => relay::Chase::new(seed, place.path()),
    };
    let mut chase = chase.map_err(|error| format!("no receiver: {error}"))?;
    let mut chased = Ok(());
    for _ in 0..LIVES {
        chased = chased.and_then(|()| chase.round());
        if chased.is_err() || clock() >= over {
            break;
        }
    }
    if let Err(found) = chased.and_then(|()| chase.finish()) {
        place.keep();
        return Err(format!("{found}\nagain: scripts/torture relay --seed {seed}"));
    }
    let (outcomes, servers) = chase.outcomes();
    Ok((outcomes, (servers, chase.keepers())))
}

/// Twenty agents that come back together, after an outage of a sixth of the time. Draining takes about
/// as long as the outage, and reading the topic some more.
fn torture_herd(arguments: &Arguments) -> Result<Summary, String> {
    let place = Place::below(&parent_of(arguments)?).map_err(|error| error.to_string())?;
    let outage = Duration::from_secs((arguments.for_secs / 6).max(10));
    let figures = relay::herd(place.path(), 20, outage).map_err(|error| error.to_string())?;
    eprintln!("{figures:?}");
    if figures.steady.iter().zip(&figures.peak).any(|(steady, peak)| *peak > 2.0 * steady) {
        return Err(format!("more than twice the usual rate was taken: {figures:?}"));
    }
    if figures.lag >= Duration::from_secs(30) {
        return Err(format!("what is new was late: {figures:?}"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    let rate = |rate: f64| rate as u64;
    Ok(vec![
        ("agents", 20),
        ("samples, each once", figures.samples),
        ("samples a second, usually", rate(figures.steady[0])),
        ("  in three seconds", rate(figures.steady[1])),
        ("samples a second, at most", rate(figures.peak[0])),
        ("  in three seconds", rate(figures.peak[1])),
        ("seconds gone", outage.as_secs()),
        ("seconds until all had arrived", figures.drained.as_secs()),
        ("milliseconds what is new was late", u64::try_from(figures.lag.as_millis()).unwrap_or(0)),
    ])
}

/// The server is gone for all but a minute of the time, and the agent killed meanwhile.
fn torture_prometheus(arguments: &Arguments) -> Result<Summary, String> {
    let place = Place::below(&parent_of(arguments)?).map_err(|error| error.to_string())?;
    // A Prometheus is asked for the last ten minutes.
    let outage = Duration::from_secs(arguments.for_secs.saturating_sub(60).clamp(20, 480));
    let ends = relay::long_outage(place.path(), outage, 3);
    let (series, samples) = ends.map_err(|error| error.to_string())?;
    Ok(vec![
        ("seconds gone", outage.as_secs()),
        ("agents killed meanwhile", 3),
        ("series that both ends have", series as u64),
        ("samples that both ends have", samples as u64),
    ])
}

/// Where directories are made.
fn parent_of(arguments: &Arguments) -> Result<PathBuf, String> {
    match &arguments.dir {
        Some(dir) => Ok(dir.clone()),
        None => Ok(programs()?.join("torture-data")),
    }
}

fn torture_streams(arguments: &Arguments) -> Result<Summary, String> {
    let mut outcomes = letters::Outcomes::default();
    let worlds = [Scenario::Streams, Scenario::StreamsBrokers];
    let sum = follow(arguments, ("streams", &worlds), letters::Hunt::new, |hunt| {
        outcomes += hunt.outcomes();
    })?;
    let mut summary = followed(&sum);
    summary.extend(written(outcomes));
    Ok(summary)
}

/// What is told of what was written.
fn written(outcomes: letters::Outcomes) -> Summary {
    vec![
        ("acknowledged", outcomes.acknowledged),
        ("  as duplicates", outcomes.duplicates),
        ("refused by the rules", outcomes.refused),
        ("unknown, there", outcomes.unknown_there),
        ("unknown, not there", outcomes.unknown_missing),
        ("delivered later", outcomes.delivered),
        ("cancelled", outcomes.cancelled),
        ("messages read", outcomes.read),
    ]
}

fn torture_groups(arguments: &Arguments) -> Result<Summary, String> {
    let consumer = beside("consumer")?;
    let (mut asked, mut read) = (letters::Outcomes::default(), groups::Outcomes::default());
    let begin = |seed, place: &Path| groups::Hunt::new(seed, consumer.clone(), place);
    let worlds = [Scenario::Groups, Scenario::GroupsBrokers];
    let sum = follow(arguments, ("groups", &worlds), begin, |hunt| {
        asked += hunt.written();
        read += hunt.read();
    })?;
    let mut summary = followed(&sum);
    summary.extend(written(asked));
    summary.extend([
        ("consumers", read.consumers),
        ("  killed", read.consumers_killed),
        ("  frozen", read.consumers_frozen),
        ("handed out", read.handed_out),
        ("  again", read.again),
        ("counted: ok", read.ok),
        ("  failed", read.failed),
        ("  retry", read.retried),
        ("fenced", read.refused),
        ("unanswered, there", read.unknown_there),
        ("unanswered, not there", read.unknown_missing),
        ("dead letters", read.dead),
        ("stored with a commit", read.copies),
    ]);
    Ok(summary)
}

fn torture_log(arguments: &Arguments) -> Result<Summary, String> {
    let victim = beside("victim")?;
    let programs = programs()?;
    let parent = arguments.dir.clone().unwrap_or_else(|| programs.join("torture-data"));
    let over = clock() + Duration::from_secs(arguments.for_secs);
    let mut sum = Sum::default();
    let mut simulated = arguments.seed;
    for round in 0.. {
        let seed = arguments.seed.wrapping_add(round);
        hunt(seed, &victim, &parent, over, &mut sum)
            .map_err(|failure| format!("{failure}\nagain: scripts/torture log --seed {seed}"))?;
        simulate(&mut simulated, &Scenario::ALL, over, &mut sum)?;
        eprintln!(
            "seed {seed}: {} kills, {} acknowledged, {} unknown, {} simulated seeds",
            sum.kills,
            sum.acknowledged,
            sum.unknown_there + sum.unknown_missing,
            sum.seeds
        );
        if clock() >= over {
            break;
        }
    }
    Ok(vec![
        ("data directories", sum.directories),
        ("victims killed", sum.kills),
        ("  before being ready", sum.kills_at_start),
        ("victims frozen", sum.freezes),
        ("victims ended", sum.clean_ends),
        ("tails cut", sum.torn),
        ("checkpoints", sum.checkpoints),
        ("acknowledged", sum.acknowledged),
        ("refused by the rules", sum.refused),
        ("turned away", sum.turned_away),
        ("unknown, there", sum.unknown_there),
        ("unknown, not there", sum.unknown_missing),
        ("bodies compared", sum.bodies),
        ("simulated seeds", sum.seeds),
    ])
}

/// One data directory, until time or its lives are over; then everything is read back.
fn hunt(
    seed: u64,
    victim: &Path,
    parent: &Path,
    over: Instant,
    sum: &mut Sum,
) -> Result<(), String> {
    let mut place = Place::below(parent).map_err(|error| format!("no directory: {error}"))?;
    let mut hunt = Hunt::new(seed, victim, place.path());
    let mut hunted = Ok(());
    for _ in 0..LIVES {
        hunted = hunted.and_then(|()| hunt.life());
        if hunted.is_err() || clock() >= over {
            break;
        }
    }
    if let Err(found) = hunted.and_then(|()| hunt.finish()) {
        place.keep();
        return Err(found.to_string());
    }
    let (bag, outcomes) = (hunt.bag(), hunt.outcomes());
    sum.directories += 1;
    sum.kills += bag.kills;
    sum.kills_at_start += bag.kills_at_start;
    sum.clean_ends += bag.clean_ends;
    sum.freezes += bag.freezes;
    sum.torn += bag.torn;
    sum.checkpoints += bag.checkpoints;
    sum.acknowledged += outcomes.acknowledged;
    sum.refused += outcomes.refused;
    sum.turned_away += outcomes.turned_away;
    sum.unknown_there += outcomes.unknown_there;
    sum.unknown_missing += outcomes.unknown_missing;
    sum.bodies += outcomes.bodies;
    Ok(())
}

/// Seeds of these worlds, crashes and disk faults included.
fn simulate(
    seed: &mut u64,
    scenarios: &[Scenario],
    over: Instant,
    sum: &mut Sum,
) -> Result<(), String> {
    let until = over.min(clock() + SEEDS_TIME);
    while clock() < until {
        for scenario in scenarios.iter().copied() {
            run(scenario, *seed, scenario.steps(), Keep::Last).map_err(|it| it.to_string())?;
            sum.seeds += 1;
        }
        *seed = seed.wrapping_add(1);
    }
    Ok(())
}

/// What happened, and how often.
type Summary = Vec<(&'static str, u64)>;

#[expect(clippy::print_stdout, reason = "the summary is what this program is asked for")]
fn print(summary: &Summary) {
    for (what, count) in summary {
        println!("{what:<22}{count:>9}");
    }
}

#[expect(clippy::disallowed_methods, reason = "it is asked to run for a time")]
fn clock() -> Instant {
    Instant::now()
}

//! A room that goes on while it is written down.
//!
//! Totals and the next id are touched by what happens to every event, and the chunk that holds them
//! is true at another record than the chunks of the events. Replay must find each as it was: a
//! registration that the one has and the other has not is made once and counted once.

use std::sync::Arc;

use handoff_events::cron::Cron;
use handoff_events::{
    Bounds, CatchUp, Command, Events, Id, Letters, Period, Publish, Publishing, Registration,
    Reply, Schedule, Selection, State, Tardiness, Totals,
};
use handoff_log::directory::Directory;
use handoff_log::disk::{Disk, Memory};
use handoff_log::journal::{Inline, Options, Purpose};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Checkpointing, Host, Loading, Progress, open_journal};
use handoff_types::{Entropy, Limits, Now, Sight, Span, Steady, Wall};
use proptest::prelude::*;

struct Server {
    directory: Directory,
    journal: Arc<Inline>,
    host: Host<Events>,
    now: Now,
}

fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 1 << 20,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 256 << 10,
        change_bytes_max: 64 << 10,
        segment_bytes: 8 << 10,
        ..Limits::default()
    }
}

impl Server {
    fn open(disk: Arc<dyn Disk>) -> Self {
        let entropy = Entropy(7);
        let directory = Directory::open(disk, entropy).unwrap();
        let mut loading = Loading::<Events>::begin(&directory).unwrap();
        let options = Options { limits: limits(), directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).unwrap();
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().unwrap();
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits()).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        let now = Now { wall: Wall(1_800_000_000_000_000), steady: Steady(1_000) };
        Self { directory, journal, host, now }
    }

    fn apply(&mut self, command: &Command) -> Reply {
        let when = (self.now, Entropy(0));
        self.host.apply(command, vec![], Purpose::Accept, when).unwrap().reply
    }

    fn state(&self) -> &State {
        self.host.state()
    }
}

const PUBLISHING: Publishing = Publishing { pending_max: 2, letters_max: 3 };

fn register(schedule: Schedule, repeat: i32) -> Command {
    Command::Register {
        event: Registration {
            description: "a description".to_owned(),
            types: vec!["a".to_owned(), format!("repeat {repeat}")],
            schedule,
            repeat,
            publish: (repeat > 1).then(|| Publish { topic: "t".to_owned(), key: None }),
        },
        bounds: Bounds {
            period_min: Span(1),
            period_max: Period::MAX,
            description_bytes_max: 100,
            types_max: 9,
            type_bytes_max: 100,
            events_max: 1_000,
        },
        sight: Sight::All,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Every { millis: u32, repeat: i32 },
    Cron { repeat: i32 },
    At { millis: u32 },
    Delete(i32),
    DeleteType(i32),
    Tick { millis: u32, limit: usize },
    Resume { millis: u32, limit: usize },
    SetBack { hours: u32 },
    Answer { refuse: bool },
    Retry,
    DeleteLetter,
    Commit,
    Checkpoint,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let millis = 1u32..5_000;
    let repeat = -1i32..5;
    prop_oneof![
        5 => (millis.clone(), repeat.clone()).prop_map(|(millis, repeat)| Step::Every { millis, repeat }),
        1 => repeat.clone().prop_map(|repeat| Step::Cron { repeat }),
        1 => millis.clone().prop_map(|millis| Step::At { millis }),
        3 => (0i32..30).prop_map(Step::Delete),
        1 => repeat.prop_map(Step::DeleteType),
        5 => (millis.clone(), 1usize..9).prop_map(|(millis, limit)| Step::Tick { millis, limit }),
        1 => (millis, 1usize..9).prop_map(|(millis, limit)| Step::Resume { millis: millis * 60, limit }),
        1 => (1u32..5).prop_map(|hours| Step::SetBack { hours }),
        4 => any::<bool>().prop_map(|refuse| Step::Answer { refuse }),
        1 => Just(Step::Retry),
        1 => Just(Step::DeleteLetter),
        4 => Just(Step::Commit),
        12 => Just(Step::Checkpoint),
        2 => Just(Step::Reopen),
    ]
}

/// Takes the steps. After each that made everything durable the room is rebuilt from what the disk
/// has then and compared with the living one. Gives how many checkpoints ended and how many
/// rebuilt rooms were compared.
fn run(steps: &[Step], chunk_bytes: usize) -> (usize, usize) {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    let begin =
        |server: &Server| Checkpointing::begin::<Events>(&server.directory, chunk_bytes).unwrap();
    let mut checkpoint = begin(&server);
    let (mut done, mut compared) = (0, 0);
    let tardiness =
        Tardiness { catch_up: CatchUp::Once, catch_up_max: 3, late_max: Span::from_millis(1_500) };
    let all = Sight::All;
    for step in steps {
        let pass = |server: &mut Server, millis: u32| {
            let span = Span::from_millis(millis.into());
            server.now = Now { wall: server.now.wall + span, steady: server.now.steady + span };
        };
        match *step {
            Step::Every { millis, repeat } => {
                let schedule = Schedule::every_secs(f64::from(millis) / 1e3).unwrap();
                server.apply(&register(schedule, repeat));
            }
            Step::Cron { repeat } => {
                let cron = Cron::parse("* * * * *", Some("Europe/Minsk")).unwrap();
                server.apply(&register(Schedule::Cron(Box::new(cron)), repeat));
            }
            Step::At { millis } => {
                let at = server.now.wall + Span::from_millis(millis.into());
                server.apply(&register(Schedule::At(at), 1));
            }
            Step::Delete(id) => {
                let selection = Selection { ids: vec![id, id + 1], types: vec![] };
                server.apply(&Command::Delete { selection, sight: all.clone(), limit: 9 });
            }
            Step::DeleteType(repeat) => {
                let selection = Selection { ids: vec![], types: vec![format!("repeat {repeat}")] };
                server.apply(&Command::Delete { selection, sight: all.clone(), limit: 2 });
            }
            Step::Tick { millis, limit } => {
                pass(&mut server, millis);
                server.apply(&Command::Tick { limit, tardiness, publishing: PUBLISHING });
            }
            Step::Resume { millis, limit } => {
                pass(&mut server, millis);
                server.apply(&Command::Resume { limit, tardiness, publishing: PUBLISHING });
            }
            Step::SetBack { hours } => {
                server.now.wall = server.now.wall - Span::from_secs(3_600 * u64::from(hours));
                server.apply(&Command::Reschedule { from: Id::default(), limit: 100 });
            }
            Step::Answer { refuse } => {
                let waiting = server.state().outlets_from(Id::default());
                let mut heads = waiting.filter_map(|(id, outlet)| outlet.head(id));
                let Some(head) = heads.next() else { continue };
                let (id, sequence) = (head.id, head.handed.sequence);
                drop(heads);
                server.apply(&match refuse {
                    false => Command::Published { id, sequence },
                    true => Command::PublishRefused {
                        id,
                        sequence,
                        why: "no".to_owned(),
                        publishing: PUBLISHING,
                    },
                });
            }
            Step::Retry => {
                let (letters, sight) = (Letters::From(0), all.clone());
                server.apply(&Command::RetryLetters { letters, sight, limit: 1 });
            }
            Step::DeleteLetter => {
                let (letters, sight) = (Letters::From(0), all.clone());
                server.apply(&Command::DeleteLetters { letters, sight, limit: 1 });
            }
            Step::Commit => server.journal.commit().unwrap(),
            Step::Checkpoint => {
                let now = server.now;
                if checkpoint.step(&mut server.host, now).unwrap() == Progress::Done {
                    done += 1;
                    checkpoint = begin(&server);
                }
            }
            Step::Reopen => {
                server.journal.commit().unwrap();
                let again = Server::open(Arc::new(disk.fork()));
                assert_eq!(again.state().hash(), server.state().hash());
                assert_eq!(again.state(), server.state());
                assert_eq!(again.state().next_id(), server.state().next_id());
                compared += 1;
            }
        }
    }
    (done, compared)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_between_two_chunks_comes_back_once(
        steps in prop::collection::vec(step(), 1..120),
        chunk_bytes in prop_oneof![Just(1usize), 50usize..400],
    ) {
        let mut steps = steps;
        steps.push(Step::Reopen);
        run(&steps, chunk_bytes);
    }
}

/// The same, long enough that checkpoints surely end and the journal forgets.
#[test]
fn a_long_life_comes_back_after_every_checkpoint() {
    let mut steps = Vec::new();
    for round in 0..60 {
        steps.push(Step::Every { millis: 700 + round, repeat: -1 });
        steps.push(Step::Every { millis: 900, repeat: 3 });
        steps.push(Step::Cron { repeat: 0 });
        for _ in 0..9 {
            steps.push(Step::Checkpoint);
            steps.push(Step::Tick { millis: 130, limit: 3 });
            steps.push(Step::Commit);
        }
        steps.push(Step::Answer { refuse: round % 3 > 0 });
        steps.push(Step::Retry);
        steps.push(Step::Delete(i32::try_from(round).unwrap() * 3));
        steps.push(Step::Reopen);
    }
    let (done, compared) = run(&steps, 200);
    assert!(done > 5 && compared == 60, "{done} checkpoints, {compared} comparisons");
}

#[test]
fn ids_go_on_after_a_restart_also_when_the_last_events_are_gone() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    let every = || Schedule::every_secs(1.0).unwrap();
    for repeat in [1, 0, 1] {
        server.apply(&register(every(), repeat));
    }
    let all = Selection { ids: vec![0, 2], types: vec![] };
    server.apply(&Command::Delete { selection: all, sight: Sight::All, limit: 9 });
    server.journal.commit().unwrap();
    let mut checkpoint = Checkpointing::begin::<Events>(&server.directory, 1).unwrap();
    let now = server.now;
    while checkpoint.step(&mut server.host, now).unwrap() != Progress::Done {}
    let mut again = Server::open(Arc::new(disk));
    let totals = Totals { registered: 3, deleted: 2, ..Totals::default() };
    assert_eq!((again.state().len(), again.state().totals()), (0, totals));
    let Reply::Registered(next) = again.apply(&register(every(), 1)) else { panic!("refused") };
    assert_eq!(next.id, Id::new(3).unwrap());
}

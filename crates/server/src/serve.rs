//! The whole server, from settings to the last byte: one straight line.
//!
//! ```text
//!  check ─▶ bind ─▶ HTTP says "starting" ─▶ open the directory ─▶ rooms ─▶ sevent ─▶ ready
//!                                                                                     │
//!  drop the journal ◀─ rooms finish ◀─ answers go out, sessions end ◀─ nothing new ◀─ stop
//! ```

mod guarding;
mod reload;
mod signals;
mod sockets;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handoff_house::ActKind;
use handoff_log::directory::Lock;
use handoff_log::journal::{Report, Threaded};
use handoff_types::{Code, Room};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::guarding::Guarding;
use self::signals::{Signals, Told};
use self::sockets::Sockets;
use crate::auth::{Bootstrapped, Gatekeeper, bootstrap};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::http::{self, App};
use crate::relay::{self, Reception};
use crate::rooms::Work;
use crate::rooms::calls::{self, CallsRoom};
use crate::rooms::events::{EventsRoom, Parts};
use crate::rooms::exchange::{self, ExchangeRoom};
use crate::rooms::house::HouseRoom;
use crate::rooms::streams::{self, StreamsRoom};
use crate::runtime::watch::watch as health;
use crate::runtime::{
    Found, Foundation, Labour, Phase, Readiness, RoomStatus, StartError, Watermark,
};
use crate::settings::{self, Settings};
use crate::sevent;
use crate::telemetry::{LogHandle, Metrics};
use crate::tls::{self, Certificates};

/// How long rooms may take to finish once nobody asks them anything any more, when the time to stop
/// is over already: what was appended is written in that time, or shows at the next start.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where the server listens, once it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listeners {
    /// HTTP.
    pub http: SocketAddr,
    /// Whether HTTP is inside TLS.
    pub http_tls: bool,
    /// sevent, if the events room is on.
    pub events: Option<SocketAddr>,
    /// Whether sevent is inside TLS.
    pub events_tls: bool,
    /// The relay's agents, if somebody receives them.
    pub relay: Option<SocketAddr>,
    /// Whether they come inside TLS.
    pub relay_tls: bool,
}

/// What the composition root does for the server.
pub struct Hooks {
    /// The version of the binary.
    pub version: &'static str,
    /// The log, begun by the composition root.
    pub logs: LogHandle,
    /// Called once, when everything is up.
    pub ready: Box<dyn FnOnce(&Listeners) + Send>,
    /// Reads the configuration again, for SIGHUP; what is wrong with it, in words.
    pub reload: Box<dyn FnMut() -> Result<Settings, String> + Send>,
    /// Stops the server as SIGTERM does.
    pub stop: CancellationToken,
}

impl Hooks {
    /// Hooks that do nothing, and a server that cannot read its configuration again.
    #[must_use]
    pub fn none() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            logs: LogHandle::silent(),
            ready: Box::new(|_| {}),
            reload: Box::new(|| Err("there is no configuration to read again".to_owned())),
            stop: CancellationToken::new(),
        }
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// Why the server ended otherwise than it was asked to. Each says what happened, why, and what to
/// do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The disk failed the journal for too long.
    #[error(
        "the disk failed the journal and kept failing it: {0}; look at the kernel log and at the disk, then start again: it recovers by itself, and nothing that was acknowledged is lost"
    )]
    JournalStopped(Arc<io::Error>),
    /// A part of the server is gone.
    #[error(
        "{0} ended by a mistake of ours; the log says where. Start again: nothing that was acknowledged is lost"
    )]
    Gone(&'static str),
    /// It was told a second time to stop and left what was begun.
    #[error("told twice to stop: what was begun was left; nothing acknowledged is lost")]
    Hurried,
}

impl ServeError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Start(error) => error.code(),
            Self::JournalStopped(_) => Code::JournalClosed,
            Self::Gone(_) => Code::Internal,
            Self::Hurried => Code::ServerStopping,
        }
    }
}

/// Runs the server until it is told to stop: SIGTERM, SIGINT, or [`Hooks::stop`].
///
/// Told so, it takes nothing new, finishes what was begun within `server.stop_secs_max`, and leaves
/// the journal with the mark of a clean end; told twice, it ends at once. SIGHUP reads the
/// configuration again.
///
/// # Errors
/// [`ServeError`]
///
/// # Cancel safety
/// Dropped, everything ends at once, as if the process were killed.
pub async fn run(settings: Settings, hooks: Hooks) -> Result<(), ServeError> {
    let begun = Instant::now();
    let Hooks { version, logs, ready, reload, stop } = hooks;
    let certificates = sockets::check(&settings)?;
    let guarding = Guarding::prepared(&settings.calls).map_err(StartError::from)?;
    let sockets = Sockets::bind(&settings)?;
    let signals =
        Signals::new(stop).map_err(|fault| StartError::System { what: "signals", fault })?;
    let readiness = Readiness::new();
    let metrics = Arc::new(Metrics::new(version));
    let app = App::new(&settings, version, readiness.clone(), Arc::clone(&metrics), logs.clone());
    let http_tls = certificates.as_ref().map(|held| held.server_config(tls::HTTP));
    let door = Door::open(|stop| http::serve(sockets.http, http_tls, Arc::clone(&app), stop));
    let (greeting_max, _) = watch::channel(settings.server.header_time_max);
    let mut server = Server {
        settings,
        certificates,
        signals,
        readiness,
        metrics,
        app,
        logs,
        reload,
        bound: sockets.bound,
        http: door,
        sevent: None,
        agents: None,
        relay: None,
        greeting_max,
        house: None,
        events: None,
        streams: None,
        exchange: None,
        calls: None,
    };
    let Some(foundation) = server.foundation().await? else { return Ok(()) };
    let keep = server.furnish(foundation)?;
    let doors = (sockets.events, sockets.relay);
    let ended = match server.open(doors, &keep, begun).await {
        Ok(true) => {
            let guarding = guarding.map(Guarding::begin);
            ready(&server.bound);
            let ended = server.serve(&keep).await;
            if let Some(guarding) = guarding {
                guarding.end().await;
            }
            ended
        }
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    server.stop(keep, ended).await
}

/// A listener at work.
struct Door {
    task: Labour,
    stop: CancellationToken,
}

impl Door {
    fn open<F: Future<Output = ()> + Send + 'static>(
        serve: impl FnOnce(CancellationToken) -> F,
    ) -> Self {
        let stop = CancellationToken::new();
        let task = Labour::of(tokio::spawn(serve(stop.clone())));
        Self { task, stop }
    }

    async fn close(mut self) {
        self.stop.cancel();
        self.task.ended().await;
    }
}

/// The house's task.
struct HouseWork {
    room: HouseRoom,
    task: Labour,
    stop: CancellationToken,
}

/// A server on its way from the first line to the last.
struct Server {
    settings: Settings,
    certificates: Option<Certificates>,
    signals: Signals,
    readiness: Readiness,
    metrics: Arc<Metrics>,
    app: Arc<App>,
    logs: LogHandle,
    reload: Box<dyn FnMut() -> Result<Settings, String> + Send>,
    bound: Listeners,
    http: Door,
    sevent: Option<Door>,
    /// Where the relay's agents come to.
    agents: Option<Door>,
    relay: Option<Reception>,
    /// How long whoever comes to sevent may take to say who it is.
    greeting_max: watch::Sender<Duration>,
    house: Option<HouseWork>,
    events: Option<(EventsRoom, Work)>,
    streams: Option<(StreamsRoom, Work)>,
    exchange: Option<(ExchangeRoom, Work)>,
    calls: Option<(CallsRoom, Work)>,
}

/// What must outlive the rooms.
struct Keep {
    journal: Arc<Threaded>,
    watermark: Arc<Watermark>,
    clock: Clock,
    report: Report,
    _lock: Lock,
}

impl Keep {
    /// Leaves the journal as it is. Its drop would wait for a disk that may never answer, and until
    /// the process ends nobody else may have the directory.
    fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Server {
    /// Opens the data directory. None if the server was told to stop meanwhile.
    async fn foundation(&mut self) -> Result<Option<Foundation>, ServeError> {
        self.readiness.set_room(Room::House, RoomStatus::Starting);
        if self.settings.events.enabled {
            self.readiness.set_room(Room::Events, RoomStatus::Starting);
        }
        if self.settings.streams.enabled {
            self.readiness.set_room(Room::Streams, RoomStatus::Starting);
        }
        if self.settings.exchange.enabled {
            self.readiness.set_room(Room::Exchange, RoomStatus::Starting);
        }
        if self.settings.calls.enabled {
            self.readiness.set_room(Room::Calls, RoomStatus::Starting);
        }
        if self.settings.relay.enabled {
            self.readiness.set_room(Room::Relay, RoomStatus::Starting);
        }
        self.readiness.set_phase(Phase::Starting("reading the journal".to_owned()));
        let settings = self.settings.clone();
        let mut opening = spawn_blocking(move || Foundation::open(&settings));
        let mut told = false;
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                // What is being read cannot be left half read, but nobody has to wait for it.
                () = self.signals.stop_or_hurry(told) => match told {
                    false => told = true,
                    true => return Err(ServeError::Hurried),
                },
            }
        };
        let panicked = |_| StartError::System {
            what: "opening the data directory",
            fault: io::Error::other("it panicked"),
        };
        let foundation = opened.map_err(panicked)??;
        Ok((!told).then_some(foundation))
    }

    /// Puts the rooms to work.
    fn furnish(&mut self, foundation: Foundation) -> Result<Keep, StartError> {
        let Foundation {
            journal,
            clock,
            dice,
            house,
            events,
            streams,
            exchange,
            calls,
            folders,
            report,
            lock,
        } = foundation;
        say_recovery(&report);
        let data_dir = &self.settings.server.data_dir;
        let watermark = Watermark::new(data_dir, self.settings.server.disk_free_min)
            .map_err(|fault| StartError::System { what: "how full the disk is", fault })?;
        self.metrics.watch_log(&journal, &clock);
        self.metrics.watch_disk({
            let watermark = Arc::clone(&watermark);
            move || Some(watermark.space())
        });
        self.readiness.set_room(Room::House, house.status());
        self.readiness.set_room(Room::Events, events.status());
        self.readiness.set_room(Room::Streams, streams.status());
        self.readiness.set_room(Room::Exchange, exchange.status());
        self.readiness.set_room(Room::Calls, calls.status());
        for (room, status) in self.readiness.board().rooms {
            if let RoomStatus::Closed(why) = status {
                error!(%room, why, "a room stays closed");
            }
        }
        if let Found::Open(room) = house {
            let stop = CancellationToken::new();
            let (clock, dice) = (clock.clone(), dice.clone());
            let (room, task) =
                HouseRoom::start(room.host, clock, dice, room.checkpoints, stop.clone());
            self.house = Some(HouseWork { room, task: Labour::of(task), stop });
        }
        if let Found::Open(room) = streams {
            let parts = streams::Parts {
                host: room.host,
                checkpoints: room.checkpoints,
                clock: clock.clone(),
                dice: dice.clone(),
                settings: self.settings.streams.clone(),
                watermark: Arc::clone(&watermark),
            };
            let started = StreamsRoom::start(parts);
            let fault = |fault| StartError::System { what: "a thread", fault };
            self.streams = Some(started.map_err(fault)?);
        }
        if let (Found::Open(room), Some(folders)) = (exchange, folders) {
            let parts = exchange::Parts {
                host: room.host,
                folders,
                checkpoints: room.checkpoints,
                clock: clock.clone(),
                dice: dice.clone(),
                settings: self.settings.exchange.clone(),
                watermark: Arc::clone(&watermark),
                metrics: Arc::clone(&self.metrics),
            };
            let started = ExchangeRoom::start(parts);
            let fault = |fault| StartError::System { what: "a thread", fault };
            self.exchange = Some(started.map_err(fault)?);
        }
        if let Found::Open(room) = calls {
            self.calls = Some(CallsRoom::start(calls::Parts {
                host: room.host,
                checkpoints: room.checkpoints,
                clock: clock.clone(),
                dice: dice.clone(),
                settings: self.settings.calls.clone(),
                watermark: Arc::clone(&watermark),
                metrics: Arc::clone(&self.metrics),
            }));
        }
        if let Found::Open(room) = events {
            self.events = Some(EventsRoom::start(Parts {
                host: room.host,
                checkpoints: room.checkpoints,
                clock: clock.clone(),
                dice,
                settings: self.settings.events.clone(),
                watermark: Arc::clone(&watermark),
                metrics: Arc::clone(&self.metrics),
                topics: self.streams.as_ref().map(|(room, _)| room.clone()),
            }));
        }
        Ok(Keep { journal, watermark, clock, report, _lock: lock })
    }

    /// Lets everybody in once the rooms have caught up. False if the server was told to stop
    /// before.
    async fn open(
        &mut self,
        sockets: (Option<TcpListener>, Option<TcpListener>),
        keep: &Keep,
        begun: Instant,
    ) -> Result<bool, ServeError> {
        self.readiness.set_phase(Phase::Starting("catching up with what was missed".to_owned()));
        let any = self.events.is_some() || self.streams.is_some();
        if any || self.exchange.is_some() || self.calls.is_some() {
            let resumed = async {
                if let Some((_, work)) = &mut self.events {
                    work.resumed().await;
                }
                if let Some((_, work)) = &mut self.streams {
                    work.resumed().await;
                }
                if let Some((_, work)) = &mut self.exchange {
                    work.resumed().await;
                }
                if let Some((_, work)) = &mut self.calls {
                    work.resumed().await;
                }
            };
            tokio::select! {
                () = resumed => {}
                () = self.signals.stop() => return Ok(false),
                fault = health(&keep.watermark, &keep.journal, &self.readiness) => {
                    return Err(ServeError::JournalStopped(fault));
                }
            }
        }
        let house = self.house.as_ref().map(|house| house.room.clone());
        make_first_token(&self.settings.auth, house).await?;
        self.open_doors(sockets, keep, begun)?;
        Ok(true)
    }

    fn open_doors(
        &mut self,
        (events_socket, relay_socket): (Option<TcpListener>, Option<TcpListener>),
        keep: &Keep,
        begun: Instant,
    ) -> Result<(), StartError> {
        let house = self.house.as_ref().map(|house| house.room.clone());
        let gate = Gatekeeper::new(house.clone().filter(|_| self.settings.auth.enabled));
        let events = self.events.as_ref().map(|(room, _)| room.clone());
        let streams = self.streams.as_ref().map(|(room, _)| room.clone());
        let exchange = self.exchange.as_ref().map(|(room, _)| room.clone());
        let calls = self.calls.as_ref().map(|(room, _)| room.clone());
        // A room that is closed has no sessions, and nobody should wait for one.
        self.bound.events.take_if(|_| events.is_none());
        let mut listeners = vec![("http", self.bound.http)];
        listeners.extend(self.bound.events.map(|address| ("events", address)));
        let relay = self.receive(relay_socket, streams.clone(), &gate, keep)?;
        listeners.extend(self.bound.relay.map(|address| ("relay", address)));
        let opening = begun.elapsed();
        let facts = http::Facts {
            started: keep.clock.wall(),
            listeners,
            recovery: keep.report.clone(),
            opening,
        };
        let (held, open) = (gate.clone(), events.clone());
        let rooms =
            http::Rooms { events: open, streams, exchange, calls, relay, house, gate: held, facts };
        self.app.open(rooms);
        if let (Some(socket), Some(room)) = (events_socket, events) {
            let certificates = self.certificates.as_ref().filter(|_| self.settings.events.tls);
            let parts = sevent::Parts {
                room,
                gate,
                tls: certificates.map(|held| held.server_config(&[])),
                greeting_max: self.greeting_max.subscribe(),
                stall_max: sevent::STALL_MAX,
            };
            self.sevent = Some(Door::open(|stop| sevent::serve(socket, parts, stop)));
        }
        self.readiness.set_phase(Phase::Ready);
        let millis = u64::try_from(opening.as_millis()).unwrap_or(u64::MAX);
        let Listeners { http, events, relay, .. } = self.bound;
        info!(%http, ?events, ?relay, millis, "ready");
        Ok(())
    }

    /// Lets the relay's agents in, if their samples have somewhere to go.
    fn receive(
        &mut self,
        socket: Option<TcpListener>,
        topics: Option<StreamsRoom>,
        gate: &Gatekeeper,
        keep: &Keep,
    ) -> Result<Option<Reception>, StartError> {
        let reception = match &socket {
            None => None,
            Some(_) => Reception::new(relay::Parts {
                settings: self.settings.relay.clone(),
                topics,
                gate: gate.clone(),
                clock: keep.clock.clone(),
                dice: Dice::new()?,
                metrics: Arc::clone(&self.metrics),
                greeting_max: self.greeting_max.subscribe(),
            })
            .map_err(StartError::Relay)?,
        };
        let status = if reception.is_some() { RoomStatus::Open } else { RoomStatus::Off };
        self.readiness.set_room(Room::Relay, status);
        self.bound.relay.take_if(|_| reception.is_none());
        if let (Some(socket), Some(reception)) = (socket, reception.clone()) {
            let certificates = self.certificates.as_ref().filter(|_| self.settings.relay.tls);
            let tls = certificates.map(|held| held.server_config(&[]));
            self.agents = Some(Door::open(|stop| reception.serve(socket, tls, stop)));
        }
        self.relay.clone_from(&reception);
        Ok(reception)
    }

    /// Serves until something ends it.
    async fn serve(&mut self, keep: &Keep) -> Result<(), ServeError> {
        loop {
            let told = tokio::select! {
                biased;
                told = self.signals.next() => told,
                fault = health(&keep.watermark, &keep.journal, &self.readiness) => {
                    return Err(ServeError::JournalStopped(fault));
                }
                () = ended(self.events.as_mut().map(|(_, work)| work.ended())) => {
                    return Err(ServeError::Gone("the events room"));
                }
                () = ended(self.streams.as_mut().map(|(_, work)| work.ended())) => {
                    return Err(ServeError::Gone("the streams room"));
                }
                () = ended(self.exchange.as_mut().map(|(_, work)| work.ended())) => {
                    return Err(ServeError::Gone("the exchange"));
                }
                () = ended(self.calls.as_mut().map(|(_, work)| work.ended())) => {
                    return Err(ServeError::Gone("the calls room"));
                }
                () = ended(self.house.as_mut().map(|house| house.task.ended())) => {
                    return Err(ServeError::Gone("the house"));
                }
                () = self.http.task.ended() => return Err(ServeError::Gone("the HTTP listener")),
                () = ended(self.sevent.as_mut().map(|door| door.task.ended())) => {
                    return Err(ServeError::Gone("the sevent listener"));
                }
                () = ended(self.agents.as_mut().map(|door| door.task.ended())) => {
                    return Err(ServeError::Gone("the relay listener"));
                }
            };
            match told {
                Told::Stop => return Ok(()),
                Told::Reload => self.reload(keep).await,
            }
        }
    }

    /// Reads the configuration again. What cannot be used changes nothing.
    async fn reload(&mut self, keep: &Keep) {
        let new = match (self.reload)() {
            Ok(new) => new,
            Err(why) => return warn!(why, "the configuration stays as it was"),
        };
        if let (Some(held), Some(files)) = (&self.certificates, &new.server.tls)
            && let Err(error) = held.reload(files)
        {
            warn!(error = &error as &dyn std::error::Error, "the certificate stays as it was");
        }
        if let Err(error) = self.logs.set_level(&new.server.log_level) {
            warn!(error = &error as &dyn std::error::Error, "the log level stays as it was");
        }
        let later = reload::needs_restart(&self.settings, &new);
        self.app.set_limits(http::Limits::from(&new.server));
        self.greeting_max.send_replace(new.server.header_time_max);
        keep.watermark.set_free_min(new.server.disk_free_min);
        if let Some((room, _)) = &self.events {
            room.set_settings(new.events.clone());
        }
        if let Some((room, _)) = &self.streams {
            room.set_settings(new.streams.clone());
        }
        if let Some((room, _)) = &self.exchange {
            room.set_settings(new.exchange.clone());
        }
        if let Some((room, _)) = &self.calls {
            room.set_settings(new.calls.clone());
        }
        if let Some(relay) = &self.relay {
            relay.set_settings(new.relay.clone());
        }
        self.settings.server.stop_time_max = new.server.stop_time_max;
        if !later.is_empty() {
            warn!(keys = later.join(", "), "changed, and in force with the next start");
        }
        info!("the configuration was read again");
        if let Some(house) = &self.house
            && let Err(error) = house.room.note(ActKind::Reloaded, "configuration", "local").await
        {
            warn!(error = &error as &dyn std::error::Error, "the audit does not have it");
        }
    }

    /// Takes nothing new, finishes what was begun, and drops the journal last.
    async fn stop(self, keep: Keep, ended: Result<(), ServeError>) -> Result<(), ServeError> {
        info!("stopping");
        self.readiness.set_phase(Phase::Stopping);
        if let Some((room, _)) = &self.streams {
            room.refuse_to_wait();
        }
        if let Some((room, _)) = &self.exchange {
            room.refuse_to_wait();
        }
        if let Some((room, _)) = &self.calls {
            room.refuse_to_wait();
        }
        let patience = self.settings.server.stop_time_max;
        let mut signals = self.signals;
        let (http, sevent, agents) = (self.http, self.sevent, self.agents);
        let doors = async {
            let sevent = async {
                if let Some(door) = sevent {
                    door.close().await;
                }
            };
            let agents = async {
                if let Some(door) = agents {
                    door.close().await;
                }
            };
            tokio::join!(http.close(), sevent, agents);
        };
        drop(self.relay);
        let rooms = async {
            if let Some((room, work)) = self.events {
                drop(room);
                work.stop().await;
            }
            if let Some((room, work)) = self.streams {
                drop(room);
                work.stop().await;
            }
            if let Some((room, work)) = self.exchange {
                drop(room);
                work.stop().await;
            }
            if let Some((room, work)) = self.calls {
                drop(room);
                work.stop().await;
            }
            if let Some(HouseWork { room, mut task, stop }) = self.house {
                drop(room);
                stop.cancel();
                task.ended().await;
            }
        };
        let work = async {
            let begun = Instant::now();
            if timeout(patience, doors).await.is_err() {
                warn!("what was begun took longer than server.stop_secs_max and was left");
            }
            let left = patience.saturating_sub(begun.elapsed()).max(LAST_WORDS);
            timeout(left, rooms).await.is_ok()
        };
        let finished = tokio::select! {
            finished = work => finished,
            () = signals.hurry() => {
                keep.abandon();
                return ended.and(Err(ServeError::Hurried));
            }
        };
        if !finished {
            warn!("the journal did not finish in time; the next start recovers");
            keep.abandon();
            return ended;
        }
        // Its threads are joined, so not on a thread that others need.
        let journal = Arc::into_inner(keep.journal);
        if journal.is_none() {
            warn!("somebody still has the journal; the next start recovers");
        }
        drop(spawn_blocking(move || drop(journal)).await);
        info!("stopped");
        ended
    }
}

/// Makes the token in the bootstrap file, if there is such a file and a house to keep it; says so
/// if afterwards there is no token that opens anything.
async fn make_first_token(
    auth: &settings::Auth,
    house: Option<HouseRoom>,
) -> Result<(), StartError> {
    let Some(house) = house.filter(|_| auth.enabled) else { return Ok(()) };
    if let Some(file) = &auth.bootstrap_token_file
        && let Bootstrapped::Made(token) = bootstrap(&house, file).await?
    {
        info!(token = &*token.0, "the first token was made");
    }
    if !house.has_keys() {
        warn!(
            "auth.enabled is true and there is no token, or none that has not expired: nobody can do anything. Stop the server and run `handoff token create --name first --scope admin --data-dir DIR`, or set auth.bootstrap_token_file"
        );
    }
    Ok(())
}

/// Ends when the task does; never if there is none.
async fn ended(task: Option<impl Future<Output = ()>>) {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// What recovery found, for the log.
fn say_recovery(report: &Report) {
    let Report { tail, end, entries, .. } = report;
    info!(?tail, end = end.0, entries, "the journal was read");
    for damage in &report.damage {
        let (from, to) = (damage.from.0, damage.to.0);
        error!(from, to, rooms = ?damage.rooms, "a range of the journal is damaged");
    }
    for file in &report.healed {
        warn!(file, "one copy of a journal file's header was unreadable; the other was used");
    }
    for file in &report.shortened {
        warn!(file, "a journal file is shorter than it was made; something cut it");
    }
}

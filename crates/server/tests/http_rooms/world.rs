//! Rooms on a directory of their own, and the HTTP listener before them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handoff_house::{ActKind, NewToken};
use handoff_server::auth::{Gatekeeper, mint};
use handoff_server::http::{App, Facts, Rooms, serve};
use handoff_server::rooms::Work;
use handoff_server::rooms::events::{EventsRoom, Parts};
use handoff_server::rooms::house::HouseRoom;
use handoff_server::runtime::{Found, Foundation, Phase, Readiness, RoomStatus, Watermark};
use handoff_server::settings::Settings;
use handoff_server::telemetry::{LogHandle, Metrics};
use handoff_types::Room;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http_client::{self, Answer, PATIENCE};

/// A server in this process.
pub struct World {
    pub address: SocketAddr,
    pub app: Arc<App>,
    pub house: Option<HouseRoom>,
    pub watermark: Arc<Watermark>,
    pub stop: CancellationToken,
    pub serving: JoinHandle<()>,
    work: Option<Work>,
    _foundation: Keep,
}

/// What must outlive the rooms, the directory last.
struct Keep {
    _journal: Arc<handoff_log::journal::Threaded>,
    _lock: handoff_log::directory::Lock,
    _directory: TempDir,
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::start_as(change, true).await
    }

    /// A server that asks for tokens and whose house is damaged.
    pub async fn without_house() -> Self {
        Self::start_as(|settings| settings.auth.enabled = true, false).await
    }

    async fn start_as(change: impl FnOnce(&mut Settings), sound: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.server.data_dir = directory.path().to_owned();
        settings.server.disk_free_min = Some(0);
        settings.log.limits.journal_file_bytes = 1 << 20;
        settings.log.limits.journal_bytes_max = 16 << 20;
        settings.log.limits.journal_reserve_bytes = 2 << 20;
        change(&mut settings);

        let opened = {
            let settings = settings.clone();
            tokio::task::spawn_blocking(move || Foundation::open(&settings)).await.unwrap()
        };
        let Foundation { journal, clock, dice, house, events, report, lock, .. } = opened.unwrap();
        let readiness = Readiness::new();
        readiness.set_room(Room::House, house.status());
        readiness.set_room(Room::Events, events.status());
        let metrics = Arc::new(Metrics::new("9.9.9"));
        metrics.watch_log(&journal, &clock);
        let free_min = settings.server.disk_free_min;
        let watermark = Watermark::new(directory.path(), free_min).unwrap();
        metrics.watch_disk({
            let watermark = Arc::clone(&watermark);
            move || Some(watermark.space())
        });
        if !sound {
            readiness.set_room(Room::House, RoomStatus::Closed("records are lost".to_owned()));
        }
        let house = match house {
            Found::Open(room) if sound => {
                let stop = CancellationToken::new();
                let (clock, dice) = (clock.clone(), dice.clone());
                Some(HouseRoom::start(room.host, clock, dice, room.checkpoints, stop).0)
            }
            _ => None,
        };
        let (events, work) = match events {
            Found::Open(room) => {
                let (events, mut work) = EventsRoom::start(Parts {
                    host: room.host,
                    checkpoints: room.checkpoints,
                    clock: clock.clone(),
                    dice,
                    settings: settings.events.clone(),
                    watermark: Arc::clone(&watermark),
                    metrics: Arc::clone(&metrics),
                    topics: None,
                });
                work.resumed().await;
                (Some(events), Some(work))
            }
            _ => (None, None),
        };

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = App::new(&settings, "9.9.9", readiness.clone(), metrics, LogHandle::silent());
        let gate = Gatekeeper::new(house.clone().filter(|_| settings.auth.enabled));
        let facts = Facts {
            started: clock.wall(),
            listeners: vec![("http", address)],
            recovery: report,
            opening: Duration::from_millis(250),
        };
        app.open(Rooms {
            events,
            streams: None,
            exchange: None,
            calls: None,
            relay: None,
            house: house.clone(),
            gate,
            facts,
        });
        readiness.set_phase(Phase::Ready);
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, None, Arc::clone(&app), stop.clone()));
        let keep = Keep { _journal: journal, _lock: lock, _directory: directory };
        Self { address, app, house, watermark, stop, serving, work, _foundation: keep }
    }

    /// A token of these scopes.
    pub async fn token(&self, scopes: &[&str]) -> String {
        let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
        let (text, token): (String, NewToken) = mint("a test", scopes, None).unwrap();
        self.house.as_ref().unwrap().create(token, "local").await.unwrap();
        text
    }

    pub async fn get(&self, path: &str) -> Answer {
        http_client::get(self.address, path).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        http_client::delete(self.address, path).await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        http_client::post(self.address, path, body.to_owned()).await
    }

    /// Asks with a token.
    pub async fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        http_client::ask(self.address, method, path, &headers, body.to_owned()).await
    }

    /// Registers an event and gives its id.
    pub async fn register(&self, fields: &str) -> u64 {
        let body = format!(r#"{{"version":1,{fields}}}"#);
        let answer = self.post("/v1/events", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_u64().unwrap()
    }

    /// Ids of a list.
    pub async fn listed(&self, query: &str) -> Vec<u64> {
        ids(&self.get(&format!("/v1/events{query}")).await.json())
    }

    /// What the audit says, the latest first: kind and target.
    pub async fn acts(&self) -> Vec<(ActKind, String)> {
        let acts = self.house.as_ref().unwrap().acts(None, 100).await.unwrap();
        acts.into_iter().map(|act| (act.kind, act.target)).collect()
    }

    /// Ends the events room without anybody having asked for it.
    pub async fn lose_events(&mut self) {
        self.work.take().unwrap().stop().await;
    }

    /// Stops the listener as the server does, and waits until it has.
    pub async fn stop(&mut self) {
        self.app.readiness.set_phase(Phase::Stopping);
        self.stop.cancel();
        timeout(PATIENCE, &mut self.serving).await.expect("it ends").unwrap();
    }

    /// The events room is what its board says.
    pub fn set_events(&self, status: RoomStatus) {
        self.app.readiness.set_room(Room::Events, status);
    }
}

pub fn ids(page: &Value) -> Vec<u64> {
    let events = page["events"].as_array().unwrap();
    events.iter().map(|event| event["id"].as_u64().unwrap()).collect()
}

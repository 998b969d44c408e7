//! A stock Prometheus in front of the agent, another behind the server, and all between them killed and
//! away for as long as one likes.

use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::agent::{Agent, Den};
use super::ledger::wait;
use super::reception::Reception;
use crate::clock;
use crate::prometheus::{Prometheus, free};
use crate::served::Served;

/// Prometheus → agent → server → Prometheus.
#[derive(Debug)]
pub struct BothEnds {
    sender: Prometheus,
    sink: Prometheus,
    den: Den,
    reception: Reception,
    agent: Option<Agent>,
    server: Option<Served>,
}

impl BothEnds {
    /// All of them, at work.
    ///
    /// # Errors
    /// When one of them does not start.
    pub fn new(place: &Path) -> io::Result<Self> {
        let dirs = ["sender", "sink", "edge", "centre"].map(|name| place.join(name));
        for dir in &dirs {
            std::fs::create_dir_all(dir)?;
        }
        let [sender, sink, edge, centre] = &dirs;
        let sink = Prometheus::sink(sink)?;
        let url = format!("http://{}/api/v1/write", sink.http);
        let reception = Reception::new(centre)?.set("HANDOFF_RELAY__WRITE_URL", &url);
        let den = Den::new(edge, &[("centre", reception.relay)])?.at(free()?);
        let server = Some(reception.start()?);
        let agent = den.agent(&[])?;
        let sender = Prometheus::start(sender, agent.http)?;
        Ok(Self { sender, sink, den, reception, agent: Some(agent), server })
    }

    /// Waits until the agent took so many samples more.
    ///
    /// # Errors
    /// When the agent does not answer.
    pub fn more(&self, samples: usize) -> io::Result<()> {
        let taken = || match &self.agent {
            Some(agent) => agent.count("handoff_relay_samples_total"),
            None => Err(io::Error::other("there is no agent")),
        };
        let before = taken()?;
        // Whoever runs this ends what waits for ever.
        while taken()? < before + samples {
            wait(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Kills the server.
    pub fn kill_server(&mut self) {
        self.server = None;
    }

    /// Kills the agent, and starts another.
    ///
    /// # Errors
    /// When it does not start.
    pub fn kill_agent(&mut self) -> io::Result<()> {
        self.agent = None;
        self.agent = Some(self.den.agent(&[])?);
        Ok(())
    }

    /// Starts the server again.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_server(&mut self) -> io::Result<()> {
        self.server = Some(self.reception.start()?);
        Ok(())
    }

    /// Whether something waits on the agent's disk.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn is_behind(&self) -> io::Result<bool> {
        Ok(!self.den.files()?.is_empty())
    }

    /// Both ends return the same for all that was scraped until now. How many series and samples.
    ///
    /// # Errors
    /// When one of them does not answer or end as it should.
    ///
    /// # Panics
    /// When they differ for too long.
    pub fn compare(mut self) -> io::Result<(usize, usize)> {
        let now = UNIX_EPOCH.elapsed().map_err(io::Error::other)?.as_secs_f64();
        let sent = self.sender.samples(now)?;
        self.sink.wait_for(&sent, now);
        self.den.wait_until(<[String]>::is_empty);
        self.sender.stop()?;
        if let Some(agent) = self.agent.take() {
            agent.stop()?;
        }
        if let Some(server) = self.server.take() {
            server.stop()?;
        }
        self.sink.stop()?;
        let samples = sent.values().map(|values| values.matches("],[").count() + 1).sum();
        Ok((sent.len(), samples))
    }
}

/// The server is gone for so long, and the agent is killed meanwhile, some times. How many series and
/// samples both ends have then.
///
/// # Errors
/// When one of them does not do what it should.
pub fn long_outage(place: &Path, outage: Duration, kills: u32) -> io::Result<(usize, usize)> {
    let mut ends = BothEnds::new(place)?;
    ends.more(2_000)?;
    ends.kill_server();
    let over = clock() + outage;
    for kill in 1..=kills {
        wait(outage / (kills + 1));
        ends.kill_agent()?;
        ends.more(100)?;
        eprintln!("agent killed, {kill} of {kills}");
    }
    wait(over.saturating_duration_since(clock()));
    if !ends.is_behind()? {
        return Err(io::Error::other("nothing waits on the agent's disk"));
    }
    ends.start_server()?;
    eprintln!("the server is back after {outage:?}");
    ends.more(2_000)?;
    ends.compare()
}

//! An agent, its place, and centres.

use handoff_tests::place::Place;
use handoff_tests::relay::samples::Taken;
use handoff_tests::relay::{Agent, Centre, Den};

pub(crate) struct World {
    pub(crate) centres: Vec<Centre>,
    pub(crate) den: Den,
    pub(crate) agent: Option<Agent>,
    pub(crate) sent: Vec<Taken>,
    pub(crate) place: Place,
}

pub(crate) const NAMES: [&str; 2] = ["one", "two"];

impl World {
    pub(crate) fn new(centres: usize, flags: &[&str]) -> Self {
        let mut world = Self::before_an_agent(centres);
        world.agent = Some(world.den.agent(flags).unwrap());
        world
    }

    /// Everything but an agent: nobody has spoken to the centres yet.
    pub(crate) fn before_an_agent(centres: usize) -> Self {
        let centres: Vec<Centre> = (0..centres).map(|_| Centre::new().unwrap()).collect();
        let place = Place::temporary().unwrap();
        let destinations: Vec<_> =
            NAMES.into_iter().zip(centres.iter().map(|c| c.address)).collect();
        let den = Den::new(place.path(), &destinations).unwrap();
        Self { centres, den, agent: None, sent: Vec::new(), place }
    }

    pub(crate) fn agent(&self) -> &Agent {
        self.agent.as_ref().unwrap()
    }

    /// Samples that nobody has sent before.
    pub(crate) fn fresh(&self, count: usize) -> Vec<Taken> {
        let first = self.sent.len();
        let value = |n: usize| (n as f64 * 0.5).to_bits();
        (first..first + count).map(|n| (format!("s{}", n % 10), n as i64, value(n))).collect()
    }

    /// Sends so many samples, which must be acknowledged.
    #[track_caller]
    pub(crate) fn send(&mut self, count: usize) {
        let samples = self.fresh(count);
        let answer = self.agent().post(&samples).unwrap();
        assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(&answer.body));
        self.sent.extend(samples);
    }

    /// Every centre has everything, each sample once.
    #[track_caller]
    pub(crate) fn assert_delivered(&self) {
        for centre in &self.centres {
            centre.assert_exactly(&self.sent);
        }
    }
}

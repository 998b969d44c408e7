//! What is declared: topics and groups that are there when the room answers.

use std::sync::Arc;

use handoff_log::journal::Purpose;
use handoff_streams::{Command, Reply, TopicSpec};
use handoff_types::Room as RoomName;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{REFUSED_PAUSE, Room};
use crate::settings;

impl Room {
    /// Makes the topics that are declared and removes what belongs to none. The journal may refuse
    /// for a while; nothing is answered before.
    pub(super) async fn resume(&mut self) {
        // After a kill the last round is written once more. Until that is on disk nobody can read
        // what it holds, and it must not look as if a disk had failed. A journal that has stopped
        // says so to whoever asks for something.
        drop(self.host.journal().barrier(RoomName::Streams).await);
        let settings = Arc::clone(&self.settings);
        for declared in &settings.topics {
            while let Some(command) = self.declare(declared) {
                let now = self.clock.now();
                match self.apply(&command, 0, Purpose::Accept, now) {
                    Ok(applied) => {
                        if let Reply::Refused(refusal) = &applied.reply {
                            warn!(topic = %declared.name, %refusal, "a declared topic stays as it is");
                            break;
                        }
                        info!(topic = %declared.name, partitions = declared.partitions, "a declared topic was made");
                        self.wait_for(applied, None);
                    }
                    Err(refused) => {
                        self.refused(&refused);
                        // It may be full of what only a checkpoint lets it forget.
                        sleep(self.checkpoint(now).min(REFUSED_PAUSE)).await;
                    }
                }
                self.release();
            }
        }
        for declared in &settings.groups {
            while let Some(command) = self.declare_group(declared) {
                let now = self.clock.now();
                match self.apply(&command, 0, Purpose::Accept, now) {
                    Ok(applied) => {
                        if let Reply::Refused(refusal) = &applied.reply {
                            warn!(group = %declared.name, %refusal, "a declared group could not be made");
                            break;
                        }
                        info!(group = %declared.name, "a declared group was made");
                        self.wait_for(applied, None);
                    }
                    Err(refused) => {
                        self.refused(&refused);
                        sleep(self.checkpoint(now).min(REFUSED_PAUSE)).await;
                    }
                }
                self.release();
            }
        }
    }

    /// What is missing of a declared topic.
    fn declare(&self, declared: &settings::DeclaredTopic) -> Option<Command> {
        let bounds = self.settings.bounds;
        let name = declared.name.clone();
        let Some(topic) = self.host.state().topic(&name) else {
            let settings = declared.settings(&self.settings);
            let topic = TopicSpec { name, partitions: declared.partitions, settings };
            return Some(Command::CreateTopic { topic, bounds });
        };
        if topic.partitions > declared.partitions {
            warn!(
                topic = %name, partitions = topic.partitions, declared = declared.partitions,
                "a topic has more partitions than are declared; it is never shrunk"
            );
        }
        (topic.partitions < declared.partitions).then(|| Command::GrowTopic {
            name,
            partitions: declared.partitions,
            bounds,
        })
    }
}

//! How it went with messages that were handed out.

use handoff_streams::groups::{
    Body, CommitOutcome, GroupCommand, GroupName, GroupReply, LeaseId, MemberId, Reads, Verdict,
    VerdictStatus,
};
use handoff_streams::{PartitionId, Produce, Refusal, TopicName};
use handoff_types::Span;

use super::super::mailbox::{Answer, Question, Stored};
use super::super::reading::weight;
use super::super::task::read_dying;
use super::super::{StreamsRoom, unexpected};
use super::unreadable;
use crate::rooms::RoomError;

/// Bytes of messages that may become dead letters by one commit.
const DYING_BYTES_MAX: usize = 16 << 20;

/// How often a commit is decided again because others changed what it rests on.
const TRIES: usize = 16;

/// What a member says of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) topic: TopicName,
    pub(crate) partition: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) status: VerdictStatus,
    pub(crate) error: Option<String>,
    pub(crate) lease: Option<LeaseId>,
    pub(crate) delay: Option<Span>,
}

/// A commit.
#[derive(Clone, Debug)]
pub(crate) struct CommitAsked {
    pub(crate) group: GroupName,
    pub(crate) member: MemberId,
    pub(crate) results: Vec<Said>,
    /// Stored with it: all of it or nothing.
    pub(crate) produce: Vec<Produce>,
}

/// What became of one run of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) topic: TopicName,
    pub(crate) partition: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) outcome: CommitOutcome,
}

/// What became of a commit.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) results: Vec<Finished>,
    /// One for each request to produce.
    pub(crate) produced: Vec<Stored>,
}

impl StreamsRoom {
    /// Finishes messages, and stores others with that, in one durable step.
    ///
    /// # Errors
    /// [`RoomError`]; nothing changed, except that nobody knows after [`RoomError::Lost`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub(crate) async fn commit(&self, asked: CommitAsked) -> Result<Committed, RoomError> {
        let CommitAsked { group, member, results, produce } = asked;
        let (results, gone) = self.named(results);
        if let Some(gone) = gone.first().filter(|_| !produce.is_empty()) {
            return Err(Refusal::NoTopic(gone.topic.clone()).into());
        }
        let bounds = self.settings().bounds;
        let bodies = Vec::new();
        let mut command =
            Box::new(GroupCommand::Commit { group, member, results, produce, bodies, bounds });
        for _ in 0..TRIES {
            match self.ask(Question::Group(command)).await? {
                Answer::Wants(reads, back) => {
                    command = back;
                    self.read_into(&mut command, &reads).await?;
                }
                Answer::Group(GroupReply::Committed { results, produced, missing }) => {
                    let produced = produced.into_iter().zip(missing);
                    let produced =
                        produced.map(|(results, missing)| Stored { results, missing }).collect();
                    let named = results.into_iter().filter_map(|one| {
                        Some(Finished {
                            topic: self.topic_of_partition(one.partition)?,
                            partition: one.partition.number,
                            from: one.from,
                            to: one.to,
                            outcome: one.outcome,
                        })
                    });
                    let results = named.chain(gone).collect();
                    return Ok(Committed { results, produced });
                }
                other => return Err(unexpected(&other)),
            }
        }
        let words = "what would die changed again and again while it was read; commit again";
        Err(Refusal::Limit(words.to_owned()).into())
    }

    /// Verdicts by the numbers of their topics; and those of topics that are gone, with what they
    /// held: nobody answers for that any more.
    fn named(&self, said: Vec<Said>) -> (Vec<Verdict>, Vec<Finished>) {
        let (mut verdicts, mut gone) = (Vec::with_capacity(said.len()), Vec::new());
        for Said { topic, partition, from, to, status, error, lease, delay } in said {
            match self.shared.catalogue.find(&topic) {
                Some(visible) => {
                    let partition = PartitionId { topic: visible.id, number: partition };
                    verdicts.push(Verdict { partition, from, to, status, error, lease, delay });
                }
                None => {
                    let outcome = CommitOutcome::Fenced;
                    gone.push(Finished { topic, partition, from, to, outcome });
                }
            }
        }
        (verdicts, gone)
    }

    /// Reads messages that may die, and puts them into the command.
    async fn read_into(&self, command: &mut GroupCommand, reads: &Reads) -> Result<(), RoomError> {
        let GroupCommand::Commit { bodies, .. } = command else { return Ok(()) };
        let read = read_dying(&self.reading, reads, DYING_BYTES_MAX).await.map_err(unreadable)?;
        bodies.extend(read);
        let bytes: usize =
            bodies.iter().map(|body: &Body| body.record.as_ref().map_or(0, weight)).sum();
        if bytes > DYING_BYTES_MAX {
            return Err(Refusal::Limit(format!(
                "more than {DYING_BYTES_MAX} bytes would become dead letters at once; commit them in smaller parts"
            ))
            .into());
        }
        Ok(())
    }
}

//! Channels are described.

use super::draft::Draft;
use crate::{Change, ChannelName, ChannelSettings, Refusal, Reply};

impl Draft<'_> {
    /// The settings hold from now on, for calls that are there too, except how durable they are.
    pub(super) fn set_channel(
        &mut self,
        channel: &ChannelName,
        settings: ChannelSettings,
    ) -> Result<Reply, Refusal> {
        settings.check().map_err(Refusal::Invalid)?;
        if self.state.settings(channel) == Some(&settings) {
            return Ok(Reply::Done);
        }
        self.has_room_for_channels(u64::from(self.state.lane(channel).is_none()))?;
        self.change(Change::Channel(channel.clone(), settings));
        Ok(Reply::Done)
    }

    pub(super) fn unset_channel(&mut self, channel: &ChannelName) -> Result<Reply, Refusal> {
        if self.state.settings(channel).is_none() {
            return Err(Refusal::NoChannel(channel.clone()));
        }
        self.change(Change::ChannelGone(channel.clone()));
        Ok(Reply::Done)
    }
}

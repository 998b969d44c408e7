//! Channels are described.

use super::Fresh;
use super::kit::{Play, WORKER, channel, id, secs};
use crate::{Ask, ChannelSettings, Refusal, Reply};

pub(super) async fn all<F: Fresh>(fresh: &F) {
    settings_hold_from_now_on_and_until_they_are_taken_back(fresh).await;
    settings_that_cannot_be_are_refused(fresh).await;
    what_nobody_described_cannot_be_taken_back(fresh).await;
}

async fn settings_hold_from_now_on_and_until_they_are_taken_back<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 10).await;
    play.heard(WORKER).await;
    let short = ChannelSettings { lease: secs(3), ..ChannelSettings::default() };
    play.settings(short).await;
    play.settings(short).await;
    play.call(1).await;
    assert_eq!(play.offer(WORKER).await.lease, secs(3));
    assert_eq!(play.ask(Ask::UnsetChannel { channel: channel("work") }).await, Reply::Done);
    play.call(2).await;
    let offer = play.offer(WORKER).await;
    assert_eq!((offer.call, offer.lease), (id(2), ChannelSettings::default().lease));
}

async fn settings_that_cannot_be_are_refused<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let settings = ChannelSettings { attempts_max: 0, ..ChannelSettings::default() };
    let refusal = play.refusal(Ask::SetChannel { channel: channel("work"), settings }).await;
    assert!(matches!(refusal, Refusal::Invalid(_)), "{refusal:?}");
}

async fn what_nobody_described_cannot_be_taken_back<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let refusal = play.refusal(Ask::UnsetChannel { channel: channel("work") }).await;
    assert_eq!(refusal, Refusal::NoChannel(channel("work")));
}

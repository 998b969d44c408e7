//! One connection of a receiver.

use std::collections::btree_map::Entry;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use handoff_relay::codec::{Decoded, Decoder, Workbench};
use handoff_relay::session::{Frames, Hello, Message, encode};
use handoff_relay::{Origin, Received, Receiver, ReceiverLimits, SegmentKey};
use handoff_types::Span;

use super::{Manner, Shared, State};

/// Talks until either side has enough.
pub(super) fn hold(id: u64, mut stream: TcpStream, shared: &Shared) {
    talk(id, &mut stream, shared);
    drop(stream.shutdown(Shutdown::Both));
    shared.state().connections.remove(&id);
}

fn talk(id: u64, stream: &mut TcpStream, shared: &Shared) {
    let Ok(mut bench) = Workbench::new() else { return };
    let mut decoded = Decoded::default();
    let mut frames = Frames::default();
    let mut bytes = vec![0; 64 << 10];
    let (mut came, mut went) = (0, 0);
    let mut origin = None;
    loop {
        let room = frames.room().min(bytes.len());
        let Some(window) = bytes.get_mut(..room) else { return };
        let Ok(read @ 1..) = stream.read(window) else { return };
        let manner = shared.state().manner;
        let mut heard = window.get(..read).unwrap_or_default();
        let mut cut = false;
        if let Manner::Cuts(there, _) = manner {
            cut = came + heard.len() >= there;
            heard = heard.get(..there.saturating_sub(came)).unwrap_or(heard);
        }
        came += heard.len();
        if manner == Manner::Silent {
            continue;
        }
        frames.push(heard);
        let mut out = Vec::new();
        while let Ok(next) = frames.next_message() {
            let Some(message) = next else { break };
            let mut state = shared.state();
            let answer = match (&origin, message) {
                (None, Message::Hello(hello)) => {
                    frames.allow(ReceiverLimits::default().frame_bytes_max as usize);
                    origin = Some(hello.origin.clone());
                    Some(greet(&mut state, id, &hello))
                }
                (Some(origin), message) if state.speaks.get(origin) == Some(&id) => {
                    match answer(&mut state, origin, &message, &mut bench, &mut decoded) {
                        Ok(answer) => answer.filter(|_| manner != Manner::Mute),
                        Err(()) => return,
                    }
                }
                _ => return,
            };
            drop(state);
            shared.changed.notify_all();
            if let Some(answer) = answer {
                encode(&answer, &mut out);
            }
        }
        if let Manner::Cuts(_, back) = manner {
            cut |= went + out.len() >= back;
            out.truncate(back.saturating_sub(went));
        }
        went += out.len();
        let written = stream.write_all(&out);
        if cut || written.is_err() {
            shared.state().cut += u64::from(cut);
            return;
        }
    }
}

fn greet(state: &mut State, id: u64, hello: &Hello) -> Message {
    let origin = hello.origin.clone();
    state.greeted += 1;
    state.speaks.insert(origin.clone(), id);
    let marks = state.marks.clone();
    let receiver = match state.receivers.entry(origin.clone()) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => match Receiver::new(hello, ReceiverLimits::default()) {
            Ok(receiver) => place.insert(receiver),
            Err(refusal) => return refusal,
        },
    };
    receiver.greeted(hello, |shard| marks.get(&(origin.clone(), shard)).copied())
}

/// What is said to a message; the error is that it made no sense.
fn answer(
    state: &mut State,
    origin: &Origin,
    message: &Message,
    bench: &mut Workbench,
    decoded: &mut Decoded,
) -> Result<Option<Message>, ()> {
    let State { manner, taken, marks, receivers, .. } = state;
    let receiver = receivers.get_mut(origin).ok_or(())?;
    match receiver.received(message, bench, decoded) {
        Received::Nothing | Received::Ended => Ok(None),
        Received::Answer(answer) => Ok(Some(answer)),
        Received::Broken(_) => Err(()),
        Received::Skipped(key) => {
            marks.insert((origin.clone(), key.shard), key.segment);
            Ok(receiver.stored(key))
        }
        Received::Samples(key) => {
            if let Manner::Refuses(reason) = *manner {
                let again = Span::from_millis(100);
                return Ok(receiver.refused(key, reason, again, "as it was told".to_owned()));
            }
            let decoder = receiver.decoder(key.shard).ok_or(())?;
            for (series, samples) in decoded.series() {
                let name = name(decoder, series);
                for one in samples {
                    *taken.entry((name.clone(), one.time, one.bits)).or_default() += 1;
                }
            }
            let SegmentKey { shard, segment } = key;
            marks.insert((origin.clone(), shard), segment);
            Ok(receiver.stored(key))
        }
    }
}

/// The value of the one label that samples here have.
fn name(decoder: &Decoder, series: u32) -> String {
    let values = decoder.labels(series).map(|(_, value)| String::from_utf8_lossy(value));
    values.collect::<Vec<_>>().join(",")
}

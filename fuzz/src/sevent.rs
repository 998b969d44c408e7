//! The decoders of the sevent protocol.

use bytes::{Bytes, BytesMut};
use handoff_sevent::primitive::{
    Reader, Unreadable, put_double, put_time, put_var_string, put_varint, var_string_len,
    varint_len,
};
use handoff_sevent::{Answer, Chunks, ErrorCode, FrameError, Frames, Malformed, Request};

/// Two octets of the largest size, one of how many pieces, so many octets of where to cut; the
/// rest is the stream.
pub fn frames(data: &[u8]) {
    let Some((&[low, high, pieces], rest)) = data.split_first_chunk() else { return };
    let max = u32::from(u16::from_le_bytes([low, high]));
    let Some((cuts, stream)) = rest.split_at_checked(usize::from(pieces % 16)) else { return };
    let mut left = stream;
    let mut parts = Vec::new();
    for cut in cuts {
        let (part, behind) = left.split_at(usize::from(*cut).min(left.len()));
        parts.push(part);
        left = behind;
    }
    parts.push(left);
    let at_once = cut(max, &[stream]);
    assert_eq!(at_once, cut(max, &parts));
    let taken: usize = at_once.0.iter().map(Bytes::len).sum();
    assert!(taken + at_once.2 <= stream.len());
    assert!(at_once.0.iter().all(|frame| !frame.is_empty() && frame.len() <= max as usize));
}

fn cut(max: u32, parts: &[&[u8]]) -> (Vec<Bytes>, Option<FrameError>, usize) {
    let mut frames = Frames::new(max);
    let mut found = Vec::new();
    let mut arrived = 0;
    for part in parts {
        arrived += part.len();
        frames.buffer_mut().extend_from_slice(part);
        assert!(frames.buffer_mut().capacity() <= 2 * arrived + (16 << 10), "sizes allocate");
        loop {
            match frames.next() {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(error) => {
                    frames.extend(part);
                    assert_eq!(frames.next(), Err(error), "a broken stream stays broken");
                    return (found, Some(error), frames.pending());
                }
            }
        }
    }
    (found, None, frames.pending())
}

/// Octets that say what to read, each followed by what is read.
pub fn primitives(data: &[u8]) {
    let mut reader = Reader::new(data);
    while let Ok(kind) = reader.byte() {
        let before = reader.rest();
        let mut again = BytesMut::new();
        let read = match kind % 6 {
            0 => reader.varint().map(|value| {
                put_varint(value, &mut again);
                assert_eq!(again.len(), varint_len(value));
            }),
            1 => reader.var_string().map(|value| {
                put_var_string(value, &mut again);
                assert_eq!(again.len(), var_string_len(value));
            }),
            2 => reader.double().map(|value| put_double(value, &mut again)),
            3 => reader.time().map(|value| put_time(value, &mut again)),
            4 => numbers(&mut reader, &mut again),
            _ => names(&mut reader, &mut again),
        };
        if read.is_err() {
            return;
        }
        let taken = before.len() - reader.rest().len();
        assert!(again.len() <= taken, "the shortest form is written");
        let mut second = Reader::new(&again);
        let mut third = BytesMut::new();
        match kind % 6 {
            0 => put_varint(second.varint().unwrap(), &mut third),
            1 => put_var_string(second.var_string().unwrap(), &mut third),
            2 => put_double(second.double().unwrap(), &mut third),
            3 => put_time(second.time().unwrap(), &mut third),
            4 => numbers(&mut second, &mut third).unwrap(),
            _ => names(&mut second, &mut third).unwrap(),
        }
        assert_eq!((third, second.end()), (again, Ok(())));
    }
}

fn numbers(reader: &mut Reader<'_>, out: &mut BytesMut) -> Result<(), Unreadable> {
    let left = reader.rest().len();
    let mut values = Vec::new();
    let read = reader.varints(&mut values);
    assert!(values.capacity() <= 2 * left.max(1024), "a count allocates");
    read?;
    put_varint(i32::try_from(values.len()).unwrap(), out);
    values.iter().for_each(|value| put_varint(*value, out));
    Ok(())
}

fn names(reader: &mut Reader<'_>, out: &mut BytesMut) -> Result<(), Unreadable> {
    let left = reader.rest().len();
    let mut values = Vec::new();
    let read = reader.var_strings(&mut values);
    assert!(values.capacity() <= 2 * left.max(1024), "a count allocates");
    read?;
    put_varint(i32::try_from(values.len()).unwrap(), out);
    values.iter().for_each(|value| put_var_string(value, out));
    Ok(())
}

/// A message from its id on.
pub fn request(data: &[u8]) {
    match Request::decode(data) {
        Ok(received) => {
            assert_eq!(Some(&received.request.code().octet()), data.first());
            let mut once = BytesMut::new();
            received.encode(&mut once);
            let mut twice = BytesMut::new();
            Request::decode(&only(&once)).expect("what is written is read").encode(&mut twice);
            assert_eq!(once, twice);
        }
        Err(malformed) => refused(malformed, data),
    }
}

/// An octet of how to cut it, then a message from its id on.
pub fn answer(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else { return };
    match Answer::decode(data) {
        Ok(answer) => {
            assert_eq!(Some(&answer.code().octet()), data.first());
            let once = answer.to_bytes();
            assert_eq!(once.len(), answer.encoded_len());
            let again = Answer::decode(&only(&once)).expect("what is written is read");
            assert_eq!(again.to_bytes(), once);
            let mut chunks = Chunks::new(answer);
            let mut pieces = BytesMut::new();
            while chunks.remaining() > 0 {
                chunks.fill(&mut pieces, usize::from(size).max(1));
            }
            assert_eq!(pieces, once);
        }
        Err(malformed) => refused(malformed, data),
    }
}

fn refused(malformed: Malformed, data: &[u8]) {
    assert_eq!(malformed.code, data.first().copied().unwrap_or(0));
    assert!(matches!(malformed.error, ErrorCode::FormatError | ErrorCode::WrongMessage));
    assert!(malformed.why.len() < 100, "{}", malformed.why);
    let answer = Answer::from(malformed);
    assert_eq!(Answer::decode(&only(&answer.to_bytes())), Ok(answer));
}

/// The content of the one message that these octets are.
fn only(octets: &[u8]) -> Bytes {
    let mut frames = Frames::new(u32::MAX);
    frames.extend(octets);
    let frame = frames.next().expect("the stream is sound").expect("the message is whole");
    assert_eq!(frames.pending(), 0);
    frame
}

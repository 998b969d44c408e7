//! `io.prometheus.write.v2.Request`, as far as samples go.
//!
//! ```text
//!  Request     4 symbols (text)…   5 series…
//!  TimeSeries  1 names and values of labels (numbers of symbols, packed)   2 samples…
//!  Sample      1 value (f64)   2 time (ms)
//! ```

use thiserror::Error;

/// A series of a segment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Series {
    /// Names and values of its labels, by name.
    pub labels: Vec<(String, String)>,
    /// Its samples, in their order.
    pub samples: Vec<Sample>,
}

impl Series {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// How much. Every bit is as it was sent: a NaN may be the mark of a series that has ended.
    pub value: f64,
}

/// A body that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the segment is no io.prometheus.write.v2.Request")]
pub struct BadBody;

/// A field of a message.
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
    /// Of a kind that nothing here has.
    Other,
}

/// The fields of a message, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), BadBody>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read().ok_or(BadBody);
        if read.is_err() {
            self.0 = &[];
        }
        Some(read)
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = number(&mut self.0)?;
        let value = match tag & 7 {
            0 => Value::Number(number(&mut self.0)?),
            1 => {
                let (bits, rest) = self.0.split_first_chunk::<8>()?;
                self.0 = rest;
                Value::Fixed(u64::from_le_bytes(*bits))
            }
            2 => {
                let size = usize::try_from(number(&mut self.0)?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(size)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => {
                self.0 = self.0.split_first_chunk::<4>()?.1;
                Value::Other
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The series of a request.
pub(super) fn series(request: &[u8]) -> Result<Vec<Series>, BadBody> {
    let mut symbols = Vec::new();
    let mut bodies = Vec::new();
    for field in Fields(request) {
        match field? {
            (4, Value::Bytes(text)) => symbols.push(text),
            (5, Value::Bytes(body)) => bodies.push(body),
            _ => {}
        }
    }
    bodies.into_iter().map(|body| one(body, &symbols)).collect()
}

fn one(body: &[u8], symbols: &[&[u8]]) -> Result<Series, BadBody> {
    let mut refs = Vec::new();
    let mut samples = Vec::new();
    for field in Fields(body) {
        match field? {
            (1, Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    refs.push(number(&mut packed).ok_or(BadBody)?);
                }
            }
            (1, Value::Number(one)) => refs.push(one),
            (2, Value::Bytes(body)) => samples.push(sample(body)?),
            _ => {}
        }
    }
    let text = |number: u64| {
        let symbol = symbols.get(usize::try_from(number).ok()?)?;
        std::str::from_utf8(symbol).ok().map(str::to_owned)
    };
    let label = |pair: &[u64]| match *pair {
        [name, value] => text(name).zip(text(value)).ok_or(BadBody),
        _ => Err(BadBody),
    };
    let labels = refs.chunks(2).map(label).collect::<Result<_, _>>()?;
    Ok(Series { labels, samples })
}

fn sample(body: &[u8]) -> Result<Sample, BadBody> {
    let mut sample = Sample { time_ms: 0, value: 0.0 };
    for field in Fields(body) {
        match field? {
            (1, Value::Fixed(bits)) => sample.value = f64::from_bits(bits),
            (2, Value::Number(time)) => sample.time_ms = time.cast_signed(),
            _ => {}
        }
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::{BadBody, Sample, series};
    use proptest::prelude::*;

    /// Written by hand: symbols "", "__name__", "up"; one series of two samples, at -1 ms a stale
    /// marker.
    fn request() -> Vec<u8> {
        let mut request = vec![0x22, 0];
        for symbol in ["__name__", "up"] {
            request.extend([0x22, u8::try_from(symbol.len()).unwrap()]);
            request.extend(symbol.as_bytes());
        }
        let mut body = vec![0x0a, 2, 1, 2];
        let mut first = vec![0x09];
        first.extend(1.5_f64.to_bits().to_le_bytes());
        first.extend([0x10, 0x96, 0x01]);
        let mut second = vec![0x09];
        second.extend(0x7ff0_0000_0000_0002_u64.to_le_bytes());
        second.push(0x10);
        second.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        for sample in [first, second] {
            body.extend([0x12, u8::try_from(sample.len()).unwrap()]);
            body.extend(sample);
        }
        request.extend([0x2a, u8::try_from(body.len()).unwrap()]);
        request.extend(body);
        request
    }

    #[test]
    fn samples_are_read_with_their_labels_bit_for_bit() {
        let found = series(&request()).unwrap();
        let [up] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(up.label("__name__"), Some("up"));
        assert_eq!(up.samples[0], Sample { time_ms: 150, value: 1.5 });
        assert_eq!(up.samples[1].time_ms, -1);
        assert_eq!(up.samples[1].value.to_bits(), 0x7ff0_0000_0000_0002);
    }

    #[test]
    fn a_body_that_is_cut_is_not_taken_for_a_shorter_one() {
        let request = request();
        // Behind its symbols, which are fields of their own.
        for at in 17..request.len() {
            assert_eq!(series(&request[..at]), Err(BadBody), "cut at {at}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(bytes: Vec<u8>) {
            drop(series(&bytes));
        }
    }
}

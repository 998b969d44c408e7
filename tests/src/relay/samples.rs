//! Bodies of remote write, made by hand: protobuf and Snappy, as the published messages have them.

use handoff_relay::remote_write::unpack;

/// A sample: its series, its time and its value's bits.
pub type Taken = (String, i64, u64);

/// Samples of some series, each with one label, as `prometheus.WriteRequest`, packed.
#[must_use]
pub fn body_v1(samples: &[Taken]) -> Vec<u8> {
    let mut request = Vec::new();
    for (name, time, bits) in samples {
        let mut label = Vec::new();
        put_bytes(&mut label, 1, b"__name__");
        put_bytes(&mut label, 2, name.as_bytes());
        let mut series = Vec::new();
        put_bytes(&mut series, 1, &label);
        put_bytes(&mut series, 2, &sample(*time, *bits));
        put_bytes(&mut request, 1, &series);
    }
    pack(&request)
}

/// The same as `io.prometheus.write.v2.Request`.
#[must_use]
pub fn body_v2(samples: &[Taken]) -> Vec<u8> {
    let mut request = Vec::new();
    put_bytes(&mut request, 4, b"");
    put_bytes(&mut request, 4, b"__name__");
    for (name, ..) in samples {
        put_bytes(&mut request, 4, name.as_bytes());
    }
    for (symbol, (_, time, bits)) in (2_u64..).zip(samples) {
        let mut refs = Vec::new();
        put_number(&mut refs, 1);
        put_number(&mut refs, symbol);
        let mut series = Vec::new();
        put_bytes(&mut series, 1, &refs);
        put_bytes(&mut series, 2, &sample(*time, *bits));
        put_bytes(&mut request, 5, &series);
    }
    pack(&request)
}

/// A Snappy block of literals: what any packer may make of incompressible bytes.
#[must_use]
pub fn pack(message: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(message.len() + message.len() / 256 + 8);
    put_number(&mut block, message.len() as u64);
    for chunk in message.chunks(60) {
        let tag = u8::try_from(chunk.len() - 1).unwrap_or(0) << 2;
        block.push(tag);
        block.extend_from_slice(chunk);
    }
    block
}

fn sample(time: i64, bits: u64) -> Vec<u8> {
    let mut sample = vec![0x09];
    sample.extend_from_slice(&bits.to_le_bytes());
    sample.push(0x10);
    put_number(&mut sample, time.cast_unsigned());
    sample
}

/// A field that holds bytes.
pub fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Seven bits a byte.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

/// The samples of an `io.prometheus.write.v2.Request`, each with the values of its labels joined.
#[must_use]
pub fn read_v2(request: &[u8]) -> Option<Vec<Taken>> {
    let fields = fields(request)?;
    let symbols: Vec<&[u8]> = fields.iter().filter_map(|field| field.bytes(4)).collect();
    let mut samples = Vec::new();
    for series in fields.iter().filter_map(|field| field.bytes(5)) {
        let inside = self::fields(series)?;
        let mut values = Vec::new();
        for refs in inside.iter().filter_map(|field| field.bytes(1)) {
            let mut rest = refs;
            while !rest.is_empty() {
                let (_name, value) = (number(&mut rest)?, number(&mut rest)?);
                let value = symbols.get(usize::try_from(value).ok()?)?;
                values.push(String::from_utf8_lossy(value));
            }
        }
        read_samples(&inside, &values.join(","), &mut samples)?;
    }
    Some(samples)
}

/// The same of a packed `prometheus.WriteRequest`.
#[must_use]
pub fn read_v1(body: &[u8]) -> Option<Vec<Taken>> {
    let mut request = Vec::new();
    unpack(body, 256 << 20, &mut request).ok()?;
    let mut samples = Vec::new();
    for series in fields(&request)?.iter().filter_map(|field| field.bytes(1)) {
        let inside = fields(series)?;
        let mut values = Vec::new();
        for label in inside.iter().filter_map(|field| field.bytes(1)) {
            let value = fields(label)?.iter().find_map(|field| field.bytes(2)).unwrap_or_default();
            values.push(String::from_utf8_lossy(value));
        }
        read_samples(&inside, &values.join(","), &mut samples)?;
    }
    Some(samples)
}

/// The samples of a series; both messages have them at the same place.
fn read_samples(series: &[Field<'_>], name: &str, samples: &mut Vec<Taken>) -> Option<()> {
    for sample in series.iter().filter_map(|field| field.bytes(2)) {
        let of = fields(sample)?;
        let bits = of.iter().find_map(|field| field.fixed(1)).unwrap_or(0);
        let time = of.iter().find_map(|field| field.number(2)).unwrap_or(0);
        samples.push((name.to_owned(), time.cast_signed(), bits));
    }
    Some(())
}

/// A field of a message.
enum Field<'a> {
    Number(u64, u64),
    Fixed(u64, u64),
    Bytes(u64, &'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self, field: u64) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(found, bytes) if *found == field => Some(bytes),
            _ => None,
        }
    }

    fn fixed(&self, field: u64) -> Option<u64> {
        match self {
            Self::Fixed(found, bits) if *found == field => Some(*bits),
            _ => None,
        }
    }

    fn number(&self, field: u64) -> Option<u64> {
        match self {
            Self::Number(found, number) if *found == field => Some(*number),
            _ => None,
        }
    }
}

fn fields(mut rest: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = number(&mut rest)?;
        fields.push(match tag & 7 {
            0 => Field::Number(tag >> 3, number(&mut rest)?),
            1 => {
                let (bits, behind) = rest.split_first_chunk::<8>()?;
                rest = behind;
                Field::Fixed(tag >> 3, u64::from_le_bytes(*bits))
            }
            2 => {
                let size = usize::try_from(number(&mut rest)?).ok()?;
                let (bytes, behind) = rest.split_at_checked(size)?;
                rest = behind;
                Field::Bytes(tag >> 3, bytes)
            }
            _ => return None,
        });
    }
    Some(fields)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
}

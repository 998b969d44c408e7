//! Bodies built by the letter of the two `.proto` files, with nothing of the crate: every message is
//! a list of fields, and a field is a tag and a value.

pub fn number(field: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(field) * 8), varint(value)].concat()
}

pub fn double(field: u32, value: f64) -> Vec<u8> {
    [varint(u64::from(field) * 8 + 1), value.to_bits().to_le_bytes().to_vec()].concat()
}

pub fn bytes(field: u32, value: &[u8]) -> Vec<u8> {
    [varint(u64::from(field) * 8 + 2), varint(value.len() as u64), value.to_vec()].concat()
}

pub fn packed(field: u32, values: &[u64]) -> Vec<u8> {
    let all: Vec<u8> = values.iter().flat_map(|value| varint(*value)).collect();
    bytes(field, &all)
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = u8::try_from(value % 128).unwrap();
        value /= 128;
        if value == 0 {
            out.push(low);
            return out;
        }
        out.push(low + 128);
    }
}

/// `prometheus.Label`
pub fn label(name: &str, value: &str) -> Vec<u8> {
    [bytes(1, name.as_bytes()), bytes(2, value.as_bytes())].concat()
}

/// `prometheus.Sample`, and that of 2.0 without a start.
pub fn sample(value: f64, time: i64) -> Vec<u8> {
    [double(1, value), number(2, time.cast_unsigned())].concat()
}

/// `prometheus.TimeSeries`
pub fn series_v1(labels: &[(&str, &str)], samples: &[(f64, i64)]) -> Vec<u8> {
    let labels = labels.iter().flat_map(|(name, value)| bytes(1, &label(name, value)));
    let samples = samples.iter().flat_map(|(value, time)| bytes(2, &sample(*value, *time)));
    labels.chain(samples).collect()
}

/// `prometheus.WriteRequest`
pub fn request_v1(series: &[Vec<u8>]) -> Vec<u8> {
    series.iter().flat_map(|series| bytes(1, series)).collect()
}

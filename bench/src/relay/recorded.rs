//! Scrapes of real programs, as `bench/corpus/record` leaves them: a file for each scrape of each
//! target, in Prometheus' text format, with the time of the scrape in its name.
//!
//! ```text
//! corpus/1763337600000-node.prom      milliseconds, the target
//! ```

use std::fs;
use std::path::Path;

use handoff_relay::{Batch, Sample};

use crate::Failed;

/// Every scrape, one batch each, in the order of their times.
pub(super) fn scrapes(dir: &Path) -> Result<Vec<Batch>, Failed> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Failed::Broke)? {
        let path = entry.map_err(Failed::Broke)?.path();
        if path.extension().is_some_and(|extension| extension == "prom") {
            files.push(path);
        }
    }
    files.sort();
    let mut batches = Vec::new();
    for path in files {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let Some((time, target)) = stem.split_once('-') else { continue };
        let Ok(time) = time.parse() else { continue };
        let text = fs::read_to_string(&path).map_err(Failed::Broke)?;
        let mut batch = Batch::default();
        for line in text.lines() {
            if let Some((labels, value)) = read(line, target) {
                let labels = labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                // A line that no series can be made of is nobody's sample.
                batch.push(labels, &[Sample::new(time, value)]).ok();
            }
        }
        batches.push(batch);
    }
    Ok(batches)
}

/// A line of the text format: labels in their order, and the value.
fn read(line: &str, target: &str) -> Option<(Vec<(String, String)>, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        value => value.parse().ok()?,
    };
    let (name, inside) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (series, ""),
    };
    let mut labels = vec![
        ("__name__".to_owned(), name.trim().to_owned()),
        ("instance".to_owned(), format!("{target}.example.com")),
        ("job".to_owned(), target.to_owned()),
    ];
    let mut rest = inside;
    while let Some((name, behind)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = behind.char_indices();
        let end = loop {
            match letters.next()? {
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    letter => value.push(letter),
                },
                (at, '"') => break at,
                (_, letter) => value.push(letter),
            }
        };
        labels.push((name.trim_start_matches(',').trim().to_owned(), value));
        rest = behind.get(end + 1..)?;
    }
    labels.sort();
    Some((labels, value))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn lines_of_the_text_format_are_read_as_they_are_meant() {
        assert_eq!(read("# HELP up is it up", "node"), None);
        assert_eq!(read("", "node"), None);
        let (labels, value) = read(r#"a_total{x="1,2",path="C:\\d\"q",} 1.5e3"#, "node").unwrap();
        assert!((value - 1500.0).abs() < f64::EPSILON);
        let find = |name: &str| labels.iter().find(|(found, _)| found == name).unwrap().1.as_str();
        assert_eq!(find("__name__"), "a_total");
        assert_eq!(find("x"), "1,2");
        assert_eq!(find("path"), r#"C:\d"q"#);
        assert_eq!(find("job"), "node");
        let (_, value) = read("b +Inf", "node").unwrap();
        assert!(value.is_infinite());
    }
}

//! A key's value: how it is written, what is allowed, and what the settings make of it.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use handoff_server::settings::{
    CallDurability, CatchUp, Compression, Durability, LogFormat, OnCorrupt, OnLost, Order,
    Ordering, ServeOrder, Start, WithoutConsumer,
};
use handoff_types::Span;

use super::{bytes, suggest};
use crate::duration;

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number, both ends allowed.
    Count(u64, u64),
    /// Bytes, both ends allowed.
    Bytes(u64, u64),
    /// A length of time, both ends allowed. A bare number counts in the unit of the key's name.
    Time(Unit, Duration, Duration),
    /// Any text that is not empty.
    Text,
    /// A file or a directory.
    Path,
    /// An IP address and a port.
    Address,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Names, none or more.
    Names,
}

/// What a bare number of a length of time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds, fractions included.
    Secs,
    /// Seconds, and only whole ones.
    WholeSecs,
    /// Milliseconds.
    Millis,
    /// Hours.
    Hours,
    /// Days.
    Days,
}

impl Unit {
    const fn nanos(self) -> u64 {
        match self {
            Self::Secs | Self::WholeSecs => 1_000_000_000,
            Self::Millis => 1_000_000,
            Self::Hours => 3_600_000_000_000,
            Self::Days => 86_400_000_000_000,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Secs | Self::WholeSecs => "seconds",
            Self::Millis => "milliseconds",
            Self::Hours => "hours",
            Self::Days => "days",
        }
    }
}

/// A value as it came, before the key says what it means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    /// `true` or `false` of a file.
    Bool(bool),
    /// A number of a file, in its digits.
    Number(String),
    /// Text of a file.
    Text(String),
    /// Texts of a file.
    List(Vec<String>),
    /// Something of a file that no key takes: another array, a table, a date.
    Other(&'static str),
    /// Text of a variable or a flag: the key says whether it is a number.
    Loose(OsString),
}

/// A value that the key allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The key has no value: its default is decided elsewhere, or there is none.
    Unset,
    /// `true` or `false`.
    Bool(bool),
    /// A number, or bytes.
    Number(u64),
    /// A length of time.
    Time(Duration),
    /// Text, or one of some words.
    Text(String),
    /// A file or a directory.
    Path(PathBuf),
    /// An IP address and a port.
    Address(SocketAddr),
    /// Names.
    Names(Vec<String>),
}

impl Kind {
    /// Reads a value.
    ///
    /// # Errors
    /// Words: what is wrong and what is allowed.
    pub(crate) fn read(self, raw: &Raw) -> Result<Value, String> {
        let value = match self {
            Self::Bool => read_bool(raw).map(Value::Bool),
            Self::Count(..) => read_count(raw).map(Value::Number),
            Self::Bytes(..) => read_bytes(raw).map(Value::Number),
            Self::Time(unit, ..) => read_time(raw, unit).map(Value::Time),
            Self::Text => read_text(raw).map(Value::Text),
            Self::Path => read_path(raw).map(Value::Path),
            Self::Address => read_address(raw).map(Value::Address),
            Self::Choice(words) => read_choice(raw, words).map(Value::Text),
            Self::Names => match raw {
                Raw::List(names) => Ok(Value::Names(names.clone())),
                _ => Err(format!("{raw} is no list of names: write it as in [\"orders\"]")),
            },
        }?;
        let inside = match (self, &value) {
            (Self::Count(min, max) | Self::Bytes(min, max), Value::Number(n)) => {
                (min..=max).contains(n)
            }
            (Self::Time(_, min, max), Value::Time(time)) => (min..=max).contains(time),
            _ => true,
        };
        if inside {
            return Ok(value);
        }
        let range = self.range().unwrap_or_default();
        Err(format!("{} is out of range: allowed is {range}", self.show(&value)))
    }

    /// What is allowed, for keys that have a range.
    pub(crate) fn range(self) -> Option<String> {
        match self {
            Self::Count(min, max) => Some(format!("{min} to {max}")),
            Self::Bytes(min, max) => Some(format!("{} to {}", bytes::show(min), bytes::show(max))),
            Self::Time(_, min, max) => {
                Some(format!("{} to {}", duration::show(min), duration::show(max)))
            }
            Self::Choice(words) => Some(words.join(", ")),
            Self::Bool | Self::Text | Self::Path | Self::Address | Self::Names => None,
        }
    }

    /// What it takes, in a few words.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Count(..) => "number",
            Self::Bytes(..) => "bytes",
            Self::Time(Unit::Secs, ..) => "time, in seconds",
            Self::Time(Unit::WholeSecs, ..) => "time, in whole seconds",
            Self::Time(Unit::Millis, ..) => "time, in milliseconds",
            Self::Time(Unit::Hours, ..) => "time, in hours",
            Self::Time(Unit::Days, ..) => "time, in days",
            Self::Text => "text",
            Self::Path => "path",
            Self::Address => "address and port",
            Self::Choice(_) => "one of some words",
            Self::Names => "list of names",
        }
    }

    /// A value as people read it, without quotes.
    pub(crate) fn show(self, value: &Value) -> String {
        match (self, value) {
            (Self::Bytes(..), Value::Number(n)) => bytes::show(*n),
            (_, Value::Unset) => String::new(),
            (_, Value::Bool(value)) => value.to_string(),
            (_, Value::Number(n)) => n.to_string(),
            (_, Value::Time(time)) => duration::show(*time),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::Path(path)) => path.display().to_string(),
            (_, Value::Address(address)) => address.to_string(),
            (_, Value::Names(names)) => names.join(", "),
        }
    }

    /// A value as it is written into a file. Nothing for [`Value::Unset`].
    pub(crate) fn toml(self, value: &Value) -> Option<String> {
        match value {
            Value::Unset => None,
            Value::Bool(_) => Some(self.show(value)),
            Value::Number(_) if matches!(self, Self::Count(..)) => Some(self.show(value)),
            Value::Names(names) => {
                let names = names.iter().cloned().map(toml::Value::String).collect();
                Some(toml::Value::Array(names).to_string())
            }
            _ => Some(toml::Value::String(self.show(value)).to_string()),
        }
    }
}

fn read_bool(raw: &Raw) -> Result<bool, String> {
    let wrong = || format!("{raw} is neither true nor false");
    match raw {
        Raw::Bool(value) => Ok(*value),
        Raw::Loose(_) => match raw.loose() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

fn read_count(raw: &Raw) -> Result<u64, String> {
    let text = match raw {
        Raw::Number(digits) => Some(digits.as_str()),
        _ => raw.loose(),
    };
    let number = text.and_then(|text| text.parse::<u64>().ok());
    number.ok_or_else(|| format!("{raw} is no whole number from 0 on"))
}

fn read_bytes(raw: &Raw) -> Result<u64, String> {
    let text = match raw {
        Raw::Number(text) | Raw::Text(text) => Some(text.as_str()),
        _ => raw.loose(),
    };
    let wrong = || format!("{raw} is no amount of bytes: write it as in 64MiB or 4096");
    bytes::parse(text.ok_or_else(wrong)?)
}

fn read_time(raw: &Raw, unit: Unit) -> Result<Duration, String> {
    let text = match raw {
        Raw::Number(text) | Raw::Text(text) => Some(text.as_str()),
        _ => raw.loose(),
    };
    let wrong = || {
        format!("{raw} is no length of time: write it as in 10s, or a number of {}", unit.word())
    };
    let text = text.ok_or_else(wrong)?;
    let bare = matches!(raw, Raw::Number(_) | Raw::Loose(_))
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit());
    let time = if bare {
        duration::decimal(text, unit.nanos()).map(Duration::from_nanos).ok_or_else(wrong)?
    } else if matches!(raw, Raw::Number(_)) {
        return Err(wrong());
    } else {
        duration::parse(text)?
    };
    if unit == Unit::WholeSecs && time.subsec_nanos() > 0 {
        return Err(format!("{raw} is no whole number of seconds"));
    }
    Ok(time)
}

fn read_text(raw: &Raw) -> Result<String, String> {
    let text = match raw {
        Raw::Text(text) => Some(text.as_str()),
        _ => raw.loose(),
    };
    match text {
        Some("") => Err("it is empty".to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("{raw} is no text: put it into quotes")),
    }
}

fn read_path(raw: &Raw) -> Result<PathBuf, String> {
    let path = match raw {
        Raw::Text(text) => PathBuf::from(text),
        Raw::Loose(text) => PathBuf::from(text),
        _ => return Err(format!("{raw} is no path: put it into quotes")),
    };
    if path.as_os_str().is_empty() { Err("the path is empty".to_owned()) } else { Ok(path) }
}

fn read_address(raw: &Raw) -> Result<SocketAddr, String> {
    let text = match raw {
        Raw::Text(text) => Some(text.as_str()),
        _ => raw.loose(),
    };
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        format!("{raw} is no address: write an IP address and a port, as in 127.0.0.1:7070 or [::1]:7070 (port 0 picks a free one)")
    })
}

fn read_choice(raw: &Raw, words: &'static [&'static str]) -> Result<String, String> {
    let text = match raw {
        Raw::Text(text) => Some(text.as_str()),
        _ => raw.loose(),
    };
    let found = text.and_then(|text| words.iter().find(|word| **word == text));
    found.map(|word| (*word).to_owned()).ok_or_else(|| {
        let meant = text.and_then(|text| suggest::nearest(text, words.iter().copied()));
        let meant = meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
        format!("{raw} is not one of {}{meant}", words.join(", "))
    })
}

impl Raw {
    fn loose(&self) -> Option<&str> {
        match self {
            Self::Loose(text) => text.to_str(),
            _ => None,
        }
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "`{value}`"),
            Self::Number(text) | Self::Text(text) => write!(f, "`{text}`"),
            Self::List(_) => f.write_str("this list"),
            Self::Other(what) => write!(f, "this {what}"),
            Self::Loose(text) => write!(f, "`{}`", text.display()),
        }
    }
}

/// A field of the settings that holds a key's value. A value of another kind is left out; the test
/// of the registry puts every kind into every field.
pub(crate) trait Field {
    /// What it holds.
    fn value(&self) -> Value;
    /// Puts a value in.
    fn put(&mut self, value: Value);
}

macro_rules! field {
    ($kind:ty, $from:pat => $put:expr, |$this:ident| $value:expr) => {
        impl Field for $kind {
            fn value(&self) -> Value {
                let $this = self;
                $value
            }

            fn put(&mut self, value: Value) {
                if let $from = value {
                    *self = $put;
                }
            }
        }
    };
}

/// A choice that need not be made. Whichever comes first is overwritten by the one that is.
macro_rules! optional {
    ($kind:ident::$first:ident) => {
        impl Field for Option<$kind> {
            fn value(&self) -> Value {
                self.as_ref().map_or(Value::Unset, Field::value)
            }

            fn put(&mut self, value: Value) {
                if let Value::Text(_) = value {
                    let mut chosen = $kind::$first;
                    chosen.put(value);
                    *self = Some(chosen);
                }
            }
        }
    };
}

field!(bool, Value::Bool(value) => value, |it| Value::Bool(*it));
field!(u64, Value::Number(n) => n, |it| Value::Number(*it));
field!(u32, Value::Number(n) => u32::try_from(n).unwrap_or(u32::MAX), |it| Value::Number(u64::from(*it)));
field!(u16, Value::Number(n) => u16::try_from(n).unwrap_or(u16::MAX), |it| Value::Number(u64::from(*it)));
field!(Option<u16>, Value::Number(n) => Some(u16::try_from(n).unwrap_or(u16::MAX)), |it| it.map_or(Value::Unset, |n| Value::Number(u64::from(n))));
field!(usize, Value::Number(n) => usize::try_from(n).unwrap_or(usize::MAX), |it| Value::Number(*it as u64));
field!(Option<u64>, Value::Number(n) => Some(n), |it| it.map_or(Value::Unset, Value::Number));
field!(Duration, Value::Time(time) => time, |it| Value::Time(*it));
field!(Span, Value::Time(time) => Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)), |it| Value::Time(Duration::from_micros(it.0)));
field!(Option<Span>, Value::Time(time) => Some(Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))), |it| it.map_or(Value::Unset, |span| Value::Time(Duration::from_micros(span.0))));
field!(String, Value::Text(text) => text, |it| Value::Text(it.clone()));
field!(Option<String>, Value::Text(text) => Some(text), |it| it.clone().map_or(Value::Unset, Value::Text));
field!(PathBuf, Value::Path(path) => path, |it| Value::Path(it.clone()));
field!(Option<PathBuf>, Value::Path(path) => Some(path), |it| it.clone().map_or(Value::Unset, Value::Path));
field!(SocketAddr, Value::Address(address) => address, |it| Value::Address(*it));

/// The words of `server.log_format`.
pub(crate) const LOG_FORMATS: &[&str] = &["text", "json"];

field!(
    LogFormat,
    Value::Text(word) => if word == "json" { Self::Json } else { Self::Text },
    |it| Value::Text(match it { Self::Text => "text", Self::Json => "json" }.to_owned())
);

/// The words of `events.catch_up`.
pub(crate) const CATCH_UPS: &[&str] = &["skip", "once", "all"];

field!(
    CatchUp,
    Value::Text(word) => match word.as_str() { "once" => Self::Once, "all" => Self::All, _ => Self::Skip },
    |it| Value::Text(match it { Self::Skip => "skip", Self::Once => "once", Self::All => "all" }.to_owned())
);

/// The words of `streams.on_corrupt`.
pub(crate) const ON_CORRUPT: &[&str] = &["stop", "skip"];

field!(
    OnCorrupt,
    Value::Text(word) => if word == "skip" { Self::Skip } else { Self::Stop },
    |it| Value::Text(match it { Self::Stop => "stop", Self::Skip => "skip" }.to_owned())
);

/// The words of `exchange.order`.
pub(crate) const SERVE_ORDERS: &[&str] = &["received", "created"];

field!(
    ServeOrder,
    Value::Text(word) => if word == "created" { Self::Created } else { Self::Received },
    |it| Value::Text(match it { Self::Received => "received", Self::Created => "created" }.to_owned())
);

/// The words of `exchange.ordering`.
pub(crate) const ORDERINGS: &[&str] = &["none", "producer"];

field!(
    Ordering,
    Value::Text(word) => if word == "producer" { Self::Producer } else { Self::None },
    |it| Value::Text(match it { Self::None => "none", Self::Producer => "producer" }.to_owned())
);

/// The words of `calls.on_lost`.
pub(crate) const ON_LOST: &[&str] = &["redeliver", "fail"];

field!(
    OnLost,
    Value::Text(word) => if word == "fail" { Self::Fail } else { Self::Redeliver },
    |it| Value::Text(match it { Self::Redeliver => "redeliver", Self::Fail => "fail" }.to_owned())
);
optional!(OnLost::Redeliver);

/// The words of `calls.durability`.
pub(crate) const CALL_DURABILITIES: &[&str] = &["disk", "memory"];

field!(
    CallDurability,
    Value::Text(word) => if word == "memory" { Self::Memory } else { Self::Disk },
    |it| Value::Text(match it { Self::Disk => "disk", Self::Memory => "memory" }.to_owned())
);
optional!(CallDurability::Disk);

/// The words of `calls.without_consumer`.
pub(crate) const WITHOUT_CONSUMER: &[&str] = &["park", "fail"];

field!(
    WithoutConsumer,
    Value::Text(word) => if word == "fail" { Self::Fail } else { Self::Park },
    |it| Value::Text(match it { Self::Park => "park", Self::Fail => "fail" }.to_owned())
);
optional!(WithoutConsumer::Park);

/// The words of a group's `start`.
pub(crate) const STARTS: &[&str] = &["earliest", "latest"];

field!(
    Start,
    Value::Text(word) => if word == "latest" { Self::Latest } else { Self::Earliest },
    |it| Value::Text(match it { Self::Earliest => "earliest", Self::Latest => "latest" }.to_owned())
);

/// The words of a group's `ordering`.
pub(crate) const ORDERS: &[&str] = &["key", "partition", "none"];

field!(
    Order,
    Value::Text(word) => match word.as_str() { "partition" => Self::Partition, "none" => Self::Free, _ => Self::Key },
    |it| Value::Text(match it { Self::Key => "key", Self::Partition => "partition", Self::Free => "none" }.to_owned())
);

/// The words of a topic's `durability`.
pub(crate) const DURABILITIES: &[&str] = &["fsync", "os"];

field!(
    Durability,
    Value::Text(word) => if word == "os" { Self::Os } else { Self::Fsync },
    |it| Value::Text(match it { Self::Fsync => "fsync", Self::Os => "os" }.to_owned())
);

/// The words of a topic's `compression`.
pub(crate) const COMPRESSIONS: &[&str] = &["none", "gzip", "snappy", "lz4", "zstd"];

field!(
    Compression,
    Value::Text(word) => match word.as_str() {
        "gzip" => Self::Gzip,
        "snappy" => Self::Snappy,
        "lz4" => Self::Lz4,
        "zstd" => Self::Zstd,
        _ => Self::None,
    },
    |it| Value::Text(
        match it {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
        .to_owned()
    )
);

#[cfg(test)]
mod tests {
    use super::{Kind, Raw, Unit, Value};
    use std::time::Duration;

    const SECS: Kind = Kind::Time(Unit::Secs, Duration::from_millis(1), Duration::from_secs(100));

    fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    fn loose(text: &str) -> Raw {
        Raw::Loose(text.into())
    }

    #[test]
    fn a_bare_time_counts_in_the_unit_of_its_name() {
        let number = |digits: &str| Raw::Number(digits.to_owned());
        assert_eq!(SECS.read(&number("1.5")), Ok(Value::Time(Duration::from_millis(1500))));
        assert_eq!(SECS.read(&loose("10")), Ok(Value::Time(Duration::from_secs(10))));
        assert_eq!(SECS.read(&text("500ms")), Ok(Value::Time(Duration::from_millis(500))));
        let millis = Kind::Time(Unit::Millis, Duration::ZERO, Duration::from_secs(100));
        assert_eq!(millis.read(&number("500")), Ok(Value::Time(Duration::from_millis(500))));
        assert!(SECS.read(&text("10")).unwrap_err().contains("no unit"), "text needs its unit");
    }

    #[test]
    fn whole_seconds_have_no_fraction() {
        let kind = Kind::Time(Unit::WholeSecs, Duration::ZERO, Duration::from_secs(100));
        assert_eq!(kind.read(&text("1m")), Ok(Value::Time(Duration::from_secs(60))));
        assert!(kind.read(&text("1500ms")).unwrap_err().contains("whole number of seconds"));
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        let words = Kind::Count(1, 10).read(&Raw::Number("11".to_owned())).unwrap_err();
        assert_eq!(words, "11 is out of range: allowed is 1 to 10");
        let words = Kind::Bytes(1 << 10, 1 << 20).read(&text("1B")).unwrap_err();
        assert_eq!(words, "1 is out of range: allowed is 1KiB to 1MiB");
        let words = SECS.read(&text("2m")).unwrap_err();
        assert_eq!(words, "2m is out of range: allowed is 1ms to 1m40s");
    }

    #[test]
    fn a_value_of_another_kind_is_refused_with_an_example() {
        assert!(Kind::Bool.read(&text("true")).is_err(), "text in a file is no bool");
        assert_eq!(Kind::Bool.read(&loose("true")), Ok(Value::Bool(true)));
        assert!(Kind::Bool.read(&loose("yes")).unwrap_err().contains("true"));
        assert!(Kind::Count(0, 9).read(&text("5")).is_err(), "text in a file is no number");
        assert!(Kind::Address.read(&text("localhost")).unwrap_err().contains("127.0.0.1:7070"));
        assert!(Kind::Path.read(&Raw::Bool(true)).unwrap_err().contains("quotes"));
        assert!(Kind::Text.read(&Raw::Other("array")).unwrap_err().contains("this array"));
        let words = Kind::Choice(&["skip", "once"]).read(&text("onec")).unwrap_err();
        assert!(words.contains("did you mean `once`"), "{words}");
    }
}

//! The query of a URL: names that are known, values that can be read, nothing else.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use handoff_types::Code;

use super::nearest::nearest;
use super::problem::Problem;

/// Parameters in the order they came. A name may come several times.
#[derive(Debug)]
pub(super) struct Query(String);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.uri.query().unwrap_or_default().to_owned()))
    }
}

/// How many of a page unless the client says otherwise, and at most.
pub(super) const PAGE: usize = 100;
pub(super) const PAGE_MAX: usize = 1_000;

/// What part of a list is asked for: what is behind the `next` of the page before, and how many.
#[derive(Debug)]
pub(super) struct Page<T> {
    pub(super) after: Option<T>,
    pub(super) limit: usize,
}

/// What to ask for the page behind this one with, if there are more.
pub(super) fn next_of<T>(
    page: &[T],
    more: bool,
    name: impl FnOnce(&T) -> String,
) -> Option<String> {
    page.last().filter(|_| more).map(name)
}

/// Parameters whose names are all known.
#[derive(Debug)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Query {
    /// The parameters, if all of them are known.
    pub(super) fn known(&self, names: &[&str]) -> Result<Parameters, Problem> {
        let mut parameters = Vec::new();
        for pair in self.0.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !names.contains(&name.as_str()) {
                return Err(unknown(&name, names));
            }
            parameters.push((name, value));
        }
        Ok(Parameters(parameters))
    }

    /// The page that is asked for, where nothing else is; `what` says what `after` should be.
    pub(super) fn page<T: FromStr>(&self, what: &str) -> Result<Page<T>, Problem> {
        let asked = self.known(&["after", "limit"])?;
        let after = asked.one("after", what)?;
        Ok(Page { after, limit: asked.limit(PAGE, PAGE_MAX)? })
    }
}

impl Parameters {
    /// Every value of a name.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        let named = self.0.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.clone()).collect()
    }

    /// Every value of a name, read; `what` says what it should be.
    pub(super) fn read_all<T: FromStr>(&self, name: &str, what: &str) -> Result<Vec<T>, Problem> {
        let named = self.0.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| read(name, value, what)).collect()
    }

    /// The one value of a name, if it came.
    pub(super) fn one<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, Problem> {
        let mut values = self.read_all(name, what)?;
        if values.len() > 1 {
            return Err(malformed(format!("`{name}` came {} times; it comes once", values.len())));
        }
        Ok(values.pop())
    }

    /// How many are asked for: `limit`, from 1 to `max`.
    pub(super) fn limit(&self, default: usize, max: usize) -> Result<usize, Problem> {
        let limit = self.one("limit", &format!("a number from 1 to {max}"))?.unwrap_or(default);
        if limit == 0 || limit > max {
            return Err(malformed(format!("`limit` is {limit}; it is a number from 1 to {max}")));
        }
        Ok(limit)
    }
}

fn read<T: FromStr>(name: &str, value: &str, what: &str) -> Result<T, Problem> {
    value.parse().map_err(|_| malformed(format!("`{name}` is `{value}`; it is {what}")))
}

fn malformed(detail: String) -> Problem {
    Problem::new(Code::RequestMalformed, detail)
}

fn unknown(name: &str, names: &[&str]) -> Problem {
    let detail = match (nearest(name, names.iter().copied()), names) {
        (Some(meant), _) => format!("there is no parameter `{name}`; did you mean `{meant}`?"),
        (None, []) => format!("there is no parameter `{name}`: nothing is asked here"),
        (None, _) => {
            format!("there is no parameter `{name}`; there are: {}", names.join(", "))
        }
    };
    malformed(detail)
}

/// Undoes `application/x-www-form-urlencoded`.
fn decoded(text: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => match (rest.next().and_then(digit), rest.next().and_then(digit)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(malformed(format!("`{text}` has a % without two digits"))),
            },
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed(format!("`{text}` is not UTF-8")))
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameters, Query, decoded, next_of};
    use proptest::prelude::*;

    fn known(query: &str) -> Result<Parameters, String> {
        Query(query.to_owned()).known(&["type", "limit"]).map_err(|problem| problem.detail)
    }

    #[test]
    fn names_may_repeat_and_values_are_decoded() {
        let parameters = known("type=a+b&&type=%D0%BC%2B&limit=7&type").unwrap();
        assert_eq!(parameters.all("type"), ["a b", "м+", ""]);
        assert_eq!(parameters.limit(1, 10).unwrap(), 7);
        assert!(known("").unwrap().all("type").is_empty());
    }

    #[test]
    fn a_page_is_what_is_behind_a_name_and_so_many() {
        let page = |query: &str| Query(query.to_owned()).page::<u32>("a number");
        let asked = page("after=7&limit=20").unwrap();
        assert_eq!((asked.after, asked.limit), (Some(7), 20));
        let asked = page("").unwrap();
        assert_eq!((asked.after, asked.limit), (None, 100));
        for wrong in ["limit=0", "limit=1001", "after=x", "before=7", "after=1&after=2"] {
            assert!(page(wrong).is_err(), "{wrong}");
        }
        assert_eq!(next_of(&[1, 2], true, u32::to_string), Some("2".to_owned()));
        assert_eq!(next_of(&[1, 2], false, u32::to_string), None);
    }

    #[test]
    fn what_is_not_known_or_not_readable_is_refused_with_words() {
        assert!(known("tpye=a").unwrap_err().contains("did you mean `type`?"));
        assert!(known("colour=a").unwrap_err().contains("there are: type, limit"));
        assert!(known("type=%4").unwrap_err().contains("without two digits"));
        assert!(known("type=%ff").unwrap_err().contains("not UTF-8"));
        for (query, words) in [
            ("limit=x", "`limit` is `x`"),
            ("limit=0", "from 1 to 10"),
            ("limit=11", "from 1 to 10"),
            ("limit=1&limit=2", "came 2 times"),
        ] {
            let detail = known(query).unwrap().limit(1, 10).unwrap_err().detail;
            assert!(detail.contains(words), "{query}: {detail}");
        }
    }

    #[test]
    fn every_byte_reads_back() {
        for byte in 0..=0x7f_u8 {
            assert_eq!(decoded(&format!("%{byte:02x}")).unwrap().as_bytes(), [byte]);
            assert_eq!(decoded(&format!("%{byte:02X}")).unwrap().as_bytes(), [byte]);
        }
    }

    /// As a client may write it: what is plain stays, or everything is escaped.
    fn encoded(text: &str, plain: bool) -> String {
        let escaped = |byte: u8| match byte {
            b'a'..=b'z' if plain => char::from(byte).to_string(),
            b' ' if plain => "+".to_owned(),
            byte => format!("%{byte:02X}"),
        };
        text.bytes().map(escaped).collect()
    }

    proptest! {
        #[test]
        fn what_is_escaped_reads_back(
            values in prop::collection::vec(any::<String>(), 0..5),
            plain: bool,
        ) {
            let pairs = values.iter().map(|value| format!("type={}", encoded(value, plain)));
            let query = pairs.collect::<Vec<_>>().join("&");
            prop_assert_eq!(known(&query).unwrap().all("type"), values);
        }

        #[test]
        fn whatever_comes_is_read_or_refused(query in any::<String>()) {
            if let Ok(parameters) = known(&query) {
                drop(parameters.limit(1, 10));
            }
        }
    }
}

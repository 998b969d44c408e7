//! Where requests go: the server's URL, and paths with queries below it.

use std::fmt;

use http::Uri;

use crate::Error;

/// A path and a query, escaped.
///
/// ```
/// use handoff_sdk::Target;
///
/// let target = Target::new("/v1/events").query("type", "back up").query("limit", 10);
/// assert_eq!(target.as_str(), "/v1/events?type=back%20up&limit=10");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    asked: bool,
}

impl Target {
    /// A path, as it is: already escaped, and beginning with `/`.
    #[must_use]
    pub fn new(path: &str) -> Self {
        Self { text: path.to_owned(), asked: path.contains('?') }
    }

    /// Adds one segment to the path. Before any [`Target::query`].
    #[must_use]
    pub fn segment(mut self, segment: impl fmt::Display) -> Self {
        debug_assert!(!self.asked, "a segment after the query");
        self.text.push('/');
        escape(&segment.to_string(), &mut self.text);
        self
    }

    /// Adds a name and a value to the query.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.text.push(if self.asked { '&' } else { '?' });
        self.asked = true;
        escape(name, &mut self.text);
        self.text.push('=');
        escape(&value.to_string(), &mut self.text);
        self
    }

    /// The same name with each of the values.
    #[must_use]
    pub fn queries<V: fmt::Display>(self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        values.into_iter().fold(self, |target, value| target.query(name, value))
    }

    /// As it goes into a request.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Everything but the unreserved characters of RFC 3986 is written as `%XX`.
fn escape(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for nibble in [byte >> 4, byte & 0xf] {
                out.extend(HEX.get(usize::from(nibble)).copied().map(char::from));
            }
        }
    }
}

/// The URL of a server.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) https: bool,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As it stands in the `Host` header.
    pub(crate) authority: String,
    /// What stands before every path; empty, or `/` and no `/` at its end.
    prefix: String,
    /// For messages. It has no secrets: a URL with a password is not taken.
    pub(crate) url: String,
}

impl Base {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadUrl { url: without_secrets(text), why: why.to_owned() };
        let uri: Uri = text.parse().map_err(|error| bad(&format!("{error}")))?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(bad("only http and https are spoken")),
            None => return Err(bad("it has no http:// or https:// before it")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a user or password in a URL is not taken; give a token"));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(bad("it goes on after the path"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        // `Authority::port` is silent about a port that is no port.
        let port = match authority.as_str().strip_prefix(authority.host()).unwrap_or_default() {
            "" if https => 443,
            "" => 80,
            text => match text.trim_start_matches(':').parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(bad("its port is not a number from 1 to 65535")),
            },
        };
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self {
            https,
            host,
            port,
            authority: authority.as_str().to_owned(),
            url: text.trim_end_matches('/').to_owned(),
            prefix,
        })
    }

    /// The request target of a path below this URL.
    pub(crate) fn resolve(&self, target: &str) -> Result<Uri, Error> {
        if !target.starts_with('/') {
            return Err(Error::Invalid(format!("the path `{target}` does not begin with /")));
        }
        format!("{}{target}", self.prefix).parse().map_err(|error| {
            Error::Invalid(format!(
                "a path of {} octets cannot be asked for: {error}",
                self.prefix.len() + target.len()
            ))
        })
    }
}

/// A URL for a message: what stands before an `@` may be a password.
fn without_secrets(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((before, after)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://…@{after}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Base, Target};
    use crate::Error;

    #[test]
    fn a_url_gives_host_port_and_prefix() {
        let cases = [
            ("http://127.0.0.1:7070", "127.0.0.1", 7070, "/v1/server"),
            ("http://example.org", "example.org", 80, "/v1/server"),
            ("https://example.org/", "example.org", 443, "/v1/server"),
            ("http://[::1]:9/", "::1", 9, "/v1/server"),
            ("https://example.org/handoff/", "example.org", 443, "/handoff/v1/server"),
        ];
        for (url, host, port, path) in cases {
            let base = Base::parse(url).unwrap();
            assert_eq!((base.host.as_str(), base.port), (host, port), "{url}");
            assert_eq!(base.resolve("/v1/server").unwrap(), path, "{url}");
            assert_eq!(base.https, url.starts_with("https"), "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_used_says_why() {
        let cases = [
            ("", "empty"),
            ("127.0.0.1:7070", "no http://"),
            ("example.org", "no http://"),
            ("/v1", "no http://"),
            ("ftp://example.org", "only http"),
            ("http://a:b@example.org", "password"),
            ("http://example.org/?a=b", "goes on"),
            ("http://example.org/#a", "goes on"),
            ("http://example.org:/", "port"),
            ("http://example.org:70700", "port"),
            ("http://example.org:0", "port"),
            ("http:// example.org", "invalid"),
        ];
        for (url, why) in cases {
            let error = Base::parse(url).unwrap_err();
            assert!(matches!(error, Error::BadUrl { .. }), "{url}: {error:?}");
            assert!(error.to_string().contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_told() {
        let error = Base::parse("http://me:secret@example.org").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }

    #[test]
    fn every_character_that_means_something_is_escaped() {
        let target = Target::new("/v1/x").segment("a/b?c#d%").query("ä&=", "1+1 = 2");
        assert_eq!(target.as_str(), "/v1/x/a%2Fb%3Fc%23d%25?%C3%A4%26%3D=1%2B1%20%3D%202");
    }
}

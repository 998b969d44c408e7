//! Server-sent events: octets to messages (WHATWG HTML, 9.2.6).
//!
//! Octets may be cut anywhere. Lines end with CR LF, LF or CR. An empty line ends a message; a
//! line that begins with a colon is a comment. Unlike a browser this also gives messages that have
//! a name and no data.

use std::collections::VecDeque;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its name; empty if it has none.
    pub(crate) event: Vec<u8>,
    /// Its data, lines joined by LF.
    pub(crate) data: Vec<u8>,
    /// Its own id; empty if it has none. Unlike a browser's it is not that of the message before.
    pub(crate) id: Vec<u8>,
}

/// A message is longer than is taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Octets on their way to becoming messages.
#[derive(Debug)]
pub(crate) struct Parser {
    max: usize,
    line: Vec<u8>,
    /// The last octet was a CR: a LF that follows belongs to it.
    after_cr: bool,
    first_line: bool,
    message: Message,
    has_fields: bool,
    has_data: bool,
    /// How long the server wants a client to wait before it connects again.
    pub(crate) retry_ms: Option<u64>,
}

impl Parser {
    /// Takes messages of at most `max` octets.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            message: Message::default(),
            has_fields: false,
            has_data: false,
            retry_ms: None,
        }
    }

    /// Takes octets and appends the messages they complete.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        messages: &mut VecDeque<Message>,
    ) -> Result<(), TooLong> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.message.data.len() + part.len() > self.max {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            let Some((mark, rest)) = rest.split_first() else { break };
            self.after_cr = *mark == b'\r';
            bytes = rest;
            messages.extend(self.end_line());
        }
        Ok(())
    }

    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.has_data = false;
            let message = std::mem::take(&mut self.message);
            return std::mem::take(&mut self.has_fields).then_some(message);
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let field = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        self.field(field, value.strip_prefix(b" ").unwrap_or(value));
        None
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        match field {
            b"event" => {
                self.message.event = value.to_vec();
                self.has_fields = true;
            }
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.message.data.push(b'\n');
                }
                self.message.data.extend_from_slice(value);
                self.has_fields = true;
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                self.retry_ms = text.parse().ok().or(self.retry_ms);
            }
            // An id alone is no message.
            b"id" => self.message.id = value.to_vec(),
            // Comments have an empty name.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::collection::vec;
    use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
    use proptest::sample::Index;

    use super::{Message, Parser, TooLong};

    fn parse<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Message>, Option<u64>) {
        let mut parser = Parser::new(1 << 20);
        let mut messages = VecDeque::new();
        for part in parts {
            parser.push(part, &mut messages).unwrap();
        }
        (messages.into(), parser.retry_ms)
    }

    fn check(stream: &str, expected: &[(&str, &str)]) {
        let (messages, _) = parse([stream.as_bytes()]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let messages: Vec<_> = messages.iter().map(|m| (text(&m.event), text(&m.data))).collect();
        let expected: Vec<_> =
            expected.iter().map(|(e, d)| ((*e).to_owned(), (*d).to_owned())).collect();
        assert_eq!(messages, expected, "{stream:?}");
    }

    #[test]
    fn a_message_ends_with_an_empty_line() {
        check("event: notify\ndata: 1\n\n", &[("notify", "1")]);
        check("event: notify\ndata: 1\n", &[]);
        check("data: 1\n\ndata: 2\n\n", &[("", "1"), ("", "2")]);
        check("\n\n\n", &[]);
    }

    #[test]
    fn lines_end_in_three_ways() {
        check("event: a\r\ndata: 1\r\n\r\n", &[("a", "1")]);
        check("event: a\rdata: 1\r\r", &[("a", "1")]);
        check("event: a\ndata: 1\r\n\rdata: 2\n\r", &[("a", "1"), ("", "2")]);
    }

    #[test]
    fn lines_of_data_are_joined() {
        check("data: {\ndata:  \"a\": 1\ndata:}\n\n", &[("", "{\n \"a\": 1\n}")]);
        check("data\ndata\n\n", &[("", "\n")]);
    }

    #[test]
    fn comments_and_unknown_fields_say_nothing() {
        check(": heartbeat\n\n", &[]);
        check(":\n\n:\n", &[]);
        check("id: 7-1\ncolour: red\n\n", &[]);
        check(": a\nid: 7-1\nevent: b\n: c\ndata: d\n\n", &[("b", "d")]);
    }

    #[test]
    fn an_id_belongs_to_its_own_message() {
        let (messages, _) = parse([&b"id: 3:7\ndata: a\n\ndata: b\n\nid: 9\n\ndata: c\n\n"[..]]);
        let ids: Vec<&[u8]> = messages.iter().map(|message| message.id.as_slice()).collect();
        assert_eq!(ids, [&b"3:7"[..], b"", b""]);
    }

    #[test]
    fn a_name_without_data_is_a_message() {
        check("event: ready\n\n", &[("ready", "")]);
        check("event: ready\nevent: steady\n\ndata: 1\n\n", &[("steady", ""), ("", "1")]);
    }

    #[test]
    fn one_space_after_the_colon_is_not_part_of_the_value() {
        check("data:a\ndata: a\ndata:  a\n\n", &[("", "a\na\n a")]);
        check("data: a: b\n\n", &[("", "a: b")]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_begin_only() {
        check("\u{feff}data: 1\n\n\u{feff}data: 2\n\n", &[("", "1")]);
    }

    #[test]
    fn the_servers_wish_for_a_pause_is_kept() {
        for (stream, retry) in [
            ("retry: 1500\n\n", Some(1500)),
            ("retry: 1\nretry: 2\n", Some(2)),
            ("retry: soon\n\n", None),
            ("retry: -1\n\n", None),
            ("retry\n\n", None),
            ("retry: 99999999999999999999999\n\n", None),
        ] {
            assert_eq!(parse([stream.as_bytes()]).1, retry, "{stream:?}");
        }
    }

    #[test]
    fn a_message_without_end_is_not_kept() {
        for line in ["data: 0123456789\n", "0123456789"] {
            let mut parser = Parser::new(100);
            let mut messages = VecDeque::new();
            let pushed = (0..100).try_for_each(|_| parser.push(line.as_bytes(), &mut messages));
            assert_eq!(pushed, Err(TooLong), "{line:?}");
        }
    }

    #[test]
    fn what_was_told_does_not_count_against_what_comes() {
        let mut parser = Parser::new(20);
        let mut messages = VecDeque::new();
        for _ in 0..100 {
            parser.push(b"data: 0123456789\n\n: beat\n\n", &mut messages).unwrap();
        }
        assert_eq!(messages.len(), 100);
    }

    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b":".to_vec()),
            Just(b"data: x".to_vec()),
            Just(b"event: y".to_vec()),
            Just(b"retry: 5".to_vec()),
            vec(any::<u8>(), 0..5),
        ];
        vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_does_not_matter_where_a_stream_is_cut(
            stream in streams(),
            cuts in vec(any::<Index>(), 0..20),
        ) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let parts = cuts.windows(2).map(|ends| &stream[ends[0]..ends[1]]);
            assert_eq!(parse(parts), parse([stream.as_slice()]));
        }

        #[test]
        fn data_arrives_as_it_was_written(lines in vec("[^\r\n]{0,20}", 1..5), end in "\r\n|\n|\r") {
            let fields: String = lines.iter().map(|line| format!("data: {line}{end}")).collect();
            let (messages, _) = parse([format!("event: notify{end}{fields}{end}").as_bytes()]);
            let data = lines.join("\n").into_bytes();
            let event = b"notify".to_vec();
            assert_eq!(messages, [Message { event, data, id: Vec::new() }]);
        }
    }
}

//! A client that knows only HTTP/1.1: requests out, answers in, one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A connection.
#[derive(Debug)]
pub struct Http {
    reader: BufReader<TcpStream>,
    /// What shows who asks.
    token: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> io::Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

impl Http {
    /// Connects.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn connect(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { reader: BufReader::new(stream), token: None })
    }

    /// The same for whoever has this token.
    #[must_use]
    pub fn bearing(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Sends a request and does not wait. Answers come in the order of requests.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<()> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let token = self.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{token}{kind}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.reader.get_mut().write_all(request.as_bytes())
    }

    /// Sends a request with any body and these headers, and does not wait.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send_octets(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        self.reader.get_mut().write_all(&request)
    }

    /// The next answer.
    ///
    /// # Errors
    /// When the connection is gone, or the answer is not HTTP.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {status_line}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).map_err(io::Error::other)?;
                self.take(size, &mut answer.body)?;
                self.line()?;
                if size == 0 {
                    return Ok(answer);
                }
            }
        }
        let length = answer.header("content-length").map_or(Ok(0), str::parse);
        let length = length.map_err(io::Error::other)?;
        self.take(length, &mut answer.body)?;
        Ok(answer)
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        self.send(method, path, body)?;
        self.answer()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn take(&mut self, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let taken = (&mut self.reader).take(length as u64).read_to_end(into)?;
        if taken < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

//! One request and one answer of HTTP/1.1 over a local socket: JSON bodies, `Content-Length`,
//! `Connection: close`. Bounded in size and in time; knows nothing of jobs.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::shown::plain;

/// Largest head of an answer.
const MAX_HEAD: usize = 64 << 10;
/// Largest body of an answer: a list of 100,000 jobs is about 100 MB.
const MAX_BODY: usize = 256 << 20;
const MAX_HEADERS: usize = 32;

/// A conversation that broke.
#[derive(Debug, Error)]
pub enum WireError {
    /// The connection ended or failed before the whole answer was there.
    #[error("the connection to axd broke: {}", plain(.0))]
    Broken(#[from] io::Error),
    /// No whole answer in time.
    #[error("axd did not answer within {} s; see /var/log/ax-controller.log", .0.as_secs())]
    TimedOut(Duration),
    /// More than any answer has.
    #[error("axd's answer of {0} bytes is larger than any answer may be")]
    TooLarge(usize),
    /// Not what a daemon says.
    #[error("what answers at the socket does not speak ax's protocol: {0}")]
    NotAx(String),
}

impl WireError {
    /// Whether it passes: a daemon that ends or hangs, not one that speaks another language.
    pub fn is_passing(&self) -> bool {
        matches!(self, WireError::Broken(_) | WireError::TimedOut(_))
    }
}

/// A request.
pub struct Request<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Path and query, already encoded.
    pub target: &'a str,
    /// JSON, or nothing.
    pub body: &'a [u8],
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200 and so on.
    pub status: u16,
    /// JSON.
    pub body: Vec<u8>,
}

/// Asks and waits for the answer, `patience` long at most.
///
/// # Errors
/// [`WireError`], which says whether asking again can help.
pub fn exchange(stream: &UnixStream, request: &Request<'_>, patience: Duration) -> Result<Answer, WireError> {
    let deadline = Deadline { at: Instant::now() + patience, patience };
    let sent = send(stream, request, &deadline);
    // A daemon may refuse a large request by its head alone and close: its answer says why.
    match (receive(stream, &deadline), sent) {
        (Ok(answer), _) => Ok(answer),
        (Err(_), Err(error)) => Err(error),
        (Err(error), Ok(())) => Err(error),
    }
}

struct Deadline {
    at: Instant,
    patience: Duration,
}

impl Deadline {
    fn left(&self) -> Result<Duration, WireError> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(WireError::TimedOut(self.patience)) } else { Ok(left) }
    }

    /// A time-out of the socket is ours: the kernel calls it "try again".
    fn name(&self, error: io::Error) -> WireError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => WireError::TimedOut(self.patience),
            _ => WireError::Broken(error),
        }
    }
}

fn send(mut stream: &UnixStream, request: &Request<'_>, deadline: &Deadline) -> Result<(), WireError> {
    stream.set_write_timeout(Some(deadline.left()?))?;
    let Request { method, target, body } = request;
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: ax\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut whole = head.into_bytes();
    whole.extend_from_slice(body);
    stream.write_all(&whole).map_err(|error| deadline.name(error))
}

fn receive(stream: &UnixStream, deadline: &Deadline) -> Result<Answer, WireError> {
    let mut buffer = Vec::new();
    let (status, start, length) = loop {
        if let Some(head) = parse_head(&buffer)? {
            break head;
        }
        if buffer.len() > MAX_HEAD {
            return Err(WireError::NotAx("a head without end".to_owned()));
        }
        read_more(stream, &mut buffer, 16 << 10, deadline)?;
    };
    if length > MAX_BODY {
        return Err(WireError::TooLarge(length));
    }
    let mut body = buffer.split_off(start);
    while body.len() < length {
        let missing = length - body.len();
        read_more(stream, &mut body, missing.min(1 << 20), deadline)?;
    }
    body.truncate(length);
    Ok(Answer { status, body })
}

fn read_more(
    mut stream: &UnixStream,
    buffer: &mut Vec<u8>,
    most: usize,
    deadline: &Deadline,
) -> Result<(), WireError> {
    stream.set_read_timeout(Some(deadline.left()?))?;
    let old = buffer.len();
    buffer.resize(old + most, 0);
    let got = loop {
        match stream.read(&mut buffer[old..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other.map_err(|error| deadline.name(error))?,
        }
    };
    buffer.truncate(old + got);
    if got == 0 {
        return Err(WireError::Broken(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

/// Status, start of the body and its length, once the head is whole.
fn parse_head(buffer: &[u8]) -> Result<Option<(u16, usize, usize)>, WireError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let parsed = answer.parse(buffer).map_err(|error| WireError::NotAx(error.to_string()))?;
    let httparse::Status::Complete(start) = parsed else { return Ok(None) };
    let length = answer.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok());
    match (answer.code, length) {
        (Some(status), Some(length)) => Ok(Some((status, start, length))),
        _ => Err(WireError::NotAx("an answer without its length".to_owned())),
    }
}

/// Encodes a text for a path's segment or a query's value (RFC 3986: only unreserved stays).
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const SOON: Duration = Duration::from_millis(200);

    fn ask_against(answer: &'static [u8]) -> Result<Answer, WireError> {
        let (here, mut there) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || {
            let mut head = [0; 4096];
            let _ = there.read(&mut head).unwrap();
            there.write_all(answer).unwrap();
        });
        let request = Request { method: "GET", target: "/", body: b"" };
        let result = exchange(&here, &request, Duration::from_secs(5));
        server.join().unwrap();
        result
    }

    #[test]
    fn an_answer_has_status_and_body() {
        let answer = ask_against(b"HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert_eq!(answer, Answer { status: 409, body: b"{}".to_vec() });
    }

    #[test]
    fn half_an_answer_is_a_broken_one() {
        for part in [&b""[..], b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"] {
            assert!(matches!(ask_against(part), Err(WireError::Broken(_))), "{part:?}");
        }
    }

    #[test]
    fn nonsense_is_named_so() {
        for part in [&b"SSH-2.0-OpenSSH\r\n\r\n"[..], b"HTTP/1.1 200 OK\r\n\r\n{}"] {
            assert!(matches!(ask_against(part), Err(WireError::NotAx(_))), "{part:?}");
        }
        let huge = ask_against(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n");
        assert!(matches!(huge, Err(WireError::TooLarge(_))));
    }

    #[test]
    fn silence_ends_in_time() {
        let (here, _there) = UnixStream::pair().unwrap();
        let request = Request { method: "GET", target: "/", body: b"" };
        assert!(matches!(exchange(&here, &request, SOON), Err(WireError::TimedOut(_))));
    }

    #[test]
    fn a_drip_does_not_stretch_the_time() {
        let (here, mut there) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            for _ in 0..100 {
                thread::sleep(Duration::from_millis(20));
                if there.write_all(b"H").is_err() {
                    break;
                }
            }
        });
        let begun = Instant::now();
        let request = Request { method: "GET", target: "/", body: b"" };
        assert!(exchange(&here, &request, SOON).is_err());
        assert!(begun.elapsed() < Duration::from_millis(1500));
    }

    #[test]
    fn encoding_leaves_nothing_special() {
        assert_eq!(encode("ax-2026-0001_[1-5,9]"), "ax-2026-0001_%5B1-5%2C9%5D");
        assert_eq!(encode("a b&é"), "a%20b%26%C3%A9");
    }
}

//! Bytes to requests.
//!
//! [`parse`] sees the bytes from the first of a request on and keeps nothing between calls, so however
//! the bytes were split on their way, the outcome is the same. Ambiguous framing is refused, never guessed.

use super::target::{self, Target};
use super::{BODY_MAX, Framing, HEAD_MAX, HEADERS_MAX, Method, Missing, Parsed, Refusal, Request};
use ax_core::api::ErrorClass;
use httparse::{EMPTY_HEADER, Header, Status};

/// Judges the bytes of a connection, from the first byte of a request on. Never panics.
pub fn parse(bytes: &[u8]) -> Parsed {
    match read_head(bytes) {
        Ok(None) => Parsed::NeedMore(Missing::Head),
        Ok(Some(head)) => with_body(head, bytes),
        Err(refusal) => Parsed::Bad(refusal),
    }
}

/// A head that was read whole.
struct Head {
    method: Method,
    head_only: bool,
    target: Target,
    length: usize,
    fields: Fields,
}

fn with_body(head: Head, bytes: &[u8]) -> Parsed {
    let total = head.length + head.fields.content_length;
    let Some(body) = bytes.get(head.length..total) else {
        return Parsed::NeedMore(Missing::Body { total, expects_continue: head.fields.expects_continue });
    };
    let Target { path, query } = head.target;
    let request = Request { method: head.method, path, query, body: body.to_vec() };
    let keep_alive = head.fields.keep_alive;
    Parsed::Request(request, Framing { used: total, keep_alive, head_only: head.head_only })
}

/// The head; `None` while it is not whole.
fn read_head(bytes: &[u8]) -> Result<Option<Head>, Refusal> {
    // Only what may be a head at all: so a later byte never changes an earlier judgement.
    let bytes = &bytes[..bytes.len().min(HEAD_MAX)];
    // Some clients end a body with an empty line too many; httparse would skip any number of them.
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let text = &bytes[skipped..];
    if text.first() == Some(&b'\n') || (text.first() == Some(&b'\r') && (skipped > 0 || text.len() > 1)) {
        return Err(bad("the request begins with an empty line"));
    }
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut raw = httparse::Request::new(&mut headers);
    let length = match raw.parse(text).map_err(syntax)? {
        Status::Complete(length) => skipped + length,
        Status::Partial if bytes.len() < HEAD_MAX => return Ok(None),
        Status::Partial => return Err(too_long()),
    };
    let (method, head_only) = method(raw.method.unwrap_or_default())?;
    let target = target::split(raw.path.unwrap_or_default())?;
    let fields = Fields::read(raw.headers, raw.version == Some(1))?;
    Ok(Some(Head { method, head_only, target, length, fields }))
}

fn method(name: &str) -> Result<(Method, bool), Refusal> {
    Ok(match name {
        "GET" => (Method::Get, false),
        "HEAD" => (Method::Get, true),
        "POST" => (Method::Post, false),
        "PUT" => (Method::Put, false),
        "PATCH" => (Method::Patch, false),
        "DELETE" => (Method::Delete, false),
        _ => return Err(Refusal::new(501, ErrorClass::Usage, "the method is not known")),
    })
}

/// What the headers say about the body and the connection.
struct Fields {
    content_length: usize,
    keep_alive: bool,
    expects_continue: bool,
}

impl Fields {
    fn read(headers: &[Header<'_>], modern: bool) -> Result<Fields, Refusal> {
        let mut length = None;
        let mut encoding = None;
        let mut fields = Fields { content_length: 0, keep_alive: modern, expects_continue: false };
        for Header { name, value } in headers {
            if name.eq_ignore_ascii_case("content-length") {
                // Even equal ones: whoever sends two is not a client of ours.
                if length.replace(content_length(value)?).is_some() {
                    return Err(bad("more than one Content-Length"));
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                encoding = Some(*value);
            } else if name.eq_ignore_ascii_case("connection") {
                fields.keep_alive &= !has_token(value, b"close");
            } else if name.eq_ignore_ascii_case("expect") {
                fields.expects_continue = expects_continue(value, modern)?;
            }
        }
        if let Some(encoding) = encoding {
            return Err(encoded(encoding, length.is_some()));
        }
        fields.content_length = length.unwrap_or(0);
        Ok(fields)
    }
}

fn content_length(value: &[u8]) -> Result<usize, Refusal> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(bad("Content-Length is not a number"));
    }
    // Digits that do not fit a number are too many bytes as well.
    let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
    length.filter(|length| *length <= BODY_MAX).ok_or_else(|| {
        let text = format!("the body is too long: at most {BODY_MAX} bytes");
        Refusal::new(413, ErrorClass::Data, text)
    })
}

fn expects_continue(value: &[u8], modern: bool) -> Result<bool, Refusal> {
    if value.eq_ignore_ascii_case(b"100-continue") {
        return Ok(modern);
    }
    Err(Refusal::new(417, ErrorClass::Usage, "no other expectation than 100-continue can be met"))
}

fn encoded(value: &[u8], with_length: bool) -> Refusal {
    if with_length {
        return bad("Content-Length and Transfer-Encoding in one request");
    }
    if value.eq_ignore_ascii_case(b"chunked") {
        let text = "chunked bodies are not taken: send Content-Length";
        return Refusal::new(411, ErrorClass::Usage, text);
    }
    Refusal::new(501, ErrorClass::Usage, "Transfer-Encoding is not supported")
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(token))
}

fn syntax(error: httparse::Error) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => {
            Refusal::new(431, ErrorClass::Usage, format!("too many headers: at most {HEADERS_MAX}"))
        }
        httparse::Error::Version => {
            Refusal::new(505, ErrorClass::Usage, "only HTTP/1.1 and HTTP/1.0 are spoken")
        }
        other => bad(&format!("not an HTTP request: {other}")),
    }
}

fn too_long() -> Refusal {
    Refusal::new(431, ErrorClass::Usage, format!("the head is too long: at most {HEAD_MAX} bytes"))
}

fn bad(text: &str) -> Refusal {
    Refusal::new(400, ErrorClass::Usage, text)
}

//! Answers to bytes.
//!
//! An answer is whole before it is sent and always says its length. Nothing in its head comes from a client.

use ax_core::api::ApiError;
use serde::Serialize;

use super::Refusal;

/// What tells a client that waits to send its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const JSON: &str = "application/json";

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// How an answer is sent. By default it is whole, and the last of its connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The connection stays open for another request.
    pub keep_alive: bool,
    /// The body is left out, as for HEAD.
    pub head_only: bool,
}

impl Response {
    /// An answer that carries a value as JSON.
    pub fn json<T: Serialize + ?Sized>(status: u16, value: &T) -> Response {
        match serde_json::to_vec(value) {
            Ok(body) => Response { status, content_type: JSON, body },
            // Only for types that JSON has no form for: a defect, which must not end the daemon.
            Err(_) => Response {
                status: 500,
                content_type: JSON,
                body: br#"{"class":"refused","error":"the answer has no JSON form"}"#.to_vec(),
            },
        }
    }

    /// An answer of any other type: metrics, the panel.
    pub fn other(status: u16, content_type: &'static str, body: Vec<u8>) -> Response {
        Response { status, content_type, body }
    }

    /// An error with the status of its class.
    pub fn error(error: &ApiError) -> Response {
        Response::json(error.class.http_status(), error)
    }

    /// The bytes to send.
    pub fn render(&self, delivery: Delivery) -> Vec<u8> {
        let Delivery { keep_alive, head_only } = delivery;
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
            self.status,
            reason(self.status),
            self.content_type,
            self.body.len(),
        );
        let body = if head_only { &[] } else { self.body.as_slice() };
        let mut bytes = Vec::with_capacity(head.len() + body.len());
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(body);
        bytes
    }
}

impl From<&Refusal> for Response {
    fn from(refusal: &Refusal) -> Response {
        Response::json(refusal.status, &refusal.error)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        // The phrase may be empty.
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Response};

    #[test]
    fn says_its_length_even_without_its_body() {
        let answer = Response::json(200, &[1, 2]);
        let text = String::from_utf8(answer.render(Delivery { keep_alive: true, head_only: false })).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 5\r\n") && text.ends_with("\r\n\r\n[1,2]"), "{text}");
        let text = String::from_utf8(answer.render(Delivery { keep_alive: false, head_only: true })).unwrap();
        assert!(text.contains("\r\nContent-Length: 5\r\nConnection: close\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n"), "{text}");
    }
}

//! HTTP/1.1 as far as a local socket needs it, as pure functions over bytes.
//!
//! What a client sends is judged here and nowhere else: what [`parse()`] lets through has a known method,
//! a decoded path, and a body of a stated and bounded length. No I/O, no clock, no policy about users.

mod parse;
mod response;
mod target;

pub use parse::parse;
pub use response::{CONTINUE, Delivery, Response};

use ax_core::api::{ApiError, ErrorClass};

/// Longest head (request line and headers), bytes.
pub const HEAD_MAX: usize = 16 * 1024;
/// Longest body, bytes.
pub const BODY_MAX: usize = 8 * 1024 * 1024;
/// Most headers in a request.
pub const HEADERS_MAX: usize = 64;

/// What a request wants done to its path. HEAD arrives as [`Method::Get`]; its answer goes without a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Make or do.
    Post,
    /// Replace.
    Put,
    /// Change in part.
    Patch,
    /// Remove.
    Delete,
}

/// A whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// The path, percent-decoded: begins with `/`, holds no control character.
    pub path: String,
    /// The query's names and values, percent-decoded, in their order; names may repeat. No NUL, but
    /// other control characters may occur, as they may in names of jobs.
    pub query: Vec<(String, String)>,
    /// The body as it came; its syntax is not checked.
    pub body: Vec<u8>,
}

impl Request {
    /// All values of a name in the query.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What a request says about the connection and not about its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Bytes that the request took of the input.
    pub used: usize,
    /// Whether the client wants the connection to stay open.
    pub keep_alive: bool,
    /// Whether the answer goes without its body (HEAD).
    pub head_only: bool,
}

/// What the bytes at hand amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// Nothing wrong so far, but the request is not whole.
    NeedMore(Missing),
    /// A request, and what it means for the connection.
    Request(Request, Framing),
    /// No request, and never will be.
    Bad(Refusal),
}

/// What a request lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The end of its head.
    Head,
    /// The end of its body.
    Body {
        /// Bytes of head and body together.
        total: usize,
        /// Whether the client waits to be told to go on.
        expects_continue: bool,
    },
}

/// Why bytes are no request that will be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status, more exact than the class has it.
    pub status: u16,
    /// The error as it goes to the client.
    pub error: ApiError,
}

impl Refusal {
    /// A refusal with this status, class and text.
    pub fn new(status: u16, class: ErrorClass, text: impl Into<String>) -> Refusal {
        Refusal { status, error: ApiError { class, error: text.into() } }
    }
}

//! The local socket: HTTP/1.1 with JSON, the caller known by its peer's credentials.
//!
//! [`http`] turns bytes into requests and answers into bytes and touches nothing else; [`server`] moves
//! the bytes inside the daemon's one poll loop; `body` reads the JSON in them. None knows a route or a job.

pub(crate) mod body;
pub mod http;
pub mod server;

//! The numbers by which the poll loop knows its descriptors: the highest byte says what a descriptor belongs to, the
//! rest which one it is.

use ax_core::id::Epoch;

use crate::api::server::TOKEN_BITS;

/// The local socket's server; its connections are below.
pub(super) const SERVER: u64 = 1 << TOKEN_BITS;
/// Another thread has something for the loop.
pub(super) const WAKER: u64 = 2 << TOKEN_BITS;
/// A signal came.
pub(super) const SIGNALS: u64 = 3 << TOKEN_BITS;
/// The guard's process ended.
pub(super) const GUARD: u64 = 4 << TOKEN_BITS;
const SOCKETS: u64 = 5 << TOKEN_BITS;
const PROCESSES: u64 = 6 << TOKEN_BITS;
/// The process that asks the driver has sent something.
pub(super) const CARDS: u64 = 7 << TOKEN_BITS;
/// Such a process has ended; its number is below.
pub(super) const CARDS_ENDED: u64 = 8 << TOKEN_BITS;
const KIND: u64 = u64::MAX << TOKEN_BITS;

/// To what a descriptor belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The server's.
    Server,
    /// The waker.
    Waker,
    /// The signal pipe.
    Signals,
    /// The guard.
    Guard,
    /// The process that asks the driver.
    Cards,
    /// The end of such a process.
    CardsEnded,
    /// The socket of a supervisor.
    Socket(Epoch),
    /// The process of a supervisor.
    Process(Epoch),
}

/// Reads a token.
pub(super) fn source(token: u64) -> Option<Source> {
    let epoch = Epoch(token & !KIND);
    match token & KIND {
        SERVER => Some(Source::Server),
        WAKER => Some(Source::Waker),
        SIGNALS => Some(Source::Signals),
        GUARD => Some(Source::Guard),
        CARDS => Some(Source::Cards),
        CARDS_ENDED => Some(Source::CardsEnded),
        SOCKETS => Some(Source::Socket(epoch)),
        PROCESSES => Some(Source::Process(epoch)),
        _ => None,
    }
}

/// The token of a supervisor's socket.
pub(super) fn socket_of(epoch: Epoch) -> u64 {
    SOCKETS | epoch.0
}

/// The token of a supervisor's process.
pub(super) fn process_of(epoch: Epoch) -> u64 {
    PROCESSES | epoch.0
}

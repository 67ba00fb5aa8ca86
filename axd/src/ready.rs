//! Tells systemd that the daemon is ready, by its notification protocol (sd_notify(3)), if the environment names the
//! socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const SOCKET: &str = "NOTIFY_SOCKET";

/// Whether somebody waits to be told: systemd, which keeps the other units of ax as well.
pub(crate) fn is_awaited() -> bool {
    std::env::var_os(SOCKET).is_some()
}

/// Says READY=1. Nobody listening is no error.
pub(crate) fn say_ready() {
    let Some(name) = std::env::var_os(SOCKET) else { return };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => std::str::from_utf8(name).map_err(std::io::Error::other).and_then(SocketAddr::from_pathname),
    };
    // A manager that can't be told will time out and say so itself.
    let _ = address.and_then(|to| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &to));
}

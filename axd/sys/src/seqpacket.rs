//! Sockets that keep the borders of messages (SOCK_SEQPACKET): supervisors use them to talk to the daemon and to the
//! job's user. No call here waits, except [`receive_within`], so no slow or hostile peer can block the caller; the
//! caller decides what to do with a peer that does not keep up. Descriptors that a peer sends along are dropped.

use crate::error::{Doing, Result, check};
use crate::path::Dir;
use crate::pidfd::wait_for;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, bind, connect as connect_to, getsockopt,
    listen as listen_on, recv, send as send_to, socket, sockopt,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// What [`receive`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// Nothing for now.
    Nothing,
    /// A message of so many bytes, all of them in the buffer.
    Message(usize),
    /// A message that did not fit. It is gone.
    TooLong,
    /// The other end is closed, or failed.
    Closed,
}

/// Takes over descriptor `number`, with which this process was started, if it is a message socket.
///
/// Call it once for a number, before anything else can have opened a descriptor with that number.
pub fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_GETFD takes no argument and touches no memory; a closed number answers EBADF.
    check(unsafe { libc::fcntl(number, libc::F_GETFD) }).ok()?;
    // SAFETY: the number is open, as was just seen, and only looked at during this call.
    let kind = getsockopt(&unsafe { BorrowedFd::borrow_raw(number) }, sockopt::SockType).ok()?;
    if kind != SockType::SeqPacket {
        return None;
    }
    // SAFETY: sets a flag of an open descriptor.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }).ok()?;
    // SAFETY: by the contract above nobody else in this process owns it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Listens under the plain name `name` in `dir`, with the permission bits that the umask leaves of 0777: they
/// are not set afterwards, as the directory may be one in which a user could have put another file in place.
/// The path may be of any length.
///
/// # Errors
/// EADDRINUSE if the name is taken, by a link too.
pub fn listen(dir: &Dir, name: &str) -> Result<OwnedFd> {
    let what = dir.show(name);
    let listener = fresh().doing("listen on", what.display())?;
    let address = address(dir, name).doing("listen on", what.display())?;
    bind(listener.as_raw_fd(), &address).doing("listen on", what.display())?;
    let backlog = Backlog::new(16).unwrap_or(Backlog::MAXCONN);
    listen_on(&listener, backlog).doing("listen on", what.display())?;
    Ok(listener)
}

/// Connects to the socket `name` in `dir`. Check afterwards who listens there: [`crate::credentials::peer`].
///
/// # Errors
/// ECONNREFUSED if nobody listens any more, EAGAIN if too many wait to be accepted.
pub fn connect(dir: &Dir, name: &str) -> Result<OwnedFd> {
    let what = dir.show(name);
    let end = fresh().doing("connect to", what.display())?;
    let address = address(dir, name).doing("connect to", what.display())?;
    connect_to(end.as_raw_fd(), &address).doing("connect to", what.display())?;
    Ok(end)
}

/// The next connection; `None` when there is none for now.
///
/// # Errors
/// EMFILE and its like.
pub fn accept(listener: &impl AsFd) -> Result<Option<OwnedFd>> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    loop {
        match nix::sys::socket::accept4(listener, flags) {
            Ok(connection) => return Ok(Some(connection)),
            Err(Errno::EAGAIN) => return Ok(None),
            Err(Errno::ECONNABORTED | Errno::EINTR) => {}
            Err(errno) => return Err(errno).doing("accept", "a connection"),
        }
    }
}

/// Sends one message without waiting. `false`: the peer is gone or does not read, and the message is lost.
pub fn send(socket: &impl AsFd, message: &[u8]) -> bool {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    send_to(socket.as_fd().as_raw_fd(), message, flags).is_ok()
}

/// Receives one message without waiting. An empty message counts as the end.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> Incoming {
    // With MSG_TRUNC the kernel returns the whole length of the message, even if only part of it fitted.
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    loop {
        return match recv(socket.as_fd().as_raw_fd(), buffer, flags) {
            Ok(0) => Incoming::Closed,
            Ok(length) if length > buffer.len() => Incoming::TooLong,
            Ok(length) => Incoming::Message(length),
            Err(Errno::EAGAIN) => Incoming::Nothing,
            Err(Errno::EINTR) => continue,
            Err(_) => Incoming::Closed,
        };
    }
}

/// Receives one message, waiting for it at most `limit`. Only if a program of ours is at the other end.
pub fn receive_within(socket: &impl AsFd, buffer: &mut [u8], limit: Duration) -> Incoming {
    // If it can't wait, it finds no message below.
    let _ = wait_for(socket.as_fd(), libc::POLLIN, limit);
    receive(socket, buffer)
}

fn fresh() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

/// The address through the open directory: names of sockets are limited to 107 bytes, paths are not.
fn address(dir: &Dir, name: &str) -> nix::Result<UnixAddr> {
    UnixAddr::new(format!("/proc/self/fd/{}/{name}", dir.as_fd().as_raw_fd()).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_borders_and_too_long_ones_are_told_apart() {
        let (left, right) = crate::socket::message_pair().unwrap();
        let mut buffer = [0; 8];
        assert_eq!(receive(&right, &mut buffer), Incoming::Nothing);
        assert!(send(&left, b"one") && send(&left, b"two") && send(&left, b"much too long"));
        assert_eq!(receive(&right, &mut buffer), Incoming::Message(3));
        assert_eq!(&buffer[..3], b"one");
        assert_eq!(receive(&right, &mut buffer), Incoming::Message(3));
        assert_eq!(receive(&right, &mut buffer), Incoming::TooLong);
        drop(left);
        assert_eq!(receive(&right, &mut buffer), Incoming::Closed);
    }

    #[test]
    fn a_full_peer_does_not_hold_the_sender_up() {
        let (left, _right) = crate::socket::message_pair().unwrap();
        let sent = (0..100_000).take_while(|_| send(&left, &[0; 1024])).count();
        assert!((1..100_000).contains(&sent), "{sent}");
    }

    #[test]
    fn listening_works_under_long_paths_and_never_replaces_anything() {
        let top = test_kit::TempDir::new();
        let long = top.join("x".repeat(120));
        std::fs::create_dir_all(&long).unwrap();
        let dir = Dir::open(&long).unwrap();
        let listener = listen(&dir, "ctl").unwrap();
        assert!(accept(&listener).unwrap().is_none());
        let client = connect(&dir, "ctl").unwrap();
        let server = accept(&listener).unwrap().unwrap();
        assert!(send(&client, b"hello"));
        assert_eq!(receive(&server, &mut [0; 16]), Incoming::Message(5));
        assert!(listen(&dir, "ctl").unwrap_err().is(libc::EADDRINUSE));
        std::os::unix::fs::symlink("/nowhere/else", long.join("link")).unwrap();
        assert!(listen(&dir, "link").unwrap_err().is(libc::EADDRINUSE));
    }

    #[test]
    fn only_message_sockets_are_taken_over() {
        assert!(inherited(9_999).is_none());
        let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(inherited(stream.as_raw_fd()).is_none());
    }
}

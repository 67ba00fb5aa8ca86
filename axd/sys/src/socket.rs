//! Local sockets, descriptors sent over them, and one epoll set with a way to wake it.
//! All descriptors made here are close-on-exec and, but for pairs, non-blocking.

mod poller;

pub use poller::{Event, Interest, Poller, Waker};

use crate::error::{Doing, Result, SysError};
use nix::cmsg_space;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg,
    sendmsg, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Most descriptors in one message.
pub const MAX_FDS: usize = 16;

/// Listens on a Unix socket with these permission bits, in place of any socket of that name. The name
/// appears only once the permissions are right. Paths are limited to about 100 bytes.
///
/// # Errors
/// When the name can't be made; an existing file that is no socket is refused.
pub fn listen(path: &Path, mode: u32) -> Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let other = std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket());
    if other {
        return Err(SysError::found("listen on", path.display(), "a file that is no socket has this name"));
    }
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(".new");
    let hidden = Path::new(&hidden);
    // Left over from a start that was cut short.
    let _ = std::fs::remove_file(hidden);
    let listener = UnixListener::bind(hidden).doing("listen on", path.display())?;
    let bits = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(hidden, bits).doing("set the mode of", path.display())?;
    std::fs::rename(hidden, path).doing("listen on", path.display())?;
    listener.set_nonblocking(true).doing("listen on", path.display())?;
    Ok(listener)
}

/// The next connection, non-blocking; `None` when there is none for now.
///
/// # Errors
/// EMFILE and its like. A connection that was broken off again is passed over.
pub fn accept(listener: &UnixListener) -> Result<Option<UnixStream>> {
    use std::io::ErrorKind;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true).doing("accept", "a connection")?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).doing("accept", "a connection"),
        }
    }
}

/// Connects to a Unix socket, waiting at most `limit` while too many others wait to be accepted. The result is
/// blocking and has no time limits.
///
/// # Errors
/// What connect(2) says; EAGAIN when it took too long. Paths are limited to 107 bytes.
pub fn connect_within(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let end = nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // For local sockets the kernel takes this as the limit of connect(2) as well.
    let whole = nix::sys::time::TimeVal::new(i64::try_from(limit.as_secs()).unwrap_or(i64::MAX), 0);
    nix::sys::socket::setsockopt(&end, sockopt::SendTimeout, &whole)?;
    nix::sys::socket::connect(end.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(end);
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Two connected ends that keep the borders of messages (blocking).
///
/// # Errors
/// When there are no descriptors left.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    nix::sys::socket::socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
        .doing("make", "a socket pair")
}

/// Sends one message with up to [`MAX_FDS`] descriptors, without SIGPIPE. Returns the bytes taken (all of them for
/// message sockets). Over a stream at least one byte must go with descriptors.
///
/// # Errors
/// EAGAIN on a non-blocking socket that is full, EPIPE when the other end is gone.
pub fn send(socket: &impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize> {
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &control[..0] } else { &control[..] };
    let socket = socket.as_fd().as_raw_fd();
    sendmsg::<()>(socket, &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)
        .doing("send on descriptor", socket)
}

/// A message that was received.
#[derive(Debug)]
pub struct Received {
    /// Bytes put into the buffer; 0: the other end is closed.
    pub length: usize,
    /// Descriptors that came along, close-on-exec.
    pub fds: Vec<OwnedFd>,
}

/// Receives one message.
///
/// # Errors
/// EAGAIN when there is none (non-blocking), and when it did not fit: then nothing of it is kept.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> Result<Received> {
    let socket = socket.as_fd().as_raw_fd();
    let mut space = cmsg_space!([RawFd; MAX_FDS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let got = recvmsg::<()>(socket, &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)
        .doing("receive on descriptor", socket)?;
    let mut fds = Vec::new();
    for message in got.cmsgs().doing("receive on descriptor", socket)? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            // SAFETY: the kernel has just made these descriptors for us.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    if got.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(SysError::found("receive on descriptor", socket, "the message is too long"));
    }
    Ok(Received { length: got.bytes, fds })
}

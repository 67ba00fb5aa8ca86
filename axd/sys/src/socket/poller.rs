//! One epoll set: descriptors with a number each, waited for together.

use crate::error::{Doing, Result};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// What to wait for. Errors and hang-ups are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// There is something to read.
    pub read: bool,
    /// There is room to write.
    pub write: bool,
    /// Something exceptional: how files such as `cgroup.events` say that they changed.
    pub priority: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest { read: true, write: false, priority: false };
    /// Writing only.
    pub const WRITE: Interest = Interest { read: false, write: true, priority: false };
    /// Both.
    pub const READ_WRITE: Interest = Interest { read: true, write: true, priority: false };
    /// Changes of a control file.
    pub const PRIORITY: Interest = Interest { read: false, write: false, priority: true };

    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, self.read);
        flags.set(EpollFlags::EPOLLOUT, self.write);
        flags.set(EpollFlags::EPOLLPRI, self.priority);
        flags
    }
}

/// Something happened to a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The number it was added with.
    pub token: u64,
    /// There is something to read, perhaps only the end.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// Something exceptional; control files set `failed` together with it.
    pub priority: bool,
    /// The other end is gone or the descriptor failed.
    pub failed: bool,
}

/// The set. A descriptor leaves it when its last copy is closed, but remove it first: a child may hold one.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    buffer: Vec<EpollEvent>,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new() -> Result<Poller> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).doing("make", "an epoll set")?;
        Ok(Poller { epoll, buffer: vec![EpollEvent::empty(); 128] })
    }

    /// Adds a descriptor; its events carry `token`.
    ///
    /// # Errors
    /// EEXIST if it is in the set, EPERM for plain files.
    pub fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> Result<()> {
        let event = EpollEvent::new(interest.flags(), token);
        self.epoll.add(fd, event).doing("watch descriptor", fd.as_fd().as_raw_fd())
    }

    /// Changes what is waited for.
    ///
    /// # Errors
    /// ENOENT if it is not in the set.
    pub fn modify(&self, fd: &impl AsFd, token: u64, interest: Interest) -> Result<()> {
        let mut event = EpollEvent::new(interest.flags(), token);
        self.epoll.modify(fd, &mut event).doing("watch descriptor", fd.as_fd().as_raw_fd())
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// ENOENT if it is not in the set.
    pub fn remove(&self, fd: &impl AsFd) -> Result<()> {
        self.epoll.delete(fd).doing("stop watching descriptor", fd.as_fd().as_raw_fd())
    }

    /// Waits for events, at most `limit` (`None`: for ever; rounded up to a millisecond), and puts them in place of
    /// what was in `events`. None at all when the time is over or a signal came.
    ///
    /// # Errors
    /// Never in correct programs.
    pub fn wait(&mut self, events: &mut Vec<Event>, limit: Option<Duration>) -> Result<()> {
        events.clear();
        let timeout = limit.map_or(EpollTimeout::NONE, |limit| {
            // A day at most: callers wait again.
            let millis = limit.as_micros().div_ceil(1000).min(86_400_000);
            EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::ZERO)
        });
        let count = match self.epoll.wait(&mut self.buffer, timeout) {
            Err(Errno::EINTR) => 0,
            other => other.doing("wait for", "events")?,
        };
        events.extend(self.buffer.iter().take(count).map(translate));
        Ok(())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

fn translate(raw: &EpollEvent) -> Event {
    let flags = raw.events();
    Event {
        token: raw.data(),
        readable: flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP),
        writable: flags.contains(EpollFlags::EPOLLOUT),
        priority: flags.contains(EpollFlags::EPOLLPRI),
        failed: flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP),
    }
}

/// Wakes a poll loop from another thread. Share it in an `Arc`.
#[derive(Debug)]
pub struct Waker {
    fd: EventFd,
}

impl Waker {
    /// A new one, to be added to the set for reading.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new() -> Result<Waker> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Waker { fd: EventFd::from_flags(flags).doing("make", "an event descriptor")? })
    }

    /// Makes it readable until it is drained. Never blocks.
    ///
    /// # Errors
    /// Never in correct programs.
    pub fn wake(&self) -> Result<()> {
        match self.fd.write(1) {
            // Full: it is readable anyway.
            Err(Errno::EAGAIN) => Ok(()),
            other => other.doing("wake", "a poll loop").map(drop),
        }
    }

    /// Makes it unreadable again. Drain first, then look at what the waking was about.
    ///
    /// # Errors
    /// Never in correct programs.
    pub fn drain(&self) -> Result<()> {
        match self.fd.read() {
            Err(Errno::EAGAIN) => Ok(()),
            other => other.doing("drain", "an event descriptor").map(drop),
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

//! The start of a program that is started so often that the standard library's own counts: before `main` it looks for the
//! stack in `/proc/self/maps` and makes another one for the case that this one overflows, which takes 16 system calls.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, signal};

/// The rest of what the standard library does: nothing that is opened may be taken for standard input, output or error,
/// and a reader who has gone away is an error of the write.
pub fn begin() {
    if any_is_closed() {
        let opened =
            || nix::fcntl::open("/dev/null", nix::fcntl::OFlag::O_RDWR, nix::sys::stat::Mode::empty());
        // The lowest number that is free is taken each time, until it is none of the three.
        while let Ok(fd) = opened() {
            if fd.as_raw_fd() > 2 {
                break;
            }
            let _ = fd.into_raw_fd();
        }
    }
    // SAFETY: no handler is installed, and this is the only thread.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
}

fn any_is_closed() -> bool {
    let ask = |number| {
        // SAFETY: used for one poll, which says so of a number that is not open.
        PollFd::new(unsafe { BorrowedFd::borrow_raw(number) }, PollFlags::empty())
    };
    let mut standard = [0, 1, 2].map(ask);
    let closed = |one: &PollFd<'_>| one.revents().is_none_or(|found| found.contains(PollFlags::POLLNVAL));
    poll(&mut standard, PollTimeout::ZERO).is_err() || standard.iter().any(closed)
}

/// Makes a function that returns an exit code the whole of a program (`#![no_main]`).
#[macro_export]
macro_rules! lean_main {
    ($run:path) => {
        // SAFETY: the one `main` of a program that has no other; the C library calls it once.
        #[unsafe(no_mangle)]
        extern "C" fn main() -> i32 {
            $crate::program::begin();
            // Not by a mere return: what is left to be written goes out there.
            std::process::exit($run().into())
        }
    };
}

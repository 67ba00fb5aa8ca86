//! The entry point of programs that start so often that the standard library's own start-up matters: before `main` it
//! looks for the stack in `/proc/self/maps` and makes another one in case this one overflows, which takes 16 system
//! calls.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, signal};

/// Does the rest of the standard library's start-up: makes sure that descriptors 0 to 2 are open, so that no file is
/// taken for standard input, output or error, and ignores SIGPIPE, so that writing to a closed pipe is an error.
pub fn begin() {
    if any_is_closed() {
        let opened =
            || nix::fcntl::open("/dev/null", nix::fcntl::OFlag::O_RDWR, nix::sys::stat::Mode::empty());
        // Each open takes the lowest free number, until that is above the three.
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

/// Makes a function that returns an exit code the `main` of a program (`#![no_main]`).
#[macro_export]
macro_rules! lean_main {
    ($run:path) => {
        // SAFETY: the one `main` of a program that has no other; the C library calls it once.
        #[unsafe(no_mangle)]
        extern "C" fn main() -> i32 {
            $crate::program::begin();
            // Not by returning: exit flushes what is still to be written.
            std::process::exit($run().into())
        }
    };
}

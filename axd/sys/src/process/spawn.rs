//! Starts a program from a process with much memory, by posix_spawn(3), which copies no page tables. The program
//! starts in a session of its own, with default signals and only the descriptors that it is given (all of ours are
//! close-on-exec).

use super::descriptors::duplicate_above;
use crate::error::{Doing, Result};
use crate::pidfd::PidFd;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

const DEV_NULL: &CStr = c"/dev/null";

/// A program to be started.
#[derive(Debug, Clone)]
pub struct Spawn<'a> {
    /// Absolute path of the program.
    pub program: CString,
    /// Its arguments, beginning with its name.
    pub arguments: Vec<CString>,
    /// Its whole environment, `KEY=value`.
    pub environment: Vec<CString>,
    /// Descriptors and the numbers under which it finds them. Standard input, output and error are `/dev/null`
    /// where not given.
    pub descriptors: Vec<(BorrowedFd<'a>, RawFd)>,
    /// Its working directory; `None`: ours.
    pub directory: Option<CString>,
    /// Whether it leads a session of its own, so that signals to ours do not reach it.
    pub new_session: bool,
}

impl Spawn<'_> {
    /// Starts it. The caller must reap it later: [`PidFd::reap`].
    ///
    /// # Errors
    /// ENOENT and the like if the program can't be executed: unlike with fork, that is known at once.
    pub fn start(&self) -> Result<PidFd> {
        let program = self.program.to_string_lossy();
        // First out of the way of the targets, as in `place`.
        let floor = self.descriptors.iter().map(|(_, target)| target + 1).max().unwrap_or(0).max(10);
        let copies = self.descriptors.iter().map(|(fd, target)| Ok((duplicate_above(*fd, floor)?, *target)));
        let copies = copies.collect::<Result<Vec<(OwnedFd, RawFd)>>>()?;
        let actions = self.actions(&copies).doing("prepare the start of", &program)?;
        let attributes = Attributes::new(self.new_session).doing("prepare the start of", &program)?;
        let pid = self.run(&actions, &attributes).doing("start", &program)?;
        // It is not reaped yet, so the number is still its own.
        PidFd::open(pid)
    }

    fn actions(&self, copies: &[(OwnedFd, RawFd)]) -> io::Result<Actions> {
        let mut actions = Actions::new()?;
        for standard in 0..=2 {
            if !copies.iter().any(|(_, target)| *target == standard) {
                actions.open_null(standard)?;
            }
        }
        for (copy, target) in copies {
            actions.place(copy.as_raw_fd(), *target)?;
        }
        if let Some(directory) = &self.directory {
            actions.change_dir(directory)?;
        }
        Ok(actions)
    }

    fn run(&self, actions: &Actions, attributes: &Attributes) -> io::Result<i32> {
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        let mut pid = 0;
        // SAFETY: all pointers are to live values: C strings ended by NUL, lists ended by a null pointer, and
        // objects made by their init functions.
        worked(unsafe {
            libc::posix_spawn(
                &mut pid,
                self.program.as_ptr(),
                &raw const *actions.raw,
                &raw const *attributes.raw,
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        })?;
        Ok(pid)
    }
}

/// The list of pointers, ended by null, that C wants.
fn pointers(texts: &[CString]) -> Vec<*mut libc::c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// This family of functions returns the error number instead of setting it.
fn worked(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(returned)) }
}

/// What happens to descriptors between clone and exec. Boxed, as C may keep pointers into it.
struct Actions {
    raw: Box<libc::posix_spawn_file_actions_t>,
}

impl Actions {
    fn new() -> io::Result<Actions> {
        let mut raw = Box::new(MaybeUninit::uninit());
        // SAFETY: the place is valid for writing.
        worked(unsafe { libc::posix_spawn_file_actions_init(raw.as_mut_ptr()) })?;
        // SAFETY: the init function has just filled it.
        Ok(Actions { raw: unsafe { raw.assume_init() } })
    }

    fn open_null(&mut self, target: RawFd) -> io::Result<()> {
        // SAFETY: the object is initialised and glibc copies the path.
        worked(unsafe {
            libc::posix_spawn_file_actions_addopen(&mut *self.raw, target, DEV_NULL.as_ptr(), libc::O_RDWR, 0)
        })
    }

    fn place(&mut self, source: RawFd, target: RawFd) -> io::Result<()> {
        // SAFETY: the object is initialised; numbers only.
        worked(unsafe { libc::posix_spawn_file_actions_adddup2(&mut *self.raw, source, target) })
    }

    fn change_dir(&mut self, path: &CStr) -> io::Result<()> {
        // SAFETY: the object is initialised and glibc copies the path.
        worked(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut *self.raw, path.as_ptr()) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised, and destroyed only here.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut *self.raw) };
    }
}

/// Signals and session of the new process.
struct Attributes {
    raw: Box<libc::posix_spawnattr_t>,
}

impl Attributes {
    fn new(new_session: bool) -> io::Result<Attributes> {
        let mut raw = Box::new(MaybeUninit::uninit());
        // SAFETY: the place is valid for writing.
        worked(unsafe { libc::posix_spawnattr_init(raw.as_mut_ptr()) })?;
        // SAFETY: the init function has just filled it.
        let mut attributes = Attributes { raw: unsafe { raw.assume_init() } };
        attributes.fill(new_session)?;
        Ok(attributes)
    }

    fn fill(&mut self, new_session: bool) -> io::Result<()> {
        // Bits of 16: none of them is near the sign.
        let session = if new_session { libc::POSIX_SPAWN_SETSID } else { 0 };
        let signals = (libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF) as libc::c_short;
        let mut none = MaybeUninit::uninit();
        let mut all = MaybeUninit::uninit();
        // SAFETY: both sets are filled by the first two calls before they are read; the object is initialised.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigfillset(all.as_mut_ptr());
            worked(libc::posix_spawnattr_setsigmask(&mut *self.raw, none.as_ptr()))?;
            worked(libc::posix_spawnattr_setsigdefault(&mut *self.raw, all.as_ptr()))?;
            worked(libc::posix_spawnattr_setflags(&mut *self.raw, signals | session))
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and destroyed only here.
        unsafe { libc::posix_spawnattr_destroy(&mut *self.raw) };
    }
}

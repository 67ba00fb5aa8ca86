//! A child of a single-threaded process that runs our code before exec, reports what went wrong there, and is
//! in its control group from its first instruction.
//!
//! In the unified tree it is *born* there (clone3 with CLONE_INTO_CGROUP): writing to `cgroup.procs`
//! would wait 8 to 16 ms for a global lock on a quiet machine. In v1 it writes `0` to `tasks`, which takes no lock.

use crate::cgroup::JoinHandle;
use crate::error::{Doing, Result, SysError, check_long};
use crate::pidfd::PidFd;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// As clone3(2) has it; the constant in libc does not fit its own type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Reports are one write of at most this: the kernel never tears those (PIPE_BUF).
const REPORT_MAX: usize = 4096;

/// What a child says on its pipe, a byte each: it becomes a user next, exec comes next, or an error, which is the rest.
const USER_IS_NEXT: u8 = b'u';
const EXEC_IS_NEXT: u8 = b'x';
const ERROR: u8 = b'e';

/// What it says, in words.
const REPORT: &str = "the report of a child";

/// What failed in the child before exec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {text}")]
pub struct ChildError {
    /// A short fixed name of the step (`"groups"`, `"exec"`).
    pub step: String,
    /// The error number; 0 if there was none.
    pub errno: i32,
    /// The whole message.
    pub text: String,
}

impl ChildError {
    /// Names the step in which an error of this crate occurred.
    pub fn new(step: &str, error: &SysError) -> ChildError {
        ChildError { step: step.to_owned(), errno: error.errno().unwrap_or(0), text: error.to_string() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut report = vec![ERROR];
        report.extend(self.errno.to_le_bytes());
        report.extend(self.step.bytes());
        report.push(0);
        report.extend(self.text.bytes());
        report.truncate(REPORT_MAX);
        report
    }

    fn decode(report: &[u8]) -> Option<ChildError> {
        let (number, rest) = report.strip_prefix(&[ERROR])?.split_first_chunk::<4>()?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(ChildError {
            step: text(&rest[..end]),
            errno: i32::from_le_bytes(*number),
            text: text(&rest[end + 1..]),
        })
    }
}

/// A child that is on its way to exec, or past it.
#[derive(Debug)]
pub struct Child {
    /// The child.
    pub process: PidFd,
    /// How its start went.
    pub report: ChildReport,
}

/// How the start of a child went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildStart {
    /// It executed its program, or was killed in the very act: its exit tells how it ended.
    Executed,
    /// It could not.
    Failed(ChildError, Hands),
    /// It ended before: its program never ran.
    Died(Hands),
}

/// Who had rights on a child when its start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hands {
    /// Only the process that forked it.
    Ours,
    /// Its user, too, who may do to it whatever a user may do to a process.
    TheUsers,
}

/// The child's end of the pipe on which it reports.
#[derive(Debug)]
pub struct ToParent {
    pipe: File,
}

impl ToParent {
    /// To be called right before a user gets rights on the child, while none has any.
    pub fn user_is_next(&self) {
        let _ = (&self.pipe).write_all(&[USER_IS_NEXT]);
    }

    /// To be called right before exec: a child that dies without having called it has not run its program. If the
    /// exec fails, the error is still reported.
    pub fn exec_is_next(&self) {
        // If the parent is gone there is nobody to tell.
        let _ = (&self.pipe).write_all(&[EXEC_IS_NEXT]);
    }
}

/// Becomes readable when the child says something, or has no more to say.
#[derive(Debug)]
pub struct ChildReport {
    pipe: File,
    said: Vec<u8>,
}

impl ChildReport {
    /// How it went, as soon as that is known. Never waits: exec itself may hang, for instance on a file server.
    ///
    /// # Errors
    /// When the pipe fails, or the child says what no child of ours does.
    pub fn look(&mut self) -> Result<Option<ChildStart>> {
        let mut buffer = [0; REPORT_MAX];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return self.understood().map(Some),
                Ok(length) => self.said.extend(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).doing("read", REPORT),
            }
            // Not more than a child may say.
            if self.said.len() > 2 * REPORT_MAX {
                return Err(SysError::found("read", REPORT, "it has no end"));
            }
        }
    }

    /// Waits for that, at most so long; `None`: it is not known yet.
    ///
    /// # Errors
    /// As [`ChildReport::look`].
    pub fn wait(mut self, limit: Duration) -> Result<Option<ChildStart>> {
        let end = Instant::now() + limit;
        loop {
            let known = self.look()?;
            let left = end.saturating_duration_since(Instant::now());
            if known.is_some() || left.is_zero() {
                return Ok(known);
            }
            let mut pipe = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut pipe, left) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).doing("wait for", REPORT),
            }
        }
    }

    /// What it has said to the end.
    fn understood(&self) -> Result<ChildStart> {
        let steps = self.said.iter().take_while(|byte| [USER_IS_NEXT, EXEC_IS_NEXT].contains(byte)).count();
        let (steps, error) = self.said.split_at(steps);
        let hands = if steps.contains(&USER_IS_NEXT) { Hands::TheUsers } else { Hands::Ours };
        if !error.is_empty() {
            let error = ChildError::decode(error).map(|error| ChildStart::Failed(error, hands));
            return error.ok_or_else(|| SysError::found("read", REPORT, "it is torn"));
        }
        let executed = steps.contains(&EXEC_IS_NEXT);
        Ok(if executed { ChildStart::Executed } else { ChildStart::Died(hands) })
    }
}

impl AsFd for ChildReport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Forks. The child joins `group`, then runs `setup`, whose last acts should be [`ToParent::exec_is_next`] and an
/// exec; if it returns, the child reports the error and ends with code 127. Descriptors stay open in the child: end with
/// [`super::close_on_exec_from`].
///
/// # Errors
/// When this process has more than one thread (a lock held by another would stay locked in the child for ever),
/// and what clone(2) says.
pub fn fork_child<F>(group: Option<&JoinHandle>, setup: F) -> Result<Child>
where
    F: FnOnce(&ToParent) -> std::result::Result<Infallible, ChildError>,
{
    let threads = super::thread_count()?;
    if threads != 1 {
        return Err(SysError::found("fork", "this process", format!("it has {threads} threads")));
    }
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).doing("make", "a pipe")?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).doing("make", "a pipe that keeps nobody")?;
    match clone_self(group.and_then(JoinHandle::unified_dir)).doing("fork", "this process")? {
        Cloned::Parent(process) => {
            drop(writer);
            Ok(Child { process, report: ChildReport { pipe: File::from(reader), said: Vec::new() } })
        }
        Cloned::Child { in_group } => {
            drop(reader);
            let mut parent = ToParent { pipe: File::from(writer) };
            let error = run_child(group, in_group, || setup(&parent));
            // If the parent is gone there is nobody to tell.
            let _ = parent.pipe.write_all(&error.encode());
            // SAFETY: ends the child at once, without running the parent's exit handlers twice.
            unsafe { libc::_exit(127) }
        }
    }
}

/// Forks, but as a child of *this process's parent*, which is told the number and reaps it: for a process whose
/// purpose is to start others. The child runs `run` and exits with what that returns. Descriptors stay open in it.
///
/// # Errors
/// As [`fork_child`]; ENOSYS also where a filter hides clone3(2).
pub fn fork_sibling(run: impl FnOnce() -> u8) -> Result<i32> {
    let threads = super::thread_count()?;
    if threads != 1 {
        return Err(SysError::found("fork", "this process", format!("it has {threads} threads")));
    }
    // SAFETY: all zeroes is a valid clone_args: no flags, no stack, no signal.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    // The signal at its end is the one that this process has.
    arguments.flags = u64::from(libc::CLONE_PARENT.unsigned_abs());
    // SAFETY: as in `clone3` below.
    let pid = check_long(unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, 64_usize) });
    let pid = pid.doing("fork", "this process")?;
    if pid == 0 {
        let code = catch_unwind(AssertUnwindSafe(run)).unwrap_or(70);
        // SAFETY: ends the child at once, without running the parent's exit handlers twice.
        unsafe { libc::_exit(i32::from(code)) }
    }
    i32::try_from(pid).map_err(io::Error::other).doing("fork", "this process")
}

/// Joins and sets up; returns only if that failed. A panic must not unwind into the parent's code: it would run
/// twice.
fn run_child<F>(group: Option<&JoinHandle>, in_group: bool, setup: F) -> ChildError
where
    F: FnOnce() -> std::result::Result<Infallible, ChildError>,
{
    let all = AssertUnwindSafe(|| {
        let joined = group.map_or(Ok(()), |group| group.join_self(in_group));
        joined.map_err(|error| ChildError::new("cgroup", &error)).and_then(|()| setup())
    });
    match catch_unwind(all) {
        Ok(Err(error)) => error,
        Ok(Ok(never)) => match never {},
        Err(_) => ChildError { step: "panic".into(), errno: 0, text: "the child panicked".into() },
    }
}

enum Cloned {
    Parent(PidFd),
    Child { in_group: bool },
}

/// clone3 into the group; without it where the kernel can't (before 5.7), and a plain fork where a filter hides
/// clone3 altogether, as those of containers do.
fn clone_self(group: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    match clone3(group) {
        Err(error) if group.is_some() && cannot(&error) => clone_self(None),
        Err(error) if cannot(&error) => plain_fork(),
        other => other,
    }
}

fn plain_fork() -> io::Result<Cloned> {
    // SAFETY: as for clone3 below.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => Ok(Cloned::Child { in_group: false }),
        // It is not reaped yet, so the number is still the child's.
        nix::unistd::ForkResult::Parent { child } => {
            PidFd::open(child.as_raw()).map(Cloned::Parent).map_err(io::Error::other)
        }
    }
}

fn cannot(error: &io::Error) -> bool {
    let errno = error.raw_os_error().unwrap_or(0);
    [libc::ENOSYS, libc::E2BIG, libc::EINVAL, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP].contains(&errno)
}

fn clone3(group: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    let mut pidfd: libc::c_int = -1;
    let into = if group.is_some() { CLONE_INTO_CGROUP } else { 0 };
    // SAFETY: all zeroes is a valid clone_args: no flags, no stack, no signal.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(libc::CLONE_PIDFD.unsigned_abs()) | into;
    arguments.pidfd = (&raw mut pidfd) as u64;
    arguments.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    arguments.cgroup = group.map_or(0, |dir| u64::from(dir.as_raw_fd().unsigned_abs()));
    // The field for the group came later; older kernels take the first 64 bytes.
    let size = if group.is_some() { size_of::<libc::clone_args>() } else { 64 };
    // SAFETY: without CLONE_VM and a stack this is fork(2): the child has a copy of our memory. The caller has
    // made sure that this process has one thread, so that no lock of the allocator or of stdio is held. What
    // glibc's own fork would add (handlers, a cached thread number) nothing here relies on.
    let pid = check_long(unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size) })?;
    if pid == 0 {
        return Ok(Cloned::Child { in_group: group.is_some() });
    }
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: clone3 has put a new descriptor there for the parent.
    let fd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Cloned::Parent(PidFd::from_fd(fd, pid)))
}

//! Starts processes, and sets what a process may set on itself.
//!
//! There are three ways to start one: [`fork_child`] for the single-threaded supervisor, which has much to do between
//! fork and exec; [`Spawn`] for the daemon, whose memory is too large to fork; `exec` for the child itself.
//! Everything else here changes this process only.

mod command_line;
mod descriptors;
mod errand;
mod fork;
mod limits;
mod numbers;
mod spawn;

pub use command_line::CommandLine;
pub use descriptors::{close_from, close_on_exec_from, place};
pub use errand::{ErrandError, errand};
pub use fork::{Child, ChildError, ChildReport, ChildStart, Hands, ToParent, fork_child, fork_sibling};
pub use limits::{Limit, Resource, begin_as_a_session, limit, set_limit};
pub use numbers::has_the_machines_numbers;
pub use spawn::Spawn;

use crate::error::{Doing, Result, SysError, check};
use crate::signals::Signal;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Number of threads of this process.
///
/// # Errors
/// When `/proc` can't be read.
pub fn thread_count() -> Result<usize> {
    const TASKS: &str = "/proc/self/task";
    // Each thread has a folder there, which counts as a link of the parent folder; two links are the folder's own.
    let links = std::fs::metadata(TASKS).doing("look at", TASKS)?.nlink();
    match links.checked_sub(2) {
        Some(threads @ 1..) => Ok(usize::try_from(threads).unwrap_or(usize::MAX)),
        // Systems that only look like Linux may not count them.
        _ => Ok(std::fs::read_dir(TASKS).doing("list", TASKS)?.count()),
    }
}

/// Replaces this process by `program`. `arguments` begin with the name of the program; `environment` is `KEY=value`.
/// Returns only if that failed.
pub fn exec(program: &CStr, arguments: &[CString], environment: &[CString]) -> SysError {
    match nix::unistd::execve(program, arguments, environment) {
        Ok(never) => match never {},
        Err(errno) => SysError::new("execute", program.to_string_lossy(), errno),
    }
}

/// Replaces this process by the open file `program`. A script (`#!`) needs a descriptor that stays open on exec.
/// Returns only if that failed.
pub fn exec_fd(program: &impl AsFd, arguments: &[CString], environment: &[CString]) -> SysError {
    match nix::unistd::fexecve(program, arguments, environment) {
        Ok(never) => match never {},
        Err(errno) => SysError::new("execute", "an open file", errno),
    }
}

/// Orphans among our descendants become our children, not init's.
///
/// # Errors
/// Never on supported kernels.
pub fn set_child_subreaper(on: bool) -> Result<()> {
    nix::sys::prctl::set_child_subreaper(on).doing("adopt orphans in", "this process")
}

/// The signal this process gets when the *thread* that started it ends. Cleared by changing users: set it after.
/// The parent may be gone already: compare its number afterwards.
///
/// # Errors
/// Never for signals that exist.
pub fn set_parent_death_signal(signal: Signal) -> Result<()> {
    let number = libc::c_ulong::try_from(signal.number()).unwrap_or(0);
    // SAFETY: this option takes one integer.
    let done = check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, number, 0, 0, 0) });
    done.doing("set the parent's death signal", signal).map(drop)
}

/// How readily the kernel ends this process when memory is short, −1000 (never) to 1000. Lowering needs root.
/// Children inherit it.
///
/// # Errors
/// EACCES for lowering it as an ordinary user.
pub fn set_oom_score_adj(score: i32) -> Result<()> {
    const FILE: &str = "/proc/self/oom_score_adj";
    std::fs::write(FILE, score.to_string()).doing("write", FILE)
}

/// The name that ps(1) shows for this thread, cut to 15 bytes.
///
/// # Errors
/// For names with a NUL.
pub fn set_name(name: &str) -> Result<()> {
    let text = CString::new(name).doing("take the name", name)?;
    nix::sys::prctl::set_name(&text).doing("take the name", name)
}

/// Sets the file mode mask and returns the one before.
pub fn set_umask(mask: u32) -> u32 {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask)).bits()
}

/// Changes the working directory.
///
/// # Errors
/// What chdir(2) says.
pub fn change_dir(path: &Path) -> Result<()> {
    nix::unistd::chdir(path).doing("change to directory", path.display())
}

/// Begins a new session without a terminal; this process leads it and its only process group.
///
/// # Errors
/// EPERM if it leads a group already.
pub fn new_session() -> Result<()> {
    nix::unistd::setsid().doing("begin", "a session").map(drop)
}

/// Begins a new process group in the same session; this process leads it.
///
/// # Errors
/// EPERM if it leads a session already.
pub fn new_group() -> Result<()> {
    let own = nix::unistd::Pid::from_raw(0);
    nix::unistd::setpgid(own, own).doing("begin", "a process group")
}

/// Keeps all memory of this process, present and future, out of swap.
///
/// # Errors
/// ENOMEM or EPERM when the limit is too low.
pub fn lock_memory() -> Result<()> {
    let all = nix::sys::mman::MlockAllFlags::MCL_CURRENT | nix::sys::mman::MlockAllFlags::MCL_FUTURE;
    nix::sys::mman::mlockall(all).doing("lock", "the memory of this process")
}

/// Gives memory that was freed back to the system, as far as the allocator can. After a burst.
pub fn give_back_memory() {
    // SAFETY: takes an integer and touches free memory only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sends a signal to a process by number: only for children that have not been reaped, and for oneself.
///
/// # Errors
/// What kill(2) says.
pub fn signal_child(pid: i32, signal: Signal) -> Result<()> {
    // SAFETY: kill takes two integers.
    check(unsafe { libc::kill(pid, signal.number()) }).doing("signal process", pid).map(drop)
}

/// Reaps any child that has ended and returns its number, or `None` if none has. For a subreaper, which inherits
/// unknown children. Reap known children through their [`crate::pidfd::PidFd`] first, or their exit is lost.
///
/// # Errors
/// Only unexpected ones; "no children" is `None`.
pub fn reap_any() -> Result<Option<(i32, crate::pidfd::Exit)>> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the answer.
    match check(unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) }) {
        Ok(0) => Ok(None),
        Ok(pid) => Ok(Some((pid, exit_of(status)))),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error).doing("wait for", "children"),
    }
}

fn exit_of(status: libc::c_int) -> crate::pidfd::Exit {
    if libc::WIFSIGNALED(status) {
        crate::pidfd::Exit::Signal { number: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        crate::pidfd::Exit::Code(libc::WEXITSTATUS(status))
    }
}

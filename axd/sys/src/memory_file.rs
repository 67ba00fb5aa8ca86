//! Files without a name, in memory: for programs that lie where nothing may be executed.

use crate::error::{Doing, Result};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Seek};

/// Returns a copy of `content` in memory that can't be changed any more, close-on-exec. `name` is what ps(1) and
/// /proc show.
///
/// # Errors
/// When there is no room, or this machine refuses such files.
pub fn sealed_copy(mut content: &File, name: &str) -> Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut copy = File::from(memfd_create(name, flags).doing("make a file in memory for", name)?);
    content.rewind().and_then(|()| io::copy(&mut content, &mut copy)).doing("copy", name)?;
    let all =
        SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(&copy, FcntlArg::F_ADD_SEALS(all)).doing("seal", name)?;
    Ok(copy)
}

/// An empty file in memory, close-on-exec. `name` is what ps(1) and /proc show.
///
/// # Errors
/// When there is no room, or this machine refuses such files.
pub fn empty(name: &str) -> Result<File> {
    memfd_create(name, MFdFlags::MFD_CLOEXEC).doing("make a file in memory for", name).map(File::from)
}

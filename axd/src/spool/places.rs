//! The folders of the spool, held open. They are opened anew for each rescan, so that an administrator may move or
//! remake them while the daemon runs.

use std::ffi::OsStr;
use std::io::ErrorKind;

use ax_core::id::Uid;
use ax_core::paths::Paths;
use ax_sys::SysError;
use ax_sys::path::{Dir, Meta};
use ax_sys::{credentials, statfs};

use super::name::TakenName;

/// `incoming/`, `taken/` and `refused/`.
#[derive(Debug)]
pub(super) struct Places {
    /// Everybody may make names here, but only of their own.
    pub(super) incoming: Dir,
    /// Ours alone.
    pub(super) taken: Dir,
    /// Ours; the folders in it are the users'.
    pub(super) refused: Dir,
    /// Whose this daemon is: only root serves others.
    pub(super) own: Uid,
    /// Machines that we can't see may put something here.
    pub(super) shared: bool,
}

impl Places {
    /// Opens them.
    pub(super) fn open(paths: &Paths) -> Result<Places, SysError> {
        let own = Uid(credentials::own().0);
        let kind = statfs::of(&paths.incoming())?.kind;
        let shared = matches!(kind, statfs::Kind::Nfs | statfs::Kind::Shared);
        Ok(Places {
            incoming: ours(Dir::open(paths.incoming())?, own)?,
            taken: ours(Dir::open(paths.taken())?, own)?,
            refused: ours(Dir::open(paths.refused())?, own)?,
            own,
            shared,
        })
    }

    /// What an earlier daemon took and did not finish; and names that are none of ours.
    pub(super) fn left(&self) -> Result<(Vec<TakenName>, usize), SysError> {
        let mut left = Vec::new();
        let mut foreign = 0;
        for entry in self.taken.names()? {
            match TakenName::parse(&entry?.name) {
                Some(name) => left.push(name),
                None => foreign += 1,
            }
        }
        left.sort_by_key(|name| name.key);
        Ok((left, foreign))
    }

    /// Whether this daemon takes drops of this user.
    pub(super) fn serves(&self, uid: Uid) -> bool {
        self.own == Uid::ROOT || self.own == uid
    }

    /// Takes a file back out of `taken/`, where its place is still free.
    pub(super) fn put_back(&self, id: &OsStr, dir: &Dir, name: &OsStr) -> Result<(), SysError> {
        rename_new(&self.taken, id, dir, name)
    }
}

/// Who owned these folders could read, change and forge what is put there.
fn ours(dir: Dir, own: Uid) -> Result<Dir, SysError> {
    let owner = Uid(Meta::of(&dir)?.uid);
    if owner == own || owner == Uid::ROOT {
        return Ok(dir);
    }
    let why = std::io::Error::other(format!("it belongs to user {owner}"));
    Err(SysError::new("use", dir.path().display(), why))
}

/// Renames to a name that is not there. File systems that can't promise that are asked first: in our own
/// folders nobody else makes names, in a user's the user harms only their own.
pub(super) fn rename_new(from: &Dir, old: &OsStr, to: &Dir, new: &OsStr) -> Result<(), SysError> {
    let done = from.rename_new(old, to, new);
    match done.as_ref().map_err(SysError::kind) {
        // NFS and old kernels.
        Err(ErrorKind::InvalidInput | ErrorKind::Unsupported) => {}
        _ => return done,
    }
    match to.stat(new) {
        Ok(_) => Err(SysError::new("make", to.show(new).display(), ErrorKind::AlreadyExists)),
        Err(_) => from.rename(old, to, new),
    }
}

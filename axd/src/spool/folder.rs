//! A user's folder in `incoming/`: opened without following links, believed only by what the kernel says of the open
//! descriptor, read a few names at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::sync::Arc;

use ax_core::id::Uid;
use ax_sys::SysError;
use ax_sys::path::{Dir, FileType, Meta, Names};

use super::name::is_hidden;
use super::places::Places;

/// Names that are read at once. More are left for the next time.
const AT_ONCE: usize = 1000;

/// Which folder it is, whatever its name: file system and inode.
pub(super) type Identity = (u64, u64);

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    /// It.
    pub(super) dir: Arc<Dir>,
    /// Whose it is.
    pub(super) owner: Uid,
    /// Which one.
    pub(super) identity: Identity,
    /// Last change of its names, milliseconds since 1970.
    pub(super) modified_ms: i64,
    /// Something happened in it since it was opened: look again.
    pub(super) again: bool,
    /// Nothing at all was found in it.
    pub(super) empty: bool,
    names: Option<Names>,
    ahead: VecDeque<OsString>,
    read: bool,
}

/// Why a name in `incoming/` is no folder to take from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is not there any more.
    Gone,
    /// It stays where it is, for this reason.
    Ignored(String),
}

impl Folder {
    /// Opens a folder of `incoming/`.
    pub(super) fn open(places: &Places, name: &OsStr) -> Result<Folder, Unusable> {
        let dir = places.incoming.open_dir_unmounted(name).map_err(|error| why_not(&error))?;
        let meta = Meta::of(&dir).map_err(|error| why_not(&error))?;
        let owner = Uid(meta.uid);
        if meta.mode & 0o077 != 0 {
            let mode = meta.mode & 0o777;
            let why =
                format!("its mode is {mode:03o}: others than user {owner} could put something; needs 700");
            return Err(Unusable::Ignored(why));
        }
        if !places.serves(owner) {
            return Err(Unusable::Ignored(format!("it belongs to user {owner}")));
        }
        Ok(Folder {
            dir: Arc::new(dir),
            owner,
            identity: (meta.device, meta.inode),
            modified_ms: meta.modified_ms,
            again: false,
            empty: true,
            names: None,
            ahead: VecDeque::new(),
            read: false,
        })
    }

    /// The next name that may be a drop; `None`: none for now, see [`Folder::has_more`].
    pub(super) fn next(&mut self) -> Result<Option<OsString>, SysError> {
        if self.ahead.is_empty() && !self.read {
            self.read_on()?;
        }
        Ok(self.ahead.pop_front())
    }

    /// Whether there may be further names.
    pub(super) fn has_more(&self) -> bool {
        !self.ahead.is_empty() || !self.read
    }

    /// Reads a number of names, in order: keys sort by their time.
    fn read_on(&mut self) -> Result<(), SysError> {
        let mut names = match self.names.take() {
            Some(names) => names,
            None => self.dir.names()?,
        };
        for _ in 0..AT_ONCE {
            let Some(entry) = names.next() else {
                self.read = true;
                break;
            };
            let entry = entry.inspect_err(|_| self.read = true)?;
            self.empty = false;
            // Folders are nobody's drops, and hidden files not put yet.
            if !is_hidden(&entry.name) && entry.file_type != Some(FileType::Directory) {
                self.ahead.push_back(entry.name);
            }
        }
        // Given away meanwhile (root alone can do that): what is in it is to be believed of its new owner.
        if Meta::of(&self.dir)?.uid != self.owner.0 {
            self.ahead.clear();
            (self.read, self.again) = (true, true);
        }
        self.ahead.make_contiguous().sort();
        if !self.read {
            self.names = Some(names);
        }
        Ok(())
    }
}

fn why_not(error: &SysError) -> Unusable {
    match error.kind() {
        ErrorKind::NotFound => Unusable::Gone,
        ErrorKind::NotADirectory => {
            Unusable::Ignored("it is no folder; drops belong into one of your own".into())
        }
        ErrorKind::CrossesDevices => Unusable::Ignored("another file system is mounted there".into()),
        _ => Unusable::Ignored(error.to_string()),
    }
}

//! Moves what can't become a job to `refused/<uid>/`, which is the user's, with a `.why` beside it. It is only
//! renamed, never opened, and its owner and mode are never changed: it may be anything that a user can put into a
//! folder.

use std::ffi::OsStr;
use std::io::ErrorKind;

use ax_core::id::Uid;
use ax_core::text::escaped;
use ax_sys::atomic_file::{self, Options};
use ax_sys::path::{Dir, Meta};
use ax_sys::{SysError, random};

use super::name::{TakenName, safe};
use super::places::{Places, rename_new};

/// Moves a file from `taken/` to its user's refused ones and says why. `Ok(Some)`: it was moved, the reason
/// could not be written.
pub(super) fn refuse(places: &Places, taken: &TakenName, why: &str) -> Result<Option<SysError>, SysError> {
    let folder = folder_of(places, taken.uid)?;
    let name = free_name(&folder, taken)?;
    // The reason first: whoever finds the file finds it too. A full disk keeps the file from nobody.
    let said = put_reason(places, &folder, taken.uid, &format!("{name}.why"), why);
    rename_new(&places.taken, &taken.id().0, &folder, OsStr::new(&name))?;
    Ok(said.err())
}

/// The name that it had, made safe; with its key, and then with chance, where that is taken.
fn free_name(folder: &Dir, taken: &TakenName) -> Result<String, SysError> {
    // The folder is the user's: what is mounted on a name in it is not asked whether it is there.
    let is_free = |name: &str| matches!(folder.has_unmounted(name), Ok(false));
    let free = |name: &str| is_free(name) && is_free(&format!("{name}.why"));
    let name = safe(&taken.name);
    let with_key = format!("{name}.{}", taken.key);
    match (free(&name), free(&with_key)) {
        (true, _) => Ok(name),
        (false, true) => Ok(with_key),
        (false, false) => Ok(format!("{name}.{}", random::name()?)),
    }
}

fn put_reason(places: &Places, folder: &Dir, uid: Uid, name: &str, why: &str) -> Result<(), SysError> {
    let owner = (uid != places.own).then_some((uid.0, Meta::of(folder)?.gid));
    let text = format!("{}\n", escaped(why));
    atomic_file::write(folder, name, text.as_bytes(), &Options { owner, ..Options::default() }).map(|_| ())
}

/// The user's folder, made and given to them if need be. Nobody but us makes names in `refused/`.
fn folder_of(places: &Places, uid: Uid) -> Result<Dir, SysError> {
    let name = uid.to_string();
    match places.refused.create_dir(&name, 0o700) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // It is the user's: they could mount something on it.
    let folder = places.refused.open_dir_unmounted(&name)?;
    let meta = Meta::of(&folder)?;
    // An earlier daemon may have died between making it and giving it away.
    if meta.uid != uid.0 {
        places.refused.chown(&name, uid.0, meta.gid)?;
    }
    Ok(folder)
}

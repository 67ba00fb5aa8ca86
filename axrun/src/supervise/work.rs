//! The attempt's own folder for its user. Its parents are root's and may be passed through, not listed.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use ax_core::record::{Assignment, Spare, Untouched};
use ax_sys::path::Dir;
use ax_sys::{Result, SysError, crash_point};

/// Permissions of a work folder, and of those above it.
const MODE: u32 = 0o700;
const MODE_ABOVE: u32 = 0o711;

/// Makes it, or takes over what an earlier attempt of the same user had and did not touch. How it is then; nothing of one
/// that was there already.
pub(super) fn prepare(assignment: &Assignment) -> Result<Option<Untouched>> {
    let spare = assignment.spare.as_ref();
    if let Some(spare) = spare.filter(|spare| take_over(assignment, spare).is_some()) {
        return Ok(Some(spare.work));
    }
    let made = make(assignment)?;
    let path = Path::new(&assignment.work_dir);
    Ok(made.then(|| look_at(path, assignment)).flatten())
}

/// Whether nothing was done to it since it looked like this.
pub(super) fn is_untouched(assignment: &Assignment, before: &Untouched) -> bool {
    look_at(Path::new(&assignment.work_dir), assignment).as_ref() == Some(before)
}

/// Brings the folders of the earlier attempt here. Looked at where they were: from then on they are as much the user's as
/// new ones. What can't be used stays where it is.
fn take_over(assignment: &Assignment, spare: &Spare) -> Option<()> {
    let (old, new) = (Path::new(&spare.folder), Path::new(&assignment.work_dir).parent()?);
    look_at(&old.join("work"), assignment).filter(|found| *found == spare.work)?;
    let (old_job, new_job) = (old.parent()?, new.parent()?);
    match std::fs::rename(old_job, new_job) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            DirBuilder::new().mode(MODE_ABOVE).recursive(true).create(new_job.parent()?).ok()?;
            std::fs::rename(old_job, new_job).ok()?;
        }
        other => other.ok()?,
    }
    crash_point!("spare moved");
    std::fs::rename(new_job.join(old.file_name()?), new).ok()
}

/// A folder that is the user's alone, who may have mounted on it what answers never: that is not asked.
fn look_at(path: &Path, assignment: &Assignment) -> Option<Untouched> {
    let meta = Dir::open(path.parent()?).ok()?.look_unmounted(path.file_name()?).ok()?;
    let user = &assignment.user;
    let is_theirs = meta.is_dir() && (meta.uid(), meta.gid()) == (user.uid.0, user.gid.0);
    let is_so = is_theirs && meta.mode() & 0o7777 == MODE;
    is_so.then(|| Untouched { inode: meta.ino(), changed_s: meta.ctime(), changed_ns: meta.ctime_nsec() })
}

/// Whether it was not there.
fn make(assignment: &Assignment) -> Result<bool> {
    let path = Path::new(&assignment.work_dir);
    let failed = |doing, error| SysError::new(doing, path.display(), error);
    let make = || DirBuilder::new().mode(MODE).create(path);
    let made = match make() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(path);
            let parents = DirBuilder::new().mode(MODE_ABOVE).recursive(true).create(parent);
            parents.map_err(|error| failed("make the folders above", error))?;
            make()
        }
        other => other,
    };
    let user = &assignment.user;
    match made {
        // Somebody prepared it. Only root could, but an odd one is no work folder.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let meta = std::fs::symlink_metadata(path).map_err(|error| failed("look at", error))?;
            if meta.is_dir() && meta.uid() == user.uid.0 {
                return Ok(false);
            }
            Err(failed("use as work folder", error))
        }
        Err(error) => Err(failed("make work folder", error)),
        Ok(()) => std::os::unix::fs::lchown(path, Some(user.uid.0), Some(user.gid.0))
            .map(|()| true)
            .map_err(|error| failed("give to the user", error)),
    }
}

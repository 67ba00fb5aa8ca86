//! Puts a submission into the user's own folder of the spool, as one file that appears whole, while no daemon
//! answers. Any name there may belong to another user: only a folder of our own is used, and it is closed to others.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ax_core::api::{ErrorClass, SubmitRequest};
use ax_core::id::SubmissionKey;
use ax_core::paths::Paths;
use ax_sys::atomic_file::{self, Options};
use ax_sys::path::Dir;
use ax_sys::{SysError, credentials, random};

use crate::connect::is_trusted;
use crate::failure::Failure;
use crate::shown::plain;

/// A spooled submission.
#[derive(Debug, Clone)]
pub(crate) struct Spooled {
    /// The file, until axd takes it.
    pub(super) file: PathBuf,
    /// Where axd puts it if it can't take it.
    pub(super) refused: PathBuf,
    /// Its key.
    pub(super) key: SubmissionKey,
}

/// Puts a request into the spool. Once this returns, the submission survives a loss of power.
///
/// # Errors
/// Try again, when there is no room for it; unavailable, with the reason, when there is no spool that can be used.
pub(super) fn put(request: &SubmitRequest, key: SubmissionKey, paths: &Paths) -> Result<Spooled, Failure> {
    put_whole(request, key, paths).map_err(|Unusable { why, is_full }| match is_full {
        true => {
            let line = format!("no daemon, and no room in the spool: {why}; try again later");
            Failure::said(ErrorClass::TryAgain, line)
        }
        false => {
            let line = format!("no daemon, and the spool cannot be used: {why}");
            Failure::said(ErrorClass::Unavailable, line)
        }
    })
}

/// Why nothing can be put into the spool.
struct Unusable {
    why: String,
    /// The disk, or the user's part of it.
    is_full: bool,
}

impl Unusable {
    fn new(why: String, kind: io::ErrorKind) -> Unusable {
        Unusable { why, is_full: matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        Unusable::new(error.to_string(), error.kind())
    }
}

impl From<SysError> for Unusable {
    fn from(error: SysError) -> Unusable {
        Unusable::new(error.to_string(), error.kind())
    }
}

fn put_whole(request: &SubmitRequest, key: SubmissionKey, paths: &Paths) -> Result<Spooled, Unusable> {
    let content = serde_json::to_vec(request).map_err(io::Error::from)?;
    check_incoming(&paths.incoming())?;
    let folder = own_folder(&paths.incoming())?;
    let dir = Dir::open(&folder)?;
    let name = format!("{key}.axjob");
    atomic_file::write(&dir, &name, &content, &Options::durable())?;
    let refused = paths.refused().join(credentials::own().0.to_string());
    Ok(Spooled { file: folder.join(name), refused, key })
}

impl Spooled {
    /// Why axd could not take it, if it could not.
    pub(super) fn refusal(&self) -> Option<String> {
        let key = self.key.to_string();
        let entries = fs::read_dir(&self.refused).ok()?.filter_map(Result::ok);
        let is_why = |name: &str| name.contains(&key) && name.ends_with(".why");
        let why = entries
            .map(|entry| entry.path())
            .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_why))?;
        Some(fs::read_to_string(why).ok()?.trim().to_owned())
    }
}

/// The spool must be root's or ours: who owns it could read and change what is put there.
fn check_incoming(incoming: &Path) -> io::Result<()> {
    let meta = fs::metadata(incoming).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {}", incoming.display(), plain(&error)))
    })?;
    if meta.is_dir() && is_trusted(meta.uid()) {
        return Ok(());
    }
    let path = incoming.display();
    Err(io::Error::other(format!("{path} belongs to uid {}, neither root nor you", meta.uid())))
}

/// `<uid>`, or `<uid>-<random>` where somebody else has that name.
fn own_folder(incoming: &Path) -> io::Result<PathBuf> {
    let uid = credentials::own().0;
    let plain = incoming.join(uid.to_string());
    if make_own(&plain, uid)? {
        return Ok(plain);
    }
    let random = random::name().map_err(|error| io::Error::other(error.to_string()))?;
    let other = incoming.join(format!("{uid}-{random}"));
    match make_own(&other, uid)? {
        true => Ok(other),
        false => Err(io::Error::other(format!("{} belongs to somebody else", other.display()))),
    }
}

/// Makes the folder if it is not there. Whether it is ours then; it is closed to others.
fn make_own(path: &Path, uid: u32) -> io::Result<bool> {
    let in_path =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {}", path.display(), plain(&error)));
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(in_path(error)),
    }
    let meta = fs::symlink_metadata(path).map_err(in_path)?;
    if !meta.is_dir() || meta.uid() != uid {
        return Ok(false);
    }
    if meta.mode() & 0o777 != 0o700 {
        fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(in_path)?;
    }
    Ok(true)
}

/// `incoming/` lets users make names but not list them, so only its owner can open it to sync it.
/// For others the folder's own sync has to do: journalling file systems order it after the name.
fn sync_parent(path: &Path) {
    if let Some(parent) = path.parent().and_then(|parent| Dir::open(parent).ok()) {
        let _ = parent.sync();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_kit::TempDir;

    fn paths() -> (TempDir, Paths) {
        let root = TempDir::new();
        let paths = Paths::under(&root);
        fs::create_dir_all(paths.incoming()).unwrap();
        (root, paths)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    const KEY: SubmissionKey = SubmissionKey(7);

    #[test]
    fn a_submission_is_closed_and_whole() {
        let (_root, paths) = paths();
        let request = SubmitRequest { key: Some(KEY), cmd: Some("true".into()), ..SubmitRequest::default() };
        let spooled = put(&request, KEY, &paths).unwrap();
        let folder = paths.incoming().join(credentials::own().0.to_string());
        assert_eq!(spooled.file, folder.join(format!("{KEY}.axjob")));
        assert_eq!((mode(&folder), mode(&spooled.file)), (0o700, 0o600));
        let back: SubmitRequest = serde_json::from_slice(&fs::read(&spooled.file).unwrap()).unwrap();
        assert_eq!(back, request);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a temporary file is left");
    }

    #[test]
    fn an_open_folder_is_closed_and_a_squatted_name_avoided() {
        let (_root, paths) = paths();
        let plain = paths.incoming().join(credentials::own().0.to_string());
        fs::create_dir(&plain).unwrap();
        fs::set_permissions(&plain, Permissions::from_mode(0o755)).unwrap();
        put(&SubmitRequest::default(), KEY, &paths).unwrap();
        assert_eq!(mode(&plain), 0o700);
        fs::remove_dir_all(&plain).unwrap();
        // A link to a folder of ours is still somebody else's choice.
        std::os::unix::fs::symlink("/tmp", &plain).unwrap();
        let spooled = put(&SubmitRequest::default(), KEY, &paths).unwrap();
        let name = spooled.file.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with(&format!("{}-", credentials::own().0)), "{name}");
    }

    #[test]
    fn no_spool_is_told() {
        let paths = Paths::under(Path::new("/nonexistent"));
        let error = put(&SubmitRequest::default(), KEY, &paths).unwrap_err();
        assert_eq!(error.exit_code(), 69);
        assert!(error.to_string().contains("/nonexistent/var/spool/ax/incoming"), "{error}");
    }

    #[test]
    fn a_refusal_is_found_by_its_key() {
        let (_root, paths) = paths();
        let spooled = put(&SubmitRequest::default(), KEY, &paths).unwrap();
        assert_eq!(spooled.refusal(), None);
        fs::create_dir_all(&spooled.refused).unwrap();
        fs::write(spooled.refused.join(format!("{KEY}.axjob.why")), "no such queue\n").unwrap();
        assert_eq!(spooled.refusal().as_deref(), Some("no such queue"));
    }
}

//! Takes a drop: renames it into `taken/`, where its owner can no longer exchange it, then checks it, then reads it
//! once. The owner may still write through a descriptor that was kept open; what was read is what counts.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::Arc;

use ax_core::api::SubmitRequest;
use ax_core::id::{SubmissionKey, Uid};
use ax_core::text::quoted;
use ax_sys::path::{Demand, Dir, FileType, HostileError, Meta, is_open_for_writing};
use ax_sys::{SysError, clock, crash_point, random};

use super::folder::Folder;
use super::name::{Kind, TakenName, kind, shown};
use super::places::{Places, rename_new};
use super::{Arrival, Content, TakenId};
use crate::api::body::parse;
use crate::submission::MAX_SCRIPT;

/// Largest request: as on the socket.
const MAX_REQUEST: u64 = 8 << 20;
/// How often a file may change while it is being read.
const TRIES: u32 = 3;

/// Where a drop came from.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The folder.
    pub(super) dir: Arc<Dir>,
    /// The folder's name in `incoming/`.
    pub(super) folder: OsString,
}

/// A drop in `taken/`.
#[derive(Debug)]
pub(super) struct Taken {
    /// Its name there.
    pub(super) name: TakenName,
    /// Where it was; unknown after a restart.
    pub(super) origin: Option<Origin>,
    /// What it was when it was taken.
    pub(super) meta: Meta,
}

impl Taken {
    /// The name of the file.
    pub(super) fn id(&self) -> TakenId {
        self.name.id()
    }

    /// What it weighs while it is under way.
    pub(super) fn bytes(&self) -> u64 {
        self.meta.size.min(MAX_REQUEST)
    }
}

/// What was found in `taken/`.
#[derive(Debug)]
pub(super) enum Found {
    /// A submission.
    Drop(Box<Arrival>),
    /// Something that can't become one.
    Refused(String),
    /// Its owner still has it open for writing: not whole yet.
    Busy,
    /// It can't be said for now.
    Failed(SysError),
}

/// Takes a file out of a user's folder. `None`: it is gone, or is none to be taken.
pub(super) fn take(
    places: &Places,
    folder: &Folder,
    folder_name: &OsStr,
    name: &OsStr,
) -> Result<Option<Taken>, SysError> {
    let key = match kind(name) {
        Kind::Request(key) => key,
        Kind::Script | Kind::Misnamed => new_key()?,
    };
    let taken = TakenName { key, uid: folder.owner, name: name.to_owned() };
    let id = taken.id().0;
    if let Err(error) = rename_new(&folder.dir, name, &places.taken, &id) {
        return match error.kind() {
            // The owner was quicker; or the same key is under way; or something is mounted on it.
            ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::ResourceBusy => Ok(None),
            _ => Err(error),
        };
    }
    crash_point!("drop renamed");
    let meta = places.taken.stat(&id)?;
    let origin = Origin { dir: Arc::clone(&folder.dir), folder: folder_name.to_owned() };
    Ok(Some(Taken { name: taken, origin: Some(origin), meta }))
}

/// Takes up again what an earlier daemon took.
pub(super) fn take_up(places: &Places, name: TakenName) -> Result<Taken, SysError> {
    let meta = places.taken.stat(name.id().0)?;
    Ok(Taken { name, origin: None, meta })
}

fn new_key() -> Result<SubmissionKey, SysError> {
    Ok(SubmissionKey::new(u64::try_from(clock::wall_ms()).unwrap_or(0), random::bytes()?))
}

/// Looks at what was taken and reads it.
pub(super) fn read(places: &Places, taken: &Taken) -> Found {
    let name = shown(&taken.name.name);
    let id = taken.id();
    let what = kind(&taken.name.name);
    let limit = if what == Kind::Script { MAX_SCRIPT as u64 } else { MAX_REQUEST };
    let demand = Demand { owner: Some(taken.name.uid.0), max_size: limit };
    match taken.meta.file_type {
        FileType::Directory => return Found::Refused(format!("{}: it is a folder", quoted(&name))),
        FileType::Link => {
            return Found::Refused(format!("{}: a symbolic link is not followed", quoted(&name)));
        }
        FileType::Regular | FileType::Special => {}
    }
    let bytes = match places.taken.open_checked(&id.0, demand) {
        Ok((file, _)) if !places.shared && is_open_for_writing(&file) => return Found::Busy,
        Ok((file, meta)) => read_once(&file, &meta, limit),
        Err(HostileError::System(error)) => return Found::Failed(error),
        Err(error) => return Found::Refused(refusal(&name, taken.name.uid, &error)),
    };
    let bytes = match bytes {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Found::Refused(format!("{}: it changed while it was read", quoted(&name))),
        Err(error) => return Found::Failed(SysError::new("read", name, error)),
    };
    let content = match what {
        Kind::Script => Ok(Content::Script(bytes)),
        Kind::Request(_) => request(&bytes, taken.name.key).map(|r| Content::Request(Box::new(r))),
        Kind::Misnamed => Err("a file that ends in .axjob is named by its key, KEY.axjob".to_owned()),
    };
    match content {
        Ok(content) => {
            let (uid, key) = (taken.name.uid, taken.name.key);
            Found::Drop(Box::new(Arrival { id, uid, key, name, content }))
        }
        Err(why) => Found::Refused(format!("{}: {why}", quoted(&name))),
    }
}

/// The content, if it stayed the same while it was read.
fn read_once(file: &File, meta: &Meta, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut before = *meta;
    let mut whole = file;
    for _ in 0..TRIES {
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut whole)?;
        file.take(limit + 1).read_to_end(&mut bytes)?;
        let after = Meta::of(file).map_err(std::io::Error::other)?;
        let same = (after.size, after.modified_ms) == (before.size, before.modified_ms);
        if same && bytes.len() as u64 == after.size {
            return Ok(Some(bytes));
        }
        before = after;
    }
    Ok(None)
}

fn request(bytes: &[u8], key: SubmissionKey) -> Result<SubmitRequest, String> {
    let mut request: SubmitRequest =
        parse(bytes).map_err(|why| format!("the file is no submission: {why}"))?;
    match request.key.replace(key) {
        Some(other) if other != key => Err(format!("the key in the file is {other}, not that of its name")),
        _ => Ok(request),
    }
}

/// The paths in the errors are ours: the user knows the file by its name.
fn refusal(name: &str, uid: Uid, error: &HostileError) -> String {
    let name = quoted(name);
    match error {
        HostileError::NotRegular(_) => format!("{name}: it is no regular file"),
        HostileError::WrongOwner { found, .. } => {
            format!("{name}: it belongs to user {found}, and its folder to user {uid}")
        }
        HostileError::ManyLinks { links, .. } => {
            format!("{name}: it has {links} names (hard links); put a copy instead")
        }
        HostileError::TooLarge { size, max, .. } => {
            format!("{name}: it has {size} bytes, at most {max} are taken")
        }
        HostileError::System(error) => format!("{name}: {error}"),
    }
}

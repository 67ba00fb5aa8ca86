//! Names of drops in `taken/`, in `refused/` and in messages. A file's name is the user's data: it is kept in the
//! user's folders and made harmless elsewhere.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use ax_core::id::{SubmissionKey, Uid};
use ax_core::text::escaped;

use super::TakenId;

/// Longest name of a file.
const LONGEST: usize = 255;
/// Room for a refused file's own name; a key and `.why` may follow.
const LONGEST_SAFE: usize = 200;
/// What `axbatch` names its files by.
const REQUEST: &[u8] = b".axjob";

/// What a file's name says about what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A script.
    Script,
    /// A whole request under this key.
    Request(SubmissionKey),
    /// It looks like a request, but its name is no key.
    Misnamed,
}

/// Reads a drop's name.
pub(super) fn kind(name: &OsStr) -> Kind {
    let Some(stem) = name.as_bytes().strip_suffix(REQUEST) else { return Kind::Script };
    let key = std::str::from_utf8(stem).ok().and_then(|stem| stem.parse().ok());
    key.map_or(Kind::Misnamed, Kind::Request)
}

/// Whether a file of this name is not put yet.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// A drop in `taken/`: `<key>.<uid>.<its name>`. The number is that of the folder's owner: after a crash
/// it is still known who put the file there, whoever owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TakenName {
    /// The submission's key.
    pub(super) key: SubmissionKey,
    /// Owner of the folder that it came from.
    pub(super) uid: Uid,
    /// What it was called there; of very long names the end.
    pub(super) name: OsString,
}

impl TakenName {
    /// The name of the file in `taken/`.
    pub(super) fn id(&self) -> TakenId {
        let mut text = format!("{}.{}.", self.key, self.uid).into_bytes();
        let name = self.name.as_bytes();
        let room = LONGEST - text.len();
        text.extend_from_slice(&name[name.len().saturating_sub(room)..]);
        TakenId(OsString::from_vec(text))
    }

    /// Reads the name of a file in `taken/`.
    pub(super) fn parse(text: &OsStr) -> Option<TakenName> {
        let mut parts = text.as_bytes().splitn(3, |b| *b == b'.');
        let (key, uid, name) = (parts.next()?, parts.next()?, parts.next()?);
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let name = Some(name).filter(|name| !name.is_empty())?;
        Some(TakenName {
            key: text(key)?.parse().ok()?,
            uid: Uid(text(uid)?.parse().ok()?),
            name: OsStr::from_bytes(name).to_owned(),
        })
    }
}

/// A name as text for messages and as a job's name, at most as long as a name may be.
pub(super) fn shown(name: &OsStr) -> String {
    cut(name.to_string_lossy().into_owned(), LONGEST)
}

/// A name that is safe to list in a terminal, with room for an ending.
pub(super) fn safe(name: &OsStr) -> String {
    let text = cut(escaped(&name.to_string_lossy()), LONGEST_SAFE);
    if text.starts_with('.') { format!("_{text}") } else { text }
}

fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SubmissionKey = SubmissionKey(7);

    #[test]
    fn names_in_taken_say_key_owner_and_name_whatever_is_in_it() {
        for name in [&b"job.sh"[..], b"a.b.c", b"x\n\xff\x1b[31m", b"7.8"] {
            let name = TakenName { key: KEY, uid: Uid(1000), name: OsStr::from_bytes(name).to_owned() };
            assert_eq!(TakenName::parse(&name.id().0), Some(name));
        }
        let long =
            TakenName { key: KEY, uid: Uid(u32::MAX - 1), name: format!("{}.axjob", "x".repeat(249)).into() };
        let id = long.id();
        assert_eq!(id.0.len(), LONGEST);
        let read = TakenName::parse(&id.0).unwrap();
        assert_eq!((kind(&read.name), read.uid), (Kind::Misnamed, long.uid));
        for text in ["", "x", "x.1.y", &format!("{KEY}.1."), &format!("{KEY}.-1.x"), &format!("{KEY}.x")] {
            assert_eq!(TakenName::parse(OsStr::new(text)), None, "{text}");
        }
    }

    #[test]
    fn a_request_is_named_by_its_key() {
        let name = |text: &str| kind(OsStr::new(text));
        assert_eq!(name(&format!("{KEY}.axjob")), Kind::Request(KEY));
        assert_eq!(name("job.axjob"), Kind::Misnamed);
        assert_eq!(name("job.sh"), Kind::Script);
    }

    #[test]
    fn refused_names_are_harmless_and_short() {
        assert_eq!(safe(OsStr::from_bytes(b"a\nb\x1b[2J")), "a\\nb\\x1b[2J");
        assert_eq!(safe(OsStr::new(".why")), "_.why");
        let long = safe(OsStr::from_bytes(&[0xff; 255]));
        assert!(long.len() <= LONGEST_SAFE && long.chars().all(|c| c == '\u{fffd}'), "{long}");
        assert_eq!(shown(OsStr::from_bytes(&[0xff; 255])).len(), 255);
    }
}

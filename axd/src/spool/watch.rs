//! Hints that a user has put something into a folder, kept as a set of folders to look at. The rescan makes sure that
//! nothing is missed, so hints may come twice, late, about the wrong folder, or not at all.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, INotifyWatcher, RecursiveMode, Watcher};

use super::name::is_hidden;

/// More folders than these are no longer told one by one.
const MOST_HINTS: usize = 1024;

/// Something that may tell about folders.
pub(super) trait Watch {
    /// Watches a folder. Looking at it has to follow, or what was there before is missed.
    fn add(&mut self, folder: &Path) -> notify::Result<()>;

    /// No longer watches it.
    fn remove(&mut self, folder: &Path);
}

/// What was told since somebody last asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Hints(Arc<Mutex<Told>>);

/// Folders of `incoming/` by name, or everything.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// These.
    pub(super) folders: BTreeSet<OsString>,
    /// All of them.
    pub(super) all: bool,
}

impl Hints {
    /// Takes what was told.
    pub(super) fn take(&self) -> Told {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a hint; whether it is the first since the last taking.
    fn add(&self, hint: Option<OsString>) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *told == Told::default();
        match hint {
            Some(folder) if told.folders.len() < MOST_HINTS => drop(told.folders.insert(folder)),
            _ => told.all = true,
        }
        first
    }
}

/// The kernel's inotify, by way of `notify`'s thread.
pub(super) struct Inotify(INotifyWatcher);

impl Inotify {
    /// Tells about what happens below `incoming`; `ring` is called when there is something to take.
    pub(super) fn new(
        incoming: PathBuf,
        hints: Hints,
        ring: impl Fn() + Send + 'static,
    ) -> notify::Result<Inotify> {
        let tell = move |event: notify::Result<Event>| {
            let told: Vec<Option<OsString>> = match event {
                Err(_) => vec![None],
                Ok(event) if event.need_rescan() => vec![None],
                Ok(event) => hint(&incoming, &event).into_iter().map(Some).collect(),
            };
            if told.into_iter().fold(false, |first, each| hints.add(each) | first) {
                ring();
            }
        };
        INotifyWatcher::new(tell, notify::Config::default()).map(Inotify)
    }
}

impl Watch for Inotify {
    fn add(&mut self, folder: &Path) -> notify::Result<()> {
        self.0.watch(folder, RecursiveMode::NonRecursive)
    }

    fn remove(&mut self, folder: &Path) {
        // It forgets by itself those that are gone.
        let _ = self.0.unwatch(folder);
    }
}

/// The folder that an event is about, if it means that there may be something to take.
fn hint(incoming: &Path, event: &Event) -> Option<OsString> {
    let path = event.paths.last()?.strip_prefix(incoming).ok()?;
    let mut parts = path.components().map(|part| part.as_os_str());
    let folder = parts.next()?;
    let wanted = match parts.next() {
        // A folder came, went or changed its mode.
        None => matches!(
            event.kind,
            EventKind::Create(_)
                | EventKind::Remove(_)
                | EventKind::Modify(ModifyKind::Name(_) | ModifyKind::Metadata(_))
        ),
        // A file came by rename, or was written in place. Our own reading and taking tell nothing.
        Some(name) => {
            let came = matches!(
                event.kind,
                EventKind::Modify(ModifyKind::Name(RenameMode::To))
                    | EventKind::Access(AccessKind::Close(AccessMode::Write))
            );
            came && !is_hidden(name)
        }
    };
    wanted.then(|| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, MetadataKind};

    use super::*;

    fn event(kind: EventKind, path: &str) -> Option<String> {
        let event = Event::new(kind).add_path(path.into());
        hint(Path::new("/in"), &event).map(|folder| folder.into_string().unwrap())
    }

    #[test]
    fn only_what_may_bring_something_is_a_hint() {
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        assert_eq!(event(renamed, "/in/1/job.sh").as_deref(), Some("1"));
        assert_eq!(event(renamed, "/in/1/.job.sh"), None);
        assert_eq!(event(renamed, "/elsewhere/1/job.sh"), None);
        assert_eq!(event(EventKind::Create(CreateKind::Folder), "/in/1").as_deref(), Some("1"));
        let mode = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        assert_eq!((event(mode, "/in/1").as_deref(), event(mode, "/in/1/x")), (Some("1"), None));
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        assert_eq!((event(opened, "/in/1"), event(opened, "/in/1/x")), (None, None));
        let taken = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        assert_eq!(event(taken, "/in/1/x"), None);
    }

    #[test]
    fn a_flood_of_hints_is_one() {
        let hints = Hints::default();
        assert!(hints.add(Some("1".into())));
        assert!(!hints.add(Some("2".into())));
        assert_eq!(hints.take().folders.len(), 2);
        for number in 0..=MOST_HINTS {
            hints.add(Some(number.to_string().into()));
        }
        let told = hints.take();
        assert!(told.all && told.folders.len() == MOST_HINTS);
        assert_eq!(hints.take(), Told::default());
    }

    #[test]
    fn the_kernel_tells_about_a_rename_into_a_watched_folder() {
        let root = test_kit::TempDir::new();
        let folder = root.join("1");
        std::fs::create_dir(&folder).unwrap();
        let hints = Hints::default();
        let (ring, rung) = std::sync::mpsc::channel();
        let bell = move || {
            let _ = ring.send(());
        };
        let mut watch = Inotify::new(root.to_owned(), hints.clone(), bell).unwrap();
        watch.add(&folder).unwrap();
        std::fs::write(folder.join(".x"), "").unwrap();
        std::fs::rename(folder.join(".x"), folder.join("x")).unwrap();
        rung.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!(hints.take().folders.into_iter().collect::<Vec<_>>(), ["1"]);
    }
}

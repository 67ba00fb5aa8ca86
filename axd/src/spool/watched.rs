//! Which folders are watched. Watches cost the kernel memory, and every user may make folders, so there is a bound
//! for each user and for all. The rescan finds what is in the other folders.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use ax_core::id::Uid;

use super::folder::{Folder, Identity};
use super::watch::Watch;

/// Watched folders of a user; the newest count.
const MOST_OF_USER: usize = 16;
/// Watched folders in all.
const MOST: usize = 1024;

/// The watch on `incoming/` and those on folders in it.
#[derive(Default)]
pub(super) struct Watched {
    watch: Option<Box<dyn Watch + Send>>,
    incoming: PathBuf,
    /// The inode that is watched as `incoming/`.
    top: Option<Identity>,
    folders: VecDeque<(OsString, Uid, Identity)>,
    /// Since the last rescan began, there was a folder that could not be watched.
    refused: bool,
}

impl Watched {
    pub(super) fn with(watch: Box<dyn Watch + Send>, incoming: PathBuf) -> Watched {
        Watched { watch: Some(watch), incoming, ..Watched::default() }
    }

    /// Whether all is told of that has to be, so that rescans may be rare.
    pub(super) fn sees_all(&self) -> bool {
        self.watch.is_some() && self.top.is_some() && !self.refused
    }

    /// Watches `incoming/` itself. All folders are added again after this.
    pub(super) fn add_top(&mut self, identity: Identity) -> notify::Result<()> {
        self.refused = false;
        let Some(watch) = self.watch.as_mut().filter(|_| self.top != Some(identity)) else { return Ok(()) };
        watch.remove(&self.incoming);
        self.top = None;
        watch.add(&self.incoming)?;
        self.top = Some(identity);
        Ok(())
    }

    /// Watches a folder. The newest of a user take the place of older ones.
    pub(super) fn add(&mut self, name: &OsStr, folder: &Folder) -> notify::Result<()> {
        let known = self.folders.iter().find(|(of, ..)| of == name);
        if self.watch.is_none() || known.is_some_and(|(_, _, identity)| *identity == folder.identity) {
            return Ok(());
        }
        self.forget(name);
        let of_user = |(_, uid, _): &&(OsString, Uid, Identity)| *uid == folder.owner;
        if self.folders.iter().filter(of_user).count() >= MOST_OF_USER {
            let oldest = self.folders.iter().find(of_user).map(|(name, ..)| name.clone());
            oldest.into_iter().for_each(|name| self.forget(&name));
        }
        if self.folders.len() >= MOST {
            self.refused = true;
            return Ok(());
        }
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let added = watch.add(&self.incoming.join(name));
        self.refused |= added.is_err();
        added?;
        self.folders.push_back((name.to_owned(), folder.owner, folder.identity));
        Ok(())
    }

    /// A folder is gone, or another one has its name.
    pub(super) fn forget(&mut self, name: &OsStr) {
        let Some(at) = self.folders.iter().position(|(of, ..)| of == name) else { return };
        self.folders.remove(at);
        if let Some(watch) = &mut self.watch {
            watch.remove(&self.incoming.join(name));
        }
    }

    /// The folders that are watched.
    pub(super) fn names(&self) -> Vec<OsString> {
        self.folders.iter().map(|(name, ..)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use ax_core::paths::Paths;
    use test_kit::TempDir;

    use super::*;
    use crate::spool::places::Places;

    /// A watch that only keeps books.
    #[derive(Clone, Default)]
    struct Book(Arc<Mutex<Vec<PathBuf>>>);

    impl Watch for Book {
        fn add(&mut self, folder: &Path) -> notify::Result<()> {
            self.0.lock().unwrap().push(folder.to_owned());
            Ok(())
        }

        fn remove(&mut self, folder: &Path) {
            self.0.lock().unwrap().retain(|each| each != folder);
        }
    }

    #[test]
    fn a_user_with_many_folders_has_the_newest_watched() {
        let root = TempDir::new();
        let paths = Paths::under(&root);
        for folder in [paths.incoming(), paths.taken(), paths.refused()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let places = Places::open(&paths).unwrap();
        let book = Book::default();
        let mut watched = Watched::with(Box::new(book.clone()), paths.incoming());
        watched.add_top((1, 1)).unwrap();
        for number in 0..20 {
            let name = OsString::from(number.to_string());
            places.incoming.create_dir(&name, 0o700).unwrap();
            let folder = Folder::open(&places, &name).unwrap();
            watched.add(&name, &folder).unwrap();
            watched.add(&name, &folder).unwrap();
        }
        assert_eq!(watched.names(), (4..20).map(|n: i32| OsString::from(n.to_string())).collect::<Vec<_>>());
        assert_eq!(book.0.lock().unwrap().len(), 17, "they and incoming itself");
        assert!(watched.sees_all());
        watched.forget(OsStr::new("7"));
        assert_eq!(book.0.lock().unwrap().len(), 16);
    }
}

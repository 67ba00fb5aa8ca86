//! What is kept of a card's MPS daemon: its users, its owner, its pipes and its group, under a lock, so that one
//! process at a time handles it. Folder and records belong to root. The user's two folders are never looked into.

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ax_core::gpu::fence::DeviceRule;
use ax_core::id::{AttemptName, Uid};
use ax_core::record::UserRecord;
use ax_sys::cgroup::device_filter::{self, DeviceFilter, DeviceKind};
use ax_sys::cgroup::{JobGroup, Limits, Place, Removal};
use ax_sys::lease;
use ax_sys::mount::{self, Bound};
use ax_sys::path::Dir;
use ax_sys::process::{ErrandError, errand};

use super::error::{MpsError, Result};
use super::{Order, group_of};

/// How long the daemon has to exit by itself, and then to be dead after a kill.
const PATIENCE: Duration = Duration::from_secs(3);

/// RAM that a daemon and its server may use: several times what they need. No job is charged for it.
const MEMORY: u64 = 4 << 30;

/// How much the user may put into its folders: hundreds of times what daemons need. They lie below `/run`, which
/// others need.
const ROOM: Bound = Bound { bytes: 32 << 20, entries: 4096 };

/// Permissions of the folders above: the user may pass through them, not list them.
const PASS: u32 = 0o711;

/// Its folders for pipes and logs, and the pipe that exists as soon as it answers.
const PIPE: &str = "pipe";
const LOG: &str = "log";
const DOOR: &str = "control";

/// The longest name of a pipe that it makes there, and how long the whole name of a socket may be.
const LONGEST: &str = "control_privileged";
const MOST_BYTES: usize = 107;

/// The program of this process, also when another has taken its name.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What daemons that have ended left behind.
const REMAINS: &str = "remains";

/// So much is removed at once, since others wait meanwhile; the rest is removed another time.
const MOST: u64 = 100_000;

/// The place of a card's daemon, locked for this process.
pub(super) struct Seat {
    folder: PathBuf,
    parents: Vec<String>,
    lock: Cell<Option<File>>,
}

/// The lock lies beside the folder, which comes and goes.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.with_added_extension("lock");
    let file = open_lock(&path).map_err(MpsError::file("opening", &path))?;
    lease::wait_lock(&file, &path.to_string_lossy())?;
    Ok(file)
}

/// Opens a file to be locked.
pub(super) fn open_lock(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn make_folder(path: &Path, mode: u32) -> Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(MpsError::file("making", path)(error)),
        _ => Ok(()),
    }
}

impl Seat {
    /// Locks it, waiting for its turn; makes it if there is none.
    pub(super) fn take(folder: &Path, parents: &[String]) -> Result<Seat> {
        make_folder(folder.parent().unwrap_or(folder), PASS)?;
        let lock = lock(folder)?;
        make_folder(folder, PASS)?;
        make_folder(&folder.join("users"), 0o700)?;
        Ok(Seat { folder: folder.to_owned(), parents: parents.to_vec(), lock: Cell::new(Some(lock)) })
    }

    /// Locks it, if there is one.
    pub(super) fn find(folder: &Path, parents: &[String]) -> Result<Option<Seat>> {
        if !folder.is_dir() {
            return Ok(None);
        }
        let lock = lock(folder)?;
        let seat = Seat { folder: folder.to_owned(), parents: parents.to_vec(), lock: Cell::new(Some(lock)) };
        Ok(folder.is_dir().then_some(seat))
    }

    /// For a child that does not look at the seat: closes its copy of the lock; the parent keeps the lock.
    pub(super) fn let_go(&self) {
        drop(self.lock.take());
    }

    pub(super) fn enter(&self, attempt: AttemptName) -> Result<()> {
        let path = self.folder.join("users").join(attempt.to_string());
        fs::write(&path, "").map_err(MpsError::file("writing", &path))
    }

    pub(super) fn leave(&self, attempt: AttemptName) -> Result<()> {
        let path = self.folder.join("users").join(attempt.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(MpsError::file("removing", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// The attempts that use it.
    pub(super) fn users(&self) -> Result<Vec<AttemptName>> {
        let path = self.folder.join("users");
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(MpsError::file("listing", &path))?,
        };
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    /// The user it belongs to.
    pub(super) fn owner(&self) -> Option<Uid> {
        fs::read_to_string(self.folder.join("owner")).ok()?.trim().parse().ok().map(Uid)
    }

    fn disown(&self) -> Result<()> {
        let owner = self.folder.join("owner");
        match fs::remove_file(&owner) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(MpsError::file("removing", &owner)(error))
            }
            _ => Ok(()),
        }
    }

    /// Parent of the user's folders. Each daemon gets it new, so that nothing left in it can be in the next one's
    /// way.
    fn home(&self) -> PathBuf {
        self.folder.join("daemon")
    }

    /// The pipe by which clients find it.
    pub(super) fn door(&self) -> PathBuf {
        self.home().join(PIPE).join(DOOR)
    }

    /// True if clients can find it. The folder is the user's, who may have mounted something there that never
    /// answers: that is not asked, and no link is followed.
    pub(super) fn is_open(&self) -> Result<bool> {
        let pipe = Dir::open(self.home())?.open_dir_unmounted(PIPE)?;
        Ok(pipe.has_unmounted(DOOR)?)
    }

    /// Makes new folders, which belong to the user, and its group, fenced off as the jobs are.
    pub(super) fn furnish(&self, order: &Order) -> Result<JobGroup> {
        self.names_are_short_enough()?;
        let busy = self.busy(order.user.uid);
        let lock = open_lock(&busy).map_err(MpsError::file("opening", &busy))?;
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(MpsError::Unmounting);
        }
        let home = self.home();
        DirBuilder::new().mode(PASS).create(&home).map_err(MpsError::file("making", &home))?;
        self.bound(&home)?;
        for folder in [home.join(PIPE), home.join(LOG)] {
            DirBuilder::new().mode(0o700).create(&folder).map_err(MpsError::file("making", &folder))?;
            give(&folder, &order.user)?;
        }
        let (hierarchy, place) = Place::from_record(&self.parents)?;
        let limits = Limits {
            memory_max: Some(MEMORY),
            swap_max: Some(0),
            pids_max: Some(order.processes),
            devices: true,
            ..Limits::default()
        };
        let group = JobGroup::create(&hierarchy, &place, &group_of(&self.folder), &limits)?;
        if !order.devices.is_empty() {
            let rules: Vec<device_filter::DeviceRule> = order.devices.iter().map(rule).collect();
            DeviceFilter::load(&hierarchy, &rules)?.attach(&group)?;
        }
        let owner = self.folder.join("owner");
        fs::write(&owner, order.user.uid.0.to_string()).map_err(MpsError::file("writing", &owner))?;
        Ok(group)
    }

    /// Whether the names of its sockets are.
    fn names_are_short_enough(&self) -> Result<()> {
        let longest = self.home().join(PIPE).join(LONGEST);
        let bytes = longest.as_os_str().len();
        if bytes <= MOST_BYTES {
            return Ok(());
        }
        Err(MpsError::LongName { name: longest, bytes, most: MOST_BYTES })
    }

    /// What the user writes there is bounded, if this daemon may mount; it has said so when it may not.
    fn bound(&self, home: &Path) -> Result<()> {
        match mount::of_memory(home, ROOM, PASS) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !mount::is_allowed() => Ok(()),
            other => Ok(other?),
        }
    }

    /// A file that is locked while what this user has mounted is unmounted. Whoever lets that hang has no new folders
    /// until it is over: so there is at most one such process for each card.
    fn busy(&self, uid: Uid) -> PathBuf {
        self.folder.with_file_name(format!("unmounting-{uid}.lock"))
    }

    /// Its group, if there is one.
    pub(super) fn group(&self) -> Result<Option<JobGroup>> {
        if self.parents.is_empty() {
            return Ok(None);
        }
        let (hierarchy, place) = Place::from_record(&self.parents)?;
        Ok(JobGroup::find(&hierarchy, &place, &group_of(&self.folder)))
    }

    /// True if any process of it runs.
    pub(super) fn lives(&self) -> Result<bool> {
        let Some(group) = self.group()? else { return Ok(false) };
        Ok(group.populated()?)
    }

    /// Gives it time to exit.
    pub(super) fn wait_empty(&self) {
        let end = Instant::now() + PATIENCE;
        while matches!(self.lives(), Ok(true)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends its processes, and removes its group and folders.
    pub(super) fn end(&self) -> Result<()> {
        if let Some(group) = self.group()? {
            let gone = group.kill_until_empty(PATIENCE)?;
            let removed = gone && group.remove()? == Removal::Done;
            if !removed {
                let pids = group.pids().unwrap_or_default();
                return Err(MpsError::GoesOn { group: group_of(&self.folder), pids });
            }
        }
        self.set_aside()
    }

    /// Unmounts the user's folders, with whatever is mounted there. If there was no file system of their own, they
    /// are given to root and moved aside. Renaming always works; removal may fail because of what the user left
    /// inside, so rename first and remove later.
    fn set_aside(&self) -> Result<()> {
        let home = self.home();
        uncover(&home, &self.busy(self.owner().unwrap_or(Uid(0))))?;
        // Not before: whoever goes on after this process has died must know whose mounts may hang.
        self.disown()?;
        let Ok(dir) = Dir::open(&home) else { return Ok(()) };
        if fs::remove_dir(&home).is_ok() {
            return Ok(());
        }
        for name in [PIPE, LOG] {
            // Not by name: what is mounted there may never answer.
            if let Ok(folder) = dir.open_dir_unmounted(name) {
                let _ = own(&folder);
            }
        }
        let remains = self.folder.join(REMAINS);
        make_folder(&remains, 0o700)?;
        let name = ax_sys::random::name()?;
        fs::rename(&home, remains.join(name)).map_err(MpsError::file("setting aside", &home))
    }

    /// Removes it; no attempt uses it and it has ended. What can't be removed now delays nothing.
    pub(super) fn remove(&self) -> Result<()> {
        let (Some(parent), Some(name)) = (self.folder.parent(), self.folder.file_name()) else {
            return Ok(());
        };
        Dir::open(parent)?.remove_tree(name, MOST)?;
        Ok(())
    }
}

/// Unmounts what was mounted for the user, who may have something open or mounted there.
fn uncover(home: &Path, busy: &Path) -> Result<()> {
    if mount::take_away(home)? {
        return Ok(());
    }
    let (home, busy) = (home.to_string_lossy(), busy.to_string_lossy());
    let words = [OWN_PROGRAM, "--unmount", &home, "--busy", &busy].map(str::to_owned);
    match errand(&words, PATIENCE) {
        // It is unmounted then; what has not finished depends on the user's own file system.
        Ok(_) | Err(ErrandError::Late { .. }) => Ok(()),
        Err(error) => Err(MpsError::Unmount(error)),
    }
}

fn own(folder: &Dir) -> std::io::Result<()> {
    match ax_sys::credentials::own() {
        (0, _) => fchown(folder, Some(0), Some(0)),
        _ => Ok(()),
    }
}

fn give(folder: &Path, user: &UserRecord) -> Result<()> {
    if ax_sys::credentials::own().0 != 0 {
        return Ok(());
    }
    lchown(folder, Some(user.uid.0), Some(user.gid.0)).map_err(MpsError::file("giving away", folder))
}

fn rule(rule: &DeviceRule) -> device_filter::DeviceRule {
    let kind = DeviceKind::Character;
    device_filter::DeviceRule { allow: rule.allow, kind, major: rule.major, minor: rule.minor }
}

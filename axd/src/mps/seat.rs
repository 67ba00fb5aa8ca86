//! What is kept of a card's MPS daemon: who uses it, whose it is, where it has its pipes, and its group. One process at a
//! time looks at that. Folder and records are root's; the two folders that are the user's are never looked into.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ax_core::gpu::fence::DeviceRule;
use ax_core::id::{AttemptName, Uid};
use ax_core::record::UserRecord;
use ax_sys::cgroup::device_filter::{self, DeviceFilter, DeviceKind};
use ax_sys::cgroup::{JobGroup, Limits, Place, Removal};
use ax_sys::lease;

use super::{Order, group_of};
use crate::settle::remove_folder;

/// How long the daemon has to go by itself, and then to be dead.
const PATIENCE: Duration = Duration::from_secs(3);

/// The place of a card's daemon, as long as nobody else may look at it.
pub(super) struct Seat {
    folder: PathBuf,
    parents: Vec<String>,
    _lock: File,
}

fn failed<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> String + 'a {
    move |error| format!("{doing} {}: {error}", path.display())
}

/// The lock is beside the folder, which comes and goes.
fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.with_added_extension("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(failed("opening", &path))?;
    lease::wait_lock(&file, &path.to_string_lossy()).map_err(|error| error.to_string())?;
    Ok(file)
}

fn make_folder(path: &Path, mode: u32) -> Result<(), String> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed("making", path)(error)),
        _ => Ok(()),
    }
}

impl Seat {
    /// Takes it, as soon as nobody else looks; makes it if there is none.
    pub(super) fn take(folder: &Path, parents: &[String]) -> Result<Seat, String> {
        // To be passed through by the user, not listed.
        make_folder(folder.parent().unwrap_or(folder), 0o711)?;
        let lock = lock(folder)?;
        make_folder(folder, 0o711)?;
        make_folder(&folder.join("users"), 0o700)?;
        Ok(Seat { folder: folder.to_owned(), parents: parents.to_vec(), _lock: lock })
    }

    /// Takes it, if there is one.
    pub(super) fn find(folder: &Path, parents: &[String]) -> Result<Option<Seat>, String> {
        if !folder.is_dir() {
            return Ok(None);
        }
        let lock = lock(folder)?;
        let seat = Seat { folder: folder.to_owned(), parents: parents.to_vec(), _lock: lock };
        Ok(folder.is_dir().then_some(seat))
    }

    pub(super) fn enter(&self, attempt: AttemptName) -> Result<(), String> {
        let path = self.folder.join("users").join(attempt.to_string());
        fs::write(&path, "").map_err(failed("writing", &path))
    }

    pub(super) fn leave(&self, attempt: AttemptName) -> Result<(), String> {
        let path = self.folder.join("users").join(attempt.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("removing", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Who uses it.
    pub(super) fn users(&self) -> Result<Vec<AttemptName>, String> {
        let path = self.folder.join("users");
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed("listing", &path))?,
        };
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    /// Whose it is.
    pub(super) fn owner(&self) -> Option<Uid> {
        fs::read_to_string(self.folder.join("owner")).ok()?.trim().parse().ok().map(Uid)
    }

    /// Where clients find it.
    pub(super) fn pipe(&self) -> PathBuf {
        self.folder.join("pipe")
    }

    /// Where it writes its logs.
    pub(super) fn logs(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// New folders for it, which are the user's, and its group, fenced off as the jobs are.
    pub(super) fn furnish(&self, order: &Order) -> Result<JobGroup, String> {
        for folder in [self.pipe(), self.logs()] {
            DirBuilder::new().mode(0o700).create(&folder).map_err(failed("making", &folder))?;
            give(&folder, &order.user)?;
        }
        let (hierarchy, place) = Place::from_record(&self.parents).map_err(|error| error.to_string())?;
        let limits = Limits { pids_max: Some(order.processes), devices: true, ..Limits::default() };
        let group = JobGroup::create(&hierarchy, &place, &group_of(&self.folder), &limits);
        let group = group.map_err(|error| error.to_string())?;
        if !order.devices.is_empty() {
            let rules: Vec<device_filter::DeviceRule> = order.devices.iter().map(rule).collect();
            let fenced = DeviceFilter::load(&hierarchy, &rules).and_then(|filter| filter.attach(&group));
            fenced.map_err(|error| error.to_string())?;
        }
        let owner = self.folder.join("owner");
        fs::write(&owner, order.user.uid.0.to_string()).map_err(failed("writing", &owner))?;
        Ok(group)
    }

    /// Its group, if there is one.
    pub(super) fn group(&self) -> Result<Option<JobGroup>, String> {
        if self.parents.is_empty() {
            return Ok(None);
        }
        let (hierarchy, place) = Place::from_record(&self.parents).map_err(|error| error.to_string())?;
        Ok(JobGroup::find(&hierarchy, &place, &group_of(&self.folder)))
    }

    /// Whether anything of it runs.
    pub(super) fn lives(&self) -> Result<bool, String> {
        let Some(group) = self.group()? else { return Ok(false) };
        group.populated().map_err(|error| error.to_string())
    }

    /// Gives it time to go.
    pub(super) fn wait_empty(&self) {
        let end = Instant::now() + PATIENCE;
        while self.lives() == Ok(true) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends what there is of it, and takes its group and folders away.
    pub(super) fn end(&self) -> Result<(), String> {
        if let Some(group) = self.group()? {
            let gone = group.kill_until_empty(PATIENCE).map_err(|error| error.to_string())?;
            let removed = gone && group.remove().map_err(|error| error.to_string())? == Removal::Done;
            if !removed {
                let pids = group.pids().unwrap_or_default();
                return Err(format!("{} can't be ended: {pids:?}", group_of(&self.folder)));
            }
        }
        let owner = self.folder.join("owner");
        match fs::remove_file(&owner) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed("removing", &owner)(error));
            }
            _ => {}
        }
        [self.pipe(), self.logs()].iter().try_for_each(|folder| remove_folder(folder).map(drop))
    }

    /// Nobody uses it, and it has ended.
    pub(super) fn remove(&self) -> Result<(), String> {
        remove_folder(&self.folder).map(drop)
    }
}

fn give(folder: &Path, user: &UserRecord) -> Result<(), String> {
    if ax_sys::credentials::own().0 != 0 {
        return Ok(());
    }
    lchown(folder, Some(user.uid.0), Some(user.gid.0)).map_err(failed("giving away", folder))
}

fn rule(rule: &DeviceRule) -> device_filter::DeviceRule {
    let kind = DeviceKind::Character;
    device_filter::DeviceRule { allow: rule.allow, kind, major: rule.major, minor: rule.minor }
}

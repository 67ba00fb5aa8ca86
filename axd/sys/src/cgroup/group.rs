//! The groups of one job: made, found again, removed.

use super::files;
use super::hierarchy::{Controller, Hierarchy, Layout};
use super::join::JoinHandle;
use super::limits::Limits;
use super::place::Place;
use crate::error::{Doing, Result, SysError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What became of groups that were to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// They are gone.
    Done,
    /// A process is still in one, perhaps dying: try again at the next event.
    NotYet,
}

/// A group in one v1 hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct V1Group {
    pub(super) controllers: Vec<Controller>,
    pub(super) dir: PathBuf,
}

/// One job's groups. Dropping the value removes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobGroup {
    pub(super) unified: Option<PathBuf>,
    pub(super) v1: Vec<V1Group>,
    pub(super) missing: Vec<Controller>,
    pub(super) kill_file: bool,
}

impl JobGroup {
    /// Makes the groups `name` below a place that was prepared, and writes the limits.
    ///
    /// # Errors
    /// EEXIST if there is one of that name; what the kernel says to a limit. Nothing is left behind.
    pub fn create(hierarchy: &Hierarchy, place: &Place, name: &str, limits: &Limits) -> Result<JobGroup> {
        check_name(name)?;
        let mut group = JobGroup::planned(hierarchy, place, name, limits)?;
        let mut made = Vec::new();
        let done = group.make(&mut made).and_then(|()| group.set_limits(limits));
        if let Err(error) = done {
            for dir in made.iter().rev() {
                let _ = std::fs::remove_dir(dir);
            }
            return Err(error);
        }
        group.missing.sort_unstable();
        Ok(group)
    }

    /// Finds the groups `name` below a place, as far as they exist; `None` if none does.
    pub fn find(hierarchy: &Hierarchy, place: &Place, name: &str) -> Option<JobGroup> {
        let there = |dir: PathBuf| dir.is_dir().then_some(dir);
        let unified = hierarchy.unified.as_ref().and_then(|mount| there(place.dir(mount).join(name)));
        let v1 = hierarchy.v1.iter().filter_map(|mount| {
            let dir = there(place.dir(mount).join(name))?;
            Some(V1Group { controllers: mount.controllers.clone(), dir })
        });
        let group = JobGroup { unified, v1: v1.collect(), missing: Vec::new(), kill_file: true };
        (group.unified.is_some() || !group.v1.is_empty()).then_some(group)
    }

    /// All groups directly below a place, with their names, in any hierarchy.
    ///
    /// # Errors
    /// When a hierarchy can't be listed.
    pub fn list(hierarchy: &Hierarchy, place: &Place) -> Result<Vec<(String, JobGroup)>> {
        let mut names = BTreeSet::new();
        for mount in hierarchy.v1.iter().chain(&hierarchy.unified) {
            let dir = place.dir(mount);
            let entries = match std::fs::read_dir(&dir) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.doing("list", dir.display())?,
            };
            let groups = entries.filter_map(|entry| entry.ok().filter(|entry| entry.path().is_dir()));
            names.extend(groups.filter_map(|entry| entry.file_name().into_string().ok()));
        }
        let found = |name: String| JobGroup::find(hierarchy, place, &name).map(|group| (name, group));
        Ok(names.into_iter().filter_map(found).collect())
    }

    /// Controllers that the limits ask for and this machine does not offer here.
    pub fn missing(&self) -> &[Controller] {
        &self.missing
    }

    /// Writes limits anew. Only controllers that the job has had since it was made are affected.
    ///
    /// # Errors
    /// What the kernel says: EBUSY for memory below what is in use (v1), EINVAL for CPUs that are not there.
    pub fn set_limits(&self, limits: &Limits) -> Result<()> {
        // If everything that is wanted is in version 1, there is nothing to write here.
        let unified = self.unified.as_ref().filter(|_| self.wants_unified(limits));
        if let Some(dir) = unified {
            let has = files::read(&dir.join("cgroup.controllers"))?.unwrap_or_default();
            for controller in has.split_ascii_whitespace().filter_map(Controller::from_name) {
                limits.write_unified(controller, dir)?;
            }
        }
        for group in &self.v1 {
            for controller in &group.controllers {
                limits.write_v1(*controller, &group.dir)?;
            }
        }
        Ok(())
    }

    fn wants_unified(&self, limits: &Limits) -> bool {
        Controller::ALL.into_iter().any(|one| limits.want(one, false) && self.v1_dir(one).is_none())
    }

    /// Opens what a child needs to join. The parent calls it before the fork.
    ///
    /// # Errors
    /// When a group is gone.
    pub fn join_handle(&self) -> Result<JoinHandle> {
        JoinHandle::open(self.unified.as_deref(), self.v1.iter().map(|group| group.dir.as_path()))
    }

    /// For tests: behaves as on a kernel before 5.14, without `cgroup.kill`.
    pub fn without_kill_file(mut self) -> JobGroup {
        self.kill_file = false;
        self
    }

    /// The directory in the unified tree, if there is one.
    pub fn unified_path(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// Removes the groups and those below them, deepest first. What is gone already is fine.
    ///
    /// # Errors
    /// What rmdir(2) says other than "busy".
    pub fn remove(&self) -> Result<Removal> {
        let mut removal = Removal::Done;
        for dir in self.dirs() {
            // Most have no groups below them, and listing a group costs as much as removing it.
            if remove_one(dir)? == Removal::Done {
                continue;
            }
            for group in files::descend(dir)?.iter().rev() {
                if remove_one(group)? == Removal::NotYet {
                    removal = Removal::NotYet;
                }
            }
        }
        Ok(removal)
    }

    pub(super) fn dirs(&self) -> impl Iterator<Item = &Path> {
        let v1 = self.v1.iter().map(|group| group.dir.as_path());
        v1.chain(self.unified.as_deref())
    }

    pub(super) fn v1_dir(&self, controller: Controller) -> Option<&Path> {
        let group = self.v1.iter().find(|group| group.controllers.contains(&controller));
        group.map(|group| group.dir.as_path())
    }

    /// Which directories the limits need, and which controllers are missing.
    fn planned(hierarchy: &Hierarchy, place: &Place, name: &str, limits: &Limits) -> Result<JobGroup> {
        let legacy = hierarchy.layout == Layout::Legacy;
        let unified = hierarchy.unified.as_ref().map(|mount| place.dir(mount));
        let mut group = JobGroup {
            unified: unified.as_ref().map(|parent| parent.join(name)),
            v1: Vec::new(),
            missing: Vec::new(),
            kill_file: true,
        };
        for controller in Controller::ALL.into_iter().filter(|one| limits.want(*one, legacy)) {
            let mount = hierarchy.v1_of(controller).filter(|mount| place.dir(mount).is_dir());
            let Some(mount) = mount else {
                group.missing.push(controller);
                continue;
            };
            let dir = place.dir(mount).join(name);
            // Several controllers may share a hierarchy.
            if !group.v1.iter().any(|known| known.dir == dir) {
                group.v1.push(V1Group { controllers: mount.controllers.clone(), dir });
            }
        }
        // The unified tree may have the controllers that version 1 lacks.
        if let Some(parent) = unified.filter(|_| !group.missing.is_empty()) {
            let offered = files::read(&parent.join("cgroup.subtree_control"))?.unwrap_or_default();
            let offers = |one: &Controller| offered.split_ascii_whitespace().any(|name| name == one.name());
            group.missing.retain(|one| !offers(one));
        }
        Ok(group)
    }

    /// Makes the holding group first: if a later step fails, the processes can be found and ended through it.
    fn make(&self, made: &mut Vec<PathBuf>) -> Result<()> {
        for dir in self.unified.as_deref().into_iter().chain(self.v1.iter().map(|group| group.dir.as_path()))
        {
            std::fs::create_dir(dir).doing("make group", dir.display())?;
            made.push(dir.to_owned());
        }
        Ok(())
    }
}

fn remove_one(group: &Path) -> Result<Removal> {
    match std::fs::remove_dir(group) {
        Ok(()) => Ok(Removal::Done),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Removal::Done),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(Removal::NotYet),
        Err(error) => Err(error).doing("remove group", group.display()),
    }
}

/// A plain name that can't be taken for a control file.
fn check_name(name: &str) -> Result<()> {
    let prefixes: Vec<&str> = Controller::ALL.iter().map(|one| one.name()).chain(["cgroup"]).collect();
    let control = name.split_once('.').is_some_and(|(first, _)| prefixes.contains(&first));
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\n', '\0']) || control {
        return Err(SysError::found("use group", name, "it is no plain name"));
    }
    Ok(())
}

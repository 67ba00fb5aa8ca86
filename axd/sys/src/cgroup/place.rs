//! Where our groups go: one parent group in every hierarchy, below a base that belongs to us.

use super::files;
use super::hierarchy::{Controller, Hierarchy, Mount};
use crate::error::{Doing, Result, SysError};
use std::path::{Path, PathBuf};

/// The group below which ours are made. Controllers are switched on in it and below, never above: what lies above
/// belongs to somebody else, on most machines to systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The top of each hierarchy. Ours only on a machine without systemd.
    Root,
    /// The group of this process in each hierarchy. In the unified tree it can't both hold processes and hand
    /// on controllers, so they will be missing there.
    Own,
    /// This group, relative to the top of each hierarchy: a delegated one.
    At(PathBuf),
}

/// A parent group for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    base: Base,
    name: PathBuf,
}

impl Place {
    /// The group `name` (may have several components) below `base`.
    ///
    /// # Errors
    /// When a component is empty, `..` or absolute.
    pub fn new(base: Base, name: impl Into<PathBuf>) -> Result<Place> {
        let name = name.into();
        let plain =
            |path: &Path| path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let base_plain = if let Base::At(path) = &base { plain(path) } else { true };
        if name.as_os_str().is_empty() || !plain(&name) || !base_plain {
            return Err(SysError::found("use group", name.display(), "it is no plain relative path"));
        }
        Ok(Place { base, name })
    }

    /// Whether it is below a group that was delegated to us by name, a unit of systemd's.
    pub(super) fn is_delegated(&self) -> bool {
        matches!(self.base, Base::At(_))
    }

    /// Its directory in a hierarchy.
    pub(super) fn dir(&self, mount: &Mount) -> PathBuf {
        self.base_dir(mount).join(&self.name)
    }

    fn base_dir(&self, mount: &Mount) -> PathBuf {
        match &self.base {
            Base::Root => mount.point.clone(),
            Base::Own => mount.point.join(&mount.own),
            Base::At(path) => mount.point.join(path),
        }
    }

    /// The base and each group on the way to the place, the place included.
    fn way(&self, mount: &Mount) -> Vec<PathBuf> {
        let mut here = self.base_dir(mount);
        let mut way = vec![here.clone()];
        for part in self.name.components() {
            here.push(part);
            way.push(here.clone());
        }
        way
    }

    /// Whether groups can be made here that hold, freeze and kill a job: the base is there in the unified
    /// tree (without it: in the v1 freezer) and we may write to it. Where not, use a
    /// [`super::ProcessTree`].
    pub fn is_usable(&self, hierarchy: &Hierarchy) -> bool {
        hierarchy.holding().is_some_and(|mount| self.is_writable(mount))
    }

    /// Whether this process may make groups here in one hierarchy.
    pub(super) fn is_writable(&self, mount: &Mount) -> bool {
        let here = self.dir(mount);
        let target = if here.exists() { here } else { self.base_dir(mount) };
        // The effective user decides, not the real one; root still fails on a read-only mount.
        let flags = nix::fcntl::AtFlags::AT_EACCESS;
        let access = nix::unistd::AccessFlags::W_OK;
        nix::unistd::faccessat(nix::fcntl::AT_FDCWD, &target, access, flags).is_ok()
    }

    /// Makes the parent groups and switches controllers on for what is below. May be repeated.
    /// Hierarchies that we may not write to are left out; so are controllers that can't be switched on: each job's
    /// group then reports them as missing.
    ///
    /// # Errors
    /// When a group can't be made where it should be possible.
    pub fn prepare(&self, hierarchy: &Hierarchy) -> Result<()> {
        for mount in hierarchy.v1.iter().filter(|mount| self.is_writable(mount)) {
            self.make(mount)?;
            if mount.controllers.contains(&Controller::Cpuset) {
                for group in self.way(mount).iter().filter(|group| **group != mount.point) {
                    fill_cpuset(group)?;
                }
            }
        }
        if let Some(mount) = hierarchy.unified.as_ref().filter(|mount| self.is_writable(mount)) {
            self.make(mount)?;
            for group in self.way(mount) {
                switch_on(hierarchy, &group)?;
            }
        }
        Ok(())
    }

    /// Removes the parent groups if they are empty. Says nothing if they are not.
    pub fn clear(&self, hierarchy: &Hierarchy) {
        for mount in hierarchy.v1.iter().chain(&hierarchy.unified) {
            for group in self.way(mount).iter().skip(1).rev() {
                let _ = std::fs::remove_dir(group);
            }
        }
    }

    pub(super) fn make(&self, mount: &Mount) -> Result<()> {
        for group in self.way(mount).iter().skip(1) {
            match std::fs::create_dir(group) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.doing("make group", group.display())?,
            }
        }
        Ok(())
    }
}

/// A new v1 cpuset is empty and takes no task: copy from its parent what is not set.
pub(super) fn fill_cpuset(group: &Path) -> Result<()> {
    let Some(parent) = group.parent() else { return Ok(()) };
    for file in ["cpuset.mems", "cpuset.cpus"] {
        let own = files::read(&group.join(file))?.unwrap_or_default();
        let above = files::read(&parent.join(file))?.unwrap_or_default();
        if own.trim().is_empty() && !above.trim().is_empty() {
            files::write(&group.join(file), above.trim())?;
        }
    }
    Ok(())
}

/// Hands on what the group itself has. One at a time, as one refusal would refuse all.
fn switch_on(hierarchy: &Hierarchy, group: &Path) -> Result<()> {
    let has = files::read(&group.join("cgroup.controllers"))?.unwrap_or_default();
    for name in has.split_ascii_whitespace() {
        let wanted = matches!(name, "memory" | "cpuset" | "pids" | "cpu" | "dmem");
        let in_v1 = Controller::from_name(name).is_some_and(|known| hierarchy.v1_of(known).is_some());
        if wanted && !in_v1 {
            // EBUSY: the group holds processes. The job's group will say what is missing.
            let _ = files::write(&group.join("cgroup.subtree_control"), &format!("+{name}"));
        }
    }
    Ok(())
}

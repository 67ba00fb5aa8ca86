//! Where our groups go: one parent group in every hierarchy, below a base that belongs to us. Changes nothing above
//! it.

use super::files;
use super::hierarchy::{Controller, Hierarchy, Mount};
use crate::error::{Doing, Result, SysError};
use std::path::{Path, PathBuf};

/// The group below which ours are made. Controllers are switched on in it and below, never above: the groups above
/// belong to others, on most machines to systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The top of each hierarchy. It is ours only on a machine without systemd.
    Root,
    /// The group of this process in each hierarchy. In the unified tree it can't both hold processes and hand on
    /// controllers, so those will be missing.
    Own,
    /// This group, relative to the top of each hierarchy: one that was delegated to us.
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

    /// True if it is below a group that was delegated to us by name, a unit of systemd's.
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
            Base::At(_) if self.is_beside_units(mount) => mount.point.clone(),
            Base::At(path) => mount.point.join(path),
        }
    }

    /// True in the `devices` hierarchy of v1. There systemd removes empty groups below its units, and writes rules
    /// into the others; most units have none there. So our group is at the top, where it touches nothing that is not
    /// its own.
    fn is_beside_units(&self, mount: &Mount) -> bool {
        self.is_delegated() && mount.controllers == [Controller::Devices]
    }

    /// True for v1 hierarchies that systemd does not use: no unit has a group there, so ours is made with all its
    /// parents.
    fn is_left_to_us(&self, mount: &Mount) -> bool {
        let unmanaged = |controller| matches!(controller, &Controller::Freezer | &Controller::Cpuset);
        self.is_delegated() && !mount.controllers.is_empty() && mount.controllers.iter().all(unmanaged)
    }

    /// The base and each group on the way to the place, including the place.
    fn way(&self, mount: &Mount) -> Vec<PathBuf> {
        let mut here = self.base_dir(mount);
        let mut parts = self.name.clone();
        if let (Base::At(base), true) = (&self.base, self.is_left_to_us(mount)) {
            here.clone_from(&mount.point);
            parts = base.join(parts);
        }
        let mut way = vec![here.clone()];
        for part in parts.components() {
            here.push(part);
            way.push(here.clone());
        }
        way
    }

    /// True if groups can be made here that hold, freeze and kill a job: the base exists in the unified tree (without
    /// one: in the v1 freezer, and a delegated base in systemd's own hierarchy), and we may write to it. If not, use
    /// a [`super::ProcessTree`].
    pub fn is_usable(&self, hierarchy: &Hierarchy) -> bool {
        let Some(holding) = hierarchy.holding() else { return false };
        let is_unit = !self.is_left_to_us(holding)
            || hierarchy.manager.as_ref().is_some_and(|mount| self.base_dir(mount).is_dir());
        is_unit && self.is_writable(holding)
    }

    /// Whether this process may make groups here in one hierarchy.
    pub(super) fn is_writable(&self, mount: &Mount) -> bool {
        let here = self.dir(mount);
        let above = if self.is_left_to_us(mount) { mount.point.clone() } else { self.base_dir(mount) };
        let target = if here.exists() { here } else { above };
        // The effective user decides, not the real one; even root fails on a read-only mount.
        let flags = nix::fcntl::AtFlags::AT_EACCESS;
        let access = nix::unistd::AccessFlags::W_OK;
        nix::unistd::faccessat(nix::fcntl::AT_FDCWD, &target, access, flags).is_ok()
    }

    /// Makes the parent groups and switches controllers on for the groups below. May be repeated. Leaves out
    /// hierarchies that we may not write to, and controllers that can't be switched on: each job's group then reports
    /// them as missing.
    ///
    /// # Errors
    /// When a group can't be made where it should be possible.
    pub fn prepare(&self, hierarchy: &Hierarchy) -> Result<()> {
        for mount in hierarchy.v1.iter().filter(|mount| self.is_writable(mount)) {
            self.make(mount)?;
            if mount.controllers.contains(&Controller::Cpuset) {
                for group in self.way(mount).iter().filter(|group| **group != mount.point) {
                    fill_cpuset(group, &CPUSET)?;
                }
                // With this, groups below begin as copies of ours and need not be filled for each job. Where the
                // kernel does not do it, they are filled then.
                let _ = files::write(&self.dir(mount).join("cgroup.clone_children"), "1");
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

    /// Removes the parent groups if they are empty; otherwise does nothing.
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

/// What a v1 cpuset must have before it takes a task.
pub(super) const CPUSET: [&str; 2] = ["cpuset.mems", "cpuset.cpus"];

/// A new v1 cpuset is empty: copy from its parent those of these files that are not set.
pub(super) fn fill_cpuset(group: &Path, files: &[&str]) -> Result<()> {
    let Some(parent) = group.parent() else { return Ok(()) };
    for file in files {
        let own = files::read(&group.join(file))?.unwrap_or_default();
        if !own.trim().is_empty() {
            continue;
        }
        let above = files::read(&parent.join(file))?.unwrap_or_default();
        if !above.trim().is_empty() {
            files::write(&group.join(file), above.trim())?;
        }
    }
    Ok(())
}

/// Hands on the controllers that the group itself has. One at a time, since one refusal would refuse all.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(top: &Path, name: &str, controllers: &[Controller]) -> Mount {
        Mount { point: top.join(name), own: PathBuf::new(), controllers: controllers.to_vec() }
    }

    #[test]
    fn below_a_unit_it_is_made_where_systemd_makes_none_as_well() {
        let top = test_kit::TempDir::new();
        let unit = "ax.slice/ax-jobs.service";
        for dir in ["freezer", "devices", "systemd", &format!("memory/{unit}")] {
            std::fs::create_dir_all(top.join(dir)).unwrap();
        }
        let kinds = [
            ("memory", Controller::Memory),
            ("freezer", Controller::Freezer),
            ("devices", Controller::Devices),
        ];
        let v1 = kinds.map(|(name, controller)| mount(&top, name, &[controller])).to_vec();
        let manager = Some(mount(&top, "systemd", &[]));
        let hierarchy = Hierarchy { manager, ..Hierarchy::new(None, v1) };
        let place = Place::new(Base::At(unit.into()), "ax-1").unwrap();
        assert!(!place.is_usable(&hierarchy), "there is no such unit");
        std::fs::create_dir_all(top.join("systemd").join(unit)).unwrap();
        assert!(place.is_usable(&hierarchy));
        place.prepare(&hierarchy).unwrap();
        place.prepare(&hierarchy).unwrap();
        let made =
            ["memory", "freezer", "devices"].map(|name| top.join(name).join(unit).join("ax-1").is_dir());
        assert_eq!(made, [true, true, false], "systemd tidies up among the devices");
        assert!(top.join("devices/ax-1").is_dir(), "but not there");
        place.clear(&hierarchy);
        assert!(!top.join("devices/ax-1").exists() && top.join("devices").exists());
    }
}

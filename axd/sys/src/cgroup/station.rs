//! A leaf beside the jobs for processes of ours that must outlive the systemd unit that started them.
//!
//! To systemd a process belongs to the unit in whose group it is: in the unified tree, or, if systemd does not use
//! that, in a v1 hierarchy without controllers. Whatever is done to all of the unit (`systemctl kill`) is done to
//! that process, too.

use super::files;
use super::hierarchy::{Hierarchy, Mount};
use super::place::Place;
use crate::error::{Doing, Result, SysError};
use std::path::{Path, PathBuf};

/// The leaf's name, which no job's group can have.
const LEAF: &str = "supervisors";

/// The group for processes of ours, in the hierarchies that systemd looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Station {
    unified: Option<PathBuf>,
    manager: Option<PathBuf>,
}

impl Station {
    /// Makes the groups below a place that was prepared. `None` if the place is not below a unit: then nothing
    /// touches groups there.
    ///
    /// # Errors
    /// When a group can't be made where it should be possible.
    pub fn prepare(hierarchy: &Hierarchy, place: &Place) -> Result<Station> {
        let make = |mount: &Option<Mount>| -> Result<Option<PathBuf>> {
            let Some(mount) = mount.as_ref().filter(|mount| place.is_delegated() && place.is_writable(mount))
            else {
                return Ok(None);
            };
            place.make(mount)?;
            let leaf = place.dir(mount).join(LEAF);
            match std::fs::create_dir(&leaf) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.doing("make group", leaf.display())?,
            }
            Ok(Some(leaf))
        };
        Ok(Station { unified: make(&hierarchy.unified)?, manager: make(&hierarchy.manager)? })
    }

    /// Lines from which [`Station::from_record`] makes the same value.
    pub fn to_record(&self) -> Vec<String> {
        let line = |name: &str, dir: &Option<PathBuf>| Some(format!("{name}:{}", dir.as_ref()?.display()));
        line("unified", &self.unified).into_iter().chain(line("manager", &self.manager)).collect()
    }

    /// Reads such lines.
    ///
    /// # Errors
    /// When a line is malformed.
    pub fn from_record(lines: &[impl AsRef<str>]) -> Result<Station> {
        let mut station = Station::default();
        for line in lines.iter().map(AsRef::as_ref) {
            match line.split_once(':') {
                Some(("unified", dir)) => station.unified = Some(PathBuf::from(dir)),
                Some(("manager", dir)) => station.manager = Some(PathBuf::from(dir)),
                _ => return Err(SysError::found("use the station", line, "it is malformed")),
            }
        }
        Ok(station)
    }

    /// Moves this process, which must have one thread, in the v1 hierarchy. Processes that it starts from now on are
    /// born there. Takes no time.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn enter_v1(&self) -> Result<()> {
        enter(self.manager.as_deref(), "tasks")
    }

    /// Moves this process in the unified tree. May take the grace period of the kernel that joining describes, some
    /// 16 ms: do not call it while something waits for this process.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn enter_unified(&self) -> Result<()> {
        enter(self.unified.as_deref(), "cgroup.procs")
    }
}

fn enter(dir: Option<&Path>, file: &str) -> Result<()> {
    dir.map_or(Ok(()), |dir| files::write(&dir.join(file), "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_leads_to_the_same_groups() {
        let lines = ["unified:/cg/a/ax-1/supervisors", "manager:/cg/systemd/a/ax-1/supervisors"];
        assert_eq!(Station::from_record(&lines).unwrap().to_record(), lines);
        assert_eq!(Station::from_record(&lines[..0]).unwrap(), Station::default());
        assert!(Station::from_record(&["memory:/cg"]).is_err());
        Station::default().enter_v1().and_then(|()| Station::default().enter_unified()).unwrap();
    }
}

//! A job's groups as lines of text, for a file that outlives the process which made them.
//! One line a directory: `unified:/path`, or the controllers of a v1 group, `cpu,cpuacct:/path`.

use super::group::{JobGroup, V1Group};
use super::hierarchy::Controller;
use crate::error::{Result, SysError};
use crate::statfs::{self, Kind};
use std::path::{Component, Path, PathBuf};

impl JobGroup {
    /// The lines from which [`JobGroup::from_record`] makes the same value. Paths are text: the kernel's own and
    /// those of our groups are, and others are written as well as can be.
    pub fn to_record(&self) -> Vec<String> {
        let unified = self.unified.iter().map(|dir| format!("unified:{}", dir.display()));
        let v1 = self.v1.iter().map(|group| {
            let names: Vec<&str> = group.controllers.iter().map(|controller| controller.name()).collect();
            format!("{}:{}", names.join(","), group.dir.display())
        });
        unified.chain(v1).collect()
    }

    /// Reads such lines. The groups may be gone: then they are empty and removed.
    ///
    /// # Errors
    /// When a line is malformed, or names something that is there and is no group, or the top of a hierarchy
    /// (which would make the whole machine one job).
    pub fn from_record(lines: &[impl AsRef<str>]) -> Result<JobGroup> {
        let mut group = JobGroup { unified: None, v1: Vec::new(), missing: Vec::new(), kill_file: true };
        for line in lines.iter().map(AsRef::as_ref) {
            let bad = |text: &str| SysError::found("use the recorded group", line, text);
            let (kind, path) = line.split_once(':').ok_or_else(|| bad("it has no colon"))?;
            let dir = plain_path(path).ok_or_else(|| bad("its path is not plain and absolute"))?;
            if kind == "unified" {
                check_group(&dir, Kind::Cgroup2, |dir| !dir.join("cgroup.events").exists()).map_err(bad)?;
                group.unified = Some(dir);
            } else {
                check_group(&dir, Kind::Cgroup1, |dir| dir.join("release_agent").exists()).map_err(bad)?;
                let names: Option<Vec<Controller>> = kind.split(',').map(Controller::from_name).collect();
                let controllers = names.ok_or_else(|| bad("it names an unknown controller"))?;
                group.v1.push(V1Group { controllers, dir });
            }
        }
        if group.unified.is_none() && group.v1.is_empty() {
            return Err(SysError::found("use", "a recorded group", "it is empty"));
        }
        Ok(group)
    }
}

fn plain_path(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let mut parts = path.components();
    let rooted = parts.next() == Some(Component::RootDir);
    (rooted && parts.all(|part| matches!(part, Component::Normal(_)))).then(|| path.to_owned())
}

/// Checks a path of a record. The group need not exist: it may disappear while we look.
fn check_group(
    dir: &Path,
    wanted: Kind,
    is_top: impl Fn(&Path) -> bool,
) -> std::result::Result<(), &'static str> {
    let why = match statfs::of(dir) {
        Ok(found) if found.kind != wanted => "it is no control group",
        Ok(_) if is_top(dir) => "it is the top of a hierarchy",
        Ok(_) => return Ok(()),
        Err(_) => "its file system can't be asked",
    };
    if dir.exists() { Err(why) } else { Ok(()) }
}

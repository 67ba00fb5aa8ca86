//! A parent group for jobs as lines of text. The daemon looks at the machine once, and tells each supervisor by these
//! lines where to make its groups, so that no supervisor has to read what is mounted. One line for each hierarchy, in
//! the form of a job's record: `unified:/path` or `cpu,cpuacct:/path`.

use super::hierarchy::{Controller, Hierarchy, Mount};
use super::place::{Base, Place};
use crate::error::{Result, SysError};
use std::path::{Path, PathBuf};

impl Place {
    /// The lines from which [`Place::from_record`] makes the same place: one for each hierarchy in which it was
    /// prepared.
    pub fn to_record(&self, hierarchy: &Hierarchy) -> Vec<String> {
        let there = |mount: &Mount| Some(self.dir(mount)).filter(|dir| dir.is_dir());
        let unified = hierarchy.unified().and_then(there).map(|dir| format!("unified:{}", dir.display()));
        let v1 = hierarchy.v1().iter().filter_map(|mount| {
            let names: Vec<&str> = mount.controllers.iter().map(|controller| controller.name()).collect();
            there(mount).map(|dir| format!("{}:{}", names.join(","), dir.display()))
        });
        unified.into_iter().chain(v1).collect()
    }

    /// Reads such lines: returns the hierarchies as far as they matter here, and the place in them.
    ///
    /// # Errors
    /// When there is no line, one is malformed, or they do not all end in the same name.
    pub fn from_record(lines: &[impl AsRef<str>]) -> Result<(Hierarchy, Place)> {
        let (mut unified, mut v1, mut place) = (None, Vec::new(), None::<PathBuf>);
        for line in lines.iter().map(AsRef::as_ref) {
            let bad = |text: &str| SysError::found("use the parent group", line, text);
            let (kind, path) = line.split_once(':').ok_or_else(|| bad("it has no colon"))?;
            let path = Path::new(path);
            let (Some(point), Some(name), true) = (path.parent(), path.file_name(), path.is_absolute())
            else {
                return Err(bad("its path is not plain and absolute"));
            };
            if place.get_or_insert_with(|| name.into()).as_os_str() != name {
                return Err(bad("its name is not that of the others"));
            }
            let mut mount = Mount { point: point.to_owned(), own: PathBuf::new(), controllers: Vec::new() };
            if kind == "unified" {
                unified = Some(mount);
                continue;
            }
            let names: Option<Vec<Controller>> = kind.split(',').map(Controller::from_name).collect();
            mount.controllers = names.ok_or_else(|| bad("it names an unknown controller"))?;
            v1.push(mount);
        }
        let none = || SysError::found("use", "a parent group", "there is none");
        let place = Place::new(Base::Root, place.ok_or_else(none)?)?;
        Ok((Hierarchy::new(unified, v1), place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lead_to_the_same_directories() {
        let lines = ["unified:/cg/unified/a/ax-1", "memory:/cg/memory/ax-1", "cpu,cpuacct:/cg/cpu/b/ax-1"];
        let (hierarchy, place) = Place::from_record(&lines).unwrap();
        let dirs: Vec<PathBuf> =
            hierarchy.unified().into_iter().chain(hierarchy.v1()).map(|mount| place.dir(mount)).collect();
        let paths = ["/cg/unified/a/ax-1", "/cg/memory/ax-1", "/cg/cpu/b/ax-1"].map(PathBuf::from);
        assert_eq!(dirs, paths);
        assert_eq!(hierarchy.v1()[1].controllers, [Controller::Cpu, Controller::Cpuacct]);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let none: [&str; 0] = [];
        assert!(Place::from_record(&none).is_err());
        for lines in [
            &["memory"][..],
            &["memory:relative/ax"],
            &["memory:/"],
            &["memory:/a/.."],
            &["nonsense:/a/ax"],
            &["unified:/a/ax", "memory:/a/other"],
        ] {
            assert!(Place::from_record(lines).is_err(), "{lines:?}");
        }
    }
}

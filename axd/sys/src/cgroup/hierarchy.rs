//! What is mounted on this machine, by /proc/self/mountinfo and statfs; mount points are never assumed.

use crate::error::{Doing, Result};
use crate::statfs;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The ways in which control groups are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One tree with all controllers (v2).
    Unified,
    /// v1 hierarchies with the controllers, and the unified tree beside them.
    Hybrid,
    /// v1 hierarchies only.
    Legacy,
    /// None: processes are held together by other means.
    None,
}

/// The controllers that ax uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Limits and counts memory.
    Memory,
    /// Binds to CPUs.
    Cpuset,
    /// Limits the number of tasks.
    Pids,
    /// Shares CPU time.
    Cpu,
    /// Counts CPU time (v1).
    Cpuacct,
    /// Halts (v1).
    Freezer,
    /// Allows devices (v1).
    Devices,
}

impl Controller {
    /// All of them.
    pub const ALL: [Controller; 7] = [
        Controller::Memory,
        Controller::Cpuset,
        Controller::Pids,
        Controller::Cpu,
        Controller::Cpuacct,
        Controller::Freezer,
        Controller::Devices,
    ];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Cpuset => "cpuset",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
            Controller::Cpuacct => "cpuacct",
            Controller::Freezer => "freezer",
            Controller::Devices => "devices",
        }
    }

    /// The controller with this name; `None` for those that ax does not use.
    pub fn from_name(name: &str) -> Option<Controller> {
        Controller::ALL.into_iter().find(|controller| controller.name() == name)
    }
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// The group of this process in it, relative to `point`.
    pub own: PathBuf,
    /// Its controllers, of those that ax uses. Empty for the unified tree: there each group says itself.
    pub controllers: Vec<Controller>,
}

/// The hierarchies of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub(super) layout: Layout,
    pub(super) unified: Option<Mount>,
    pub(super) v1: Vec<Mount>,
    /// systemd's own v1 hierarchy, which has no controllers and says what belongs to which unit.
    pub(super) manager: Option<Mount>,
}

impl Hierarchy {
    /// Looks at what is mounted.
    ///
    /// # Errors
    /// When `/proc` can't be read.
    pub fn detect() -> Result<Hierarchy> {
        const MOUNTS: &str = "/proc/self/mountinfo";
        const GROUPS: &str = "/proc/self/cgroup";
        let mounts = std::fs::read(MOUNTS).doing("read", MOUNTS)?;
        // A kernel without control groups has no such file.
        let groups = super::files::read(Path::new(GROUPS))?.unwrap_or_default();
        Ok(Hierarchy::from_texts(&mounts, &groups, is_mounted))
    }

    /// A hierarchy put together by hand: for tests, and for machines that are set up in unusual ways.
    pub fn new(unified: Option<Mount>, v1: Vec<Mount>) -> Hierarchy {
        let layout = match (&unified, v1.is_empty()) {
            (Some(_), true) => Layout::Unified,
            (Some(_), false) => Layout::Hybrid,
            (None, false) => Layout::Legacy,
            (None, true) => Layout::None,
        };
        Hierarchy { layout, unified, v1, manager: None }
    }

    /// How the groups are mounted.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The unified tree, if there is one.
    pub fn unified(&self) -> Option<&Mount> {
        self.unified.as_ref()
    }

    /// The v1 hierarchies with controllers that ax uses.
    pub fn v1(&self) -> &[Mount] {
        &self.v1
    }

    /// The v1 hierarchy of a controller.
    pub(super) fn v1_of(&self, controller: Controller) -> Option<&Mount> {
        self.v1.iter().find(|mount| mount.controllers.contains(&controller))
    }

    /// The hierarchy in which processes are held, frozen and killed.
    pub(super) fn holding(&self) -> Option<&Mount> {
        self.unified.as_ref().or_else(|| self.v1_of(Controller::Freezer))
    }

    fn from_texts(mounts: &[u8], groups: &str, mounted: impl Fn(&Path, statfs::Kind) -> bool) -> Hierarchy {
        let mut unified = None;
        let mut v1: Vec<Mount> = Vec::new();
        let mut manager = None;
        for line in mounts.split(|byte| *byte == b'\n') {
            let Some(found) = MountLine::parse(line) else { continue };
            if found.kind == b"cgroup2" && unified.is_none() && mounted(&found.point, statfs::Kind::Cgroup2) {
                let own = own_group(groups, |id, _| id == "0", &found.root);
                unified = Some(Mount { point: found.point, own, controllers: Vec::new() });
            } else if found.kind == b"cgroup" && mounted(&found.point, statfs::Kind::Cgroup1) {
                let known: Vec<Controller> =
                    found.options.split(',').filter_map(Controller::from_name).collect();
                // The same hierarchy may be mounted twice; systemd's, which has no controllers, holds no jobs.
                let twice = known.iter().any(|new| v1.iter().any(|old| old.controllers.contains(new)));
                if let (Some(first), false) = (known.first(), twice) {
                    let named = |_: &str, names: &str| names.split(',').any(|name| name == first.name());
                    let own = own_group(groups, named, &found.root);
                    v1.push(Mount { point: found.point, own, controllers: known });
                } else if found.options.split(',').any(|option| option == "name=systemd") {
                    let own = own_group(groups, |_, names| names == "name=systemd", &found.root);
                    manager = Some(Mount { point: found.point, own, controllers: Vec::new() });
                }
            }
        }
        Hierarchy { manager, ..Hierarchy::new(unified, v1) }
    }
}

/// False if another file system was mounted over it since.
fn is_mounted(point: &Path, kind: statfs::Kind) -> bool {
    statfs::of(point).is_ok_and(|found| found.kind == kind)
}

/// Our group in the hierarchy whose line in /proc/self/cgroup is chosen by `wanted`, relative to a mount of `root`.
fn own_group(groups: &str, wanted: impl Fn(&str, &str) -> bool, root: &Path) -> PathBuf {
    let lines = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let ours = lines.into_iter().find(|(id, names, _)| wanted(id, names)).map(|(_, _, path)| Path::new(path));
    let relative = ours.and_then(|path| path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).ok());
    let inside = relative.filter(|path| !path.components().any(|part| part.as_os_str() == ".."));
    inside.map(Path::to_owned).unwrap_or_default()
}

/// The fields of one line of mountinfo that matter here.
struct MountLine {
    root: PathBuf,
    point: PathBuf,
    kind: Vec<u8>,
    options: String,
}

impl MountLine {
    /// `id parent device root point options [tags] - kind source options`
    fn parse(line: &[u8]) -> Option<MountLine> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
        Some(MountLine {
            root: unescape(fields.get(3)?),
            point: unescape(fields.get(4)?),
            kind: fields.get(dash + 1)?.to_vec(),
            options: String::from_utf8_lossy(fields.get(dash + 3)?).into_owned(),
        })
    }
}

/// Blanks and their like are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &[u8] = b"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:4 master:1 - cgroup cgroup rw,cpu,cpuacct\n\
        34 31 0:31 / /odd\\040place rw,relatime - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn hybrid_is_seen_where_it_is_mounted() {
        let groups = "3:cpu,cpuacct:/\n2:memory:/box/a\n1:name=systemd:/x\n0::/me\n";
        let found = Hierarchy::from_texts(HYBRID, groups, |_, _| true);
        assert_eq!(found.layout(), Layout::Hybrid);
        assert_eq!(found.v1().len(), 2, "systemd's own hierarchy holds no controller");
        assert_eq!(found.manager.as_ref().unwrap().own, Path::new("x"));
        let memory = found.v1_of(Controller::Memory).unwrap();
        assert_eq!(
            (memory.point.as_path(), memory.own.as_path()),
            (Path::new("/odd place"), Path::new("box/a"))
        );
        assert_eq!(found.v1_of(Controller::Cpu), found.v1_of(Controller::Cpuacct));
        assert_eq!(found.unified().unwrap().own, Path::new("me"));
    }

    #[test]
    fn unified_alone_and_systemd_alone() {
        let line = b"25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(Hierarchy::from_texts(line, "0::/\n", |_, _| true).layout(), Layout::Unified);
        let named = b"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        assert_eq!(Hierarchy::from_texts(named, "", |_, _| true).layout(), Layout::None);
        assert_eq!(Hierarchy::from_texts(HYBRID, "", |_, _| false).layout(), Layout::None, "over-mounted");
    }

    #[test]
    fn a_mount_of_a_subtree_shows_less_of_the_path() {
        let line = b"25 1 0:22 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = Hierarchy::from_texts(line, "0::/docker/1/app\n", |_, _| true);
        assert_eq!(found.unified().unwrap().own, Path::new("app"));
        let outside = Hierarchy::from_texts(line, "0::/../elsewhere\n", |_, _| true);
        assert_eq!(outside.unified().unwrap().own, Path::new(""));
    }
}

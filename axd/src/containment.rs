//! Where the jobs' control groups go: below the unit that systemd delegated to
//! us, at the top of the tree where there is no systemd, or nowhere.

use std::path::Path;

use ax_core::paths::Paths;
use ax_sys::cgroup::{Base, Hierarchy, Layout, Place, Station};

/// The delegated group that holds the job tree under systemd (etc/ax-jobs.service).
const DELEGATED: [&str; 2] = ["ax.slice/ax-jobs.service", "system.slice/ax-jobs.service"];

/// The place, as records name it, and what can't be had, in words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Containment {
    /// For assignments; empty where no group may be made.
    pub parents: Vec<String>,
    /// For assignments: where supervisors go; empty where they stay with the daemon.
    pub station: Vec<String>,
    /// What is missing, one line each.
    pub missing: Vec<String>,
}

/// Finds and prepares the place.
pub(crate) fn prepare(paths: &Paths) -> Containment {
    let hierarchy = match Hierarchy::detect() {
        Ok(hierarchy) if hierarchy.layout() != Layout::None => hierarchy,
        Ok(_) => return nowhere("this machine has no control groups"),
        Err(error) => return nowhere(&error.to_string()),
    };
    let Some(place) = usable(paths, &hierarchy) else {
        return nowhere("no control group may be made here");
    };
    if let Err(error) = place.prepare(&hierarchy) {
        return nowhere(&error.to_string());
    }
    let parents = place.to_record(&hierarchy);
    match Station::prepare(&hierarchy, &place) {
        Ok(station) => Containment { parents, station: station.to_record(), missing: Vec::new() },
        Err(error) => {
            let what = format!("supervisors stay in the daemon's own unit: {error}");
            Containment { parents, station: Vec::new(), missing: vec![what] }
        }
    }
}

/// Removes the place, where nothing is in it: for a daemon that ends and leaves nothing running.
pub(crate) fn clear(paths: &Paths) {
    let Ok(hierarchy) = Hierarchy::detect() else { return };
    if let Some(place) = usable(paths, &hierarchy) {
        place.clear(&hierarchy);
    }
}

/// The first place that can be used.
fn usable(paths: &Paths, hierarchy: &Hierarchy) -> Option<Place> {
    let name = paths.cgroup_name();
    let under_systemd = Path::new("/run/systemd/system").is_dir();
    let delegated = DELEGATED.iter().map(|path| Base::At(path.into()));
    let top = (!under_systemd).then_some(Base::Root);
    let candidates = delegated.chain(top).chain([Base::Own]);
    candidates.filter_map(|base| Place::new(base, &name).ok()).find(|place| place.is_usable(hierarchy))
}

fn nowhere(why: &str) -> Containment {
    let what =
        format!("jobs are held together by their process tree alone, memory and CPUs are not limited: {why}");
    Containment { missing: vec![what], ..Containment::default() }
}

//! Where the jobs' control groups go: below the unit that systemd delegated to us, at the top of the tree if there is
//! no systemd, or nowhere.

use std::path::Path;

use ax_core::id::AttemptName;
use ax_core::paths::Paths;
use ax_sys::SysError;
use ax_sys::cgroup::{Base, Hierarchy, JobGroup, Layout, Place, Station};
use thiserror::Error;

/// The delegated group that holds the job tree under systemd (etc/ax-jobs.service).
const DELEGATED: [&str; 2] = ["ax.slice/ax-jobs.service", "system.slice/ax-jobs.service"];

/// The place as records name it, and what is missing, in words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Containment {
    /// For assignments; empty where no group may be made.
    pub parents: Vec<String>,
    /// For assignments: where supervisors go; empty where they stay with the daemon.
    pub station: Vec<String>,
    /// What is missing, one line each.
    pub missing: Vec<String>,
    /// Where that is; nowhere if no group may be made.
    place: Option<Place>,
}

/// Why the groups can't be made anew.
#[derive(Debug, Error)]
pub(crate) enum RenewError {
    /// Their unit has ended.
    #[error("the group that was delegated for them is gone")]
    Gone,
    /// The system refused it.
    #[error(transparent)]
    System(#[from] SysError),
}

impl Containment {
    /// Makes the groups anew where they were, after their unit was started again or they were removed. Never
    /// elsewhere: it is better if jobs wait until the unit is back than if they run without limits.
    pub(crate) fn renew(&mut self) -> Result<(), RenewError> {
        let Some(place) = &self.place else { return Ok(()) };
        let hierarchy = Hierarchy::detect()?;
        if !place.is_usable(&hierarchy) {
            return Err(RenewError::Gone);
        }
        *self = prepare_in(&hierarchy, place)?;
        Ok(())
    }
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
    prepare_in(&hierarchy, &place).unwrap_or_else(|error| nowhere(&error.to_string()))
}

fn prepare_in(hierarchy: &Hierarchy, place: &Place) -> Result<Containment, SysError> {
    place.prepare(hierarchy)?;
    let (station, missing) = match Station::prepare(hierarchy, place) {
        Ok(station) => (station.to_record(), Vec::new()),
        Err(error) => (Vec::new(), vec![format!("supervisors stay in the daemon's own unit: {error}")]),
    };
    Ok(Containment { parents: place.to_record(hierarchy), station, missing, place: Some(place.clone()) })
}

/// The groups of an attempt as far as they are there, by its name alone.
pub(crate) fn group_of(paths: &Paths, attempt: AttemptName) -> Option<JobGroup> {
    let hierarchy = Hierarchy::detect().ok()?;
    JobGroup::find(&hierarchy, &usable(paths, &hierarchy)?, &attempt.to_string())
}

/// All attempts that have groups.
pub(crate) fn with_groups(paths: &Paths) -> Vec<AttemptName> {
    let all = || {
        let hierarchy = Hierarchy::detect().ok()?;
        JobGroup::list(&hierarchy, &usable(paths, &hierarchy)?).ok()
    };
    all().unwrap_or_default().iter().filter_map(|(name, _)| name.parse().ok()).collect()
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

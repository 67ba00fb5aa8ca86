//! What earlier lives of the daemon left on this node: traces of attempts that
//! are closed, to be cleaned up, and supervisors of attempts that the database
//! does not know, after an older one was put back. Those must be ended before
//! anything is started, or a job could run twice.

use std::collections::BTreeSet;
use std::path::Path;

use ax_core::id::AttemptName;
use ax_core::paths::Paths;

use super::{Engine, SPOOL_STAYS, now};
use crate::log::{Level, Line};
use crate::settle;
use crate::worker::Task;

impl Engine {
    /// Ends and removes what belongs to none of the living attempts.
    ///
    /// # Errors
    /// When something of an unknown attempt can't be ended, in one line.
    pub(super) fn end_strays(&mut self, living: &BTreeSet<AttemptName>) -> Result<(), String> {
        for stray in on_this_node(&self.paths).difference(living) {
            if settle::end_stray(&self.paths, *stray)? {
                let text = "it ran, and the database does not know it: ended";
                self.log.line(Level::Warning, &Line::new("stray").text("attempt", stray).text("text", &text));
            }
            self.worker.start_task(Task::CleanUp(*stray));
        }
        let due = now().boot + SPOOL_STAYS;
        for stray in in_the_spool(&self.paths).difference(living) {
            self.leftovers.insert((due, *stray), self.paths.epoch_dir(*stray));
        }
        Ok(())
    }
}

fn on_this_node(paths: &Paths) -> BTreeSet<AttemptName> {
    let folders = [paths.leases(), paths.attempts(), paths.run.join("jobs")];
    let all = folders.iter().flat_map(|folder| names(folder));
    // One that was being made is hidden by a dot.
    all.filter_map(|name| name.trim_start_matches('.').parse().ok()).collect()
}

fn in_the_spool(paths: &Paths) -> BTreeSet<AttemptName> {
    let buckets = paths.spool.join("jobs");
    let mut found = BTreeSet::new();
    for bucket in names(&buckets) {
        let bucket = buckets.join(bucket);
        for job in names(&bucket) {
            let epochs = names(&bucket.join(&job)).into_iter();
            found.extend(epochs.filter_map(|epoch| format!("{job}.{epoch}").parse::<AttemptName>().ok()));
        }
    }
    found
}

/// What can't be listed is looked for again at the next start.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

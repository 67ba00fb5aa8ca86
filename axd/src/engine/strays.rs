//! Handles what earlier daemons left on this node: traces of attempts that are over, to be cleaned up, and
//! supervisors of attempts that the database does not know because an older one was put back. Those must be ended
//! before anything is started, or a job could run twice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ax_core::api::JobView;
use ax_core::id::{AttemptName, JobId};
use ax_core::paths::Paths;

use super::{Engine, now};
use crate::containment;
use crate::log::{Level, Line};
use crate::settle::{self, SettleError};
use crate::worker::{Chore, Task, Trace};

impl Engine {
    /// Ends and removes what belongs to none of the running attempts.
    ///
    /// # Errors
    /// If something of an unknown attempt can't be ended.
    pub(super) fn end_strays(&mut self, living: &BTreeSet<AttemptName>) -> Result<(), SettleError> {
        for stray in on_this_node(&self.paths).difference(living) {
            let line = Line::new("stray").text("attempt", stray);
            match settle::end_stray(&self.paths, *stray) {
                Ok(true) => {
                    let text = "it ran, and the database does not know it: ended";
                    self.log.line(Level::Warning, &line.text("text", &text));
                }
                Ok(false) => {}
                // Its job can't run twice because of that: it is tried again like anything that can't be removed.
                Err(error) if self.is_closed(*stray) => {
                    self.log.line(Level::Error, &line.text("error", &error));
                }
                Err(error) => return Err(error),
            }
            self.worker.start_task(Task::CleanUp(Chore::new(*stray, Trace::Node)));
        }
        let (attempts, empty) = in_the_spool(&self.paths);
        for stray in attempts.difference(living) {
            self.spool_goes_later(*stray);
        }
        for (_, folder) in empty.into_iter().filter(|(job, _)| self.is_over(job.number)) {
            // A folder that is not empty stays.
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    /// True if the accounts have the end of an attempt.
    fn is_closed(&self, attempt: AttemptName) -> bool {
        let view = self.reader.view(attempt.job.number, now().wall).ok().flatten();
        let ended = |view: &JobView| {
            view.id == attempt.job
                && view.attempts.iter().any(|a| a.epoch == attempt.epoch.0 && a.ended_at.is_some())
        };
        view.as_ref().is_some_and(ended)
    }
}

fn on_this_node(paths: &Paths) -> BTreeSet<AttemptName> {
    let folders = [paths.leases(), paths.attempts(), paths.run.join("jobs")];
    let all = folders.iter().flat_map(|folder| names(folder));
    // A folder that was being made has a dot before its name.
    let recorded = all.filter_map(|name| name.trim_start_matches('.').parse().ok());
    recorded.chain(containment::with_groups(paths)).collect()
}

/// Folders of attempts, and folders of jobs without any attempt.
fn in_the_spool(paths: &Paths) -> (BTreeSet<AttemptName>, Vec<(JobId, PathBuf)>) {
    let buckets = paths.spool.join("jobs");
    let (mut attempts, mut empty) = (BTreeSet::new(), Vec::new());
    for bucket in names(&buckets) {
        let bucket = buckets.join(bucket);
        for job in names(&bucket) {
            let folder = bucket.join(&job);
            let epochs = names(&folder);
            match job.parse() {
                Ok(id) if epochs.is_empty() => empty.push((id, folder)),
                _ => attempts.extend(
                    epochs.iter().filter_map(|epoch| format!("{job}.{epoch}").parse::<AttemptName>().ok()),
                ),
            }
        }
    }
    (attempts, empty)
}

/// The names in a folder. If it can't be listed, it is looked at again at the next start.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_kit::TempDir;

    #[test]
    fn what_lies_in_the_spool_is_told_from_what_is_empty() {
        let root = TempDir::new();
        let paths = Paths::under(root.path());
        let kept: AttemptName = "ax-2026-0001.7".parse().unwrap();
        let gone: AttemptName = "ax-2026-0002.8".parse().unwrap();
        std::fs::create_dir_all(paths.epoch_dir(kept)).unwrap();
        std::fs::create_dir_all(paths.epoch_dir(gone)).unwrap();
        std::fs::remove_dir(paths.epoch_dir(gone)).unwrap();
        let (attempts, empty) = in_the_spool(&paths);
        assert_eq!(attempts, BTreeSet::from([kept]));
        assert_eq!(empty, [(gone.job, paths.epoch_dir(gone).parent().unwrap().to_owned())]);
    }
}

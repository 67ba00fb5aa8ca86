//! What rows of the database need and the controller does not hold: scripts and options of new jobs, what attempts have
//! used, and where their output goes.

use std::collections::{BTreeMap, BTreeSet};

use ax_core::controller::{Controller, Decision};
use ax_core::id::{AttemptName, JobNumber, SubmissionKey};
use ax_core::job::Job;

use super::Engine;
use crate::launch;
use crate::store::{Beside, Details, NewParts, OutputFiles, Reader, Row, Usage};

/// What rows need and the controller does not hold.
#[derive(Debug, Default)]
pub(super) struct RowData {
    /// Parts of submissions that are not durable yet.
    pub(super) parts: BTreeMap<JobNumber, NewParts>,
    /// What ended attempts have used.
    pub(super) usage: BTreeMap<AttemptName, Usage>,
    /// Attempts whose output files are not written down yet.
    pub(super) nameless: BTreeSet<AttemptName>,
}

impl RowData {
    /// What the rows of one step need: with what came along with a submission, and with the output files of the
    /// attempts that it starts.
    pub(super) fn beside(
        &mut self,
        arriving: Option<NewParts>,
        files: BTreeMap<AttemptName, OutputFiles>,
    ) -> Surroundings<'_> {
        Surroundings { parts: &mut self.parts, arriving, usage: &mut self.usage, files }
    }
}

/// What the rows of a step need and the controller does not hold.
pub(super) struct Surroundings<'a> {
    parts: &'a mut BTreeMap<JobNumber, NewParts>,
    arriving: Option<NewParts>,
    usage: &'a mut BTreeMap<AttemptName, Usage>,
    files: BTreeMap<AttemptName, OutputFiles>,
}

impl Beside for Surroundings<'_> {
    fn new_job(&mut self, _key: SubmissionKey, job: &Job) -> NewParts {
        let parts = self.arriving.take().unwrap_or_default();
        self.parts.insert(job.id.number, parts.clone());
        parts
    }

    fn files(&mut self, attempt: AttemptName) -> OutputFiles {
        self.files.remove(&attempt).unwrap_or_default()
    }

    fn usage(&mut self, attempt: AttemptName) -> Usage {
        self.usage.remove(&attempt).unwrap_or_default()
    }
}

/// The output files of the attempts that were just decided. An attempt whose job can't be read now is left out.
pub(super) fn files_of(
    decisions: &[Decision],
    controller: &Controller,
    parts: &BTreeMap<JobNumber, NewParts>,
    arriving: Option<&NewParts>,
    reader: &Reader,
) -> BTreeMap<AttemptName, OutputFiles> {
    let accepted = decisions.iter().find_map(|decision| match decision {
        Decision::Accepted { job, .. } => Some(*job),
        _ => None,
    });
    let file = |decision: &Decision| {
        let Decision::Launch { attempt, number, allocation, .. } = decision else { return None };
        let job = controller.job(attempt.job.number)?;
        // The submission's parts belong to the job that it became: another job may start in the same step.
        let own = arriving.filter(|_| accepted == Some(attempt.job));
        let stored = || reader.details(attempt.job.number).ok().flatten();
        let details = match parts.get(&attempt.job.number).or(own) {
            Some(parts) => parts.details.clone(),
            None => stored()?,
        };
        Some((*attempt, output_files(job, &details, *number, allocation.node.as_str())))
    };
    decisions.iter().filter_map(file).collect()
}

fn output_files(job: &Job, details: &Details, number: u32, node: &str) -> OutputFiles {
    let files = launch::files(job, details, number, node);
    OutputFiles { stdout: Some(files.output), stderr: files.error }
}

impl Engine {
    /// Writes an attempt's output files down, if they could not be read when it was decided.
    pub(super) fn name_files(&mut self, attempt: AttemptName, number: u32, node: &str, details: &Details) {
        if !self.row_data.nameless.remove(&attempt) {
            return;
        }
        if let Some(job) = self.controller.job(attempt.job.number) {
            let files = output_files(job, details, number, node);
            self.commits.open.add(Row::AttemptFiles { epoch: attempt.epoch, files });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ax_core::config::Config;
    use ax_core::controller::{Event, Submission};
    use ax_core::id::{Epoch, JobId, Uid};
    use ax_core::job::Owner;
    use ax_core::job::request::Request;
    use ax_core::node::Allocation;
    use ax_core::paths::Paths;
    use ax_core::size::Megabytes;
    use ax_core::time::{BootTime, Now, WallTime};

    use super::*;
    use crate::store::Store;
    use test_kit::TempDir;

    fn submit(controller: &mut Controller, key: u128) -> JobId {
        let request = Request::plain(1, Megabytes(1));
        let owner = Owner { uid: Uid(1000), name: Arc::from("li") };
        let queue = "default".parse().unwrap();
        let submission = Submission::new(SubmissionKey(key), owner, "a", queue, 2026, request);
        let now = Now { boot: BootTime(1), wall: WallTime(1) };
        let decisions = controller.step(now, Event::Submitted(Box::new(submission)));
        let Decision::Accepted { job, .. } = decisions[0] else { panic!("{decisions:?}") };
        job
    }

    #[test]
    fn what_arrives_says_nothing_of_a_job_that_starts_at_the_same_time() {
        let dir = TempDir::new();
        let paths = Paths::under(dir.path());
        let _store = Store::open(&paths).unwrap();
        let reader = Reader::open(&paths).unwrap();
        let mut controller = Controller::new(Config::default());
        let (waited, arrived) = (submit(&mut controller, 1), submit(&mut controller, 2));
        let launch = |job, epoch| Decision::Launch {
            attempt: AttemptName { job, epoch: Epoch(epoch) },
            number: 1,
            others: Vec::new(),
            allocation: Allocation {
                node: "here".parse().unwrap(),
                cpus: vec![0],
                ram: Megabytes(1),
                cards: Vec::new(),
            },
            why: String::new(),
            passed: 0,
        };
        let accepted = Decision::Accepted { key: SubmissionKey(2), job: arrived };
        let decisions = [accepted, launch(waited, 1), launch(arrived, 2)];
        let mut arriving = NewParts::default();
        arriving.details.cwd = "/home/li".to_owned();
        let files = files_of(&decisions, &controller, &BTreeMap::new(), Some(&arriving), &reader);
        let files: Vec<_> = files.into_iter().map(|(attempt, files)| (attempt.job, files.stdout)).collect();
        assert_eq!(files, [(arrived, Some("/home/li/ax-2.out".to_owned()))]);
    }
}

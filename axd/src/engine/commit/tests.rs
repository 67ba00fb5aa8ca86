//! What of a batch is whose.

use std::sync::Arc;

use ax_core::config::Config;
use ax_core::controller::Submission;
use ax_core::id::{Epoch, JobId, Uid};
use ax_core::job::Owner;
use ax_core::job::request::Request;
use ax_core::node::Allocation;
use ax_core::paths::Paths;
use ax_core::size::Megabytes;
use ax_core::time::WallTime;

use super::*;
use crate::store::Store;
use crate::store::testing::TempDir;

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

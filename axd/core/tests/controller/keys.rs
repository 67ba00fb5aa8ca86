//! A submission's key: what comes again with it is the same job.

use ax_core::controller::{Controller, Decision, Event, Wish};
use ax_core::id::{SubmissionKey, Uid};
use ax_core::job::Actor;

use super::{at, config, owner, ready, request, submission, submit};

#[test]
fn one_key_is_one_job() {
    let mut controller = ready(config());
    let (id, _) = submit(&mut controller, 1, submission(1, request(1)));
    let out = controller.step(at(2), Event::Submitted(Box::new(submission(1, request(1)))));
    assert_eq!(out, [Decision::AlreadyKnown { key: SubmissionKey(1), job: id }]);
    let mut other = submission(1, request(1));
    other.owner = owner(2000);
    let (second, _) = submit(&mut controller, 3, other);
    assert_ne!(second, id, "another user's key is another key");
}

/// Keys of which only what comes first differs, as nobody's chance makes them.
#[test]
fn keys_that_look_alike_are_different_jobs_until_each_is_forgotten() {
    let mut controller = ready(config());
    submit(&mut controller, 0, submission(99, request(8)));
    let keys = [1, 2, 3].map(|first: u128| SubmissionKey(first << 64 | 7));
    let submit_key = |controller: &mut Controller, ms, key: SubmissionKey| {
        submit(controller, ms, submission(key.0, request(8))).0
    };
    let ids = keys.map(|key| submit_key(&mut controller, 1, key));
    let known = |controller: &Controller| keys.map(|key| controller.job_of_key(Uid(1000), key));
    assert_eq!(known(&controller), ids.map(Some));
    // The one that came first goes first, and then one of the others moves.
    for (gone, ms) in [(0, 10), (1, 20_000), (2, 40_000)] {
        let wish = |job| Event::Wished { job, actor: Actor::Ax, wish: Wish::Cancel, why: None };
        controller.step(at(ms), wish(ids[gone]));
        controller.step(at(ms + 10_000), Event::Tick);
        let left = ids.map(|id| controller.job(id.number).map(|job| job.id));
        assert_eq!(known(&controller), left);
        let again = Controller::restore(controller.snapshot());
        assert_eq!(known(&again), left);
    }
    assert_eq!(known(&controller), [None; 3]);
    let anew = submit_key(&mut controller, 60_000, keys[1]);
    assert_eq!(known(&controller), [None, Some(anew), None]);
}

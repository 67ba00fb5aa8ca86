//! What many jobs have the same takes room once.

use std::sync::Arc;

use ax_core::controller::{Change, Controller, Event, Snapshot, Wish};
use ax_core::id::JobNumber;
use ax_core::job::Actor;
use ax_core::job::request::Request;

use super::{at, config, owner, ready, request, submission, submit};

/// Whether two jobs share their owners, and whether their requests.
fn share(controller: &Controller, one: u32, other: u32) -> (bool, bool) {
    let [one, other] = [one, other].map(|number| controller.job(JobNumber(number)).unwrap());
    (Arc::ptr_eq(&one.owner, &other.owner), Arc::ptr_eq(&one.request, &other.request))
}

#[test]
fn what_jobs_have_the_same_is_kept_once() {
    let mut controller = ready(config());
    for key in 1..=3 {
        submit(&mut controller, 1, submission(key, request(8)));
    }
    let (fourth, _) = submit(&mut controller, 1, submission(4, Request { priority: 10, ..request(8) }));
    let mut other = submission(5, request(8));
    other.owner = owner(2000);
    submit(&mut controller, 1, other);
    let all = |controller: &Controller| [2, 3, 4, 5].map(|number| share(controller, 1, number));
    let expected = [(true, true), (true, true), (true, false), (false, true)];
    assert_eq!(all(&controller), expected);
    // Written down and read again each job has its own, until it is entered.
    let text = serde_json::to_string(&controller.snapshot()).unwrap();
    let read: Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(all(&Controller::restore(read)), expected);
    // One that a person makes like the others is like them.
    let change = Change { priority: Some(request(8).priority), ..Change::default() };
    let wish = Wish::Update(Box::new(change));
    controller.step(at(2), Event::Wished { job: fourth, actor: Actor::Ax, wish, why: None });
    assert_eq!(share(&controller, 1, 4), (true, true));
    assert_eq!(controller.job(JobNumber(5)).unwrap().request.priority, request(8).priority);
}

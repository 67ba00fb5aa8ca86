//! What nobody can shorten: the pause before a retry.

use std::sync::Arc;

use ax_core::controller::{Event, Wish};
use ax_core::id::Uid;
use ax_core::job::Actor;
use ax_core::job::request::Request;
use ax_core::job::state::{JobState, Outcome};
use ax_core::time::Span;

use super::{at, config, ended, launched, ready, request, state, submission, submit};

#[test]
fn a_hold_and_a_release_do_not_shorten_a_back_off() {
    let mut controller = ready(config());
    let wanted = Request { retries: 1, retry_delay: Span::seconds(2), ..request(1) };
    let (id, out) = submit(&mut controller, 1, submission(1, wanted));
    let attempt = launched(&out)[0];
    controller.step(at(2), Event::AttemptStarted { attempt, at: at(2).wall });
    let end = ended(Outcome::Failed, Some(1));
    controller.step(at(10), Event::AttemptEnded { attempt, at: at(10).wall, end });
    let actor = Actor::User { uid: Uid(1000), name: Arc::from("user1000"), admin: false };
    for (ms, wish) in [(20, Wish::Hold), (30, Wish::Release)] {
        controller.step(at(ms), Event::Wished { job: id, actor: actor.clone(), wish, why: None });
        assert_eq!(state(&controller, id), JobState::Pending);
    }
    controller.step(at(2009), Event::Tick);
    assert_eq!(state(&controller, id), JobState::Pending);
    assert_eq!(launched(&controller.step(at(2010), Event::Tick)).len(), 1);
}

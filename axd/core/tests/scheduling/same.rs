//! Laws 13, 14 and 15: the same events give the same decisions to the byte, a restart in between changes nothing, and
//! what is kept up to date with each event is what would be made of the jobs and nodes anew.

use ax_core::config::{Config, Scheduler};
use ax_core::controller::{Controller, Decision, Event, Snapshot};
use ax_core::id::JobNumber;
use ax_core::job::Job;
use ax_core::time::{BootTime, Now};
use proptest::prelude::*;

use crate::chance::{self, Frame};
use crate::world::{World, step_all};
use crate::{histories, history};

/// What happened and what was decided, as text, like a daemon's log.
fn recorded((bits, ops): &(u64, Vec<(u8, u64)>)) -> (Vec<String>, Controller) {
    let mut log = Vec::new();
    // When a job has left memory after a clock was set back is not written down.
    let frame = Frame { forward: true, ..Frame::default() };
    let world = World::play(*bits, frame, ops.clone(), &mut |seen| {
        log.push(serde_json::to_string(&(seen.now, seen.events, seen.out)).unwrap());
    });
    (log, world.controller)
}

/// The configuration that a history starts with.
fn first(bits: u64) -> Config {
    chance::config(bits, Frame::default())
}

fn again(controller: &mut Controller, line: &str) {
    let (now, events, out): (Now, Vec<Event>, Vec<Decision>) = serde_json::from_str(line).unwrap();
    let decided = step_all(controller, now, events.clone());
    assert_eq!(decided, out, "upon {events:?}");
    assert_eq!(serde_json::to_string(&(now, events, decided)).unwrap(), line);
}

fn restarted(controller: &Controller) -> Controller {
    let text = serde_json::to_string(&controller.snapshot()).unwrap();
    Controller::restore(serde_json::from_str::<Snapshot>(&text).unwrap())
}

pub(crate) fn is_as_if_made_anew(controller: &Controller) {
    let anew = Controller::restore(controller.snapshot());
    assert_eq!(controller.snapshot(), anew.snapshot());
    assert!(controller.nodes().eq(anew.nodes()), "nodes give out something else");
    let order = |c: &Controller| c.ready_jobs().map(|job| job.id.number).collect::<Vec<JobNumber>>();
    let policy = &controller.config().policy;
    // Where users' shares count, time does, and one made anew has seen none yet.
    if policy.scheduler != Scheduler::FairShare || policy.user_share == 0 {
        assert_eq!(order(controller), order(&anew));
    }
    assert!(controller.active_jobs().eq(anew.active_jobs()), "other jobs hold something");
    assert_eq!(controller.virtual_times(), anew.virtual_times());
    for job in controller.jobs() {
        assert_eq!(controller.is_misfit(job.id.number), anew.is_misfit(job.id.number), "{}", job.id);
        let known = |c: &Controller| c.job_of_key(job.owner.uid, job.key);
        assert_eq!(known(controller), known(&anew));
    }
    for name in chance::QUEUES {
        let queue = name.parse().unwrap();
        assert_eq!(controller.active_in(&queue), anew.active_in(&queue), "{queue}");
    }
    // That a begin time has come for a job that is held, or in its back-off, is not written down.
    let other = |job: &Job| job.rare.hold.is_some() || job.rare.backoff_until.is_some();
    let (is, due) = (controller.next_wake(), anew.next_wake());
    if is.boot != Some(BootTime(0)) && !controller.jobs().any(|job| job.request.begin.is_some() && other(job))
    {
        assert_eq!(is, due);
    }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_13_the_same_events_give_the_same_decisions(history in history(40)) {
        let ((log, one), (twin, other)) = (recorded(&history), recorded(&history));
        assert_eq!(log, twin);
        assert_eq!(one.snapshot(), other.snapshot());
    }

    #[test]
    fn law_14_a_log_replayed_gives_its_decisions_again(
        history in history(40),
        stop in any::<prop::sample::Index>(),
    ) {
        let (log, controller) = recorded(&history);
        let mut replayed = Controller::new(first(history.0));
        let stop = stop.index(log.len());
        for (at, line) in log.iter().enumerate() {
            if at == stop {
                replayed = restarted(&replayed);
            }
            again(&mut replayed, line);
        }
        assert_eq!(replayed.snapshot(), controller.snapshot());
    }

    #[test]
    fn law_15_what_is_kept_up_to_date_is_as_if_made_anew(history in history(30)) {
        World::play(history.0, Frame::default(), history.1, &mut |seen| is_as_if_made_anew(seen.controller));
    }
}

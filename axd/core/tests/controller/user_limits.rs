//! What one user runs at once is limited, in a queue and in all: others go on, and the reason says so.

use ax_core::config::Config;
use ax_core::controller::{Controller, Event, Submission};
use ax_core::explain::{Condition, UserFull};
use ax_core::id::{AttemptName, JobNumber};
use ax_core::invariants;
use ax_core::job::request::Request;
use ax_core::job::state::Outcome;
use ax_core::time::Span;

use crate::{at, config, ended, launched, node, owner, request, submission};

fn limited(in_all: Option<u32>, in_default: Option<u32>) -> Controller {
    let mut config: Config = config();
    config.policy.max_running_per_user = in_all;
    config.queues.iter_mut().for_each(|queue| queue.max_running = None);
    config.queues[0].max_running_per_user = in_default;
    let mut controller = Controller::new(config);
    controller.step(at(0), Event::NodeRegistered(node()));
    controller
}

/// Submits a job of a minute; what starts.
fn submit(controller: &mut Controller, key: u128, user: u32, queue: &str, cpus: u32) -> Vec<AttemptName> {
    let request = Request { time_limit: Some(Span::seconds(60)), ..request(cpus) };
    let new = Submission { owner: owner(user), queue: queue.parse().unwrap(), ..submission(key, request) };
    launched(&controller.step(at(key as u64), Event::Submitted(Box::new(new))))
}

fn reason(controller: &Controller, number: u32) -> (Vec<Condition>, Vec<String>, Option<String>) {
    let told = controller.explain(at(100), JobNumber(number));
    (told.conditions, told.reasons, told.basis.map(|basis| basis.words()))
}

#[test]
fn a_user_at_the_limit_waits_and_others_pass() {
    let mut controller = limited(Some(2), None);
    let first = submit(&mut controller, 1, 1000, "default", 1);
    assert_eq!(submit(&mut controller, 2, 1000, "high", 1).len(), 1);
    for key in 3..6 {
        assert_eq!(submit(&mut controller, key, 1000, "default", 1), []);
    }
    assert_eq!(submit(&mut controller, 6, 2000, "default", 1).len(), 1, "others have their own limit");
    let (conditions, words, basis) = reason(&controller, 3);
    assert!(
        matches!(conditions[0], Condition::UserFull(UserFull { active: 2, max: 2, queue: None, .. })),
        "{conditions:?}"
    );
    let user = owner(1000).name;
    let told = format!(
        "{user} runs 2 of at most 2 jobs (policy.max_running_per_user): ax-2026-0001 and ax-2026-0002"
    );
    assert_eq!(words[0], told);
    assert_eq!(basis.as_deref(), Some("ax-2026-0001 ends then, and its owner may start another"));
    // Two after the two that run, the third a minute after the first of them.
    let starts =
        [3, 4, 5].map(|number| controller.explain(at(100), JobNumber(number)).expected_start.unwrap());
    assert_eq!([starts[1] - starts[0], starts[2] - starts[0]], [Span(0), Span(60_000)]);
    let end =
        Event::AttemptEnded { attempt: first[0], at: at(200).wall, end: ended(Outcome::Succeeded, Some(0)) };
    let started = launched(&controller.step(at(200), end));
    assert_eq!(started.iter().map(|attempt| attempt.job.number).collect::<Vec<_>>(), [JobNumber(3)]);
    invariants::check(&controller).unwrap();
}

#[test]
fn a_limit_in_a_queue_is_of_that_queue_alone_and_outlives_a_restart() {
    let mut controller = limited(None, Some(1));
    submit(&mut controller, 1, 1000, "default", 1);
    assert_eq!(submit(&mut controller, 2, 1000, "default", 1), []);
    assert_eq!(submit(&mut controller, 3, 1000, "high", 1).len(), 1);
    let mut controller = Controller::restore(controller.snapshot());
    assert_eq!(launched(&controller.step(at(50), Event::Tick)), []);
    let (conditions, words, _) = reason(&controller, 2);
    assert!(
        matches!(conditions[0], Condition::UserFull(UserFull { active: 1, max: 1, queue: Some(_), .. })),
        "{conditions:?}"
    );
    assert!(
        words[0].contains("runs 1 of at most 1 job in queue default (queues[].max_running_per_user)"),
        "{words:?}"
    );
}

#[test]
fn a_place_that_is_kept_counts() {
    let mut controller = limited(Some(2), None);
    submit(&mut controller, 1, 1000, "default", 5);
    // Waits for the first; beside it another of the same user would fit, and then the wide one could not start.
    assert_eq!(submit(&mut controller, 2, 1000, "default", 8), []);
    assert_eq!(submit(&mut controller, 3, 1000, "default", 1), []);
    let (_, words, _) = reason(&controller, 3);
    assert!(
        words[0].contains("runs 1 of at most 2 jobs") && words[0].contains("a place is kept"),
        "{words:?}"
    );
}

/// Nodes of 8 and of 32 CPUs; a user may hold 20.
#[test]
fn who_has_a_node_for_themselves_counts_with_all_of_it() {
    let mut config = config();
    config.policy.per_user.cpus = Some(20);
    let mut controller = Controller::new(config);
    for (name, cpus) in [("gpu-01", 8), ("gpu-02", 8), ("gpu-03", 32), ("gpu-04", 8)] {
        let new = ax_core::node::Inventory { name: name.parse().unwrap(), cpus, ..node() };
        controller.step(at(0), Event::NodeRegistered(new));
    }
    let alone = |key: u128, nodes: &[&str]| {
        let mut wanted = Request { exclusive: true, ..request(1) };
        wanted.only_nodes = nodes.iter().map(|name| name.parse().unwrap()).collect();
        Event::Submitted(Box::new(submission(key, wanted)))
    };
    let first = launched(&controller.step(at(1), alone(1, &[])));
    assert_eq!((first.len(), launched(&controller.step(at(2), alone(2, &[]))).len()), (1, 1));
    // Two of 8 are held; a third is over 20, and so is one of 32 whatever it asks for.
    assert_eq!(launched(&controller.step(at(3), alone(3, &[]))), []);
    let (_, words, basis) = reason(&controller, 3);
    let told = "holds 16 of at most 20 CPUs (policy.max_cpus_per_user): ax-2026-0001 and ax-2026-0002, and it asks for 8 CPUs";
    assert!(words[0].contains(told), "{words:?}");
    assert_eq!(basis.as_deref(), Some("ax-2026-0001 ends then, which counts in the same limit"));
    let refused = format!("{:?}", controller.step(at(4), alone(4, &["gpu-03"])));
    assert!(
        refused.contains("it asks for 32 CPUs, and user user1000 may hold at most 20 CPUs at once"),
        "{refused}"
    );
    // Beside them others of 4 CPUs.
    assert_eq!(submit(&mut controller, 5, 1000, "default", 5), []);
    let end =
        Event::AttemptEnded { attempt: first[0], at: at(100).wall, end: ended(Outcome::Succeeded, Some(0)) };
    let started = launched(&controller.step(at(100), end));
    assert_eq!(started.iter().map(|attempt| attempt.job.number).collect::<Vec<_>>(), [JobNumber(3)]);
    invariants::check(&controller).unwrap();
    // What is counted anew after a restart is the same.
    let controller = Controller::restore(controller.snapshot());
    assert!(
        reason(&controller, 4).1[0].contains("holds 16 of at most 20 CPUs"),
        "{:?}",
        reason(&controller, 4)
    );
}

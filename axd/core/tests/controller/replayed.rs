//! What is recorded of the whole must be what the steps before it led to: where a part of it is lost, the replay says so
//! and names the part.

use ax_core::config::{Config, Packing, Scheduler};
use ax_core::controller::{Controller, Decision, Event, NodeWish, Snapshot};
use ax_core::gpu::CardName;
use ax_core::id::Uid;
use ax_core::job::Actor;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::Outcome;
use ax_core::replay::{Difference, Entry, Recorded, Replay, Step};
use ax_core::time::{Now, WallTime};

use crate::{at, config, ended, launched, node, ready, request, submission};

/// A daemon and its record.
struct Daemon {
    controller: Controller,
    record: Vec<Entry>,
}

impl Daemon {
    fn new(config: Config) -> Daemon {
        let mut daemon = Daemon { controller: ready(config), record: Vec::new() };
        daemon.record_at(at(0), Recorded::Snapshot(Box::new(daemon.controller.snapshot())));
        daemon
    }

    fn record_at(&mut self, now: Now, recorded: Recorded) {
        let seq = self.record.len() as i64 + 1;
        self.record.push(Entry { seq, now, recorded });
    }

    fn step(&mut self, ms: u64, event: Event) -> Vec<Decision> {
        let decisions = self.controller.step(at(ms), event.clone());
        let step = Step { event, decisions: decisions.clone() };
        self.record_at(at(ms), Recorded::Step(step));
        decisions
    }

    fn submit(&mut self, ms: u64, key: u128, queue: &str, cards: u32, priority: u8) -> Vec<Decision> {
        let cards = Some(CardRequest { count: cards, kind: None, slice: None });
        let mut new = submission(key, Request { priority, cards, ..request(1) });
        new.queue = queue.parse().unwrap();
        self.step(ms, Event::Submitted(Box::new(new)))
    }

    /// One that starts at once and is over after a second.
    fn run(&mut self, ms: u64, key: u128) {
        let attempt = launched(&self.submit(ms, key, "default", 1, 50))[0];
        self.step(ms, Event::AttemptStarted { attempt, at: at(ms).wall });
        let end = ended(Outcome::Succeeded, Some(0));
        self.step(ms + 1000, Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end });
    }
}

/// After a bit of everything that is remembered; the last event is at that instant.
fn remembering() -> (Daemon, Now) {
    let mut config = config();
    (config.policy.scheduler, config.policy.preemption) = (Scheduler::FairShare, true);
    config.policy.packing = Packing::Fgd;
    let mut daemon = Daemon::new(config);
    daemon.run(1000, 1);
    daemon.run(3000, 2);
    let victim = launched(&daemon.submit(5000, 3, "default", 4, 10))[0];
    daemon.step(5000, Event::AttemptStarted { attempt: victim, at: at(5000).wall });
    daemon.submit(65_000, 4, "high", 4, 90);
    let end = ended(Outcome::Preempted, None);
    let out = daemon.step(66_000, Event::AttemptEnded { attempt: victim, at: WallTime(i64::MAX), end });
    let why = "groups: no room".to_owned();
    daemon.step(67_000, Event::NeverStarted { attempt: launched(&out)[0], why });
    let actor = Actor::User { uid: Uid(0), name: "ann".into(), admin: true };
    let wish = NodeWish::Drain { why: "its fan is loud".to_owned() };
    let event = Event::NodeWished { node: node().name, card: Some(CardName::Index(3)), actor, wish };
    daemon.step(68_000, event);
    (daemon, at(68_000))
}

/// Where the replay of a record departs from a record of the whole at its end.
fn difference(daemon: &Daemon, now: Now, whole: Snapshot) -> Option<Difference> {
    let mut replay = Replay::default();
    for entry in &daemon.record {
        assert_eq!(replay.take(entry.clone()), None);
    }
    let found = replay.take(Entry { seq: 1000, now, recorded: Recorded::Snapshot(Box::new(whole)) });
    assert_eq!((replay.snapshots, replay.confirmed), (2, u64::from(found.is_none())));
    found
}

/// A part of the whole as it was at first: how it is lost, whether it has changed since, and what is said.
type Part = (fn(&mut Snapshot, &Snapshot), fn(&Snapshot, &Snapshot) -> bool, &'static str);

/// What a daemon that starts finds in the tables.
const WRITTEN: [Part; 8] = [
    (|whole, first| whole.jobs = first.jobs.clone(), |a, b| a.jobs == b.jobs, "by the steps, not recorded"),
    (
        |whole, first| whole.next_number = first.next_number,
        |a, b| a.next_number == b.next_number,
        "the next number",
    ),
    (|whole, first| whole.times = first.times.clone(), |a, b| a.times == b.times, "what the queues have had"),
    (
        |whole, first| whole.usages = first.usages.clone(),
        |a, b| a.usages == b.usages,
        "what the users have had",
    ),
    (|whole, first| whole.mix = first.mix.clone(), |a, b| a.mix == b.mix, "what was asked of cards"),
    (
        |whole, first| whole.history = first.history.clone(),
        |a, b| a.history == b.history,
        "what is learnt of runs",
    ),
    (
        |whole, first| whole.losses = first.losses.clone(),
        |a, b| a.losses == b.losses,
        "what making room has cost",
    ),
    (|whole, first| whole.known = first.known.clone(), |a, b| a.known == b.known, "known of nodes and cards"),
];

#[test]
fn a_record_of_the_whole_that_has_lost_a_part_is_found_out() {
    let (daemon, now) = remembering();
    let whole = daemon.controller.snapshot();
    let Recorded::Snapshot(first) = &daemon.record[0].recorded else { panic!("no snapshot") };
    let later = at(now.boot.0 + 5000);
    for (when, at_start) in [(now, false), (later, true)] {
        assert_eq!(difference(&daemon, when, whole.clone()), None, "nothing is lost");
        for (lose, same, said) in WRITTEN {
            let mut forged = whole.clone();
            lose(&mut forged, first);
            assert!(!same(&whole, first), "{said}: nothing to lose");
            match difference(&daemon, when, forged) {
                Some(Difference::State { seq: 1000, what, at_start: start }) => {
                    assert!(what.contains(said), "{said}: {what}");
                    assert_eq!(start, at_start, "{said}");
                }
                other => panic!("{said}: {other:?}"),
            }
        }
    }
    // Which nodes can start nothing is seen anew by the next daemon.
    let forged = Snapshot { troubles: first.troubles.clone(), ..whole.clone() };
    assert_ne!(whole.troubles, first.troubles);
    let what = "which nodes can start nothing".to_owned();
    assert_eq!(
        difference(&daemon, now, forged.clone()),
        Some(Difference::State { seq: 1000, what, at_start: false })
    );
    assert_eq!(difference(&daemon, later, forged), None);
}

/// Of a single job, too, and of a field that steps have changed.
#[test]
fn a_job_that_is_recorded_as_another_is_found_out() {
    let (daemon, now) = remembering();
    let mut whole = daemon.controller.snapshot();
    let at = whole.jobs.iter().position(|job| job.rare.evictions == 1).unwrap();
    let number = whole.jobs[at].id.number;
    let mut job = (*whole.jobs[at]).clone();
    job.attempts += 1;
    whole.jobs[at] = job.into();
    let what = format!("job {number}: attempts is 1 by the steps, 2 as recorded");
    assert_eq!(difference(&daemon, now, whole), Some(Difference::State { seq: 1000, what, at_start: false }));
}

//! What earlier runs say of a new job: how long it is planned to run, and what it is charged of a card.

use ax_core::config::{Config, LearnMemory};
use ax_core::controller::{Change, Controller, Decision, Event, Needs, Snapshot, Submission, Wish};
use ax_core::id::{JobId, JobNumber};
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::spec::{GpuCount, NodeCount};
use ax_core::job::state::Outcome;
use ax_core::job::{AttemptEnd, Job};
use ax_core::node::Inventory;
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};

use crate::{at, config, ended, launched, owner, ready, request, submission, submit};

/// Submits, starts and ends a job of that name; one job at a time.
struct Runs {
    controller: Controller,
    key: u128,
    ms: u64,
}

impl Runs {
    fn new(config: Config) -> Runs {
        Runs { controller: ready(config), key: 0, ms: 0 }
    }

    fn submission(&mut self, name: &str, request: Request) -> Submission {
        self.key += 1;
        Submission { name: name.into(), ..submission(self.key, request) }
    }

    /// A run from its submission to its end; the job's number.
    fn run(&mut self, name: &str, request: Request, seconds: u64, end: AttemptEnd) -> JobNumber {
        let submission = self.submission(name, request);
        let (id, out) = submit(&mut self.controller, self.ms, submission);
        let attempt = launched(&out)[0];
        self.controller.step(at(self.ms), Event::AttemptStarted { attempt, at: at(self.ms).wall });
        self.ms += 1000 * seconds;
        let now = at(self.ms);
        self.controller.step(now, Event::AttemptEnded { attempt, at: now.wall, end });
        id.number
    }

    fn succeed(&mut self, name: &str, request: Request, seconds: u64) {
        self.run(name, request, seconds, ended(Outcome::Succeeded, Some(0)));
    }

    /// Three runs that use so much of a card.
    fn use_card(&mut self, request: &Request, peak: u64) {
        for _ in 0..3 {
            let end = AttemptEnd { card_peak: Some(Megabytes(peak)), ..ended(Outcome::Succeeded, Some(0)) };
            self.run("train", request.clone(), 10, end);
        }
    }

    fn submit(&mut self, name: &str, request: Request) -> (JobId, Vec<Decision>) {
        let submission = self.submission(name, request);
        submit(&mut self.controller, self.ms, submission)
    }

    fn job(&self, id: JobId) -> &Job {
        self.controller.job(id.number).unwrap()
    }

    fn planned(&self, id: JobId) -> Span {
        self.job(id).attempt.as_ref().unwrap().planned
    }
}

fn slice(mb: u64) -> Request {
    let cards = CardRequest { count: 1, kind: None, slice: Some(Megabytes(mb)) };
    Request { cards: Some(cards), ..request(1) }
}

fn charged(runs: &Runs, id: JobId) -> u64 {
    runs.job(id).request.cards.as_ref().unwrap().slice.unwrap().0
}

#[test]
fn a_job_is_planned_with_what_the_last_two_runs_of_its_thing_took() {
    let mut runs = Runs::new(config());
    runs.succeed("train-1", request(1), 10);
    let (second, _) = runs.submit("train-2", request(1));
    assert_eq!(runs.planned(second), Span::seconds(60), "one run is no habit: its limit");
    runs.succeed("train-3.sh", request(1), 20);
    let (third, _) = runs.submit("train-4", request(1));
    assert_eq!(runs.planned(third), Span::seconds(15));
    assert_eq!(runs.job(third).request.time_limit, Some(Span::seconds(60)), "that still ends it");
    for (name, user, other) in
        [("test", 1000, request(1)), ("train-5", 1000, slice(8000)), ("train-5", 1001, request(1))]
    {
        let submission = Submission { owner: owner(user), ..runs.submission(name, other) };
        let (id, _) = submit(&mut runs.controller, runs.ms, submission);
        assert_eq!(runs.planned(id), Span::seconds(60), "{name} of {user} is another thing");
    }
}

#[test]
fn nobody_is_planned_longer_than_they_say() {
    let mut runs = Runs::new(config());
    for _ in 0..2 {
        runs.succeed("train", request(1), 50);
    }
    let said = |estimate| Request { estimate, ..request(1) };
    let (short, _) = runs.submit("train", said(Some(Span::seconds(30))));
    let (long, _) = runs.submit("train", said(Some(Span::seconds(55))));
    assert_eq!([runs.planned(short), runs.planned(long)], [Span::seconds(30), Span::seconds(50)]);
    let silent = Request { time_limit: None, ..request(1) };
    let (silent, _) = runs.submit("train", silent);
    assert_eq!(runs.planned(silent), Span::seconds(50), "one without a limit stands in nobody's way");
}

#[test]
fn only_runs_that_succeeded_teach() {
    let mut runs = Runs::new(config());
    for outcome in [Outcome::Failed, Outcome::Timeout, Outcome::Cancelled, Outcome::Preempted] {
        let once = Request { requeue: false, ..request(1) };
        runs.run("train", once, 5, ended(outcome, None));
    }
    assert_eq!(runs.controller.history().iter().count(), 0);
}

#[test]
fn learning_can_be_switched_off() {
    let mut off = config();
    (off.policy.learn_length, off.policy.learn_memory) = (false, LearnMemory::Off);
    let mut runs = Runs::new(off);
    runs.use_card(&slice(8000), 20_000);
    let (id, _) = runs.submit("train", slice(8000));
    assert_eq!((runs.planned(id), charged(&runs, id)), (Span::seconds(60), 8000));
}

#[test]
fn a_job_that_came_before_the_runs_ended_is_planned_with_them_when_it_starts() {
    let mut runs = Runs::new(config());
    let hold = Submission { hold: true, ..runs.submission("train", request(1)) };
    let (held, _) = submit(&mut runs.controller, 0, hold);
    for _ in 0..2 {
        runs.succeed("train", request(1), 10);
    }
    let actor = ax_core::job::Actor::Ax;
    let wish = Wish::Release;
    runs.controller.step(at(runs.ms), Event::Wished { job: held, actor, wish, why: None });
    assert_eq!(runs.planned(held), Span::seconds(10));
}

#[test]
fn a_policy_that_is_older_than_the_key_counts_on_what_was_learnt() {
    let mut policy = serde_json::to_value(config().policy).unwrap();
    policy.as_object_mut().unwrap().remove("learnt_ends").unwrap();
    let policy: ax_core::config::Policy = serde_json::from_value(policy).unwrap();
    assert!(policy.learnt_ends, "as the controller did that wrote it");
}

/// Of 8 CPUs 4 are held by a job whose last runs took 10 s and which may take 100, 2 by one that ends after 20 s: who wants
/// 4 has them then, and whoever comes later and takes its time would be in the way.
#[test]
fn who_has_a_place_kept_need_not_wait_because_another_runs_longer_than_its_last_runs() {
    for learnt_ends in [false, true] {
        let mut config = config();
        config.policy.learnt_ends = learnt_ends;
        let mut runs = Runs::new(config);
        for _ in 0..2 {
            runs.succeed("long", request(4), 10);
        }
        let lasting = |cpus, seconds| Request { time_limit: Some(Span::seconds(seconds)), ..request(cpus) };
        let (long, _) = runs.submit("long", lasting(4, 100));
        assert_eq!(runs.planned(long), Span::seconds(10));
        runs.submit("short", lasting(2, 20));
        let (first, out) = runs.submit("first", lasting(4, 60));
        assert!(launched(&out).is_empty());
        let told = runs.controller.explain(at(runs.ms), first.number);
        assert_eq!(told.expected_start, Some(at(runs.ms).wall + Span::seconds(10)), "what is most likely");
        let (_, out) = runs.submit("late", lasting(2, 500));
        assert_eq!(launched(&out).len(), usize::from(learnt_ends));
    }
}

/// Of 8 CPUs 4 are free for 20 s more, then all are kept for one that needs them. One that took 10 s the last two times
/// and declares 100 is let in before that, as long as nobody has waited for the bound for it.
#[test]
fn who_has_waited_for_the_bound_is_passed_by_nobody_who_may_take_longer() {
    for (waited, bound, let_in) in
        [(50, Some(100), true), (100, Some(100), false), (50, Some(40), false), (50, None, false)]
    {
        let mut config = config();
        config.policy.starvation_bound = bound.map(Span::seconds);
        let mut runs = Runs::new(config);
        for _ in 0..2 {
            runs.succeed("short", request(4), 10);
        }
        let lasting = |cpus, seconds| Request { time_limit: Some(Span::seconds(seconds)), ..request(cpus) };
        runs.submit("base", lasting(4, waited + 20));
        let (first, _) = runs.submit("first", lasting(8, 60));
        runs.ms += 1000 * waited;
        let (short, out) = runs.submit("short", lasting(4, 100));
        assert_eq!(launched(&out).len(), usize::from(let_in), "after {waited} s of {bound:?}");
        if !let_in {
            let told = runs.controller.explain(at(runs.ms), short.number);
            let words = told.reasons;
            let due = format!(
                "fits on gpu-01 now, but takes 1m40s by what it says (10s by its last runs, but {first} has waited too \
                 long for that to count) and would delay {first}, which is to start in 20s on gpu-01"
            );
            assert!(words.contains(&due), "{words:?}");
            let (_, out) = runs.submit("short", lasting(4, 15));
            assert_eq!(launched(&out).len(), 1, "what it declares fits");
        }
    }
}

#[test]
fn an_expected_start_that_was_learnt_and_is_over_rests_on_what_is_said() {
    let mut runs = Runs::new(config());
    for _ in 0..2 {
        runs.succeed("train", request(8), 10);
    }
    let (first, _) = runs.submit("train", request(8));
    let attempt = runs.job(first).attempt.as_ref().unwrap().name;
    let started = at(runs.ms);
    runs.controller.step(started, Event::AttemptStarted { attempt, at: started.wall });
    let (next, _) = runs.submit("test", request(8));
    let told = runs.controller.explain(at(runs.ms + 11_000), next.number);
    assert_eq!(told.expected_start, Some(started.wall + Span::seconds(60)));
    assert_eq!(told.basis.unwrap().words(), format!("{first} ends on gpu-01 then, by its time limit"));
}

#[test]
fn an_expected_start_says_that_it_is_learnt() {
    let mut runs = Runs::new(config());
    for _ in 0..2 {
        runs.succeed("train", request(8), 41);
    }
    let (first, _) = runs.submit("train", request(8));
    let attempt = runs.job(first).attempt.as_ref().unwrap().name;
    let now = at(runs.ms);
    runs.controller.step(now, Event::AttemptStarted { attempt, at: now.wall });
    let (next, _) = runs.submit("test", request(8));
    let told = runs.controller.explain(now, next.number);
    assert_eq!(
        told.basis.unwrap().words(),
        format!("{first} ends on gpu-01 then, learnt from its last 2 runs: 41 s")
    );
    assert_eq!(told.expected_start, Some(now.wall + Span::seconds(41)));
}

#[test]
fn a_job_whose_runs_used_more_than_it_asks_for_is_charged_more() {
    let mut runs = Runs::new(config());
    runs.use_card(&slice(10_000), 12_000);
    let (id, out) = runs.submit("train", slice(10_000));
    assert_eq!(charged(&runs, id), 12_600);
    assert_eq!(runs.job(id).learnt.as_ref().unwrap().asked, Some(Megabytes(10_000)));
    let noted = out.iter().find_map(|decision| match decision {
        Decision::Noted { what, .. } => Some(what.as_str()),
        _ => None,
    });
    assert_eq!(noted, Some("asks for 10.5 GB of a card; by its last 3 runs counted with 13.2 GB"));
    let used = runs.controller.nodes().next().unwrap().cards_used()[0].charged;
    assert_eq!(used, Megabytes(12_600));
    // The margin does not take it to a larger card than its peak needs, and no card has more than it has.
    let mut full = Runs::new(config());
    full.use_card(&slice(10_000), 79_000);
    let (id, _) = full.submit("train", slice(10_000));
    assert_eq!(charged(&full, id), 80_000);
}

/// Other cards or nodes are another thing, of which something else is known; and by no way around does one get back to less
/// than is known.
#[test]
fn a_job_that_is_changed_is_charged_by_what_is_known_of_what_it_is_then() {
    let mut runs = Runs::new(config());
    runs.use_card(&slice(10_000), 12_000);
    let node = Inventory { name: "gpu-02".parse().unwrap(), ..crate::node() };
    runs.controller.step(at(runs.ms), Event::NodeRegistered(node));
    let held = Submission { hold: true, ..runs.submission("train", slice(10_000)) };
    let (id, _) = submit(&mut runs.controller, runs.ms, held);
    let was = runs.job(id).clone();
    assert_eq!(charged(&runs, id), 12_600);
    let gpus = |count| Needs { gpus: Some(GpuCount { kind: None, count }), ..Needs::default() };
    let nodes = |count| Needs { nodes: Some(NodeCount { min: count, max: count }), ..Needs::default() };
    let mem = |mb| Needs { mem: Some(Megabytes(mb)), ..Needs::default() };
    let counted = |mb| (mb > 10_000).then_some(Megabytes(10_000));
    for (needs, mb) in [
        (mem(10_000), 12_600),
        (gpus(2), 10_000),
        (gpus(1), 12_600),
        (nodes(2), 10_000),
        (nodes(1), 12_600),
        (mem(9000), 9000),
        (mem(10_000), 12_600),
    ] {
        let wish = Wish::Update(Box::new(Change { needs: needs.clone(), ..Change::default() }));
        let asked = Event::Wished { job: id, actor: ax_core::job::Actor::Ax, wish, why: None };
        let out = runs.controller.step(at(runs.ms), asked);
        let now = runs.job(id).learnt.as_deref().and_then(|learnt| learnt.asked);
        assert_eq!((charged(&runs, id), now), (mb, counted(mb)), "{needs:?}: {out:?}");
    }
    assert_eq!(*runs.job(id), was, "it is what it was");
}

#[test]
fn less_than_it_asks_for_is_charged_only_to_who_agrees() {
    for (policy, agrees, expected) in [
        (LearnMemory::Fit, true, 5250),
        (LearnMemory::Fit, false, 10_000),
        (LearnMemory::Raise, true, 10_000),
    ] {
        let mut config = config();
        config.policy.learn_memory = policy;
        let mut runs = Runs::new(config);
        runs.use_card(&slice(10_000), 5000);
        let (id, _) = runs.submit("train", Request { fit_memory: agrees, ..slice(10_000) });
        assert_eq!(charged(&runs, id), expected, "{policy:?} {agrees}");
    }
}

#[test]
fn who_runs_out_of_less_has_what_it_asked_for_next_and_then_more() {
    let mut config = config();
    config.policy.learn_memory = LearnMemory::Fit;
    let mut runs = Runs::new(config);
    runs.use_card(&slice(10_000), 5000);
    let (id, _) = runs.submit("train", Request { fit_memory: true, retries: 5, ..slice(10_000) });
    let mut asks = Vec::new();
    for _ in 0..2 {
        let attempt = runs.job(id).attempt.as_ref().unwrap().name;
        runs.ms += 20_000;
        let (now, peak) = (at(runs.ms), Some(Megabytes(charged(&runs, id))));
        let end = AttemptEnd { card_peak: peak, ..ended(Outcome::OutOfMemory, None) };
        runs.controller.step(now, Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end });
        runs.ms += 20_000;
        runs.controller.step(at(runs.ms), Event::Tick);
        asks.push(charged(&runs, id));
    }
    assert_eq!(asks, [10_000, 15_000]);
}

#[test]
fn what_was_learnt_outlives_a_restart() {
    let mut runs = Runs::new(config());
    for _ in 0..2 {
        runs.succeed("train", request(1), 10);
    }
    let text = serde_json::to_string(&runs.controller.snapshot()).unwrap();
    runs.controller = Controller::restore(serde_json::from_str::<Snapshot>(&text).unwrap());
    runs.controller.step(at(runs.ms), Event::NodeRegistered(crate::node()));
    let (id, _) = runs.submit("train", request(1));
    assert_eq!(runs.planned(id), Span::seconds(10));
}

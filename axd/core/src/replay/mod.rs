//! A recorded history of a controller: snapshots from time to time, and each step since. Fed to another controller,
//! the steps must give the same decisions, and each later snapshot must be what the steps before it lead to.

mod document;

pub use document::each_entry;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::controller::{Controller, Decision, Event, Known, Snapshot};
use crate::gpu::CardState;
use crate::id::{HostName, JobNumber};
use crate::job::Job;
use crate::job::idle::Idleness;
use crate::job::state::JobState;
use crate::time::Now;

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are steps, and one is there at a time")]
pub enum Recorded {
    /// The whole controller, at the start and from time to time.
    Snapshot(Box<Snapshot>),
    /// One step.
    Step(Step),
    /// Some steps are missing here: replay goes on with the next snapshot.
    Gap,
}

/// What happened and what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What happened.
    pub event: Event,
    /// What followed.
    pub decisions: Vec<Decision>,
}

/// One entry of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place; grows.
    pub seq: i64,
    /// The time that was handed in.
    pub now: Now,
    /// What.
    pub recorded: Recorded,
}

/// Where a replay departs from the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Something else is decided.
    Decisions {
        /// The step.
        seq: i64,
        /// What happened.
        event: Box<Event>,
        /// What was decided then.
        then: Vec<Decision>,
        /// What is decided now.
        now: Vec<Decision>,
    },
    /// The record of the whole holds something else than the steps before it led to.
    State {
        /// The snapshot.
        seq: i64,
        /// What differs.
        what: String,
        /// A daemon began with it: one that was killed before may not have recorded its last steps.
        at_start: bool,
    },
}

/// A record, entry by entry, beside a controller that decides again.
#[derive(Debug, Default)]
pub struct Replay {
    controller: Option<Controller>,
    /// When the last step was.
    last: Option<Now>,
    /// Records of the whole.
    pub snapshots: u64,
    /// Of these, those that the steps before them led to.
    pub confirmed: u64,
    /// Steps that were decided again.
    pub steps: u64,
    /// What they led to.
    pub decisions: u64,
    /// Steps of which it is not known what they began from.
    pub skipped: u64,
    /// Places where steps are missing.
    pub gaps: u64,
}

impl Difference {
    /// Whether nothing but a death can have led to it.
    pub fn is_of_a_killed_daemon(&self) -> bool {
        matches!(self, Difference::State { at_start: true, .. })
    }
}

impl Replay {
    /// Takes the next entry; says where it departs from it. The replay goes on from what was recorded, if it can.
    pub fn take(&mut self, entry: Entry) -> Option<Difference> {
        match entry.recorded {
            Recorded::Gap => {
                self.gaps += 1;
                self.controller = None;
                None
            }
            Recorded::Snapshot(snapshot) => self.begin(entry.seq, entry.now, *snapshot),
            Recorded::Step(step) => self.step(entry.seq, entry.now, step),
        }
    }

    fn begin(&mut self, seq: i64, now: Now, snapshot: Snapshot) -> Option<Difference> {
        self.snapshots += 1;
        // While a daemon runs the whole is recorded with a step.
        let at_start = self.last != Some(now);
        let found = if at_start { Found::AtStart } else { Found::Running };
        let differs = |before: &Controller| what_differs(&before.snapshot(), &snapshot, now, found);
        let what = self.controller.as_ref().map(differs);
        self.controller = Some(Controller::restore(snapshot));
        match what {
            Some(Some(what)) => Some(Difference::State { seq, what, at_start }),
            Some(None) => {
                self.confirmed += 1;
                None
            }
            None => None,
        }
    }

    fn step(&mut self, seq: i64, now: Now, Step { event, decisions }: Step) -> Option<Difference> {
        let Some(controller) = &mut self.controller else {
            self.skipped += 1;
            return None;
        };
        self.steps += 1;
        self.last = Some(now);
        let again = controller.step(now, event.clone());
        self.decisions += again.len() as u64;
        if again == decisions {
            return None;
        }
        // Whatever follows would differ, too.
        self.controller = None;
        Some(Difference::Decisions { seq, event: Box::new(event), then: decisions, now: again })
    }

    /// What the record has led to.
    pub fn controller(&self) -> Option<&Controller> {
        self.controller.as_ref()
    }
}

/// Where a record of the whole was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In a daemon that runs: all of it is what steps led to.
    Running,
    /// In the tables, by a daemon that starts: what is only seen, and seen again by the next daemon, is not there. That
    /// is who has how much memory of cards, for how long cards do nothing, and which nodes can start nothing.
    AtStart,
}

/// What outlives the daemon and differs between what steps led to and what was recorded. Configuration and nodes may be
/// others after a start, numbers of attempts are taken in ranges, jobs that have ended leave memory at a start, and a pause
/// that has passed while a job was held is nothing that anybody writes down.
pub fn what_differs(led_to: &Snapshot, recorded: &Snapshot, now: Now, found: Found) -> Option<String> {
    let (ours, theirs) = (living(led_to, now, found), living(recorded, now, found));
    let numbers: BTreeSet<&JobNumber> = ours.keys().chain(theirs.keys()).collect();
    let mut differing = numbers.into_iter().filter(|number| ours.get(number) != theirs.get(number));
    if let Some(number) = differing.next() {
        let (ours, theirs) = (ours.get(number), theirs.get(number));
        return Some(format!("job {number}: {}", of_job(ours.map(|job| &**job), theirs.map(|job| &**job))));
    }
    if led_to.next_number != recorded.next_number {
        return Some(format!("the next number: {} and {}", led_to.next_number, recorded.next_number));
    }
    let told = |differs: bool, what: &str| differs.then(|| what.to_owned());
    told(led_to.times != recorded.times, "what the queues have had")
        .or_else(|| told(!led_to.usages.remembers_like(&recorded.usages), "what the users have had"))
        .or_else(|| told(led_to.history != recorded.history, "what is learnt of runs"))
        .or_else(|| told(led_to.losses != recorded.losses, "what making room has cost"))
        .or_else(|| told(known(led_to, found) != known(recorded, found), "what is known of nodes and cards"))
        .or_else(|| {
            let differ = found == Found::Running && led_to.troubles != recorded.troubles;
            told(differ, "which nodes can start nothing")
        })
        .or_else(|| told(led_to.mix != recorded.mix, "what was asked of cards"))
}

/// What differs of a job, in words.
fn of_job(led_to: Option<&Job>, recorded: Option<&Job>) -> String {
    match (led_to, recorded) {
        (Some(led_to), Some(recorded)) => {
            let fields = |job: &Job| serde_json::to_value(job).unwrap_or_default();
            let (ours, theirs) = (fields(led_to), fields(recorded));
            let names =
                ours.as_object().into_iter().chain(theirs.as_object()).flat_map(|fields| fields.keys());
            let mut differing = names.filter(|name| ours.get(name) != theirs.get(name));
            let name = differing.next().map_or("", String::as_str);
            let side = |job: &serde_json::Value| job.get(name).cloned().unwrap_or_default().to_string();
            format!("{name} is {} by the steps, {} as recorded", side(&ours), side(&theirs))
        }
        (Some(led_to), None) => format!("{} by the steps, not recorded", led_to.state),
        (None, Some(recorded)) => format!("not there by the steps, {} as recorded", recorded.state),
        (None, None) => String::new(),
    }
}

/// What is known of nodes and cards, without what a daemon that starts has not seen yet.
fn known(snapshot: &Snapshot, found: Found) -> Cow<'_, BTreeMap<HostName, Known>> {
    if found == Found::Running {
        return Cow::Borrowed(&snapshot.known);
    }
    let mut all = snapshot.known.clone();
    for known in all.values_mut() {
        known.cards.values_mut().for_each(|state| *state = state.lasting());
        known.cards.retain(|_, state| *state != CardState::default());
    }
    all.retain(|_, known| *known != Known::default());
    Cow::Owned(all)
}

/// The jobs that a restart needs, without pauses that have passed, and what only somebody who looks on can know.
fn living<'s>(snapshot: &'s Snapshot, now: Now, found: Found) -> BTreeMap<JobNumber, Cow<'s, Job>> {
    let lives = |job: &&Job| !job.state.is_final() || job.state == JobState::FailedUnknownState;
    let rested = |job: &Job| job.rare.backoff_until.is_some_and(|until| until <= now.boot);
    let idle = |job: &Job| job.attempt.as_deref().is_some_and(|attempt| !attempt.idle.is_none());
    let kept = |job: &'s Job| {
        let mut kept = Cow::Borrowed(job);
        // It follows from the configuration, and is not written down.
        if kept.bounds.is_some() {
            kept.to_mut().bounds = None;
        }
        if rested(job) {
            kept.to_mut().rare.change(|rare| rare.backoff_until = None);
        }
        if found == Found::AtStart
            && idle(job)
            && let Some(attempt) = &mut kept.to_mut().attempt
        {
            attempt.idle = Idleness::default();
        }
        kept
    };
    snapshot.jobs.iter().map(|job| &**job).filter(lives).map(|job| (job.id.number, kept(job))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::controller::Troubles;
    use crate::gpu::Health;
    use crate::id::Epoch;
    use crate::size::Megabytes;

    fn of_card(state: CardState) -> Snapshot {
        let known = Known { cards: BTreeMap::from([("card-0".to_owned(), state)]), drained: None };
        let known = BTreeMap::from([("gpu-01".parse().unwrap(), known)]);
        Snapshot { known, ..Controller::new(Config::default()).snapshot() }
    }

    #[test]
    fn what_a_daemon_only_saw_is_no_difference_at_the_next_one_s_start() {
        let differs = |a: &Snapshot, b: &Snapshot, found| what_differs(a, b, Now::default(), found).is_some();
        let nothing = Controller::new(Config::default()).snapshot();
        let seen =
            of_card(CardState { foreign: Megabytes(900), free: Some(Megabytes(7)), ..CardState::default() });
        assert!(!differs(&seen, &nothing, Found::AtStart));
        assert!(differs(&seen, &nothing, Found::Running));
        let drained = of_card(CardState { health: Health::Drained, ..CardState::default() });
        assert!(differs(&drained, &nothing, Found::AtStart), "what a person said is written down");
        let troubled = Snapshot { troubles: Troubles::since(Epoch(7)), ..nothing.clone() };
        assert!(!differs(&troubled, &nothing, Found::AtStart));
        assert!(differs(&troubled, &nothing, Found::Running));
    }
}

//! What was recorded of a controller: the whole of it from time to time, and each step since. Fed to another one, the
//! same must be decided again, and every later record of the whole must be what the steps before it lead to.

mod document;

pub use document::each_entry;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::controller::{Controller, Decision, Event, Snapshot};
use crate::id::JobNumber;
use crate::job::Job;
use crate::job::state::JobState;
use crate::time::Now;

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        let what = self.controller.as_ref().map(|before| what_differs(&before.snapshot(), &snapshot, now));
        self.controller = Some(Controller::restore(snapshot));
        match what {
            // While a daemon runs the whole is recorded with a step.
            Some(Some(what)) => Some(Difference::State { seq, what, at_start: self.last != Some(now) }),
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

/// What outlives the daemon and differs between what steps led to and what was recorded. Configuration and nodes may be
/// others after a start, numbers of attempts are taken in ranges, jobs that have ended leave memory at a start, and a pause
/// that has passed while a job was held is nothing that anybody writes down.
pub fn what_differs(led_to: &Snapshot, recorded: &Snapshot, now: Now) -> Option<String> {
    let (ours, theirs) = (living(led_to, now), living(recorded, now));
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
        .or_else(|| told(led_to.known != recorded.known, "what is known of nodes and cards"))
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

/// The jobs that a restart needs, without pauses that have passed.
fn living(snapshot: &Snapshot, now: Now) -> BTreeMap<JobNumber, Cow<'_, Job>> {
    let lives = |job: &&Job| !job.state.is_final() || job.state == JobState::FailedUnknownState;
    let rested = |job: &Job| job.backoff_until.is_some_and(|until| until <= now.boot);
    let kept = |job| match rested(job) {
        true => Cow::Owned(Job { backoff_until: None, ..Job::clone(job) }),
        false => Cow::Borrowed(job),
    };
    snapshot.jobs.iter().map(|job| &**job).filter(lives).map(|job| (job.id.number, kept(job))).collect()
}

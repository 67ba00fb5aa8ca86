//! From the decision that an attempt starts to its supervisor: the user is looked up, the launching thread starts it,
//! and reports.

use std::collections::VecDeque;

use ax_core::controller::Event;
use ax_core::id::AttemptName;
use ax_core::job::state::Outcome;
use ax_core::job::{AttemptEnd, Job};
use ax_core::node::Allocation;
use ax_core::time::Span;
use ax_sys::pidfd::PidFd;
use ax_sys::socket;

use super::{Engine, now};
use crate::containment::Containment;
use crate::launch::{LaunchError, Launched};
use crate::launcher::{News, Order};
use crate::log::{Level, Line};
use crate::people::{NoPerson, Person};

/// A launch that is decided and not carried out yet.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) attempt: AttemptName,
    pub(super) number: u32,
    pub(super) allocation: Allocation,
}

/// Launches for which the launching thread has no room yet, in their order.
pub(super) type Queued = VecDeque<Launch>;

/// What keeps jobs together, and apart from what is not theirs.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// Where attempts have their groups, as records name that.
    pub(super) parents: Vec<String>,
    /// What can't be had of control groups here.
    pub(super) missing: Vec<String>,
    /// Why jobs are not fenced off from other cards, if they should be.
    pub(super) unfenced: Option<String>,
}

impl Isolation {
    /// With the groups that can be had here.
    pub(super) fn of(containment: &Containment) -> Isolation {
        let Containment { parents, missing, .. } = containment;
        Isolation { parents: parents.clone(), missing: missing.clone(), unfenced: None }
    }
}

impl Engine {
    /// Starts an attempt, after those that were decided before.
    pub(super) fn launch(&mut self, launch: Launch) {
        if self.supervision.launcher.has_room() && self.supervision.queued.is_empty() {
            self.launch_now(launch);
        } else {
            self.supervision.queued.push_back(launch);
        }
    }

    /// Starts an attempt as soon as its user is known.
    fn launch_now(&mut self, launch: Launch) {
        let Some(job) = self.controller.job(launch.attempt.job.number) else { return };
        let uid = job.owner.uid;
        match self.clients.people.get(uid, now().boot).cloned() {
            None => {
                self.clients.parked.launches.push((uid, launch));
                self.worker.look_up(uid);
            }
            Some(Err(error @ NoPerson::Unknown(_))) => self.launch_failed(launch.attempt, error.to_string()),
            Some(Err(error @ NoPerson::CannotAsk(..))) => self.not_started(launch.attempt, error.to_string()),
            Some(Ok(person)) if person.name != job.owner.name => {
                let error =
                    format!("user {uid} is {} now and was {} at submission", person.name, job.owner.name);
                self.launch_failed(launch.attempt, error);
            }
            Some(Ok(person)) => self.order(launch, person),
        }
    }

    /// Hands an attempt to the launching thread. Requests to its supervisor are possible from now on: it reads them
    /// when it runs.
    fn order(&mut self, launch: Launch, person: Person) {
        let Launch { attempt, number, allocation } = launch;
        let Some(job) = self.controller.job(attempt.job.number).cloned() else { return };
        if self.row_data.nameless.contains(&attempt)
            && let Ok(Some(details)) = self.reader.details(attempt.job.number)
        {
            self.name_files(attempt, number, allocation.node.as_str(), &details);
        }
        let ours_and_theirs = socket::message_pair().and_then(|(ours, theirs)| {
            self.supervision.attempts.expect(&self.poller, attempt, ours)?;
            Ok(theirs)
        });
        let theirs = match ours_and_theirs {
            Ok(theirs) => theirs,
            Err(error) => return self.not_started(attempt, format!("starting {attempt}: {error}")),
        };
        let spare = self.lend_spare(attempt, number);
        self.supervision.launcher.launch(Order {
            attempt,
            number,
            limit: self.limit_of(&job),
            job,
            parts: self.row_data.parts.remove(&attempt.job.number),
            config: self.controller.shared_config(),
            person,
            cpu_list: self.local.cpu_list(&allocation.cpus),
            cards: self.local.inventory.cards.clone(),
            grants: self.driver_grants(&allocation),
            mps: self.mps_card(&allocation),
            spare,
            node_epoch: self.local.inventory.epoch,
            theirs,
            allocation,
        });
    }

    /// How long its running attempt may take.
    fn limit_of(&self, job: &Job) -> Option<Span> {
        let start = job.attempt.as_ref().map_or_else(|| now().wall, |attempt| attempt.assigned_at);
        self.controller.limit_from(job, start)
    }

    /// Takes in what became of launches, and goes on with those that wait for room.
    pub(super) fn on_launched(&mut self) {
        while let Some(news) = self.supervision.launcher.next() {
            match news {
                News::Launched(attempt, Ok(Launched { process, told, unfenced })) => {
                    self.watch(attempt, process);
                    self.cards_unfenced(unfenced, told.is_some());
                    self.tell_of_cards(attempt, told);
                }
                News::Launched(attempt, Err(error)) => {
                    self.supervision.attempts.abandon(&self.poller, attempt);
                    match error {
                        LaunchError::Job(why) => self.launch_failed(attempt, why),
                        LaunchError::Node(why) => self.not_started(attempt, why),
                    }
                }
                News::Renewed(Ok(())) => {}
                News::Renewed(Err(error)) => {
                    self.log.line(Level::Error, &Line::new("groups").text("error", &error));
                }
            }
        }
        while self.supervision.launcher.has_room() {
            let Some(launch) = self.supervision.queued.pop_front() else { return };
            self.launch_now(launch);
        }
    }

    fn watch(&mut self, attempt: AttemptName, process: PidFd) {
        if let Err(error) = self.supervision.attempts.launched(&self.poller, attempt, process) {
            // It runs all the same; its records will say how it goes on.
            self.log.line(Level::Error, &Line::new("watch").text("attempt", &attempt).text("error", &error));
            self.settle(attempt);
        }
    }

    /// Adds to the job's story what the job was told of its cards.
    fn tell_of_cards(&mut self, attempt: AttemptName, told: Option<String>) {
        let Some(text) = told else { return };
        let line = Line::new("cards").text("attempt", &attempt).text("what", &text);
        self.log.line(Level::Info, &line);
        self.note(attempt.job.number, text);
    }

    /// Shown with the node, and logged once, until a job with cards is fenced.
    fn cards_unfenced(&mut self, why: Option<String>, has_cards: bool) {
        match why {
            Some(why) => {
                let text = format!("jobs can open cards that they were not given: {why}");
                if self.isolation.unfenced.is_none() {
                    self.log.line(Level::Warning, &Line::new("notice").text("text", &text));
                }
                self.isolation.unfenced = Some(text);
            }
            None if has_cards => self.isolation.unfenced = None,
            None => {}
        }
    }

    /// Takes a launch back that the launching thread does not have yet. Returns whether there was one.
    pub(super) fn take_back(&mut self, attempt: AttemptName) -> bool {
        let before = self.supervision.queued.len() + self.clients.parked.launches.len();
        self.supervision.queued.retain(|launch| launch.attempt != attempt);
        self.clients.parked.launches.retain(|(_, launch)| launch.attempt != attempt);
        self.supervision.queued.len() + self.clients.parked.launches.len() < before
    }

    /// This node could not start it: a full disk, no free process. That is not the job's fault, and it waits again.
    pub(super) fn not_started(&mut self, attempt: AttemptName, why: String) {
        let line = Line::new("not_started").text("attempt", &attempt).text("error", &why);
        self.log.line(Level::Error, &line);
        self.happened(Event::NeverStarted { attempt, why });
    }

    fn launch_failed(&mut self, attempt: AttemptName, error: String) {
        self.log
            .line(Level::Error, &Line::new("launch_failed").text("attempt", &attempt).text("error", &error));
        let end = AttemptEnd {
            outcome: Outcome::LaunchFailed,
            exit_code: None,
            signal: None,
            message: Some(error),
            card_peak: None,
        };
        self.happened(Event::AttemptEnded { attempt, at: now().wall, end });
    }
}

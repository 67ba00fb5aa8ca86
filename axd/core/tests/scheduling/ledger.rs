//! What can be known from the events and decisions alone: who holds what of which node since when and until when,
//! who is held back, who was evicted how often.

use std::collections::{BTreeMap, BTreeSet};

use ax_core::config::Config;
use ax_core::controller::{Decision, Event, NodeWish, Wish};
use ax_core::gpu::{CardName, CardState, Health};
use ax_core::id::{AttemptName, Epoch, HostName, JobNumber, QueueName};
use ax_core::job::state::{Cause, JobState, Outcome};
use ax_core::job::{Job, request::Request};
use ax_core::node::{Allocation, Card, Inventory};
use ax_core::time::{BootTime, Now, Span, WallTime};

use crate::world::Seen;

/// What an attempt holds of a node.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// The attempt.
    pub(crate) name: AttemptName,
    /// Its job's queue.
    pub(crate) queue: QueueName,
    /// What it was given.
    pub(crate) allocation: Allocation,
    /// By number of the card, in megabytes.
    pub(crate) charges: Vec<(u32, u64)>,
    /// When it was decided, or began.
    pub(crate) since: WallTime,
    /// When its script began.
    pub(crate) began: Option<WallTime>,
    /// For how long others have to count on its place being taken.
    pub(crate) taken_for: Span,
    /// When it last said that its work is safe.
    pub(crate) checkpoint: Option<WallTime>,
    /// That its end was asked for, and as what.
    pub(crate) ending: Option<Outcome>,
    /// It is over there, and not on other nodes.
    pub(crate) gone: bool,
}

/// What is known of a job beside its own words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Where its last move led.
    pub(crate) state: Option<JobState>,
    /// Somebody's hold is on it.
    pub(crate) hold: bool,
    /// No start before this, which has not come yet.
    pub(crate) begin: Option<WallTime>,
    /// No start before this, after a failure.
    pub(crate) backoff: Option<BootTime>,
    /// Times that it was evicted.
    pub(crate) evictions: u32,
    /// What evictions left of its work.
    pub(crate) saved: Span,
    /// Retries so far.
    pub(crate) retries: u32,
    /// Attempts so far.
    pub(crate) attempts: u32,
}

/// The whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// In force.
    pub(crate) config: Config,
    /// Nodes, in the order of their names.
    pub(crate) nodes: BTreeMap<HostName, Inventory>,
    /// What is held; of several nodes on the first.
    pub(crate) held: BTreeMap<Epoch, Held>,
    /// On the others.
    pub(crate) others: BTreeMap<Epoch, Vec<Held>>,
    /// Jobs.
    pub(crate) jobs: BTreeMap<JobNumber, Known>,
    /// Attempts that are over.
    pub(crate) closed: BTreeSet<Epoch>,
    /// What was last said of cards, by node and UUID.
    pub(crate) cards: BTreeMap<(HostName, String), CardState>,
    /// Nodes that are out of use.
    pub(crate) drained: BTreeSet<HostName>,
}

/// What is said of a job's length: by its owner, or by its last runs if that is less.
pub(crate) fn said(job: &Job) -> Option<Span> {
    let declared = job.request.estimate.or(job.request.time_limit);
    match (declared, job.learnt.as_ref().and_then(|learnt| learnt.length)) {
        (Some(declared), Some(learnt)) => Some(declared.min(learnt)),
        (declared, learnt) => declared.or(learnt),
    }
}

/// How long a job is planned to run.
pub(crate) fn planned(job: &Job, config: &Config) -> Span {
    let unplanned = config.policy.task_timeout.unwrap_or(Span::seconds(86_400));
    let all = said(job).unwrap_or(unplanned);
    if job.rare.saved.0 == 0 { all } else { Span(all.0.saturating_sub(job.rare.saved.0).max(1000)) }
}

/// How long it runs by what it declares, where that is more than is planned.
pub(crate) fn declared(job: &Job, config: &Config) -> Span {
    let unplanned = config.policy.task_timeout.unwrap_or(Span::seconds(86_400));
    let all = job.request.estimate.or(job.request.time_limit).unwrap_or(unplanned);
    planned(job, config).max(Span(all.0.saturating_sub(job.rare.saved.0)))
}

/// Whether what was learnt of others does not count any more before the place that is kept for a job.
pub(crate) fn is_firm(job: &Job, config: &Config, now: WallTime) -> bool {
    let since = job.request.begin.map_or(job.submitted_at, |begin| begin.max(job.submitted_at));
    match config.policy.starvation_bound {
        Some(bound) => now.0 >= since.0 + bound.0 as i64,
        None => !config.policy.learnt_ends,
    }
}

/// For how long others count on the place of a running job: as long as it says, though its last runs were shorter.
fn taken_for(job: &Job, config: &Config) -> Span {
    let declared = job.request.estimate.or(job.request.time_limit).filter(|_| !config.policy.learnt_ends);
    let left = declared.map(|all| Span(all.0.saturating_sub(job.rare.saved.0)));
    planned(job, config).max(left.unwrap_or_default())
}

impl Ledger {
    /// Takes a step in. Each decision is shown with how things stood before it.
    pub(crate) fn follow(&mut self, seen: &Seen<'_>, check: &mut dyn FnMut(&Ledger, &Decision)) {
        self.take_events(seen);
        self.take_decisions(seen, check);
    }

    /// What happened.
    pub(crate) fn take_events(&mut self, seen: &Seen<'_>) {
        for event in seen.events {
            self.happened(seen, event);
        }
        // A clock that is set back later changes nothing about it.
        for known in self.jobs.values_mut() {
            known.begin = known.begin.filter(|begin| *begin > seen.now.wall);
        }
    }

    /// What was decided.
    pub(crate) fn take_decisions(&mut self, seen: &Seen<'_>, check: &mut dyn FnMut(&Ledger, &Decision)) {
        for decision in seen.out {
            check(self, decision);
            self.decided(seen, decision);
        }
    }

    fn happened(&mut self, seen: &Seen<'_>, event: &Event) {
        match event {
            Event::ConfigLoaded(config) => self.config = Config::clone(config),
            Event::NodeRegistered(inventory) => {
                self.nodes.insert(inventory.name.clone(), inventory.clone());
            }
            Event::CardsUsed { attempt, peak } => {
                let slice = self.request(seen, attempt.job.number).and_then(|r| r.cards.as_ref()?.slice);
                for held in self.parts_mut(attempt.epoch).filter(|_| slice.is_some_and(|s| *peak > s)) {
                    for (_, charge) in &mut held.charges {
                        *charge = peak.0.max(*charge);
                    }
                }
            }
            Event::Checkpointed { attempt, at } => {
                for held in self.parts_mut(attempt.epoch) {
                    held.checkpoint = Some((*at).min(seen.now.wall));
                }
            }
            Event::AttemptStarted { attempt, at } if moved(seen, attempt.job.number, Cause::Confirmed) => {
                for held in self.parts_mut(attempt.epoch) {
                    (held.since, held.began) = (*at, Some(*at));
                }
            }
            Event::Submitted(submission) => {
                let accepted = |d: &Decision| match d {
                    Decision::Accepted { key, job } if *key == submission.key => Some(job.number),
                    _ => None,
                };
                if let Some(number) = seen.out.iter().find_map(accepted) {
                    let (hold, begin) = (submission.hold, submission.request.begin);
                    self.jobs.insert(number, Known { hold, begin, ..Known::default() });
                }
            }
            Event::Wished { job, wish, .. } if !refused(seen) => self.wished(job.number, wish),
            Event::CardChanged { node, uuid, state } if self.nodes.contains_key(node) => {
                let known = self.cards.entry((node.clone(), uuid.clone())).or_default();
                // Only a person gives a drained card back.
                let health = if known.health == Health::Drained { known.health } else { state.health };
                *known = CardState { health, ..state.clone() };
            }
            Event::NodeWished { node, card, wish, .. } if !refused(seen) => {
                self.node_wished(node, card.as_ref(), *wish == NodeWish::Resume);
            }
            _ => {}
        }
    }

    fn wished(&mut self, job: JobNumber, wish: &Wish) {
        let known = self.jobs.entry(job).or_default();
        match wish {
            Wish::Hold => known.hold = true,
            Wish::Release => known.hold = false,
            Wish::Update(change) => known.begin = change.begin.unwrap_or(known.begin),
            _ => {}
        }
    }

    fn node_wished(&mut self, node: &HostName, card: Option<&CardName>, resume: bool) {
        let Some(card) = card else {
            if resume {
                self.drained.remove(node)
            } else {
                self.drained.insert(node.clone())
            };
            return;
        };
        let card = self.nodes[node].cards.iter().find(|one| card.is(one)).unwrap();
        let known = self.cards.entry((node.clone(), card.uuid.clone())).or_default();
        known.health = if resume { Health::Healthy } else { Health::Drained };
    }

    /// What others than jobs hold of a card; nothing: it is given to nobody.
    pub(crate) fn of_others(&self, node: &HostName, card: &Card) -> Option<u64> {
        let Some(known) = self.cards.get(&(node.clone(), card.uuid.clone())) else { return Some(0) };
        let bound = self.config.resources.gpu_foreign_bound;
        let fit = known.health == Health::Healthy && known.foreign.0 + known.unexplained.0 < bound.0;
        fit.then_some(known.taken.0)
    }

    fn decided(&mut self, seen: &Seen<'_>, decision: &Decision) {
        match decision {
            Decision::Moved { job, to, .. } => {
                self.jobs.entry(job.number).or_default().state = Some(*to);
            }
            Decision::Launch { attempt, allocation, others, .. } => {
                let first = self.part(seen, *attempt, allocation);
                let others: Vec<Held> = others.iter().map(|part| self.part(seen, *attempt, part)).collect();
                self.jobs.entry(attempt.job.number).or_default().attempts += 1;
                self.held.insert(attempt.epoch, first);
                self.others.insert(attempt.epoch, others);
            }
            Decision::PartClosed { attempt, node, .. } => {
                for held in self.parts_mut(attempt.epoch).filter(|held| held.allocation.node == *node) {
                    assert!(!held.gone, "{attempt} ends twice on {node}");
                    held.gone = true;
                }
            }
            Decision::Terminate { attempt, outcome, .. } => {
                for held in self.parts_mut(attempt.epoch) {
                    held.ending.get_or_insert(*outcome);
                }
            }
            Decision::Closed { attempt, end, .. } => {
                let Some(held) = self.held.remove(&attempt.epoch) else { return };
                self.others.remove(&attempt.epoch);
                self.closed.insert(attempt.epoch);
                let retry = self.request(seen, attempt.job.number).map(|r| (r.retries, r.retry_delay));
                let known = self.jobs.entry(attempt.job.number).or_default();
                match end.outcome {
                    Outcome::Preempted => {
                        known.evictions += 1;
                        let kept =
                            held.checkpoint.zip(held.began).map_or(Span(0), |(safe, began)| safe - began);
                        known.saved = known.saved + kept;
                    }
                    Outcome::Failed | Outcome::OutOfMemory => {
                        if let Some((most, delay)) = retry.filter(|(most, _)| known.retries < *most) {
                            known.backoff = Some(seen.now.boot + Span(delay.0 << known.retries));
                            known.retries = (known.retries + 1).min(most);
                        }
                    }
                    Outcome::LaunchFailed if known.attempts >= 2 => {
                        known.backoff = Some(seen.now.boot + Span::seconds(1 << (known.attempts - 2).min(6)));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn part(&self, seen: &Seen<'_>, name: AttemptName, allocation: &Allocation) -> Held {
        let mem = |index| {
            self.nodes[&allocation.node].cards.iter().find(|c| c.index == index).map_or(0, |c| c.mem.0)
        };
        let charges = allocation
            .cards
            .iter()
            .map(|c| (c.index, c.slice.map_or_else(|| mem(c.index), |s| s.0)))
            .collect();
        let job = seen.controller.job(name.job.number).expect("what is launched is there");
        Held {
            name,
            queue: job.queue.clone(),
            allocation: allocation.clone(),
            charges,
            since: seen.now.wall,
            began: None,
            taken_for: taken_for(job, &self.config),
            checkpoint: None,
            ending: None,
            gone: false,
        }
    }

    fn parts_mut(&mut self, epoch: Epoch) -> impl Iterator<Item = &mut Held> {
        let others = self.others.get_mut(&epoch).into_iter().flatten();
        self.held.get_mut(&epoch).into_iter().chain(others)
    }

    /// What an attempt was given of its nodes.
    pub(crate) fn parts(&self, epoch: Epoch) -> impl Iterator<Item = &Held> {
        self.held.get(&epoch).into_iter().chain(self.others.get(&epoch).into_iter().flatten())
    }

    /// All that is held.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Held> {
        self.held.values().chain(self.others.values().flatten()).filter(|held| !held.gone)
    }

    fn request<'s>(&self, seen: &Seen<'s>, job: JobNumber) -> Option<&'s Request> {
        seen.controller.job(job).map(|job| &*job.request)
    }

    /// What is held of a node.
    pub(crate) fn on<'a>(&'a self, node: &'a HostName) -> impl Iterator<Item = &'a Held> {
        self.all().filter(move |held| held.allocation.node == *node)
    }

    /// Jobs of a queue that hold something.
    pub(crate) fn active(&self, queue: &QueueName) -> usize {
        self.held.values().filter(|held| held.queue == *queue).count()
    }

    /// Whether somebody was asked to make room and is not gone yet.
    pub(crate) fn evicting(&self) -> bool {
        self.held.values().any(|held| held.ending == Some(Outcome::Preempted))
    }
}

impl Held {
    /// When it will be gone, as far as is known.
    pub(crate) fn until(&self, now: Now) -> WallTime {
        let given_back = self.since + self.taken_for;
        if given_back > now.wall { given_back } else { now.wall + Span::seconds(1) }
    }
}

/// Whether a job moved for that cause.
fn moved(seen: &Seen<'_>, number: JobNumber, why: Cause) -> bool {
    seen.out.iter().any(
        |d| matches!(d, Decision::Moved { job, cause: Some(cause), .. } if job.number == number && *cause == why),
    )
}

/// Whether what was asked was refused.
pub(crate) fn refused(seen: &Seen<'_>) -> bool {
    seen.out.iter().any(|decision| matches!(decision, Decision::Refused { .. }))
}

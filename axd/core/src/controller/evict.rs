//! Making room for urgent jobs: who is ended for them, and the places that they leave, kept until all have gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::explain::jobs_in_words;
use crate::explain::started::Chosen;
use crate::hostlist::compress;
use crate::id::{HostName, JobId, JobNumber};
use crate::job::bounds::Asks;
use crate::job::spec::PreemptMode;
use crate::job::state::Outcome;
use crate::job::{Actor, Attempt, Claim, ClaimedPart, Job};
use crate::node::{Allocation, AttemptKey, Company, Node};
use crate::schedule::gang::Places;
use crate::schedule::losses::{Losses, hour_of};
use crate::schedule::order::ShapeId;
use crate::schedule::placement::Place;
use crate::schedule::preempt::{Battlefield, Eviction, Loss, make_room};
use crate::schedule::timeline::{Reservation, Timeline};
use crate::size::Megabytes;
use crate::time::{Now, WallTime};

use super::blocked::Blocked;
use super::bounds::Turns;
use super::places::UserPlaces;
use super::{Controller, Decision};

/// So many of those that are ended are named.
const NAMED: usize = 8;

/// Why a running job is not ended for one that is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spared {
    /// It is too urgent itself.
    Urgent,
    /// It says so.
    Protected,
    /// It may not be started again.
    NotAgain,
    /// It has been ended for others too often.
    Often,
}

impl Spared {
    /// In words, to stand behind a number of jobs.
    pub(crate) fn words(self, jobs: u32) -> String {
        let (is, has) = if jobs == 1 { ("is", "has") } else { ("are", "have") };
        match self {
            Spared::Urgent => format!("{is} too urgent (policy.preempt_gap)"),
            Spared::Protected => "may not be ended (--preempt)".to_owned(),
            Spared::NotAgain => "may not be started again (--no-requeue)".to_owned(),
            Spared::Often => format!("{has} been ended for others too often (policy.max_preemptions)"),
        }
    }
}

/// Who holds something where an urgent job could run, and why they are not ended for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spares {
    /// Attempts.
    pub(crate) jobs: u32,
    /// Nodes.
    pub(crate) nodes: u32,
    /// Those of the jobs that may not be ended.
    pub(crate) why: BTreeMap<Spared, u32>,
}

impl Controller {
    /// The places that victims are leaving for a job.
    pub(super) fn claimed(&self, job: &Job) -> Option<Places> {
        let claim = job.rare.claim.as_ref()?;
        let place = |part: &ClaimedPart| {
            let node = self.nodes.position(&part.node)?;
            let has = &self.nodes.as_slice()[node].inventory.cards;
            let card = |(index, charge): &(u32, _)| {
                Some((has.iter().position(|card| card.index == *index)?, *charge))
            };
            let cards: Vec<_> = part.cards.iter().map(card).collect::<Option<_>>()?;
            let first = cards.first().and_then(|(at, _)| has.get(*at));
            let company = first.map_or(Company::default(), |card| {
                Asks::from(job).company(card, self.config.resources.gpu_reserve)
            });
            Some(Place { node, cards, company })
        };
        let others = claim.others.iter().map(place).collect::<Option<_>>()?;
        Some(Places { first: place(&claim.first)?, others })
    }

    /// Urgent jobs whose victims have gone start in their places.
    pub(super) fn settle_claims(&mut self, now: Now, out: &mut Vec<Decision>) {
        for number in self.claims.clone() {
            let Some((job, claim)) = self.job(number).and_then(|job| Some((job, job.rare.claim.as_ref()?)))
            else {
                continue;
            };
            let owner = job.owner.uid;
            // What was made free stays kept until something can be started there.
            if claim.parts().any(|part| self.is_in_trouble(&part.node, owner))
                && self.starts_nothing(now, owner)
            {
                continue;
            }
            let places = self.claimed(job);
            let holds = |node: &Node| claim.victims.iter().any(|victim| node.held().contains_key(victim));
            if claim.parts().filter_map(|part| self.nodes.get(&part.node)).any(holds) {
                continue;
            }
            let fits = |places: &Places| {
                let node = |place: &Place| self.nodes.as_slice().get(place.node);
                places.iter().all(|place| node(place).is_some_and(|node| self.still_fits(job, node, place)))
            };
            let victims = claim.victims.len();
            let limits = || Turns::default().take(&self.limits, job).is_ok();
            let may = || {
                self.startable(&job.queue, &[])
                    && self.user_limit(job, &UserPlaces::default()).is_none()
                    && limits()
            };
            let places = places.filter(|places| may() && fits(places));
            match places {
                Some(places) => {
                    self.drop_claim(number);
                    self.assign(now, number, &places, Chosen::MadeRoom(victims), out);
                    self.try_one_on(now, &places, owner);
                }
                None => self.give_up_claim(number, out),
            }
        }
    }

    fn drop_claim(&mut self, number: JobNumber) {
        self.claims.remove(&number);
        if let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) {
            job.rare.change(|rare| rare.claim = None);
        }
    }

    /// A job can't have the room that was made for it. Noted so that the job is written down without its claim.
    fn give_up_claim(&mut self, number: JobNumber, out: &mut Vec<Decision>) {
        self.drop_claim(number);
        if let Some(job) = self.job(number).map(|job| job.id) {
            let what = "can't have the room that was made for it".to_owned();
            out.push(Decision::Noted { job, actor: Actor::Ax.name().into(), what });
        }
    }

    /// Nobody counts any more on what was to be free on a node.
    pub(super) fn drop_claims_on(&mut self, node: &HostName, out: &mut Vec<Decision>) {
        let on = |claim: &Claim| claim.parts().any(|part| part.node == *node);
        let there = |job: &&Job| job.rare.claim.as_deref().is_some_and(on);
        let jobs = self.claims.iter().filter_map(|number| self.job(*number));
        let dropped: Vec<JobNumber> = jobs.filter(there).map(|job| job.id.number).collect();
        for number in dropped {
            self.give_up_claim(number, out);
        }
    }

    fn still_fits(&self, job: &Job, node: &Node, place: &Place) -> bool {
        let has = &node.inventory;
        let reserve = self.config.resources.gpu_reserve;
        let room = |(at, _): &(usize, Megabytes)| {
            let (used, asks) = (*node.cards_used().get(*at)?, Asks::from(job));
            Some(()).filter(|()| asks.may_have(node, &has.cards[*at]))?;
            node.withheld()[*at].fit(&has.cards[*at], used, asks, reserve)
        };
        node.drained().is_none()
            && node.cpus_used() + has.cpus_for(&job.request) <= has.cpus
            && node.ram_used() + has.ram_for(&job.request) <= has.ram
            && place.cards.iter().all(|card| room(card).is_some())
    }

    pub(super) fn find_victims(
        &self,
        now: Now,
        job: &Job,
        shape: ShapeId,
        timeline: &Timeline,
        blocked: &mut Blocked,
    ) -> Option<Eviction> {
        // Whoever can't make others go could not if it were less urgent either.
        if job.request.priority < blocked.worth(shape, timeline.lengths()).from_priority {
            return None;
        }
        // They may take that long, and it may be too late for it then.
        let when_gone = now.wall + self.config.policy.kill_wait;
        if self.opens(job, when_gone) != Some(when_gone) {
            return None;
        }
        let claims: Vec<&Reservation> = timeline.iter().filter(|r| r.from <= now.wall).collect();
        let rests = |node: &Node| self.is_in_trouble(&node.inventory.name, job.owner.uid);
        let fields = self.nodes.iter().enumerate().filter_map(|(position, node)| {
            // Nobody is ended for a start that will most likely come to nothing.
            if !node.inventory.admits(&job.request) || rests(node) {
                return None;
            }
            let kept = claims.iter().copied().filter(|r| r.node == position).collect();
            let candidates = self.victims_on(now.wall, node, job);
            Some(Battlefield { position, node, kept, candidates })
        });
        let least = make_room(fields, job, self.config.resources.gpu_reserve);
        // Whoever's starts come to nothing says nothing of others'.
        if least.is_none() && !self.nodes.iter().any(rests) {
            blocked.of_mut(shape).no_victims_below = job.request.priority.saturating_add(1);
        }
        least
    }

    /// Who on a node may be ended for a job, and what that would lose.
    fn victims_on(&self, now: WallTime, node: &Node, urgent: &Job) -> BTreeMap<AttemptKey, Loss> {
        let candidate = |key: &AttemptKey| {
            let job = self.jobs.get(self.by_epoch.get(key)?)?;
            let attempt = job.attempt.as_ref().filter(|a| !a.is_going())?;
            if self.spared_from(job, urgent).is_some() {
                return None;
            }
            let start = attempt.started_at.unwrap_or(attempt.assigned_at);
            let lost = now - attempt.checkpoint_at.unwrap_or(start);
            let work = self.card_millionths(attempt) * u128::from(lost.0);
            Some((*key, Loss { work, started: std::cmp::Reverse(start.0), job: u64::from(job.id.number.0) }))
        };
        node.held().keys().filter_map(candidate).collect()
    }

    /// Why a running job may not be ended for another, if so.
    fn spared_from(&self, job: &Job, urgent: &Job) -> Option<Spared> {
        let policy = &self.config.policy;
        if urgent.request.priority < job.request.priority.saturating_add(policy.preempt_gap) {
            return Some(Spared::Urgent);
        }
        match job.request.preempt {
            PreemptMode::Suspend | PreemptMode::Never => return Some(Spared::Protected),
            PreemptMode::Requeue if !job.request.requeue => return Some(Spared::NotAgain),
            PreemptMode::Requeue | PreemptMode::Cancel => {}
        }
        (job.rare.evictions >= policy.max_preemptions).then_some(Spared::Often)
    }

    /// Who holds something where a job could run, and why they are not ended for it.
    pub(crate) fn spares(&self, urgent: &Job) -> Spares {
        let reserve = self.config.resources.gpu_reserve;
        let could = |node: &&Node| node.drained().is_none() && node.could_ever_hold(urgent, reserve);
        let mut found = Spares::default();
        for node in self.nodes.iter().filter(could) {
            found.nodes += 1;
            let jobs = node.held().keys().filter_map(|key| self.jobs.get(self.by_epoch.get(key)?));
            for job in jobs {
                found.jobs += 1;
                if let Some(why) = self.spared_from(job, urgent) {
                    *found.why.entry(why).or_default() += 1;
                }
            }
        }
        found
    }

    /// Cards' worth of what an attempt holds on all of its nodes, in millionths.
    fn card_millionths(&self, attempt: &Attempt) -> u128 {
        let of = |part: &Allocation| Some(card_millionths(self.nodes.get(&part.node)?, part));
        attempt.parts().filter_map(of).sum()
    }

    /// Whether jobs may be ended for others now.
    pub(super) fn may_evict(&self) -> bool {
        self.config.policy.preemption && self.no_evictions_until().is_none()
    }

    /// The work that evictions may cost in an hour, if that is limited.
    pub(crate) fn eviction_budget(&self) -> Option<u128> {
        let percent = u128::from(self.config.policy.preempt_budget);
        (self.config.policy.preemption && percent < 100).then(|| hour_of(&self.nodes) * percent / 100)
    }

    /// If they have cost more than that within an hour: when they no longer have.
    pub(crate) fn no_evictions_until(&self) -> Option<WallTime> {
        self.losses.over_until(self.eviction_budget()?)
    }

    /// What making room has cost lately.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    pub(super) fn evict(&mut self, now: Now, urgent: JobNumber, eviction: Eviction, out: &mut Vec<Decision>) {
        let Eviction { victims, places, loss } = eviction;
        let Some(id) = self.jobs.get(&urgent).map(|job| job.id) else { return };
        let part = |place: &Place| {
            let has = &self.nodes.as_slice().get(place.node)?.inventory;
            let cards = place.cards.iter().map(|(at, charge)| (has.cards[*at].index, *charge)).collect();
            Some(ClaimedPart { node: has.name.clone(), cards })
        };
        let others: Option<Vec<ClaimedPart>> = places.others.iter().map(part).collect();
        let (Some(first), Some(others)) = (part(&places.first), others) else { return };
        // From here on they go.
        self.losses.add(now.wall, loss);
        let claim = Claim { first, others, victims: victims.clone() };
        let hosts = compress(&claim.parts().map(|part| part.node.as_str()).collect::<Vec<_>>());
        let what = self.ended_in_words(&victims, &hosts);
        let message = format!("makes room for {id}, which is more urgent");
        for number in
            victims.iter().filter_map(|victim| self.by_epoch.get(victim).copied()).collect::<Vec<_>>()
        {
            self.end_attempt(number, Outcome::Preempted, &Actor::Ax, message.clone(), out);
        }
        if let Some(job) = self.jobs.get_mut(&urgent).map(Arc::make_mut) {
            job.rare.change(|rare| rare.claim = Some(Box::new(claim)));
            self.claims.insert(urgent);
        }
        // Noted so that the claim is written down with the job.
        out.push(Decision::Noted { job: id, actor: Actor::Ax.name().into(), what });
    }
}

impl Controller {
    /// `ends ax-2026-0001 and ax-2026-0002 on gpu-01 to make room for it`.
    fn ended_in_words(&self, victims: &[AttemptKey], hosts: &str) -> String {
        let ids = victims.iter().filter_map(|victim| self.job_of_epoch(*victim));
        let ids: Vec<JobId> = ids.take(NAMED).collect();
        match victims.is_empty() {
            true => format!("takes the place on {hosts} that was kept for others"),
            false => format!("ends {} on {hosts} to make room for it", jobs_in_words(&ids, victims.len())),
        }
    }
}

/// Cards' worth of what is held of a node, in millionths: a part of a card by its memory.
fn card_millionths(node: &Node, held: &Allocation) -> u128 {
    let part = |share: &crate::node::CardShare| {
        let card = node.inventory.cards.iter().find(|card| card.is_of(share, &node.inventory.name))?;
        let slice = share.slice.unwrap_or(card.mem);
        Some(u128::from(slice.0) * 1_000_000 / u128::from(card.mem.0.max(1)))
    };
    let cards: u128 = held.cards.iter().filter_map(part).sum();
    if cards > 0 {
        return cards;
    }
    // Without cards: by its part of the node's CPUs, all of which are worth all of its cards.
    let whole = node.inventory.cards.len().max(1) as u128 * 1_000_000;
    held.cpus.len() as u128 * whole / u128::from(node.inventory.cpus.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::controller::{Event, Submission};
    use crate::id::{SubmissionKey, Uid};
    use crate::job::Owner;
    use crate::job::request::Request;
    use crate::time::BootTime;

    #[test]
    fn who_is_not_ended_costs_nothing() {
        let mut controller = Controller::new(Config::default());
        let now = Now { boot: BootTime(1), wall: WallTime(1) };
        let owner = Owner { uid: Uid(1), name: "li".into() };
        let (queue, request) = ("default".parse().unwrap(), Request::plain(1, Megabytes(1)));
        let submission = Submission::new(SubmissionKey(1), owner, "job", queue, 2026, request);
        controller.step(now, Event::Submitted(Box::new(submission)));
        // There is no node at all, and no job of the second number.
        let nowhere = Place { node: 0, cards: Vec::new(), company: Company::default() };
        for number in [JobNumber(1), JobNumber(2)] {
            let eviction = Eviction { victims: vec![7], places: nowhere.clone().into(), loss: 5 };
            let mut out = Vec::new();
            controller.evict(now, number, eviction, &mut out);
            assert_eq!((out.len(), controller.losses().sum()), (0, 0));
        }
    }
}

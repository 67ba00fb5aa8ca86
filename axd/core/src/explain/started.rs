//! Why a job was started, and why there: the line that its attempt keeps.

use crate::config::{Packing, Scheduler};
use crate::controller::Controller;
use crate::id::JobNumber;
use crate::job::Job;
use crate::job::request::Request;
use crate::node::Allocation;
use crate::schedule::order::{ShapeId, Waiting};
use crate::text::{count, listed};

/// So many kinds of jobs that were passed over are told apart; the line stays a line.
const KINDS: usize = 3;

/// How a job came to be started.
#[derive(Debug, Clone, Copy)]
pub enum Chosen<'a> {
    /// It was next in the order, after these were passed over.
    Next(&'a PassedOver),
    /// So many others were ended to make room for it.
    MadeRoom(usize),
}

/// The jobs that a pass looked at before and did not start, thinned: those that wait for the same are one.
#[derive(Debug, Clone, Default)]
pub struct PassedOver {
    kinds: Vec<(ShapeId, JobNumber, u64)>,
    others: u64,
}

impl PassedOver {
    /// One more.
    pub fn add(&mut self, waiting: &Waiting) {
        if let Some((_, _, count)) = self.kinds.iter_mut().find(|(shape, _, _)| *shape == waiting.shape) {
            *count += 1;
        } else if self.kinds.len() < KINDS {
            self.kinds.push((waiting.shape, waiting.number, 1));
        } else {
            self.others += 1;
        }
    }
}

impl Chosen<'_> {
    /// How many jobs before it were passed over.
    pub(crate) fn passed(&self) -> u64 {
        match self {
            Chosen::Next(passed) => {
                passed.kinds.iter().map(|(_, _, count)| count).sum::<u64>() + passed.others
            }
            Chosen::MadeRoom(_) => 0,
        }
    }
}

impl Controller {
    /// Why this job, why there, and who was passed over.
    pub(crate) fn why_started(&self, job: &Job, allocation: &Allocation, chosen: Chosen<'_>) -> String {
        let (queue, priority) = (&job.queue, job.request.priority);
        let (there, waited) = (self.why_there(job, allocation), self.outwaited(job));
        match chosen {
            Chosen::MadeRoom(0) => format!(
                "in queue {queue} with priority {priority}, more urgent than those for whom its place was kept; {there}"
            ),
            Chosen::MadeRoom(victims) => {
                let who = count(victims as u64, "job");
                let were = if victims == 1 { "was" } else { "were" };
                format!(
                    "{who} {were} ended to make room for it, of queue {queue} with priority {priority}; {there}"
                )
            }
            Chosen::Next(passed) => match self.passed_in_words(passed) {
                None => format!(
                    "first in queue {queue} with priority {priority}{waited}{}; {there}",
                    self.turn(job)
                ),
                Some(passed) => format!(
                    "in queue {queue} with priority {priority}{waited}, and delays nobody before it; {there}; {passed}"
                ),
            },
        }
    }

    /// That it has waited for so long that it goes before whoever comes now, whatever their priority.
    fn outwaited(&self, job: &Job) -> String {
        let Some(bound) = self.config().policy.starvation_bound else { return String::new() };
        let waited = self.last_seen() - job.request.begin.unwrap_or_default().max(job.submitted_at);
        if waited < bound {
            return String::new();
        }
        format!(", having waited for {waited}, no less than policy.starvation_bound ({bound})")
    }

    /// Why the queue was next, where queues take turns.
    fn turn(&self, job: &Job) -> String {
        let fair = self.config().policy.scheduler == Scheduler::FairShare && self.config().queues.len() > 1;
        let weight = self.config().queue(job.queue.as_str()).map(|queue| queue.priority).filter(|_| fair);
        weight.map_or(String::new(), |weight| format!(", which has had the least for its weight of {weight}"))
    }

    fn why_there(&self, job: &Job, allocation: &Allocation) -> String {
        let cards: Vec<String> = allocation.cards.iter().map(|card| card.index.to_string()).collect();
        let on = match cards.len() {
            0 => String::new(),
            1 => format!(", card {}", cards.join(",")),
            _ => format!(", cards {}", cards.join(",")),
        };
        let choice = self.all_nodes().as_slice().len() > 1 || job.request.cards.is_some();
        let rule = match self.config().policy.packing {
            _ if !choice => "",
            Packing::Best => ", the tightest fit",
            Packing::Fgd => ", where it leaves the least that others can't use",
            Packing::First => ", the first fit",
            Packing::Worst => ", the emptiest",
        };
        let (node, cpus, ram) =
            (&allocation.node, count(allocation.cpus.len() as u64, "CPU"), allocation.ram);
        format!("{node} has {cpus} and {ram} free for it{on}{rule}")
    }

    /// `passed 4 jobs that wait for 2 whole cards, the first is ax-2026-0004`.
    fn passed_in_words(&self, passed: &PassedOver) -> Option<String> {
        let kind = |(_, first, number): &(ShapeId, JobNumber, u64)| {
            let first = self.job(*first)?;
            let wanted = in_words(&first.request);
            Some(match number {
                1 => format!("{}, which waits for {wanted}", first.id),
                more => format!("{} that wait for {wanted}, the first is {}", count(*more, "job"), first.id),
            })
        };
        let mut parts: Vec<String> = passed.kinds.iter().filter_map(kind).collect();
        if passed.others > 0 {
            parts.push(format!("{} that wait for something else", count(passed.others, "job")));
        }
        (!parts.is_empty()).then(|| format!("passed {}", parts.join("; ")))
    }
}

/// What a job waits for, in a few words: its cards, or what it needs without any.
pub(super) fn in_words(request: &Request) -> String {
    let whole_node = if request.exclusive { Some("a whole node".to_owned()) } else { None };
    let cards = request.cards.as_ref().map(|wanted| {
        let kind = wanted.kind.as_ref().map_or(String::new(), |kind| format!("{kind} "));
        match wanted.slice {
            None => count(wanted.count, &format!("whole {kind}card")),
            Some(mem) => format!("{} on {}", mem.of_card(), count(wanted.count, &format!("{kind}card"))),
        }
    });
    let host = || format!("{} and {}", count(request.cpus, "CPU"), request.ram);
    let parts: Vec<String> = [whole_node, cards].into_iter().flatten().collect();
    if parts.is_empty() { host() } else { listed(&parts) }
}

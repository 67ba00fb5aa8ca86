//! Why a job was started, and why there: the line that its attempt keeps.

use crate::config::{Packing, Scheduler};
use crate::controller::Controller;
use crate::hostlist::compress;
use crate::id::JobNumber;
use crate::job::Job;
use crate::job::request::Request;
use crate::node::Allocation;
use crate::schedule::order::{ShapeId, Waiting};
use crate::text::{count, listed};

/// At most so many kinds of jobs that were passed over are told apart, so that it stays a line.
const KINDS: usize = 3;

/// How the pass came to start a job.
#[derive(Debug, Clone, Copy)]
pub enum Chosen<'a> {
    /// It was next in the order, after these jobs were passed over.
    Next(&'a PassedOver),
    /// So many others were ended to make room for it.
    MadeRoom(usize),
}

/// The jobs that a pass looked at before and did not start; those that wait for the same count as one kind.
#[derive(Debug, Clone, Default)]
pub struct PassedOver {
    kinds: Vec<(ShapeId, JobNumber, u64)>,
    others: u64,
}

impl PassedOver {
    /// Adds a job.
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
    pub(crate) fn why_started(
        &self,
        job: &Job,
        given: (&Allocation, &[Allocation]),
        chosen: Chosen<'_>,
    ) -> String {
        let (queue, priority) = (&job.queue, job.request.priority);
        let waited = self.outwaited(job);
        let there = match given {
            (allocation, []) => self.why_there(job, allocation),
            (first, others) => self.why_on_these(job, first, others),
        };
        match chosen {
            Chosen::MadeRoom(0) => format!(
                "in queue {queue} with priority {priority}, more urgent than those for whom its place was kept; {there}"
            ),
            Chosen::MadeRoom(victims) => {
                let who = count(victims as u64, "job");
                let were = if victims == 1 { "was" } else { "were" };
                format!(
                    "in queue {queue} with priority {priority}; {who} {were} ended to make room for it; {there}"
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

    /// Says if it has waited for so long that it goes before every new job, whatever their priority.
    fn outwaited(&self, job: &Job) -> String {
        let Some(bound) = self.config().policy.starvation_bound else { return String::new() };
        let waited = self.last_seen() - job.request.begin.unwrap_or_default().max(job.submitted_at);
        if waited < bound {
            return String::new();
        }
        format!(
            ", having come {} ago, no less than policy.starvation_bound ({})",
            waited.in_words(),
            bound.in_words()
        )
    }

    /// Says why the queue was next, where queues take turns and jobs of another one wait.
    fn turn(&self, job: &Job) -> String {
        let fair = self.config().policy.scheduler == Scheduler::FairShare && self.others_wait(&job.queue);
        let weight = self.config().queue(job.queue.as_str()).map(|queue| queue.priority).filter(|_| fair);
        weight.map_or(String::new(), |weight| {
            format!(
                "; of the queues with jobs that wait its queue has had the least for its weight of {weight}"
            )
        })
    }

    /// `gpu-[01-02] give it 8 CPUs and 64 GB each, the tightest fits`.
    fn why_on_these(&self, job: &Job, first: &Allocation, others: &[Allocation]) -> String {
        let parts = || std::iter::once(first).chain(others);
        let hosts = compress(&parts().map(|part| part.node.as_str()).collect::<Vec<_>>());
        let numbers = |part: &Allocation| {
            part.cards.iter().map(|card| card.index.to_string()).collect::<Vec<String>>().join(",")
        };
        let on = |part: &Allocation| format!("{} {}", part.node, numbers(part));
        let cards = match job.request.cards {
            None => String::new(),
            Some(_) => format!(", cards {}", listed(&parts().map(on).collect::<Vec<_>>())),
        };
        let rule = match self.config().policy.packing {
            Packing::Best => ", the tightest fits",
            Packing::Fgd => ", where it leaves the least that others can't use",
            Packing::First => ", the first fits",
            Packing::Worst => ", the emptiest",
        };
        let (cpus, ram) = (count(first.cpus.len() as u64, "CPU"), first.ram);
        format!("{hosts} give it {cpus} and {ram} each{cards}{rule}")
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
        format!("{node} gives it {cpus} and {ram}{on}{rule}")
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

/// What a job waits for, in a few words: its cards, or what it needs if it asks for none.
pub(super) fn in_words(request: &Request) -> String {
    let each = of_each(request);
    match request.several() {
        None => each,
        Some(nodes) => format!("{nodes} nodes with {each}"),
    }
}

/// The same for each of its nodes.
pub(super) fn of_each(request: &Request) -> String {
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

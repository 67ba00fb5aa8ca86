//! How a simulation went: waits, slowdown, use of the cards, fairness and waste, for all and by queue and user.
//!
//! Wait: first start − arrival. Bounded slowdown: response / the larger of runtime and 10 s, at least 1. Percentiles
//! by nearest rank. A job's share: cards × the part of the largest card that it asks for.

use std::collections::BTreeMap;

use super::run::{End, Fate, Run};
use super::service::share;
use super::workload::{Task, Workload};
use crate::time::Span;

/// Shorter jobs count as this long where waits are compared with lengths.
const BOUND: Span = Span::seconds(10);
/// Jobs are urgent from here on.
const HIGH: u8 = 70;
/// Jobs can wait below this.
const LOW: u8 = 30;

/// Values of many jobs, in one unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stats {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95 of 100 are not larger.
    pub p95: f64,
    /// Largest.
    pub max: f64,
}

impl Stats {
    /// Of no values all are 0.
    pub fn of(mut values: Vec<f64>) -> Stats {
        values.sort_by(f64::total_cmp);
        let Some(&max) = values.last() else { return Stats::default() };
        let count = values.len();
        let ranked = |percent: usize| values[(percent * count).div_ceil(100).max(1) - 1];
        Stats { mean: values.iter().sum::<f64>() / count as f64, p50: ranked(50), p95: ranked(95), max }
    }

    fn named(&self) -> [(&'static str, f64); 4] {
        [("mean", self.mean), ("p50", self.p50), ("p95", self.p95), ("max", self.max)]
    }
}

/// A number of things, or a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Things.
    Count(u64),
    /// A measure; times are seconds.
    Real(f64),
}

/// How some of the jobs fared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// Jobs.
    pub jobs: u64,
    /// Those that succeeded.
    pub done: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those that were never taken.
    pub rejected: u64,
    /// Attempts that ran out of memory.
    pub oom: u64,
    /// Attempts that made room for others.
    pub evicted: u64,
    /// Useful work, in cards × seconds.
    pub work: f64,
    /// Work thrown away, of the useful work; infinite if there was none.
    pub waste: f64,
    /// Waits of those that succeeded, in seconds.
    pub wait: Stats,
    /// Bounded slowdowns of those that succeeded.
    pub slowdown: Stats,
}

/// Jobs of one class of priority.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Class {
    /// Jobs.
    pub jobs: u64,
    /// Waits of those that started, in seconds.
    pub wait: Stats,
    /// Those that succeeded by the horizon, of all.
    pub done: f64,
}

/// The measures of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    /// All jobs.
    pub all: Part,
    /// From the first arrival to the last end, in seconds.
    pub makespan: f64,
    /// Card-time with at least one attempt, of all.
    pub busy: f64,
    /// Memory-time asked for by running jobs, of all.
    pub mem: f64,
    /// The same of what they really used.
    pub true_mem: f64,
    /// Jain's index of what queues got of what they were due, while they competed.
    pub jain: f64,
    /// The largest difference of what a queue got and was due, of all.
    pub share_dev: f64,
    /// Urgent jobs.
    pub high: Class,
    /// Jobs that can wait.
    pub low: Class,
    /// By queue.
    pub queues: BTreeMap<String, Part>,
    /// By user.
    pub users: BTreeMap<String, Part>,
}

type Case<'a> = (&'a Task, &'a Fate);

impl Metrics {
    /// Measures a run of a workload; what was done by the horizon counts from the first arrival.
    pub fn of(workload: &Workload, run: &Run, horizon: Option<Span>) -> Metrics {
        let cases: Vec<Case<'_>> = workload.tasks.iter().zip(&run.fates).collect();
        let first = workload.tasks.iter().map(|task| task.arrive).min().unwrap_or_default();
        let last = cases.iter().filter_map(|(_, fate)| ended(fate)).max().unwrap_or(first);
        let makespan = Span(last.0.saturating_sub(first.0));
        let capacity = match run.service.capacity(makespan) {
            0.0 => 1000.0,
            capacity => capacity,
        };
        let by = |name: fn(&Task) -> &str| {
            let mut groups: BTreeMap<String, Vec<Case<'_>>> = BTreeMap::new();
            for case in &cases {
                groups.entry(name(case.0).to_owned()).or_default().push(*case);
            }
            groups.into_iter().map(|(name, cases)| (name, part(&cases, run))).collect()
        };
        let class = |wanted: fn(u8) -> bool| {
            let cases = cases.iter().filter(|(task, _)| wanted(task.priority));
            class(&cases.copied().collect::<Vec<_>>(), horizon.map(|horizon| first + horizon))
        };
        Metrics {
            all: part(&cases, run),
            makespan: seconds(makespan),
            busy: run.service.busy() / capacity,
            mem: run.service.asked() / capacity,
            true_mem: run.service.used() / capacity,
            jain: run.service.jain(),
            share_dev: run.service.deviation(),
            high: class(|priority| priority >= HIGH),
            low: class(|priority| priority < LOW),
            queues: by(|task| task.queue.as_str()),
            users: by(|task| &task.user),
        }
    }

    /// All measures of the whole by their names.
    pub fn named(&self) -> Vec<(String, Figure)> {
        let (all, mut out) = (&self.all, Vec::new());
        let mut add = |name: &str, figure| out.push((name.to_owned(), figure));
        for (name, count) in all.counts() {
            add(name, Figure::Count(count));
        }
        for (name, value) in [
            ("makespan", self.makespan),
            ("waste", all.waste),
            ("util_busy", self.busy),
            ("util_mem", self.mem),
            ("util_true", self.true_mem),
            ("jain", self.jain),
            ("share_dev", self.share_dev),
            ("high_done", self.high.done),
            ("low_done", self.low.done),
        ] {
            add(name, Figure::Real(value));
        }
        let stats = [
            ("wait", all.wait),
            ("bsld", all.slowdown),
            ("high_wait", self.high.wait),
            ("low_wait", self.low.wait),
        ];
        for (of, stats) in stats {
            for (name, value) in stats.named() {
                add(&format!("{of}_{name}"), Figure::Real(value));
            }
        }
        out
    }
}

impl Part {
    fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("jobs", self.jobs),
            ("done", self.done),
            ("failed", self.failed),
            ("rejected", self.rejected),
            ("oom", self.oom),
            ("evicted", self.evicted),
        ]
    }

    /// The measures by their names.
    pub fn named(&self) -> Vec<(String, Figure)> {
        let counts = self.counts().map(|(name, count)| (name.to_owned(), Figure::Count(count)));
        let work = [("work", self.work), ("waste", self.waste)];
        let work = work.map(|(name, value)| (name.to_owned(), Figure::Real(value)));
        let stats = [("wait", self.wait), ("bsld", self.slowdown)].into_iter().flat_map(|(of, stats)| {
            stats.named().map(|(name, value)| (format!("{of}_{name}"), Figure::Real(value)))
        });
        counts.into_iter().chain(work).chain(stats).collect()
    }
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1000.0
}

fn ended(fate: &Fate) -> Option<Span> {
    match fate.end {
        End::Done(at) | End::Failed(at) => Some(at),
        End::Open | End::Rejected(_) => None,
    }
}

fn wait((task, fate): &Case<'_>) -> Option<f64> {
    fate.first_start.map(|start| seconds(Span(start.0 - task.arrive.0)))
}

fn slowdown((task, fate): &Case<'_>) -> Option<f64> {
    let response = ended(fate)?.0 - task.arrive.0;
    Some((response as f64 / task.runtime.max(BOUND).0 as f64).max(1.0))
}

fn part(cases: &[Case<'_>], run: &Run) -> Part {
    let count = |wanted: fn(&End) -> bool| cases.iter().filter(|(_, fate)| wanted(&fate.end)).count() as u64;
    let done: Vec<&Case<'_>> = cases.iter().filter(|(_, fate)| matches!(fate.end, End::Done(_))).collect();
    let size = run.service.largest();
    let useful = done.iter().map(|(task, fate)| {
        share(task.cards, fate.mem, size) * f64::from(task.nodes) * seconds(task.runtime)
    });
    // A sum of nothing is -0.
    let work: f64 = useful.sum::<f64>() + 0.0;
    let lost: f64 = cases.iter().map(|(_, fate)| fate.lost / 1000.0).sum();
    Part {
        jobs: cases.len() as u64,
        done: done.len() as u64,
        failed: count(|end| matches!(end, End::Failed(_))),
        rejected: count(|end| matches!(end, End::Rejected(_))),
        oom: cases.iter().map(|(_, fate)| u64::from(fate.ooms)).sum(),
        evicted: cases.iter().map(|(_, fate)| u64::from(fate.evictions)).sum(),
        work,
        waste: if lost == 0.0 { 0.0 } else { lost / work },
        wait: Stats::of(done.iter().filter_map(|case| wait(case)).collect()),
        slowdown: Stats::of(done.iter().filter_map(|case| slowdown(case)).collect()),
    }
}

fn class(cases: &[Case<'_>], horizon: Option<Span>) -> Class {
    let in_time = |fate: &Fate| matches!(fate.end, End::Done(at) if horizon.is_none_or(|most| at <= most));
    let done = cases.iter().filter(|(_, fate)| in_time(fate)).count();
    Class {
        jobs: cases.len() as u64,
        wait: Stats::of(cases.iter().filter_map(wait).collect()),
        done: done as f64 / cases.len().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::sim::run::{Options, simulate};
    use crate::sim::workload::Format;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let stats = Stats::of((1..=20).rev().map(f64::from).collect());
        assert_eq!(stats, Stats { mean: 10.5, p50: 10.0, p95: 19.0, max: 20.0 });
        assert_eq!(Stats::of(vec![7.0]), Stats { mean: 7.0, p50: 7.0, p95: 7.0, max: 7.0 });
        assert_eq!(Stats::of(vec![]), Stats::default());
    }

    fn measure(lines: &str, nodes: &str, load: u64) -> Metrics {
        let text = format!("id,arrive,runtime,gpus,mem,mem_true,priority,user\n{lines}");
        let workload = Format::Csv.read(&text, None).unwrap();
        let mut config = Config::default();
        config.policy.retry_count = 3;
        let nodes = nodes.split(',').map(|shape| shape.parse().unwrap()).collect();
        let options =
            Options { config, nodes, history: Vec::new(), tick: Span::ZERO, load: Span::seconds(load) };
        let run = simulate(&workload, &options).unwrap();
        // Just when the first job of either case below is done.
        Metrics::of(&workload, &run, Some(Span::seconds(10)))
    }

    #[test]
    fn two_jobs_one_after_the_other_on_one_of_two_cards() {
        // The second, urgent, waits 8 s for the pair of cards; it ends 20 s after the first arrival at 2 s.
        let m = measure("1,2,10,1,,,20,a\n2,4,8,2,,,80,b\n3,4,1,3,,,50,b\n", "2x100", 0);
        assert_eq!((m.all.jobs, m.all.done, m.all.rejected, m.makespan), (3, 2, 1, 18.0));
        assert_eq!((m.all.wait.mean, m.all.wait.max), (4.0, 8.0));
        // 10 / 10 and (8 + 8) / 10.
        assert!((m.all.slowdown.mean - 1.3).abs() < 1e-12);
        // 10 + 2 × 8 of 2 × 18.
        assert!((m.busy - 26.0 / 36.0).abs() < 1e-12);
        assert_eq!((m.high.wait.mean, m.high.done, m.low.wait.mean, m.low.done), (8.0, 0.0, 0.0, 1.0));
        assert_eq!((m.users["a"].work, m.users["b"].work, m.users["b"].jobs), (10.0, 16.0, 2));
    }

    #[test]
    fn a_job_that_loads_too_much_loses_its_work_and_comes_back() {
        // Both load at 3 s: the first fits, and is counted with 80 from now on; the second does not: 3 s × 0.4 cards lost.
        // It asks for 60 when it is back at 5 s, waits for the first (10 s), and ends at 20 s.
        let m = measure("1,0,10,1,50,80,50,a\n2,0,10,1,40,40,50,a\n", "1x100", 3);
        assert_eq!((m.all.done, m.all.oom, m.makespan), (2, 1, 20.0));
        assert!((m.all.waste - 3.0 * 0.4 / (10.0 * 0.5 + 10.0 * 0.6)).abs() < 1e-12);
        assert!((m.mem - (10.0 * 0.5 + 3.0 * 0.4 + 10.0 * 0.6) / 20.0).abs() < 1e-12);
        assert!((m.true_mem - (10.0 * 0.8 + 13.0 * 0.4) / 20.0).abs() < 1e-12);
    }
}

//! How good expected starts are: compares the first forecast that was told for a job with its real start, summed up
//! by day for a month. Nothing is decided from it.

use std::collections::{BTreeMap, VecDeque};

use ax_core::api::ForecastErrors;
use ax_core::controller::Decision;
use ax_core::id::JobNumber;
use ax_core::time::WallTime;
use serde::{Deserialize, Serialize};

/// So many waiting jobs are followed at a time: those that were told something are the first of the queue.
const FOLLOWED: usize = 1000;
/// So many days are kept.
const DAYS: i64 = 31;
const DAY_MS: i64 = 86_400_000;
/// Errors are told apart by powers of two: below 1 s, 2 s, 4 s, … half a year.
const SIZES: usize = 25;

/// What was told, and how it compared with real starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Forecasts {
    /// What was first told of jobs that still wait.
    open: BTreeMap<JobNumber, WallTime>,
    days: VecDeque<Day>,
    /// Something is not written down yet.
    #[serde(skip)]
    changed: bool,
}

/// The jobs that started on a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Day {
    day: i64,
    late: u64,
    sizes: Vec<u64>,
}

impl Forecasts {
    /// The expected start of a waiting job is told.
    pub fn told(&mut self, job: JobNumber, expected: WallTime) {
        if self.open.len() < FOLLOWED && !self.open.contains_key(&job) {
            self.open.insert(job, expected);
            self.changed = true;
        }
    }

    /// Jobs start, or are over before they did.
    pub fn decided(&mut self, now: WallTime, decisions: &[Decision]) {
        if self.open.is_empty() {
            return;
        }
        for decision in decisions {
            match decision {
                Decision::Launch { attempt, .. } => {
                    if let Some(expected) = self.open.remove(&attempt.job.number) {
                        self.add(now, expected);
                    }
                }
                Decision::Moved { job, to, .. } if to.is_final() => {
                    self.changed |= self.open.remove(&job.number).is_some();
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, now: WallTime, expected: WallTime) {
        self.changed = true;
        let day = now.0.div_euclid(DAY_MS);
        self.days.retain(|old| old.day > day - DAYS);
        if self.days.back().is_none_or(|last| last.day != day) {
            self.days.push_back(Day { day, late: 0, sizes: vec![0; SIZES] });
        }
        let seconds = now.0.abs_diff(expected.0) / 1000;
        let size = (u64::BITS - seconds.leading_zeros()) as usize;
        if let Some(today) = self.days.back_mut() {
            today.late += u64::from(seconds > 0 && now > expected);
            if let Some(count) = today.sizes.get_mut(size.min(SIZES - 1)) {
                *count += 1;
            }
        }
    }

    /// A copy to be written down, if anything has changed since the last one.
    pub(crate) fn changes(&mut self) -> Option<Box<Forecasts>> {
        std::mem::take(&mut self.changed).then(|| Box::new(self.clone()))
    }

    /// The errors of the last month.
    pub fn errors(&self, now: WallTime) -> ForecastErrors {
        let since = now.0.div_euclid(DAY_MS) - DAYS;
        let days: Vec<&Day> = self.days.iter().filter(|day| day.day > since).collect();
        let mut sizes = [0; SIZES];
        for day in &days {
            for (sum, count) in sizes.iter_mut().zip(&day.sizes) {
                *sum += count;
            }
        }
        let jobs: u64 = sizes.iter().sum();
        let within = |percent: u64| {
            let mut seen = 0;
            let reached = |count: &u64| {
                seen += count;
                seen * 100 >= jobs * percent
            };
            let size = sizes.iter().position(reached).filter(|_| jobs > 0)?;
            Some(1 << size)
        };
        ForecastErrors {
            days: DAYS.unsigned_abs(),
            jobs,
            half_within_s: within(50),
            most_within_s: within(90),
            late: days.iter().map(|day| day.late).sum(),
            open: self.open.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::id::{AttemptName, Epoch, JobId};
    use ax_core::job::state::JobState;
    use ax_core::node::Allocation;
    use ax_core::size::Megabytes;
    use std::sync::Arc;

    fn id(number: u32) -> JobId {
        JobId { year: 2026, number: JobNumber(number) }
    }

    fn launch(number: u32) -> Decision {
        Decision::Launch {
            attempt: AttemptName { job: id(number), epoch: Epoch(1) },
            number: 1,
            others: Vec::new(),
            allocation: Allocation {
                node: "n".parse().unwrap(),
                cpus: vec![],
                ram: Megabytes(1),
                cards: vec![],
            },
            why: String::new(),
            passed: 0,
        }
    }

    #[test]
    fn the_first_that_was_told_counts_and_is_compared_with_the_start() {
        let mut forecasts = Forecasts::default();
        let at = |second: i64| WallTime(second * 1000);
        for (job, expected) in [(1, 100), (1, 200), (2, 100), (3, 100), (4, 100)] {
            forecasts.told(JobNumber(job), at(expected));
        }
        assert!(forecasts.changes().is_some() && forecasts.changes().is_none());
        forecasts.decided(at(100), &[launch(1)]);
        forecasts.decided(at(105), &[launch(2), launch(9)]);
        forecasts.decided(at(70), &[launch(3)]);
        let cancelled = Decision::Moved {
            job: id(4),
            from: Some(JobState::Ready),
            to: JobState::Cancelled,
            cause: None,
            actor: Arc::from("li"),
            why: String::new(),
        };
        forecasts.decided(at(70), &[cancelled]);
        // Right, 5 s late, 30 s early: half are within 8 s, nine of ten within 32.
        let errors = ForecastErrors {
            days: 31,
            jobs: 3,
            half_within_s: Some(8),
            most_within_s: Some(32),
            late: 1,
            open: 0,
        };
        assert_eq!(forecasts.errors(at(200)), errors);
        let text = serde_json::to_string(&forecasts).unwrap();
        let again: Forecasts = serde_json::from_str(&text).unwrap();
        assert_eq!(again.errors(at(200)), errors);
        assert_eq!(again.errors(at(32 * 86_400)).jobs, 0);
    }

    #[test]
    fn they_are_not_followed_without_end() {
        let mut forecasts = Forecasts::default();
        for job in 0..5000 {
            forecasts.told(JobNumber(job), WallTime(0));
        }
        assert_eq!(forecasts.errors(WallTime(0)).open, FOLLOWED as u64);
    }
}

//! Figures about the scheduler for people: how long passes take, and what they do. Nothing is decided from them.

use std::time::Duration;

use ax_core::api::{ApiError, DiagView, ErrorClass, PassTimes};
use ax_core::controller::Decision;
use ax_core::job::state::Outcome;
use ax_core::time::WallTime;

use super::{Engine, now};
use crate::api::http::Response;
use crate::api::server::ConnId;
use crate::forecasts::Forecasts;
use crate::people::Person;
use crate::views::About;

/// The length of so many last passes is kept.
const PASSES: usize = 1024;

/// Counts since the start of the daemon.
#[derive(Debug)]
pub(super) struct Measures {
    since: WallTime,
    passes: u64,
    /// Lengths of the last passes in microseconds, as a ring.
    lengths: Vec<u32>,
    starts: u64,
    backfilled: u64,
    evictions: u64,
    ends: u64,
    /// The expected starts that jobs were told.
    pub(super) forecasts: Forecasts,
}

impl Measures {
    pub(super) fn since(since: WallTime, forecasts: Forecasts) -> Measures {
        let (passes, lengths) = (0, Vec::new());
        Measures { since, passes, lengths, starts: 0, backfilled: 0, evictions: 0, ends: 0, forecasts }
    }

    /// An event was answered by a pass.
    pub(super) fn pass(&mut self, now: WallTime, took: Duration, decisions: &[Decision]) {
        let length = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        match self.lengths.get_mut(self.passes as usize % PASSES) {
            Some(old) => *old = length,
            None => self.lengths.push(length),
        }
        self.passes += 1;
        for decision in decisions {
            match decision {
                Decision::Launch { passed, .. } => {
                    self.starts += 1;
                    self.backfilled += u64::from(*passed > 0);
                }
                Decision::Terminate { outcome: Outcome::Preempted, .. } => self.evictions += 1,
                Decision::Closed { .. } => self.ends += 1,
                _ => {}
            }
        }
        self.forecasts.decided(now, decisions);
    }

    fn pass_times(&self) -> PassTimes {
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        let ranked = |percent: usize| {
            let at = (lengths.len() * percent).div_ceil(100).saturating_sub(1);
            lengths.get(at).copied().map_or(0, u64::from)
        };
        PassTimes { of: lengths.len() as u64, p50_us: ranked(50), p99_us: ranked(99), max_us: ranked(100) }
    }
}

impl Engine {
    /// `GET /api/v1/diag`, for administrators: it names jobs of all.
    pub(super) fn diag(&mut self, conn: ConnId, person: &Person) {
        match self.begin_diag(person) {
            Ok(view) => self.view(person.uid, conn, About::Scheduler(Box::new(view))),
            Err(error) => self.respond(conn, &Response::error(&error)),
        }
    }

    /// The figures so far; queues and kept places are added later.
    fn begin_diag(&self, person: &Person) -> Result<DiagView, ApiError> {
        let (config, measures) = (self.controller.config(), &self.measures);
        if !person.is_admin(config) {
            let error = format!("only administrators see how the scheduler fares; you are {}", person.name);
            return Err(ApiError { class: ErrorClass::NoPermission, error });
        }
        Ok(DiagView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: config.cluster.name.clone(),
            since: measures.since,
            scheduler: config.policy.scheduler.word().to_owned(),
            reservations: config.policy.reservations,
            passes: measures.passes,
            pass_times: measures.pass_times(),
            starts: measures.starts,
            backfilled: measures.backfilled,
            evictions: measures.evictions,
            ends: measures.ends,
            queues: Vec::new(),
            kept: Vec::new(),
            forecasts: measures.forecasts.errors(now().wall),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_last_passes() {
        let mut measures = Measures::since(WallTime(0), Forecasts::default());
        assert_eq!(measures.pass_times(), PassTimes::default());
        for length in (0..3000).chain(std::iter::repeat_n(7, 1000)) {
            measures.pass(WallTime(0), Duration::from_micros(length), &[]);
        }
        assert_eq!(measures.pass_times(), PassTimes { of: 1024, p50_us: 7, p99_us: 2989, max_us: 2999 });
    }
}

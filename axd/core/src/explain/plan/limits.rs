//! What is held under limits in the plan: places of queues and users, and sums of cards, CPUs, memory and jobs. A limit
//! is asked as a pass asks it.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::config::{Queue, QueueState};
use crate::controller::Controller;
use crate::id::{JobId, JobNumber, QueueName, Uid};
use crate::job::Job;
use crate::job::bounds::SumId;
use crate::time::{Span, WallTime};

use super::Basis;

/// One limit, for those who count in it together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    /// The jobs that a queue runs.
    Queue(QueueName),
    /// The jobs that a user runs, in a queue or in all.
    User(Uid, Option<QueueName>),
    /// What is held at once.
    Sum(SumId),
}

/// In which limit a job counts, and with how much of how much.
#[derive(Debug, Clone)]
pub(super) struct Count {
    pub(super) limit: Limit,
    max: u64,
    amount: u64,
}

/// The limits in which a job counts, in the order in which a pass asks them.
pub(super) fn counts(controller: &Controller, job: &Job) -> Vec<Count> {
    let config = controller.config();
    let queue = config.queue(job.queue.as_str());
    let most = |queue: &Queue| if queue.state == QueueState::Stopped { Some(0) } else { queue.max_running };
    let of_queue = queue.and_then(most).map(|max| (Limit::Queue(job.queue.clone()), max));
    let user = job.owner.uid;
    let there = queue.and_then(|queue| queue.max_running_per_user);
    let there = there.map(|max| (Limit::User(user, Some(job.queue.clone())), max));
    let in_all = config.policy.max_running_per_user.map(|max| (Limit::User(user, None), max));
    let places = of_queue.into_iter().chain(there).chain(in_all);
    let places = places.map(|(limit, max)| Count { limit, max: u64::from(max), amount: 1 });
    let sums = controller.card_limits().amounts(job);
    places.chain(sums.map(|(id, max, amount)| Count { limit: Limit::Sum(id), max, amount })).collect()
}

impl Limit {
    fn basis(&self, job: JobId) -> Basis {
        match self {
            Limit::Queue(_) => Basis::QueuePlace { job },
            Limit::User(..) => Basis::UserPlace { job },
            Limit::Sum(_) => Basis::LimitPlace { job },
        }
    }
}

/// What is held under one limit at the instant that the plan has come to.
#[derive(Debug, Default)]
struct Held {
    all: u64,
    /// What becomes free, when, and by which job's end.
    ends: BTreeMap<(WallTime, JobNumber), (JobId, u64)>,
    /// The last end, the first of those at that instant.
    ended: Option<(WallTime, JobId)>,
    /// What the pass keeps for those before.
    kept: u64,
    /// Somebody waits for it and lets nobody pass.
    first: bool,
    /// It has kept somebody from starting in the pass.
    bars: bool,
    /// What is held at any instant.
    course: Course,
}

impl Held {
    fn is_full(&self, count: &Count) -> bool {
        self.all + self.kept + count.amount > count.max
    }
}

/// What is held under one limit, now and later.
#[derive(Debug, Default)]
struct Course {
    /// All that is ever held.
    ever: u64,
    /// By how much that changes, and when.
    steps: BTreeMap<WallTime, i128>,
    /// Whose end it is at an instant, the first of those at that instant.
    ends: BTreeMap<WallTime, JobId>,
    /// The first of whom nobody knows how long they hold something.
    unsaid: Option<JobId>,
}

impl Course {
    /// Somebody holds so much.
    fn add(&mut self, holder: &Holder, amount: u64) {
        if amount == 0 {
            return;
        }
        if holder.until.is_none() {
            self.unsaid.get_or_insert(holder.job);
        }
        let until = holder.until.unwrap_or(NEVER);
        self.ever = self.ever.saturating_add(amount);
        *self.steps.entry(holder.from).or_default() += i128::from(amount);
        *self.steps.entry(until).or_default() -= i128::from(amount);
        self.ends.entry(until).or_insert(holder.job);
    }

    /// The first instant, not before `from`, from which on there is room as long as a job runs, and whose end brings
    /// that, if it is later.
    fn room(&self, count: &Count, from: WallTime, length: Span) -> Option<(WallTime, Option<JobId>)> {
        // Most limits are far from full.
        if self.ever.saturating_add(count.amount) <= count.max {
            return Some((from, None));
        }
        let at_first: i128 = self.steps.range(..=from).map(|(_, change)| change).sum();
        let later = self.steps.range((Bound::Excluded(from), Bound::Unbounded));
        let later = later.map(|(at, change)| (*at, *change));
        let mut steps = std::iter::once((from, at_first)).chain(later).peekable();
        let (mut held, mut start) = (i128::from(count.amount), from);
        while let Some((at, change)) = steps.next() {
            held += change;
            if at >= start + length {
                break;
            }
            if held > i128::from(count.max) {
                start = steps.peek().map(|(at, _)| *at).filter(|at| *at < NEVER)?;
            }
        }
        Some((start, self.ends.get(&start).filter(|_| start > from).copied()))
    }
}

/// When those end of whom nobody knows when they end.
const NEVER: WallTime = WallTime(i64::MAX);

/// Somebody who holds something, in the plan.
#[derive(Debug, Clone, Copy)]
struct Holder {
    job: JobId,
    from: WallTime,
    /// `None`: nobody knows.
    until: Option<WallTime>,
}

/// What is held under all limits, now and later.
#[derive(Debug, Default)]
pub(super) struct Limits {
    held: BTreeMap<Limit, Held>,
    holders: Vec<Holder>,
}

impl Limits {
    /// A limit matters to somebody who waits.
    pub(super) fn matter(&mut self, controller: &Controller, counts: &[Count]) {
        for count in counts {
            let holders = &self.holders;
            self.held.entry(count.limit.clone()).or_insert_with_key(|limit| {
                // Others hold something already when jobs that wait for a time of their own come.
                let mut held = Held::default();
                let each =
                    |holder: &Holder| held.course.add(holder, amount_of(controller, holder.job, limit));
                holders.iter().for_each(each);
                held
            });
        }
    }

    /// A job holds what it asks for from then on until its end, if that is known.
    pub(super) fn hold(
        &mut self,
        controller: &Controller,
        job: &Job,
        from: WallTime,
        until: Option<WallTime>,
    ) {
        let holder = Holder { job: job.id, from, until };
        self.holders.push(holder);
        for count in counts(controller, job) {
            let Some(held) = self.held.get_mut(&count.limit) else { continue };
            held.course.add(&holder, count.amount);
            held.all = held.all.saturating_add(count.amount);
            if let Some(until) = until {
                held.ends.insert((until, job.id.number), (job.id, count.amount));
            }
        }
    }

    /// A pass begins: what has ended by then is free.
    pub(super) fn begin(&mut self, at: WallTime) {
        for held in self.held.values_mut() {
            (held.kept, held.first, held.bars) = (0, false, false);
            while let Some(entry) = held.ends.first_entry().filter(|entry| entry.key().0 <= at) {
                let end = entry.key().0;
                let (job, amount) = entry.remove();
                held.all = held.all.saturating_sub(amount);
                if held.ended.is_none_or(|(last, _)| last < end) {
                    held.ended = Some((end, job));
                }
            }
        }
    }

    /// Whether its queue and its user have a place for a job; if not, which of them.
    pub(super) fn places(&mut self, counts: &[Count]) -> Result<(), Limit> {
        for count in counts.iter().filter(|count| !matches!(count.limit, Limit::Sum(_))) {
            let Some(held) = self.held.get_mut(&count.limit).filter(|held| held.is_full(count)) else {
                continue;
            };
            held.bars = true;
            return Err(count.limit.clone());
        }
        Ok(())
    }

    /// Whether the limits on what is held let a job start; if not, which of them. As in a pass, nobody passes who waits
    /// for one, and who is first there keeps what it asks for in those that come before.
    pub(super) fn take(&mut self, counts: &[Count]) -> Result<(), Limit> {
        let sums = || counts.iter().filter(|count| matches!(count.limit, Limit::Sum(_)));
        let mut full: Vec<&Count> = Vec::new();
        let mut behind = false;
        for count in sums() {
            let Some(held) = self.held.get_mut(&count.limit) else { continue };
            if held.first || held.is_full(count) {
                held.bars = true;
                behind |= held.first;
                full.push(count);
            }
        }
        let (Some(least), Some(last)) = (full.first(), full.last()) else { return Ok(()) };
        for count in sums().filter(|_| !behind) {
            let Some(held) = self.held.get_mut(&count.limit) else { continue };
            match held.is_full(count) {
                true => held.first = true,
                false if count.limit < last.limit => held.kept += count.amount,
                false => {}
            }
        }
        Err(least.limit.clone())
    }

    /// A place is kept for a job: in a queue and for a user the pass counts one of these.
    pub(super) fn keep(&mut self, counts: &[Count]) {
        for count in counts {
            let Some(held) = self.held.get_mut(&count.limit) else { continue };
            match count.limit {
                Limit::Sum(_) => held.kept += count.amount,
                Limit::Queue(_) | Limit::User(..) => held.kept = held.kept.max(1),
            }
        }
    }

    /// The next instant at which something becomes free of what has kept somebody from starting.
    pub(super) fn next_end(&self) -> Option<WallTime> {
        let barring = self.held.values().filter(|held| held.bars);
        barring.filter_map(|held| held.ends.first_key_value()).map(|((at, _), _)| *at).min()
    }

    /// What a start rests on that a limit did not allow earlier.
    pub(super) fn basis(&self, limit: &Limit, counts: &[Count], at: WallTime) -> Option<Basis> {
        let ended = |limit: &Limit| {
            let (when, job) = self.held.get(limit)?.ended?;
            (when == at).then(|| limit.basis(job))
        };
        ended(limit).or_else(|| counts.iter().find_map(|count| ended(&count.limit)))
    }

    /// Why a job is never let start, as far as is known.
    pub(super) fn never(&self, counts: &[Count]) -> Basis {
        match counts.iter().find_map(|count| self.held.get(&count.limit)?.course.unsaid) {
            Some(job) => Basis::Unsaid { job },
            None if counts.iter().any(|count| count.amount > count.max) => Basis::Somebody,
            None => Basis::Limit,
        }
    }

    /// The first instant, not before `from`, from which on the limits leave a job what it asks for as long as it runs,
    /// beside all that is planned, and whose end brings that, if it is later.
    pub(super) fn room(
        &self,
        counts: &[Count],
        from: WallTime,
        length: Span,
    ) -> Result<(WallTime, Option<Basis>), Basis> {
        let (mut at, mut basis) = (from, None);
        loop {
            let before = at;
            for count in counts {
                let Some(held) = self.held.get(&count.limit) else { continue };
                let found = held.course.room(count, at, length);
                let (start, job) = found.ok_or_else(|| self.never(std::slice::from_ref(count)))?;
                if start > at {
                    (at, basis) = (start, job.map(|job| count.limit.basis(job)));
                }
            }
            if at == before {
                return Ok((at, basis));
            }
        }
    }
}

/// So much a job holds under a limit.
fn amount_of(controller: &Controller, job: JobId, limit: &Limit) -> u64 {
    let Some(job) = controller.job(job.number) else { return 0 };
    match limit {
        Limit::Queue(queue) => u64::from(job.queue == *queue),
        Limit::User(user, queue) => {
            u64::from(job.owner.uid == *user && queue.as_ref().is_none_or(|queue| job.queue == *queue))
        }
        Limit::Sum(sum) => {
            let mut amounts = controller.card_limits().amounts(job);
            amounts.find(|(id, _, _)| id == sum).map_or(0, |(_, _, amount)| amount)
        }
    }
}

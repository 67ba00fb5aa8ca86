//! Plays a workload: tells the controller what happens, and carries out its decisions at once.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::clock::{Clock, Due, What};
use super::cluster::{Cluster, Place};
use super::submission::Submissions;
use super::{End, Fate, Options, Run, Stay, Stuck};
use crate::controller::{Controller, Decision, Event, Snapshot};
use crate::id::{AttemptName, HostName, JobId};
use crate::job::AttemptEnd;
use crate::job::state::{JobState, Outcome};
use crate::node::Allocation;
use crate::sim::service::{Portion, Service};
use crate::sim::workload::{BEGINNING, Workload};
use crate::size::Megabytes;
use crate::time::{BootTime, Now, Span};

/// The controller may ask for another decision at once so often; more is a loop.
const MOST_ROUNDS: u32 = 100_000;

/// A task on its way.
#[derive(Debug, Clone, Default)]
struct Life {
    fate: Fate,
    job: Option<JobId>,
    /// Work that need not be done again.
    saved: Span,
    attempt: Option<Living>,
}

/// An attempt that runs.
#[derive(Debug, Clone)]
struct Living {
    name: AttemptName,
    part: Part,
    /// On the other nodes.
    others: Vec<Part>,
    from: Span,
    /// What it holds of each card; absent: all.
    slice: Option<Megabytes>,
    loaded: bool,
    /// It will be over its time limit.
    too_long: bool,
}

/// What an attempt has on one node.
#[derive(Debug, Clone)]
struct Part {
    place: Place,
    portion: Portion,
}

impl Living {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.part).chain(&self.others)
    }
}

/// A simulation at one instant.
pub(super) struct Player<'a> {
    workload: &'a Workload,
    options: &'a Options,
    submissions: Submissions,
    controller: Controller,
    cluster: Cluster,
    clock: Clock,
    service: Service,
    now: Span,
    pass_due: Option<Span>,
    lives: Vec<Life>,
    /// Task of each job number, from 1.
    jobs: Vec<usize>,
    stays: Vec<Stay>,
    events: u64,
    /// Tasks that save their work.
    savers: Vec<usize>,
}

/// The tasks that save their work.
fn saving(workload: &Workload) -> Vec<usize> {
    (0..workload.tasks.len()).filter(|task| workload.tasks[*task].checkpoint.is_some()).collect()
}

impl<'a> Player<'a> {
    pub(super) fn new(workload: &'a Workload, options: &'a Options) -> Result<Player<'a>, Stuck> {
        let cluster = Cluster::new(&options.nodes, workload)?;
        let submissions = Submissions::new(workload, options, cluster.inventories())?;
        let history = submissions.history(&options.history);
        let empty = Controller::new(options.config.clone()).snapshot();
        let zone = workload.origin.as_ref().map(|origin| origin.zone.clone()).unwrap_or_default();
        let mut controller = Controller::restore(Snapshot { history, zone, ..empty });
        for inventory in cluster.inventories() {
            controller.apply(moment(Span::ZERO), Event::NodeRegistered(inventory.clone()));
        }
        Ok(Player {
            submissions,
            service: Service::new(&options.nodes, &options.config),
            controller,
            cluster,
            clock: Clock::default(),
            now: Span::ZERO,
            pass_due: None,
            lives: vec![Life::default(); workload.tasks.len()],
            jobs: Vec::new(),
            stays: Vec::new(),
            events: options.nodes.len() as u64,
            savers: saving(workload),
            workload,
            options,
        })
    }

    pub(super) fn play(&mut self) -> Result<(), Stuck> {
        while let Some(at) = self.next_time() {
            self.service.pass(Span(at.0 - self.now.0));
            self.now = at;
            if self.happen() && self.pass_due.is_none() {
                self.pass_due = Some(next_multiple(at, self.options.tick));
            }
            if self.pass_due.is_some_and(|due| due <= at) {
                self.pass_due = None;
                self.decide()?;
            }
        }
        Ok(())
    }

    /// The run, as it was until now.
    pub(super) fn over(self) -> Run {
        Run {
            fates: self.lives.into_iter().map(|life| life.fate).collect(),
            stays: self.stays,
            service: self.service,
            events: self.events,
        }
    }

    /// When something happens next, or the controller wants to decide.
    fn next_time(&self) -> Option<Span> {
        // One that is due and waits for the tick is not looked at again before that.
        let wake = self.wake().filter(|at| *at > self.now || self.pass_due.is_none());
        let next = [self.clock.next(), self.submissions.next(), self.pass_due, wake];
        next.into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// When the controller wants to be told that time has passed.
    fn wake(&self) -> Option<Span> {
        let wake = self.controller.next_wake();
        let wall = wake.wall.map(|at| at - moment(Span::ZERO).wall);
        wake.boot.map(|at| at - BootTime::default()).into_iter().chain(wall).min()
    }

    /// Tells the controller all that happens now; whether there was anything.
    fn happen(&mut self) -> bool {
        let mut any = false;
        while let Some(due) = self.clock.take(self.now) {
            // An attempt that was cut short is no longer what this is about.
            let Some(living) = self.lives[due.task].attempt.as_ref() else { continue };
            if living.name.epoch != due.epoch {
                continue;
            }
            any = true;
            match due.what {
                What::End if living.too_long => self.end(due.task, Outcome::Timeout),
                What::End => self.end(due.task, Outcome::Succeeded),
                What::Load => self.load(due.task),
            }
        }
        if self.wake().is_some_and(|at| at <= self.now) {
            any = true;
            self.tell(Event::Tick);
        }
        while let Some(task) = self.submissions.take(self.now) {
            any |= self.submit(task);
        }
        any
    }

    /// Lets the controller decide until it is content.
    fn decide(&mut self) -> Result<(), Stuck> {
        self.tell_checkpoints();
        for _ in 0..MOST_ROUNDS {
            self.events += 1;
            let decisions = self.controller.step(moment(self.now), Event::Tick);
            self.carry_out(decisions);
            if self.wake().is_none_or(|at| at > self.now) {
                return Ok(());
            }
        }
        Err(Stuck::Restless(self.now.0))
    }

    /// What is safe by now: told when it matters, which is when the controller may end somebody.
    fn tell_checkpoints(&mut self) {
        for at in 0..self.savers.len() {
            let task = self.savers[at];
            let (Some(every), Some(living)) =
                (self.workload.tasks[task].checkpoint, &self.lives[task].attempt)
            else {
                continue;
            };
            let ran = self.now.0 - living.from.0;
            let safe = Span(ran - ran % every.0.max(1));
            if safe > Span::ZERO {
                let (attempt, at) = (living.name, moment(living.from + safe).wall);
                self.tell(Event::Checkpointed { attempt, at });
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.events += 1;
        let decisions = self.controller.apply(moment(self.now), event);
        self.carry_out(decisions);
    }

    fn submit(&mut self, task: usize) -> bool {
        let submission = match self.submissions.make(task, &self.workload.tasks[task], &self.options.config) {
            Ok(submission) => submission,
            Err(why) => {
                self.lives[task].fate.end = End::Rejected(why.into());
                return false;
            }
        };
        self.events += 1;
        let decisions = self.controller.apply(moment(self.now), Event::Submitted(Box::new(submission)));
        let taken = decisions.iter().find_map(|decision| match decision {
            Decision::Accepted { job, .. } => Some(*job),
            _ => None,
        });
        match taken {
            Some(job) => {
                self.lives[task].job = Some(job);
                self.jobs.resize(job.number.0 as usize, task);
            }
            None => self.lives[task].fate.end = End::Rejected(refusal(&decisions)),
        }
        self.carry_out(decisions);
        taken.is_some()
    }

    fn carry_out(&mut self, decisions: Vec<Decision>) {
        let mut open = VecDeque::from(decisions);
        while let Some(decision) = open.pop_front() {
            let follows = match decision {
                Decision::Launch { attempt, allocation, others, .. } => {
                    self.launch(attempt, &allocation, &others).into_iter().collect()
                }
                Decision::Terminate { attempt, outcome, message, .. } => {
                    self.terminate(attempt, outcome, message)
                }
                Decision::Moved { job, from, to, .. } => {
                    self.moved(job, from, to);
                    Vec::new()
                }
                _ => Vec::new(),
            };
            for event in follows {
                self.events += 1;
                open.extend(self.controller.apply(moment(self.now), event));
            }
        }
    }

    /// The task of a job.
    fn task_of(&self, job: JobId) -> Option<usize> {
        self.jobs.get((job.number.0 as usize).checked_sub(1)?).copied()
    }

    fn moved(&mut self, job: JobId, from: Option<JobState>, to: JobState) {
        let Some(task) = self.task_of(job) else { return };
        let queue = &self.workload.tasks[task].queue;
        if from == Some(JobState::Ready) {
            self.service.waits_no_more(queue);
        }
        match to {
            JobState::Ready => self.service.waits(queue),
            JobState::Succeeded => self.lives[task].fate.end = End::Done(self.now),
            _ if to.is_final() => self.lives[task].fate.end = End::Failed(self.now),
            _ => {}
        }
    }

    fn launch(&mut self, name: AttemptName, allocation: &Allocation, others: &[Allocation]) -> Option<Event> {
        let number = self.task_of(name.job)?;
        let place = self.cluster.place(allocation)?;
        let others: Vec<Place> = others.iter().map(|part| self.cluster.place(part)).collect::<Option<_>>()?;
        let job = self.controller.job(name.job.number)?;
        let request = &job.request;
        let (task, life) = (&self.workload.tasks[number], &mut self.lives[number]);
        let remaining = Span(task.runtime.0.saturating_sub(life.saved.0));
        let limit = self.controller.limit_from(job, moment(self.now).wall).filter(|limit| *limit < remaining);
        life.fate.mem = request.cards.as_ref().and_then(|cards| cards.slice);
        life.fate.first_start.get_or_insert(self.now);
        let (cluster, mem) = (&mut self.cluster, life.fate.mem);
        let mut part = |place: Place| {
            let portion = Portion {
                queue: task.queue.clone(),
                size: cluster.card_size(&place),
                cards: task.cards,
                mem,
                mem_true: Some(task.mem_true).filter(|mem| *mem > Megabytes::ZERO),
            };
            self.service.started(&portion, cluster.occupy(&place));
            Part { place, portion }
        };
        let (part, others) = (part(place), others.into_iter().map(&mut part).collect());
        let due = |after: Span, what| Due {
            at: self.now + after,
            what,
            rank: self.submissions.rank(number),
            epoch: name.epoch,
            task: number,
        };
        self.clock.add(due(limit.unwrap_or(remaining), What::End));
        if Span::ZERO < self.options.load && self.options.load < remaining {
            self.clock.add(due(self.options.load, What::Load));
        }
        let slice = allocation.cards.first().and_then(|card| card.slice);
        let (from, too_long) = (self.now, limit.is_some());
        life.attempt = Some(Living { name, part, others, from, slice, loaded: false, too_long });
        Some(Event::AttemptStarted { attempt: name, at: moment(self.now).wall })
    }

    /// An attempt has loaded what it needs: it fits and may be seen, or it fails.
    fn load(&mut self, number: usize) {
        let mem_true = self.workload.tasks[number].mem_true;
        let Some(living) = self.lives[number].attempt.as_mut() else { return };
        let loaded = living.parts().take_while(|part| self.cluster.load(&part.place, mem_true)).count();
        if loaded <= living.others.len() {
            living.parts().take(loaded).for_each(|part| self.cluster.unload(&part.place, mem_true));
            return self.end(number, Outcome::OutOfMemory);
        }
        living.loaded = true;
        if living.slice.is_some_and(|slice| mem_true > slice) {
            let attempt = living.name;
            self.tell(Event::CardsUsed { attempt, peak: mem_true });
        }
    }

    /// The controller ends an attempt: it is over at once.
    fn terminate(&mut self, name: AttemptName, outcome: Outcome, message: String) -> Vec<Event> {
        let Some(number) = self.task_of(name.job) else { return Vec::new() };
        if self.lives[number].attempt.as_ref().is_none_or(|living| living.name != name) {
            return Vec::new();
        }
        self.leave(number, outcome, Some(message))
    }

    fn end(&mut self, number: usize, outcome: Outcome) {
        for event in self.leave(number, outcome, None) {
            self.tell(event);
        }
    }

    /// Takes an attempt off its cards, and says so: it is over on all of its nodes at one instant.
    fn leave(&mut self, number: usize, outcome: Outcome, message: Option<String>) -> Vec<Event> {
        let (task, life) = (&self.workload.tasks[number], &mut self.lives[number]);
        let Some(living) = life.attempt.take() else { return Vec::new() };
        let ran = Span(self.now.0 - living.from.0);
        let loaded = living.loaded.then_some(task.mem_true);
        for part in living.parts() {
            self.service.ended(&part.portion, self.cluster.leave(&part.place, loaded));
        }
        if outcome != Outcome::Succeeded {
            let kept = match task.checkpoint.filter(|_| outcome == Outcome::Preempted) {
                Some(every) => Span(life.saved.0 + ran.0 / every.0 * every.0),
                None => life.saved,
            };
            let thrown_away = (life.saved.0 + ran.0 - kept.0) as f64;
            let share: f64 = living.parts().map(|part| part.portion.share(part.portion.size)).sum();
            life.fate.lost += thrown_away * share;
            life.saved = kept;
        }
        life.fate.ooms += u32::from(outcome == Outcome::OutOfMemory);
        life.fate.evictions += u32::from(outcome == Outcome::Preempted);
        let Living { name, part, others, from, loaded, slice, .. } = living;
        let nodes: Vec<HostName> = others.iter().map(|part| self.cluster.name(&part.place)).collect();
        for Part { place: Place { node, cards }, portion } in std::iter::once(part).chain(others) {
            self.stays.push(Stay {
                task: number,
                node,
                cards,
                mem: portion.mem,
                from,
                to: self.now,
                how: outcome,
            });
        }
        let measured = loaded || outcome == Outcome::OutOfMemory;
        // What did not get all that it needs was not seen to use all of that.
        let reached = slice.filter(|_| !loaded).unwrap_or(task.mem_true);
        let end = AttemptEnd {
            outcome,
            exit_code: (outcome == Outcome::Succeeded).then_some(0),
            signal: None,
            message,
            card_peak: (measured && task.cards > 0).then_some(task.mem_true.min(reached)),
        };
        let (attempt, at) = (name, moment(self.now).wall);
        let of_others =
            nodes.into_iter().map(|node| Event::PartEnded { attempt, node, at, end: end.clone() });
        let of_others: Vec<Event> = of_others.collect();
        std::iter::once(Event::AttemptEnded { attempt, at, end }).chain(of_others).collect()
    }
}

/// Its year, for ids.
pub(super) const YEAR: u16 = 2026;

fn moment(at: Span) -> Now {
    Now { boot: BootTime(at.0), wall: BEGINNING + at }
}

/// The first multiple of the tick that is not before; without a tick, now.
fn next_multiple(at: Span, tick: Span) -> Span {
    if tick == Span::ZERO { at } else { Span(at.0.div_ceil(tick.0) * tick.0) }
}

fn refusal(decisions: &[Decision]) -> Box<str> {
    let why = decisions.iter().find_map(|decision| match decision {
        Decision::Refused { why, .. } => Some(why.as_str()),
        _ => None,
    });
    why.unwrap_or("the controller did not take it").into()
}

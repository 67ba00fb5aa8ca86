//! The launching thread: what a start needs of disks and other processes may take long, and nothing else should wait
//! for it. Attempts are launched in the order in which they were decided.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ax_core::config::{Config, MPS_CONTROL};
use ax_core::gpu::Grant;
use ax_core::id::{AttemptName, JobId};
use ax_core::job::Job;
use ax_core::node::{Allocation, Card};
use ax_core::paths::Paths;
use ax_core::record::{CardLimits, Spare};
use ax_core::time::Span;
use ax_sys::socket::Waker;
use thiserror::Error;

use crate::card_limit::{NoUnifiedTree, command_lines, unified_parent};
use crate::containment::{Containment, RenewError};
use crate::fence::{self, Ground, Tried};
use crate::launch::{LaunchError, Launched, Plan};
use crate::mps;
use crate::people::Person;
use crate::starter::Starter;
use crate::store::{NewParts, Reader, StoreError};

/// Most launches under way: each may have megabytes of a script in memory.
const MOST: usize = 64;

/// An attempt that is to be launched: decided, durable, its user known.
#[derive(Debug)]
pub(crate) struct Order {
    /// The attempt.
    pub attempt: AttemptName,
    /// Its number, from 1.
    pub number: u32,
    /// The resources that it holds.
    pub allocation: Allocation,
    /// Its job.
    pub job: Job,
    /// How long it may run.
    pub limit: Option<Span>,
    /// The submission's parts, if it has come just now; otherwise they are read from the store.
    pub parts: Option<NewParts>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Its submitter.
    pub person: Person,
    /// The kernel's list of its CPUs, where they bind.
    pub cpu_list: Option<String>,
    /// All cards of this node.
    pub cards: Vec<Card>,
    /// What the driver has to enforce.
    pub grants: Vec<Grant>,
    /// The card on which its slice is under MPS.
    pub mps: Option<String>,
    /// Folders that its supervisor need not make.
    pub spare: Option<Spare>,
    /// Lowest node epoch that may start.
    pub node_epoch: u64,
    /// The supervisor's end of a socket.
    pub theirs: OwnedFd,
}

/// What the thread reports.
#[derive(Debug)]
pub(crate) enum News {
    /// The result of an order.
    Launched(AttemptName, Result<Launched, LaunchError>),
    /// The result of renewing the groups.
    Renewed(Result<(), RenewError>),
}

/// A task of the thread.
#[derive(Debug)]
enum Work {
    Launch(Box<Order>, Outcome),
    RenewGroups,
}

/// The loop's end of the thread.
#[derive(Debug)]
pub(crate) struct Launcher {
    orders: Sender<Work>,
    done: Receiver<News>,
    under_way: usize,
}

/// How the loop hears of the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// A supervisor's first word wakes the loop as well: one wake-up less for each job.
    WakesOnFailure,
    /// The loop waits for room.
    Wakes,
}

/// What all orders have in common.
#[derive(Debug)]
pub(crate) struct Site {
    /// Where things lie.
    pub paths: Paths,
    /// The supervisor's program.
    pub starter: Starter,
    /// Where groups go.
    pub containment: Containment,
    /// True if files are given to the submitter; false if the daemon itself runs as that user.
    pub as_root: bool,
    /// The daemon's own program, for supervisors.
    pub axd: PathBuf,
    /// NVML, where it is not in its usual place.
    pub library: Option<PathBuf>,
}

impl Site {
    /// How the supervisor of an attempt has its cards limited.
    fn card_limits(&self, order: &Order) -> Result<Option<CardLimits>, NoUnifiedTree> {
        if order.grants.is_empty() {
            return Ok(None);
        }
        let group = unified_parent(&self.containment.parents)?.join(order.attempt.to_string());
        Ok(command_lines(&self.axd, self.library.as_deref(), &group, &order.grants))
    }

    /// How it has the slice of the attempt put under MPS.
    fn mps(&self, order: &Order) -> Option<mps::Order> {
        let card = order.mps.clone()?;
        let config = &order.config;
        Some(mps::Order {
            attempt: order.attempt,
            folder: self.paths.mps_of(&card),
            card,
            control: config.paths.mps_control.as_deref().unwrap_or(MPS_CONTROL).into(),
            user: order.person.record(),
            leases: self.paths.leases(),
            parents: self.containment.parents.clone(),
            devices: Vec::new(),
            processes: config.policy.max_processes,
        })
    }
}

impl Launcher {
    /// Starts the thread.
    pub(crate) fn start(site: Site, waker: &Arc<Waker>) -> std::io::Result<Launcher> {
        let (orders, to_do) = channel();
        let (report, done) = channel();
        let lane = Lane { site, ground: Tried::default(), reader: None, waker: Arc::clone(waker), report };
        thread::Builder::new().name("launch".to_owned()).spawn(move || lane.work(to_do))?;
        Ok(Launcher { orders, done, under_way: 0 })
    }

    /// True if another order may be given now. If not, the loop is woken when it may.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way < MOST
    }

    /// Hands over an order.
    pub(crate) fn launch(&mut self, order: Order) {
        self.under_way += 1;
        let outcome = if self.under_way > MOST / 2 { Outcome::Wakes } else { Outcome::WakesOnFailure };
        // The thread lives as long as this sender: sending cannot fail before the end.
        let _ = self.orders.send(Work::Launch(Box::new(order), outcome));
    }

    /// A supervisor could not start: before anything else is launched, the groups that it may have missed are made
    /// anew.
    pub(crate) fn renew_groups(&self) {
        let _ = self.orders.send(Work::RenewGroups);
    }

    /// The next thing that is done, if any.
    pub(crate) fn next(&mut self) -> Option<News> {
        let news = self.done.try_recv().ok()?;
        self.count(&news);
        Some(news)
    }

    fn count(&mut self, news: &News) {
        if matches!(news, News::Launched(..)) {
            self.under_way = self.under_way.saturating_sub(1);
        }
    }

    /// True if a result is still to come.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// Lets the thread finish what it has begun, but not for ever.
    pub(crate) fn finish(mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while self.under_way > 0 {
            let left = end.saturating_duration_since(Instant::now());
            match self.done.recv_timeout(left) {
                Ok(news) => self.count(&news),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// The thread's own.
struct Lane {
    site: Site,
    /// Tried when the first job comes on a machine with cards.
    ground: Tried,
    /// Opened when the first job comes that has waited.
    reader: Option<Reader>,
    waker: Arc<Waker>,
    report: Sender<News>,
}

/// Why the parts of a job's submission can't be had.
#[derive(Debug, Error)]
enum PartsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0} is not in the database")]
    Absent(JobId),
}

impl Lane {
    fn work(mut self, to_do: Receiver<Work>) {
        for work in to_do {
            let (news, wakes, order) = match work {
                Work::RenewGroups => {
                    self.ground = Tried::default();
                    (News::Renewed(self.site.containment.renew()), true, None)
                }
                Work::Launch(order, outcome) => {
                    let launched = self.launch(&order);
                    let wakes = outcome == Outcome::Wakes || launched.is_err();
                    (News::Launched(order.attempt, launched), wakes, Some(order))
                }
            };
            if self.report.send(news).is_err() {
                return;
            }
            // Our copy of its socket, only now: the loop should not have to wonder why it was closed.
            drop(order);
            if wakes {
                // If the loop can't be woken it finds the report at its next rescan.
                let _ = self.waker.wake();
            }
        }
    }

    fn launch(&mut self, order: &Order) -> Result<Launched, LaunchError> {
        let stored;
        let parts = match &order.parts {
            Some(parts) => parts,
            None => {
                stored = self.stored_parts(order.attempt).map_err(|e| LaunchError::Node(e.to_string()))?;
                &stored
            }
        };
        let card_limits = self.site.card_limits(order).map_err(|e| LaunchError::Node(e.to_string()))?;
        let mps = self.site.mps(order);
        let Site { paths, starter, containment, as_root, axd, .. } = &mut self.site;
        let untried = Ground::None(String::new());
        let ground = match fence::is_wanted(order.config.resources.gpu_fence, &order.cards) {
            true => self.ground.ground(&containment.parents),
            false => &untried,
        };
        let plan = Plan {
            paths,
            config: &order.config,
            attempt: order.attempt,
            number: order.number,
            allocation: &order.allocation,
            job: &order.job,
            limit: order.limit,
            details: &parts.details,
            script: &parts.script,
            environment: &parts.environment,
            person: &order.person,
            cpu_list: order.cpu_list.clone(),
            cards: &order.cards,
            ground,
            card_limits,
            mps,
            spare: order.spare.clone(),
            axd,
            cgroup_parents: &containment.parents,
            station: &containment.station,
            node_epoch: order.node_epoch,
            as_root: *as_root,
        };
        plan.start(starter, order.theirs.as_fd())
    }

    fn stored_parts(&mut self, attempt: AttemptName) -> Result<NewParts, PartsError> {
        let number = attempt.job.number;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(Reader::open(&self.site.paths)?),
        };
        let read = || -> crate::store::Result<Option<NewParts>> {
            let (Some(details), Some(script), Some(environment)) =
                (reader.details(number)?, reader.script(number)?, reader.environment(number)?)
            else {
                return Ok(None);
            };
            Ok(Some(NewParts { details, script: Arc::from(script), environment: Arc::new(environment) }))
        };
        read()?.ok_or(PartsError::Absent(attempt.job))
    }
}

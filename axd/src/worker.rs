//! Threads for what may block, one for each kind, so that none waits for another: the name
//! service, the end of a dead supervisor's job, what ended attempts left on this node and in
//! the spool, the accounts.
//! They report back by messages that wake the loop, and decide nothing.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ax_core::api::{ApiError, ErrorClass, JobsAnswer, JobsQuery};
use ax_core::gpu::leaving::Leftover as OnCard;
use ax_core::id::{AttemptName, Uid};
use ax_core::paths::Paths;
use ax_core::time::WallTime;
use ax_sys::clock;
use ax_sys::socket::Waker;

use crate::api::http::Response;
use crate::api::server::ConnId;
use crate::leftover;
use crate::mps;
use crate::people::{self, Answer};
use crate::settle::{self, Settled};
use crate::store::Reader;

/// Something that may take long.
#[derive(Debug)]
pub(crate) enum Task {
    /// Who is this?
    LookUp(Uid),
    /// What became of an attempt whose supervisor is not there?
    Settle(AttemptName),
    /// An attempt is settled: all that it left on this node may go.
    CleanUp(Chore),
    /// These folders are no longer needed.
    Remove(Vec<Leftover>),
    /// What is left of an attempt that is over is on a card; where attempts have their groups.
    EndLeftover(OnCard, Vec<String>),
    /// MPS daemons that nobody uses go; where attempts have their groups.
    SweepMps(Vec<String>),
    /// Jobs out of the accounts, as many as there may be.
    Accounts(Box<Listing>),
}

/// What is to be removed of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chore {
    /// The attempt.
    pub attempt: AttemptName,
    /// Which part.
    pub trace: Trace,
    /// How often it was tried in vain.
    pub tries: u32,
}

impl Chore {
    /// One that was never tried.
    pub(crate) fn new(attempt: AttemptName, trace: Trace) -> Chore {
        Chore { attempt, trace, tries: 0 }
    }
}

/// What attempts leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trace {
    /// Groups, records, script and lease on this node.
    Node,
    /// The folder in the spool.
    Spool,
}

/// What an attempt left in the spool.
#[derive(Debug)]
pub(crate) struct Leftover {
    /// What is to be done.
    pub chore: Chore,
    /// Its folder.
    pub folder: PathBuf,
    /// Whether its job is over, so that the folder above goes with the last of its attempts.
    pub job_over: bool,
}

/// A list of jobs that somebody waits for, the part of it that is in memory made already.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Whose list it is.
    pub uid: Uid,
    /// Who waits.
    pub conn: ConnId,
    /// The part that is in memory.
    pub answer: JobsAnswer,
    /// What is asked of the accounts.
    pub query: JobsQuery,
}

/// What came of a task.
#[derive(Debug)]
pub(crate) enum Done {
    /// Who it is, or why nobody can say.
    LookedUp(Uid, Answer),
    /// What became of the attempt.
    Settled(AttemptName, Result<Settled, String>),
    /// What could not be removed, and why.
    NotRemoved(Vec<(Chore, String)>),
    /// Whether what was left was there and ours, and is being ended.
    LeftoverEnded(OnCard, Result<bool, String>),
    /// The MPS daemons that were ended, and those that could not be, in words.
    MpsSwept(Vec<Result<String, String>>),
    /// A user's list of jobs is ready.
    Listed(Uid, ConnId, Response),
}

/// Kinds of tasks, each with a thread.
const LANES: [&str; 5] = ["names", "settle", "clean up", "remove", "accounts"];

impl Task {
    fn lane(&self) -> usize {
        match self {
            Task::LookUp(_) => 0,
            Task::Settle(_) => 1,
            Task::CleanUp(_) | Task::EndLeftover(..) | Task::SweepMps(_) => 2,
            Task::Remove(_) => 3,
            Task::Accounts(_) => 4,
        }
    }
}

/// The loop's end of the threads.
#[derive(Debug)]
pub(crate) struct Worker {
    lanes: Vec<Sender<Task>>,
    done: Receiver<Done>,
    report: Sender<Done>,
    /// Look-ups under way, so that one user's hundred requests ask once.
    asked: HashMap<Uid, ()>,
    /// Lists under way, of each user: one who asks and hangs up must not fill the line.
    lists: HashMap<Uid, u32>,
}

/// Most lists under way of a user.
const MOST_LISTS: u32 = 16;

impl Worker {
    /// Starts the threads; `waker` is used whenever something is done.
    pub(crate) fn start(paths: &Paths, waker: &Arc<Waker>) -> std::io::Result<Worker> {
        let (report, done) = channel();
        let start = |name: &&str| {
            let (tasks, to_do) = channel::<Task>();
            let lane = Lane { paths: paths.clone(), waker: Arc::clone(waker), report: report.clone() };
            thread::Builder::new().name((*name).to_owned()).spawn(move || lane.work(to_do))?;
            Ok(tasks)
        };
        let lanes = LANES.iter().map(start).collect::<std::io::Result<_>>()?;
        Ok(Worker { lanes, done, report, asked: HashMap::new(), lists: HashMap::new() })
    }

    /// Where other threads report to.
    pub(crate) fn reporter(&self) -> Sender<Done> {
        self.report.clone()
    }

    /// Asks the name service, once at a time for each user.
    pub(crate) fn look_up(&mut self, uid: Uid) {
        if self.asked.insert(uid, ()).is_none() {
            self.start_task(Task::LookUp(uid));
        }
    }

    /// Counts a list that is to be made, unless its user has too many under way.
    pub(crate) fn admit_list(&mut self, uid: Uid) -> Result<(), ApiError> {
        let under_way = self.lists.entry(uid).or_default();
        if *under_way >= MOST_LISTS {
            let error = format!("{MOST_LISTS} lists of this user are being made already; try again");
            return Err(ApiError { class: ErrorClass::TryAgain, error });
        }
        *under_way += 1;
        Ok(())
    }

    /// Hands over a task.
    pub(crate) fn start_task(&self, task: Task) {
        // The thread lives as long as this sender: sending cannot fail before the end.
        let _ = self.lanes.get(task.lane()).map(|lane| lane.send(task));
    }

    /// The next thing that is done, if any.
    pub(crate) fn next(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        match &done {
            Done::LookedUp(uid, _) => drop(self.asked.remove(uid)),
            Done::Listed(uid, ..) => {
                if let Some(left) = self.lists.get_mut(uid) {
                    *left = left.saturating_sub(1);
                }
                self.lists.retain(|_, left| *left > 0);
            }
            Done::Settled(..) | Done::NotRemoved(_) | Done::LeftoverEnded(..) | Done::MpsSwept(_) => {}
        }
        Some(done)
    }
}

/// A thread's own.
struct Lane {
    paths: Paths,
    waker: Arc<Waker>,
    report: Sender<Done>,
}

impl Lane {
    fn work(self, to_do: Receiver<Task>) {
        for task in to_do {
            let Some(result) = perform(&self.paths, task) else { continue };
            if self.report.send(result).is_err() {
                return;
            }
            // If the loop can't be woken it finds the report at its next rescan.
            let _ = self.waker.wake();
        }
    }
}

fn perform(paths: &Paths, task: Task) -> Option<Done> {
    match task {
        Task::LookUp(uid) => Some(Done::LookedUp(uid, people::look_up(uid))),
        Task::Settle(attempt) => Some(Done::Settled(attempt, settle::settle(paths, attempt))),
        Task::CleanUp(chore) => {
            let failed = settle::clean_up(paths, chore.attempt).err();
            failed.map(|error| Done::NotRemoved(vec![(chore, error)]))
        }
        Task::Remove(leftovers) => {
            let failed = leftovers.iter().filter_map(|each| Some((each.chore, remove(each).err()?)));
            let failed: Vec<_> = failed.collect();
            (!failed.is_empty()).then_some(Done::NotRemoved(failed))
        }
        Task::SweepMps(parents) => Some(Done::MpsSwept(mps::sweep(paths, &parents))),
        Task::EndLeftover(left, parents) => {
            let ended = leftover::end(&parents, &left);
            Some(Done::LeftoverEnded(left, ended))
        }
        Task::Accounts(listing) => {
            let (uid, conn) = (listing.uid, listing.conn);
            let answer = list(paths, *listing);
            Some(Done::Listed(uid, conn, answer.unwrap_or_else(|error| Response::error(&error))))
        }
    }
}

fn remove(leftover: &Leftover) -> Result<(), String> {
    settle::remove_folder(&leftover.folder)?;
    if let Some(job) = leftover.folder.parent().filter(|_| leftover.job_over) {
        // Not if another attempt's folder is in it still.
        let _ = std::fs::remove_dir(job);
    }
    Ok(())
}

/// Adds the jobs out of the accounts. A connection of its own each time: it sees what is durable now.
fn list(paths: &Paths, listing: Listing) -> Result<Response, ApiError> {
    let Listing { mut answer, query, .. } = listing;
    let ended = Reader::open(paths).and_then(|reader| reader.finished(&query, WallTime(clock::wall_ms())));
    let ended = ended.map_err(|e| ApiError { class: ErrorClass::TryAgain, error: e.to_string() })?;
    answer.left_out += ended.left_out;
    answer.warnings.extend(ended.warning());
    // One that was alive when it was asked, and has ended since, is in the list already.
    let listed: HashSet<u32> = answer.jobs.iter().map(|job| job.number).collect();
    answer.jobs.extend(ended.jobs.into_iter().filter(|job| !listed.contains(&job.number)));
    Ok(Response::json(200, &answer))
}

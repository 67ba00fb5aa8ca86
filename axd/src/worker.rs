//! Threads for what may block, one for each kind, so that none waits for another: the name service, the end of a dead
//! supervisor's job, what ended attempts left on this node and in the spool, the accounts; and one for what takes
//! long: why jobs wait. A task that waits for the driver of the cards has a thread each time. The threads report back
//! by messages that wake the loop, and decide nothing.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ax_core::api::{ApiError, ErrorClass, JobsAnswer, JobsQuery};
use ax_core::controller::Controller;
use ax_core::gpu::leaving::Leftover as OnCard;
use ax_core::id::{AttemptName, Uid};
use ax_core::paths::Paths;
use ax_core::time::WallTime;
use ax_sys::clock;
use ax_sys::socket::Waker;

use crate::api::http::Response;
use crate::api::server::ConnId;
use crate::calendar::Calendar;
use crate::card_limit::{self, Prober, Tried};
use crate::leftover::{self, LeftoverError};
use crate::mps::{self, EndedDaemon, MpsError};
use crate::people::{self, Answer};
use crate::settle::{self, Remains, RemovalError, SettleError, Settled};
use crate::store::Reader;
use crate::views::{self, Question};

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
    /// End what an attempt that is over left on a card; with the places of attempts' groups.
    EndLeftover(OnCard, Vec<String>),
    /// End MPS daemons that no attempt uses; with the places of attempts' groups.
    SweepMps(Vec<String>),
    /// Find out whether the driver limits these cards, which were found after the start.
    ProbeCards(Prober, Vec<String>),
    /// How does the clock of this place go?
    ReadZone,
    /// Jobs out of the accounts, as many as there may be.
    Accounts(Box<Listing>),
    /// Answer questions about waiting jobs from this copy of the controller.
    View(Box<Controller>, Vec<Question>),
}

/// A removal of what an attempt left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chore {
    /// The attempt.
    pub attempt: AttemptName,
    /// Which part.
    pub trace: Trace,
    /// How often it was tried in vain.
    pub tries: u32,
    /// The driver was waited for, last time.
    pub waits_for_driver: bool,
}

impl Chore {
    /// One that was never tried.
    pub(crate) fn new(attempt: AttemptName, trace: Trace) -> Chore {
        Chore { attempt, trace, tries: 0, waits_for_driver: false }
    }
}

/// A kind of what attempts leave behind.
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
    /// The removal.
    pub chore: Chore,
    /// Its folder.
    pub folder: PathBuf,
    /// True if its job is over, so that the folder above is removed with its last attempt's.
    pub job_over: bool,
}

/// A list of jobs for which a client waits; the part in memory is made already.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The user whose list it is.
    pub uid: Uid,
    /// The connection that waits.
    pub conn: ConnId,
    /// The part that is in memory.
    pub answer: JobsAnswer,
    /// What is asked of the accounts.
    pub query: JobsQuery,
}

/// The result of a task.
#[derive(Debug)]
pub(crate) enum Done {
    /// The user, or why they are not known.
    LookedUp(Uid, Answer),
    /// What became of the attempt.
    Settled(AttemptName, Result<Settled, SettleError>),
    /// What could not be removed, and why.
    NotRemoved(Vec<(Chore, RemovalError)>),
    /// Whether the process was there and ours, and is being ended.
    LeftoverEnded(OnCard, Result<bool, LeftoverError>),
    /// The MPS daemons that were ended, and why others could not be.
    MpsSwept(Vec<Result<EndedDaemon, MpsError>>),
    /// The result of trying cards.
    CardsProbed(Tried),
    /// How the clock of this place goes.
    ZoneRead(Calendar),
    /// A user's list of jobs is ready.
    Listed(Uid, ConnId, Response),
    /// A question about waiting jobs was answered.
    Viewed(Box<views::Answer>),
}

/// Kinds of tasks, each with a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Names,
    Settle,
    CleanUp,
    Remove,
    Accounts,
    Views,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Names, Kind::Settle, Kind::CleanUp, Kind::Remove, Kind::Accounts, Kind::Views];

    /// The name of its thread.
    fn name(self) -> &'static str {
        match self {
            Kind::Names => "names",
            Kind::Settle => "settle",
            Kind::CleanUp => "clean up",
            Kind::Remove => "remove",
            Kind::Accounts => "accounts",
            Kind::Views => "views",
        }
    }
}

impl Task {
    fn kind(&self) -> Kind {
        match self {
            Task::LookUp(_) => Kind::Names,
            Task::Settle(_) => Kind::Settle,
            Task::CleanUp(_) | Task::EndLeftover(..) | Task::SweepMps(_) | Task::ProbeCards(..) => {
                Kind::CleanUp
            }
            Task::Remove(_) | Task::ReadZone => Kind::Remove,
            Task::Accounts(_) => Kind::Accounts,
            Task::View(..) => Kind::Views,
        }
    }
}

/// The loop's end of the threads.
#[derive(Debug)]
pub(crate) struct Worker {
    lanes: BTreeMap<Kind, Sender<Task>>,
    done: Receiver<Done>,
    report: Sender<Done>,
    /// Look-ups under way, so that one user's hundred requests ask once.
    asked: HashSet<Uid>,
    /// Tasks that were handed over, those that are over, and how many were when nothing was left to be heard.
    started: Cell<usize>,
    over: Arc<AtomicUsize>,
    heard: usize,
}

impl Worker {
    /// Starts the threads; `waker` is used whenever something is done.
    pub(crate) fn start(paths: &Paths, waker: &Arc<Waker>) -> std::io::Result<Worker> {
        let (report, done) = channel();
        let (waiting, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let start = |kind: Kind| {
            let (tasks, to_do) = channel::<Task>();
            let teller = Teller { waker: Arc::clone(waker), report: report.clone(), over: Arc::clone(&over) };
            let lane = Lane { paths: paths.clone(), teller, waiting: Arc::clone(&waiting) };
            thread::Builder::new().name(kind.name().to_owned()).spawn(move || lane.work(to_do))?;
            Ok((kind, tasks))
        };
        let lanes = Kind::ALL.into_iter().map(start).collect::<std::io::Result<_>>()?;
        let started = Cell::new(0);
        Ok(Worker { lanes, done, report, asked: HashSet::new(), started, over, heard: 0 })
    }

    /// Where other threads report to.
    pub(crate) fn reporter(&self) -> Sender<Done> {
        self.report.clone()
    }

    /// Asks the name service, once at a time for each user.
    pub(crate) fn look_up(&mut self, uid: Uid) {
        if self.asked.insert(uid) {
            self.start_task(Task::LookUp(uid));
        }
    }

    /// Hands over a task.
    pub(crate) fn start_task(&self, task: Task) {
        // The thread lives as long as this sender: sending cannot fail before the end.
        let _ = self.lanes.get(&task.kind()).map(|lane| lane.send(task));
        self.started.set(self.started.get().wrapping_add(1));
    }

    /// True if results of tasks may still come.
    pub(crate) fn is_busy(&self) -> bool {
        self.heard != self.started.get()
    }

    /// The next thing that is done, if any.
    pub(crate) fn next(&mut self) -> Option<Done> {
        // Told first, over then: whatever is over by now has been heard if nothing is left.
        let over = self.over.load(Ordering::Acquire);
        let Ok(done) = self.done.try_recv() else {
            self.heard = over;
            return None;
        };
        if let Done::LookedUp(uid, _) = &done {
            self.asked.remove(uid);
        }
        Some(done)
    }
}

/// How a thread reports.
#[derive(Debug, Clone)]
struct Teller {
    waker: Arc<Waker>,
    report: Sender<Done>,
    over: Arc<AtomicUsize>,
}

impl Teller {
    /// Nothing more is to be told of a task.
    fn is_over(&self) {
        self.over.fetch_add(1, Ordering::Release);
    }

    /// Reports a result; false if the loop is gone.
    fn tell(&self, done: Done) -> bool {
        let heard = self.report.send(done).is_ok();
        // If the loop can't be woken it finds the report at its next rescan.
        let _ = self.waker.wake();
        heard
    }
}

/// A thread's own.
struct Lane {
    paths: Paths,
    teller: Teller,
    /// How many threads wait for the driver.
    waiting: Arc<AtomicUsize>,
}

/// So many threads at most wait for a driver that hangs.
const MOST_WAIT: usize = 64;
/// What is said of what is not tried for that reason.
pub(crate) const TOO_MANY: &str = "too many wait for the driver";

/// What is left to do of a task.
enum Rest {
    /// This is to be told, each as soon as it is known.
    Tell(Box<dyn Iterator<Item = Done>>),
    /// The driver has to be waited for.
    Driver(Slow),
}

impl Rest {
    fn tell(done: impl IntoIterator<Item = Done, IntoIter: 'static>) -> Rest {
        Rest::Tell(Box::new(done.into_iter()))
    }
}

/// Something for which the driver is waited for.
struct Slow {
    work: Box<dyn FnOnce() -> Option<Done> + Send>,
    /// What is reported instead if too many wait already.
    without: Done,
}

impl Lane {
    fn work(self, to_do: Receiver<Task>) {
        for task in to_do {
            let mut done: Box<dyn Iterator<Item = Done>> = match perform(&self.paths, task) {
                Rest::Tell(done) => done,
                Rest::Driver(slow) => match self.aside(slow) {
                    None => continue,
                    without => Box::new(without.into_iter()),
                },
            };
            if !done.all(|done| self.teller.tell(done)) {
                return;
            }
            self.teller.is_over();
        }
    }

    /// Does it on a thread of its own, which reports: a driver that hangs delays nothing else. Returns what to report
    /// if there can be no thread.
    fn aside(&self, slow: Slow) -> Option<Done> {
        let (teller, waiting) = (self.teller.clone(), Arc::clone(&self.waiting));
        if waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAIT {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Some(slow.without);
        }
        let work = slow.work;
        let thread = move || {
            if let Some(done) = work() {
                teller.tell(done);
            }
            teller.is_over();
            waiting.fetch_sub(1, Ordering::Relaxed);
        };
        match thread::Builder::new().name("driver".to_owned()).spawn(thread) {
            Ok(_) => None,
            Err(_) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Some(slow.without)
            }
        }
    }
}

fn perform(paths: &Paths, task: Task) -> Rest {
    match task {
        Task::LookUp(uid) => Rest::tell([Done::LookedUp(uid, people::look_up(uid))]),
        Task::Settle(attempt) => settle(paths, attempt),
        Task::CleanUp(chore) => clean_up(paths, chore),
        Task::Remove(leftovers) => {
            let failed = leftovers.iter().filter_map(|each| Some((each.chore, remove(each).err()?)));
            let failed: Vec<_> = failed.collect();
            Rest::tell((!failed.is_empty()).then_some(Done::NotRemoved(failed)))
        }
        Task::ReadZone => {
            // Another thread would go on using the zone that it read first.
            let read = thread::spawn(|| Calendar::read(WallTime(clock::wall_ms())));
            Rest::tell(read.join().ok().map(Done::ZoneRead))
        }
        Task::ProbeCards(prober, cards) => {
            let untried = |card: &String| (card.clone(), Err(TOO_MANY.to_owned()));
            let without = Done::CardsProbed(cards.iter().map(untried).collect());
            let work = Box::new(move || Some(Done::CardsProbed(card_limit::probe(&prober, &cards))));
            Rest::Driver(Slow { work, without })
        }
        Task::SweepMps(parents) => {
            let own = paths.clone();
            let work = Box::new(move || Some(Done::MpsSwept(mps::sweep(&own, &parents))));
            Rest::Driver(Slow { work, without: Done::MpsSwept(vec![Err(MpsError::TooManyWait)]) })
        }
        Task::EndLeftover(left, parents) => {
            let ended = leftover::end(&parents, &left);
            Rest::tell([Done::LeftoverEnded(left, ended)])
        }
        Task::Accounts(listing) => {
            let (uid, conn) = (listing.uid, listing.conn);
            let answer = list(paths, *listing).unwrap_or_else(|error| Response::error(&error));
            Rest::tell([Done::Listed(uid, conn, answer)])
        }
        Task::View(controller, questions) => {
            let answer = move |question| Done::Viewed(Box::new(views::answer(&controller, question)));
            Rest::tell(questions.into_iter().map(answer))
        }
    }
}

fn settle(paths: &Paths, attempt: AttemptName) -> Rest {
    match settle::settle(paths, attempt) {
        Ok((settled, Some(limited))) => {
            let told = settled.clone();
            let work = Box::new(move || {
                // Before the end is told: its card's memory is given out again then.
                limited.release();
                Some(Done::Settled(attempt, Ok(told)))
            });
            Rest::Driver(Slow { work, without: Done::Settled(attempt, Ok(settled)) })
        }
        other => Rest::tell([Done::Settled(attempt, other.map(|(settled, _)| settled))]),
    }
}

fn clean_up(paths: &Paths, chore: Chore) -> Rest {
    let remains = Remains::of(paths, chore.attempt);
    let chore = Chore { waits_for_driver: remains.are_limited(), ..chore };
    let clean = move |remains: &Remains<'_>| {
        let failed = remains.remove().err();
        failed.map(|error| Done::NotRemoved(vec![(chore, error)]))
    };
    if !chore.waits_for_driver {
        return Rest::tell(clean(&remains));
    }
    let own = paths.clone();
    let work = Box::new(move || clean(&Remains::of(&own, chore.attempt)));
    let untried = RemovalError::TooManyWait { attempt: chore.attempt };
    Rest::Driver(Slow { work, without: Done::NotRemoved(vec![(chore, untried)]) })
}

fn remove(leftover: &Leftover) -> Result<(), RemovalError> {
    settle::remove_folder(&leftover.folder)?;
    if let Some(job) = leftover.folder.parent().filter(|_| leftover.job_over) {
        // Not if another attempt's folder is in it still.
        let _ = std::fs::remove_dir(job);
    }
    Ok(())
}

/// Adds the jobs from the accounts. Uses a new connection each time, which sees what is durable now.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_asks_the_driver_or_waits_for_mps_holds_up_nobody_else() {
        let paths = Paths::under(std::path::Path::new("/nowhere"));
        let prober = Prober { axd: "/nowhere".into(), library: None, parents: Vec::new() };
        for task in [Task::ProbeCards(prober, vec!["GPU-a".to_owned()]), Task::SweepMps(Vec::new())] {
            let text = format!("{task:?}");
            let Rest::Driver(slow) = perform(&paths, task) else { panic!("{text}") };
            let said = format!("{:?}", slow.without);
            assert!(said.contains(TOO_MANY) || said.contains("TooManyWait"), "{said}");
        }
    }
}

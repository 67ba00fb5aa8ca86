//! What was seen of cards and attempts over time: a thread with a database of its own, so that neither the loop nor
//! the accounts wait for it. Losing the database does no harm: nothing is decided from it, and a broken one is begun
//! anew.

mod read;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ax_core::api::{ApiError, AttemptUsage, CardHistory, ErrorClass};
use ax_core::gpu::thin::Figure;
use ax_core::id::{AttemptName, JobId, Uid};
use ax_core::paths::Paths;
use ax_core::time::WallTime;
use ax_sys::cgroup::{Containment, Stats};
use ax_sys::socket::Waker;

use crate::api::http::Response;
use crate::api::server::ConnId;
use crate::settle;
use crate::worker::Done;
use store::Store;
pub(crate) use store::{Series, What};

/// What was taken waits so long for company before it is written.
const COMPANY: Duration = Duration::from_secs(10);
/// At most so many figures wait.
const MOST_WAITING: usize = 50_000;
/// Looks that the thread has not come to; on a disk that hangs further ones are left out.
const MOST_LOOKS: usize = 600;

/// What was seen at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// When.
    pub(crate) at: WallTime,
    /// Each card's figures.
    pub(crate) figures: Vec<(Series, f64)>,
    /// Living attempts whose processes are looked at beside that.
    pub(crate) attempts: Vec<AttemptName>,
}

/// A question, and who waits for the answer.
#[derive(Debug)]
pub(crate) struct Question {
    /// Whose it is.
    pub(crate) uid: Uid,
    /// Who waits.
    pub(crate) conn: ConnId,
    /// What is asked.
    pub(crate) what: Asked,
}

/// What can be asked.
#[derive(Debug)]
pub(crate) enum Asked {
    /// These cards over time: filled in.
    History {
        /// The cards, their points to be filled in.
        cards: Vec<CardHistory>,
        /// Up to then.
        until: WallTime,
    },
    /// What attempts of a job used.
    Usage {
        /// The job.
        id: JobId,
        /// Its attempts, by epoch.
        epochs: Vec<u64>,
        /// The one that runs.
        running: Option<AttemptName>,
    },
}

enum Message {
    Look(Look),
    Question(Question),
}

/// The loop's end of the thread.
#[derive(Debug)]
pub(crate) struct Samples {
    to: Option<Sender<Message>>,
    looks: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Samples {
    /// Starts the thread. Answers go where the worker's go.
    pub(crate) fn start(paths: &Paths, report: Sender<Done>, waker: &Arc<Waker>) -> std::io::Result<Samples> {
        let (to, inbox) = channel();
        let (paths, waker) = (paths.clone(), Arc::clone(waker));
        let looks = Arc::new(AtomicUsize::new(0));
        let keeper = Keeper {
            looks: Arc::clone(&looks),
            store: Store::at(paths.samples()),
            paths,
            report,
            waker,
            waiting: Vec::new(),
            trees: BTreeMap::new(),
        };
        let thread = thread::Builder::new().name("samples".to_owned()).spawn(move || keeper.work(&inbox))?;
        Ok(Samples { to: Some(to), looks, thread: Some(thread) })
    }

    /// Keeps what was seen.
    pub(crate) fn keep(&self, look: Look) {
        if self.looks.load(Ordering::Relaxed) < MOST_LOOKS {
            self.looks.fetch_add(1, Ordering::Relaxed);
            self.send(Message::Look(look));
        }
    }

    /// Asks; the answer comes as a list that is done.
    pub(crate) fn ask(&self, question: Question) {
        self.send(Message::Question(question));
    }

    fn send(&self, message: Message) {
        // The thread ends only when this end is gone.
        let _ = self.to.as_ref().map(|to| to.send(message));
    }

    /// Writes what waits, and ends the thread.
    pub(crate) fn finish(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The processes of an attempt, and what they had used at the last look.
struct Tree {
    containment: Option<Containment>,
    last: Option<(WallTime, u64)>,
}

/// The thread's own.
struct Keeper {
    paths: Paths,
    store: Store,
    report: Sender<Done>,
    waker: Arc<Waker>,
    waiting: Vec<(Series, WallTime, f64)>,
    looks: Arc<AtomicUsize>,
    trees: BTreeMap<AttemptName, Tree>,
}

impl Keeper {
    fn work(mut self, inbox: &Receiver<Message>) {
        loop {
            // With nothing that waits there is no reason to wake up.
            let message = match self.waiting.is_empty() {
                true => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => inbox.recv_timeout(COMPANY),
            };
            match message {
                Ok(Message::Look(look)) => {
                    self.looks.fetch_sub(1, Ordering::Relaxed);
                    self.take(look);
                }
                Ok(Message::Question(question)) => self.answer(question),
                Err(RecvTimeoutError::Timeout) => self.write(),
                Err(RecvTimeoutError::Disconnected) => return self.write(),
            }
        }
    }

    fn take(&mut self, look: Look) {
        let Look { at, figures, attempts } = look;
        self.waiting.extend(figures.into_iter().map(|(series, value)| (series, at, value)));
        self.trees.retain(|attempt, _| attempts.contains(attempt));
        for attempt in attempts {
            self.look_at(attempt, at);
        }
        let first = self.waiting.first().map_or(at, |(_, at, _)| *at);
        let long = u128::from((at - first).0) >= COMPANY.as_millis();
        if long || at < first || self.waiting.len() > MOST_WAITING {
            self.write();
        }
    }

    /// CPU time and memory of an attempt's processes, as far as its groups tell.
    fn look_at(&mut self, attempt: AttemptName, at: WallTime) {
        let paths = &self.paths;
        let tree = self
            .trees
            .entry(attempt)
            .or_insert_with(|| Tree { containment: settle::containment_of(paths, attempt), last: None });
        let Some(stats) = tree.containment.as_ref().and_then(|tree| tree.stats().ok()) else { return };
        let before = tree.last;
        tree.last = stats.cpu_usec.map(|used| (at, used));
        let cpus = tree.last.zip(before).and_then(|((at, used), (since, before))| {
            let passed = (at - since).0;
            (passed > 0).then(|| used.saturating_sub(before) as f64 / (passed as f64 * 1000.0))
        });
        let epoch = attempt.epoch.0;
        let ram = stats.memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
        self.waiting.extend(cpus.map(|cpus| (Series::attempt(epoch, What::Cpus), at, cpus)));
        self.waiting.extend(ram.map(|ram| (Series::attempt(epoch, What::Ram), at, ram)));
    }

    /// What can't be written is left out.
    fn write(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let figures = waiting.into_iter().map(|(series, at, value)| (series, at, Figure::once(value)));
        self.store.add(figures.collect());
    }

    fn answer(&mut self, question: Question) {
        self.write();
        let Question { uid, conn, what } = question;
        let response = match what {
            Asked::History { cards, until } => {
                self.store.read(|db| read::history(db, cards, until)).map(|cards| Response::json(200, &cards))
            }
            Asked::Usage { id, epochs, running } => {
                let live = running.and_then(|attempt| Some((attempt.epoch.0, self.live(attempt)?)));
                let attempts = self.store.read(|db| read::usage(db, &epochs));
                attempts.map(|attempts| {
                    let attempts = with_live(attempts, live);
                    Response::json(200, &ax_core::api::UsageView { id, attempts })
                })
            }
        };
        let response = response.unwrap_or_else(|error| {
            Response::error(&ApiError { class: ErrorClass::TryAgain, error: error.to_string() })
        });
        if self.report.send(Done::Listed(uid, conn, response)).is_ok() {
            // If the loop can't be woken it finds the answer at its next rescan.
            let _ = self.waker.wake();
        }
    }

    fn live(&self, attempt: AttemptName) -> Option<Stats> {
        settle::containment_of(&self.paths, attempt)?.stats().ok()
    }
}

fn with_live(mut attempts: Vec<AttemptUsage>, live: Option<(u64, Stats)>) -> Vec<AttemptUsage> {
    let Some((epoch, stats)) = live else { return attempts };
    if !attempts.iter().any(|attempt| attempt.epoch == epoch) {
        attempts.push(AttemptUsage { epoch, ..AttemptUsage::default() });
    }
    for attempt in attempts.iter_mut().filter(|attempt| attempt.epoch == epoch) {
        attempt.cpu_time_s = stats.cpu_usec.map(|used| used as f64 / 1e6);
        let peak = stats.memory_peak_bytes.or(stats.memory_bytes);
        attempt.max_ram_mb = peak.map(|bytes| bytes >> 20);
    }
    attempts
}

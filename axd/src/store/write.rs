//! The writer: one thread, one connection, group commit. Whatever was queued during a commit goes into the next one;
//! a batch is never split.
//!
//! A commit that fails is repeated, and nothing later is written before it. On a full disk the reserve is given up,
//! so that what must be recorded can be; "recovered" is logged only when commits succeed and the reserve is there
//! again.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ax_core::controller::Snapshot;
use ax_core::id::{Epoch, JobNumber};
use ax_core::time::{Now, Span, WallTime};
use rusqlite::TransactionBehavior;

use super::apply::Applier;
use super::error::{Doing, Result, StoreError};
use super::events::{EventLog, Recorded, Step};
use super::open::Store;
use super::prune::Pruning;
use super::rows::Batch;

/// Waiting after a failed commit: doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(2);
/// How often it is tried to get the reserve back.
const RESERVE_RETRY: Duration = Duration::from_secs(2);
/// At a stop, a commit that fails is repeated for so long.
const LAST_TRIES: Duration = Duration::from_secs(5);
/// At most so many batches a commit: none waits for long behind others.
const GROUP: usize = 1000;
/// Recorded events wait for a moment of this length in which nothing comes, but not more than so many: to write them
/// costs as much as a commit.
const EVENTS_PAUSE: Duration = Duration::from_millis(200);
const EVENTS_WAITING: usize = 512;
/// Old jobs are removed a few at a time, with this pause before each time, in which anything else comes first.
const PRUNE_PAUSE: Duration = Duration::from_millis(20);

/// What the writer reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ack {
    /// This batch is durable, and so are all before it.
    Committed(u64),
    /// Commits have begun to fail: said once. Batches may still become durable one by one.
    Failing {
        /// The batch that could not be written.
        id: u64,
        /// In one line.
        error: String,
        /// There is no room on the disk.
        disk_full: bool,
    },
    /// All is well again.
    Recovered,
    /// So many old jobs are gone from the accounts.
    Pruned(u64),
    /// They could not be removed; it is tried again when it is next asked for.
    NotPruned(String),
}

/// How the writer works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether steps are recorded for replay.
    pub events: bool,
}

enum Message {
    Batch(Batch),
    Record(Now, Box<Recorded>),
    Quiet(WallTime),
    Prune(WallTime, Option<Span>),
    Close,
}

/// The handle of the writer thread.
pub struct Writer {
    to: Sender<Message>,
    from: Receiver<Ack>,
    thread: JoinHandle<Result<()>>,
    options: Options,
}

impl Writer {
    /// Starts the thread. `notify` is called from it after each report.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(store: Store, options: Options, notify: Box<dyn Fn() + Send>) -> Result<Writer> {
        let (to, inbox) = channel();
        let (acks, from) = channel();
        let database = store.database.clone();
        let worker = Worker {
            events: options.events.then(|| EventLog::at(store.events.clone())),
            store,
            applier: Applier::default(),
            inbox,
            acks,
            notify,
            queue: VecDeque::new(),
            pruning: None,
            trouble: None,
            closing: None,
        };
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || worker.run())
            .doing("start the writer of", &database)?;
        Ok(Writer { to, from, thread, options })
    }

    /// Hands a batch over. Its rows are durable once [`Ack::Committed`] says so.
    pub fn send(&self, batch: Batch) {
        // The thread ends only when it is told to, so somebody listens.
        let _ = self.to.send(Message::Batch(batch));
    }

    /// What was reported since the last call.
    pub fn poll(&self) -> Vec<Ack> {
        self.from.try_iter().collect()
    }

    /// Whether steps are recorded: if not, there is no need to copy them.
    pub fn records(&self) -> bool {
        self.options.events
    }

    /// Records a step, in its order, some time after the batch that it led to.
    pub fn record(&self, now: Now, step: Step) {
        self.record_any(now, Recorded::Step(step));
    }

    /// Records the controller as a whole: before the first step, and daily.
    pub fn record_snapshot(&self, now: Now, snapshot: Snapshot) {
        self.record_any(now, Recorded::Snapshot(Box::new(snapshot)));
    }

    fn record_any(&self, now: Now, recorded: Recorded) {
        if self.options.events {
            let _ = self.to.send(Message::Record(now, Box::new(recorded)));
        }
    }

    /// A quiet minute: the log is folded into the database, old events go.
    pub fn quiet(&self, now: WallTime) {
        let _ = self.to.send(Message::Quiet(now));
    }

    /// Removes, a little at a time while nothing else is to be written, the jobs that ended longer ago than they
    /// are kept for (absent: none), and what else has had its time.
    pub fn prune(&self, now: WallTime, keep: Option<Span>) {
        let _ = self.to.send(Message::Prune(now, keep));
    }

    /// Writes everything that was handed over, and ends the thread.
    ///
    /// # Errors
    /// When commits fail to the last.
    pub fn close(self) -> Result<()> {
        let _ = self.to.send(Message::Close);
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Commits fail, or the reserve is given up.
struct Trouble {
    /// Before the next try, if the last one failed.
    wait: Option<Duration>,
    /// The last error.
    error: String,
    /// The reserve was given up.
    released: bool,
    /// When it was last tried to get the reserve back.
    reserve_tried: Instant,
}

struct Worker {
    store: Store,
    applier: Applier,
    inbox: Receiver<Message>,
    acks: Sender<Ack>,
    notify: Box<dyn Fn() + Send>,
    queue: VecDeque<Batch>,
    /// Old jobs are being removed.
    pruning: Option<Pruning>,
    events: Option<EventLog>,
    trouble: Option<Trouble>,
    /// Since when it is to end.
    closing: Option<Instant>,
}

impl Worker {
    fn run(mut self) -> Result<()> {
        loop {
            self.receive();
            if self.queue.is_empty() {
                self.seek_recovery();
                if self.closing.is_some() {
                    return self.finish();
                }
                continue;
            }
            let failing = self.trouble.as_ref().is_some_and(|t| t.wait.is_some());
            let count = if failing { 1 } else { self.queue.len().min(GROUP) };
            match self.commit(count) {
                Ok(()) => self.committed(count),
                Err(error) => self.failed(&error)?,
            }
        }
    }

    /// Takes what there is; waits if there is nothing to do. Events are
    /// written only when nobody waits for anything else.
    fn receive(&mut self) {
        self.drain();
        if !self.queue.is_empty() || self.closing.is_some() {
            return;
        }
        if self.events.as_ref().is_some_and(EventLog::has_snapshot) {
            self.flush_events(0);
        }
        let waiting = self.events.as_ref().is_some_and(|events| events.waiting() > 0);
        let message = match &self.trouble {
            None if self.pruning.is_some() => self.inbox.recv_timeout(PRUNE_PAUSE),
            None if waiting => self.inbox.recv_timeout(EVENTS_PAUSE),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => self.inbox.recv_timeout(RESERVE_RETRY),
        };
        match message {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => self.while_idle(),
            Err(RecvTimeoutError::Disconnected) => self.take(Message::Close),
        }
        self.drain();
    }

    fn drain(&mut self) {
        while self.queue.len() < GROUP {
            match self.inbox.try_recv() {
                Ok(message) => self.take(message),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Batch(batch) => self.queue.push_back(batch),
            Message::Record(now, recorded) => {
                if let Some(events) = &mut self.events {
                    events.add(now, *recorded);
                }
            }
            Message::Quiet(now) => self.tidy(now),
            Message::Prune(now, keep) => self.pruning = Some(Pruning::at(now, keep)),
            Message::Close => self.closing = Some(Instant::now()),
        }
    }

    /// One transaction for the first batches. What it needs of the spool is synced before.
    fn commit(&mut self, count: usize) -> Result<()> {
        let Store { connection, database, high, .. } = &mut self.store;
        let batches = self.queue.iter().take(count);
        let highest = batches
            .clone()
            .map(Batch::highest)
            .fold((JobNumber(0), Epoch(0)), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        high.ensure(highest.0, highest.1)?;
        let tx = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .doing("begin a change of", database)?;
        self.applier.apply(&tx, batches).doing("write to", database)?;
        tx.commit().doing("commit to", database)
    }

    fn committed(&mut self, count: usize) {
        for batch in self.queue.drain(..count) {
            let _ = self.acks.send(Ack::Committed(batch.id));
        }
        if let Some(trouble) = &mut self.trouble {
            trouble.wait = None;
        }
        self.seek_recovery();
        (self.notify)();
        self.flush_events(EVENTS_WAITING);
    }

    fn failed(&mut self, error: &StoreError) -> Result<()> {
        self.applier.forget();
        let told = self.trouble.is_some();
        let trouble = self.trouble.get_or_insert_with(|| Trouble {
            wait: None,
            error: String::new(),
            released: false,
            reserve_tried: Instant::now(),
        });
        let wait = trouble.wait.map_or(FIRST_WAIT, |w| (w * 2).min(LAST_WAIT));
        (trouble.wait, trouble.error) = (Some(wait), error.to_string());
        let released = error.is_disk_full() && self.store.reserve.release();
        trouble.released |= released;
        if !told && let Some(first) = self.queue.front() {
            let (id, error, disk_full) = (first.id, error.to_string(), error.is_disk_full());
            let _ = self.acks.send(Ack::Failing { id, error, disk_full });
            (self.notify)();
        }
        if let Some(events) = &mut self.events {
            events.skip();
        }
        if self.closing.is_some_and(|since| since.elapsed() > LAST_TRIES) {
            return Err(self.unsaved());
        }
        if !released {
            self.sleep(wait);
        }
        Ok(())
    }

    fn unsaved(&self) -> StoreError {
        let last = self.trouble.as_ref().map(|t| t.error.clone()).unwrap_or_default();
        StoreError::Unsaved { left: self.queue.len(), path: self.store.database.clone(), last }
    }

    /// Waits, but goes on listening, so that a stop is seen.
    fn sleep(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.inbox.recv_timeout(left) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    self.closing.get_or_insert_with(Instant::now);
                    std::thread::sleep(left);
                }
            }
        }
    }

    /// After trouble: over once commits succeed and the reserve is held again.
    fn seek_recovery(&mut self) {
        let Some(trouble) = self.trouble.as_mut().filter(|t| t.wait.is_none()) else { return };
        if trouble.released && !self.store.reserve.is_held() {
            if trouble.reserve_tried.elapsed() < RESERVE_RETRY {
                return;
            }
            trouble.reserve_tried = Instant::now();
            if self.store.reserve.fill().is_err() {
                return;
            }
        }
        self.trouble = None;
        let _ = self.acks.send(Ack::Recovered);
        (self.notify)();
    }

    /// Writes events if at least so many wait.
    fn flush_events(&mut self, least: usize) {
        let Some(events) = &mut self.events else { return };
        if self.trouble.is_some() {
            events.skip();
        } else if events.waiting() >= least {
            events.flush();
        }
    }

    /// Nobody waits for anything.
    fn while_idle(&mut self) {
        self.flush_events(0);
        let Some(mut pruning) = self.pruning.take_if(|_| self.trouble.is_none()) else { return };
        let Store { connection, database, .. } = &mut self.store;
        let told = match pruning.go_on(connection, database, &mut self.applier.blobs) {
            Ok(true) => {
                self.pruning = Some(pruning);
                return;
            }
            Ok(false) => Ack::Pruned(pruning.jobs),
            Err(error) => {
                self.applier.forget();
                Ack::NotPruned(error.to_string())
            }
        };
        let _ = self.acks.send(told);
        (self.notify)();
    }

    /// What fails here loses nothing: it is tried again in the next quiet minute.
    fn tidy(&mut self, now: WallTime) {
        let _ = self.store.fold();
        if let Some(events) = &mut self.events {
            events.prune(now);
        }
    }

    /// All is durable by now; what can't be folded stays in the log until the next start.
    fn finish(mut self) -> Result<()> {
        self.flush_events(0);
        let _ = self.store.fold();
        Ok(())
    }
}

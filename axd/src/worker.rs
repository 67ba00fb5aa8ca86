//! Two threads for what may block: one asks the name service, the other ends
//! dead supervisors' jobs and removes old folders, so that a directory server
//! that hangs keeps no job from its end. They report back by messages that wake
//! the loop, and decide nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ax_core::id::{AttemptName, Uid};
use ax_core::paths::Paths;
use ax_sys::socket::Waker;

use crate::people::{self, Person};
use crate::settle::{self, Settled};

/// Something that may take long.
#[derive(Debug)]
pub(crate) enum Task {
    /// Who is this?
    LookUp(Uid),
    /// What became of an attempt whose supervisor is not there?
    Settle(AttemptName),
    /// An attempt is settled: all that it left on this node may go.
    CleanUp(AttemptName),
    /// These folders are no longer needed.
    Remove(Vec<PathBuf>),
}

/// What came of a task.
#[derive(Debug)]
pub(crate) enum Done {
    /// Who it is, or why nobody can say.
    LookedUp(Uid, Result<Person, String>),
    /// What became of the attempt.
    Settled(AttemptName, Result<Settled, String>),
    /// What could not be removed.
    NotRemoved(String),
}

/// The loop's end of the worker.
#[derive(Debug)]
pub(crate) struct Worker {
    lookups: Sender<Task>,
    others: Sender<Task>,
    done: Receiver<Done>,
    /// Look-ups under way, so that one user's hundred requests ask once.
    asked: HashMap<Uid, ()>,
}

impl Worker {
    /// Starts the threads; `waker` is used whenever something is done.
    pub(crate) fn start(paths: Paths, waker: Arc<Waker>) -> std::io::Result<Worker> {
        let (report, done) = channel();
        let thread = |name: &str| -> std::io::Result<Sender<Task>> {
            let (tasks, to_do) = channel();
            let (paths, report, waker) = (paths.clone(), report.clone(), Arc::clone(&waker));
            let work = move || work(&paths, to_do, &report, &waker);
            thread::Builder::new().name(name.to_owned()).spawn(work)?;
            Ok(tasks)
        };
        Ok(Worker { lookups: thread("names")?, others: thread("worker")?, done, asked: HashMap::new() })
    }

    /// Asks the name service, once at a time for each user.
    pub(crate) fn look_up(&mut self, uid: Uid) {
        if self.asked.insert(uid, ()).is_none() {
            self.start_task(Task::LookUp(uid));
        }
    }

    /// Hands over a task.
    pub(crate) fn start_task(&self, task: Task) {
        let thread = match task {
            Task::LookUp(_) => &self.lookups,
            Task::Settle(_) | Task::CleanUp(_) | Task::Remove(_) => &self.others,
        };
        // The thread lives as long as its sender: sending cannot fail before the end.
        let _ = thread.send(task);
    }

    /// The next thing that is done, if any.
    pub(crate) fn next(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        if let Done::LookedUp(uid, _) = &done {
            self.asked.remove(uid);
        }
        Some(done)
    }
}

fn work(paths: &Paths, tasks: Receiver<Task>, report: &Sender<Done>, waker: &Waker) {
    for task in tasks {
        let Some(result) = perform(paths, task) else { continue };
        if report.send(result).is_err() {
            return;
        }
        // If the loop can't be woken it finds the report at its next rescan.
        let _ = waker.wake();
    }
}

fn perform(paths: &Paths, task: Task) -> Option<Done> {
    match task {
        Task::LookUp(uid) => Some(Done::LookedUp(uid, people::look_up(uid))),
        Task::Settle(attempt) => Some(Done::Settled(attempt, settle::settle(paths, attempt))),
        Task::CleanUp(attempt) => settle::clean_up(paths, attempt).err().map(Done::NotRemoved),
        Task::Remove(folders) => {
            let failed: Vec<String> = folders.iter().filter_map(|f| settle::remove_folder(f).err()).collect();
            (!failed.is_empty()).then(|| Done::NotRemoved(failed.join("; ")))
        }
    }
}

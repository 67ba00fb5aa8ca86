//! One thread for what may block: the name service, the end of a dead
//! supervisor's job, the removal of old folders. It reports back by messages
//! that wake the loop, and decides nothing.

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
    tasks: Sender<Task>,
    done: Receiver<Done>,
    /// Look-ups under way, so that one user's hundred requests ask once.
    asked: HashMap<Uid, ()>,
}

impl Worker {
    /// Starts the thread; `waker` is used whenever something is done.
    pub(crate) fn start(paths: Paths, waker: Arc<Waker>) -> std::io::Result<Worker> {
        let (tasks, to_do) = channel::<Task>();
        let (report, done) = channel();
        thread::Builder::new().name("worker".to_owned()).spawn(move || {
            for task in to_do {
                let Some(result) = perform(&paths, task) else { continue };
                if report.send(result).is_err() {
                    return;
                }
                // If the loop can't be woken it finds the report at its next rescan.
                let _ = waker.wake();
            }
        })?;
        Ok(Worker { tasks, done, asked: HashMap::new() })
    }

    /// Asks the name service, once at a time for each user.
    pub(crate) fn look_up(&mut self, uid: Uid) {
        if self.asked.insert(uid, ()).is_none() {
            self.start_task(Task::LookUp(uid));
        }
    }

    /// Hands over a task.
    pub(crate) fn start_task(&self, task: Task) {
        // The thread lives as long as this sender: sending cannot fail before the end.
        let _ = self.tasks.send(task);
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

fn perform(paths: &Paths, task: Task) -> Option<Done> {
    match task {
        Task::LookUp(uid) => Some(Done::LookedUp(uid, people::look_up(uid))),
        Task::Settle(attempt) => Some(Done::Settled(attempt, settle::settle(paths, attempt))),
        Task::Remove(folders) => {
            let failed: Vec<String> = folders.iter().filter_map(|f| settle::remove_folder(f).err()).collect();
            (!failed.is_empty()).then(|| Done::NotRemoved(failed.join("; ")))
        }
    }
}

//! Submissions by files that users put into their own folders under `incoming/`, without a conversation.
//!
//! A thread of its own looks at, takes and reads them, since that may be slow and all of it is input of strangers. It
//! hands each drop to the loop as an [`Arrival`]; the loop's [`Verdict`] says whether the file is removed, moved to
//! `refused/`, or has to wait. The thread decides nothing about jobs.

mod aging;
mod complaints;
mod folder;
mod ingest;
mod name;
mod pass;
mod places;
mod refuse;
mod take;
mod users;
mod watch;
mod watched;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ax_core::api::SubmitRequest;
use ax_core::id::{SubmissionKey, Uid};
use ax_core::paths::Paths;
use ax_sys::socket::Waker;

use crate::log::{Level, Line};
use ingest::{Ingest, Message};

/// The name of a drop in `taken/`: which of those under way it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TakenId(OsString);

/// A drop that was taken: its copy, and whose it is by the owner of folder and file.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Which one.
    pub id: TakenId,
    /// Whose.
    pub uid: Uid,
    /// The submission's key.
    pub key: SubmissionKey,
    /// The file's name, for messages and as the default of the job's.
    pub name: String,
    /// What was in it.
    pub content: Content,
}

/// What a drop holds.
#[derive(Debug)]
pub(crate) enum Content {
    /// A script, with its options in it.
    Script(Vec<u8>),
    /// What `axbatch` would have said on the socket.
    Request(Box<SubmitRequest>),
}

/// What is to become of a drop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its job is durable.
    Committed,
    /// It can't become a job, and why.
    Refused(String),
    /// Not now: it goes back to where it was.
    Later(String),
}

/// What the loop hears.
#[derive(Debug)]
pub(crate) enum News {
    /// A submission.
    Arrived(Box<Arrival>),
    /// Something that was refused before it became one.
    Refused {
        /// Whose it was.
        uid: Uid,
        /// The key that it had or got.
        key: SubmissionKey,
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// A line for the log.
    Said(Level, Line),
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct Spool {
    to: Sender<Message>,
    from: Receiver<News>,
}

impl Spool {
    /// Starts the thread; `waker` is used whenever there is news.
    pub(crate) fn start(paths: &Paths, waker: Arc<Waker>) -> std::io::Result<Spool> {
        let (to, inbox) = channel();
        let (news, from) = channel();
        let tell = Box::new(move |each: News| {
            let heard = news.send(each).is_ok();
            // If the loop can't be woken it finds the news when it next wakes.
            let _ = waker.wake();
            heard
        });
        let ingest = Ingest::new(paths, inbox, to.clone(), tell);
        thread::Builder::new().name("spool".to_owned()).spawn(move || ingest.run())?;
        Ok(Spool { to, from })
    }

    /// The next news, if any.
    pub(crate) fn next(&self) -> Option<News> {
        self.from.try_recv().ok()
    }

    /// Says what is to become of a drop.
    pub(crate) fn verdict(&self, id: TakenId, verdict: Verdict) {
        // The thread lives as long as this sender.
        let _ = self.to.send(Message::Verdict(id, verdict));
    }
}

//! `axrun` outside a job: submits the command, copies its output as it comes, and ends as the job ended. Threads ask
//! the daemon, since any question may take long; their answers come over a channel to the one loop that copies, waits
//! and takes signals. The job needs no daemon to go on, and neither does the waiting.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ax_core::api::{Action, ActionAnswer, ActionRequest, ErrorClass, JobView, SubmitAnswer, SubmitRequest};
use ax_core::directive::Program;
use ax_core::job::state::JobState;
use ax_sys::signals::{Signal, SignalWatch};

use super::files::{Copied, Followed, Stream};
use crate::client::Client;
use crate::failure::Failure;
use crate::growing::CUT;
use crate::shown::shown;
use crate::submit::{self, Understood, Wish, request, send, wait};
use crate::world::World;

/// How long nothing is looked at: short while output comes, longer while none does.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(100);
/// A job that has not started after so many seconds gets a remark with its reason.
const PATIENCE_S: u64 = 2;
/// Between two tries to cancel while no daemon answers.
const PAUSE: Duration = Duration::from_secs(1);

/// What the asking threads learn.
enum News {
    /// The job is accepted.
    Accepted(Box<SubmitAnswer>),
    /// It still waits, for this reason.
    Waits(Option<String>),
    /// It has ended.
    Ended(Box<JobView>),
    /// It was not accepted, or nobody knows it any more.
    Failed(Failure),
}

/// Submits, follows and waits.
pub(super) fn run(words: &[OsString], together: bool, world: &mut World<'_>) -> Result<u8, Failure> {
    let Wish::Submission(understood, client) = submit::read(Program::Axrun, words, None, world)? else {
        return Ok(0);
    };
    if understood.spec.timing.array.is_some() {
        return Err(Failure::usage("--array: axrun runs one command and shows its output; see axbatch(1)"));
    }
    if understood.conduct.test_only {
        return send::submit(&understood, &client, world);
    }
    // Before any thread is there: they inherit what is blocked, so that every signal comes here.
    let signals = SignalWatch::new(&[Signal::INT, Signal::TERM, Signal::HUP]).map_err(system)?;
    let key = send::new_key(world)?;
    let (mut request, warnings) = request::build(&understood, key, world)?;
    let followed = private_files(&understood, &mut request, together, world.vars.get("HOME"))?;
    let news = start(&client, request)?;
    let attendant =
        Attendant { understood: &understood, client, signals, followed, warnings, job: None, heard: None };
    attendant.attend(&news, world)
}

fn system(error: ax_sys::SysError) -> Failure {
    Failure::said(ErrorClass::Unavailable, error.to_string())
}

/// The streams that the user sends nowhere else, each through a private file.
fn private_files(
    understood: &Understood,
    request: &mut SubmitRequest,
    together: bool,
    home: Option<&OsStr>,
) -> Result<Vec<Followed>, Failure> {
    let io = &understood.spec.io;
    // Where output goes to a file, errors without one of their own go there too, as everywhere in ax.
    let wanted = match (&io.output, &io.error) {
        (None, None) if together => &[Stream::Out][..],
        (None, None) => &[Stream::Out, Stream::Err],
        (None, Some(_)) => &[Stream::Out],
        (Some(_), _) => &[],
    };
    let folder = std::env::current_dir()
        .map_err(|error| Failure::said(ErrorClass::NoInput, format!("the current folder: {error}")))?;
    let Some(key) = request.key else { return Ok(Vec::new()) };
    // Many commands are called where their caller may not write, in / for one.
    let home = home.map(PathBuf::from).filter(|home| home.is_absolute());
    let mut followed = Vec::new();
    for stream in wanted {
        let made = request.uid.is_none();
        let file = match (Followed::new(&folder, key, *stream, made), &home) {
            (Err(failure), Some(home)) => Followed::new(home, key, *stream, made).map_err(|_| failure)?,
            (file, _) => file?,
        };
        request.options.push(file.option()?);
        followed.push(file);
    }
    Ok(followed)
}

/// Asks, on a thread of its own, until the job has ended.
fn start(client: &Client, request: SubmitRequest) -> Result<Receiver<News>, Failure> {
    let (sender, receiver) = channel();
    let client = client.clone();
    let asking = thread::Builder::new().spawn(move || ask(&client, &request, &sender));
    match asking {
        Ok(_) => Ok(receiver),
        Err(error) => Err(Failure::said(ErrorClass::TryAgain, format!("cannot start a thread: {error}"))),
    }
}

/// If nobody listens any more, `axrun` is ending and the thread with it.
fn ask(client: &Client, request: &SubmitRequest, news: &Sender<News>) {
    let answer = match send::ask(client, request) {
        Ok(answer) => answer,
        Err(failure) => return drop(news.send(News::Failed(failure))),
    };
    let Some(id) = answer.id.map(|id| id.to_string()) else {
        let line = "axd took the command and names no job";
        return drop(news.send(News::Failed(Failure::said(ErrorClass::Unavailable, line))));
    };
    let _ = news.send(News::Accepted(Box::new(answer)));
    if let Ok(job) = client.wait(&id, PATIENCE_S)
        && job.state.is_waiting()
    {
        let _ = news.send(News::Waits(job.reason));
    }
    let _ = news.send(match wait::until_end(client, &id, None) {
        Ok(job) => News::Ended(Box::new(job)),
        Err(failure) => News::Failed(failure),
    });
}

/// The loop beside the asking.
struct Attendant<'a> {
    understood: &'a Understood,
    client: Client,
    signals: SignalWatch,
    followed: Vec<Followed>,
    warnings: Vec<String>,
    /// Once it is accepted.
    job: Option<String>,
    /// The first signal that came.
    heard: Option<Signal>,
}

impl Attendant<'_> {
    fn attend(mut self, news: &Receiver<News>, world: &mut World<'_>) -> Result<u8, Failure> {
        let mut pause = SHORTEST;
        loop {
            let came = self.copy(world)?;
            pause = if came { SHORTEST } else { (pause * 2).min(LONGEST) };
            match news.recv_timeout(pause) {
                Ok(News::Accepted(answer)) => self.accepted(&answer, world),
                Ok(News::Waits(reason)) => self.waits(reason, world),
                Ok(News::Ended(job)) => {
                    self.copy_rest(job.attempt, world)?;
                    return Ok(self.ended(&job, world));
                }
                Ok(News::Failed(failure)) => {
                    // What is accepted may run on, whatever keeps us from hearing of it.
                    self.keep_files(self.job.is_some());
                    return Err(failure);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::said(ErrorClass::Unavailable, "the asking broke off"));
                }
            }
            if let Some(signal) = self.signals.next().map_err(system)?
                && !self.hear(signal, world)
            {
                return Ok(128_u8.saturating_add(u8::try_from(signal.number()).unwrap_or(0)));
            }
        }
    }

    fn keep_files(&mut self, stay: bool) {
        for file in &mut self.followed {
            file.stays = stay;
        }
    }

    fn remark(&self, line: &str, world: &mut World<'_>) {
        if !self.understood.conduct.quiet {
            world.remark("axrun", line);
        }
    }

    fn remark_cut(&self, copied: Copied, world: &mut World<'_>) {
        if copied.cut {
            self.remark(CUT, world);
        }
    }

    /// Copies what came. Where nobody takes it any more, the job has no reader and is ended, as a command
    /// at the end of a broken pipe is.
    fn copy(&mut self, world: &mut World<'_>) -> Result<bool, Failure> {
        let mut came = false;
        for at in 0..self.followed.len() {
            let before = self.followed[at].attempt();
            let copied = self.followed[at].copy(world);
            if matches!(copied, Err(Failure::Output(_))) {
                self.cancel_once();
            }
            let copied = copied?;
            self.remark_cut(copied, world);
            came |= copied.came;
            self.remark_later(at, before, world);
        }
        Ok(came)
    }

    /// Copies all that is left, of all attempts up to the last.
    fn copy_rest(&mut self, last: u32, world: &mut World<'_>) -> Result<(), Failure> {
        for at in 0..self.followed.len() {
            loop {
                let before = self.followed[at].attempt();
                let copied = self.followed[at].copy_rest(last, world)?;
                self.remark_cut(copied, world);
                self.remark_later(at, before, world);
                if before >= last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Says once, before its output comes, that a later attempt than `before` is followed.
    fn remark_later(&self, at: usize, before: u32, world: &mut World<'_>) {
        let now = self.followed[at].attempt();
        if at == 0 && now > before {
            self.remark(&format!("the job was started again; the output of attempt {now} follows"), world);
        }
    }

    fn accepted(&mut self, answer: &SubmitAnswer, world: &mut World<'_>) {
        self.job = answer.id.map(|id| id.to_string());
        let new = answer.warnings.iter().filter(|line| !self.understood.tells(line));
        for line in self.warnings.iter().chain(new) {
            self.remark(&format!("warning: {line}"), world);
        }
        if self.understood.conduct.verbose > 0 {
            for line in &answer.understood {
                // If nobody reads it, the job goes on.
                let _ = writeln!(world.err, "{}", shown(line));
            }
            self.remark(&format!("submitted as {}", self.name()), world);
        }
        if self.heard.is_some() {
            self.cancel();
        }
    }

    fn name(&self) -> &str {
        self.job.as_deref().unwrap_or("the job")
    }

    fn waits(&self, reason: Option<String>, world: &mut World<'_>) {
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        self.remark(&format!("{} waits{reason}", self.name()), world);
    }

    /// The first signal ends the job and is followed by its end; the second ends `axrun`: `false`.
    fn hear(&mut self, signal: Signal, world: &mut World<'_>) -> bool {
        if self.heard.replace(signal).is_some() {
            // The job may live on, if no daemon could be told; what it writes is not taken away from it.
            self.keep_files(true);
            let files: Vec<String> =
                self.followed.iter().map(|file| file.path(file.attempt()).display().to_string()).collect();
            let left =
                if files.is_empty() { String::new() } else { format!("; output: {}", files.join(", ")) };
            self.remark(&format!("left {} before its end{left}", self.name()), world);
            return false;
        }
        self.remark(&format!("ending {}; once more to leave it alone", self.name()), world);
        self.cancel();
        true
    }

    /// Cancels the job, if it is accepted, on a thread that tries again while no daemon answers.
    fn cancel(&self) {
        let Some(request) = self.cancellation() else { return };
        let client = self.client.clone();
        // Without a thread there is nothing to be done: the second signal still leaves.
        let _ = thread::Builder::new().spawn(move || {
            let ask = || client.post::<_, ActionAnswer>("/api/v1/jobs/action", &request);
            while ask().is_err_and(|failure| failure.is_passing()) {
                thread::sleep(PAUSE);
            }
        });
    }

    /// The same, before this process ends: one try.
    fn cancel_once(&self) {
        if let Some(request) = self.cancellation() {
            let _ = self.client.post::<_, ActionAnswer>("/api/v1/jobs/action", &request);
        }
    }

    fn cancellation(&self) -> Option<ActionRequest> {
        let jobs = vec![self.job.clone()?];
        let why = match self.heard {
            Some(signal) => format!("axrun was sent SIG{signal}"),
            None => "nobody takes its output any more".to_owned(),
        };
        Some(ActionRequest { action: Action::Cancel { signal: None }, jobs, select: None, why: Some(why) })
    }

    /// The status, and the reason where the status is not the command's own word.
    fn ended(&self, job: &JobView, world: &mut World<'_>) -> u8 {
        let own_word = job.state == JobState::Succeeded
            || (job.state == JobState::Failed && job.signal.is_none() && job.exit_code.is_some());
        if !own_word && self.heard.is_none() {
            let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            self.remark(&format!("{} is {}{reason}", job.id, job.state), world);
        }
        match self.heard {
            // Ended by us before it ran: as if it had been sent the signal itself.
            Some(signal) if job.exit_code.is_none() && job.signal.is_none() => {
                128_u8.saturating_add(u8::try_from(signal.number()).unwrap_or(0))
            }
            _ => wait::status(job),
        }
    }
}

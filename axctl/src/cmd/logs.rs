//! `ax logs`: a job's output, byte by byte as `cat` would, read as the caller. Following ends
//! when the job has ended and its file is drained, and goes on into the next attempt's file.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ax_core::api::{ErrorClass, JobView};
use ax_core::job::state::{JobState, Outcome};

use crate::failure::Failure;
use crate::fields::shown_id;
use crate::growing::{CUT, Growing};
use crate::session::Session;
use crate::shown::plain;

/// How often a followed file is looked at, and how often the job is.
const LOOK_AT_FILE: Duration = Duration::from_millis(100);
const LOOK_AT_JOB: Duration = Duration::from_secs(1);

/// Print a job's output
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    /// Go on until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Of this attempt, from 1; without it the last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// The errors, of a job that writes them into a file of their own
    #[arg(long)]
    err: bool,
}

impl Arguments {
    /// Asks where the output is and copies it.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let job = session.client.job(&self.job)?;
        if self.follow {
            self.follow(session, job)?;
        } else {
            let attempt = self.attempt.unwrap_or(job.attempt);
            let path = self.path_of(&job, attempt)?;
            let coming = attempt == job.attempt && job.state == JobState::Starting;
            if coming && !Path::new(path).exists() {
                let line = format!("{} is being started, so there is no output yet", shown_id(&job));
                return Err(Failure::said(ErrorClass::Refused, line));
            }
            let unlaunched = not_launched(&job, attempt);
            match (open(path, &job), unlaunched) {
                (Err(_), Some(why)) => {
                    return Err(Failure::said(ErrorClass::Refused, format!("{why}, so there is no output")));
                }
                (opened, why) => {
                    opened?.copy(session.world.out)?;
                    why.iter().for_each(|why| session.remark(why));
                }
            }
        }
        Ok(0)
    }

    /// Copies attempt after attempt until the job, or the one attempt that was asked for, is over.
    fn follow(&self, session: &mut Session<'_, '_>, mut job: JobView) -> Result<(), Failure> {
        if job.attempt == 0 && !job.state.is_final() {
            let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            session.remark(&format!("{} has not started yet{reason}", shown_id(&job)));
        }
        let mut number = self.attempt.unwrap_or(job.attempt).max(1);
        loop {
            job = wait_for_attempt(session, job, &self.job, number)?;
            job = self.follow_one(session, job, number)?;
            if self.attempt.is_some() || (job.attempt <= number && job.state.is_final()) {
                return Ok(());
            }
            number += 1;
        }
    }

    /// Copies one attempt's file until that attempt is over and the file is drained.
    fn follow_one(
        &self,
        session: &mut Session<'_, '_>,
        mut job: JobView,
        number: u32,
    ) -> Result<JobView, Failure> {
        let mut file: Option<Growing> = None;
        let mut looked = Instant::now();
        loop {
            // Whether it is over is asked before the last read, so that nothing is missed after it.
            let over = is_over(&job, number);
            if file.is_none() {
                let path = self.path_of(&job, number)?;
                // The file appears when the script starts, and not at all if that failed.
                let there = Path::new(path).exists() && not_launched(&job, number).is_none();
                file = there.then(|| open(path, &job)).transpose()?;
            }
            if let Some(file) = &mut file {
                if file.is_cut()? {
                    session.remark(CUT);
                }
                file.copy(session.world.out)?;
            }
            if over {
                if let Some(why) = not_launched(&job, number) {
                    session.remark(&why);
                } else if file.is_none() {
                    session.remark(&format!("{} left no output in attempt {number}", shown_id(&job)));
                }
                return Ok(job);
            }
            thread::sleep(LOOK_AT_FILE);
            if looked.elapsed() >= LOOK_AT_JOB {
                job = look_again(session, &self.job, job)?;
                looked = Instant::now();
            }
        }
    }

    /// The file that was asked for, of an attempt.
    fn path_of<'j>(&self, job: &'j JobView, number: u32) -> Result<&'j str, Failure> {
        let attempt = job.attempts.iter().find(|attempt| attempt.number == number);
        let is_last = number == job.attempt && number > 0;
        let output = attempt.and_then(|a| a.stdout.as_ref()).or(job.stdout.as_ref().filter(|_| is_last));
        let errors = attempt.and_then(|a| a.stderr.as_ref()).or(job.stderr.as_ref().filter(|_| is_last));
        match (self.err, output, errors) {
            (false, Some(path), _) | (true, _, Some(path)) => Ok(path),
            (true, Some(_), None) => {
                let line =
                    format!("{} writes its errors into its output; see it without --err", shown_id(job));
                Err(Failure::said(ErrorClass::Refused, line))
            }
            _ => Err(no_output(job, number)),
        }
    }
}

/// Waits until there is an attempt of this number, or there will never be one.
fn wait_for_attempt(
    session: &Session<'_, '_>,
    mut job: JobView,
    name: &str,
    number: u32,
) -> Result<JobView, Failure> {
    while job.attempt < number {
        if job.state.is_final() {
            return Err(no_output(&job, number));
        }
        thread::sleep(LOOK_AT_JOB);
        job = look_again(session, name, job)?;
    }
    Ok(job)
}

/// The job now. A daemon that is being restarted does not end the following: the job runs on.
fn look_again(session: &Session<'_, '_>, name: &str, before: JobView) -> Result<JobView, Failure> {
    match session.client.job(name) {
        Err(failure) if failure.is_passing() => Ok(before),
        other => other,
    }
}

fn is_over(job: &JobView, number: u32) -> bool {
    let attempt = job.attempts.iter().find(|attempt| attempt.number == number);
    job.attempt > number || job.state.is_final() || attempt.is_some_and(|attempt| attempt.ended_at.is_some())
}

/// Why an attempt ran nothing, if so.
fn not_launched(job: &JobView, number: u32) -> Option<String> {
    let attempt = job.attempts.iter().find(|attempt| attempt.number == number)?;
    let why = attempt.message.as_deref().unwrap_or("its script never ran");
    (attempt.state.parse() == Ok(Outcome::LaunchFailed))
        .then(|| format!("{} was not launched in attempt {number}: {why}", shown_id(job)))
}

fn no_output(job: &JobView, number: u32) -> Failure {
    let id = shown_id(job);
    let line = if job.attempt == 0 {
        let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let state = if job.state.is_final() { "never started" } else { "has not started yet" };
        format!("{id} {state}, so there is no output{reason}")
    } else if number > job.attempt {
        format!("{id} has no attempt {number}; the last is {}", job.attempt)
    } else {
        format!("{id} writes no output file in attempt {number}")
    };
    Failure::said(ErrorClass::Refused, line)
}

fn open(path: &str, job: &JobView) -> Result<Growing, Failure> {
    Growing::open(Path::new(path)).map_err(|error| {
        let node = job.node.as_ref().map(|node| format!("; the job's node is {node}")).unwrap_or_default();
        Failure::said(ErrorClass::NoInput, format!("cannot open {path}: {}{node}", plain(&error)))
    })
}

//! `ax hold`, `release`, `suspend`, `resume`, `resolve`: actions on named jobs, and how the
//! outcome of any action is shown: one line a job, errors on standard error.

use ax_core::api::{Action, ActionAnswer, ActionRequest, Resolution};

use crate::failure::Failure;
use crate::session::Session;
use crate::shown::shown;

/// The jobs of an action.
#[derive(clap::Args)]
pub(crate) struct Jobs {
    /// Jobs: ax-2026-0001, 1, ax-2026-0001_7, ax-2026-0001_[1-5,9]
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    extra: Extra,
}

/// What every action takes.
#[derive(clap::Args)]
pub(crate) struct Extra {
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// One JSON document: what became of each job
    #[arg(long)]
    json: bool,
}

/// Keep waiting jobs from being started
#[derive(clap::Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    jobs: Jobs,
}

/// Let held jobs be started
#[derive(clap::Args)]
pub(crate) struct Release {
    #[command(flatten)]
    jobs: Jobs,
}

/// Freeze the processes of running jobs; not supported yet
#[derive(clap::Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    jobs: Jobs,
}

/// Let suspended jobs go on; not supported yet
#[derive(clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    jobs: Jobs,
}

/// Say what became of a job that ax cannot know about
#[derive(clap::Args)]
pub(crate) struct Resolve {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    /// What happened, or what shall happen
    #[arg(value_name = "ANSWER")]
    answer: Answer,
    #[command(flatten)]
    extra: Extra,
}

/// The answers of `ax resolve`.
#[derive(clap::ValueEnum, Clone, Copy)]
enum Answer {
    /// It did its work
    Succeeded,
    /// It did not
    Failed,
    /// Start it again
    Rerun,
}

impl Jobs {
    fn run(&self, session: &mut Session<'_, '_>, action: Action) -> Result<u8, Failure> {
        let (jobs, why) = (self.jobs.clone(), self.extra.why.clone());
        ask(session, &ActionRequest { action, jobs, select: None, why }, self.extra.json)
    }
}

impl Hold {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        self.jobs.run(session, Action::Hold)
    }
}

impl Release {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        self.jobs.run(session, Action::Release)
    }
}

impl Suspend {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        self.jobs.run(session, Action::Suspend)
    }
}

impl Resume {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        self.jobs.run(session, Action::Resume)
    }
}

impl Resolve {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let answer = match self.answer {
            Answer::Succeeded => Resolution::Succeeded,
            Answer::Failed => Resolution::Failed,
            Answer::Rerun => Resolution::Rerun,
        };
        let (action, why) = (Action::Resolve { answer }, self.extra.why.clone());
        let request = ActionRequest { action, jobs: vec![self.job.clone()], select: None, why };
        ask(session, &request, self.extra.json)
    }
}

/// Sends an action and shows what became of each job. The exit code is that of the first error.
pub(crate) fn ask(session: &mut Session<'_, '_>, request: &ActionRequest, json: bool) -> Result<u8, Failure> {
    let answer: ActionAnswer = session.client.post("/api/v1/jobs/action", request)?;
    if json {
        session.json(&answer.results)?;
    } else {
        show(session, &answer)?;
    }
    let errors = answer.results.iter().filter_map(|result| result.error.as_ref());
    Ok(errors.map(|error| error.class.exit_code()).next().unwrap_or(0))
}

fn show(session: &mut Session<'_, '_>, answer: &ActionAnswer) -> Result<(), Failure> {
    if answer.results.is_empty() {
        session.remark("no job fits");
    }
    for result in &answer.results {
        if let Some(error) = &result.error {
            session.remark(&error.error);
            continue;
        }
        let job = result.id.map_or_else(|| result.job.clone(), |id| id.to_string());
        let done = session.clock.localized(result.done.as_deref().unwrap_or("done"));
        writeln!(session.world.out, "{}: {}", shown(&job), shown(&done))?;
    }
    Ok(session.world.out.flush()?)
}

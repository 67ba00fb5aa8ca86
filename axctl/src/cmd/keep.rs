//! `ax keep`: answers the warning that a job's cards do nothing. `ax checkpointed`: a job reports that its work so
//! far is saved.

use ax_core::api::{Action, ActionRequest};
use ax_core::units;

use super::act;
use crate::failure::Failure;
use crate::session::Session;

/// Leave idle cards to their jobs for some time
#[derive(clap::Args)]
pub(crate) struct Keep {
    /// Jobs: ax-2026-0001, 1, ax-2026-0001_7, ax-2026-0001_[1-5,9]
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// For how long from now: 30m, 2h, 1d; at most 7d
    #[arg(long = "for", value_name = "DURATION")]
    span: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// One JSON document: what became of each job
    #[arg(long)]
    json: bool,
}

impl Keep {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let span = units::duration(&self.span).map_err(|_| {
            Failure::usage(format!("--for: '{}' is not a length of time such as 2h", self.span))
        })?;
        let action = Action::Keep { seconds: span.as_seconds() };
        let (jobs, why) = (self.jobs.clone(), Some(self.why.clone()));
        act::ask(session, &ActionRequest { action, jobs, select: None, why }, self.json)
    }
}

/// From within a job: tell that its work so far is safe
#[derive(clap::Args)]
pub(crate) struct Checkpointed {
    /// The job; without it the one that this is called in
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// One JSON document: what became of it
    #[arg(long)]
    json: bool,
}

impl Checkpointed {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let variable =
            |name: &str| session.world.vars.get(name).and_then(|value| value.to_str()).map(str::to_owned);
        let own = variable("AX_JOB_ID");
        let job = self.job.clone().or(own.clone()).ok_or_else(|| {
            Failure::usage("this is not within a job (AX_JOB_ID is not set); name a JOB".to_owned())
        })?;
        // An attempt that goes on although it was given up must not speak for the one that took its place.
        let epoch = variable("AX_LEASE_EPOCH").filter(|_| own.as_ref() == Some(&job));
        let epoch = epoch.and_then(|epoch| epoch.parse().ok());
        let action = Action::Checkpointed { epoch };
        act::ask(session, &ActionRequest { action, jobs: vec![job], select: None, why: None }, self.json)
    }
}

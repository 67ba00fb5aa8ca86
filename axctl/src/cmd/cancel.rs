//! `ax cancel`: ends jobs, or sends them a signal. Never all of them by accident: at least one job or filter must be
//! given.

use ax_core::api::{Action, ActionRequest, JobsQuery};
use ax_sys::signals::Signal;

use super::act;
use super::select::Filters;
use crate::failure::Failure;
use crate::session::Session;

/// End jobs, or send them a signal
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Jobs: ax-2026-0001, 1, ax-2026-0001_7, ax-2026-0001_[1-5,9]
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// The same as naming the job
    #[arg(long, value_name = "JOB")]
    job_id: Vec<String>,
    /// Send this signal and do no more
    #[arg(short, long, value_name = "SIGNAL")]
    signal: Option<String>,
    #[command(flatten)]
    filters: Filters,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// One JSON document: what became of each job
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let jobs: Vec<String> = self.jobs.iter().chain(&self.job_id).cloned().collect();
        let select = Some(self.filters.query()?).filter(|query| *query != JobsQuery::default());
        if jobs.is_empty() && select.is_none() {
            return Err(Failure::usage(
                "nothing to cancel; name a JOB, or give --user, --queue, --name or --state",
            ));
        }
        if !jobs.is_empty() && select.is_some() {
            return Err(Failure::usage("give either jobs or conditions, not both"));
        }
        let signal = self.signal.as_deref().map(signal_number).transpose()?;
        let action = Action::Cancel { signal };
        act::ask(session, &ActionRequest { action, jobs, select, why: self.why.clone() }, self.json)
    }
}

fn signal_number(text: &str) -> Result<u8, Failure> {
    let signal: Signal = text.parse().map_err(|error| Failure::usage(format!("--signal: {error}")))?;
    u8::try_from(signal.number()).map_err(|_| Failure::usage(format!("--signal: {text} is no signal")))
}

//! `ax update`: changes jobs with the options with which they were submitted. Here the options are only
//! separated from the jobs; the daemon, which has the whole job, finds out what they mean together.

use std::ffi::OsString;

use ax_core::api::{Action, ActionRequest};
use ax_core::directive::options::Section;
use ax_core::directive::{Program, parse_args};

use super::act;
use crate::failure::Failure;
use crate::session::Session;
use crate::submit::{request_words, said, utf8};

/// Change waiting jobs, or the time limit of running ones
///
/// Of waiting jobs: --priority, --time, --begin, --window, --deadline, --queue, --job-name, --gpus, --gpus-per-node,
/// --mem, --ram, --cpus-per-task, --constraint and --nodes; of running ones: --time.
#[derive(clap::Args)]
#[command(override_usage = "ax update [--why TEXT] [--json] JOB... OPTION...")]
pub(crate) struct Arguments {
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// One JSON document: what became of each job
    #[arg(long)]
    json: bool,
    /// Jobs, and then options such as --priority=80 or --time=2h
    #[arg(value_name = "JOB", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let words = utf8(&self.words)?;
        let first_option = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
        let (jobs, options) = words.split_at(first_option);
        let line = parse_args(options, Program::AxSubmit).map_err(said)?;
        let json = self.json || line.has("json");
        let wrong = line
            .options
            .iter()
            .find(|option| option.def.section == Section::Command && option.def.name != "json");
        if let Some(option) = wrong {
            return Err(Failure::usage(format!("'{}' is not a property of a job", option.written)));
        }
        let jobs = jobs.iter().chain(&line.script).chain(&line.script_args).cloned().collect::<Vec<_>>();
        let options = request_words(&line.options);
        if jobs.is_empty() || options.is_empty() {
            return Err(Failure::usage("write jobs and what shall change: ax update JOB --priority=80"));
        }
        let request =
            ActionRequest { action: Action::Update { options }, jobs, select: None, why: self.why.clone() };
        act::ask(session, &request, json)
    }
}

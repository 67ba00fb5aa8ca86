//! `ax queue`: the waiting and running jobs, each waiting one with its reason.
//! One line a job; on a narrow terminal the reason stands below it instead of being cut.

use ax_core::api::JobView;
use ax_core::job::state::JobState;

use super::select::Chosen;
use crate::failure::Failure;
use crate::fields::{self, JOB_FIELDS};
use crate::session::Session;

const SHORT: &str = "id,name,user,queue,state,gpus,time,where";
const NARROW: &str = "id,name,user,queue,state,gpus,time,node";
const START: &str = "id,name,user,queue,state,expected,basis";
const NARROW_START: &str = "id,name,user,queue,state,expected";
const LONG: &str =
    "id,name,user,account,queue,state,priority,gpus,gpumem,cpus,ram,limit,submitted,time,node,reason";

/// List the waiting and running jobs, with reasons and expected starts
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    chosen: Chosen,
    /// Also jobs that ended within the last 300 seconds
    #[arg(long)]
    all: bool,
    /// More columns, and nothing is cut
    #[arg(short, long, visible_alias = "wide")]
    long: bool,
    /// Only waiting jobs, in the order of their expected starts: when, and what that rests on
    #[arg(long, conflicts_with = "all")]
    start: bool,
    /// Only the first N jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// These columns, separated by commas
    #[arg(short = 'o', long, value_name = "COLUMNS")]
    format: Option<String>,
    /// Without the line of titles
    #[arg(long)]
    noheader: bool,
    /// One JSON document with everything
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let mut query = self.chosen.query()?;
        // Who names a job wants to see it, also if it has ended just now.
        query.all = self.all || (self.chosen.is_by_name() && !self.start);
        if self.start {
            query.state = self.waiting(query.state)?;
            query.by_start = true;
        }
        query.limit = self.limit;
        let columns = fields::choose(&JOB_FIELDS, self.columns(session))?;
        let answer = session.client.jobs(&query)?;
        self.chosen.warn(&answer, session);
        if self.json {
            session.json(&answer.jobs)?;
        } else {
            let below = self.format.is_none() && !self.long && session.has_room_below();
            let said = |job: &JobView| if self.start { job.expected_basis.clone() } else { reason(job) };
            let note = |job: &JobView| said(job).filter(|_| below);
            let mut table = fields::table(&columns, &answer.jobs, &session.clock, note);
            if self.format.is_some() {
                table.keep_all();
            }
            session.table(&table, !self.noheader, self.long)?;
        }
        if answer.left_out > 0 && !self.json {
            session.remark(&format!("{} more; see --limit", answer.left_out));
        }
        Ok(0)
    }

    /// Of these states, or of all, those in which jobs wait.
    fn waiting(&self, mut states: Vec<JobState>) -> Result<Vec<JobState>, Failure> {
        if states.is_empty() {
            return Ok(vec![JobState::Ready, JobState::Pending]);
        }
        states.retain(|state| state.is_waiting());
        match states.is_empty() {
            true => Err(Failure::usage(
                "--start lists waiting jobs, and in no state of --state they wait".to_owned(),
            )),
            false => Ok(states),
        }
    }

    fn columns(&self, session: &Session<'_, '_>) -> &str {
        match (&self.format, self.long) {
            (Some(format), _) => format,
            (None, false) if self.start && session.has_room_below() => NARROW_START,
            (None, _) if self.start => START,
            (None, true) => LONG,
            (None, false) if session.has_room_below() => NARROW,
            (None, false) => SHORT,
        }
    }
}

/// Why a job is not running.
fn reason(job: &JobView) -> Option<String> {
    job.reason.clone().filter(|_| !job.state.is_active())
}

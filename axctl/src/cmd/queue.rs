//! `ax queue`: the waiting and running jobs, each waiting one with its reason.
//! One line a job; on a narrow terminal the reason stands below it instead of being cut.

use ax_core::api::JobView;

use super::select::Filters;
use crate::failure::Failure;
use crate::fields::{self, Field, JOB_FIELDS};
use crate::session::Session;
use crate::table::Table;

/// From this width on a reason has room in a column.
const ROOM_FOR_REASON: usize = 120;

const SHORT: &str = "id,name,user,queue,state,gpus,time,where";
const NARROW: &str = "id,name,user,queue,state,gpus,time,node";
const LONG: &str =
    "id,name,user,account,queue,state,priority,gpus,gpumem,cpus,ram,limit,submitted,time,node,reason";

/// List the waiting and running jobs, with reasons and expected starts
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filters: Filters,
    /// Also jobs that ended within the last 300 seconds
    #[arg(long)]
    all: bool,
    /// More columns, and nothing is cut
    #[arg(short, long, visible_alias = "wide")]
    long: bool,
    /// Only the first N jobs
    #[arg(long, value_name = "N")]
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
        let mut query = self.filters.query()?;
        query.all = self.all;
        query.limit = self.limit;
        let columns = fields::choose(&JOB_FIELDS, self.columns(session))?;
        let answer = session.client.jobs(&query)?;
        if self.json {
            session.json(&answer.jobs)?;
        } else {
            let table = self.lay_out(&columns, &answer.jobs, session);
            session.table(&table, !self.noheader, self.long)?;
        }
        if answer.left_out > 0 && !self.json {
            session.remark(&format!("{} more; see --limit", answer.left_out))?;
        }
        Ok(0)
    }

    fn columns(&self, session: &Session<'_, '_>) -> &str {
        match (&self.format, self.long) {
            (Some(format), _) => format,
            (None, true) => LONG,
            (None, false) if reasons_below(session) => NARROW,
            (None, false) => SHORT,
        }
    }

    fn lay_out(&self, columns: &[&Field<JobView>], jobs: &[JobView], session: &Session<'_, '_>) -> Table {
        if self.format.is_some() || self.long || !reasons_below(session) {
            return fields::table(columns, jobs, &session.clock);
        }
        let mut table = Table::new(columns.iter().map(|field| field.column).collect());
        for job in jobs {
            let cells = fields::cells(columns, job, &session.clock);
            match &job.reason {
                Some(reason) if !job.state.is_active() => table.row_with_note(cells, reason),
                _ => table.row(cells),
            }
        }
        table
    }
}

/// Lines that programs read hold the whole job; people get room for the reason.
fn reasons_below(session: &Session<'_, '_>) -> bool {
    session.screen.terminal && session.screen.width < ROOM_FOR_REASON
}

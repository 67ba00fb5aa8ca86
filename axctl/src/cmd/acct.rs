//! `ax acct`: finished jobs out of the accounts, what they used, and the sums below.

use std::collections::BTreeMap;

use ax_core::api::JobView;
use ax_core::time::Span;

use super::select::Chosen;
use crate::failure::Failure;
use crate::fields::{self, JOB_FIELDS};
use crate::session::Session;
use crate::table::wrap;

const COLUMNS: &str = "id,name,user,queue,state,exit,elapsed,cpu,maxram";
const LONG: &str = "id,name,user,account,queue,state,exit,node,gpus,cpus,submitted,started,ended,elapsed,cpu,maxram,idle,attempt,reason";

/// List finished jobs and what they used
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    chosen: Chosen,
    /// Ended at or after: yesterday, 7d (ago), 14:30, 2026-11-29, 2026-11-29T14:30; default: today, or ever for named jobs
    #[arg(short = 'S', long, value_name = "TIME")]
    since: Option<String>,
    /// Ended before
    #[arg(short = 'E', long, value_name = "TIME")]
    until: Option<String>,
    /// More columns, and nothing is cut
    #[arg(short, long, visible_alias = "wide")]
    long: bool,
    /// At most N jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// These columns, separated by commas
    #[arg(short = 'o', long, value_name = "COLUMNS")]
    format: Option<String>,
    /// Without the line of titles and the line of sums
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
        query.finished = true;
        query.limit = self.limit;
        let today = (!self.chosen.is_by_name()).then_some("today");
        query.since = self.since.as_deref().or(today).map(|since| session.clock.read(since)).transpose()?;
        query.until = self.until.as_ref().map(|until| session.clock.read(until)).transpose()?;
        let names = self.format.as_deref().unwrap_or(if self.long { LONG } else { COLUMNS });
        let columns = fields::choose(&JOB_FIELDS, names)?;
        let answer = session.client.jobs(&query)?;
        self.chosen.warn(&answer, session);
        if self.json {
            session.json(&answer.jobs)?;
            return Ok(0);
        }
        let mut table = fields::table(&columns, &answer.jobs, &session.clock, |_| None);
        if self.format.is_some() {
            table.keep_all();
        }
        session.table(&table, !self.noheader, self.long)?;
        if !self.noheader && self.format.is_none() {
            let sums = sums(&answer.jobs, session);
            session.print(&sums)?;
        }
        if answer.left_out > 0 {
            session.remark(&format!("{} more; see --limit", answer.left_out));
        }
        Ok(0)
    }
}

/// So much time on all of a job's cards: a slice counts as its part of a card.
fn of_cards(job: &JobView, time: Span) -> Span {
    let cards = job.gpu_share.unwrap_or(f64::from(job.gpus));
    Span((time.0 as f64 * cards).round() as u64)
}

/// `3 jobs (2 SUCCEEDED, 1 FAILED); elapsed 03:00:00, CPU 01:00:00, GPU 06:00:00`.
fn sums(jobs: &[JobView], session: &Session<'_, '_>) -> String {
    let mut states: BTreeMap<_, u64> = BTreeMap::new();
    let (mut elapsed, mut cpu, mut gpu, mut idle) = (Span::ZERO, Span::ZERO, Span::ZERO, Span::ZERO);
    for job in jobs {
        *states.entry(job.state).or_default() += 1;
        let ran = fields::elapsed(job, &session.clock).unwrap_or_default();
        elapsed = elapsed + ran;
        cpu = cpu + fields::cpu_time(job).unwrap_or_default();
        gpu = gpu + of_cards(job, ran);
        idle = idle + of_cards(job, fields::idle(job).unwrap_or_default());
    }
    if jobs.is_empty() {
        return "no jobs ended in that time\n".to_owned();
    }
    let words: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let plural = if jobs.len() == 1 { "job" } else { "jobs" };
    let states = words.join(", ");
    let idle = if idle > Span::ZERO { format!(" (idle {idle})") } else { String::new() };
    let text = format!("{} {plural} ({states}); elapsed {elapsed}, CPU {cpu}, GPU {gpu}{idle}", jobs.len());
    wrap(&text, session.screen.width).join("\n") + "\n"
}

//! `ax why`: the story of one job: each move and decision with its time, who made it and why;
//! then what stands in its way now.

use std::fmt::Write;

use ax_core::api::{DecisionView, JobView};

use crate::failure::Failure;
use crate::fields::shown_id;
use crate::http::encode;
use crate::session::Session;
use crate::shown::shown;
use crate::style::Paint;
use crate::table::wrap;
use crate::world::Screen;

/// Explain what was decided about a job
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    /// One JSON document: the list of decisions
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let story: Vec<DecisionView> =
            session.client.get(&format!("/api/v1/jobs/{}/why", encode(&self.job)))?;
        if self.json {
            session.json(&story)?;
            return Ok(0);
        }
        let job = session.client.job(&self.job)?;
        let mut text = head(&job, session);
        text.push_str(&lines(&story, session, &session.screen));
        session.print(&text)?;
        Ok(0)
    }
}

fn head(job: &JobView, session: &Session<'_, '_>) -> String {
    let id = Paint::Bold.over(&shown_id(job), &session.screen);
    let state = Paint::of_state(job.state).over(job.state.word(), &session.screen);
    let mut text = format!("{id} is {state}");
    if let Some(reason) = &job.reason {
        let _ = write!(text, ": {}", shown(reason));
    }
    text.push('\n');
    for reason in job.reasons.iter().filter(|reason| Some(*reason) != job.reason.as_ref()) {
        let _ = writeln!(text, "  also: {}", shown(reason));
    }
    if let Some(start) = job.expected_start.filter(|_| job.state.is_waiting()) {
        let _ = writeln!(text, "  expected to start {}", session.clock.both(start));
    }
    text
}

/// The story, one decision a paragraph: `15:32:14  ax  READY → STARTING  why`.
pub(crate) fn lines(story: &[DecisionView], session: &Session<'_, '_>, screen: &Screen) -> String {
    let mut text = String::new();
    for decision in story {
        let (actor, what) = (shown(&decision.actor), shown(&decision.what));
        let time = Paint::Dim.over(&session.clock.short(decision.at), screen);
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {time}  {actor}: {what}");
        let why = shown(&decision.why);
        if why.is_empty() || why == what {
            continue;
        }
        for line in wrap(&why, screen.width.saturating_sub(6)) {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

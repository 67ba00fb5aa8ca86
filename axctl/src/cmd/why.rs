//! `ax why`: the story of one job: each move and decision with its time, who made it and why;
//! then what stands in its way now.

use std::fmt::Write;

use ax_core::api::{DecisionView, JobView};

use crate::client::named;
use crate::failure::Failure;
use crate::fields::shown_id;
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
            session.client.get(&format!("/api/v1/jobs/{}/why", named(&self.job)?))?;
        if self.json {
            session.json(&story)?;
            return Ok(0);
        }
        let job = session.client.advised(&self.job)?;
        let mut text = head(&job, session);
        text.push_str(&lines(&story, session, &session.screen));
        session.print(&text)?;
        Ok(0)
    }
}

fn head(job: &JobView, session: &Session<'_, '_>) -> String {
    let reason = job.reason.as_ref().map_or(String::new(), |reason| format!(": {}", shown(reason)));
    let (id, state) = (shown_id(job), job.state.word());
    let plain = format!("{id} is {state}");
    let mut text = String::new();
    paragraph(&mut text, &format!("{plain}{reason}"), session, 0);
    let painted = format!(
        "{} is {}",
        Paint::Bold.over(&id, &session.screen),
        Paint::of_state(job.state).over(state, &session.screen)
    );
    let mut text = text.replacen(&plain, &painted, 1);
    for reason in job.reasons.iter().filter(|reason| Some(*reason) != job.reason.as_ref()) {
        paragraph(&mut text, &format!("also: {}", shown(reason)), session, 2);
    }
    if job.state.is_waiting() {
        paragraph(&mut text, &expected(job, session), session, 2);
    }
    if let Some(advice) = &job.advice {
        paragraph(&mut text, &format!("advice: {}", shown(&advice.text)), session, 2);
    }
    text
}

/// Lines that are set in by so much, those after the first further.
fn paragraph(text: &mut String, words: &str, session: &Session<'_, '_>, indent: usize) {
    for (index, line) in wrap(words, session.screen.width.saturating_sub(indent + 4)).iter().enumerate() {
        let indent = if index == 0 { indent } else { indent + 4 };
        // Writing to a String can't fail.
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
}

/// `expected to start 2026-11-29 18:37:14 +01:00 (in 2h05m): ax-2026-0001 ends on gpu-01 then, by its limit`.
fn expected(job: &JobView, session: &Session<'_, '_>) -> String {
    let basis = job.expected_basis.as_ref().map_or(String::new(), |basis| format!(": {}", shown(basis)));
    match job.expected_start {
        Some(start) => format!("expected to start {}{basis}", session.clock.both(start)),
        None => format!("when it starts can't be said{basis}"),
    }
}

/// The story, one decision a paragraph: `15:32:14  ax  READY → STARTING  why`.
pub(crate) fn lines(story: &[DecisionView], session: &Session<'_, '_>, screen: &Screen) -> String {
    let mut text = String::new();
    for decision in story {
        let told = |text: &str| shown(&session.clock.localized(&once(text, &decision.actor)));
        let (actor, what) = (shown(&decision.actor), told(&decision.what));
        let time = Paint::Dim.over(&session.clock.short(decision.at), screen);
        // Writing to a String can't fail.
        let lead = session.clock.short(decision.at).chars().count() + 4;
        let mut what_lines = wrap(&format!("{actor}: {what}"), screen.width.saturating_sub(lead)).into_iter();
        let _ = writeln!(text, "  {time}  {}", what_lines.next().unwrap_or_default());
        for line in what_lines {
            let _ = writeln!(text, "      {line}");
        }
        let why = told(&decision.why);
        if why.is_empty() || why == what {
            continue;
        }
        for line in wrap(&why, screen.width.saturating_sub(6)) {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

/// Without the actor, who stands before it: `held by li: the disk is full` is `held: the disk is full`.
fn once(text: &str, actor: &str) -> String {
    let by = format!(" by {actor}");
    let Some(at) = text.find(&by) else { return text.to_owned() };
    let (before, rest) = (&text[..at], &text[at + by.len()..]);
    match rest.is_empty() || rest.starts_with([':', ';', ',']) {
        true => format!("{}{rest}", before.trim_end_matches(',')),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::once;

    #[test]
    fn who_stands_before_it_is_not_named_again() {
        assert_eq!(once("held by li: the disk is full", "li"), "held: the disk is full");
        assert_eq!(once("priority 50 → 80, by li", "li"), "priority 50 → 80");
        assert_eq!(once("cancelled by root", "li"), "cancelled by root");
        assert_eq!(once("put by lilith", "li"), "put by lilith");
    }
}

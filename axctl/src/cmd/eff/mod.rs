//! `ax eff`: what a job held against what it used, and what it could ask for next time.

mod facts;
mod propose;

use ax_core::api::{CardView, UsageView};
use ax_core::time::Span;
use unicode_width::UnicodeWidthStr;

use crate::client::named;
use crate::failure::Failure;
use crate::fields::{card_memory, megabytes};
use crate::session::Session;
use crate::shown::shown;
use crate::style::Paint;
use crate::table::Shrink::{Freely, Never};
use crate::table::{Cell, Column, Table, cut, wrap};
use crate::when::length;
use facts::Facts;

/// Show what jobs used of what they held, and what to ask for next time
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Jobs: ax-2026-0001, 1; running or finished
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// One JSON document: a list with an object a job
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Asks and prints. Jobs that are unknown do not hide the others.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let (mut found, mut code, mut cards) = (Vec::new(), 0, None);
        for name in &self.jobs {
            match facts_of(session, name, &mut cards) {
                Ok(facts) => found.push(facts),
                Err(Failure::Answer(error)) => {
                    session.remark(&error.error);
                    code = if code == 0 { error.class.exit_code() } else { code };
                }
                Err(other) => return Err(other),
            }
        }
        if self.json {
            let documents: Vec<_> = found.iter().map(Facts::document).collect();
            session.json(&documents)?;
        } else {
            let pages: Vec<String> = found.iter().map(|facts| page(facts, session)).collect();
            session.print(&pages.join("\n"))?;
        }
        Ok(code)
    }
}

fn facts_of(
    session: &Session<'_, '_>,
    name: &str,
    cards: &mut Option<Vec<CardView>>,
) -> Result<Facts, Failure> {
    let job = session.client.job(name)?;
    let usage: UsageView = session.client.get(&format!("/api/v1/jobs/{}/usage", named(name)?))?;
    if cards.is_none() && !job.gpu_uuids.is_empty() {
        *cards = Some(session.client.get("/api/v1/cards")?);
    }
    Ok(Facts::new(job, &usage, cards.as_deref().unwrap_or_default(), session.clock.now))
}

fn page(facts: &Facts, session: &Session<'_, '_>) -> String {
    let (job, screen) = (&facts.job, &session.screen);
    let state = Paint::of_state(job.state).over(job.state.word(), screen);
    let ran = facts.ran.map_or("has not run".to_owned(), |ran| match job.state.is_active() {
        true => format!("for {} so far", length(ran)),
        false => format!("after {}", length(ran)),
    });
    let attempts = match facts.attempts {
        0 | 1 => String::new(),
        many => format!(" (the last of {many} attempts)"),
    };
    let (id, user) = (crate::fields::shown_id(job), shown(&job.user));
    let rest = format!(" of {user}: {} {ran}{attempts}", job.state.word());
    let room = screen.width.saturating_sub(id.len() + rest.width() + 1);
    let name = if room > 3 { format!(" {}", cut(&shown(&job.name), room)) } else { String::new() };
    let of = Paint::Bold.over(&format!("{id}{name}"), screen);
    let mut text = format!("{of} of {user}: {state} {ran}{attempts}\n");
    text.push_str(&table(facts).text(true, screen.width, screen));
    if let Some(idle) = facts.idle {
        let card = if job.gpus == 1 { "its card" } else { "its cards" };
        text.push_str(&format!("{card} did nothing for {} of it\n", length(idle)));
    }
    let proposal = propose::of(facts);
    for remark in &proposal.remarks {
        text.push_str(&(wrap(remark, screen.width).join("\n") + "\n"));
    }
    if !proposal.lines.is_empty() {
        text.push_str("next time:\n");
        let lines = proposal.lines.iter().map(|line| format!("    #AX {line}\n"));
        text.extend(lines);
    }
    text
}

fn table(facts: &Facts) -> Table {
    let column = |title, right, shrink| Column { title, right, shrink };
    let mut table = Table::new(vec![
        column("", false, Never),
        column("HELD", true, Never),
        column("USED", true, Never),
        column("", true, Never),
        column("", false, Freely(8)),
    ]);
    let mut row =
        |what: &str, held: Option<String>, used: Option<String>, part: Option<f64>, more: String| {
            let part = part.map(|part| format!("{:.0}%", part * 100.0)).unwrap_or_default();
            table.row(
                vec![Cell::new(what), Cell::maybe(held), Cell::maybe(used), Cell::new(part), Cell::new(more)],
                None,
            );
        };
    if let Some(gpu) = &facts.gpu {
        let cards = format!("{} card{}", facts.job.gpus, if facts.job.gpus == 1 { "" } else { "s" });
        let busy = gpu.busy.map(|busy| format!("{:.0}%", busy.mean));
        let most = gpu.busy.map(|busy| format!("most {:.0}%", busy.max)).unwrap_or_default();
        row("GPU busy", Some(cards), busy, None, most);
        let mean = gpu.memory.map(|memory| format!("mean {}", card_memory(memory.mean as u64)));
        let part = ratio(gpu.peak_mb.map(|mb| mb as f64), gpu.held_mb.map(|mb| mb as f64));
        let (held, peak) = (gpu.held_mb.map(card_memory), gpu.peak_mb.map(card_memory));
        row("GPU memory", held, peak, part, mean.unwrap_or_default());
    }
    let cpus = f64::from(facts.job.cpus);
    let time = facts.cpu_time.map(|time| format!("{} of CPU time", length(time))).unwrap_or_default();
    let used = facts.cpus_used.map(|used| format!("{used:.1}"));
    row("CPUs", Some(facts.job.cpus.to_string()), used, ratio(facts.cpus_used, Some(cpus)), time);
    let (held, peak) = (facts.job.ram_mb, facts.peak_ram_mb);
    let part = ratio(peak.map(|mb| mb as f64), held.map(|mb| mb as f64));
    let mean = facts.ram.map(|ram| format!("mean {}", megabytes(ram.mean as u64))).unwrap_or_default();
    row("RAM", held.map(megabytes), peak.map(megabytes), part, mean);
    let limit = facts.job.time_limit_s.map(Span::seconds);
    let part = ratio(facts.ran.map(|ran| ran.0 as f64), limit.map(|limit| limit.0 as f64));
    row("time", limit.map(length), facts.ran.map(length), part, String::new());
    table
}

fn ratio(used: Option<f64>, held: Option<f64>) -> Option<f64> {
    let (used, held) = (used?, held?);
    (held > 0.0).then(|| used / held)
}

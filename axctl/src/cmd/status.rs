//! `ax status`: everything about a job, in groups: what it is, what it asked for, when, where,
//! its attempts, its story. What is absent is left out for people, and `null` in JSON.

use std::fmt::Write;
use std::path::Path;

use ax_core::api::{AttemptView, JobView, LearntView};
use ax_core::directive::quote;
use ax_core::hostlist::compress;
use ax_core::job::state::STATES;
use ax_core::time::Span;

use super::why;
use crate::failure::Failure;
use crate::fields::{card_memory, exit, megabytes, shown_id};
use crate::session::Session;
use crate::shown::shown;
use crate::style::Paint;
use crate::table::{Cell, Column, Shrink, Table, wrap};
use crate::when::length;

const LABEL: usize = 12;

/// Show everything about jobs
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Jobs: ax-2026-0001, 1, ax-2026-0001_7, or the ticket of a spooled submission
    #[arg(value_name = "JOB", required_unless_present = "job_id")]
    jobs: Vec<String>,
    /// The same as naming the job
    #[arg(long, value_name = "JOB")]
    job_id: Vec<String>,
    /// One JSON document: a list with an object a job
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Asks and prints. Jobs that are unknown do not hide the others.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let mut found = Vec::new();
        let mut code = 0;
        for name in self.jobs.iter().chain(&self.job_id) {
            match session.client.advised(name) {
                Ok(job) => found.push(job),
                Err(Failure::Answer(error)) => {
                    session.remark(&error.error);
                    code = if code == 0 { error.class.exit_code() } else { code };
                }
                Err(other) => return Err(other),
            }
        }
        if self.json {
            session.json(&found)?;
        } else {
            let texts: Vec<String> = found.iter().map(|job| page(job, session)).collect();
            session.print(&texts.join("\n"))?;
        }
        Ok(code)
    }
}

/// The text about one job as it grows.
struct Page<'a, 's, 'w> {
    job: &'a JobView,
    session: &'a Session<'s, 'w>,
    text: String,
}

fn page(job: &JobView, session: &Session<'_, '_>) -> String {
    let mut page = Page { job, session, text: String::new() };
    page.head();
    page.request();
    page.times();
    page.files();
    page.attempts();
    page.story();
    page.text
}

impl Page<'_, '_, '_> {
    /// `  label       value`, wrapped below itself.
    fn line(&mut self, label: &str, value: &str) {
        let room = self.session.screen.width.saturating_sub(LABEL + 2);
        for (index, line) in wrap(&shown(value), room).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            // Writing to a String can't fail.
            let _ = writeln!(self.text, "  {label:LABEL$}{line}");
        }
    }

    fn maybe(&mut self, label: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.line(label, value);
        }
    }

    fn head(&mut self) {
        let (job, screen) = (self.job, &self.session.screen);
        let id = Paint::Bold.over(&shown_id(job), screen);
        let state = Paint::of_state(job.state).over(job.state.word(), screen);
        let _ = writeln!(self.text, "{id}  {state}");
        self.line("name", &job.name);
        self.maybe("reason", job.reason.as_ref());
        for reason in job.reasons.iter().filter(|reason| Some(*reason) != job.reason.as_ref()) {
            self.line("also", reason);
        }
        let account = job.account.as_ref().map(|name| format!(", account {name}")).unwrap_or_default();
        self.line("owner", &format!("{} (uid {}){account}", job.user, job.uid));
        self.line("queue", &format!("{}, priority {}", job.queue, job.priority));
        self.maybe("comment", job.comment.as_ref());
    }

    fn request(&mut self) {
        let job = self.job;
        let mut parts = Vec::new();
        if job.gpus > 0 {
            let each = if job.gpus == 1 { "" } else { " each" };
            // What it is charged, if that is something else, has a line of its own.
            let asked = job.learnt.as_ref().and_then(|learnt| learnt.asked_gpu_mem_mb).or(job.gpu_mem_mb);
            let slice = asked.map(|mb| format!(" with {}{each}", card_memory(mb))).unwrap_or_default();
            let kind = job.gpu_type.as_ref().map_or(String::new(), |kind| format!("{kind} "));
            parts.push(format!("{}{slice}", count(job.gpus, &format!("{kind}card"))));
        }
        parts.push(count(job.cpus, "CPU"));
        parts.extend(job.ram_mb.map(|mb| format!("{} of memory", megabytes(mb))));
        parts.extend(job.nodes_asked.map(|nodes| format!("on {nodes} nodes")));
        self.line("asks for", &parts.join(", "));
        let limit = match job.time_limit_s {
            Some(seconds) => format!("{} ({})", Span::seconds(seconds), length(Span::seconds(seconds))),
            None => "none".to_owned(),
        };
        self.line("time limit", &limit);
        let window = job
            .window
            .as_ref()
            .map(|window| format!("only between {} (--window)", window.replace('-', " and ")));
        self.maybe("hours", window.as_ref());
        self.maybe("deadline", job.deadline.map(|at| self.session.clock.both(at)).as_ref());
        let learnt = job.learnt.as_ref();
        self.maybe("planned", learnt.and_then(LearntView::length_in_words).as_ref());
        self.maybe("counted", learnt.and_then(|learnt| self.counted(learnt)).as_ref());
        self.line("restarts", &restarts(job));
        let words: Vec<String> = job.options.iter().map(|word| quote(word)).collect();
        self.maybe("options", Some(&words.join(" ")).filter(|text| !text.is_empty()));
        if !job.unused_options.is_empty() {
            self.line("no effect", &job.unused_options.join(" "));
        }
        for warning in &job.warnings {
            self.line("warning", warning);
        }
        if !job.nodes.is_empty() {
            let label = if job.state.is_active() { "runs on" } else { "ran on" };
            self.line(label, &compress(&job.nodes));
        }
        if !job.gpu_uuids.is_empty() {
            self.line("cards", &job.gpu_uuids.join(", "));
        }
    }

    /// What it is counted with of each card, where that is not what it asks for.
    fn counted(&self, learnt: &LearntView) -> Option<String> {
        let with = self.job.gpu_mem_mb.map(card_memory)?;
        Some(format!("{with} a card, {}", learnt.memory_in_words()?))
    }

    fn times(&mut self) {
        let (job, clock) = (self.job, self.session.clock);
        self.line("submitted", &clock.both(job.submitted_at));
        if job.state.is_waiting() {
            let start = job.expected_start.map(|start| clock.both(start));
            let parts: Vec<String> = start.into_iter().chain(job.expected_basis.clone()).collect();
            self.maybe("expected", Some(&parts.join(": ")).filter(|_| !parts.is_empty()));
            self.maybe("advice", job.advice.as_ref().map(|advice| &advice.text));
        }
        let times = [("eligible", job.eligible_at), ("started", job.started_at), ("ended", job.ended_at)];
        for (label, time) in times {
            if let Some(time) = time {
                self.line(label, &clock.both(time));
            }
        }
        if let Some(until) = job.kept_until.filter(|until| *until > clock.now) {
            self.line("kept", &format!("idle cards are left to it until {}", clock.both(until)));
        }
        if job.exit_code.is_some() || job.signal.is_some() {
            self.line("exit", &exit(job.exit_code, job.signal));
        }
        // In the order of a job's life, not of the alphabet.
        let seconds = |word: &str| job.time_in_state.get(word).map(|s| length(Span((s * 1000.0) as u64)));
        let spent = STATES.iter().filter_map(|row| Some(format!("{} {}", row.word, seconds(row.word)?)));
        let spent: Vec<String> = spent.collect();
        if !spent.is_empty() {
            self.line("time in", &spent.join(", "));
        }
    }

    fn files(&mut self) {
        let job = self.job;
        self.maybe("folder", job.folder.as_ref());
        self.maybe("output", job.stdout.clone().or_else(|| coming_output(job)).as_ref());
        self.maybe("errors", job.stderr.as_ref());
        self.maybe("ticket", job.ticket.as_ref());
    }

    fn attempts(&mut self) {
        if self.job.attempts.is_empty() {
            return;
        }
        let mut table = Table::new(ATTEMPT_COLUMNS.to_vec());
        for attempt in &self.job.attempts {
            let notes: Vec<String> = attempt.message.iter().cloned().chain(used(attempt)).collect();
            let note = Some(notes.join("; ")).filter(|note| !note.is_empty());
            table.row(self.attempt(attempt), note.as_deref());
        }
        let screen = &self.session.screen;
        let _ = writeln!(self.text, "  {}", Paint::Bold.over("attempts", screen));
        for line in table.text(true, screen.width.saturating_sub(4), screen).lines() {
            let _ = writeln!(self.text, "    {line}");
        }
    }

    fn attempt(&self, attempt: &AttemptView) -> Vec<Cell> {
        let clock = self.session.clock;
        let ran = attempt.started_at.map(|start| attempt.ended_at.unwrap_or(clock.now) - start);
        let paint = attempt.state.parse().map(Paint::of_state).unwrap_or(Paint::Bad);
        vec![
            Cell::new(attempt.number.to_string()),
            Cell::new(attempt.epoch.to_string()),
            Cell::new(&attempt.node),
            Cell::painted(&attempt.state, paint),
            Cell::maybe(attempt.started_at.map(|time| clock.short(time))),
            Cell::maybe(ran.map(length)),
            Cell::new(exit(attempt.exit_code, attempt.signal)),
        ]
    }

    fn story(&mut self) {
        if self.job.decisions.is_empty() {
            return;
        }
        let screen = &self.session.screen;
        let _ = writeln!(self.text, "  {}", Paint::Bold.over("story", screen));
        let story = why::lines(&self.job.decisions, self.session, screen);
        self.text.push_str(&story);
    }
}

/// Where the output of a job comes that has not run yet; what is known only when it starts stays a pattern.
fn coming_output(job: &JobView) -> Option<String> {
    let folder = job.folder.as_ref().filter(|_| job.state.is_waiting())?;
    let pattern = job.options.iter().find_map(|word| word.strip_prefix("--output=")).unwrap_or("ax-%j.out");
    let pattern =
        pattern.replace("%j", &job.number.to_string()).replace("%x", &job.name).replace("%u", &job.user);
    Some(format!("{} when it runs", Path::new(folder).join(pattern).display()))
}

/// `started again if lost, tried again twice if it fails`.
fn restarts(job: &JobView) -> String {
    let lost = match (job.idempotent, job.requeue) {
        (false, _) => "never started again without asking if lost",
        (true, true) => "started again if lost",
        (true, false) => "not started again if lost",
    };
    match job.retries {
        0 => lost.to_owned(),
        1 => format!("{lost}, tried again once if it fails"),
        more => format!("{lost}, tried again up to {more} times if it fails"),
    }
}

const ATTEMPT_COLUMNS: [Column; 7] = [
    Column { title: "NO", right: true, shrink: Shrink::Never },
    Column { title: "EPOCH", right: true, shrink: Shrink::Never },
    Column { title: "NODE", right: false, shrink: Shrink::Freely(4) },
    Column { title: "STATE", right: false, shrink: Shrink::Last(9) },
    Column { title: "STARTED", right: false, shrink: Shrink::Never },
    Column { title: "ELAPSED", right: true, shrink: Shrink::Never },
    Column { title: "EXIT", right: false, shrink: Shrink::Never },
];

/// `used 14h13m of CPU, 12.1GB of memory, 29.3GB of GPU memory`, as far as it is known.
fn used(attempt: &AttemptView) -> Option<String> {
    let cpu = attempt.cpu_time_s.map(|seconds| format!("{} of CPU", length(Span((seconds * 1000.0) as u64))));
    let ram = attempt.max_ram_mb.map(|mb| format!("{} of memory", megabytes(mb)));
    let gpu = attempt.max_gpu_mem_mb.map(|mb| format!("{} of GPU memory", card_memory(mb)));
    let parts: Vec<String> = [cpu, ram, gpu].into_iter().flatten().collect();
    let used = (!parts.is_empty()).then(|| format!("used {}", parts.join(", ")));
    let idle = attempt.idle_s.filter(|idle| *idle > 0);
    let idle = idle.map(|idle| format!("its cards did nothing for {}", length(Span::seconds(idle))));
    let both: Vec<String> = used.into_iter().chain(idle).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// `1 card`, `4 cards`.
fn count(number: u32, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

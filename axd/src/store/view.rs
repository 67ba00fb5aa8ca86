//! A job as it is shown, put together from the core's record and what the store has beside it. Each part is added
//! separately, so that lists stay cheap.

use std::collections::BTreeMap;

use ax_core::api::{AttemptView, DecisionView, JobView, LearntView};
use ax_core::directive::print;
use ax_core::job::state::JobState;
use ax_core::job::{Attempt, Job};
use ax_core::node::{Allocation, CardShare};
use ax_core::size::Megabytes;
use ax_core::time::WallTime;

use super::details::Details;
use super::read::AttemptRecord;
use super::rows::{LogKind, LogRow};

/// What the core's record alone says. Why a job waits and when it is expected to start is
/// the controller's to add.
pub fn of_job(job: &Job) -> JobView {
    let attempt = job.attempt.as_ref();
    let end = attempt.and_then(|a| a.end.as_ref());
    let cards = job.request.cards.as_ref();
    let parts = || attempt.into_iter().flat_map(|attempt| attempt.parts());
    let Amounts { cpus, ram, gpus } = Amounts::of(job);
    JobView {
        id: job.id,
        number: job.id.number.0,
        name: job.name.to_string(),
        user: job.owner.name.to_string(),
        uid: job.owner.uid.0,
        queue: job.queue.to_string(),
        state: job.state,
        reason: job.rare.note.as_ref().map(ToString::to_string),
        reasons: Vec::new(),
        conditions: Vec::new(),
        priority: job.request.priority,
        submitted_at: job.submitted_at,
        eligible_at: job.eligible_at,
        started_at: attempt.and_then(|a| a.started_at),
        ended_at: job.rare.ended_at.filter(|_| job.state.is_final()),
        expected_start: None,
        expected_basis: None,
        advice: None,
        exit_code: end.and_then(|e| e.exit_code),
        signal: end.and_then(|e| e.signal),
        node: parts().next().map(|part| part.node.to_string()),
        nodes: parts().map(|part| part.node.to_string()).collect(),
        nodes_asked: job.request.several(),
        cpus,
        ram_mb: Some(ram.0),
        gpus,
        gpu_type: cards.and_then(|c| c.kind.clone()),
        gpu_uuids: parts().flat_map(|part| &part.cards).map(|card| card.uuid.clone()).collect(),
        gpu_share: cards.and(attempt).map(|attempt| share_of(attempt)),
        gpu_mem_mb: cards.and_then(|c| c.slice).map(|mb| mb.0),
        time_limit_s: job.request.time_limit.map(|l| l.as_seconds()),
        window: job.request.window().map(|window| window.to_string()),
        deadline: job.request.deadline(),
        learnt: LearntView::of(job),
        attempt: job.attempts,
        attempts: Vec::new(),
        time_in_state: BTreeMap::new(),
        decisions: Vec::new(),
        stdout: None,
        stderr: None,
        comment: None,
        unused_options: Vec::new(),
        options: Vec::new(),
        warnings: Vec::new(),
        folder: None,
        idempotent: job.request.idempotent,
        requeue: job.request.requeue,
        retries: job.request.retries,
        kept_until: job.rare.kept_until,
        account: None,
        array: None,
        ticket: None,
    }
}

/// What an attempt has of cards, in cards, to the thousandth.
fn share_of(attempt: &Attempt) -> f64 {
    let parts: f64 = attempt.parts().flat_map(|part| &part.cards).map(CardShare::part).sum();
    (parts * 1000.0).round() / 1000.0
}

/// What a job holds, or asks for while it holds nothing, on all of its nodes. A whole node is more than was asked for.
struct Amounts {
    cpus: u32,
    ram: Megabytes,
    gpus: u32,
}

impl Amounts {
    fn of(job: &Job) -> Amounts {
        let attempt = job.attempt.as_ref().filter(|_| !job.state.is_waiting());
        let held: Vec<&Allocation> = attempt.into_iter().flat_map(|attempt| attempt.parts()).collect();
        let cards_of_each = job.request.cards.as_ref().map_or(0, |cards| cards.count);
        if held.is_empty() {
            let nodes = job.request.nodes().min;
            return Amounts {
                cpus: job.request.cpus.saturating_mul(nodes),
                ram: Megabytes(job.request.ram.0 * u64::from(nodes)),
                gpus: cards_of_each.saturating_mul(nodes),
            };
        }
        let cpus: usize = held.iter().map(|part| part.cpus.len()).sum();
        Amounts {
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            ram: Megabytes(held.iter().map(|part| part.ram.0).sum()),
            gpus: cards_of_each.saturating_mul(held.len() as u32),
        }
    }
}

/// Adds what the submission said.
pub fn add_details(view: &mut JobView, job: &Job, details: &Details) {
    let shown = |(name, value): &(String, String)| {
        if value.is_empty() { name.clone() } else { format!("{name}={value}") }
    };
    view.comment.clone_from(&details.spec.comment);
    view.account.clone_from(&details.spec.account);
    view.unused_options = details.spec.unused.iter().map(shown).collect();
    view.ticket = details.spooled.then(|| job.key.ticket());
}

/// Adds how it was submitted, for who asks about this job alone.
pub fn add_submission(view: &mut JobView, details: &Details) {
    view.options = print(&details.spec).into_iter().filter_map(shown_option).collect();
    view.warnings.clone_from(&details.warnings);
    view.folder = Some(details.cwd.clone()).filter(|folder| !folder.is_empty());
}

/// Of variables the names alone: everybody may look at a job, and its environment is its owner's. What has a place of
/// its own in the view is not said twice.
fn shown_option(word: String) -> Option<String> {
    let (option, value) = word.split_once('=').unwrap_or((&word, ""));
    let name_of = |variable: &str| variable.split('=').next().unwrap_or_default().to_owned();
    match option {
        "--job-name" | "--queue" | "--account" | "--comment" | "--slurm" | "--chdir" | "--window" => None,
        "--env" => Some(format!("--env={}=...", name_of(value))),
        "--export" if value.contains('=') => Some("--export=...".to_owned()),
        _ => Some(word),
    }
}

/// Adds the attempts, and the files of the last one.
pub fn add_attempts(view: &mut JobView, attempts: &[AttemptRecord]) {
    if let Some(last) = attempts.last() {
        view.stdout.clone_from(&last.files.stdout);
        view.stderr.clone_from(&last.files.stderr);
    }
    view.attempts = attempts.iter().map(|a| attempt_view(a, view.state)).collect();
}

fn attempt_view(attempt: &AttemptRecord, job: JobState) -> AttemptView {
    let end = attempt.end.as_ref();
    AttemptView {
        number: attempt.number,
        epoch: attempt.epoch.0,
        node: attempt.allocation.node.to_string(),
        others: attempt.others.iter().map(|part| part.node.to_string()).collect(),
        state: end.map_or(job.word(), |e| e.outcome.word()).to_owned(),
        started_at: attempt.started_at,
        ended_at: attempt.ended_at,
        exit_code: end.and_then(|e| e.exit_code),
        signal: end.and_then(|e| e.signal),
        cpu_time_s: attempt.usage.cpu_us.map(|us| us as f64 / 1e6),
        max_ram_mb: attempt.usage.max_ram.map(|mb| mb.0),
        max_gpu_mem_mb: attempt.usage.max_gpu_mem.map(|mb| mb.0),
        idle_s: attempt.idle.map(|idle| idle.as_seconds()),
        stdout: attempt.files.stdout.clone(),
        stderr: attempt.files.stderr.clone(),
        message: end.and_then(|e| e.message.clone()),
        outcome: end.map(|e| e.outcome),
    }
}

/// Adds the time spent in each state.
pub fn add_times(view: &mut JobView, log: &[LogRow], now: WallTime) {
    view.time_in_state = time_in_state(log, now);
}

/// Adds the job's story.
pub fn add_decisions(view: &mut JobView, log: &[LogRow]) {
    view.decisions = log.iter().map(decision_view).collect();
}

/// Seconds spent in each state, the present one included unless it is an end.
pub fn time_in_state(log: &[LogRow], now: WallTime) -> BTreeMap<String, f64> {
    let entered = |row: &LogRow| match row.kind {
        LogKind::Move { to, .. } => Some((to, row.at)),
        LogKind::Note => None,
    };
    let moves: Vec<_> = log.iter().filter_map(entered).collect();
    let mut times = BTreeMap::new();
    for (place, (state, since)) in moves.iter().enumerate() {
        let until = match moves.get(place + 1) {
            Some((_, left)) => *left,
            None if state.is_final() => continue,
            None => now,
        };
        *times.entry(state.word().to_owned()).or_insert(0.0) += (until - *since).0 as f64 / 1000.0;
    }
    times
}

fn decision_view(row: &LogRow) -> DecisionView {
    let (at, actor) = (row.at, row.actor.to_string());
    let (what, why) = match row.kind {
        LogKind::Move { from: Some(from), to } => (format!("{from} → {to}"), row.text.clone()),
        LogKind::Move { from: None, .. } => ("submitted".to_owned(), row.text.clone()),
        LogKind::Note => (row.text.clone(), String::new()),
    };
    DecisionView { at, actor, what, why }
}

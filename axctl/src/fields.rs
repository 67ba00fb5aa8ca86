//! The columns of lists, by name: `-o/--format` chooses from them. How a job is shown in one line is decided only
//! here, for `ax queue` and `ax acct` alike.

use ax_core::api::JobView;
use ax_core::hostlist::compress;
use ax_core::size::Megabytes;
use ax_core::text::nearest;
use ax_core::time::{Span, WallTime};
use ax_sys::signals::Signal;

use crate::failure::Failure;
use crate::style::Paint;
use crate::table::Shrink::{self, Freely, Goes, Last, Never};
use crate::table::{Cell, Column, Table};
use crate::when::Clock;

/// A column of a list of `T`s.
pub(crate) struct Field<T> {
    /// What `-o` calls it.
    pub(crate) name: &'static str,
    /// How it looks.
    pub(crate) column: Column,
    /// What it holds.
    pub(crate) cell: fn(&T, &Clock) -> Cell,
}

/// A column set to the left.
pub(crate) const fn left<T>(
    name: &'static str,
    title: &'static str,
    shrink: Shrink,
    cell: fn(&T, &Clock) -> Cell,
) -> Field<T> {
    Field { name, column: Column { title, right: false, shrink }, cell }
}

/// A column of numbers.
pub(crate) const fn right<T>(
    name: &'static str,
    title: &'static str,
    cell: fn(&T, &Clock) -> Cell,
) -> Field<T> {
    Field { name, column: Column { title, right: true, shrink: Never }, cell }
}

/// The fields of these names, `id,name,state`; what stands above a column is its name, too.
///
/// # Errors
/// Usage, with the nearest right name, when one does not exist.
pub(crate) fn choose<T>(all: &'static [Field<T>], names: &str) -> Result<Vec<&'static Field<T>>, Failure> {
    let find = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        let unknown = || {
            let near = nearest(&name, all.iter().map(|field| field.name));
            let hint = near.map(|near| format!(" did you mean '{near}'?")).unwrap_or_default();
            let names: Vec<&str> = all.iter().map(|field| field.name).collect();
            Failure::usage(format!("no column '{name}';{hint} there are {}", names.join(" ")))
        };
        let by_name = all.iter().find(|field| field.name == name);
        let by_title = || all.iter().find(|field| field.column.title.eq_ignore_ascii_case(&name));
        by_name.or_else(by_title).ok_or_else(unknown)
    };
    names.split(',').map(find).collect()
}

/// A table with these columns, a row for each of the things, and the remark below it that `note` gives.
pub(crate) fn table<T>(
    fields: &[&Field<T>],
    rows: &[T],
    clock: &Clock,
    note: impl Fn(&T) -> Option<String>,
) -> Table {
    let mut table = Table::new(fields.iter().map(|field| field.column).collect());
    for row in rows {
        let cells = fields.iter().map(|field| (field.cell)(row, clock)).collect();
        table.row(cells, note(row).as_deref());
    }
    table
}

/// All that can be said of a job in a column.
pub(crate) static JOB_FIELDS: [Field<JobView>; 33] = [
    left("id", "ID", Freely(0), |job, _| id(job)),
    right("number", "NUMBER", |job, _| Cell::new(job.number.to_string())),
    left("name", "NAME", Freely(8), |job, _| Cell::new(&job.name)),
    left("user", "USER", Last(4), |job, _| Cell::new(&job.user)),
    right("uid", "UID", |job, _| Cell::new(job.uid.to_string())),
    left("account", "ACCOUNT", Freely(4), |job, _| Cell::maybe(job.account.as_ref())),
    left("queue", "QUEUE", Goes, |job, _| Cell::new(&job.queue)),
    left("state", "STATE", Last(9), |job, _| Cell::painted(job.state.word(), Paint::of_state(job.state))),
    left("st", "ST", Never, |job, _| Cell::painted(job.state.slurm_word(), Paint::of_state(job.state))),
    left("reason", "REASON", Freely(6), |job, _| Cell::maybe(job.reason.as_ref())),
    right("priority", "PRIO", |job, _| Cell::new(job.priority.to_string())),
    left("submitted", "SUBMITTED", Never, |job, clock| Cell::new(clock.short(job.submitted_at))),
    left("eligible", "ELIGIBLE", Never, |job, clock| time(job.eligible_at, clock)),
    left("started", "STARTED", Never, |job, clock| time(job.started_at, clock)),
    left("ended", "ENDED", Never, |job, clock| time(job.ended_at, clock)),
    left("expected", "EXPECTED", Never, |job, clock| time(job.expected_start, clock)),
    left("basis", "BASIS", Freely(6), |job, _| Cell::maybe(job.expected_basis.as_ref())),
    right("time", "TIME", time_or_start),
    right("elapsed", "TIME", |job, clock| Cell::maybe(elapsed(job, clock).map(narrow))),
    right("limit", "LIMIT", |job, _| Cell::maybe(job.time_limit_s.map(|s| Span::seconds(s).to_string()))),
    left("exit", "EXIT", Never, |job, _| Cell::new(exit(job.exit_code, job.signal))),
    left("node", "NODE", Freely(4), |job, _| Cell::new(nodes(job))),
    left("where", "NODE/REASON", Freely(11), place_or_reason),
    right("cpus", "CPUS", |job, _| Cell::new(job.cpus.to_string())),
    right("ram", "RAM", |job, _| Cell::maybe(job.ram_mb.map(megabytes))),
    right("gpus", "GPUS", |job, _| Cell::new(job.gpus.to_string())),
    right("gpumem", "GPUMEM", |job, _| Cell::maybe(job.gpu_mem_mb.map(card_memory))),
    right("attempt", "ATT", |job, _| Cell::new(job.attempt.to_string())),
    right("cpu", "CPU", |job, _| Cell::maybe(cpu_time(job).map(narrow))),
    right("maxram", "MAXRAM", |job, _| Cell::maybe(max_ram(job).map(megabytes))),
    right("idle", "IDLE", |job, _| Cell::maybe(idle(job).map(narrow))),
    left("stdout", "STDOUT", Freely(8), |job, _| Cell::maybe(job.stdout.as_ref())),
    left("comment", "COMMENT", Freely(7), |job, _| Cell::maybe(job.comment.as_ref())),
];

/// The id, with its element or its range: the id itself is never cut.
fn id(job: &JobView) -> Cell {
    let id = shown_id(job);
    // What a cut range keeps besides the id: `_[…]`.
    let least = if id.ends_with(']') { job.id.to_string().len() + 4 } else { id.len() };
    Cell::new(id).at_least(least)
}

/// `ax-2026-0001`, `ax-2026-0001_7` or `ax-2026-0001_[8-15]`.
pub(crate) fn shown_id(job: &JobView) -> String {
    match &job.array {
        Some(array) => format!("{}_{array}", job.id),
        None => job.id.to_string(),
    }
}

fn time(time: Option<WallTime>, clock: &Clock) -> Cell {
    Cell::maybe(time.map(|time| clock.short(time)))
}

/// How long it has run, or when it is expected to.
fn time_or_start(job: &JobView, clock: &Clock) -> Cell {
    if job.state.is_waiting() {
        return Cell::maybe(job.expected_start.map(|start| clock.relative(start)));
    }
    Cell::maybe(elapsed(job, clock).map(narrow))
}

/// `0:02`, `51:01`, `1:01:01`, `2-03:04:05`: no wider than it has to be, and what `--time` reads as the same.
fn narrow(span: Span) -> String {
    let text = span.to_string();
    // `00:51:01` loses its hours, and what is left one leading zero.
    let text = text.strip_prefix("00:").unwrap_or(&text);
    text.strip_prefix('0').unwrap_or(text).to_owned()
}

/// How long the last attempt has run, or ran.
pub(crate) fn elapsed(job: &JobView, clock: &Clock) -> Option<Span> {
    let running = !job.state.is_waiting();
    job.started_at.filter(|_| running).map(|start| job.ended_at.unwrap_or(clock.now) - start)
}

/// `0`, `1` or a signal's name.
pub(crate) fn exit(code: Option<u8>, signal: Option<u8>) -> String {
    match (code, signal) {
        (_, Some(number)) => match Signal::from_number(i32::from(number)) {
            Some(signal) => signal_name(signal),
            None => format!("SIG{number}"),
        },
        (Some(code), None) => code.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn signal_name(signal: Signal) -> String {
    let name = signal.to_string();
    if name.starts_with("SIG") { name } else { format!("SIG{name}") }
}

fn nodes(job: &JobView) -> String {
    let waits = job.state.is_waiting();
    match (waits, job.nodes.as_slice(), &job.node) {
        (true, _, _) => "-".to_owned(),
        (_, [], Some(node)) => node.clone(),
        (_, [], None) => "-".to_owned(),
        (_, nodes, _) => compress(nodes),
    }
}

fn place_or_reason(job: &JobView, _: &Clock) -> Cell {
    match &job.reason {
        Some(reason) if !job.state.is_active() => Cell::new(reason),
        _ => Cell::new(nodes(job)),
    }
}

/// `512 MB`, `1.5 GB`, without the blank so that it is one word.
pub(crate) fn megabytes(mb: u64) -> String {
    Megabytes(mb).to_string().replace(' ', "")
}

/// `80 GB` as cards are sold, without the blank.
pub(crate) fn card_memory(mb: u64) -> String {
    Megabytes(mb).of_card().replace(' ', "")
}

/// CPU time of all attempts.
pub(crate) fn cpu_time(job: &JobView) -> Option<Span> {
    let known = job.attempts.iter().filter_map(|attempt| attempt.cpu_time_s);
    known.reduce(|a, b| a + b).map(|seconds| Span((seconds * 1000.0) as u64))
}

/// How long its cards did nothing, in all attempts.
pub(crate) fn idle(job: &JobView) -> Option<Span> {
    let known = job.attempts.iter().filter_map(|attempt| attempt.idle_s);
    known.reduce(|a, b| a + b).map(Span::seconds)
}

/// Largest memory of any attempt, MB.
pub(crate) fn max_ram(job: &JobView) -> Option<u64> {
    job.attempts.iter().filter_map(|attempt| attempt.max_ram_mb).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_chosen_by_name() {
        let names: Vec<&str> = choose(&JOB_FIELDS, "id, NAME,cpu").unwrap().iter().map(|f| f.name).collect();
        assert_eq!(names, ["id", "name", "cpu"]);
        assert_eq!(
            choose(&JOB_FIELDS, "prio,time").unwrap().iter().map(|f| f.name).collect::<Vec<_>>(),
            ["priority", "time"]
        );
        let error = choose(&JOB_FIELDS, "id,nmae").err().unwrap();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.to_string().starts_with("no column 'nmae'; did you mean 'name'? there are id "),
            "{error}"
        );
        let error = choose(&JOB_FIELDS, "qqqqqqqq").err().unwrap();
        assert!(error.to_string().starts_with("no column 'qqqqqqqq'; there are id number "), "{error}");
    }

    #[test]
    fn lengths_are_no_wider_than_they_have_to_be() {
        let texts =
            [(2, "0:02"), (611, "10:11"), (3661, "1:01:01"), (36_061, "10:01:01"), (90_061, "1-01:01:01")];
        for (seconds, text) in texts {
            assert_eq!(narrow(Span::seconds(seconds)), text);
        }
    }

    #[test]
    fn ends_are_shown_by_code_or_signal() {
        assert_eq!(exit(Some(3), None), "3");
        assert_eq!(exit(None, Some(9)), "SIGKILL");
        assert_eq!(exit(None, None), "-");
    }
}

//! The screen as lines of text, from the state and the screen's size. Pure.

use ax_core::api::{CardView, JobView};
use ax_core::gpu::Health;
use ax_core::hostlist::compress;
use ax_core::id::JobId;
use ax_core::time::WallTime;
use unicode_width::UnicodeWidthStr;

use super::state::{Mode, State};
use crate::chart::Strokes;
use crate::fields::{card_memory, elapsed, shown_id};
use crate::shown::shown;
use crate::style::Paint;
use crate::table::Shrink::{Freely, Goes, Last, Never};
use crate::table::{Cell, Column, Table, cut};
use crate::when::{Clock, length};
use crate::world::Screen;

/// The smallest screen that something can be shown on.
const SMALLEST: (usize, usize) = (60, 10);
/// From so many columns on there is room for everything.
const ROOMY: usize = 78;
/// Columns of a bar.
const BAR: usize = 8;

const KEYS: &str = "q quit  ARROWS choose  s sort  r reverse  / filter  u mine  l log  c cancel  ? help";
const HELP: [&str; 14] = [
    "q, Ctrl-C      leave",
    "up, down, j, k choose a job; Page Up, Page Down, Home, End go further",
    "Tab            move through the cards instead, and back",
    "s              sort by turn, id, user, time, cards, priority",
    "r              the other way round",
    "/              only jobs in which this text is: id, name, user, queue, state, node",
    "u              only my own jobs, and all again",
    "Esc            all jobs again",
    "l, Enter       the end of the job's output as it grows",
    "c              cancel the job; asks first",
    "Ctrl-L         draw the screen anew",
    "Ctrl-Z         halt; fg goes on",
    "",
    "any key goes back",
];

/// How it is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) colour: bool,
    pub(super) strokes: Strokes,
}

impl Canvas {
    fn screen(&self) -> Screen {
        Screen { terminal: true, colour: self.colour, width: self.width }
    }

    fn fit(&self, text: &str) -> String {
        cut(text, self.width)
    }
}

/// All lines, at most as many as the screen has.
pub(super) fn draw(state: &mut State, canvas: &Canvas, clock: &Clock) -> Vec<String> {
    if canvas.width < SMALLEST.0 || canvas.height < SMALLEST.1 {
        let text = format!("too small: {} by {} is the least", SMALLEST.0, SMALLEST.1);
        return vec![canvas.fit(&text)];
    }
    let mut lines = match state.mode.clone() {
        Mode::Help => HELP.iter().map(|line| canvas.fit(line)).collect(),
        Mode::Log(job) => log(state, canvas, job),
        _ => lists(state, canvas, clock),
    };
    lines.truncate(canvas.height - 1);
    lines.resize(canvas.height - 1, String::new());
    lines.push(bottom(state, canvas));
    lines
}

fn bottom(state: &State, canvas: &Canvas) -> String {
    let screen = canvas.screen();
    match (&state.mode, &state.said) {
        (Mode::Filter, _) => {
            let hint = "  (Enter keeps it, Esc takes it off)";
            canvas.fit(&format!("/{}_{hint}", shown(&state.filter)))
        }
        (Mode::Confirm(job), _) => Paint::Bad.over(&canvas.fit(&format!("cancel {job}? y/N")), &screen),
        (Mode::Log(_), _) => Paint::Dim.over(&canvas.fit("q back to the jobs"), &screen),
        (_, Some(said)) => Paint::Bold.over(&canvas.fit(&shown(said)), &screen),
        _ => {
            let arrows = if canvas.strokes == Strokes::Blocks { "↑↓" } else { "up/down" };
            Paint::Dim.over(&canvas.fit(&KEYS.replace("ARROWS", arrows)), &screen)
        }
    }
}

// ---- cards and jobs ----

fn lists(state: &mut State, canvas: &Canvas, clock: &Clock) -> Vec<String> {
    let mut lines = vec![summary(state, canvas, clock)];
    let room = canvas.height - 2;
    lines.extend(cards(state, canvas, room / 2));
    let rows = room + 1 - lines.len();
    lines.extend(jobs(state, canvas, clock, rows));
    lines
}

fn summary(state: &State, canvas: &Canvas, clock: &Clock) -> String {
    let seen = &state.seen;
    let screen = canvas.screen();
    if let Some(trouble) = &seen.trouble {
        return Paint::Bad.over(&canvas.fit(&format!("ax top: {}", shown(trouble))), &screen);
    }
    if seen.at == WallTime::default() {
        return canvas.fit("ax top: asking the daemon");
    }
    let free = seen.cards.iter().filter(|card| card.reserved_mb == 0 && !card.barred).count();
    let running = seen.jobs.iter().filter(|job| job.state.is_active()).count();
    let waiting = (seen.jobs.len() - running) as u64 + seen.left_out;
    let mut text = format!(
        "ax top {}  {} cards, {free} free  {running} running, {waiting} waiting",
        clock.short(seen.at),
        seen.cards.len()
    );
    let only = state.only.iter().map(|user| format!("user {user}"));
    let filter = Some(format!("'{}'", state.filter)).filter(|_| !state.filter.is_empty());
    let filters: Vec<String> = only.chain(filter).collect();
    if !filters.is_empty() {
        text.push_str(&format!("  only {}", filters.join(" and ")));
    }
    text.push_str(&format!("  by {}{}", state.order.word(), if state.reversed { ", reversed" } else { "" }));
    Paint::Bold.over(&canvas.fit(&shown(&text)), &screen)
}

/// The cards from the first that is to be seen on, in at most so many lines.
fn cards(state: &State, canvas: &Canvas, room: usize) -> Vec<String> {
    let all = &state.seen.cards;
    let column = |title, right, shrink| Column { title, right, shrink };
    let roomy = canvas.width >= ROOMY;
    let columns = [
        (true, column(if state.on_cards { "NODE*" } else { "NODE" }, false, Last(6))),
        (true, column("GPU", true, Never)),
        (roomy, column("MEMORY", false, Never)),
        (true, column(if roomy { "" } else { "MEMORY" }, true, Never)),
        (roomy, column("LOAD", false, Goes)),
        (true, column(if roomy { "" } else { "LOAD" }, true, Never)),
        (roomy, column("TEMP", true, Never)),
        (true, column("HEALTH", false, Last(7))),
        (true, column("OWNER", false, Freely(5))),
    ];
    let mut table = Table::new(chosen(columns.into()));
    let first = state.first_card.min(all.len().saturating_sub(1));
    // The title and, where not all are seen, a line that says so.
    let fits = if all.len() > room.saturating_sub(1) { room.saturating_sub(2) } else { all.len() };
    for card in all.iter().skip(first).take(fits) {
        let cells = columns.iter().map(|(there, _)| *there).zip(card_row(card, canvas));
        table.row(chosen(cells.collect()), None);
    }
    let mut lines: Vec<String> =
        table.text(true, canvas.width, &canvas.screen()).lines().map(str::to_owned).collect();
    let left = all.len().saturating_sub(fits);
    if left > 0 {
        let text = format!("{left} more cards: Tab, then up and down");
        lines.push(Paint::Dim.over(&canvas.fit(&text), &canvas.screen()));
    }
    if all.is_empty() { Vec::new() } else { lines }
}

/// Those that there is room for.
fn chosen<T>(all: Vec<(bool, T)>) -> Vec<T> {
    all.into_iter().filter(|(there, _)| *there).map(|(_, each)| each).collect()
}

fn card_row(card: &CardView, canvas: &Canvas) -> Vec<Cell> {
    let mut owners: Vec<&str> = card.held.iter().map(|held| held.user.as_str()).collect();
    owners.sort_unstable();
    owners.dedup();
    if !card.foreign.is_empty() {
        owners.push("(outside)");
    }
    let (total, used) = (card.mem_mb as f64, card.used_mb.unwrap_or(card.reserved_mb) as f64);
    let memory = match card.used_mb {
        Some(used) => format!("{}/{}", card_memory(used), card_memory(card.mem_mb)),
        None => format!("?/{}", card_memory(card.mem_mb)),
    };
    let load = card.load.map(|load| canvas.strokes.bar(f64::from(load), 100.0, BAR));
    let health = if card.health == Health::Healthy { Paint::Good } else { Paint::Bad };
    vec![
        Cell::new(&card.node),
        Cell::new(card.index.to_string()),
        Cell::new(canvas.strokes.bar(used, total, BAR)),
        Cell::new(memory),
        Cell::maybe(load),
        Cell::maybe(card.load.map(|load| format!("{load}%"))),
        Cell::maybe(card.temperature.map(|degrees| format!("{degrees}C"))),
        Cell::painted(card.health.to_string(), health),
        if owners.is_empty() { Cell::new("-") } else { Cell::new(owners.join(",")) },
    ]
}

/// The jobs around the one that is meant, in so many lines.
fn jobs(state: &mut State, canvas: &Canvas, clock: &Clock, room: usize) -> Vec<String> {
    let rows = room.saturating_sub(1);
    state.page = rows;
    let (all, place) = (state.jobs(), state.place());
    if all.is_empty() {
        let text = if state.seen.jobs.is_empty() { "no jobs" } else { "no job fits; Esc shows all" };
        return vec![String::new(), text.to_owned()];
    }
    let column = |title, right, shrink| Column { title, right, shrink };
    let roomy = canvas.width >= ROOMY;
    let columns = [
        (true, column("ID", false, Last(12))),
        (true, column("USER", false, Last(4))),
        (true, column("NAME", false, Freely(6))),
        (roomy, column("QUEUE", false, Freely(5))),
        (true, column("STATE", false, Last(9))),
        (roomy, column("PRIO", true, Goes)),
        (true, column("GPUS", true, Last(4))),
        (true, column("TIME", true, Never)),
        (roomy, column("NODE/REASON", false, Freely(11))),
    ];
    let mut table = Table::new(chosen(columns.into()));
    // The one that is meant in the middle, unless the list ends before.
    let first = place.saturating_sub(rows / 2).min(all.len().saturating_sub(rows));
    let clock = Clock { now: state.seen.at, ..*clock };
    for job in all.iter().skip(first).take(rows) {
        let cells = columns.iter().map(|(there, _)| *there).zip(job_row(job, &clock));
        table.row(chosen(cells.collect()), None);
    }
    marked(&table, place - first + 1, canvas)
}

/// The lines of a table, that of the job that is meant turned round; or, where there are no colours, with a sign before
/// it.
fn marked(table: &Table, at: usize, canvas: &Canvas) -> Vec<String> {
    let screen = canvas.screen();
    let plain = |width| table.text(true, width, &Screen { colour: false, ..screen });
    if !canvas.colour {
        let text = plain(canvas.width - 1);
        let sign = |row| if row == at { '>' } else { ' ' };
        return text.lines().enumerate().map(|(row, line)| format!("{}{line}", sign(row))).collect();
    }
    let mut lines: Vec<String> = table.text(true, canvas.width, &screen).lines().map(str::to_owned).collect();
    let text = plain(canvas.width);
    if let (Some(line), Some(plain)) = (lines.get_mut(at), text.lines().nth(at)) {
        let blank = " ".repeat(canvas.width.saturating_sub(plain.width()));
        *line = format!("\x1b[7m{plain}{blank}\x1b[0m");
    }
    lines
}

fn job_row(job: &JobView, clock: &Clock) -> Vec<Cell> {
    let place = match &job.reason {
        Some(reason) if job.state.is_waiting() => reason.clone(),
        _ => compress(&job.nodes),
    };
    let slice = job.gpu_mem_mb.map_or(String::new(), |mb| format!("x{}", card_memory(mb)));
    vec![
        Cell::new(shown_id(job)),
        Cell::new(&job.user),
        Cell::new(&job.name),
        Cell::new(&job.queue),
        Cell::painted(job.state.word(), Paint::of_state(job.state)),
        Cell::new(job.priority.to_string()),
        Cell::new(format!("{}{slice}", job.gpus)),
        Cell::maybe(elapsed(job, clock).map(length)),
        Cell::new(place),
    ]
}

// ---- the output of a job ----

fn log(state: &State, canvas: &Canvas, job: JobId) -> Vec<String> {
    let path = state.log_path.as_deref().map_or_else(|| "…".to_owned(), shown);
    let mut lines = vec![Paint::Bold.over(&canvas.fit(&format!("{job}: {path}")), &canvas.screen())];
    let room = canvas.height - 2;
    let skipped = state.log.len().saturating_sub(room);
    lines.extend(state.log.iter().skip(skipped).map(|line| canvas.fit(&shown(line))));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::keys::Key;
    use super::super::state::Seen;
    use super::*;
    use crate::when::Zone;
    use ax_core::api::HeldView;
    use ax_core::job::state::JobState;

    /// 2026-11-29 16:32:14 +01:00.
    const NOW: WallTime = WallTime(1_795_966_334_000);

    fn job(number: u32, name: &str, user: &str, state: JobState) -> JobView {
        let reason = (state == JobState::Ready).then_some("needs 8 whole cards; gpu-01 has 4 free of 8");
        let (start, nodes) = match state {
            JobState::Ready => (None, vec![]),
            _ => (Some(WallTime(NOW.0 - i64::from(number) * 1_000_000)), vec!["gpu-01"]),
        };
        serde_json::from_value(serde_json::json!({
            "id": format!("ax-2026-{number:04}"), "number": number, "name": name, "user": user, "uid": 1,
            "queue": "default", "state": state, "reason": reason, "reasons": [], "priority": 50,
            "submitted_at": NOW, "eligible_at": null, "started_at": start, "ended_at": null,
            "expected_start": null, "exit_code": null, "signal": null, "node": null, "nodes": nodes, "cpus": 1,
            "ram_mb": 1, "gpus": 2, "gpu_uuids": [], "gpu_mem_mb": (number == 2).then_some(38_146),
            "time_limit_s": null, "attempt": 1, "attempts": [], "time_in_state": {}, "decisions": [],
            "stdout": null, "stderr": null, "comment": null, "idempotent": true, "account": null, "ticket": null
        }))
        .unwrap()
    }

    fn cards(count: u32) -> Vec<CardView> {
        let card = |index: u32| CardView {
            node: "gpu-01".into(),
            index,
            mem_mb: 76_294,
            reserved_mb: if index == 0 { 76_294 } else { 0 },
            used_mb: (index != 2).then_some(u64::from(index) * 9_000),
            load: (index != 2).then_some(index * 13),
            temperature: (index != 2).then_some(40 + index),
            held: if index == 0 { vec![held("\x1b[2Jeve"), held("li")] } else { vec![] },
            health: if index == 3 { Health::Drained } else { Health::Healthy },
            barred: index == 3 || index == 4,
            foreign: if index == 1 { vec!["pid 17".into()] } else { vec![] },
            ..CardView::default()
        };
        (0..count).map(card).collect()
    }

    fn held(user: &str) -> HeldView {
        let job = "ax-2026-0001".parse().unwrap();
        HeldView { job, user: user.into(), mem_mb: None, used_mb: None }
    }

    fn state(card_count: u32, job_count: u32) -> State {
        let mut jobs = vec![
            job(1, "train \x1b]0;evil\x07 with a long name", "li", JobState::Running),
            job(2, "evaluate", "wang", JobState::Running),
        ];
        jobs.extend((3..=job_count).map(|number| job(number, "スイープ", "mallory", JobState::Ready)));
        let seen = Seen { at: NOW, cards: cards(card_count), jobs, left_out: 7, trouble: None };
        State { seen, user: Some("li".into()), ..State::default() }
    }

    fn golden(name: &str, state: &mut State, (width, height): (usize, usize), colour: bool) {
        let canvas = Canvas { width, height, colour, strokes: Strokes::Blocks };
        let clock = Clock { now: NOW, zone: Zone::Fixed(3600) };
        let lines = draw(state, &canvas, &clock);
        assert!(lines.len() <= height, "{name}: {} lines", lines.len());
        for line in &lines {
            let plain: String = without_colour(line);
            assert!(plain.width() <= width, "{name}: {plain}");
            assert!(!plain.contains('\x1b'), "{name}: {plain:?}");
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        let text = lines.join("\n") + "\n";
        if std::env::var_os("AX_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(old == text, "{name} differs; AX_BLESS=1 writes it:\n{text}");
    }

    fn without_colour(line: &str) -> String {
        let codes = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[7m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
        codes.iter().fold(line.to_owned(), |line, code| line.replace(code, ""))
    }

    #[test]
    fn screens_of_every_kind() {
        golden("top.list", &mut state(4, 6), (80, 24), false);
        golden("top.wide", &mut state(4, 6), (140, 30), true);
        golden("top.small", &mut state(16, 60), (60, 14), false);
        let mut far = state(16, 60);
        for key in "GkkkTab".chars().take(4) {
            far.press(Key::Char(key));
        }
        far.press(Key::Tab);
        far.press(Key::PageDown);
        golden("top.far", &mut far, (80, 24), true);
        golden("top.nothing", &mut State::default(), (80, 24), false);
    }

    #[test]
    fn what_is_asked_and_told() {
        let mut asked = state(2, 3);
        asked.press(Key::Char('c'));
        golden("top.cancel", &mut asked, (80, 24), false);
        let mut filtered = state(2, 3);
        for key in "/wan\x1b".chars().take(4) {
            filtered.press(Key::Char(key));
        }
        golden("top.filter", &mut filtered, (80, 24), false);
        let mut helped = state(2, 3);
        helped.press(Key::Char('?'));
        golden("top.help", &mut helped, (80, 24), false);
        let mut followed = state(2, 3);
        followed.press(Key::Char('l'));
        followed.log_path = Some("/home/li/ax-1.out".into());
        followed.log =
            (0..40).map(|line| format!("step {line} \x1b[31mred\x1b[0m {}", "x".repeat(90))).collect();
        golden("top.log", &mut followed, (80, 24), false);
        let mut alone = state(2, 3);
        alone.take(Seen { trouble: Some("no daemon answers".into()), ..Seen::default() });
        golden("top.trouble", &mut alone, (80, 24), false);
    }

    #[test]
    fn no_size_is_too_small_or_too_large_to_be_drawn() {
        let clock = Clock { now: NOW, zone: Zone::Fixed(0) };
        for (width, height) in [(1, 1), (59, 24), (60, 10), (61, 11), (77, 12), (80, 10), (500, 200)] {
            let canvas = Canvas { width, height, colour: true, strokes: Strokes::Plain };
            for mode in [Mode::List, Mode::Help, Mode::Filter, Mode::Log("ax-2026-0001".parse().unwrap())] {
                let mut state = State { mode, ..state(20, 50) };
                let lines = draw(&mut state, &canvas, &clock);
                assert!(lines.len() <= height, "{width}x{height}: {}", lines.len());
                assert!(lines.iter().all(|line| without_colour(line).width() <= width), "{width}x{height}");
            }
        }
    }
}

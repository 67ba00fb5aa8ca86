//! `ax resource --history`: memory and load of each card over time, as two rows of blocks.

use std::fmt::Write;

use ax_core::api::{CardHistory, CardPoint};
use ax_core::gpu::thin::Figure;
use ax_core::time::Span;
use ax_core::units::{self, format_duration};

use crate::chart::Strokes;
use crate::failure::Failure;
use crate::fields::card_memory;
use crate::session::Session;
use crate::shown::shown;
use crate::style::Paint;
use crate::table::cut;

/// Columns beside a chart: its name before it, its figures behind it.
const BESIDE: usize = 10 + 26;
/// Charts are no longer than this, however wide the screen is.
const LONGEST: usize = 120;

/// Asks and prints.
pub(crate) fn run(session: &mut Session<'_, '_>, span: &str, json: bool) -> Result<u8, Failure> {
    let wanted = units::duration(span).ok().filter(|span| span.as_seconds() > 0);
    let wanted = wanted.ok_or_else(|| {
        Failure::usage(format!("--history: '{span}' is not a length of time such as 30m, 6h or 7d"))
    })?;
    let points = session.screen.width.saturating_sub(BESIDE).clamp(10, LONGEST);
    let target = format!("/api/v1/cards/history?span_s={}&points={points}", wanted.as_seconds());
    let cards: Vec<CardHistory> = session.client.get(&target)?;
    if json {
        session.json(&cards)?;
        return Ok(0);
    }
    if cards.is_empty() {
        session.remark("there are no cards; 'ax node list' shows CPUs and memory");
        return Ok(0);
    }
    let strokes = Strokes::of(&session.world.vars);
    let text: String = cards.iter().map(|card| charts(card, points, strokes, session)).collect();
    session.print(&text)?;
    Ok(0)
}

fn charts(card: &CardHistory, points: usize, strokes: Strokes, session: &Session<'_, '_>) -> String {
    let skipped = card.points.len().saturating_sub(points);
    let shown_points = card.points.get(skipped..).unwrap_or_default();
    let step = Span::seconds(u64::from(card.step_s));
    let all = Span::seconds(u64::from(card.step_s) * shown_points.len() as u64);
    let name = card.name.strip_prefix("NVIDIA ").unwrap_or(&card.name);
    let head = format!("{} GPU {} {}, {}", card.node, card.index, name, card_memory(card.mem_mb));
    let time = format!(": the last {}, a column is {}", format_duration(all), format_duration(step));
    let room = session.screen.width.saturating_sub(time.len());
    let head = format!("{}{time}", Paint::Bold.over(&cut(&shown(&head), room), &session.screen));
    let of = |pick: fn(&CardPoint) -> Option<Figure>| shown_points.iter().map(pick).collect::<Vec<_>>();
    let (used, load) = (of(|point| point.used_mb), of(|point| point.load));
    let mut text = format!("{head}\n");
    // The most of each stretch: a peak is what memory is asked for by. The mean of the load: that is its work.
    let most: Vec<Option<f64>> = used.iter().map(|figure| figure.map(|figure| figure.max)).collect();
    let mean: Vec<Option<f64>> = load.iter().map(|figure| figure.map(|figure| figure.mean)).collect();
    let memory = |value: f64| card_memory(value.round() as u64);
    let percent = |value: f64| format!("{value:.0}%");
    let most_used = together(&used).map(|figure| memory(figure.max));
    let mean_load = together(&load).map(|figure| percent(figure.mean));
    for (label, values, full, now, in_all) in [
        ("memory", &most, card.mem_mb as f64, last(&used).map(|f| memory(f.mean)), ("most", most_used)),
        ("load", &mean, 100.0, last(&load).map(|f| percent(f.mean)), ("mean", mean_load)),
    ] {
        let row = strokes.row(values, full);
        let figures = match (now, in_all) {
            (Some(now), (what, Some(in_all))) => format!("now {now}, {what} {in_all}"),
            (None, (what, Some(in_all))) => format!("{what} {in_all}"),
            _ => "not measured".to_owned(),
        };
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {label:8}{row}  {figures}");
    }
    text
}

/// The last stretch or the one before: the present one may have just begun.
fn last(figures: &[Option<Figure>]) -> Option<Figure> {
    figures.iter().rev().take(2).find_map(|figure| *figure)
}

fn together(figures: &[Option<Figure>]) -> Option<Figure> {
    figures.iter().flatten().copied().reduce(Figure::and)
}

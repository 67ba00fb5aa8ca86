//! The results of simulations, as tables for people and as a document for programs.

use std::collections::BTreeMap;

use ax_core::api::ErrorClass;
use ax_core::sim::metrics::{Class, Figure, Metrics, Part};
use ax_core::text::json_escaped;
use ax_core::time::Span;
use serde_json::{Map, Number, Value};

use super::Outcome;
use crate::failure::Failure;
use crate::table::{Cell, Column, Shrink, Table};
use crate::world::Screen;

/// The document: the measures of one run by name, or of each run under the name of its configuration.
pub(super) fn document(outcomes: &[Outcome]) -> Result<String, Failure> {
    let document = match outcomes {
        [one] => measures(&one.metrics),
        several => {
            let one = |(at, outcome): (usize, &Outcome)| {
                let twice = several[..at].iter().any(|other| other.name == outcome.name);
                let name = if twice { format!("{}.{}", outcome.name, at + 1) } else { outcome.name.clone() };
                (name, measures(&outcome.metrics))
            };
            Value::Object(several.iter().enumerate().map(one).collect())
        }
    };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|error| Failure::said(ErrorClass::Data, format!("cannot write JSON: {error}")))?;
    Ok(format!("{}\n", json_escaped(&text)))
}

fn measures(metrics: &Metrics) -> Value {
    let mut object = object(metrics.named());
    let parts = |parts: &BTreeMap<String, Part>| {
        parts.iter().map(|(name, part)| (name.clone(), Value::Object(self::object(part.named())))).collect()
    };
    object.insert("queues".to_owned(), Value::Object(parts(&metrics.queues)));
    object.insert("users".to_owned(), Value::Object(parts(&metrics.users)));
    Value::Object(object)
}

/// Measures are rounded to six digits: what programs compute in another order then reads the same.
fn object(named: Vec<(String, Figure)>) -> Map<String, Value> {
    let value = |figure| match figure {
        Figure::Count(count) => Value::from(count),
        Figure::Real(real) => {
            Number::from_f64((real * 1e6).round() / 1e6 + 0.0).map_or(Value::Null, Value::Number)
        }
    };
    named.into_iter().map(|(name, figure)| (name, value(figure))).collect()
}

/// Tables: the whole of each run beside the others, then its queues and users.
pub(super) fn text(heading: &str, outcomes: &[Outcome], horizon: Option<Span>, screen: &Screen) -> String {
    let mut text = format!("{heading}\n\n{}", whole(outcomes, horizon, screen));
    for outcome in outcomes {
        for (title, parts) in [("QUEUE", &outcome.metrics.queues), ("USER", &outcome.metrics.users)] {
            let of = if outcomes.len() > 1 { format!("{}\n", outcome.name) } else { String::new() };
            text.push_str(&format!("\n{of}{}", by(title, parts, screen)));
        }
    }
    text
}

/// No more queues, or users, are shown; the document has all.
const MOST_PARTS: usize = 20;

const fn column(title: &'static str, right: bool, shrink: Shrink) -> Column {
    Column { title, right, shrink }
}

/// A measure in words.
type Show = fn(&Metrics) -> String;

fn rows(horizon: Option<Span>) -> Vec<(String, Show)> {
    let in_time = match horizon {
        Some(horizon) => format!("low priority (< 30) done by {}", length(horizon.0 as f64 / 1000.0)),
        None => "low priority (< 30) done".to_owned(),
    };
    let rows: [(&str, Show); 19] = [
        ("jobs", |m| m.all.jobs.to_string()),
        ("done", |m| m.all.done.to_string()),
        ("failed", |m| m.all.failed.to_string()),
        ("not taken", |m| m.all.rejected.to_string()),
        ("makespan", |m| length(m.makespan)),
        ("wait, mean", |m| length(m.all.wait.mean)),
        ("wait, 95 of 100", |m| length(m.all.wait.p95)),
        ("wait, longest", |m| length(m.all.wait.max)),
        ("slowdown, mean", |m| format!("{:.1}", m.all.slowdown.mean)),
        ("high priority (70 and more) waits, mean", |m| of(&m.high, length(m.high.wait.mean))),
        ("", |m| of(&m.low, percent(m.low.done))),
        ("out of memory", |m| m.all.oom.to_string()),
        ("evicted", |m| m.all.evicted.to_string()),
        ("work thrown away", |m| percent(m.all.waste)),
        ("cards busy", |m| percent(m.busy)),
        ("memory asked for", |m| percent(m.mem)),
        ("memory used", |m| percent(m.true_mem)),
        ("evenness among queues (Jain)", |m| format!("{:.2}", m.jain)),
        ("deviation from shares", |m| percent(m.share_dev)),
    ];
    let name = |name: &str| if name.is_empty() { in_time.clone() } else { name.to_owned() };
    rows.into_iter().map(|(title, show)| (name(title), show)).collect()
}

fn whole(outcomes: &[Outcome], horizon: Option<Span>, screen: &Screen) -> String {
    let mut columns = vec![column("MEASURE", false, Shrink::Never)];
    columns.extend(outcomes.iter().map(|_| column("", true, Shrink::Freely(8))));
    let mut table = Table::new(columns);
    let names = outcomes.iter().map(|outcome| Cell::new(&outcome.name));
    table.row(std::iter::once(Cell::new("")).chain(names).collect(), None);
    for (title, show) in rows(horizon) {
        let values = outcomes.iter().map(|outcome| Cell::new(show(&outcome.metrics)));
        table.row(std::iter::once(Cell::new(title)).chain(values).collect(), None);
    }
    table.text(false, screen.width, screen)
}

fn by(title: &'static str, parts: &BTreeMap<String, Part>, screen: &Screen) -> String {
    let number = |title| column(title, true, Shrink::Never);
    let mut columns = vec![column(title, false, Shrink::Freely(6))];
    columns.extend(
        ["JOBS", "DONE", "FAILED", "WAIT", "P95", "LONGEST", "SLOW", "OOM", "EVICTED", "WASTE"].map(number),
    );
    let mut table = Table::new(columns);
    let shown = with_most_work(parts);
    for (name, part) in &shown {
        let values = [
            part.jobs.to_string(),
            part.done.to_string(),
            part.failed.to_string(),
            length(part.wait.mean),
            length(part.wait.p95),
            length(part.wait.max),
            format!("{:.1}", part.slowdown.mean),
            part.oom.to_string(),
            part.evicted.to_string(),
            percent(part.waste),
        ];
        let cells = values.into_iter().map(Cell::new);
        table.row(std::iter::once(Cell::new(name)).chain(cells).collect(), None);
    }
    let mut text = table.text(true, screen.width, screen);
    if parts.len() > shown.len() {
        text.push_str(&format!("and {} more with less work\n", parts.len() - shown.len()));
    }
    text
}

/// Those that had most of the cards, by name.
fn with_most_work(parts: &BTreeMap<String, Part>) -> Vec<(&String, &Part)> {
    let mut all: Vec<(&String, &Part)> = parts.iter().collect();
    all.sort_by(|a, b| b.1.work.total_cmp(&a.1.work));
    all.truncate(MOST_PARTS);
    all.sort_by_key(|(name, _)| *name);
    all
}

/// A length of time in the unit that people would use.
pub(super) fn length(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    match seconds {
        s if s < 2.0 * MINUTE => format!("{s:.1}s"),
        s if s < 120.0 * MINUTE => format!("{:.1}m", s / MINUTE),
        s => format!("{:.1}h", s / (60.0 * MINUTE)),
    }
}

/// A measure of a class, if it has any jobs.
fn of(class: &Class, measure: String) -> String {
    if class.jobs == 0 { "-".to_owned() } else { measure }
}

/// A part of something; of nothing there is none.
fn percent(part: f64) -> String {
    // Sums of nothing are -0.
    if part.is_finite() { format!("{:.1}%", part * 100.0 + 0.0) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_nothing_is_none() {
        assert_eq!([0.25, -0.0, f64::INFINITY].map(percent), ["25.0%", "0.0%", "-"]);
    }

    #[test]
    fn lengths_are_in_the_unit_that_people_would_use() {
        assert_eq!([0.25, 119.0, 2094.0, 8000.0].map(length), ["0.2s", "119.0s", "34.9m", "2.2h"]);
    }
}

//! `axctl diag`: how the scheduler fares, as the daemon sees it.

use ax_core::api::{DiagView, ForecastErrors, QueueDiag};
use ax_core::explain::KeptPlace;
use ax_core::text::{count, json_escaped};
use ax_core::time::Span;

use crate::client::Client;
use crate::failure::Failure;
use crate::shown::shown;
use crate::table::{Cell, Column, Shrink, Table};
use crate::when::{Clock, Zone, length};
use crate::world::{Screen, World};

/// Show how the scheduler fares: passes, queues, places that are kept, forecasts
#[derive(clap::Args)]
#[command(arg_required_else_help = false)]
pub(crate) struct Arguments {
    /// One JSON document with everything
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, client: &Client, world: &mut World<'_>) -> Result<u8, Failure> {
        let view: DiagView = client.get("/api/v1/diag")?;
        let text = match self.json {
            true => {
                let text =
                    serde_json::to_string_pretty(&view).map_err(|error| Failure::usage(error.to_string()))?;
                format!("{}\n", json_escaped(&text))
            }
            false => words(
                &view,
                Clock { now: world.now, zone: Zone::Local },
                &Screen::new(false, None, &world.vars),
            ),
        };
        world.out.write_all(text.as_bytes())?;
        world.out.flush()?;
        Ok(0)
    }
}

fn words(view: &DiagView, clock: Clock, screen: &Screen) -> String {
    let times = &view.pass_times;
    let lines = [
        format!("axd {} of {}, since {}", view.version, view.cluster, clock.both(view.since)),
        format!("scheduler {}, at most {} kept", view.scheduler, count(view.reservations, "place")),
        format!(
            "{}; of the last {} half took {}, 99 of 100 {}, the longest {}",
            if view.passes == 1 { "1 pass".to_owned() } else { format!("{} passes", view.passes) },
            times.of,
            short(times.p50_us),
            short(times.p99_us),
            short(times.max_us)
        ),
        format!(
            "{}, of them {} past others (back-fill); {} to make room; {}",
            count(view.starts, "start"),
            view.backfilled,
            count(view.evictions, "eviction"),
            count(view.ends, "end")
        ),
        forecasts(&view.forecasts),
    ];
    let mut text: String = lines.iter().map(|line| format!("{}\n", shown(line))).collect();
    text.push('\n');
    text.push_str(&queues(&view.queues).text(true, screen.width, screen));
    if !view.kept.is_empty() {
        text.push('\n');
        text.push_str(&kept(&view.kept, clock).text(true, screen.width, screen));
    }
    text
}

/// A length in the unit that people would use.
fn short(microseconds: u64) -> String {
    match microseconds {
        us if us < 1000 => format!("{us} µs"),
        us if us < 1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        us => format!("{:.1} s", us as f64 / 1e6),
    }
}

fn forecasts(errors: &ForecastErrors) -> String {
    let days = count(errors.days, "day");
    match (errors.half_within_s, errors.most_within_s) {
        (Some(half), Some(most)) => format!(
            "expected starts of {days}, first told and real: {}, half within {}, 9 of 10 within {}; {} later than told",
            count(errors.jobs, "job"),
            length(Span::seconds(half)),
            length(Span::seconds(most)),
            errors.late
        ),
        _ => format!("expected starts of {days}: nobody was told one of a job that has started"),
    }
}

fn queues(queues: &[QueueDiag]) -> Table {
    let number = |title| Column { title, right: true, shrink: Shrink::Never };
    let text = |title| Column { title, right: false, shrink: Shrink::Freely(6) };
    let mut table = Table::new(vec![
        text("QUEUE"),
        text("STATE"),
        number("PRIORITY"),
        number("READY"),
        number("PENDING"),
        number("ACTIVE"),
        number("LIMIT"),
        number("FIT NOWHERE"),
    ]);
    for queue in queues {
        let limit = queue.max_running.map_or("-".to_owned(), |max| max.to_string());
        let numbers = [queue.ready, queue.pending, queue.active].map(|number| number.to_string());
        let [ready, pending, active] = numbers;
        let rest = [queue.priority.to_string(), ready, pending, active, limit, queue.misfits.to_string()];
        let cells = [queue.name.clone(), queue.state.word().to_owned()].into_iter().chain(rest);
        table.row(cells.map(Cell::new).collect(), None);
    }
    table
}

fn kept(places: &[KeptPlace], clock: Clock) -> Table {
    let text = |title, shrink| Column { title, right: false, shrink };
    let mut table = Table::new(vec![
        text("PLACE KEPT FOR", Shrink::Never),
        text("NODE", Shrink::Freely(6)),
        text("CARDS", Shrink::Freely(5)),
        text("FROM", Shrink::Never),
        text("UNTIL", Shrink::Never),
    ]);
    for place in places {
        let cards: Vec<String> = place.cards.iter().map(u32::to_string).collect();
        let cards = if cards.is_empty() { "-".to_owned() } else { cards.join(",") };
        let times = [place.from, place.until].map(|time| clock.short(time));
        let cells = [place.job.to_string(), place.node.clone(), cards].into_iter().chain(times);
        table.row(cells.map(Cell::new).collect(), None);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_the_unit_that_people_would_use() {
        assert_eq!([7, 1234, 2_500_000].map(short), ["7 µs", "1.2 ms", "2.5 s"]);
    }
}

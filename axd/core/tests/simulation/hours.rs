//! Daily hours and deadlines in simulations: over midnight, over changes of the clock, and whatever comes.

use ax_core::job::state::Outcome;
use ax_core::sim::run::End;
use ax_core::sim::workload::Origin;
use ax_core::sim::{Format, Options, Run, Workload, simulate};
use ax_core::time::{Offset, Span, WallTime, Zone};
use proptest::prelude::*;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The simulation begins with the year 2026, in UTC.
fn begins() -> WallTime {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn read(lines: &str) -> Workload {
    Format::Csv.read(&format!("id,arrive,runtime,estimate,window,deadline\n{lines}"), None).unwrap()
}

/// Where clocks are an hour ahead of UTC, and from the second night on two.
fn berlin(mut workload: Workload) -> Workload {
    let changes = [(WallTime(0), 3600), (begins() + Span::seconds(DAY + HOUR), 7200)];
    let zone = Zone::of(changes.map(|(from, seconds)| Offset { from, seconds }));
    workload.origin = Some(Box::new(Origin { zone, ..Origin::default() }));
    workload
}

fn run(workload: &Workload, cards: u32) -> Run {
    let nodes = vec![format!("{cards}x1000").parse().unwrap()];
    simulate(workload, &Options { nodes, ..Options::default() }).unwrap()
}

/// When each started, in hours.
fn starts(run: &Run) -> Vec<Option<f64>> {
    let hours = |at: Span| at.0 as f64 / 3_600_000.0;
    run.fates.iter().map(|fate| fate.first_start.map(hours)).collect()
}

#[test]
fn nights_pass_midnight_and_who_would_not_be_over_waits_for_the_next() {
    let night = |id, arrive: u64, hours: u64| {
        format!("{id},{},{},{},22:00-08:00,\n", arrive * HOUR, hours * HOUR, hours * HOUR)
    };
    // On one card: eight hours in each of two nights, then four and six in one. On four all that come by midnight start in
    // the first, and six hours do not fit into what is left of it at three.
    let lines = night(1, 12, 8) + &night(2, 12, 8) + &night(3, 24, 4) + &night(4, 27, 6);
    let on_one = run(&read(&lines), 1);
    assert_eq!(starts(&on_one), [Some(22.0), Some(46.0), Some(70.0), Some(74.0)]);
    let on_four = run(&read(&lines), 4);
    assert_eq!(starts(&on_four), [Some(22.0), Some(22.0), Some(24.0), Some(46.0)]);
    assert!(on_four.fates.iter().all(|fate| matches!(fate.end, End::Done(_))), "{:?}", on_four.fates);
    // One that takes longer than it says is ended.
    let long = run(&read(&format!("1,{},{},{HOUR},22:00-08:00,\n", 12 * HOUR, 2 * HOUR)), 1);
    assert_eq!(
        (&long.fates[0].end, long.stays[0].how),
        (&End::Failed(Span::seconds(23 * HOUR)), Outcome::Timeout)
    );
    // So is one that fits into no night at all refused.
    let never = run(&read(&format!("1,0,{0},{0},22:00-08:00,\n", 11 * HOUR)), 1);
    assert!(
        matches!(&never.fates[0].end, End::Rejected(why) if why.contains("10:00:00 long")),
        "{:?}",
        never.fates
    );
}

#[test]
fn the_clock_of_the_place_counts_and_its_changes() {
    let lines = format!("1,0,{0},{0},22:00-08:00,\n2,{1},{0},{0},22:00-08:00,\n", 10 * HOUR, 22 * HOUR);
    // In UTC: the first night, and the one after it.
    assert_eq!(starts(&run(&read(&lines), 2)), [Some(22.0), Some(22.0)]);
    // An hour ahead: 21:00 UTC, which the second comes too late for; the night after is an hour ahead once more.
    let there = run(&berlin(read(&lines)), 2);
    assert_eq!(starts(&there), [Some(44.0), Some(44.0)], "the first night has nine hours only");
    let shorter = lines.replace(&(10 * HOUR).to_string(), &(9 * HOUR).to_string());
    assert_eq!(starts(&run(&berlin(read(&shorter)), 2)), [Some(21.0), Some(44.0)]);
}

#[test]
fn a_deadline_ends_who_runs_and_who_can_t_be_over_by_it() {
    // The second waits for the first, as long as it could be over by 150 s; the third starts then, and takes longer
    // than it says.
    let run = run(&read("1,0,70,70,,\n2,1,100,100,,150\n3,2,300,40,,200\n"), 1);
    let ends: Vec<&End> = run.fates.iter().map(|fate| &fate.end).collect();
    let at = Span::seconds;
    let End::Failed(lapsed) = ends[1] else { panic!("{ends:?}") };
    // A tenth of its length it may be late.
    assert!((at(50)..at(61)).contains(lapsed), "{lapsed:?}");
    assert_eq!((ends[0], ends[2]), (&End::Done(at(70)), &End::Failed(at(200))));
    assert_eq!(run.fates[1].first_start, None);
}

/// Arrival, estimate, runtime, opening, length of the hours, deadline: all in hours, of the first two days.
type Chosen = (u64, u64, u64, Option<(u64, u64)>, Option<u64>);

fn chosen() -> impl Strategy<Value = Chosen> {
    let window = proptest::option::of((0..24_u64, 1..23_u64));
    (0..48_u64, 1..8_u64, 1..9_u64, window, proptest::option::weighted(0.3, 1..48_u64))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nobody runs outside of their hours or beyond their deadline, and all come to an end.
    #[test]
    fn hours_and_deadlines_are_kept_by_all(tasks in proptest::collection::vec(chosen(), 1..25), cards in 1..4_u32) {
        let mut lines = String::new();
        for (id, (arrive, estimate, runtime, window, deadline)) in tasks.iter().enumerate() {
            let window = window.map_or(String::new(), |(from, length)| {
                format!("{from:02}:00-{:02}:00", (from + length) % 24)
            });
            let deadline = deadline.map_or(String::new(), |after| ((arrive + after) * HOUR).to_string());
            lines += &format!("{id},{},{},{},{window},{deadline}\n", arrive * HOUR, runtime * HOUR, estimate * HOUR);
        }
        let run = run(&read(&lines), cards);
        for stay in &run.stays {
            let (arrive, _, _, window, deadline) = tasks[stay.task];
            let (from, to) = (stay.from.as_seconds(), stay.to.as_seconds());
            prop_assert!(arrive * HOUR <= from, "{stay:?}");
            if let Some((opens, length)) = window {
                // From when it opened last: a minute it may be late, and is ended with its hours.
                let since = (from + DAY - opens * HOUR) % DAY;
                prop_assert!(since + (to - from) <= length * HOUR, "{stay:?} {:?}", tasks[stay.task]);
            }
            prop_assert!(deadline.is_none_or(|after| to <= (arrive + after) * HOUR), "{stay:?}");
        }
        for (fate, (_, estimate, runtime, window, deadline)) in run.fates.iter().zip(&tasks) {
            let fits = window.is_none_or(|(_, length)| *estimate <= length);
            let refused = matches!(fate.end, End::Rejected(_));
            prop_assert!(fate.end != End::Open && (fits || refused), "{fate:?}");
            let done = matches!(fate.end, End::Done(_));
            // Without a deadline whoever fits gets through, unless they take longer than they say and have hours.
            let honest = window.is_none() || runtime <= estimate;
            prop_assert!(deadline.is_some() || !fits || done == honest, "{fate:?}");
        }
    }
}

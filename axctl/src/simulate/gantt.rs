//! What ran when on which card, as a picture: a row for each card, a bar for each attempt, as high as its part of the
//! card, in its queue's colour. Plain SVG: no scripts, no fonts of its own; each bar says what it is.

use std::collections::BTreeMap;
use std::fmt::Write;

use ax_core::job::state::Outcome;
use ax_core::sim::run::Stay;
use ax_core::sim::{NodeShape, Run, Workload};
use ax_core::text::{count, escaped};

use super::report::length;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 40.0;
const ROW: f64 = 36.0;
const GAP: f64 = 4.0;
const COLOURS: [&str; 8] =
    ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#bbbbbb"];
/// About so many times stand below the picture.
const MARKS: f64 = 10.0;

/// Draws a run.
pub(super) fn chart(workload: &Workload, run: &Run, nodes: &[NodeShape]) -> String {
    let rows = Rows::new(nodes);
    let end = run.stays.iter().map(|stay| stay.to.0).max().unwrap_or(0).max(1) as f64;
    let scale = WIDTH / end;
    let height = TOP + rows.count as f64 * ROW + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        LEFT + WIDTH + 20.0
    );
    let colours = colours(workload);
    legend(&mut svg, &colours);
    grid(&mut svg, &rows, nodes, end, scale);
    for bar in bars(run, nodes) {
        let stay = &run.stays[bar.stay];
        let task = &workload.tasks[stay.task];
        let colour = colours.get(task.queue.as_str()).copied().unwrap_or(COLOURS[0]);
        let y = TOP + rows.of(stay.node, bar.card) as f64 * ROW + (ROW - GAP) * bar.from;
        // Writing to a String can't fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{colour}\"{}>\
             <title>{}</title></rect>",
            LEFT + stay.from.0 as f64 * scale,
            ((stay.to.0 - stay.from.0) as f64 * scale).max(0.5),
            ((ROW - GAP) * bar.part).max(0.5),
            look(stay.how),
            safe(&title(workload, stay)),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where the cards' rows are.
struct Rows {
    first: Vec<usize>,
    count: usize,
}

impl Rows {
    fn new(nodes: &[NodeShape]) -> Rows {
        let mut count = 0;
        let first = nodes.iter().map(|node| {
            let first = count;
            count += node.cards as usize;
            first
        });
        Rows { first: first.collect(), count }
    }

    fn of(&self, node: usize, card: u32) -> usize {
        self.first.get(node).copied().unwrap_or(0) + card as usize
    }
}

/// What lies on a card: until when, from where, how high.
type Taken = (u64, f64, f64);

/// An attempt on one of its cards; places and heights are parts of the card.
struct Bar {
    stay: usize,
    card: u32,
    from: f64,
    part: f64,
}

/// Each attempt at the lowest place of its card that nothing else has at the time.
fn bars(run: &Run, nodes: &[NodeShape]) -> Vec<Bar> {
    let mut order: Vec<usize> = (0..run.stays.len()).collect();
    order.sort_by_key(|&at| run.stays[at].from);
    let mut on_cards: BTreeMap<(usize, u32), Vec<Taken>> = BTreeMap::new();
    let mut bars = Vec::new();
    for at in order {
        let stay = &run.stays[at];
        let size = nodes.get(stay.node).map_or(1.0, |node| node.mem.0 as f64);
        let part = stay.mem.map_or(1.0, |mem| mem.0 as f64 / size).min(1.0);
        for &card in &stay.cards {
            let there = on_cards.entry((stay.node, card)).or_default();
            there.retain(|(until, _, _)| *until > stay.from.0);
            for (from, part) in free_stripes(there, part) {
                there.push((stay.to.0, from, part));
                bars.push(Bar { stay: at, card, from, part });
            }
        }
    }
    bars
}

/// The lowest place with room for a part, as it lies and how high it is; where the room is in pieces, the lowest pieces of
/// it. Only what is more than the card has left lies over others.
fn free_stripes(there: &mut [Taken], part: f64) -> Vec<(f64, f64)> {
    /// Parts are sums of quotients.
    const NOTHING: f64 = 1e-9;
    there.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut gaps = Vec::new();
    let mut low = 0.0_f64;
    for (_, from, height) in there.iter() {
        gaps.push((low, from - low));
        low = low.max(from + height);
    }
    gaps.push((low, 1.0 - low));
    gaps.retain(|(_, height)| *height > NOTHING);
    if let Some((from, _)) = gaps.iter().find(|(_, height)| part <= height + NOTHING) {
        return vec![(*from, part)];
    }
    let mut left = part;
    let mut stripes = Vec::new();
    for (from, height) in gaps {
        let here = height.min(left);
        if here > NOTHING {
            stripes.push((from, here));
            left -= here;
        }
    }
    // Rounding leaves less than anybody sees.
    if stripes.is_empty() { vec![(0.0, part)] } else { stripes }
}

fn colours(workload: &Workload) -> BTreeMap<&str, &'static str> {
    let mut colours: BTreeMap<&str, &'static str> = BTreeMap::new();
    for task in &workload.tasks {
        colours.insert(task.queue.as_str(), "");
    }
    for (colour, next) in colours.values_mut().zip(COLOURS.iter().cycle()) {
        *colour = next;
    }
    colours
}

fn legend(svg: &mut String, colours: &BTreeMap<&str, &'static str>) {
    for ((queue, colour), at) in colours.iter().zip(0..) {
        let x = LEFT + f64::from(at) * 130.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"18\">{}</text>",
            x + 16.0,
            safe(queue)
        );
    }
}

/// The names of the cards, and the times.
fn grid(svg: &mut String, rows: &Rows, nodes: &[NodeShape], end: f64, scale: f64) {
    let bottom = TOP + rows.count as f64 * ROW;
    for (at, node) in nodes.iter().enumerate() {
        for card in 0..node.cards {
            let y = TOP + rows.of(at, card) as f64 * ROW;
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{}\" fill=\"#f2f2f2\"/>\
                 <text x=\"4\" y=\"{}\">node {} card {card}</text>",
                ROW - GAP,
                y + ROW / 2.0,
                at + 1
            );
        }
    }
    let every = pleasant(end / MARKS);
    let mut at = 0.0;
    while at <= end {
        let x = LEFT + at * scale;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.2} {TOP}V{bottom}\" stroke=\"#cccccc\"/>\
             <text x=\"{x:.2}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            length(at / 1000.0)
        );
        at += every;
    }
}

/// 1, 2 or 5 and zeros, of milliseconds below a minute and of minutes above; not less than asked for.
fn pleasant(least: f64) -> f64 {
    let unit: f64 = if least < 60_000.0 { 1.0 } else { 60_000.0 };
    let mut step = unit;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if step * factor >= least {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

/// What did not go well is drawn with an edge.
fn look(how: Outcome) -> &'static str {
    match how {
        Outcome::Succeeded => " stroke=\"#ffffff\" stroke-width=\"0.5\"",
        Outcome::Preempted => " fill-opacity=\"0.4\" stroke=\"#333333\" stroke-dasharray=\"2\"",
        _ => " fill-opacity=\"0.4\" stroke=\"#cc0000\"",
    }
}

fn title(workload: &Workload, stay: &Stay) -> String {
    let task = &workload.tasks[stay.task];
    let cards = match stay.mem {
        None => count(stay.cards.len() as u64, "whole card"),
        Some(mem) => format!("{} × {} MB", stay.cards.len(), mem.0),
    };
    let seconds = |ms: u64| ms as f64 / 1000.0;
    format!(
        "job {} of {} in {}: {cards}, {} to {} s, {}",
        task.id,
        task.user,
        task.queue,
        seconds(stay.from.0),
        seconds(stay.to.0),
        stay.how.word()
    )
}

/// A text of a file's within a document.
fn safe(text: &str) -> String {
    escaped(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_one_card_lie_beside_each_other() {
        let mut there = vec![(9, 0.5, 0.25), (9, 0.0, 0.25)];
        assert_eq!(free_stripes(&mut there, 0.25), [(0.25, 0.25)]);
        assert_eq!(free_stripes(&mut there, 0.125), [(0.25, 0.125)]);
        assert_eq!(free_stripes(&mut there, 0.375), [(0.25, 0.25), (0.75, 0.125)], "in pieces");
        assert_eq!(free_stripes(&mut [(9, 0.0, 1.0)], 0.5), [(0.0, 0.5)], "more than there is");
    }

    #[test]
    fn times_are_round() {
        assert_eq!(
            [1.0, 130.0, 59_000.0, 61_000.0, 200_000.0].map(pleasant),
            [1.0, 200.0, 100_000.0, 120_000.0, 300_000.0]
        );
    }

    #[test]
    fn names_cannot_break_out() {
        assert_eq!(safe("<a>&\"\n"), "&lt;a&gt;&amp;\"\\n");
    }
}

//! Law 20: while making room has cost more than its budget within an hour, nobody is ended for others.

use ax_core::controller::Decision;
use ax_core::job::state::Outcome;
use proptest::prelude::*;

use crate::chance::Frame;
use crate::ledger::{Held, Ledger};
use crate::world::World;
use crate::{histories, history};

/// What ending an attempt now loses, in cards times milliseconds.
fn loss(ledger: &Ledger, held: &Held, now: ax_core::time::WallTime) -> f64 {
    let node = &ledger.nodes[&held.allocation.node];
    let size = |index| node.cards.iter().find(|card| card.index == index).unwrap().mem.0;
    let part = |share: &ax_core::node::CardShare| {
        share.slice.map_or(1.0, |slice| slice.0 as f64 / size(share.index) as f64)
    };
    let cards: f64 = held.allocation.cards.iter().map(part).sum();
    let worth = if held.allocation.cards.is_empty() {
        held.allocation.cpus.len() as f64 * node.cards.len().max(1) as f64 / f64::from(node.cpus)
    } else {
        cards
    };
    worth * (now - held.checkpoint.unwrap_or(held.since)).0 as f64
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_20_nobody_makes_room_once_that_has_cost_enough(history in history(60)) {
        let frame = Frame { preemption: Some(true), alike: true, forward: true, ..Frame::default() };
        let mut ledger = Ledger::default();
        let mut losses: Vec<(i64, f64)> = Vec::new();
        World::play(history.0, frame, history.1, &mut |seen| {
            ledger.take_events(seen);
            let now = seen.now.wall;
            let cards: usize = ledger.nodes.values().map(|node| node.cards.len().max(1)).sum();
            let percent = f64::from(ledger.config.policy.preempt_budget);
            let budget = cards as f64 * 3_600_000.0 * percent / 100.0;
            // What was lost within the last minute of the hour may have passed already.
            let counted: f64 =
                losses.iter().filter(|(at, _)| *at > now.0 - 59 * 60_000).map(|(_, lost)| lost).sum();
            let mut new = Vec::new();
            ledger.take_decisions(seen, &mut |ledger, decision| {
                if let Decision::Terminate { attempt, outcome: Outcome::Preempted, .. } = decision {
                    // Rounded to a millionth of a card there.
                    let enough = counted > budget * (1.0 + 1e-5) + 1.0;
                    assert!(percent >= 100.0 || !enough, "{attempt} goes after {counted} of {budget}");
                    let lost = ledger.parts(attempt.epoch).map(|part| loss(ledger, part, now)).sum();
                    new.push((now.0, lost));
                }
            });
            losses.append(&mut new);
        });
    }
}

//! What is remembered gives what a new search gives: whatever comes and goes meanwhile, whatever is kept for others, and
//! if the clock is set back.

use proptest::prelude::*;

use super::*;
use crate::job::spec::NodeCount;
use crate::schedule::fragmentation::Mix;
use crate::schedule::random::{NOW, asks, expect, give_back, held, hold, keep, node, request, see, wanted};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_remembered_is_what_a_new_search_finds(
        shapes in proptest::collection::vec((prop_oneof![Just(8_u64), Just(6)], 0..4_usize, any::<bool>()), 1..6),
        rounds in proptest::collection::vec(
            (proptest::collection::vec(held(), 0..3), (0..20_u64, 0..40_i64), -1..3_i64, 0..6_usize), 1..20,
        ),
        sights in proptest::collection::vec((0..6_usize, 0..3_u32, 0..9_u64, any::<bool>()), 0..4),
        all_asks in proptest::collection::vec(wanted(4, 1..8), 1..5),
        reserve in prop_oneof![Just(0_u32), Just(25)],
        length in 1..9000_u64,
        several in proptest::collection::vec((0..3_u32, 0..2_u32), 4),
        packing in prop_oneof![3 => Just(Packing::Best), 1 => Just(Packing::Worst), 1 => Just(Packing::First)],
    ) {
        let rules = Rules::new(packing, reserve, &Mix::default());
        let mut nodes: Nodes = shapes.into_iter().zip(0..).map(|(shape, number)| node(shape, number)).collect();
        let mut places = KeptPlaces::default();
        let (mut number, mut now, mut sights) = (0, NOW, sights.into_iter());
        for (round, (longer, end), later, left_out) in rounds {
            give_back(&mut nodes, number / 2);
            expect(&mut nodes, longer, end);
            sights.by_ref().take(usize::from(round.is_empty())).for_each(|sight| see(&mut nodes, sight));
            for held in round {
                number += 1;
                hold(&mut nodes, &rules, held, number);
            }
            now = WallTime(now.0 + later * 700);
            let mut timeline = Timeline::new(now);
            for (job, (wanted, (min, more))) in all_asks.iter().copied().zip(several.iter().copied()).enumerate() {
                let (mut request, length) = (request(wanted), Span(length));
                request.set_special(|special| {
                    special.nodes = (min > 0).then_some(NodeCount { min, max: min + more });
                });
                let mps = asks(&request, wanted).mps;
                let bounds = mps.map(|user| Arc::new(Bounds { mps: Some(user), ..Bounds::default() }));
                let request = Arc::new(request);
                let asks = Asks::within(&request, bounds.as_deref());
                // Whoever could start now would.
                if job == left_out || rules.places(&nodes, &timeline, asks, now, length).is_some() {
                    continue;
                }
                let asker =
                    Asker { job: JobNumber(job as u32), request: &request, bounds: bounds.as_ref() };
                let found = places.earliest_for(&rules, &nodes, &timeline, asker, length);
                prop_assert_eq!(&found, &rules.earliest_places(&nodes, &timeline, asks, now, length));
                if let Some(found) = found {
                    keep(&mut timeline, &request, &found);
                }
            }
        }
    }
}

/// Two nodes have room at the same instant, and one job there takes longer than planned: it will have gone a little
/// later than that, so that its node is the tighter one then.
#[test]
fn who_is_late_elsewhere_makes_a_tighter_place() {
    let rules = Rules::new(Packing::Best, 0, &Mix::default());
    let mut nodes: Nodes =
        [(8, 0, false), (8, 0, false)].into_iter().zip(0..).map(|(of, at)| node(of, at)).collect();
    let (all, most, some) = ((0, None, 12, None), (0, None, 9, None), (0, None, 3, None));
    for (number, (at, what, end)) in [(0, all, 20), (1, most, 20), (1, some, 10)].into_iter().enumerate() {
        hold(&mut nodes, &rules, (at, what, end), number as u64);
    }
    let request = Arc::new(request((0, None, 4, None)));
    let asker = Asker { job: JobNumber(1), request: &request, bounds: None };
    let mut places = KeptPlaces::default();
    for after in [4000, 9500] {
        let timeline = Timeline::new(WallTime(NOW.0 + after));
        let asks = Asks::within(&request, None);
        let anew = rules.earliest_places(&nodes, &timeline, asks, timeline.now(), Span(1000)).unwrap();
        assert_eq!(anew.1.first.node, usize::from(after == 9500), "{anew:?}");
        assert_eq!(places.earliest_for(&rules, &nodes, &timeline, asker, Span(1000)), Some(anew));
    }
}

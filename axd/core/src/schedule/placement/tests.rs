//! What is found along the index is what looking at every node finds.

use proptest::prelude::*;

use super::*;
use crate::job::spec::NodeCount;
use crate::schedule::random::{
    NOW, asks, best, first, give_back, held, hold, keep, node, request, see, wanted,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_finds_what_a_look_at_all_finds(
        shapes in proptest::collection::vec((prop_oneof![Just(8_u64), Just(6)], 0..4_usize, any::<bool>()), 1..6),
        rounds in proptest::collection::vec(proptest::collection::vec(held(), 1..8), 1..6),
        sights in proptest::collection::vec((0..6_usize, 0..3_u32, 0..9_u64, any::<bool>()), 0..6),
        all_asks in proptest::collection::vec(wanted(4, 1..8), 1..5),
        reserve in prop_oneof![Just(0_u32), Just(25)],
        length in 1..9000_u64,
        several in proptest::collection::vec((0..4_u32, 0..2_u32), 4),
        packing in prop_oneof![
            3 => Just(Packing::Best), 1 => Just(Packing::Worst), 1 => Just(Packing::First), 1 => Just(Packing::Fgd),
        ],
    ) {
        let mut mix = Mix::default();
        all_asks.iter().for_each(|wanted| mix.count(&request(*wanted)));
        let rules = Rules::new(packing, reserve, &mix);
        let mut nodes: Nodes = shapes.into_iter().zip(0..).map(|(shape, number)| node(shape, number)).collect();
        let mut number = 0;
        let mut sights = sights.into_iter();
        for round in rounds {
            give_back(&mut nodes, number / 2);
            sights.by_ref().take(2).for_each(|sight| see(&mut nodes, sight));
            for held in round {
                number += 1;
                hold(&mut nodes, &rules, held, number);
            }
            let mut timeline = Timeline::new(NOW);
            for (wanted, (min, more)) in all_asks.iter().copied().zip(several.iter().copied()) {
                let (mut request, length) = (request(wanted), Span(length));
                request.set_special(|special| {
                    special.nodes = (min > 0).then_some(NodeCount { min, max: min + more });
                });
                let asks = asks(&request, wanted);
                let all = Search {
                    rules: &rules, nodes: nodes.as_slice(), timeline: &timeline, asks, length, best: None,
                };
                let now = best(&all, NOW, asks.nodes.max);
                prop_assert_eq!(&rules.places(&nodes, &timeline, asks, NOW, length), &now);
                if now.is_some() {
                    continue;
                }
                let later = first(&all);
                prop_assert_eq!(&rules.earliest_places(&nodes, &timeline, asks, NOW, length), &later);
                if let Some(later) = later {
                    keep(&mut timeline, &request, &later);
                }
            }
            prop_assert!(nodes.index_agrees());
        }
    }
}

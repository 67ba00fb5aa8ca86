//! Lanes answer like plain lists.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn job(number: u32, value: i64, shape: u32, length: u64, priority: u8) -> (Rank, Waiting) {
    let number = JobNumber(number);
    let rank = Rank { class: 0, value, since: WallTime(0), number };
    let waiting = Waiting {
        number,
        shape: ShapeId(shape),
        length: Span(length),
        declared: Span(length + u64::from(number.0) % 4),
        share: Share(1),
        priority,
    };
    (rank, waiting)
}

#[test]
fn a_knot_is_small() {
    assert!(size_of::<Knot>() <= 104, "{}", size_of::<Knot>());
}

#[test]
fn halves_are_the_whole() {
    for time in [0, 1, -1, 1 << 64, i128::MAX, i128::MIN, u64::MAX.into()].map(VirtualTime) {
        assert_eq!(Halves::of(time).whole(), time);
    }
}

fn jobs() -> impl Strategy<Value = Vec<(bool, i64, u32, u64, u8)>> {
    proptest::collection::vec((any::<bool>(), 0..20_i64, 0..3_u32, 0..20_u64, 0..5_u8), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_answers_like_a_plain_list(history in jobs(), after in 0..20_i64, shorter in 0..21_u64, from in 0..6_u8) {
        let mut lane = Lane::default();
        let mut plain: BTreeMap<Rank, (Waiting, i128)> = BTreeMap::new();
        for (number, (enters, value, shape, length, priority)) in history.into_iter().enumerate() {
            let (rank, waiting) = job(number as u32, value, shape, length, priority);
            if enters || plain.is_empty() {
                let charge = i128::from(length) * 3 + 1;
                lane.insert(rank, waiting, VirtualTime(charge));
                plain.insert(rank, (waiting, charge));
            } else {
                let some = *plain.keys().nth(number % plain.len()).unwrap();
                prop_assert!(lane.remove(&some) && !lane.remove(&some));
                plain.remove(&some);
            }
        }
        let rank = job(u32::MAX, after, 0, 0, 0).0;
        let first = plain.first_key_value().map(|(rank, (waiting, _))| (*rank, *waiting));
        prop_assert_eq!(lane.first_of_all(), first);
        let mut read = Vec::new();
        lane.read(Some(&rank), 50, |rank, waiting| read.push((rank, waiting)));
        let expected: Vec<_> = plain.range(rank..).take(50).map(|(rank, (waiting, _))| (*rank, *waiting)).collect();
        prop_assert_eq!(read, expected);
        let before: i128 = plain.range(..rank).map(|(_, (_, charge))| charge).sum();
        prop_assert_eq!(lane.charges_before(&rank), VirtualTime(before));
        let by = if from % 2 == 0 { Lengths::Planned } else { Lengths::Declared };
        let worth = Worth { shorter_than: Span(shorter), by, from_priority: from };
        for shape in (0..3).map(ShapeId) {
            let of_shape = || plain.iter().filter(|(_, (waiting, _))| waiting.shape == shape);
            let mut worthy = of_shape().filter(|(own, (waiting, _))| **own > rank && worth.covers(waiting));
            let first = worthy.next().map(|(rank, (waiting, _))| (*rank, *waiting));
            prop_assert_eq!(lane.next(shape, Some(&rank), &worth), first);
            let shortest = of_shape().map(|(_, (waiting, _))| waiting.by(by)).min();
            prop_assert_eq!(lane.shortest_of_each(by).find(|(own, _)| *own == shape).map(|(_, length)| length), shortest);
            let some = of_shape().any(|(_, (waiting, _))| worth.covers(waiting));
            prop_assert_eq!(lane.shapes(&|_| worth).any(|(own, _)| own == shape), some);
        }
        prop_assert_eq!(lane.is_empty(), plain.is_empty());
    }
}

#[test]
fn many_in_a_row_make_no_deep_tree() {
    let mut lane = Lane::default();
    for number in 0..20_000 {
        let (rank, waiting) = job(number, i64::from(number), number % 7, 5, 50);
        lane.insert(rank, waiting, VirtualTime(1));
    }
    fn depth(lane: &Lane, root: Root) -> usize {
        let below = |side| root.map_or(0, |at| depth(lane, lane.child(Tree::All, at, side)));
        root.map_or(0, |_| 1 + below(0).max(below(1)))
    }
    assert!(depth(&lane, lane.all) < 50, "{}", depth(&lane, lane.all));
}

//! Law 12: keeping back less of each card never makes a request unplaceable, and what is no larger than a card is always
//! placed on an empty one.

use ax_core::config::Config;
use ax_core::controller::{Controller, Decision, Event};
use ax_core::id::QueueName;
use ax_core::job::request::{CardRequest, Request};
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, WallTime};
use proptest::prelude::*;

use crate::{chance, histories};

/// When nothing has happened yet.
const NOW: Now = Now { boot: BootTime(0), wall: WallTime(1_795_000_000_000) };

fn config(reserve: u32) -> Config {
    let mut config = Config::default();
    config.resources.gpu_reserve = reserve;
    config
}

/// Submits that, and says whether it starts at once.
fn starts(controller: &mut Controller, key: u128, request: &Request) -> bool {
    let new = chance::of(key, 1000, QueueName::default_queue(), request.clone(), false);
    let out = controller.step(NOW, Event::Submitted(Box::new(new)));
    out.iter().any(|decision| matches!(decision, Decision::Launch { .. }))
}

fn slice_of(mb: u64, count: u32) -> Request {
    let mut request = chance::plain(1, 100, 50, 10);
    request.cards = Some(CardRequest { count, kind: None, slice: Some(Megabytes(mb)) });
    request
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_12_less_kept_back_never_makes_a_request_unplaceable(
        (which, more, less) in (0..3_u64, 0..=100_u32, 0..=100_u32),
        held in proptest::collection::vec((1..90_000_u64, 1..3_u32), 0..6),
        (slice, count) in (1..90_000_u64, 1..4_u32),
    ) {
        let (more, less) = (more.max(less), more.min(less));
        let mut controller = Controller::new(config(more));
        controller.step(NOW, Event::NodeRegistered(chance::node(which, 0)));
        for (key, (slice, count)) in held.iter().enumerate() {
            // Only those that start: nobody else waits.
            let mut trial = controller.clone();
            if starts(&mut trial, key as u128, &slice_of(*slice, *count)) {
                controller = trial;
            }
        }
        let mut freer = controller.clone();
        freer.step(NOW, Event::ConfigLoaded(Box::new(config(less))));
        let wanted = slice_of(slice, count);
        let (was, is) = (starts(&mut controller, 99, &wanted), starts(&mut freer, 99, &wanted));
        prop_assert!(is || !was, "{slice} MB on {count} start with {more} % kept back, and not with {less} %");
    }

    #[test]
    fn law_12_what_is_no_larger_than_a_card_fits_an_empty_one(
        (which, reserve, part) in (0..3_u64, 0..=100_u32, 1..=1000_u64),
    ) {
        let node = chance::node(which, 0);
        let mem = node.cards[0].mem.0;
        let mut controller = Controller::new(config(reserve));
        controller.step(NOW, Event::NodeRegistered(node));
        let slice = (mem * part / 1000).max(1);
        prop_assert!(starts(&mut controller, 1, &slice_of(slice, 1)), "{slice} of {mem} MB, {reserve} % kept back");
        let mut other = Controller::new(config(reserve));
        other.step(NOW, Event::NodeRegistered(chance::node(which, 0)));
        prop_assert!(!starts(&mut other, 1, &slice_of(mem + 1, 1)), "more than there is");
    }
}

//! Cards are who they are by UUID: whatever numbers they have when their node registers anew, jobs hold what they held.

use ax_core::controller::{Controller, Decision, Event};
use ax_core::invariants;
use ax_core::job::request::{CardRequest, Request};
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;

use super::{at, config, node, ready, request, submission, submit};

fn with_cards(count: u32) -> Request {
    Request { cards: Some(CardRequest { count, kind: None, slice: None }), ..request(1) }
}

/// The UUIDs of the cards that were given out.
fn given(out: &[Decision]) -> Vec<String> {
    let of = |decision: &Decision| match decision {
        Decision::Launch { allocation, .. } => Some(allocation.cards.clone()),
        _ => None,
    };
    out.iter().filter_map(of).flatten().map(|share| share.uuid).collect()
}

/// The node with these cards, by the numbers that they are usually known by, numbered anew in this order.
fn numbered(order: &[u32]) -> Inventory {
    let old = node().cards;
    let card = |(at, number): (usize, &u32)| Card { index: at as u32, ..old[*number as usize].clone() };
    Inventory { cards: order.iter().enumerate().map(card).collect(), ..node() }
}

fn reserved(controller: &Controller, uuid: &str) -> Option<Megabytes> {
    let node = controller.nodes().next().unwrap();
    let card = node.inventory.cards.iter().find(|card| card.uuid == uuid)?;
    Some(node.card_reserved(card))
}

#[test]
fn cards_with_other_numbers_are_still_held_by_the_jobs_that_hold_them() {
    let mut controller = ready(config());
    let (_, out) = submit(&mut controller, 0, submission(1, with_cards(1)));
    let held = given(&out).remove(0);
    for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        controller.step(at(1), Event::NodeRegistered(numbered(&order)));
        for card in node().cards {
            let expected = if card.uuid == held { card.mem } else { Megabytes::ZERO };
            assert_eq!(reserved(&controller, &card.uuid), Some(expected), "{order:?} {}", card.uuid);
        }
        invariants::check(&controller).unwrap();
    }
    let (_, out) = submit(&mut controller, 2, submission(2, with_cards(3)));
    let others = given(&out);
    assert!(others.len() == 3 && !others.contains(&held), "{held} is given out: {others:?}");
}

#[test]
fn a_card_that_is_away_for_a_while_comes_back_to_its_job() {
    let mut controller = ready(config());
    let (_, out) = submit(&mut controller, 0, submission(1, with_cards(1)));
    let held = given(&out).remove(0);
    let number = node().cards.iter().position(|card| card.uuid == held).unwrap() as u32;
    let others: Vec<u32> = (0..4).filter(|other| *other != number).collect();
    controller.step(at(1), Event::NodeRegistered(numbered(&others)));
    assert_eq!(reserved(&controller, &held), None);
    let (_, out) = submit(&mut controller, 2, submission(2, with_cards(3)));
    assert_eq!(given(&out).len(), 3, "nobody has them, whatever numbers they have now");
    controller.step(at(3), Event::NodeRegistered(node()));
    assert_eq!(reserved(&controller, &held), Some(Megabytes(80_000)));
    let (_, out) = submit(&mut controller, 4, submission(3, with_cards(1)));
    assert!(given(&out).is_empty());
    invariants::check(&controller).unwrap();
}

#[test]
fn what_was_given_by_number_is_known_by_number_when_the_driver_comes_or_goes() {
    let by_number = |index| Card::new(index, format!("gpu-01-{index}"), None, Megabytes(80_000));
    let declared = Inventory { cards: (0..4).map(by_number).collect(), ..node() };
    let mut controller = Controller::new(config());
    controller.step(at(0), Event::NodeRegistered(declared.clone()));
    let (_, out) = submit(&mut controller, 0, submission(1, with_cards(1)));
    let number: usize = given(&out)[0].strip_prefix("gpu-01-").unwrap().parse().unwrap();
    controller.step(at(1), Event::NodeRegistered(node()));
    assert_eq!(reserved(&controller, &node().cards[number].uuid), Some(Megabytes(80_000)));
    let (_, out) = submit(&mut controller, 2, submission(2, with_cards(1)));
    let found = given(&out).remove(0);
    let other = node().cards.iter().position(|card| card.uuid == found).unwrap();
    assert_ne!(other, number);
    controller.step(at(3), Event::NodeRegistered(declared));
    for index in [number, other] {
        assert_eq!(reserved(&controller, &format!("gpu-01-{index}")), Some(Megabytes(80_000)));
    }
    invariants::check(&controller).unwrap();
}

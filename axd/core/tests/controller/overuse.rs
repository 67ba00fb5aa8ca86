//! More of a card than the slice: in the job's record at once, its end when it lasts, and a larger slice for a retry.

use ax_core::controller::{Controller, Decision, Event};
use ax_core::id::AttemptName;
use ax_core::job::AttemptEnd;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::{JobState, Outcome};
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::WallTime;
use ax_core::units::gpu_size;

use crate::{at, config, ended, launched, node, ready, request, state, submission, submit};

fn running(retries: u32) -> (Controller, AttemptName) {
    let (mut controller, attempt) = starting(retries);
    controller.step(at(1), Event::AttemptStarted { attempt, at: WallTime(1) });
    (controller, attempt)
}

fn starting(retries: u32) -> (Controller, AttemptName) {
    let mut controller = ready(config());
    let mut wanted = request(1);
    wanted.retries = retries;
    wanted.cards = Some(CardRequest { count: 1, kind: None, slice: Some(Megabytes(20_000)) });
    let (_, out) = submit(&mut controller, 0, submission(1, wanted));
    let attempt = launched(&out)[0];
    (controller, attempt)
}

fn over(attempt: AttemptName, ends: bool) -> Event {
    Event::OverSlice { attempt, words: "used 31.2 GB".to_owned(), peak: Megabytes(29_755), ends }
}

#[test]
fn a_warning_is_noted_and_changes_nothing() {
    let (mut controller, attempt) = running(0);
    let out = controller.step(at(2), over(attempt, false));
    assert!(matches!(out.as_slice(), [Decision::Noted { what, .. }] if what == "used 31.2 GB"), "{out:?}");
    assert_eq!(state(&controller, attempt.job), JobState::Running);
}

/// Its processes can be on the card before its start is told.
#[test]
fn what_it_uses_while_it_starts_counts_too() {
    let (mut controller, attempt) = starting(0);
    let out = controller.step(at(1), over(attempt, false));
    assert!(matches!(out.as_slice(), [Decision::Noted { .. }]), "{out:?}");
    let out = controller.step(at(2), over(attempt, true));
    let asked = |decision: &Decision| matches!(decision, Decision::Terminate { attempt: of, outcome: Outcome::OutOfMemory, .. } if *of == attempt);
    assert!(out.iter().any(asked), "{out:?}");
}

#[test]
fn its_end_counts_as_out_of_memory_however_it_went_and_the_next_slice_is_larger() {
    for told in [Outcome::OutOfMemory, Outcome::LeaseLost] {
        let (mut controller, attempt) = running(1);
        let out = controller.step(at(2), over(attempt, true));
        let asked = out.iter().any(|decision| {
            matches!(decision, Decision::Terminate { attempt: of, outcome: Outcome::OutOfMemory, message, .. }
                if *of == attempt && message == "used 31.2 GB")
        });
        assert!(asked, "{out:?}");
        assert!(controller.step(at(3), over(attempt, true)).is_empty(), "asked once");
        let end = ended(told, None);
        let out = controller.step(at(4), Event::AttemptEnded { attempt, at: WallTime(4), end });
        let end = out.iter().find_map(|decision| match decision {
            Decision::Closed { end, .. } => Some(end),
            _ => None,
        });
        assert_eq!(
            end.map(|end| (end.outcome, end.card_peak)),
            Some((Outcome::OutOfMemory, Some(Megabytes(29_755))))
        );
        let slice = controller.job(attempt.job.number).unwrap().request.cards.as_ref().unwrap().slice;
        assert_eq!(slice, gpu_size("34.4").ok(), "a tenth more than that");
    }
}

#[test]
fn one_that_is_over_asked_for_what_it_asked_for() {
    let (mut controller, attempt) = running(0);
    controller.step(at(2), over(attempt, true));
    let end = ended(Outcome::OutOfMemory, None);
    controller.step(at(4), Event::AttemptEnded { attempt, at: WallTime(4), end });
    let job = controller.job(attempt.job.number).unwrap();
    let slice = job.request.cards.as_ref().unwrap().slice;
    assert_eq!((job.state, slice), (JobState::OutOfMemory, Some(Megabytes(20_000))));
}

#[test]
fn who_is_ending_or_over_is_left_alone() {
    let (mut controller, attempt) = running(0);
    controller.step(at(2), Event::AttemptEnding { attempt });
    assert!(controller.step(at(3), over(attempt, true)).is_empty());
    controller.step(
        at(4),
        Event::AttemptEnded { attempt, at: WallTime(4), end: ended(Outcome::Succeeded, Some(0)) },
    );
    assert!(controller.step(at(5), over(attempt, true)).is_empty());
    assert_eq!(state(&controller, attempt.job), JobState::Succeeded);
}

/// What a job of 20 GB whose script ends by itself with a code asks for next, after it was seen to use so much.
fn after_failing(peak: u64) -> (JobState, Option<Megabytes>, Vec<String>) {
    let (mut controller, attempt) = running(1);
    let end = AttemptEnd { card_peak: Some(Megabytes(peak)), ..ended(Outcome::Failed, Some(1)) };
    let out = controller.step(at(4), Event::AttemptEnded { attempt, at: WallTime(4), end });
    let noted = out.into_iter().filter_map(|decision| match decision {
        Decision::Noted { what, .. } => Some(what),
        _ => None,
    });
    let noted = noted.collect();
    let job = controller.job(attempt.job.number).unwrap();
    (job.state, job.request.cards.as_ref().unwrap().slice, noted)
}

#[test]
fn a_script_that_ends_by_itself_when_its_slice_is_used_up_gets_a_larger_one_too() {
    let said = "used 18.9 GB of its 21 GB slice when it failed: asks for 31.5 GB of a card now".to_owned();
    assert_eq!(after_failing(18_000), (JobState::Pending, Some(Megabytes(30_000)), vec![said]));
    assert_eq!(after_failing(17_999), (JobState::Pending, Some(Megabytes(20_000)), vec![]));
}

/// What a job of so much of a card asks for next, after it was seen to use more; there are cards of 24 and of 80 GB.
fn next_slice(slice: u64, peak: u64) -> Megabytes {
    let mut controller = ready(config());
    let cards = (0..4).map(|index| Card::new(index, format!("small-{index}"), None, Megabytes(24_000)));
    let small = Inventory { name: "gpu-02".parse().unwrap(), cards: cards.collect(), ..node() };
    controller.step(at(0), Event::NodeRegistered(small));
    let cards = Some(CardRequest { count: 1, kind: None, slice: Some(Megabytes(slice)) });
    let wanted = Request { retries: 1, cards, ..request(1) };
    let (_, out) = submit(&mut controller, 0, submission(1, wanted));
    let attempt = launched(&out)[0];
    controller.step(at(1), Event::AttemptStarted { attempt, at: WallTime(1) });
    let end = AttemptEnd { card_peak: Some(Megabytes(peak)), ..ended(Outcome::OutOfMemory, None) };
    controller.step(at(2), Event::AttemptEnded { attempt, at: WallTime(2), end });
    controller.job(attempt.job.number).unwrap().request.cards.as_ref().unwrap().slice.unwrap()
}

#[test]
fn the_next_slice_is_no_more_than_the_whole_of_the_next_card() {
    assert_eq!(next_slice(10_000, 11_000), Megabytes(15_000));
    assert_eq!(next_slice(20_000, 21_000), Megabytes(24_000), "it never had all of that");
    assert_eq!(next_slice(20_000, 26_000), Megabytes(30_000), "more than that card has");
    assert_eq!(next_slice(24_000, 24_000), Megabytes(36_000), "it had all of it");
    assert_eq!(next_slice(60_000, 70_000), Megabytes(80_000));
    // What is known to fail is not tried: 33,000 MiB are 34.6 GB.
    assert_eq!(next_slice(10_000, 30_000), gpu_size("34.7").unwrap());
    assert_eq!(next_slice(10_000, 75_000), Megabytes(80_000));
}

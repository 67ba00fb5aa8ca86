//! The ledger, tried sample by sample.

use proptest::prelude::*;

use super::*;
use crate::gpu::{Health, HolderSeen, Reported};

const MEM: Megabytes = Megabytes(80_000);
const BOUND: Megabytes = Megabytes(1000);

fn attempt(number: u64) -> AttemptName {
    format!("ax-2026-0001.{number}").parse().unwrap()
}

fn process(pid: i32, used: u64, of: Option<u64>) -> HolderSeen {
    HolderSeen {
        pid,
        start_ticks: Some(1),
        used: Some(Megabytes(used)),
        uid: Some(Uid(1000)),
        command: Some("python".to_owned()),
        attempt: of.map(attempt),
        ..HolderSeen::default()
    }
}

/// A card with these processes, and `rest` that no process accounts for.
fn card(processes: &[HolderSeen], rest: u64) -> CardSeen {
    let used: Megabytes = processes.iter().filter_map(|process| process.used).sum();
    let used = used + Megabytes(rest);
    let holders = processes.to_vec();
    CardSeen {
        uuid: "GPU-0".to_owned(),
        used,
        free: MEM - used,
        holders: Some(holders),
        ..CardSeen::default()
    }
}

/// A ledger of one card, and the state that its controller has.
#[derive(Default)]
struct Desk {
    ledger: Ledger,
    state: CardState,
    second: u64,
    /// Attempts that are over.
    over: Vec<u64>,
    /// Attempts that were not given the card.
    elsewhere: Vec<u64>,
}

impl Desk {
    fn sample(&mut self, sample: &Sample) -> Vec<News> {
        self.second += 1;
        let (over, state) = (self.over.clone(), self.state.clone());
        let given = Given { uuid: "GPU-0".to_owned(), mem: MEM, state, held: true, odd: None };
        let lives = move |attempt: AttemptName| !over.contains(&attempt.epoch.0);
        let elsewhere = self.elsewhere.clone();
        let holds = move |attempt: AttemptName, _: &str| !elsewhere.contains(&attempt.epoch.0);
        let name = |_| Some("li".to_owned());
        let around =
            Around { lives: &lives, holds: &holds, name: &name, bound: BOUND, patience: Span::seconds(300) };
        let news = self.ledger.look(BootTime(self.second * 1000), sample, &[given], &around);
        for each in &news {
            if let News::Changed { state, .. } = each {
                self.state = state.clone();
            }
        }
        news
    }

    fn see(&mut self, seen: CardSeen) -> Vec<News> {
        self.sample(&Sample { cards: vec![seen], ..Sample::default() })
    }

    fn times(&mut self, times: usize, processes: &[HolderSeen], rest: u64) -> Vec<News> {
        (0..times).flat_map(|_| self.see(card(processes, rest))).collect()
    }

    fn free(&self) -> u64 {
        self.state.free.unwrap().0
    }

    fn is_barred(&self) -> bool {
        self.state.outside() >= BOUND
    }
}

#[test]
fn a_spike_of_a_stranger_does_not_bar_and_one_that_stays_does() {
    let mut desk = Desk::default();
    desk.times(100, &[], 0);
    desk.times(1, &[process(7, 21_000, None)], 0);
    assert!(!desk.is_barred(), "one sample");
    desk.times(60, &[], 0);
    assert_eq!((desk.is_barred(), desk.free()), (false, MEM.0));
    desk.times(4, &[process(7, 21_000, None)], 0);
    assert!(desk.is_barred());
    assert_eq!(desk.state.holders, ["22 GB held by pid 7 python of user li, not a job"]);
}

#[test]
fn a_stranger_that_is_not_seen_for_a_moment_is_still_there_and_one_that_went_is_soon_gone() {
    let mut desk = Desk::default();
    desk.times(100, &[process(7, 21_000, None)], 0);
    desk.times(2, &[], 0);
    assert!(desk.is_barred(), "a gap of two samples opens nothing");
    desk.times(1, &[process(7, 21_000, None)], 0);
    desk.times(3, &[], 0);
    assert_eq!((desk.is_barred(), desk.free()), (false, MEM.0));
}

#[test]
fn strangers_that_come_and_go_bar_all_the_same() {
    let mut desk = Desk::default();
    desk.times(100, &[], 0);
    for pid in 1..10 {
        desk.times(1, &[process(pid, 21_000, None)], 0);
    }
    assert!(desk.is_barred());
    assert_eq!(desk.state.holders, ["22 GB held by processes that come and go, not jobs"]);
}

#[test]
fn whoever_is_there_at_the_first_look_counts_at_once() {
    let mut desk = Desk::default();
    desk.times(1, &[process(7, 21_000, None)], 0);
    assert!(desk.is_barred());
}

#[test]
fn the_peaks_of_a_job_count_and_its_single_spike_does_not() {
    let mut desk = Desk::default();
    let used = |news: &[News]| -> Vec<u64> {
        let of = |news: &News| match news {
            News::Used { p95, .. } => Some(p95.0),
            _ => None,
        };
        news.iter().filter_map(of).collect()
    };
    desk.times(60, &[], 0);
    let news = desk.times(40, &[process(1, 10_000, Some(3))], 0);
    assert_eq!(used(&news), [10_000]);
    let news = desk.times(1, &[process(1, 60_000, Some(3))], 0);
    assert!(used(&news).is_empty(), "a spike");
    let news = desk.times(20, &[process(1, 10_000, Some(3))], 0);
    assert!(used(&news).is_empty());
    // A fifth of the samples is high: that is normal use, not a spike.
    let mut news = Vec::new();
    for _ in 0..12 {
        news.extend(desk.times(4, &[process(1, 10_000, Some(3))], 0));
        news.extend(desk.times(1, &[process(1, 40_000, Some(3))], 0));
    }
    assert_eq!(used(&news), [40_000]);
    assert_eq!(desk.free(), MEM.0 - 40_000);
    assert_eq!(desk.ledger.peak(attempt(3)), Some(Megabytes(60_000)));
}

#[test]
fn what_a_job_used_is_free_with_the_first_sample_after_its_end() {
    let mut desk = Desk::default();
    desk.times(100, &[process(1, 50_000, Some(3))], 0);
    assert_eq!(desk.free(), MEM.0 - 50_000);
    desk.over.push(3);
    desk.times(1, &[], 0);
    assert_eq!(desk.free(), MEM.0);
    assert_eq!(desk.ledger.peak(attempt(3)), None);
}

#[test]
fn what_a_job_left_is_named_with_it() {
    let mut desk = Desk::default();
    desk.times(100, &[process(1, 50_000, Some(3))], 0);
    desk.over.push(3);
    desk.times(4, &[process(1, 50_000, Some(3))], 0);
    assert!(desk.is_barred());
    assert_eq!(desk.state.holders, ["52.4 GB held by pid 1 python of user li, left over from ax-2026-0001"]);
}

#[test]
fn what_nobody_accounts_for_bars_and_what_the_driver_takes_does_not() {
    let mut desk = Desk::default();
    desk.times(10, &[], 300);
    assert_eq!((desk.state.unexplained, desk.state.taken), (Megabytes::ZERO, Megabytes(300)));
    desk.times(60, &[], 9000);
    assert_eq!(desk.state.unexplained, Megabytes(8700));
    assert!(desk.is_barred());
    desk.times(3, &[], 300);
    assert!(!desk.is_barred(), "it is gone");
}

#[test]
fn a_job_on_a_card_that_it_was_not_given_is_a_stranger_there() {
    let mut desk = Desk { elsewhere: vec![3], ..Desk::default() };
    let news = desk.times(10, &[process(7, 9000, Some(3)), process(8, 500, Some(4))], 0);
    assert!(desk.is_barred(), "{:?}", desk.state);
    assert_eq!(
        desk.state.holders,
        ["9.4 GB held by pid 7 python of user li in ax-2026-0001, which was not given the card"]
    );
    let used = |attempt: u64| move |news: &News| matches!(news, News::Used { attempt: of, .. } if of.epoch.0 == attempt);
    assert!(
        !news.iter().any(used(3)) && news.iter().any(used(4)),
        "nor is it charged for more of its own: {news:?}"
    );
}

#[test]
fn a_surplus_of_the_card_is_held_by_others_first() {
    let mut ledger = Ledger::default();
    let given = Given {
        uuid: "GPU-0".to_owned(),
        mem: Megabytes(76_000),
        state: CardState::default(),
        held: true,
        odd: None,
    };
    let around = Around {
        lives: &|_| true,
        holds: &|_, _| true,
        name: &|_| None,
        bound: Megabytes(9000),
        patience: Span::seconds(300),
    };
    let sample = Sample { cards: vec![card(&[process(7, 4500, None)], 0)], ..Sample::default() };
    let news = ledger.look(BootTime(0), &sample, &[given], &around);
    let [News::Changed { state, .. }] = &news[..] else { panic!("{news:?}") };
    assert_eq!((state.foreign, state.taken), (Megabytes(4500), Megabytes(500)));
}

#[test]
fn the_shell_is_told_when_it_matters_and_not_otherwise() {
    let mut desk = Desk::default();
    let changes = |news: &[News]| news.iter().filter(|n| matches!(n, News::Changed { .. })).count();
    assert_eq!(changes(&desk.times(1, &[], 0)), 1, "the first look");
    assert_eq!(changes(&desk.times(100, &[], 0)), 0);
    // Up and down by less than a step.
    let news: Vec<News> = (0..100).flat_map(|n| desk.times(1, &[process(7, 30 + n % 5, None)], 0)).collect();
    assert_eq!(changes(&news), 0, "{news:?}");
    assert_eq!(changes(&desk.times(60, &[process(8, 200, None)], 0)), 1, "a holder came");
    assert_eq!(changes(&desk.times(60, &[], 0)), 1, "and went");
    assert_eq!(changes(&desk.times(60, &[process(1, 5000, Some(3))], 0)), 1, "free memory moved");
    let xids = vec![Reported { uuid: "GPU-0".to_owned(), xid: 119 }];
    let cards = vec![card(&[process(1, 5000, Some(3))], 0)];
    assert_eq!(changes(&desk.sample(&Sample { cards, xids, ..Sample::default() })), 1, "its health");
}

#[test]
fn a_user_s_name_may_be_known_later_than_the_holder() {
    let mut ledger = Ledger::default();
    let sample = Sample { cards: vec![card(&[process(7, 4500, None)], 0)], ..Sample::default() };
    let mut look = |second: u64, state: CardState, name: Option<&str>| {
        let given = Given { uuid: "GPU-0".to_owned(), mem: MEM, state, held: true, odd: None };
        let name = |_| name.map(str::to_owned);
        let around = Around {
            lives: &|_| true,
            holds: &|_, _| true,
            name: &name,
            bound: BOUND,
            patience: Span::seconds(300),
        };
        ledger.look(BootTime(second * 1000), &sample, &[given], &around)
    };
    let state = |news: &[News]| match news {
        [News::Changed { state, .. }] => state.clone(),
        other => panic!("{other:?}"),
    };
    let first = state(&look(1, CardState::default(), None));
    assert!(first.holders[0].contains(" of user 1000"), "{first:?}");
    let second = state(&look(2, first, Some("li")));
    assert!(second.holders[0].contains(" of user li"), "{second:?}");
    assert_eq!(look(3, second, Some("li")), []);
}

#[test]
fn what_was_reported_counts_for_its_card_whether_that_is_seen_or_not() {
    let mut desk = Desk::default();
    desk.times(10, &[process(7, 21_000, None)], 0);
    let reported =
        |uuid: &str| Sample { xids: vec![Reported { uuid: uuid.to_owned(), xid: 79 }], ..Sample::default() };
    desk.sample(&reported("GPU-1"));
    assert_eq!(desk.state.health, Health::Healthy, "another one's");
    desk.sample(&reported("GPU-0"));
    assert_eq!((desk.state.health, desk.state.holders.len()), (Health::Drained, 1));
}

#[test]
fn a_card_that_is_not_seen_is_suspect_and_keeps_its_holders() {
    let mut desk = Desk::default();
    desk.times(10, &[process(7, 21_000, None)], 0);
    desk.sample(&Sample::default());
    assert_eq!(desk.state.health, Health::Healthy, "it was not looked at");
    let unseen = Unseen { uuid: "GPU-0".to_owned(), why: "it does not answer".to_owned() };
    desk.sample(&Sample { unseen: vec![unseen], ..Sample::default() });
    assert_eq!(desk.state.health, Health::Suspect);
    assert_eq!(desk.state.holders.len(), 1);
    assert!(desk.ledger.trouble("GPU-0").unwrap().contains("does not answer"));
    desk.times(1, &[], 0);
    assert_eq!(desk.ledger.trouble("GPU-0"), None);
}

#[test]
fn what_a_person_decided_is_not_undone_by_the_next_sample() {
    let mut desk = Desk::default();
    desk.times(10, &[], 0);
    desk.state = CardState { health: Health::Drained, why: Some("by ann".to_owned()), ..desk.state };
    desk.times(400, &[], 0);
    assert_eq!((desk.state.health, desk.state.why.as_deref()), (Health::Drained, Some("by ann")));
    desk.state = CardState { health: Health::Healthy, why: None, ..desk.state };
    desk.times(1, &[], 0);
    assert_eq!(desk.state.health, Health::Healthy);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks by counting: at most one of twenty samples is above the percentile, and no smaller value of the window
    /// has that property.
    #[test]
    fn the_percentile_is_that_of_the_window(values in proptest::collection::vec(0..50_u64, 1..150), pad in 0..10_usize) {
        let mut series = Series::default();
        values.iter().for_each(|value| series.push(Megabytes(*value)));
        let window: Vec<u64> = values.iter().rev().take(WINDOW).copied().collect();
        let samples = (window.len() + pad).min(WINDOW);
        let p95 = series.p95(samples).0;
        let above = |limit: u64| window.iter().filter(|value| **value > limit).count();
        prop_assert!(above(p95) * 20 <= samples, "{} above {p95}", above(p95));
        prop_assert!(p95 == 0 || above(p95 - 1) * 20 > samples, "{p95} is more than it takes");
        prop_assert!(p95 == 0 || window.contains(&p95));
    }
}

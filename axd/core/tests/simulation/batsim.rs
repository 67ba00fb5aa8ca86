//! The schedule that Batsim, a simulator of other people, published of its EASY back-filling: each of the 801 jobs starts
//! when it started there, on the same machines, and the measures are those of the reference simulator.

use ax_core::config::{Config, Packing, QueueOrder, Scheduler};
use ax_core::sim::metrics::Figure;
use ax_core::sim::{Format, Metrics, Options, simulate};
use serde_json::Value;

use crate::oracle::unpacked;

/// Batsim counts in fractions of a millisecond, ax in milliseconds.
const MICROSECONDS_OFF: i64 = 500;

/// First come, first served; the first in the queue has a place kept; nothing ages and nothing is learnt.
fn easy() -> Config {
    let mut config = Config::default();
    for queue in &mut config.queues {
        queue.order = QueueOrder::Fifo;
    }
    let policy = &mut config.policy;
    (policy.scheduler, policy.reservations, policy.packing) = (Scheduler::Fifo, 1, Packing::First);
    (policy.starvation_bound, policy.learn_length) = (None, false);
    config
}

#[test]
fn batsim_s_published_schedule_is_kept_by_all_its_jobs() {
    let published: Value = serde_json::from_str(&unpacked("batsim/easy.json")).unwrap();
    let workload = Format::Csv.read(&unpacked("batsim/medium_late.csv.gz"), None).unwrap();
    let nodes = vec!["32x1".parse().unwrap()];
    let run = simulate(&workload, &Options { config: easy(), nodes, ..Options::default() }).unwrap();

    let schedule = published["schedule"].as_array().unwrap();
    assert_eq!((schedule.len(), run.stays.len(), workload.tasks.len()), (801, 801, 801));
    let mut stays: Vec<_> = run.stays.iter().collect();
    stays.sort_by_key(|stay| stay.task);
    for (stay, theirs) in stays.into_iter().zip(schedule) {
        let start = (theirs[0].as_f64().unwrap() * 1e6).round() as i64;
        let off = stay.from.0 as i64 * 1000 - start;
        let machines: Vec<u64> = theirs[1].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        let mut ours: Vec<u64> = stay.cards.iter().map(|card| u64::from(*card)).collect();
        ours.sort_unstable();
        let id = &workload.tasks[stay.task].id;
        assert!(off.abs() <= MICROSECONDS_OFF, "job {id} starts {off} µs after Batsim's");
        assert_eq!(ours, machines, "job {id}");
    }

    let said = published["refsim"]["milliseconds"]["metrics"].as_object().unwrap();
    let named = Metrics::of(&workload, &run, None).named();
    for (key, figure) in &named {
        let value = match figure {
            Figure::Count(count) => *count as f64,
            Figure::Real(value) => *value,
        };
        let theirs = said.get(key).unwrap_or_else(|| panic!("they have no {key}")).as_f64().unwrap();
        assert!((value - theirs).abs() < 1.5e-6, "{key}: ours {value}, theirs {theirs}");
    }
    assert_eq!(named.len(), said.len(), "they measure more");
}

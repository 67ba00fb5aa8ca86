//! Tests of how the simulator plays decisions that end attempts, and limits.

use super::*;
use crate::config::Config;
use crate::sim::run::{add_missing_queues, simulate};
use crate::sim::workload::Format;

/// A job of 100 s that saves its work every 30 s, and one that never does.
const WORKLOAD: &str = "id,arrive,runtime,gpus,mem,ckpt\n1,0,100,1,50,30\n2,0,100,1,50,0\n";

fn options() -> Options {
    Options { nodes: vec!["1x100".parse().unwrap()], ..Options::default() }
}

/// Lets time pass, then has the controller end the attempts of these jobs, to make room.
fn evict(player: &mut Player<'_>, at: Span, tasks: &[usize]) {
    player.now = at;
    let terminate = |task: &usize| Decision::Terminate {
        attempt: player.lives[*task].attempt.as_ref().unwrap().name,
        outcome: Outcome::Preempted,
        message: "for a more urgent one".to_owned(),
        warned: false,
        at_once: false,
    };
    let decisions = tasks.iter().map(terminate).collect();
    player.carry_out(decisions);
    player.decide().unwrap();
}

#[test]
fn what_was_saved_is_not_done_again_and_the_rest_is_lost() {
    let workload = Format::Csv.read(WORKLOAD, None).unwrap();
    let options = options();
    let mut player = Player::new(&workload, &options).unwrap();
    assert!(player.happen());
    player.decide().unwrap();
    evict(&mut player, Span::seconds(70), &[0, 1]);
    evict(&mut player, Span::seconds(105), &[0]);
    player.play().unwrap();
    let run = player.over();
    let [saves, forgets] = &run.fates[..] else { panic!("{:?}", run.fates) };
    // 60 of 70 s were saved, then 30 of 35: 10 are left. The other one begins anew.
    assert_eq!((&saves.end, saves.lost), (&End::Done(Span::seconds(115)), 7_500.0));
    assert_eq!((&forgets.end, forgets.lost), (&End::Done(Span::seconds(170)), 35_000.0));
    assert_eq!((saves.evictions, saves.first_start), (2, Some(Span::ZERO)));
    let ends: Vec<(u64, Outcome)> = run.stays.iter().map(|stay| (stay.to.as_seconds(), stay.how)).collect();
    let (cut, done) = (Outcome::Preempted, Outcome::Succeeded);
    assert_eq!(ends, [(70, cut), (70, cut), (105, cut), (115, done), (170, done)]);
}

#[test]
fn a_job_on_several_nodes_starts_when_all_are_free_and_ends_on_all() {
    // The first is done after 30 s; the second wants both nodes for 20 s; the third is over before, the fourth is not.
    let text = "id,arrive,runtime,gpus,nodes\n1,0,30,1,1\n2,1,20,1,2\n3,2,25,1,1\n4,3,40,1,1\n5,4,1,1,3\n";
    let workload = Format::Csv.read(text, None).unwrap();
    let nodes = vec!["1x100".parse().unwrap(); 2];
    let run = simulate(&workload, &Options { nodes, ..Options::default() }).unwrap();
    let starts: Vec<Option<u64>> =
        run.fates.iter().map(|fate| fate.first_start.map(Span::as_seconds)).collect();
    assert_eq!(starts, [Some(0), Some(30), Some(2), Some(50), None]);
    let stays: Vec<(usize, u64, u64)> = run
        .stays
        .iter()
        .filter(|stay| stay.task == 1)
        .map(|stay| (stay.node, stay.from.as_seconds(), stay.to.as_seconds()))
        .collect();
    assert_eq!(stays, [(0, 30, 50), (1, 30, 50)]);
    let whys: Vec<&str> = run.rejected().map(|(_, why)| why).collect();
    assert_eq!(whys, ["it needs 3 nodes at once, and the cluster has 2"]);
}

#[test]
fn a_job_over_its_limit_ends_there() {
    let workload = Format::Csv.read(WORKLOAD, None).unwrap();
    let mut options = options();
    options.config.queues[0].default_time = Some(Span::seconds(20));
    let run = simulate(&workload, &options).unwrap();
    assert!(run.fates.iter().all(|fate| fate.end == End::Failed(Span::seconds(20))), "{:?}", run.fates);
    assert_eq!(run.stays[0].how, Outcome::Timeout);
}

#[test]
fn what_can_not_be_taken_says_why() {
    let text = "id,arrive,runtime,gpus,mem,queue\n1,0,1,2,0,default\n2,0,1,1,101,default\n3,0,1,1,0,shut\n";
    let workload = Format::Csv.read(text, None).unwrap();
    let mut options = options();
    assert_eq!(add_missing_queues(&mut options.config, &workload).len(), 1);
    options.config.queues[1].state = crate::config::QueueState::Closed;
    let run = simulate(&workload, &options).unwrap();
    let whys: Vec<&str> = run.rejected().map(|(_, why)| why).collect();
    assert_eq!(whys.len(), 3, "{whys:?}");
    assert!(
        whys[0].starts_with("needs 2 cards") && whys[2].starts_with("queue 'shut' is closed"),
        "{whys:?}"
    );
    assert_eq!(simulate(&workload, &Options::default()), Err(Stuck::NoNodes));
    let unknown = Options { config: Config::default(), ..options };
    assert!(matches!(simulate(&workload, &unknown), Err(Stuck::NoQueue(_))));
}

#[test]
fn passes_wait_for_the_tick() {
    assert_eq!(next_multiple(Span(1500), Span(500)), Span(1500));
    assert_eq!(next_multiple(Span(1501), Span(500)), Span(2000));
    assert_eq!(next_multiple(Span(1501), Span::ZERO), Span(1501));
}

//! Kill storms: daemons, supervisors and watchdogs die at random moments while
//! two people submit without pause, each submission repeated under its key
//! until it is answered. Afterwards every job that was accepted has come to an
//! end, none ran twice at once, and nothing is left.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::books::{FOUR_CPUS, assert_at_most_once, assert_nothing_left, honest};
use crate::cluster::{ALICE, BOB, Cluster, User, as_root, command_line, processes, signal, wait_for};
use crate::keyed::{Asked, Keyed};

/// Jobs that one person has on the way at a time.
const ON_THE_WAY: usize = 12;

/// Chance that can be repeated: printed, and taken from `AX_TEST_SEED` if that is set. Splitmix64.
struct Chance(u64);

impl Chance {
    fn new(what: &str) -> Chance {
        let given = std::env::var("AX_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let seed = given.unwrap_or_else(now);
        eprintln!("{what}: AX_TEST_SEED={seed}");
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pause(&mut self, most_ms: u64) {
        sleep(Duration::from_millis(self.below(most_ms)));
    }
}

/// How many die.
struct Toll {
    daemons: usize,
    supervisors: usize,
}

/// The short form, or with `AX_TEST_LONG=1` the long one.
fn toll() -> Toll {
    if std::env::var_os("AX_TEST_LONG").is_some_and(|value| value == "1") {
        Toll { daemons: 200, supervisors: 100 }
    } else {
        Toll { daemons: 25, supervisors: 12 }
    }
}

/// A job of some length, end and shape.
fn some_job(chance: &mut Chance) -> String {
    let length = format!("sleep 0.{}", chance.below(4));
    let body = match chance.below(6) {
        0 => format!("{length}; exit 3"),
        1 => format!("setsid sh -c 'trap \"\" TERM; exec sleep 1000' & {length}"),
        2 => "true".to_owned(),
        _ => length,
    };
    honest(&body)
}

/// Somebody who submits until told to stop; submissions and the jobs that they became.
fn submit_without_pause(
    made: impl Fn(u64, &str) -> Keyed,
    mut chance: Chance,
    over: &AtomicBool,
) -> BTreeMap<String, Keyed> {
    let mut accepted = BTreeMap::new();
    while !over.load(Ordering::Relaxed) {
        let keyed = made(chance.next(), &some_job(&mut chance));
        let mut told = Asked::Unanswered;
        wait_for("a submission to be accepted", || {
            told = keyed.ask();
            matches!(told, Asked::Accepted(_))
        });
        let Asked::Accepted(id) = told else { unreachable!("waited for") };
        assert!(accepted.insert(id.clone(), keyed).is_none(), "{id} was given twice");
        chance.pause(if accepted.len() < ON_THE_WAY { 5 } else { 150 });
    }
    accepted
}

/// Without children on their way to a script, which look the same: whoever kills those kills the job.
fn supervisors(cluster: &Cluster) -> Vec<u32> {
    let words = format!("--supervise {}/", cluster.root.display());
    let is_one = |pid: &u32| command_line(*pid).contains(&words);
    processes().filter(|pid| is_one(pid) && !parent_of(*pid).is_some_and(|parent| is_one(&parent))).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn watchdogs(cluster: &Cluster) -> Vec<u32> {
    let words = format!("--watchdog {}/", cluster.root.display());
    processes().filter(|pid| command_line(*pid).contains(&words)).collect()
}

/// Kills one of the kind at random, if there is one; whether there was.
fn kill_one(chance: &mut Chance, of: &[u32]) -> bool {
    let Some(pid) = of.get(chance.below(of.len().max(1) as u64) as usize) else { return false };
    signal(*pid, "KILL");
    true
}

fn storm(cluster: &mut Cluster, chance: &mut Chance) {
    let mut left = toll();
    while left.daemons + left.supervisors > 0 {
        chance.pause(120);
        let supervisor_s_turn =
            chance.below((left.daemons + left.supervisors) as u64) < left.supervisors as u64;
        if supervisor_s_turn {
            left.supervisors -= usize::from(kill_one(chance, &supervisors(cluster)));
            continue;
        }
        left.daemons -= 1;
        cluster.kill();
        // Now and then others die while it is down.
        match chance.below(8) {
            0 => drop(kill_one(chance, &supervisors(cluster))),
            1 => drop(kill_one(chance, &watchdogs(cluster))),
            _ => {}
        }
        chance.pause(60);
        // And now and then it does not get far.
        if chance.below(4) == 0 {
            cluster.spawn();
            chance.pause(60);
            cluster.kill();
        }
        cluster.start();
    }
}

#[test]
fn nothing_is_lost_or_doubled_in_a_storm_of_kills() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let mut chance = Chance::new("a storm of kills");
    let over = AtomicBool::new(false);
    let template = |cluster: &Cluster, user: User| {
        let (socket, home, root) = (cluster.socket(), cluster.home(user), cluster.root.clone());
        move |key: u64, script: &str| Keyed::of(&socket, &root, &home, user, key, &[], script)
    };
    let people = [ALICE, BOB].map(|user| (user, template(&cluster, user), Chance(chance.next())));
    let accepted: Vec<(User, BTreeMap<String, Keyed>)> = std::thread::scope(|scope| {
        let over = &over;
        let threads = people.map(|(user, made, chance)| {
            (user, scope.spawn(move || submit_without_pause(made, chance, over)))
        });
        storm(&mut cluster, &mut chance);
        over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|(user, thread)| (user, thread.join().unwrap())).collect()
    });
    let count: usize = accepted.iter().map(|(_, jobs)| jobs.len()).sum();
    eprintln!("{count} jobs were accepted");
    for (user, jobs) in &accepted {
        for (id, keyed) in jobs {
            let job = cluster.wait_over(id);
            let state = job["state"].as_str().unwrap();
            assert!(["SUCCEEDED", "FAILED"].contains(&state), "{job:#}");
            let told = job["exit_code"] == 3 || state == "SUCCEEDED";
            assert!(told, "nothing of its own could make it fail: {job:#}");
            assert_at_most_once(&cluster, *user, id);
            assert_eq!(keyed.insist(), *id, "one key, one job");
        }
    }
    assert_nothing_left(&cluster);
}

//! ax's scheduler as a library: another program's jobs on two cards, without a daemon, a file or a clock.
//!
//!     cargo run -p ax-core --example embed

use ax_core::config::Config;
use ax_core::controller::{Controller, Decision, Event, Submission};
use ax_core::id::{AttemptName, SubmissionKey, Uid};
use ax_core::job::request::{Times, resolve};
use ax_core::job::{AttemptEnd, Owner, spec::GpuCount, spec::JobSpec, state::Outcome};
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, Span, WallTime};

/// Both clocks are the caller's: here seconds since nothing in particular.
fn at(second: u64) -> Now {
    Now { boot: BootTime(second * 1000), wall: WallTime(0) + Span::seconds(second) }
}

/// Feeds it, and does what it says.
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::default();
    let mut ax = Controller::new(config.clone());
    let cards = [0, 1].map(|at| Card::new(at, format!("card-{at}"), None, Megabytes(24_000)));
    let (name, ram, cards) = ("box".parse()?, Megabytes(64_000), cards.to_vec());
    ax.step(at(0), Event::NodeRegistered(Inventory::new(name, 16, ram, cards)));
    // Three jobs of one card each: what follows from each submission is handed back, in order.
    let mut running = Vec::new();
    for (number, user) in [(1, "anna"), (2, "bert"), (3, "anna")] {
        let (queue, mut spec) = (&config.queues[0], JobSpec::default());
        spec.resources.gpus = Some(GpuCount { kind: None, count: 1 });
        let request = resolve(&spec, Times::default(), &config, queue, &ax.nodes().collect::<Vec<_>>())?;
        let owner = Owner { uid: Uid(1000 + user.len() as u32), name: user.into() };
        let (key, queue) = (SubmissionKey(number), queue.name.clone());
        let job = Submission::new(key, owner, "train", queue, 2026, request);
        running.extend(started(&ax.step(at(number as u64), Event::Submitted(Box::new(job)))));
    }
    // The first is over: its card goes to the third.
    let end = AttemptEnd::of(Outcome::Succeeded);
    let over = Event::AttemptEnded { attempt: running[0], at: at(60).wall, end };
    running.extend(started(&ax.step(at(60), over)));
    assert_eq!(running.len(), 3);
    Ok(())
}

/// Whoever embeds the scheduler starts these, and says so with `AttemptStarted` and `AttemptEnded`.
fn started(decisions: &[Decision]) -> Vec<AttemptName> {
    let launch = |decision: &Decision| match decision {
        Decision::Launch { attempt, allocation, why, .. } => {
            println!("{attempt} on {}: {why}", allocation.node);
            Some(*attempt)
        }
        _ => None,
    };
    decisions.iter().filter_map(launch).collect()
}

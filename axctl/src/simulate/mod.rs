//! `axctl simulate`: runs a workload through the scheduler without any machine, and shows how it went.

mod gantt;
mod gzip;
mod input;
mod replay;
mod report;

use std::fs;
use std::path::{Path, PathBuf};

use ax_core::api::ErrorClass;
use ax_core::config::Config;
use ax_core::sim::run::add_missing_queues;
use ax_core::sim::{Metrics, NodeShape, Options, Run, Workload, simulate};
use ax_core::text::{count, escaped, listed};
use ax_core::time::Span;

use crate::failure::Failure;
use crate::shown::plain;
use crate::world::{Screen, World};
use input::Named;

/// Run a workload through the scheduler, without machines, and say how it went
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Jobs: ax's CSV, SWF, Batsim's JSON, Alibaba's or Azure's lists, recorded events; packed by gzip or not
    #[arg(value_name = "WORKLOAD")]
    workload: PathBuf,
    /// The workload is what `axctl db events --json` printed (`-`: standard input): is all decided again as it was?
    #[arg(long, conflicts_with_all = [
        "nodes", "profile", "config", "compare", "tick", "load", "horizon", "limit", "svg",
    ])]
    replay: bool,
    /// The machines, each as CARDSxMB, such as 2x24000,2x48000; else those that the workload names
    #[arg(long, value_name = "NODES", value_delimiter = ',', value_parser = node)]
    nodes: Vec<NodeShape>,
    /// A shipped configuration: fair or throughput
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "compare"])]
    profile: Option<String>,
    /// A configuration; without it that of the recorded daemon, or that without a file
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    config: Option<PathBuf>,
    /// Two configurations, or names of profiles, side by side
    #[arg(long, value_names = ["A", "B"], num_args = 2)]
    compare: Vec<PathBuf>,
    /// Decide only every so many seconds, not at every event
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    tick: Option<Span>,
    /// A job uses its true memory so many seconds after its start; without it memory never runs out
    #[arg(long = "load_s", alias = "load-s", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    load: Option<Span>,
    /// What ran before, as a workload of its own: it is known how long its jobs took and what they used
    #[arg(long, value_name = "WORKLOAD")]
    history: Option<PathBuf>,
    /// Count as done in time what ended so many seconds after the first arrival
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    horizon: Option<Span>,
    /// Only the first N jobs of the file
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// One JSON document; times are seconds
    #[arg(long)]
    json: bool,
    /// Also draw what ran when on which card; with --compare a picture of each, NAME-1.svg and NAME-2.svg
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// `pictures/a-1.svg` of `pictures/a.svg`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{ending}"))
}

fn node(text: &str) -> Result<NodeShape, String> {
    text.trim().parse().map_err(|error: ax_core::sim::BadWorkload| error.message)
}

/// The longest time of an option, in seconds.
const MOST_SECONDS: f64 = 1e10;

fn seconds(text: &str) -> Result<Span, String> {
    let value: Option<f64> = text.parse().ok().filter(|value| (0.0..=MOST_SECONDS).contains(value));
    let value = value.ok_or("a number of seconds is needed, such as 0.5")?;
    Ok(Span((value * 1000.0).round() as u64))
}

/// What a run without a configuration is called.
const DEFAULTS: &str = "defaults";
/// What a run with the configuration of the daemon is called that recorded the workload.
const RECORDED: &str = "recorded";

/// One configuration's run.
struct Outcome {
    name: String,
    run: Run,
    metrics: Metrics,
}

impl Arguments {
    /// Reads, runs and prints.
    pub(crate) fn run(&self, world: &mut World<'_>) -> Result<u8, Failure> {
        if self.replay {
            return replay::run(&self.workload, self.json, world);
        }
        let mut workload = input::workload(&self.workload)?;
        if let Some(limit) = self.limit {
            workload.keep(limit);
        }
        let history = self.history.as_deref().map(input::workload).transpose()?.unwrap_or_default();
        let mut outcomes = Vec::new();
        if let Some(origin) = workload.origin.as_deref().filter(|origin| origin.never_ran > 0) {
            let jobs = count(origin.never_ran as u64, "job");
            world.remark(
                "axctl",
                &format!("{jobs} left out that never ran: nobody knows for how long they would"),
            );
        }
        for named in self.configurations(&workload, world)? {
            outcomes.push(self.outcome(&workload, &history, named, world)?);
        }
        for outcome in &outcomes {
            self.tell_rejected(&workload, outcome, world);
        }
        if let Some(path) = &self.svg {
            for (number, outcome) in (1..).zip(&outcomes) {
                let path = if outcomes.len() > 1 { numbered(path, number) } else { path.clone() };
                self.draw(&path, &workload, outcome)?;
            }
        }
        let text = match self.json {
            true => report::document(&outcomes)?,
            false => report::text(&self.heading(&workload), &outcomes, self.horizon, &screen(world)),
        };
        world.out.write_all(text.as_bytes())?;
        world.out.flush()?;
        Ok(0)
    }

    fn configurations(&self, workload: &Workload, world: &mut World<'_>) -> Result<Vec<Named>, Failure> {
        let of_path = |path: &PathBuf, world: &mut World<'_>| {
            let name = path.to_str().filter(|name| input::PROFILES.iter().any(|(known, _)| known == name));
            match name {
                Some(name) if !path.exists() => input::profile(name, world),
                _ => input::from_file(path, world),
            }
        };
        match (&self.profile, &self.config) {
            (Some(name), _) => Ok(vec![input::profile(name, world)?]),
            (_, Some(path)) => Ok(vec![input::from_file(path, world)?]),
            _ if self.compare.is_empty() => {
                Ok(vec![match workload.origin.as_ref().and_then(|o| o.config.clone()) {
                    Some(config) => Named { name: RECORDED.to_owned(), config },
                    None => Named { name: DEFAULTS.to_owned(), config: Config::default() },
                }])
            }
            _ => self.compare.iter().map(|path| of_path(path, world)).collect(),
        }
    }

    fn nodes<'a>(&'a self, workload: &'a Workload) -> &'a [NodeShape] {
        if self.nodes.is_empty() { &workload.nodes } else { &self.nodes }
    }

    fn outcome(
        &self,
        workload: &Workload,
        history: &Workload,
        named: Named,
        world: &mut World<'_>,
    ) -> Result<Outcome, Failure> {
        let Named { name, mut config } = named;
        let added = add_missing_queues(&mut config, workload);
        if !added.is_empty() && name != DEFAULTS {
            let names: Vec<String> = added.iter().map(ToString::to_string).collect();
            let word = if names.len() == 1 { "queue" } else { "queues" };
            let line =
                format!("{name} lacks the {word} {}, added with the defaults of all keys", listed(&names));
            world.remark("axctl", &line);
        }
        let options = Options {
            config,
            nodes: self.nodes(workload).to_vec(),
            history: history.tasks.clone(),
            tick: self.tick.unwrap_or_default(),
            load: self.load.unwrap_or_default(),
        };
        let run = simulate(workload, &options).map_err(|error| {
            Failure::said(ErrorClass::Data, format!("{}: {error}", self.workload.display()))
        })?;
        let metrics = Metrics::of(workload, &run, self.horizon);
        Ok(Outcome { name, run, metrics })
    }

    /// Jobs that were never taken are told with the first one's reason.
    fn tell_rejected(&self, workload: &Workload, outcome: &Outcome, world: &mut World<'_>) {
        let rejected = outcome.metrics.all.rejected;
        if let Some((task, why)) = outcome.run.rejected().next() {
            let (id, jobs) = (&workload.tasks[task].id, count(rejected, "job"));
            let line = format!("{}: {jobs} not taken; the first is {id}: {why}", outcome.name);
            world.remark("axctl", &line);
        }
    }

    fn draw(&self, path: &PathBuf, workload: &Workload, outcome: &Outcome) -> Result<(), Failure> {
        let chart = gantt::chart(workload, &outcome.run, self.nodes(workload));
        fs::write(path, chart).map_err(|error| {
            Failure::said(ErrorClass::NoInput, format!("cannot write {}: {}", path.display(), plain(&error)))
        })
    }

    /// What was simulated, in a line.
    fn heading(&self, workload: &Workload) -> String {
        let nodes = self.nodes(workload);
        let cards: u64 = nodes.iter().map(|node| u64::from(node.cards)).sum();
        let jobs = count(workload.tasks.len() as u64, "job");
        let on = format!("{} with {}", count(nodes.len() as u64, "node"), count(cards, "card"));
        let name = self.workload.file_name().unwrap_or(self.workload.as_os_str()).to_string_lossy();
        escaped(&format!("{jobs} of {name} on {on}"))
    }
}

/// Tables have 80 columns wherever they go, unless `COLUMNS` says otherwise.
fn screen(world: &World<'_>) -> Screen {
    Screen::new(false, None, &world.vars)
}

//! Brings the daemon up: folders, store, the jobs as they were, the node as it is. Then each attempt that was running
//! is settled: adopted, ended, or sealed so that it never starts. The socket opens when all that is known.

use std::fs::DirBuilder;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ax_core::config::Config;
use ax_core::controller::{Controller, Event, Snapshot, Troubles};
use ax_core::id::{AttemptName, HostName};
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{Attempt, AttemptEnd, Cancelled, Job};
use ax_core::node::Inventory;
use ax_core::paths::Paths;
use ax_core::record::Request;
use ax_core::time::{BootTime, Now, Zone};
use ax_sys::path::Dir;
use ax_sys::shared_word::FenceWriter;
use ax_sys::socket::{Interest, Poller, Waker};
use ax_sys::{clock, credentials};
use thiserror::Error;

use super::attempts::Attempts;
use super::commit::{Commits, OpenBatch, SNAPSHOT_EVERY};
use super::guard::Guard;
use super::measures::Measures;
use super::parked::Parked;
use super::rungs::Rungs;
use super::spares::Spares;
use super::stored::Stored;
use super::watched::Watched;
use super::written::Written;
use super::{Engine, ZONE_EVERY, now, reload, tokens};
use crate::api::server::{Limits, Server};
use crate::calendar::Calendar;
use crate::card_limit::Prober;
use crate::cards::Cards;
use crate::containment;
use crate::launcher::{Launcher, Site};
use crate::local::{self, Local};
use crate::log::{Level, Line, Log};
use crate::people::People;
use crate::ready;
use crate::samples::Samples;
use crate::signals::Signals;
use crate::spool::Spool;
use crate::starter::Starter;
use crate::store::{Broken, Options, Reader, Restored, Store, Writer};
use crate::worker::Worker;

/// How the daemon is to run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// Where files lie, before the configuration moves them.
    pub paths: Paths,
    /// The configuration file that was named, if any.
    pub config_file: Option<PathBuf>,
    /// The supervisor's program.
    pub axrun: PathBuf,
    /// True if cards are given out at all.
    pub cards: bool,
    /// Whether the log is copied to standard error.
    pub log_to_stderr: bool,
}

/// Why the daemon can't start.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    /// The configuration is wrong: the findings as lines.
    #[error("{0}")]
    Config(String),
    /// Something that it needs is not available.
    #[error("cannot {doing}: {why}")]
    System {
        /// What it was about to do.
        doing: &'static str,
        /// What stood in the way.
        why: String,
    },
}

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> StartError {
    move |error| StartError::System { doing, why: error.to_string() }
}

impl Engine {
    /// Brings the daemon up; jobs that ran meanwhile are on their way to be adopted.
    pub(crate) fn start(setup: Setup) -> Result<Engine, StartError> {
        let loaded = reload::read(setup.config_file.as_deref(), &setup.paths.config)
            .map_err(|error| StartError::Config(error.error))?;
        let config_path = setup.config_file.clone().unwrap_or_else(|| setup.paths.config.clone());
        let config_warnings = crate::config::lines(&config_path, &loaded.warnings);
        let config = loaded.config;
        let paths = config.paths.apply(setup.paths);
        let as_root = credentials::own().0 == 0;
        make_folders(&paths, as_root).map_err(|(path, error)| StartError::System {
            doing: "make the daemon's folders",
            why: format!("{}: {error}", path.display()),
        })?;
        // The supervisors' children read it before they run anything, so it must be there before the first.
        Dir::open(&paths.run)
            .and_then(|run| FenceWriter::open(&run, "guard"))
            .map_err(failed("make the guard's shared words"))?;
        let Books { store, mut restored, stored, notices, boot } = Books::open(&paths)?;
        let reader = Reader::open(&paths).map_err(failed("read the store"))?;
        let loop_parts = LoopParts::new(&paths, store).map_err(failed("set up the loop"))?;
        let containment = containment::prepare(&paths);
        let parents = containment.parents.clone();
        let missing = containment.missing.clone();
        let host = local::host_name().map_err(failed("learn this machine's name"))?;
        let axd = setup.axrun.with_file_name("axd");
        let machine =
            Machine::look(&host, &config, &parents, setup.cards.then_some(&loop_parts.poller), &axd);
        let Machine { cards, local, rungs, mps } = machine;
        let library = config.paths.nvml.as_ref().map(PathBuf::from);
        let calendar = Calendar::read(now().wall);
        let forecasts = std::mem::take(&mut restored.forecasts);
        let broken = std::mem::take(&mut restored.broken);
        let node = local.inventory.clone();
        let controller = controller(restored, config, node, calendar.zone().clone(), boot.is_the_same);
        let at = now();
        let scheduling_interval = controller.config().policy.scheduling_interval;
        let starter = Starter::new(&setup.axrun);
        let site = Site { paths: paths.clone(), starter, containment, as_root, axd, library };
        let launcher = Launcher::start(site, &loop_parts.waker).map_err(failed("set up the loop"))?;
        let mut engine = Engine {
            log: Log::open(&paths.log, setup.log_to_stderr),
            guard: Guard::new(&setup.axrun, &paths.run, ready::is_awaited(), at.boot),
            server: listen(&paths, as_root)?,
            config_file: setup.config_file,
            cards,
            sample: Default::default(),
            ledger: Default::default(),
            calendar,
            controller,
            local,
            rungs,
            card_watch: Default::default(),
            self_checks: Default::default(),
            cgroup_parents: parents,
            missing,
            writer: loop_parts.writer,
            reader,
            commits: Commits::default(),
            batch: OpenBatch::default(),
            read_only: None,
            deferred: Default::default(),
            poller: loop_parts.poller,
            waker: loop_parts.waker,
            signals: loop_parts.signals,
            worker: loop_parts.worker,
            watched: loop_parts.watched,
            launcher,
            launches: Default::default(),
            unfenced: None,
            spool: loop_parts.spool,
            tickets: Default::default(),
            people: People::default(),
            parked: Parked::default(),
            fairness: Default::default(),
            questions: Default::default(),
            actions: Default::default(),
            attempts: Attempts::default(),
            settling: Default::default(),
            parts: Default::default(),
            name_check: Default::default(),
            nameless: Default::default(),
            set_aside: broken.iter().map(|job| (job.id.clone(), job.reason.clone())).collect(),
            stored,
            written: Written::default(),
            usage: Default::default(),
            measures: Measures::since(at.wall, forecasts),
            chores: Default::default(),
            spares: Spares::of(&paths),
            next_rescan: at.boot + scheduling_interval,
            next_snapshot: at.boot + SNAPSHOT_EVERY,
            next_prune: at.boot,
            next_zone: at.boot + ZONE_EVERY,
            last_commit: at.boot,
            quiet_done: false,
            leaving: false,
            ends_jobs: false,
            stopping: false,
            paths,
        };
        let notices: Vec<String> = notices.into_iter().chain(mps).collect();
        engine.say_how_it_starts(&config_warnings, &notices, &broken);
        let unreadable = broken.iter().flat_map(Broken::may_run).collect();
        engine.begin(at, boot, unreadable).map_err(failed("begin"))?;
        Ok(engine)
    }

    fn say_how_it_starts(&mut self, config: &[String], notices: &[String], broken: &[Broken]) {
        let line = Line::new("started")
            .text("version", &env!("CARGO_PKG_VERSION"))
            .text("pid", &std::process::id())
            .text("jobs", &self.controller.jobs().count())
            .text("cpus", &self.local.inventory.cpus)
            .text("ram", &self.local.inventory.ram)
            .text("cards", &self.local.inventory.cards.len());
        self.log.line(Level::Info, &line);
        let warnings = config.iter().chain(notices).chain(&self.local.warnings).chain(&self.missing);
        for warning in warnings {
            self.log.line(Level::Warning, &Line::new("notice").text("text", warning));
        }
        for why in self.rungs.reasons() {
            self.log.line(Level::Info, &Line::new("cards_not_limited_by_driver").text("why", &why));
        }
        for job in broken {
            let line = Line::new("broken").text("job", &job.id).text("reason", &job.reason);
            self.log.line(Level::Error, &line);
        }
    }

    /// Opens the socket and the spool, and settles the attempts that were running.
    fn begin(
        &mut self,
        at: Now,
        boot: Boot,
        unreadable: Vec<AttemptName>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        self.server.register(&self.poller)?;
        self.writer.record_snapshot(at, self.controller.snapshot());
        if self.controller.has_renamed_cards() {
            // Before anything can start there.
            self.happened(Event::NodeRegistered(self.local.inventory.clone()));
        }
        let active = self.controller.active_jobs();
        let alive: Vec<(Attempt, JobState)> =
            active.filter_map(|job| Some((job.attempt.as_deref()?.clone(), job.state))).collect();
        self.end_strays(&alive.iter().map(|(attempt, _)| attempt.name).chain(unreadable).collect())?;
        for (attempt, state) in alive {
            match boot.is_the_same {
                true => self.take_up(attempt),
                false => self.ended_by_reboot(attempt.name, state),
            }
        }
        if self.paths.mps().exists() {
            self.sweep_mps();
        }
        // Durable together with the ends that a new boot brings: a crash in between would lose those.
        self.batch.boot(boot.id);
        self.happened(Event::Tick);
        self.check_names();
        ready::say_ready();
        Ok(())
    }

    /// Takes up an attempt of an earlier daemon, which may have died before it asked a supervisor to end it.
    fn take_up(&mut self, attempt: Attempt) {
        if let Some((outcome, message)) = attempt.wants_ending() {
            // The warning time that was promised before the end for idle cards is not cut short.
            let warned = attempt.idle.ended;
            let at_once = attempt.cancelled == Cancelled::Again;
            let request = Request::Terminate { outcome, message, at_once, warned };
            self.attempts.ask(&self.poller, attempt.name, request);
        }
        self.settle(attempt.name);
    }

    /// An attempt of an earlier boot does not run any more.
    fn ended_by_reboot(&mut self, attempt: AttemptName, state: JobState) {
        let message = match state {
            JobState::Starting => "the machine was restarted before its start was confirmed",
            _ => "the machine was restarted",
        };
        let end = AttemptEnd {
            outcome: Outcome::NodeFail,
            exit_code: None,
            signal: None,
            message: Some(message.to_owned()),
            card_peak: None,
        };
        self.happened(Event::AttemptEnded { attempt, at: now().wall, end });
    }
}

/// The boot that this machine is in.
struct Boot {
    /// As the kernel says it.
    id: String,
    /// True if the jobs were recorded in this boot.
    is_the_same: bool,
}

/// What was written down before.
struct Books {
    store: Store,
    restored: Restored,
    stored: Stored,
    notices: Vec<String>,
    boot: Boot,
}

impl Books {
    fn open(paths: &Paths) -> Result<Books, StartError> {
        let mut store = Store::open(paths).map_err(failed("open the store"))?;
        let restored = store.restore(now().wall).map_err(failed("read the store"))?;
        let stored = Stored::of(&store).map_err(failed("read the store"))?;
        let notices = store.notices().to_vec();
        let id = clock::boot_id().map_err(failed("read the boot id"))?;
        let is_the_same = restored.boot.as_ref().is_none_or(|boot| *boot == id);
        Ok(Books { store, restored, stored, notices, boot: Boot { id, is_the_same } })
    }
}

/// What this machine has.
struct Machine {
    cards: Option<Cards>,
    local: Local,
    rungs: Rungs,
    mps: Option<String>,
}

impl Machine {
    /// Looks at the machine; at its cards only if a loop will take in what is found.
    fn look(
        host: &HostName,
        config: &Config,
        parents: &[String],
        cards_of: Option<&Poller>,
        axd: &Path,
    ) -> Machine {
        let cards = cards_of.map(|poller| {
            let mut cards = super::cards::new(host, config, parents);
            cards.begin(poller, now().boot);
            cards
        });
        let mut local = local::look(host, config, cards.as_ref().map(Cards::known));
        let library = config.paths.nvml.as_ref().map(PathBuf::from);
        let prober = Prober { axd: axd.to_owned(), library, parents: parents.to_vec() };
        let mut rungs = Rungs::probe(&local.inventory, prober);
        let mps = rungs.look_for_mps(config, parents);
        rungs.mark(&mut local.inventory);
        Machine { cards, local, rungs, mps }
    }
}

/// The controller as it was, on the node as it is.
fn controller(
    restored: Restored,
    config: Config,
    node: Inventory,
    zone: Zone,
    same_boot: bool,
) -> Controller {
    Controller::restore(Snapshot {
        nodes: vec![node],
        jobs: restored.jobs.into_iter().map(|job| Arc::new(in_this_boot(job, same_boot))).collect(),
        next_number: restored.next_number,
        next_epoch: restored.next_epoch,
        troubles: Troubles::since(restored.next_epoch),
        times: restored.shares.0,
        usages: restored.shares.1,
        mix: restored.mix,
        known: restored.known,
        history: restored.history,
        losses: restored.losses,
        zone,
        config,
    })
}

/// A time of an earlier boot's clock means nothing: what it held back is due.
fn in_this_boot(mut job: Job, same_boot: bool) -> Job {
    if !same_boot && job.rare.backoff_until.is_some() {
        job.rare.change(|rare| rare.backoff_until = Some(BootTime(0)));
    }
    job
}

/// Threads and descriptors of the loop.
struct LoopParts {
    poller: Poller,
    waker: Arc<Waker>,
    signals: Signals,
    worker: Worker,
    watched: Watched,
    spool: Spool,
    writer: Writer,
}

impl LoopParts {
    fn new(paths: &Paths, store: Store) -> Result<LoopParts, Box<dyn std::error::Error>> {
        let poller = Poller::new()?;
        let waker = Arc::new(Waker::new()?);
        poller.add(&*waker, tokens::WAKER, Interest::READ)?;
        let signals = Signals::catch()?;
        for descriptor in signals.descriptors() {
            poller.add(&descriptor.as_fd(), tokens::SIGNALS, Interest::READ)?;
        }
        let worker = Worker::start(paths, &waker)?;
        let samples = Samples::start(paths, worker.reporter(), &waker)?;
        let watched = Watched::new(samples);
        let spool = Spool::start(paths, Arc::clone(&waker))?;
        let to_wake = Arc::clone(&waker);
        let notify = Box::new(move || {
            // A loop that can't be woken finds the report at its next rescan.
            let _ = to_wake.wake();
        });
        let writer = Writer::spawn(store, Options { events: true }, notify)?;
        Ok(LoopParts { poller, waker, signals, worker, watched, spool, writer })
    }
}

fn listen(paths: &Paths, as_root: bool) -> Result<Server, StartError> {
    let mode = if as_root { 0o666 } else { 0o600 };
    Server::bind(&paths.socket(), mode, Limits::default(), tokens::SERVER).map_err(failed("open the socket"))
}

/// Makes folders with their permissions; existing ones keep theirs, except `incoming`.
fn make_folders(paths: &Paths, as_root: bool) -> Result<(), (PathBuf, std::io::Error)> {
    let (open, passed) = if as_root { (0o755, 0o711) } else { (0o700, 0o700) };
    let incoming = if as_root { 0o1733 } else { 0o700 };
    let log_folder = paths.log.parent().map(Path::to_owned).unwrap_or_default();
    for (path, mode) in [
        (paths.spool.clone(), open),
        (paths.incoming(), incoming),
        (paths.taken(), 0o700),
        (paths.refused(), passed),
        (paths.spool.join("jobs"), passed),
        (paths.run.clone(), open),
        (paths.run.join("jobs"), passed),
        (paths.attempts(), 0o700),
        (paths.leases(), 0o700),
        (paths.state.clone(), 0o700),
        (log_folder, open),
    ] {
        make_folder(&path, mode).map_err(|error| (path, error))?;
    }
    Ok(())
}

fn make_folder(path: &Path, mode: u32) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().mode(0o755).recursive(true).create(path)?;
    // Independent of the caller's mask.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

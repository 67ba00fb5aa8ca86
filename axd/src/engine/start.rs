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
use ax_core::time::{BootTime, Zone};
use ax_sys::path::Dir;
use ax_sys::shared_word::FenceWriter;
use ax_sys::socket::{Interest, Poller, Waker};
use ax_sys::{SysError, clock, credentials};
use thiserror::Error;

use super::attempts::Supervision;
use super::cleaning::{Chores, Cleaning};
use super::commit::Commits;
use super::gpu::{self, Enforcement, Gpu, History};
use super::guard::Guard;
use super::launches::Isolation;
use super::measures::Measures;
use super::names::NameCheck;
use super::requests::Clients;
use super::row_data::RowData;
use super::self_check::SelfChecks;
use super::spares::Spares;
use super::spool::Tickets;
use super::stop::Phase;
use super::stored::{Quotas, Stored};
use super::timers::Due;
use super::written::Written;
use super::{Engine, now, reload, tokens};
use crate::api::server::{Limits, Server};
use crate::calendar::Calendar;
use crate::card_limit::Prober;
use crate::cards::Cards;
use crate::containment;
use crate::launcher::{Launcher, Site};
use crate::local::{self, Local};
use crate::log::{Level, Line, Log};
use crate::ready;
use crate::samples::Samples;
use crate::signals::Signals;
use crate::spool::Spool;
use crate::starter::Starter;
use crate::store::{Broken, Options, Reader, Restored, Store, StoreError, Writer};
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
        let paths = loaded.config.paths.apply(setup.paths.clone());
        prepare_folders(&paths)?;
        let mut books = Books::open(&paths)?;
        let broken = std::mem::take(&mut books.restored.broken);
        let notices = books.store.notices().to_vec();
        let boot = books.boot.clone();
        let (mut engine, warning) = Engine::assemble(setup, loaded.config, paths, books)?;
        engine.set_aside = broken.iter().map(|job| (job.id.clone(), job.reason.clone())).collect();
        let notices: Vec<String> = notices.into_iter().chain(warning).collect();
        engine.say_how_it_starts(&config_warnings, &notices, &broken);
        let unreadable = broken.iter().flat_map(Broken::may_run).collect();
        engine.begin(boot, unreadable)?;
        Ok(engine)
    }

    /// Puts the daemon together, with the jobs as they were and the machine as it is. Nothing happens yet. Returns a
    /// warning about MPS beside it.
    fn assemble(
        setup: Setup,
        config: Config,
        paths: Paths,
        books: Books,
    ) -> Result<(Engine, Option<String>), StartError> {
        let as_root = is_root();
        let Books { store, mut restored, stored, boot } = books;
        let reader = Reader::open(&paths).map_err(failed("read the store"))?;
        let threads = Threads::start(&paths, store).map_err(failed("set up the loop"))?;
        let containment = containment::prepare(&paths);
        let isolation = Isolation::of(&containment);
        let host = local::host_name().map_err(failed("learn this machine's name"))?;
        let axd = setup.axrun.with_file_name("axd");
        let poller = setup.cards.then_some(&threads.poller);
        let Machine { cards, local, enforcement, mps } =
            Machine::look(&host, &config, &isolation.parents, poller, &axd);
        let library = config.paths.nvml.as_ref().map(PathBuf::from);
        let calendar = Calendar::read(now().wall);
        let forecasts = std::mem::take(&mut restored.forecasts);
        let node = local.inventory.clone();
        let controller = controller(restored, config, node, calendar.zone().clone(), boot.is_the_same);
        let at = now();
        let starter = Starter::new(&setup.axrun);
        let site = Site { paths: paths.clone(), starter, containment, as_root, axd, library };
        let launcher = Launcher::start(site, &threads.waker).map_err(failed("set up the loop"))?;
        let guard = Guard::new(&setup.axrun, &paths.run, ready::is_awaited(), at.boot);
        let engine = Engine {
            log: Log::open(&paths.log, setup.log_to_stderr),
            server: listen(&paths, as_root)?,
            config_file: setup.config_file,
            calendar,
            phase: Phase::Serving,
            due: Due::from(at.boot, controller.config().policy.scheduling_interval),
            controller,
            poller: threads.poller,
            waker: threads.waker,
            signals: threads.signals,
            worker: threads.worker,
            local,
            isolation,
            gpu: Gpu::new(cards, enforcement, threads.history),
            self_checks: SelfChecks::default(),
            commits: Commits::new(threads.writer, at.boot),
            reader,
            row_data: RowData::default(),
            quotas: Quotas { stored, written: Written::default() },
            set_aside: Vec::new(),
            clients: Clients::default(),
            spool: threads.spool,
            tickets: Tickets::default(),
            name_check: NameCheck::default(),
            supervision: Supervision::new(launcher, guard),
            cleaning: Cleaning { chores: Chores::default(), spares: Spares::of(&paths) },
            measures: Measures::since(at.wall, forecasts),
            paths,
        };
        Ok((engine, mps))
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
        let warnings =
            config.iter().chain(notices).chain(&self.local.warnings).chain(&self.isolation.missing);
        for warning in warnings {
            self.log.line(Level::Warning, &Line::new("notice").text("text", warning));
        }
        for why in self.gpu.enforcement.reasons() {
            self.log.line(Level::Info, &Line::new("cards_not_limited_by_driver").text("why", &why));
        }
        for job in broken {
            let line = Line::new("broken").text("job", &job.id).text("reason", &job.reason);
            self.log.line(Level::Error, &line);
        }
    }

    /// Opens the socket and the spool, and settles the attempts that were running.
    fn begin(&mut self, boot: Boot, unreadable: Vec<AttemptName>) -> Result<(), StartError> {
        self.server.register(&self.poller).map_err(failed("begin"))?;
        self.commits.writer.record_snapshot(now(), self.controller.snapshot());
        if self.controller.has_renamed_cards() {
            // Before anything can start there.
            self.happened(Event::NodeRegistered(self.local.inventory.clone()));
        }
        let active = self.controller.active_jobs();
        let alive: Vec<(Attempt, JobState)> =
            active.filter_map(|job| Some((job.attempt.as_deref()?.clone(), job.state))).collect();
        let known = alive.iter().map(|(attempt, _)| attempt.name).chain(unreadable).collect();
        self.end_strays(&known).map_err(failed("begin"))?;
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
        self.commits.open.boot(boot.id);
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
            self.supervision.attempts.ask(&self.poller, attempt.name, request);
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
#[derive(Clone)]
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
    boot: Boot,
}

impl Books {
    fn open(paths: &Paths) -> Result<Books, StartError> {
        let mut store = Store::open(paths).map_err(failed("open the store"))?;
        let restored = store.restore(now().wall).map_err(failed("read the store"))?;
        let stored = Stored::of(&store).map_err(failed("read the store"))?;
        let id = clock::boot_id().map_err(failed("read the boot id"))?;
        let is_the_same = restored.boot.as_ref().is_none_or(|boot| *boot == id);
        Ok(Books { store, restored, stored, boot: Boot { id, is_the_same } })
    }
}

/// What this machine has.
struct Machine {
    cards: Option<Cards>,
    local: Local,
    enforcement: Enforcement,
    /// A warning about MPS.
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
            let mut cards = gpu::new(host, config, parents);
            cards.begin(poller, now().boot);
            cards
        });
        let mut local = local::look(host, config, cards.as_ref().map(Cards::known));
        let library = config.paths.nvml.as_ref().map(PathBuf::from);
        let prober = Prober { axd: axd.to_owned(), library, parents: parents.to_vec() };
        let mut enforcement = Enforcement::probe(&local.inventory, prober);
        let mps = enforcement.look_for_mps(config, parents);
        enforcement.mark(&mut local.inventory);
        Machine { cards, local, enforcement, mps }
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

/// Why there can be no loop.
#[derive(Debug, Error)]
enum LoopError {
    #[error(transparent)]
    System(#[from] SysError),
    #[error(transparent)]
    Thread(#[from] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Threads and descriptors of the loop.
struct Threads {
    poller: Poller,
    waker: Arc<Waker>,
    signals: Signals,
    worker: Worker,
    history: History,
    spool: Spool,
    writer: Writer,
}

impl Threads {
    fn start(paths: &Paths, store: Store) -> Result<Threads, LoopError> {
        let poller = Poller::new()?;
        let waker = Arc::new(Waker::new()?);
        poller.add(&*waker, tokens::WAKER, Interest::READ)?;
        let signals = Signals::catch()?;
        for descriptor in signals.descriptors() {
            poller.add(&descriptor.as_fd(), tokens::SIGNALS, Interest::READ)?;
        }
        let worker = Worker::start(paths, &waker)?;
        let samples = Samples::start(paths, worker.reporter(), &waker)?;
        let history = History::new(samples);
        let spool = Spool::start(paths, Arc::clone(&waker))?;
        let to_wake = Arc::clone(&waker);
        let notify = Box::new(move || {
            // A loop that can't be woken finds the report at its next rescan.
            let _ = to_wake.wake();
        });
        let writer = Writer::spawn(store, Options { events: true }, notify)?;
        Ok(Threads { poller, waker, signals, worker, history, spool, writer })
    }
}

fn is_root() -> bool {
    credentials::own().0 == 0
}

/// Makes what must be there before anything else.
fn prepare_folders(paths: &Paths) -> Result<(), StartError> {
    make_folders(paths, is_root()).map_err(|(path, error)| StartError::System {
        doing: "make the daemon's folders",
        why: format!("{}: {error}", path.display()),
    })?;
    // The supervisors' children read it before they run anything, so it must be there before the first.
    Dir::open(&paths.run)
        .and_then(|run| FenceWriter::open(&run, "guard"))
        .map(drop)
        .map_err(failed("make the guard's shared words"))
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

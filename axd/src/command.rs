//! The daemon's command line.

use std::io::{BufWriter, ErrorKind, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ax_core::api::ErrorClass;
use ax_core::paths::Paths;
use ax_core::text::count;
use ax_core::time::WallTime;
use clap::Parser;

use crate::card_limit;
use crate::cards::helper;
use crate::config;
use crate::engine::{Engine, Setup, StartError};
use crate::mps;
use crate::recorded::{self, PrintError, Wanted};
use crate::store;

/// The daemon of ax, a batch system: watches the spool, schedules jobs, starts their supervisors, keeps their accounts.
#[derive(Debug, Parser)]
#[command(name = "axd", version, about)]
struct Arguments {
    /// Put all paths under this folder
    #[arg(long, value_name = "DIR", env = "AX_ROOT")]
    root: Option<PathBuf>,
    /// Read this configuration; it must be there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Give out no cards
    #[arg(long)]
    no_cards: bool,
    /// Check the configuration and exit
    #[arg(long, group = "instead")]
    check: bool,
    /// Copy the database into a new file and exit; the daemon may run
    #[arg(long, value_name = "FILE", group = "instead")]
    db_backup: Option<PathBuf>,
    /// Check the whole database and exit; the daemon may run
    #[arg(long, group = "instead")]
    db_check: bool,
    /// Let an empty database go on with the numbers of a used spool, and exit
    #[arg(long, group = "instead")]
    db_adopt: bool,
    /// Print the recorded events and exit; the daemon may run
    #[arg(long, group = "instead")]
    db_events: bool,
    /// Limit what the processes of a control group have of cards, for a supervisor, and exit
    #[arg(long, value_name = "DEED", value_enum, requires = "group", group = "instead", hide = true)]
    nvml_limit: Option<card_limit::Deed>,
    /// A card, and what the group has of it
    #[arg(long = "card", value_name = "UUID=MB", requires = "nvml_limit", hide = true)]
    limit_cards: Vec<card_limit::CardWord>,
    /// Start or stop the MPS daemon of a card, for a supervisor, and exit
    #[arg(long, value_name = "DEED", value_enum, requires = "order", group = "instead", hide = true)]
    mps: Option<mps::Deed>,
    /// What is to be known of it
    #[arg(long, value_name = "JSON", requires = "mps", hide = true)]
    order: Option<String>,
    /// Unmount what is at and below a folder of the daemon's, for whoever must not hang, and exit
    #[arg(long, value_name = "DIR", group = "instead", hide = true)]
    unmount: Option<PathBuf>,
    /// Only events at or after this time, such as 2026-11-29T15:32:14Z
    #[arg(long, value_name = "TIME", requires = "db_events")]
    from: Option<WallTime>,
    /// Only events before this time
    #[arg(long, value_name = "TIME", requires = "db_events")]
    to: Option<WallTime>,
    /// One JSON document
    #[arg(long, requires = "db_events")]
    json: bool,
    /// Ask the driver about the cards, for the daemon, which starts this
    #[arg(long, group = "instead", hide = true)]
    nvml: bool,
    /// The library of the driver
    #[arg(long, value_name = "PATH", hide = true)]
    library: Option<PathBuf>,
    /// A folder below which attempts have their control groups; or the group to be limited
    #[arg(long, value_name = "DIR", hide = true)]
    group: Vec<PathBuf>,
}

/// Runs the daemon with the arguments of this process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let (Some(deed), [group]) = (arguments.nvml_limit, arguments.group.as_slice()) {
        return card_limit::run(deed, arguments.library.as_deref(), group, &arguments.limit_cards);
    }
    if let (Some(deed), Some(order)) = (arguments.mps, &arguments.order) {
        return mps::run(deed, order);
    }
    if let Some(folder) = &arguments.unmount {
        return mps::unmount(folder);
    }
    if arguments.nvml {
        return helper::run(&helper::Options { library: arguments.library, groups: arguments.group });
    }
    let paths = match paths(arguments.root.as_deref()) {
        Ok(paths) => paths,
        Err(why) => return fail(ErrorClass::Usage, &why),
    };
    if arguments.check {
        return config::check(arguments.config.as_deref(), &paths.config);
    }
    match instead(&arguments, &paths) {
        Some(exit) => exit,
        None => serve(arguments, paths),
    }
}

fn fail(class: ErrorClass, why: &str) -> ExitCode {
    for line in why.lines() {
        eprintln!("axd: {line}");
    }
    ExitCode::from(class.exit_code())
}

/// The system's places, those under a root, or an ordinary user's own.
fn paths(root: Option<&Path>) -> Result<Paths, String> {
    if let Some(root) = root {
        let root = std::path::absolute(root).map_err(|e| format!("--root {}: {e}", root.display()))?;
        return Ok(Paths::under(&root));
    }
    if ax_sys::credentials::own().0 == 0 {
        return Ok(Paths::system());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).ok_or("HOME is not set; use --root DIR")?;
    let or_home =
        |name: &str, below: &str| std::env::var_os(name).map_or_else(|| home.join(below), PathBuf::from);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.ok_or("XDG_RUNTIME_DIR is not set; use --root DIR")?;
    Ok(Paths::of_user(
        &or_home("XDG_CONFIG_HOME", ".config"),
        &or_home("XDG_STATE_HOME", ".local/state"),
        &runtime,
    ))
}

/// What is done instead of serving.
fn instead(arguments: &Arguments, paths: &Paths) -> Option<ExitCode> {
    if let Some(target) = &arguments.db_backup {
        return Some(match store::backup::backup(paths, target) {
            Ok(bytes) => said(&format!("{}: {bytes} bytes", target.display())),
            Err(error) => fail(ErrorClass::Refused, &error.to_string()),
        });
    }
    if arguments.db_check {
        return Some(db_check(paths));
    }
    if arguments.db_events {
        return Some(db_events(arguments, paths));
    }
    arguments.db_adopt.then(|| match store::adopt(paths) {
        Ok(number) => said(&format!("adopted: the next job has number {number}")),
        Err(error) => fail(ErrorClass::Refused, &error.to_string()),
    })
}

fn said(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

fn db_events(arguments: &Arguments, paths: &Paths) -> ExitCode {
    let wanted = Wanted { from: arguments.from, to: arguments.to, json: arguments.json };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match recorded::print(&paths.events(), wanted, &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has gone away (`| head`) is no error.
        Err(PrintError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(ErrorClass::Refused, &error.to_string()),
    }
}

fn db_check(paths: &Paths) -> ExitCode {
    match store::check::check(paths) {
        Err(error) => fail(ErrorClass::Refused, &error.to_string()),
        Ok(report) if report.is_good() => said(&format!(
            "good: {}, {}, {} scripts and environments",
            count(report.jobs, "job"),
            count(report.attempts, "attempt"),
            report.blobs
        )),
        Ok(report) => {
            let more = (report.more > 0).then(|| format!("and {} more", report.more));
            let lines: Vec<String> = report.problems.into_iter().chain(more).collect();
            fail(ErrorClass::Refused, &lines.join("\n"))
        }
    }
}

/// Local times are those of `cluster.timezone`. The zone of a process is fixed when it starts, by its
/// environment: so the daemon starts itself once more where that says something else.
fn enter_zone(arguments: &Arguments, paths: &Paths) -> Result<(), String> {
    // What is wrong with the file is said when it is read in earnest.
    let file = arguments.config.as_deref().unwrap_or(&paths.config);
    let zone = config::load(file).ok().and_then(|loaded| loaded.config.cluster.timezone);
    let Some(zone) = zone.filter(|zone| std::env::var("TZ").as_ref() != Ok(zone)) else { return Ok(()) };
    if !Path::new("/usr/share/zoneinfo").join(&zone).is_file() {
        let file = file.display();
        return Err(format!(
            "{file}: cluster.timezone: this machine has no time zone {zone:?} (see /usr/share/zoneinfo)"
        ));
    }
    let own = std::env::current_exe().map_err(|e| format!("cannot find its own program: {e}"))?;
    let error = Command::new(own).args(std::env::args_os().skip(1)).env("TZ", &zone).exec();
    Err(format!("cannot start itself in the time zone {zone}: {error}"))
}

fn serve(arguments: Arguments, paths: Paths) -> ExitCode {
    let axrun = match std::env::current_exe() {
        Ok(own) => own.with_file_name("axrun"),
        Err(error) => return fail(ErrorClass::Unavailable, &format!("cannot find its own program: {error}")),
    };
    if !axrun.is_file() {
        let why = format!("the supervisor is missing: {} (it is installed beside axd)", axrun.display());
        return fail(ErrorClass::Unavailable, &why);
    }
    if let Err(why) = enter_zone(&arguments, &paths) {
        return fail(ErrorClass::Config, &why);
    }
    let setup = Setup {
        paths,
        config_file: arguments.config,
        axrun,
        cards: !arguments.no_cards,
        log_to_stderr: std::env::var_os("JOURNAL_STREAM").is_some() || std::io::stderr().is_terminal(),
    };
    let engine = match Engine::start(setup) {
        Ok(engine) => engine,
        Err(StartError::Config(lines)) => return fail(ErrorClass::Config, &lines),
        Err(error @ StartError::System { .. }) => return fail(ErrorClass::Unavailable, &error.to_string()),
    };
    match engine.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(ErrorClass::Unavailable, &why),
    }
}

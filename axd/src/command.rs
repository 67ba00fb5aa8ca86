//! The daemon's command line.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ax_core::api::{Adopted, BackupMade, DatabaseCheck, ErrorClass};
use ax_core::paths::Paths;
use ax_core::text::{count, escaped};
use ax_core::time::WallTime;
use clap::Parser;
use serde::Serialize;

use crate::card_limit;
use crate::cards::helper;
use crate::config;
use crate::engine::{Engine, Setup, StartError};
use crate::mps;
use crate::recorded::{self, PrintError, Wanted};
use crate::store::{self, check::Report};

/// The exit code of whose output can't be written, as in sysexits(3).
const OUTPUT: u8 = 74;

/// The daemon of ax, a batch system: watches the spool, schedules jobs, starts their supervisors, keeps their accounts.
#[derive(Debug, Parser)]
#[command(name = "axd", version)]
struct Arguments {
    /// Put all paths under this folder (also AX_ROOT)
    #[arg(long, value_name = "DIR")]
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
    /// One JSON document; for what is done instead of serving
    #[arg(long, requires = "instead")]
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

impl Arguments {
    /// An empty variable means nothing, as for the commands.
    fn or_by_environment(mut self) -> Arguments {
        let named = || std::env::var_os("AX_ROOT").filter(|root| !root.is_empty());
        self.root = self.root.or_else(|| named().map(PathBuf::from));
        self
    }
}

/// Help and version as asked for; what is wrong with the arguments in one line.
fn explain(error: &clap::Error) -> ExitCode {
    if error.exit_code() == 0 {
        // Nobody is left to be told if this fails.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if std::env::args_os().nth(1).is_some_and(|word| word == "http") {
        eprintln!("axd: 'axd http' is not supported yet");
        return ExitCode::from(ErrorClass::Refused.exit_code());
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said = |line: &'_ str| line.trim_start_matches("error: ").trim_start_matches("tip: ").to_owned();
    let said: Vec<String> =
        lines.map(said).filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    eprintln!("axd: {}; see 'axd --help'", escaped(&said.join("; ")));
    ExitCode::from(ErrorClass::Usage.exit_code())
}

/// Runs the daemon with the arguments of this process.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments.or_by_environment(),
        Err(error) => return explain(&error),
    };
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
        return config::check(arguments.config.as_deref(), &paths.config, arguments.json);
    }
    match instead(&arguments, &paths) {
        Some(exit) => exit,
        None => serve(arguments, paths),
    }
}

/// `axctl check` and `axctl db` become this program, and stay who they are for the person.
pub(crate) fn own_name() -> &'static str {
    let first = std::env::args_os().next().unwrap_or_default();
    if Path::new(&first).ends_with("axctl") { "axctl" } else { "axd" }
}

fn fail(class: ErrorClass, why: &str) -> ExitCode {
    let program = own_name();
    for line in why.lines() {
        eprintln!("{program}: {line}");
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
            Ok(bytes) if arguments.json => {
                document(&BackupMade { file: target.display().to_string(), bytes }, None)
            }
            Ok(bytes) => said(&format!("{}: {bytes} bytes", target.display())),
            Err(error) => about_file(&paths.database(), &error.to_string()),
        });
    }
    if arguments.db_check {
        return Some(db_check(paths, arguments.json));
    }
    if arguments.db_events {
        return Some(db_events(arguments, paths));
    }
    arguments.db_adopt.then(|| match store::adopt(paths) {
        Ok(number) if arguments.json => document(&Adopted { next_number: number.0 }, None),
        Ok(number) => said(&format!("adopted: the next job has number {number}")),
        Err(error) => fail(ErrorClass::Refused, &error.to_string()),
    })
}

/// Why something could not be done with one of the databases. Whether it is there, and whether one may look, is what
/// SQLite does not say.
fn about_file(file: &Path, why: &str) -> ExitCode {
    match File::open(file).map_err(|error| error.kind()) {
        Err(ErrorKind::NotFound) => {
            let why = format!("{} is not there; axd makes it when it starts first", file.display());
            fail(ErrorClass::Refused, &why)
        }
        Err(ErrorKind::PermissionDenied) => {
            let why = format!("{}: permission denied; only the user that axd runs as may", file.display());
            fail(ErrorClass::NoPermission, &why)
        }
        _ => fail(ErrorClass::Refused, why),
    }
}

/// The answer of a command. A reader that has gone away is no error, a full disk is one.
pub(crate) fn said(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("{}: cannot write the output: {error}", own_name());
            ExitCode::from(OUTPUT)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// An answer as one JSON document, and the exit code of what it says.
pub(crate) fn document(answer: &impl Serialize, failure: Option<ErrorClass>) -> ExitCode {
    let text = match serde_json::to_string_pretty(answer) {
        Ok(text) => text,
        Err(error) => return fail(ErrorClass::TryAgain, &error.to_string()),
    };
    let written = said(&text);
    match failure {
        Some(class) if written == ExitCode::SUCCESS => ExitCode::from(class.exit_code()),
        _ => written,
    }
}

fn db_events(arguments: &Arguments, paths: &Paths) -> ExitCode {
    let wanted = Wanted { from: arguments.from, to: arguments.to, json: arguments.json };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match recorded::print(&paths.events(), wanted, &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has gone away (`| head`) is no error.
        Err(PrintError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error @ PrintError::Output(_)) => {
            eprintln!("{}: {error}", own_name());
            ExitCode::from(OUTPUT)
        }
        Err(error) => about_file(&paths.events(), &error.to_string()),
    }
}

fn db_check(paths: &Paths, json: bool) -> ExitCode {
    let report = match store::check::check(paths) {
        Ok(report) => report,
        Err(error) => return about_file(&paths.database(), &error.to_string()),
    };
    let good = report.is_good();
    if json {
        let Report { jobs, attempts, blobs, problems, more, .. } = report;
        let check = DatabaseCheck { good, jobs, attempts, blobs, problems, more };
        return document(&check, (!good).then_some(ErrorClass::Refused));
    }
    if good {
        return said(&format!(
            "good: {}, {}, {} scripts and environments",
            count(report.jobs, "job"),
            count(report.attempts, "attempt"),
            report.blobs
        ));
    }
    let more = (report.more > 0).then(|| format!("and {} more", report.more));
    let lines: Vec<String> = report.problems.into_iter().chain(more).collect();
    fail(ErrorClass::Refused, &lines.join("\n"))
}

/// Local times are those of `cluster.timezone`. The zone of a process is fixed when it starts, by its
/// environment: so the daemon starts itself once more where that says something else.
fn enter_zone(arguments: &Arguments, paths: &Paths) -> Result<(), String> {
    // What is wrong with the file, a zone that is not there too, is said when it is read in earnest.
    let file = arguments.config.as_deref().unwrap_or(&paths.config);
    let zone = config::load(file).ok().and_then(|loaded| loaded.config.cluster.timezone);
    let Some(zone) = zone.filter(|zone| std::env::var("TZ").as_ref() != Ok(zone)) else { return Ok(()) };
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
    let places = (paths.socket(), paths.log.clone());
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
    if std::io::stderr().is_terminal() {
        let (socket, log) = places;
        eprintln!("axd: serving at {}; its log is {}; 'axctl stop' ends it", socket.display(), log.display());
    }
    match engine.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(ErrorClass::Unavailable, &why),
    }
}

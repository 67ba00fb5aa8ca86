//! The daemon as a program: serves, or does what its command line names instead, and says what went wrong.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ax_core::api::{Adopted, BackupMade, DatabaseCheck, ErrorClass, OUTPUT_FAILED};
use ax_core::paths::Paths;
use ax_core::text::{count, escaped};
use serde::Serialize;

use crate::card_limit;
use crate::cards::helper;
use crate::config;
use crate::engine::{Engine, Setup, StartError};
use crate::mode::{Deed, Mode};
use crate::mps;
use crate::recorded::{self, PrintError, Wanted};
use crate::store::{self, check::Report};

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

/// Runs the daemon, or what its arguments name instead, as this process.
pub fn main() -> ExitCode {
    match Mode::parse(std::env::args_os()) {
        Ok(Mode::LimitCards { deed, library, group, cards }) => {
            card_limit::run(deed, library.as_deref(), &group, &cards)
        }
        Ok(Mode::Mps { deed, order }) => mps::run(deed, &order),
        Ok(Mode::Unmount { folder, busy }) => mps::unmount(&folder, &busy),
        Ok(Mode::AskDriver(options)) => helper::run(&options),
        Ok(Mode::AtPlace { root, deed }) => match paths(root.or_else(root_of_environment).as_deref()) {
            Ok(paths) => at_place(deed, paths),
            Err(why) => fail(ErrorClass::Usage, &why),
        },
        Err(error) => explain(&error),
    }
}

/// An empty variable means nothing, as for the commands.
fn root_of_environment() -> Option<PathBuf> {
    std::env::var_os("AX_ROOT").filter(|root| !root.is_empty()).map(PathBuf::from)
}

/// What is done with the files of one place: serving there, or what is asked for instead.
fn at_place(deed: Deed, paths: Paths) -> ExitCode {
    match deed {
        Deed::Serve { config, cards } => serve(config, cards, paths),
        Deed::Check { config, json } => config::check(config.as_deref(), &paths.config, json),
        Deed::Backup { target, json } => db_backup(&paths, &target, json),
        Deed::CheckDatabase { json } => db_check(&paths, json),
        Deed::Adopt { json } => db_adopt(&paths, json),
        Deed::Events(wanted) => db_events(wanted, &paths),
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

fn db_backup(paths: &Paths, target: &Path, json: bool) -> ExitCode {
    match store::backup::backup(paths, target) {
        Ok(bytes) if json => document(&BackupMade { file: target.display().to_string(), bytes }, None),
        Ok(bytes) => said(&format!("{}: {bytes} bytes", target.display())),
        Err(error) => about_file(&paths.database(), &error.to_string()),
    }
}

fn db_adopt(paths: &Paths, json: bool) -> ExitCode {
    match store::adopt(paths) {
        Ok(number) if json => document(&Adopted { next_number: number.0 }, None),
        Ok(number) => said(&format!("adopted: the next job has number {number}")),
        Err(error) => fail(ErrorClass::Refused, &error.to_string()),
    }
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
            ExitCode::from(OUTPUT_FAILED)
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

fn db_events(wanted: Wanted, paths: &Paths) -> ExitCode {
    let mut out = BufWriter::new(std::io::stdout().lock());
    match recorded::print(&paths.events(), wanted, &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has gone away (`| head`) is no error.
        Err(PrintError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error @ PrintError::Output(_)) => {
            eprintln!("{}: {error}", own_name());
            ExitCode::from(OUTPUT_FAILED)
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
fn enter_zone(file: &Path) -> Result<(), String> {
    // What is wrong with the file, a zone that is not there too, is said when it is read in earnest.
    let zone = config::load(file).ok().and_then(|loaded| loaded.config.cluster.timezone);
    let Some(zone) = zone.filter(|zone| std::env::var("TZ").as_ref() != Ok(zone)) else { return Ok(()) };
    let own = std::env::current_exe().map_err(|e| format!("cannot find its own program: {e}"))?;
    let error = Command::new(own).args(std::env::args_os().skip(1)).env("TZ", &zone).exec();
    Err(format!("cannot start itself in the time zone {zone}: {error}"))
}

fn serve(config_file: Option<PathBuf>, cards: bool, paths: Paths) -> ExitCode {
    let axrun = match std::env::current_exe() {
        Ok(own) => own.with_file_name("axrun"),
        Err(error) => return fail(ErrorClass::Unavailable, &format!("cannot find its own program: {error}")),
    };
    if !axrun.is_file() {
        let why = format!("the supervisor is missing: {} (it is installed beside axd)", axrun.display());
        return fail(ErrorClass::Unavailable, &why);
    }
    if let Err(why) = enter_zone(config_file.as_deref().unwrap_or(&paths.config)) {
        return fail(ErrorClass::Config, &why);
    }
    let places = (paths.socket(), paths.log.clone());
    let setup = Setup {
        paths,
        config_file,
        axrun,
        cards,
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
        Err(why) => fail(ErrorClass::Unavailable, &why.to_string()),
    }
}

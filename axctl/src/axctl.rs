//! The command `axctl`, for administrators. Checks and the database are the daemon's own business: its program,
//! beside this one, does them; this module only makes its command line.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode};

use ax_core::api::{ErrorClass, FileCheck, FileKind};
use ax_core::directive::{interpret, parse_script, print};
use ax_core::time::WallTime;
use clap::{Parser, Subcommand};

use crate::ax::explain;
use crate::client::Client;
use crate::connect;
use crate::diag;
use crate::failure::{Failure, finish};
use crate::shown::{plain, shown};
use crate::simulate;
use crate::stop;
use crate::submit::said;
use crate::when::{Clock, Zone};
use crate::world::{World, with_process};

/// Check and look after ax.
#[derive(Parser)]
#[command(name = "axctl", version, disable_help_subcommand = true, arg_required_else_help = false)]
pub struct Arguments {
    /// The daemon whose files lie under DIR (also AX_ROOT)
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a script, or a configuration (*.yaml), without a daemon
    Check {
        /// The file; without it the daemon's configuration
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// Stop the daemon; jobs go on without it
    Stop {
        /// End the running jobs too, and stop when they are over
        #[arg(long)]
        jobs: bool,
    },
    /// Run a workload through the scheduler, without machines, and say how it went
    #[command(arg_required_else_help = false)]
    Simulate(simulate::Arguments),
    /// Show how the scheduler fares: passes, queues, places that are kept, forecasts
    Diag(diag::Arguments),
    /// The database of jobs
    #[command(arg_required_else_help = false)]
    Db {
        #[command(subcommand)]
        command: Database,
    },
}

#[derive(Subcommand)]
enum Database {
    /// Copy the database while the daemon runs
    Backup {
        /// The copy
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// Check that the database is whole
    Check {
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print what happened and what was decided, as it was recorded
    Events(Events),
    /// Let an empty database go on with the numbers of a used spool
    Adopt {
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Events {
    /// At or after: today, yesterday, 7d (ago), 14:30, 2026-11-29, 2026-11-29T14:30
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Before
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// One JSON document: a list with an object an event
    #[arg(long)]
    json: bool,
}

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    with_process(|mut world| ExitCode::from(run(std::env::args_os().collect(), &mut world)))
}

/// Runs the command with these arguments, the program's name first, and returns its exit code.
pub fn run(arguments: Vec<OsString>, world: &mut World<'_>) -> u8 {
    let result = match Arguments::try_parse_from(arguments) {
        Ok(parsed) => dispatch(parsed, world),
        Err(error) => explain("axctl", &error, world),
    };
    finish("axctl", result, world.err)
}

fn dispatch(arguments: Arguments, world: &mut World<'_>) -> Result<u8, Failure> {
    let place = connect::find(arguments.root.as_deref(), &world.vars);
    let mut daemon = Daemon::new(arguments.root, world);
    match arguments.command {
        Command::Check { file: Some(file), json } if !is_configuration(&file) => {
            check_script(&file, json, world)
        }
        Command::Check { file, json } => {
            daemon.0.arg("--check").args(json.then_some("--json"));
            if let Some(file) = file {
                daemon.0.arg("--config").arg(file);
            }
            daemon.become_it()
        }
        Command::Stop { jobs } => stop::run(&Client::new(place), jobs, world),
        Command::Simulate(arguments) => arguments.run(world),
        Command::Diag(arguments) => arguments.run(&Client::new(place), world),
        Command::Db { command } => {
            let json = match command {
                Database::Backup { file, json } => {
                    daemon.0.arg("--db-backup").arg(file);
                    json
                }
                Database::Check { json } => {
                    daemon.0.arg("--db-check");
                    json
                }
                Database::Events(events) => {
                    events.ask(&mut daemon.0, world.now)?;
                    events.json
                }
                Database::Adopt { json } => {
                    daemon.0.arg("--db-adopt");
                    json
                }
            };
            daemon.0.args(json.then_some("--json"));
            daemon.become_it()
        }
    }
}

impl Events {
    /// The words for `axd`, which reads times in one form only.
    fn ask(&self, daemon: &mut Process, now: WallTime) -> Result<(), Failure> {
        let clock = Clock { now, zone: Zone::Local };
        daemon.arg("--db-events");
        for (option, text) in [("--from", &self.from), ("--to", &self.to)] {
            if let Some(text) = text {
                daemon.arg(option).arg(clock.read(text)?.to_string());
            }
        }
        Ok(())
    }
}

fn is_configuration(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The program `axd`, to be run in this one's place.
struct Daemon(Process);

impl Daemon {
    fn new(root: Option<PathBuf>, world: &World<'_>) -> Daemon {
        // The one of the same installation; only where there is none, that of the search path.
        let here = std::env::current_exe().ok().map(|path| path.with_file_name("axd"));
        let program = here.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("axd"));
        let mut process = Process::new(program);
        process.arg0("axctl");
        // Said as an option, or not at all: an empty variable means nothing here.
        process.env_remove("AX_ROOT");
        if let Some(root) = root.or_else(|| world.vars.get("AX_ROOT").map(PathBuf::from)) {
            process.arg("--root").arg(root);
        }
        Daemon(process)
    }

    /// Returns only if it can't.
    fn become_it(mut self) -> Result<u8, Failure> {
        let error: io::Error = self.0.exec();
        let program = self.0.get_program().to_string_lossy().into_owned();
        let line = format!("cannot run {program}: {}; is the daemon's package installed?", plain(&error));
        Err(Failure::said(ErrorClass::Unavailable, line))
    }
}

/// Reads a script as `axbatch` would, and shows what was understood.
fn check_script(file: &Path, json: bool, world: &mut World<'_>) -> Result<u8, Failure> {
    let name = file.display().to_string();
    let content = std::fs::read(file).map_err(|error| {
        Failure::said(ErrorClass::NoInput, format!("cannot read {name}: {}", plain(&error)))
    })?;
    if json {
        return document(&understood(name, &content), world);
    }
    let script = parse_script(&name, &content).map_err(said)?;
    let meaning = interpret(&[script.source()]).map_err(said)?;
    for note in script.warnings.iter().chain(&meaning.notes) {
        world.remark("axctl", &format!("warning: {note}"));
    }
    for line in print(&meaning.spec) {
        writeln!(world.out, "{}", shown(&line))?;
    }
    writeln!(world.out, "{}: a script that axbatch accepts", shown(&name))?;
    world.out.flush()?;
    Ok(0)
}

/// What is to be said of a script.
fn understood(file: String, content: &[u8]) -> FileCheck {
    let mut check = FileCheck {
        file,
        kind: FileKind::Script,
        exists: true,
        good: true,
        options: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let script = parse_script(&check.file, content);
    let meaning = script.and_then(|script| {
        check.warnings.extend(script.warnings.iter().map(ToString::to_string));
        interpret(&[script.source()])
    });
    match meaning {
        Ok(meaning) => {
            check.warnings.extend(meaning.notes.iter().map(ToString::to_string));
            check.options = print(&meaning.spec);
        }
        Err(error) => {
            check.good = false;
            check.errors.push(error.to_string());
        }
    }
    check
}

fn document(check: &FileCheck, world: &mut World<'_>) -> Result<u8, Failure> {
    serde_json::to_writer_pretty(&mut *world.out, check).map_err(io::Error::from)?;
    writeln!(world.out)?;
    world.out.flush()?;
    Ok(if check.good { 0 } else { ErrorClass::Data.exit_code() })
}

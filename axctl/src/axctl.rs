//! The command `axctl`: what administrators do. Checks and the database are the daemon's own
//! business: its program, beside this one, does them; here the words are found for it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode};

use ax_core::api::ErrorClass;
use ax_core::directive::{interpret, parse_script, print};
use clap::{Parser, Subcommand};

use crate::ax::explain;
use crate::failure::{Failure, finish};
use crate::shown::{plain, shown};
use crate::submit::said;
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
    },
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
    },
    /// Check that the database is whole
    Check,
    /// Let an empty database go on with the numbers of a used spool
    Adopt,
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
    let mut daemon = Daemon::new(arguments.root, world);
    match arguments.command {
        Command::Check { file: Some(file) } if !is_configuration(&file) => check_script(&file, world),
        Command::Check { file } => {
            daemon.0.arg("--check");
            if let Some(file) = file {
                daemon.0.arg("--config").arg(file);
            }
            daemon.become_it()
        }
        Command::Db { command } => {
            match command {
                Database::Backup { file } => daemon.0.arg("--db-backup").arg(file),
                Database::Check => daemon.0.arg("--db-check"),
                Database::Adopt => daemon.0.arg("--db-adopt"),
            };
            daemon.become_it()
        }
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
fn check_script(file: &Path, world: &mut World<'_>) -> Result<u8, Failure> {
    let name = file.display().to_string();
    let content = std::fs::read(file).map_err(|error| {
        Failure::said(ErrorClass::NoInput, format!("cannot read {name}: {}", plain(&error)))
    })?;
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

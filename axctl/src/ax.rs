//! The command `ax`: its subcommands, and the way from the arguments to the right one. What a subcommand does is in
//! `cmd`, one file each.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use ax_core::api::ErrorClass;
use ax_core::directive::Program;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::axrun;
use crate::client::Client;
use crate::cmd::{
    acct, act, cancel, completions, demo, eff, keep, logs, node, queue, reload, resource, status, submit,
    update, why,
};
use crate::connect;
use crate::failure::{Failure, finish};
use crate::session::Session;
use crate::shown::shown;
use crate::top;
use crate::when::{Clock, Zone};
use crate::world::{Screen, World, with_process};

/// Submit jobs, look at them and steer them.
#[derive(Parser)]
#[command(name = "ax", version, disable_help_subcommand = true, arg_required_else_help = false)]
#[command(next_display_order = 1, after_help = "axbatch submits scripts. See ax(1) for all of it.")]
pub struct Arguments {
    /// Talk to the daemon whose files lie under DIR (also AX_ROOT)
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Queue(queue::Arguments),
    Status(status::Arguments),
    Logs(logs::Arguments),
    Cancel(cancel::Arguments),
    Hold(act::Hold),
    Release(act::Release),
    Suspend(act::Suspend),
    Resume(act::Resume),
    Resolve(act::Resolve),
    Keep(keep::Keep),
    Checkpointed(keep::Checkpointed),
    Update(update::Arguments),
    Why(why::Arguments),
    Acct(acct::Arguments),
    Eff(eff::Arguments),
    Resource(resource::Arguments),
    Top(top::Arguments),
    Node(node::Arguments),
    Reload(reload::Arguments),
    Completions(completions::Arguments),
    Demo(demo::Arguments),
}

/// Runs the command with the arguments of this process: `ax`, or the one that its name means.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if axrun::is_meant(&arguments) {
        return axrun::main(&arguments);
    }
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let own_width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    with_process(|mut world| {
        let screen = Screen::new(terminal, own_width, &world.vars);
        ExitCode::from(run(arguments, &mut world, screen, Zone::Local))
    })
}

/// Runs the command with these arguments, the program's name first, and returns its exit code.
pub fn run(arguments: Vec<OsString>, world: &mut World<'_>, screen: Screen, zone: Zone) -> u8 {
    let result = if let Some((root, words)) = submit::words(&arguments) {
        crate::submit::run(Program::AxSubmit, words, root.as_deref(), world)
    } else {
        match parse(arguments) {
            Ok(parsed) => dispatch(parsed, world, screen, zone),
            Err(error) => explain("ax", &error, world),
        }
    };
    finish("ax", result, world.err)
}

fn parse(arguments: Vec<OsString>) -> Result<Arguments, clap::Error> {
    Arguments::from_arg_matches(&command().try_get_matches_from(arguments)?)
}

/// All of `ax`, as help and completion show it.
pub fn command() -> clap::Command {
    Arguments::command().subcommand(submit::described())
}

fn dispatch(arguments: Arguments, world: &mut World<'_>, screen: Screen, zone: Zone) -> Result<u8, Failure> {
    let place = connect::find(arguments.root.as_deref(), &world.vars);
    let clock = Clock { now: world.now, zone };
    let mut session = Session { world, client: Client::new(place), clock, screen };
    match arguments.command {
        Command::Queue(arguments) => arguments.run(&mut session),
        Command::Status(arguments) => arguments.run(&mut session),
        Command::Logs(arguments) => arguments.run(&mut session),
        Command::Cancel(arguments) => arguments.run(&mut session),
        Command::Hold(arguments) => arguments.run(&mut session),
        Command::Release(arguments) => arguments.run(&mut session),
        Command::Suspend(arguments) => arguments.run(&mut session),
        Command::Resume(arguments) => arguments.run(&mut session),
        Command::Resolve(arguments) => arguments.run(&mut session),
        Command::Keep(arguments) => arguments.run(&mut session),
        Command::Checkpointed(arguments) => arguments.run(&mut session),
        Command::Update(arguments) => arguments.run(&mut session),
        Command::Why(arguments) => arguments.run(&mut session),
        Command::Acct(arguments) => arguments.run(&mut session),
        Command::Eff(arguments) => arguments.run(&mut session),
        Command::Resource(arguments) => arguments.run(&mut session),
        Command::Top(arguments) => arguments.run(&mut session),
        Command::Node(arguments) => arguments.run(&mut session),
        Command::Reload(arguments) => arguments.run(&mut session),
        Command::Completions(arguments) => arguments.run(&mut session),
        Command::Demo(arguments) => arguments.run(&mut session),
    }
}

/// What will be there one day, as users know from the plans: told apart from what was mistyped.
const LATER: [(&str, &str); 14] = [
    ("ax", "alloc"),
    ("ax", "attach"),
    ("ax", "cron"),
    ("ax", "diff"),
    ("ax", "exec"),
    ("ax", "export"),
    ("ax", "notify"),
    ("ax", "report"),
    ("ax", "requeue"),
    ("ax", "rerun"),
    ("axctl", "doctor"),
    ("axctl", "node"),
    ("axctl", "reserve"),
    ("axctl", "token"),
];

/// The first of the subcommands that would have been right.
fn first_of(error: &clap::Error) -> &str {
    match error.get(ContextKind::ValidSubcommand) {
        Some(ContextValue::Strings(names)) => names.first().map_or("--help", String::as_str),
        _ => "--help",
    }
}

/// Help and version as asked for; anything else in one line: what is wrong, what may be meant, where help is.
pub(crate) fn explain(program: &str, error: &clap::Error, world: &mut World<'_>) -> Result<u8, Failure> {
    if error.exit_code() == 0 {
        world.out.write_all(error.render().to_string().as_bytes())?;
        world.out.flush()?;
        return Ok(0);
    }
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && LATER.contains(&(program, name))
    {
        return Err(Failure::said(ErrorClass::Refused, format!("'{program} {name}' is not supported yet")));
    }
    let text = error.render().to_string();
    let command = text.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or(program);
    let named = command.split(' ').take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    let command = named.collect::<Vec<_>>().join(" ");
    let mut parts: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let line = line.strip_prefix("error: ").or_else(|| line.strip_prefix("tip: ")).unwrap_or(line);
        if !line.is_empty() {
            parts.push(line);
        }
    }
    let mut line = parts.join("; ").replace(":; ", ": ");
    if error.kind() == ErrorKind::MissingSubcommand {
        line = format!("'{command}' needs to be told what to do, such as '{command} {}'", first_of(error));
    }
    Err(Failure::usage(format!("{}; see '{command} --help'", shown(&line))))
}

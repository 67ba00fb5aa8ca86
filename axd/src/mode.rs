//! The daemon's command line: which of several programs this process is to be.
//!
//! `axd` serves unless an option names something else. What may stand beside such an option is in one table, and
//! everything else is wrong usage: no mistake in a command line becomes a second daemon.

use std::ffi::OsString;
use std::path::PathBuf;

use ax_core::time::WallTime;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::card_limit::{self, CardWord};
use crate::cards::helper;
use crate::mps;
use crate::recorded::Wanted;

/// What a process of this program is.
#[derive(Debug)]
pub(crate) enum Mode {
    /// Limits what a control group has of cards, for a supervisor.
    LimitCards { deed: card_limit::Deed, library: Option<PathBuf>, group: PathBuf, cards: Vec<CardWord> },
    /// Starts or stops the MPS daemon of a card, for a supervisor.
    Mps { deed: mps::Deed, order: String },
    /// Unmounts what is at and below a folder, for whoever must not hang.
    Unmount { folder: PathBuf, busy: PathBuf },
    /// Asks the driver about cards, for the daemon.
    AskDriver(helper::Options),
    /// Works on the files below a root; without one on the system's, or on a user's own.
    AtPlace { root: Option<PathBuf>, deed: Deed },
}

/// What is done with the files of one place.
#[derive(Debug)]
pub(crate) enum Deed {
    /// The daemon itself.
    Serve { config: Option<PathBuf>, cards: bool },
    /// Checks a configuration.
    Check { config: Option<PathBuf>, json: bool },
    /// Copies the database into a new file.
    Backup { target: PathBuf, json: bool },
    /// Checks the whole database.
    CheckDatabase { json: bool },
    /// Lets an empty database go on with the numbers of a used spool.
    Adopt { json: bool },
    /// Prints the recorded events.
    Events(Wanted),
}

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
    #[arg(long)]
    check: bool,
    /// Copy the database into a new file and exit; the daemon may run
    #[arg(long, value_name = "FILE")]
    db_backup: Option<PathBuf>,
    /// Check the whole database and exit; the daemon may run
    #[arg(long)]
    db_check: bool,
    /// Let an empty database go on with the numbers of a used spool, and exit
    #[arg(long)]
    db_adopt: bool,
    /// Print the recorded events and exit; the daemon may run
    #[arg(long)]
    db_events: bool,
    /// Limit what the processes of a control group have of cards, for a supervisor, and exit
    #[arg(long, value_name = "DEED", hide = true)]
    nvml_limit: Option<card_limit::Deed>,
    /// A card, and what the group has of it
    #[arg(long = "card", value_name = "UUID=MB", hide = true)]
    limit_cards: Vec<CardWord>,
    /// Start or stop the MPS daemon of a card, for a supervisor, and exit
    #[arg(long, value_name = "DEED", hide = true)]
    mps: Option<mps::Deed>,
    /// What is to be known of it
    #[arg(long, value_name = "JSON", hide = true)]
    order: Option<String>,
    /// Unmount what is at and below a folder of the daemon's, for whoever must not hang, and exit
    #[arg(long, value_name = "DIR", hide = true)]
    unmount: Option<PathBuf>,
    /// A file that is locked until that is done
    #[arg(long, value_name = "FILE", hide = true)]
    busy: Option<PathBuf>,
    /// Only events at or after this time, such as 2026-11-29T15:32:14Z
    #[arg(long, value_name = "TIME")]
    from: Option<WallTime>,
    /// Only events before this time
    #[arg(long, value_name = "TIME")]
    to: Option<WallTime>,
    /// One JSON document; for what is done instead of serving
    #[arg(long)]
    json: bool,
    /// Ask the driver about the cards, for the daemon, which starts this
    #[arg(long, hide = true)]
    nvml: bool,
    /// The library of the driver
    #[arg(long, value_name = "PATH", hide = true)]
    library: Option<PathBuf>,
    /// A folder below which attempts have their control groups; or the group to be limited
    #[arg(long, value_name = "DIR", hide = true)]
    group: Vec<PathBuf>,
}

/// The options that name what is done instead of serving, and all that may stand beside each.
const INSTEAD: &[(&str, &[&str])] = &[
    ("check", &["root", "config", "json"]),
    ("db-backup", &["root", "json"]),
    ("db-check", &["root", "json"]),
    ("db-adopt", &["root", "json"]),
    ("db-events", &["root", "from", "to", "json"]),
    ("nvml-limit", &["group", "library", "card"]),
    ("mps", &["order"]),
    ("unmount", &["busy"]),
    ("nvml", &["group", "library"]),
];

/// What may be said to the daemon that serves.
const SERVING: &[&str] = &["root", "config", "no-cards"];

impl Mode {
    /// What these arguments say, the program's name first. Help and version are errors, as clap has it.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Mode, clap::Error> {
        let mut command = Arguments::command();
        let matches = command.try_get_matches_from_mut(words)?;
        if let Some(why) = out_of_place(&command, &matches) {
            return Err(command.error(ErrorKind::ArgumentConflict, why));
        }
        let arguments = Arguments::from_arg_matches(&matches)?;
        arguments.mode().map_err(|why| command.error(ErrorKind::MissingRequiredArgument, why))
    }
}

/// What is wrong with the options that stand together, if anything is.
fn out_of_place(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let options = command.get_arguments().filter(|option| typed(option.get_id().as_str()));
    let mut given: Vec<&str> = options.filter_map(clap::Arg::get_long).collect();
    let instead = INSTEAD.iter().find(|(name, _)| given.contains(name));
    let beside = instead.map_or(SERVING, |(_, beside)| beside);
    given.retain(|name| !beside.contains(name) && instead.is_none_or(|(own, _)| own != name));
    let stranger = given.first()?;
    Some(match instead {
        Some((own, _)) => format!("--{stranger} cannot be used with --{own}"),
        None => {
            let with = INSTEAD.iter().filter(|(_, beside)| beside.contains(stranger));
            let with: Vec<String> = with.map(|(name, _)| format!("--{name}")).collect();
            format!("--{stranger} goes with {} only", with.join(", "))
        }
    })
}

impl Arguments {
    /// Each option was found to be in its place; whether enough of them are there shows here.
    fn mode(self) -> Result<Mode, String> {
        if let Some(deed) = self.nvml_limit {
            let one: Result<[PathBuf; 1], _> = self.group.try_into();
            let [group] = one.map_err(|_| "--nvml-limit needs one --group DIR".to_owned())?;
            return Ok(Mode::LimitCards { deed, library: self.library, group, cards: self.limit_cards });
        }
        if let Some(deed) = self.mps {
            let order = self.order.ok_or("--mps needs --order JSON")?;
            return Ok(Mode::Mps { deed, order });
        }
        if let Some(folder) = self.unmount {
            let busy = self.busy.ok_or("--unmount needs --busy FILE")?;
            return Ok(Mode::Unmount { folder, busy });
        }
        if self.nvml {
            return Ok(Mode::AskDriver(helper::Options { library: self.library, groups: self.group }));
        }
        let root = self.root.clone();
        Ok(Mode::AtPlace { root, deed: self.deed() })
    }

    fn deed(self) -> Deed {
        let json = self.json;
        match self.db_backup {
            Some(target) => Deed::Backup { target, json },
            None if self.check => Deed::Check { config: self.config, json },
            None if self.db_check => Deed::CheckDatabase { json },
            None if self.db_adopt => Deed::Adopt { json },
            None if self.db_events => Deed::Events(Wanted { from: self.from, to: self.to, json }),
            None => Deed::Serve { config: self.config, cards: !self.no_cards },
        }
    }
}

#[cfg(test)]
mod tests;

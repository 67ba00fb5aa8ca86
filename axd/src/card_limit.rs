//! The NVIDIA driver's memory limit on jobs' control groups: whether it can be relied on, the command lines with
//! which supervisors use it, and the process behind these. Calls of the driver may hang, so all of them are made in
//! short-lived processes with a deadline.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ax_core::gpu::Grant;
use ax_core::record::CardLimits;
use ax_core::time::Span;
use ax_sys::card_limit::{CardLimit, LimitCalls, LimitError};
use ax_sys::nvml::{NvmlError, Session};
use ax_sys::process::{ErrandError, errand};
use thiserror::Error;

/// How long setting or taking away the limits of a job may take: a driver that has to be loaded needs seconds.
const PATIENCE: Span = Span::seconds(10);

/// How long trying all cards out may take, at the start of the daemon.
const TRIAL_PATIENCE: Duration = Duration::from_secs(10);

/// What such a process is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Deed {
    /// Limits the group on each card.
    Set,
    /// Takes the limits away.
    Clear,
    /// Try on each card whether limits work, with a group made for this purpose.
    Try,
}

/// One of its cards: `UUID`, or `UUID=MB`: the group has so many megabytes of it for certain, and never more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CardWord {
    uuid: String,
    limit: CardLimit,
}

impl FromStr for CardWord {
    type Err = String;

    fn from_str(text: &str) -> Result<CardWord, String> {
        let Some((uuid, limit)) = text.split_once('=') else {
            return Ok(CardWord { uuid: text.to_owned(), limit: CardLimit::NONE });
        };
        let bytes = limit.parse::<u64>().ok().and_then(|mb| mb.checked_mul(1 << 20));
        let bytes = bytes.ok_or_else(|| format!("'{text}' is not UUID=MB"))?;
        Ok(CardWord { uuid: uuid.to_owned(), limit: CardLimit { soft: bytes, hard: bytes } })
    }
}

/// The option before each card of a command line.
const CARD: &str = "--card";

/// The words for one process. They are records of root's, and never the job's.
fn words(axd: &Path, deed: &str, library: Option<&Path>, group: &Path, cards: Vec<String>) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let library = library.into_iter().flat_map(|path| ["--library".to_owned(), text(path)]);
    let cards = cards.into_iter().flat_map(|card| [CARD.to_owned(), card]);
    let deed = [text(axd), "--nvml-limit".to_owned(), deed.to_owned()];
    deed.into_iter().chain(["--group".to_owned(), text(group)]).chain(library).chain(cards).collect()
}

/// The command lines for a job: the cards that the driver limits, with what the job may have of them.
pub(crate) fn command_lines(
    axd: &Path,
    library: Option<&Path>,
    group: &Path,
    grants: &[Grant],
) -> Option<CardLimits> {
    if grants.is_empty() {
        return None;
    }
    let limit = |grant: &Grant| format!("{}={}", grant.uuid, grant.mem.0);
    let set = words(axd, "set", library, group, grants.iter().map(limit).collect());
    let clear = words(axd, "clear", library, group, grants.iter().map(|g| g.uuid.clone()).collect());
    Some(CardLimits { set, clear, patience: PATIENCE })
}

/// The cards on which a job's group is limited by its supervisor's command line; it may be another one, that limits none.
pub(crate) fn limited(limits: &CardLimits) -> impl Iterator<Item = &str> {
    let words = limits.set.iter().zip(limits.set.iter().skip(1));
    let cards = words.filter(|(option, _)| *option == CARD).filter_map(|(_, word)| word.split_once('='));
    cards.map(|(uuid, _)| uuid)
}

/// Where the driver looks for the unified tree of control groups.
const TOP: &str = "/sys/fs/cgroup";

/// Why the driver can't find the groups of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum NoUnifiedTree {
    #[error("control groups of version 1 are in use here, too")]
    VersionOne,
    #[error("the unified tree of control groups is not at {}", TOP)]
    Elsewhere,
}

/// Where the driver can find groups: the unified tree, at the place where it looks.
pub(crate) fn unified_parent(parents: &[String]) -> Result<PathBuf, NoUnifiedTree> {
    let [parent] = parents else { return Err(NoUnifiedTree::VersionOne) };
    let path = parent.strip_prefix("unified:").map(PathBuf::from);
    let path = path.filter(|path| path.starts_with(TOP) && path.as_path() != Path::new(TOP));
    path.ok_or(NoUnifiedTree::Elsewhere)
}

/// Tries whether the driver limits cards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prober {
    /// The daemon's own program.
    pub(crate) axd: PathBuf,
    /// NVML, where it is not in its usual place.
    pub(crate) library: Option<PathBuf>,
    /// Where jobs have their groups.
    pub(crate) parents: Vec<String>,
}

/// The result by card: it limits it, or why not.
pub(crate) type Tried = BTreeMap<String, Result<(), String>>;

/// How many groups were made to try cards with.
static TRIALS: AtomicU32 = AtomicU32::new(0);

/// Which of these cards the driver limits; of the others why not.
pub(crate) fn probe(prober: &Prober, cards: &[String]) -> Tried {
    let Prober { axd, library, parents } = prober;
    let all = |why: String| cards.iter().map(|card| (card.clone(), Err(why.clone()))).collect();
    let scratch = match unified_parent(parents) {
        // Two may be tried at a time.
        Ok(parent) => {
            let number = TRIALS.fetch_add(1, Ordering::Relaxed);
            parent.join(format!("limit-trial-{}-{number}", std::process::id()))
        }
        Err(why) => return all(why.to_string()),
    };
    if let Err(error) = std::fs::create_dir(&scratch) {
        return all(format!("making {}: {error}", scratch.display()));
    }
    let ran = errand(&words(axd, "try", library.as_deref(), &scratch, cards.to_vec()), TRIAL_PATIENCE);
    let (printed, why) = match ran {
        Ok(printed) => (printed, "nothing was said of it".to_owned()),
        Err(ErrandError::Refused { said, printed }) => (printed, said),
        Err(error @ ErrandError::Late { .. }) => {
            let why = format!("the driver does not answer: {error}");
            let ErrandError::Late { printed, .. } = error else { return all(why) };
            (printed, why)
        }
        Err(error) => (String::new(), error.to_string()),
    };
    let _ = std::fs::remove_dir(&scratch);
    let found = |card: &String| {
        let line = printed.lines().find_map(|line| line.strip_prefix(card.as_str())?.strip_prefix(' '));
        match line {
            Some("works") => Ok(()),
            Some(other) => Err(other.to_owned()),
            None => Err(why.clone()),
        }
    };
    cards.iter().map(|card| (card.clone(), found(card))).collect()
}

/// The process behind a command line.
pub(crate) fn run(deed: Deed, library: Option<&Path>, group: &Path, cards: &[CardWord]) -> ExitCode {
    let done = match Session::open(library) {
        Ok(session) => act(deed, &session, group, cards),
        // A driver that is gone limits nothing any more.
        Err(NvmlError::Absent { .. } | NvmlError::NoDriver(_)) if deed == Deed::Clear => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn act(deed: Deed, session: &Session, group: &Path, cards: &[CardWord]) -> Result<(), String> {
    let calls = match LimitCalls::of(session) {
        Ok(calls) => calls,
        // Nor does one that has been replaced by an older one.
        Err(LimitError::TooOld) if deed == Deed::Clear => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    match deed {
        Deed::Set => cards
            .iter()
            .try_for_each(|card| calls.set(&card.uuid, group, card.limit))
            .map_err(|error| error.to_string()),
        Deed::Clear => {
            // As many as can be: one card that refuses must not keep the others.
            let refused = cards.iter().filter_map(|card| calls.clear(&card.uuid, group).err());
            let refused: Vec<String> = refused.map(|error| error.to_string()).collect();
            if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
        }
        Deed::Try => cards.iter().try_for_each(|card| {
            let said = match calls.try_out(&card.uuid, group) {
                Ok(()) => "works".to_owned(),
                Err(error) => error.to_string().replace('\n', " "),
            };
            let mut out = std::io::stdout().lock();
            // At once: the next card may hang.
            writeln!(out, "{} {said}", card.uuid).and_then(|()| out.flush()).map_err(|e| e.to_string())
        }),
    }
}

#[cfg(test)]
mod tests {
    use ax_core::size::Megabytes;

    use super::*;

    #[test]
    fn what_a_supervisor_is_told_is_what_the_process_understands() {
        let (axd, group) = (Path::new("/usr/sbin/axd"), Path::new("/sys/fs/cgroup/ax-1/ax-2026-0007.3"));
        let library = Path::new("/opt/libnvidia-ml.so.1");
        let grant = Grant { uuid: "GPU-a".to_owned(), mem: Megabytes(20_480) };
        let limits = command_lines(axd, Some(library), group, &[grant]).unwrap();
        let expected = "/usr/sbin/axd --nvml-limit set --group /sys/fs/cgroup/ax-1/ax-2026-0007.3 \
            --library /opt/libnvidia-ml.so.1 --card GPU-a=20480";
        assert_eq!(limits.set.join(" "), expected);
        let card: CardWord = limits.set.last().unwrap().parse().unwrap();
        assert_eq!(card.limit, CardLimit { soft: 20_480 << 20, hard: 20_480 << 20 });
        let card: CardWord = limits.clear.last().unwrap().parse().unwrap();
        assert_eq!((card.uuid.as_str(), card.limit), ("GPU-a", CardLimit::NONE));
        assert_eq!(command_lines(axd, None, group, &[]), None);
    }

    #[test]
    fn odd_words_are_refused() {
        for text in
            ["GPU-a=", "GPU-a=-1", "GPU-a=1x", "GPU-a=99999999999999999999", "GPU-a=18446744073709551615"]
        {
            assert!(text.parse::<CardWord>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_unified_tree_alone_will_do() {
        let parent =
            |lines: &[&str]| unified_parent(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(parent(&["unified:/sys/fs/cgroup/ax-1"]).unwrap(), Path::new("/sys/fs/cgroup/ax-1"));
        assert!(
            parent(&["unified:/sys/fs/cgroup/unified/ax-1", "memory:/sys/fs/cgroup/memory/ax-1"]).is_err()
        );
        assert!(parent(&["memory:/sys/fs/cgroup/memory/ax-1"]).is_err());
        assert!(parent(&["unified:/mnt/cgroup/ax-1"]).is_err());
        assert!(parent(&[]).is_err());
    }
}

//! `axd --nvml`: the process that asks the driver, so that a driver that hangs delays nothing else. It looks when
//! asked and tells what it has seen. Before each call of the library it writes down the call and the card, so that a
//! hang can be blamed; after it, that the call has returned. It ends with the daemon.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ax_core::gpu::holders::DRIVERS;
use ax_core::gpu::{CardSeen, Hardware, HolderSeen, Mig};
use ax_core::size::Megabytes;
use ax_sys::nvml::{self, Card, CardState, Device, Event, Events, NvmlError, Session};
use ax_sys::seqpacket::{self, Incoming};
use ax_sys::signals::Signal;
use ax_sys::socket;
use ax_sys::{clock, process};

use super::holders;
use super::message::{Ask, Found, LONGEST_TOLD, Look, Tell};
use super::openers::Openers;

/// The descriptors that it is started with.
pub(super) const SOCKET: i32 = 3;
pub(super) const MARK: i32 = 4;

/// Length of the mark: before each call its name, the card and the time, each ended by NUL; after the call, nothing.
pub(super) const MARK_LENGTH: usize = 256;

/// Longer than any question.
const LONGEST: usize = 64 << 10;

/// More cards than any machine has: a library that finds more is not believed.
const MOST_CARDS: u32 = 256;

const A_DAY: Duration = Duration::from_secs(86_400);

/// Errors that are fetched at once; the rest is fetched the next time.
const MOST_EVENTS: usize = 1000;

/// What it is told on its command line.
#[derive(Debug)]
pub(crate) struct Options {
    /// The library; `None`: the one that the loader finds.
    pub(crate) library: Option<PathBuf>,
    /// Folders of the control groups below which each attempt has its own.
    pub(crate) groups: Vec<PathBuf>,
}

/// Runs until the daemon has gone.
pub(crate) fn run(options: &Options) -> ExitCode {
    // Its parent may be dead already: then the socket says so.
    let _ = process::set_parent_death_signal(Signal::KILL);
    let _ = process::set_name("axd-nvml");
    let (Some(socket), Ok(mark)) =
        (seqpacket::inherited(SOCKET), File::options().write(true).open(format!("/proc/self/fd/{MARK}")))
    else {
        eprintln!("axd: --nvml is for the daemon, which starts it");
        return ExitCode::from(2);
    };
    let daemon = Daemon(socket);
    let Some(first) = daemon.next() else { return ExitCode::SUCCESS };
    let session =
        match Session::open_told(options.library.as_deref(), move |call, card| set(&mark, call, card)) {
            Ok(session) => session,
            Err(error @ NvmlError::Absent { .. }) => return daemon.last(&Tell::Absent(error.to_string())),
            Err(error) => return daemon.last(&Tell::Failed(error.to_string())),
        };
    let mut cards = Cards {
        session: &session,
        heard: Vec::new(),
        found: Vec::new(),
        groups: &options.groups,
        openers: RefCell::new(Openers::default()),
        apart: !process::has_the_machines_numbers(),
    };
    let mut asked = Some(first);
    while let Some(ask) = asked {
        let done = match ask.look {
            Look::Inventory => cards.inventory(&daemon, &ask.except),
            Look::Sample => cards.sample(&daemon, &ask.except),
        };
        daemon.tell(&done.map_or_else(|error| Tell::Failed(error.to_string()), |()| Tell::Done));
        asked = daemon.next();
    }
    ExitCode::SUCCESS
}

/// Writes down the next call. A reader that comes in between sees the old mark, the new one, or nothing that it
/// knows.
fn set(mark: &File, call: &str, card: &str) {
    let mut text = [0; MARK_LENGTH];
    let since = if call.is_empty() { String::new() } else { clock::boot_ms().to_string() };
    let bytes = call.bytes().chain([0]).chain(card.bytes()).chain([0]).chain(since.bytes());
    text.iter_mut().zip(bytes.take(MARK_LENGTH - 1)).for_each(|(place, byte)| *place = byte);
    // Without the mark, a hang is blamed on no card.
    let _ = mark.write_all_at(&text, 0);
}

/// The other end.
struct Daemon(OwnedFd);

impl Daemon {
    /// The next question; `None` if the daemon has gone or makes no sense.
    fn next(&self) -> Option<Ask> {
        let mut buffer = vec![0; LONGEST];
        loop {
            match seqpacket::receive_within(&self.0, &mut buffer, A_DAY) {
                Incoming::Nothing => {}
                Incoming::Message(length) => return serde_json::from_slice(buffer.get(..length)?).ok(),
                Incoming::TooLong | Incoming::Closed => return None,
            }
        }
    }

    fn tell(&self, tell: &Tell) {
        let mut shorter = None;
        loop {
            let tell = shorter.as_ref().unwrap_or(tell);
            let Ok(text) = serde_json::to_vec(tell) else { return };
            let fits = text.len() <= LONGEST_TOLD
                && !socket::send(&self.0, &text, &[]).is_err_and(|error| error.is_too_long());
            // If the daemon has gone, that is noticed at the next question.
            if fits {
                return;
            }
            let Some(next) = tell.shorter() else { return };
            shorter = Some(next);
        }
    }

    fn last(&self, tell: &Tell) -> ExitCode {
        self.tell(tell);
        ExitCode::SUCCESS
    }
}

/// What has been found.
struct Cards<'s> {
    session: &'s Session,
    /// Whole cards that were found, each with its errors as they are reported, or why they are not.
    heard: Vec<(String, Result<Events<'s>, String>)>,
    found: Vec<(Device<'s>, Card)>,
    groups: &'s [PathBuf],
    openers: RefCell<Openers>,
    /// Process numbers here are not the machine's.
    apart: bool,
}

impl<'s> Cards<'s> {
    fn inventory(&mut self, daemon: &Daemon, except: &[String]) -> Result<(), NvmlError> {
        self.found.clear();
        self.heard.clear();
        let mut whole = Vec::new();
        for number in 0..self.session.count()?.min(MOST_CARDS) {
            let label = format!("#{number}");
            if except.contains(&label) {
                continue;
            }
            let device = match self.session.at(number) {
                Ok(device) => device,
                Err(error) => {
                    daemon.tell(&unseen(&label, &error));
                    continue;
                }
            };
            daemon.tell(&Tell::Named { number, card: device.uuid().to_owned() });
            if except.iter().any(|card| card == device.uuid()) {
                continue;
            }
            // As early as can be: what is reported before is not heard.
            let events = device.events().map_err(|error| error.to_string());
            self.heard.push((device.uuid().to_owned(), events));
            match self.one(daemon, number, &device) {
                Ok(card) => whole.push((device, card)),
                Err(error) => daemon.tell(&unseen(device.uuid(), &error)),
            }
        }
        self.links(daemon, &whole);
        Ok(())
    }

    /// Finds out about one card and its parts.
    fn one(&mut self, daemon: &Daemon, number: u32, device: &Device<'s>) -> Result<Card, NvmlError> {
        let card = device.card()?;
        let divided = device.is_divided()?;
        let parts = if divided { device.parts(&card)? } else { Vec::new() };
        daemon.tell(&Tell::Found(Box::new(found(number, &card, divided))));
        if !divided {
            self.found.push((device.clone(), card.clone()));
        }
        for (device, part) in parts {
            daemon.tell(&Tell::Found(Box::new(found(number, &part, false))));
            self.found.push((device, part));
        }
        Ok(card)
    }

    fn links(&self, daemon: &Daemon, whole: &[(Device<'s>, Card)]) {
        // A card that does not tell its links has none that matter; if the card is lost, the next look says so.
        let lanes: Vec<_> = whole.iter().map(|(device, _)| device.lanes().unwrap_or_default()).collect();
        let all: Vec<_> =
            whole.iter().zip(&lanes).map(|((_, card), l)| (card.pci.as_str(), l.as_slice())).collect();
        for (own, (_, card)) in whole.iter().enumerate() {
            let links: Vec<_> = nvml::peers(own, &all)
                .into_iter()
                .map(|(other, lanes)| (whole[other].1.uuid.clone(), lanes))
                .collect();
            if !links.is_empty() {
                daemon.tell(&Tell::Linked { uuid: card.uuid.clone(), links });
            }
        }
    }

    fn sample(&self, daemon: &Daemon, except: &[String]) -> Result<(), NvmlError> {
        self.errors(daemon, except);
        for (device, card) in &self.found {
            let whole = card.part.as_ref().map_or(&card.uuid, |part| &part.parent);
            if except.iter().any(|each| *each == card.uuid || each == whole) {
                continue;
            }
            daemon.tell(&match device.state() {
                Ok(state) => Tell::Seen(Box::new(self.seen(card, state))),
                Err(error) => unseen(&card.uuid, &error),
            });
        }
        // A process that listens later does not hear of anything that was reported before.
        self.errors(daemon, except);
        Ok(())
    }

    /// In a container a driver lists processes by its numbers or by the machine's, and may not find their memory: they
    /// are believed if each of them is here and has the card open, and together they account for what is in use.
    fn are_plausible(&self, card: &Card, used: Megabytes, holders: &[HolderSeen]) -> bool {
        let known: Option<Megabytes> = holders.iter().map(|holder| holder.used).sum();
        let near = known.is_some_and(|known| known - used <= DRIVERS && used - known <= DRIVERS);
        let open = |holder: &HolderSeen| {
            let has = |minor| self.openers.borrow_mut().has(minor, holder.pid);
            holder.start_ticks.is_some()
                && holder.used != Some(Megabytes::ZERO)
                && card.minor.is_some_and(has)
        };
        near && holders.iter().all(open)
    }

    /// Processes that have a card open and are not listed, if memory is in question: a listed process has ended, or
    /// more memory is unexplained than the driver may need.
    fn openers(&self, card: &Card, used: Megabytes, holders: &[HolderSeen]) -> Vec<HolderSeen> {
        let known: Option<Megabytes> = holders.iter().map(|holder| holder.used).sum();
        let unexplained = known.is_some_and(|known| used - known > DRIVERS);
        let asked = unexplained || holders.iter().any(has_ended);
        let Some(minor) = card.minor.filter(|_| asked) else { return Vec::new() };
        let listed: Vec<i32> = holders.iter().map(|holder| holder.pid).collect();
        holders::openers(&self.openers.borrow_mut().of(minor, &listed), self.groups)
    }

    fn errors(&self, daemon: &Daemon, except: &[String]) {
        for (card, events) in self.heard.iter().filter(|(card, _)| !except.contains(card)) {
            let heard = match events {
                Ok(events) => tell_errors(daemon, card, events).map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            if let Err(why) = heard {
                daemon.tell(&Tell::Deaf { card: card.clone(), why });
            }
        }
    }

    fn seen(&self, card: &Card, state: CardState) -> CardSeen {
        let mut listed = state.holders.is_some();
        let mut holders = holders::describe(&state.holders.unwrap_or_default(), self.groups);
        // Where the driver does not say it, as much as is known of processes.
        let known = || holders.iter().filter_map(|holder| holder.used).sum();
        let used = state.memory.map_or_else(known, |memory| Megabytes::from_bytes(memory.used));
        if self.apart && !self.are_plausible(card, used, &holders) {
            (listed, holders) = (false, Vec::new());
        }
        let openers = self.openers(card, used, &holders);
        let keeper = holders::keeper(&openers);
        holders.iter_mut().filter(|holder| has_ended(holder)).for_each(|holder| holder.keeper = keeper);
        CardSeen {
            uuid: card.uuid.clone(),
            used,
            free: state.memory.map_or(Megabytes::ZERO, |memory| Megabytes::from_bytes(memory.free)),
            holders: listed.then_some(holders),
            openers,
            load: state.utilization,
            temperature: state.temperature,
            power_mw: state.power_mw,
            ecc_uncorrected: state.ecc_uncorrected,
            retirement_pending: state.retirement_pending,
            recovery: state.recovery.and_then(in_words),
        }
    }
}

/// Each is told as soon as it is fetched: there it is gone, and the next call may hang.
fn tell_errors(daemon: &Daemon, card: &str, events: &Events<'_>) -> Result<(), NvmlError> {
    for _ in 0..MOST_EVENTS {
        let Some(Event { gpu_instance, xid }) = events.next()? else { break };
        daemon.tell(&Tell::Xid { card: card.to_owned(), gpu_instance, xid });
    }
    Ok(())
}

/// It is listed, and can't be looked at any more.
fn has_ended(holder: &HolderSeen) -> bool {
    holder.pid > 0 && holder.start_ticks.is_none()
}

fn unseen(card: &str, error: &NvmlError) -> Tell {
    Tell::Unseen { card: card.to_owned(), why: error.to_string() }
}

fn found(number: u32, card: &Card, divided: bool) -> Found {
    let part = |part: &nvml::Part| Mig {
        parent: part.parent.clone(),
        gpu_instance: part.gpu_instance,
        compute_instance: part.compute_instance,
    };
    Found {
        number,
        uuid: card.uuid.clone(),
        mem: card.memory_bytes.map_or(Megabytes::ZERO, Megabytes::from_bytes),
        divided,
        profile: card.profile().map(str::to_owned),
        hardware: Hardware {
            name: Some(card.name.clone()),
            pci: Some(card.pci.clone()),
            minor: card.minor,
            numa: nvml::numa_node(Path::new("/sys"), &card.pci),
            mig: card.part.as_ref().map(part),
            ..Hardware::default()
        },
    }
}

/// NVIDIA's numbers of recovery actions.
fn in_words(action: u32) -> Option<String> {
    let words: BTreeMap<u32, &str> = BTreeMap::from([
        (1, "reset the card"),
        (2, "reboot the machine"),
        (3, "let all jobs on cards that are linked to it end, then reset it"),
        (4, "let its jobs end, then reset it"),
        (5, "reset it by its bus"),
    ]);
    match action {
        0 => None,
        known => Some(words.get(&known).map_or_else(|| format!("action {known}"), |text| (*text).to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_a_message_is_told_shorter_and_no_memory_is_lost() {
        let holder = |pid| HolderSeen {
            pid,
            start_ticks: Some(7),
            used: Some(Megabytes(3)),
            command: Some("x".repeat(200)),
            ..HolderSeen::default()
        };
        let card = CardSeen {
            uuid: "GPU-a".to_owned(),
            holders: Some((1..=5000).map(holder).collect()),
            ..CardSeen::default()
        };
        let (ours, theirs) = socket::message_pair().unwrap();
        let daemon = Daemon(theirs);
        let mut buffer = vec![0; 2 * LONGEST_TOLD];
        let mut told = |tell: &Tell| {
            daemon.tell(tell);
            match seqpacket::receive(&ours, &mut buffer) {
                Incoming::Message(length) => serde_json::from_slice(&buffer[..length]).unwrap(),
                other => panic!("{other:?}"),
            }
        };
        let Tell::Seen(seen) = told(&Tell::Seen(Box::new(card))) else { panic!("something else") };
        let sum: u64 = seen.listed().iter().filter_map(|holder| holder.used).map(|used| used.0).sum();
        assert_eq!((sum, seen.listed().last().unwrap().pid), (15_000, 0));
        assert!(seen.listed().len() > 100 && seen.listed()[0].pid == 1, "{}", seen.listed().len());
        let why = "y".repeat(1 << 20);
        let unseen = told(&Tell::Unseen { card: "GPU-a".to_owned(), why });
        let Tell::Unseen { card, why } = unseen else { panic!("something else") };
        assert_eq!(card, "GPU-a");
        assert!(why.ends_with("y … (cut)"), "{}", why.len());
    }

    #[test]
    fn what_is_recommended_has_words() {
        assert_eq!(in_words(0), None);
        assert_eq!(in_words(1).as_deref(), Some("reset the card"));
        assert_eq!(in_words(9).as_deref(), Some("action 9"));
    }
}

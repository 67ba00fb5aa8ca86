//! The device fence of attempts on this machine: whether it works here, which is tried once, and for each start the
//! kernel's device numbers, which may change whenever a driver is loaded. Runs on the launching thread. Without cards
//! nothing is read or tried.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ax_core::config::FenceMode;
use ax_core::gpu::fence::{CARDS, DeviceRule, Devices, one_by_one, others, rules};
use ax_core::node::{Allocation, Card};
use ax_sys::cgroup::device_filter::{self, DeviceFilter};
use ax_sys::cgroup::{JobGroup, Limits, Place};
use thiserror::Error;

/// The group that is made to try it. No attempt has such a name.
const TRIAL: &str = "fence-trial";

/// A fence that can't be had is tried again with the next start, but not for each of many.
const AGAIN: Duration = Duration::from_secs(1);

/// NVIDIA, on the bus.
const VENDOR: &str = "0x10de";

/// The means by which a fence can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Programs of the kernel's in the unified tree.
    Unified,
    /// Control groups of version 1.
    Legacy,
    /// It can't be had, and why.
    None(String),
}

/// The fence of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fence {
    /// For its supervisor; empty: there is none.
    pub rules: Vec<DeviceRule>,
    /// Why there is none where there should be one, or one with gaps.
    pub absent: Option<String>,
}

impl Fence {
    /// True if the job can open no cards but its own.
    pub(crate) fn is_whole(&self) -> bool {
        !self.rules.is_empty() && self.absent.is_none()
    }

    /// True if it can't open the known cards of others, but perhaps some that are not known.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.rules.is_empty() && self.absent.is_some()
    }
}

/// What was found out about the means; a failure may be temporary.
#[derive(Debug, Default)]
pub(crate) struct Tried(Option<(Ground, Instant)>);

impl Tried {
    /// Returns what is known; tries it if nothing is, or if it failed some time ago.
    pub(crate) fn ground(&mut self, parents: &[String]) -> &Ground {
        let stale = |tried: &Ground, at: &Instant| matches!(tried, Ground::None(_)) && at.elapsed() >= AGAIN;
        if self.0.as_ref().is_none_or(|(tried, at)| stale(tried, at)) {
            self.0 = None;
        }
        &self.0.get_or_insert_with(|| (Ground::try_out(parents), Instant::now())).0
    }
}

impl Ground {
    /// Fences off a group below these parents of jobs' groups, and removes it.
    pub(crate) fn try_out(parents: &[String]) -> Ground {
        if parents.is_empty() {
            return Ground::None("jobs have no control groups here".to_owned());
        }
        match trial(parents) {
            Ok(ground) => ground,
            Err(error) => Ground::None(error.to_string()),
        }
    }
}

fn trial(parents: &[String]) -> ax_sys::Result<Ground> {
    let (hierarchy, place) = Place::from_record(parents)?;
    // One that a daemon left which was killed here.
    if let Some(left) = JobGroup::find(&hierarchy, &place, TRIAL) {
        left.remove()?;
    }
    let limits = Limits { devices: true, ..Limits::default() };
    let group = JobGroup::create(&hierarchy, &place, TRIAL, &limits)?;
    let rule = device_filter::DeviceRule::deny(CARDS, None);
    let tried = DeviceFilter::load(&hierarchy, &[rule]).and_then(|filter| filter.attach(&group));
    // One that can't be removed now is found by the next trial.
    let _ = group.remove();
    tried?;
    Ok(if hierarchy.unified().is_some() { Ground::Unified } else { Ground::Legacy })
}

/// True if there is anything to fence off.
pub(crate) fn is_wanted(mode: FenceMode, cards: &[Card]) -> bool {
    !cards.is_empty() && mode != FenceMode::Off
}

/// Why an attempt can't have the fence that it must have.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("other cards can't be fenced off, and resources.gpu_fence requires it: {why}")]
pub(crate) struct Unfenced {
    why: String,
}

/// The fence of an attempt that holds these of this machine's cards.
///
/// # Errors
/// Where one is required and can't be had.
pub(crate) fn of_attempt(
    mode: FenceMode,
    ground: &Ground,
    cards: &[Card],
    held: &Allocation,
) -> Result<Fence, Unfenced> {
    if !is_wanted(mode, cards) {
        return Ok(Fence::default());
    }
    let devices = look(cards);
    let written = |rules: Vec<DeviceRule>| match ground {
        Ground::Legacy => one_by_one(&rules, &devices),
        Ground::Unified | Ground::None(_) => rules,
    };
    let made = match ground {
        Ground::None(why) => Err((why.clone(), Vec::new())),
        Ground::Unified | Ground::Legacy => {
            let all = rules(cards, held, &devices);
            all.map_err(|unknown| (unknown.to_string(), others(cards, held, &devices)))
        }
    };
    match made {
        Ok(rules) => Ok(Fence { rules: written(rules), absent: None }),
        Err((why, _)) if mode == FenceMode::Require => Err(Unfenced { why }),
        Err((why, certain)) => Ok(Fence { rules: written(certain), absent: Some(why) }),
    }
}

/// Missing files are no error: the machine may have no driver, no displays, or no parts of cards.
fn look(cards: &[Card]) -> Devices {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    // Thousands of lines, one for each part that there could be.
    let has_parts = cards.iter().any(|card| card.hardware.mig.is_some());
    let parts = if has_parts { text("/proc/driver/nvidia-caps/mig-minors") } else { String::new() };
    let mut devices = Devices::read(&text("/proc/devices"), &parts);
    for (pci, numbers) in displays(Path::new("/sys/class/drm")) {
        devices.add_drm(&pci, &numbers);
    }
    devices
}

/// The files of `/dev/dri` that are NVIDIA's: place on the bus, and numbers.
fn displays(class: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let display = |entry: fs::DirEntry| {
        let device = entry.path().join("device");
        let vendor = fs::read_to_string(device.join("vendor")).ok()?;
        let numbers = fs::read_to_string(entry.path().join("dev")).ok()?;
        let place = fs::read_link(device).ok()?;
        let pci = place.file_name()?.to_str()?.to_owned();
        (vendor.trim() == VENDOR).then_some((pci, numbers))
    };
    entries.filter_map(display).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::node::CardShare;
    use ax_core::size::Megabytes;
    use test_kit::TempDir;

    #[test]
    fn what_can_t_be_had_is_said_or_required() {
        let cards = [Card::new(0, "here-0".to_owned(), None, Megabytes(1))];
        let allocation = |cards: Vec<CardShare>| Allocation {
            node: "here".parse().unwrap(),
            cpus: Vec::new(),
            ram: Megabytes(1),
            cards,
        };
        let none_held = allocation(Vec::new());
        let held = allocation(vec![CardShare {
            index: 0,
            uuid: "here-0".to_owned(),
            slice: None,
            of: None,
            mps: None,
        }]);
        let none = Ground::None("there are no groups".to_owned());
        let of = |mode, ground, held| of_attempt(mode, ground, &cards, held);
        let absent = |fence: Result<Fence, Unfenced>| fence.unwrap().absent.unwrap();
        assert_eq!(absent(of(FenceMode::Auto, &none, &none_held)), "there are no groups");
        let refused = of(FenceMode::Require, &none, &none_held).unwrap_err();
        assert!(refused.to_string().contains("requires it: there are no groups"), "{refused}");
        // The file of a card that is only declared is unknown: a job with it has no whole fence, one without it has.
        assert!(absent(of(FenceMode::Auto, &Ground::Unified, &held)).contains("card 0"));
        assert!(of(FenceMode::Require, &Ground::Unified, &held).unwrap_err().why.contains("card 0"));
        let mut known = Card::new(1, "GPU-1".to_owned(), None, Megabytes(1));
        known.hardware.minor = Some(4);
        let both = [cards[0].clone(), known];
        let gaps = of_attempt(FenceMode::Auto, &Ground::Unified, &both, &held).unwrap();
        assert!(
            gaps.has_gaps() && gaps.absent.as_ref().is_some_and(|why| why.contains("card 0")),
            "{gaps:?}"
        );
        assert_eq!(gaps.rules, [DeviceRule { allow: false, major: 195, minor: Some(4) }]);
        let others = of(FenceMode::Require, &Ground::Unified, &none_held).unwrap();
        assert!(others.rules.contains(&DeviceRule { allow: false, major: 195, minor: None }));
        assert_eq!(of(FenceMode::Off, &none, &held), Ok(Fence::default()));
        assert_eq!(
            of_attempt(FenceMode::Require, &none, &[], &none_held),
            Ok(Fence::default()),
            "no cards, no cost"
        );
    }

    #[test]
    fn displays_are_found_by_their_maker_and_place() {
        let dir = TempDir::new();
        for (name, place, vendor, numbers) in [
            ("card0", "0000:3b:00.0", "0x10de\n", Some("226:0\n")),
            ("renderD128", "0000:3b:00.0", "0x10de\n", Some("226:128\n")),
            ("card1", "0000:04:00.0", "0x1a03\n", Some("226:1\n")),
            ("card0-DP-1", "0000:3b:00.0", "0x10de\n", None),
        ] {
            let (device, entry) = (dir.path().join("devices").join(place), dir.path().join("drm").join(name));
            fs::create_dir_all(&device).unwrap();
            fs::create_dir_all(&entry).unwrap();
            fs::write(device.join("vendor"), vendor).unwrap();
            std::os::unix::fs::symlink(&device, entry.join("device")).unwrap();
            if let Some(numbers) = numbers {
                fs::write(entry.join("dev"), numbers).unwrap();
            }
        }
        let mut found = displays(&dir.path().join("drm"));
        found.sort();
        let place = || "0000:3b:00.0".to_owned();
        assert_eq!(found, [(place(), "226:0\n".to_owned()), (place(), "226:128\n".to_owned())]);
        assert!(displays(Path::new("/nonexistent")).is_empty());
    }
}

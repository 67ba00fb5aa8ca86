//! The device fence: rules for the kernel that say which device files a job may not open. Pure: the rules follow from
//! the cards of a node, the cards that the job holds, and what the machine says of its device files when the job
//! starts.
//!
//! The fence denies only NVIDIA's files. A job with cards may open its own cards and what is no card, such as
//! `nvidiactl`; a job without cards may open none of NVIDIA's files.

use serde::{Deserialize, Serialize};

use crate::node::{Allocation, Card};

/// The major number of `/dev/nvidia0` and the other cards, the same on every machine. All other majors are read.
pub const CARDS: u32 = 195;
/// Minor numbers under it that are no card: `nvidia-modeset` and `nvidiactl`.
const NO_CARDS: [u32; 2] = [254, 255];
/// The major number of `/dev/dri`.
const DRM: u32 = 226;
/// The driver's name for the files that open a part (MIG) of a card.
const CAPS: &str = "nvidia-caps";

/// One rule about character devices. The first rule that matches decides; a file that no rule matches is not
/// restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceRule {
    /// Allowed or denied.
    pub allow: bool,
    /// Major number.
    pub major: u32,
    /// Minor number; `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
}

impl DeviceRule {
    fn allow(major: u32, minor: u32) -> DeviceRule {
        DeviceRule { allow: true, major, minor: Some(minor) }
    }

    fn deny(major: u32, minor: Option<u32>) -> DeviceRule {
        DeviceRule { allow: false, major, minor }
    }
}

/// What a machine says of NVIDIA's device files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Devices {
    majors: Vec<(String, u32)>,
    caps: Vec<(String, u32)>,
    drm: Vec<(Address, u32)>,
}

impl Devices {
    /// From `/proc/devices` and `/proc/driver/nvidia-caps/mig-minors`; the latter is empty where there is none.
    pub fn read(devices: &str, mig_minors: &str) -> Devices {
        let characters = devices.lines().take_while(|line| !line.starts_with("Block"));
        let major = |line: &str| {
            let (number, name) = line.trim().split_once(' ')?;
            let number = number.parse().ok()?;
            name.starts_with("nvidia").then(|| (name.trim().to_owned(), number))
        };
        let cap = |line: &str| {
            let (path, minor) = line.trim().rsplit_once(' ')?;
            Some((path.trim().to_owned(), minor.parse().ok()?))
        };
        Devices {
            majors: characters.filter_map(major).collect(),
            caps: mig_minors.lines().filter_map(cap).collect(),
            drm: Vec::new(),
        }
    }

    /// Adds a file of `/dev/dri` that belongs to one of NVIDIA's cards: `pci` is the card's place on the bus,
    /// `numbers` are the file's numbers as sysfs writes them.
    pub fn add_drm(&mut self, pci: &str, numbers: &str) {
        let minor = numbers.trim().strip_prefix("226:").and_then(|minor| minor.parse().ok());
        self.drm.extend(Address::parse(pci).zip(minor));
    }

    fn caps_major(&self) -> Option<u32> {
        self.majors.iter().find(|(name, _)| name == CAPS).map(|(_, major)| *major)
    }

    fn cap(&self, path: &str) -> Option<u32> {
        self.caps.iter().find(|(known, _)| known == path).map(|(_, minor)| *minor)
    }
}

/// A place on the bus, however many zeros its domain is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Address([u32; 4]);

impl Address {
    fn parse(text: &str) -> Option<Address> {
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        let (domain, rest) = text.trim().split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        Some(Address([hex(domain)?, hex(bus)?, hex(device)?, hex(function)?]))
    }
}

/// Why a job's own cards can't be told from others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The driver does not say which file is this card's.
    #[error("the driver does not say which device file card {0} has")]
    File(u32),
    /// The driver does not say which files open this part of a card.
    #[error("the driver does not say which files of nvidia-caps open card {0}, a part of a card")]
    Caps(u32),
}

/// Returns the rules for a job that holds `held` of a node's cards.
///
/// # Errors
/// If it is not known which device file belongs to one of its cards.
pub fn rules(cards: &[Card], held: &Allocation, devices: &Devices) -> Result<Vec<DeviceRule>, Unknown> {
    if held.cards.is_empty() {
        return Ok(for_none(devices));
    }
    let mut rules = Vec::new();
    let mut places = Vec::new();
    for share in &held.cards {
        let card = cards.iter().find(|card| card.is_of(share, &held.node));
        let card = card.ok_or(Unknown::File(share.index))?;
        let minor = file_of(card, cards).ok_or(Unknown::File(share.index))?;
        rules.push(DeviceRule::allow(CARDS, minor));
        rules.extend(caps_of(card, minor, devices)?);
        places.extend(place_of(card, cards));
    }
    rules.extend(NO_CARDS.map(|minor| DeviceRule::allow(CARDS, minor)));
    rules.push(DeviceRule::deny(CARDS, None));
    if let Some(major) = devices.caps_major() {
        // Other entries, such as the right to list parts, stay as the administrator has set them.
        let general = devices.caps.iter().filter(|(path, _)| !is_of_part(path));
        rules.extend(general.map(|(_, minor)| DeviceRule::allow(major, *minor)));
        rules.push(DeviceRule::deny(major, None));
    }
    let others = devices.drm.iter().filter(|(place, _)| !places.contains(place));
    rules.extend(others.map(|(_, minor)| DeviceRule::deny(DRM, Some(*minor))));
    Ok(without_repeats(rules))
}

/// Returns what is certain if [`rules`] fails: it denies the known files of cards that the job does not hold, one by
/// one; all others stay open. Empty if nothing is known.
pub fn others(cards: &[Card], held: &Allocation, devices: &Devices) -> Vec<DeviceRule> {
    let is_held = |card: &Card| held.cards.iter().any(|share| card.is_of(share, &held.node));
    let own: Vec<&Card> = cards.iter().filter(|card| is_held(card)).collect();
    let has_own = |card: &Card| {
        own.iter().any(|own| own.uuid == card.uuid || parent(own, cards).is_some_and(|p| p.uuid == card.uuid))
    };
    let files: Vec<u32> = own.iter().filter_map(|card| file_of(card, cards)).collect();
    let places: Vec<Address> = own.iter().filter_map(|card| place_of(card, cards)).collect();
    let foreign = || cards.iter().filter(|card| !is_held(card) && !has_own(card));
    let files = foreign().filter_map(|card| file_of(card, cards)).filter(|minor| !files.contains(minor));
    let displays = foreign().filter_map(|card| place_of(card, cards)).filter(|place| !places.contains(place));
    let displays: Vec<Address> = displays.collect();
    let displays = devices.drm.iter().filter(|(place, _)| displays.contains(place));
    let rules = files.map(|minor| DeviceRule::deny(CARDS, Some(minor)));
    without_repeats(rules.chain(displays.map(|(_, minor)| DeviceRule::deny(DRM, Some(*minor)))).collect())
}

/// Denies everything of NVIDIA's, also the majors that its driver was given when it was loaded.
fn for_none(devices: &Devices) -> Vec<DeviceRule> {
    let majors = [CARDS].into_iter().chain(devices.majors.iter().map(|(_, major)| *major));
    let drm = devices.drm.iter().map(|(_, minor)| DeviceRule::deny(DRM, Some(*minor)));
    without_repeats(majors.map(|major| DeviceRule::deny(major, None)).chain(drm).collect())
}

/// Two parts of a card share its file, so a rule may come twice. Keeps the first of each: the order matters.
fn without_repeats(rules: Vec<DeviceRule>) -> Vec<DeviceRule> {
    let mut seen = std::collections::BTreeSet::new();
    rules.into_iter().filter(|rule| seen.insert(*rule)).collect()
}

fn parent<'a>(card: &Card, cards: &'a [Card]) -> Option<&'a Card> {
    let mig = card.hardware.mig.as_ref()?;
    cards.iter().find(|other| other.uuid == mig.parent)
}

/// A part's file is its card's.
fn file_of(card: &Card, cards: &[Card]) -> Option<u32> {
    card.hardware.minor.or_else(|| parent(card, cards)?.hardware.minor)
}

fn place_of(card: &Card, cards: &[Card]) -> Option<Address> {
    let pci = card.hardware.pci.as_ref().or_else(|| parent(card, cards)?.hardware.pci.as_ref());
    Address::parse(pci?)
}

/// The two files that open a part of a card; empty for a whole card.
fn caps_of(card: &Card, minor: u32, devices: &Devices) -> Result<Vec<DeviceRule>, Unknown> {
    let Some(mig) = &card.hardware.mig else { return Ok(Vec::new()) };
    let instance = format!("gpu{minor}/gi{}", mig.gpu_instance);
    let paths = [format!("{instance}/access"), format!("{instance}/ci{}/access", mig.compute_instance)];
    let major = devices.caps_major().ok_or(Unknown::Caps(card.index))?;
    let allowed = |path: &String| devices.cap(path).map(|minor| DeviceRule::allow(major, minor));
    paths.iter().map(|path| allowed(path).ok_or(Unknown::Caps(card.index))).collect()
}

/// True for `gpu0/gi1/access` and `gpu0/gi1/ci0/access`.
fn is_of_part(path: &str) -> bool {
    path.starts_with("gpu") && path.contains("/gi")
}

/// The same rules for control groups of version 1, which can't allow what a wider rule denies: this denies every
/// other possible minor number by itself.
pub fn one_by_one(rules: &[DeviceRule], devices: &Devices) -> Vec<DeviceRule> {
    let allowed: Vec<&DeviceRule> = rules.iter().filter(|rule| rule.allow).collect();
    let is_allowed =
        |major: u32, minor: u32| allowed.iter().any(|rule| rule.major == major && rule.minor == Some(minor));
    let mut out = Vec::new();
    for rule in rules.iter().filter(|rule| !rule.allow) {
        let carved = rule.minor.is_none() && allowed.iter().any(|other| other.major == rule.major);
        if !carved {
            out.push(*rule);
            continue;
        }
        let minors: Vec<u32> = match rule.major == CARDS {
            true => (0..=255).collect(),
            false => devices.caps.iter().map(|(_, minor)| *minor).collect(),
        };
        let denied = minors.into_iter().filter(|minor| !is_allowed(rule.major, *minor));
        out.extend(denied.map(|minor| DeviceRule::deny(rule.major, Some(minor))));
    }
    out
}

#[cfg(test)]
mod tests;

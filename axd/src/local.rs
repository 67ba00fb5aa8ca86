//! What this machine has to give out: CPUs, memory, and cards as declared and as the driver finds them. If these
//! differ, the smaller counts, and there is a warning.

use ax_core::config::{Config, GpuNode};
use ax_core::gpu::model::folded;
use ax_core::id::{BadName, HostName};
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::text;
use ax_sys::{SysError, process, sched};
use thiserror::Error;

use crate::cards::Known;
use crate::cards::message::Found;

/// What is said where the driver may speak of other processes than those that have its numbers here.
pub(crate) const APART: &str = "process numbers here are not the machine's (a container): which process holds what of a card is not \
     certain, and slices are not watched; axd should run with the machine's (--pid host)";

/// This machine as it registers, and the warnings about it.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    /// What it gives out.
    pub inventory: Inventory,
    /// Numbers of the real CPUs; the inventory may count more or fewer.
    pub real_cpus: Vec<u32>,
    /// One line for each difference between what is declared and what is there.
    pub warnings: Vec<String>,
}

impl Local {
    /// The kernel's list of the CPUs behind these numbers of the inventory;
    /// `None` where they stand for all or more than there are.
    pub(crate) fn cpu_list(&self, cpus: &[u32]) -> Option<String> {
        let real = self.real_cpus.len();
        if real == 0 || self.inventory.cpus as usize > real {
            return None;
        }
        let chosen: Vec<u32> = cpus.iter().filter_map(|c| self.real_cpus.get(*c as usize).copied()).collect();
        (!chosen.is_empty() && chosen.len() < real).then(|| sched::format_cpu_list(&chosen))
    }
}

/// The name of this machine as ax compares it.
pub(crate) fn host_name() -> Result<HostName, NoHostName> {
    Ok(sched::host_name()?.parse()?)
}

/// Why this machine has no name.
#[derive(Debug, Error)]
pub(crate) enum NoHostName {
    #[error(transparent)]
    System(#[from] SysError),
    #[error(transparent)]
    Bad(#[from] BadName),
}

/// Looks at this machine. `cards` is what is known of its cards; `None` if none are given out.
pub(crate) fn look(host: &HostName, config: &Config, cards: Option<Known<'_>>) -> Local {
    let mut warnings = Vec::new();
    let real_cpus = sched::allowed_cpus().unwrap_or_else(|error| {
        warnings.push(format!("counting one CPU: {error}"));
        vec![0]
    });
    let has_cpus = u32::try_from(real_cpus.len()).unwrap_or(u32::MAX);
    let has_ram = sched::memory_bytes().map(Megabytes::from_bytes).unwrap_or_default();
    let cpus = config.resources.cpus.unwrap_or(has_cpus);
    if cpus > has_cpus {
        warnings.push(format!("resources.cpus declares {cpus} CPUs, there are {has_cpus}: jobs share them"));
    }
    let ram = config.resources.ram.unwrap_or(has_ram);
    if ram > has_ram {
        warnings
            .push(format!("resources.ram declares {ram}, there are {has_ram}: jobs may run out of memory"));
    }
    let features = declared(host, config).map_or_else(Vec::new, |node| node.features.clone());
    let cards = cards.map(|known| count_cards(host, config, known, &mut warnings)).unwrap_or_default();
    if !cards.is_empty() {
        warnings.extend(unknown_cards(host, config, &cards));
    }
    if cards.iter().any(|card| card.hardware.pci.is_some()) && !process::has_the_machines_numbers() {
        warnings.push(APART.to_owned());
    }
    let numa_cpus = near_cards(&cards, &real_cpus, cpus);
    let inventory = Inventory { name: host.clone(), epoch: 1, cpus, ram, cards, features, numa_cpus };
    Local { inventory, real_cpus, warnings }
}

/// Names of cards in limits that name none: on this node, or on one of which nothing is declared.
fn unknown_cards(host: &HostName, config: &Config, cards: &[Card]) -> Vec<String> {
    // Beyond those that are declared: said of the file already.
    let told = |index: &str| {
        declared(host, config).is_some_and(|node| index.parse().is_ok_and(|index: u32| index >= node.gpus))
    };
    let others = config.resources.gpu_nodes.iter().map(|node| &node.host).filter(|other| *other != host);
    let others: Vec<&str> = others.map(HostName::as_str).collect();
    let unknown = |name: &String| match name.rsplit_once(':') {
        Some((of, index)) if of == host.as_str() && told(index) => None,
        Some((of, index)) if of == host.as_str() => {
            let known = |card: &Card| index.parse() == Ok(card.index);
            (!cards.iter().any(known)).then(|| format!("{host} has no card {index}, only {}", cards.len()))
        }
        Some((of, _)) if others.contains(&of) => None,
        Some((of, _)) => Some(format!("no node {of} is known")),
        // It may be another node's.
        None if !others.is_empty() || cards.iter().any(|card| card.uuid == *name) => None,
        None => Some(format!("{host} has no card {name}")),
    };
    let queues = config.queues.iter().map(|queue| (format!("queue {}", queue.name), &queue.cards));
    let limits = config.limits.iter().map(|limit| ("limits[]".to_owned(), &limit.cards));
    let all =
        queues.chain(limits).flat_map(|(whose, names)| names.iter().map(move |name| (whose.clone(), name)));
    all.filter_map(|(whose, name)| Some(format!("{whose} may use card {name}, and {}", unknown(name)?)))
        .collect()
}

/// Names of cards in limits that name a node nobody has declared: known without a look at the cards.
pub(crate) fn unknown_hosts(host: &HostName, config: &Config) -> Vec<String> {
    let nodes: Vec<&str> = config.resources.gpu_nodes.iter().map(|node| node.host.as_str()).collect();
    let queues = config.queues.iter().map(|queue| (format!("queue {}", queue.name), &queue.cards));
    let limits = config.limits.iter().map(|limit| ("limits[]".to_owned(), &limit.cards));
    let named =
        queues.chain(limits).flat_map(|(whose, names)| names.iter().map(move |name| (whose.clone(), name)));
    let unknown = |name: &str| {
        let (of, _) = name.rsplit_once(':')?;
        (of != host.as_str() && !nodes.contains(&of)).then(|| of.to_owned())
    };
    named
        .filter_map(|(whose, name)| {
            Some(format!("{whose} may use card {name}, and no node {} is known", unknown(name)?))
        })
        .collect()
}

/// The NUMA node of each CPU, if cards are near some and not others; for CPUs that are only declared it is unknown.
fn near_cards(cards: &[Card], real_cpus: &[u32], counted: u32) -> Vec<u32> {
    let numas = cards.iter().filter_map(|card| card.hardware.numa).count();
    if numas == 0 || counted as usize > real_cpus.len() {
        return Vec::new();
    }
    let of = sched::numa_nodes();
    let numas = real_cpus.iter().take(counted as usize).map(|cpu| of.get(cpu).copied());
    numas.collect::<Option<Vec<u32>>>().unwrap_or_default()
}

fn declared<'a>(host: &HostName, config: &'a Config) -> Option<&'a GpuNode> {
    config.resources.gpu_nodes.iter().find(|node| node.host == *host)
}

/// Declared and found cards, the smaller of both.
fn count_cards(host: &HostName, config: &Config, known: Known<'_>, warnings: &mut Vec<String>) -> Vec<Card> {
    let declared = config.resources.gpu_nodes.iter().find(|n| n.host == *host);
    match (declared, known) {
        (None, Known::Nothing | Known::Unclear(_)) => Vec::new(),
        (Some(declared), Known::Nothing) => all_declared(host, declared),
        (Some(declared), Known::Unclear(why)) => {
            warnings.push(format!("cards are counted as declared only: {why}"));
            all_declared(host, declared)
        }
        (None, Known::These(found, silent)) => found_cards(found, &silent, usize::MAX, None),
        (Some(declared), Known::These(found, silent)) => both(host, declared, found, &silent, warnings),
    }
}

fn all_declared(host: &HostName, declared: &GpuNode) -> Vec<Card> {
    let mem = declared.mem_per_gpu.unwrap_or_default();
    let card = |index| Card::new(index, Card::declared_name(host, index), declared.kind.clone(), mem);
    (0..declared.gpus).map(card).collect()
}

/// The first `most` cards, or their parts if they are divided. Whole cards have the numbers that `nvidia-smi` shows,
/// which leave out the `silent` ones; parts have the numbers after those of all cards.
fn found_cards(found: &[Found], silent: &[u32], most: usize, declared: Option<&GpuNode>) -> Vec<Card> {
    let whole: Vec<&Found> = found.iter().filter(|card| card.hardware.mig.is_none()).collect();
    let free = (0..).filter(|number| !silent.contains(number));
    let numbers: Vec<u32> = free.take(found.len()).collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(u32::MAX);
    let counted = &whole[..most.min(whole.len())];
    let whole_cards = counted.iter().enumerate().filter(|(_, card)| !card.divided);
    let parts = found.iter().filter_map(|part| part.hardware.mig.as_ref().map(|mig| (part, &mig.parent)));
    // A part whose card can't be asked now still exists.
    let counts = |parent: &String| counted.iter().any(|card| card.uuid == *parent);
    let orphan = |parent: &String| !whole.iter().any(|card| card.uuid == *parent);
    let parts = parts.enumerate().filter(|(_, (_, parent))| counts(parent) || orphan(parent));
    let whole_cards = whole_cards.map(|(at, card)| found_card(number(at), card, declared));
    let parts = parts.map(|(at, (part, parent))| {
        let mut card = found_card(number(whole.len() + at), part, declared);
        card.hardware.whole = whole.iter().position(|card| card.uuid == *parent).map(number);
        card
    });
    whole_cards.chain(parts).collect()
}

fn found_card(number: u32, found: &Found, declared: Option<&GpuNode>) -> Card {
    let declared = declared.filter(|_| found.hardware.mig.is_none());
    let own = || match &found.profile {
        Some(profile) => Some(folded(&format!("mig-{profile}"))),
        None => found.hardware.name.as_deref().map(folded),
    };
    let kind = declared.and_then(|d| d.kind.clone()).or_else(own);
    let mem = declared.and_then(|d| d.mem_per_gpu).map_or(found.mem, |mb| mb.min(found.mem));
    let mut card = Card::new(number, found.uuid.clone(), kind, mem);
    card.hardware = found.hardware.clone();
    card
}

fn both(
    host: &HostName,
    declared: &GpuNode,
    found: &[Found],
    silent: &[u32],
    warnings: &mut Vec<String>,
) -> Vec<Card> {
    let count = found.iter().filter(|card| card.hardware.mig.is_none()).count();
    if count != declared.gpus as usize {
        let smaller = count.min(declared.gpus as usize);
        let declared = text::count(u64::from(declared.gpus), "card");
        warnings.push(format!("{host}: {declared} declared, {count} found; {smaller} counted"));
    }
    let cards = found_cards(found, silent, declared.gpus as usize, Some(declared));
    for card in cards.iter().filter(|card| card.hardware.mig.is_none()) {
        if let Some(wanted) = declared.mem_per_gpu.filter(|mb| *mb > card.mem) {
            warnings.push(format!(
                "{host} card {}: {wanted} declared, {} found and counted",
                card.index, card.mem
            ));
        }
    }
    cards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(counted: u32, real: &[u32]) -> Local {
        let name = "gpu-01".parse().unwrap();
        let inventory = Inventory {
            name,
            epoch: 1,
            cpus: counted,
            ram: Megabytes(1),
            cards: vec![],
            features: vec![],
            numa_cpus: vec![],
        };
        Local { inventory, real_cpus: real.to_vec(), warnings: vec![] }
    }

    #[test]
    fn cpus_are_named_by_their_real_numbers_and_only_where_they_bind() {
        assert_eq!(local(4, &[0, 2, 4, 6]).cpu_list(&[1, 2]).as_deref(), Some("2,4"));
        assert_eq!(local(4, &[0, 2, 4, 6]).cpu_list(&[0, 1, 2, 3]), None, "all of them are no limit");
        assert_eq!(local(8, &[0, 1]).cpu_list(&[5]), None, "more declared than there are");
    }

    #[test]
    fn declared_cards_count_where_no_driver_says_otherwise() {
        let host: HostName = "gpu-01".parse().unwrap();
        let mut config = Config::default();
        let mem = Some(Megabytes(76_293));
        config.resources.gpu_nodes.push(GpuNode {
            host: host.clone(),
            gpus: 2,
            mem_per_gpu: mem,
            kind: None,
            features: vec![],
        });
        let local = look(&host, &config, Some(Known::Nothing));
        assert_eq!(local.inventory.cards.len(), 2);
        assert_eq!(local.inventory.cards[1].uuid, "gpu-01-1");
        assert!(look(&host, &config, None).inventory.cards.is_empty());
        let unclear = look(&host, &config, Some(Known::Unclear("no driver")));
        assert_eq!((unclear.inventory.cards.len(), unclear.warnings.len()), (2, 1));
    }

    fn found(uuid: &str, pci: &str, part: Option<(&str, u32)>, divided: bool) -> Found {
        let mig = part.map(|(parent, gpu_instance)| ax_core::gpu::Mig {
            parent: parent.to_owned(),
            gpu_instance,
            compute_instance: 0,
        });
        Found {
            number: 0,
            uuid: uuid.to_owned(),
            mem: Megabytes(if mig.is_some() { 9_728 } else { 81_320 }),
            divided,
            profile: mig.as_ref().map(|_| "1g.10gb".to_owned()),
            hardware: ax_core::gpu::Hardware {
                name: Some("NVIDIA A100".to_owned()),
                pci: Some(pci.to_owned()),
                mig,
                ..Default::default()
            },
        }
    }

    #[test]
    fn names_of_cards_that_there_are_not_are_told() {
        let host: HostName = "gpu-01".parse().unwrap();
        let cards: Vec<Card> = (0..2).map(|n| Card::new(n, format!("GPU-{n}"), None, Megabytes(1))).collect();
        let mut config = Config::default();
        let names = ["gpu-01:1", "gpu-01:2", "gpu-02:0", "GPU-0", "GPU-9"];
        config.queues[0].cards = names.map(str::to_owned).to_vec();
        let told = unknown_cards(&host, &config, &cards);
        assert_eq!(
            told,
            [
                "queue default may use card gpu-01:2, and gpu-01 has no card 2, only 2",
                "queue default may use card gpu-02:0, and no node gpu-02 is known",
                "queue default may use card GPU-9, and gpu-01 has no card GPU-9",
            ]
        );
        let other = GpuNode {
            host: "gpu-02".parse().unwrap(),
            gpus: 1,
            mem_per_gpu: None,
            kind: None,
            features: vec![],
        };
        config.resources.gpu_nodes.push(other);
        assert_eq!(unknown_cards(&host, &config, &cards).len(), 1, "the rest may be the other node's");
        config.resources.gpu_nodes[0].host = host.clone();
        config.resources.gpu_nodes[0].gpus = 2;
        let told = unknown_cards(&host, &config, &cards);
        assert!(told.iter().all(|line| !line.contains("gpu-01:2")), "said of the file: {told:?}");
    }

    #[test]
    fn the_smaller_of_declared_and_found_counts_and_parts_are_cards_of_their_own() {
        let host: HostName = "gpu-01".parse().unwrap();
        let all = [
            found("GPU-a", "00000000:3B:00.0", None, false),
            found("GPU-b", "00000000:5E:00.0", None, true),
            found("MIG-1", "00000000:5E:00.0", Some(("GPU-b", 1)), false),
            found("MIG-2", "00000000:5E:00.0", Some(("GPU-b", 2)), false),
            found("GPU-c", "00000000:86:00.0", None, false),
        ];
        let names = |gpus: u32, warned: usize| {
            let declared = GpuNode {
                host: host.clone(),
                gpus,
                mem_per_gpu: None,
                kind: Some("a100".into()),
                features: vec![],
            };
            let mut warnings = Vec::new();
            let cards = both(&host, &declared, &all, &[], &mut warnings);
            assert_eq!(warnings.len(), warned, "{warnings:?}");
            let name =
                |card: &Card| format!("{} {} {}", card.index, card.uuid, card.kind.as_deref().unwrap());
            cards.iter().map(name).collect::<Vec<_>>()
        };
        let three = ["0 GPU-a a100", "2 GPU-c a100", "3 MIG-1 mig-1g.10gb", "4 MIG-2 mig-1g.10gb"];
        assert_eq!(names(3, 0), three, "as nvidia-smi numbers them");
        assert_eq!(names(8, 1), three);
        assert_eq!(names(2, 1), [three[0], three[2], three[3]]);
        assert_eq!(names(1, 1), [three[0]]);
        let silent = found_cards(&all, &[0, 2], usize::MAX, None);
        assert_eq!(silent[0].kind.as_deref(), Some("nvidia-a100"));
        let numbers: Vec<u32> = silent.iter().map(|card| card.index).collect();
        assert_eq!(numbers, [1, 4, 5, 6], "after those that say nothing");
    }
}

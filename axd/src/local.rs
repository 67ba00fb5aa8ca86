//! What this machine has to give out: CPUs, memory, and cards as declared and
//! as the driver finds them. A difference is a warning and the smaller counts.

use std::path::Path;

use ax_core::config::{Config, GpuNode};
use ax_core::id::HostName;
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_sys::nvml;
use ax_sys::sched;

/// This machine as it registers, and what was odd about it.
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
pub(crate) fn host_name() -> Result<HostName, String> {
    let name = sched::host_name().map_err(|e| e.to_string())?;
    name.parse().map_err(|e: ax_core::id::BadName| e.to_string())
}

/// Looks at this machine. `cards`: whether cards are given out at all.
pub(crate) fn look(host: &HostName, config: &Config, library: Option<&Path>, cards: bool) -> Local {
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
    let cards = if cards { count_cards(host, config, library, &mut warnings) } else { Vec::new() };
    Local {
        inventory: Inventory { name: host.clone(), epoch: 1, cpus, ram, cards, features },
        real_cpus,
        warnings,
    }
}

fn declared<'a>(host: &HostName, config: &'a Config) -> Option<&'a GpuNode> {
    config.resources.gpu_nodes.iter().find(|node| node.host == *host)
}

/// Declared and found cards, the smaller of both.
fn count_cards(
    host: &HostName,
    config: &Config,
    library: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Vec<Card> {
    let declared = declared(host, config);
    let found = match nvml::inventory(library) {
        Ok(cards) => Some(cards),
        Err(nvml::NvmlError::Absent { .. }) => None,
        Err(error) => {
            warnings.push(format!("cards are counted as declared only: {error}"));
            None
        }
    };
    match (declared, found) {
        (None, None) => Vec::new(),
        (Some(declared), None) => {
            (0..declared.gpus).map(|index| declared_card(host, declared, index)).collect()
        }
        (None, Some(found)) => found.iter().map(|card| found_card(card, None)).collect(),
        (Some(declared), Some(found)) => both(host, declared, &found, warnings),
    }
}

fn declared_card(host: &HostName, declared: &GpuNode, index: u32) -> Card {
    let mem = declared.mem_per_gpu.unwrap_or_default();
    Card::new(index, format!("{host}-{index}"), declared.kind.clone(), mem)
}

fn found_card(card: &nvml::Card, declared: Option<&GpuNode>) -> Card {
    let has = Megabytes::from_bytes(card.memory_bytes.saturating_sub(card.reserved_bytes));
    let kind = declared.and_then(|d| d.kind.clone()).unwrap_or_else(|| card.name.to_ascii_lowercase());
    let mem = declared.and_then(|d| d.mem_per_gpu).map_or(has, |mb| mb.min(has));
    Card::new(card.index, card.uuid.clone(), Some(kind), mem)
}

fn both(host: &HostName, declared: &GpuNode, found: &[nvml::Card], warnings: &mut Vec<String>) -> Vec<Card> {
    let count = found.len();
    if count != declared.gpus as usize {
        let smaller = count.min(declared.gpus as usize);
        warnings.push(format!("{host}: {} cards declared, {count} found; {smaller} counted", declared.gpus));
    }
    let cards = found.iter().take(declared.gpus as usize).map(|card| found_card(card, Some(declared)));
    let cards: Vec<Card> = cards.collect();
    for card in &cards {
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
        let inventory =
            Inventory { name, epoch: 1, cpus: counted, ram: Megabytes(1), cards: vec![], features: vec![] };
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
        let nowhere = Path::new("/nonexistent/libnvidia-ml.so.1");
        let local = look(&host, &config, Some(nowhere), true);
        assert_eq!(local.inventory.cards.len(), 2);
        assert_eq!(local.inventory.cards[1].uuid, "gpu-01-1");
        assert!(look(&host, &config, Some(nowhere), false).inventory.cards.is_empty());
    }
}

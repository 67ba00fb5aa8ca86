//! The cards of this machine and what they are doing, by NVIDIA's management library.
//!
//! The library is loaded when asked for, from a path that the caller may choose. Calls may hang in a broken
//! driver for minutes: make them in a process or thread that nobody waits for. Whatever the library can't say is
//! `None`, never zero.

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError as Raw;
use nvml_wrapper::{Device, Nvml};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// Why the cards could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum NvmlError {
    /// No library: a machine without cards, or without a driver.
    #[error("no NVML library ({library}): {source}")]
    Absent {
        /// The library that was looked for.
        library: PathBuf,
        /// What the loader said.
        source: Box<Raw>,
    },
    /// The library is there but the driver is not loaded or does not fit.
    #[error("NVML does not start: {0}")]
    NoDriver(Box<Raw>),
    /// A call failed.
    #[error("cannot {doing} ({card}): {source}")]
    Call {
        /// What was asked.
        doing: &'static str,
        /// Which card, or "all cards".
        card: String,
        /// What the library said.
        source: Box<Raw>,
    },
}

/// A card as it is built in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// NVML's number; may change at a reboot.
    pub index: u32,
    /// Its unchanging name, `GPU-…`.
    pub uuid: String,
    /// The model.
    pub name: String,
    /// Memory, bytes, all of it.
    pub memory_bytes: u64,
    /// Of it, what driver and firmware keep for themselves, bytes.
    pub reserved_bytes: u64,
    /// Place on the bus, `00000000:3B:00.0`.
    pub pci: String,
    /// Its device file is `/dev/nvidiaMINOR`; `None` if the library does not say.
    pub minor: Option<u32>,
}

/// A process with memory on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its number in the host's numbering; 0 if hidden from us.
    pub pid: u32,
    /// Memory it holds, bytes; `None` where the driver does not say (MIG, virtual cards).
    pub memory_bytes: Option<u64>,
}

/// A card at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardState {
    /// Memory in use, bytes, without what is reserved.
    pub used_bytes: u64,
    /// Memory free, bytes.
    pub free_bytes: u64,
    /// Processes with memory on it, for computing and graphics, each once.
    pub holders: Vec<Holder>,
    /// Share of the last second in which something ran, per cent.
    pub utilization: Option<u32>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Milliwatts.
    pub power_mw: Option<u32>,
    /// Whether pages of its memory wait to be taken out of use at the next reset.
    pub retirement_pending: Option<bool>,
}

/// The loaded library.
#[derive(Debug)]
pub struct Session {
    nvml: ManuallyDrop<Nvml>,
}

/// The cards of this machine, in NVML's order. Loads and unloads the library.
///
/// # Errors
/// [`NvmlError::Absent`] on a machine without NVIDIA's driver.
pub fn inventory(library: Option<&Path>) -> Result<Vec<Card>, NvmlError> {
    Session::open(library)?.cards()
}

impl Session {
    /// Loads and starts the library at this path; `None`: where the loader finds `libnvidia-ml.so.1`.
    ///
    /// # Errors
    /// [`NvmlError::Absent`] and [`NvmlError::NoDriver`].
    pub fn open(library: Option<&Path>) -> Result<Session, NvmlError> {
        let path = library.unwrap_or(Path::new("libnvidia-ml.so.1"));
        let started = Nvml::builder().lib_path(path.as_os_str()).init();
        let nvml = started.map_err(|error| match error {
            Raw::LibloadingError(_) | Raw::LibraryNotFound => {
                NvmlError::Absent { library: path.to_owned(), source: Box::new(error) }
            }
            other => NvmlError::NoDriver(Box::new(other)),
        })?;
        Ok(Session { nvml: ManuallyDrop::new(nvml) })
    }

    /// The version of the driver.
    ///
    /// # Errors
    /// When the library does not say.
    pub fn driver_version(&self) -> Result<String, NvmlError> {
        self.nvml.sys_driver_version().map_err(failed("ask for the driver's version", "all cards"))
    }

    /// The cards, in NVML's order.
    ///
    /// # Errors
    /// When a card can't be asked for its identity or memory: one that fell off the bus, for instance.
    pub fn cards(&self) -> Result<Vec<Card>, NvmlError> {
        let count = self.nvml.device_count().map_err(failed("count", "all cards"))?;
        (0..count).map(|index| self.card(index)).collect()
    }

    /// One card.
    ///
    /// # Errors
    /// As [`Session::cards`], for this card alone.
    pub fn card(&self, index: u32) -> Result<Card, NvmlError> {
        let label = format!("card {index}");
        let device = self.nvml.device_by_index(index).map_err(failed("open", &label))?;
        let memory = device.memory_info().map_err(failed("ask for the memory", &label))?;
        Ok(Card {
            index,
            uuid: device.uuid().map_err(failed("ask for the UUID", &label))?,
            name: device.name().map_err(failed("ask for the name", &label))?,
            memory_bytes: memory.total,
            reserved_bytes: memory.reserved,
            pci: device.pci_info().map_err(failed("ask for the bus", &label))?.bus_id,
            minor: device.minor_number().ok(),
        })
    }

    /// The present state of the card with this UUID.
    ///
    /// # Errors
    /// When the card or its memory can't be asked; the rest is `None` then.
    pub fn state(&self, uuid: &str) -> Result<CardState, NvmlError> {
        let device = self.nvml.device_by_uuid(uuid).map_err(failed("open", uuid))?;
        let memory = device.memory_info().map_err(failed("ask for the memory", uuid))?;
        Ok(CardState {
            used_bytes: memory.used,
            free_bytes: memory.free,
            holders: holders(&device).map_err(failed("ask for the processes", uuid))?,
            utilization: device.utilization_rates().ok().map(|rates| rates.gpu),
            temperature: device.temperature(TemperatureSensor::Gpu).ok(),
            power_mw: device.power_usage().ok(),
            retirement_pending: device.are_pages_pending_retired().ok(),
        })
    }
}

impl Session {
    /// The library itself, for calls that are not here.
    pub(crate) fn raw(&self) -> &Nvml {
        &self.nvml
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The wrapper panics when the library has no shutdown function; then it stays loaded.
        if self.nvml.lib().nvmlShutdown.is_ok() {
            // SAFETY: dropped here only, and never used again.
            unsafe { ManuallyDrop::drop(&mut self.nvml) };
        }
    }
}

fn failed<'a>(doing: &'static str, card: &'a str) -> impl Fn(Raw) -> NvmlError + 'a {
    move |source| NvmlError::Call { doing, card: card.to_owned(), source: Box::new(source) }
}

/// A process may be listed both for computing and for graphics, with the same memory.
fn holders(device: &Device<'_>) -> Result<Vec<Holder>, Raw> {
    let mut all = device.running_compute_processes()?;
    all.extend(device.running_graphics_processes().unwrap_or_default());
    all.sort_by_key(|process| process.pid);
    all.dedup_by_key(|process| process.pid);
    let memory = |used: &UsedGpuMemory| match used {
        UsedGpuMemory::Used(bytes) => Some(*bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let holder = |process: nvml_wrapper::struct_wrappers::device::ProcessInfo| Holder {
        pid: process.pid,
        memory_bytes: memory(&process.used_gpu_memory),
    };
    Ok(all.into_iter().map(holder).collect())
}

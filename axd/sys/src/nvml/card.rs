//! A card's hardware: its names, its places, its parts.

use super::{NvmlError, Raw, Session, call, if_supported};
use nvml_wrapper_sys::bindings::{NVML_DEVICE_MIG_ENABLE, nvmlDevice_t, nvmlMemory_v2_t, nvmlPciInfo_t};
use std::ffi::{CStr, c_char, c_uint};
use std::path::Path;

/// A card, or a part of one, that the library has found.
#[derive(Debug, Clone)]
pub struct Device<'s> {
    pub(super) session: &'s Session,
    pub(super) raw: nvmlDevice_t,
    /// Its UUID, or its number while the UUID is unknown.
    pub(super) name: String,
}

/// The hardware of a card, or of a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Its unchanging name, `GPU-…` or `MIG-…`.
    pub uuid: String,
    /// The model.
    pub name: String,
    /// Memory, bytes, without what driver and firmware keep for themselves; `None` where the library does not say, as of
    /// chips that have no memory of their own.
    pub memory_bytes: Option<u64>,
    /// Place on the bus, `00000000:3B:00.0`; of a part, that of its card.
    pub pci: String,
    /// Its device file, or its card's, is `/dev/nvidiaMINOR`; `None` if the library does not say.
    pub minor: Option<u32>,
    /// Which part of which card it is.
    pub part: Option<Part>,
}

/// Which part of a card a MIG instance is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// UUID of the card.
    pub parent: String,
    /// Number of the GPU instance.
    pub gpu_instance: u32,
    /// Number of the compute instance.
    pub compute_instance: u32,
}

impl Session {
    /// How many cards there are.
    ///
    /// # Errors
    /// When the library does not say.
    pub fn count(&self) -> Result<u32, NvmlError> {
        let mut count: c_uint = 0;
        call!(self, "", nvmlDeviceGetCount_v2(&raw mut count))?;
        Ok(count)
    }

    /// The card with this number of the library's.
    ///
    /// # Errors
    /// When it can't be asked for its UUID: one that fell off the bus, for instance.
    pub fn at(&self, index: u32) -> Result<Device<'_>, NvmlError> {
        let mut raw = std::ptr::null_mut();
        let number = format!("#{index}");
        call!(self, &number, nvmlDeviceGetHandleByIndex_v2(index, &raw mut raw))?;
        Device { session: self, raw, name: number }.named()
    }
}

impl<'s> Device<'s> {
    /// Its UUID.
    pub fn uuid(&self) -> &str {
        &self.name
    }

    pub(super) fn named(mut self) -> Result<Device<'s>, NvmlError> {
        let raw = self.raw;
        self.name =
            text::<96>(|at, length| call!(self.session, &self.name, nvmlDeviceGetUUID(raw, at, length)))?;
        Ok(self)
    }

    /// Returns its hardware.
    ///
    /// # Errors
    /// When it can't be asked for its name, memory or place on the bus.
    pub fn card(&self) -> Result<Card, NvmlError> {
        let mut minor: c_uint = 0;
        let minor = call!(self.session, &self.name, nvmlDeviceGetMinorNumber(self.raw, &raw mut minor))
            .map(|()| minor);
        Ok(Card {
            uuid: self.name.clone(),
            name: self.product()?,
            memory_bytes: self.memory_bytes()?,
            pci: self.pci()?,
            minor: if_supported(minor)?,
            part: None,
        })
    }

    fn product(&self) -> Result<String, NvmlError> {
        text::<96>(|at, length| call!(self.session, &self.name, nvmlDeviceGetName(self.raw, at, length)))
    }

    fn pci(&self) -> Result<String, NvmlError> {
        let mut info = empty_pci();
        call!(self.session, &self.name, nvmlDeviceGetPciInfo_v3(self.raw, &raw mut info))?;
        Ok(pci_text(&info))
    }

    pub(super) fn memory(&self) -> Result<nvmlMemory_v2_t, NvmlError> {
        let size = u32::try_from(size_of::<nvmlMemory_v2_t>()).unwrap_or(0);
        let mut memory = nvmlMemory_v2_t { version: size | 2 << 24, total: 0, reserved: 0, free: 0, used: 0 };
        call!(self.session, &self.name, nvmlDeviceGetMemoryInfo_v2(self.raw, &raw mut memory))?;
        Ok(memory)
    }

    fn memory_bytes(&self) -> Result<Option<u64>, NvmlError> {
        let memory = if_supported(self.memory())?;
        Ok(memory.map(|memory| memory.total.saturating_sub(memory.reserved)))
    }

    /// True if it is divided into parts: then only those can be given out.
    ///
    /// # Errors
    /// When a card that can be divided does not say.
    pub fn is_divided(&self) -> Result<bool, NvmlError> {
        let (mut current, mut pending): (c_uint, c_uint) = (0, 0);
        let answer = call!(
            self.session,
            &self.name,
            nvmlDeviceGetMigMode(self.raw, &raw mut current, &raw mut pending)
        );
        Ok(if_supported(answer)?.is_some() && current == NVML_DEVICE_MIG_ENABLE)
    }

    /// Its parts if it is divided, each as a card of its own; `whole` is the card's own hardware.
    ///
    /// # Errors
    /// When one of them can't be asked.
    pub fn parts(&self, whole: &Card) -> Result<Vec<(Device<'s>, Card)>, NvmlError> {
        let mut most: c_uint = 0;
        call!(self.session, &self.name, nvmlDeviceGetMaxMigDeviceCount(self.raw, &raw mut most))?;
        let parts = (0..most).filter_map(|index| self.part(index, whole).transpose());
        parts.collect()
    }

    /// The part at this index; not every index has one.
    fn part(&self, index: u32, whole: &Card) -> Result<Option<(Device<'s>, Card)>, NvmlError> {
        let mut raw = std::ptr::null_mut();
        let place = &raw mut raw;
        let found =
            call!(self.session, &self.name, nvmlDeviceGetMigDeviceHandleByIndex(self.raw, index, place));
        match found {
            Ok(()) => {}
            Err(NvmlError::Call { source, .. }) if matches!(*source, Raw::NotFound | Raw::InvalidArg) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // Until all is known of it, whatever happens is the whole card's: that can be left alone, and not a part.
        let asked = Device { session: self.session, raw, name: self.name.clone() };
        let part = asked.clone().named()?;
        let (mut gpu_instance, mut compute_instance): (c_uint, c_uint) = (0, 0);
        call!(self.session, &asked.name, nvmlDeviceGetGpuInstanceId(raw, &raw mut gpu_instance))?;
        call!(self.session, &asked.name, nvmlDeviceGetComputeInstanceId(raw, &raw mut compute_instance))?;
        let card = Card {
            uuid: part.name.clone(),
            name: asked.product()?,
            memory_bytes: asked.memory_bytes()?,
            pci: whole.pci.clone(),
            minor: whole.minor,
            part: Some(Part { parent: whole.uuid.clone(), gpu_instance, compute_instance }),
        };
        Ok(Some((part, card)))
    }
}

impl Card {
    /// The sort of a part, `1g.10gb`, with which its model's name ends.
    pub fn profile(&self) -> Option<&str> {
        self.part.as_ref()?;
        self.name.rsplit_once("MIG ").map(|(_, profile)| profile.trim())
    }
}

/// The NUMA node of a device on the bus. `sysfs` is `/sys`, except in tests.
pub fn numa_node(sysfs: &Path, pci: &str) -> Option<u32> {
    // The library writes eight digits of the domain, the kernel four.
    let lower = pci.to_ascii_lowercase();
    let (domain, rest) = lower.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    let file = sysfs.join("bus/pci/devices").join(format!("{domain:04x}:{rest}")).join("numa_node");
    // −1 where the machine has only one.
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

pub(super) fn empty_pci() -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: [0; 32],
    }
}

pub(super) fn pci_text(info: &nvmlPciInfo_t) -> String {
    from_c(&info.busId).to_ascii_uppercase()
}

/// Returns the text that a call writes into a buffer of this length.
fn text<const N: usize>(
    fill: impl FnOnce(*mut c_char, c_uint) -> Result<(), NvmlError>,
) -> Result<String, NvmlError> {
    let mut buffer: [c_char; N] = [0; N];
    fill(buffer.as_mut_ptr(), c_uint::try_from(N).unwrap_or(0))?;
    Ok(from_c(&buffer))
}

fn from_c(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|byte| byte.cast_unsigned()).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numa_node_is_that_of_the_place_on_the_bus() {
        let sysfs = test_kit::TempDir::new();
        for (place, node) in [("0000:3b:00.0", "1\n"), ("10000:01:00.0", "2\n"), ("0000:86:00.0", "-1\n")] {
            let folder = sysfs.join("bus/pci/devices").join(place);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("numa_node"), node).unwrap();
        }
        assert_eq!(numa_node(&sysfs, "00000000:3B:00.0"), Some(1));
        assert_eq!(numa_node(&sysfs, "00010000:01:00.0"), Some(2));
        assert_eq!(numa_node(&sysfs, "00000000:86:00.0"), None, "a machine with one node");
        assert_eq!(numa_node(&sysfs, "00000000:99:00.0"), None);
        assert_eq!(numa_node(&sysfs, "../../etc"), None);
    }
}

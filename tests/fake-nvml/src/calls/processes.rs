//! Who has memory on a card.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as nv;

use crate::script::{Card, Kind, Process, Script};
use crate::table::{INVALID, NOT_SUPPORTED, Status, TOO_SMALL, enter_card, lives};

use super::answer;

/// What the library says where it does not know: memory, and numbers of instances.
const UNKNOWN_MEMORY: u64 = u64::MAX;
const NO_INSTANCE: c_uint = c_uint::MAX;

/// The processes on a card, those on its parts among them.
pub(super) fn seen<'a>(script: &'a Script, card: &'a Card) -> impl Iterator<Item = &'a Process> {
    let here = |process: &&Process| {
        process.card == card.uuid || script.parts_of(&card.uuid).any(|part| part.uuid == process.card)
    };
    script.processes.iter().filter(here).filter(|process| process.stays || lives(process.pid))
}

fn info(script: &Script, process: &Process) -> nv::nvmlProcessInfo_t {
    let part = script.find(&process.card).and_then(|card| card.part.as_ref());
    nv::nvmlProcessInfo_t {
        pid: process.pid,
        usedGpuMemory: process.memory.map_or(UNKNOWN_MEMORY, |mib| mib << 20),
        gpuInstanceId: part.map_or(NO_INSTANCE, |part| part.gpu_instance),
        computeInstanceId: part.map_or(NO_INSTANCE, |part| part.compute_instance),
    }
}

/// # Safety
/// As the functions below.
unsafe fn list(
    call: &str,
    kinds: &[Kind],
    device: nv::nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut nv::nvmlProcessInfo_t,
) -> Status {
    answer(enter_card(call, device).and_then(|(script, card)| {
        let wanted = |process: &&Process| kinds.contains(&process.kind);
        let all: Vec<_> = seen(&script, &card).filter(wanted).map(|process| info(&script, process)).collect();
        if count.is_null() {
            return Err(INVALID);
        }
        // SAFETY: not null, so by the contract below a number.
        let room = unsafe { count.read() } as usize;
        // SAFETY: as above.
        unsafe { count.write(c_uint::try_from(all.len()).unwrap_or(0)) };
        if all.is_empty() {
            return Ok(());
        }
        if infos.is_null() || room < all.len() {
            return Err(TOO_SMALL);
        }
        // SAFETY: by the contract below there is room for so many.
        unsafe { infos.copy_from_nonoverlapping(all.as_ptr(), all.len()) };
        Ok(())
    }))
}

macro_rules! processes {
    ($(#[$doc:meta])* $name:ident, $kinds:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `count` is null or says for how many `infos` has room.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            device: nv::nvmlDevice_t,
            count: *mut c_uint,
            infos: *mut nv::nvmlProcessInfo_t,
        ) -> Status {
            // SAFETY: the same contract.
            unsafe { list(stringify!($name), &$kinds, device, count, infos) }
        }
    };
}

processes! {
    /// Those that compute.
    nvmlDeviceGetComputeRunningProcesses_v3, [Kind::Compute, Kind::Both]
}
processes! {
    /// Those that draw.
    nvmlDeviceGetGraphicsRunningProcesses_v3, [Kind::Graphics, Kind::Both]
}
processes! {
    /// Those that compute by a server.
    nvmlDeviceGetMPSComputeRunningProcesses_v3, [Kind::Mps]
}

/// Not known here.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetProcessUtilization(
    device: nv::nvmlDevice_t,
    _samples: *mut nv::nvmlProcessUtilizationSample_t,
    _count: *mut c_uint,
    _since: u64,
) -> Status {
    answer(enter_card("nvmlDeviceGetProcessUtilization", device).and(Err(NOT_SUPPORTED)))
}

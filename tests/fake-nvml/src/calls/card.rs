//! What a card is and how it does.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings as nv;

use super::{answer, field, number, put, put_text};
use crate::calls::processes::seen;
use crate::script::{Card, Script};
use crate::table::{INVALID, NOT_SUPPORTED, OTHER_VERSION, Status, enter_card};

const MIB: u64 = 1 << 20;

/// Its UUID.
///
/// # Safety
/// `out` is null or has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: nv::nvmlDevice_t,
    out: *mut c_char,
    length: c_uint,
) -> Status {
    answer(enter_card("nvmlDeviceGetUUID", device).and_then(|(_, card)| {
        // SAFETY: by the contract above.
        unsafe { put_text(out, length, &card.uuid) }
    }))
}

/// `name`, with blanks for underscores; of a part also its profile.
///
/// # Safety
/// `out` is null or has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: nv::nvmlDevice_t,
    out: *mut c_char,
    length: c_uint,
) -> Status {
    answer(enter_card("nvmlDeviceGetName", device).and_then(|(script, card)| {
        let whole = card.part.as_ref().and_then(|part| script.find(&part.parent)).unwrap_or(&card);
        let mut name = whole.text("name").unwrap_or("NVIDIA_Fake").replace('_', " ");
        if let Some(profile) = card.text("profile") {
            name = format!("{name} MIG {profile}");
        }
        // SAFETY: by the contract above.
        unsafe { put_text(out, length, &name) }
    }))
}

number! {
    /// `minor`.
    nvmlDeviceGetMinorNumber, "minor", c_uint
}
number! {
    /// `power`, milliwatts.
    nvmlDeviceGetPowerUsage, "power", c_uint
}
number! {
    /// `pages_pending`, 0 or 1.
    nvmlDeviceGetRetiredPagesPendingStatus, "pages_pending", nv::nvmlEnableState_t
}

/// Where it stands in the script.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: nv::nvmlDevice_t, out: *mut c_uint) -> Status {
    answer(enter_card("nvmlDeviceGetIndex", device).and_then(|(script, card)| {
        let at = script.cards.iter().position(|each| each.uuid == card.uuid).ok_or(NOT_SUPPORTED)?;
        // SAFETY: by the contract above.
        unsafe { put(out, c_uint::try_from(at).unwrap_or(0)) }
    }))
}

/// `pci`; of a part that of its card.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(
    device: nv::nvmlDevice_t,
    out: *mut nv::nvmlPciInfo_t,
) -> Status {
    answer(enter_card("nvmlDeviceGetPciInfo_v3", device).and_then(|(script, card)| {
        let whole = card.part.as_ref().and_then(|part| script.find(&part.parent)).unwrap_or(&card);
        let pci = info(whole.text("pci").ok_or(NOT_SUPPORTED)?);
        // SAFETY: by the contract above.
        unsafe { put(out, pci) }
    }))
}

/// An address in the library's form.
pub(super) fn info(address: &str) -> nv::nvmlPciInfo_t {
    let parts: Vec<u32> =
        address.split([':', '.']).map(|part| u32::from_str_radix(part, 16).unwrap_or(0)).collect();
    let part = |at: usize| parts.get(at).copied().unwrap_or(0);
    nv::nvmlPciInfo_t {
        busIdLegacy: field(address.get(4..).unwrap_or_default()),
        domain: part(0),
        bus: part(1),
        device: part(2),
        pciDeviceId: 0x20B2_10DE,
        pciSubSystemId: 0,
        busId: field(address),
    }
}

/// `memory` and `reserved`; `used`, or the sum of what processes have and of `extra`. MiB.
///
/// # Safety
/// `out` is null or a place for the answer, with the version that the caller wants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: nv::nvmlDevice_t,
    out: *mut nv::nvmlMemory_v2_t,
) -> Status {
    answer(enter_card("nvmlDeviceGetMemoryInfo_v2", device).and_then(|(script, card)| {
        if out.is_null() {
            return Err(INVALID);
        }
        // SAFETY: not null, so by the contract above a whole structure.
        let version = unsafe { (*out).version };
        let wanted = u32::try_from(size_of::<nv::nvmlMemory_v2_t>()).unwrap_or(0) | 2 << 24;
        if version != wanted {
            return Err(OTHER_VERSION);
        }
        let total = card.number("memory").ok_or(NOT_SUPPORTED)? * MIB;
        let reserved = card.number("reserved").unwrap_or(0) * MIB;
        let used = used(&script, &card) * MIB;
        let free = total.saturating_sub(reserved + used);
        // SAFETY: as above.
        unsafe { put(out, nv::nvmlMemory_v2_t { version, total, reserved, free, used }) }
    }))
}

fn used(script: &Script, card: &Card) -> u64 {
    let by_processes = || seen(script, card).filter_map(|process| process.memory).sum::<u64>();
    let extra = card.number("extra").unwrap_or(0);
    card.number("used").unwrap_or_else(|| by_processes() + extra)
}

/// `load` and `memory_load`, per cent; parts have none.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: nv::nvmlDevice_t,
    out: *mut nv::nvmlUtilization_t,
) -> Status {
    answer(enter_card("nvmlDeviceGetUtilizationRates", device).and_then(|(_, card)| {
        let percent = |name| card.number(name).and_then(|number| c_uint::try_from(number).ok());
        let gpu = percent("load").ok_or(NOT_SUPPORTED)?;
        // SAFETY: by the contract above.
        unsafe { put(out, nv::nvmlUtilization_t { gpu, memory: percent("memory_load").unwrap_or(0) }) }
    }))
}

/// `temp`, degrees Celsius.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: nv::nvmlDevice_t,
    _sensor: nv::nvmlTemperatureSensors_t,
    out: *mut c_uint,
) -> Status {
    answer(enter_card("nvmlDeviceGetTemperature", device).and_then(|(_, card)| {
        let degrees = card.number("temp").ok_or(NOT_SUPPORTED)?;
        // SAFETY: by the contract above.
        unsafe { put(out, c_uint::try_from(degrees).unwrap_or(0)) }
    }))
}

/// On, where the script has `ecc`.
///
/// # Safety
/// Both places are null or places for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEccMode(
    device: nv::nvmlDevice_t,
    current: *mut nv::nvmlEnableState_t,
    pending: *mut nv::nvmlEnableState_t,
) -> Status {
    answer(enter_card("nvmlDeviceGetEccMode", device).and_then(|(_, card)| {
        card.number("ecc").ok_or(NOT_SUPPORTED)?;
        // SAFETY: by the contract above.
        unsafe { put(current, 1).and_then(|()| put(pending, 1)) }
    }))
}

/// `ecc`: uncorrected errors; `ecc_corrected`: the others.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: nv::nvmlDevice_t,
    kind: nv::nvmlMemoryErrorType_t,
    _counter: nv::nvmlEccCounterType_t,
    out: *mut c_ulonglong,
) -> Status {
    answer(enter_card("nvmlDeviceGetTotalEccErrors", device).and_then(|(_, card)| {
        let count = card.number(if kind == 1 { "ecc" } else { "ecc_corrected" }).ok_or(NOT_SUPPORTED)?;
        // SAFETY: by the contract above.
        unsafe { put(out, count) }
    }))
}

/// `rows=corrected,uncorrected,pending,failed`.
///
/// # Safety
/// The places are null or places for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetRemappedRows(
    device: nv::nvmlDevice_t,
    corrected: *mut c_uint,
    uncorrected: *mut c_uint,
    pending: *mut c_uint,
    failed: *mut c_uint,
) -> Status {
    answer(enter_card("nvmlDeviceGetRemappedRows", device).and_then(|(_, card)| {
        let rows: Vec<c_uint> =
            card.text("rows").ok_or(NOT_SUPPORTED)?.split(',').map(|n| n.parse().unwrap_or(0)).collect();
        for (place, at) in [(corrected, 0), (uncorrected, 1), (pending, 2), (failed, 3)] {
            // SAFETY: by the contract above.
            unsafe { put(place, rows.get(at).copied().unwrap_or(0)) }?;
        }
        Ok(())
    }))
}

/// The one field that is known: the recovery action, `recovery`.
///
/// # Safety
/// `values` is null or an array of `count` fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: nv::nvmlDevice_t,
    count: c_int,
    values: *mut nv::nvmlFieldValue_t,
) -> Status {
    answer(enter_card("nvmlDeviceGetFieldValues", device).and_then(|(_, card)| {
        let count = usize::try_from(count).map_err(|_| INVALID)?;
        if values.is_null() {
            return Err(INVALID);
        }
        // SAFETY: by the contract above.
        for value in unsafe { std::slice::from_raw_parts_mut(values, count) } {
            let known = value.fieldId == nv::field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
            let number = card.number("recovery").filter(|_| known).and_then(|n| c_uint::try_from(n).ok());
            value.nvmlReturn = if number.is_some() { 0 } else { NOT_SUPPORTED };
            value.valueType = 1;
            value.value = nv::nvmlValue_t { ullVal: 0 };
            value.value.uiVal = number.unwrap_or(0);
        }
        Ok(())
    }))
}

//! Starting, ending, versions, and how many cards there are.

use std::ffi::{CStr, c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings as nv;

use super::{answer, put, put_text};
use crate::table::{NOT_FOUND, NOT_SUPPORTED, Status, enter, enter_for, handle_of};

/// Starts it.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Status {
    answer(enter("nvmlInit_v2").map(drop))
}

/// Starts it.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Status {
    answer(enter("nvmlInitWithFlags").map(drop))
}

/// Ends it.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Status {
    answer(enter("nvmlShutdown").map(drop))
}

/// A status in words.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(_status: Status) -> *const c_char {
    c"an error of the fake".as_ptr()
}

/// `driver` of the script.
///
/// # Safety
/// `out` is null or has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> Status {
    answer(enter("nvmlSystemGetDriverVersion").and_then(|script| {
        // SAFETY: by the contract above.
        unsafe { put_text(out, length, script.driver.as_deref().unwrap_or("580.95.05")) }
    }))
}

/// `cuda` of the script, 13.4 as 13040.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> Status {
    answer(enter("nvmlSystemGetCudaDriverVersion_v2").and_then(|script| {
        let (major, minor) = script.cuda.as_deref().unwrap_or("13.0").split_once('.').ok_or(NOT_SUPPORTED)?;
        let number = |text: &str| text.parse::<c_int>().map_err(|_| NOT_SUPPORTED);
        // SAFETY: by the contract above.
        unsafe { put(out, number(major)? * 1000 + number(minor)? * 10) }
    }))
}

/// How many cards the script has.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Status {
    answer(enter("nvmlDeviceGetCount_v2").and_then(|script| {
        // SAFETY: by the contract above.
        unsafe { put(out, c_uint::try_from(script.cards.len()).unwrap_or(0)) }
    }))
}

/// The card that stands there in the script.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut nv::nvmlDevice_t) -> Status {
    let found = enter_for("nvmlDeviceGetHandleByIndex_v2", |script| {
        script
            .cards
            .get(index as usize)
            .cloned()
            .map(Some)
            .ok_or(nv::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT)
    });
    // SAFETY: by the contract above.
    answer(found.and_then(|(_, card)| unsafe { put(out, handle_of(&card.ok_or(NOT_FOUND)?.uuid)) }))
}

/// The card or part of that name.
///
/// # Safety
/// `uuid` is a C string, `out` null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    out: *mut nv::nvmlDevice_t,
) -> Status {
    // SAFETY: by the contract above.
    let uuid = unsafe { CStr::from_ptr(uuid) }.to_string_lossy();
    let found = enter_for("nvmlDeviceGetHandleByUUID", |script| {
        script.find(&uuid).cloned().map(Some).ok_or(NOT_FOUND)
    });
    // SAFETY: by the contract above.
    answer(found.and_then(|(_, card)| unsafe { put(out, handle_of(&card.ok_or(NOT_FOUND)?.uuid)) }))
}

/// The card at that place on the bus.
///
/// # Safety
/// `pci` is a C string, `out` null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    pci: *const c_char,
    out: *mut nv::nvmlDevice_t,
) -> Status {
    // SAFETY: by the contract above.
    let pci = unsafe { CStr::from_ptr(pci) }.to_string_lossy();
    let found = enter_for("nvmlDeviceGetHandleByPciBusId_v2", |script| {
        let there = script.cards.iter().find(|card| card.text("pci") == Some(&pci));
        there.cloned().map(Some).ok_or(NOT_FOUND)
    });
    // SAFETY: by the contract above.
    answer(found.and_then(|(_, card)| unsafe { put(out, handle_of(&card.ok_or(NOT_FOUND)?.uuid)) }))
}

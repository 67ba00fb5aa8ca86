//! Parts of cards.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as nv;

use super::{answer, put};
use crate::script::Part;
use crate::table::{INVALID, NOT_FOUND, NOT_SUPPORTED, Status, enter_card, handle_of};

/// The most parts that a card has.
const MOST: c_uint = 7;

/// Whether a card is divided; `mig=no` cards can't be.
///
/// # Safety
/// Both places are null or places for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nv::nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Status {
    answer(enter_card("nvmlDeviceGetMigMode", device).and_then(|(script, card)| {
        if card.part.is_some() || card.text("mig") == Some("no") {
            return Err(NOT_SUPPORTED);
        }
        let on = c_uint::from(script.is_divided(&card));
        // SAFETY: by the contract above.
        unsafe { put(current, on).and_then(|()| put(pending, on)) }
    }))
}

/// How many parts there may be.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(
    device: nv::nvmlDevice_t,
    out: *mut c_uint,
) -> Status {
    // SAFETY: by the contract above.
    answer(enter_card("nvmlDeviceGetMaxMigDeviceCount", device).and_then(|_| unsafe { put(out, MOST) }))
}

/// A part of a card.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nv::nvmlDevice_t,
    index: c_uint,
    out: *mut nv::nvmlDevice_t,
) -> Status {
    answer(enter_card("nvmlDeviceGetMigDeviceHandleByIndex", device).and_then(|(script, card)| {
        let part = script.parts_of(&card.uuid).nth(index as usize).ok_or(NOT_FOUND)?;
        // SAFETY: by the contract above.
        unsafe { put(out, handle_of(&part.uuid)) }
    }))
}

/// The card that a part is of.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    device: nv::nvmlDevice_t,
    out: *mut nv::nvmlDevice_t,
) -> Status {
    let found = part_of("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device);
    // SAFETY: by the contract above.
    answer(found.and_then(|part| unsafe { put(out, handle_of(&part.parent)) }))
}

/// The number of its GPU instance.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(device: nv::nvmlDevice_t, out: *mut c_uint) -> Status {
    let found = part_of("nvmlDeviceGetGpuInstanceId", device);
    // SAFETY: by the contract above.
    answer(found.and_then(|part| unsafe { put(out, part.gpu_instance) }))
}

/// The number of its compute instance.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeInstanceId(
    device: nv::nvmlDevice_t,
    out: *mut c_uint,
) -> Status {
    let found = part_of("nvmlDeviceGetComputeInstanceId", device);
    // SAFETY: by the contract above.
    answer(found.and_then(|part| unsafe { put(out, part.compute_instance) }))
}

fn part_of(call: &str, device: nv::nvmlDevice_t) -> Result<Part, Status> {
    enter_card(call, device)?.1.part.ok_or(INVALID)
}

/// `slices` and `memory` of a part.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetAttributes_v2(
    device: nv::nvmlDevice_t,
    out: *mut nv::nvmlDeviceAttributes_t,
) -> Status {
    answer(enter_card("nvmlDeviceGetAttributes_v2", device).and_then(|(_, card)| {
        card.part.as_ref().ok_or(NOT_SUPPORTED)?;
        let slices = card.number("slices").and_then(|n| c_uint::try_from(n).ok()).unwrap_or(1);
        let attributes = nv::nvmlDeviceAttributes_t {
            multiprocessorCount: 14 * slices,
            sharedCopyEngineCount: 1,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: slices,
            computeInstanceSliceCount: slices,
            memorySizeMB: card.number("memory").unwrap_or(0),
        };
        // SAFETY: by the contract above.
        unsafe { put(out, attributes) }
    }))
}

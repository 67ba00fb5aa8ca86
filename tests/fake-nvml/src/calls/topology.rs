//! How cards are connected.

use std::ffi::{c_uint, c_ulong};

use nvml_wrapper_sys::bindings as nv;

use super::card::info;
use super::{answer, put};
use crate::table::{INVALID, NOT_SUPPORTED, Status, enter_card};

/// What is at the other end of one lane of a card: a card's address, or a switch. `None`: the lane is not in use.
fn far_end(call: &str, device: nv::nvmlDevice_t, lane: c_uint) -> Result<Option<(u32, String)>, Status> {
    let (script, card) = enter_card(call, device)?;
    let lanes = script.lanes(&card.uuid);
    if lanes.is_empty() {
        return Err(NOT_SUPPORTED);
    }
    if lane >= nv::NVML_NVLINK_MAX_LINKS {
        return Err(INVALID);
    }
    let address =
        |uuid: &str| script.find(uuid).and_then(|card| card.text("pci")).unwrap_or_default().to_owned();
    Ok(lanes.get(lane as usize).map(|end| match end {
        Some(uuid) => (0, address(uuid)),
        None => (2, "00000000:C0:00.0".to_owned()),
    }))
}

/// Whether a lane is in use.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    device: nv::nvmlDevice_t,
    lane: c_uint,
    out: *mut nv::nvmlEnableState_t,
) -> Status {
    let end = far_end("nvmlDeviceGetNvLinkState", device, lane);
    // SAFETY: by the contract above.
    answer(end.and_then(|end| unsafe { put(out, nv::nvmlEnableState_t::from(end.is_some())) }))
}

/// The address at the other end of a lane.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: nv::nvmlDevice_t,
    lane: c_uint,
    out: *mut nv::nvmlPciInfo_t,
) -> Status {
    let end = far_end("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, lane);
    // SAFETY: by the contract above.
    answer(end.and_then(|end| unsafe { put(out, info(&end.ok_or(NOT_SUPPORTED)?.1)) }))
}

/// What is at the other end of a lane: a card or a switch.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    device: nv::nvmlDevice_t,
    lane: c_uint,
    out: *mut nv::nvmlIntNvLinkDeviceType_t,
) -> Status {
    let end = far_end("nvmlDeviceGetNvLinkRemoteDeviceType", device, lane);
    // SAFETY: by the contract above.
    answer(end.and_then(|end| unsafe { put(out, end.ok_or(NOT_SUPPORTED)?.0) }))
}

/// The same board, or the whole machine.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    one: nv::nvmlDevice_t,
    other: nv::nvmlDevice_t,
    out: *mut nv::nvmlGpuTopologyLevel_t,
) -> Status {
    const CALL: &str = "nvmlDeviceGetTopologyCommonAncestor";
    let level = enter_card(CALL, one).and_then(|_| enter_card(CALL, other)).map(|_| {
        if one == other {
            nv::nvmlGpuLevel_enum_NVML_TOPOLOGY_INTERNAL
        } else {
            nv::nvmlGpuLevel_enum_NVML_TOPOLOGY_SYSTEM
        }
    });
    // SAFETY: by the contract above.
    answer(level.and_then(|level| unsafe { put(out, level) }))
}

/// All CPUs, as far as there is room.
///
/// # Safety
/// `out` is null or an array of `words` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCpuAffinity(
    device: nv::nvmlDevice_t,
    words: c_uint,
    out: *mut c_ulong,
) -> Status {
    answer(enter_card("nvmlDeviceGetCpuAffinity", device).and_then(|_| {
        for at in 0..words as usize {
            // SAFETY: by the contract above.
            unsafe { put(out.wrapping_add(at), c_ulong::MAX) }?;
        }
        Ok(())
    }))
}

//! Errors that are reported as they come. Each is delivered once, in whichever process waits first.

use std::ffi::c_uint;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings as nv;

use super::{answer, put};
use crate::state;
use crate::table::{INVALID, NOT_FOUND, Status, TIMEOUT, UNKNOWN, enter, enter_card, handle_of, script_path};

/// The cards whose events each set is for.
static SETS: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());

fn sets<R>(look: impl FnOnce(&mut Vec<Vec<String>>) -> R) -> R {
    look(&mut SETS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn number(set: nv::nvmlEventSet_t) -> usize {
    (set.addr() >> 4).wrapping_sub(1)
}

/// A new set.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(out: *mut nv::nvmlEventSet_t) -> Status {
    answer(enter("nvmlEventSetCreate").and_then(|_| {
        let count = sets(|sets| {
            sets.push(Vec::new());
            sets.len()
        });
        // SAFETY: by the contract above.
        unsafe { put(out, std::ptr::without_provenance_mut(count << 4)) }
    }))
}

/// The set is for this card too.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(
    device: nv::nvmlDevice_t,
    kinds: u64,
    set: nv::nvmlEventSet_t,
) -> Status {
    answer(enter_card("nvmlDeviceRegisterEvents", device).and_then(|(_, card)| {
        if kinds & u64::from(nv::nvmlEventTypeXidCriticalError) == 0 {
            return Err(INVALID);
        }
        sets(|sets| sets.get_mut(number(set)).map(|cards| cards.push(card.uuid)).ok_or(INVALID))
    }))
}

/// The kinds of events: this one.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(device: nv::nvmlDevice_t, out: *mut u64) -> Status {
    let kinds = u64::from(nv::nvmlEventTypeXidCriticalError);
    // SAFETY: by the contract above.
    answer(enter_card("nvmlDeviceGetSupportedEventTypes", device).and_then(|_| unsafe { put(out, kinds) }))
}

/// The next event, waiting for it at most so long.
///
/// # Safety
/// `out` is null or a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(
    set: nv::nvmlEventSet_t,
    out: *mut nv::nvmlEventData_t,
    timeout_ms: c_uint,
) -> Status {
    let end = Instant::now() + Duration::from_millis(timeout_ms.into());
    loop {
        match next(set) {
            // SAFETY: by the contract above.
            Ok(Some(event)) => return answer(unsafe { put(out, event) }),
            Err(status) => return status,
            Ok(None) if Instant::now() >= end => return TIMEOUT,
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn next(set: nv::nvmlEventSet_t) -> Result<Option<nv::nvmlEventData_t>, Status> {
    let script = enter("nvmlEventSetWait_v2")?;
    let cards = sets(|sets| sets.get(number(set)).cloned()).ok_or(INVALID)?;
    let found = state::with(script_path(), |state| {
        let mut fresh = script.xids.iter().enumerate().filter(|(at, _)| !state.delivered.contains(at));
        let (at, xid) = fresh.find(|(_, xid)| cards.contains(&xid.card))?;
        state.delivered.insert(at);
        Some(xid)
    });
    let event = found.map_err(|_| UNKNOWN)?.map(|xid| nv::nvmlEventData_t {
        device: handle_of(&xid.card),
        eventType: nv::nvmlEventTypeXidCriticalError.into(),
        eventData: xid.number,
        gpuInstanceId: xid.gpu_instance.unwrap_or(c_uint::MAX),
        computeInstanceId: c_uint::MAX,
    });
    Ok(event)
}

/// The set is not needed any more.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(set: nv::nvmlEventSet_t) -> Status {
    answer(enter("nvmlEventSetFree").and_then(|_| {
        // Numbers of sets never come again.
        sets(|sets| sets.get_mut(number(set)).map(Vec::clear).ok_or(NOT_FOUND))
    }))
}

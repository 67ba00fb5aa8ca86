//! Errors that are reported as they come: to each set, once, those of its cards that come after it is for them.

use std::ffi::c_uint;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings as nv;

use super::{answer, put};
use crate::script::Script;
use crate::table::{INVALID, LOST, NOT_FOUND, Status, TIMEOUT, enter, enter_card, enter_for, handle_of};

/// What a set is for.
#[derive(Default)]
struct Set {
    /// Cards, each with how many errors there were before.
    cards: Vec<(String, usize)>,
    /// So many errors, those before the cards' among them, are done with.
    done: usize,
}

static SETS: Mutex<Vec<Set>> = Mutex::new(Vec::new());

fn sets<R>(look: impl FnOnce(&mut Vec<Set>) -> R) -> R {
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
            sets.push(Set::default());
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
    answer(enter_card("nvmlDeviceRegisterEvents", device).and_then(|(script, card)| {
        if kinds & u64::from(nv::nvmlEventTypeXidCriticalError) == 0 {
            return Err(INVALID);
        }
        let before = script.xids.len();
        sets(|sets| sets.get_mut(number(set)).map(|set| set.cards.push((card.uuid, before))).ok_or(INVALID))
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

/// The real one says that a card is lost as soon as what it reported of it is fetched, whatever else the set is for.
fn next(set: nv::nvmlEventSet_t) -> Result<Option<nv::nvmlEventData_t>, Status> {
    let only = sets(|sets| match sets.get(number(set))?.cards.as_slice() {
        [(only, _)] => Some(only.clone()),
        _ => None,
    });
    // A set for one card hangs and fails with it.
    let about = |script: &Script| script.find(only.as_ref()?).filter(|card| !script.is_lost(card)).cloned();
    let (script, _) = enter_for("nvmlEventSetWait_v2", |script| Ok(about(script)))?;
    sets(|sets| {
        let set = sets.get_mut(number(set)).ok_or(INVALID)?;
        // Of a file that was written anew.
        set.done = set.done.min(script.xids.len());
        let is_for = |at: usize, card: &String| set.cards.iter().any(|(of, from)| of == card && *from <= at);
        let is_lost = |uuid: &String| script.find(uuid).is_none_or(|card| script.is_lost(card));
        let any_lost = set.cards.iter().any(|(uuid, _)| is_lost(uuid));
        let next = script
            .xids
            .iter()
            .enumerate()
            .skip(set.done)
            .find(|(at, xid)| is_for(*at, &xid.card) && (!any_lost || is_lost(&xid.card)));
        let Some((at, xid)) = next else { return if any_lost { Err(LOST) } else { Ok(None) } };
        set.done = at + 1;
        Ok(Some(nv::nvmlEventData_t {
            device: handle_of(&xid.card),
            eventType: nv::nvmlEventTypeXidCriticalError.into(),
            eventData: xid.number,
            gpuInstanceId: xid.gpu_instance.unwrap_or(c_uint::MAX),
            computeInstanceId: c_uint::MAX,
        }))
    })
}

/// The set is not needed any more.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(set: nv::nvmlEventSet_t) -> Status {
    answer(enter("nvmlEventSetFree").and_then(|_| {
        // Numbers of sets never come again.
        sets(|sets| sets.get_mut(number(set)).map(|set| set.cards.clear()).ok_or(NOT_FOUND))
    }))
}

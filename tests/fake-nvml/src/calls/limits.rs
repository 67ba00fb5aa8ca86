//! Limits on the memory that a control group has of a card (drivers from 615 on). What is set outlives the process, and
//! is logged. The group is a folder: one that is not there can't be limited.

use std::ffi::{CStr, c_char};
use std::path::Path;

use nvml_wrapper_sys::bindings as nv;

use super::answer;
use crate::state;
use crate::table::{INVALID, NOT_FOUND, NOT_SUPPORTED, Status, UNKNOWN, enter_card, script_path};

/// `nvmlSetMemoryLimits_v1_t`, which the bindings do not have.
#[repr(C)]
#[derive(Debug)]
pub struct SetLimits {
    /// Path of the group.
    pub group: *const c_char,
    /// Bytes that it has in any case.
    pub soft: u64,
    /// Bytes that it never exceeds.
    pub hard: u64,
}

/// `nvmlGetMemoryLimits_v1_t`.
#[repr(C)]
#[derive(Debug)]
pub struct GetLimits {
    /// Path of the group.
    pub group: *const c_char,
    /// Bytes that it has in any case.
    pub soft: u64,
    /// Bytes that it never exceeds.
    pub hard: u64,
    /// Bytes that it uses.
    pub used: u64,
}

/// # Safety
/// `group` is null or a C string.
unsafe fn group_name(group: *const c_char) -> Result<String, Status> {
    if group.is_null() {
        return Err(INVALID);
    }
    // SAFETY: by the contract above.
    let name = unsafe { CStr::from_ptr(group) }.to_str().map_err(|_| INVALID)?;
    let plain = !name.is_empty() && !name.contains(char::is_whitespace);
    if plain { Ok(name.to_owned()) } else { Err(INVALID) }
}

fn is_there(group: &str) -> bool {
    Path::new(group).is_dir() || Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/')).is_dir()
}

/// Sets both limits of a group. Logged whether it works or not: `set CARD GROUP SOFT HARD STATUS`.
///
/// # Safety
/// `limits` is null or a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceSetMemoryLimits_v1(
    device: nv::nvmlDevice_t,
    limits: *mut SetLimits,
) -> Status {
    if limits.is_null() {
        return INVALID;
    }
    // SAFETY: by the contract above.
    let limits = unsafe { &*limits };
    // SAFETY: as above.
    let group = unsafe { group_name(limits.group) };
    let outcome = enter_card("nvmlDeviceSetMemoryLimits_v1", device).and_then(|(script, card)| {
        let group = group.clone()?;
        if card.part.is_some() || script.is_divided(&card) {
            return Err(NOT_SUPPORTED);
        }
        if !is_there(&group) {
            return Err(NOT_FOUND);
        }
        if limits.soft > limits.hard {
            return Err(INVALID);
        }
        state::with(script_path(), |state| {
            let key = (card.uuid.clone(), group);
            match (limits.soft, limits.hard) {
                (0, u64::MAX) => drop(state.limits.remove(&key)),
                both => drop(state.limits.insert(key, both)),
            }
        })
        .map_err(|_| UNKNOWN)
    });
    let card = enter_card("-", device).map(|(_, card)| card.uuid).unwrap_or_else(|_| "-".to_owned());
    let group = group.unwrap_or_else(|_| "-".to_owned());
    let status = answer(outcome);
    state::log(script_path(), &format!("set {card} {group} {} {} {status}", limits.soft, limits.hard));
    status
}

/// The limits of a group, and what it uses: `uses` of the script.
///
/// # Safety
/// `limits` is null or a whole structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryLimits_v1(
    device: nv::nvmlDevice_t,
    limits: *mut GetLimits,
) -> Status {
    if limits.is_null() {
        return INVALID;
    }
    // SAFETY: by the contract above.
    let limits = unsafe { &mut *limits };
    // SAFETY: as above.
    let group = unsafe { group_name(limits.group) };
    answer(enter_card("nvmlDeviceGetMemoryLimits_v1", device).and_then(|(script, card)| {
        let group = group?;
        if card.part.is_some() || script.is_divided(&card) {
            return Err(NOT_SUPPORTED);
        }
        if !is_there(&group) {
            return Err(NOT_FOUND);
        }
        let key = (card.uuid.clone(), group.clone());
        let set = state::with(script_path(), |state| state.limits.get(&key).copied()).map_err(|_| UNKNOWN)?;
        (limits.soft, limits.hard) = set.unwrap_or((0, u64::MAX));
        let used = script.uses.iter().find(|(of, by, _)| *of == card.uuid && *by == group);
        limits.used = used.map_or(0, |(_, _, mib)| mib << 20);
        Ok(())
    }))
}

//! What every call begins with: the script is read, switches that are thrown for the call work, and the card behind a
//! handle is found. Handles are numbers that a process never gives twice.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nvml_wrapper_sys::bindings as nv;

use crate::script::{Card, Script};
use crate::state;

/// What a call returns but success.
pub(crate) type Status = nv::nvmlReturn_t;

pub(crate) const SUCCESS: Status = nv::nvmlReturn_enum_NVML_SUCCESS;
pub(crate) const INVALID: Status = nv::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT;
pub(crate) const NOT_SUPPORTED: Status = nv::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED;
pub(crate) const NOT_FOUND: Status = nv::nvmlReturn_enum_NVML_ERROR_NOT_FOUND;
pub(crate) const TOO_SMALL: Status = nv::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE;
pub(crate) const NO_DRIVER: Status = nv::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED;
pub(crate) const TIMEOUT: Status = nv::nvmlReturn_enum_NVML_ERROR_TIMEOUT;
pub(crate) const LOST: Status = nv::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST;
pub(crate) const OTHER_VERSION: Status = nv::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
pub(crate) const UNKNOWN: Status = nv::nvmlReturn_enum_NVML_ERROR_UNKNOWN;

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The names behind handles, in the order in which they were first asked for.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The script's path: `AX_FAKE_NVML`, or the library's own path with `.txt` after it. Both are looked at once.
pub(crate) fn script_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("AX_FAKE_NVML") {
        Some(path) => path.into(),
        None => own_path().map(|own| own.with_added_extension("txt")).unwrap_or_default(),
    })
}

/// The path from which this library was loaded, as it was asked for.
fn own_path() -> Option<PathBuf> {
    // SAFETY: all zeroes is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let own: *const libc::c_void = (own_path as fn() -> Option<PathBuf>) as *const libc::c_void;
    // SAFETY: the address is one of this library's, and `info` is a valid place for the answer.
    let found = unsafe { libc::dladdr(own, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
}

/// The beginning of a call that concerns no card.
pub(crate) fn enter(call: &str) -> Result<Script, Status> {
    enter_for(call, |_| Ok(None)).map(|(script, _)| script)
}

/// The beginning of a call about the card behind a handle.
pub(crate) fn enter_card(call: &str, device: nv::nvmlDevice_t) -> Result<(Script, Card), Status> {
    let uuid = name_of(device)?;
    // One that is out of the script has fallen off the bus.
    let found = enter_for(call, |script| script.find(&uuid).cloned().map(Some).ok_or(LOST))?;
    Ok((found.0, found.1.ok_or(UNKNOWN)?))
}

/// The beginning of any call: `which` finds the card that it is about.
pub(crate) fn enter_for(
    call: &str,
    which: impl Fn(&Script) -> Result<Option<Card>, Status>,
) -> Result<(Script, Option<Card>), Status> {
    let (mut told, mut slept) = (false, false);
    loop {
        let text = std::fs::read_to_string(script_path()).map_err(|_| NO_DRIVER)?;
        let script = Script::read(&text).map_err(|bad| {
            state::log(script_path(), &format!("bad line: {}", bad.0));
            UNKNOWN
        })?;
        let card = which(&script);
        let uuid = card.as_ref().ok().and_then(Option::as_ref).map(|card| card.uuid.clone());
        if script.trace && !told {
            told = true;
            let card = uuid.as_deref().unwrap_or("-");
            state::log(script_path(), &format!("call {} {call} {card}", std::process::id()));
        }
        if script.crashes(call, uuid.as_deref()) {
            std::process::abort();
        }
        if script.hangs(call, uuid.as_deref()) {
            std::thread::sleep(LOOK_AGAIN);
            continue;
        }
        if let Some(ms) = script.takes(call, uuid.as_deref()).filter(|_| !slept) {
            slept = true;
            std::thread::sleep(Duration::from_millis(ms.into()));
            continue;
        }
        if let Some(status) = script.failure(call, uuid.as_deref()) {
            return Err(status);
        }
        let card = card?;
        if card.as_ref().is_some_and(|card| script.is_lost(card)) {
            return Err(LOST);
        }
        return Ok((script, card));
    }
}

/// The handle of a card.
pub(crate) fn handle_of(uuid: &str) -> nv::nvmlDevice_t {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let position = names.iter().position(|name| name == uuid).unwrap_or_else(|| {
        names.push(uuid.to_owned());
        names.len() - 1
    });
    // Never dereferenced: a number in the form of a pointer.
    std::ptr::without_provenance_mut((position + 1) << 4)
}

fn name_of(device: nv::nvmlDevice_t) -> Result<String, Status> {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let position = (device.addr() >> 4).checked_sub(1).ok_or(INVALID)?;
    names.get(position).cloned().ok_or(INVALID)
}

/// Whether a process is alive: what it had on a card is free when it has ended.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

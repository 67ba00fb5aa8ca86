//! The NVIDIA driver's memory limit on a control group, one card at a time (drivers from 615 on). The bindings used
//! elsewhere do not have its two functions: they are looked up in the loaded library, and may be missing.
//!
//! The driver keeps sums for all groups above a limited one, and lowers them only when the limit is taken away
//! through it: call [`LimitCalls::clear`] before the group is removed. For the same reason `dmem.*` is never written
//! by hand.

use std::ffi::CString;
use std::os::raw::{c_char, c_uint, c_void};
use std::path::Path;

use nvml_wrapper::error::NvmlError as Raw;

use crate::nvml::{NvmlError, Session};

/// What the driver takes for "no limit".
const UNLIMITED: u64 = u64::MAX;

const SUCCESS: c_uint = 0;
const NOT_SUPPORTED: c_uint = 3;
const NO_PERMISSION: c_uint = 4;
const NOT_FOUND: c_uint = 6;
const GPU_IS_LOST: c_uint = 15;
const GPU_NOT_FOUND: c_uint = 28;

/// How much of a card a group may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardLimit {
    /// The group can always have this much, bytes.
    pub soft: u64,
    /// The group never gets more than this, bytes.
    pub hard: u64,
}

impl CardLimit {
    /// No limit at all.
    pub const NONE: CardLimit = CardLimit { soft: 0, hard: UNLIMITED };
}

/// Why a limit could not be set or read.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The driver is older than these limits.
    #[error("the driver has no memory limits for control groups (it is older than 615)")]
    TooOld,
    /// The card is divided by MIG.
    #[error("MIG is on, and limits do not go with it")]
    Mig,
    /// The library could not be asked.
    #[error(transparent)]
    Nvml(#[from] NvmlError),
    /// The driver refuses.
    #[error("cannot {doing} on {card} for group {group}: {why}")]
    Refused {
        /// What was asked.
        doing: &'static str,
        /// Which card.
        card: String,
        /// Which group.
        group: String,
        /// In words.
        why: String,
        /// The driver's number.
        code: u32,
    },
    /// What is read afterwards differs from what was set.
    #[error("the limit on {card} was set to {set:?} and reads {read:?}")]
    Differs {
        /// Which card.
        card: String,
        /// What was set.
        set: CardLimit,
        /// What is read.
        read: CardLimit,
    },
}

/// `nvmlSetMemoryLimits_v1_t`.
#[repr(C)]
struct SetLimits {
    name_space: *const c_char,
    soft: u64,
    hard: u64,
}

/// `nvmlGetMemoryLimits_v1_t`.
#[repr(C)]
struct GetLimits {
    name_space: *const c_char,
    soft: u64,
    hard: u64,
    used: u64,
}

type Set = unsafe extern "C" fn(*mut c_void, *mut SetLimits) -> c_uint;
type Get = unsafe extern "C" fn(*mut c_void, *mut GetLimits) -> c_uint;

/// The two functions in the loaded library.
#[derive(Debug)]
pub struct LimitCalls<'a> {
    session: &'a Session,
    set: Set,
    get: Get,
}

impl<'a> LimitCalls<'a> {
    /// Looks them up.
    ///
    /// # Errors
    /// [`LimitError::TooOld`] where one is missing.
    pub fn of(session: &'a Session) -> Result<LimitCalls<'a>, LimitError> {
        let library = &session.raw().lib().__library;
        // SAFETY: the types are those of the driver's header.
        let (set, get) = unsafe {
            (
                library.get::<Set>(b"nvmlDeviceSetMemoryLimits_v1\0"),
                library.get::<Get>(b"nvmlDeviceGetMemoryLimits_v1\0"),
            )
        };
        match (set, get) {
            (Ok(set), Ok(get)) => Ok(LimitCalls { session, set: *set, get: *get }),
            _ => Err(LimitError::TooOld),
        }
    }

    /// Limits the memory of a card that the processes in `group`, the full path of a control group, have together.
    ///
    /// # Errors
    /// What the driver says: not permitted to ordinary users, not possible outside of a unified tree.
    pub fn set(&self, card: &str, group: &Path, limit: CardLimit) -> Result<(), LimitError> {
        let name = c_path(group);
        let mut wanted = SetLimits { name_space: name.as_ptr(), soft: limit.soft, hard: limit.hard };
        let device = self.device(card)?;
        // SAFETY: the handle lives as long as the session, and the driver reads one structure of this form.
        let code = unsafe { (self.set)(device, &mut wanted) };
        said("set the memory limit", card, group, code)
    }

    /// Returns the limit that is set.
    ///
    /// # Errors
    /// What the driver says.
    pub fn get(&self, card: &str, group: &Path) -> Result<CardLimit, LimitError> {
        let name = c_path(group);
        let mut found = GetLimits { name_space: name.as_ptr(), soft: 0, hard: 0, used: 0 };
        let device = self.device(card)?;
        // SAFETY: the handle lives as long as the session, and the driver fills one structure of this form.
        let code = unsafe { (self.get)(device, &mut found) };
        said("read the memory limit", card, group, code)?;
        Ok(CardLimit { soft: found.soft, hard: found.hard })
    }

    /// Takes a limit away, so that what it held for the group is free again. If the card is gone, there is nothing to
    /// do.
    ///
    /// # Errors
    /// What the driver says.
    pub fn clear(&self, card: &str, group: &Path) -> Result<(), LimitError> {
        match self.set(card, group, CardLimit::NONE) {
            Err(LimitError::Refused { code: NOT_FOUND | GPU_IS_LOST | GPU_NOT_FOUND, .. }) => Ok(()),
            Err(LimitError::Nvml(NvmlError::Call { source, .. })) if is_gone(&source) => Ok(()),
            other => other,
        }
    }

    /// Tries whether a limit on this card works: sets one on a group made for this purpose, reads it, and takes it
    /// away.
    ///
    /// # Errors
    /// Why it can't be relied on.
    pub fn try_out(&self, card: &str, scratch: &Path) -> Result<(), LimitError> {
        const TRIAL: CardLimit = CardLimit { soft: 64 << 20, hard: 128 << 20 };
        if self.is_divided(card)? {
            return Err(LimitError::Mig);
        }
        self.set(card, scratch, TRIAL)?;
        let read = self.get(card, scratch);
        self.clear(card, scratch)?;
        match read? {
            read if read == TRIAL => Ok(()),
            read => Err(LimitError::Differs { card: card.to_owned(), set: TRIAL, read }),
        }
    }

    fn is_divided(&self, card: &str) -> Result<bool, LimitError> {
        let device = self.session.raw().device_by_uuid(card).map_err(|source| call("open", card, source))?;
        // Cards that can't be divided answer with an error.
        Ok(device.mig_mode().is_ok_and(|mode| mode.current != 0))
    }

    fn device(&self, card: &str) -> Result<*mut c_void, LimitError> {
        let device = self.session.raw().device_by_uuid(card).map_err(|source| call("open", card, source))?;
        // SAFETY: used while the session, which owns it, is borrowed.
        Ok(unsafe { device.handle() }.cast())
    }
}

fn call(doing: &'static str, card: &str, source: Raw) -> LimitError {
    NvmlError::Call { doing, card: card.to_owned(), source: Box::new(source) }.into()
}

fn is_gone(error: &Raw) -> bool {
    matches!(error, Raw::NotFound | Raw::GpuLost)
}

/// A path with a NUL, or an empty one, names nothing.
fn c_path(group: &Path) -> CString {
    CString::new(group.as_os_str().as_encoded_bytes()).unwrap_or_default()
}

fn said(doing: &'static str, card: &str, group: &Path, code: c_uint) -> Result<(), LimitError> {
    let why = match code {
        SUCCESS => return Ok(()),
        NOT_SUPPORTED => "the driver does not support it here".to_owned(),
        NO_PERMISSION => "only root may".to_owned(),
        NOT_FOUND => "the driver knows no such group or card".to_owned(),
        GPU_IS_LOST => "the card has fallen off the bus".to_owned(),
        code => format!("the driver says {code}"),
    };
    let (card, group) = (card.to_owned(), group.display().to_string());
    Err(LimitError::Refused { doing, card, group, why, code })
}

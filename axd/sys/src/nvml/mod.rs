//! The cards of this machine and what they are doing, by NVIDIA's management library.
//!
//! The library is loaded on demand, from a path that the caller may choose, and stays loaded. With a broken driver a
//! call may hang for ever: make calls in a process for which nothing waits, and have [`Session::open_told`] report
//! each call before it is made, so that a hang can be blamed. What the library does not say is `None`, never zero.

mod card;
mod events;
mod links;
mod state;

pub use card::{Card, Device, Part, numa_node};
pub use events::{Event, Events};
pub use links::{Lane, peers};
pub use state::{CardState, Holder, Memory};

use nvml_wrapper::Nvml;
use nvml_wrapper::error::{NvmlError as Raw, nvml_try};
use nvml_wrapper_sys::bindings::{NvmlLib, nvmlReturn_t};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// Every function of the library that is called here, in the order in which a look at all cards calls them.
pub const CALLS: [&str; 30] = [
    "nvmlInit_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlEventSetCreate",
    "nvmlDeviceRegisterEvents",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlEventSetWait_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetFieldValues",
];

/// Why the cards could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum NvmlError {
    /// No library: a machine without cards, or without a driver.
    #[error("no NVML library ({library}): {source}")]
    Absent {
        /// The library that was looked for.
        library: PathBuf,
        /// What the loader said.
        source: Box<Raw>,
    },
    /// The library is there but the driver is not loaded or does not fit.
    #[error("NVML does not start: {0}")]
    NoDriver(Box<Raw>),
    /// A call failed.
    #[error("cannot {doing} ({card}): {source}")]
    Call {
        /// What was asked.
        doing: &'static str,
        /// Which card, or "all cards".
        card: String,
        /// What the library said.
        source: Box<Raw>,
    },
}

/// The library's answer for a card that it does not find; the bindings have no name for it.
const GPU_NOT_FOUND: u32 = 28;

impl NvmlError {
    /// True if the library, the driver or the card will never have what was asked for.
    pub fn is_unsupported(&self) -> bool {
        let NvmlError::Call { source, .. } = self else { return false };
        matches!(**source, Raw::NotSupported | Raw::FunctionNotFound | Raw::FailedToLoadSymbol(_))
    }

    /// True if the driver has lost the card.
    pub fn is_lost(&self) -> bool {
        let NvmlError::Call { source, .. } = self else { return false };
        matches!(**source, Raw::GpuLost | Raw::NotFound | Raw::UnexpectedVariant(GPU_NOT_FOUND))
    }
}

/// `None` if the value is not supported.
fn if_supported<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Told before each call: its name, and the card, by UUID or as `#` and its number, empty for none. After the call,
/// told two empty words.
type Teller = Box<dyn Fn(&'static str, &str)>;

/// The loaded library.
pub struct Session {
    // Never unloaded: it may have threads, and ends with the process.
    nvml: ManuallyDrop<Nvml>,
    tell: Teller,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Loads and starts the library at this path; `None`: the one that the loader finds as `libnvidia-ml.so.1`.
    ///
    /// # Errors
    /// [`NvmlError::Absent`] and [`NvmlError::NoDriver`].
    pub fn open(library: Option<&Path>) -> Result<Session, NvmlError> {
        Session::open_told(library, |_, _| {})
    }

    /// Like [`Session::open`], but `tell` is told before each call: its name, and the card by UUID, or as `#` and its
    /// number as long as the UUID is unknown. For calls about all cards the card is empty. When the call has
    /// returned, `tell` gets two empty words.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_told(
        library: Option<&Path>,
        tell: impl Fn(&'static str, &str) + 'static,
    ) -> Result<Session, NvmlError> {
        let path = library.unwrap_or(Path::new("libnvidia-ml.so.1"));
        tell("nvmlInit_v2", "");
        let started = Nvml::builder().lib_path(path.as_os_str()).init();
        tell("", "");
        let nvml = started.map_err(|error| match error {
            Raw::LibloadingError(_) | Raw::LibraryNotFound => {
                NvmlError::Absent { library: path.to_owned(), source: Box::new(error) }
            }
            other => NvmlError::NoDriver(Box::new(other)),
        })?;
        Ok(Session { nvml: ManuallyDrop::new(nvml), tell: Box::new(tell) })
    }

    /// The library itself, for calls that are not here.
    pub(crate) fn raw(&self) -> &Nvml {
        &self.nvml
    }

    fn lib(&self) -> &NvmlLib {
        self.raw().lib()
    }

    /// Calls a function of the library, or returns that the library does not have it.
    fn call<F>(
        &self,
        (name, doing): (&'static str, &'static str),
        card: &str,
        function: Option<F>,
        run: impl FnOnce(F) -> nvmlReturn_t,
    ) -> Result<(), NvmlError> {
        debug_assert!(CALLS.contains(&name), "{name} is not in the list of calls");
        let outcome = match function {
            None => Err(Raw::FailedToLoadSymbol(name.to_owned())),
            Some(function) => {
                (self.tell)(name, card);
                let code = run(function);
                (self.tell)("", "");
                nvml_try(code)
            }
        };
        let card = || if card.is_empty() { "all cards".to_owned() } else { card.to_owned() };
        outcome.map_err(|source| NvmlError::Call { doing, card: card(), source: Box::new(source) })
    }
}

/// Calls a function of the library by name. Its arguments must be what the header says.
macro_rules! call {
    ($session:expr, $card:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let session: &$crate::nvml::Session = $session;
        let function = session.lib().$name.as_ref().ok().copied();
        let name = (stringify!($name), concat!("call ", stringify!($name)));
        session.call(name, $card, function, |function| {
            // SAFETY: the function is that of the loaded library, with the type of NVIDIA's header. Handles are the
            // library's own and used while it is loaded; places for answers are those of live values.
            unsafe { function($($argument),*) }
        })
    }};
}
use call;

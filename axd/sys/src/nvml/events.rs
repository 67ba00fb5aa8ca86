//! Errors of cards (Xid), as the driver reports them.

use super::{Device, NvmlError, Raw, call};
use nvml_wrapper_sys::bindings as nv;

/// A subscription to the errors of one card, with those not fetched yet. Each card has one of its own: in a common
/// one, a lost card would make the library report nothing but that.
#[derive(Debug)]
pub struct Events<'s> {
    card: Device<'s>,
    set: nv::nvmlEventSet_t,
}

/// An error of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Number of the GPU instance in which it happened, if in one.
    pub gpu_instance: Option<u32>,
    /// NVIDIA's number of the error.
    pub xid: u32,
}

impl<'s> Device<'s> {
    /// From now on its errors are reported. Parts of cards have none of their own.
    ///
    /// # Errors
    /// When it does not report any.
    pub fn events(&self) -> Result<Events<'s>, NvmlError> {
        let mut set = std::ptr::null_mut();
        call!(self.session, "", nvmlEventSetCreate(&raw mut set))?;
        let kinds = nv::nvmlEventTypeXidCriticalError.into();
        call!(self.session, &self.name, nvmlDeviceRegisterEvents(self.raw, kinds, set))?;
        Ok(Events { card: self.clone(), set })
    }
}

impl Events<'_> {
    /// The next error that was reported and not fetched. Does not wait.
    ///
    /// # Errors
    /// When the library fails.
    pub fn next(&self) -> Result<Option<Event>, NvmlError> {
        let mut data = nv::nvmlEventData_t {
            device: std::ptr::null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        let Device { session, name, .. } = &self.card;
        match call!(session, name, nvmlEventSetWait_v2(self.set, &raw mut data, 0)) {
            Ok(()) => {}
            Err(NvmlError::Call { source, .. }) if matches!(*source, Raw::Timeout) => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Some(Event {
            gpu_instance: Some(data.gpuInstanceId).filter(|instance| *instance != u32::MAX),
            xid: u32::try_from(data.eventData).unwrap_or(u32::MAX),
        }))
    }
}

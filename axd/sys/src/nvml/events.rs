//! Errors of cards (Xid), as the driver reports them.

use super::{Device, NvmlError, Raw, Session, call};
use nvml_wrapper_sys::bindings as nv;
use std::cell::RefCell;

/// What the driver is asked to report, and what it has reported that was not fetched yet.
#[derive(Debug)]
pub struct Events<'s> {
    session: &'s Session,
    set: nv::nvmlEventSet_t,
    /// Handles and UUIDs: a card that has just been lost does not say its name any more.
    heard: RefCell<Vec<(nv::nvmlDevice_t, String)>>,
}

/// An error of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// UUID of the card.
    pub card: String,
    /// Number of the GPU instance in which it happened, if in one.
    pub gpu_instance: Option<u32>,
    /// NVIDIA's number of the error.
    pub xid: u32,
}

impl Session {
    /// An empty list of cards to hear of.
    ///
    /// # Errors
    /// When the library has no events.
    pub fn events(&self) -> Result<Events<'_>, NvmlError> {
        let mut set = std::ptr::null_mut();
        call!(self, "", nvmlEventSetCreate(&raw mut set))?;
        Ok(Events { session: self, set, heard: RefCell::default() })
    }
}

impl Events<'_> {
    /// From now on the errors of this card are reported as well. Parts of cards have none of their own.
    ///
    /// # Errors
    /// When it does not report any.
    pub fn hear(&self, card: &Device<'_>) -> Result<(), NvmlError> {
        let kinds = nv::nvmlEventTypeXidCriticalError.into();
        call!(self.session, &card.name, nvmlDeviceRegisterEvents(card.raw, kinds, self.set))?;
        self.heard.borrow_mut().push((card.raw, card.name.clone()));
        Ok(())
    }

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
        match call!(self.session, "", nvmlEventSetWait_v2(self.set, &raw mut data, 0)) {
            Ok(()) => {}
            Err(NvmlError::Call { source, .. }) if matches!(*source, Raw::Timeout) => return Ok(None),
            Err(error) => return Err(error),
        }
        let heard = self.heard.borrow();
        let card = match heard.iter().find(|(raw, _)| *raw == data.device) {
            Some((_, name)) => name.clone(),
            None => Device { session: self.session, raw: data.device, name: String::new() }.named()?.name,
        };
        Ok(Some(Event {
            card,
            gpu_instance: Some(data.gpuInstanceId).filter(|instance| *instance != u32::MAX),
            xid: u32::try_from(data.eventData).unwrap_or(u32::MAX),
        }))
    }
}

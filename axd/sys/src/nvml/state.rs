//! A card at one moment.

use super::{Device, NvmlError, Raw, call, if_supported};
use nvml_wrapper_sys::bindings as nv;
use std::ffi::{c_uint, c_ulonglong};

/// A process with memory on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its number in the host's numbering; 0 if hidden from us.
    pub pid: u32,
    /// Memory it holds, bytes; `None` where the driver does not say (MIG, virtual cards).
    pub memory_bytes: Option<u64>,
}

/// The memory of a card, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In use, without what is reserved.
    pub used: u64,
    /// Free.
    pub free: u64,
}

/// A card at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardState {
    /// Its memory; `None` where the library does not say.
    pub memory: Option<Memory>,
    /// Processes with memory on it, for computing, by themselves or a server, and graphics, each once; `None` where the
    /// library does not list those that compute.
    pub holders: Option<Vec<Holder>>,
    /// Share of the last second in which something ran, per cent.
    pub utilization: Option<u32>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Milliwatts.
    pub power_mw: Option<u32>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// True if pages or rows of its memory wait to be taken out of use at the next reset, or could not be.
    pub retirement_pending: Option<bool>,
    /// The number of the action that the driver recommends to repair it; 0: none.
    pub recovery: Option<u32>,
}

/// If less than this is in use beyond what processes account for, it is taken for the driver's.
const NOT_WORTH_ASKING: u64 = 256 << 20;

impl Device<'_> {
    /// Returns what it is doing.
    ///
    /// # Errors
    /// When it is gone, or does not say how much of its memory is in use and by which processes.
    pub fn state(&self) -> Result<CardState, NvmlError> {
        let mut memory = self.memory_now()?;
        let mut holders = self.holders()?;
        let accounted: u64 = holders.iter().flatten().filter_map(|holder| holder.memory_bytes).sum();
        // The two answers are of two instants. What a process freed in between would look like nobody's.
        if memory.is_some_and(|memory| memory.used > accounted + NOT_WORTH_ASKING) {
            let both = memory.into_iter().chain(self.memory_now()?);
            memory = both.min_by_key(|memory| memory.used);
        }
        if memory.is_some_and(|memory| memory.used > accounted + NOT_WORTH_ASKING) {
            // In containers drivers list processes and don't find their memory: nothing is not what they have.
            let nothing = |holder: &&mut Holder| holder.memory_bytes == Some(0);
            let unsaid = holders.iter_mut().flatten().filter(nothing);
            unsaid.for_each(|holder| holder.memory_bytes = None);
        }
        Ok(CardState {
            memory,
            holders,
            utilization: if_said(self.utilization())?,
            temperature: if_said(self.temperature())?,
            power_mw: if_said(self.power())?,
            ecc_uncorrected: if_said(self.ecc_uncorrected())?,
            retirement_pending: self.retirement_pending()?,
            recovery: self.recovery()?,
        })
    }

    fn memory_now(&self) -> Result<Option<Memory>, NvmlError> {
        let memory = if_supported(self.memory())?;
        Ok(memory.map(|memory| Memory { used: memory.used, free: memory.free }))
    }

    /// A process may be in several lists, with the same memory.
    fn holders(&self) -> Result<Option<Vec<Holder>>, NvmlError> {
        let computing = if_supported(self.processes(|count, infos| {
            call!(self.session, &self.name, nvmlDeviceGetComputeRunningProcesses_v3(self.raw, count, infos))
        }))?;
        let Some(mut all) = computing else { return Ok(None) };
        // Others only where there are any: what a card does not say of them is no fault of it.
        let served = self.processes(|count, infos| {
            call!(
                self.session,
                &self.name,
                nvmlDeviceGetMPSComputeRunningProcesses_v3(self.raw, count, infos)
            )
        });
        all.extend(if_said(served)?.into_iter().flatten());
        let drawing = self.processes(|count, infos| {
            call!(self.session, &self.name, nvmlDeviceGetGraphicsRunningProcesses_v3(self.raw, count, infos))
        });
        all.extend(if_said(drawing)?.into_iter().flatten());
        Ok(Some(once_each(all)))
    }

    /// One list of processes. Between asking for their number and for the list, there may come more.
    fn processes(
        &self,
        mut ask: impl FnMut(*mut c_uint, *mut nv::nvmlProcessInfo_t) -> Result<(), NvmlError>,
    ) -> Result<Vec<nv::nvmlProcessInfo_t>, NvmlError> {
        const NONE: nv::nvmlProcessInfo_t =
            nv::nvmlProcessInfo_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: 0, computeInstanceId: 0 };
        const TRIES: u32 = 5;
        let mut infos = Vec::new();
        let mut tries = 0;
        loop {
            let mut count = c_uint::try_from(infos.len()).unwrap_or(0);
            let place = if infos.is_empty() { std::ptr::null_mut() } else { infos.as_mut_ptr() };
            tries += 1;
            match ask(&raw mut count, place) {
                Ok(()) => {
                    infos.truncate(count as usize);
                    return Ok(infos);
                }
                Err(NvmlError::Call { source, .. })
                    if matches!(*source, Raw::InsufficientSize(_)) && tries < TRIES =>
                {
                    infos = vec![NONE; count as usize + 8];
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn utilization(&self) -> Result<u32, NvmlError> {
        let mut rates = nv::nvmlUtilization_t { gpu: 0, memory: 0 };
        call!(self.session, &self.name, nvmlDeviceGetUtilizationRates(self.raw, &raw mut rates))?;
        Ok(rates.gpu)
    }

    fn temperature(&self) -> Result<u32, NvmlError> {
        let mut degrees: c_uint = 0;
        let sensor = nv::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
        call!(self.session, &self.name, nvmlDeviceGetTemperature(self.raw, sensor, &raw mut degrees))?;
        Ok(degrees)
    }

    fn power(&self) -> Result<u32, NvmlError> {
        let mut milliwatts: c_uint = 0;
        call!(self.session, &self.name, nvmlDeviceGetPowerUsage(self.raw, &raw mut milliwatts))?;
        Ok(milliwatts)
    }

    fn ecc_uncorrected(&self) -> Result<u64, NvmlError> {
        let kind = nv::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
        let since = nv::nvmlEccCounterType_enum_NVML_VOLATILE_ECC;
        let mut count: c_ulonglong = 0;
        call!(self.session, &self.name, nvmlDeviceGetTotalEccErrors(self.raw, kind, since, &raw mut count))?;
        Ok(count)
    }

    /// Older cards retire pages, newer ones remap rows; a card does at most one of both.
    fn retirement_pending(&self) -> Result<Option<bool>, NvmlError> {
        let mut pages = 0;
        let answer =
            call!(self.session, &self.name, nvmlDeviceGetRetiredPagesPendingStatus(self.raw, &raw mut pages));
        let pages = if_said(answer.map(|()| pages != 0))?;
        let mut rows: [c_uint; 4] = [0; 4];
        let [corrected, uncorrected, pending, failed] = &mut rows;
        let answer = call!(
            self.session,
            &self.name,
            nvmlDeviceGetRemappedRows(self.raw, corrected, uncorrected, pending, failed)
        );
        let [_, _, pending, failed] = rows;
        let rows = if_said(answer.map(|()| pending != 0 || failed != 0))?;
        Ok(pages.or(rows).map(|_| pages == Some(true) || rows == Some(true)))
    }

    fn recovery(&self) -> Result<Option<u32>, NvmlError> {
        let mut field = nv::nvmlFieldValue_t {
            fieldId: nv::field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: nv::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
            value: nv::nvmlValue_t { ullVal: 0 },
        };
        let answer = call!(self.session, &self.name, nvmlDeviceGetFieldValues(self.raw, 1, &raw mut field));
        let known = if_said(answer)?.is_some() && field.nvmlReturn == 0;
        // SAFETY: every bit pattern is a number; the eight bytes were zero before the library wrote some of them.
        let number = unsafe { field.value.uiVal };
        Ok(known.then_some(number))
    }
}

/// `None` for what a card does not say; it is an error only if the card is gone.
fn if_said<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Err(error) if error.is_lost() => Err(error),
        other => Ok(other.ok()),
    }
}

fn once_each(mut all: Vec<nv::nvmlProcessInfo_t>) -> Vec<Holder> {
    let holder = |process: &nv::nvmlProcessInfo_t| Holder {
        pid: process.pid,
        memory_bytes: Some(process.usedGpuMemory).filter(|bytes| *bytes != u64::MAX),
    };
    // On a divided card a process may have memory of several parts.
    all.sort_by_key(|process| (process.pid, process.gpuInstanceId, process.computeInstanceId));
    // Those that are hidden all have the number 0: each may be another one.
    all.dedup_by(|a, b| {
        let key = |one: &nv::nvmlProcessInfo_t| (one.pid, one.gpuInstanceId, one.computeInstanceId);
        a.pid != 0 && key(a) == key(b)
    });
    let mut once: Vec<Holder> = Vec::new();
    for found in all.iter().map(holder) {
        match once.last_mut().filter(|last| last.pid == found.pid && found.pid != 0) {
            Some(last) => {
                let sum = last.memory_bytes.unwrap_or(0) + found.memory_bytes.unwrap_or(0);
                last.memory_bytes = last.memory_bytes.or(found.memory_bytes).map(|_| sum);
            }
            None => once.push(found),
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_once_whatever_lists_and_parts_it_is_in() {
        let info = |pid, bytes, part| nv::nvmlProcessInfo_t {
            pid,
            usedGpuMemory: bytes,
            gpuInstanceId: part,
            computeInstanceId: 0,
        };
        let seen = once_each(vec![
            info(7, 5, 0),
            info(9, u64::MAX, 0),
            info(7, 5, 0),
            info(7, 2, 1),
            info(0, 1, 0),
            info(0, 1, 0),
        ]);
        let holder = |pid, memory_bytes| Holder { pid, memory_bytes };
        assert_eq!(seen, [holder(0, Some(1)), holder(0, Some(1)), holder(7, Some(7)), holder(9, None)]);
    }
}

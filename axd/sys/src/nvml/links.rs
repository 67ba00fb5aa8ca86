//! Direct links between cards.

use super::card::{empty_pci, pci_text};
use super::{Device, NvmlError, Raw, call};
use nvml_wrapper_sys::bindings as nv;

/// What is at the other end of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lane {
    /// The device at this place on the bus.
    Card(String),
    /// A switch, which connects all cards with lanes to one.
    Switch,
}

impl Device<'_> {
    /// Its lanes that are in use and of which it says where they lead; empty if it can't have any.
    ///
    /// # Errors
    /// When it is gone.
    pub fn lanes(&self) -> Result<Vec<Lane>, NvmlError> {
        let mut lanes = Vec::new();
        for lane in 0..nv::NVML_NVLINK_MAX_LINKS {
            let mut state = 0;
            match call!(self.session, &self.name, nvmlDeviceGetNvLinkState(self.raw, lane, &raw mut state)) {
                Ok(()) => {}
                Err(error) if error.is_unsupported() => break,
                // There are no lanes after this one.
                Err(NvmlError::Call { source, .. }) if matches!(*source, Raw::InvalidArg) => break,
                Err(error) if error.is_lost() => return Err(error),
                Err(_) => continue,
            }
            if state == 0 {
                continue;
            }
            match self.far_end(lane) {
                Ok(end) => lanes.push(end),
                Err(error) if error.is_lost() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(lanes)
    }

    fn far_end(&self, lane: u32) -> Result<Lane, NvmlError> {
        let mut kind = nv::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
        let place = &raw mut kind;
        let answer =
            call!(self.session, &self.name, nvmlDeviceGetNvLinkRemoteDeviceType(self.raw, lane, place));
        super::if_supported(answer)?;
        if kind == nv::nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH {
            return Ok(Lane::Switch);
        }
        let mut info = empty_pci();
        let place = &raw mut info;
        call!(self.session, &self.name, nvmlDeviceGetNvLinkRemotePciInfo_v2(self.raw, lane, place))?;
        Ok(Lane::Card(pci_text(&info)))
    }
}

/// The cards among `all` (each with its place on the bus and its lanes) to which the one at `own` is linked: position
/// and number of lanes of each.
pub fn peers(own: usize, all: &[(&str, &[Lane])]) -> Vec<(usize, u32)> {
    let lanes = |of: usize, to: &Lane| all[of].1.iter().filter(|lane| *lane == to).count();
    let others = (0..all.len()).filter(|other| *other != own);
    let linked = others.map(|other| {
        let direct = lanes(own, &Lane::Card(all[other].0.to_owned()));
        let switched = lanes(own, &Lane::Switch).min(lanes(other, &Lane::Switch));
        (other, u32::try_from(direct + switched).unwrap_or(u32::MAX))
    });
    linked.filter(|(_, lanes)| *lanes > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_linked_directly_or_by_switches() {
        let to = |place: &str, lanes: usize| vec![Lane::Card(place.to_owned()); lanes];
        let (a, b) = (to("B", 4), to("A", 4));
        let (c, d, e) = (vec![Lane::Switch; 18], vec![Lane::Switch; 12], to("C0", 2));
        let all: [(&str, &[Lane]); 5] = [("A", &a), ("B", &b), ("C", &c), ("D", &d), ("E", &e)];
        assert_eq!(peers(0, &all), [(1, 4)]);
        assert_eq!(peers(1, &all), [(0, 4)]);
        assert_eq!(peers(2, &all), [(3, 12)], "no more than the one with fewer lanes has");
        assert_eq!(peers(4, &all), [], "whatever is at C0 is no card");
    }
}

//! Finds out which card is to blame when a look at the cards is late or ends too soon.

use ax_core::time::{BootTime, Span};
use ax_sys::socket::Poller;

use super::message::Look;
use super::sick::Ill;
use super::{Cards, INVENTORY_TIMES, PAUSE, State};

/// A look in which no single call hangs may take so many times as long: a busy machine does not make a card sick.
const LATE_TIMES: u64 = 3;

impl Cards {
    pub(super) fn time_of(&self, look: Look) -> Span {
        Span(self.pace.timeout.0 * if look == Look::Inventory { INVENTORY_TIMES } else { 1 })
    }

    /// The look is late. First what it has told is read: perhaps only this loop was slow. Then only a call that has
    /// had the whole time for itself hangs; otherwise there is more patience, as the machine may be busy.
    pub(super) fn late(&mut self, poller: &Poller, now: BootTime) {
        self.ready(poller, now);
        let (timeout, begun) = (self.pace.timeout, self.begun);
        let last = match &self.state {
            State::Looking(_, look, end) if *end <= now => begun + Span(self.time_of(*look).0 * LATE_TIMES),
            // The look was not late.
            _ => return,
        };
        let State::Looking(process, _, end) = &mut self.state else { return };
        // A driver that has to wake a card first may need longer than a look has, at each try the same.
        let patience = |card: &str| self.ward.pause(card).unwrap_or(timeout).max(timeout);
        let due =
            process.doing().map_or(now + timeout, |doing| doing.since + patience(&doing.card)).min(last);
        if due > now {
            *end = due;
            return;
        }
        self.blame(poller, "does not return", now);
    }

    /// The process has ended and should not have.
    pub(super) fn ends(&mut self, poller: &Poller, now: BootTime) {
        let in_a_call = matches!(&self.state, State::Looking(process, ..) if process.doing().is_some());
        if in_a_call || (self.broken_off && !matches!(self.state, State::Idle(..))) {
            return self.blame(poller, "ends the process that calls it", now);
        }
        // No call of the driver was under way, so something else ended the process. Once may be chance.
        self.broken_off |= matches!(self.state, State::Looking(..));
        self.end_process(poller);
        self.state = State::Resting(now + PAUSE);
    }

    /// Blames whatever the process is doing.
    fn blame(&mut self, poller: &Poller, how: &str, now: BootTime) {
        let doing = match &self.state {
            State::Looking(process, ..) => process.doing(),
            _ => None,
        };
        let Some(doing) = doing else {
            let why = "the process that looks at the cards does not get to an end";
            return self.driver_fails(poller, why, now);
        };
        let why = format!("{} {how}", doing.call);
        // A card that is not touched can't be what it hangs at.
        if doing.card.is_empty() || self.ward.untouchable().contains(&doing.card) {
            return self.driver_fails(poller, &why, now);
        }
        self.library = true;
        // What was found before still counts.
        let fresh = std::mem::take(&mut self.fresh);
        if !fresh.found.is_empty() {
            self.take_inventory(fresh, false, now);
        }
        let card = self.named(doing.card.clone());
        self.sick(&card, Ill::Hangs, &why, now);
        self.ward.known_as(&card, &doing.card);
        self.end_process(poller);
        self.launch(poller, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::message::Tell;
    use crate::cards::process::Process;
    use crate::cards::{News, Pace, Tokens};
    use ax_sys::pidfd::PidFd;
    use ax_sys::seqpacket;

    /// The loop was busy with something else when the time of the look was over.
    #[test]
    fn what_was_told_meanwhile_comes_before_any_blame() {
        for told in [true, false] {
            let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            let process = PidFd::open(i32::try_from(child.id()).unwrap()).unwrap();
            let (process, theirs) = Process::played_by(process, "nvmlDeviceGetName");
            let pace = Pace { sample: Span::seconds(1), timeout: Span::seconds(5), declared: false };
            let mut cards = Cards::new(None, &[], pace, Tokens { socket: 1, ended: 2 });
            let (poller, begun) = (Poller::new().unwrap(), BootTime(1));
            cards.state = State::Looking(process, Look::Sample, begun + pace.timeout);
            if told {
                assert!(seqpacket::send(&theirs, &serde_json::to_vec(&Tell::Done).unwrap()));
            }
            cards.late(&poller, BootTime(60_000));
            let news = cards.take_news();
            let blamed = news.iter().any(|news| matches!(news, News::Sick { .. }));
            assert_eq!(blamed, !told, "{news:?}");
            assert_eq!(matches!(cards.state, State::Idle(..)), told, "{:?}", cards.state);
            cards.end_process(&poller);
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

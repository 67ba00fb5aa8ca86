//! How much is written down for each user: jobs that come and go, and what is done to jobs, leave rows in the
//! database, events in the ring and lines in the log, all of them root's. A user has a share of the disk for that in a
//! day; whoever has used it up waits, and everybody else goes on.

use std::collections::HashMap;

use ax_core::api::{ApiError, ErrorClass};
use ax_core::controller::{Decision, Event, Wish};
use ax_core::id::{JobId, Uid};
use ax_core::job::Cancelled;
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Span};
use ax_core::units::format_duration;

use super::{Engine, now};

/// In a day so many times what a user may have stored at once.
const TIMES: u64 = 4;

/// In this time all of it is granted anew, bit by bit.
const DAY: Span = Span::seconds(86_400);

/// What a decision takes beside its text: a row, an event, a line.
const EACH: u64 = 512;

/// So often a byte of text is written at most: once as it is, and twice with every character escaped.
const COPIES: u64 = 13;

/// What was written lately for everybody.
#[derive(Debug, Default)]
pub(super) struct Written {
    users: HashMap<Uid, Level>,
}

/// So many bytes at that time; since then it has become less.
#[derive(Debug, Clone, Copy)]
struct Level {
    bytes: u64,
    at: BootTime,
}

impl Written {
    fn of(&self, uid: Uid, most: u64, now: BootTime) -> u64 {
        let Some(level) = self.users.get(&uid) else { return 0 };
        let granted = u128::from(most) * u128::from((now - level.at).0) / u128::from(DAY.0);
        level.bytes.saturating_sub(u64::try_from(granted).unwrap_or(u64::MAX))
    }

    /// Whether something more may be written for a user.
    fn admits(&self, uid: Uid, stored: Megabytes, now: BootTime) -> Result<(), ApiError> {
        let most = most(stored);
        let has = self.of(uid, most, now);
        if uid == Uid::ROOT || has < most {
            return Ok(());
        }
        let waits = u128::from(has - most + 1) * u128::from(DAY.0) / u128::from(most.max(1));
        let wait = format_duration(Span(u64::try_from(waits).unwrap_or(u64::MAX).max(1000)));
        let error = format!(
            "{has} bytes were written down of late for what you submit and do to jobs, at most {most} in a day, {TIMES} \
             times policy.max_stored_per_user; try again in {wait}"
        );
        Err(ApiError { class: ErrorClass::TryAgain, error })
    }

    fn charge(&mut self, uid: Uid, bytes: u64, stored: Megabytes, now: BootTime) {
        if uid != Uid::ROOT && bytes > 0 {
            let bytes = self.of(uid, most(stored), now).saturating_add(bytes);
            self.users.insert(uid, Level { bytes, at: now });
        }
    }
}

fn most(stored: Megabytes) -> u64 {
    stored.bytes().saturating_mul(TIMES)
}

/// What decisions about a wish take to be written down.
fn size(decisions: &[Decision]) -> u64 {
    let each = |decision: &Decision| match decision {
        Decision::Refused { .. } | Decision::AlreadyKnown { .. } => 0,
        Decision::Noted { what: text, .. }
        | Decision::Moved { why: text, .. }
        | Decision::Terminate { message: text, .. } => EACH + COPIES * text.len() as u64,
        _ => EACH,
    };
    decisions.iter().map(each).sum()
}

/// Whether nothing came of an event: then whoever asks without end would write without end.
pub(super) fn is_nothing(event: &Event, decisions: &[Decision]) -> bool {
    let no_more = |d: &Decision| matches!(d, Decision::Refused { .. } | Decision::AlreadyKnown { .. });
    let asked = matches!(event, Event::Tick | Event::Wished { .. } | Event::Submitted(_));
    asked && decisions.iter().all(no_more)
}

impl Engine {
    /// Whether more may be written down for a user.
    pub(super) fn may_have_written(&self, uid: Uid) -> Result<(), ApiError> {
        self.quotas.written.admits(uid, self.controller.config().policy.max_stored_per_user, now().boot)
    }

    /// The same for something that is wished of a job. Whatever was written: what one has started one may end.
    pub(super) fn may_wish(&self, uid: Uid, job: JobId, wish: &Wish) -> Result<(), ApiError> {
        let attempt = self.controller.job(job.number).and_then(|job| job.attempt.as_deref());
        let killed = attempt.is_some_and(|attempt| attempt.cancelled == Cancelled::Again);
        match wish {
            Wish::Cancel if !killed => Ok(()),
            _ => self.may_have_written(uid),
        }
    }

    /// Charges a user for what was decided about their wish.
    pub(super) fn wished_for(&mut self, uid: Uid, decisions: &[Decision]) {
        self.has_written(uid, size(decisions));
    }

    /// Whether a line of so many bytes about what a user did goes into the log. It is theirs.
    pub(super) fn may_be_told(&mut self, uid: Uid, bytes: usize) -> bool {
        let may = self.may_have_written(uid).is_ok();
        if may {
            self.has_written(uid, EACH + COPIES * bytes as u64);
        }
        may
    }

    /// Charges a user for what is written for them.
    pub(super) fn has_written(&mut self, uid: Uid, bytes: u64) {
        let stored = self.controller.config().policy.max_stored_per_user;
        self.quotas.written.charge(uid, bytes, stored, now().boot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_used_up_and_comes_back_within_a_day() {
        let (ann, stored, mut written) = (Uid(1000), Megabytes(1), Written::default());
        let at = |hours: u64| BootTime(1 + hours * 3_600_000);
        written.charge(ann, 4 << 20, stored, at(0));
        let error = written.admits(ann, stored, at(0)).unwrap_err();
        assert_eq!(error.class, ErrorClass::TryAgain);
        assert!(error.error.contains("4194304 bytes were written down of late"), "{}", error.error);
        assert!(written.admits(Uid(1001), stored, at(0)).is_ok());
        assert!(written.admits(ann, stored, at(1)).is_ok(), "some of it is there again");
        written.charge(ann, 3 << 20, stored, at(12));
        assert!(written.admits(ann, stored, at(12)).is_err(), "half of the day's is left of the first");
        assert_eq!(written.of(ann, 4 << 20, at(48)), 0);
        written.charge(Uid::ROOT, u64::MAX, stored, at(0));
        assert!(written.admits(Uid::ROOT, stored, at(0)).is_ok());
    }
}

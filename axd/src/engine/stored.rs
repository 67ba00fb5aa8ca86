//! How much each user has in the store: scripts, environments and options of waiting and running jobs, each content
//! once, however many jobs have it. It bounds what one user's submissions may take of the disk.

use std::collections::{BTreeMap, HashMap};

use ax_core::api::{ApiError, ErrorClass};
use ax_core::controller::Decision;
use ax_core::id::{JobNumber, Uid};
use ax_core::job::state::JobState;
use ax_core::size::Megabytes;

use super::Engine;
use super::written::Written;
use crate::store::{Content, Footprint, Holding, NewParts, Store, StoreError};
use crate::submission::Checked;

/// What a job takes beside that, from its submission to its end.
const ROWS: u64 = 1024;

/// How much each user may put on the disk.
#[derive(Debug)]
pub(super) struct Quotas {
    /// What unfinished jobs have in the store.
    pub(super) stored: Stored,
    /// What was written down lately.
    pub(super) written: Written,
}

/// What everybody has.
#[derive(Debug, Default)]
pub(super) struct Stored {
    users: BTreeMap<Uid, Share>,
    jobs: BTreeMap<JobNumber, (Uid, Kept)>,
}

/// What one user has.
#[derive(Debug, Default)]
struct Share {
    jobs: u32,
    bytes: u64,
    contents: Contents,
}

/// What one job has, in few bytes, since there may be very many jobs: positions among its user's contents.
#[derive(Debug, Clone, Copy)]
struct Kept {
    contents: [u32; 2],
    details: u32,
}

/// The contents of one user, each with the number of jobs that have it.
#[derive(Debug, Default)]
struct Contents {
    places: HashMap<Content, u32>,
    all: Vec<(Content, u32)>,
    /// Free positions.
    unused: Vec<u32>,
}

impl Contents {
    fn add(&mut self, content: Content) -> u32 {
        let place = match self.places.get(&content) {
            Some(place) => *place,
            None => {
                let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
                let place = self.unused.pop().unwrap_or(next);
                self.places.insert(content, place);
                place
            }
        };
        match self.all.get_mut(place as usize) {
            Some((here, times)) if *here == content => *times += 1,
            Some(free) => *free = (content, 1),
            None => self.all.push((content, 1)),
        }
        place
    }

    /// Removes a job's content. Returns it if no other job has it.
    fn remove(&mut self, place: u32) -> Option<Content> {
        let (content, times) = self.all.get_mut(place as usize)?;
        *times = times.saturating_sub(1);
        if *times == 0 && self.places.remove(content).is_some() {
            self.unused.push(place);
        }
        Some(*content)
    }
}

impl Share {
    fn add(&mut self, footprint: &Footprint) -> Kept {
        self.jobs += 1;
        self.bytes = self.with(footprint);
        Kept {
            contents: footprint.contents.map(|content| self.contents.add(content)),
            details: u32::try_from(footprint.details).unwrap_or(u32::MAX),
        }
    }

    fn remove(&mut self, kept: Kept) {
        self.jobs = self.jobs.saturating_sub(1);
        let [Some(script), Some(environment)] = kept.contents.map(|place| self.contents.remove(place)) else {
            return;
        };
        // With the job it would be as much more as the job has alone.
        let footprint = Footprint { contents: [script, environment], details: u64::from(kept.details) };
        let more = self.with(&footprint).saturating_sub(self.bytes);
        self.bytes = self.bytes.saturating_sub(more);
    }

    /// How much it would be with this added.
    fn with(&self, footprint: &Footprint) -> u64 {
        let new = |content: &Content| match self.contents.places.contains_key(content) {
            true => 0,
            false => content.size,
        };
        let [script, environment] = &footprint.contents;
        let environment = if environment == script { 0 } else { new(environment) };
        let new = new(script).saturating_add(environment).saturating_add(footprint.details);
        self.bytes.saturating_add(new)
    }
}

impl Stored {
    /// What the jobs of an earlier daemon have.
    pub(super) fn of(store: &Store) -> Result<Stored, StoreError> {
        let mut stored = Stored::default();
        store.holdings(|Holding { job, uid, footprint }| stored.add(job, uid, footprint))?;
        Ok(stored)
    }

    fn add(&mut self, job: JobNumber, uid: Uid, footprint: Footprint) {
        let kept = self.users.entry(uid).or_default().add(&footprint);
        self.jobs.insert(job, (uid, kept));
    }

    fn remove(&mut self, job: JobNumber) {
        let Some((uid, kept)) = self.jobs.remove(&job) else { return };
        let Some(share) = self.users.get_mut(&uid) else { return };
        share.remove(kept);
        if share.jobs == 0 {
            self.users.remove(&uid);
        }
    }

    /// True if a user may have this in addition.
    fn admits(&self, uid: Uid, footprint: &Footprint, most: Megabytes) -> Result<(), ApiError> {
        let most = most.bytes();
        let alone = Share::default().with(footprint);
        let share = self.users.get(&uid);
        let (has, with) = share.map_or((0, alone), |share| (share.bytes, share.with(footprint)));
        if uid == Uid::ROOT || with <= most {
            return Ok(());
        }
        let limit = format!("at most {most} are stored for a user (policy.max_stored_per_user)");
        if alone > most {
            let error = format!("script, environment and options have {alone} bytes, {limit}");
            return Err(ApiError { class: ErrorClass::Data, error });
        }
        let error = format!(
            "scripts, environments and options of your waiting and running jobs have {has} bytes, and would have \
             {with} with this one; {limit}"
        );
        Err(ApiError { class: ErrorClass::TryAgain, error })
    }
}

impl Engine {
    /// True if there is room for a submission's parts.
    pub(super) fn has_room(&self, uid: Uid, parts: &NewParts) -> Result<Footprint, ApiError> {
        let footprint = parts.footprint();
        self.may_have_written(uid)?;
        self.quotas.stored.admits(uid, &footprint, self.controller.config().policy.max_stored_per_user)?;
        Ok(footprint)
    }

    /// Why there is no room for a submission, if there is none.
    pub(super) fn no_room(&self, checked: &Checked) -> Option<String> {
        let parts = NewParts {
            details: checked.details.clone(),
            script: checked.script.as_slice().into(),
            environment: checked.environment.clone().into(),
        };
        self.has_room(checked.submission.owner.uid, &parts).err().map(|error| error.error)
    }

    /// Adds what a new job has.
    pub(super) fn store(&mut self, job: JobNumber, uid: Uid, footprint: Footprint) {
        let bytes = |stored: &Stored| stored.users.get(&uid).map_or(0, |share| share.bytes);
        let before = bytes(&self.quotas.stored);
        self.quotas.stored.add(job, uid, footprint);
        self.has_written(uid, ROWS + bytes(&self.quotas.stored).saturating_sub(before));
    }

    /// Removes jobs that are over. One that waits for a person's answer stays, since it may run again.
    pub(super) fn release(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            if let Decision::Moved { job, to, .. } = decision
                && to.is_final()
                && *to != JobState::FailedUnknownState
            {
                self.quotas.stored.remove(job.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Uid = Uid(1000);
    const MOST: Megabytes = Megabytes(1);

    fn content(name: u8, size: u64) -> Content {
        Content { digest: [name; 16], size }
    }

    #[test]
    fn a_content_counts_once_and_as_long_as_a_job_has_it() {
        let mut stored = Stored::default();
        let environment = content(0, 100_000);
        let with = |name| Footprint { contents: [content(name, 500_000), environment], details: 10 };
        for job in 1..50 {
            assert!(stored.admits(ANN, &with(1), MOST).is_ok());
            stored.add(JobNumber(job), ANN, with(1));
        }
        let error = stored.admits(ANN, &with(2), MOST).unwrap_err();
        assert_eq!(error.class, ErrorClass::TryAgain);
        let numbers = "have 600490 bytes, and would have 1100500 with this one; at most 1048576";
        assert!(error.error.contains(numbers), "{}", error.error);
        assert!(
            stored.admits(Uid(1001), &with(2), MOST).is_ok()
                && stored.admits(Uid::ROOT, &with(2), MOST).is_ok()
        );
        for job in 1..49 {
            stored.remove(JobNumber(job));
        }
        assert!(stored.admits(ANN, &with(2), MOST).is_err(), "one has it still");
        stored.remove(JobNumber(49));
        stored.remove(JobNumber(49));
        assert!(stored.admits(ANN, &with(2), MOST).is_ok());
        assert!(stored.users.is_empty() && stored.jobs.is_empty());
    }

    #[test]
    fn what_never_has_room_is_refused_for_good() {
        let large = Footprint { contents: [content(1, (1 << 20) - 1), content(2, 1)], details: 1 };
        let error = Stored::default().admits(ANN, &large, MOST).unwrap_err();
        assert_eq!(error.class, ErrorClass::Data);
        assert!(error.error.contains("have 1048577 bytes, at most 1048576"), "{}", error.error);
    }

    #[test]
    fn a_script_that_is_its_own_environment_counts_once() {
        let mut stored = Stored::default();
        let same = Footprint { contents: [content(1, 7), content(1, 7)], details: 2 };
        stored.add(JobNumber(1), ANN, same);
        stored.add(JobNumber(2), ANN, same);
        assert_eq!(stored.users[&ANN].bytes, 11);
        stored.remove(JobNumber(2));
        assert_eq!(stored.users[&ANN].bytes, 9);
        stored.remove(JobNumber(1));
        assert!(stored.users.is_empty());
    }
}

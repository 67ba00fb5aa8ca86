//! To whom the memory of a card belongs: jobs, foreign processes, the driver itself, or nobody known.

use std::collections::BTreeMap;

use crate::id::{AttemptName, Uid};
use crate::size::Megabytes;

use super::{CardSeen, HolderSeen};

/// The most that counts as the driver's own memory.
pub const DRIVERS: Megabytes = Megabytes(512);

/// A process of no running job. The number alone may be used again, so the start belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stranger {
    /// Its number; 0 stands for all processes that are hidden from us.
    pub pid: i32,
    /// Its start.
    pub start_ticks: u64,
}

/// The memory of a card at one moment, by owner. If the driver does not say how much single processes use, what is
/// left is divided equally among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounts {
    /// Living attempts that were given the card, each with all its processes.
    pub jobs: BTreeMap<AttemptName, Megabytes>,
    /// All other processes: foreign ones, and those of attempts that are over or do not hold the card.
    pub strangers: BTreeMap<Stranger, Megabytes>,
    /// Memory of the MPS server that several running attempts share.
    pub shared: Megabytes,
    /// Memory that no process accounts for.
    pub rest: Megabytes,
}

impl Accounts {
    /// Attributes a card's memory to attempts. Memory of an attempt that is over, or was not given this card, counts
    /// as foreign.
    pub fn of(seen: &CardSeen, holds: &dyn Fn(AttemptName) -> bool) -> Accounts {
        let known: Megabytes = seen.listed().iter().filter_map(|holder| holder.used).sum();
        let rest = seen.used - known;
        let unsaid = seen.listed().iter().filter(|holder| holder.used.is_none()).count() as u64;
        let part = rest.0.checked_div(unsaid).map(Megabytes);
        let mut this =
            Accounts { rest: if part.is_some() { Megabytes::ZERO } else { rest }, ..Accounts::default() };
        for holder in seen.listed() {
            let used = holder.used.or(part).unwrap_or_default();
            let own = match holder.attempt.or(holder.keeper).filter(|attempt| holds(*attempt)) {
                Some(attempt) => this.jobs.entry(attempt).or_default(),
                None if holder.mps => &mut this.shared,
                None => this.strangers.entry(stranger(holder)).or_default(),
            };
            *own = *own + used;
        }
        this
    }

    /// The part of the rest that is the driver's own; `least` is the smallest rest that was ever seen.
    pub fn drivers(&self, least: Megabytes) -> Megabytes {
        self.rest.min(least).min(DRIVERS)
    }
}

/// Identifies the process.
pub fn stranger(holder: &HolderSeen) -> Stranger {
    Stranger { pid: holder.pid, start_ticks: holder.start_ticks.unwrap_or_default() }
}

/// `21 GB held by pid 4711 python of user li, not a job`.
pub fn in_words(
    holder: &HolderSeen,
    used: Megabytes,
    name: &dyn Fn(Uid) -> Option<String>,
    lives: &dyn Fn(AttemptName) -> bool,
) -> String {
    let text = format!("{} held by {}", used.of_card(), who(holder, name));
    match holder.attempt {
        Some(attempt) if lives(attempt) => {
            text + &format!(" in {}, which was not given the card", attempt.job)
        }
        Some(attempt) => text + &format!(", left over from {}", attempt.job),
        None => text + ", not a job",
    }
}

/// `pid 4711 python of user li`.
pub fn who(holder: &HolderSeen, name: &dyn Fn(Uid) -> Option<String>) -> String {
    let mut text = String::new();
    match holder.pid {
        0 => text.push_str("processes that are hidden"),
        pid => text.push_str(&format!("pid {pid}")),
    }
    if let Some(command) = &holder.command {
        text.push_str(&format!(" {}", crate::text::escaped(command)));
    }
    if let Some(uid) = holder.uid {
        text.push_str(&format!(" of user {}", name(uid).unwrap_or_else(|| uid.to_string())));
    }
    if let Some(container) = &holder.container {
        text.push_str(&format!(" in container {}", crate::text::escaped(container)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(number: u32) -> AttemptName {
        format!("ax-2026-{number:04}.{number}").parse().unwrap()
    }

    fn holder(pid: i32, used: Option<u64>, of: Option<u32>) -> HolderSeen {
        HolderSeen {
            pid,
            start_ticks: Some(7),
            used: used.map(Megabytes),
            uid: Some(Uid(1000)),
            command: Some("python".to_owned()),
            attempt: of.map(attempt),
            ..HolderSeen::default()
        }
    }

    fn card(used: u64, holders: Vec<HolderSeen>) -> CardSeen {
        CardSeen {
            used: Megabytes(used),
            free: Megabytes(80_000 - used),
            holders: Some(holders),
            ..CardSeen::default()
        }
    }

    #[test]
    fn all_memory_is_somebodys_or_left_over() {
        let holders =
            vec![holder(1, Some(100), Some(1)), holder(2, Some(50), Some(1)), holder(3, Some(7), None)];
        let accounts = Accounts::of(&card(200, holders), &|_| true);
        assert_eq!(accounts.jobs.into_iter().collect::<Vec<_>>(), [(attempt(1), Megabytes(150))]);
        assert_eq!(accounts.strangers.into_values().collect::<Vec<_>>(), [Megabytes(7)]);
        assert_eq!(accounts.rest, Megabytes(43));
    }

    #[test]
    fn what_is_left_of_a_job_that_is_over_is_no_jobs() {
        let accounts = Accounts::of(&card(100, vec![holder(1, Some(100), Some(1))]), &|_| false);
        assert!(accounts.jobs.is_empty());
        assert_eq!(accounts.strangers.len(), 1);
        let words = in_words(&holder(1, None, Some(1)), Megabytes(100), &|_| None, &|_| false);
        assert_eq!(words, "105 MB held by pid 1 python of user 1000, left over from ax-2026-0001");
    }

    #[test]
    fn what_the_driver_does_not_say_of_processes_is_theirs_together() {
        let accounts =
            Accounts::of(&card(100, vec![holder(1, None, Some(1)), holder(2, None, None)]), &|_| true);
        assert_eq!(accounts.jobs[&attempt(1)], Megabytes(50));
        assert_eq!(accounts.strangers.into_values().collect::<Vec<_>>(), [Megabytes(50)]);
        assert_eq!(accounts.rest, Megabytes::ZERO);
    }

    #[test]
    fn a_stranger_is_named_with_all_that_is_known() {
        let li = |_| Some("li".to_owned());
        let words = in_words(&holder(4711, None, None), Megabytes(20_028), &li, &|_| true);
        assert_eq!(words, "21 GB held by pid 4711 python of user li, not a job");
        let hidden = HolderSeen { pid: 0, command: None, uid: None, ..holder(0, None, None) };
        assert_eq!(
            in_words(&hidden, Megabytes(1), &li, &|_| true),
            "1 MB held by processes that are hidden, not a job"
        );
    }
}

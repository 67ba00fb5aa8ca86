//! Users and their groups, asked of the name service on a worker thread and kept for a short while. Identity itself
//! (a uid) always comes from the kernel; this only adds names, groups and homes.

use std::collections::HashMap;
use std::sync::Arc;

use ax_core::config::Config;
use ax_core::id::{Gid, Uid};
use ax_core::job::{Actor, Owner};
use ax_core::record::UserRecord;
use ax_core::time::{BootTime, Span};
use ax_sys::{SysError, credentials, users};
use thiserror::Error;

/// How long an answer of the name service holds: a change of groups takes
/// effect after it.
const HOLDS: Span = Span::seconds(60);

/// How long it is not asked again after it could not answer.
const TROUBLE_HOLDS: Span = Span::seconds(5);

/// Why a user is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum NoPerson {
    /// The name service knows no user of this number.
    #[error("there is no user with number {0} on this machine")]
    Unknown(Uid),
    /// The name service can't answer now: ask again later.
    #[error("it can't be found out who user {0} is: {1}")]
    CannotAsk(Uid, String),
}

/// What the name service says of a user.
pub(crate) type Answer = Result<Person, NoPerson>;

/// A user with everything that starting a job as them needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    /// User number.
    pub uid: Uid,
    /// Main group.
    pub gid: Gid,
    /// Name.
    pub name: Arc<str>,
    /// Home.
    pub home: String,
    /// Shell.
    pub shell: String,
    /// All groups.
    pub groups: Vec<Gid>,
    /// Names of all groups, for `@group` rules.
    pub group_names: Vec<String>,
}

impl Person {
    /// Owner of the jobs that they submit.
    pub(crate) fn owner(&self) -> Owner {
        Owner { uid: self.uid, name: Arc::clone(&self.name) }
    }

    /// For an assignment.
    pub(crate) fn record(&self) -> UserRecord {
        UserRecord { uid: self.uid, gid: self.gid, groups: self.groups.clone(), name: self.name.to_string() }
    }

    /// True if one of these rules, users or `@groups`, names them.
    pub(crate) fn is_meant_by(&self, rules: &[String]) -> bool {
        rules.iter().any(|rule| match rule.strip_prefix('@') {
            Some(group) => self.group_names.iter().any(|g| g == group),
            None => *rule == *self.name,
        })
    }

    /// Uid 0 and `cluster.admins`; and, where the daemon serves its own user alone, that user.
    pub(crate) fn is_admin(&self, config: &Config) -> bool {
        let serves_them = || self.uid.0 == credentials::own().0;
        self.uid == Uid::ROOT || serves_them() || self.is_meant_by(&config.cluster.admins)
    }

    /// Their groups for which there is a limit on cards.
    pub(crate) fn limited_groups(&self, config: &Config) -> Vec<Box<str>> {
        let limited = config.limits.iter().filter_map(|limit| limit.group.as_deref());
        let own = limited.filter(|group| self.group_names.iter().any(|name| name == group));
        own.map(Into::into).collect()
    }

    /// As an actor.
    pub(crate) fn actor(&self, config: &Config) -> Actor {
        Actor::User { uid: self.uid, name: Arc::clone(&self.name), admin: self.is_admin(config) }
    }
}

/// Looks a user up. Slow where the name service is: for the worker thread only.
pub(crate) fn look_up(uid: Uid) -> Answer {
    let cannot = |error: SysError| NoPerson::CannotAsk(uid, error.to_string());
    let user = users::by_uid(uid.0).map_err(cannot)?.ok_or(NoPerson::Unknown(uid))?;
    let groups = users::groups_of(&user).map_err(cannot)?;
    let name_of = |gid: &u32| users::group_by_gid(*gid).ok().flatten().map(|g| g.name);
    Ok(Person {
        uid,
        gid: Gid(user.gid),
        name: Arc::from(user.name.as_str()),
        home: user.home.to_string_lossy().into_owned(),
        shell: match user.shell.as_os_str().is_empty() {
            true => "/bin/sh".to_owned(),
            false => user.shell.to_string_lossy().into_owned(),
        },
        group_names: groups.iter().filter_map(name_of).collect(),
        groups: groups.into_iter().map(Gid).collect(),
    })
}

/// What is known of users for now.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// Answers, each with the time until which it holds.
    known: HashMap<Uid, (BootTime, Answer)>,
}

impl People {
    /// A fresh answer about a user, or `None` when the name service has to be asked.
    pub(crate) fn get(&self, uid: Uid, now: BootTime) -> Option<&Answer> {
        self.known.get(&uid).filter(|(until, _)| now < *until).map(|(_, answer)| answer)
    }

    /// Keeps an answer of the name service. While the service fails, earlier answers hold.
    pub(crate) fn put(&mut self, uid: Uid, now: BootTime, answer: Answer) {
        let trouble = matches!(answer, Err(NoPerson::CannotAsk(..)));
        let until = now + if trouble { TROUBLE_HOLDS } else { HOLDS };
        match self.known.get_mut(&uid) {
            Some((holds, Ok(_))) if trouble => *holds = until,
            _ => {
                // Bounded: answers that have expired are dropped.
                if self.known.len() > 1024 {
                    self.known.retain(|_, (until, _)| now < *until);
                }
                self.known.insert(uid, (until, answer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LI: Uid = Uid(1000);

    fn li() -> Answer {
        Ok(Person {
            uid: LI,
            gid: Gid(1000),
            name: Arc::from("li"),
            home: "/home/li".to_owned(),
            shell: "/bin/sh".to_owned(),
            groups: vec![Gid(1000)],
            group_names: vec!["li".to_owned()],
        })
    }

    fn trouble() -> Answer {
        Err(NoPerson::CannotAsk(LI, "no answer".to_owned()))
    }

    #[test]
    fn people_stay_who_they_were_while_nobody_can_be_asked() {
        let mut people = People::default();
        people.put(LI, BootTime(0), li());
        assert_eq!(people.get(LI, BootTime(60_000)), None, "to be asked again");
        people.put(LI, BootTime(60_000), trouble());
        assert_eq!(people.get(LI, BootTime(60_000)), Some(&li()));
        assert_eq!(people.get(LI, BootTime(65_000)), None, "soon");
        people.put(LI, BootTime(65_000), Err(NoPerson::Unknown(LI)));
        assert_eq!(people.get(LI, BootTime(65_000)), Some(&Err(NoPerson::Unknown(LI))), "this is an answer");
    }

    #[test]
    fn who_was_never_known_is_asked_for_again_soon() {
        let mut people = People::default();
        people.put(LI, BootTime(0), trouble());
        assert_eq!(people.get(LI, BootTime(4_999)), Some(&trouble()));
        assert_eq!(people.get(LI, BootTime(5_000)), None);
    }
}

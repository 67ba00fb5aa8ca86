//! Who people are: users and their groups, asked of the name service on a
//! worker thread and kept for a short while. Identity itself (a uid) always
//! comes from the kernel; this only adds names, groups and homes to it.

use std::collections::HashMap;
use std::sync::Arc;

use ax_core::config::Config;
use ax_core::id::{Gid, Uid};
use ax_core::job::{Actor, Owner};
use ax_core::record::UserRecord;
use ax_core::time::{BootTime, Span};
use ax_sys::{credentials, users};

/// How long an answer of the name service holds: a change of groups takes
/// effect after it.
const HOLDS: Span = Span::seconds(60);

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

    /// Whether one of these rules, users or `@groups`, means them.
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

    /// As an actor.
    pub(crate) fn actor(&self, config: &Config) -> Actor {
        Actor::User { uid: self.uid, name: Arc::clone(&self.name), admin: self.is_admin(config) }
    }
}

/// Looks a user up. Slow where the name service is: for the worker thread only.
pub(crate) fn look_up(uid: Uid) -> Result<Person, String> {
    let unknown = || format!("there is no user with number {uid} on this machine");
    let user = users::by_uid(uid.0).map_err(|e| e.to_string())?.ok_or_else(unknown)?;
    let groups = users::groups_of(&user).map_err(|e| e.to_string())?;
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
    known: HashMap<Uid, (BootTime, Result<Person, String>)>,
}

impl People {
    /// A fresh answer about a user, or `None` when the name service has to be asked.
    pub(crate) fn get(&self, uid: Uid, now: BootTime) -> Option<&Result<Person, String>> {
        self.known.get(&uid).filter(|(asked, _)| now - *asked < HOLDS).map(|(_, answer)| answer)
    }

    /// Keeps an answer of the name service.
    pub(crate) fn put(&mut self, uid: Uid, now: BootTime, answer: Result<Person, String>) {
        // Bounded by forgetting what no longer holds.
        if self.known.len() > 1024 {
            self.known.retain(|_, (asked, _)| now - *asked < HOLDS);
        }
        self.known.insert(uid, (now, answer));
    }
}

//! Users and groups as the name service of this machine knows them.
//! Calls may be slow (LDAP) and load modules: never between fork and exec, never in a static binary.

use crate::error::{Doing, Result};
use std::ffi::CString;
use std::path::PathBuf;

/// A user account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Number of the user.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell; empty means `/bin/sh`.
    pub shell: PathBuf,
}

/// A group of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Number of the group.
    pub gid: u32,
    /// Users whom the group lists; those who have it as their primary group need not be among them.
    pub members: Vec<String>,
}

/// The user with this login name; `None` if there is none.
///
/// # Errors
/// When the name service itself fails.
pub fn by_name(name: &str) -> Result<Option<User>> {
    Ok(nix::unistd::User::from_name(name).doing("look up user", name)?.map(User::from))
}

/// The user with this number; `None` if there is none.
///
/// # Errors
/// When the name service itself fails.
pub fn by_uid(uid: u32) -> Result<Option<User>> {
    let found = nix::unistd::User::from_uid(uid.into()).doing("look up uid", uid)?;
    Ok(found.map(User::from))
}

/// All groups of a user, the primary one included.
///
/// # Errors
/// When the name service fails or the name holds a NUL.
pub fn groups_of(user: &User) -> Result<Vec<u32>> {
    let name = CString::new(user.name.as_str()).doing("list the groups of", &user.name)?;
    let groups = nix::unistd::getgrouplist(&name, user.gid.into()).doing("list the groups of", &user.name)?;
    Ok(groups.into_iter().map(nix::unistd::Gid::as_raw).collect())
}

/// The group with this name; `None` if there is none.
///
/// # Errors
/// When the name service itself fails.
pub fn group_by_name(name: &str) -> Result<Option<Group>> {
    Ok(nix::unistd::Group::from_name(name).doing("look up group", name)?.map(Group::from))
}

/// The group with this number; `None` if there is none.
///
/// # Errors
/// When the name service itself fails.
pub fn group_by_gid(gid: u32) -> Result<Option<Group>> {
    Ok(nix::unistd::Group::from_gid(gid.into()).doing("look up gid", gid)?.map(Group::from))
}

impl From<nix::unistd::User> for User {
    fn from(raw: nix::unistd::User) -> User {
        User { name: raw.name, uid: raw.uid.as_raw(), gid: raw.gid.as_raw(), home: raw.dir, shell: raw.shell }
    }
}

impl From<nix::unistd::Group> for Group {
    fn from(raw: nix::unistd::Group) -> Group {
        Group { name: raw.name, gid: raw.gid.as_raw(), members: raw.mem }
    }
}

//! Control groups: they hold a job's processes together, limit, count and end them.
//!
//! [`Hierarchy`] says what this machine has mounted, [`Place`] where our groups go. [`JobGroup`] is the groups of one
//! job. [`Containment`] is that or, for users who may write no group, a [`ProcessTree`] found through `/proc`. On
//! hybrid machines every job is in a group of the unified tree as well, where it is frozen, killed and found empty;
//! there the v1 groups only limit. This module does not decide when to kill, and removes nothing that it did not
//! make.

mod containment;
mod control;
pub mod device_filter;
mod events;
mod files;
mod group;
mod hierarchy;
mod join;
mod limits;
mod place;
mod place_record;
mod process_tree;
mod record;
mod station;
mod stats;

pub use containment::Containment;
pub use events::Events;
pub use group::{JobGroup, Removal};
pub use hierarchy::{Controller, Hierarchy, Layout, Mount};
pub use join::JoinHandle;
pub use limits::{CpuQuota, Limits};
pub use place::{Base, Place};
pub use process_tree::ProcessTree;
pub use station::Station;
pub use stats::Stats;

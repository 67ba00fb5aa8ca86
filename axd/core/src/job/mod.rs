//! Jobs: what they ask for, the states they go through.

pub mod spec;
pub mod state;

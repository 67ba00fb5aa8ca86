//! Who is next, where, and when: the parts that the controller's pass is made of.
//!
//! `order` ranks the waiting jobs, `share` merges queues by what they have had,
//! `timeline` knows what will be free when, `placement` chooses nodes and cards,
//! `fragmentation` tells which free memory is of use, `preempt` chooses victims, `losses` counts what that cost,
//! `kept` remembers where places were found, `history` knows what the last runs of the same thing took. All of it is a
//! pure function of what it is given; only the controller changes anything.

pub mod fragmentation;
pub mod gang;
pub mod history;
pub mod kept;
pub mod lane;
pub mod losses;
pub mod order;
pub mod placement;
pub mod preempt;
pub mod share;
pub mod timeline;
pub mod usage;
pub mod walk;

#[cfg(test)]
mod random;

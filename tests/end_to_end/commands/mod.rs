//! Every command against a real daemon, as people and their scripts use them.

mod administration;
mod asking;
mod errors;
mod submitting;
mod top;
mod using;

//! How people write lengths of time and amounts of memory, in the two
//! dialects that ax reads: its own and Slurm's. Text in, `Span`, `TimeLimit`
//! or `Megabytes` out, and back. Users find the rules in ax-script(5); those of
//! Slurm are in `tests/slurm_rules.rs`, as they were measured.

mod duration;
mod memory;

pub use duration::{duration, format_duration, format_time_limit, slurm_time_limit, time_limit};
pub use memory::{format_gpu_size, format_size, gpu_size, host_size};

/// A number of decimal digits only: no sign, no blanks.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

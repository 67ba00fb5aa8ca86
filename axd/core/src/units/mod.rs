//! How people write lengths of time and amounts of memory, in the two
//! dialects that ax reads: its own and Slurm's. Text in, `Span`, `TimeLimit`
//! or `Megabytes` out, and back. Rules: interface.md ("Scripts"), decisions.md
//! ("Sizes"), notes/scripts.md section 7.

mod duration;
mod memory;

pub use duration::{duration, format_duration, format_time_limit, slurm_time_limit, time_limit};
pub use memory::{format_size, gpu_size, host_size};

/// A number of decimal digits only: no sign, no blanks.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

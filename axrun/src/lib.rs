//! The supervisor of one job, the guard, and steps inside a job.

/// Runs the supervisor with the arguments of this process.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}

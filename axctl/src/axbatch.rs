//! The command `axbatch`.

/// Runs the command with the arguments of this process.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}

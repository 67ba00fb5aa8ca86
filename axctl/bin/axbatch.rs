//! The program `axbatch`; everything is in the crate axctl.

fn main() -> std::process::ExitCode {
    axctl::axbatch::main()
}

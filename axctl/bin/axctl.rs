//! The program `axctl`; everything is in the crate axctl.

fn main() -> std::process::ExitCode {
    axctl::axctl::main()
}

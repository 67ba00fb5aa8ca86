//! The program `ax`; everything is in the crate axctl.

fn main() -> std::process::ExitCode {
    axctl::ax::main()
}

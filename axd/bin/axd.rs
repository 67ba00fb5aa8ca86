//! The program `axd`; everything is in the crate of that name.

fn main() -> std::process::ExitCode {
    axd::main()
}

//! The program `axrun`; everything is in the crate of that name.

fn main() -> std::process::ExitCode {
    axrun::main()
}

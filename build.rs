//! Links `axbatch` and `axrun` statically where the system has what that takes.
//!
//! Both start once or more for each job, and half of what such a start costs is the dynamic linker's. They ask no name
//! service, the one thing that needs a dynamic C library. Cargo's own switch for static linking (`crt-static`) is for
//! whole builds, and `axd` must stay dynamic. Without the static libraries, on other systems, or with `AX_DYNAMIC=1`,
//! they are linked as usual and do the same, a little slower.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const STATIC: [&str; 2] = ["axbatch", "axrun"];

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=AX_DYNAMIC");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let here = variable("HOST") == variable("TARGET") && variable("TARGET").ends_with("-linux-gnu");
    let static_already =
        variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    if !here || static_already || variable("AX_DYNAMIC") == "1" {
        return Ok(());
    }
    let folder = PathBuf::from(variable("OUT_DIR"));
    if !static_libraries(&folder)? || !can_link(&folder) {
        return Ok(());
    }
    for program in STATIC {
        for argument in arguments(&folder) {
            println!("cargo:rustc-link-arg-bin={program}={argument}");
        }
    }
    Ok(())
}

/// What the linker is told besides what rustc tells it.
fn arguments(folder: &Path) -> [String; 3] {
    [
        format!("-L{}", folder.display()),
        "-static-pie".to_owned(),
        // A weak symbol that nobody defines is to be zero: a static program has no dynamic linker to say so.
        "-Wl,-z,nodynamic-undefined-weak".to_owned(),
    ]
}

/// rustc asks for the shared libraries by name. In this folder, which is searched first, the names lead to the static ones.
fn static_libraries(folder: &Path) -> io::Result<bool> {
    for (asked, found) in [("libc.so", "libc.a"), ("libgcc_s.so", "libgcc_eh.a")] {
        let Some(archive) = file_of_compiler(found) else { return Ok(false) };
        fs::write(folder.join(asked), format!("INPUT({})\n", archive.display()))?;
    }
    Ok(true)
}

/// The C compiler's file of this name; it answers with the bare name where it has none.
fn file_of_compiler(name: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    (output.status.success() && path.is_absolute()).then_some(path)
}

/// Whether a small program that is linked so also runs.
fn can_link(folder: &Path) -> bool {
    let (source, program) = (folder.join("try.c"), folder.join("try"));
    let text = "#include <unistd.h>\nint main(void) { return getpid() > 0 ? 0 : 1; }\n";
    if fs::write(&source, text).is_err() {
        return false;
    }
    let mut compiler = Command::new("cc");
    compiler.arg("-pie").arg("-fPIE").arg("-o").arg(&program).arg(&source).args(arguments(folder));
    let linked = compiler.output().is_ok_and(|output| output.status.success());
    linked && Command::new(&program).status().is_ok_and(|status| status.success())
}

//! From a file to a configuration: reads the file within limits, looks at who
//! may write it, and hands its text on. Prints nothing but in `check`.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use ax_config::{Loaded, MAX_LEN, interpret, lines};
use ax_core::api::ErrorClass;
use ax_core::config::{Config, Finding};

use super::names;
use crate::command::{own_name, said};

/// Loads the file of the standard place; one that is not there has the defaults.
///
/// # Errors
/// Every finding, when one of them is an error.
pub fn load(path: &Path) -> Result<Loaded, Vec<Finding>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Loaded { config: Config::default(), warnings: Vec::new() })
        }
        _ => load_named(path),
    }
}

/// Loads a file that somebody named, so that it must be there.
///
/// # Errors
/// Every finding, when one of them is an error.
pub fn load_named(path: &Path) -> Result<Loaded, Vec<Finding>> {
    let (bytes, mut warnings) = read(path).map_err(|finding| vec![finding])?;
    match interpret(&bytes) {
        Ok(loaded) => {
            warnings.extend(loaded.warnings);
            Ok(Loaded { config: loaded.config, warnings })
        }
        Err(findings) => {
            warnings.extend(findings);
            Err(warnings)
        }
    }
}

/// `axd --check`, `axctl check`: says what is wrong with a file, on standard error, or that it is good. One that somebody
/// named must be there; at the usual place there need be none.
pub fn check(named: Option<&Path>, usual: &Path) -> ExitCode {
    let absent =
        |path: &Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if named.is_none() && absent(usual) {
        return said(&format!("no configuration: defaults ({} is not there)", usual.display()));
    }
    let path = named.unwrap_or(usual);
    // Whether it is a configuration is another question than whether it can be read. A pipe is not opened.
    let unreadable = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => File::open(path).err(),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    if let Some(error) = unreadable {
        eprintln!("{}: cannot read {}: {}", own_name(), path.display(), error);
        return ExitCode::from(ErrorClass::NoInput.exit_code());
    }
    let (findings, refused) = match load_named(path) {
        Ok(loaded) => (loaded.warnings.into_iter().chain(names::unknown(&loaded.config)).collect(), false),
        Err(findings) => (findings, true),
    };
    for line in lines(path, &findings) {
        eprintln!("{line}");
    }
    if refused {
        return ExitCode::from(ErrorClass::Config.exit_code());
    }
    said(&format!("{}: a configuration that axd accepts", path.display()))
}

/// The file's bytes, and warnings about who may change them.
fn read(path: &Path) -> Result<(Vec<u8>, Vec<Finding>), Finding> {
    let unreadable = |error: io::Error| Finding::error(None, format!("it can't be read: {error}"));
    // Asked before the opening too: to open a pipe would wait for its writer.
    let regular = fs::metadata(path).map_err(unreadable)?.is_file();
    if !regular {
        return Err(Finding::error(None, "it is not a regular file"));
    }
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_LEN + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(Finding::error(None, format!("it is longer than {} KiB", MAX_LEN / 1024)));
    }
    Ok((bytes, writers(&metadata, own_uid())))
}

/// Who writes the configuration of a daemon that is root, is root.
fn writers(metadata: &Metadata, own: Option<u32>) -> Vec<Finding> {
    let mut warnings = Vec::new();
    let owner = metadata.uid();
    if owner != 0 && Some(owner) != own {
        let message = format!("its owner is user {owner}, who so decides what the daemon does");
        warnings.push(Finding::warning(None, message).hint("give it to root"));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        let message = format!("others than its owner may write it (mode {mode:04o})");
        warnings.push(Finding::warning(None, message).hint("chmod go-w"));
    }
    warnings
}

/// The effective user of this process, to whom its folder in /proc belongs.
fn own_uid() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|metadata| metadata.uid())
}

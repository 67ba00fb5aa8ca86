//! From a file to a configuration: reads the file within limits, checks who may write it, and hands its text on.
//! Prints nothing except in `check`.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use ax_config::{Loaded, MAX_LEN, interpret, lines, place_of};
use ax_core::api::{ErrorClass, FileCheck, FileKind};
use ax_core::config::{Config, Finding, Severity};

use super::names;
use crate::command::{document, own_name, said};
use crate::local;

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
    load_owned(path, Owner::Trusted)
}

/// Whether it matters whose a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// What it says is done.
    Trusted,
    /// It is looked at before it is given to root, or goes to another machine.
    Anybody,
}

fn load_owned(path: &Path, owner: Owner) -> Result<Loaded, Vec<Finding>> {
    let (bytes, mut warnings) = read(path, owner).map_err(|finding| vec![finding])?;
    let interpreted = interpret(&bytes).and_then(|loaded| match no_such_zone(&loaded.config, &bytes) {
        Some(finding) => Err(loaded.warnings.into_iter().chain([finding]).collect()),
        None => Ok(loaded),
    });
    match interpreted {
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

/// `axd --check`, `axctl check`: says what is wrong with a file, on standard error or in a document, or that it is good.
/// One that somebody named must be there; at the usual place there need be none.
pub fn check(named: Option<&Path>, usual: &Path, json: bool) -> ExitCode {
    let path = named.unwrap_or(usual);
    let is_absent = fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let file = path.display().to_string();
    let kind = FileKind::Configuration;
    if named.is_none() && is_absent {
        let (errors, warnings) = Default::default();
        let check =
            FileCheck { file, kind, exists: false, good: true, options: Vec::new(), errors, warnings };
        return match json {
            true => document(&check, None),
            false => said(&format!("no configuration: defaults ({} is not there)", check.file)),
        };
    }
    // Whether it is a configuration is another question than whether it can be read. A pipe is not opened.
    let unreadable = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => File::open(path).err(),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    if let Some(error) = unreadable {
        eprintln!("{}: cannot read {file}: {error}", own_name());
        return ExitCode::from(ErrorClass::NoInput.exit_code());
    }
    let owner = if named.is_some() { Owner::Anybody } else { Owner::Trusted };
    let (findings, good): (Vec<Finding>, bool) = match load_owned(path, owner) {
        Ok(loaded) => {
            let config = &loaded.config;
            let all = loaded.warnings.into_iter().chain(names::unknown(config)).chain(of_machine(config));
            (all.collect(), true)
        }
        Err(findings) => (findings, false),
    };
    let refused = (!good).then_some(ErrorClass::Config);
    if json {
        let (errors, warnings): (Vec<Finding>, Vec<Finding>) =
            findings.into_iter().partition(|finding| finding.severity == Severity::Error);
        let (errors, warnings) = (lines(path, &errors), lines(path, &warnings));
        let check = FileCheck { file, kind, exists: true, good, options: Vec::new(), errors, warnings };
        return document(&check, refused);
    }
    for line in lines(path, &findings) {
        eprintln!("{line}");
    }
    match refused {
        Some(class) => ExitCode::from(class.exit_code()),
        None => said(&format!("{file}: a configuration that axd accepts")),
    }
}

/// What a configuration says of this machine and is not so. It may be another's, on which it is checked before it goes there.
fn of_machine(config: &Config) -> Vec<Finding> {
    // A machine without a name has other cares.
    let Ok(host) = local::host_name() else { return Vec::new() };
    let mut told = local::look(&host, config, None).warnings;
    told.extend(local::unknown_hosts(&host, config));
    let nodes = &config.resources.gpu_nodes;
    if !nodes.is_empty() && nodes.iter().all(|node| node.host != host) {
        told.push(format!("resources.gpu_nodes: this machine, {host}, is none of them; its cards are counted as they are found"));
    }
    told.into_iter().map(|text| Finding::warning(None, text)).collect()
}

/// A time zone that this machine does not know: the daemon would not start in it.
fn no_such_zone(config: &Config, bytes: &[u8]) -> Option<Finding> {
    let zone = config.cluster.timezone.as_ref()?;
    if Path::new("/usr/share/zoneinfo").join(zone).is_file() {
        return None;
    }
    let place = place_of(bytes, &["cluster", "timezone"]);
    let message = format!("cluster.timezone: this machine has no time zone '{zone}'");
    Some(Finding::error(place, message).hint("they are the files below /usr/share/zoneinfo"))
}

/// The file's bytes, and warnings about who may change them.
fn read(path: &Path, owner: Owner) -> Result<(Vec<u8>, Vec<Finding>), Finding> {
    let unreadable = |error: io::Error| Finding::error(None, format!("it can't be read: {error}"));
    // Asked before the opening too: to open a pipe would wait for its writer.
    let regular = fs::metadata(path).map_err(unreadable)?.is_file();
    if !regular {
        return Err(Finding::error(None, "it is not a regular file"));
    }
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let own = own_uid();
    if own == Some(0) && owner == Owner::Trusted && metadata.uid() != 0 {
        // It names programs and libraries that root runs.
        return Err(Finding::error(None, owned_by(metadata.uid())).hint("give it to root"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_LEN + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(Finding::error(None, format!("it is longer than {} KiB", MAX_LEN / 1024)));
    }
    Ok((bytes, writers(&metadata, own)))
}

/// Who writes the configuration of a daemon that is root, is root.
fn writers(metadata: &Metadata, own: Option<u32>) -> Vec<Finding> {
    let mut warnings = Vec::new();
    let owner = metadata.uid();
    if owner != 0 && Some(owner) != own {
        warnings.push(Finding::warning(None, owned_by(owner)).hint("give it to root"));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        let message = format!("others than its owner may write it (mode {mode:04o})");
        warnings.push(Finding::warning(None, message).hint("chmod go-w"));
    }
    warnings
}

fn owned_by(owner: u32) -> String {
    format!("its owner is user {owner}, who so decides what the daemon does")
}

/// The effective user of this process, to whom its folder in /proc belongs.
fn own_uid() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|metadata| metadata.uid())
}

//! What a simulation reads: the workload, packed or not, with the files that lie beside it, and configurations.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ax_core::api::ErrorClass;
use ax_core::config::{Config, Finding};
use ax_core::sim::{BadWorkload, Format, Workload};
use ax_core::text::quoted;

use super::gzip;
use crate::failure::Failure;
use crate::shown::plain;
use crate::world::World;

/// Configurations that are shipped, by name.
pub(super) const PROFILES: [(&str, &str); 2] = [
    ("fair", include_str!("../../../etc/profiles/fair.yaml")),
    ("throughput", include_str!("../../../etc/profiles/throughput.yaml")),
];

/// A configuration, and what to call it.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) config: Config,
}

/// Reads a workload of any format.
pub(super) fn workload(path: &Path) -> Result<Workload, Failure> {
    let text = text(path)?;
    let format = Format::of(&text);
    let beside = format.companion().map(|name| path.with_file_name(name)).filter(|path| path.exists());
    let companion = beside.as_deref().map(self::text).transpose()?;
    format.read(&text, companion.as_deref()).map_err(|error| said(path, &error))
}

fn said(path: &Path, error: &BadWorkload) -> Failure {
    let place = error.place.map_or(String::new(), |place| format!(":{place}"));
    Failure::said(ErrorClass::Data, format!("{}{place}: {}", path.display(), error.message))
}

/// Where a record is read from: a file, packed or not, or `-`, the standard input.
pub(super) fn record(path: &Path) -> Result<Box<dyn Read>, Failure> {
    let no_input = |error: io::Error| {
        Failure::said(ErrorClass::NoInput, format!("cannot read {}: {}", path.display(), plain(&error)))
    };
    if path.as_os_str() == "-" {
        // Not by its lock, which whoever runs commands holds.
        let own = io::stdin().as_fd().try_clone_to_owned().map_err(no_input)?;
        return Ok(Box::new(BufReader::new(fs::File::from(own))));
    }
    let mut file = BufReader::new(fs::File::open(path).map_err(no_input)?);
    if gzip::is_gzip(file.fill_buf().map_err(no_input)?) {
        return Ok(Box::new(io::Cursor::new(text(path)?)));
    }
    Ok(Box::new(file))
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        Failure::said(ErrorClass::NoInput, format!("cannot read {}: {}", path.display(), plain(&error)))
    })
}

fn text(path: &Path) -> Result<String, Failure> {
    let wrong = |what: &str| Failure::said(ErrorClass::Data, format!("{}: {what}", path.display()));
    let mut bytes = bytes(path)?;
    if gzip::is_gzip(&bytes) {
        bytes = gzip::unpacked(&bytes)
            .ok_or_else(|| wrong("it can't be unpacked: damaged, of several parts, or over 1 GB"))?;
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is no text (not UTF-8)"))
}

/// A configuration from a file; its findings are told.
pub(super) fn from_file(path: &Path, world: &mut World<'_>) -> Result<Named, Failure> {
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let loaded = match ax_config::interpret(&bytes(path)?) {
        Ok(loaded) => loaded,
        Err(findings) => return Err(refused(path, &findings, world)),
    };
    tell(path, &loaded.warnings, world);
    Ok(Named { name, config: loaded.config })
}

/// A shipped configuration.
pub(super) fn profile(name: &str, world: &mut World<'_>) -> Result<Named, Failure> {
    let known = PROFILES.iter().find(|(known, _)| *known == name);
    let Some((name, text)) = known else {
        let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
        let line = format!("there is no profile {}; there are {}", quoted(name), names.join(" and "));
        return Err(Failure::usage(line));
    };
    match ax_config::interpret(text.as_bytes()) {
        Ok(loaded) => Ok(Named { name: (*name).to_owned(), config: loaded.config }),
        Err(findings) => Err(refused(&PathBuf::from(format!("{name}.yaml")), &findings, world)),
    }
}

fn tell(path: &Path, findings: &[Finding], world: &mut World<'_>) {
    for line in ax_config::lines(path, findings) {
        world.remark("axctl", &line);
    }
}

fn refused(path: &Path, findings: &[Finding], world: &mut World<'_>) -> Failure {
    tell(path, findings, world);
    Failure::said(ErrorClass::Config, format!("{}: not a configuration that holds", path.display()))
}

//! The document of a submission, the same on the socket and in the spool.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use ax_core::api::{ErrorClass, SubmitRequest};
use ax_core::directive::Program;
use ax_core::id::SubmissionKey;

use super::environment;
use super::script::Body;
use super::understand::{Understood, request_words};
use crate::failure::Failure;
use crate::shown::plain;
use crate::world::World;

/// The name that a program's remarks begin with.
pub(crate) fn speaker(program: Program) -> &'static str {
    match program {
        Program::AxSubmit => "ax",
        Program::Axrun => "axrun",
        _ => "axbatch",
    }
}

/// The name that a program has on the wire: it decides how options are read.
pub(super) fn name_of(program: Program) -> &'static str {
    match program {
        Program::AxSubmit => "ax submit",
        Program::Axrun => "axrun",
        _ => "axbatch",
    }
}

/// Variables that say who somebody is.
const PERSONAL: [&str; 6] = ["HOME", "LOGNAME", "MAIL", "SHELL", "USER", "XDG_RUNTIME_DIR"];

/// The request and what the person should be warned of.
pub(crate) fn build(
    understood: &Understood,
    key: SubmissionKey,
    world: &World<'_>,
) -> Result<(SubmitRequest, Vec<String>), Failure> {
    let captured = environment::capture(&understood.spec.io.export, &world.vars)?;
    let mut warnings = understood.notes.clone();
    warnings.extend(captured.warning);
    let mut request = SubmitRequest {
        key: Some(key),
        program: Some(name_of(understood.program).to_owned()),
        options: request_words(&understood.line.options),
        option_variables: understood.variables.clone(),
        environment: captured.variables,
        cwd: folder(understood.spec.io.chdir.as_deref())?,
        umask: umask(),
        uid: understood.line.value("uid").map(user_number).transpose()?,
        test_only: understood.conduct.test_only,
        ..SubmitRequest::default()
    };
    if request.uid.is_some() {
        // These say who root is; the job's user gets those of the account.
        request.environment.retain(|name, _| !PERSONAL.contains(&name.as_str()));
    }
    match &understood.body {
        Body::Command(command) => {
            request.cmd = Some(command.clone());
            if understood.program == Program::Axrun {
                request.script_name = understood.line.script.as_deref().map(last_part);
            }
        }
        Body::Script { name, content, args } => {
            match std::str::from_utf8(content) {
                Ok(text) => request.script = Some(text.to_owned()),
                Err(_) => request.script_base64 = Some(base64(content)),
            }
            request.script_name = name.as_deref().map(last_part);
            request.args = args.clone();
        }
    }
    Ok((request, warnings))
}

/// A script's name without its folders.
pub(super) fn last_part(name: &str) -> String {
    let last = Path::new(name).file_name().and_then(|last| last.to_str());
    last.unwrap_or(name).to_owned()
}

/// Where the command was typed: the job runs there, unless an absolute `--chdir` says otherwise.
fn folder(chdir: Option<&str>) -> Result<Option<String>, Failure> {
    if chdir.is_some_and(|dir| dir.starts_with('/')) {
        return Ok(std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok()));
    }
    let unusable = |class, why: &str| Failure::said(class, format!("the current folder {why}; see --chdir"));
    let here = std::env::current_dir()
        .map_err(|error| unusable(ErrorClass::NoInput, &format!("cannot be found: {}", plain(&error))))?;
    let text = here.into_os_string().into_string();
    text.map(Some).map_err(|_| unusable(ErrorClass::Data, "has a name that is not UTF-8"))
}

/// This process's file creation mask. Asking the kernel for it by umask(2) would change it.
fn umask() -> Option<u32> {
    // It stands at the top; the rest would be read in ever larger pieces.
    let mut top = [0; 512];
    let length = File::open("/proc/self/status").and_then(|mut file| file.read(&mut top)).ok()?;
    let status = String::from_utf8_lossy(top.get(..length)?);
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// The user of `--uid`, a number or a name.
fn user_number(text: &str) -> Result<u32, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let no_such = || Failure::usage(format!("--uid: there is no user '{text}'"));
    // Not by the C library: this program is linked statically, and its name service is not.
    let asked = Command::new("getent").args(["passwd", "--", text]).stdin(Stdio::null()).output();
    let output = asked.map_err(|error| {
        Failure::said(
            ErrorClass::NoInput,
            format!("--uid {text}: cannot run getent: {}; give the number", plain(&error)),
        )
    })?;
    // The fields of passwd(5): name, password, number, …
    let line = String::from_utf8_lossy(&output.stdout);
    line.split(':').nth(2).and_then(|number| number.parse().ok()).ok_or_else(no_such)
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for position in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * position)) as usize & 63];
            text.push(if position > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfb]), "//77");
    }

    #[test]
    fn names_lose_their_folders() {
        assert_eq!(last_part("../jobs/train.sh"), "train.sh");
        assert_eq!(last_part("train.sh"), "train.sh");
    }

    #[test]
    fn the_mask_is_read_without_changing_it() {
        assert!(umask().is_some_and(|mask| mask <= 0o777));
    }
}

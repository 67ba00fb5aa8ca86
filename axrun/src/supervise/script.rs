//! Which program runs a script, by its first bytes. Pure. `/run` may be mounted noexec, so the kernel can't be asked
//! to run the script: its rules for `#!` are followed here, except that lines may be longer than its 255 bytes.

/// As much of a script as is read to find its interpreter: longer lines are refused, not cut.
pub(crate) const HEAD: usize = 4096;

/// What runs a script that names nothing.
const SHELL: &[u8] = b"/bin/sh";

/// What is to be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Runner {
    /// This program, perhaps with one argument, then the script's path.
    Interpreter {
        /// Path of the program.
        program: Vec<u8>,
        /// The rest of the line, one word whatever blanks it holds.
        argument: Option<Vec<u8>>,
    },
    /// The file itself is a program.
    Itself,
    /// The first line is longer than [`HEAD`].
    TooLong,
}

/// Reads the first bytes of a script (at most [`HEAD`]).
pub(crate) fn runner(head: &[u8]) -> Runner {
    if head.starts_with(b"\x7fELF") {
        return Runner::Itself;
    }
    let Some(rest) = head.strip_prefix(b"#!") else { return shell() };
    let line = match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => &rest[..end],
        None if head.len() >= HEAD => return Runner::TooLong,
        None => rest,
    };
    let line = trim(line.strip_suffix(b"\r").unwrap_or(line));
    let (program, argument) = match line.iter().position(|byte| is_blank(*byte)) {
        Some(end) => (&line[..end], Some(trim(&line[end..])).filter(|text| !text.is_empty())),
        None => (line, None),
    };
    // A lone `#!` names nothing; the shell takes it for a comment.
    if program.is_empty() {
        return shell();
    }
    Runner::Interpreter { program: program.to_vec(), argument: argument.map(<[u8]>::to_vec) }
}

fn shell() -> Runner {
    Runner::Interpreter { program: SHELL.to_vec(), argument: None }
}

/// The kernel's blanks: spaces and tabs.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim(text: &[u8]) -> &[u8] {
    let first = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    let last = text.iter().rposition(|byte| !is_blank(*byte)).map_or(first, |at| at + 1);
    &text[first..last]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpreter(program: &str, argument: Option<&str>) -> Runner {
        let argument = argument.map(|text| text.as_bytes().to_vec());
        Runner::Interpreter { program: program.as_bytes().to_vec(), argument }
    }

    #[test]
    fn the_kernels_rules() {
        for (head, program, argument) in [
            ("#!/bin/bash\necho", "/bin/bash", None),
            ("#!/bin/bash", "/bin/bash", None),
            ("#!  \t/bin/sh -eu  \n", "/bin/sh", Some("-eu")),
            ("#!/usr/bin/env -S python3 -u\n", "/usr/bin/env", Some("-S python3 -u")),
            ("#!/bin/bash -e\r\necho\r\n", "/bin/bash", Some("-e")),
            ("#!/bin/bash\r\n", "/bin/bash", None),
            ("#!python3\n", "python3", None),
            ("#!\necho", "/bin/sh", None),
            ("#! \t \necho", "/bin/sh", None),
            ("# !/bin/bash\n", "/bin/sh", None),
            ("echo hi\n", "/bin/sh", None),
            ("", "/bin/sh", None),
        ] {
            assert_eq!(runner(head.as_bytes()), interpreter(program, argument), "{head:?}");
        }
    }

    #[test]
    fn programs_run_themselves() {
        assert_eq!(runner(b"\x7fELF\x02\x01"), Runner::Itself);
        assert_eq!(runner(b"\x7fEL"), interpreter("/bin/sh", None));
    }

    #[test]
    fn an_endless_line_is_refused_and_not_cut() {
        let mut head = b"#!/bin/".to_vec();
        head.resize(HEAD, b'x');
        assert_eq!(runner(&head), Runner::TooLong);
    }
}

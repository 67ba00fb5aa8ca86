//! Every way to be wrong has an answer of its own: the whole line that a user
//! sees, for bad directives, values, command lines and variables.

mod wrong;

use ax_core::directive::{Diagnostic, Program, interpret, parse_args, parse_environment, parse_script};
use wrong::{COMMAND_LINES, DIRECTIVES, VALUES, VARIABLES};

/// Command lines of `sbatch`.
const SBATCH: &[(&str, &str)] = &[
    (
        "--time=90m",
        "--time: '90m' is not a time limit: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED",
    ),
    ("--cpus=2", "'--cpus' could be '--cpus-per-task' or '--cpus-per-gpu'; write the whole name"),
    ("--bogus", "unknown option '--bogus'"),
];

fn script_error(script: &str) -> Option<Diagnostic> {
    let parsed = parse_script("job.sh", script.as_bytes());
    parsed.and_then(|parsed| interpret(&[parsed.source()])).err()
}

fn command_error(line: &str, program: Program) -> Option<Diagnostic> {
    let args: Vec<&str> = line.split('~').collect();
    parse_args(&args, program).and_then(|line| interpret(&[line.source()])).err()
}

fn variable_error(variable: &str) -> Option<Diagnostic> {
    parse_environment(variable.split_once('=')).err()
}

fn check(table: &[(&str, &str)], exit_code: u8, error: impl Fn(&str) -> Option<Diagnostic>) {
    for (input, line) in table {
        let found = error(input);
        assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), Some(*line), "{input}");
        assert_eq!(found.map(|found| found.exit_code()), Some(exit_code), "{input}");
    }
}

#[test]
fn scripts() {
    check(DIRECTIVES, 65, script_error);
    check(VALUES, 65, script_error);
}

#[test]
fn command_lines() {
    check(COMMAND_LINES, 2, |line| command_error(line, Program::Axbatch));
    check(SBATCH, 2, |line| command_error(line, Program::Sbatch));
}

#[test]
fn variables() {
    check(VARIABLES, 2, variable_error);
}

#[test]
fn no_two_answers_are_the_same() {
    assert!(DIRECTIVES.len() >= 40 && VALUES.len() >= 30);
    let tables = [DIRECTIVES, VALUES, COMMAND_LINES, SBATCH, VARIABLES];
    let mut lines: Vec<&str> = tables.iter().flat_map(|table| table.iter().map(|(_, line)| *line)).collect();
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count);
}

#[test]
fn a_checkpoint_folder_that_lost_its_job_is_remarked() {
    let notes = |value: &str| {
        let words = [format!("--env=CHECKPOINT_DIR={value}"), "job.sh".to_owned()];
        let line = parse_args(&words, Program::Axbatch).unwrap();
        let all = interpret(&[line.source()]).unwrap();
        all.notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for lost in ["/ckpt/", "/ckpt//run"] {
        let said = format!(
            "--env: '{lost}' holds no part for the job; if $JOB_ID stood there, the shell took it; write it in \
             single quotes"
        );
        assert_eq!(notes(lost), [said]);
    }
    for right in ["/ckpt/$JOB_ID", "/ckpt/$JOB_ID/", "/ckpt", "ckpt/"] {
        assert_eq!(notes(right), Vec::<String>::new(), "{right}");
    }
    let script = parse_script("job.sh", b"#AX --env=CHECKPOINT_DIR=/ckpt/\n").unwrap();
    assert!(interpret(&[script.source()]).unwrap().notes.is_empty(), "in a script the shell takes nothing");
}

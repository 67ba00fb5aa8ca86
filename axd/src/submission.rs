//! From a request to a checked submission: options of all sources are read by
//! the core's one parser, limits and rights are checked, defaults applied.
//! Identity is the caller's, from the kernel; nothing in a request changes it.

mod remarks;

use std::path::Path;

use ax_core::api::{ApiError, ErrorClass, NamedValue, SubmitRequest};
use ax_core::config::{Config, Queue};
use ax_core::controller::Submission;
use ax_core::directive::{
    CommandLine, Conduct, Diagnostic, Dialect, Program, ScriptDirectives, Source, interpret, parse_args,
    parse_environment, parse_script,
};
use ax_core::explain::never_enough;
use ax_core::id::{HostName, SubmissionKey};
use ax_core::job::features::{BadFeatures, Features};
use ax_core::job::request::{Request, Times, resolve};
use ax_core::job::spec::{Export, JobSpec};
use ax_core::node::Node;
use ax_core::schedule::history::Signature;
use ax_core::text::{count, nearest, quoted};
use ax_core::time::WallTime;

pub(crate) use remarks::comes_some_day;
use remarks::{hosts_are_known, without_effect};

use crate::calendar::Calendar;
use crate::people::Person;
use crate::store::Details;

/// Largest script, bytes.
pub(crate) const MAX_SCRIPT: usize = 4 << 20;
/// Largest environment, bytes.
pub(crate) const MAX_ENVIRONMENT: usize = 1 << 20;
/// Most bytes of arguments, and of options.
pub(crate) const MAX_ARGUMENTS: usize = 128 << 10;
/// Longest name, bytes.
const MAX_NAME: usize = 255;
/// Longest comment, and longest reason of an action, bytes.
pub(crate) const MAX_COMMENT: usize = 4 << 10;
/// Longest path of a folder or script, bytes: the kernel takes no longer one.
const MAX_PATH: usize = 4095;

/// A submission that may be put before the controller.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    /// For the controller.
    pub submission: Submission,
    /// For the store.
    pub details: Details,
    /// The script, as submitted.
    pub script: Vec<u8>,
    /// The submitter's environment, as far as it is used.
    pub environment: Vec<(String, String)>,
    /// One line each.
    pub warnings: Vec<String>,
    /// What was understood, in words.
    pub understood: Vec<String>,
    /// How the asking command behaves.
    pub conduct: Conduct,
}

/// What a submission is checked against.
pub(crate) struct Rules<'a> {
    /// The configuration in force.
    pub config: &'a Config,
    /// The nodes there are.
    pub nodes: Vec<&'a Node>,
    /// Clock and zone of the cluster.
    pub calendar: &'a Calendar,
    /// Now.
    pub now: WallTime,
}

/// The script of a request and what messages call it.
pub(crate) struct Script {
    /// Its name.
    pub name: String,
    /// All of it.
    pub body: Vec<u8>,
}

/// Checks a submission of this person.
pub(crate) fn check(request: SubmitRequest, person: &Person, rules: &Rules<'_>) -> Result<Checked, ApiError> {
    let script = script_of(&request)?;
    check_script(request, script, person, rules)
}

/// Checks a submission whose script is not in the request.
pub(crate) fn check_script(
    request: SubmitRequest,
    script: Script,
    person: &Person,
    rules: &Rules<'_>,
) -> Result<Checked, ApiError> {
    may_submit(person, rules.config)?;
    let program = program_of(&request)?;
    check_sizes(&request, &script)?;
    let command_line = command_line(&request, program)?;
    let variables = parse_environment(request.option_variables.iter().map(|(n, v)| (n, v))).map_err(plain)?;
    let directives = parse_script(&script.name, &script.body).map_err(plain)?;
    let from_variables = Source { dialect: Dialect::Ax, file: None, options: &variables };
    let mut read = interpret(&[command_line.source(), from_variables, directives.source()]).map_err(plain)?;
    let mut warnings: Vec<String> =
        directives.warnings.iter().chain(&read.notes).map(ToString::to_string).collect();
    let queue = choose_queue(&read.spec, read.queue_dialect, rules.config, person, &mut warnings)?;
    choose_features(&mut read.spec, read.constraint_dialect, rules.config, &mut warnings)?;
    let instant = |when| rules.calendar.resolve(when, rules.now);
    let timing = &read.spec.timing;
    let times = Times { begin: timing.begin.map(instant), deadline: timing.deadline.map(instant) };
    let asked =
        resolve(&read.spec, times, rules.config, queue, &rules.nodes).map_err(|e| refused(e.message))?;
    hosts_are_known(&asked, rules, &mut warnings)?;
    fits_somewhere(&asked, rules)?;
    comes_some_day(times.begin, rules.now)?;
    warnings.extend(without_effect(&read.spec, &asked));
    let name = job_name(&read.spec, &script.name)?;
    let thing = thing_of(&request, &read.spec);
    check_comment(&read.spec)?;
    let submission = Submission {
        key: request.key.unwrap_or(SubmissionKey(0)),
        owner: person.owner(),
        name: name.into(),
        thing,
        queue: queue.name.clone(),
        groups: person.limited_groups(rules.config),
        year: rules.calendar.year(rules.now),
        hold: read.spec.timing.hold,
        request: asked,
    };
    let understood = vec![in_words(&submission)];
    let conduct = read.conduct;
    let details = details(read.spec, &request, &directives, person, script.name);
    let environment = wanted_environment(request.environment.into_iter().collect(), &details.spec.io.export);
    Ok(Checked { submission, details, script: script.body, environment, warnings, understood, conduct })
}

fn plain(diagnostic: Diagnostic) -> ApiError {
    let class = if diagnostic.exit_code() == 65 { ErrorClass::Data } else { ErrorClass::Usage };
    ApiError { class, error: diagnostic.to_string() }
}

fn refused(error: String) -> ApiError {
    ApiError { class: ErrorClass::Refused, error }
}

fn data(error: String) -> ApiError {
    ApiError { class: ErrorClass::Data, error }
}

fn may_submit(person: &Person, config: &Config) -> Result<(), ApiError> {
    let min = config.policy.min_uid;
    if person.uid.0 >= min {
        return Ok(());
    }
    let error = format!(
        "user {} has number {}; jobs are taken from {min} on (policy.min_uid)",
        person.name, person.uid
    );
    Err(ApiError { class: ErrorClass::NoPermission, error })
}

fn program_of(request: &SubmitRequest) -> Result<Program, ApiError> {
    match request.program.as_deref() {
        None | Some("axbatch") => Ok(Program::Axbatch),
        Some("ax submit") => Ok(Program::AxSubmit),
        Some("axrun") => Ok(Program::Axrun),
        Some("sbatch") => Ok(Program::Sbatch),
        Some(other) => {
            let error =
                format!("field 'program': {} is none of axbatch, ax submit, axrun, sbatch", quoted(other));
            Err(ApiError { class: ErrorClass::Usage, error })
        }
    }
}

/// Exactly one of `script`, `script_base64` and `cmd`.
fn script_of(request: &SubmitRequest) -> Result<Script, ApiError> {
    let named = |default: &str| request.script_name.clone().unwrap_or_else(|| default.to_owned());
    match (&request.script, &request.script_base64, &request.cmd) {
        (Some(text), None, None) => Ok(Script { name: named("script"), body: text.clone().into_bytes() }),
        (None, Some(text), None) => match crate::base64::decode(text) {
            Some(body) => Ok(Script { name: named("script"), body }),
            None => Err(data("field 'script_base64' is not base 64".to_owned())),
        },
        (None, None, Some(cmd)) => {
            Ok(Script { name: named("wrap"), body: format!("#!/bin/sh\n{cmd}\n").into_bytes() })
        }
        (None, None, None) => {
            Err(data("there is no script: one of script, script_base64, cmd is needed".to_owned()))
        }
        _ => Err(data("only one of script, script_base64, cmd may be given".to_owned())),
    }
}

fn check_sizes(request: &SubmitRequest, script: &Script) -> Result<(), ApiError> {
    let arguments: usize = request.args.iter().map(|a| a.len() + 1).sum();
    let environment: usize = request.environment.iter().map(|(n, v)| n.len() + v.len() + 2).sum();
    let folder = request.cwd.as_ref().map_or(0, String::len);
    let variables = request.option_variables.iter().map(|(n, v)| n.len() + v.len() + 2);
    let named = request.named.iter().map(|(n, v)| n.len() + size_of_value(v));
    let options: usize = request.options.iter().map(|o| o.len() + 1).chain(variables).chain(named).sum();
    for (what, has, most) in [
        ("the script", script.body.len(), MAX_SCRIPT),
        ("the script's name", script.name.len(), MAX_PATH),
        ("the folder's path", folder, MAX_PATH),
        ("the arguments", arguments, MAX_ARGUMENTS),
        ("the options", options, MAX_ARGUMENTS),
        ("the environment", environment, MAX_ENVIRONMENT),
    ] {
        if has > most {
            let error = format!("{}: {what} has {has} bytes, at most {most} are taken", quoted(&script.name));
            return Err(data(error));
        }
    }
    let texts =
        request.args.iter().chain(request.environment.iter().flat_map(|(n, v)| [n, v])).chain(&request.cwd);
    if texts.into_iter().any(|t| t.contains('\0')) {
        return Err(data("arguments, environment and folder can't hold a NUL character".to_owned()));
    }
    match request.cwd.as_deref().filter(|folder| !folder.starts_with('/')) {
        Some(folder) => Err(data(format!("the folder {} is no absolute path", quoted(folder)))),
        None => Ok(()),
    }
}

fn size_of_value(value: &NamedValue) -> usize {
    match value {
        NamedValue::Flag(_) | NamedValue::Number(_) => size_of::<NamedValue>(),
        NamedValue::Text(text) => text.len(),
        NamedValue::List(texts) => texts.iter().map(|text| text.len() + 1).sum(),
    }
}

/// Option words, and options by name in the same form.
fn command_line(request: &SubmitRequest, program: Program) -> Result<CommandLine, ApiError> {
    let mut words = request.options.clone();
    for (name, value) in &request.named {
        words.extend(named_words(name, value));
    }
    let line = parse_args(&words, program).map_err(plain)?;
    match &line.script {
        None => Ok(line),
        Some(word) => {
            let error = format!("field 'options': {} is no option", quoted(word));
            Err(ApiError { class: ErrorClass::Usage, error })
        }
    }
}

/// `"gpu_mem": 80` is `--gpu-mem=80`, `"hold": true` is `--hold`.
fn named_words(name: &str, value: &NamedValue) -> Vec<String> {
    let option = format!("--{}", name.replace('_', "-"));
    match value {
        NamedValue::Flag(true) => vec![option],
        NamedValue::Flag(false) => Vec::new(),
        NamedValue::Number(number) => vec![format!("{option}={number}")],
        NamedValue::Text(text) => vec![format!("{option}={text}")],
        NamedValue::List(texts) => texts.iter().map(|text| format!("{option}={text}")).collect(),
    }
}

/// The queue that was named, if this person may use it; a foreign name in a
/// Slurm script means the default queue.
fn choose_queue<'a>(
    spec: &JobSpec,
    dialect: Option<Dialect>,
    config: &'a Config,
    person: &Person,
    warnings: &mut Vec<String>,
) -> Result<&'a Queue, ApiError> {
    let default = || config.queue(config.default_queue.as_str()).or(config.queues.first());
    let named = spec.queue.as_deref();
    let queue = match named.map(|name| (name, config.queue(name))) {
        None => default(),
        Some((_, Some(queue))) => Some(queue),
        Some((name, None)) if dialect == Some(Dialect::Slurm) => {
            warnings.push(format!("there is no queue {}: taken as {}", quoted(name), config.default_queue));
            default()
        }
        Some((name, None)) => return Err(refused(config.unknown_queue(name))),
    };
    let queue = queue.ok_or_else(|| refused("no queue is configured".to_owned()))?;
    may_use(queue, person)?;
    Ok(queue)
}

/// Features that some node is declared to have; a Slurm script that wants others was written for another cluster.
fn choose_features(
    spec: &mut JobSpec,
    dialect: Option<Dialect>,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let Some(text) = spec.resources.constraint.clone() else { return Ok(()) };
    let Err(wrong) = known_features(&text, config) else { return Ok(()) };
    if dialect != Some(Dialect::Slurm) {
        return Err(refused(format!("--constraint: {wrong}")));
    }
    warnings.push(format!("--constraint={text} is left out: {wrong}"));
    spec.resources.constraint = None;
    spec.unused.push(("constraint".to_owned(), text));
    Ok(())
}

/// Features as they are written, if some node is declared to have each of them; or what is wrong.
pub(crate) fn known_features(text: &str, config: &Config) -> Result<Features, String> {
    let known = || config.resources.gpu_nodes.iter().flat_map(|node| &node.features).map(String::as_str);
    let features: Features = text.parse().map_err(|bad: BadFeatures| bad.to_string())?;
    let unknown = features.names().into_iter().find(|name| !known().any(|other| other == *name));
    let Some(name) = unknown else { return Ok(features) };
    Err(match nearest(name, known()) {
        Some(near) => {
            format!("no node here has the feature {}; did you mean {}?", quoted(name), quoted(near))
        }
        None => format!("no node here has the feature {} (resources.gpu_nodes[].features)", quoted(name)),
    })
}

/// Fails if a queue is not open to this person.
pub(crate) fn may_use(queue: &Queue, person: &Person) -> Result<(), ApiError> {
    let open = queue.users.is_empty() && queue.groups.is_empty();
    let by_user = queue.users.iter().any(|u| **u == *person.name);
    let by_group = queue.groups.iter().any(|g| person.group_names.contains(g));
    if open || by_user || by_group || person.uid == ax_core::id::Uid::ROOT {
        return Ok(());
    }
    let error = format!(
        "queue '{}' is for certain users and groups, and {} is none of them",
        queue.name, person.name
    );
    Err(ApiError { class: ErrorClass::NoPermission, error })
}

/// A job that no node, or too few of them, could ever hold is refused with the numbers. Nodes that are declared and have
/// not come yet may hold it.
fn fits_somewhere(request: &Request, rules: &Rules<'_>) -> Result<(), ApiError> {
    let reserve = rules.config.resources.gpu_reserve;
    let fitting = rules.nodes.iter().filter(|n| n.could_ever_hold(request, reserve)).count();
    let needed = request.nodes().min as usize;
    if rules.nodes.is_empty() || fitting >= needed {
        return Ok(());
    }
    if needed > 1 {
        let here = |host: &HostName| rules.nodes.iter().any(|node| node.inventory.name == *host);
        let declared = rules.config.resources.gpu_nodes.iter().map(|node| &node.host);
        let to_come = declared.filter(|host| !here(host)).count();
        if fitting + to_come >= needed {
            return Ok(());
        }
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let all = number(rules.nodes.len() + to_come);
        let why = never_enough(request, number(fitting), all);
        return Err(refused(format!("no nodes here could ever hold this job: {why}")));
    }
    let lacks: Vec<String> =
        rules.nodes.iter().filter_map(|node| node.lacks_for_ever(request, reserve)).collect();
    Err(refused(format!("no node here could ever hold this job: it {}", lacks.join("; it "))))
}

fn job_name(spec: &JobSpec, script_name: &str) -> Result<String, ApiError> {
    let from_file = || Path::new(script_name).file_name().map(|n| n.to_string_lossy().into_owned());
    let name = spec.name.clone().or_else(from_file).unwrap_or_else(|| "script".to_owned());
    check_name(&name)?;
    Ok(name)
}

/// The thing that a submission without a name is: a command is known by its text; a script without a name is like no
/// other.
fn thing_of(request: &SubmitRequest, spec: &JobSpec) -> Option<Signature> {
    match (&spec.name, &request.cmd, &request.script_name) {
        (None, Some(cmd), _) => Some(Signature::called(cmd)),
        (None, None, None) => Some(Signature::default()),
        _ => None,
    }
}

/// A job's name is neither empty nor endless.
pub(crate) fn check_name(name: &str) -> Result<(), ApiError> {
    match name.len() {
        0 => Err(refused("the job's name is empty".to_owned())),
        1..=MAX_NAME => Ok(()),
        long => Err(refused(format!("the job's name has {long} bytes, at most {MAX_NAME} are taken"))),
    }
}

fn check_comment(spec: &JobSpec) -> Result<(), ApiError> {
    match spec.comment.as_ref().map(String::len) {
        Some(long) if long > MAX_COMMENT => {
            Err(refused(format!("the comment has {long} bytes, at most {MAX_COMMENT} are taken")))
        }
        _ => Ok(()),
    }
}

fn details(
    mut spec: JobSpec,
    request: &SubmitRequest,
    directives: &ScriptDirectives,
    person: &Person,
    script_name: String,
) -> Details {
    let submit_dir = request.cwd.clone().unwrap_or_else(|| person.home.clone());
    let cwd = match &spec.io.chdir {
        Some(dir) => Path::new(&submit_dir).join(dir).to_string_lossy().into_owned(),
        None => submit_dir.clone(),
    };
    let slurm = directives.dialect == Dialect::Slurm || request.program.as_deref() == Some("sbatch");
    if slurm && spec.io.output.is_none() {
        // The name that other tools expect of such a script.
        spec.io.output = Some("slurm-%j.out".to_owned());
    }
    Details {
        spec,
        args: request.args.clone(),
        cwd,
        submit_dir,
        umask: request.umask.unwrap_or(0o022) & 0o777,
        slurm,
        script_name: Some(script_name),
        program: request.program.clone(),
        warnings: Vec::new(),
        spooled: false,
    }
}

/// The part of the submitter's environment that `--export` can let through. A name that is none
/// could stand for another variable once it is joined with its value.
fn wanted_environment(all: Vec<(String, String)>, export: &Export) -> Vec<(String, String)> {
    let all = all.into_iter().filter(|(name, _)| !name.is_empty() && !name.contains('='));
    match export {
        Export::None => Vec::new(),
        Export::Only(items) => all.filter(|(n, _)| items.iter().any(|i| i.name == *n)).collect(),
        Export::All | Export::AllAnd(_) => all.collect(),
    }
}

fn in_words(submission: &Submission) -> String {
    let request = &submission.request;
    let cards = match &request.cards {
        None => "no cards".to_owned(),
        Some(c) => {
            let kind = c.kind.as_deref().map_or(String::new(), |k| format!("{k} "));
            let each = if c.count == 1 { "" } else { " each" };
            let slice = c.slice.map_or(String::new(), |mem| format!(" with {}{each}", mem.of_card()));
            format!("{}{slice}", count(c.count, &format!("{kind}card")))
        }
    };
    let limit = request.time_limit.map_or("no time limit".to_owned(), |l| format!("time limit {l}"));
    format!(
        "queue {}, priority {}, {}, {} of RAM, {cards}, {limit}",
        submission.queue,
        request.priority,
        count(request.cpus, "CPU"),
        request.ram
    )
}

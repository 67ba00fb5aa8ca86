//! An action on jobs as it was asked for: checked and read once, however many jobs it is for; each of them then gets
//! an event.

use ax_core::api::{Action, ActionRequest, ApiError, ErrorClass};
use ax_core::controller::{Change, Needs, Wish};
use ax_core::directive::{Program, RawOption, interpret_changes, parse_args};
use ax_core::job::features::Features;
use ax_core::job::request::type_meant;
use ax_core::job::spec::{GpuCount, JobSpec, RamRequest, ResourceSpec, TimeLimit};
use ax_core::time::{Span, WallTime};
use ax_sys::clock;
use ax_sys::signals::Signal;

use super::Engine;
use super::requests::error;
use crate::people::Person;
use crate::submission;

/// Most jobs that one request may act on one by one.
const MOST_JOBS: usize = 100_000;

/// Longer than any time that is allowed, and small enough to be counted in milliseconds.
const MOST_SECONDS: u64 = u32::MAX as u64;

/// Checks what can be checked before any job is looked up: a bad request must cost nothing.
fn check(request: &ActionRequest) -> Result<(), ApiError> {
    if request.jobs.is_empty() && request.select.is_none() {
        return Err(error(ErrorClass::Usage, "no job is named"));
    }
    if request.jobs.len() > MOST_JOBS {
        let text = format!("{} jobs are too many at once, at most {MOST_JOBS}", request.jobs.len());
        return Err(error(ErrorClass::Usage, text));
    }
    // It travels to the supervisor in one message, and is shown with the job for ever.
    match request.why.as_ref().map_or(0, String::len) {
        long if long > submission::MAX_COMMENT => {
            let most = submission::MAX_COMMENT;
            Err(error(ErrorClass::Usage, format!("the reason has {long} bytes, at most {most} are taken")))
        }
        _ => Ok(()),
    }
}

/// What can be taken away from a job.
const MAY_GO: [&str; 4] = ["begin", "window", "deadline", "constraint"];

/// Takes out the options whose value is `none`, for what can be taken away; the last of each counts.
fn taken_away(options: &mut Vec<RawOption>) -> Vec<&'static str> {
    let none =
        |option: &RawOption| option.value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case("none"));
    let last = |name: &str| options.iter().rfind(|option| option.def.name == name);
    let mut away = MAY_GO.to_vec();
    away.retain(|name| last(name).is_some_and(none));
    options.retain(|option| {
        !MAY_GO.contains(&option.def.name) || (!none(option) && !away.contains(&option.def.name))
    });
    away
}

/// What can be changed, as options.
const CHANGEABLE: &str = "of a waiting job only --priority, --time, --begin, --window, --deadline, --queue, --job-name, \
                          --gpus, --gpus-per-node, --mem, --ram, --cpus-per-task, --constraint and --nodes can be changed, \
                          of a running one only --time";

/// Whether something else is among the options.
fn is_more(spec: &JobSpec) -> bool {
    let mut rest = spec.clone();
    (rest.queue, rest.name) = (None, None);
    let timing = &mut rest.timing;
    (timing.priority, timing.limit) = (None, None);
    (timing.begin, timing.window, timing.deadline) = (None, None, None);
    let needs = &mut rest.resources;
    (needs.gpus, needs.gpus_per_node, needs.gpu_mem) = (None, None, None);
    (needs.ram, needs.cpus_per_task, needs.constraint, needs.nodes) = (None, None, None, None);
    rest != JobSpec::default()
}

impl Engine {
    /// Reads and checks a request before any job is looked up: a bad one must cost nothing.
    pub(super) fn wish(&self, request: &ActionRequest, person: &Person) -> Result<Wish, ApiError> {
        check(request)?;
        match &request.action {
            Action::Cancel { signal: None } => Ok(Wish::Cancel),
            Action::Cancel { signal: Some(number) } => match Signal::from_number(i32::from(*number)) {
                Some(_) => Ok(Wish::Signal(*number)),
                None => Err(error(ErrorClass::Usage, format!("there is no signal {number}"))),
            },
            Action::Hold => Ok(Wish::Hold),
            Action::Release => Ok(Wish::Release),
            Action::Resolve { answer } => Ok(Wish::Resolve(*answer)),
            Action::Keep { seconds } => Ok(Wish::Keep(Span::seconds((*seconds).min(MOST_SECONDS)))),
            Action::Checkpointed { epoch } => Ok(Wish::Checkpointed(*epoch)),
            Action::Update { options } => {
                self.change_of(options, person).map(|change| Wish::Update(Box::new(change)))
            }
            Action::Suspend | Action::Resume => {
                Err(error(ErrorClass::Refused, "suspend and resume are not supported yet"))
            }
        }
    }

    /// Reads options as on a command line; only those that a waiting job can change.
    fn change_of(&self, options: &[String], person: &Person) -> Result<Change, ApiError> {
        let size: usize = options.iter().map(|o| o.len() + 1).sum();
        if size > submission::MAX_ARGUMENTS {
            let most = submission::MAX_ARGUMENTS;
            return Err(error(
                ErrorClass::Usage,
                format!("the options have {size} bytes, at most {most} are taken"),
            ));
        }
        let usage = |d: ax_core::directive::Diagnostic| error(ErrorClass::Usage, d.to_string());
        let mut line = parse_args(options, Program::Axbatch).map_err(usage)?;
        let away = taken_away(&mut line.options);
        let spec = interpret_changes(line.source()).map_err(usage)?;
        if line.script.is_some() || is_more(&spec) {
            return Err(error(ErrorClass::Usage, CHANGEABLE));
        }
        spec.name.as_deref().map_or(Ok(()), submission::check_name)?;
        let config = self.controller.config();
        // As at the submission: an update must not lead around a queue's rules.
        if let Some(queue) = spec.queue.as_deref().and_then(|name| config.queue(name))
            && !person.is_admin(config)
        {
            submission::may_use(queue, person)?;
        }
        let queue = match spec.queue.as_deref() {
            None => None,
            Some(name) => Some(
                name.parse().map_err(|e: ax_core::id::BadName| error(ErrorClass::Usage, e.to_string()))?,
            ),
        };
        let now = WallTime(clock::wall_ms());
        let instant = |when| Some(self.calendar.resolve(when, now));
        let gone = |name: &str| away.contains(&name);
        let begin = spec.timing.begin.map(instant);
        submission::comes_some_day(begin.flatten(), now)?;
        Ok(Change {
            priority: spec.timing.priority,
            time_limit: spec.timing.limit.map(|limit| match limit {
                TimeLimit::After(span) => Some(span),
                TimeLimit::Unlimited => None,
            }),
            queue,
            name: spec.name.map(Into::into),
            begin: begin.or(gone("begin").then_some(None)),
            window: spec.timing.window.map(Some).or(gone("window").then_some(None)),
            deadline: spec.timing.deadline.map(instant).or(gone("deadline").then_some(None)),
            needs: self.needs_of(spec.resources, gone("constraint"))?,
        })
    }

    /// What is to change of what jobs need of machines: names are those that are known here, as at a submission.
    fn needs_of(&self, asked: ResourceSpec, no_features: bool) -> Result<Needs, ApiError> {
        let (config, nodes) = (self.controller.config(), || self.controller.nodes());
        let known = |gpus: Option<GpuCount>| -> Result<Option<GpuCount>, ApiError> {
            let Some(GpuCount { count, kind }) = gpus else { return Ok(None) };
            let meant = kind.map(|typed| type_meant(&typed, config, nodes())).transpose();
            let kind = meant.map_err(|unmeetable| error(ErrorClass::Refused, unmeetable.message))?;
            Ok(Some(GpuCount { count, kind }))
        };
        if asked.gpus.is_some() && asked.gpus_per_node.is_some() {
            let text = "'--gpus' is a number in all, '--gpus-per-node' of each node: give one of them";
            return Err(error(ErrorClass::Usage, text));
        }
        let ram = match asked.ram {
            None => None,
            Some(RamRequest::PerNode(ram)) => Some(ram),
            Some(RamRequest::PerCpu(_) | RamRequest::PerGpu(_) | RamRequest::WholeNode) => {
                return Err(error(
                    ErrorClass::Usage,
                    "of a waiting job --ram is changed to a size, such as --ram=8G",
                ));
            }
        };
        let named =
            asked.constraint.as_deref().map(|text| submission::known_features(text, config)).transpose();
        let named: Option<Features> =
            named.map_err(|wrong| error(ErrorClass::Refused, format!("--constraint: {wrong}")))?;
        Ok(Needs {
            gpus: known(asked.gpus)?,
            gpus_per_node: known(asked.gpus_per_node)?,
            mem: asked.gpu_mem,
            ram,
            cpus_per_task: asked.cpus_per_task,
            features: named.map(Some).or(no_features.then_some(None)),
            nodes: asked.nodes,
        })
    }
}

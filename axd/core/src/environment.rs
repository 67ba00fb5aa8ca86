//! The environment of a job: first the submitter's variables as `--export` lets them through, then ax's own, then
//! `--env` but for ax's own, then those that tell frameworks about slices. Pure, so it can be tested whole.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::gpu::frameworks;
use crate::gpu::visible::{self, JobCards};
use crate::id::AttemptName;
use crate::job::spec::{Export, ExportItem, MemHints};
use crate::size::Megabytes;
use crate::text::quoted;
use crate::time::Span;

/// What the variables say of an attempt.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The attempt.
    pub attempt: AttemptName,
    /// Its number, from 1.
    pub number: u32,
    /// The job's name.
    pub name: &'a str,
    /// Its queue.
    pub queue: &'a str,
    /// Its user's name.
    pub user: &'a str,
    /// Its user's home.
    pub home: &'a str,
    /// Its user's shell.
    pub shell: &'a str,
    /// The node.
    pub node: &'a str,
    /// CPUs.
    pub cpus: u32,
    /// Tasks.
    pub tasks: u32,
    /// CPUs of each task, if asked for.
    pub cpus_per_task: Option<u32>,
    /// Host memory.
    pub ram: Megabytes,
    /// Cards.
    pub cards: JobCards<'a>,
    /// Cards of each task, if asked for.
    pub cards_per_task: Option<u32>,
    /// What frameworks are told of its slices.
    pub hints: MemHints,
    /// Of each slice, what they leave to the driver.
    pub context: Megabytes,
    /// Time limit.
    pub time_limit: Option<Span>,
    /// Folder of the submission.
    pub submit_dir: &'a str,
    /// Folder of the attempt's own.
    pub work_dir: &'a str,
    /// Account, if one was named.
    pub account: Option<&'a str>,
    /// Cluster's name.
    pub cluster: &'a str,
}

/// Search path of a job that brings none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What containers get of the driver: to compute, and to look at cards.
const CAPABILITIES: &str = "compute,utility";

/// Variables of ax that a job may hand on to jobs that it submits.
const KEPT: [&str; 2] = ["AX_ROOT", "AX_SOCKET"];

/// What ax sets for each job, beside the variables of its cards and of its slices: it says the same to every program
/// that reads it, so a submitter cannot override it either.
const OWN: &[&str] = &[
    "JOB_ID",
    "AX_JOB_ID",
    "AX_JOB_MARK",
    "AX_JOB_NUMBER",
    "AX_JOB_NAME",
    "AX_QUEUE",
    "AX_USER",
    "AX_ATTEMPT",
    "AX_RESTART_COUNT",
    "AX_LEASE_EPOCH",
    "AX_NODE",
    "AX_NODELIST",
    "AX_NTASKS",
    "AX_CPUS",
    "AX_SUBMIT_DIR",
    "AX_SPOOL_JOB_DIR",
    "AX_TIME_LIMIT_S",
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_USER",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
    "SLURMD_NODENAME",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_TASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_CPUS_ON_NODE",
    "SLURM_MEM_PER_NODE",
    "SLURM_SUBMIT_DIR",
    "SLURM_RESTART_COUNT",
    "SLURM_CLUSTER_NAME",
];

/// True if ax alone says what a job finds in a variable.
pub fn is_set_by_ax(name: &str) -> bool {
    visible::is_mask(name) || OWN.contains(&name)
}

/// Largest environment of a job in bytes, names and values together: as much as Linux hands
/// to a program under the usual limit of its stack.
pub const MAX_ENVIRONMENT: usize = 2 << 20;

/// `--env` values that expand to more than any program could be given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("with the value of {} the environment has more than {MAX_ENVIRONMENT} bytes", quoted(.name))]
pub struct TooLarge {
    /// The variable at which it was too much.
    pub name: String,
}

/// The environment of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// All of it, in the order of the names.
    pub variables: Vec<(String, String)>,
    /// What was set for frameworks, in words.
    pub told: Vec<String>,
}

/// The whole environment of an attempt. What says which job it is, and which cards it may use, is ax's, whatever the
/// submitter brings.
///
/// # Errors
/// When it would be larger than [`MAX_ENVIRONMENT`]: a value may name earlier ones, so a few
/// short ones could otherwise grow without end, in the memory of whoever makes them.
pub fn environment(
    submitter: &[(String, String)],
    export: &Export,
    extra: &[(String, String)],
    facts: &Facts<'_>,
) -> Result<Environment, TooLarge> {
    let mut all = exported(submitter, export);
    all.retain(|name, _| !is_of_another_job(name) && !visible::is_mask(name));
    for (name, value) in [
        ("HOME", facts.home),
        ("LOGNAME", facts.user),
        ("PATH", DEFAULT_PATH),
        ("SHELL", facts.shell),
        ("USER", facts.user),
    ] {
        all.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    if !facts.cards.held.is_empty() {
        all.entry("NVIDIA_DRIVER_CAPABILITIES".to_owned()).or_insert_with(|| CAPABILITIES.to_owned());
    }
    all.extend(own_variables(facts).into_iter().map(|(name, value)| (name.to_owned(), value)));
    let size: usize = all.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let mut room = MAX_ENVIRONMENT.saturating_sub(size);
    for (name, value) in extra.iter().filter(|(name, _)| !is_set_by_ax(name)) {
        let too_large = || TooLarge { name: name.clone() };
        let value = expand(value, &all, room).ok_or_else(too_large)?;
        room = room.checked_sub(name.len() + value.len() + 2).ok_or_else(too_large)?;
        all.insert(name.clone(), value);
    }
    let told = frameworks::apply(&mut all, facts.cards.held, facts.hints, facts.context);
    Ok(Environment { variables: all.into_iter().collect(), told })
}

fn exported(submitter: &[(String, String)], export: &Export) -> BTreeMap<String, String> {
    let whole = || submitter.iter().cloned().collect::<BTreeMap<_, _>>();
    let named = |items: &[ExportItem]| -> BTreeMap<String, String> {
        let given = whole();
        let value = |item: &ExportItem| item.value.clone().or_else(|| given.get(&item.name).cloned());
        items.iter().filter_map(|item| Some((item.name.clone(), value(item)?))).collect()
    };
    match export {
        Export::All => whole(),
        Export::None => BTreeMap::new(),
        Export::Only(items) => named(items),
        Export::AllAnd(items) => {
            let mut all = whole();
            all.extend(named(items));
            all
        }
    }
}

/// Left over where a job submits a job: they would speak of the wrong one.
fn is_of_another_job(name: &str) -> bool {
    let ours = name.starts_with("AX_") || name.starts_with("SLURM_") || name == "JOB_ID";
    ours && !KEPT.contains(&name)
}

fn own_variables(facts: &Facts<'_>) -> Vec<(&'static str, String)> {
    let id = facts.attempt.job.to_string();
    let number = facts.attempt.job.number.to_string();
    let mut all = vec![
        ("JOB_ID", id.clone()),
        ("AX_JOB_ID", id),
        ("AX_JOB_NUMBER", number.clone()),
        ("AX_JOB_NAME", facts.name.to_owned()),
        ("AX_QUEUE", facts.queue.to_owned()),
        ("AX_USER", facts.user.to_owned()),
        ("AX_ATTEMPT", facts.number.to_string()),
        ("AX_RESTART_COUNT", (facts.number.saturating_sub(1)).to_string()),
        ("AX_LEASE_EPOCH", facts.attempt.epoch.to_string()),
        ("AX_NODE", facts.node.to_owned()),
        ("AX_NODELIST", facts.node.to_owned()),
        ("AX_NTASKS", facts.tasks.to_string()),
        ("AX_CPUS", facts.cpus.to_string()),
        ("AX_SUBMIT_DIR", facts.submit_dir.to_owned()),
        ("AX_SPOOL_JOB_DIR", facts.work_dir.to_owned()),
        ("AX_TIME_LIMIT_S", facts.time_limit.map_or(String::new(), |l| l.as_seconds().to_string())),
    ];
    all.extend(card_variables(facts));
    all.extend(slurm_variables(facts, number));
    all
}

/// Which cards, and who holds the job to its slices of them.
fn card_variables(facts: &Facts<'_>) -> Vec<(&'static str, String)> {
    let mut all = visible::of_job(facts.cards);
    let rung = frameworks::enforced(facts.cards.held, facts.hints);
    all.push(("AX_GPU_ENFORCE", rung.map_or(String::new(), |rung| rung.to_string())));
    all
}

/// The names that programs written for Slurm look for.
fn slurm_variables(facts: &Facts<'_>, number: String) -> Vec<(&'static str, String)> {
    let (tasks, node) = (facts.tasks.to_string(), facts.node.to_owned());
    let mut all = vec![
        ("SLURM_JOB_ID", number.clone()),
        ("SLURM_JOBID", number),
        ("SLURM_JOB_NAME", facts.name.to_owned()),
        ("SLURM_JOB_PARTITION", facts.queue.to_owned()),
        ("SLURM_JOB_USER", facts.user.to_owned()),
        ("SLURM_JOB_NODELIST", node.clone()),
        ("SLURM_NODELIST", node.clone()),
        ("SLURMD_NODENAME", node),
        ("SLURM_JOB_NUM_NODES", "1".to_owned()),
        ("SLURM_NNODES", "1".to_owned()),
        ("SLURM_NODEID", "0".to_owned()),
        ("SLURM_PROCID", "0".to_owned()),
        ("SLURM_LOCALID", "0".to_owned()),
        ("SLURM_NTASKS", tasks.clone()),
        ("SLURM_NPROCS", tasks.clone()),
        ("SLURM_TASKS_PER_NODE", tasks),
        ("SLURM_JOB_CPUS_PER_NODE", facts.cpus.to_string()),
        ("SLURM_CPUS_ON_NODE", facts.cpus.to_string()),
        ("SLURM_MEM_PER_NODE", facts.ram.0.to_string()),
        ("SLURM_SUBMIT_DIR", facts.submit_dir.to_owned()),
        ("SLURM_RESTART_COUNT", (facts.number.saturating_sub(1)).to_string()),
        ("SLURM_CLUSTER_NAME", facts.cluster.to_owned()),
    ];
    all.extend(facts.cpus_per_task.map(|c| ("SLURM_CPUS_PER_TASK", c.to_string())));
    all.extend(facts.account.map(|a| ("SLURM_JOB_ACCOUNT", a.to_owned())));
    all.extend(facts.cards_per_task.map(|c| ("SLURM_GPUS_PER_TASK", c.to_string())));
    all
}

/// Replaces `$NAME` and `${NAME}` by the job's variables; an unknown one by nothing,
/// `$$` by a dollar. Data only: nothing here is a shell. `None`: more than `room` bytes.
fn expand(value: &str, variables: &BTreeMap<String, String>, room: usize) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, after) = match rest.strip_prefix('{').and_then(|r| r.split_once('}')) {
            Some(braced) => braced,
            None => rest
                .split_at(rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())),
        };
        match variables.get(name) {
            Some(found) => out.push_str(found),
            None if name.is_empty() => out.push('$'),
            None => {}
        }
        if out.len() > room {
            return None;
        }
        rest = after;
    }
    out.push_str(rest);
    (out.len() <= room).then_some(out)
}

#[cfg(test)]
mod tests;

//! The environment of a job: the submitter's variables as `--export` lets them
//! through, then ax's own, then `--env`. Pure, so that it can be tested whole.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::id::AttemptName;
use crate::job::spec::{Export, ExportItem};
use crate::node::CardShare;
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
    pub cards: &'a [CardShare],
    /// Memory of a whole card of those, for the fraction.
    pub card_mem: Option<Megabytes>,
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

/// Variables of ax that a job may hand on to jobs that it submits.
const KEPT: [&str; 2] = ["AX_ROOT", "AX_SOCKET"];

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

/// The whole environment of an attempt, in the order of the names.
///
/// # Errors
/// When it would be larger than [`MAX_ENVIRONMENT`]: a value may name earlier ones, so a few
/// short ones could otherwise grow without end, in the memory of whoever makes them.
pub fn environment(
    submitter: &[(String, String)],
    export: &Export,
    extra: &[(String, String)],
    facts: &Facts<'_>,
) -> Result<Vec<(String, String)>, TooLarge> {
    let mut all = exported(submitter, export);
    all.retain(|name, _| !is_of_another_job(name));
    for (name, value) in [
        ("HOME", facts.home),
        ("LOGNAME", facts.user),
        ("PATH", DEFAULT_PATH),
        ("SHELL", facts.shell),
        ("USER", facts.user),
    ] {
        all.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    all.extend(own_variables(facts).into_iter().map(|(name, value)| (name.to_owned(), value)));
    let size: usize = all.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let mut room = MAX_ENVIRONMENT.saturating_sub(size);
    for (name, value) in extra {
        let too_large = || TooLarge { name: name.clone() };
        let value = expand(value, &all, room).ok_or_else(too_large)?;
        room = room.checked_sub(name.len() + value.len() + 2).ok_or_else(too_large)?;
        all.insert(name.clone(), value);
    }
    Ok(all.into_iter().collect())
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

/// Cards: empty, never unset, for a job without cards, so that no framework takes them all.
fn card_variables(facts: &Facts<'_>) -> Vec<(&'static str, String)> {
    let join = |texts: Vec<String>| texts.join(",");
    let numbers = join(facts.cards.iter().map(|c| c.index.to_string()).collect());
    let mut all = vec![
        ("AX_GPUS", facts.cards.len().to_string()),
        ("AX_GPU_UUIDS", join(facts.cards.iter().map(|c| c.uuid.clone()).collect())),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ("CUDA_VISIBLE_DEVICES", numbers.clone()),
        ("NVIDIA_VISIBLE_DEVICES", if numbers.is_empty() { "void".to_owned() } else { numbers }),
    ];
    let slice = facts.cards.first().and_then(|c| c.slice);
    let mem = if facts.cards.is_empty() { None } else { slice.or(facts.card_mem) };
    let fraction = match (mem, facts.card_mem) {
        (Some(mem), Some(card)) if card.0 > 0 => format!("{:.4}", (mem.0 as f64 / card.0 as f64).min(1.0)),
        _ => String::new(),
    };
    all.push(("AX_GPU_MEM_MB", mem.map_or(String::new(), |m| m.0.to_string())));
    all.push(("AX_GPU_MEM_FRACTION", fraction));
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
    if !facts.cards.is_empty() {
        all.push(("SLURM_GPUS_ON_NODE", facts.cards.len().to_string()));
        let numbers: Vec<String> = facts.cards.iter().map(|c| c.index.to_string()).collect();
        all.push(("SLURM_JOB_GPUS", numbers.join(",")));
    }
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
mod tests {
    use super::*;

    fn facts(cards: &[CardShare]) -> Facts<'_> {
        Facts {
            attempt: "ax-2026-0007.12".parse().unwrap(),
            number: 2,
            name: "train",
            queue: "default",
            user: "li",
            home: "/home/li",
            shell: "/bin/bash",
            node: "gpu-01",
            cpus: 4,
            tasks: 1,
            cpus_per_task: Some(4),
            ram: Megabytes(8000),
            cards,
            card_mem: Some(Megabytes(80_000)),
            time_limit: Some(Span::seconds(3600)),
            submit_dir: "/home/li/x",
            work_dir: "/var/spool/ax/jobs/007/ax-2026-0007/12/work",
            account: None,
            cluster: "lab",
        }
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    fn get<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
        all.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    #[test]
    fn the_submitter_s_variables_come_through_as_export_says() {
        let given =
            pairs(&[("A", "1"), ("B", "2"), ("PATH", "/x"), ("SLURM_JOB_ID", "9"), ("AX_ROOT", "/r")]);
        let item =
            |name: &str, value: Option<&str>| ExportItem { name: name.into(), value: value.map(Into::into) };
        let all = environment(&given, &Export::All, &[], &facts(&[])).unwrap();
        assert_eq!(
            (get(&all, "A"), get(&all, "PATH"), get(&all, "AX_ROOT")),
            (Some("1"), Some("/x"), Some("/r"))
        );
        assert_eq!(get(&all, "SLURM_JOB_ID"), Some("7"), "of this job, not of the one that submitted it");
        let none = environment(&given, &Export::None, &[], &facts(&[])).unwrap();
        assert_eq!(
            (get(&none, "A"), get(&none, "PATH"), get(&none, "USER")),
            (None, Some(DEFAULT_PATH), Some("li"))
        );
        let only =
            environment(&given, &Export::Only(vec![item("B", None), item("C", Some("3"))]), &[], &facts(&[]))
                .unwrap();
        assert_eq!((get(&only, "A"), get(&only, "B"), get(&only, "C")), (None, Some("2"), Some("3")));
        let and = environment(&given, &Export::AllAnd(vec![item("A", Some("0"))]), &[], &facts(&[])).unwrap();
        assert_eq!((get(&and, "A"), get(&and, "B")), (Some("0"), Some("2")));
    }

    #[test]
    fn no_card_means_an_empty_mask_and_cannot_be_widened_by_the_submitter() {
        let all =
            environment(&pairs(&[("CUDA_VISIBLE_DEVICES", "0,1")]), &Export::All, &[], &facts(&[])).unwrap();
        assert_eq!((get(&all, "CUDA_VISIBLE_DEVICES"), get(&all, "AX_GPUS")), (Some(""), Some("0")));
        let card = CardShare { index: 3, uuid: "GPU-x".into(), slice: Some(Megabytes(20_000)) };
        let all = environment(&[], &Export::All, &[], &facts(std::slice::from_ref(&card))).unwrap();
        assert_eq!(
            (get(&all, "CUDA_VISIBLE_DEVICES"), get(&all, "AX_GPU_UUIDS")),
            (Some("3"), Some("GPU-x"))
        );
        assert_eq!(
            (get(&all, "AX_GPU_MEM_MB"), get(&all, "AX_GPU_MEM_FRACTION")),
            (Some("20000"), Some("0.2500"))
        );
    }

    #[test]
    fn env_values_expand_the_job_s_variables_and_nothing_else() {
        let extra = pairs(&[("OUT", "/data/$JOB_ID/${AX_ATTEMPT}x"), ("X", "$$5 $ $NOPE. `id` $(id)")]);
        let all = environment(&[], &Export::All, &extra, &facts(&[])).unwrap();
        assert_eq!(get(&all, "OUT"), Some("/data/ax-2026-0007/2x"));
        assert_eq!(get(&all, "X"), Some("$5 $ . `id` $(id)"));
    }

    #[test]
    fn values_that_feed_on_each_other_stay_within_bounds() {
        let thousand = |name: &str| name.repeat(1000);
        let extra = pairs(&[("A", &thousand("x")), ("B", &thousand("$A")), ("C", &thousand("$B"))]);
        let error = environment(&[], &Export::All, &extra, &facts(&[])).unwrap_err();
        assert_eq!(error, TooLarge { name: "C".into() });
        assert!(environment(&[], &Export::All, &extra[..2], &facts(&[])).is_ok());
        let many: Vec<_> = (0..10).map(|n| (format!("V{n}"), "x".repeat(MAX_ENVIRONMENT / 8))).collect();
        assert_eq!(environment(&[], &Export::All, &many, &facts(&[])).unwrap_err().name, "V7");
    }
}

//! Finds contradictions between options that are each valid.

use super::Dialect;
use super::diagnostic::{Diagnostic, Fault};
use super::interpret::Draft;
use super::read::resources::GPU_MEM_OPTIONS;
use crate::job::division::{Division, divide};
use crate::job::spec::{GpuCount, ResourceSpec};

/// Checks the options of all sources against each other.
pub(super) fn together(draft: &mut Draft) -> Result<(), Diagnostic> {
    gpu_memory_without_cards(draft)?;
    cards_per_task_without_tasks(draft)?;
    tasks_beyond_the_nodes(draft);
    let division = divided(draft)?;
    cards_in_total_and_per_node(draft, division)?;
    host_named_and_excluded(draft)
}

fn asks_for_cards(resources: &ResourceSpec) -> bool {
    let counts = [&resources.gpus, &resources.gpus_per_node, &resources.gpus_per_task];
    counts.into_iter().flatten().any(|gpus| gpus.count > 0)
}

/// `--mem` in ax's dialect is GPU memory: whoever gives it without a card most likely meant `--ram`.
fn gpu_memory_without_cards(draft: &Draft) -> Result<(), Diagnostic> {
    let Some(seen) = GPU_MEM_OPTIONS.into_iter().find_map(|name| draft.seen(name)) else { return Ok(()) };
    if asks_for_cards(&draft.out.spec.resources) {
        return Ok(());
    }
    let fault = Fault::new(format!("'{}' is memory of a GPU, and no GPU is asked for", seen.written));
    Err(seen.error(fault.hint("write '--ram' for host memory, or add '--gpus=N'")))
}

/// Slurm refuses `--gpus-per-task` where the number of tasks cannot be known.
fn cards_per_task_without_tasks(draft: &Draft) -> Result<(), Diagnostic> {
    let resources = &draft.out.spec.resources;
    match draft.seen("gpus-per-task") {
        Some(seen)
            if seen.dialect == Dialect::Slurm
                && resources.ntasks.is_none()
                && resources.ntasks_per_node.is_none()
                && resources.gpus.is_none() =>
        {
            let fault = Fault::new(format!("'{}' needs a number of tasks", seen.written));
            Err(seen.error(fault.hint("add '--ntasks=N'")))
        }
        _ => Ok(()),
    }
}

/// What is asked for in all divides among the nodes.
fn divided(draft: &mut Draft) -> Result<Division, Diagnostic> {
    let resources = &draft.out.spec.resources;
    let (asked, tasks) = (resources.nodes, resources.ntasks);
    let division = divide(resources).map_err(|uneven| {
        let fault = Fault::new(uneven.text).hint(uneven.hint);
        let seen = draft.seen(uneven.option).or_else(|| draft.seen("nodes"));
        match seen {
            Some(seen) => seen.error(fault),
            None => Diagnostic::new(None, None, fault),
        }
    })?;
    let (Some(asked), Some(tasks)) = (asked.filter(|asked| asked.min > division.nodes.max), tasks) else {
        return Ok(division);
    };
    if let Some(seen) = draft.seen("nodes") {
        let tasks = crate::text::count(tasks, "task");
        let text =
            format!("'{}' asks for {asked} nodes, and {tasks} run on {}", seen.written, division.nodes);
        let note = seen.error(Fault::new(text));
        draft.out.notes.push(note);
    }
    Ok(division)
}

/// Each node has the same cards, whichever way they are asked for.
fn cards_in_total_and_per_node(draft: &Draft, division: Division) -> Result<(), Diagnostic> {
    let ResourceSpec { gpus, gpus_per_node, gpus_per_task, ntasks, .. } = &draft.out.spec.resources;
    let per_task = gpus_per_task
        .as_ref()
        .filter(|_| ntasks.is_some())
        .map(|gpus| (gpus, gpus.count.saturating_mul(division.tasks)));
    let totals = [
        ("gpus-per-task", per_task),
        ("gpus-per-node", gpus_per_node.as_ref().map(|gpus| (gpus, gpus.count))),
        ("gpus", gpus.as_ref().map(|gpus| (gpus, gpus.count / division.nodes.min))),
    ];
    let mut known: Option<(&str, &GpuCount, u32)> = None;
    for (name, total) in totals {
        let Some((gpus, count)) = total else { continue };
        let types_differ = |a: &GpuCount| a.kind.is_some() && gpus.kind.is_some() && a.kind != gpus.kind;
        match known {
            Some((other, before, total)) if total != count || types_differ(before) => {
                return Err(contradiction(draft, name, other));
            }
            _ => known = Some((name, gpus, count)),
        }
    }
    Ok(())
}

/// Reported where the one of higher precedence stands.
fn contradiction(draft: &Draft, one: &str, other: &str) -> Diagnostic {
    let seen =
        |name: &str| draft.seen(name).or_else(|| draft.seen("gres").filter(|_| name == "gpus-per-node"));
    let (Some(one), Some(other)) = (seen(one), seen(other)) else {
        return Diagnostic::new(
            None,
            None,
            Fault::new(format!("'--{one}' and '--{other}' contradict each other")),
        );
    };
    let (one, other) = if one.rank < other.rank { (other, one) } else { (one, other) };
    let text = format!("'{}' and '{}' ask for different cards on one node", one.written, other.written);
    one.error(Fault::new(text).hint("give one of them"))
}

/// `-N 1 -n 8 --ntasks-per-node=4` asks for more tasks than the nodes may run: Slurm goes by the number of tasks.
fn tasks_beyond_the_nodes(draft: &mut Draft) {
    let resources = &draft.out.spec.resources;
    let (Some(tasks), Some(most), Some(nodes)) =
        (resources.ntasks, resources.ntasks_per_node, resources.nodes)
    else {
        return;
    };
    let too_many = tasks > nodes.max.saturating_mul(most);
    let seen = draft.seen("ntasks-per-node").filter(|seen| too_many && seen.dialect == Dialect::Slurm);
    let Some(seen) = seen else { return };
    let on = if nodes.max == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
    let text = format!("'{}' is ignored: {tasks} tasks are asked for on {on}", seen.written);
    let note = seen.error(Fault::new(text));
    draft.out.notes.push(note);
    draft.out.spec.resources.ntasks_per_node = None;
}

/// `--nodelist=a --exclude=a` can never start.
fn host_named_and_excluded(draft: &Draft) -> Result<(), Diagnostic> {
    let resources = &draft.out.spec.resources;
    let both = resources.nodelist.iter().find(|host| resources.exclude.contains(host));
    match (both, draft.seen("exclude")) {
        (Some(host), Some(seen)) => {
            let text = format!("'{}' excludes {host}, which '--nodelist' names", seen.written);
            Err(seen.error(Fault::new(text)))
        }
        _ => Ok(()),
    }
}

//! Alibaba's GPU cluster of 2023: a list of pods and a list of nodes. A card is 1,000 milli, which play the part of
//! its memory; nobody estimated lengths, so the real ones stand for them. Where both lists have CPUs and memory, these
//! count too, and pods without cards are jobs like others.

use super::sheet::{Row, Sheet};
use super::{BadWorkload, Format, Hours, NO_NAME, NodeShape, Origin, Task, Texts, Workload};
use crate::job::request::{CardRequest, Request};
use crate::job::spec::PreemptMode;
use crate::node::{Card, Inventory};
use crate::size::Megabytes;
use crate::time::Span;

const CARD: Megabytes = Megabytes(1000);
/// Pods ask for parts of CPUs: of so many milli, rounded up.
const CPU_PART: i64 = 100;
/// The columns of what is no card.
const HOST: [&str; 2] = ["cpu_milli", "memory_mib"];
/// Where only arrivals are listed, nothing ends: a pod runs longer than anybody looks.
const FOR_EVER: Span = Span::seconds(1_000_000_000);

pub(super) fn read(pods: &str, nodes: Option<&str>) -> Result<Workload, BadWorkload> {
    let Some(nodes) = nodes else {
        let name = Format::Openb.companion().unwrap_or_default();
        return Err(BadWorkload::whole(format!("the list of nodes, {name}, does not lie beside it")));
    };
    let sheet = Sheet::new(pods)?;
    sheet.expect(&["num_gpu", "gpu_milli"])?;
    let has_host = |sheet: &Sheet<'_>| HOST.iter().all(|column| sheet.has(column));
    let node_sheet = Sheet::new(nodes)?;
    node_sheet.expect(&["gpu"])?;
    let columns =
        Columns { ends: sheet.has("deletion_time"), host: has_host(&sheet) && has_host(&node_sheet) };
    let (mut tasks, mut texts) = (Vec::new(), Texts::default());
    for (at, row) in sheet.rows().enumerate() {
        tasks.extend(task(at, &row?, columns, &mut texts)?);
    }
    let (nodes, machines) = machines(&node_sheet, columns)?;
    let origin = columns.host.then(|| Box::new(Origin { machines, ..Origin::default() }));
    Ok(Workload { tasks, nodes, origin })
}

/// What the lists say.
#[derive(Debug, Clone, Copy)]
struct Columns {
    ends: bool,
    /// CPUs and memory, of pods and of nodes.
    host: bool,
}

fn machines(sheet: &Sheet<'_>, columns: Columns) -> Result<(Vec<NodeShape>, Vec<Inventory>), BadWorkload> {
    let (mut shapes, mut machines) = (Vec::new(), Vec::new());
    for (at, row) in sheet.rows().enumerate() {
        let row = row?;
        let cards = row.need("gpu")?.whole(0..=1024)? as u32;
        if cards == 0 {
            continue;
        }
        shapes.push(NodeShape { cards, mem: CARD });
        if columns.host {
            machines.push(machine(at, &row, cards)?);
        }
    }
    Ok((shapes, machines))
}

fn machine(at: usize, row: &Row<'_>, cards: u32) -> Result<Inventory, BadWorkload> {
    let (cpus, ram) = host(row)?;
    let name = format!("node-{at:04}");
    let card = |index| Card::new(index, format!("{name}-card-{index}"), None, CARD);
    Ok(Inventory {
        epoch: 1,
        cpus,
        ram,
        cards: (0..cards).map(card).collect(),
        features: Vec::new(),
        numa_cpus: Vec::new(),
        name: name.parse().map_err(|_| BadWorkload::at(row.line(), 1, "its number is no name of a node"))?,
    })
}

/// Parts of CPUs, and memory.
fn host(row: &Row<'_>) -> Result<(u32, Megabytes), BadWorkload> {
    let cpus = row.need("cpu_milli")?.whole(0..=10_000_000)?;
    let ram = row.need("memory_mib")?.whole(0..=1 << 40)?;
    Ok(((cpus + CPU_PART - 1).div_euclid(CPU_PART) as u32, Megabytes(ram as u64)))
}

/// All that a pod asks for.
fn asked(row: &Row<'_>, task: &Task) -> Result<Request, BadWorkload> {
    let (cpus, ram) = host(row)?;
    let cards = CardRequest { count: task.cards, kind: None, slice: task.mem };
    Ok(Request {
        cpus: cpus.max(1),
        ram,
        cards: (task.cards > 0).then_some(cards),
        exclusive: false,
        only_nodes: Vec::new(),
        not_nodes: Vec::new(),
        time_limit: None,
        estimate: Some(task.estimate),
        begin: None,
        priority: task.priority,
        idempotent: true,
        requeue: true,
        retries: 0,
        retry_delay: Span::ZERO,
        preempt: PreemptMode::Requeue,
        fit_memory: false,
        retry_on: Vec::new(),
        special: None,
    })
}

/// The pod of a line, if it asked for something that is counted and, where ends are listed, came to its own.
fn task(at: usize, row: &Row<'_>, columns: Columns, texts: &mut Texts) -> Result<Option<Task>, BadWorkload> {
    let has_ends = columns.ends;
    let count = |column, most| row.get(column).map_or(Ok(0), |field| field.whole(0..=most));
    let (cards, milli) = (count("num_gpu", 1024)?, count("gpu_milli", 1000)? as u64);
    if cards == 0 && !columns.host {
        return Ok(None);
    }
    let mem = (cards == 1 && 0 < milli && milli < CARD.0).then_some(Megabytes(milli));
    let qos = row.get("qos").map_or("none".into(), |field| field.text.to_lowercase());
    let (arrive, runtime) = if has_ends {
        let (Some(start), Some(end)) = (row.get("scheduled_time"), row.get("deletion_time")) else {
            return Ok(None);
        };
        let ran = end.seconds()?.0.saturating_sub(start.seconds()?.0).max(1000);
        (row.need("creation_time")?.seconds()?, Span(ran))
    } else {
        (Span::seconds(at as u64), FOR_EVER)
    };
    let priority = match qos.as_str() {
        _ if !has_ends => crate::job::request::DEFAULT_PRIORITY,
        "ls" => 80,
        "burstable" | "guaranteed" => 50,
        _ => 10,
    };
    let queue = if has_ends { qos.as_str() } else { "default" };
    let task = Task {
        id: at.to_string().into(),
        arrive,
        runtime,
        estimate: runtime,
        cards: cards as u32,
        nodes: 1,
        mem,
        mem_true: mem.unwrap_or_default(),
        priority,
        queue: queue.parse().map_err(|_| BadWorkload::at(row.line(), 1, "qos is no name of a queue"))?,
        user: texts.get("u"),
        name: texts.get(NO_NAME),
        checkpoint: None,
        hours: Hours::default(),
        asked: None,
    };
    let asked = if columns.host { Some(Box::new(asked(row, &task)?)) } else { None };
    Ok(Some(Task { asked, ..task }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "sn,gpu\na,2\nb,0\nc,8\n";

    #[test]
    fn slices_are_of_one_card_and_pods_without_cards_or_ends_are_left_out() {
        let pods = "name,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\n\
                    a,1,460,LS,5,105,7\nb,1,1000,BE,6,8,7.5\nc,0,,LS,6,9,7\nd,4,1000,Burstable,8,,\n";
        let workload = read(pods, Some(NODES)).unwrap();
        assert_eq!(workload.nodes.iter().map(|n| n.cards).collect::<Vec<_>>(), [2, 8]);
        let [slice, whole] = &workload.tasks[..] else { panic!("{:?}", workload.tasks) };
        assert_eq!((slice.mem, slice.runtime, slice.priority), (Some(Megabytes(460)), Span(98_000), 80));
        assert_eq!((whole.mem, whole.runtime, whole.priority), (None, Span(1000), 10));
        assert_eq!((slice.queue.as_str(), whole.queue.as_str()), ("ls", "be"));
        assert!(read(pods, None).unwrap_err().to_string().contains("openb_node_list_gpu_node.csv"));
    }

    #[test]
    fn with_cpus_and_memory_all_pods_count_and_the_machines_have_them() {
        let nodes = "sn,cpu_milli,memory_mib,gpu\na,64000,262144,2\nb,1000,1,0\n";
        let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,3152,512,1,460\nb,6000,1024,0,0\n";
        let workload = read(pods, Some(nodes)).unwrap();
        let [machine] = &workload.origin.as_ref().unwrap().machines[..] else { panic!("one has cards") };
        assert_eq!((machine.cpus, machine.ram, machine.cards.len()), (640, Megabytes(262_144), 2));
        let asked = |at: usize| workload.tasks[at].asked.as_ref().unwrap();
        assert_eq!((asked(0).cpus, asked(0).ram), (32, Megabytes(512)));
        assert_eq!(asked(0).cards.as_ref().unwrap().slice, Some(Megabytes(460)));
        assert_eq!((asked(1).cpus, asked(1).cards.as_ref()), (60, None));
    }

    #[test]
    fn lists_of_arrivals_come_one_a_second_and_stay() {
        let workload = read("name,num_gpu,gpu_milli\na,2,1000\nb,1,200\n", Some(NODES)).unwrap();
        let arrivals: Vec<Span> = workload.tasks.iter().map(|t| t.arrive).collect();
        assert_eq!(arrivals, [Span(0), Span(1000)]);
        assert_eq!((workload.tasks[1].runtime, workload.tasks[1].mem), (FOR_EVER, Some(Megabytes(200))));
    }
}

//! Alibaba's GPU cluster of 2023: a list of pods and a list of nodes. A card is 1,000 milli, which play the part of
//! its memory; nobody estimated lengths, so the real ones stand for them.

use super::sheet::{Row, Sheet};
use super::{BadWorkload, Format, NO_NAME, NodeShape, Task, Texts, Workload};
use crate::size::Megabytes;
use crate::time::Span;

const CARD: Megabytes = Megabytes(1000);
/// Where only arrivals are listed, nothing ends: a pod runs longer than anybody looks.
const FOR_EVER: Span = Span::seconds(1_000_000_000);

pub(super) fn read(pods: &str, nodes: Option<&str>) -> Result<Workload, BadWorkload> {
    let Some(nodes) = nodes else {
        let name = Format::Openb.companion().unwrap_or_default();
        return Err(BadWorkload::whole(format!("the list of nodes, {name}, does not lie beside it")));
    };
    let sheet = Sheet::new(pods)?;
    sheet.expect(&["num_gpu", "gpu_milli"], &[], false)?;
    let (mut tasks, mut texts) = (Vec::new(), Texts::default());
    for (at, row) in sheet.rows().enumerate() {
        tasks.extend(task(at, &row?, sheet.has("deletion_time"), &mut texts)?);
    }
    Ok(Workload { tasks, nodes: shapes(nodes)?, origin: None })
}

fn shapes(text: &str) -> Result<Vec<NodeShape>, BadWorkload> {
    let sheet = Sheet::new(text)?;
    sheet.expect(&["gpu"], &[], false)?;
    let mut shapes = Vec::new();
    for row in sheet.rows() {
        let cards = row?.need("gpu")?.whole(0..=1024)? as u32;
        shapes.extend((cards > 0).then_some(NodeShape { cards, mem: CARD }));
    }
    Ok(shapes)
}

/// The pod of a line, if it asked for cards and, where ends are listed, came to its own.
fn task(at: usize, row: &Row<'_>, has_ends: bool, texts: &mut Texts) -> Result<Option<Task>, BadWorkload> {
    let count = |column, most| row.get(column).map_or(Ok(0), |field| field.whole(0..=most));
    let (cards, milli) = (count("num_gpu", 1024)?, count("gpu_milli", 1000)? as u64);
    if cards == 0 {
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
    Ok(Some(Task {
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
        asked: None,
    }))
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
    fn lists_of_arrivals_come_one_a_second_and_stay() {
        let workload = read("name,num_gpu,gpu_milli\na,2,1000\nb,1,200\n", Some(NODES)).unwrap();
        let arrivals: Vec<Span> = workload.tasks.iter().map(|t| t.arrive).collect();
        assert_eq!(arrivals, [Span(0), Span(1000)]);
        assert_eq!((workload.tasks[1].runtime, workload.tasks[1].mem), (FOR_EVER, Some(Megabytes(200))));
    }
}

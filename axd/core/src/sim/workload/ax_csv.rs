//! ax's own format of workloads: a head, and a line for each task, in seconds and megabytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::sheet::{Row, Sheet};
use super::{BadWorkload, Hours, NO_NAME, Task, Texts, Workload};
use crate::id::QueueName;
use crate::job::request::DEFAULT_PRIORITY;
use crate::size::Megabytes;
use crate::text::quoted;
use crate::time::Span;

const NEEDED: [&str; 3] = ["id", "arrive", "runtime"];
const KNOWN: [&str; 15] = [
    "id", "arrive", "runtime", "estimate", "gpus", "nodes", "mem", "mem_true", "priority", "queue", "user",
    "ckpt", "name", "window", "deadline",
];

/// More cards than this has no node.
const MOST_CARDS: i64 = 1024;
/// More nodes than this has no cluster that is simulated.
const MOST_NODES: i64 = 100_000;

pub(super) fn read(text: &str) -> Result<Workload, BadWorkload> {
    let sheet = Sheet::new(text)?;
    sheet.expect_only(&NEEDED, &KNOWN)?;
    let mut texts = Texts::default();
    let mut ids = BTreeSet::new();
    let mut tasks = Vec::new();
    for row in sheet.rows() {
        let row = row?;
        let task = task(&row, &mut texts)?;
        if !ids.insert(Arc::clone(&task.id)) {
            let message = format!("id {} stands twice", quoted(&task.id));
            return Err(BadWorkload::at(row.line(), 1, message));
        }
        tasks.push(task);
    }
    Ok(Workload { tasks, nodes: Vec::new(), origin: None })
}

fn task(row: &Row<'_>, texts: &mut Texts) -> Result<Task, BadWorkload> {
    let runtime = row.need("runtime")?.seconds()?;
    let megabytes = |column| row.get(column).map(|field| field.megabytes()).transpose();
    let mem = megabytes("mem")?.unwrap_or_default();
    Ok(Task {
        id: row.need("id")?.text.trim().into(),
        arrive: row.need("arrive")?.seconds()?,
        runtime,
        estimate: row.get("estimate").map_or(Ok(runtime), |field| field.seconds())?,
        cards: row.get("gpus").map_or(Ok(1), |field| field.whole(0..=MOST_CARDS))? as u32,
        nodes: row.get("nodes").map_or(Ok(1), |field| field.whole(1..=MOST_NODES))? as u32,
        mem: (mem > Megabytes::ZERO).then_some(mem),
        mem_true: megabytes("mem_true")?.unwrap_or(mem),
        priority: row.get("priority").map_or(Ok(i64::from(DEFAULT_PRIORITY)), |field| field.whole(0..=100))?
            as u8,
        queue: row.get("queue").map_or(Ok(QueueName::default_queue()), |field| field.name())?,
        user: texts.get(row.get("user").map_or("u".into(), |field| field.text).trim()),
        name: texts.get(row.get("name").map_or(NO_NAME.into(), |field| field.text).trim()),
        checkpoint: row
            .get("ckpt")
            .map(|field| field.seconds())
            .transpose()?
            .filter(|every| *every > Span::ZERO),
        hours: Hours {
            window: row.get("window").map(|field| field.hours()).transpose()?,
            deadline: row.get("deadline").map(|field| field.seconds()).transpose()?,
        },
        asked: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::spec::Window;

    #[test]
    fn every_column_is_read() {
        let text = "# a remark\nid,arrive,runtime,estimate,gpus,nodes,mem,mem_true,priority,queue,user,ckpt,name,\
                    window,deadline\n\
                    7,0.1,226.9,253.1,2,3,16000,12640,16,dev,d2,30,train,22:00-08:30,86400\n";
        let workload = read(text).unwrap();
        assert_eq!(
            workload.tasks,
            [Task {
                id: "7".into(),
                arrive: Span(100),
                runtime: Span(226_900),
                estimate: Span(253_100),
                cards: 2,
                nodes: 3,
                mem: Some(Megabytes(16_000)),
                mem_true: Megabytes(12_640),
                priority: 16,
                queue: "dev".parse().unwrap(),
                user: "d2".into(),
                name: "train".into(),
                checkpoint: Some(Span(30_000)),
                hours: Hours {
                    window: Some(Window { from: 22 * 60, to: 8 * 60 + 30 }),
                    deadline: Some(Span::seconds(86_400)),
                },
                asked: None,
            }]
        );
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let workload = read("runtime,id,arrive,estimate,mem\n4,a,0,,0\n").unwrap();
        let task = &workload.tasks[0];
        assert_eq!((task.estimate, task.cards, task.nodes, task.mem), (Span(4000), 1, 1, None));
        assert_eq!((task.mem_true, task.priority, task.checkpoint), (Megabytes::ZERO, 50, None));
        assert_eq!(task.hours, Hours::default());
        assert_eq!((task.queue.as_str(), &*task.user, &*task.name), ("default", "u", ""));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let head = "id,arrive,runtime,priority,queue";
        for (text, told) in [
            (String::new(), "there is nothing in it"),
            ("id,arrive\n".into(), "1:1: the head has no column 'runtime'; it needs id, arrive, runtime"),
            (
                "id,arrive,runtime,prioritty\n".into(),
                "1:1: unknown column 'prioritty'; did you mean 'priority'?",
            ),
            ("id,id,arrive,runtime\n".into(), "1:1: column 'id' stands twice in the head"),
            (format!("{head}\n1,0,5,50\n"), "2:1: the line has 4 fields, and the head 5"),
            (format!("#\n{head}\n1,0,-5,50,q\n"), "3:5: runtime: '-5' is not a number of seconds"),
            (format!("{head}\n1,0,nan,50,q\n"), "2:5: runtime: 'nan' is not a number of seconds"),
            (format!("{head}\n1,0,5,101,q\n"), "2:7: priority: '101' is not a whole number from 0 to 100"),
            (
                "id,arrive,runtime,nodes\n1,0,5,0\n".into(),
                "2:7: nodes: '0' is not a whole number from 1 to 100000",
            ),
            (
                "id,arrive,runtime,window\n1,0,5,22-8\n".into(),
                "2:7: window: '22-8' is not daily hours such as 22:00-08:00",
            ),
            (format!("{head}\n1,,5,50,q\n"), "2:1: the line has no 'arrive'"),
            (format!("{head}\n1,0,5,5,q\n1,0,5,5,q\n"), "3:1: id '1' stands twice"),
            (
                format!("{head}\n1,0,5,50,a b\n"),
                "2:10: queue: 'a b' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
            ),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), told, "{text:?}");
        }
    }
}

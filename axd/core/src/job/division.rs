//! Divides what a job asks for in all evenly among its nodes, or says why that is impossible.

use thiserror::Error;

use super::spec::{NodeCount, ResourceSpec};

/// What each node has to provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// The number of nodes; a range only if there is no total to divide.
    pub nodes: NodeCount,
    /// Tasks on each node.
    pub tasks: u32,
}

/// Why something does not divide.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}; {hint}")]
pub struct Uneven {
    /// What is wrong, with numbers.
    pub text: String,
    /// What to write instead.
    pub hint: String,
    /// The option that can't be met.
    pub option: &'static str,
}

/// Divides what is asked for. A total settles the number of nodes: the least in the range among which all totals
/// divide. Fewer tasks than nodes are one task on as many nodes as there are tasks, as in Slurm.
///
/// # Errors
/// If a total divides among none of the numbers of nodes.
pub fn divide(asked: &ResourceSpec) -> Result<Division, Uneven> {
    let total = |gpus: &Option<super::spec::GpuCount>| gpus.as_ref().map(|gpus| gpus.count);
    let (tasks, per_node) = (asked.ntasks.map(|tasks| tasks.max(1)), asked.ntasks_per_node.map(|n| n.max(1)));
    let (cards, of_each) = (total(&asked.gpus).filter(|count| *count > 0), total(&asked.gpus_per_node));
    let mut nodes = match asked.nodes {
        Some(nodes) => nodes,
        None => implied(tasks.zip(per_node), cards.zip(of_each))?,
    };
    if let Some(tasks) = tasks {
        nodes = NodeCount { min: nodes.min.min(tasks), max: nodes.max.min(tasks) };
    }
    if tasks.is_none() && cards.is_none() {
        return Ok(Division { nodes, tasks: per_node.unwrap_or(1) });
    }
    let divides = |count: &u32| {
        let tasks_do = tasks
            .is_none_or(|all| all.is_multiple_of(*count) && per_node.is_none_or(|most| all / count <= most));
        tasks_do && cards.is_none_or(|all| all.is_multiple_of(*count))
    };
    let Some(count) = (nodes.min..=nodes.max).find(divides) else {
        return Err(uneven(nodes, tasks, per_node, cards));
    };
    let tasks = tasks.map_or(per_node.unwrap_or(1), |all| all / count);
    Ok(Division { nodes: NodeCount { min: count, max: count }, tasks })
}

/// The number of nodes that follows from a total and the amount on each node.
fn implied(tasks: Option<(u32, u32)>, cards: Option<(u32, u32)>) -> Result<NodeCount, Uneven> {
    let mut count = 1;
    let pairs = [("ntasks-per-node", "task", tasks), ("gpus-per-node", "GPU", cards)];
    for (option, what, pair) in pairs {
        let Some((all, each)) = pair.filter(|(all, each)| *each > 0 && all > each) else { continue };
        if !all.is_multiple_of(each) {
            let text = format!("{} by {each} on a node", do_not_divide(all, what));
            return Err(Uneven { text, hint: "give a multiple, or the number of nodes".to_owned(), option });
        }
        count = count.max(all / each);
    }
    Ok(NodeCount { min: count, max: count })
}

fn uneven(nodes: NodeCount, tasks: Option<u32>, per_node: Option<u32>, cards: Option<u32>) -> Uneven {
    let among = match nodes.max {
        1 => "1 node".to_owned(),
        _ => format!("{nodes} nodes"),
    };
    let divides = |all: u32| (nodes.min..=nodes.max).any(|count| all.is_multiple_of(count));
    if let (Some(all), Some(most)) = (tasks, per_node)
        && nodes.max.saturating_mul(most) < all
    {
        let text = format!("{} need more than {among} with {most} on each", crate::text::count(all, "task"));
        return Uneven { text, hint: "ask for more nodes".to_owned(), option: "ntasks-per-node" };
    }
    match (cards, tasks) {
        (Some(all), _) if tasks.is_none_or(divides) => Uneven {
            text: format!("{} among {among}", do_not_divide(all, "GPU")),
            hint: "say how many each node gives: '--gpus-per-node=N'".to_owned(),
            option: "gpus",
        },
        (_, all) => Uneven {
            text: format!("{} among {among}", do_not_divide(all.unwrap_or(1), "task")),
            hint: "say how many each node runs: '--ntasks-per-node=N'".to_owned(),
            option: "ntasks",
        },
    }
}

fn do_not_divide(all: u32, what: &str) -> String {
    let negated = if all == 1 { "does not" } else { "do not" };
    format!("{} {negated} divide", crate::text::count(all, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::spec::GpuCount;

    fn asked(nodes: Option<(u32, u32)>, tasks: [Option<u32>; 2], cards: [Option<u32>; 2]) -> ResourceSpec {
        let gpus = |count: Option<u32>| count.map(|count| GpuCount { kind: None, count });
        ResourceSpec {
            nodes: nodes.map(|(min, max)| NodeCount { min, max }),
            ntasks: tasks[0],
            ntasks_per_node: tasks[1],
            gpus: gpus(cards[0]),
            gpus_per_node: gpus(cards[1]),
            ..ResourceSpec::default()
        }
    }

    #[test]
    fn totals_divide_evenly_or_not_at_all() {
        let none = [None; 2];
        let cases = [
            (asked(None, none, none), (1, 1, 1)),
            (asked(None, [Some(6), None], none), (1, 1, 6)),
            (asked(None, [Some(8), Some(4)], none), (2, 2, 4)),
            (asked(None, [Some(3), Some(4)], none), (1, 1, 3)),
            (asked(None, none, [Some(8), Some(4)]), (2, 2, 1)),
            (asked(Some((2, 2)), [Some(8), None], [Some(4), None]), (2, 2, 4)),
            (asked(Some((2, 2)), [None, Some(3)], none), (2, 2, 3)),
            (asked(Some((4, 4)), [Some(2), None], none), (2, 2, 1)),
            (asked(Some((2, 4)), none, [None, Some(8)]), (2, 4, 1)),
            (asked(Some((2, 4)), [Some(9), None], none), (3, 3, 3)),
            (asked(Some((1, 4)), [Some(4), None], none), (1, 1, 4)),
            (asked(Some((1, 4)), [Some(4), Some(2)], none), (2, 2, 2)),
            (asked(Some((2, 4)), none, [Some(0), None]), (2, 4, 1)),
        ];
        for (asked, (min, max, tasks)) in cases {
            assert_eq!(divide(&asked), Ok(Division { nodes: NodeCount { min, max }, tasks }), "{asked:?}");
        }
    }

    #[test]
    fn what_does_not_divide_is_said_with_numbers() {
        let none = [None; 2];
        let cases = [
            (asked(Some((2, 2)), none, [Some(7), None]), "7 GPUs do not divide among 2 nodes"),
            (asked(Some((2, 2)), [Some(5), None], none), "5 tasks do not divide among 2 nodes"),
            (asked(Some((2, 3)), [Some(7), None], [Some(6), None]), "7 tasks do not divide among 2-3 nodes"),
            (asked(None, [Some(5), Some(2)], none), "5 tasks do not divide by 2 on a node"),
            (asked(Some((2, 2)), [Some(8), Some(3)], none), "8 tasks need more than 2 nodes with 3 on each"),
        ];
        for (asked, text) in cases {
            assert_eq!(divide(&asked).map_err(|uneven| uneven.text), Err(text.to_owned()), "{asked:?}");
        }
    }
}

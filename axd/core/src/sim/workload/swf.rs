//! The Standard Workload Format: 18 numbers in a line. Processors play the part of a card's memory, so that known
//! results about back-filling on such traces hold exactly.

use super::sheet::Field;
use super::{BadWorkload, Hours, NodeShape, Task, Texts, Workload};
use crate::job::request::DEFAULT_PRIORITY;
use crate::size::Megabytes;

/// Number, submission, wait, run time, processors, CPU time, memory, processors asked for, time asked for, memory
/// asked for, status, user, group, executable; then queue.
pub(super) const LEAST_FIELDS: usize = 14;

pub(super) fn read(text: &str) -> Result<Workload, BadWorkload> {
    let (mut processors, mut tasks, mut texts) = (0, Vec::new(), Texts::default());
    for (at, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with(';') {
            processors = declared(at, line)?.unwrap_or(processors);
        } else if !line.trim().is_empty() {
            tasks.extend(task(&Line::new(at, line)?, &mut texts)?);
        }
    }
    let most = tasks.iter().filter_map(|t| t.mem).map(|m| m.0).max().unwrap_or(1);
    let mem = Megabytes(if processors > 0 { processors } else { most });
    Ok(Workload { tasks, nodes: vec![NodeShape { cards: 1, mem }], origin: None })
}

/// `; MaxProcs: 2004`.
fn declared(line: usize, text: &str) -> Result<Option<u64>, BadWorkload> {
    let Some((_, number)) = text.split_once("MaxProcs:") else { return Ok(None) };
    let field =
        Field { text: number.trim().into(), what: "MaxProcs", line, column: text.len() - number.len() + 1 };
    field.whole(1..=i64::from(u32::MAX)).map(|n| Some(n as u64))
}

struct Line<'a> {
    at: usize,
    words: Vec<(usize, &'a str)>,
}

impl<'a> Line<'a> {
    fn new(at: usize, text: &'a str) -> Result<Line<'a>, BadWorkload> {
        let offset = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        let words: Vec<_> = text.split_whitespace().map(|word| (offset(word) + 1, word)).collect();
        if words.len() < LEAST_FIELDS {
            let message =
                format!("the line has {} fields, and 18 are usual, at least 14 needed", words.len());
            return Err(BadWorkload::at(at, 1, message));
        }
        Ok(Line { at, words })
    }

    fn field(&self, number: usize, what: &'a str) -> Field<'a> {
        let (column, text) = self.words[number];
        Field { text: text.into(), what, line: self.at, column }
    }

    /// A number that is -1 where nobody knows it.
    fn known(&self, number: usize, what: &'a str) -> Result<Option<f64>, BadWorkload> {
        let field = self.field(number, what);
        let value: f64 = field.text.parse().map_err(|_| field.wrong("a number"))?;
        if value < 0.0 {
            return Ok(None);
        }
        field.seconds().map(|_| Some(value))
    }
}

/// The job of a line, if it ever ran on anything.
fn task(line: &Line<'_>, texts: &mut Texts) -> Result<Option<Task>, BadWorkload> {
    let run = line.known(3, "run time")?;
    let asked = line.known(7, "processors asked for")?.filter(|n| *n > 0.0);
    let processors = asked.or(line.known(4, "processors")?.filter(|n| *n > 0.0));
    let estimate = line.known(8, "time asked for")?.filter(|n| *n > 0.0);
    let (Some(run), Some(processors)) = (run, processors) else { return Ok(None) };
    let mem = Megabytes(processors as u64);
    let (_, executable) = line.words[13];
    let queue = line.words.get(14).map_or("default".to_owned(), |(_, q)| format!("q{q}"));
    let queue =
        queue.parse().map_err(|_| line.field(14.min(line.words.len() - 1), "queue").wrong("a queue"))?;
    Ok(Some(Task {
        id: line.words[0].1.into(),
        arrive: line.field(1, "submission").seconds()?,
        runtime: super::sheet::span_of(run),
        estimate: super::sheet::span_of(estimate.unwrap_or(run)),
        cards: 1,
        nodes: 1,
        mem: Some(mem),
        mem_true: mem,
        priority: DEFAULT_PRIORITY,
        queue,
        user: texts.get(line.words[11].1),
        name: texts.get(&format!("app{executable}")),
        checkpoint: None,
        hours: Hours::default(),
        asked: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn processors_are_memory_and_minus_one_is_unknown() {
        let text = "; Computer: x\n; MaxProcs: 64\n\
                    1 10 -1 100.5 8 -1 -1 -1 300 -1 1 3 1 7 2 1 -1 -1\n\
                    2 11 -1 60 4 -1 -1 16 -1 -1 1 3 1 7 2 1 -1 -1\n\
                    3 12 -1 -1 4 -1 -1 16 -1 -1 0 3 1 7 2 1 -1 -1\n\
                    4 13 -1 5 0 -1 -1 0 -1 -1 0 3 1 7 2 1 -1 -1\n";
        let workload = read(text).unwrap();
        assert_eq!(workload.nodes, [NodeShape { cards: 1, mem: Megabytes(64) }]);
        let [first, second] = &workload.tasks[..] else { panic!("{:?}", workload.tasks) };
        assert_eq!(
            (first.arrive, first.runtime, first.estimate),
            (Span(10_000), Span(100_500), Span(300_000))
        );
        assert_eq!((first.mem, second.mem), (Some(Megabytes(8)), Some(Megabytes(16))));
        assert_eq!(second.estimate, Span(60_000));
        assert_eq!((&*first.user, first.queue.as_str(), &*first.name), ("3", "q2", "app7"));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, told) in [
            ("; MaxProcs: many\n", "1:12: MaxProcs: 'many' is not a whole number from 1 to 4294967295"),
            ("1 2 3\n", "1:1: the line has 3 fields, and 18 are usual, at least 14 needed"),
            ("\n1  x 0 5 1 -1 -1 1 5 -1 1 1 1 1\n", "2:4: submission: 'x' is not a number of seconds"),
            ("1 0 0 five 1 -1 -1 1 5 -1 1 1 1 1\n", "1:7: run time: 'five' is not a number"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), told, "{text:?}");
        }
    }
}

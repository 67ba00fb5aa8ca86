//! Azure's requests to a language model: when each came, and how much it read and wrote. Their cost is not in the
//! list; it is modelled here, so that the arrivals can be used.

use super::sheet::{Field, Sheet};
use super::{BadWorkload, Hours, NO_NAME, Task, Texts, Workload};
use crate::id::QueueName;
use crate::job::request::DEFAULT_PRIORITY;
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

/// A request takes this and, for each token that it wrote, [`TOKEN`].
const START: Span = Span(200);
const TOKEN: Span = Span(30);
/// Its part of a card.
const SLICE: Megabytes = Megabytes(8000);
const MOST_TOKENS: i64 = 1_000_000;

pub(super) fn read(text: &str) -> Result<Workload, BadWorkload> {
    let sheet = Sheet::new(text)?;
    sheet.expect(&["TIMESTAMP", "GeneratedTokens"])?;
    let (mut tasks, mut texts, mut first) = (Vec::new(), Texts::default(), None);
    for (at, row) in sheet.rows().enumerate() {
        let row = row?;
        let when = time(&row.need("TIMESTAMP")?)?;
        let tokens = row.need("GeneratedTokens")?.whole(0..=MOST_TOKENS)?.unsigned_abs();
        let runtime = START + Span(TOKEN.0 * tokens);
        tasks.push(Task {
            id: at.to_string().into(),
            arrive: when - *first.get_or_insert(when),
            runtime,
            estimate: runtime,
            cards: 1,
            nodes: 1,
            mem: Some(SLICE),
            mem_true: SLICE,
            priority: DEFAULT_PRIORITY,
            queue: QueueName::default_queue(),
            user: texts.get("u"),
            name: texts.get(NO_NAME),
            checkpoint: None,
            hours: Hours::default(),
            asked: None,
        });
    }
    Ok(Workload { tasks, nodes: Vec::new(), origin: None })
}

/// `2023-11-16 18:17:03.9799600`, to the millisecond.
fn time(field: &Field<'_>) -> Result<WallTime, BadWorkload> {
    format!("{}Z", field.text.trim())
        .parse()
        .map_err(|_| field.wrong("a time such as 2023-11-16 18:17:03.979"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_as_listed_and_last_by_what_they_wrote() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n\
                    2023-11-16 18:17:04.0319600,3180,8\n";
        let workload = read(text).unwrap();
        let seen: Vec<_> = workload.tasks.iter().map(|t| (t.arrive, t.runtime)).collect();
        assert_eq!(seen, [(Span(0), Span(500)), (Span(52), Span(440))]);
        let told = read("TIMESTAMP,GeneratedTokens\nyesterday,1\n").unwrap_err().to_string();
        assert_eq!(told, "2:1: TIMESTAMP: 'yesterday' is not a time such as 2023-11-16 18:17:03.979");
    }
}

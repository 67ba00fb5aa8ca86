//! Batsim's JSON: jobs that refer to profiles. Profiles with a delay are read.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::sheet::Field;
use super::{BadWorkload, Hours, NodeShape, Task, Texts, Workload};
use crate::id::QueueName;
use crate::job::request::DEFAULT_PRIORITY;
use crate::size::Megabytes;
use crate::text::quoted;
use crate::time::Span;

#[derive(Deserialize)]
struct Document {
    nb_res: u32,
    jobs: Vec<BatsimJob>,
    profiles: BTreeMap<String, Profile>,
}

#[derive(Deserialize)]
struct BatsimJob {
    subtime: f64,
    walltime: Option<f64>,
    res: u32,
    profile: String,
}

#[derive(Deserialize)]
struct Profile {
    delay: Option<f64>,
}

pub(super) fn read(text: &str) -> Result<Workload, BadWorkload> {
    let document: Document = serde_json::from_str(text).map_err(|error| {
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or(&words).to_owned();
        BadWorkload::at(error.line(), error.column(), words)
    })?;
    let mut texts = Texts::default();
    let jobs = document.jobs.iter().enumerate();
    // A job's own id need not be unique; its place in the list is what its schedules go by.
    let tasks = jobs.map(|(at, job)| task(at, job, &document.profiles, &mut texts));
    let shape = NodeShape { cards: document.nb_res.max(1), mem: Megabytes(1) };
    Ok(Workload { tasks: tasks.collect::<Result<_, _>>()?, nodes: vec![shape], origin: None })
}

fn task(
    at: usize,
    job: &BatsimJob,
    profiles: &BTreeMap<String, Profile>,
    texts: &mut Texts,
) -> Result<Task, BadWorkload> {
    let wrong = |what: String| BadWorkload::whole(format!("job {at} of the list: {what}"));
    let Some(delay) = profiles.get(&job.profile).and_then(|profile| profile.delay) else {
        return Err(wrong(format!("there is no profile {} with a delay", quoted(&job.profile))));
    };
    let seconds = |value: f64, what| {
        let field = Field { text: value.to_string().into(), what, line: 0, column: 0 };
        field.seconds().map_err(|error| wrong(error.message))
    };
    let runtime: Span = seconds(delay, "delay")?;
    Ok(Task {
        id: at.to_string().into(),
        arrive: seconds(job.subtime, "subtime")?,
        runtime,
        estimate: job.walltime.map_or(Ok(runtime), |walltime| seconds(walltime, "walltime"))?,
        cards: job.res,
        nodes: 1,
        mem: None,
        mem_true: Megabytes::ZERO,
        priority: DEFAULT_PRIORITY,
        queue: QueueName::default_queue(),
        user: texts.get("u"),
        name: texts.get(&job.profile),
        checkpoint: None,
        hours: Hours::default(),
        asked: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        r#"{"nb_res": 4, "profiles": {"p": {"type": "delay", "delay": 1.5}, "q": {}}, "jobs": "#;

    #[test]
    fn lengths_come_from_profiles() {
        let text = format!(r#"{HEAD}[{{"id": 9, "profile": "p", "res": 2, "subtime": 3, "walltime": 4}}]}}"#);
        let workload = read(&text).unwrap();
        assert_eq!(workload.nodes, [NodeShape { cards: 4, mem: Megabytes(1) }]);
        let task = &workload.tasks[0];
        assert_eq!((&*task.id, task.cards, task.mem), ("0", 2, None));
        assert_eq!((task.arrive, task.runtime, task.estimate), (Span(3000), Span(1500), Span(4000)));
    }

    #[test]
    fn mistakes_are_told() {
        let text = format!(r#"{HEAD}[{{"profile": "q", "res": 2, "subtime": 3}}]}}"#);
        let told = read(&text).unwrap_err().to_string();
        assert_eq!(told, "job 0 of the list: there is no profile 'q' with a delay");
        let told = read("{\n \"nb_res\": x}").unwrap_err().to_string();
        assert_eq!(told, "2:12: expected value");
    }
}

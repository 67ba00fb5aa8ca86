//! Every kind of row comes back as it was written.

use ax_core::api::JobsQuery;
use ax_core::controller::{Event, Wish};
use ax_core::id::{JobNumber, SubmissionKey, Uid};
use ax_core::job::spec::NodeCount;
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{Actor, AttemptEnd};
use ax_core::node::Inventory;
use axd::store::{Batch, LogKind, OutputFiles, Row, check, view};

use crate::fixture::*;

#[test]
fn the_whole_life_of_a_job_can_be_read() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    let mut wanted = request(2);
    wanted.retries = 1;
    let (id, attempt) = cluster.submit(&writer, 100, submission(7, wanted));
    cluster.run(&writer, 1000, attempt.unwrap(), 3);
    let again = launched(&cluster.step(&writer, at(10_000), Event::Tick))[0];
    cluster.run(&writer, 11_000, again, 0);
    cluster.settle(&writer);

    let reader = place.reader();
    let job = reader.job(id.number).unwrap().unwrap();
    assert_eq!(&job, cluster.controller.job(id.number).unwrap());
    assert_eq!(reader.by_number(id.number).unwrap(), Some(id));
    assert_eq!(reader.by_key(Uid(1000), SubmissionKey(7)).unwrap(), Some(id));
    assert_eq!(reader.by_key(Uid(1001), SubmissionKey(7)).unwrap(), None);
    assert_eq!(reader.by_ticket(SubmissionKey(7)).unwrap(), [(id, Uid(1000))]);
    assert_eq!(reader.by_number(JobNumber(2)).unwrap(), None);
    assert_eq!(reader.details(id.number).unwrap().unwrap(), parts().details);
    assert_eq!(reader.script(id.number).unwrap().unwrap(), &*parts().script);
    assert_eq!(reader.environment(id.number).unwrap().unwrap(), *parts().environment);

    let attempts = reader.attempts(id.number).unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!((attempts[0].number, attempts[0].epoch), (1, attempt.unwrap().epoch));
    let end = attempts[0].end.as_ref().unwrap();
    assert_eq!((end.outcome, end.exit_code), (Outcome::Failed, Some(3)));
    assert_eq!(attempts[1].started_at, Some(at(11_000).wall));
    assert_eq!(attempts[1].ended_at, Some(at(12_000).wall));
    assert_eq!(attempts[1].allocation, job.attempt.unwrap().allocation);
    assert!(attempts[1].why.starts_with("first in queue default"), "{}", attempts[1].why);
    assert_eq!(attempts[1].usage.cpu_us, Some(1_500_000));

    let shown = reader.view(id.number, at(99_000).wall).unwrap().unwrap();
    assert_eq!((shown.state, shown.exit_code, shown.attempts.len()), (JobState::Succeeded, Some(0), 2));
    assert_eq!(shown.stdout, Some(format!("/home/ann/ax-{}.out", again.epoch)));
    assert_eq!(shown.comment.as_deref(), Some("a comment"));
    // 900 ms until its supervisor said so, then 1 s of running, twice; 8 s of back-off.
    assert_eq!(shown.time_in_state["STARTING"], 1.9);
    assert_eq!(shown.time_in_state["RUNNING"], 2.0);
    assert_eq!(shown.time_in_state["PENDING"], 8.0);
    assert!(!shown.time_in_state.contains_key("SUCCEEDED"));
    let story: Vec<_> = shown.decisions.iter().map(|d| d.what.as_str()).collect();
    assert_eq!(story[..3], ["submitted", "READY → STARTING", "STARTING → RUNNING"]);
    writer.close().unwrap();
    assert!(check::check(&place.paths).unwrap().is_good());
}

#[test]
fn a_job_on_several_nodes_comes_back_with_all_its_parts_and_what_is_over_of_them() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for name in ["gpu-07", "gpu-08"] {
        let other = Inventory { name: name.parse().unwrap(), ..node(8) };
        cluster.step(&writer, at(1), Event::NodeRegistered(other));
    }
    let mut wanted = request(2);
    wanted.set_special(|special| special.nodes = Some(NodeCount { min: 3, max: 3 }));
    let (id, attempt) = cluster.submit(&writer, 100, submission(7, wanted));
    let attempt = attempt.unwrap();
    cluster.step(&writer, at(200), Event::AttemptStarted { attempt, at: at(200).wall });
    let end = AttemptEnd {
        outcome: Outcome::NodeFail,
        exit_code: None,
        signal: None,
        message: None,
        card_peak: None,
    };
    let node = "gpu-08".parse().unwrap();
    cluster.step(&writer, at(300), Event::PartEnded { attempt, node, at: at(300).wall, end });
    cluster.settle(&writer);

    let reader = place.reader();
    let job = reader.job(id.number).unwrap().unwrap();
    assert_eq!(&job, cluster.controller.job(id.number).unwrap());
    let own = job.attempt.as_ref().unwrap();
    assert_eq!((own.width(), own.open_parts().count()), (3, 2));
    let attempts = reader.attempts(id.number).unwrap();
    assert_eq!((&attempts[0].allocation, &attempts[0].others[..]), (&own.allocation, own.others()));
    let shown = reader.view(id.number, at(99_000).wall).unwrap().unwrap();
    assert_eq!((shown.nodes.len(), shown.cpus, shown.attempts[0].others.len()), (3, 6, 2));
    let snapshot = cluster.controller.snapshot();
    writer.close().unwrap();
    let restored = place.open().restore(at(400).wall).unwrap();
    assert!(restored.jobs.iter().eq(snapshot.jobs.iter().map(|job| &**job)));
}

#[test]
fn the_state_that_a_job_is_in_counts_until_now() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    let (id, _) = cluster.submit(&writer, 0, submission(1, request(99)));
    let actor = Actor::User { uid: Uid(0), name: "root".into(), admin: true };
    cluster.step(&writer, at(5000), Event::Wished { job: id, actor, wish: Wish::Hold, why: None });
    cluster.settle(&writer);
    let log = place.reader().log(id.number).unwrap();
    assert_eq!(log.iter().filter(|l| l.kind == LogKind::Note).count(), 1);
    let times = view::time_in_state(&log, at(12_000).wall);
    assert_eq!((times["READY"], times["PENDING"]), (5.0, 7.0));
}

#[test]
fn finished_jobs_are_listed_newest_first_and_by_what_was_asked() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for (key, user) in [(1_u64, "ann"), (2, "bob"), (3, "ann"), (4, "cid")] {
        let mut new = submission(u128::from(key), request(1));
        new.owner.name = user.into();
        new.name = format!("job {key}").into();
        let (_, attempt) = cluster.submit(&writer, key * 10_000, new);
        cluster.run(&writer, key * 10_000 + 1, attempt.unwrap(), u8::from(key == 3));
    }
    cluster.submit(&writer, 90_000, submission(5, request(1)));
    cluster.settle(&writer);
    let reader = place.reader();
    let list = |query: JobsQuery| -> (Vec<u32>, u64) {
        let found = reader.finished(&query, at(100_000).wall).unwrap();
        (found.jobs.iter().map(|j| j.number).collect(), found.left_out)
    };
    let any = JobsQuery::default;
    assert_eq!(list(any()), (vec![4, 3, 2, 1], 0));
    assert_eq!(list(JobsQuery { limit: Some(3), ..any() }), (vec![4, 3, 2], 1));
    assert_eq!(list(JobsQuery { user: vec!["ann".into()], ..any() }).0, [3, 1]);
    assert_eq!(list(JobsQuery { user: vec!["ann".into(), "cid".into()], ..any() }).0, [4, 3, 1]);
    assert_eq!(list(JobsQuery { state: vec![JobState::Failed], ..any() }).0, [3]);
    assert_eq!(list(JobsQuery { queue: vec!["high".into()], ..any() }).0, [0; 0]);
    assert_eq!(list(JobsQuery { name: vec!["job 2".into()], ..any() }).0, [2]);
    let (since, until) = (Some(at(20_000).wall), Some(at(40_000).wall));
    assert_eq!(list(JobsQuery { since, until, ..any() }).0, [3, 2]);
    let found = reader.finished(&any(), at(100_000).wall).unwrap();
    assert_eq!((found.jobs[0].attempts.len(), found.jobs[0].time_in_state["RUNNING"]), (1, 1.0));
}

#[test]
fn what_people_write_is_data() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    let names = [
        "'); DROP TABLE jobs; --",
        "\" OR \"\"=\"",
        "%' OR 1=1 --",
        "\u{1b}[31m\n\0 ?1 :name @x $y",
        "[\"a\",\"b\"]",
    ];
    for (key, name) in names.iter().enumerate() {
        let mut new = submission(key as u128, request(1));
        new.name = (*name).into();
        new.owner.name = (*name).into();
        let (_, attempt) = cluster.submit(&writer, key as u64 * 10_000, new);
        cluster.run(&writer, key as u64 * 10_000 + 1, attempt.unwrap(), 0);
    }
    cluster.settle(&writer);
    let reader = place.reader();
    for (place, name) in names.iter().enumerate() {
        let other = names[(place + 1) % names.len()];
        for (name, user, count) in [
            (vec![*name], vec![*name], 1),
            (vec![*name, "x"], vec![*name, "y"], 1),
            (vec![*name], vec![other], 0),
        ] {
            let own = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
            let query = JobsQuery { name: own(name), user: own(user), ..JobsQuery::default() };
            let found = reader.finished(&query, at(0).wall).unwrap();
            assert_eq!(found.jobs.len(), count, "{query:?}");
        }
    }
    writer.close().unwrap();
    assert!(check::check(&place.paths).unwrap().is_good());
}

#[test]
fn one_content_is_kept_once() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for key in 0..20 {
        cluster.submit(&writer, key, submission(u128::from(key), request(1)));
    }
    cluster.settle(&writer);
    writer.close().unwrap();
    let report = check::check(&place.paths).unwrap();
    assert_eq!((report.jobs, report.blobs), (20, 2));
}

#[test]
fn an_empty_batch_is_acknowledged_too() {
    let place = Place::new();
    let writer = place.writer();
    writer.send(Batch::new(1));
    writer.quiet(at(0).wall);
    writer.send(Batch::new(2));
    wait_for(&writer, |ack| *ack == axd::store::Ack::Committed(2));
    writer.close().unwrap();
}

#[test]
fn where_an_attempt_writes_may_be_said_later() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    let (id, attempt) = cluster.submit(&writer, 0, submission(1, request(1)));
    cluster.batches += 1;
    let mut batch = Batch::new(cluster.batches);
    let files = OutputFiles { stdout: Some("/late".to_owned()), stderr: Some("/late.err".to_owned()) };
    batch.rows.push(Row::AttemptFiles { epoch: attempt.unwrap().epoch, files: files.clone() });
    writer.send(batch);
    cluster.settle(&writer);
    assert_eq!(place.reader().attempts(id.number).unwrap()[0].files, files);
    writer.close().unwrap();
}

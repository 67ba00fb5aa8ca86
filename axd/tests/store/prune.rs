//! What goes out of the accounts, what stays, and that nothing else notices.

use std::sync::Arc;

use ax_core::controller::Event;
use ax_core::id::{AttemptName, JobNumber, SubmissionKey, Uid};
use ax_core::job::Job;
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{AttemptEnd, request::Request};
use ax_core::time::{Now, Span};
use axd::store::{Ack, Batch, Beside, NewParts, Writer, check};
use rusqlite::Connection;

use crate::fixture::*;

const DAY: u64 = 86_400_000;
const KEEP: Option<Span> = Some(Span::seconds(86_400));

fn pruned(writer: &Writer, now: Now, keep: Option<Span>) -> u64 {
    writer.prune(now.wall, keep);
    let acks = wait_for(writer, |ack| matches!(ack, Ack::Pruned(_) | Ack::NotPruned(_)));
    match acks.last() {
        Some(Ack::Pruned(jobs)) => *jobs,
        other => panic!("{other:?}"),
    }
}

fn numbers(place: &Place) -> Vec<u32> {
    let database = Connection::open(place.paths.database()).unwrap();
    let mut statement = database.prepare("SELECT number FROM jobs ORDER BY number").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn rows(place: &Place, table: &str) -> u32 {
    let database = Connection::open(place.paths.database()).unwrap();
    database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn assert_whole(place: &Place) {
    let report = check::check(&place.paths).unwrap();
    assert!(report.is_good(), "{report:?}");
}

/// A job that is over at this time.
fn ended(cluster: &mut Cluster, writer: &Writer, ms: u64, key: u128) -> JobNumber {
    let (id, attempt) = cluster.submit(writer, ms, submission(key, request(1)));
    cluster.run(writer, ms + 1, attempt.unwrap(), 0);
    id.number
}

/// A job whose end nobody knows: it waits for a person.
fn unknown(cluster: &mut Cluster, writer: &Writer, ms: u64, key: u128) -> JobNumber {
    let asked = Request { idempotent: false, ..request(1) };
    let (id, attempt) = cluster.submit(writer, ms, submission(key, asked));
    let attempt: AttemptName = attempt.unwrap();
    cluster.step(writer, at(ms + 1), Event::AttemptStarted { attempt, at: at(ms + 1).wall });
    let end = AttemptEnd {
        outcome: Outcome::LeaseLost,
        exit_code: None,
        signal: None,
        message: None,
        card_peak: None,
    };
    cluster.step(writer, at(ms + 2), Event::AttemptEnded { attempt, at: at(ms + 2).wall, end });
    assert_eq!(cluster.controller.job(id.number).unwrap().state, JobState::FailedUnknownState);
    id.number
}

#[test]
fn only_what_ended_long_ago_goes() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    let old = ended(&mut cluster, &writer, 0, 1);
    unknown(&mut cluster, &writer, 2000, 2);
    let (running, _) = cluster.submit(&writer, 5000, submission(3, request(1)));
    let (waiting, _) = cluster.submit(&writer, 5000, submission(4, request(99)));
    let lately = ended(&mut cluster, &writer, 2 * DAY, 5);
    cluster.settle(&writer);
    let late = at(2 * DAY + 10_000);
    assert_eq!(pruned(&writer, late, None), 0, "without a limit for ever");
    assert_eq!(pruned(&writer, late, KEEP), 1);
    assert_eq!(numbers(&place), [2, running.number.0, waiting.number.0, lately.0]);
    assert_whole(&place);
    let reader = place.reader();
    assert_eq!(reader.view(old, late.wall).unwrap(), None);
    assert!(reader.log(old).unwrap().is_empty() && reader.attempts(old).unwrap().is_empty());
    assert_eq!(reader.script(lately).unwrap().as_deref(), Some(&*parts().script), "it was the old one's too");
    writer.close().unwrap();
}

/// Each job with a script of its own.
struct Own;

impl Beside for Own {
    fn new_job(&mut self, _key: SubmissionKey, job: &Job) -> NewParts {
        NewParts { script: Arc::from(format!("#!/bin/sh\n{}\n", job.name).into_bytes()), ..parts() }
    }
}

fn submit_named(cluster: &mut Cluster, writer: &Writer, ms: u64, key: u128, name: &str) -> AttemptName {
    let event = Event::Submitted(Box::new(ax_core::controller::Submission {
        name: name.into(),
        thing: None,
        ..submission(key, request(1))
    }));
    let decisions = cluster.controller.step(at(ms), event);
    cluster.batches += 1;
    let mut batch = Batch::new(cluster.batches);
    batch.add_step(at(ms), &decisions, &cluster.controller, &mut Own);
    writer.send(batch);
    launched(&decisions)[0]
}

#[test]
fn content_goes_with_the_last_job_that_has_it_and_may_come_again() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for (key, name) in [(1, "a"), (2, "a"), (3, "b")] {
        let attempt = submit_named(&mut cluster, &writer, 10_000 * key, u128::from(key), name);
        cluster.run(&writer, 10_000 * key + 1, attempt, 0);
    }
    cluster.settle(&writer);
    assert_eq!(rows(&place, "blobs"), 3, "two scripts and an environment");
    // The first alone is old enough.
    assert_eq!(pruned(&writer, at(DAY + 15_000), KEEP), 1);
    assert_eq!(rows(&place, "blobs"), 3);
    assert_eq!(pruned(&writer, at(DAY + 25_000), KEEP), 1);
    assert_eq!(rows(&place, "blobs"), 2, "nobody has script a");
    let attempt = submit_named(&mut cluster, &writer, 2 * DAY, 4, "a");
    cluster.settle(&writer);
    let script = place.reader().script(attempt.job.number).unwrap();
    assert_eq!(script.as_deref(), Some(&b"#!/bin/sh\na\n"[..]));
    assert_whole(&place);
    writer.close().unwrap();
}

#[test]
fn a_key_means_its_job_for_thirty_days() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    let job = ended(&mut cluster, &writer, 0, 7);
    cluster.settle(&writer);
    let known = || place.reader().by_key(Uid(1000), SubmissionKey(7)).unwrap().map(|id| id.number);
    assert_eq!(pruned(&writer, at(2 * DAY), KEEP), 1);
    assert_eq!(known(), Some(job), "the job is gone, its key is not");
    pruned(&writer, at(30 * DAY - 1), KEEP);
    assert_eq!(known(), Some(job));
    assert_eq!(place.reader().by_key(Uid(1001), SubmissionKey(7)).unwrap(), None, "it is one user's");
    pruned(&writer, at(30 * DAY), None);
    assert_eq!(known(), None);
    // Of a job that is as old as that when it goes nothing is left.
    let old = ended(&mut cluster, &writer, 31 * DAY, 8);
    cluster.settle(&writer);
    assert_eq!(pruned(&writer, at(62 * DAY), KEEP), 1);
    assert_eq!((place.reader().by_number(old).unwrap(), rows(&place, "old_keys")), (None, 0));
    writer.close().unwrap();
}

#[test]
fn numbers_never_go_back() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for key in 0..3 {
        ended(&mut cluster, &writer, key * 10_000, u128::from(key));
    }
    cluster.settle(&writer);
    assert_eq!(pruned(&writer, at(2 * DAY), KEEP), 3);
    writer.close().unwrap();
    assert!(numbers(&place).is_empty());
    // What the spool's marks do not say either.
    std::fs::remove_file(place.paths.high()).unwrap();
    let restored = place.open().restore(at(0).wall).unwrap();
    assert_eq!((restored.next_number.0, restored.next_epoch.0), (4, 4));
}

#[test]
fn what_is_to_be_written_does_not_wait_for_it() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for key in 0..200 {
        ended(&mut cluster, &writer, key * 10_000, u128::from(key));
    }
    cluster.settle(&writer);
    writer.prune(at(3 * DAY).wall, KEEP);
    ended(&mut cluster, &writer, 3 * DAY, 1000);
    let acks = wait_for(&writer, |ack| matches!(ack, Ack::Pruned(200)));
    assert_eq!(acks.first(), Some(&Ack::Committed(cluster.batches - 2)), "{acks:?}");
    assert_eq!(numbers(&place), [201]);
    assert_eq!((rows(&place, "attempts"), rows(&place, "details")), (1, 1));
    assert_whole(&place);
    writer.close().unwrap();
}

#[test]
fn a_story_without_end_goes_in_parts() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    ended(&mut cluster, &writer, 0, 1);
    ended(&mut cluster, &writer, 10_000, 2);
    cluster.settle(&writer);
    let database = Connection::open(place.paths.database()).unwrap();
    database
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO log (job, at, actor, text) SELECT 1, i, 'ann', 'note' FROM n",
        )
        .unwrap();
    drop(database);
    assert_eq!(pruned(&writer, at(2 * DAY), KEEP), 2);
    assert_eq!(rows(&place, "log"), 0);
    assert_whole(&place);
    writer.close().unwrap();
}

#[test]
fn a_job_that_was_set_aside_is_left_to_a_person() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    cluster.submit(&writer, 0, submission(1, request(99)));
    writer.close().unwrap();
    let database = Connection::open(place.paths.database()).unwrap();
    database.execute("UPDATE jobs SET core = '{}', ended_at = 5", []).unwrap();
    drop(database);
    let mut store = place.open();
    assert_eq!(store.restore(at(0).wall).unwrap().broken.len(), 1);
    let writer = spawn(store);
    assert_eq!(pruned(&writer, at(100 * DAY), KEEP), 0);
    assert_eq!(numbers(&place), [1]);
    writer.close().unwrap();
}

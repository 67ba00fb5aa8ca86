//! What was learnt from runs comes back after a restart, also of a database that is older than such rows.

use ax_core::controller::Submission;
use ax_core::schedule::history::{History, THINGS};
use rusqlite::Connection;

use crate::fixture::*;

/// Runs of so many things, each twice; the last ones end last.
fn runs(place: &Place, things: u64) -> History {
    // As at the first start of a daemon: from then on the accounts are not asked.
    place.open().restore(at(0).wall).unwrap();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for run in 0..2 * things {
        let ms = run * 5000;
        let name = format!("{}-job", run % things);
        let new = Submission { name: name.into(), ..submission(u128::from(run), request(1)) };
        let (_, attempt) = cluster.submit(&writer, ms, new);
        cluster.run(&writer, ms + 100, attempt.unwrap(), 0);
    }
    // One that fails teaches nothing.
    let (_, attempt) = cluster.submit(&writer, 10_000_000, submission(u128::MAX, request(1)));
    cluster.run(&writer, 10_000_100, attempt.unwrap(), 1);
    cluster.settle(&writer);
    writer.close().unwrap();
    cluster.controller.history().clone()
}

#[test]
fn what_was_learnt_comes_back_and_is_no_more_than_the_controller_remembers() {
    let place = Place::new();
    let known = runs(&place, THINGS as u64 + 3);
    assert_eq!(known.iter().count(), THINGS);
    assert_eq!(place.open().restore(at(0).wall).unwrap().history, known);
    let rows: u32 = Connection::open(place.paths.database())
        .unwrap()
        .query_row("SELECT count(*) FROM profiles", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows as usize, THINGS);
}

#[test]
fn a_database_that_is_older_learns_once_from_its_accounts() {
    let place = Place::new();
    let known = runs(&place, 5);
    let execute = |sql: &str| Connection::open(place.paths.database()).unwrap().execute_batch(sql).unwrap();
    execute("DELETE FROM profiles; DELETE FROM meta WHERE key = 'profiles'");
    assert_eq!(place.open().restore(at(0).wall).unwrap().history, known);
    execute("DELETE FROM profiles");
    let again = place.open().restore(at(0).wall).unwrap().history;
    assert_eq!(again, History::default(), "what is gone later is learnt anew from new runs");
}

#[test]
fn a_row_that_cannot_be_read_is_learnt_anew() {
    let place = Place::new();
    let known = runs(&place, 2);
    assert_eq!(place.open().restore(at(0).wall).unwrap().history, known);
    let connection = Connection::open(place.paths.database()).unwrap();
    connection
        .execute("UPDATE profiles SET runs = 'x' WHERE thing = (SELECT min(thing) FROM profiles)", [])
        .unwrap();
    drop(connection);
    let restored = place.open().restore(at(0).wall).unwrap().history;
    assert_eq!((known.iter().count(), restored.iter().count()), (2, 1));
}

//! Starts: one daemon a state directory, numbers that never go back, records
//! that can't be read, copies.

use std::os::unix::fs::MetadataExt;

use ax_core::id::{Epoch, JobNumber};
use axd::store::backup::backup;
use axd::store::{Store, StoreError, adopt, check};
use rusqlite::Connection;

use crate::fixture::*;

fn restored(place: &Place) -> (Vec<u32>, u32, u64) {
    let restored = place.open().restore(at(0).wall).unwrap();
    let jobs = restored.jobs.iter().map(|j| j.id.number.0).collect();
    (jobs, restored.next_number.0, restored.next_epoch.0)
}

#[test]
fn a_second_daemon_is_refused_by_one_line() {
    let place = Place::new();
    let first = place.open();
    let refused = Store::open(&place.paths).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
    let text = refused.to_string();
    let pid = std::process::id();
    assert!(text.contains(&format!("another axd (process {pid}) works on")), "{text}");
    assert!(matches!(adopt(&place.paths), Err(StoreError::Locked { .. })));
    drop(first);
    place.open();
}

#[test]
fn nobody_else_can_read_what_is_stored() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    cluster.submit(&writer, 0, submission(1, request(1)));
    cluster.settle(&writer);
    let copy = place.root.join("copy.db");
    backup(&place.paths, &copy).unwrap();
    let state = &place.paths.state;
    let (wal, events) = (state.join("ax.db-wal"), state.join("events.db"));
    while !events.exists() {
        // Written in the first quiet moment.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for file in [&place.paths.database(), &wal, &events, &copy, &place.paths.reserve()] {
        assert_eq!(std::fs::metadata(file).unwrap().mode() & 0o077, 0, "{}", file.display());
    }
    writer.close().unwrap();
}

#[test]
fn numbers_go_on_without_a_gap_and_epochs_behind_what_was_reserved() {
    let place = Place::new();
    assert_eq!(restored(&place), (vec![], 1, 1));
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    cluster.submit(&writer, 0, submission(1, request(1)));
    cluster.submit(&writer, 1, submission(2, request(99)));
    cluster.settle(&writer);
    writer.close().unwrap();
    assert_eq!(restored(&place), (vec![1, 2], 3, 1001));
    assert_eq!(restored(&place), (vec![1, 2], 3, 1001));
    let first = place.open().term();
    assert!(first < place.open().term());
    std::fs::remove_file(place.paths.high()).unwrap();
    let store = place.open();
    assert!(store.notices()[0].contains("numbers go on from the database alone"), "{:?}", store.notices());
    drop(store);
    assert_eq!(restored(&place).1, 3);
}

#[test]
fn a_database_put_back_from_a_copy_does_not_give_numbers_twice() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    cluster.submit(&writer, 0, submission(1, request(1)));
    cluster.settle(&writer);
    let copy = place.root.join("copy.db");
    assert!(backup(&place.paths, &copy).unwrap() > 0);
    assert!(matches!(backup(&place.paths, &copy), Err(StoreError::Exists { .. })));
    cluster.submit(&writer, 1, submission(2, request(1)));
    cluster.settle(&writer);
    writer.close().unwrap();
    std::fs::rename(&copy, place.paths.database()).unwrap();
    let store = place.open();
    assert!(store.notices()[0].contains("job numbers go on at 1001"), "{:?}", store.notices());
    drop(store);
    assert_eq!(restored(&place), (vec![1], 1001, 1001));
    assert!(check::check(&place.paths).unwrap().is_good());
}

#[test]
fn an_older_raw_copy_is_noticed_too() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    cluster.submit(&writer, 0, submission(1, request(1)));
    writer.close().unwrap();
    let copy = place.root.join("copy.db");
    std::fs::copy(place.paths.database(), &copy).unwrap();
    let writer = place.writer();
    cluster.submit(&writer, 1, submission(2, request(1)));
    writer.close().unwrap();
    std::fs::rename(&copy, place.paths.database()).unwrap();
    assert_eq!(restored(&place).1, 1001);
}

/// As the mark was before the start that put the new one there.
fn open_and_die_before_the_spool_is_written(place: &Place) {
    let before = std::fs::read(place.paths.high()).unwrap();
    place.open();
    std::fs::write(place.paths.high(), before).unwrap();
}

#[test]
fn a_start_that_ends_between_database_and_spool_is_as_if_it_had_never_been() {
    let place = Place::new();
    place.open();
    for _ in 0..2 {
        open_and_die_before_the_spool_is_written(&place);
    }
    assert_eq!(restored(&place), (vec![], 1, 1), "it is empty, and it is the one");
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    cluster.submit(&writer, 0, submission(1, request(1)));
    writer.close().unwrap();
    for _ in 0..2 {
        open_and_die_before_the_spool_is_written(&place);
    }
    let store = place.open();
    assert!(store.notices().is_empty(), "{:?}", store.notices());
    drop(store);
    assert_eq!(restored(&place).1, 2);
}

#[test]
fn an_empty_database_beside_a_used_spool_waits_to_be_adopted() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    assert!(adopt(&place.paths).is_err());
    cluster.submit(&writer, 0, submission(1, request(1)));
    cluster.settle(&writer);
    writer.close().unwrap();
    std::fs::remove_dir_all(&place.paths.state).unwrap();
    let refused = Store::open(&place.paths).unwrap_err();
    assert!(refused.to_string().contains("run 'axctl db adopt'"), "{refused}");
    assert_eq!(adopt(&place.paths).unwrap(), JobNumber(1001));
    assert_eq!(restored(&place), (vec![], 1001, 1001));
    assert_eq!(restored(&place), (vec![], 1001, 1001));
}

#[test]
fn a_record_that_can_t_be_read_is_set_aside_and_the_rest_goes_on() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for key in 0..3 {
        cluster.submit(&writer, key, submission(u128::from(key), request(1)));
    }
    cluster.settle(&writer);
    writer.close().unwrap();
    let database = Connection::open(place.paths.database()).unwrap();
    database.execute("UPDATE jobs SET core = '{\"id\":7}' WHERE number = 2", []).unwrap();
    drop(database);
    for _ in 0..2 {
        let restored = place.open().restore(at(0).wall).unwrap();
        assert_eq!(restored.jobs.iter().map(|j| j.id.number.0).collect::<Vec<_>>(), [1, 3]);
        let [broken] = &restored.broken[..] else { panic!("{restored:?}") };
        assert_eq!((broken.id.as_str(), &broken.open_attempts[..]), ("ax-2026-0002", &[Epoch(2)][..]));
        assert!(broken.reason.contains("does not parse"), "{}", broken.reason);
    }
    let report = check::check(&place.paths).unwrap();
    assert_eq!((report.set_aside, report.problems.len()), (1, 1), "{report:?}");
    assert!(place.reader().job(JobNumber(2)).is_err());
}

#[test]
fn a_newer_database_is_refused_by_name() {
    let place = Place::new();
    place.open();
    let database = Connection::open(place.paths.database()).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    for refused in [Store::open(&place.paths).unwrap_err(), check::check(&place.paths).unwrap_err()]
        .map(|e| e.to_string())
    {
        assert!(refused.contains("ax.db has format 99, made by a newer ax"), "{refused}");
    }
}

#[test]
fn what_does_not_agree_is_reported() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for key in 0..4 {
        cluster.submit(&writer, key, submission(u128::from(key), request(1)));
    }
    writer.close().unwrap();
    let database = Connection::open(place.paths.database()).unwrap();
    database
        .execute_batch(
            "UPDATE jobs SET state = 'READY' WHERE number = 1;
             UPDATE attempts SET ended_at = 5 WHERE job = 2;
             UPDATE jobs SET core = replace(core, '.3\"', '.4\"') WHERE number = 3;
             UPDATE blobs SET size = size + 1;",
        )
        .unwrap();
    let report = check::check(&place.paths).unwrap();
    let found = |part: &str| report.problems.iter().filter(|p| p.contains(part)).count();
    assert_eq!(found("columns beside it differ"), 1, "{report:?}");
    assert_eq!(found("its attempts differ"), 2, "{report:?}");
    assert_eq!(found("share epoch 4"), 1, "{report:?}");
    assert_eq!(found("can't be unpacked"), 2, "{report:?}");
}

#[test]
fn a_damaged_database_is_refused() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for key in 0..50 {
        cluster.submit(&writer, key, submission(u128::from(key), request(1)));
    }
    writer.close().unwrap();
    let mut bytes = std::fs::read(place.paths.database()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 8192].fill(0xa5);
    std::fs::write(place.paths.database(), bytes).unwrap();
    let refused = Store::open(&place.paths).unwrap_err().to_string();
    assert!(refused.contains("ax.db"), "{refused}");
    println!("{refused}");
}

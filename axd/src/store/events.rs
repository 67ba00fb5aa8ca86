//! The ring of recorded events: snapshots of the controller and what happened since, for `axctl db events` and for
//! replay. It has a file of its own, is not flushed for each event, and delays nothing: if it can't be written,
//! events are left out and a gap says so. Nothing is decided from it.

use std::path::{Path, PathBuf};

pub use ax_core::replay::{Entry, Recorded, Step};
use ax_core::time::{BootTime, Now, WallTime};
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, TransactionBehavior};

use super::error::{Doing, Result, StoreError};

/// How long events are kept.
const KEPT_MS: i64 = 30 * 86_400_000;
/// So many bytes of them, as far as the last snapshot allows; of twice as many no more are taken before the next one.
const KEPT_BYTES: i64 = 1 << 30;
/// A snapshot is never larger than this.
const LARGEST: usize = 1 << 30;

/// `kind`: 0 snapshot (deflated), 1 event, 2 gap. Times are those handed in.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY,
    wall INTEGER NOT NULL,
    boot INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS snapshots ON events (wall, seq) WHERE kind = 0;
";

/// Appends to the ring. Owned by the writer thread.
#[derive(Debug)]
pub(crate) struct EventLog {
    path: PathBuf,
    connection: Option<Connection>,
    waiting: Vec<(Now, Recorded)>,
    /// Something was left out since the last snapshot.
    gap: bool,
    /// How many bytes are kept.
    kept: i64,
}

impl EventLog {
    /// Nothing is opened before there is something to write.
    pub(crate) fn at(path: PathBuf) -> EventLog {
        EventLog { path, connection: None, waiting: Vec::new(), gap: false, kept: KEPT_BYTES }
    }

    pub(crate) fn add(&mut self, now: Now, recorded: Recorded) {
        self.waiting.push((now, recorded));
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one of those that wait is what the others begin from.
    pub(crate) fn has_snapshot(&self) -> bool {
        self.waiting.iter().any(is_snapshot)
    }

    /// Writes what waits. Whatever can't be written is left out.
    pub(crate) fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        let full = !waiting.iter().any(is_snapshot) && self.size() > self.kept.saturating_mul(2);
        if full {
            self.gap = true;
            return;
        }
        let done = self.append(&waiting);
        let snapshot = waiting.iter().rfind(|entry| is_snapshot(entry));
        let snapshot = snapshot.map(|(now, _)| now.wall);
        drop(waiting);
        if snapshot.is_some() {
            // All jobs, as a copy and as text, for a moment.
            ax_sys::process::give_back_memory();
        }
        match done {
            Ok(()) => {
                self.gap = false;
                // With each snapshot, so daily: a busy daemon may never have a quiet minute.
                if let Some(wall) = snapshot {
                    self.prune(wall);
                }
            }
            Err(error) => {
                self.gap = true;
                if damaged(&error) {
                    self.set_aside();
                }
            }
        }
    }

    /// Leaves out what waits.
    pub(crate) fn skip(&mut self) {
        self.gap |= !self.waiting.is_empty();
        self.waiting.clear();
    }

    fn append(&mut self, waiting: &[(Now, Recorded)]) -> Result<()> {
        let (path, gap) = (self.path.clone(), self.gap);
        let connection = self.connection()?;
        let tx =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).doing("write", &path)?;
        if gap {
            insert(&tx, &path, waiting[0].0, &Recorded::Gap)?;
        }
        for (now, recorded) in waiting {
            insert(&tx, &path, *now, recorded)?;
        }
        tx.commit().doing("write", &path)
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            empty => Ok(empty.insert(open(&self.path)?)),
        }
    }

    /// A ring that a loss of power has damaged is kept for whoever wants to look, and a new one begun.
    fn set_aside(&mut self) {
        self.connection = None;
        let aside = self.path.with_extension("db.damaged");
        let _ = std::fs::rename(&self.path, aside);
        for end in ["db-wal", "db-shm"] {
            let _ = std::fs::remove_file(self.path.with_extension(end));
        }
    }

    fn size(&mut self) -> i64 {
        self.connection().map_or(0, |connection| size(connection))
    }

    /// Drops what is older than 30 days, up to the last snapshot before that, and the oldest of too much.
    pub(crate) fn prune(&mut self, now: WallTime) {
        let kept = self.kept;
        let Ok(connection) = self.connection() else { return };
        let oldest = "DELETE FROM events
                      WHERE seq < (SELECT max(seq) FROM events WHERE kind = 0 AND wall < ?1)";
        // Next time is early enough if it can't be done now.
        let _ = connection.execute(oldest, [now.0.saturating_sub(KEPT_MS)]);
        let first = "DELETE FROM events
                     WHERE seq < (SELECT seq FROM events WHERE kind = 0 ORDER BY seq LIMIT 1 OFFSET 1)";
        while size(connection) > kept && connection.execute(first, []).is_ok_and(|gone| gone > 0) {}
        let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);");
    }
}

fn open(path: &Path) -> Result<Connection> {
    super::open::make_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).doing("open", path)?;
    let pragmas = "PRAGMA busy_timeout = 200; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
                   PRAGMA journal_size_limit = 4194304;";
    connection.execute_batch(pragmas).doing("open", path)?;
    connection.execute_batch(TABLES).doing("make the tables of", path)?;
    Ok(connection)
}

fn insert(connection: &Connection, path: &Path, now: Now, recorded: &Recorded) -> Result<()> {
    let (kind, body) = match recorded {
        Recorded::Snapshot(snapshot) => {
            (0, compress_to_vec(&serde_json::to_vec(snapshot).doing("write", path)?, 1))
        }
        Recorded::Step(step) => (1, serde_json::to_vec(step).doing("write", path)?),
        Recorded::Gap => (2, Vec::new()),
    };
    let boot = super::apply::signed(now.boot.0);
    connection
        .prepare_cached("INSERT INTO events (wall, boot, kind, body) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut s| s.execute((now.wall.0, boot, kind, body)))
        .doing("write", path)
        .map(drop)
}

fn is_snapshot((_, recorded): &(Now, Recorded)) -> bool {
    matches!(recorded, Recorded::Snapshot(_))
}

/// Bytes that the entries take, without what earlier ones have left free.
fn size(connection: &Connection) -> i64 {
    let sql = "SELECT (page_count - freelist_count) * page_size
               FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    connection.prepare_cached(sql).and_then(|mut s| s.query_row([], |row| row.get(0))).unwrap_or(0)
}

fn damaged(error: &StoreError) -> bool {
    let StoreError::Sql { source, .. } = error else { return false };
    matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Reads the ring.
#[derive(Debug)]
pub struct EventReader {
    path: PathBuf,
    connection: Connection,
}

impl EventReader {
    /// Opens the ring for reading, whether or not a daemon writes to it.
    pub fn open(path: &Path) -> Result<EventReader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).doing("open", path)?;
        Ok(EventReader { path: path.to_owned(), connection })
    }

    /// The place of the last snapshot at or before a time; of the very first one if there is none before.
    pub fn snapshot_before(&self, at: WallTime) -> Result<Option<i64>> {
        let sql = "SELECT coalesce((SELECT max(seq) FROM events WHERE kind = 0 AND wall <= ?1),
                                   (SELECT min(seq) FROM events WHERE kind = 0))";
        self.connection.query_row(sql, [at.0], |row| row.get(0)).doing("read", &self.path)
    }

    /// Hands over all entries from a place on, in order, until told to stop.
    pub fn each_from(&self, seq: i64, mut take: impl FnMut(Entry) -> bool) -> Result<()> {
        let sql = "SELECT seq, wall, boot, kind, body FROM events WHERE seq >= ?1 ORDER BY seq";
        let mut statement = self.connection.prepare_cached(sql).doing("read", &self.path)?;
        let mut rows = statement.query([seq]).doing("read", &self.path)?;
        while let Some(row) = rows.next().doing("read", &self.path)? {
            if !take(self.entry(row)?) {
                break;
            }
        }
        Ok(())
    }

    fn entry(&self, row: &Row<'_>) -> Result<Entry> {
        let raw = || -> rusqlite::Result<(i64, i64, i64, i64, Vec<u8>)> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        };
        let (seq, wall, boot, kind, body) = raw().doing("read", &self.path)?;
        let recorded = match kind {
            0 => {
                let text = decompress_to_vec_with_limit(&body, LARGEST).map_err(|e| StoreError::Content {
                    doing: "understand",
                    path: self.path.clone(),
                    what: format!("snapshot {seq}: {e}"),
                })?;
                Recorded::Snapshot(serde_json::from_slice(&text).doing("understand", &self.path)?)
            }
            1 => Recorded::Step(serde_json::from_slice(&body).doing("understand", &self.path)?),
            _ => Recorded::Gap,
        };
        let now = Now { boot: BootTime(boot.unsigned_abs()), wall: WallTime(wall) };
        Ok(Entry { seq, now, recorded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::config::Config;
    use ax_core::controller::{Controller, Decision, Event};
    use test_kit::TempDir;

    #[test]
    fn a_snapshot_lets_what_is_older_than_the_last_one_before_30_days_go() {
        let folder = TempDir::new();
        let path = folder.path().join("events.db");
        let mut log = EventLog::at(path.clone());
        let day = |day: i64| Now { boot: BootTime(0), wall: WallTime(day * 86_400_000) };
        let snapshot = || Recorded::Snapshot(Box::new(Controller::new(Config::default()).snapshot()));
        let step = || Recorded::Step(Step { event: Event::Tick, decisions: vec![] });
        for (at, recorded) in
            [(0, snapshot()), (0, step()), (1, snapshot()), (1, step()), (32, step()), (32, snapshot())]
        {
            log.add(day(at), recorded);
            log.flush();
        }
        let mut days = Vec::new();
        let reader = EventReader::open(&path).unwrap();
        reader
            .each_from(0, |entry| {
                days.push(entry.now.wall.0 / 86_400_000);
                true
            })
            .unwrap();
        assert_eq!(days, [1, 1, 32, 32]);
    }

    #[test]
    fn it_never_grows_beyond_what_is_kept_twice() {
        let folder = TempDir::new();
        let path = folder.path().join("events.db");
        let mut log = EventLog { kept: 400_000, ..EventLog::at(path.clone()) };
        let day = |day: i64| Now { boot: BootTime(0), wall: WallTime(day * 86_400_000) };
        let why = "x".repeat(10_000);
        let ignored = || Decision::Ignored { job: None, why: why.clone() };
        for at in 0..4 {
            log.add(day(at), Recorded::Snapshot(Box::new(Controller::new(Config::default()).snapshot())));
            log.flush();
            for _ in 0..100 {
                log.add(day(at), Recorded::Step(Step { event: Event::Tick, decisions: vec![ignored()] }));
                log.flush();
            }
            assert!(log.size() < 1_000_000, "{}", log.size());
        }
        let mut kinds = Vec::new();
        let reader = EventReader::open(&path).unwrap();
        reader
            .each_from(0, |entry| {
                kinds.push((entry.now.wall.0 / 86_400_000, entry.recorded));
                true
            })
            .unwrap();
        assert!(matches!(&kinds[0], (3, Recorded::Snapshot(_))), "the newest is there from its snapshot on");
    }
}

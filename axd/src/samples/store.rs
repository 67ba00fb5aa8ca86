//! The database of samples: series of figures, thinned out as they come. Each figure is entered for its second, its
//! minute and its hour at once, so that nothing is left to do when those are over, and a crash loses some seconds of
//! each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ax_core::gpu::thin::{Figure, Grain, thin};
use ax_core::time::WallTime;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::store::error::Doing;
use crate::store::{Result, StoreError, open_private};

/// Another format is not migrated: the database is begun anew.
const FORMAT: i64 = 1;
/// It grows no larger: 256 MiB in pages of 4 KiB. Then the oldest goes.
const MOST_PAGES: u32 = 65_536;
/// How often what has had its time goes, in milliseconds.
const PRUNE_EVERY: u64 = 60_000;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    what TEXT NOT NULL,
    UNIQUE (subject, what)
) STRICT;
CREATE TABLE IF NOT EXISTS figures (
    series INTEGER NOT NULL,
    grain INTEGER NOT NULL,
    at INTEGER NOT NULL,
    min REAL NOT NULL,
    mean REAL NOT NULL,
    max REAL NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (series, grain, at)
) STRICT, WITHOUT ROWID;
";

/// What a series counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Memory of a card in use, or an attempt's on its fullest card, MB.
    Memory,
    /// How busy a card is, or an attempt's cards on average, percent.
    Load,
    /// Degrees Celsius.
    Temperature,
    /// Watts.
    Power,
    /// CPUs that are kept busy.
    Cpus,
    /// Host memory, MB.
    Ram,
}

impl What {
    pub(super) fn word(self) -> &'static str {
        match self {
            What::Memory => "memory",
            What::Load => "load",
            What::Temperature => "temperature",
            What::Power => "power",
            What::Cpus => "cpus",
            What::Ram => "ram",
        }
    }
}

/// A row of figures over time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(super) subject: String,
    pub(super) what: What,
}

impl Series {
    /// Of a card, by UUID.
    pub(crate) fn card(uuid: &str, what: What) -> Series {
        Series { subject: format!("card {uuid}"), what }
    }

    /// Of an attempt, by epoch.
    pub(crate) fn attempt(epoch: u64, what: What) -> Series {
        Series { subject: format!("attempt {epoch}"), what }
    }
}

/// The database; not opened before there is something to write or to ask.
pub(super) struct Store {
    path: PathBuf,
    connection: Option<Connection>,
    ids: BTreeMap<Series, i64>,
    pruned: WallTime,
}

impl Store {
    pub(super) fn at(path: PathBuf) -> Store {
        Store { path, connection: None, ids: BTreeMap::new(), pruned: WallTime::default() }
    }

    /// Adds figures. What can't be written is left out; a broken database is begun anew, once.
    pub(super) fn add(&mut self, figures: Vec<(Series, WallTime, Figure)>) {
        let Some(latest) = figures.iter().map(|(_, at, _)| *at).max() else { return };
        let mut by_series: BTreeMap<Series, Vec<(WallTime, Figure)>> = BTreeMap::new();
        for (series, at, figure) in figures {
            by_series.entry(series).or_default().push((at, figure));
        }
        for _ in 0..2 {
            match self.write(&by_series, latest) {
                Ok(()) => return,
                Err(error) if error.is_disk_full() => self.make_room(latest),
                Err(error) if is_broken(&error) => self.begin_anew(),
                Err(_) => return,
            }
        }
    }

    /// Reads; from a broken database nothing.
    pub(super) fn read<T>(&mut self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let path = self.path.clone();
        let told = self.connection().and_then(|connection| read(connection).doing("read", &path));
        if told.as_ref().is_err_and(is_broken) {
            self.begin_anew();
        }
        told
    }

    fn write(&mut self, figures: &BTreeMap<Series, Vec<(WallTime, Figure)>>, now: WallTime) -> Result<()> {
        let (path, prune) = (self.path.clone(), (now - self.pruned).0 >= PRUNE_EVERY);
        let mut ids = std::mem::take(&mut self.ids);
        let tx = self
            .connection()?
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .doing("write", &path)?;
        for (series, seen) in figures {
            let id = match ids.get(series) {
                Some(id) => *id,
                None => id_of(&tx, series).doing("write", &path)?,
            };
            ids.insert(series.clone(), id);
            for grain in Grain::ALL {
                for (at, figure) in thin(seen.iter().copied(), grain.seconds()) {
                    put(&tx, (id, grain, at), figure).doing("write", &path)?;
                }
            }
        }
        if prune {
            remove_old(&tx, now).doing("prune", &path)?;
        }
        tx.commit().doing("write", &path)?;
        if prune {
            // Series without figures may be gone.
            ids.clear();
            self.pruned = now;
        }
        self.ids = ids;
        Ok(())
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            let opened = open(&self.path);
            if opened.as_ref().is_err_and(is_broken) {
                self.begin_anew();
                self.connection = Some(open(&self.path)?);
            } else {
                self.connection = Some(opened?);
            }
        }
        self.connection.as_mut().ok_or_else(|| StoreError::NotOurs { path: self.path.clone() })
    }

    /// The oldest tenth of what is kept by the hour goes, and the finest of all.
    fn make_room(&mut self, now: WallTime) {
        let Ok(connection) = self.connection() else { return };
        let oldest = "DELETE FROM figures WHERE grain = 3600
                      AND at < (SELECT min(at) + (?1 - min(at)) / 10 FROM figures WHERE grain = 3600)";
        let _ = connection.execute("DELETE FROM figures WHERE grain = 1", []);
        let _ = connection.execute(oldest, [now.0]);
        self.ids.clear();
    }

    fn begin_anew(&mut self) {
        (self.connection, self.ids) = (None, BTreeMap::new());
        for end in ["", "-wal", "-shm"] {
            let mut name = self.path.clone().into_os_string();
            name.push(end);
            let _ = std::fs::remove_file(name);
        }
    }
}

fn is_broken(error: &StoreError) -> bool {
    let StoreError::Sql { source, .. } = error else { return matches!(error, StoreError::NotOurs { .. }) };
    matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn open(path: &Path) -> Result<Connection> {
    open_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).doing("open", path)?;
    let pragmas = format!(
        "PRAGMA busy_timeout = 200; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         PRAGMA journal_size_limit = 4194304; PRAGMA max_page_count = {MOST_PAGES};"
    );
    connection.execute_batch(&pragmas).doing("open", path)?;
    let format: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).doing("open", path)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .doing("open", path)?;
    if format != FORMAT && tables > 0 {
        return Err(StoreError::NotOurs { path: path.to_owned() });
    }
    connection.execute_batch(TABLES).doing("make the tables of", path)?;
    connection.pragma_update(None, "user_version", FORMAT).doing("mark", path)?;
    Ok(connection)
}

fn id_of(connection: &Connection, series: &Series) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO series (subject, what) VALUES (?1, ?2)")?
        .execute((&series.subject, series.what.word()))?;
    connection
        .prepare_cached("SELECT id FROM series WHERE subject = ?1 AND what = ?2")?
        .query_row((&series.subject, series.what.word()), |row| row.get(0))
}

/// Puts a figure to those of its stretch.
fn put(
    connection: &Connection,
    (series, grain, at): (i64, Grain, WallTime),
    figure: Figure,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO figures (series, grain, at, min, mean, max, count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET
                 min = min(min, excluded.min),
                 max = max(max, excluded.max),
                 mean = (mean * count + excluded.mean * excluded.count) / (count + excluded.count),
                 count = count + excluded.count",
        )?
        .execute((series, grain.seconds(), at.0, figure.min, figure.mean, figure.max, figure.count))
        .map(drop)
}

/// What has had its time goes. A clock that was set back does not keep anything longer than the size allows.
fn remove_old(connection: &Connection, now: WallTime) -> rusqlite::Result<()> {
    for grain in Grain::ALL {
        let oldest = now.0.saturating_sub(i64::from(grain.kept_seconds()) * 1000);
        connection
            .prepare_cached("DELETE FROM figures WHERE grain = ?1 AND at < ?2")?
            .execute((grain.seconds(), oldest))?;
    }
    connection
        .prepare_cached("DELETE FROM series WHERE id NOT IN (SELECT series FROM figures)")?
        .execute([])
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use test_kit::TempDir;

    fn at(seconds: i64) -> WallTime {
        WallTime(seconds * 1000)
    }

    fn store(dir: &TempDir) -> Store {
        Store::at(dir.path().join("samples.db"))
    }

    fn add(store: &mut Store, seconds: std::ops::Range<i64>, value: f64) {
        let series = Series::card("a", What::Memory);
        store.add(seconds.map(|second| (series.clone(), at(second), Figure::once(value))).collect());
    }

    fn rows(store: &mut Store, grain: Grain) -> Vec<(i64, f64, u32)> {
        let sql = "SELECT at / 1000, mean, count FROM figures WHERE grain = ?1 ORDER BY at";
        let read = |db: &Connection| {
            db.prepare(sql)?
                .query_map([grain.seconds()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        };
        store.read(read).unwrap()
    }

    #[test]
    fn a_minute_is_the_same_however_it_was_written() {
        let dir = TempDir::new();
        let mut store = store(&dir);
        add(&mut store, 0..30, 10.0);
        // The daemon was restarted in the middle of it.
        let mut store = Store::at(store.path);
        add(&mut store, 30..70, 40.0);
        assert_eq!(rows(&mut store, Grain::Minute), [(0, 25.0, 60), (60, 40.0, 10)]);
        assert_eq!(rows(&mut store, Grain::Hour), [(0, (30.0 * 10.0 + 40.0 * 40.0) / 70.0, 70)]);
        assert_eq!(rows(&mut store, Grain::Second).len(), 70);
    }

    #[test]
    fn each_grain_has_its_time_and_then_goes() {
        let dir = TempDir::new();
        let mut store = store(&dir);
        add(&mut store, 0..60, 1.0);
        add(&mut store, 3660..3661, 1.0);
        assert_eq!((rows(&mut store, Grain::Second).len(), rows(&mut store, Grain::Minute).len()), (1, 2));
        add(&mut store, 3 * 86_400..3 * 86_400 + 1, 1.0);
        assert_eq!((rows(&mut store, Grain::Second).len(), rows(&mut store, Grain::Minute).len()), (1, 1));
        assert_eq!(rows(&mut store, Grain::Hour).len(), 3);
        let other = vec![(Series::card("b", What::Load), at(400 * 86_400), Figure::once(1.0))];
        store.add(other);
        assert_eq!(rows(&mut store, Grain::Hour).len(), 1);
        let series: i64 =
            store.read(|db| db.query_row("SELECT count(*) FROM series", [], |r| r.get(0))).unwrap();
        assert_eq!(series, 1);
    }

    #[test]
    fn a_broken_database_is_begun_anew() {
        let dir = TempDir::new();
        let path = dir.path().join("samples.db");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let mut store = Store::at(path.clone());
        add(&mut store, 0..5, 1.0);
        assert_eq!(rows(&mut store, Grain::Second).len(), 5);
        // Broken while it is open, and one of another format.
        drop(store);
        let other = Connection::open(&path).unwrap();
        other.execute_batch("PRAGMA user_version = 7").unwrap();
        drop(other);
        let mut store = Store::at(path);
        assert_eq!(rows(&mut store, Grain::Second), []);
        add(&mut store, 0..5, 1.0);
        assert_eq!(rows(&mut store, Grain::Second).len(), 5);
    }

    #[test]
    fn it_grows_no_larger_than_it_may() {
        let dir = TempDir::new();
        let mut store = store(&dir);
        add(&mut store, 0..1, 1.0);
        let pages = "PRAGMA max_page_count = 20";
        store.connection().unwrap().execute_batch(pages).unwrap();
        for day in 0..100 {
            let hours = (day * 24..day * 24 + 24).map(|hour| at(hour * 3600));
            let series = Series::card("a", What::Memory);
            store.add(hours.map(|at| (series.clone(), at, Figure::once(1.1))).collect());
        }
        let hours = rows(&mut store, Grain::Hour);
        assert_eq!(hours.last().unwrap().0, (100 * 24 - 1) * 3600, "what is new is kept");
        assert!(hours.len() < 2000, "{}", hours.len());
        let size = std::fs::metadata(dir.path().join("samples.db")).unwrap().len();
        assert!(size <= 20 * 4096, "{size}");
    }

    #[test]
    fn an_attempt_is_summed_up_over_all_of_its_life() {
        let dir = TempDir::new();
        let mut store = store(&dir);
        let series = Series::attempt(7, What::Load);
        let seen =
            (0..7200).map(|second| (series.clone(), at(second), Figure::once((second % 2) as f64 * 80.0)));
        store.add(seen.collect());
        let usage = store.read(|db| read::usage(db, &[6, 7])).unwrap();
        assert_eq!(usage.len(), 1);
        let load = usage[0].gpu_load.unwrap();
        assert_eq!((usage[0].epoch, load.max, load.count), (7, 80.0, 7200));
        assert!((load.mean - 40.0).abs() < 1e-6, "{load:?}");
        assert_eq!(usage[0].gpu_mem_mb, None);
    }
}

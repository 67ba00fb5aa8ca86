//! Opens the store: one daemon for each state directory, a database that is whole and of this format, and numbers
//! that go on where the spool says.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ax_core::id::{Epoch, JobNumber};
use ax_core::paths::Paths;
use ax_sys::statfs;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{Doing, Result, StoreError};
use super::high::HighWater;
use super::reserve::Reserve;
use super::{meta, numbers, schema};

/// Up to this size the whole database is read and checked at every start;
/// above it a start would take too long, and `axd --db-check` is there.
const CHECKED_AT_START: u64 = 128 << 20;

/// How long a lock of another program on the database is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many prepared statements a connection keeps.
const STATEMENTS: usize = 48;

/// The state directory, locked for this process, with its database.
#[derive(Debug)]
pub struct Store {
    /// Held for as long as the store is.
    _lock: File,
    pub(crate) connection: Connection,
    pub(crate) database: PathBuf,
    pub(crate) events: PathBuf,
    pub(crate) reserve: Reserve,
    pub(crate) high: HighWater,
    next: (JobNumber, Epoch),
    term: u64,
    notices: Vec<String>,
}

impl Store {
    /// Locks, migrates and checks; raises the term. One line says why not.
    ///
    /// # Errors
    /// Another axd is there, the directory is on NFS, the database is newer, damaged, not ax's,
    /// or empty beside a spool that was used.
    pub fn open(paths: &Paths) -> Result<Store> {
        let lock = lock(&paths.state)?;
        let database = paths.database();
        let (connection, mut notices) = open_database(&database)?;
        quick_check(&connection, &database)?;
        let paired = numbers::pair(&connection, &database, &paths.high())?;
        notices.extend(paired.notice);
        let reserve = Reserve::at(paths.reserve());
        let mut store = Store {
            _lock: lock,
            connection,
            database,
            events: paths.events(),
            reserve,
            high: paired.high,
            next: paired.next,
            term: paired.term,
            notices,
        };
        if let Err(error) = store.reserve.fill() {
            store.notices.push(format!("no reserve for a full disk: {error}"));
        }
        Ok(store)
    }

    /// The term of this start: larger than any before.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// What a person should know about this start, one line each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Folds the log into the database and looks after the planner's figures. Waits for
    /// nobody: while a reader holds an old view, as much as can be is folded.
    pub(crate) fn fold(&self) -> Result<()> {
        let sql = "PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA optimize;";
        let folded = self.connection.execute_batch(sql);
        let patient = self.connection.busy_timeout(PATIENCE);
        folded.and(patient).doing("tidy", &self.database)
    }

    /// The number and the epoch that come next.
    pub(crate) fn next(&self) -> (JobNumber, Epoch) {
        self.next
    }
}

/// Lets an empty database go on with the numbers of a spool that was used with
/// another one. No axd may be running. Says what the next number will be.
///
/// # Errors
/// As [`Store::open`]; also where the spool was never used.
pub fn adopt(paths: &Paths) -> Result<JobNumber> {
    let _lock = lock(&paths.state)?;
    let (database, file) = (paths.database(), paths.high());
    let (connection, _) = open_database(&database)?;
    let Some(marks) = HighWater::read(&file)? else {
        let what = "the spool was never used: there is nothing to adopt".to_owned();
        return Err(StoreError::Content { doing: "adopt", path: file, what });
    };
    let (number, epoch) = meta::next_numbers(&connection, &database)?;
    let number = number.max(marks.after_number());
    let epoch = epoch.max(marks.epoch.next());
    numbers::set(
        &connection,
        &database,
        &numbers::Numbers { run: marks.run, run_before: String::new(), term: marks.term, number, epoch },
    )?;
    Ok(number)
}

fn lock(state: &Path) -> Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(state).doing("create", state)?;
    if statfs::of(state)?.kind == statfs::Kind::Nfs {
        return Err(StoreError::OnNfs { path: state.to_owned() });
    }
    let path = state.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).doing("open", &path)?;
    match lock_patiently(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let read = file.take(20).read_to_string(&mut pid);
            let known = read.is_ok() && !pid.is_empty() && pid.trim().bytes().all(|b| b.is_ascii_digit());
            let holder = if known { format!(" (process {})", pid.trim()) } else { String::new() };
            return Err(StoreError::Locked { path: state.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => {
            return Err(StoreError::Io { doing: "lock", path, source });
        }
    }
    // For the message of the next one; the lock itself is what counts.
    let told = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
    let _ = told.and_then(|_| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// A child of a daemon that has just ended holds a copy of its lock until it execs.
fn lock_patiently(file: &File) -> std::result::Result<(), TryLockError> {
    for _ in 0..10 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
    file.try_lock()
}

fn open_database(path: &Path) -> Result<(Connection, Vec<String>)> {
    make_private(path)?;
    let mut connection = writing_connection(path)?;
    let notice = schema::migrate(&mut connection, path)?;
    Ok((connection, notice.into_iter().collect()))
}

/// Makes the file, if it is not there, before SQLite does: readable by nobody
/// else, since it holds environments. Its log and its index get the same mode.
///
/// A file that is there is not even opened: closing any descriptor of a database
/// would take SQLite's locks on it from all connections of this process.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.doing("create", path).map(drop),
    }
}

/// A statement is planned once, not anew for each value that is bound to it.
fn stable_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// The one connection that writes.
pub(crate) fn writing_connection(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).doing("open", path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    stable_plans(&connection).doing("open", path)?;
    connection.busy_timeout(PATIENCE).doing("open", path)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -8192;
             PRAGMA wal_autocheckpoint = 4000;
             PRAGMA journal_size_limit = 16777216;",
        )
        .doing("open", path)?;
    Ok(connection)
}

/// A connection that can't write.
pub(crate) fn reading_connection(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).doing("open", path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    stable_plans(&connection).doing("open", path)?;
    connection.busy_timeout(PATIENCE).doing("open", path)?;
    schema::check_format(&connection, path)?;
    Ok(connection)
}

fn quick_check(connection: &Connection, path: &Path) -> Result<()> {
    let size = std::fs::metadata(path).doing("look at", path)?.len();
    if size > CHECKED_AT_START {
        return Ok(());
    }
    let first = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        .doing("check", path)?;
    match first.as_str() {
        "ok" => Ok(()),
        // SQLite says where before it says what, on a line of its own.
        lines => {
            let what = lines.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            Err(StoreError::Damaged { path: path.to_owned(), what })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_kit::TempDir;

    /// No test without a power cut could see the difference: so this one looks at the setting.
    #[test]
    fn commits_go_to_the_disk() {
        let dir = TempDir::new();
        let path = dir.path().join("ax.db");
        make_private(&path).unwrap();
        let connection = writing_connection(&path).unwrap();
        let of = |name: &str| -> String {
            let value = connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
            let value: rusqlite::types::Value = value.unwrap();
            format!("{value:?}")
        };
        assert_eq!(of("journal_mode"), "Text(\"wal\")");
        assert_eq!(of("synchronous"), "Integer(2)", "FULL: the log is flushed at each commit");
    }
}

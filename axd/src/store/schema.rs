//! The tables, and how a database of an older format becomes one of this. Migrations are only added: a released one
//! is never edited. A newer database is refused by name, and a copy is made before anything is changed.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::backup;
use super::error::{Doing, Result, StoreError};

/// Marks the file as one of ax (`PRAGMA application_id`): "AxDb".
const APPLICATION_ID: i64 = 0x4178_4462;

/// Each step leads from its place in the list to the next format.
const MIGRATIONS: &[&str] = &[FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4, FORMAT_5, FORMAT_6];

/// Times are milliseconds of UTC, states their words. `core` is the
/// controller's record and the truth; the columns beside it are for looking up.
/// `live` jobs are the controller's; `ended_at` is there for those that are over.
const FORMAT_1: &str = "
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    key BLOB NOT NULL,
    uid INTEGER NOT NULL,
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    live INTEGER NOT NULL,
    submitted_at INTEGER NOT NULL,
    eligible_at INTEGER,
    ended_at INTEGER,
    core TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX jobs_by_key ON jobs (key, uid);
CREATE INDEX jobs_live ON jobs (number) WHERE live = 1;
CREATE INDEX jobs_by_end ON jobs (ended_at, number) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_by_user ON jobs (user, ended_at, number) WHERE ended_at IS NOT NULL;

CREATE TABLE blobs (
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    content BLOB NOT NULL
) STRICT;

CREATE TABLE details (
    number INTEGER PRIMARY KEY REFERENCES jobs,
    details TEXT NOT NULL,
    script INTEGER NOT NULL REFERENCES blobs,
    environment INTEGER NOT NULL REFERENCES blobs
) STRICT;

CREATE TABLE attempts (
    epoch INTEGER PRIMARY KEY,
    job INTEGER NOT NULL REFERENCES jobs,
    number INTEGER NOT NULL,
    node TEXT NOT NULL,
    allocation TEXT NOT NULL,
    why TEXT NOT NULL,
    assigned_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    outcome TEXT,
    exit_code INTEGER,
    signal INTEGER,
    message TEXT,
    cpu_us INTEGER,
    max_ram_mb INTEGER,
    max_gpu_mem_mb INTEGER,
    stdout TEXT,
    stderr TEXT
) STRICT;
CREATE INDEX attempts_by_job ON attempts (job);

CREATE TABLE log (
    line INTEGER PRIMARY KEY,
    job INTEGER NOT NULL REFERENCES jobs,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    from_state TEXT,
    to_state TEXT,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX log_by_job ON log (job);

CREATE TABLE broken (
    number INTEGER PRIMARY KEY REFERENCES jobs,
    at INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;
";

/// Finished jobs may go: whose content nobody else uses has to be found, and their keys outlive them.
const FORMAT_2: &str = "
CREATE INDEX details_by_script ON details (script);
CREATE INDEX details_by_environment ON details (environment);

CREATE TABLE old_keys (
    key BLOB NOT NULL,
    uid INTEGER NOT NULL,
    id TEXT NOT NULL,
    submitted_at INTEGER NOT NULL,
    UNIQUE (key, uid)
) STRICT;
CREATE INDEX old_keys_by_time ON old_keys (submitted_at);
";

/// What is known of nodes and cards beyond what jobs hold: `state` is the controller's record.
const FORMAT_3: &str = "
CREATE TABLE cards (
    node TEXT NOT NULL,
    uuid TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (node, uuid)
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes (
    name TEXT PRIMARY KEY,
    drained TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE node_log (
    line INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    uuid TEXT,
    actor TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX node_log_by_node ON node_log (node, at);
CREATE INDEX node_log_by_time ON node_log (at);
";

/// What the last runs of each user's things took.
const FORMAT_4: &str = "
CREATE TABLE profiles (
    uid INTEGER NOT NULL,
    thing BLOB NOT NULL,
    runs TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (uid, thing)
) STRICT, WITHOUT ROWID;
";

/// How long an attempt's cards did nothing.
const FORMAT_5: &str = "ALTER TABLE attempts ADD COLUMN idle_ms INTEGER;";

/// What an attempt on several nodes holds of those beside its first.
const FORMAT_6: &str = "ALTER TABLE attempts ADD COLUMN others TEXT;";

/// Brings the database to the format of this build. Returns a line to log if it was an older one.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<Option<String>> {
    migrate_by(connection, path, MIGRATIONS)
}

fn migrate_by(connection: &mut Connection, path: &Path, steps: &[&str]) -> Result<Option<String>> {
    let found = format_of(connection, path)?;
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    if found == known {
        return Ok(None);
    }
    let copy = (found > 0).then(|| copy_before(path, known)).transpose()?;
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .doing("begin the migration of", path)?;
    for step in steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
        tx.execute_batch(step).doing("migrate", path)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID).doing("mark", path)?;
    tx.pragma_update(None, "user_version", known).doing("mark", path)?;
    tx.commit().doing("commit the migration of", path)?;
    Ok(copy.map(|copy| {
        format!(
            "{} was of format {found} and is now of format {known}; {} is as it was",
            path.display(),
            copy.display()
        )
    }))
}

/// The format of a database; 0 for an empty file. A stranger's database is refused.
pub(crate) fn format_of(connection: &Connection, path: &Path) -> Result<i64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = pragma("user_version").doing("read the format of", path)?;
    let application = pragma("application_id").doing("read the format of", path)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .doing("read the tables of", path)?;
    let fresh = version == 0 && application == 0 && tables == 0;
    if !fresh && application != APPLICATION_ID {
        return Err(StoreError::NotOurs { path: path.to_owned() });
    }
    Ok(version)
}

/// Refuses a database that this build can't read.
pub(crate) fn check_format(connection: &Connection, path: &Path) -> Result<()> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = format_of(connection, path)?;
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

/// Copies the database beside itself before it is changed. An older copy of
/// the same name comes from a migration that did not get through: it goes.
fn copy_before(path: &Path, format: i64) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let copy = path.with_file_name(format!("{name}.before-format-{format}"));
    if copy.exists() {
        std::fs::remove_file(&copy).doing("remove the older copy", &copy)?;
    }
    backup::copy(path, &copy)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_kit::TempDir;

    #[test]
    fn an_older_database_is_copied_and_migrated_and_a_newer_one_refused() {
        let dir = TempDir::new();
        let path = dir.path().join("ax.db");
        let mut connection = Connection::open(&path).unwrap();
        assert_eq!(migrate(&mut connection, &path).unwrap(), None);
        connection.execute("INSERT INTO meta VALUES ('a', 'b')", []).unwrap();
        let newer = "ALTER TABLE meta ADD COLUMN more TEXT";
        let steps: Vec<&str> = MIGRATIONS.iter().copied().chain([newer]).collect();
        let told = migrate_by(&mut connection, &path, &steps).unwrap().unwrap();
        let (known, next) = (MIGRATIONS.len(), MIGRATIONS.len() + 1);
        let copied = format!("ax.db.before-format-{next}");
        assert!(told.contains(&copied), "{told}");
        let value: String =
            connection.query_row("SELECT value FROM meta WHERE more IS NULL", [], |r| r.get(0)).unwrap();
        assert_eq!(value, "b");
        let copy = Connection::open(dir.path().join(copied)).unwrap();
        assert_eq!(format_of(&copy, &path).unwrap(), i64::try_from(known).unwrap());
        let refused = migrate(&mut connection, &path).unwrap_err().to_string();
        assert!(refused.contains(&format!("has format {next}, made by a newer ax")), "{refused}");
    }

    #[test]
    fn a_migration_that_fails_leaves_everything_as_it_was() {
        let dir = TempDir::new();
        let path = dir.path().join("ax.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate_by(&mut connection, &path, &[FORMAT_1]).unwrap();
        let steps = [FORMAT_1, "ALTER TABLE meta ADD COLUMN more TEXT", "no SQL at all"];
        assert!(migrate_by(&mut connection, &path, &steps).is_err());
        assert_eq!(format_of(&connection, &path).unwrap(), 1);
        assert!(connection.prepare("SELECT more FROM meta").is_err());
    }

    #[test]
    fn a_stranger_s_database_is_left_alone() {
        let dir = TempDir::new();
        let path = dir.path().join("ax.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(migrate(&mut connection, &path), Err(StoreError::NotOurs { .. })));
    }
}

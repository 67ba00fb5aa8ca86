//! The end of a job's output, read again and again with the caller's rights.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::shown::plain;

/// So much of the end is looked at.
const TAIL: u64 = 64 << 10;

/// The last lines of a file, as a terminal would show them: what a carriage return wrote over is gone.
pub(super) fn tail(path: &Path) -> Result<Vec<String>, String> {
    let said = |error: std::io::Error| format!("cannot read {}: {}", path.display(), plain(&error));
    // A pipe would be waited for.
    if !fs::metadata(path).map_err(said)?.is_file() {
        return Err(format!("{} is no ordinary file", path.display()));
    }
    let mut file = File::open(path).map_err(said)?;
    let length = file.metadata().map_err(said)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).map_err(said)?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).map_err(said)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(|line| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or(line).to_owned()
    });
    // The first may be cut.
    Ok(lines.skip(usize::from(length > TAIL)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_and_what_was_written_over_is_gone() {
        let folder = test_kit::TempDir::new();
        let path = folder.join("output");
        fs::write(&path, "one\r\n10%\r20%\r30%\nlast").unwrap();
        assert_eq!(tail(&path).unwrap(), ["one", "30%", "last"]);
        fs::write(&path, "x".repeat(70_000) + "\nend\n").unwrap();
        assert_eq!(tail(&path).unwrap(), ["end"]);
        fs::remove_file(&path).unwrap();
        assert!(tail(&path).unwrap_err().contains("No such file"));
        assert!(tail(Path::new("/dev/zero")).unwrap_err().contains("no ordinary file"));
    }
}

//! A copy of the database holds everybody's scripts and environments, and root may have it made in a folder of
//! somebody who would like to read them.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, ran};

const SECRET: &str = "hunter2-in-the-database";

/// Says who holds alice's secret in a folder: owner and mode of each file with it.
fn who_has_it(folder: &Path) -> Vec<(u32, u32)> {
    let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let has = |file: &Path| {
        fs::read(file).unwrap_or_default().windows(SECRET.len()).any(|words| words == SECRET.as_bytes())
    };
    let holders = files.filter(|file| has(file)).map(|file| fs::symlink_metadata(file).unwrap());
    holders.map(|meta| (meta.uid(), meta.mode() & 0o7777)).collect()
}

/// Bob has made files of the names under which a copy might be written, for each process that may come next.
#[test]
fn a_backup_in_bob_s_folder_is_root_s_alone() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    // Incompressible words lie in the database as they are.
    cluster.submit(ALICE, &["--hold", &format!("--comment={SECRET}")], "#!/bin/sh\n");
    let folder = cluster.home(BOB);
    let copy = folder.join("b.db");
    // The number of the process that copies is that of the shell which becomes it.
    let trap = "for name in .b.db.part-$$ copy-$$; do : >$name; chown bin $name; ln $name kept$name; done; exec \"$0\" db backup b.db";
    let mut command = cluster.command(ROOT, "sh");
    command.args(["-c", trap, cluster.program("axctl")]).current_dir(&folder);
    let backup = ran(command.output().unwrap());
    assert_eq!(backup.code, 0, "{backup:?}");
    assert_eq!(who_has_it(&folder), [(0, 0o600)]);
    assert_eq!(fs::metadata(&copy).unwrap().uid(), 0);
    // What leads elsewhere is not written through, and not replaced.
    let elsewhere = cluster.root.join("elsewhere");
    symlink(&elsewhere, folder.join("c.db")).unwrap();
    let line = cluster.refused(1, ROOT, "axctl", &["db", "backup", folder.join("c.db").to_str().unwrap()]);
    assert!(line.contains("c.db"), "{line}");
    assert!(!elsewhere.exists() && fs::symlink_metadata(folder.join("c.db")).unwrap().is_symlink());
}

//! A job's files: where its output goes and as whom it is made, its input, its
//! folder, its own spool folder and its script.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::cluster::{ALICE, BOB, Cluster, User, as_root, wait_for};

const SAY: &str = "#!/bin/sh\necho out\necho err >&2\n";

#[test]
fn output_patterns_are_filled_in_and_missing_folders_made_as_the_user() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let job = cluster.ends(ALICE, &["-J", "train", "-o", "logs/%u/%x-%j-%4j-%J-%r-100%%.log"], SAY);
    let id = job["id"].as_str().unwrap();
    let name = format!("logs/daemon/train-1-0001-{id}-0-100%.log");
    assert_eq!(cluster.read(ALICE, &name), "out\nerr\n", "{job:#}");
    assert_eq!(job["stdout"], cluster.home(ALICE).join(&name).to_str().unwrap());
    for path in ["logs", "logs/daemon", &name] {
        let meta = fs::metadata(cluster.home(ALICE).join(path)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (ALICE.uid, ALICE.gid), "{path}");
    }
    assert_eq!(job["stderr"], serde_json::Value::Null, "errors go with the output");
}

#[test]
fn errors_and_input_have_files_of_their_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.write(ALICE, "in", "typed before\n");
    let job = cluster.ends(ALICE, &["-o", "o", "-e", "e/%j", "-i", "in"], "#!/bin/sh\ncat\necho err >&2\n");
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    assert_eq!(
        (cluster.read(ALICE, "o").as_str(), cluster.read(ALICE, "e/1").as_str()),
        ("typed before\n", "err\n")
    );
    let job = cluster.ends(ALICE, &["-o", "null"], "#!/bin/sh\ncat | wc -c\n");
    assert_eq!(
        (&job["state"], cluster.read(ALICE, "null").trim()),
        (&"SUCCEEDED".into(), "0"),
        "no input is empty input"
    );
    let same = cluster.ends(ALICE, &["-o", "same", "-e", "same"], SAY);
    assert_eq!((&same["state"], cluster.read(ALICE, "same").as_str()), (&"SUCCEEDED".into(), "out\nerr\n"));
}

#[test]
fn output_replaces_or_is_added_as_asked() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.write(ALICE, "o", "before\n");
    cluster.ends(ALICE, &["-o", "o", "--open-mode=append"], SAY);
    assert_eq!(cluster.read(ALICE, "o"), "before\nout\nerr\n");
    cluster.ends(ALICE, &["-o", "o", "--open-mode=truncate"], SAY);
    assert_eq!(cluster.read(ALICE, "o"), "out\nerr\n");
    cluster.ends(ALICE, &["-o", "o"], SAY);
    assert_eq!(cluster.read(ALICE, "o"), "out\nerr\n");
}

#[test]
fn the_mask_and_the_folder_of_the_submitter_are_the_job_s() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let home = cluster.home(ALICE);
    cluster.write(ALICE, "j.sh", "#!/bin/sh\numask\npwd\n: > made\n");
    let line =
        format!("umask 027; mkdir sub; cd sub; {} --parsable -o ../o ../j.sh", cluster.program("axbatch"));
    let ran = crate::cluster::ran(cluster.command(ALICE, "sh").args(["-c", &line]).output().unwrap());
    let job = cluster.wait_over(ran.out.trim());
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    assert_eq!(cluster.read(ALICE, "o"), format!("0027\n{}\n", home.join("sub").display()));
    assert_eq!(fs::metadata(home.join("sub/made")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(fs::metadata(home.join("o")).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn chdir_moves_the_job_and_its_relative_files() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let elsewhere = cluster.home(ALICE).join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::chown(&elsewhere, Some(ALICE.uid), Some(ALICE.gid)).unwrap();
    for (n, dir) in [elsewhere.to_str().unwrap(), "elsewhere"].into_iter().enumerate() {
        let output = format!("o-{n}");
        let job = cluster.ends(ALICE, &["-D", dir, "-o", &output], "#!/bin/sh\npwd\necho $AX_SUBMIT_DIR\n");
        assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
        let expected = format!("{}\n{}\n", elsewhere.display(), cluster.home(ALICE).display());
        assert_eq!(cluster.read(ALICE, &format!("elsewhere/{output}")), expected);
    }
}

#[test]
fn the_script_lies_where_it_is_promised_as_the_user_s_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\n# the very script\necho \"$0\" > where\nsleep 600\n";
    let id = cluster.submit(ALICE, &[], script);
    wait_for("the script", || !cluster.read(ALICE, "where").is_empty());
    let path = cluster.root.join(format!("run/ax/jobs/{id}.1/script"));
    assert_eq!(cluster.read(ALICE, "where").trim(), path.to_str().unwrap());
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (ALICE.uid, ALICE.gid, 0o500));
    assert_eq!(fs::read_to_string(&path).unwrap(), script);
    let stranger = cluster.command(BOB, "cat").arg(&path).output().unwrap();
    assert!(!stranger.status.success(), "others never read a script");
    for records in ["run/ax/attempts", "run/ax/leases", "var/lib/ax"] {
        let mode = fs::metadata(cluster.root.join(records)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{records}");
    }
    cluster.ok(ALICE, "ax", &["cancel", &id]);
    cluster.wait_over(&id);
    wait_for("the script to go", || !path.exists());
}

#[test]
fn the_attempt_has_a_spool_folder_of_its_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\necho kept > \"$AX_SPOOL_JOB_DIR/x\" && echo \"$AX_SPOOL_JOB_DIR\"\n";
    let job = cluster.ends(ALICE, &["-o", "o"], script);
    assert_eq!(job["state"], "SUCCEEDED", "{job:#} {}", cluster.read(ALICE, "o"));
    let folder = cluster.read(ALICE, "o").trim().to_owned();
    let number = format!("/var/spool/ax/jobs/001/{}/1/work", job["id"].as_str().unwrap());
    assert!(folder.starts_with(cluster.root.to_str().unwrap()) && folder.ends_with(&number), "{folder}");
    let meta = fs::metadata(&folder).unwrap();
    assert_eq!((meta.uid(), meta.mode() & 0o777), (ALICE.uid, 0o700));
    assert_eq!(fs::read_to_string(format!("{folder}/x")).unwrap(), "kept\n", "it stays for a while");
}

#[test]
fn a_spool_folder_that_was_left_alone_is_had_by_the_same_user_s_next_job_and_nobody_else() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let inode_after = |user: User, deed: &str| {
        let script = format!("#!/bin/sh\n{deed}\nls -A $AX_SPOOL_JOB_DIR; stat -c %i $AX_SPOOL_JOB_DIR\n");
        let job = cluster.ends(user, &["-o", "o"], &script);
        assert_eq!(job["state"], "SUCCEEDED", "{job:#} {}", cluster.read(user, "o"));
        cluster.read(user, "o").trim().parse::<u64>().expect("an empty folder")
    };
    let mut had = BTreeSet::new();
    // Not that of a job that began within the same tick of the kernel's clock as its folder was made.
    wait_for("a folder to be had again", || !had.insert(inode_after(ALICE, "")));
    for _ in 0..3 {
        assert!(!had.contains(&inode_after(BOB, "")), "Alice's: she may have it open");
    }
    // Had by one that lets others look into it for a moment: who looked may look still.
    let open = "chmod 755 $AX_SPOOL_JOB_DIR; chmod 700 $AX_SPOOL_JOB_DIR";
    let opened = BTreeSet::from([inode_after(ALICE, open), inode_after(ALICE, open)]);
    for _ in 0..4 {
        assert!(!opened.contains(&inode_after(ALICE, "")));
    }
}

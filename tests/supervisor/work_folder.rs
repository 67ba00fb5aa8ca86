//! Work folders that nothing was done to are had by the next attempt of the same user: as good as new, or not at all.

use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

use ax_core::id::Gid;
use ax_core::job::state::Outcome;
use ax_core::record::{Spare, Untouched};

use crate::never::Never;
use crate::world::{GROUP, Job, USER, World, eventually, set_mode};

fn epoch_folder(job: &Job<'_>) -> PathBuf {
    Path::new(&job.assignment.work_dir).parent().unwrap().to_owned()
}

/// The folders of a job that did nothing to them. One that began within the same tick of the kernel's clock as they were
/// made can't tell.
fn left_alone(world: &World) -> Spare {
    loop {
        let job = world.job("exit 0");
        let folder = epoch_folder(&job).to_str().unwrap().to_owned();
        if let Some(work) = job.run().work {
            return Spare { folder, work };
        }
    }
}

/// A job with these folders to be had and its own as `$1`: its work folder, how it left that, and whether it had them.
fn runs_with(world: &World, spare: &Spare, script: &str) -> (PathBuf, Option<Untouched>, bool) {
    let job = world.job(script).with(|a| {
        a.spare = Some(spare.clone());
        a.args = vec![a.work_dir.clone()];
    });
    let work = PathBuf::from(&job.assignment.work_dir);
    let result = job.run();
    assert_eq!(result.outcome, Outcome::Succeeded, "{result:?}");
    let meta = std::fs::symlink_metadata(&work).unwrap();
    assert!(meta.is_dir());
    (work, result.work, meta.ino() == spare.work.inode)
}

#[test]
fn what_was_left_alone_is_had_by_the_next() {
    let Some(world) = World::new() else { return };
    let spare = left_alone(&world);
    let mut before = spare.clone();
    for _ in 0..3 {
        let (path, work, had) = runs_with(&world, &before, "cd \"$1\" && [ -z \"$(ls -A)\" ]");
        assert_eq!((work, had), (Some(spare.work), true));
        assert!(!Path::new(&before.folder).parent().unwrap().exists(), "its job's folder is this one's now");
        let folder = path.parent().unwrap();
        let names: Vec<_> = std::fs::read_dir(folder.parent().unwrap()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let job_folder = folder.parent().unwrap();
        for (path, owner, mode) in [(&*path, USER, 0o700), (folder, 0, 0o711), (job_folder, 0, 0o711)] {
            let meta = std::fs::metadata(path).unwrap();
            assert_eq!((meta.uid(), meta.mode() & 0o7777), (owner, mode), "{}", path.display());
        }
        before.folder = folder.to_str().unwrap().to_owned();
    }
}

#[test]
fn whatever_is_done_to_a_folder_shows_even_if_it_is_undone() {
    let Some(world) = World::new() else { return };
    for deed in [
        "touch $1/x",
        "touch $1/x; rm $1/x",
        "mkdir $1/x; rmdir $1/x",
        "chmod 755 $1; chmod 700 $1",
        "touch -d @1 $1",
        "chgrp 20000 $1; chgrp 12346 $1; chmod 700 $1",
    ] {
        let (_, work, had) = runs_with(&world, &left_alone(&world), &format!("{deed}; exit 0"));
        assert_eq!((work, had), (None, true), "{deed}");
    }
}

#[test]
fn what_is_not_as_it_was_left_is_not_had() {
    let Some(world) = World::new() else { return };
    type Deed = fn(&Path);
    let deeds: [(&str, Deed); 6] = [
        ("entered", |work| {
            std::fs::write(work.join("x"), "").unwrap();
            std::fs::remove_file(work.join("x")).unwrap();
        }),
        ("opened to all", |work| {
            set_mode(work, 0o755);
            set_mode(work, 0o700);
        }),
        ("another's", |work| chown(work, Some(USER + 1), None).unwrap()),
        ("made anew", |work| {
            std::fs::remove_dir(work).unwrap();
            std::fs::create_dir(work).unwrap();
            set_mode(work, 0o700);
            chown(work, Some(USER), Some(GROUP)).unwrap();
        }),
        ("a link", |work| {
            std::fs::rename(work, work.with_file_name("was")).unwrap();
            symlink("was", work).unwrap();
        }),
        ("gone", |work| std::fs::remove_dir_all(work.parent().unwrap().parent().unwrap()).unwrap()),
    ];
    for (what, deed) in deeds {
        let spare = left_alone(&world);
        let work = Path::new(&spare.folder).join("work");
        deed(&work);
        let there = std::fs::symlink_metadata(&work).is_ok();
        let (own, _, had) = runs_with(&world, &spare, "[ -z \"$(ls -A $1)\" ]");
        // A new one may have the number of one that is gone.
        assert!(!had || what == "gone" || what == "made anew", "{what}");
        assert_eq!(std::fs::symlink_metadata(&work).is_ok(), there, "{what}: it stays where it is");
        let meta = std::fs::metadata(&own).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o7777), (USER, 0o700), "{what}");
    }
}

#[test]
fn a_folder_of_another_group_is_not_had() {
    let Some(world) = World::new() else { return };
    let spare = left_alone(&world);
    let job = world.job("exit 0").with(|a| {
        a.spare = Some(spare.clone());
        a.user.gid = Gid(20_000);
    });
    let work = job.assignment.work_dir.clone();
    job.run();
    let meta = std::fs::metadata(work).unwrap();
    assert_eq!((meta.gid(), meta.ino() == spare.work.inode), (20_000, false));
}

/// A user may mount on the folder what holds whoever looks at it for ever, also when it is killed.
#[test]
fn what_answers_never_is_not_asked() {
    if !Never::is_possible() {
        return;
    }
    let Some(world) = World::new() else { return };
    let at_the_start = left_alone(&world);
    let work = Path::new(&at_the_start.folder).join("work");
    let never = Never::at(&work);
    assert!(!runs_with(&world, &at_the_start, "exit 0").2);
    ax_sys::mount::detach(&work).unwrap();
    drop(never);

    // Of folders that were had it is known that they are older than the job: at its end they are looked at.
    let at_the_end = left_alone(&world);
    let job = world.job("while [ ! -e go ]; do sleep 0.01; done").with(|a| a.spare = Some(at_the_end));
    let work = PathBuf::from(&job.assignment.work_dir);
    let mut running = job.start();
    running.begun();
    let _never = Never::at(&work);
    std::fs::write(world.home.join("go"), "").unwrap();
    eventually("its end", || running.record().is_some());
    ax_sys::mount::detach(&work).unwrap();
    let result = running.result();
    assert_eq!((result.outcome, result.work), (Outcome::Succeeded, None));
}

#[cfg(feature = "crash-points")]
#[test]
fn a_death_between_two_renames_leaves_folders_that_nobody_takes_for_a_jobs() {
    let Some(mut world) = World::new() else { return };
    let spare = left_alone(&world);
    world.set_environment(vec!["AX_CRASH_POINT=spare moved".to_owned()]);
    let job = world.job("touch ran").with(|a| a.spare = Some(spare.clone()));
    let folder = epoch_folder(&job);
    let mut running = job.start();
    assert_eq!(running.exit(), ax_sys::pidfd::Exit::Signal { number: 9, core: false });
    assert!(running.started().is_none() && running.record().is_none(), "it never began");
    let old_epoch = Path::new(&spare.folder).file_name().unwrap();
    assert!(!folder.exists() && folder.with_file_name(old_epoch).join("work").exists());
    assert!(!world.home.join("ran").exists());
}

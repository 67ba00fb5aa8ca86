//! A queue that is for certain users: neither a submission nor an update leads others into it,
//! and nobody gets into a closed one.

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root};

const QUEUES: &str =
    "queues:\n  - name: default\n  - name: staff\n    users: [bin]\n  - name: old\n    state: closed\n";

#[test]
fn no_way_into_a_queue_leads_around_its_rule() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(QUEUES);
    cluster.write(ALICE, "job.sh", "#!/bin/sh\n");
    let submitted = cluster.run(ALICE, "axbatch", &["--queue=staff", "job.sh"]);
    assert_eq!(submitted.code, 77, "{submitted:?}");
    let id = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    for (user, id, queue, code, line) in [
        (ALICE, &id, "staff", 77, "queue 'staff' is for certain users"),
        (ALICE, &id, "old", 1, "queue 'old' is closed"),
        (ROOT, &id, "old", 1, "queue 'old' is closed"),
        (BOB, &id, "staff", 77, "belongs to daemon"),
    ] {
        let ran = cluster.run(user, "ax", &["update", id, "--queue", queue]);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains(line), "{ran:?}");
        assert_eq!(cluster.job(id)["queue"], "default");
    }
    assert_eq!(cluster.run(ROOT, "ax", &["update", &id, "--queue=staff"]).code, 0);
    let own = cluster.submit(BOB, &["--hold"], "#!/bin/sh\n");
    assert_eq!(cluster.run(BOB, "ax", &["update", &own, "--queue=staff"]).code, 0);
    assert_eq!(cluster.job(&own)["queue"], "staff");
}

#[test]
fn a_job_that_is_named_twice_is_acted_on_once() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    let ran = cluster.run(ALICE, "ax", &["release", &id, "1", &id]);
    assert_eq!(ran.code, 0, "the second and third would be refused: {ran:?}");
    cluster.wait_over(&id);
}

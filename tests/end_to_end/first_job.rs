//! The main thing: a script goes in, a job runs as its user inside what it
//! asked for, its account comes out.

use crate::cluster::{ALICE, Cluster, as_root};

#[test]
fn a_script_runs_as_its_user_and_its_account_is_on_the_screen() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\n#AX --time=5 --job-name=first --cpus-per-task=1 --ram=100\n\
                  id -un; pwd; echo \"$AX_JOB_ID $AX_ATTEMPT\"; cat /proc/self/cgroup\n";
    let id = cluster.submit(ALICE, &[], script);
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    assert_eq!(
        (&job["name"], &job["user"], &job["exit_code"]),
        (&"first".into(), &"daemon".into(), &0.into())
    );
    let home = cluster.home(ALICE);
    assert_eq!(job["stdout"], home.join("ax-1.out").to_str().unwrap());
    let output = cluster.read(ALICE, "ax-1.out");
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("daemon"));
    assert_eq!(lines.next(), home.to_str());
    assert_eq!(lines.next(), Some("ax-2026-0001 1").map(|_| format!("{id} 1")).as_deref());
    assert!(output.contains(&format!("/{id}.1")), "it is in a group of its own: {output}");
    let attempt = &job["attempts"][0];
    assert_eq!(attempt["state"], "SUCCEEDED");
    assert!(attempt["cpu_time_s"].as_f64().unwrap() > 0.0, "{attempt:#}");
    assert!(attempt["max_ram_mb"].as_u64().is_some(), "{attempt:#}");
    let acct = cluster.run(ALICE, "ax", &["acct"]);
    assert!(acct.code == 0 && acct.out.contains(&id), "{acct:?}");
}

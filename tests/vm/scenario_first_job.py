"""The real programs on each kind of machine: a user's job runs as that user, in a group that holds it, is
limited, and leaves nothing behind; the daemon comes and goes beside it."""
import json
import os

from vmkit import HERE

MACHINES = ["v2", "v1", "hybrid", "none", "systemd", "systemd-v1"]
ETC = os.path.dirname(os.path.dirname(HERE)) + "/etc"


def axbatch(m, user, script, options=""):
    """Submits a script; its id."""
    m.put(script.encode(), f"/home/{user}/job.sh", 0o755)
    m.run(f"chown {user} /home/{user}/job.sh")
    return m.run(f"su - {user} -c 'axbatch --parsable {options} job.sh'").out.strip()


def status(m, job):
    return json.loads(m.run(f"ax status --json {job}").out)[0]


def wait_for(m, job, states, seconds=60):
    """The job, once it is in one of these states."""
    words = " ".join(states)
    m.run(f"""for i in $(seq {seconds * 2}); do
        s=$(ax status --json {job} | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["state"])')
        for w in {words}; do [ "$s" = $w ] && exit 0; done; sleep 0.5
        done; ax status {job}; tail -20 /var/log/ax-controller.log; exit 1""", timeout=seconds * 4)
    return status(m, job)


def test_the_daemon_starts(m):
    m.run("install -m755 /payload/* /usr/local/bin/")
    if m.init == "systemd":
        for name in ("axd.service", "ax-guard.service", "ax-jobs.service", "ax.slice"):
            m.put(f"{ETC}/{name}", f"/etc/systemd/system/{name}", 0o644)
        m.run("systemctl daemon-reload && systemctl start ax-jobs ax-guard axd", timeout=180)
    else:
        m.run("setsid axd </dev/null >/run/axd.out 2>&1 &")
    m.run("for i in $(seq 100); do ax queue && exit 0; sleep 0.3; done; cat /run/axd.out /var/log/ax-controller.log; exit 1",
          timeout=120)


def test_a_job_runs_as_its_user_and_is_accounted(m):
    job = axbatch(m, "alice", '#!/bin/sh\n#AX --time=5\nid -un; cat /proc/self/cgroup; echo "$AX_JOB_ID"\n')
    done = wait_for(m, job, ["SUCCEEDED", "FAILED"])
    assert done["state"] == "SUCCEEDED" and done["user"] == "alice", done
    lines = m.run(f"cat {done['stdout']}").out.splitlines()
    assert lines[0] == "alice" and lines[-1] == job, lines
    if m.cgroup != "none":
        assert any(job in line for line in lines[1:-1]), lines


def test_nothing_is_left_of_a_job(m):
    job = axbatch(m, "bob", "#!/bin/sh\n#AX --time=5\nsetsid sleep 4321 >/dev/null 2>&1 &\nsleep 0.5\n")
    wait_for(m, job, ["SUCCEEDED"])
    assert m.run("pgrep -fx 'sleep 4321' || true").out == ""


def test_a_job_that_takes_too_much_memory_is_ended(m):
    if m.cgroup == "none":
        return
    job = axbatch(m, "alice", open(f"{ETC}/examples/memory.sh").read())
    done = wait_for(m, job, ["OUT_OF_MEMORY", "SUCCEEDED", "FAILED", "NODE_FAIL"])
    assert done["state"] == "OUT_OF_MEMORY", done


def test_a_killed_daemon_does_not_disturb_a_job(m):
    job = axbatch(m, "alice", "#!/bin/sh\n#AX --time=5\nsleep 12; echo whole\n")
    wait_for(m, job, ["RUNNING"])
    m.run("kill -9 $(pgrep -x axd)")
    if m.init != "systemd":
        m.run("sleep 1; setsid axd </dev/null >/run/axd.out 2>&1 &")
    m.run("for i in $(seq 100); do ax queue >/dev/null 2>&1 && exit 0; sleep 0.3; done; exit 1", timeout=120)
    done = wait_for(m, job, ["SUCCEEDED", "FAILED", "NODE_FAIL"])
    assert done["state"] == "SUCCEEDED" and done["attempt"] == 1, done
    assert m.run(f"cat {done['stdout']}").out == "whole\n"


def test_a_killed_supervisor_leaves_nothing_and_the_job_runs_again(m):
    job = axbatch(m, "bob", "#!/bin/sh\n#AX --time=5\n[ $AX_ATTEMPT = 1 ] && { sleep 4322 & sleep 4323; }\necho again\n")
    wait_for(m, job, ["RUNNING"])
    m.run("for i in $(seq 50); do pgrep -fx 'sleep 4323' && break; sleep 0.2; done; kill -9 $(pgrep -f '[a]xrun --supervise')")
    done = wait_for(m, job, ["SUCCEEDED", "FAILED", "NODE_FAIL"])
    assert done["state"] == "SUCCEEDED" and done["attempt"] == 2, done
    assert m.run("pgrep -f 'sleep 432[23]' || true").out == ""


def test_a_power_loss_keeps_what_was_accepted(m):
    held = axbatch(m, "alice", "#!/bin/sh\necho after\n", "--hold")
    m.kill()
    m.start()
    if m.init == "systemd":
        m.run("systemctl start ax-jobs ax-guard axd", timeout=180)
    else:
        m.run("setsid axd </dev/null >/run/axd.out 2>&1 &")
    m.run("for i in $(seq 100); do ax queue >/dev/null 2>&1 && exit 0; sleep 0.3; done; exit 1", timeout=120)
    m.run(f"ax release {held}")
    assert wait_for(m, held, ["SUCCEEDED", "FAILED"])["state"] == "SUCCEEDED"

"""The real programs on each kind of machine: a user's job runs as that user, in a group that holds it, and leaves
nothing behind; the daemon comes and goes beside it; what was accepted outlives a power loss."""
from jobs import install, output, start, submit, until, wait_for

MACHINES = ["v2", "v1", "hybrid", "none"]
ESSENTIAL = ["v2", "none"]
LENGTH = 3


def test_the_daemon_starts(m):
    install(m)
    start(m)
    limited = m.run("grep -c 'not limited' /var/log/ax-controller.log || true").out.strip() == "0"
    assert limited == (m.cgroup != "none")


def test_a_job_runs_as_its_user_and_is_accounted(m):
    job = submit(m, "alice", 'id -un; cat /proc/self/cgroup; echo "$AX_JOB_ID"')
    done = wait_for(m, job)
    assert done["state"] == "SUCCEEDED" and done["user"] == "alice", done
    assert done["attempts"][0]["cpu_time_s"] > 0, done
    lines = output(m, done).splitlines()
    assert lines[0] == "alice" and lines[-1] == job, lines
    if m.cgroup != "none":
        assert any(job in line for line in lines[1:-1]), lines


def test_nothing_is_left_of_a_job(m):
    job = submit(m, "bob", "setsid sleep 4321 >/dev/null 2>&1 &\nsleep 0.5")
    wait_for(m, job, ["SUCCEEDED"])
    assert m.run("pgrep -fx 'sleep 4321' || true").out == ""


def test_a_killed_daemon_does_not_disturb_a_job(m):
    job = submit(m, "alice", "until [ -e go ]; do sleep 0.2; done; echo whole")
    wait_for(m, job, ["RUNNING"])
    m.run("kill -9 $(pgrep -x axd)")
    start(m)
    m.run("touch /home/alice/go")
    done = wait_for(m, job)
    assert done["state"] == "SUCCEEDED" and done["attempt"] == 1, done
    assert output(m, done) == "whole\n"


def test_a_killed_supervisor_leaves_nothing_and_the_job_runs_again(m):
    job = submit(m, "bob", "[ $AX_ATTEMPT = 1 ] && { sleep 4322 & sleep 4323; }\necho again")
    until(m, "pgrep -fx 'sleep 4323'")
    m.run("kill -9 $(pgrep -f '[a]xrun --supervise')")
    done = wait_for(m, job)
    assert done["state"] == "SUCCEEDED" and done["attempt"] == 2, done
    assert m.run("pgrep -f 'sleep 432[23]' || true").out == ""


def test_a_power_loss_keeps_what_was_accepted(m):
    held = submit(m, "alice", "echo after", "--hold")
    m.kill()
    m.start()
    start(m)
    m.run(f"ax release {held}")
    assert wait_for(m, held)["state"] == "SUCCEEDED"

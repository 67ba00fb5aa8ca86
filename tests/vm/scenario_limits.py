"""Limits for real, on each kind of control groups: memory, processes, CPUs; and the ends of jobs that do not want to
end: fork bombs, detached, stopped and frozen processes."""
from jobs import install, job_groups, left, output, start, status, submit, until, wait_for, waits_for_line

MACHINES = ["v2", "v1", "hybrid"]
ESSENTIAL = ["v2", "v1"]
OPTIONS = {"cpus": 2}
LENGTH = 4

# Without a newline tail keeps all of it: as much memory as there are bytes.
TAKE = "head -c {}M /dev/zero | tail -n 1 >/dev/null"


def test_the_daemon_starts(m):
    install(m, "policy:\n  kill_wait: 2s\n  max_processes: 60\n")
    start(m)


def test_memory_is_limited_and_its_peak_recorded(m):
    over = submit(m, "alice", TAKE.format(120), "--ram=40")
    within = submit(m, "alice", TAKE.format(20), "--ram=80")
    # Whether a job that copes with the loss of a child has succeeded is the job's to say.
    copes = submit(m, "alice", TAKE.format(120) + "; echo coped", "--ram=40")
    done = wait_for(m, over)
    assert done["state"] == "OUT_OF_MEMORY" and "40 MB" in str(done["attempts"]), done
    assert 30 <= done["attempts"][0]["max_ram_mb"] <= 40, done
    done = wait_for(m, within)
    assert done["state"] == "SUCCEEDED" and 20 <= done["attempts"][0]["max_ram_mb"] <= 60, done
    done = wait_for(m, copes)
    assert done["state"] == "SUCCEEDED" and output(m, done).endswith("coped\n"), output(m, done)


def test_swap_does_not_stretch_the_limit(m):
    m.run("truncate -s 0 /swap; dd if=/dev/zero of=/swap bs=1M count=128 status=none; chmod 600 /swap; "
          "mkswap /swap >/dev/null && swapon /swap", timeout=120)
    done = wait_for(m, submit(m, "alice", TAKE.format(90), "--ram=40"))
    m.run("swapoff /swap", timeout=120)
    # The kernel of the guest may count no swap in version 1: then there is no such limit to set.
    counts = m.cgroup == "v2" or m.run("ls /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", check=False).rc == 0
    assert done["state"] == ("OUT_OF_MEMORY" if counts else done["state"]), done


def test_two_jobs_are_on_two_cpus(m):
    script = "grep Cpus_allowed_list /proc/self/status; nproc; until [ -e go ]; do sleep 0.2; done"
    jobs = [submit(m, "alice", script, "--cpus-per-task=1 --ram=30") for _ in range(2)]
    for job in jobs:
        waits_for_line(m, job, "Cpus")
        until(m, f"[ $(wc -l <{status(m, job)['stdout']}) = 2 ]")
    m.run("touch /home/alice/go")
    done = [wait_for(m, job) for job in jobs]
    lines = [output(m, job).split() for job in done]
    assert {line[1] for line in lines} == {"0", "1"} and {line[2] for line in lines} == {"1"}, lines


def test_a_fork_bomb_is_held_and_ended(m):
    # Those of a shell give up at the first fork that is refused.
    m.put(b"import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n", "/home/bob/bomb.py")
    bomb = submit(m, "bob", "exec python3 -S bomb.py", "--ram=200")
    count = "cat $(find /sys/fs/cgroup -path '*/ax-*/ax-*/pids.current')"
    until(m, f"[ $({count}) = 60 ]")
    # Others go on beside it.
    assert wait_for(m, submit(m, "alice", "echo there", "--ram=20"))["state"] == "SUCCEEDED"
    assert m.run(count).out.strip() == "60"
    m.run(f"ax cancel {bomb}")
    assert wait_for(m, bomb)["state"] == "CANCELLED"
    assert left(m, "bob") == ""


def test_detached_and_stopped_processes_end_with_their_job(m):
    script = ("(setsid sh -c 'sleep 5001 & setsid sleep 5002 &' &)\nsleep 5003 & kill -STOP $!\n"
              "sh -c 'trap \"\" TERM; sleep 5004; sleep 5005' &\nsleep 1\n"
              "[ $(ps -o args= -u bob | grep -c 'sleep 500') -ge 4 ] && echo four")
    done = wait_for(m, submit(m, "bob", script, "--ram=30"))
    assert done["state"] == "SUCCEEDED" and output(m, done) == "four\n", done
    assert left(m, "bob") == ""


def test_a_deaf_job_is_killed_after_its_grace(m):
    job = submit(m, "bob", "trap '' TERM\necho deaf\nwhile :; do sleep 1000; done", "--ram=20")
    waits_for_line(m, job, "deaf")
    m.run(f"ax cancel {job}")
    assert wait_for(m, job)["state"] == "CANCELLED"
    assert left(m, "bob") == ""


def freeze(m, job):
    """Halts a job from outside of ax, as its supervisor would."""
    part = {"v2": "/", "v1": "/freezer/", "hybrid": "/unified/"}[m.cgroup]
    group = next(path for path in job_groups(m) if f"/{job}." in path and part in path)
    if m.cgroup == "v1":
        m.run(f"echo FROZEN >{group}/freezer.state")
        until(m, f"grep -q FROZEN {group}/freezer.state")
    else:
        m.run(f"echo 1 >{group}/cgroup.freeze")
        until(m, f"grep -q 'frozen 1' {group}/cgroup.events")


def test_a_frozen_job_can_be_cancelled(m):
    job = submit(m, "bob", "echo begun\nwhile :; do sleep 0.1; done", "--ram=30")
    waits_for_line(m, job, "begun")
    freeze(m, job)
    m.run(f"ax cancel {job}")
    assert wait_for(m, job)["state"] == "CANCELLED"
    assert left(m, "bob") == ""


def test_a_frozen_job_without_a_supervisor_is_ended(m):
    job = submit(m, "bob", "echo begun\n[ $AX_ATTEMPT = 2 ] || (sleep 6001 & setsid sleep 6002)", "--ram=30")
    waits_for_line(m, job, "begun")
    freeze(m, job)
    m.run("kill -9 $(pgrep -f '[a]xrun --supervise')")
    assert wait_for(m, job)["attempt"] == 2
    assert left(m, "bob") == ""


def test_no_group_of_a_job_is_left(m):
    until(m, "! pgrep -f '[a]xrun --supervise'")
    m.run("sleep 1")
    assert job_groups(m) == []

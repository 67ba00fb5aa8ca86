"""ax-sys's own tests of control groups, on kernels that have only version 2 or only version 1. On a machine of its own
each of them runs against the real thing; where tests are usually run there is seldom more than one kind."""

MACHINES = ["v2", "v1", "hybrid"]
ESSENTIAL = ["v2", "v1"]
OPTIONS = {"cpus": 2}
TESTS = ["groups"]


def test_groups(m):
    # Into a file: a process that is left over would keep a pipe open, and nothing of what was said would be seen.
    r = m.run("cd /tmp; /payload/groups >groups.log 2>&1; ended=$?; cat groups.log; exit $ended", timeout=300, check=False)
    assert r.rc == 0, r.out[-3000:]
    assert r.out.count("... ok") > 15, r.out

"""A handful of small Debian machines on one emulated network (QEMU), standard library only.

    with Cluster() as c:                       # gone with this process, whatever happens
        m = c.boot("m", cgroup="v1")           # pure control groups v1, a process 1 of our own
        n = c.boot("n", init="systemd")        # systemd as process 1
        print(m.run("cat /proc/self/cgroup").out)
        m.cut(); m.heal(); m.pause(); m.cont(); m.reset(); m.kill(); m.start()

cut() is silent (frames vanish, the carrier stays), cut(carrier=True) drops the carrier as well. Commands
travel over a virtio-serial port, so they work while the network is cut. Needs the image of ./setup."""
import base64
import concurrent.futures as cf
import ctypes
import itertools
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("AX_VM_CACHE") or os.path.expanduser("~/.cache/ax-vm")
# Emulation runs everywhere, and the times in scenarios are made for it. "kvm" is faster where it works.
ACCEL = os.environ.get("AX_VM_ACCEL") or "tcg"


class Gone(Exception):
    """The VM was killed or reset while a command was under way."""


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err

    def __repr__(self):
        return f"rc={self.rc} out={self.out!r} err={self.err!r}"


# What the kernel, and systemd, must be told for each way of mounting control groups.
KERNEL = {"v2": "cgroup_no_v1=all", "v1": "", "hybrid": "", "none": "cgroup_no_v1=all"}
SYSTEMD = {"v2": "systemd.unified_cgroup_hierarchy=1",
           "v1": "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1",
           "hybrid": "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=0"}


# Seconds that something may wait to be read by a guest.
SEND_TIMEOUT = 60


def _connect(path, deadline):
    while True:
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(path)
            return s
        except OSError:
            s.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Vm:
    """One machine. cgroup: v2, v1, hybrid or none. init: ours or systemd, which then mounts what cgroup says."""

    def __init__(self, cluster, name, ip, cgroup="v2", init="ours", mem=384, cpus=1, append="", qemu=()):
        self.c, self.name, self.ip, self.cgroup, self.init = cluster, name, ip, cgroup, init
        self.mem, self.cpus, self.qemu = mem, cpus, list(qemu)
        words = [KERNEL[cgroup], f"vm.cgroup={cgroup}", f"vm.init={init}", append]
        self.append = " ".join(words + ([SYSTEMD[cgroup]] if init == "systemd" else []))
        self.dir = os.path.join(cluster.dir, name)
        os.makedirs(self.dir)
        self.disk = self.dir + "/disk.qcow2"
        subprocess.check_call(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", CACHE + "/base.img", self.disk])
        self.proc = None

    def start(self, wait=True, timeout=240):
        d, mac = self.dir, "52:54:00:77:00:%02x" % int(self.ip.split(".")[-1])
        for p in ("agent", "qmp"):
            if os.path.exists(f"{d}/{p}"):
                os.unlink(f"{d}/{p}")
        cmd = ["qemu-system-x86_64", "-accel", ACCEL, "-cpu", "max", "-M", "pc", "-m", str(self.mem), "-smp", str(self.cpus),
               "-nodefaults", "-no-user-config", "-display", "none", "-kernel", CACHE + "/vmlinuz", "-initrd", CACHE + "/initrd.gz",
               # no_timer_check: on a busy host an emulated timer is late, and the kernel would take it for a broken one.
               "-append", "console=ttyS0 quiet loglevel=4 panic=1 net.ifnames=0 no_timer_check mitigations=off random.trust_cpu=on "
                          f"root=/dev/vda rw vm.name={self.name} vm.ip={self.ip} {self.append}",
               "-serial", f"file:{d}/console.log", "-qmp", f"unix:{d}/qmp,server=on,wait=off",
               "-drive", f"file={self.disk},if=virtio,format=qcow2,cache=unsafe,discard=unmap",
               "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
               "-device", "virtio-serial-pci", "-chardev", f"socket,id=ag,path={d}/agent,server=on,wait=off",
               "-device", "virtserialport,chardev=ag,name=ax-vm",
               # NIC - hub - multicast socket: link off on the socket is a silent cut, on the NIC a carrier loss.
               "-netdev", f"socket,id=wire,mcast={self.c.mcast},localaddr=127.0.0.1",
               "-netdev", "hubport,id=p0,hubid=0,netdev=wire", "-netdev", "hubport,id=p1,hubid=0",
               "-device", f"virtio-net-pci,id=nic,netdev=p1,mac={mac},romfile="] + self.c.extra + self.qemu
        self.proc = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=open(d + "/qemu.log", "ab"), stderr=subprocess.STDOUT,
                                     preexec_fn=_die_with_parent)
        end = time.monotonic() + timeout
        self._qmp = _connect(d + "/qmp", end).makefile("rwb")
        self._ql = threading.Lock()
        self._qmp.readline()
        self.qmp("qmp_capabilities")
        self._ag = _connect(d + "/agent", end)
        # A guest that never opens its end lets what is sent to it pile up: give up then, do not wait for ever.
        self._ag.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT, 0))
        self._wl, self._pending, self._ids = threading.Lock(), {}, itertools.count(1)
        threading.Thread(target=self._reader, args=(self._ag,), daemon=True).start()
        if wait:
            self.wait_ready(end - time.monotonic())
        return self

    def wait_ready(self, timeout=240):
        """Ping until the guest's agent answers (bytes sent before it opens the port are dropped)."""
        end = time.monotonic() + timeout
        while True:
            if self.proc.poll() is not None:
                raise Gone(f"{self.name}: qemu exited {self.proc.returncode}: {open(self.dir + '/qemu.log').read()[-500:]}")
            try:
                return self._call({}).result(0.5)
            except (cf.TimeoutError, BlockingIOError):
                if time.monotonic() > end:
                    raise TimeoutError(f"{self.name}: no answer from the guest in {timeout:.0f} s") from None

    # --- machine control
    def qmp(self, cmd, **args):
        with self._ql:
            self._qmp.write(json.dumps({"execute": cmd, "arguments": args}).encode() + b"\n")
            self._qmp.flush()
            while True:
                m = json.loads(self._qmp.readline() or '{"error":"qmp closed"}')
                if "error" in m:
                    raise RuntimeError(f"{self.name} {cmd}: {m['error']}")
                if "return" in m:
                    return m["return"]

    def cut(self, carrier=False):
        self.qmp("set_link", name="nic" if carrier else "wire", up=False)

    def heal(self):
        for n in ("wire", "nic"):
            self.qmp("set_link", name=n, up=True)

    def pause(self):
        self.qmp("stop")

    def cont(self):
        self.qmp("cont")

    def kill(self):
        """Power loss. The disk (incl. what the guest had flushed) stays; start() boots it again."""
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        self._fail_all()

    def console(self):
        """What the kernel and process 1 wrote so far."""
        with open(self.dir + "/console.log", errors="replace") as f:
            return f.read()

    def reset(self, wait=True, timeout=240):
        self.qmp("system_reset")
        self._fail_all()
        if wait:
            time.sleep(0.5)
            self.wait_ready(timeout)

    def tell(self, timeout=60):
        """What a guest in trouble is busy with: logs in /tmp, its processes and where in the kernel they wait, what the
        kernel has said. As much of it as can be had."""
        script = ("tail -n 30 /tmp/*.log; ps axo pid,ppid,stat,wchan:32,args; "
                  "echo w >/proc/sysrq-trigger; echo l >/proc/sysrq-trigger; sleep 1; dmesg")
        try:
            told = self.run(script, timeout, check=False).out
        except Exception as error:
            told = f"{self.name} tells nothing: {error!r}\n"
        return told[-20000:] + self.console()[-2000:]

    def _fail_all(self):
        for k in list(getattr(self, "_pending", {})):
            fut = self._pending.pop(k, None)
            if fut and not fut.done():
                fut.set_exception(Gone(self.name))

    # --- commands and files
    def _reader(self, s):
        buf = b""
        while True:
            try:
                d = s.recv(1 << 16)
            except OSError:
                d = b""
            if not d:
                return
            *lines, buf = (buf + d).split(b"\n")
            for ln in lines:
                try:
                    m = json.loads(ln)
                except ValueError:
                    continue
                fut = self._pending.pop(m["id"], None)
                if not fut or fut.done():
                    continue
                if "error" in m:
                    fut.set_exception(OSError(f"{self.name}: {m['error']}"))
                else:
                    dec = lambda k: base64.b64decode(m.get(k, "")).decode(errors="surrogateescape")
                    fut.set_result(Result(m["rc"], dec("out"), dec("err")))

    def _call(self, m):
        fut = cf.Future()
        m["id"] = next(self._ids)
        self._pending[m["id"]] = fut
        with self._wl:
            self._ag.sendall(json.dumps(m).encode() + b"\n")
        return fut

    def bg(self, sh, stdin=b""):
        """Start a shell script in the guest; a Future of its Result."""
        return self._call({"sh": sh, "stdin": base64.b64encode(stdin).decode()})

    def run(self, sh, timeout=60, check=True, stdin=b""):
        r = self.bg(sh, stdin).result(timeout)
        if check and r.rc:
            raise RuntimeError(f"{self.name}: {sh!r}: {r}")
        return r

    def py(self, code, timeout=60):
        """Run Python in the guest's agent; the value of its variable r. G is a dict that lasts between calls."""
        return json.loads(self._call({"py": code}).result(timeout).out)

    def put(self, local, remote, mode=0o755, timeout=120):
        data = local if isinstance(local, bytes) else open(local, "rb").read()
        n = 1 << 18
        for i in range(0, max(len(data), 1), n):
            self._call({"put": remote, "mode": mode, "append": i > 0,
                        "data": base64.b64encode(data[i:i + n]).decode()}).result(timeout)

    def get(self, remote, timeout=120):
        return self._call({"get": remote}).result(timeout).out.encode(errors="surrogateescape")


class Cluster:
    def __init__(self, dir=None, payload=None):
        """payload: files (say the built programs) that every machine finds in /payload at boot."""
        self.tmp = dir is None
        self.dir = dir or tempfile.mkdtemp(prefix="ax-vm.", dir=os.environ.get("TMPDIR", "/tmp"))
        r = random.SystemRandom()
        self.mcast = f"239.{r.randrange(1, 255)}.{r.randrange(256)}.{r.randrange(1, 255)}:{r.randrange(20000, 60000)}"
        self.vms, self.extra = [], []
        if payload:
            args = [w for path in payload for w in ("-C", os.path.dirname(path), os.path.basename(path))]
            subprocess.check_call(["tar", "-cf", self.dir + "/payload.tar"] + args)
            self.extra = ["-drive", f"file={self.dir}/payload.tar,if=virtio,format=raw,readonly=on"]

    def __enter__(self):
        return self

    def __exit__(self, *a):
        for v in self.vms:
            try:
                v.kill()
            except Exception:
                pass
        if self.tmp and not os.environ.get("AX_VM_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)

    def boot(self, *names, **kw):
        new = [Vm(self, n, f"10.77.0.{len(self.vms) + i + 1}", **kw) for i, n in enumerate(names)]
        self.vms += new
        for v in new:
            v.start(wait=False)
        for v in new:
            v.wait_ready()
        return new if len(new) > 1 else new[0]

    @staticmethod
    def nfs_server(vm, lease=15, grace=15, opts="rw,sync,no_root_squash,no_subtree_check"):
        """(Re)start nfsd. Lease and grace are set before the first thread, as the kernel wants it."""
        vm.run(f"""set -e; mkdir -p /srv/spool /run/rpcbind /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery
            modprobe nfsd; mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
            mountpoint -q /run/rpc_pipefs || {{ mkdir -p /run/rpc_pipefs; mount -t rpc_pipefs rpc /run/rpc_pipefs; }}
            pidof nfsdcld >/dev/null || nfsdcld
            echo {lease} >/proc/fs/nfsd/nfsv4leasetime; echo {grace} >/proc/fs/nfsd/nfsv4gracetime
            echo '/srv/spool *(fsid=0,{opts})' >/etc/exports; exportfs -ra
            pidof rpc.mountd >/dev/null || rpc.mountd --no-nfs-version 3 --no-udp
            rpc.nfsd --no-nfs-version 3 --nfs-version 4.2 --no-udp 4""", timeout=90)

    @staticmethod
    def nfs_mount(vm, server, opts="vers=4.2,hard", at="/spool", timeout=60):
        vm.run(f"mkdir -p {at}; modprobe nfsv4; mount -t nfs4 -o {opts} {server.ip}:/ {at}", timeout=timeout)


def setup():
    """Builds the image if there is none. 77: it can't be built here; anything else that goes wrong ends this process."""
    status = subprocess.call([HERE + "/setup"])
    if status not in (0, 77):
        sys.exit(status)
    return status


def selftest():
    t0 = time.monotonic()
    mark = lambda what: print(f"{time.monotonic() - t0:7.2f}s  {what}", flush=True)
    setup(); mark("setup.sh (cached, or built)")
    with Cluster() as c:
        s, a, b = c.boot("srv", "a", "b"); mark("3 VMs booted to a working agent")
        c.nfs_server(s); mark("nfsd up")
        c.nfs_mount(a, s); c.nfs_mount(b, s); mark("both clients mounted")
        a.run("echo hi >/spool/x; sync"); assert b.run("cat /spool/x").out == "hi\n"; mark("file seen across")
        a.put(b"x" * (4 << 20), "/tmp/blob"); assert len(a.get("/tmp/blob")) == 4 << 20; mark("4 MiB in and out")
        dial = f"import socket\nr=1\ntry: socket.create_connection(('{s.ip}',2049),2).close()\nexcept OSError: r=0"
        a.cut(); assert a.py(dial) == 0; a.heal(); assert a.py(dial) == 1; mark("cut and healed")
        a.pause(); time.sleep(1); a.cont(); a.run("true"); mark("paused 1 s and resumed")
        b.reset(); mark("b reset and back"); a.kill(); a.start(); mark("a killed and booted again")
    mark("torn down")


if __name__ == "__main__":
    {"setup": setup, "selftest": selftest}[sys.argv[1] if len(sys.argv) > 1 else "selftest"]()

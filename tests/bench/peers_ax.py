#!/usr/bin/env python3
"""ax in a harness that runs batch systems side by side; see its own README for what it measures.

    tests/bench/run --harness DIR [the harness's own options: --only ax,tsp,slurm --phases lat,submit,e2e …]

DIR holds peers.py. The daemon runs below the harness's work folder; nothing of the machine is touched.
"""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

place = sys.argv.index('--harness')
sys.path.insert(0, sys.argv[place + 1])
del sys.argv[place:place + 2]
import peers  # noqa: E402

BIN = os.environ.get('AX_BIN', '')


class Ax(peers.System):
    name, title, controller = 'ax', 'ax', ('axd',)
    has_array = False
    max_single = max_pending = 50000

    def tool(self, name):
        return os.path.join(BIN, name) if BIN else name

    def available(self):
        if not shutil.which(self.tool('axd')):
            return 'axd is not installed'
        if self.slots != os.cpu_count():
            return 'it counts the CPUs of the machine: --slots %d' % os.cpu_count()

    def version(self):
        return self.out([self.tool('axd'), '--version']).split()[-1]

    def start(self):
        self.env = dict(PATH=os.environ['PATH'], HOME='/root', AX_ROOT=self.dir)
        run = os.path.join(self.dir, 'run')
        os.makedirs(run, exist_ok=True)
        self.mounted = subprocess.run(['mount', '-t', 'tmpfs', 'axbench', run]).returncode == 0
        self.start_controller()

    def start_controller(self):
        self.daemon('axd', [self.tool('axd'), '--no-cards'])
        self.wait_ready()

    def daemon_pids(self):
        found = peers.System.daemon_pids(self)
        for word in ('--watchdog', '--starter'):
            for pid in filter(str.isdigit, os.listdir('/proc')):
                try:
                    line = open('/proc/%s/cmdline' % pid).read().split('\0')
                except OSError:
                    continue
                ours = line[2:3] == [os.path.join(self.dir, 'run/ax')] or parent(pid) in found.values()
                if line[1:2] == [word] and ours:
                    found[word.strip('-')] = int(pid)
        return found

    def stop(self, roles=None, sig=signal.SIGTERM):
        guard = self.daemon_pids().get('watchdog')
        peers.System.stop(self, roles, sig)
        if roles is None:
            if guard:
                os.kill(guard, signal.SIGTERM)
                time.sleep(0.2)
            if self.mounted:
                subprocess.run(['umount', os.path.join(self.dir, 'run')])

    def submit(self, text=None):
        words = [self.tool('axbatch'), '--output', '/dev/null']
        return words + ([self.job] if text is None else ['--wrap', text])

    def list(self):
        return [self.tool('ax'), 'queue', '--limit', '100']

    def remaining(self):
        try:
            link = http.client.HTTPConnection('localhost')
            link.sock = socket.socket(socket.AF_UNIX)
            link.sock.connect(os.path.join(self.dir, 'run/ax/axd.sock'))
            link.request('GET', '/api/v1/status')
            status = json.loads(link.getresponse().read())
            link.close()
            return status['waiting'] + status['active']
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return None

    def cancel_all(self):
        self.out([self.tool('ax'), 'cancel', '--user', 'root'])


def parent(pid):
    try:
        return int(open('/proc/%s/stat' % pid).read().rsplit(')', 1)[1].split()[1])
    except (OSError, IndexError):
        return None


peers.SYSTEMS.insert(0, Ax)

if __name__ == '__main__':
    peers.main()
